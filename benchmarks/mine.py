"""`python -m benchmarks mine`: mining against the bare products it needs, an index, and a SupCon step against a peer."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import Measurement, compared
from hardsight.scores.search import SIDE
from hardsight.subsets.mine import mine
from hardsight.threads import num_workers, share

FEATURES, CLASSES, K = 128, 100, 10
MINE_LIMIT = {"hardsight mine": 1.3}
SUPCON_LIMIT = {"SupConLoss": 1.2}
BARE, PEER = "bare product, by blocks", "pytorch-metric-learning: SupConLoss"
BATCHES = (256, 1024)


def run(n: int, rounds: int) -> list[Measurement]:
    """The k = 10 nearest of other classes among n samples; the recall of an index; a step of SupCon."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, n)
    features = rng.standard_normal((n, FEATURES), np.float32)
    features += 0.7 * rng.standard_normal((CLASSES, FEATURES), np.float32)[labels]
    work: dict[str, Callable[[], object]] = {
        BARE: lambda: bare_product(features),
        "hardsight mine": lambda: mine(features=features, labels=labels, k=K),
    }
    lines = compared(f"top {K} of {n} x {FEATURES}", work, rounds, BARE, MINE_LIMIT)
    return lines + _index(features, labels) + _supcon(rounds)


def bare_product(x: np.ndarray) -> None:
    """x @ x.T in blocks that are discarded, on the same threads."""
    memory = [np.empty((SIDE, SIDE), np.float32) for _ in range(num_workers(np))]

    def work(corner: tuple[int, int]) -> None:
        rows, columns = (x[start : start + SIDE] for start in corner)
        buffer = memory.pop()
        np.matmul(rows, columns.T, out=buffer.reshape(-1)[: len(rows) * len(columns)].reshape(len(rows), len(columns)))
        memory.append(buffer)

    share(work, [(i, j) for i in range(0, len(x), SIDE) for j in range(0, len(x), SIDE)])


def _index(features: np.ndarray, labels: np.ndarray) -> list[Measurement]:
    """Recall on the first tenth of the samples with each installed index."""
    few = max(1000, len(labels) // 10)
    lines = []
    for package in ("usearch", "faiss"):
        if importlib.util.find_spec(package) is not None:
            recall = mine(features=features[:few], labels=labels[:few], k=K, search=package).recall or 0.0
            lines.append(Measurement(f"index of {min(few, len(labels))} samples", package, 100 * recall, "% recall"))
    return lines


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

        def step(loss: Any, x: Any = x, y: Any = y) -> None:
            x.grad = None
            loss(x, y).backward()

        ours, peer = SupConLoss(), Peer()
        work: dict[str, Callable[[], object]] = {
            PEER: lambda step=step, peer=peer: step(peer),  # type: ignore[misc]
            "SupConLoss": lambda step=step, ours=ours: step(ours),  # type: ignore[misc]
        }
        for function in work.values():
            function()  # warm
        lines += compared(f"step, batch of {batch}", work, max(rounds, 3), PEER, SUPCON_LIMIT)
    return lines
