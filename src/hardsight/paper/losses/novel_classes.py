"""Hyperspherical embeddings: classes never seen, from a few samples, with normalised softmax and with metric learning.

"Hyperspherical embedding for novel class classification", arXiv:2102.03243. Its constraint term is not part of ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.paper.context import Context
from hardsight.paper.losses.drawing import panels, seed_dots
from hardsight.paper.losses.few_digits import difference, interval, seeds, signed
from hardsight.paper.losses.known_and_new import KNOWN, about_seeds, features_of, known_and_new, trained_on_known
from hardsight.paper.recipe import Outcome, Table, claim, recipe

LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "normalised softmax": ("normalized_softmax", {}),
    "softmax": ("softmax", {}),
    "triplet": ("triplet", {"weight": 1.0}),
    "contrastive": ("contrastive", {"weight": 1.0}),
}
METRIC = ("triplet", "contrastive")
SHOTS = 5
SCENARIOS = ("disjoint", "joint")


@recipe("losses/novel-classes", "Classes never seen, from a few samples: normalised softmax and metric learning")
def novel_classes(context: Context) -> Outcome:
    """Five samples of each class make its direction; `disjoint` chooses among the new classes, `joint` among all ten."""
    found: dict[str, dict[str, np.ndarray]] = {name: {} for name in SCENARIOS}
    for name, (loss, options) in LOSSES.items():
        cells = np.array([by_scenario(context, loss, options, seed) for seed in seeds(context)])  # (seeds, 2)
        for k, scenario in enumerate(SCENARIOS):
            found[scenario][name] = cells[:, k]
    gaps = {
        (scenario, other): difference(found[scenario]["normalised softmax"], found[scenario][other])
        for scenario in SCENARIOS
        for other in METRIC
    }
    figure, axes = panels(2)
    for each, scenario in zip(axes, SCENARIOS, strict=True):
        seed_dots(each, found[scenario], "accuracy (%)", f"{scenario}: among {'6 to 9' if scenario == 'disjoint' else '0 to 9'}")
    rows = [(name, *(interval(found[scenario][name]) for scenario in SCENARIOS)) for name in LOSSES]
    return Outcome(
        about=about_seeds(context)
        + f" A class is the direction of {SHOTS} samples. Triplet and contrastive loss are added to softmax with weight 1.",
        tables=[Table("Accuracy (%) on images of new classes, and of all [95 %]", ("loss", *SCENARIOS), rows)],
        figures={"Classes never seen": figure},
        claims=[
            claim(
                "Normalised softmax classifies unseen classes better than metric learning, by a significant margin.",
                rule="In both scenarios the 95 % interval over seeds of its accuracy less that of triplet and of contrastive "
                "loss lies above 0.",
                holds=all(gap.low > 0 for gap in gaps.values()),
                found="; ".join(f"{scenario}, {other} {signed(gap)}" for (scenario, other), gap in gaps.items()) + " points.",
            )
        ],
        commands=["hardsight train digits --model DigitsCNN --loss normalized_softmax -o run"],
    )


def by_scenario(context: Context, loss: str, options: dict[str, Any], seed: int) -> list[float]:
    """Accuracy in per cent among the new classes, and among all, of samples that made no prototype."""
    run = trained_on_known(context, loss, options, seed)
    known, new = known_and_new(context)
    seen = np.arange(1, len(known), 2)  # those not trained on
    x, y = features_of(context, run, known.take(seen))
    z, digit = features_of(context, run, new)
    return [by_prototypes(z, digit, seed), by_prototypes(np.concatenate([x, z]), np.concatenate([y, digit + KNOWN]), seed)]


def by_prototypes(features: np.ndarray, labels: np.ndarray, seed: int) -> float:
    """Per cent right by the cosine to prototypes of `SHOTS` samples per class, mean of 20 draws; those samples are left out."""
    import torch

    from hardsight.losses import cosine_prototypes

    rng, right = np.random.default_rng([seed, SHOTS]), []
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    for _ in range(20):
        chosen = np.concatenate([rng.permutation(np.flatnonzero(labels == k))[:SHOTS] for k in range(labels.max() + 1)])
        prototypes = cosine_prototypes(torch.from_numpy(features[chosen]), torch.from_numpy(labels[chosen])).numpy()
        rest = np.setdiff1d(np.arange(len(labels)), chosen)
        right.append(((unit[rest] @ prototypes.T).argmax(1) == labels[rest]).mean())
    return 100 * float(np.mean(right))
