"""The list of recipes. A new one is a file with `@recipe` in it, in the folder of its paper."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from hardsight.errors import InputError, did_you_mean
from hardsight_papers.recipe import RECIPES, Recipe

PAPERS = ("avh", "slides", "lgm", "losses")
FOLDERS = ("avh", "lgm", "losses")


def recipes() -> dict[str, Recipe]:
    """Every recipe by its id: papers one after the other, tables first, in the order of their numbers."""
    for folder in FOLDERS:
        for module in sorted(Path(__file__).with_name(folder).glob("[a-z]*.py")):
            importlib.import_module(f"hardsight_papers.{folder}.{module.stem}")
    return dict(sorted(RECIPES.items(), key=lambda item: _order(item[0])))


def _order(id: str) -> tuple[int, int, int, str]:
    paper, _, name = id.partition("/")
    kind = name.rstrip("0123456789")
    number = int(name[len(kind) :] or 0)
    return PAPERS.index(paper), {"table": 0, "fig": 1}.get(kind, 2), number, name


def chosen(ids: Sequence[str]) -> list[Recipe]:
    """The recipes of some ids: `avh/table2`, all of a paper (`avh`), or `all`."""
    known = recipes()
    picked: dict[str, Recipe] = {}
    for id in ids:
        group = [name for name in known if id == "all" or name == id or name.startswith(f"{id}/")]
        if not group:
            hint = did_you_mean(id, [*known, *PAPERS, "all"]) or " hardsight reproduce lists them all."
            raise InputError(f"there is no recipe {id!r}.{hint}")
        picked |= {name: known[name] for name in group}
    return list(picked.values())


def single_recipe(id: str) -> Recipe:
    """The recipe of one id."""
    matches = chosen([id])
    if [recipe.id for recipe in matches] != [id]:
        raise InputError(f"{id} stands for {len(matches)} recipes; name one of them, or give -o DIR for a page with all.")
    return matches[0]
