"""The supervised contrastive loss: by hand, against pytorch-metric-learning, where it could break, and in a training."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from batches import batch
from torch import Tensor

from hardsight.losses import SupConLoss, info_nce_loss, supcon_loss
from hardsight.training.objective import Objective
from oracles import on_circle


def test_by_a_loop() -> None:
    x, y = torch.from_numpy(on_circle(0, 50, 80, 170, 200)), [0, 0, 1, 0, 2]
    s = {(i, j): math.exp(math.cos(math.radians(a - b)) / 0.5) for (i, a), (j, b) in
         itertools.product(enumerate((0, 50, 80, 170, 200)), repeat=2)}  # fmt: skip
    expected = []
    for i in (0, 1, 3):  # the others are alone in their class
        positives = [p for p in range(5) if p != i and y[p] == y[i]]
        total = sum(s[i, a] for a in range(5) if a != i)
        expected.append(-sum(math.log(s[i, p] / total) for p in positives) / len(positives))
    got = supcon_loss(x, torch.tensor(y), temperature=0.5, reduction="none")
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
def test_against_pytorch_metric_learning(temperature: float) -> None:
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    x, y = batch(n=24, d=6, c=4)
    y[0] = 99  # without a positive: no anchor in either
    values = []
    for loss in (SupConLoss(temperature=temperature), peers.SupConLoss(temperature=temperature)):
        leaf = x.clone().requires_grad_()
        loss(leaf, y).backward()
        values.append((loss(leaf, y).detach(), leaf.grad))
    torch.testing.assert_close(values[0], values[1])
    two = peers.NTXentLoss(temperature=temperature)(x, torch.arange(12).repeat(2))
    torch.testing.assert_close(info_nce_loss(x[:12], x[12:], temperature=temperature), two)


def edge_case(name: str) -> tuple[Tensor, Tensor]:
    x, y = batch(n=8, d=6, c=3)
    cases = {
        "one class": (x, 0 * y),
        "no positive": (x, torch.arange(8)),
        "equal": (torch.ones_like(x), y),
        "zero": (x * (torch.arange(8) > 2)[:, None], y),
        "opposite": (torch.cat([x[:4], -x[:4]]), y),
        "one sample": (x[:1], y[:1]),
        "huge": (1e3 * x, y),
        "tiny": (1e-2 * x, y),  # a gradient of 1 / |x| / T must still fit into float16
    }
    return cases[name]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["one class", "no positive", "equal", "zero", "opposite", "one sample", "huge", "tiny"])
def test_gradients_are_finite(name: str, dtype: Any) -> None:
    x, y = edge_case(name)
    x = x.to(dtype).requires_grad_()
    value = supcon_loss(x, y, temperature=0.01)
    value.backward()
    assert value.isfinite() and x.grad is not None and x.grad.isfinite().all()
    assert (value == 0) == (name in ("no positive", "one sample"))


def test_a_projection_learns_and_is_dropped() -> None:
    x, y = batch(n=24, d=6, c=3)
    objective = Objective("supcon", 6, 3, 24, {"projection": 4, "temperature": 0.2})
    value = objective(x.float(), y, torch.arange(24))
    value.backward()
    assert objective.extra is not None and objective.pair_weight == 1
    assert all(p.grad is not None and p.grad.isfinite().all() for p in objective.parameters())
    assert any(name.startswith("extra.projection") for name in objective.state_dict())  # checkpoints have it
    assert objective.loss.extra_state() == {} and objective.classes.head.num_features == 6


def test_train_with_supcon(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    import hardsight

    options: Any = {"loss": "supcon", "loss_options": {"projection": 4}, "epochs": 1, "limit": 40}
    run = hardsight.train("digits", tmp_path / "run", model="DigitsCNN", watch={}, **options).run
    assert not (run / "loss.safetensors").exists() and (run / "head.safetensors").exists()
