"""`export`: a run in, a folder for another tool out."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from hardsight.errors import InputError, check_choice
from hardsight.explorer.opening import open_display
from hardsight.explorer.other_results import add_suspects
from hardsight.explorer.review import Review
from hardsight.explorer.selection import selection_table
from hardsight.explorer.settings import ReportSettings
from hardsight.explorer.thumbnails import Pictures
from hardsight.exporting.material import Material, check_folder, check_samples, claim_folder, default_folder, located
from hardsight.exporting.settings import TOOLS, ExportSettings
from hardsight.files.kinds import kind_of
from hardsight.options import takes
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.table import as_hardness
from hardsight.threads import sample_rows

if TYPE_CHECKING:
    from hardsight.option_types import ExportOptions


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    samples: int
    opens: str  # how the tool opens it
    notes: list[str]  # for the user, one sentence each


@takes(ExportSettings)
def export(
    x: Any,
    to: str,
    output: str | Path | None = None,
    *,
    settings: ExportSettings | None = None,
    progress: Progress | None = None,
    **options: Unpack[ExportOptions],
) -> Exported:
    """Write samples in the format of another tool, with all scores, and suspects and marks if there are any.

    Args:
        x: whatever `Snapshot.open` opens: a run directory, a file, arrays, a frame, a table of scores, a `Snapshot`; or a
            `Result`.
        to: cleanlab, fiftyone, hub, coco or labelstudio.
        output: the folder; by default next to the run, such as run-coco; of what is in memory, table-coco.
        settings: all options as one object; each is also a keyword.
        progress: called with rows done and rows in all, while a run without scores is scored.
    """
    settings = ExportSettings.given(settings, options)
    check_choice(to, TOOLS, "to")
    if settings.push is not None and to != "hub":
        raise InputError(f"--push uploads a dataset of the Hugging Face Hub: it goes with --to hub, got --to {to}.")
    path = Path(x) if isinstance(x, (str, os.PathLike)) else None
    folder = default_folder(path, to) if output is None else Path(output)
    check_folder(folder, to, path)
    shown = ReportSettings(images=settings.images, **settings.keywords())
    if path is not None and "images" in TOOLS[to] and path.exists() and kind_of(path) == "snapshot":
        located(Pictures.of(Snapshot.open(path, **shown.keywords()), settings.images))  # before the samples are scored
    display = open_display(x, shown, keep=False, progress=progress)
    add_suspects(display)
    rows = sample_rows(settings, len(display))
    table = selection_table(display, rows, Review.of(display))
    if display.suspects is not None:
        table = table.append_column("explanation", display.suspects.explanations.take(pa.array(rows)))
    notes = list(display.notes)
    if settings.hardness:
        table = as_hardness(table)
        notes.append("as hardness: high is hard in every score")
    material = Material(
        display, Pictures(display, settings.images), rows, table, folder, settings.image_url, settings.push, notes
    )
    tool = importlib.import_module(f"hardsight.exporting.{to}")
    check_samples(material, to, TOOLS[to])
    claim_folder(folder, to, display.name, bool(settings.hardness))
    tool.write(material)
    return Exported(folder, len(rows), tool.OPENS.format(folder=folder), material.notes)
