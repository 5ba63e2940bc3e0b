"""1,000 paired bootstrap replicates within 45 s and 1 GB, and Kendall no slower than SciPy."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from scipy.stats import kendalltau, spearmanr

from benchmarks.timing import Measurement, compared, extra_memory, in_fresh_process
from hardsight.stats import bootstrap, kendall, kendall_influence

SAMPLES, SCORES, REPLICATES = 30000, 8, 1000
SECONDS, MEGABYTES = 45.0, 1024.0
KENDALL_SAMPLES = 50000
ALIKE = 1.1  # equal times, within the noise of a busy machine on a few milliseconds


def run(rounds: int = 3) -> list[Measurement]:
    """The full bootstrap once, a replicate against a plain implementation, Kendall against SciPy."""
    scores, target = _scores(SAMPLES)
    start = time.perf_counter()
    bootstrap(scores, target, replicates=REPLICATES)
    seconds = time.perf_counter() - start
    case = f"bootstrap, n = {SAMPLES}, {SCORES} scores"
    lines = [Measurement(case, f"{REPLICATES} replicates", seconds, "s", limit=SECONDS)]
    used = in_fresh_process(_extra_memory)
    if used is not None:
        lines.append(Measurement(case, "extra memory", used, "MB", limit=MEGABYTES))
    rng = np.random.default_rng(1)

    def plain() -> None:
        """The straightforward implementation: rows are resampled and ranked again, score by score."""
        for _ in range(20):
            rows = rng.integers(0, SAMPLES, SAMPLES)
            for column in scores.T:
                spearmanr(column[rows], target[rows])

    work = {
        "SciPy: 20 replicates, drawn and ranked again": plain,
        "hardsight: 20 replicates": lambda: bootstrap(scores, target, replicates=20),
    }
    return lines + compared(case, work, rounds, {"hardsight: 20 replicates": 0.5}) + _kendall(rounds)


def _kendall(rounds: int) -> list[Measurement]:
    lines: list[Measurement] = []
    (first, *_), target = (x.T if x.ndim == 2 else x for x in _scores(KENDALL_SAMPLES))
    for case, x in (("ties in one column", first), ("ties in both", np.round(first, 1))):
        work = {
            "SciPy": partial(kendalltau, x, target),
            "hardsight: kendall": partial(kendall, x, target),
            "hardsight: kendall with each sample's influence": partial(kendall_influence, x, target),
        }
        lines += compared(f"Kendall, n = {KENDALL_SAMPLES}, {case}", work, rounds, {"hardsight: kendall": ALIKE})
    return lines


def _scores(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores that follow a frequency of 51 answers, each with some noise."""
    rng = np.random.default_rng(0)
    chance = rng.beta(8, 1, n)
    target = rng.binomial(51, chance) / 51
    return chance[:, None] + rng.normal(size=(n, SCORES)), target


def _extra_memory() -> float | None:
    scores, target = _scores(SAMPLES)
    bootstrap(scores[:100], target[:100], replicates=20)  # warm up, so that threads and libraries are not counted
    return extra_memory(lambda: bootstrap(scores, target, replicates=100))  # replicates keep only their coefficients
