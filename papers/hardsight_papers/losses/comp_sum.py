"""Comp-sum losses: from sum-exponential over cross-entropy to MAE, on clean, wrong and attacked digits.

Mao, Mohri and Zhong, "Cross-Entropy Loss Functions: Theoretical Analysis and Applications", ICML 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.stats import Mean
from hardsight_papers.arrays import as_pixels
from hardsight_papers.context import Context, Handwriting, fingerprint
from hardsight_papers.digit_trainings import (
    TRAINING,
    WRONG,
    about,
    accuracies,
    few_digits,
    fitted,
    tested,
    trained,
    trained_with_wrong_labels,
)
from hardsight_papers.drawing import panels, seed_dots
from hardsight_papers.losses.consistency_bounds import bounds, tight
from hardsight_papers.losses.training_on_attacks import logits_of_pixels, trained_on_attacks
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import ahead, difference, effect, interval, seeds, signed
from hardsight_papers.verdicts import POINTS

if TYPE_CHECKING:
    from torch import Tensor, nn

FAMILY: dict[str, tuple[str, dict[str, Any]]] = {  # tau in brackets; 1 is plain cross-entropy
    "sum-exponential (0)": ("comp_sum", {"tau": 0.0}),
    "cross-entropy (1)": ("softmax", {}),
    "generalized CE (1.7)": ("comp_sum", {"tau": 1.7}),
    "MAE (2)": ("comp_sum", {"tau": 2.0}),
}
BySeed = dict[str, np.ndarray]  # (seeds,) by training
PLAIN, SMOOTH, ON_ATTACKS = "cross-entropy (1)", "smooth adversarial", "cross-entropy on attacked images"
SMOOTH_BELOW = "smooth adversarial, smaller nu"
EPSILON = 0.1
BALL: dict[str, Any] = {"radius": EPSILON, "step": EPSILON / 2, "steps": 3}  # searched by both adversarial trainings
ADVERSARIAL: dict[str, Any] = {**BALL, "nu": 3.0}  # the least that the theory allows: sqrt(c - 1)
NUS = (3.0, 1.0, 0.5, 0.3, 0.2, 0.1)
LEARNED = 90.0  # per cent of the training images: the largest nu at which every seed has so many right is judged


@recipe("losses/comp-sum", "Comp-sum losses on clean, noisy and attacked digits; their consistency bounds")
def comp_sum(context: Context) -> Outcome:
    """Four losses of the family with right and wrong labels; smooth adversarial comp-sum against PGD; the bounds by chance."""
    digits = few_digits(context)
    right: dict[str, list[Any]] = {}  # runs with right labels
    clean: BySeed = {}
    noisy: BySeed = {}
    errors: BySeed = {}
    for name, (loss, options) in FAMILY.items():
        right[name] = [trained(context, digits, loss, options, seed=seed) for seed in seeds(context)]
        wrong = [trained_with_wrong_labels(context, loss, options, seed)[0] for seed in seeds(context)]
        clean[name], noisy[name] = tested(context, right[name], digits.test), tested(context, wrong, digits.test)
    right[SMOOTH] = [trained(context, digits, "smooth_adversarial", ADVERSARIAL, seed=seed) for seed in seeds(context)]
    nu = largest_nu(context, digits)
    judged = SMOOTH if nu == ADVERSARIAL["nu"] else None if nu is None else SMOOTH_BELOW
    if judged == SMOOTH_BELOW:
        options = {**BALL, "nu": nu}
        right[SMOOTH_BELOW] = [trained(context, digits, "smooth_adversarial", options, seed=seed) for seed in seeds(context)]
    models: dict[str, dict[str, Any]] = {name: {run.run.name: str(run.run) for run in runs} for name, runs in right.items()}
    models[ON_ATTACKS] = {f"seed {seed}": trained_on_attacks(context, digits, BALL, seed) for seed in seeds(context)}
    learned = accuracies(right[SMOOTH]).mean(), learns_below(digits, list(models[ON_ATTACKS].values())).max()
    for name, of_seeds in models.items():
        clean[name], errors[name] = attacked(context, name, of_seeds)
    figure, axes = panels(3)
    seed_dots(axes[0], clean, "accuracy (%)", "clean labels")
    seed_dots(axes[1], noisy, "accuracy (%)", f"{WRONG:.0%} noisy labels", colors_of=list(clean))
    seed_dots(axes[2], errors, "error (%)", f"attacked by PGD, epsilon {EPSILON:g}", colors_of=list(clean))
    rows = [
        (name, interval(clean[name]), interval(noisy[name]) if name in noisy else None,
         interval(errors[name]) if name in errors else None)
        for name in clean
    ]  # fmt: skip
    header = ("loss (tau)", "accuracy", f"accuracy, {WRONG:.0%} wrong labels", f"error by PGD {EPSILON:g}")
    return Outcome(
        about=about(digits)
        + fitted(right)
        + f" PGD of 10 steps, pixels of 0 to 1; both adversarial trainings search the same ball in {BALL['steps']} steps, smooth "
        f"adversarial with nu {ADVERSARIAL['nu']:g}, the least that the theory allows"
        + (f", and with nu {nu:g}." if judged == SMOOTH_BELOW else "."),
        tables=[Table("Per cent, mean over seeds [95 %]", header, rows)],
        figures={"Comp-sum losses": figure},
        claims=[bounds(context), tight(), *adversarial(clean, errors, judged, nu, learned), wrong_labels(noisy)],
        commands=["hardsight train digits --model DigitsCNN --loss comp_sum --loss-options tau=1.7 -o run"],
    )


def attacked(context: Context, name: str, models: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(seeds,) accuracy on the test images and (seeds,) error on the same attacked by PGD, both in per cent."""
    digits, right, wrong = few_digits(context), [], []
    for which, model in models.items():
        key = {"model": which, "training": {**TRAINING, **BALL}, "data": fingerprint(digits.train)}
        done = context.attack((key, model), digits.test, f"{name} by PGD", methods="pgd", epsilon=EPSILON, trajectories=0)
        error = {row["epsilon"] > 0: 100 * row["error"] for row in done.by_epsilon.to_pylist()}
        right.append(100 - error[False])
        wrong.append(error[True])
    return np.array(right), np.array(wrong)


