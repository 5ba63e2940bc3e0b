"""Where people and the model disagree: easy for one, hard for the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.data.run_images import pictures_of
from hardsight.errors import InputError
from hardsight.human.comparisons import Agreement, Row
from hardsight.human.models import base_ids, score_words, words_of
from hardsight.result import PictureSource
from hardsight.screen import brief
from hardsight.snapshot import Snapshot

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

    def rows(self) -> list[Row]:
        """The clearest cases as rows of one table."""
        return [
            {"model": self.model, "quadrant": quadrant, **{key: value for key, value in case.items() if key != "row"}}
            for quadrant, cases in self.cases.items()
            for case in cases
        ]


def disagreement(agreement: Agreement, model: Snapshot, score: str = "avh", top: int = 12) -> Disagreement:
    """Quadrants: hard for people if fewer than 80 % chose the given class, hard by the score in its harder half.

    A split into halves would not work for people, since they agree on most images. Ties in the score stay together. The
    clearest cases of a quadrant are extreme on both sides: the two ranks are added.
    """
    from scipy.stats import rankdata  # takes a second to import

    if score not in agreement.scores:
        raise InputError(f"{agreement.model} has no score {score!r} to disagree by; it has {', '.join(agreement.scores)}.")
    people = (rankdata(agreement.easy_target) - 0.5) / agreement.n  # (n,) in (0, 1): 1 is easy
    by_score = (rankdata(agreement.easy(score)) - 0.5) / agreement.n
    hard_for_people, easy_people = "in their harder half", people >= 0.5
    if agreement.target.key == "frequency":
        hard_for_people, easy_people = f"fewer than {100 * AGREED:.0f} % chose the given class", agreement.values >= AGREED
    easy_model = by_score >= 0.5
    quadrants = {
        BOTH_EASY: easy_people & easy_model,
        MODEL_HARD: easy_people & ~easy_model,
        PEOPLE_HARD: ~easy_people & easy_model,
        BOTH_HARD: ~easy_people & ~easy_model,
    }

    def clearest(quadrant: str, sign: int) -> list[Row]:
        """The cases that are the easiest for one side and the hardest for the other."""
        inside = np.flatnonzero(quadrants[quadrant])
        far = rankdata(sign * people[inside]) - rankdata(sign * by_score[inside])
        chosen = inside[np.argsort(-far, kind="stable")][:top]
        return _cases(agreement, model, score, chosen, (people - by_score)[chosen])

    return Disagreement(
        agreement.model,
        score,
        f"hard for people: {hard_for_people}; hard for the model: in the harder half by {score_words(score)}",
        {words: int(inside.sum()) for words, inside in quadrants.items()},
        clearest(MODEL_HARD, 1),
        clearest(PEOPLE_HARD, -1),
    )


def _cases(agreement: Agreement, model: Snapshot, score: str, chosen: np.ndarray, apart: np.ndarray) -> list[Row]:
    """What to show of the chosen samples: classes, target and score, and how far apart people and the score are."""
    rows = agreement.rows[chosen].tolist()
    label, predicted = (
        words_of(model, name) if name in model.column_names else [None] * len(model) for name in ("label", "predicted")
    )
    columns = {
        "id": agreement.ids[chosen].tolist(),
        "row": rows,
        "label": [label[row] for row in rows],
        "predicted": [predicted[row] for row in rows],
        agreement.target.key: agreement.values[chosen].tolist(),
        score: agreement.scores[score][chosen].tolist(),
        "apart": apart.tolist(),
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def images_of(source: Any, model: Snapshot) -> PictureSource | None:
    """Where the images of a model's samples are: in the data that were given, or where its run records it."""
    pictures = pictures_of(model, source)
    if source is not None and pictures is not None:
        pictures.source.check_ids(base_ids(model) or [str(id) for id in model.ids.tolist()])
    return pictures


def thumbnail(images: PictureSource, id: Any) -> np.ndarray | None:
    """A small image of a sample, (h, w) or (h, w, 3); None if it is missing or damaged."""
    picture = images.image(id)
    if picture is None:
        return None
    picture = picture.convert("L" if picture.mode == "L" else "RGB")
    picture.thumbnail((96, 96))
    return np.asarray(picture)
