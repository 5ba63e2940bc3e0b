"""Appendix G: negative mining in metric learning depends on how hardness is defined, and "AVH can be potentially useful".

A triplet's negative is chosen among samples that are drawn for its anchor, the same for both definitions: the one at the
smallest angle to the anchor, or the one with the lowest AVH for the anchor's class (directions of class means in the batch stand
for class vectors). The positive likewise, at the other end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight_papers.arrays import as_pixels
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import all_digits
from hardsight_papers.drawing import seed_dots_figure
from hardsight_papers.recipe import Claim, Outcome, Table, recipe
from hardsight_papers.seed_statistics import SEEDS, ahead, interval, seeds

if TYPE_CHECKING:
    from torch import Tensor, nn

EPOCHS, RATE, DRAWN = 10, 1e-3, 3  # samples drawn of each class
SIZES = {"trained": 120, "tested": 50, "batch": 20}  # images of each class
LABEL = "MAP@R of classes never seen (%)"
MINING = ("random", "hard by angle", "hard by AVH")


@recipe("slides/metric-learning", "Hard triplets by AVH and by angle: retrieval of unseen classes", needs="MNIST")
def metric_learning(context: Context) -> Outcome:
    """MAP@R of five classes never seen, after a triplet loss on the five others with each kind of triplet."""
    found = {mining: np.array([_ranked(context, mining, seed) for seed in seeds(context)]) for mining in MINING}
    name = "MNIST" if context.data.has("mnist") else "digits"
    return Outcome(
        about=f"{name}; an embedding of 64 numbers by the triplet loss, {EPOCHS} epochs on {SIZES['trained']} images of each of "
        f"five classes, batches of {SIZES['batch']} of each; {SIZES['tested']} images of each of the five others are ranked. "
        f"{SEEDS} seeds, each with its own classes. Hard: the hardest of {DRAWN} samples drawn of each class, the same for both.",
        tables=[Table("MAP@R (%) [95 %]", ("triplets", "classes never seen"), [(k, interval(v)) for k, v in found.items()])],
        figures={"Ranking images of classes never seen": seed_dots_figure({"": found}, LABEL, width=5.2, height=2.6)},
        claims=[
            _better(found, "hard by angle", "AVH is a more useful hardness for mining than the angle between two samples."),
            _better(found, "random", "Mining hard triplets by AVH improves the embedding."),
        ],
        commands=["hardsight mine run -k 10 -o triplets.parquet"],
    )


def _better(found: dict[str, np.ndarray], other: str, sentence: str) -> Claim:
    rule = f"MAP@R of classes never seen, hard by AVH minus {other}: the 95 % interval over seeds lies above 0."
    return ahead(sentence, found["hard by AVH"], found[other], rule=rule)


def _ranked(context: Context, mining: str, seed: int) -> float:
    """Per cent, of one training."""
    data = all_digits(context)
    labels, rng = data.labels, np.random.default_rng([context.seed, seed])
    assert labels is not None
    classes = rng.permutation(10)
    rows = [
        np.concatenate([rng.permutation(np.flatnonzero(labels == k))[: SIZES[size]] for k in part])
        for part, size in ((classes[:5], "trained"), (classes[5:], "tested"))
    ]
    key = {"data": data.fingerprint(), "mining": mining, "seed": [context.seed, seed], "drawn": DRAWN, **SIZES}
    key |= {"epochs": EPOCHS, "rate": RATE}
    context.say(f"triplets, {mining}, seed {seed}")

    def make() -> dict[str, np.ndarray]:
        train, test = (as_pixels(data.take(part), flat=False)[:2] for part in rows)
        return {"map": np.array(map_at_r(_embedded(mining, *train, test[0], seed), test[1]))}

    return 100 * float(context.cache.arrays("metric-learning", key, make)["map"])


def map_at_r(features: np.ndarray, labels: np.ndarray) -> float:
    """Mean precision of the R nearest, at each right one; R is the number of other samples of the class.

    Example:
        >>> map_at_r(np.array([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1]]), np.array([0, 0, 1, 1]))
        1.0
    """
    unit = features / np.linalg.norm(features, axis=1, keepdims=True).clip(1e-12)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    r = int(np.bincount(labels).max()) - 1
    nearest = np.argsort(-cosine, axis=1)[:, :r]
    right = labels[nearest] == labels[:, None]  # (n, r)
    precision = np.cumsum(right, axis=1) / np.arange(1, r + 1)
    return float((precision * right).sum(1).mean() / r)


def _embedded(mining: str, pixels: np.ndarray, labels: np.ndarray, others: np.ndarray, seed: int) -> np.ndarray:
    """(n, 64) embeddings of other images, after a training on triplets."""
    import torch

    from hardsight.losses import TripletLoss

    torch.manual_seed(seed)
    network, loss = _network(pixels.shape[-1]), TripletLoss(mining=MINERS[mining])
    optimizer, rng = torch.optim.Adam(network.parameters(), RATE), np.random.default_rng(seed)
    x, y = torch.tensor(pixels), torch.tensor(labels)
    members = [np.flatnonzero(labels == k) for k in np.unique(labels)]
    for _ in range(EPOCHS):
        orders = [rng.permutation(rows) for rows in members]
        for start in range(0, SIZES["trained"], SIZES["batch"]):
            batch = np.concatenate([order[start : start + SIZES["batch"]] for order in orders])
            optimizer.zero_grad()
            loss(network(x[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return np.asarray(network.eval()(torch.tensor(others)).numpy())


def _network(side: int) -> nn.Module:
    """The small CNNs of the other recipes up to their 64 features, without a ReLU after them: an angle may be any."""
    from torch import nn

    from hardsight.models import DigitsCNN, LeNet

    return nn.Sequential(*list(DigitsCNN().trunk)[:-1]) if side == 8 else LeNet(num_features=64, relu=False).trunk


def _drawn(farness: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of some samples of the anchor's class that are drawn the farthest, of as many of each other class the nearest."""
    import torch

    far, same = farness(features, labels), labels[:, None] == labels  # (n, n) each
    draw = torch.rand(len(labels), len(labels))
    itself = torch.eye(len(labels), dtype=torch.bool)
    own = draw.masked_fill(~same | itself, -1).topk(DRAWN, dim=1).indices  # (n, 3)
    other = draw.masked_fill(same, -1).topk(DRAWN * (len(labels.unique()) - 1), dim=1).indices
    positive = own.gather(1, far.gather(1, own).argmax(1, keepdim=True))[:, 0]
    negative = other.gather(1, far.gather(1, other).argmin(1, keepdim=True))[:, 0]
    return torch.arange(len(labels)), positive, negative


