"""Scores against the bare product features @ weight.T, and against peers."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from benchmarks.timing import Measurement, compared, extra_memory, in_fresh_process
from hardsight import Head, avh, score

SHAPES = ((20000, 2048, 1000), (50000, 512, 1000), (50000, 512, 100))  # (n, d, c)
LIMIT: dict[str, dict[str, tuple[float, ...]]] = {  # by shape
    "avh": {"torch": (1.15, 1.15, 1.3), "numpy": (1.5, 1.5, 1.5)},
    "all row scores": {"torch": (1.6, 1.6), "numpy": ()},
}
MEMORY_LIMIT = 64.0  # MB
PEERS_SHAPE = (20000, 512, 100)


def run(rounds: int = 11) -> list[Measurement]:
    """Run everything; torch and peers only if installed."""
    lines: list[Measurement] = []
    for backend in ("torch", "numpy"):
        if backend == "torch" and importlib.util.find_spec("torch") is None:
            continue
        for index, shape in enumerate(SHAPES):
            lines += _against_the_product(backend, shape, index, rounds)
    lines += _growth(rounds)
    lines += _memory()
    return lines + _peers(max(1, rounds // 2))


def _arrays(shape: tuple[int, int, int], backend: str = "numpy") -> tuple[Any, Head, np.ndarray]:
    """Random features, a head with bias, and labels."""
    n, d, c = shape
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.standard_normal(size, dtype=np.float32) for size in ((n, d), (c, d), c)]
    arrays[1] /= np.float32(d**0.5)
    labels = rng.integers(0, c, n)
    if backend == "torch":
        import torch

        arrays = [torch.from_numpy(x) for x in arrays]
    features, weight, bias = arrays
    return features, Head("linear", weight, bias), labels


def _against_the_product(backend: str, shape: tuple[int, int, int], index: int, rounds: int) -> list[Measurement]:
    features, head, labels = _arrays(shape, backend)
    work = {
        "features @ weight.T": lambda: features @ head.weight.T,
        "avh": lambda: avh(features, head, labels),
        "all row scores": lambda: score(features, head, labels),
    }
    limits = {name: limit[backend][index] for name, limit in LIMIT.items() if index < len(limit[backend])}
    return compared(f"{backend} {shape}", work, rounds, limits)


def _growth(rounds: int) -> list[Measurement]:
    """Time for four times the samples: four times as long is linear."""
    features, head, labels = _arrays((40000, 256, 200))
    quarter = slice(0, 10000)
    work = {"avh of n": lambda: avh(features[quarter], head, labels[quarter]), "avh of 4 n": lambda: avh(features, head, labels)}
    return compared("numpy n = 10000, d = 256, c = 200", work, rounds, {"avh of 4 n": 4.4})


def _memory() -> list[Measurement]:
    """Additional memory on top of the inputs: the same for ten times the samples, and for 100,000 classes."""
    lines = []
    for shape in ((20000, 256, 1000), (200000, 256, 1000), (2000, 64, 100000)):
        used = in_fresh_process(_extra_memory, shape)
        if used is not None:
            lines.append(Measurement(f"numpy {shape}", "extra memory", used, "MB", limit=MEMORY_LIMIT))
    return lines


def _extra_memory(shape: tuple[int, int, int]) -> float | None:
    features, head, labels = _arrays(shape)
    score(features[:64], head, labels[:64])  # warm up, so that libraries, BLAS threads and buffers are not counted
    used = extra_memory(lambda: score(features, head, labels))
    results = 8 * 13 * shape[0] / 2**20  # the results do not count as additional
    return None if used is None else max(0.0, used - results)


def _peers(rounds: int) -> list[Measurement]:
    """Times of other libraries for their scores, from precomputed probabilities or logits."""
    features, head, labels = _arrays(PEERS_SHAPE)
    logits = head.logits(features)
    probs = softmax(logits, axis=1)

    def straightforward() -> np.ndarray:
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        cosine = unit @ (head.weight / np.linalg.norm(head.weight, axis=1, keepdims=True)).T
        theta = np.arccos(np.clip(cosine, -1, 1))
        return np.asarray(theta[np.arange(len(theta)), labels] / theta.sum(1))

    work: dict[str, Callable[[], object]] = {
        "hardsight: avh from features": lambda: avh(features, head, labels),
        "hardsight: all row scores from features": lambda: score(features, head, labels),
        "NumPy: avh, straightforward": straightforward,
    }
    if importlib.util.find_spec("cleanlab"):
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
            work[f"cleanlab.rank: {method}"] = partial(get_label_quality_scores, labels, probs, method=method)
        work["cleanlab: find_label_issues"] = lambda: find_label_issues(labels, probs, n_jobs=1)
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("aum") and importlib.util.find_spec("torch"):
            work["aum: update"] = _aum_update(logits, labels, folder)
        return compared(f"peers {PEERS_SHAPE}", work, rounds)


def _aum_update(logits: np.ndarray, labels: np.ndarray, folder: str) -> Callable[[], object]:
    import torch
    from aum import AUMCalculator

    tensors = torch.from_numpy(logits), torch.from_numpy(labels)
    ids = list(range(len(labels)))
    return lambda: AUMCalculator(folder, compressed=True).update(*tensors, ids)
