"""`hardsight select`: which samples to train on, or to label next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hardsight.act.subsets.settings import UNCERTAIN, SelectFileSettings
from hardsight.cli import app
from hardsight.cli.options import command_of, options_of

if TYPE_CHECKING:
    from hardsight.act.subsets.choosing import Selected
    from hardsight.act.subsets.cost import Curve

MOST_CLASSES = 20  # that are counted one by one


@app.command(cls=command_of(SelectFileSettings))
@options_of(SelectFileSettings)
def select(
    settings: SelectFileSettings,
    source: str = typer.Argument(
        ..., metavar="RUN_OR_FILE", help="A run directory, a snapshot (.npz, .npy, .parquet) or a table of scores."
    ),
    output: str = typer.Option(..., "-o", "--output", help="File to write: .parquet, .csv or .json, with columns id and reason."),
) -> None:
    """Choose samples of RUN_OR_FILE to train on, or to label next.

    \b
    Example:
        hardsight select run --budget 5000 --method coverage -o subset.parquet
        hardsight select run --budget 5000 --method hardest --per-class --curve -o subset.parquet
        hardsight select unlabeled.npz --budget 100 --method margin -o label-next.csv
    """
    from hardsight.act.subsets.choosing import select_to_file
    from hardsight.screen import printable, progress_bar

    with progress_bar("choosing") as progress:
        selected = select_to_file(source, output, settings=settings, progress=progress)
    _print_selected(selected, settings)
    if selected.curve is not None:
        _print_curve(selected.curve)
        if isinstance(settings.curve, str):
            print(f"wrote {printable(settings.curve)}")
    print(f"wrote {printable(str(selected.path))}")
    if settings.method not in UNCERTAIN and all(label >= 0 for label in selected.labels):
        print(f"next:  hardsight train DATA --model MODEL --subset {printable(str(selected.path))} -o subset-run")


def _print_selected(selected: Selected, settings: SelectFileSettings) -> None:
    from collections import Counter

    from hardsight.screen import print_line, print_table

    pool, k = selected.pool, len(selected.table)
    for note in pool.notes:
        print_line(note)
    by = f" by {pool.by}" if pool.by and settings.method not in UNCERTAIN else ""
    print(f"{k} of {len(pool)} samples ({100 * k / len(pool):.1f} %)   method {settings.method}{by}   seed {settings.seed}")
    counts = Counter(label for label in selected.labels if label >= 0)
    if not counts:
        return
    if pool.num_classes > MOST_CLASSES:
        every = [counts.get(label, 0) for label in range(pool.num_classes)]
        print(f"samples of a class: {min(every)} to {max(every)}, {every.count(0)} of {len(every)} classes have none")
        return
    total = Counter(pool.labels.tolist())
    rows = [(pool.name_of(label), str(counts.get(label, 0)), str(total.get(label, 0))) for label in range(pool.num_classes)]
    print_table(("class", "chosen", "of"), rows)


def _print_curve(curve: Curve) -> None:
    from hardsight.act.subsets.cost import WORDS
    from hardsight.screen import percent, print_table

    rows = [
        (row["subset"], str(row["budget"]), percent(row["accuracy"], digits=1),
         f"[{percent(row['accuracy_low'], digits=1)}, {percent(row['accuracy_high'], digits=1)}]")
        for row in curve.table.to_pylist()
    ]  # fmt: skip
    print_table(("subset", "samples", "accuracy %", "95 %"), rows, title=f"{WORDS}, tested on {curve.tested_on}")
