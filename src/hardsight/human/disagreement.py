"""Where people and the model disagree: easy for one, hard for the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hardsight.data import open_data
from hardsight.errors import HardsightError, InputError
from hardsight.human.comparisons import Agreement
from hardsight.human.models import ScoredModel, score_words
from hardsight.human.tables import Row
from hardsight.screen import brief

BOTH_EASY, BOTH_HARD = "easy for both", "hard for both"
MODEL_HARD, PEOPLE_HARD = "easy for people, hard for the model", "hard for people, easy for the model"
AGREED = 0.8  # share of people: if fewer chose the given class, they really disagree (the AVH paper's last bin starts here)


@dataclass(frozen=True)
class Disagreement:
    """The number of samples in each quadrant, and the clearest cases of the two in which people and the model disagree."""

    __repr__ = brief

    model: str
    score: str
    rule: str  # what easy and hard mean
    counts: dict[str, int]
    model_hard: list[Row]
    people_hard: list[Row]

    @property
    def cases(self) -> dict[str, list[Row]]:
        """The clearest cases, by quadrant."""
        return {MODEL_HARD: self.model_hard, PEOPLE_HARD: self.people_hard}


def disagreement(agreement: Agreement, model: ScoredModel, score: str = "avh", top: int = 12) -> Disagreement:
    """Quadrants: hard for people if fewer than 80 % chose the given class, hard by the score in its harder half.

    A split into halves would not work for people, since they agree on most images. Ties in the score stay together. The
    clearest cases of a quadrant are extreme on both sides: the two ranks are added.
    """
    from scipy.stats import rankdata  # takes a second to import

    if score not in agreement.scores:
        raise InputError(f"{agreement.model} has no score {score!r} to disagree by; it has {', '.join(agreement.scores)}.")
    n = agreement.n
    label, predicted = (_names(model, column) for column in ("label", "predicted"))
    people = (rankdata(agreement.easy_target) - 0.5) / n  # (n,) in (0, 1): 1 is easy
    by_score = (rankdata(agreement.easy(score)) - 0.5) / n
    hard_for_people, easy_people = "in their harder half", people >= 0.5
    if agreement.target.key == "frequency":
        hard_for_people, easy_people = f"fewer than {100 * AGREED:.0f} % chose the given class", agreement.values >= AGREED
    easy_model = by_score >= 0.5
    counts = {
        BOTH_EASY: int((easy_people & easy_model).sum()),
        MODEL_HARD: int((easy_people & ~easy_model).sum()),
        PEOPLE_HARD: int((~easy_people & easy_model).sum()),
        BOTH_HARD: int((~easy_people & ~easy_model).sum()),
    }
    apart = people - by_score

    def cases(inside: np.ndarray, sign: int) -> list[Row]:
        far = rankdata(sign * people[inside]) - rankdata(sign * by_score[inside])  # easier for people and harder for the model
        rows = []
        for at in np.flatnonzero(inside)[np.argsort(-far, kind="stable")][:top].tolist():
            row, name = int(agreement.rows[at]), agreement.ids[at]
            seen = {"id": name.item() if isinstance(name, np.generic) else name, "row": row}
            seen |= {"label": label[row], "predicted": predicted[row], agreement.target.key: float(agreement.values[at])}
            rows.append(seen | {score: float(agreement.scores[score][at]), "apart": float(apart[at])})
        return rows

    return Disagreement(
        agreement.model,
        score,
        f"hard for people: {hard_for_people}; hard for the model: in the harder half by {score_words(score)}",
        counts,
        cases(easy_people & ~easy_model, 1),
        cases(~easy_people & easy_model, -1),
    )


def _names(model: ScoredModel, column: str) -> list[Any]:
    """The class of each sample as text: its name, or else its number."""
    if not model.has(column):
        return [None] * len(model.table)
    names = model.class_names
    return [None if k is None else str(k) if names is None else names[k] for k in model.table.column(column).to_pylist()]


def images_of(source: Any, model: ScoredModel) -> Callable[[Any], Any] | None:
    """A function from id to thumbnail, for data that `hardsight extract` reads, or for the images in the run itself.

    The function returns None for an image that is missing or damaged. Without images, there is no function.
    """
    if source is None:
        return _images_of_run(model)
    data = open_data(source)
    row_of = {name: row for row, name in enumerate(data.ids)}
    base = {}
    if model.has("base_id"):
        base = dict(zip(model.ids.tolist(), model.table.column("base_id").to_pylist(), strict=True))
    if not {str(base.get(name, name)) for name in model.ids.tolist()} & set(row_of):
        raise InputError(
            f"{source}: no image has the id of a sample; its ids look like {data.ids[0]!r}, the samples' like {model.ids[0]!r}."
        )

    def image(name: Any) -> Any:
        row = row_of.get(str(base.get(name, name)))
        if row is None:
            return None
        try:
            return _thumbnail(data.image(row))
        except (HardsightError, OSError):
            return None

    return image


def _images_of_run(model: ScoredModel) -> Callable[[Any], Any] | None:
    loaded = model.snapshot.loaded_from if model.snapshot is not None else None
    if loaded is None or not model.has("path") or not isinstance(loaded["path"], Path):
        return None
    root = loaded["path"].resolve()
    path_of = dict(zip(model.ids.tolist(), model.table.column("path").to_pylist(), strict=True))
    if not any((root / path).is_file() for path in list(path_of.values())[:1] if path):
        return None

    def image(name: Any) -> Any:
        path = (root / path_of[name]).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return None
        try:
            with Image.open(path) as opened:
                return _thumbnail(opened)
        except (OSError, ValueError):
            return None

    return image


def _thumbnail(picture: Image.Image) -> np.ndarray:
    picture = picture.convert("L" if picture.mode == "L" else "RGB")
    picture.thumbnail((96, 96))
    return np.asarray(picture)
