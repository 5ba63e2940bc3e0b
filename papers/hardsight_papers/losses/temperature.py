"""The temperature of the contrastive loss: uniformity, tolerance, and features for classification; no labels in training.

Wang and Liu, "Understanding the Behavior of Contrastive Loss", CVPR 2021.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight import Snapshot
from hardsight.dynamics import tolerance, uniformity
from hardsight.scoring import fit_head
from hardsight.stats import mean_interval
from hardsight_papers.arrays import as_pixels, directions, of_split
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import TRAINING, few_digits, unconverged
from hardsight_papers.drawing import panels, seed_curves
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect, interval
from hardsight_papers.verdicts import DIFFERENCE, POINTS

TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0)
SEEDS = 3
VIEWS = 4
LEARNING: dict[str, Any] = {**TRAINING, "epochs": 50, "batch_size": 300, "snapshot": True}  # as many steps as the others: 200
WEIGHT = 100.0  # beside cross-entropy over images, which `train` adds to every pair loss
HARDEST = 0.01  # of the negatives
MEASURES = {"uniformity": "uniformity (low: even)", "tolerance": "tolerance", "hard": "penalty on the hardest 1 %",
            "accuracy": "accuracy of a linear head (%)"}  # fmt: skip


@recipe("losses/temperature", "Contrastive loss: uniformity and tolerance against the temperature")
def temperature(context: Context) -> Outcome:
    """Four views of each image, each image a class of its own; measured on test images by their digits."""
    seeds = range(context.seed, context.seed + SEEDS)
    cells = np.array([[list(measured(context, t, seed).values()) for seed in seeds] for t in TEMPERATURES])
    measures = {name: cells[:, :, k] for k, name in enumerate(MEASURES)}  # (temperatures, seeds)
    figure, axes = panels(4, width=3.6, height=3.0)
    for plot, (name, label) in zip(axes, MEASURES.items(), strict=True):
        values = {name: measures[name]}
        seed_curves(plot, TEMPERATURES, values, ticks=True, xlabel="temperature", ylabel=label, xscale="log")
    digits = few_digits(context)
    digits_of = {name: 1 if name == "accuracy" else 3 for name in MEASURES}
    rows = [(f"{t:g}", *(interval(measures[m][k], digits_of[m]) for m in MEASURES)) for k, t in enumerate(TEMPERATURES)]
    accuracy = measures["accuracy"]  # (temperatures, seeds)
    mean = accuracy.mean(1)
    best = 1 + int(mean[1:-1].argmax())
    return Outcome(
        about=f"{digits.name}, {len(digits.train)} images in {VIEWS} views (moved, fainter, noisy), no labels; {digits.model}, "
        f"{LEARNING['epochs']} epochs, {SEEDS} seeds. Measured on {len(digits.test):,} other images; the linear head is fitted "
        "to the training images with their digits. Cross-entropy over images has a hundredth of the weight.",
        tables=[Table("By temperature [95 % over seeds]", ("temperature", *MEASURES.values()), rows)],
        figures={"Temperature": figure},
        claims=[
            monotone(
                "The temperature controls the penalty on hard negatives: a low one falls on the hardest.", "hard", measures, -1
            ),
            monotone("A low temperature makes features more uniform.", "uniformity", measures, 1),
            monotone("It makes the loss less tolerant to similar samples.", "tolerance", measures, 1),
            claim(
                "A good choice of temperature is a compromise between the two.",
                rule="The accuracy of the linear head at the best temperature between the ends is above that at both ends: the "
                "95 % intervals over seeds of the differences.",
                effects=[
                    effect(difference(accuracy[best], accuracy[end]), POINTS, SEEDS, f"{TEMPERATURES[end]:g}") for end in (0, -1)
                ],
                found=", ".join(f"{t:g}: {value:.1f}" for t, value in zip(TEMPERATURES, mean, strict=True)) + " %.",
            ),
        ],
        commands=["hardsight train digits --model DigitsCNN --loss supcon --loss-options temperature=0.1 -o run"],
    )


def measured(context: Context, t: float, seed: int) -> dict[str, float]:
    """The four measures of one training."""
    digits = few_digits(context)
    images, answers, _ = as_pixels(digits.train, flat=False)
    tested, labels, ids = as_pixels(digits.test, flat=False)
    inputs, instance, names = views(images, seed)
    run = context.train(
        (inputs, instance, names), digits.model, loss="supcon", loss_options={"temperature": t, "weight": WEIGHT}, seed=seed,
        watch={"test": (tested, labels, ids)}, **LEARNING,
    )  # fmt: skip
    snapshot = Snapshot.load(run.run)
    known, test = (of_split(snapshot, name).in_memory() for name in ("train", "test"))
    plain = np.array([str(id).endswith("/0") for id in known.ids])  # the images as they are
    x, y = np.asarray(known.values)[plain], answers[np.asarray(known.labels)[plain]]
    z, digit = np.asarray(test.values), np.asarray(test.labels)
    with unconverged():
        right = np.asarray(fit_head(x, y, 10).logits(z)).argmax(1) == digit
    return {
        "uniformity": uniformity(features=z),
        "tolerance": tolerance(features=z, labels=digit),
        "hard": hard_share(z, t),
        "accuracy": 100 * float(right.mean()),
    }


def views(images: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Each of (n, 1, h, w) images as it is and in three other views (moved by up to a pixel, fainter, noisy), and which it is."""
    rng, parts = np.random.default_rng([seed, 3]), [images]
    for _ in range(VIEWS - 1):
        moved = np.stack([np.roll(image, rng.integers(-1, 2, 2), axis=(1, 2)) for image in images])
        contrast = rng.uniform(0.6, 1.0, (len(images), 1, 1, 1))
        parts.append((contrast * moved + rng.normal(0, 0.05, images.shape)).astype(np.float32))
    n = len(images)
    return np.concatenate(parts), np.tile(np.arange(n), VIEWS), [f"{row}/{view}" for view in range(VIEWS) for row in range(n)]


def hard_share(features: np.ndarray, t: float) -> float:
    """Mean share of the penalty on negatives, exp(s_ij / t) over its sum, that the nearest hundredth of them gets.

    Example:
        >>> round(hard_share(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), 1.0), 4)  # one of two: e/(e+1), 1/2, e/(e+1)
        0.654
    """
    unit = directions(features)
    logits = unit @ unit.T / t
    np.fill_diagonal(logits, -np.inf)
    penalty = np.exp(logits - logits.max(1, keepdims=True))
    count = max(1, round(HARDEST * (len(unit) - 1)))
    nearest = -np.partition(-penalty, count - 1, axis=1)[:, :count]
    return float((nearest.sum(1) / penalty.sum(1)).mean())


def monotone(text: str, name: str, measures: dict[str, np.ndarray], sign: int) -> Claim:
    """Whether a measure moves one way with the temperature."""
    mean, steps = measures[name].mean(1), np.diff(measures[name], axis=0)  # (temperatures,), (steps, seeds)
    pairs = [f"{a:g} to {b:g}" for a, b in zip(TEMPERATURES, TEMPERATURES[1:], strict=False)]
    return claim(
        text,
        rule=f"{MEASURES[name]} {'rises' if sign > 0 else 'falls'} from each temperature to the next: the 95 % intervals over "
        "seeds.",
        effects=[
            effect(mean_interval(step), DIFFERENCE, SEEDS, pair, sign=sign) for pair, step in zip(pairs, steps, strict=True)
        ],
        found=", ".join(f"{t:g}: {value:.3f}" for t, value in zip(TEMPERATURES, mean, strict=True)) + ".",
    )
