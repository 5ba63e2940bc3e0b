"""A `Page` (page.py) opened from a run, a file, or anything else that `Snapshot.open` opens.

Start at `open_page`, which the command and `explore` call; `report` and `export` begin further down:

    open_page                  a `Page`, of what the next gives
    open_with_other_results    suspects or the comparison with a second run, then quick filters
    open_display               what people said
    _of_path, _of_memory       which of the next two, by what is there
    _of_samples                scores, computed where there are none (`_scores_of`), and features
    _of_scores, _shown         a table of scores as a `Display` (display.py)

server.py serves the page, and routes.py answers from it.

A run directory has scores, features with their columns, and dynamics; a run of `hardsight adapt` has target samples and what was
kept of them. What has no scores yet is scored first.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hardsight.data.run_images import RunImages, RunPictures, pictures_of
from hardsight.errors import FileError, HardsightError, InputError
from hardsight.explorer.adapt_rounds import Rounds
from hardsight.explorer.columns import words
from hardsight.explorer.display import BY_PEOPLE, Display
from hardsight.explorer.epochs import Epochs
from hardsight.explorer.other_results import add_quick_filters, add_suspects
from hardsight.explorer.page import Page
from hardsight.explorer.review import Review, review_file
from hardsight.explorer.settings import ExploreSettings, ReportSettings
from hardsight.explorer.thumbnails import Pictures
from hardsight.explorer.two_runs import ScoreChanges, compare
from hardsight.files.class_names import given_class_names
from hardsight.files.heads import load_head
from hardsight.files.kinds import kind_in_file
from hardsight.files.places import missing
from hardsight.files.reading import read_json, reading
from hardsight.files.run import read_start
from hardsight.files.suspects import FAR, as_scores, checked_suspects, clean_class_names, clean_columns
from hardsight.pandas_index import column_names
from hardsight.result import InOrder, Result
from hardsight.scoring.score import score
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.table import noted_class_names, read_scores, scores_given, write_table

OF_FIRST = ("human", "labels", "logits", "probs", "pred_probs", "ids", "columns")  # options that a second run does not share


def open_page(x: Any, second: Any, settings: ExploreSettings, progress: Progress | None = None) -> Page:
    """Open samples, or two runs to compare; the page's `notes` say where marks are saved, or why not."""
    display, comparison = open_with_other_results(x, settings, second, keep=not settings.read_only, progress=progress)
    review = Review.of(display)
    why_not = "this page was opened with --read-only." if settings.read_only else review.why_not_saved()
    page = Page(display, Pictures(display, settings.images), review, why_not, comparison)
    if isinstance(x, (str, os.PathLike)):
        page.again = _commands(x, second, settings)
        if why_not is None and settings.split is None and _can_be_applied(display):  # clean knows how it read a table
            page.apply = ["hardsight", "clean", str(x), "--apply", str(review_file(Path(x))), "-o", "labels.csv"]
    page.notes.append(f"Marks are saved in {page.marks_in}." if why_not is None else f"Marks cannot be saved: {why_not}")
    return page


def _commands(x: Any, second: Any, settings: ExploreSettings) -> list[str]:
    """Commands that show the same page, with paths as they were written; of one run, also as a report."""
    runs = [str(path) for path in (x, second) if isinstance(path, (str, os.PathLike))]
    explore = shlex.join(["hardsight", "explore", *runs, *settings.as_words()])
    if second is not None:
        return [explore]
    shown = ReportSettings(**{field.name: getattr(settings, field.name) for field in ReportSettings.fields()})
    return [explore, f"{shlex.join(['hardsight', 'report', *runs, *shown.as_words()])}    # the same page as one file"]


def _can_be_applied(display: Display) -> bool:
    """Whether `hardsight clean --apply` can turn marks on these samples into labels: it reads snapshots and scores tables."""
    assert display.path is not None
    readable = display.snapshot is not None or (display.path.is_file() and kind_in_file(display.path) == "scores")
    return "label" in display.columns and readable


def open_with_other_results(
    x: Any, settings: ReportSettings, second: Any = None, *, keep: bool = True, progress: Progress | None = None
) -> tuple[Display, ScoreChanges | None]:
    """All that a page or a report shows: `open_display`, then suspects or the comparison with a second run, and quick filters."""
    display, comparison = open_display(x, settings, keep=keep, progress=progress), None
    if second is None:
        add_suspects(display, settings.split)
    else:
        unset: dict[str, Any] = dict.fromkeys(OF_FIRST)
        comparison = compare(display, open_display(second, replace(settings, **unset), keep=keep, progress=progress))
    add_quick_filters(display, settings)
    return display, comparison


def open_display(
    x: Any, settings: ReportSettings | None = None, *, keep: bool = True, progress: Progress | None = None, **options: Any
) -> Display:
    """The samples with their scores, and all that a run knows of them.

    The options are those of the settings. `keep` saves scores that had to be computed in the run, if it is writable, for the
    next time.
    """
    settings = settings or ReportSettings.given(None, options)
    x = _with_samples(x)
    named = isinstance(x, (str, os.PathLike))
    display = _of_path(_existing(x), settings, keep, progress) if named else _of_memory(x, settings, keep, progress)
    display.describe(FAR, "Distance to the tenth nearest of the other samples: what is far from all is odd.", "high")
    if settings.human is None:
        display.describe("human", BY_PEOPLE, "low")
    else:
        display.add_human(settings.human, settings.allow_missing)
    if display.epochs is not None:
        column = display.columns.get("split")
        display.epochs.match(display.ids, None if column is None else words(column))
    return display


