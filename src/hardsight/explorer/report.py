"""`report`: the page as one file, with its data in it. It opens from disk and asks nobody for anything.

Numbers are kept as 16 bits between their lowest and highest value and deflated, so 50,000 samples with all their
columns stay under 5 MB. The scripts are the page's own files, each in a scope of its own.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import re
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.errors import HardsightError
from hardsight.explorer import closeups
from hardsight.explorer.agreement import HUMAN, agreement
from hardsight.explorer.columns import Column, numbers, said
from hardsight.explorer.groups import groups_of, listed
from hardsight.explorer.opening import Progress, Sheet, open_sheet
from hardsight.explorer.pictures import Pictures
from hardsight.explorer.review import Review
from hardsight.explorer.server import Page
from hardsight.files.inputs import command, note_input
from hardsight.files.writing import check_output, replacing

MOST_ROWS = 60_000  # of more, an even sample is drawn, with the hardest
MOST_BYTES = 4_300_000  # of the data; the page itself is about 100 kB
THUMBS, SIDE = 120, 96  # the hardest have pictures, of so many pixels
NONE, STEPS = 65535, 65534  # of a number in 16 bits
MEASURES = ("avh", "norm", "own_angle", "confidence", "loss", "correct")
MOVING = ("own_angle", "norm", "avh", "confidence", "loss")  # over the epochs, sample by sample, where there is room
FIRST = ("own_angle", "norm", "avh", "confidence", "angular_gap", "loss")  # columns that must fit
MOST_FIGURES, LARGEST_FIGURE = 4, 300_000


@command()
def report(
    run: str | Path,
    output: str | Path | None = None,
    *,
    images: str | None = None,
    class_names: Path | None = None,
    human: Path | None = None,
    split: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a run's report as one HTML file, and give its path.

    Args:
        run: a run directory, a scores table or a snapshot, as for `hardsight explore`.
        output: the file; when not given, report.html in the run directory or beside the file, or samples.html where the
            run has a report.html of its own.
        images, class_names, human, split: see `hardsight explore`.
        progress: called with rows done and rows in all, while a run without scores is scored.
    """
    note_input(run, class_names, human)
    if output is not None:
        check_output(Path(output), "html")
    sheet = open_sheet(run, class_names=class_names, human=human, split=split, progress=progress)
    where = Path(output) if output is not None else (sheet.directory or sheet.place.parent) / _file_name(sheet)
    page = Page(sheet, Pictures(sheet, images), Review(None, sheet.class_names), read_only=True)
    content = _page(_data(page)).encode()
    with replacing(where, "html") as temporary:
        temporary.write_bytes(content)
    return where


def _file_name(sheet: Sheet) -> str:
    """A run that came with a report keeps it."""
    parts = {part["name"] for part in sheet.start.get("parts") or []}
    return "samples.html" if "report.html" in parts else "report.html"


def _data(page: Page) -> dict[str, Any]:
    """What lies in the file: the page's `about`, and the columns, thumbnails and curves it would ask a server for."""
    sheet = page.sheet
    hardest = _hardest(sheet, THUMBS)
    rows = _kept(len(sheet), hardest)
    about = page.about()
    about |= {"n": len(rows), "place": sheet.name, "write_token": "", "report": _headline(page), "marks": []}
    about["columns"], columns = _columns(sheet.columns | page.hidden, rows, about["columns"])
    place = {int(row): at for at, row in enumerate(rows)}
    thumbs = {place[row]: _base64(page.pictures.small(row, SIDE)) for row in hardest} if page.pictures.any else {}
    classes = {place[row]: told for row, told in closeups.nearest_classes(sheet, hardest).items()}
    cosines = closeups.cosines(sheet)
    about |= {"cosines": cosines is not None, "closeups": False, "pictures": bool(thumbs)}
    data: dict[str, Any] = {
        "about": about,
        "ids": _packed(json.dumps(sheet.ids.take(pa.array(rows)).to_pylist()).encode()),
        "columns": columns,
        "thumbs": thumbs,
        "classes": classes,
        "cosines": None if cosines is None else _packed(cosines.astype("<f4").tobytes()),
    }
    room = MOST_BYTES - sum(len(one["packed"]) for one in columns.values())
    data["epochs"] = _epochs(sheet, room) if len(rows) == len(sheet) else {}
    about["moving"] = list(data["epochs"])
    data["curves"], about["groupings"], about["measures"] = _curves(sheet)
    if about["moving"]:  # curves of any selection and grouping are made in the browser
        about |= {"measures": about["moving"], "groupings": None}
    data["rounds"] = [] if sheet.rounds is None else sheet.rounds.told(np.ones(len(sheet), bool))
    data["agreement"] = _agreements(sheet, [column["name"] for column in about["columns"]])
    return data


def _hardest(sheet: Sheet, count: int) -> list[int]:
    if sheet.by is None:
        return list(range(min(count, len(sheet))))
    column = sheet.columns[sheet.by]
    key = -column.values if column.hard == "high" else column.values
    order = np.argsort(key, kind="stable")[: int(np.isfinite(column.values).sum())]
    return [int(row) for row in order[:count]]


