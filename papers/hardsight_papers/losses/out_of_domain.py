"""Unlabeled data of a nearby distribution: soft self-training on a mixture of two Gaussians, beside labels alone.

"Out-Of-Domain Unlabeled Data Improves Generalization", ICLR 2024. The abstract combines distributionally robust optimization with
self-training. For a linear classifier, robustness against small shifts of the samples is a penalty on its norm, and
self-training gives every unlabeled sample both labels, weighted by the squares of their probabilities: the probabilities
themselves are a fixed point, at which nothing is learned. All weights are our choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight_papers.context import Context
from hardsight_papers.drawing import panels, seed_curves
from hardsight_papers.recipe import Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect, interval, signed
from hardsight_papers.verdicts import POINTS

LABELED, UNLABELED, TESTED, DIMENSIONS = 20, 1000, 4000, 40
LENGTH, PENALTY, WEIGHT, SHARP, ROUNDS, DRAWS = 2.0, 1.0, 0.2, 2, 10, 20
SHIFTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the unlabeled classes, in standard deviations, across the line between the two
NEAR = 0.5  # the shift that is asked about: the abstract says slight


@recipe("losses/out-of-domain", "Out-of-domain unlabeled data: soft self-training on a mixture of two Gaussians")
def out_of_domain(context: Context) -> Outcome:
    """Accuracy within the domain, by how far the unlabeled samples lie from it."""
    cells = np.array([accuracies(np.random.default_rng([context.seed, draw])) for draw in range(DRAWS)])  # (draws, 1 + shifts)
    alone, with_unlabeled = cells[:, 0], cells[:, 1:]
    gaps = {shift: difference(with_unlabeled[:, k], alone) for k, shift in enumerate(SHIFTS)}
    rows: list[tuple[Any, ...]] = [("labels alone", interval(alone), None)]
    rows += [(f"unlabeled, shifted by {shift:g}", interval(with_unlabeled[:, k]), signed(gaps[shift]))
             for k, shift in enumerate(SHIFTS)]  # fmt: skip
    figure, (axes,) = panels(1)
    curves = {"with unlabeled samples": with_unlabeled.T, "labels alone": np.tile(alone, (len(SHIFTS), 1))}
    seed_curves(axes, SHIFTS, curves, xlabel="shift of the unlabeled samples", ylabel="accuracy (%)")
    near = gaps[NEAR]
    return Outcome(
        about=f"Two Gaussians in {DIMENSIONS} dimensions, {LABELED} labeled and {UNLABELED:,} unlabeled samples, {TESTED:,} to "
        f"test on; {DRAWS} draws. A penalized logistic regression, {ROUNDS} rounds of soft self-training.",
        tables=[Table("Accuracy within the domain (%) [95 %]", ("training", "accuracy", "less labels alone"), rows)],
        figures={"Unlabeled samples from elsewhere": figure},
        claims=[
            claim(
                "Out-of-domain samples, even unlabeled, narrow the generalization gap.",
                rule=f"With unlabeled samples shifted by {NEAR:g} standard deviations the accuracy within the domain is higher "
                "than with labels alone: the 95 % interval over draws.",
                post_hoc=True,
                effects=[effect(near, POINTS, DRAWS, unit="draws")],
                found=f"{signed(near)} points; " + ", ".join(f"{shift:g}: {signed(gap)}" for shift, gap in gaps.items()) + ".",
            )
        ],
    )


def accuracies(rng: np.random.Generator) -> list[float]:
    """Per cent right within the domain: with labels alone, and with unlabeled samples at each shift."""
    mean = rng.normal(size=DIMENSIONS)
    mean *= LENGTH / np.linalg.norm(mean)
    across = rng.normal(size=DIMENSIONS)
    across -= across @ mean / LENGTH**2 * mean
    across /= np.linalg.norm(across)
    x, y = drawn(mean, LABELED, rng)
    test, answers = drawn(mean, TESTED, rng)
    reached = [fitted(x, y, np.ones(LABELED)).score(test, answers)]
    for shift in SHIFTS:
        unlabeled, _ = drawn(mean, UNLABELED, rng)
        reached.append(self_trained(x, y, unlabeled + shift * across).score(test, answers))
    return [100 * float(share) for share in reached]


def drawn(mean: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) samples around the mean for class 1 and around its opposite for class 0, and (n,) classes, both equally often."""
    labels = np.arange(n) % 2
    return (2 * labels - 1)[:, None] * mean + rng.normal(size=(n, len(mean))), labels


def fitted(x: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> Any:
    """A logistic regression whose norm is penalized."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / PENALTY, max_iter=1000).fit(x, labels, sample_weight=weights)


def self_trained(x: np.ndarray, labels: np.ndarray, unlabeled: np.ndarray) -> Any:
    """Every unlabeled sample as both classes, weighted by the last model's sharpened probabilities; again and again."""
    model, n = fitted(x, labels, np.ones(len(x))), len(unlabeled)
    for _ in range(ROUNDS):
        chances = model.predict_proba(unlabeled) ** SHARP  # (n, 2)
        chances /= chances.sum(1, keepdims=True)
        weights = np.concatenate([np.ones(len(x)), WEIGHT * chances[:, 0], WEIGHT * chances[:, 1]])
        model = fitted(np.concatenate([x, unlabeled, unlabeled]), np.concatenate([labels, [0] * n, [1] * n]), weights)
    return model