def learns_below(digits: Handwriting, networks: Sequence[nn.Module]) -> np.ndarray:
    """(seeds,) the nu above which the same answer for every image is better than a network, by smooth adversarial comp-sum."""
    import torch

    values, classes, _ = as_pixels(digits.train, flat=False)
    pixels, labels = torch.from_numpy(values), torch.from_numpy(np.asarray(classes))
    torch.manual_seed(0)  # of the noise that the search starts from
    return np.array([largest_weight(logits_of_pixels(network), pixels, labels, BALL) for network in networks])


def largest_nu(context: Context, digits: Handwriting) -> float | None:
    """The largest nu with which every seed learns its training images; None if there is none. No test image is looked at."""

    def learns(nu: float, seed: int) -> bool:
        run = trained(context, digits, "smooth_adversarial", {**BALL, "nu": nu}, seed=seed)
        return bool(accuracies([run])[0] >= LEARNED)

    return next((nu for nu in NUS if all(learns(nu, seed) for seed in seeds(context))), None)


def adversarial(clean: BySeed, errors: BySeed, judged: str | None, nu: float | None, learned: tuple[float, float]) -> list[Claim]:
    """Smooth adversarial comp-sum beside cross-entropy, on images as they are and on attacked ones.

    Args:
        clean, errors: (seeds,) accuracy and error by PGD of each training.
        judged: the training whose nu lets it learn; None if there is none.
        nu: that nu.
        learned: the share of its training images, in per cent, that smooth adversarial comp-sum has right at the nu of the
            theory, and the nu up to which a network trained on attacked images is better than the same answer for every image.
    """
    asked = (
        f"Asked of the largest nu of {', '.join(f'{value:g}' for value in NUS)} with which every seed has {LEARNED:.0f} % of the "
        "training images right."
    )
    at_theory = (
        f"At nu {ADVERSARIAL['nu']:g} {{}}, with {learned[0]:.1f} % of its training images right: by this loss, the same "
        "answer for every image is better than any scaling of the networks trained on attacked images where nu is above "
        f"{learned[1]:.2f}."
    )

    def against(smooth: str, other: str) -> tuple[Mean, Mean]:
        """Error by PGD and accuracy, less those of another training."""
        return difference(errors[smooth], errors[other]), difference(clean[smooth], clean[other])

    def said(other: str) -> str:
        """The numbers at the nu that is judged, and at that of the theory."""
        both = {name: against(name, other) for name in dict.fromkeys((judged or SMOOTH, SMOOTH))}
        words = {name: f"{signed(e)} points of error, {signed(a)} points of accuracy" for name, (e, a) in both.items()}
        now = f"At nu {nu:g} {words[judged]}. " if judged == SMOOTH_BELOW else ""
        why_not = "" if judged else f"With no nu are {LEARNED:.0f} % of the training images right. "
        return now + why_not + at_theory.format(words[SMOOTH])

    beside = {name: against(judged or SMOOTH, name) for name in (PLAIN, ON_ATTACKS)}
    return [
        claim(
            "Smooth adversarial comp-sum losses are beneficial in the adversarial setting.",
            rule=f"The 95 % interval over seeds of its error by PGD less that of cross-entropy lies below 0. {asked}",
            effects=[effect(beside[PLAIN][0], POINTS, sign=-1)] if judged else [],
            post_hoc=True,
            found=said(PLAIN),
        ),
        claim(
            "They outperform other adversarial algorithms (here cross-entropy on images attacked by PGD), with a superior "
            "non-adversarial accuracy.",
            rule="The 95 % interval over seeds of its error by PGD less that of the other lies below 0, and that of its accuracy "
            f"on clean images above 0. {asked}",
            effects=[
                effect(gap, POINTS, name=name, sign=sign)
                for gap, name, sign in zip(beside[ON_ATTACKS], ("error", "accuracy"), (-1, 1), strict=True)
            ]
            if judged
            else [],
            post_hoc=True,
            found=said(ON_ATTACKS),
        ),
    ]


