"""Forward and backward of each head against `nn.Linear` with cross-entropy, and against peers."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from benchmarks.timing import Measurement, compared, extra_memory, in_fresh_process
from hardsight import losses

BATCH, FEATURES = 256, 512
CLASSES = (1000, 10000, 100000)
BASELINE = "torch: nn.Linear + cross-entropy"
TIME_LIMIT = {"AVHLoss": 1.35, "NormFaceLoss": 1.5, "CosFaceLoss": 1.5, "ArcFaceLoss": 1.5, "LGMLoss per class": 3.0}
MEMORY_LIMIT = {"AVHLoss": 1.1}
PEERS = ("NormalizedSoftmaxLoss", "CosFaceLoss", "ArcFaceLoss")


def run(rounds: int = 7) -> list[Measurement]:
    """Times for each number of classes, then memory; peers if installed."""
    lines: list[Measurement] = []
    for c in CLASSES:
        work = {name: _step(name, c) for name in _names()}
        lines += compared(f"time, c = {c}", work, rounds, TIME_LIMIT, warm=True)
        del work
    return lines + _memory()


def _names() -> list[str]:
    """What to measure, the baseline first."""
    ours = ["AVHLoss", "NormFaceLoss", "CosFaceLoss", "ArcFaceLoss", "LGMLoss identity", "LGMLoss per class"]
    peers = [f"pytorch-metric-learning: {name}" for name in PEERS] if importlib.util.find_spec("pytorch_metric_learning") else []
    return [BASELINE, *ours, "AVH, straightforward", *peers]


def _step(name: str, c: int) -> Callable[[], object]:
    """One forward and backward pass, to features and class vectors."""
    import torch

    generator = torch.Generator().manual_seed(0)
    features = torch.randn(BATCH, FEATURES, generator=generator, requires_grad=True)
    labels = torch.randint(0, c, (BATCH,), generator=generator)
    loss, parameters = _loss(name, c)

    def step() -> None:
        for tensor in (features, *parameters):
            tensor.grad = None
        loss(features, labels).backward()

    return step


def _loss(name: str, c: int) -> tuple[Callable[[Any, Any], Any], list[Any]]:
    """The loss as a function of (features, labels), and its parameters."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    if name == BASELINE:
        linear = torch.nn.Linear(FEATURES, c)
        return lambda x, y: F.cross_entropy(linear(x), y), list(linear.parameters())
    if name == "AVH, straightforward":
        weight = torch.nn.Parameter(torch.randn(c, FEATURES))
        edge = 1 - 1e-6

        def straightforward(x: Any, y: Any) -> Any:
            cosine = F.linear(F.normalize(x), F.normalize(weight))
            return F.cross_entropy(-10 * torch.acos(cosine.clamp(-edge, edge)), y)

        return straightforward, [weight]
    if name.startswith("pytorch-metric-learning: "):
        kind = getattr(importlib.import_module("pytorch_metric_learning.losses"), name.split(": ")[1])
        module = kind(num_classes=c, embedding_size=FEATURES)
    else:
        word, _, covariance = name.partition(" ")
        options = {"covariance": covariance.replace(" ", "_")} if covariance else {}
        module = getattr(losses, word)(FEATURES, c, **options)
    return module, list(module.parameters())


def _memory() -> list[Measurement]:
    """Additional memory on top of parameters and batch."""
    lines = []
    for c in CLASSES[1:]:
        measured = {name: in_fresh_process(_extra_memory, name, c) for name in _names()}
        used = {name: megabytes for name, megabytes in measured.items() if megabytes is not None}
        lines += [
            Measurement(f"extra memory, c = {c}", name, value, "MB", value / used[BASELINE], MEMORY_LIMIT.get(name))
            for name, value in used.items()
        ]
    return lines


def _extra_memory(name: str, c: int) -> float | None:
    _step(name, 10)()  # warm up, so that libraries, threads and their buffers are not counted
    return extra_memory(_step(name, c))
