"""`reproduce`: run a recipe. `reproduce_all`: run several, keep what each found, and write one page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hardsight.errors import HardsightError
from hardsight.files import Run, read_manifest, replacing
from hardsight.options import takes
from hardsight.screen import Progress
from hardsight_papers.cache import Cache
from hardsight_papers.catalog import chosen, single_recipe
from hardsight_papers.context import Context
from hardsight_papers.data_folder import DataFolder
from hardsight_papers.outcome_files import keep, outcome_file, read_outcome
from hardsight_papers.page import write_page
from hardsight_papers.recipe import Outcome, Recipe
from hardsight_papers.settings import ReproduceSettings

COMMAND = "hardsight reproduce"


@takes(ReproduceSettings)
def reproduce(
    id: str,
    output: str | os.PathLike[str] | None = None,
    *,
    settings: ReproduceSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Outcome:
    """Run one table or figure of the papers: its numbers beside the printed ones, figures, and claims with a verdict.

    Args:
        id: such as `avh/table2`; `hardsight reproduce` lists them.
        output: run directory to write; without it nothing is written but the cache.
        settings: all options as one object, instead of keywords.
        progress: called with what is done, of how many, and words.

    Example:
        >>> outcome = reproduce("avh/fig23")  # people's answers by group of annotators, here without data
        >>> [claim.verdict for claim in outcome.claims]
        ['not comparable']
    """
    settings = ReproduceSettings.given(settings, options)
    recipe = single_recipe(id)
    if output is None:
        return recipe.run(_context(settings, progress))
    return reproduce_all([id], output, settings=settings, progress=progress)[id]


@takes(ReproduceSettings)
def reproduce_all(
    ids: Sequence[str],
    output: str | os.PathLike[str],
    *,
    settings: ReproduceSettings | None = None,
    progress: Progress | None = None,
    say: Callable[[Recipe, Outcome | str], None] | None = None,
    **options: Any,
) -> dict[str, Outcome]:
    """Run several recipes and write a run directory with report.html; an interrupted run is resumed.

    A recipe that cannot run is left out, and named with its reason on the page and in `say`; alone, it raises its error.

    Args:
        ids: ids, papers such as `avh`, or `all`.
        output: run directory.
        settings: all options as one object, instead of keywords.
        progress: called with what is done, of how many, and words.
        say: called with each recipe and what it found, or why it could not be run.
    """
    settings = ReproduceSettings.given(settings, options)
    recipes = chosen(ids)
    context = _context(settings, progress)
    context.cache.create()  # or fail now: without it, recipe after recipe would be left out
    arguments = {"ids": [recipe.id for recipe in recipes], **settings.as_dict()}
    run = Run(os.fspath(output), COMMAND, arguments, {"data": context.data.present()})
    outcomes: dict[str, Outcome] = {}
    skipped: dict[str, str] = {}
    run.kept_in_words = lambda: f"{len(outcomes)} of {len(recipes)} recipes"
    with run.only_writer():
        for recipe in recipes:
            try:
                outcomes[recipe.id] = _outcome(run, recipe, context)
            except HardsightError as error:
                if len(recipes) == 1:
                    raise
                skipped[recipe.id] = str(error)
            except Exception as error:  # a mistake of ours: the traceback, and what is not lost
                error.add_note(
                    f"{recipe.id} failed. {run.directory} keeps {run.kept_in_words()}: run the same command again to resume."
                )
                raise
            if say is not None:
                say(recipe, outcomes.get(recipe.id) or skipped[recipe.id])
        if not run.complete or read_manifest(run.directory)["counts"]["recipes"] < len(outcomes):  # now with more of them
            _finish(run, recipes, outcomes, skipped)
    return outcomes


def data_folder(settings: ReproduceSettings) -> DataFolder:
    """The directory of --data."""
    return DataFolder(None if settings.data is None else Path(settings.data))


def _context(settings: ReproduceSettings, progress: Progress | None) -> Context:
    data = data_folder(settings)
    if not settings.unchecked:
        data.check()
    cache = Cache.of_user() if settings.cache is None else Cache(Path(settings.cache))
    return Context(settings.scale, data, cache, settings.seed, progress, settings.device)


def _outcome(run: Run, recipe: Recipe, context: Context) -> Outcome:
    """What a recipe found, from an earlier start of the same run or by running it now."""
    if outcome_file(run.directory, recipe.id).exists():
        return read_outcome(run.directory, recipe.id)
    started, busy = time.monotonic(), time.process_time()
    context.say(recipe.id)
    outcome = recipe.run(context)
    seconds = {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - busy}  # beside other work they differ
    return keep(run, recipe, outcome, seconds)


def _finish(run: Run, recipes: Sequence[Recipe], outcomes: dict[str, Outcome], skipped: dict[str, str]) -> None:
    page = run.directory / "report.html"
    with replacing(page) as temporary:
        written = write_page(recipes, outcomes, skipped, run.start["arguments"]["scale"], run.start["inputs"]["data"])
        temporary.write_text(written, encoding="utf-8")
    verdicts = {id: [claim.verdict for claim in outcome.claims] for id, outcome in outcomes.items()}
    run.finish([page], {"recipes": len(outcomes), "verdicts": verdicts, "not_run": skipped})
