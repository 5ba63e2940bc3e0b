"""The page of `hardsight audit`, a self-contained HTML file.

Which groups are worse, a figure, the whole table, and the hardest images of the groups that are worse.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.data.run_images import RunImages
from hardsight.explorer.display import Display, text_column
from hardsight.explorer.thumbnails import Pictures
from hardsight.files.run import command_line, read_start
from hardsight.files.writing import check_page_output, replacing
from hardsight.groups.audit import LATENT, Audit, groups_in_words, worst_first
from hardsight.groups.comparing import TOO_FEW
from hardsight.groups.grouping import TIMES
from hardsight.render import html_page
from hardsight.render.saving import png_bytes
from hardsight.scores import SCORES
from hardsight.screen import interval, spoken
from hardsight.snapshot import Snapshot

if TYPE_CHECKING:
    from hardsight.render.groups import GroupPanel

MOST_DRAWN, MOST_SHOWN, SIDE = 30, 12, 96  # groups in the figure, groups with pictures, pixels of a picture
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

Row = dict[str, Any]


def page_beside(output: str | None, report: Path | None, images: str | None = None) -> Path | None:
    """Where the page goes, if that is known before the audit: it may be written there, and its images can be opened."""
    RunImages({}, None, images).check_named(images)
    page = report if report is not None else None if output is None else Path(output).with_suffix(".html")
    if page is not None:
        check_page_output(page)
    return page


def write_audit_page(audit: Audit, path: Path, source: str | os.PathLike[str] | None = None, images: str | None = None) -> None:
    """Write the page of an audit.

    Args:
        audit: what `find_groups` gives.
        path: the file to write.
        source: the run or file, which says where the pictures are.
        images: the pictures, where the run does not say.
    """
    rows = worst_first(audit.table).to_pylist()
    pictures = None if source is None else pictures_of(audit, Path(source), images)
    parts = [_findings(audit, rows), _figure(audit, rows), _table(audit, rows), *_hardest(audit, rows, pictures)]
    name = Path(audit.measured.name).name
    sentence = f"For which groups of {len(audit.measured):,} samples the model is worse. {groups_in_words(audit)}"
    content = html_page.page(f"Audit: {name}", sentence, *parts, *_how(audit, pictures is not None), style=NARROW)
    with replacing(path, "html") as temporary:
        temporary.write_text(content, encoding="utf-8")


def _findings(audit: Audit, rows: list[Row]) -> str:
    """The groups that are worse, a sentence each."""
    worse = [row for row in rows if _verdict(row) == 1]
    if not rows:
        return html_page.paragraph("No cluster looked worse than its class.")
    if not worse:
        return html_page.paragraph("No group is told apart from the rest as worse.")
    lines = [html_page.paragraph(_sentence(audit, row)) for row in worse[:5]]
    if len(worse) > 5:
        lines.append(html_page.paragraph(f"{len(worse) - 5} more groups are worse: see the table.", "quiet"))
    return "\n".join(lines)


def _sentence(audit: Audit, row: Row) -> str:
    low, high = 100 * row["accuracy_low"], 100 * row["accuracy_high"]
    points = f"{100 * row['accuracy_difference']:+.1f} points"
    ends = interval(row["accuracy_difference_low"], row["accuracy_difference_high"], 1, factor=100)
    than = "the rest of its class" if row["by"] == LATENT else "the rest"
    hardness = audit.hardness
    harder = ""
    if f"{hardness}_p" in row and "harder" in row["verdict"]:
        ends_of_mean = interval(row[f"{hardness}_difference_low"], row[f"{hardness}_difference_high"], 4)
        harder = f" Mean {spoken(hardness)}: {row[f'mean_{hardness}']:.4f}, {row[f'{hardness}_difference']:+.4f} {ends_of_mean}."
    return (
        f"{_name(row)}: {row['verdict']}. {100 * row['accuracy']:.1f} % [{low:.1f}, {high:.1f}] of {row['labeled']:,} samples "
        f"are right, {points} {ends} against {than}.{harder}"
    )


def _name(row: Row) -> str:
    """A group for people: "site = B, age = old"."""
    if row["by"] == LATENT:
        return str(row["group"])
    names, values = str(row["by"]).split(TIMES), str(row["group"]).split(TIMES)
    if len(names) != len(values):  # a value that holds the sign itself
        return f"{row['by']} = {row['group']}"
    return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _verdict(row: Row) -> float:
    """1 for worse, -1 for better, 0 for no difference found, NaN for too few."""
    verdict = row["verdict"]
    if verdict == TOO_FEW:
        return math.nan
    if "less accurate" in verdict or "harder" in verdict:
        return 1.0
    return -1.0 if "accurate" in verdict or "easier" in verdict else 0.0


def _figure(audit: Audit, rows: list[Row]) -> str:
    from hardsight.render.groups import groups_with_intervals

    rows = rows[:MOST_DRAWN]
    if not rows:
        return ""
    counts, verdicts = np.array([row["n"] for row in rows]), np.array([_verdict(row) for row in rows])
    figure = groups_with_intervals([_name(row) for row in rows], counts, _panels(audit, rows), verdicts)
    line = "no difference from the rest of the class" if rows[0]["by"] == LATENT else "all samples"
    caption = (
        f"Lines: {100 * audit.level:g} % intervals; points grow with the samples of a group. Dotted: {line}. Orange: worse than "
        "the rest; blue: better; gray: no difference found; pale and hollow: too few to say."
    )
    return html_page.drawn(png_bytes(figure), "groups with intervals") + html_page.paragraph(caption, "quiet")


def _panels(audit: Audit, rows: list[Row]) -> list[GroupPanel]:
    """Accuracy, hardness and overconfidence; of latent groups, their differences from the rest of the class."""
    from hardsight.render.groups import GroupPanel

    measured, hardness, latent = audit.measured, audit.hardness, rows[0]["by"] == LATENT
    accuracy = float(np.nanmean(measured.correct))
    measures = [
        ("accuracy (%)", "accuracy", "accuracy", 100.0, accuracy),
        (f"mean {spoken(hardness)}", f"mean_{hardness}", hardness, 1.0, float(np.nanmean(measured.scores[hardness]))),
    ]
    if "overconfidence" in rows[0]:
        sure = float(np.nanmean(measured.scores["predicted_confidence"])) - accuracy
        measures.append(("overconfidence (points)", "overconfidence", "overconfidence", 100.0, sure))
    panels = []
    for title, value, ends, factor, overall in measures:
        names = (value, f"{ends}_low", f"{ends}_high")
        if latent:
            title, overall = f"{title.split(' (')[0]}, difference" + (" (points)" if factor > 1 else ""), 0.0
            names = (f"{ends}_difference", f"{ends}_difference_low", f"{ends}_difference_high")
        value_of, low, high = (
            factor * np.array([np.nan if row[name] is None else row[name] for row in rows], float) for name in names
        )
        panels.append(GroupPanel(title, value_of, low, high, factor * overall))
    return panels


def _table(audit: Audit, rows: list[Row]) -> str:
    if not rows:
        return ""
    hardness = audit.hardness
    header = ["group", "verdict", "samples", "accuracy (%)", "against the rest", "same classes"]
    header += [f"mean {spoken(hardness)}", "mean norm", "over\u00adconfidence", "ECE (by chance)"]
    cells: list[list[html_page.Cell]] = [
        [
            _name(row).replace(" = ", "\u00a0=\u00a0"),
            (row["verdict"], {1.0: "word no", -1.0: "word yes"}.get(_verdict(row), "word quiet")),
            f"{row['n']:,}",
            _with_ends(row, "accuracy", "accuracy", 1, 100),
            _against(row),
            _cell(row.get("accuracy_same_classes"), 1, 100),
            _with_ends(row, f"mean_{hardness}", hardness, 4),
            _with_ends(row, "mean_norm", "norm", 2),
            _with_ends(row, "overconfidence", "overconfidence", 1, 100),
            f"{_cell(row.get('ece'), 3)}\n({_cell(row.get('ece_by_chance'), 3)})",
        ]
        for row in rows
    ]
    return html_page.heading("Every group") + html_page.table(header, cells, words=2)


def _with_ends(row: Row, value: str, ends: str, digits: int, factor: float = 1.0) -> str:
    if row.get(value) is None:
        return "–"
    low, high = row.get(f"{ends}_low"), row.get(f"{ends}_high")
    shown = _cell(row[value], digits, factor)
    if low is None or high is None:
        return shown
    return _above(shown, f"[{_cell(low, digits, factor)}, {_cell(high, digits, factor)}]")


def _against(row: Row) -> str:
    if row.get("accuracy_difference") is None:
        return "–"
    ends = interval(row["accuracy_difference_low"], row["accuracy_difference_high"], 1, factor=100)
    return _above(f"{100 * row['accuracy_difference']:+.1f}", ends)


def _above(value: str, ends: str) -> str:
    """A value over its interval, which does not break."""
    return f"{value}\n{ends}".replace(", ", ",\u00a0")


def _cell(value: float | None, digits: int, factor: float = 1.0) -> str:
    return "–" if value is None else f"{factor * value:z.{digits}f}"  # z: no -0.0


# Pictures


def pictures_of(audit: Audit, source: Path, images: str | None) -> Pictures | None:
    """The pictures of the samples, where the run says where they are; a wrong `images` is refused."""
    measured = audit.measured
    ids, class_names, start = measured.ids.cast(pa.string()), measured.class_names or [], read_start(source)
    display = Display(Snapshot.of_scores(pa.table({"id": ids})), source.name, source, class_names, start=start)
    display.paths, display.base_ids = (text_column(measured.columns, name) for name in ("path", "base_id"))
    names = [name for name in ("degradation", "level") if name in measured.columns.column_names]
    display.add_further(measured.columns.select(names))
    pictures = Pictures(display, images)
    return pictures if pictures.any else None


def _hardest(audit: Audit, rows: list[Row], pictures: Pictures | None) -> list[str]:
    """The hardest samples of the groups that are worse, or of the least accurate where none is."""
    if pictures is None:
        return []
    worse = [row for row in rows if _verdict(row) == 1] or rows[:3]
    parts = []
    for row in worse[:MOST_SHOWN]:
        strip = html_page.strip([_picture(audit, pictures, sample) for sample in _rows(audit, row)])
        parts += [html_page.heading(f"Hardest of {_name(row)}"), strip]
    return parts


def _rows(audit: Audit, group: Row) -> list[int]:
    """Rows of a group's hardest samples."""
    members = pc.fill_null(pc.equal(audit.members.column(group["by"]), group["group"]), False).to_numpy(zero_copy_only=False)
    values = audit.measured.scores[audit.hardness]
    key = np.where(members & np.isfinite(values), values if SCORES[audit.hardness].hard == "high" else -values, -np.inf)
    order = np.argsort(-key, kind="stable")[:MOST_SHOWN]
    return [int(row) for row in order if np.isfinite(key[row])]


def _picture(audit: Audit, pictures: Pictures, row: int) -> tuple[bytes, str, bool]:
    from PIL import Image

    measured = audit.measured
    image = pictures.small(row, SIDE)
    label, predicted = int(measured.labels[row]), int(measured.predicted[row])
    given = measured.class_name(label) if label >= 0 else "no label"
    turned = "" if predicted in (label, -1) else f" → {measured.class_name(predicted)}"
    caption = f"{given}{turned}, {spoken(audit.hardness)}\u00a0{measured.scores[audit.hardness][row]:.3f}"
    return image, caption, max(Image.open(io.BytesIO(image)).size) <= SIDE // 2


def _how(audit: Audit, pictures: bool) -> list[str]:
    halves = HALVES + (" The pictures are from both halves." if pictures else "")
    latent = [html_page.paragraph(halves)] if LATENT in audit.members.column_names else []
    sentences = audit.warnings if pictures else (*audit.warnings, NO_PICTURES)
    notes = [html_page.paragraph(sentence, "quiet") for sentence in sentences]
    reading = html_page.paragraph(READING.format(alpha=100 * (1 - audit.level)))
    return [html_page.heading("How to read it"), *latent, reading, *notes, html_page.again(command_line())]
