"""`hardsight drift`: what got harder between two models or two dates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hardsight.cli import command
from hardsight.groups.settings import DriftFileSettings

if TYPE_CHECKING:
    from hardsight.groups.drift import Drift
    from hardsight.screen import Cell


@command(DriftFileSettings)
def drift(
    settings: DriftFileSettings,
    before: str = typer.Argument(..., metavar="A", help="Before: a run directory, a snapshot or a scores table."),
    after: str = typer.Argument(..., metavar="B", help="After: the same samples, joined by id; with --unpaired, other samples."),
    output: str = typer.Option(
        None,
        "-o",
        "--output",
        metavar="FILE",
        help="File to write: .parquet, .csv or .json. Default: drift.parquet in run B, photo.drift.parquet next to photo.npz.",
    ),
) -> None:
    """Find what got harder between two models or dates.

    Compares samples and classes of A and B, and tests whether the features themselves moved.

    \b
    Example:
        hardsight drift before after
        hardsight drift january.npz february.npz --unpaired -o drift.parquet
    """
    from hardsight.errors import FileError
    from hardsight.files.places import missing, place
    from hardsight.screen import print_line, print_next, print_wrote, progress_bar

    for source in map(place, (before, after)):
        if not source.exists():
            raise FileError(missing(source))

    from hardsight.groups.group_files import drift_to_file  # and with it SciPy

    with progress_bar("scoring") as progress:
        drifted = drift_to_file(before, after, output, settings=settings, progress=progress)
    print_drift(drifted.drift, settings.top)
    if drifted.path is None:
        print_line("nothing was written: give -o drift.parquet")
    else:
        print_wrote(drifted.path)
        print_next("hardsight", "explore", after, "--drift", drifted.path)


def print_drift(drifted: Drift, top: int) -> None:
    """What `hardsight drift` says on the screen: samples, classes and features."""
    from hardsight.groups.drift import samples_in_words
    from hardsight.groups.feature_shift import features_in_words
    from hardsight.screen import Cell, interval, number, print_line, print_table, print_warning

    for sentence in drifted.warnings:
        print_warning(sentence)
    print_line(samples_in_words(drifted))
    rows = [
        (
            number(row["class"]),
            number(row["n"]),
            _before_and_after(row["accuracy_before"], row["accuracy_after"]),
            number(row["mean_change"]),
            interval(row["change_low"], row["change_high"], 4),
            row["verdict"],
        )
        for row in drifted.classes.to_pylist()
    ]
    everything, classes = rows[:1], rows[1:]
    header = ("class", "n", "accuracy", "mean change", Cell("interval", "change"), "verdict")
    print_table(header, everything + classes[:top], name="classes")
    _print_hardest(drifted, top)
    print_line(features_in_words(drifted.features, drifted.settings.level))


def _print_hardest(drifted: Drift, top: int) -> None:
    """The samples that got harder the most, with their predictions."""
    from hardsight.scores import SCORES
    from hardsight.screen import number, print_table

    measured = drifted.sides[1]

    def name(label: int | None) -> str:
        return "–" if label is None else measured.class_name(label)

    score_end = (
        "ascending" if SCORES[drifted.by].hard == "low" else "descending"
    )  # many unpaired samples share the largest change
    order = [("change", "descending"), ("after", score_end)]
    table = drifted.table.filter(drifted.table.column("harder")).sort_by(order).slice(0, top)
    rows = [
        (
            str(row["id"]),
            name(row["label"]),
            *([name(row["predicted_before"])] if "predicted_before" in row else []),
            name(row["predicted_after"]),
            number(row["change"]),
        )
        for row in table.to_pylist()
    ]
    if rows:
        before = ("predicted before",) if "predicted_before" in table.column_names else ()
        header = ("id", "class", *before, "predicted after", "change")
        print_table(header, rows, title=f"{len(rows)} largest increases in hardness", words=len(header) - 1, name="samples")


def _before_and_after(before: float | None, after: float | None) -> Cell:
    from hardsight.screen import Cell

    shares = ["–" if share is None else f"{100 * share:.1f} %" for share in (before, after)]
    return Cell(" → ".join(shares), {"before": before, "after": after})
