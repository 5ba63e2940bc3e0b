"""Nearest samples of other classes by an index of usearch or faiss, for sets too large to compare every pair.

An index over all samples would return an anchor's own class. So the classes are numbered, and for every binary digit of the
number there are two indexes: of the classes that have a 0 there, and of those that have a 1. An anchor asks, digit by digit,
the index of the classes that differ from its own. Every other class differs in some digit, and its own never does.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from hardsight.errors import MissingExtra
from hardsight.scores.class_search import Classed, Others
from hardsight.threads import even_rows

PACKAGES = {"usearch": "usearch", "faiss": "faiss-cpu"}
CHECKED = 1000  # anchors whose exact neighbors say what the recall is


def installed() -> str:
    """The package that is there, faiss first; "exact" where there is none."""
    return next((name for name in ("faiss", "usearch") if importlib.util.find_spec(name) is not None), "exact")


def by_index(samples: Classed, k: int, package: str) -> tuple[Others, float]:
    """The k nearest samples of other classes that an index finds, and its recall on a thousand anchors."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(f"--search {package} needs {package}: pip install {PACKAGES[package]}")
    n = len(samples)
    cosine, rows = np.full((n, k), -np.inf, np.float32), np.full((n, k), -1)
    for digit in range(max(1, int(samples.code[-1]).bit_length())):
        set_bit = (samples.code >> digit) & 1 == 1
        for anchors, among in ((set_bit, ~set_bit), (~set_bit, set_bit)):
            queries, members = np.flatnonzero(anchors), np.flatnonzero(among)
            if len(queries) == 0 or len(members) == 0:
                continue
            count = min(k, len(members))
            near, which = _search(package, samples.x[members], samples.x[queries], count)
            _merge(cosine, rows, queries, near, np.where(which >= 0, members[which], -1))
    others = Others.found(cosine, rows)
    return others, _recall(samples, others)


def _merge(cosine: np.ndarray, found: np.ndarray, rows: np.ndarray, near: np.ndarray, which: np.ndarray) -> None:
    """Let (q, m) samples found into the k best of the rows; one that was found before counts once."""
    k = cosine.shape[1]
    both, place = np.concatenate([cosine[rows], near], axis=1), np.concatenate([found[rows], which], axis=1)
    twice = (place[:, None, :k] == place[:, k:, None]).any(2) | (place[:, k:] < 0)  # (q, m)
    both[:, k:][twice] = -np.inf
    order = np.argsort(-both, axis=1, kind="stable")[:, :k]
    cosine[rows], found[rows] = np.take_along_axis(both, order, 1), np.take_along_axis(place, order, 1)
    found[rows] = np.where(np.isneginf(cosine[rows]), -1, found[rows])


def _search(package: str, members: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(q, k) cosines and numbers of the members nearest to each query, -1 where the index found none."""
    if package == "faiss":
        return _by_faiss(members, queries, k)
    from usearch.index import Index

    index: Any = Index(ndim=members.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(members)), members)
    matches = index.search(queries, k)
    keys, distances = np.asarray(matches.keys), np.asarray(matches.distances)
    keys, distances = keys.reshape(len(queries), -1), distances.reshape(len(queries), -1)
    counts = np.asarray(getattr(matches, "counts", np.full(len(queries), k))).reshape(-1, 1)
    there = np.arange(keys.shape[1]) < counts
    return np.where(there, 1 - distances, -np.inf).astype(np.float32), np.where(there, keys.astype(np.int64), -1)


def _by_faiss(members: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """An inverted file of about sqrt(n) cells, of which the nearest tenth is searched."""
    import faiss

    d, cells = members.shape[1], max(1, int(len(members) ** 0.5))
    if cells < 64:  # k-means wants 39 samples of each cell
        index: Any = faiss.IndexFlatIP(d)
    else:
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(d), d, cells, faiss.METRIC_INNER_PRODUCT)
        index.train(members[even_rows(len(members), 64 * cells)])
        index.nprobe = max(8, cells // 10)
    index.add(members)
    cosine, which = index.search(queries, k)
    return np.where(which >= 0, cosine, -np.inf).astype(np.float32), which.astype(np.int64)


def _recall(samples: Classed, others: Others) -> float:
    """Share of the exact k nearest of some anchors that were found, those at the same cosine as the k-th included."""
    rows = even_rows(len(samples), CHECKED)
    k, hits = others.cosine.shape[1], 0
    for row in rows:
        cosine = samples.x @ samples.x[row]  # (n,)
        cosine[samples.code == samples.code[row]] = -np.inf
        least = np.partition(cosine, len(cosine) - k)[len(cosine) - k]
        hits += int((others.cosine[row] >= least - 1e-6).sum())
    return hits / (k * len(rows))
