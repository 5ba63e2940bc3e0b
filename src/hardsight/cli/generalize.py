"""`hardsight generalize`: several labeled domains in, accuracy on each one when it was never seen, out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardsight.cli import command
from hardsight.domains.settings import GeneralizeSettings

if TYPE_CHECKING:
    from hardsight.domains.generalize_result import Generalized


@command(GeneralizeSettings, figures=True)
def generalize(
    settings: GeneralizeSettings,
    domains: str = typer.Argument(
        ..., metavar="DOMAINS", help="A folder of domain/class folders, or features with a domain column."
    ),
    output: Path = typer.Option(
        ..., "-o", "--output", metavar="RUN", help="Run directory to write; an interrupted run is resumed."
    ),
) -> None:
    """Test how well training generalizes to an unseen domain.

    Leaves each domain out in turn, trains on the others, and tests on the one left out.

    \b
    Example:
        hardsight generalize pacs.npz --losses softmax,avh,cosface,lgm,drm --seeds 3 -o run
        hardsight generalize PACS/ --model cnn10 --losses avh --scales 5,10,20 -o run
    """
    from hardsight.domains.generalize import generalize as run_generalize
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("reading") as progress:
        generalized = run_generalize(domains, output, settings=settings, progress=progress, say=print_line)
    from hardsight.training import processes

    first = processes.is_first()
    processes.part()
    if first:
        _show(generalized)
        print_wrote(output / "report.html")


def _show(generalized: Generalized) -> None:
    from hardsight.render.domains import print_differences
    from hardsight.screen import Cell, percent, print_table

    names = generalized.table.column_names
    columns = [name for name in names if f"{name} std" in names]
    cells = [
        (row["loss"], *(percent(row[name], row[f"{name} std"]) for name in columns), percent(row["oracle average"]))
        for row in generalized.table.to_pylist()
    ]
    title = f"accuracy on the unseen domain (%), epoch by {generalized.selection}"
    print_table(("loss", *columns, Cell("average (oracle)", "oracle_average")), cells, title=title, name="accuracy")
    differences = [row for row in generalized.differences.to_pylist() if row["domain"] == "average"]
    print_differences("differences of the average, seed by seed", differences, ("loss", "against"))
