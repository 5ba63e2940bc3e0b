"""Mining against the bare products it needs, an index, and a SupCon step against a peer."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import Measurement, blockwise_product, compared
from hardsight import mine

FEATURES, CLASSES, K = 128, 100, 10
MINE_LIMIT = {"hardsight mine": 1.3}
SUPCON_LIMIT = {"SupConLoss": 1.2}
BATCHES = (256, 1024)


def run(n: int = 100_000, rounds: int = 1) -> list[Measurement]:
    """The 10 nearest of other classes among n samples of 128 features and 100 classes; an index's recall; a step of SupCon."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, n)
    features = rng.standard_normal((n, FEATURES), np.float32)
    features += 0.7 * rng.standard_normal((CLASSES, FEATURES), np.float32)[labels]
    work = {
        "bare product, by blocks": lambda: blockwise_product(features),
        "hardsight mine": lambda: mine(features=features, labels=labels, k=K),
    }
    lines = compared(f"top {K} of {n} x {FEATURES}", work, rounds, MINE_LIMIT)
    return lines + _index(features, labels) + _supcon(rounds)


def _index(features: np.ndarray, labels: np.ndarray) -> list[Measurement]:
    """Recall of the index on the first tenth of the samples, if it is installed."""
    if importlib.util.find_spec("usearch") is None:
        return []
    few = max(1000, len(labels) // 10)
    recall = mine(features=features[:few], labels=labels[:few], k=K, search="usearch").recall or 0.0
    return [Measurement(f"index of {min(few, len(labels))} samples", "usearch", 100 * recall, "% recall")]


def _supcon(rounds: int) -> list[Measurement]:
    """Forward and backward on a batch, against pytorch-metric-learning if installed."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("pytorch_metric_learning") is None:
        return []
    import torch
    from pytorch_metric_learning.losses import SupConLoss as Peer

    from hardsight.losses import SupConLoss

    lines: list[Measurement] = []
    for batch in BATCHES:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(batch, FEATURES, generator=generator, requires_grad=True)
        y = torch.randint(0, 10, (batch,), generator=generator)
        losses = {"pytorch-metric-learning: SupConLoss": Peer(), "SupConLoss": SupConLoss()}
        work = {name: partial(_step, loss, x, y) for name, loss in losses.items()}
        lines += compared(f"step, batch of {batch}", work, max(rounds, 3), SUPCON_LIMIT, warm=True)
    return lines


def _step(loss: Any, x: Any, y: Any) -> None:
    x.grad = None
    loss(x, y).backward()
