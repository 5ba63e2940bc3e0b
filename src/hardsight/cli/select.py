"""`hardsight select`: which samples to train on, or to label next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hardsight.cli import command
from hardsight.subsets.settings import UNCERTAIN, SelectFileSettings

if TYPE_CHECKING:
    from hardsight.subsets.cost import Curve
    from hardsight.subsets.select import Selected

SHOWN = 5  # samples to label next
MOST_CLASSES = 20  # that are counted one by one


@command(SelectFileSettings)
def select(
    settings: SelectFileSettings,
    source: str = typer.Argument(
        ..., metavar="RUN_OR_FILE", help="A run directory, a snapshot (.npz, .npy, .parquet) or a table of scores."
    ),
    output: str = typer.Option(
        ..., "-o", "--output", metavar="FILE", help="File to write: .parquet, .csv or .json, with columns id and reason."
    ),
) -> None:
    """Choose samples to train on, or to label next.

    \b
    Example:
        hardsight select run --budget 5000 --method coverage -o subset.parquet
        hardsight select run --budget 5000 --method hardest --per-class --curve -o subset.parquet
        hardsight select unlabeled.npz --budget 100 --method margin -o label-next.csv
    """
    from hardsight.screen import print_next, print_wrote, progress_bar
    from hardsight.subsets.select import select_to_file

    with progress_bar("choosing") as progress:
        selected = select_to_file(source, output, settings=settings, progress=progress)
    _print_selected(selected, settings)
    if selected.curve is not None:
        _print_curve(selected.curve)
        if isinstance(settings.curve, str):
            print_wrote(settings.curve)
    print_wrote(selected.path)
    if settings.method not in UNCERTAIN and all(label >= 0 for label in selected.labels):
        print_next("hardsight", "train", "DATA", "--model", "MODEL", "--subset", selected.path, "-o", "subset-run")


def _print_selected(selected: Selected, settings: SelectFileSettings) -> None:
    from collections import Counter

    from hardsight.screen import number, print_line, print_table

    pool, k = selected.pool, len(selected.table)
    for note in pool.notes:
        print_line(note)
    by = f" by {pool.by}" if pool.by and settings.method not in UNCERTAIN else ""
    facts = {"chosen": k, "samples": len(pool), "method": settings.method, "by": pool.by, "seed": settings.seed}
    share = f"{100 * k / len(pool):.1f} %"
    print_line(f"{k} of {len(pool)} samples ({share})   method {settings.method}{by}   seed {settings.seed}", **facts)
    counts = Counter(label for label in selected.labels if label >= 0)
    if not counts:  # what to label next: the first of it
        first = [(str(row["id"]), row["reason"]) for row in selected.table.slice(0, SHOWN).to_pylist()]
        print_table(("id", "reason"), first, words=2, name="first")
        return
    if pool.num_classes > MOST_CLASSES:
        every = [counts.get(label, 0) for label in range(pool.num_classes)]
        spread = {"fewest_of_a_class": min(every), "most_of_a_class": max(every), "classes_without": every.count(0)}
        print_line(
            f"samples of a class: {min(every)} to {max(every)}, {every.count(0)} of {len(every)} classes have none", **spread
        )
        return
    total = Counter(pool.labels.tolist())
    rows = [(pool.name_of(label), number(counts.get(label, 0)), number(total.get(label, 0))) for label in range(pool.num_classes)]
    print_table(("class", "chosen", "of"), rows, name="classes")


def _print_curve(curve: Curve) -> None:
    from hardsight.screen import Cell, number, percent, print_line, print_table
    from hardsight.subsets.cost import WORDS

    rows = [
        (row["subset"], number(row["budget"]), percent(row["accuracy"], digits=1),
         Cell(f"[{percent(row['accuracy_low'], digits=1)}, {percent(row['accuracy_high'], digits=1)}]",
              {"low": row["accuracy_low"], "high": row["accuracy_high"]}))
        for row in curve.table.to_pylist()
    ]  # fmt: skip
    header = ("subset", "samples", Cell("accuracy %", "accuracy"), Cell("95 %", "accuracy"))
    print_line(f"{WORDS}, tested on {curve.tested_on}")
    print_table(header, rows, name="curve")
