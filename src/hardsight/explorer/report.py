"""`report`: the page as one file. This module decides what it contains.

The report is the explorer's page (page.html, page.css, js/) with a headline on top (js/headline.js) and its data inside
(one_file.py): the headline with its facts and figures, then the rows, columns and curves that the page would request from a
server. 50,000 samples with all their columns take less than 5 MB.
"""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
from PIL import Image

from hardsight.explorer import sample_detail
from hardsight.explorer.columns import Column, numbers, words
from hardsight.explorer.display import Display
from hardsight.explorer.one_file import base64_text, one_file, packed, packed_column
from hardsight.explorer.opening import open_with_other_results
from hardsight.explorer.other_results import PREDICTED
from hardsight.explorer.page import Page
from hardsight.explorer.review import MARKS, Review
from hardsight.explorer.selection import HUMAN, agreement, curves_of_groups, groups_of
from hardsight.explorer.settings import ReportSettings
from hardsight.explorer.thumbnails import Pictures
from hardsight.files.writing import check_page_output, write_text
from hardsight.options import takes
from hardsight.render.saving import png_bytes
from hardsight.render.style import BLUE, VERMILION, finished, new_figure
from hardsight.result import RANKED_BY
from hardsight.scoring.comparable import hardness_ranks
from hardsight.screen import Progress, spoken
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.option_types import ReportOptions


MOST_ROWS = 60_000  # of more samples, an even subsample and the hardest are kept
MOST_BYTES = 4_300_000  # of the data; the page itself is about 100 kB
THUMBNAILS, SIDE = 120, 96  # of the hardest samples, and their longest side in pixels
ACROSS, OVERVIEW = 12, 192  # images in the overview figure, and their longest side: twice what it shows
SUSPECTS = 24  # samples with a verdict that are shown with images
DUPLICATES = 12  # that are shown with images
PEOPLE = 8  # samples that people would doubt, and on which they and the model would differ: a line of pictures each
FACTS = ("avh", "avh_relative", "confidence", "norm")  # columns whose means are in the headline
FIRST = ("error_score", "own_angle", "norm", "avh", "confidence", "angular_gap", "loss")  # columns that must fit
MEASURES = ("avh", "norm", "own_angle", "confidence", "loss", "correct")  # curves of all samples over the epochs
MOVING = ("own_angle", "norm", "avh", "confidence", "loss")  # and of each sample, if there is room
GROUPINGS = ("label", "correct", "degradation", "level", "split", HUMAN, "avh")  # of the curves


@takes(ReportSettings)
def report(
    x: Any = None, output: str | Path | None = None, *, settings: ReportSettings | None = None,
    progress: Progress | None = None, **options: Unpack[ReportOptions],
) -> Path:  # fmt: skip
    """Write a report of samples as one HTML file, and return its path.

    Args:
        x: whatever `Snapshot.open` opens: a run directory, a file, arrays, a frame, a table of scores, a `Snapshot`; or a
            `Result`.
        output: the file. Default: report.html in the run directory or next to the file, or samples.html if the run has another
            report.html; for what is in memory, report.html in the current directory.
        settings: all options as one object; each is also a keyword.
        progress: called with rows done and rows in all, while a run without scores is scored.
    """
    settings = ReportSettings.given(settings, options)
    if output is not None:
        check_page_output(Path(output))
    display, _ = open_with_other_results(x, settings, progress=progress)
    page = Page(display, Pictures(display, settings.images), Review.of(display), "a report is not written to.")
    if isinstance(x, (str, Path)):
        page.again = _commands(x, output, settings)
    path = _default_output(display) if output is None else Path(output)
    write_text(path, one_file(_data(page)), "html")
    return path


def _commands(x: str | Path, output: str | Path | None, settings: ReportSettings) -> list[str]:
    """Commands that show the same; a report may be sent to others, so it names no path of this machine."""
    name = Path(x).resolve().name if Path(x).is_absolute() else str(x)
    words, target = settings.as_words(), [] if output is None else ["-o", Path(output).name]
    return [
        shlex.join(["hardsight", "report", name, *words, *target]),
        f"{shlex.join(['hardsight', 'explore', name, *words])}    # the same page with every image and the review",
    ]


def _default_output(display: Display) -> Path:
    """report.html in the run, next to the file or in the current directory; another name if the run has one of its own."""
    if display.path is None:
        return Path("report.html")
    parts = {part["name"] for part in display.start.get("parts") or []}
    return (display.directory or display.path.parent) / ("samples.html" if "report.html" in parts else "report.html")