def _kept(n: int, hardest: list[int]) -> np.ndarray:
    """The rows that are drawn: all, or an even sample with the hardest."""
    if n <= MOST_ROWS:
        return np.arange(n)
    even = np.arange(MOST_ROWS) * n // MOST_ROWS
    return np.union1d(even, hardest)


def _columns(
    there: dict[str, Column], rows: np.ndarray, told: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Descriptions and packed values of the columns, the important ones first, as many as fit."""
    packed: dict[str, Any] = {}
    size = 0
    names = sorted(there, key=lambda name: (there[name].names is None and name not in FIRST, name not in FIRST))
    for name in names:
        one = _column(there[name], rows)
        size += len(one["packed"])
        if size > MOST_BYTES and name not in FIRST:
            size -= len(one["packed"])
            continue
        packed[name] = one
    return [column for column in told if column["name"] in packed], packed


def _column(column: Column, rows: np.ndarray) -> dict[str, Any]:
    values = column.values[rows]
    if column.names is not None:
        return {"packed": _packed(values.astype(values.dtype.newbyteorder("<")).tobytes())}
    low = column.low or 0.0
    step = ((column.high or 0.0) - low) / STEPS or 1.0
    with np.errstate(invalid="ignore"):
        steps = np.where(np.isfinite(values), np.rint((values.astype(np.float64) - low) / step), NONE)
    return {"packed": _packed(steps.astype("<u2").tobytes()), "low": low, "step": step}


def _packed(content: bytes) -> str:
    return _base64(zlib.compress(content, 9))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _curves(sheet: Sheet) -> tuple[dict[str, Any], list[str], list[str]]:
    """measure -> grouping -> what the server would answer; and the names of both."""
    if sheet.epochs is None:
        return {}, [], []
    measures = [name for name in MEASURES if name in sheet.epochs.measures]
    by = [name for name in ("label", "correct", "degradation", "level", "split", HUMAN, "avh") if name in sheet.columns]
    everyone = np.ones(len(sheet), bool)
    found: dict[str, Any] = {}
    for measure in measures:
        found[measure] = {"": listed(sheet.epochs, measure, ["all samples"], np.zeros(len(sheet), np.int64))}
        for name in by:
            found[measure][name] = listed(sheet.epochs, measure, *groups_of(sheet.columns[name], everyone))
    return found, by, measures


def _epochs(sheet: Sheet, room: int) -> dict[str, Any]:
    """measure -> every sample's value at every epoch, packed like a column: as many measures as there is room for."""
    found: dict[str, Any] = {}
    if sheet.epochs is None or 2 * len(sheet) * len(sheet.epochs.files) > room:  # noise does not get smaller
        return found
    for measure in (name for name in MOVING if name in sheet.epochs.measures):
        values = np.concatenate([sheet.epochs.values(at, measure) for at in range(len(sheet.epochs.files))])
        one = _column(numbers(measure, values), np.arange(len(values)))
        room -= len(one["packed"])
        if room < 0:
            break
        found[measure] = one
    return found


def _agreements(sheet: Sheet, names: list[str]) -> dict[str, Any]:
    if HUMAN not in sheet.columns:
        return {}
    human = sheet.columns[HUMAN].values
    return {name: agreement(human, sheet.columns[name].floats()) for name in names if name != HUMAN}


def _headline(page: Page) -> dict[str, Any]:
    """What was run, in words and numbers."""
    sheet, start = page.sheet, page.sheet.start
    facts = [["samples", f"{len(sheet):,}"], ["classes", f"{len(sheet.class_names):,}"]]
    labels, predicted = sheet.labels(), sheet.predicted()
    judged = (labels >= 0) & (predicted >= 0)
    if judged.any():
        wrong = int((labels != predicted)[judged].sum())
        of = "accuracy" if sheet.rounds is None else "accuracy of the source model"
        facts += [[of, f"{100 * (1 - wrong / judged.sum()):.2f} %"], ["wrong", f"{wrong:,}"]]
    if sheet.rounds is not None:
        reached = [(name, value) for name, value in sheet.rounds.reached().items() if name != "source"]
        facts += [[f"class accuracy after {name}", f"{100 * value:.2f} %"] for name, value in reached]
    for name in ("avh", "avh_relative", "confidence", "norm"):
        column = sheet.columns.get(name)
        if column is not None and np.isfinite(column.values).any():
            facts.append([f"mean {said(name)}", f"{np.nanmean(column.values.astype(np.float64)):.4g}"])
    if HUMAN in sheet.columns and sheet.by is not None:
        found = agreement(sheet.columns[HUMAN].values, sheet.columns[sheet.by].values)
        if found["spearman"] is not None:
            words = f"{found['spearman']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
            facts.append([f"Spearman of {said(sheet.by)} with people", words])
    notes = list(sheet.notes)
    if len(sheet) > MOST_ROWS:
        notes.append(f"The scatter shows {MOST_ROWS:,} samples at even distances and the hardest; the numbers above are of all.")
    versions = ", ".join(f"{name} {number}" for name, number in (start.get("versions") or {}).items())
    again = [str(start.get("words") or start.get("command") or f"hardsight score {sheet.name}")]
    again += [
        f"hardsight report {sheet.name}",
        f"hardsight explore {sheet.name}    # the same page with every image and the review",
    ]
    sentence = f"How hard each of {len(sheet):,} samples is for the model"
    return {
        "title": sheet.name,
        "sentence": sentence + (f", ranked by {said(sheet.by)}." if sheet.by else "."),
        "facts": facts,
        "figures": _figures(page),
        "again": again,
        "versions": versions,
        "notes": notes,
    }


def _figures(page: Page) -> list[dict[str, str]]:
    """The overview, and the figures that the run itself holds."""
    sheet = page.sheet
    found = []
    if {"own_angle", "norm", "avh", "correct"} <= sheet.columns.keys():
        found.append({"title": "The hardest samples, angle against norm, and the spread of AVH", "image": _overview(page)})
    own = sorted((sheet.directory / "figures").glob("*.png")) if sheet.directory is not None else []
    for path in [path for path in own if path.name != "overview.png"][:MOST_FIGURES]:
        image = _figure_file(path)
        if image is not None:
            found.append({"title": path.stem, "image": image})
    return found


def _overview(page: Page) -> str:
    from hardsight.plots.overview import overview

    sheet = page.sheet
    columns = {name: sheet.columns[name].values for name in ("own_angle", "norm", "avh", "correct")}
    there = (
        np.isfinite(columns["own_angle"]) & np.isfinite(columns["norm"]) & np.isfinite(columns["avh"]) & (columns["correct"] < 2)
    )
    some = np.flatnonzero(there)
    some = some[:: max(1, len(some) // 20_000)]  # a picture of more looks the same
    worst = [row for row in _hardest(sheet, 12) if page.pictures.any]
    pictures = [np.asarray(page.pictures.safe(row)) for row in worst]
    words = [f"AVH {columns['avh'][row]:.3f}" for row in worst]
    figure = overview(
        pictures,
        words,
        angle=columns["own_angle"][some],
        norm=columns["norm"][some],
        avh=columns["avh"][some],
        correct=columns["correct"][some] == 0,
        title="The hardest samples by angular visual hardness",
    )
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return _as_webp(stream)


def _figure_file(path: Path) -> str | None:
    from hardsight.data.decoding import decode

    try:
        if path.stat().st_size > 20 * LARGEST_FIGURE:
            return None
        with path.open("rb") as stream:
            image = decode(stream, path.name)
    except (HardsightError, OSError):
        return None
    content = io.BytesIO()
    image.save(content, "PNG")
    address = _as_webp(content)
    return address if len(address) <= LARGEST_FIGURE else None


def _as_webp(png: io.BytesIO) -> str:
    from PIL import Image

    stream = io.BytesIO()
    Image.open(png).convert("RGB").save(stream, "WEBP", quality=88, method=4)
    return "data:image/webp;base64," + _base64(stream.getvalue())


# The page as one file


def _page(data: dict[str, Any]) -> str:
    """page.html with its style, its scripts and the data inside."""
    here = files("hardsight.explorer")
    html, style, script = (here / "page.html").read_text("utf-8"), (here / "page.css").read_text("utf-8"), one_script()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    block = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    replacements = {
        '<link rel="icon" href="icon.svg" type="image/svg+xml">\n': '<link rel="icon" href="data:,">\n',
        '<link rel="stylesheet" href="page.css">\n': f"<style>{style}</style>\n",
        '<script type="module" src="js/main.js"></script>\n': "",
        '<meta charset="utf-8">\n': f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        "</body>\n": f'<script type="application/json" id="data">{block}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n',
    }
    for old, new in replacements.items():
        assert html.count(old) == 1, f"page.html no longer holds {old!r}, which the report replaces"
        html = html.replace(old, new)
    return html


def _hash(content: str) -> str:
    return f"'sha256-{_base64(hashlib.sha256(content.encode()).digest())}'"


IMPORT = re.compile(r'^import \{ (.+) \} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


@functools.cache
def one_script() -> str:
    """The page's modules in one script: each a function of its own, after those it imports, that returns what it exports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        source = (files("hardsight.explorer") / "js" / f"{name}.js").read_text("utf-8")
        for _, other in IMPORT.findall(source):
            add(other)
        exported = ", ".join(EXPORT.findall(source))
        body = IMPORT.sub(lambda found: f"const {{ {found[1]} }} = module_{found[2]};\n", EXPORT.sub("", source))
        done[name] = f"const module_{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"

    add("main")
    script = "".join(done.values())
    assert "</script" not in script and not re.search(r"^(import|export)\b", script, re.MULTILINE)
    return script
