"""Appendix G: "AVH is slower to change compared to the embedding norm during the dynamics of adversarial training".

Each batch is replaced by FGSM images of itself from a random start (Wong et al., ICLR 2020); the same network on plain batches
is the control.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.scores import avh
from hardsight_papers.arrays import as_pixels
from hardsight_papers.context import Context
from hardsight_papers.drawing import panels, seed_curves
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.seed_statistics import SEEDS, difference, effect, interval, seeds, signed
from hardsight_papers.verdicts import DIFFERENCE

if TYPE_CHECKING:
    from torch import Tensor

EPOCHS, BATCH, RATE, EPSILON = 12, 32, 2e-3, 0.15  # pixels of 0 to 1
LEARNING = {"epochs": EPOCHS, "batch": BATCH, "rate": RATE}
SIZES = {"train": 1438, "test": 359}
TRAININGS = {"adversarial": EPSILON, "plain": 0.0}


@recipe("slides/adversarial-training", "AVH and norm during adversarial training", needs="MNIST")
def adversarial_training(context: Context) -> Outcome:
    """Mean AVH and mean norm of held-out images after each epoch, as they are and attacked."""
    written = context.handwriting(**SIZES)
    arrays = [as_pixels(data, flat=False)[:2] for data in (written.train, written.test)]
    measured: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in TRAININGS}
    for name, epsilon in TRAININGS.items():
        for seed in seeds(context):
            key = {"data": written.name, "epsilon": epsilon, "seed": seed, **LEARNING, **SIZES}
            make = partial(_trained, arrays, epsilon, seed)
            context.say(f"{name} training, seed {seed}")
            measured[name].append(context.cache.arrays("adversarial-training", key, make))
    rows: list[list[Value]] = []
    for name, runs in measured.items():
        for view in ("clean", "attacked"):
            speeds = [interval(speed(runs, f"{score}_{view}"), 3) for score in ("avh", "norm")]
            rows.append([name, view, *speeds, interval(100 * np.array([run[f"correct_{view}"][-1] for run in runs]), 1)])
    return Outcome(
        about=f"{written.name}; a small CNN, {len(written.train):,} images to train on and {len(written.test)} held out, "
        f"{EPOCHS} epochs of FGSM images with epsilon {EPSILON}, {SEEDS} seeds. Change: mean over epochs of |log of this epoch's "
        "mean over the one before|.",
        tables=[Table("Change from epoch to epoch", ("training", "images", "AVH", "norm", "accuracy (%)"), rows, words=2)],
        figures={"AVH and norm during adversarial training": _figure(measured)},
        claims=[_slower(measured, "clean"), _slower(measured, "attacked")],
    )


def speed(runs: list[dict[str, np.ndarray]], name: str) -> np.ndarray:
    """(seeds,) mean of |log ratio| from each epoch to the next.

    Example:
        >>> round(float(speed([{"norm": np.array([1.0, 2.0, 1.0])}], "norm")[0]), 4)  # doubled, then halved
        0.6931
    """
    return np.array([np.abs(np.diff(np.log(run[name]))).mean() for run in runs])


def _slower(measured: dict[str, list[dict[str, np.ndarray]]], view: str) -> Claim:
    gaps = {name: difference(speed(runs, f"norm_{view}"), speed(runs, f"avh_{view}")) for name, runs in measured.items()}
    return claim(
        f"AVH is slower to change than the norm during adversarial training ({view} images).",
        rule="The norm's change from epoch to epoch minus AVH's, in adversarial training: the 95 % interval over seeds lies "
        "above 0.",
        effects=[effect(gaps["adversarial"], DIFFERENCE)],
        found=f"{signed(gaps['adversarial'], 3)}; in plain training {signed(gaps['plain'], 3)}.",
    )


def _trained(arrays: list[tuple[np.ndarray, np.ndarray]], epsilon: float, seed: int) -> dict[str, np.ndarray]:
    """(epochs,) means of AVH, norm and correct predictions of the held-out images, clean and attacked."""
    import torch

    from hardsight.attacks import fgsm
    from hardsight.models import DigitsCNN, LeNet

    def within(moved: Tensor, pixels: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(moved, pixels - epsilon), pixels + epsilon).clamp(0, 1)

    torch.manual_seed(seed)
    (images, classes), held_out = arrays
    network = DigitsCNN() if images.shape[-1] == 8 else LeNet()
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.0)
    pixels, labels = torch.tensor(images), torch.tensor(classes)
    seen: dict[str, list[float]] = {}
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(pixels)).split(BATCH):
            batch, own = pixels[rows], labels[rows]
            if epsilon:
                start = within(batch + epsilon * (2 * torch.rand_like(batch) - 1), batch)
                batch = within(fgsm(network, start, own, 1.25 * epsilon), batch)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(batch), own).backward()
            optimizer.step()
        for name, value in _seen(network, *held_out).items():
            seen.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in seen.items()}


def _seen(network: Any, pixels: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Means over held-out images, as they are and by FGSM."""
    import torch

    from hardsight.attacks import fgsm
    from hardsight.models import open_model

    model = open_model(network, device="cpu")
    attacked = fgsm(network, torch.tensor(pixels), torch.tensor(labels), EPSILON).numpy()
    means = {}
    for view, images in (("clean", pixels), ("attacked", attacked)):
        features, logits = model(images)
        means[f"avh_{view}"] = float(np.mean(avh(features, model.head.weight, labels)))
        means[f"norm_{view}"] = float(np.linalg.norm(features, axis=1).mean())
        means[f"correct_{view}"] = float(np.mean(logits.argmax(1) == labels))
    return means


def _figure(measured: dict[str, list[dict[str, np.ndarray]]]) -> Any:
    figure, axes = panels(3, width=3.8)
    words = (("avh_clean", "AVH"), ("norm_clean", "norm"), ("correct_attacked", "accuracy on attacked images"))
    for each, (name, label) in zip(axes, words, strict=True):
        curves = {training: np.array([run[name] for run in runs]).T for training, runs in measured.items()}
        seed_curves(each, np.arange(1, EPOCHS + 1), curves, xlabel="epoch", ylabel=label)
    return figure