def _data(page: Page) -> dict[str, Any]:
    """Everything that js/embedded.js reads: the page's `about`, and what it would request from a server."""
    display = page.display
    hardest = display.hardest()[:THUMBNAILS].tolist()
    marks, repeated = page.marks(), [] if display.suspects is None else np.flatnonzero(display.suspects.duplicates).tolist()
    people = _people(display)
    pictured = {*hardest, *repeated[:DUPLICATES], *(row for rows in people.values() for row in rows)}
    needed = np.array([*pictured, *(mark["row"] for mark in marks)], np.int64)
    rows = np.union1d(even_rows(len(display), MOST_ROWS), needed)  # all, or an even subsample and what is shown
    position = {int(row): index for index, row in enumerate(rows)}
    maps = page.maps.ready_for_report()
    about = page.about()
    about["columns"], columns = _columns(page.columns | maps, rows, about["columns"])
    thumbnails = {position[row]: base64_text(page.pictures.small(row, SIDE)) for row in pictured}
    thumbnails = thumbnails if page.pictures.any else {}
    cosines = sample_detail.cosines(display)
    room = MOST_BYTES - sum(len(column["packed"]) for column in columns.values())
    epochs = _epochs(display, room) if len(rows) == len(display) else {}
    curves, measures, groupings = _curves(page)
    about |= {
        "report": _headline(page)
        | {"suspects": _suspects(page, hardest, repeated, position), "people": _people_section(display, people, position)},
        "n": len(rows),
        "place": display.name,  # not the path on this machine
        "again": [],  # the headline says it
        "write_token": "",
        "marks": list(MARKS) if marks else [],
        "review": None,  # a path on this machine
        "closeups": False,
        "maps": [each for each in about["maps"] if set(each["axes"]) <= columns.keys()],
        "cosines": cosines is not None,
        "pictures": bool(thumbnails),
        "moving": list(epochs),
        "measures": list(epochs) or measures,
        "groupings": None if epochs else groupings,  # None: any, since the browser computes the curves
    }
    return {
        "about": about,
        "ids": packed(json.dumps(display.ids.take(pa.array(rows)).to_pylist()).encode()),
        "columns": columns,
        "thumbs": thumbnails,
        "classes": {position[row]: classes for row, classes in sample_detail.nearest_classes(display, hardest).items()},
        "explanations": _explanations(display, hardest, position),
        "twins": _originals(display, [*hardest, *repeated[:DUPLICATES]], position),
        "marks": [mark | {"row": position[mark["row"]]} for mark in marks],
        "cosines": None if cosines is None else packed(cosines.astype("<f4").tobytes()),
        "epochs": epochs,
        "curves": curves,
        "agreement": _agreements(page, [column["name"] for column in about["columns"]]),
    }


# The headline: sentences, numbers and figures


def _headline(page: Page) -> dict[str, Any]:
    display, start = page.display, page.display.start
    ranked = f", ranked by {spoken(display.by)}" if display.by else ""
    notes = list(display.notes)
    if len(display) > MOST_ROWS:
        notes.append(f"The scatter shows an even subsample of {MOST_ROWS:,} samples and the hardest; the numbers are of all.")
    return {
        "title": display.name,
        "sentence": f"How hard each of {len(display):,} samples is for the model{ranked}.",
        "found": display.found,
        "facts": _facts(display),
        "figures": _figures(page),
        "again": page.how_again(),
        "versions": ", ".join(f"{name} {number}" for name, number in (start.get("versions") or {}).items()),
        "notes": notes,
    }


def _suspects(page: Page, hardest: list[int], repeated: list[int], position: dict[int, int]) -> dict[str, Any] | None:
    """What hardsight clean found: a sentence and the first suspects and duplicates, as rows of the report."""
    display, found = page.display, page.display.suspects
    if found is None:
        return None
    counts = {name: count for name, count, _, _ in found.described()["groups"]}
    groups = [f"{count:,} {name.removesuffix('s') if count == 1 else name}" for name, count in counts.items()]
    verdict = display.columns["verdict"]
    rows = [row for row in hardest if verdict.values[row] < len(verdict.names or ())]
    summary = "hardsight clean found nothing to look at." if found.expected else "Labels were not checked."
    summary = f"Of {len(display):,} samples: {', '.join(groups)}." if groups else summary
    total = sum(counts.values())
    shown = f"The first {SUSPECTS} of {total:,} are shown." if total > SUSPECTS else ""
    return {
        "expected": found.expected,
        "sentence": " ".join(text for text in (summary, shown, _reviewed(page)) if text),
        "rows": [position[row] for row in rows[:SUSPECTS]],
        "duplicates": {
            "sentence": f"Nearly the same as an earlier sample: {len(repeated):,}. The first are shown.",
            "rows": [position[row] for row in repeated[:DUPLICATES]],
            "of": [found.duplicate_of[row].as_py() for row in repeated[:DUPLICATES]],
        },
    }


