"""`correlate` of three networks within 60 s, `people` within 30 s, and `human_hardness` beside the table of scores."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Measurement, compared
from hardsight import SCORES, Snapshot, correlate, people

NETWORKS, REPLICATES, ANSWERS, PEOPLE = 3, 1000, 5000, 20
CORRELATE_SECONDS, PEOPLE_SECONDS = 60.0, 30.0
BESIDE = 1.3  # times the command without it, which does not read the reference
DEFAULT = [name for name, of in SCORES.items() if of.default]


def run(images: int = 5000, samples: int = 50_000, width: int = 512, classes: int = 100, rounds: int = 5) -> list[Measurement]:
    """The two verbs once each on made-up networks and people, and the score in turns with what it is added to."""
    return [
        *_correlate(images, width, classes),
        *_people(samples, width, classes),
        *_human_hardness(samples // 5, samples, rounds),
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


def _human_hardness(n: int, m: int, rounds: int) -> list[Measurement]:
    """The command with a reference, against the command alone: CIFAR's 64 features and 10 classes."""
    with tempfile.TemporaryDirectory() as folder:
        test, train, output = (str(Path(folder) / name) for name in ("test.npz", "train.npz", "scores.parquet"))
        _network(n, 64, 10).save(test)
        _network(m, 64, 10).save(train)
        command = [sys.executable, "-m", "hardsight", "score", test, "-o", output]
        more = ["--scores", ",".join([*DEFAULT, "human_hardness"]), "--reference", train]
        with_it = "hardsight score: with human_hardness"
        work = {
            "hardsight score: the usual scores": partial(subprocess.run, command, check=True, capture_output=True),
            with_it: partial(subprocess.run, [*command, *more], check=True, capture_output=True),
        }
        return compared(f"human_hardness, n = {n}, reference {m} x 64", work, rounds, {with_it: BESIDE})
