"""Cross-entropy on images attacked by PGD: the adversarial training that another one is compared with.

Madry et al., "Towards Deep Learning Models Resistant to Adversarial Attacks", ICLR 2018. Network, optimizer, rate, batches and
epochs are those of the other trainings here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight_papers.arrays import as_pixels
from hardsight_papers.context import Context, Handwriting, fingerprint
from hardsight_papers.digit_trainings import TRAINING

if TYPE_CHECKING:
    from torch import Tensor, nn

WEIGHT_DECAY = 5e-4  # of `hardsight.train` by default


def trained_on_attacks(context: Context, digits: Handwriting, search: Mapping[str, Any], seed: int) -> nn.Module:
    """A network trained on attacked images; `search` has the radius of the ball, the step in it and the number of steps."""
    import torch

    key = {"data": fingerprint(digits.train), "model": digits.model, "search": dict(search), "seed": seed, **TRAINING}
    context.say(f"training {digits.model} on attacked images, seed {seed}")
    weights = context.cache.arrays("train-on-attacks", key, lambda: _trained(digits, search, seed))
    network = _network(digits.model)
    network.load_state_dict({name: torch.tensor(values) for name, values in weights.items()})
    return network.eval()


def logits_of_pixels(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """(b, 1, h, w) pixels of 0 to 1 -> (b, c) logits."""
    preprocessing = getattr(network, "preprocessing", None)
    mean, std = (0.0, 1.0) if preprocessing is None else (preprocessing.mean[0], preprocessing.std[0])

    def logits_of(images: Tensor) -> Tensor:
        logits: Tensor = network((images - mean) / std)
        return logits

    return logits_of


def _network(name: str) -> nn.Module:
    from hardsight.models import DigitsCNN, LeNet

    return DigitsCNN() if name == "DigitsCNN" else LeNet()


def _trained(digits: Handwriting, search: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """The weights by name after the last epoch."""
    import torch

    from hardsight.attacks import pgd

    torch.manual_seed(seed)
    network, (values, classes, _) = _network(digits.model), as_pixels(digits.train, flat=False)
    pixels, labels = torch.from_numpy(values), torch.from_numpy(np.asarray(classes))
    groups: list[dict[str, Any]] = [  # matrices and filters decay, as in every training here
        {"params": [p for p in network.parameters() if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in network.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer, logits_of = torch.optim.AdamW(groups, lr=TRAINING["lr"]), logits_of_pixels(network)
    steps, step = -(-len(pixels) // TRAINING["batch_size"]), 0
    for _ in range(TRAINING["epochs"]):
        for rows in torch.randperm(len(pixels)).split(TRAINING["batch_size"]):
            noise = 2 * torch.rand_like(pixels[rows]) - 1
            attacked = pgd(logits_of, pixels[rows], labels[rows], search["radius"], steps=search["steps"],
                           step_size=search["step"], noise=noise)  # fmt: skip
            for group in optimizer.param_groups:
                group["lr"] = TRAINING["lr"] * 0.5 * (1 + math.cos(math.pi * step / (TRAINING["epochs"] * steps)))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits_of(attacked), labels[rows]).backward()
            optimizer.step()
            step += 1
    return {name: x.numpy() for name, x in network.state_dict().items()}
