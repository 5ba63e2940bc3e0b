"""Comp-sum losses: from sum-exponential over cross-entropy to MAE, on clean, wrong and attacked digits.

Mao, Mohri and Zhong, "Cross-Entropy Loss Functions: Theoretical Analysis and Applications", ICML 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.paper.context import Context, Handwriting, fingerprint
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
DRAWS, CLASSES = 20_000, 10


@recipe("losses/comp-sum", "Comp-sum losses on clean, wrong and attacked digits; their consistency bounds")
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


def smallest_regret(tau: float, beta: np.ndarray, c: int) -> np.ndarray:
    """T_tau(beta): the least conditional regret of the loss where that of the zero-one loss is beta.

    With m = ((1 + beta)^(1 / (2 - tau)) + (1 - beta)^(1 / (2 - tau))) / 2 it is 2^(1 - tau) / (1 - tau) (1 - m^(2 - tau))
    below tau = 1, and (m^(2 - tau) - 1) / ((tau - 1) c^(tau - 1)) above.
    """
    if tau == 1:
        return ((1 + beta) * np.log1p(beta) + (1 - beta) * np.log1p(-np.minimum(beta, 1 - 1e-15))) / 2
    power = 1 / (2 - tau)
    mean = (((1 + beta) ** power + (1 - beta) ** power) / 2) ** (2 - tau)
    return 2 ** (1 - tau) / (1 - tau) * (1 - mean) if tau < 1 else (mean - 1) / ((tau - 1) * c ** (tau - 1))


def regrets(tau: float, probs: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) conditional regrets of the zero-one loss and of the comp-sum loss: (n, c) true probabilities and scores.

    The least conditional loss is reached at softmax = probs^(1 / (2 - tau)) over its sum.
    """
    import torch

    from hardsight.losses import comp_sum_loss

    n, c = probs.shape
    each = [comp_sum_loss(torch.from_numpy(logits), torch.full((n,), k), tau=tau, reduction="none").numpy() for k in range(c)]
    loss = np.vecdot(probs, np.stack(each, axis=1))  # (n,)
    best = (probs ** (1 / (2 - tau))).sum(1) ** (2 - tau)
    least = -np.vecdot(probs, np.log(probs)) if tau == 1 else (best - 1) / (1 - tau)
    return probs.max(1) - probs[np.arange(n), logits.argmax(1)], loss - least


def bounds(context: Context) -> Claim:
    """The bound of each loss on random distributions over the classes, with random scores."""
    rng = np.random.default_rng(context.seed)
    concentration = rng.choice([0.05, 0.3, 1.0, 5.0], DRAWS)[:, None]
    probs = rng.gamma(concentration, size=(DRAWS, CLASSES)) + 1e-12
    probs /= probs.sum(1, keepdims=True)
    logits = np.log(probs) * rng.uniform(0, 2, (DRAWS, 1)) + rng.normal(size=probs.shape) * rng.uniform(0, 3, (DRAWS, 1))
    broken, nearest = 0, {}
    for tau in (0.0, 1.0, 1.7):
        zero_one, surrogate = regrets(tau, probs, logits)
        least = smallest_regret(tau, zero_one, CLASSES)
        broken += int((least > surrogate + 1e-9 * (1 + surrogate)).sum())
        wrong = zero_one > 0.01
        nearest[tau] = float((surrogate[wrong] / least[wrong]).min())
    return claim(
        "H-consistency bounds: a small error of the surrogate means a small zero-one error.",
        rule=f"T_tau(regret of the zero-one loss) <= regret of the loss in all of {DRAWS:,} random draws, tau 0, 1 and 1.7.",
        holds=broken == 0,
        found=f"{broken} of {3 * DRAWS:,} broken; the nearest draws are at "
        + ", ".join(f"{ratio:.2f}" for ratio in nearest.values())
        + " times the bound.",
    )


def tight() -> Claim:
    """The cheapest way to be wrong: two classes with chances (1 +- beta) / 2, scored alike, the wrong one a hair ahead."""
    beta, off = np.linspace(0.1, 0.9, 9), {}
    probs = np.full((len(beta), CLASSES), 1e-18)
    probs[:, 0], probs[:, 1] = (1 + beta) / 2, (1 - beta) / 2
    logits = np.full_like(probs, -20.0)
    logits[:, 0], logits[:, 1] = 0.0, 1e-9
    for tau in (0.0, 1.0):
        zero_one, surrogate = regrets(tau, probs, logits)
        off[tau] = float(np.abs(surrogate - smallest_regret(tau, zero_one, CLASSES)).max())
    return claim(
        "The bounds are tight.",
        rule="For tau 0 and 1 and zero-one regrets of 0.1 to 0.9 there are distributions and scores whose regret of the loss is "
        "the bound, within 1e-5.",
        holds=max(off.values()) < 1e-5,
        found=", ".join(f"tau {tau:g}: off by {value:.0e} at most" for tau, value in off.items()) + ".",
    )


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
