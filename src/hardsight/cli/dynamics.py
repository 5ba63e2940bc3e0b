"""`hardsight dynamics`: a trained run's dynamics in words and figures. Next: dynamics/description.py."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import argument, command, writes
from hardsight.options import COMMON


@command(figures=True)
def dynamics(
    run: Path = argument("RUN", "A run directory with dynamics, as written by hardsight train."),
    by: str = typer.Option(
        None,
        "--group",
        metavar="COLUMN",
        help="Column that holds the groups: label, degradation, a score, or any column of the run's tables.",
    ),
    human: Path = typer.Option(None, metavar="FILE", help=f"{COMMON['human'][1]} Groups samples by selection frequency."),
    allow_missing: bool = typer.Option(False, "--allow-missing", help=COMMON["allow_missing"][1]),
    split: str = typer.Option(None, metavar="NAME", help="Use only this split or watched set. Default: all held-out ones."),
    output: Path = writes("Directory for figures and report.html. Default: RUN/figures.", "DIR"),
) -> None:
    """Report how hardness develops over a training run.

    Says when AVH settles, whether angles settle before norms, and how far features collapse, and draws the curves.

    \b
    Example:
        hardsight dynamics run --human cifar10h_counts.npy
        hardsight dynamics run --table epochs.csv
    """
    from hardsight.dynamics.description import describe_and_draw
    from hardsight.files.human import Answers
    from hardsight.files.run import command_line, read_start
    from hardsight.files.writing import write_text
    from hardsight.render.showing import as_page, show
    from hardsight.screen import keep_table, print_wrote, progress_bar

    with progress_bar("reading dynamics") as progress:
        people = None if human is None else Answers(human, allow_missing)
        description = describe_and_draw(run, by=by, human=people, split=split, figures=output, progress=progress)
    show(description)
    page = (run / "figures" if output is None else output) / "report.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, as_page(description, description.drawn, read_start(run) or {}, command_line()), "html")
    for path in [*description.drawn, page]:
        print_wrote(path)
    keep_table("epochs", description.table.to_pylist())