def _people(display: Display) -> dict[str, list[int]]:
    """Samples that people would doubt most, and those on which they and the model would differ: title -> rows."""
    said, score = display.columns.get(PREDICTED), _score_beside_people(display)
    if said is None or said.ends[0] is None:
        return {}
    groups = {"People would doubt these most": display.hardest(PREDICTED)}
    if score is not None:
        model = display.columns[score]
        both = np.flatnonzero(np.isfinite(said.values) & np.isfinite(model.values))
        apart = hardness_ranks(said.values[both], said.hard) - hardness_ranks(model.values[both], model.hard)
        order = both[np.argsort(-apart, kind="stable")]  # from easy for the model and hard for people to the reverse
        groups |= {"Easy for the model, doubted by people": order, "Hard for the model, not for people": order[::-1]}
    return {title: rows[:PEOPLE].tolist() for title, rows in groups.items()}


def _score_beside_people(display: Display) -> str | None:
    return next((name for name in ("confidence", *RANKED_BY) if name in display.columns), None)


def _people_section(display: Display, people: dict[str, list[int]], position: dict[int, int]) -> dict[str, Any]:
    """The same for the headline, by rows of the report."""
    source = display.columns.get("people_source")
    answered = 0 if source is None else int((words(source).to_numpy(zero_copy_only=False) == "answered").sum())
    score = _score_beside_people(display)
    model = "; and the model's confidence in it" if score == "confidence" else ""
    return {
        "sentence": f"How often people would choose the given class, predicted from answers about {answered:,} samples{model}.",
        "score": score,
        "groups": [{"title": title, "rows": [position[row] for row in rows]} for title, rows in people.items()],
    }


def _reviewed(page: Page) -> str:
    """How many samples are reviewed; empty if none is."""
    marks = [mark["mark"] for mark in page.marks()]
    counts = [f"{marks.count(name):,} {name}" for name in MARKS if name in marks]
    return f"{len(marks):,} are reviewed: {', '.join(counts)}." if marks else ""


def _originals(display: Display, rows: list[int], position: dict[int, int]) -> dict[int, dict[str, Any]]:
    """Which samples the given rows duplicate: id, and row in the report if it is there."""
    originals = sample_detail.originals(display, rows)
    return {position[row]: original | {"row": position.get(original["row"])} for row, original in originals.items()}


def _explanations(display: Display, hardest: list[int], position: dict[int, int]) -> dict[int, str]:
    """Why the hardest rows are suspect."""
    if display.suspects is None:
        return {}
    words = {position[row]: display.suspects.explanations[row].as_py() for row in hardest}
    return {row: text for row, text in words.items() if text is not None}


def _facts(display: Display) -> list[list[str]]:
    """[name, value] of each headline number."""
    facts = [["samples", f"{len(display):,}"], ["classes", f"{len(display.class_names):,}"]]
    labels, predicted = display.labels, display.predicted
    judged = (labels >= 0) & (predicted >= 0)
    if judged.any() and not display.found:  # check says its own above
        wrong = int((labels != predicted)[judged].sum())
        name = "accuracy of the source model" if display.adapted else "accuracy"
        facts += [[name, f"{100 * (1 - wrong / judged.sum()):.2f} %"], ["wrong", f"{wrong:,}"]]
    for name in FACTS:
        column = display.columns.get(name)
        if column is not None and np.isfinite(column.values).any():
            facts.append([f"mean {spoken(name)}", f"{np.nanmean(column.values.astype(np.float64)):.4g}"])
    if HUMAN in display.columns and display.by is not None:
        rho = agreement(display.columns[HUMAN].values, display.columns[display.by].values)
        if rho["spearman"] is not None:
            interval = f"{rho['spearman']:.3f} [{rho['low']:.3f}, {rho['high']:.3f}]"
            facts.append([f"Spearman of {spoken(display.by)} with people", interval])
    return facts


def _figures(page: Page) -> list[dict[str, str]]:
    """The overview, where there is what it draws."""
    if not {"own_angle", "norm", "avh", "correct"} <= page.display.columns.keys():
        return []
    stream = io.BytesIO()
    Image.open(io.BytesIO(png_bytes(overview(page)))).convert("RGB").save(stream, "WEBP", quality=88, method=4)
    image = "data:image/webp;base64," + base64_text(stream.getvalue())
    return [{"title": "The hardest samples, angle against norm, and the spread of AVH", "image": image}]