def wrong_labels(noisy: BySeed) -> Claim:
    """Generalized cross-entropy beside cross-entropy."""
    return ahead(
        "With wrong labels, generalized cross-entropy is better than cross-entropy (known of the family; not in the abstract).",
        noisy["generalized CE (1.7)"],
        noisy[PLAIN],
        rule=f"With {WRONG:.0%} wrong labels, the 95 % interval over seeds of the difference in accuracy lies above 0.",
    )


def largest_weight(logits_of: Callable[[Tensor], Tensor], pixels: Tensor, labels: Tensor, search: Mapping[str, Any]) -> float:
    """The nu above which a network is worse by smooth adversarial comp-sum than one that gives every image the same answer.

    Along s times the logits of a network the loss is mean log(1 + sum_k exp(-s D_k)) + nu s mean |D(x') - D(x)|, with the
    margins D_k = z_y - z_k of the classes k != y and x' where they have moved most. It is convex in s. At s = 0, where every
    image gets the same answer, its slope is nu mean |D(x') - D(x)| - mean sum_k D_k / c: where that is not negative, no s > 0
    is better.

    The search finds less than the farthest move, so that the nu found is, if anything, too large.

    Args:
        logits_of: (n, ...) pixels -> (n, c) logits.
        pixels, labels: of the training images.
        search: radius, step and steps, as the loss takes them.

    Example:
        >>> import torch
        >>> pixels, labels = torch.full((4, 1), 0.5), torch.zeros(4, dtype=torch.long)
        >>> logits_of = lambda x: torch.cat([3 * x, torch.zeros_like(x)], dim=1)  # margins of 1.5 that move by 0.3
        >>> round(largest_weight(logits_of, pixels, labels, {"radius": 0.1, "step": 0.05, "steps": 3}), 4)
        2.5
    """
    import torch

    from hardsight.losses import Search, worst_inputs

    with torch.no_grad():
        logits = logits_of(pixels)
    worst = worst_inputs(logits_of, pixels, logits, labels, Search(**search))
    with torch.no_grad():
        still, moved = (z.gather(1, labels[:, None]) - z for z in (logits, logits_of(worst)))  # (n, c)
        return float(still.mean() / torch.linalg.vector_norm(moved - still, dim=1).mean())
