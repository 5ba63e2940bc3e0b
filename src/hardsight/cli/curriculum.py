"""`hardsight curriculum`: in which order samples are trained on, and from which epoch."""

from __future__ import annotations

import typer

from hardsight.cli import command
from hardsight.subsets.settings import CurriculumFileSettings


@command(CurriculumFileSettings)
def curriculum(
    settings: CurriculumFileSettings,
    source: str = typer.Argument(
        ..., metavar="RUN_OR_FILE", help="A run directory, a snapshot (.npz, .npy, .parquet) or a table of scores."
    ),
    output: str = typer.Option(
        ...,
        "-o",
        "--output",
        metavar="FILE",
        help="File to write: .parquet, .csv or .json, with columns id, position, first_epoch and the score.",
    ),
) -> None:
    """Order samples from easy to hard for training.

    Writes each sample's position and the epoch from which it is used.

    hardsight train --curriculum RUN:SCORE does the same while it trains; this command is for your own training loop.

    \b
    Example:
        hardsight curriculum teacher --by avh --epochs 20 -o curriculum.parquet
        hardsight train photos/ --model cifar_resnet20 --curriculum teacher:avh --epochs 20 -o student
    """
    from hardsight.screen import Cell, number, percent, print_line, print_table, print_wrote
    from hardsight.subsets.curriculum import curriculum_to_file

    planned = curriculum_to_file(source, output, settings=settings)
    for note in planned.notes:
        print_line(note)
    n = len(planned.table)
    facts = {"samples": n, "order": planned.order, "by": planned.score, "pacing": settings.pacing}
    print_line(f"n = {n}   order {planned.order} by {planned.score}   pacing {settings.pacing}", sizes=planned.sizes, **facts)
    rows = [(number(epoch), number(size), percent(size / n, digits=0)) for epoch, size in enumerate(planned.sizes, 1)]
    print_table(("epoch", "samples", Cell("%", "share")), rows[:10], words=0, name="epochs")
    if len(rows) > 10:
        print_line(f"and {len(rows) - 10} epochs more, the last with {planned.sizes[-1]} samples")
    print_wrote(planned.path)