def by_chance(features: Tensor, labels: Tensor) -> Tensor:
    """(anchor, sample) random numbers: the triplets of one that does not look."""
    import torch

    return torch.rand(len(labels), len(labels))


def _cosines(features: Tensor, vectors: Tensor) -> Tensor:
    """(n, d), (c, d) -> (n, c)"""
    return features * (1 / features.norm(dim=1, keepdim=True)) @ vectors.T * (1 / vectors.norm(dim=1))


def angle_to_anchor(features: Tensor, labels: Tensor) -> Tensor:
    """(anchor, sample) angle between the two."""
    return _cosines(features, features).clamp(-1, 1).acos()


def avh_for_anchor(features: Tensor, labels: Tensor) -> Tensor:
    """(anchor, sample) AVH of the sample for the class of the anchor, with directions of class means as class vectors."""
    import torch

    classes, place = labels.unique(return_inverse=True)
    unit = torch.nn.functional.normalize(features)
    mean = torch.stack([unit[place == k].mean(0) for k in range(len(classes))])  # (c, d)
    angle = _cosines(features, mean).clamp(-1, 1).acos()  # (n, c)
    return (angle / angle.sum(1, keepdim=True))[:, place].T


MINERS: dict[str, Any] = {
    "random": partial(_drawn, by_chance),
    "hard by angle": partial(_drawn, angle_to_anchor),
    "hard by AVH": partial(_drawn, avh_for_anchor),
}
