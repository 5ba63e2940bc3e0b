"""The H-consistency bounds of comp-sum losses, checked on random distributions, and whether they are tight."""

from __future__ import annotations

import numpy as np

from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, claim

DRAWS, CLASSES = 20_000, 10


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
        exact=broken == 0,
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
        exact=max(off.values()) < 1e-5,
        found=", ".join(f"tau {tau:g}: off by {value:.0e} at most" for tau, value in off.items()) + ".",
    )
