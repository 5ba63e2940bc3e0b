"""Pair losses: by hand, by a loop, against torch and pytorch-metric-learning."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from batches import batch

from hardsight.losses import contrastive_loss, icnn_loss, icnn_scores, proto_triplet_loss, triplet_loss
from hardsight.losses.proto_triplet import batch_prototypes
from oracles import on_circle


def test_contrastive_against_a_loop() -> None:
    x, y = batch(n=12, d=5, c=3)
    x /= 3
    expected = []
    for i, j in itertools.combinations(range(12), 2):
        d = math.dist(x[i].tolist(), x[j].tolist())
        expected.append(0.5 * d**2 if y[i] == y[j] else 0.5 * max(0.0, 1.2 - d) ** 2)
    got = contrastive_loss(x, y, margin=1.2, reduction="none")
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))


def test_contrastive_far_from_the_origin() -> None:
    x, y = batch(n=12, d=5, c=3)
    torch.testing.assert_close(contrastive_loss((x + 1000).float(), y).double(), contrastive_loss(x, y), rtol=1e-3, atol=0)


def test_triplet_against_a_loop() -> None:
    x, y = batch(n=12, d=5, c=3)
    unit = F.normalize(x)
    every, semihard = [], []
    for a, p in itertools.permutations(range(12), 2):
        if y[a] != y[p]:
            continue
        to_p = math.dist(unit[a].tolist(), unit[p].tolist()) ** 2
        to_n = [math.dist(unit[a].tolist(), unit[n].tolist()) ** 2 for n in range(12) if y[n] != y[a]]
        every += [max(0.0, to_p - d + 0.2) for d in to_n]
        inside = [d for d in to_n if to_p < d < to_p + 0.2]
        semihard += [to_p - min(inside) + 0.2] if inside else []
    assert float(triplet_loss(x, y)) == pytest.approx(sum(every) / len(every))
    assert 0 < len(semihard) < 36  # some pairs have none
    assert float(triplet_loss(x, y, mining="semihard")) == pytest.approx(sum(semihard) / len(semihard))


def test_semihard_negatives_by_hand() -> None:
    """Squared distances of unit vectors are 2 - 2 cos. One positive at 60 degrees (distance 1), margin 0.5: of negatives at
    30 (nearer), 75, 70 and 110 degrees (beyond the margin), the one at 70 counts. From the positive they are at 30, 15, 10
    and 50 degrees, all nearer than the anchor: no triplet, and no other negative in its place."""
    x = torch.from_numpy(on_circle(0, 60, 30, 75, 70, 110))
    labels = torch.tensor([0, 0, 1, 2, 3, 4])
    losses = triplet_loss(x, labels, margin=0.5, mining="semihard", reduction="none")
    torch.testing.assert_close(losses, torch.tensor([1 - (2 - 2 * math.cos(math.radians(70))) + 0.5], dtype=torch.float64))


def test_triplet_against_pytorch_metric_learning() -> None:
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.reducers import MeanReducer

    x, y = batch(n=12, d=5, c=3)
    peer: Any = peers.TripletMarginLoss(margin=0.2, distance=LpDistance(power=2), reducer=MeanReducer())
    torch.testing.assert_close(triplet_loss(x, y), peer(x, y), rtol=1e-5, atol=1e-6)


def test_no_pair_and_no_triplet_is_no_loss() -> None:
    x, y = batch(n=3, d=5, c=3)
    x.requires_grad_()
    for value in (
        contrastive_loss(x[:1], torch.tensor([0])),
        triplet_loss(x, torch.tensor([0, 1, 2])),
        triplet_loss(x, torch.tensor([0, 0, 0])),
        triplet_loss(x, torch.tensor([0, 0, 1]), mining="semihard", margin=1e-9),
        *(loss(x[:0], y[:0], mining=mining) for loss in (triplet_loss, contrastive_loss) for mining in ("all", "hard")),
    ):
        value.backward()
        assert float(value.detach()) == 0 and x.grad is not None and (x.grad == 0).all()


def test_proto_triplet_by_hand() -> None:
    prototypes = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 8.0]])
    x = torch.tensor([[1.0, 0.0], [1.4, 0.0], [0.0, 0.0]])
    got = proto_triplet_loss(x, prototypes, torch.tensor([0, 0, 1]), reduction="none")
    torch.testing.assert_close(got, torch.tensor([0.0, 0.3, 3.5]))  # 1 - 2 + .5; 1.4 - 1.6 + .5; 3 - 0 + .5


def test_batch_prototypes_are_class_means() -> None:
    x, y = batch(n=12, d=5, c=3)
    prototypes, place = batch_prototypes(x, y * 10)
    for k, label in enumerate(y.unique()):
        torch.testing.assert_close(prototypes[k], x[y == label].mean(0))
    assert torch.equal(y.unique()[place], y)


def test_icnn_against_a_loop() -> None:
    x, y = batch(n=12, d=5, c=3)
    expected = []
    for i in range(12):
        others = sorted((math.dist(x[i].tolist(), x[j].tolist()), j) for j in range(12) if j != i)
        others, far = others[:4], others[-1][0]
        same = [bool(y[j] == y[i]) for _, j in others]
        closeness = sum(1 - d / far if s else d / far for (d, _), s in zip(others, same, strict=True)) / 4
        expected.append((sum(same) / 4 + closeness) / 2)
    scores = icnn_scores(x, y, neighbors=4)
    torch.testing.assert_close(scores, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(icnn_loss(x, y, neighbors=4), -scores.clamp_min(1e-6).log().mean())


def test_icnn_prefers_separated_classes() -> None:
    x, y = batch(n=60, d=5, c=3)
    apart = x + 20 * F.one_hot(y, 5)
    assert icnn_scores(apart, y).mean() > icnn_scores(x, y).mean() + 0.2
