"""`hardsight reproduce`: the tables and figures of the papers, run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardsight.cli import app
from hardsight.cli.options import options_of
from hardsight.paper.settings import ReproduceSettings

if TYPE_CHECKING:
    from hardsight.paper.recipe import Outcome, Recipe


@app.command()
@options_of(ReproduceSettings)
def reproduce(
    settings: ReproduceSettings,
    ids: list[str] = typer.Argument(
        None, metavar="[ID]...", help="avh/table2, ..., all of a paper (avh), or all. Default: list."
    ),
    output: Path = typer.Option(None, "-o", "--output", help="Run directory to write; an interrupted run is resumed."),
) -> None:
    """Run a table or figure of the papers: our numbers beside the printed ones, and a verdict on each claim.

    Without an ID, list them all.

    \b
    Example:
        hardsight reproduce avh/table2
        hardsight reproduce avh/fig5 --data datasets/ -o run
        hardsight reproduce all --scale small -o run
    """
    from hardsight.paper.catalogue import recipes
    from hardsight.screen import printable, progress_bar

    if not ids:
        for recipe in recipes().values():
            print(f"{recipe.id:<22}{recipe.title}{f'  [{recipe.needs}]' if recipe.needs else ''}")
        print("In brackets: data for --data that make it comparable to the paper. All run without.")
        print("next: hardsight reproduce avh/table2, or hardsight reproduce all -o run")
        return
    if output is None:
        from hardsight.paper.catalogue import one
        from hardsight.paper.running import reproduce as run

        with progress_bar(ids[0]) as progress:
            outcome = run(" ".join(ids), settings=settings, progress=progress)
        show(one(ids[0]), outcome)
        if outcome.figures:
            print(f"figures: hardsight reproduce {printable(ids[0])} -o run")
        return
    from hardsight.paper.running import reproduce_all

    with progress_bar(ids[0]) as progress:
        outcomes = reproduce_all(ids, output, settings=settings, progress=progress, say=show)
    print(f"{len(outcomes)} recipes in {printable(str(output / 'report.html'))}")


def show(recipe: Recipe, outcome: Outcome) -> None:
    """What a recipe found, on the screen."""
    from hardsight.screen import print_line, print_table

    print_line(f"{recipe.id}  {recipe.title}")
    print_line(f"  {outcome.about}")
    for table in outcome.tables:
        print_table(table.header, table.cells(), title=table.title, words=table.words)
        if table.note:
            print_line(f"{table.note}\n")
    for claim in outcome.claims:
        print_line(f"{claim.verdict.upper()}: {claim.text} {claim.found}\n    rule: {claim.rule}")
    print_line("")
