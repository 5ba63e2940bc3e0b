"""`hardsight dynamics`: a trained run's dynamics in words and figures."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import app


@app.command()
def dynamics(
    run: Path = typer.Argument(..., metavar="RUN", help="A run directory with dynamics, as written by hardsight train."),
    by: str = typer.Option(
        None, metavar="COLUMN", help="Group samples by label, degradation, a score, or any column of the run's tables."
    ),
    human: Path = typer.Option(
        None, metavar="FILE", help="Group samples by human selection frequency, from any file that correlate --human takes."
    ),
    split: str = typer.Option(None, help="Use only this split or watched set. Default: all held-out ones."),
    output: Path = typer.Option(None, "-o", "--output", metavar="FOLDER", help="Folder for the figures. Default: RUN/figures."),
) -> None:
    """Report when AVH settles in RUN and whether angles come before norms; draw the curves.

    \b
    Example:
        hardsight dynamics run --human cifar10h_counts.npy
    """
    from hardsight.dynamics.describing import describe_dynamics
    from hardsight.screen import printable, progress_bar

    with progress_bar("reading dynamics") as progress:
        description = describe_dynamics(run, by=by, human=human, split=split, figures=output, progress=progress)
    print(printable(str(description)))
    for path in description.figures:
        print(f"wrote {path}")
