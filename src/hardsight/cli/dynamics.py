"""`hardsight dynamics`: a trained run's dynamics in words and figures."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app
from hardsight.options import COMMON


@app.command()
def dynamics(
    run: Path = typer.Argument(..., metavar="RUN", help="A run directory with dynamics, as written by hardsight train."),
    by: str = typer.Option(
        None,
        "--group",
        metavar="COLUMN",
        help="Column that holds the groups: label, degradation, a score, or any column of the run's tables.",
    ),
    human: Path = typer.Option(None, metavar="FILE", help=f"{COMMON['human'][1]} Groups samples by selection frequency."),
    allow_missing: bool = typer.Option(False, "--allow-missing", help=COMMON["allow_missing"][1]),
    split: str = typer.Option(None, help="Use only this split or watched set. Default: all held-out ones."),
    output: Path = typer.Option(None, "-o", "--output", metavar="FOLDER", help="Folder for the figures. Default: RUN/figures."),
    table: Path = typer.Option(
        None,
        metavar="FILE",
        help="File for the table of epochs: means, NC1 to NC4, uniformity, tolerance; .parquet, .csv or .json.",
    ),
) -> None:
    """Report when AVH settles in RUN, whether angles come before norms, and how far features collapse; draw the curves.

    \b
    Example:
        hardsight dynamics run --human cifar10h_counts.npy
        hardsight dynamics run --table epochs.csv
    """
    from hardsight.dynamics.describing import describe_dynamics
    from hardsight.dynamics.epoch_table import HISTOGRAMS
    from hardsight.files.human import Answers
    from hardsight.files.places import place
    from hardsight.files.writing import check_output
    from hardsight.screen import printable, progress_bar
    from hardsight.table import check_format, write_table

    if table is not None:
        check_format(place(table))
        check_output(place(table))
    with progress_bar("reading dynamics") as progress:
        people = None if human is None else Answers(human, allow_missing)
        description = describe_dynamics(run, by=by, human=people, split=split, figures=output, progress=progress)
    print(printable(str(description)))
    for path in description.figures:
        print(f"wrote {path}")
    if table is not None and description.table is not None:
        flat = table.suffix.lower() == ".csv"  # which has no lists
        write_table(description.table.drop_columns(list(HISTOGRAMS)) if flat else description.table, table)
        print(f"wrote {table}")
