"""Comp-sum losses: from sum-exponential over cross-entropy to MAE, on clean, wrong and attacked digits.

Mao, Mohri and Zhong, "Cross-Entropy Loss Functions: Theoretical Analysis and Applications", ICML 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.paper.context import Context, Handwriting, fingerprint
from hardsight.paper.losses.consistency_bounds import bounds, tight
from hardsight.paper.losses.drawing import panels, seed_dots
from hardsight.paper.losses.few_digits import (
    TRAINING,
    WRONG,
    about,
    accuracies,
    difference,
    few_digits,
    fitted,
    interval,
    seeds,
    signed,
    tested,
    trained,
    trained_with_wrong_labels,
)
from hardsight.paper.losses.moved_margins import largest_weight
from hardsight.paper.losses.pixels import as_pixels
from hardsight.paper.losses.training_on_attacks import logits_of_pixels, trained_on_attacks
from hardsight.paper.recipe import Claim, Outcome, Table, claim, recipe

if TYPE_CHECKING:
    from torch import nn

FAMILY: dict[str, tuple[str, dict[str, Any]]] = {  # tau in brackets; 1 is plain cross-entropy
    "sum-exponential (0)": ("comp_sum", {"tau": 0.0}),
    "cross-entropy (1)": ("softmax", {}),
    "generalized CE (1.7)": ("comp_sum", {"tau": 1.7}),
    "MAE (2)": ("comp_sum", {"tau": 2.0}),
}
PLAIN, SMOOTH, ON_ATTACKS = "cross-entropy (1)", "smooth adversarial", "cross-entropy on attacked images"
EPSILON = 0.1
BALL: dict[str, Any] = {"radius": EPSILON, "step": EPSILON / 2, "steps": 3}  # searched by both adversarial trainings
ADVERSARIAL: dict[str, Any] = {**BALL, "nu": 3.0}  # the least that the theory allows: sqrt(c - 1)


@recipe("losses/comp-sum", "Comp-sum losses on clean, noisy and attacked digits; their consistency bounds")
def comp_sum(context: Context) -> Outcome:
    """Four losses of the family with right and wrong labels; smooth adversarial comp-sum against PGD; the bounds by chance."""
    digits = few_digits(context)
    right: dict[str, list[Any]] = {}  # runs with right labels
    clean: dict[str, np.ndarray] = {}
    noisy: dict[str, np.ndarray] = {}
    errors: dict[str, np.ndarray] = {}
    for name, (loss, options) in FAMILY.items():
        right[name] = [trained(context, digits, loss, options, seed=seed) for seed in seeds(context)]
        wrong = [trained_with_wrong_labels(context, loss, options, seed)[0] for seed in seeds(context)]
        clean[name], noisy[name] = tested(context, right[name], digits.test), tested(context, wrong, digits.test)
    right[SMOOTH] = [trained(context, digits, "smooth_adversarial", ADVERSARIAL, seed=seed) for seed in seeds(context)]
    models: dict[str, dict[str, Any]] = {
        name: {run.directory.name: str(run.directory) for run in right[name]} for name in (PLAIN, SMOOTH)
    }
    models[ON_ATTACKS] = {f"seed {seed}": trained_on_attacks(context, digits, BALL, seed) for seed in seeds(context)}
    learned = accuracies(right[SMOOTH]).mean(), learns_below(digits, list(models[ON_ATTACKS].values())).max()
    for name, of_seeds in models.items():
        clean[name], errors[name] = attacked(context, name, of_seeds)
    figure, axes = panels(3)
    seed_dots(axes[0], clean, "accuracy (%)", "clean labels")
    seed_dots(axes[1], noisy, "accuracy (%)", f"{WRONG:.0%} noisy labels", colours_of=list(clean))
    seed_dots(axes[2], errors, "error (%)", f"attacked by PGD, epsilon {EPSILON:g}", colours_of=list(clean))
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
        f"adversarial with nu {ADVERSARIAL['nu']:g}.",
        tables=[Table("Per cent, mean over seeds [95 %]", header, rows)],
        figures={"Comp-sum losses": figure},
        claims=[
            bounds(context),
            tight(),
            *adversarial(clean, errors, learned),
            wrong_labels(noisy),
        ],
        commands=["hardsight train digits --model DigitsCNN --loss comp_sum --loss-options tau=1.7 -o run"],
    )


def attacked(context: Context, name: str, models: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(seeds,) accuracy on the test images and (seeds,) error on the same attacked by PGD, both in per cent."""
    from hardsight.attacks.attacking import attack

    options: dict[str, Any] = {"method": "pgd", "epsilon": EPSILON, "trajectories": 0}
    digits, right, wrong = few_digits(context), [], []
    for which, model in models.items():
        key = {"model": which, "training": {**TRAINING, **BALL}, "data": fingerprint((digits.train, digits.test)), **options}
        context.say(f"attacking {name} by PGD")
        done = attack(model, context.cache.place("attack", key), data=digits.test, device="cpu", workers=1, **options)
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


def adversarial(clean: dict[str, np.ndarray], errors: dict[str, np.ndarray], learned: tuple[float, float]) -> list[Claim]:
    """Smooth adversarial comp-sum beside cross-entropy, on images as they are and on attacked ones.

    `learned` is the share of its training images, in per cent, that smooth adversarial comp-sum has right, and the nu up to which
    a network that was trained on attacked images is better than the same answer for every image.
    """
    share = (
        f" It has {learned[0]:.1f} % of its training images right: by this loss, the same answer for every image is better than "
        f"any scaling of the networks trained on attacked images where nu is above {learned[1]:.2f}."
    )
    gap = {name: difference(errors[SMOOTH], errors[name]) for name in (PLAIN, ON_ATTACKS)}
    price = {name: difference(clean[SMOOTH], clean[name]) for name in (PLAIN, ON_ATTACKS)}
    return [
        claim(
            "Smooth adversarial comp-sum losses are beneficial in the adversarial setting.",
            rule="The 95 % interval over seeds of its error by PGD less that of cross-entropy lies below 0.",
            holds=gap[PLAIN].high < 0,
            found=f"{signed(gap[PLAIN])} points of error; accuracy on clean images {signed(price[PLAIN])} points." + share,
        ),
        claim(
            "They outperform other adversarial algorithms (here cross-entropy on images attacked by PGD), with a superior "
            "non-adversarial accuracy.",
            rule="The 95 % interval over seeds of its error by PGD less that of the other lies below 0, and that of its accuracy "
            "on clean images above 0.",
            holds=gap[ON_ATTACKS].high < 0 and price[ON_ATTACKS].low > 0,
            found=f"{signed(gap[ON_ATTACKS])} points of error, {signed(price[ON_ATTACKS])} points of accuracy." + share,
        ),
    ]


def wrong_labels(noisy: dict[str, np.ndarray]) -> Claim:
    """Generalized cross-entropy beside cross-entropy."""
    gap = difference(noisy["generalized CE (1.7)"], noisy[PLAIN])
    return claim(
        "With wrong labels, generalized cross-entropy is better than cross-entropy (known of the family; not in the abstract).",
        rule=f"With {WRONG:.0%} wrong labels, the 95 % interval over seeds of the difference in accuracy lies above 0.",
        holds=gap.low > 0,
        found=f"{signed(gap)} points.",
    )
