"""`hardsight clean`: which labels are wrong, and what else to look at; with `--apply`, the labels after a review.

Next: quality/clean.py (with --apply, quality/review.py).
"""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from hardsight.cli import argument, command, writes
from hardsight.quality.settings import CleanSettings


@command(CleanSettings)
def clean(
    settings: CleanSettings,
    source: str = argument("RUN_OR_FILE", "A run or file with labels and features, logits or probs."),
    apply: str = typer.Option(
        None,
        metavar="FILE",
        help="Review to apply: review.parquet of the explorer, or what Label Studio or FiftyOne exports as JSON. Writes "
        "corrected labels instead of suspects.",
    ),
    output: str = writes(
        "File to write: .parquet, .csv or .json. Default: suspects.parquet in a run, photo.suspects.parquet next to "
        "photo.npz; with --apply, labels.parquet of a run. With --apply, a new folder gets the images by class."
    ),
) -> None:
    """Find wrong labels, ambiguous samples, outliers, duplicates.

    Review them with hardsight explore, then write corrected labels with --apply.

    \b
    Example:
        hardsight clean run
        hardsight clean probs.npz
        hardsight clean birds.csv --features 'f*' --label species
        hardsight clean run --apply run/review.parquet -o labels.csv
        hardsight clean run --apply run/review.parquet -o corrected/
    """
    if apply is None:
        _find(source, output, settings)
    else:
        _correct(source, output, apply, settings)


def _find(source: str, output: str | None, settings: CleanSettings) -> None:
    """Find the suspects; they are written where the explorer and the report look, unless the options leave samples out."""
    from hardsight.files.places import place, table_path
    from hardsight.quality.clean import clean
    from hardsight.render.showing import show
    from hardsight.screen import print_line, print_next, print_wrote, progress_bar

    path, target = place(source), None if output is None else place(output)
    usual = table_path(path, "suspects")
    whole = settings.all_samples and settings.split is None
    if target is None and whole and (path.is_dir() or isinstance(path, Path) and path.exists()):
        target = usual
    with progress_bar("cleaning") as progress:
        suspects = clean(source, output=target, settings=settings, progress=progress)
    show(suspects)
    if target is None:
        print_line(f"nothing was written: give -o {usual.name}, which explore and report look for")
        return
    print_wrote(target)
    if target == usual and settings.labels is None:
        print_next("hardsight", "explore", source)


def _correct(source: str, output: str | None, review: str, settings: CleanSettings) -> None:
    """Write the labels after a review, as a table or as a folder of images."""
    from hardsight.errors import InputError
    from hardsight.files.places import place
    from hardsight.quality.review import apply_review
    from hardsight.render.showing import show
    from hardsight.screen import print_wrote

    if output is None and not place(source).is_dir():
        raise InputError("--apply writes labels after a review: give -o labels.parquet, labels.csv, or a folder for the images.")
    target = place(source) / "labels.parquet" if output is None else place(output)
    opening = {name: value for name, value in settings.keywords().items() if name != "probs"}
    corrected = apply_review(source, review, output=target, **opening)
    show(corrected)
    images = corrected.images is not None
    print_wrote(target, f" ({corrected.images:,} images, each with its class)" if images else "")
    _print_after_review(Path(source), str(target), images)


def _print_after_review(source: Path, written: str, images: bool) -> None:
    """What follows a review: check and train again where there are images, else keep what was found and marked."""
    from hardsight.files.run import read_start
    from hardsight.screen import print_line, print_next

    sources = read_start(source).get("sources") or {}
    data = written if images else sources.get("data") or sources.get("train")
    if data is None:
        print_next("hardsight", "report", source)
    else:
        labels = [] if images else ["--labels", written]
        if images or "data" in sources:
            again = [] if images else ["-o", "corrected-check"]  # not in place of the check that the marks are of
            print_line(f"check again: {shlex.join(['hardsight', 'check', str(data), *labels, *again])}")
        print_next("hardsight", "train", data, "--model", "MODEL", *labels, "-o", "corrected-run")
