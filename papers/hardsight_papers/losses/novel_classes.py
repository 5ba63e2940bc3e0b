"""Hyperspherical embeddings: classes never seen, from a few samples, with normalized softmax and with metric learning.

"Hyperspherical embedding for novel class classification", arXiv:2102.03243. Its abstract has no formula for its constraint; the
one here is ours. Metric learning is a loss on pairs or triplets alone: cross-entropy, which `train` adds to it, has a hundredth
of the weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight_papers.arrays import directions
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import features_of, fitted
from hardsight_papers.drawing import seed_dots_figure
from hardsight_papers.losses.known_and_new import KNOWN, about_seeds, known_and_new, trained_on_known
from hardsight_papers.recipe import Outcome, Table, recipe
from hardsight_papers.seed_statistics import all_ahead, difference, interval, seeds

LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "constrained": ("normalized_softmax", {"constraint": 1.0}),
    "normalized softmax": ("normalized_softmax", {}),
    "softmax": ("softmax", {}),
    "triplet": ("triplet", {"weight": 100.0}),
    "contrastive": ("contrastive", {"weight": 100.0}),
}
METRIC = ("triplet", "contrastive")
BY_DISTANCE = ("contrastive",)  # judged by the distance to means, as the loss sees features; the others by directions
SHOTS = 5
SCENARIOS = {"disjoint": "6 to 9", "joint": "0 to 9"}  # and the digits to choose among


@recipe("losses/novel-classes", "Unseen classes from a few samples: normalized softmax and metric learning")
def novel_classes(context: Context) -> Outcome:
    """Five samples of each class make its prototype; `disjoint` chooses among the new classes, `joint` among all ten."""
    accuracy: dict[str, dict[str, np.ndarray]] = {name: {} for name in SCENARIOS}
    runs = {name: [trained_on_known(context, *loss, seed) for seed in seeds(context)] for name, loss in LOSSES.items()}
    for name in LOSSES:
        pairs = zip(runs[name], seeds(context), strict=True)
        cells = np.array([by_scenario(context, run, seed, name in BY_DISTANCE) for run, seed in pairs])  # (seeds, 2)
        for k, scenario in enumerate(SCENARIOS):
            accuracy[scenario][name] = cells[:, k]
    gaps = {
        f"{scenario}, {other}": difference(accuracy[scenario]["constrained"], accuracy[scenario][other])
        for scenario in SCENARIOS
        for other in METRIC
    }
    shown = {f"{scenario}: among {digits}": accuracy[scenario] for scenario, digits in SCENARIOS.items()}
    rows = [(name, *(interval(accuracy[scenario][name]) for scenario in SCENARIOS)) for name in LOSSES]
    return Outcome(
        about=about_seeds(context)
        + fitted(runs)
        + f" A class is the mean direction of {SHOTS} samples, with contrastive loss their mean.",
        tables=[Table("Accuracy (%) on images of new classes, and of all [95 %]", ("loss", *SCENARIOS), rows)],
        figures={"Classes never seen": seed_dots_figure(shown, "accuracy (%)")},
        claims=[
            all_ahead(
                "Normalized softmax classifies unseen classes better than metric learning, by a significant margin.",
                gaps,
                rule="In both scenarios the 95 % interval over seeds of its accuracy, with a constraint, less that of triplet "
                "and of contrastive loss lies above 0.",
                why_not="The constraint is ours: the abstract, whose contribution it is, has no formula.",
            )
        ],
        commands=["hardsight train digits --model DigitsCNN --loss normalized_softmax -o run"],
    )


def by_scenario(context: Context, run: Any, seed: int, by_distance: bool) -> list[float]:
    """Accuracy in per cent among the new classes, and among all, of samples that made no prototype."""
    known, new = known_and_new(context)
    seen = np.arange(1, len(known), 2)  # those not trained on
    x, y = features_of(context, run, known.take(seen))
    z, digit = features_of(context, run, new)
    parts = (z, digit), (np.concatenate([x, z]), np.concatenate([y, digit + KNOWN]))
    return [by_prototypes(features, labels, seed, by_distance) for features, labels in parts]


def by_prototypes(features: np.ndarray, labels: np.ndarray, seed: int, by_distance: bool) -> float:
    """Per cent nearest to the prototype of their class, made of `SHOTS` samples that are left out; mean of 20 draws.

    A prototype is the mean of its samples, and the nearest one by distance; or their mean direction, by the cosine.

    Example:
        >>> features = np.repeat([[3.0, 4.0], [6.0, 8.0]], 20, axis=0)  # one direction, two lengths
        >>> labels = np.repeat([0, 1], 20)
        >>> by_prototypes(features, labels, 0, by_distance=True), by_prototypes(features, labels, 0, by_distance=False)
        (100.0, 50.0)
    """
    rng, right = np.random.default_rng([seed, SHOTS]), []
    values = features if by_distance else directions(features)
    for _ in range(20):
        chosen = [rng.permutation(np.flatnonzero(labels == k))[:SHOTS] for k in range(labels.max() + 1)]
        means = np.stack([values[rows].mean(0) for rows in chosen])  # (c, d)
        prototypes = means if by_distance else directions(means)
        rest = np.setdiff1d(np.arange(len(labels)), np.concatenate(chosen))
        closeness = values[rest] @ prototypes.T - (prototypes**2).sum(1) / 2  # (m, c), largest where the distance is smallest
        right.append((closeness.argmax(1) == labels[rest]).mean())
    return 100 * float(np.mean(right))
