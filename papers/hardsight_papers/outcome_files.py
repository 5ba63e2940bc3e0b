"""What a recipe found, on disk: outcomes/ID.json with tables and claims, figures/ID-NAME.png."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hardsight.errors import FileError
from hardsight.files import Run, read_json, write_json
from hardsight.render import save_figure
from hardsight.screen import plain_json
from hardsight_papers.recipe import Outcome, Recipe, Table
from hardsight_papers.verdicts import Claim, Effect

NUMBERS = ("estimate", "low", "high")  # of an effect; JSON has no NaN


def file_name(text: str) -> str:
    """A name for a file: letters and digits, with dashes between.

    Example:
        >>> file_name("avh/table1"), file_name("AVH, and the norm")
        ('avh-table1', 'avh-and-the-norm')
    """
    return "-".join(re.findall("[a-z0-9]+", text.lower()))


def outcome_file(directory: Path, id: str) -> Path:
    """Where a recipe's outcome is kept."""
    return directory / "outcomes" / f"{file_name(id)}.json"


def keep(run: Run, recipe: Recipe, outcome: Outcome, seconds: Mapping[str, float]) -> Outcome:
    """Write an outcome: its figures first, then the file that says it is complete."""
    folder, paths = run.folder("figures"), {}
    run.folder("outcomes")
    for caption, figure in outcome.figures.items():
        file = folder / f"{file_name(recipe.id)}-{file_name(caption)}.png"
        paths[caption] = save_figure(figure, file, dpi=110, bbox_inches="tight")[0]
    write_json(
        outcome_file(run.directory, recipe.id),
        {
            "id": recipe.id,
            "title": recipe.title,
            "about": outcome.about,
            "printed": plain_json(recipe.printed),
            "tables": [plain_json(asdict(table)) for table in outcome.tables],
            "claims": [plain_json(asdict(claim)) for claim in outcome.claims],
            "figures": {caption: path.relative_to(run.directory).as_posix() for caption, path in paths.items()},
            "commands": list(outcome.commands),
            **{name: round(value, 1) for name, value in seconds.items()},
        },
    )
    return read_outcome(run.directory, recipe.id)


def read_claim(stored: Mapping[str, Any]) -> Claim:
    """A claim from JSON."""
    effects: list[dict[str, Any]] = [
        {name: float("nan") if value is None and name in NUMBERS else value for name, value in effect.items()}
        for effect in stored["effects"]
    ]
    return Claim(**{**stored, "effects": tuple(Effect(**effect) for effect in effects)})


def read_outcome(directory: Path, id: str) -> Outcome:
    """An outcome from disk; its figures are paths."""
    path = outcome_file(directory, id)
    content = read_json(path)
    try:
        return Outcome(
            about=content["about"],
            tables=[Table(**table) for table in content["tables"]],
            figures={caption: directory / name for caption, name in content["figures"].items()},
            claims=[read_claim(claim) for claim in content["claims"]],
            commands=content["commands"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: damaged: it is not the outcome of a recipe. Remove it to run the recipe again.") from error
