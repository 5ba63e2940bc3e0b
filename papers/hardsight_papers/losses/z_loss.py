"""The Z-loss: top-k error beside the log-softmax, and the cost of a step against the number of classes.

De Brébisson and Vincent, "The Z-loss: a shift and scale invariant classification loss belonging to the Spherical Family", 2016.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hardsight.data import ImageData
from hardsight.stats import mean_interval
from hardsight.training import Trained
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import about, features_of, few_digits, fitted, trained
from hardsight_papers.drawing import panels, seed_curves
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import effect, interval, seeds, signed
from hardsight_papers.verdicts import POINTS

LOSSES = {"log-softmax": "softmax", "Z-loss": "znorm"}
KS = (1, 2, 3, 4, 5)
CLASSES = (1_000, 10_000, 100_000, 800_000)  # the last is that of One Billion Word
STEP = {"samples": 32, "features": 64, "rounds": 7}
LEAST_SECONDS = 0.5  # of rounds: the shortest of seven steps of a millisecond is still chance
PRINTED = {"speed-up over the log-softmax, One Billion Word": 40}


@recipe("losses/z-loss", "Z-loss: top-k error, and cost per step against the number of classes", printed=PRINTED)
def z_loss(context: Context) -> Outcome:
    """Top-1 to top-5 error of both losses; seconds of a whole step of SGD with a linear layer of its own."""
    digits = few_digits(context)
    runs = {name: [trained(context, digits, loss, seed=seed) for seed in seeds(context)] for name, loss in LOSSES.items()}
    errors = {name: [top_k_errors(context, run, digits.test) for run in each] for name, each in runs.items()}
    error = {name: np.array(each).T for name, each in errors.items()}  # (k, seeds)
    level = 1 - 0.05 / (len(KS) - 1)  # four values of k are looked at
    gaps = [mean_interval(error["Z-loss"][i] - error["log-softmax"][i], level) for i in range(len(KS))]
    seconds = step_seconds(context)
    figure, (left, right) = panels(2)
    seed_curves(left, KS, error, xlabel="k", ylabel="top-k error (%)", xticks=KS, yscale="log")
    milliseconds = {name: 1000 * np.array(values)[:, None] for name, values in seconds.items()}
    seed_curves(right, CLASSES, milliseconds, xlabel="classes", ylabel="step (ms)", xscale="log", yscale="log")
    return Outcome(
        about=about(digits)
        + fitted(runs)
        + f" A step of SGD: {STEP['samples']} samples of {STEP['features']} features, the shortest of {STEP['rounds']} or more.",
        tables=[
            Table("Top-k error (%) [95 %]", ("k", "log-softmax", "Z-loss", "difference"),
                  [(f"{k}", *(interval(values[i], 2) for values in error.values()), signed(gaps[i], 2))
                   for i, k in enumerate(KS)], note=f"Intervals of differences at {level:.2%}: four values of k are tried."),
            Table("Seconds of a step", ("classes", *seconds), [(f"{c:,}", *(values[i] for values in seconds.values()))
                                                               for i, c in enumerate(CLASSES)], digits=None),
        ],
        figures={"Z-loss and log-softmax": figure},
        claims=[
            claim(
                "The Z-loss outperforms the log-softmax with respect to certain top-k scores.",
                rule="For a k of 2 to 5 the interval over seeds of its top-k error less that of the log-softmax lies below 0, "
                "at 95 % for all four together.",
                effects=[effect(gap, POINTS, name=f"top-{k}", sign=-1) for k, gap in zip(KS[1:], gaps[1:], strict=True)],
                some=True,
                found=", ".join(f"top-{k} {signed(gap, 2)}" for k, gap in zip(KS, gaps, strict=True)) + " points.",
            ),
            *step_claims(seconds),
        ],
        commands=["hardsight train digits --model DigitsCNN --loss znorm --top-k 2 -o run"],
    )  # fmt: skip


def top_k_errors(context: Context, run: Trained, test: ImageData) -> list[float]:
    """Error in per cent of the test images, for each k."""
    features, labels = features_of(context, run, test)
    logits = np.asarray(run.head.logits(features))  # (n, c)
    own = logits[np.arange(len(logits)), labels]
    place = (logits > own[:, None]).sum(1)  # (n,) classes ahead of the own one
    return [100 * float((place >= k).mean()) for k in KS]


def step_seconds(context: Context) -> dict[str, list[float]]:
    """The shortest of some steps for each number of classes: the Z-loss by its factored layer, and a linear layer."""
    import torch

    seconds: dict[str, list[float]] = {"log-softmax": [], "Z-loss": []}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for c in CLASSES:
            context.say(f"steps with {c:,} classes")
            for name, make in (("log-softmax", _softmax_step), ("Z-loss", _z_step)):
                step = make(c)
                step()  # warm
                seconds[name].append(_shortest(step))
    finally:
        torch.set_num_threads(threads)
    return seconds


def step_claims(seconds: dict[str, list[float]]) -> list[Claim]:
    """Both losses at the largest number of classes, and at the smallest."""
    growth = {name: values[-1] / values[0] for name, values in seconds.items()}
    faster = seconds["log-softmax"][-1] / seconds["Z-loss"][-1]
    return [
        claim(
            "A step costs the same for any number of classes.",
            rule=f"At {CLASSES[-1]:,} classes a step of the Z-loss takes at most 1.5 times as long as at {CLASSES[0]:,}.",
            holds=growth["Z-loss"] <= 1.5,
            found=f"{growth['Z-loss']:.2f} times; of the log-softmax {growth['log-softmax']:.0f} times.",
        ),
        claim(
            "Training is 40 times faster than with the log-softmax (One Billion Word, some 800,000 classes).",
            rule="The seconds of a training, on One Billion Word.",
            found=f"Only a step of the output layer is timed here: at {CLASSES[-1]:,} classes it is {faster:.0f} times faster, "
            f"on one core, with {STEP['features']} features. A training has other layers, too.",
        ),
    ]


def _shortest(step: Callable[[], None]) -> float:
    """Seconds of CPU of the shortest of many steps."""
    rounds: list[float] = []
    while len(rounds) < STEP["rounds"] or sum(rounds) < LEAST_SECONDS:
        started = time.process_time()
        step()
        rounds.append(time.process_time() - started)
    return min(rounds)


def _batch(c: int) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    features = torch.randn(STEP["samples"], STEP["features"], generator=generator)
    return features.requires_grad_(), torch.randint(0, c, (STEP["samples"],), generator=generator)


def _z_step(c: int) -> Callable[[], None]:
    import torch

    from hardsight_papers.znorm_linear import ZNormLinearLoss

    (features, labels), loss = _batch(c), ZNormLinearLoss(torch.nn.Linear(STEP["features"], c))

    def step() -> None:
        loss(features, labels).backward()
        loss.step(0.1)

    return step


def _softmax_step(c: int) -> Callable[[], None]:
    import torch

    from hardsight.losses import SoftmaxLoss

    (features, labels), loss = _batch(c), SoftmaxLoss(STEP["features"], c)
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        loss(features, labels).backward()
        optimizer.step()

    return step
