"""`hardsight reproduce`: rerun the tables and figures of the papers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardsight.cli import command
from hardsight_papers.settings import ReproduceSettings

if TYPE_CHECKING:
    from hardsight_papers.recipe import Outcome, Recipe


@command(ReproduceSettings, figures=True)
def reproduce(
    settings: ReproduceSettings,
    ids: list[str] = typer.Argument(
        None, metavar="[ID]...", help="avh/table2, ..., all of a paper (avh), or all. Default: list."
    ),
    output: Path = typer.Option(
        None, "-o", "--output", metavar="RUN", help="Run directory to write; an interrupted run is resumed."
    ),
) -> None:
    """Reproduce tables and figures of the papers.

    Prints our numbers next to the published ones, with a verdict on each claim. Without an ID, lists them all.

    \b
    Example:
        hardsight reproduce avh/table2
        hardsight reproduce avh/fig5 --data datasets/ -o run
        hardsight reproduce all --scale small -o run
    """
    from hardsight.screen import keep_table, print_line, print_next, print_wrote, progress_bar
    from hardsight_papers.catalog import chosen, recipes

    if not ids:
        known = [{"id": recipe.id, "title": recipe.title, "needs": recipe.needs} for recipe in recipes().values()]
        width = max(len(row["id"]) for row in known) + 2
        lines = [f"{row['id']:<{width}}{row['title']}" + (f"  [{row['needs']}]" if row["needs"] else "") for row in known]
        print_line("\n".join(lines))
        keep_table("recipes", known)
        print_line("In brackets: data in --data DIR that make a recipe comparable to the paper. All run without them.")
        print_next("hardsight", "reproduce", "avh/table2")
        return
    recipes_asked = chosen(ids)
    if output is None:
        from hardsight.errors import InputError
        from hardsight_papers.catalog import single_recipe
        from hardsight_papers.running import reproduce as run

        if len(ids) > 1:
            raise InputError(f"{len(recipes_asked)} recipes at once need -o DIR, for a page with all of them.")
        print_data(settings)
        with progress_bar(ids[0]) as progress:
            outcome = run(ids[0], settings=settings, progress=progress)
        show(single_recipe(ids[0]), outcome)
        if outcome.figures:
            print_next("hardsight", "reproduce", ids[0], *settings.as_words(), "-o", "reproduced")
        return
    from hardsight_papers.running import reproduce_all

    print_data(settings)
    skipped: dict[str, str] = {}

    def say(recipe: Recipe, outcome: Outcome | str) -> None:
        show(recipe, outcome)
        if isinstance(outcome, str):
            skipped[recipe.id] = outcome

    with progress_bar(ids[0]) as progress:
        outcomes = reproduce_all(ids, output, settings=settings, progress=progress, say=say)
    for id, reason in skipped.items():  # again at the end: pages of results lie in between
        print_line(f"not run: {id}: {reason}")
    print_wrote(output / "report.html", f": {len(outcomes)} recipe{'s' * (len(outcomes) != 1)}")


def print_data(settings: ReproduceSettings) -> None:
    """Which data sets were found in --data: what is missing is replaced by built-in data."""
    from hardsight.screen import print_line
    from hardsight_papers.avh.imagenet import missing_packages
    from hardsight_papers.running import data_folder

    if settings.data is None:
        return
    folder = data_folder(settings)
    print_line(folder.described(settings.scale), data=folder.present())
    if folder.has("imagenet5k", "imagenet_votes") and (packages := missing_packages()):
        print_line(f"The ImageNet images are not used: that needs {' and '.join(packages)} (papers/docs/reproduce.md).")


def show(recipe: Recipe, outcome: Outcome | str) -> None:
    """What a recipe found, on the screen; or why it could not be run."""
    from hardsight.screen import Cell, print_line, print_table

    if isinstance(outcome, str):
        print_line(f"{recipe.id}  not run: {outcome}\n", **{recipe.id: {"title": recipe.title, "not_run": outcome}})
        return
    print_line(f"{recipe.id}  {recipe.title}")
    claims = [asdict(claim) for claim in outcome.claims]
    print_line(f"  {outcome.about}", **{recipe.id: {"title": recipe.title, "about": outcome.about, "claims": claims}})
    for table in outcome.tables:
        values = zip(table.cells(), table.rows, strict=True)
        cells = [[Cell(text, value) for text, value in zip(*row, strict=True)] for row in values]
        print_table(table.header, cells, title=table.title, words=table.words, name=f"{recipe.id}: {table.title}")
        if table.note:
            print_line(f"{table.note}\n")
    for claim in outcome.claims:
        print_line(f"{claim.verdict.upper()}: {claim.text} {claim.found}\n    rule: {claim.rule}")
    print_line("")