def overview(page: Page) -> Figure:
    """The hardest images by AVH, above angle against norm and the spread of AVH."""
    columns = page.display.columns
    angle, norm, avh = (columns[name].values for name in ("own_angle", "norm", "avh"))
    wrong = columns["correct"].values  # 1 for wrong, 2 or more for not known
    rows = np.flatnonzero(np.isfinite(angle) & np.isfinite(norm) & np.isfinite(avh) & (wrong < 2))
    rows = rows[:: max(1, len(rows) // 20_000)]  # a figure of more looks the same
    parts = [(rows[wrong[rows] == 0], BLUE, "o", 10, "right"), (rows[wrong[rows] == 1], VERMILION, "x", 28, "wrong")]
    worst = page.display.hardest("avh")[:ACROSS].tolist() if page.pictures.any else []
    figure = new_figure(10, 5.2 if worst else 3.4)
    halves: Any = figure.subfigures(2, 1, height_ratios=[1, 1.9]) if worst else (None, figure)
    if worst:
        halves[0].suptitle("The hardest samples by angular visual hardness", fontsize=11)
    for axes, row in zip(np.atleast_1d(halves[0].subplots(1, len(worst))) if worst else (), worst, strict=True):
        axes.imshow(np.asarray(page.pictures.reduced(row, OVERVIEW)), cmap="gray")
        axes.set_xlabel(f"AVH {avh[row]:.3f}", fontsize=8)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    left, right = halves[1].subplots(1, 2)
    for part, color, marker, size, name in parts:
        alpha = 0.6 if marker == "o" else 1
        left.scatter(np.degrees(angle[part]), norm[part], s=size, c=color, marker=marker, alpha=alpha, label=name)
    left.set(xlabel="angle to the given class (degrees)", ylabel="norm of the feature")
    left.legend(title="prediction", loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    edges = np.histogram_bin_edges(avh[rows], bins=40)
    right.hist([avh[part] for part, *_ in parts], bins=edges, stacked=True, color=[BLUE, VERMILION])
    right.set(xlabel="AVH (harder to the right)", ylabel="samples")
    return finished(figure)


# The data: rows, columns, curves


def _columns(
    columns: dict[str, Column], rows: np.ndarray, described: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Descriptions and packed values of the columns, the important ones first, as many as fit."""
    kept: dict[str, Any] = {}
    size = 0
    for name in sorted(columns, key=lambda name: (columns[name].names is None and name not in FIRST, name not in FIRST)):
        column = packed_column(columns[name], rows)
        if size + len(column["packed"]) <= MOST_BYTES or name in FIRST:
            kept[name] = column
            size += len(column["packed"])
    return [column for column in described if column["name"] in kept], kept


def _epochs(display: Display, room: int) -> dict[str, Any]:
    """measure -> every sample's value at every epoch, packed like a column: as many measures as fit."""
    kept: dict[str, Any] = {}
    if display.epochs is None or 2 * len(display) * len(display.epochs.files) > room:  # such values hardly compress
        return kept
    for measure in (name for name in MOVING if name in display.epochs.measures):
        values = np.concatenate([display.epochs.values(index, measure) for index in range(len(display.epochs.files))])
        column = packed_column(numbers(measure, values), np.arange(len(values)))
        room -= len(column["packed"])
        if room < 0:
            break
        kept[measure] = column
    return kept


def _curves(page: Page) -> tuple[dict[str, Any], list[str], list[str]]:
    """measure -> grouping -> what the server would answer for all samples; and the names of both."""
    display = page.display
    if display.epochs is None:
        return {}, [], []
    measures = [name for name in MEASURES if name in display.epochs.measures]
    groupings = [name for name in GROUPINGS if name in display.columns]
    everyone = np.ones(len(display), bool)
    curves: dict[str, Any] = {}
    for measure in measures:
        curves[measure] = {"": curves_of_groups(display.epochs, measure, ["all samples"], np.zeros(len(display), np.int64))}
        for name in groupings:
            curves[measure][name] = curves_of_groups(display.epochs, measure, *groups_of(page.columns[name], everyone))
    return curves, measures, groupings


def _agreements(page: Page, names: list[str]) -> dict[str, Any]:
    """Score -> its agreement with people over all samples."""
    if HUMAN not in page.columns:
        return {}
    human = page.columns[HUMAN].values
    return {name: agreement(human, page.columns[name].floats()) for name in names if name in page.columns and name != HUMAN}
