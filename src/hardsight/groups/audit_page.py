"""The page of `hardsight audit`, a self-contained HTML file, from the `AuditedGroups` that `audit` gives.

Which groups are worse, a figure, the whole table, and the hardest images of the groups that are worse. The numbers come from
comparing.py, the verdicts from audit.py.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from hardsight.files.run import command_line
from hardsight.files.writing import write_text
from hardsight.groups.audit import HARDEST, AuditedGroups, accuracy, difference, hardest_rows
from hardsight.groups.comparing import Row, direction
from hardsight.groups.grouping import LATENT, group_name
from hardsight.render import html_page
from hardsight.render.saving import png_bytes
from hardsight.screen import interval, spoken

MOST_SHOWN, SIDE = 12, 96  # groups with pictures, pixels of a picture
READING = (
    "Intervals: Wilson's for accuracy, Student's for means, Newcombe's and Welch's for differences, each for its group "
    "alone. Tests against the rest: Fisher's exact test and Welch's t. Colors mark p values up to {alpha:.3g} % after "
    "Holm's correction for all tests on this page. Overconfidence is the mean confidence minus the accuracy. An ECE below "
    "the value expected by chance is no sign of miscalibration. Same classes: the accuracy of the rest with the group's mix "
    "of classes; where it is close to the group's own, the classes explain the difference."
)
HALVES = (
    "Latent groups are clusters of features within one class. They were found, and the suspicious ones picked, on a random half "
    "of the samples; all numbers here come from the other half."
)
NO_PICTURES = "There are no pictures here, because the run does not say where its images are: name them with --images."
# Intervals stand below their values, and words break, so that no column is cut off.
NARROW = ".wide table { font-size: 13px } .wide td, .wide th { white-space: pre-line; padding: .22rem .3rem }"

Pictures = Callable[[int, int], bytes]  # of a row, with at most so many pixels a side, as WebP


def write_audit_page(groups: AuditedGroups, path: Path, pictures: Pictures | None = None) -> None:
    """Write the page of an audit, with the pictures of its samples where there are any."""
    rows = groups.worst_first()
    parts = [_findings(groups, rows), _figure(groups), _table(groups, rows), *_hardest(groups, rows, pictures)]
    name = Path(groups.measures.name).name
    sentence = f"For which groups of {len(groups.measures):,} samples the model is worse. {groups.in_words}"
    content = html_page.page(f"Audit: {name}", sentence, *parts, *_how(groups, pictures is not None), style=NARROW)
    write_text(path, content, "html")


def _findings(groups: AuditedGroups, rows: list[Row]) -> str:
    """The groups that are worse, a sentence each."""
    worse = [row for row in rows if direction(row["verdict"]) == 1]
    if not rows:
        return html_page.paragraph("No cluster looked worse than its class.")
    if not worse:
        return html_page.paragraph("No group is told apart from the rest as worse.")
    lines = [html_page.paragraph(_sentence(groups, row)) for row in worse[:5]]
    if len(worse) > 5:
        lines.append(html_page.paragraph(f"{len(worse) - 5} more groups are worse: see the table.", "quiet"))
    return "\n".join(lines)


def _sentence(groups: AuditedGroups, row: Row) -> str:
    low, high = 100 * row["accuracy_low"], 100 * row["accuracy_high"]
    points = difference(row).replace(" [", " points [")
    than = "the rest of its class" if row["by"] == LATENT else "the rest"
    hardness = groups.measures.hardness
    harder = ""
    if f"{hardness}_p" in row and "harder" in row["verdict"]:
        ends_of_mean = interval(row[f"{hardness}_difference_low"], row[f"{hardness}_difference_high"], 4)
        harder = f" Mean {spoken(hardness)}: {row[f'mean_{hardness}']:.4f}, {row[f'{hardness}_difference']:+.4f} {ends_of_mean}."
    return (
        f"{group_name(row)}: {row['verdict']}. {100 * row['accuracy']:.1f} % [{low:.1f}, {high:.1f}] of {row['labeled']:,} "
        f"samples are right, {points} against {than}.{harder}"
    )


def _figure(groups: AuditedGroups) -> str:
    figures = groups.figures()
    if not figures:
        return ""
    line = "no difference from the rest of the class" if _is_latent(groups) else "all samples"
    caption = (
        f"Lines: {100 * groups.settings.level:g} % intervals; points grow with the samples of a group. Dotted: {line}. Orange: "
        "worse than the rest; blue: better; gray: no difference found; pale and hollow: too few to say."
    )
    return html_page.drawn(png_bytes(figures["groups"]), "groups with intervals") + html_page.paragraph(caption, "quiet")


def _is_latent(groups: AuditedGroups) -> bool:
    return LATENT in groups.members.column_names


COLORED = {1.0: "word no", -1.0: "word yes"}  # by the direction of a verdict


def _table(groups: AuditedGroups, rows: list[Row]) -> str:
    if not rows:
        return ""
    hardness = groups.measures.hardness
    columns: dict[str, Callable[[Row], html_page.Cell]] = {
        "group": lambda row: group_name(row).replace(" = ", "\u00a0=\u00a0"),
        "verdict": lambda row: (row["verdict"], COLORED.get(direction(row["verdict"]), "word quiet")),
        "samples": lambda row: f"{row['n']:,}",
        "accuracy (%)": lambda row: _stacked(accuracy(row)),
        "against the rest": lambda row: _stacked(difference(row)),
        "same classes": lambda row: _cell(row.get("accuracy_same_classes"), 1, 100),
        f"mean {spoken(hardness)}": lambda row: _with_ends(row, f"mean_{hardness}", hardness, 4),
        "mean norm": lambda row: _with_ends(row, "mean_norm", "norm", 2),
        "over\u00adconfidence": lambda row: _with_ends(row, "overconfidence", "overconfidence", 1, 100),
        "ECE (by chance)": lambda row: f"{_cell(row.get('ece'), 3)}\n({_cell(row.get('ece_by_chance'), 3)})",
    }
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    return html_page.heading("Every group") + html_page.table(list(columns), cells, words=2)


def _with_ends(row: Row, value: str, ends: str, digits: int, factor: float = 1.0) -> str:
    if row.get(value) is None:
        return "–"
    low, high = row.get(f"{ends}_low"), row.get(f"{ends}_high")
    shown = _cell(row[value], digits, factor)
    if low is None or high is None:
        return shown
    return _stacked(f"{shown} [{_cell(low, digits, factor)}, {_cell(high, digits, factor)}]")


def _stacked(cell: str) -> str:
    """A value over its interval, which does not break."""
    return cell.replace(" [", "\n[").replace(", ", ",\u00a0")


def _cell(value: float | None, digits: int, factor: float = 1.0) -> str:
    return "–" if value is None else f"{factor * value:z.{digits}f}"  # z: no -0.0


# Pictures


def _hardest(groups: AuditedGroups, rows: list[Row], pictures: Pictures | None) -> list[str]:
    """The hardest samples of the groups that are worse, or of the least accurate where none is."""
    if pictures is None:
        return []
    worse = [row for row in rows if direction(row["verdict"]) == 1] or rows[:3]
    parts = []
    for row in worse[:MOST_SHOWN]:
        members = pc.equal(groups.members.column(row["by"]), row["group"]).fill_null(False).to_numpy()
        hardest = hardest_rows(groups.measures, np.flatnonzero(members), HARDEST)
        strip = html_page.strip([_picture(groups, pictures, int(sample)) for sample in hardest])
        parts += [html_page.heading(f"Hardest of {group_name(row)}"), strip]
    return parts


def _picture(groups: AuditedGroups, pictures: Pictures, row: int) -> tuple[bytes, str, bool]:
    from PIL import Image

    measures = groups.measures
    image = pictures(row, SIDE)
    label, predicted = int(measures.labels[row]), int(measures.predicted[row])
    given = measures.class_name(label) if label >= 0 else "no label"
    turned = "" if predicted in (label, -1) else f" → {measures.class_name(predicted)}"
    caption = f"{given}{turned}, {spoken(measures.hardness)}\u00a0{measures.hard[row]:.3f}"
    return image, caption, max(Image.open(io.BytesIO(image)).size) <= SIDE // 2


def _how(groups: AuditedGroups, pictures: bool) -> list[str]:
    halves = HALVES + (" The pictures are from both halves." if pictures else "")
    latent = [html_page.paragraph(halves)] if _is_latent(groups) else []
    sentences = groups.notes if pictures else [*groups.notes, NO_PICTURES]
    notes = [html_page.paragraph(sentence, "quiet") for sentence in sentences]
    reading = html_page.paragraph(READING.format(alpha=100 * (1 - groups.settings.level)))
    return [html_page.heading("How to read it"), *latent, reading, *notes, html_page.again(command_line())]
