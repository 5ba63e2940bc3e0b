"""`correlate` of three networks within 60 s, `people` within 30 s, and `human_hardness` beside the table of scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import Measurement, compared
from hardsight import SCORES, Snapshot, correlate, people, score

NETWORKS, REPLICATES, ANSWERS, PEOPLE = 3, 1000, 5000, 20
CORRELATE_SECONDS, PEOPLE_SECONDS = 60.0, 30.0
BESIDE = 1.3  # human_hardness with the usual scores, against these and one pass over the reference
DEFAULT = [name for name, of in SCORES.items() if of.default]


def run(images: int = 5000, samples: int = 50_000, width: int = 512, classes: int = 100, rounds: int = 5) -> list[Measurement]:
    """The two verbs once each on made-up networks and people, and the score in turns with what it is added to."""
    return [
        *_correlate(images, width, classes),
        *_people(samples, width, classes),
        *_human_hardness(samples // 5, samples, width, classes, rounds),
    ]


def _network(n: int, d: int, c: int, seed: int = 0) -> Snapshot:
    """Features around the vectors of their classes; the labels are the same for every seed."""
    labels, rng = np.random.default_rng(0).integers(0, c, n), np.random.default_rng(seed)
    weight, bias = (rng.normal(size=size).astype(np.float32) for size in ((c, d), c))
    features = weight[labels] + 2 * rng.normal(size=(n, d)).astype(np.float32)
    return Snapshot(features, weight, labels, bias=bias)


def _answers(n: int) -> np.ndarray:
    """(n,) how many of the people chose the given class."""
    rng = np.random.default_rng(1)
    return rng.binomial(PEOPLE, rng.beta(8, 1, n))


def _timed(case: str, what: str, work: Callable[[], Any], limit: float) -> list[Measurement]:
    start = time.perf_counter()
    work()
    return [Measurement(case, what, time.perf_counter() - start, "s", limit=limit)]


def _correlate(n: int, d: int, c: int) -> list[Measurement]:
    networks = [_network(n, d, c, seed) for seed in range(NETWORKS)]
    human = {"id": np.arange(n), "frequency": _answers(n) / PEOPLE, "answers": np.full(n, PEOPLE)}
    case = f"correlate, n = {n}, {NETWORKS} networks"
    return _timed(case, f"{REPLICATES} replicates", lambda: correlate(networks, human, replicates=REPLICATES), CORRELATE_SECONDS)


def _people(n: int, d: int, c: int) -> list[Measurement]:
    snapshot, asked = _network(n, d, c), np.random.default_rng(2).permutation(n)[:ANSWERS]
    answers = {"id": asked, "frequency": _answers(n)[asked] / PEOPLE, "answers": np.full(len(asked), PEOPLE)}
    case = f"people, {len(asked)} answers, n = {n}, d = {d}"
    return _timed(case, "predicted, with its curve", lambda: people(snapshot, answers).summary, PEOPLE_SECONDS)


def _human_hardness(n: int, m: int, d: int, c: int, rounds: int) -> list[Measurement]:
    snapshot, reference = _network(n, d, c), _network(m, d, c)
    with_it = "hardsight: with human_hardness"
    work = {
        "hardsight: the usual scores, and avh of the reference": lambda: (score(snapshot), score(reference, scores="avh")),
        with_it: lambda: score(snapshot, scores=[*DEFAULT, "human_hardness"], reference=reference),
    }
    return compared(f"human_hardness, n = {n}, reference {m} x {d}", work, rounds, {with_it: BESIDE})