def _with_samples(x: Any) -> Any:
    """What is given, or the run of a result whose table has no samples, such as that of a training."""
    if not isinstance(x, Result) or "id" in x.table.column_names:
        return x
    if x.run is None:
        raise InputError(f"a {type(x).__name__} has no samples to show: give what it was made from.")
    return x.run


def _existing(path: str | os.PathLike[str]) -> Path:
    if "://" in str(path):
        raise InputError(f"{path}: the explorer needs files on this machine: copy the run here first.")
    if not Path(path).exists():
        raise FileError(missing(Path(path)))
    return Path(path)


def _of_path(path: Path, settings: ReportSettings, keep: bool, progress: Progress | None) -> Display:
    """A run directory or a file; where there is nothing but epochs or rounds of self-training, their samples."""
    epochs, names = Epochs.of(path), settings.keywords().get("class_names")
    extracted = (path / "samples").is_dir() and (path / "run.json").is_file()
    has_samples = extracted or path.is_file() or (path / "scores.parquet").is_file()
    rounds = None if has_samples or epochs is not None else Rounds.of(path)
    if rounds is not None:
        display = _of_scores(rounds.table(), path, names or rounds.class_names())
        display.add_rounds(rounds)
    elif epochs is not None and (settings.split is not None or not has_samples):
        display = _of_scores(epochs.last(settings.split), path, names or _noted_names(path))
    else:
        columns = {} if kind_in_file(path) == "scores" else clean_columns(path) or {}  # that clean was told to take
        samples = Snapshot.open(path, **columns | settings.keywords())
        display = _of_samples(samples.of_split(settings.split), path, keep, progress)
        if (path / "check.json").is_file():
            display.found = [str(sentence) for sentence in read_json(path / "check.json")["sentences"]]
    return display


def _of_memory(x: Any, settings: ReportSettings, keep: bool, progress: Progress | None) -> Display:
    """Arrays, a frame, a snapshot, a table of scores or of suspects, with the images that are known of them."""
    given, pictures = settings.keywords(), getattr(x, "pictures", None)
    if isinstance(x, Result) and x.class_names is not None:
        given = {"class_names": x.class_names} | given
    if "given_label" in (column_names(x) or ()):
        table = scores_given(x)
        found = checked_suspects(table, "the table")
        display = _of_scores(as_scores(table), None, given.get("class_names") or noted_class_names(table.schema))
        display.clean_table = found
    else:
        samples = Snapshot.of_scores(scores_given(x), **given) if isinstance(x, Result) else Snapshot.open(x, **given)
        display = _of_samples(samples.of_split(settings.split), samples.path, keep, progress)
        pictures = pictures or pictures_of(samples)
    if display.path is None and isinstance(pictures, RunPictures):
        with contextlib.suppress(HardsightError):  # moved or damaged: a page without images
            display.images = pictures.source
            display.add_further(display.aligned(pictures.columns))
    elif isinstance(pictures, InOrder):
        held = zip(pictures.ids.to_pylist(), pictures.images, strict=True)
        display.images = RunImages({"data": "images"}, rows={str(id): (pictures, id) for id, image in held if image is not None})
    return display


def _of_samples(samples: Snapshot, path: Path | None, keep: bool, progress: Progress | None) -> Display:
    """Samples with their scores: those of the table or of the run, or computed now."""
    names = samples.class_names or _noted_names(path)
    if samples.source.evidence == SCORES_ALONE:
        return _shown(samples, path, names)
    display = _of_scores(_scores_of(samples, keep, progress), path, names)
    display.add_features(samples)
    return display


def _scores_of(samples: Snapshot, keep: bool, progress: Progress | None) -> pa.Table:
    """The scores of a run, unless another head or other labels are given; else computed, and kept in the run if it may be."""
    file = None if samples.run is None or samples.is_changed else samples.run / "scores.parquet"
    if file is not None and file.is_file():
        table = read_scores(file)
        ids = table.column("id").cast(pa.string())
        return table if samples.whole else table.filter(pc.is_in(ids, value_set=pa.array(map(str, samples.ids), pa.string())))
    table = score(samples, progress=progress).table
    if keep and samples.whole and file is not None and os.access(file.parent, os.W_OK):
        write_table(table, file)
    return table


def _of_scores(table: pa.Table, path: Path | None, names: Any) -> Display:
    return _shown(Snapshot.of_scores(table.combine_chunks(), name=None if path is None else str(path)), path, names)


def _shown(samples: Snapshot, path: Path | None, names: Any) -> Display:
    """The samples of a table of scores, with what is written about its run."""
    if len(samples) == 0:
        raise InputError(f"{samples.where}: there are no samples in it.")
    with reading(Path(samples.where), "not a readable scores table"):
        start = {} if path is None else read_start(path)
        display = Display(samples, "table" if path is None else path.resolve().name, path, start=start)
        display.add_classes(given_class_names(names) or samples.class_names)
        display.add_scores(samples.columns([name for name in samples.column_names if name != "label"]))
        display.epochs = None if path is None else Epochs.of(path)
    return display


def _noted_names(path: Path | None) -> list[str] | None:
    """The class names that are stored with the head, or by hardsight clean."""
    if path is None:
        return None
    head = path / "head.safetensors"
    return load_head(head)[1] if head.is_file() else clean_class_names(path)
