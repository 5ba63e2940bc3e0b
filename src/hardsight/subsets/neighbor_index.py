"""Nearest samples of other classes by an index of usearch, for sets too large to compare every pair.

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

CHECKED = 1000  # anchors whose exact neighbors say what the recall is


def installed() -> bool:
    """Whether there is an index to search."""
    return importlib.util.find_spec("usearch") is not None


def by_index(samples: Classed, k: int) -> tuple[Others, float]:
    """The k nearest samples of other classes that an index finds, and its recall on a thousand anchors."""
    if not installed():
        raise MissingExtra("--search usearch needs usearch: pip install usearch")
    n = len(samples)
    cosine, rows = np.full((n, k), -np.inf, np.float32), np.full((n, k), -1)
    for digit in range(max(1, int(samples.code[-1]).bit_length())):
        set_bit = (samples.code >> digit) & 1 == 1
        for anchors, among in ((set_bit, ~set_bit), (~set_bit, set_bit)):
            queries, members = np.flatnonzero(anchors), np.flatnonzero(among)
            if len(queries) == 0 or len(members) == 0:
                continue
            count = min(k, len(members))
            near, which = _search(samples.x[members], samples.x[queries], count)
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


def _search(members: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(q, k) cosines and numbers of the members nearest to each query, -1 where the index found none."""
    from usearch.index import Index

    index: Any = Index(ndim=members.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(members)), members)
    matches = index.search(queries, k)
    keys, distances = np.asarray(matches.keys), np.asarray(matches.distances)
    keys, distances = keys.reshape(len(queries), -1), distances.reshape(len(queries), -1)
    counts = np.asarray(getattr(matches, "counts", np.full(len(queries), k))).reshape(-1, 1)
    there = np.arange(keys.shape[1]) < counts
    return np.where(there, 1 - distances, -np.inf).astype(np.float32), np.where(there, keys.astype(np.int64), -1)


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
