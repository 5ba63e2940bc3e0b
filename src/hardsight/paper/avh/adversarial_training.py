"""Appendix G: AVH and norm while a network is trained on adversarial samples (FGSM), beside ordinary training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hardsight.geometry import angles
from hardsight.paper.context import Context
from hardsight.paper.recipe import Outcome, Table, Value, claim, recipe

EPOCHS, EPSILON = 12, 0.1  # of pixels in 0..1


@recipe("avh/adversarial-training", "AVH and norm during adversarial training (appendix G)")
def adversarial_training(context: Context) -> Outcome:
    """Digits: mean AVH and norm of held-out samples after each epoch, with and without FGSM in training."""
    key = {"epochs": EPOCHS, "epsilon": EPSILON, "seed": context.seed}
    found = context.cache.arrays(
        "adversarial-training", key, lambda: {name: _train(value, context.seed) for name, value in KINDS}
    )
    rows: list[list[Value]] = []
    for name, _ in KINDS:
        curves = found[name]  # (epochs, 3) AVH, norm, accuracy
        changes = _changes(curves)
        rows.append([name, *curves[0].tolist(), *curves[-1].tolist(), *changes])
    of_avh, of_norm = _changes(found["adversarial"])
    header = ("training", "AVH, first", "norm, first", "accuracy, first", "AVH, last", "norm, last", "accuracy, last")
    return Outcome(
        about=f"Digits, a small CNN, {EPOCHS} epochs; every training batch moved by {EPSILON} along the sign of its "
        "gradient. Held-out, not attacked.",
        tables=[
            Table(
                "Held-out means, and mean relative change per epoch", (*header, "change of AVH", "change of norm"), rows, digits=4
            )
        ],
        claims=[
            claim(
                "During adversarial training AVH changes more slowly than the norm.",
                rule="The mean absolute relative change from epoch to epoch is smaller for AVH than for the norm.",
                holds=of_avh < of_norm,
                found=f"{100 * of_avh:.1f} % an epoch against {100 * of_norm:.1f} %.",
            )
        ],
    )


KINDS = (("ordinary", 0.0), ("adversarial", EPSILON))


def _changes(curves: np.ndarray) -> list[float]:
    """Mean absolute relative change per epoch of AVH and of the norm."""
    return np.abs(np.diff(curves[:, :2], axis=0) / curves[:-1, :2]).mean(0).tolist()


def _train(epsilon: float, seed: int) -> np.ndarray:
    """(epochs, 3) mean AVH, norm and accuracy of held-out digits after each epoch."""
    import torch
    from torch.nn import functional as F

    from hardsight.data.digits import TEST_EVERY, load_digits
    from hardsight.models.digits import DigitsCNN

    images, labels = load_digits()
    inputs, targets = torch.tensor(images[:, None] / np.float32(255), dtype=torch.float32), torch.tensor(labels)
    held_out = np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = DigitsCNN()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    curves = []
    for _ in range(EPOCHS):
        for rows in _batches(rng.permutation(np.flatnonzero(~held_out))):
            batch = inputs[rows].clone().requires_grad_()
            if epsilon:
                (gradient,) = torch.autograd.grad(F.cross_entropy(model(batch), targets[rows]), batch)
                batch = (batch + epsilon * gradient.sign()).clamp(0, 1).detach()
            optimizer.zero_grad()
            F.cross_entropy(model(batch), targets[rows]).backward()
            optimizer.step()
        curves.append(_look(model, inputs[held_out], labels[held_out]))
    return np.array(curves)


def _batches(order: np.ndarray, size: int = 32) -> Iterator[np.ndarray]:
    yield from np.array_split(order, -(-len(order) // size))


def _look(model: Any, inputs: Any, labels: np.ndarray) -> list[float]:
    import torch

    with torch.no_grad():
        features = model.trunk(inputs).numpy()
        predicted = model(inputs).argmax(1).numpy()
        theta = angles(features, model.head.weight.numpy())  # (n, c)
    avh = theta[np.arange(len(labels)), labels] / theta.sum(1)
    return [float(avh.mean()), float(np.linalg.norm(features, axis=1).mean()), float((predicted == labels).mean())]
