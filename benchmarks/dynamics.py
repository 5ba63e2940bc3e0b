"""The overhead of recording every sample's dynamics during training.

The baseline is an epoch of plain steps: forward, backward, update. The other epoch also passes each batch to the tracker, like
`hardsight train`, and writes the epoch's file at its end. The smaller the network, the larger the overhead: a step of the
8 x 8 digits network takes a millisecond or two, so Python cannot record 32 samples in a twentieth of it, and an epoch takes a
tenth of a second, a fifth of which goes to writing the file. So that network is shown without a limit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from benchmarks.pictures import open_network
from benchmarks.timing import Measurement, compared
from hardsight import Dynamics

LIMIT = 1.05  # an epoch of a ResNet-20 with dynamics over one without
DIGITS, SMALL = 1536, 512  # images per epoch
TRACKED = "with dynamics"
DIGITS_CNN, RESNET = "hardsight.models.networks:DigitsCNN", "hardsight.models.networks:cifar_resnet20"


def run(rounds: int = 5) -> list[Measurement]:
    """The digits network with batches of 32 and 128, and a ResNet-20 on 32 x 32 images."""
    cases: tuple[tuple[str, str, tuple[int, ...], int, dict[str, float]], ...] = (
        ("DigitsCNN, batches of 32", DIGITS_CNN, (DIGITS, 1, 8, 8), 32, {}),
        ("DigitsCNN, batches of 128", DIGITS_CNN, (DIGITS, 1, 8, 8), 128, {}),
        ("ResNet-20, batches of 128", RESNET, (SMALL, 3, 32, 32), 128, {TRACKED: LIMIT}),
    )
    lines: list[Measurement] = []
    for case, network, shape, batch, limits in cases:
        with tempfile.TemporaryDirectory() as folder:
            work = {"plain steps": _epoch(network, shape, batch, None), TRACKED: _epoch(network, shape, batch, Dynamics(folder))}
            lines += compared(case, work, rounds, limits, warm=True)
    return lines


def _epoch(spec: str, shape: tuple[int, ...], batch: int, tracker: Dynamics | None) -> Callable[[], object]:
    """A function that trains one epoch on synthetic images, batch by batch."""
    import torch
    import torch.nn.functional as F

    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.random(shape, np.float32)).split(batch)
    labels = np.split(rng.integers(0, 10, shape[0]), range(batch, shape[0], batch))
    ids = [[str(row) for row in range(start, start + len(y))] for start, y in zip(range(0, shape[0], batch), labels, strict=True)]
    network = open_network(spec)
    head = [layer for layer in network.modules() if isinstance(layer, torch.nn.Linear)][-1]
    seen: list[Any] = []
    head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    optimizer, epochs = torch.optim.SGD(network.parameters(), lr=0.01), count(1)
    network.train()

    def epoch() -> None:
        number = next(epochs)
        for x, y, names in zip(images, labels, ids, strict=True):
            loss = F.cross_entropy(network(x), torch.from_numpy(y))
            features = seen.pop()
            if tracker is not None:
                tracker.update(number, features, head, y, names)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if tracker is not None:
            tracker.finish(number)

    return epoch
