"""Atypical inputs: how far a feature lies from where features are expected, whatever its label.

Most are fitted to another snapshot, the reference: what the model was trained on. The mean shift needs none, because a
sample moves among the samples of its own dataset. `energy` and `gen`, which look at logits alone, are among the
scores of confidence.

The contract is `Fitted` (registry.py); `ReferenceScope` (scoring/scopes.py) feeds it; labeled_reference.py has those that need
the labels of the reference, too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from hardsight.checks import check_count, to_numpy, widened
from hardsight.errors import InputError
from hardsight.head import Head, as_head
from hardsight.scores.neighbors import unit_rows
from hardsight.scores.registry import Fitted, FittedTo, FittedToReference, GivenArrays, dataset_score, not_linear, reference_score
from hardsight.scores.search import QUERIES, Candidates
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import SOFTMAX
from hardsight.threads import blocks, share

ROWS = 4096  # whose distances are taken at a time
SINGULAR = 1e-10  # of the largest variance: a direction with less does not vary, and is left out as in a pseudo-inverse
SHIFTS = 3  # how often a sample moves to the mean of its neighbors


class RelativeMahalanobis(Fitted):
    """Class means and one covariance within classes, and the mean and covariance of all: Gaussians of the reference.

    Sums of rows and of their products are gathered batch by batch around a first guess of the center.
    """

    fits_labels = True

    def __init__(self) -> None:
        self.center: Any = None  # (d,) so that far-off features keep their digits
        self.count = 0
        self.counts, self.totals = np.zeros(0), np.zeros((0, 0))  # (c,), (c, d), of the classes seen so far
        self.fitted: tuple[np.ndarray, ...] | None = None

    def see(self, x: Any, rows: Sweep) -> None:
        """Add a batch to the sums of its given classes."""
        known, d = np.flatnonzero(rows.labeled & rows.ok), x.shape[1]
        if self.center is None:
            first = to_numpy(x[known[:ROWS]]).astype(np.float64)
            self.center, self.products = first.mean(0) if len(first) else np.zeros(d), np.zeros((d, d))
        more = max(0, int(rows.labels.max(initial=-1)) + 1 - len(self.counts))
        self.counts = np.append(self.counts, np.zeros(more))
        self.totals = np.concatenate([self.totals.reshape(-1, d), np.zeros((more, d))])
        for part in blocks(len(known), ROWS):
            at = known[part]
            z = to_numpy(x[at]).astype(np.float64) - self.center  # (b, d)
            self.products += z.T @ z
            self.count += len(z)
            np.add.at(self.totals, rows.labels[at], z)
            self.counts += np.bincount(rows.labels[at], minlength=len(self.counts))

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) squared distance to the nearest class less the one to all."""
        result = np.full(len(rows.labels), np.nan)
        if self.count == 0:
            return result
        self.fitted = self.fitted or self._fit()
        within, means, overall, mean = self.fitted  # (d, r), (c, r), (d, s), (s,)
        scored = np.flatnonzero(rows.ok)
        for part in blocks(len(scored), ROWS):
            at = scored[part]
            z = to_numpy(x[at]).astype(np.float64) - self.center  # (b, d)
            y = z @ within
            to_classes = np.vecdot(y, y)[:, None] - 2 * y @ means.T + np.vecdot(means, means)  # (b, c)
            result[at] = to_classes.min(1) - ((z @ overall - mean) ** 2).sum(1)
        return result

    def _fit(self) -> tuple[np.ndarray, ...]:
        """Both Gaussians as maps after which their distance is the plain one, and the means after them."""
        there = self.counts > 0
        n, mean = self.count, self.totals[there] / self.counts[there, None]  # (c, d)
        center = self.totals.sum(0) / n
        within = _whitening((self.products - (mean.T * self.counts[there]) @ mean) / n)
        overall = _whitening(self.products / n - np.outer(center, center))
        return within, mean @ within, overall, center @ overall


def _whitening(covariance: np.ndarray) -> np.ndarray:
    """(d, r) map W with W W' the pseudo-inverse of a (d, d) covariance of rank r."""
    variance, direction = np.linalg.eigh(covariance)  # ascending
    there = variance > SINGULAR * max(variance[-1], 0.0)
    return direction[:, there] / np.sqrt(variance[there])


@reference_score(
    lambda head: RelativeMahalanobis(),
    hard="high",
    range="(-inf, inf)",
    formula="min_k (x - m_k)' S^-1 (x - m_k) - (x - m_0)' S_0^-1 (x - m_0); m_k, S within classes, m_0, S_0 of all the reference",
    source="Ren et al., 2021 (relative Mahalanobis distance)",
)
def mahalanobis_relative(features: Any, reference: Any, reference_labels: Any) -> FittedToReference:
    """Mahalanobis distance to the nearest class of the reference, less the distance to all of it: high is atypical.

    What is far from every class and just as far from the whole is unusual in a way that has nothing to do with the
    classes; the difference leaves that out. Directions in which the reference does not vary are left out, too.
    """
    return GivenArrays(features), RelativeMahalanobis(), GivenArrays(reference, labels=reference_labels)


class NearestReference(Fitted):
    """Unit features of the reference, kept in memory as float32: n x d x 4 bytes."""

    def __init__(self, k: int | None) -> None:
        self.k = None if k is None else check_count(k, "k", least=1)
        self.candidates = Candidates()

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the directions of a batch."""
        known = np.flatnonzero(rows.ok & (rows.norm > 0))
        self.candidates.add(unit_rows(x, known, rows.norm), self.candidates.size + np.arange(len(known)))

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) distance to the k-th nearest."""
        result = np.full(len(rows.labels), np.nan)
        scored = np.flatnonzero(rows.ok & (rows.norm > 0))
        vectors = self.candidates.joined()  # (n, d)
        if len(vectors) == 0:
            return result
        k = max(1, round(len(vectors) / 100)) if self.k is None else self.k

        def ask(part: slice) -> None:
            at = scored[part]
            query = unit_rows(x, at, rows.norm)
            _, nearest = self.candidates.nearest(query, k)  # (q, k), or as many as there are
            result[at] = np.linalg.norm(query.astype(np.float64) - vectors[nearest[:, -1]], axis=1)

        share(ask, blocks(len(scored), QUERIES))
        return result


@reference_score(
    lambda head, k: NearestReference(k),
    hard="high",
    range="[0, 2]",
    formula="distance of x / |x| to its k-th nearest x' / |x'| of the reference's n, k = n / 100, rounded and at least 1",
    source="Sun et al., ICML 2022 (deep nearest neighbors)",
)
def knn_distance(features: Any, reference: Any, *, k: int | None = None) -> FittedToReference:
    """Distance of a feature's direction to the k-th nearest direction of the reference: high is atypical.

    By default, k is 1 % of the reference's samples. Of a reference with fewer than k, the farthest counts. The paper takes
    k = 50 of CIFAR's 50,000 samples and 1,000 of ImageNet's: `knn_distance:1000`.
    """
    return GivenArrays(features), NearestReference(k), GivenArrays(reference)


class VirtualLogit(Fitted):
    """The principal directions of the reference around the point where all logits are zero, and the reference itself."""

    terms = frozenset({SOFTMAX})

    def __init__(self, head: Head | None, dimensions: int | None = None) -> None:
        if head is not None and head.kind != "linear":
            raise InputError(not_linear("vim", head.kind))
        self.head, self.dimensions = head, dimensions
        self.parts: list[np.ndarray] = []
        self.products: Any = 0.0
        self.largest_logits = 0.0
        self.outside: np.ndarray | None = None  # (d, d - D), once fitted

    @functools.cached_property
    def origin(self) -> Any:
        """(d,) where all logits are zero, or as near as can be."""
        if self.head is None or self.head.bias is None:
            return 0.0
        weight, bias = (to_numpy(array).astype(np.float64) for array in (self.head.weight, self.head.bias))
        return -np.linalg.pinv(weight) @ bias

    def see(self, x: Any, rows: Sweep) -> None:
        """Add a batch to the products of its rows, and keep it: the residuals can be taken only when all are known."""
        known = np.flatnonzero(rows.ok)
        self.parts.append(to_numpy(widened(x[known])))
        self.largest_logits += rows.max_logit[known].sum()
        for z in self._around_origin(self.parts[-1]):
            self.products = self.products + z.T @ z

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) virtual logit less the log of the sum of the others' exponentials."""
        result = np.full(len(rows.labels), np.nan)
        count = sum(map(len, self.parts))
        if count == 0:
            return result
        if self.outside is None:
            _, direction = np.linalg.eigh(self.products)  # ascending: the last ones are the principal directions
            d = len(direction)
            self.outside = direction[:, : d - min(d, principal_dimensions(d) if self.dimensions is None else self.dimensions)]
            residuals = sum(self._residual(part).sum() for part in self.parts)
            self.alpha = self.largest_logits / residuals if residuals > 0 else np.nan
        scored = np.flatnonzero(rows.ok)
        energy = rows.max_logit[scored] + np.log(rows.partition[scored])  # log sum_k e^z_k
        result[scored] = self.alpha * self._residual(to_numpy(x[scored])) - energy
        return result

    def _around_origin(self, x: np.ndarray) -> Iterator[np.ndarray]:
        for part in blocks(len(x), ROWS):
            yield x[part].astype(np.float64) - self.origin

    def _residual(self, x: np.ndarray) -> np.ndarray:
        """(b,) length of the part of (b, d) features that lies outside the principal directions."""
        assert self.outside is not None
        lengths = [np.linalg.norm(z @ self.outside, axis=1) for z in self._around_origin(x)]
        return np.concatenate([np.empty(0), *lengths])


def principal_dimensions(d: int) -> int:
    """How many principal directions the authors of ViM keep of d; half of a space smaller than theirs."""
    return 1000 if d >= 2048 else 512 if d >= 768 else d // 2


@reference_score(
    VirtualLogit,
    hard="high",
    range="(-inf, inf)",
    formula="a r - log sum_k e^z_k; r = |x - o outside the first D principal directions|, o = -W^+ b, a = mean max z / mean r",
    source="Wang et al., CVPR 2022 (ViM)",
    linear=True,
)
def vim(features: Any, head: Any, reference: Any, *, bias: Any = None, dimensions: int | None = None) -> FittedToReference:
    """Virtual-logit matching: what of a feature lies outside the principal directions of the reference, as one more logit.

    The paper's score is the softmax probability of that logit; this is its log-odds, which ranks the same and never rounds
    to 1. D is `dimensions`: 1,000 of 2,048 or more, 512 of 768 or more, else half of them. The head must be linear. It is null
    where the reference has nothing outside its principal directions.
    """
    own = as_head(head, bias)
    if dimensions is not None:
        check_count(dimensions, "dimensions")
    return GivenArrays(features, own), VirtualLogit(own, dimensions), GivenArrays(reference, own)


class MeanShift(Fitted):
    """All features of the dataset, in memory, and how far each has moved, computed on first use."""

    def __init__(self, k: int) -> None:
        self.k = check_count(k, "k", least=1)
        self.parts: list[np.ndarray] = []
        self.known: list[np.ndarray] = []  # (b,) whether a row counts
        self.moved: np.ndarray | None = None  # (n,)
        self.asked = 0  # rows passed by of

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the features of a batch."""
        self.known.append(rows.ok)
        self.parts.append(to_numpy(widened(x[np.flatnonzero(rows.ok)])))

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) distance from where a sample was to where it ends."""
        if self.moved is None:
            known = np.concatenate(self.known)
            self.moved = np.full(len(known), np.nan)
            self.moved[known] = shifted_distance(np.concatenate(self.parts), self.k)
        part = self.moved[self.asked : self.asked + len(rows.labels)]
        self.asked += len(rows.labels)
        return part


def shifted_distance(x: np.ndarray, k: int) -> np.ndarray:
    """(n, d) -> (n,) how far each row is from where three moves to the mean of its k nearest others bring it."""
    if len(x) < 2:
        return np.full(len(x), np.nan)
    largest = np.abs(x).max()
    scale = 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0  # of two, so that nothing is rounded: 1e30 is not squared
    start = x / x.dtype.type(scale)
    start = (start - start.mean(0, dtype=np.float64)).astype(x.dtype)  # distances do not change, and keep their digits
    here, rows = start, np.arange(len(x))
    for _ in range(SHIFTS):
        candidates, moved = Candidates(lengths=True), np.empty_like(here)
        candidates.add(here, rows)

        def move(part: slice, candidates: Candidates = candidates, here: np.ndarray = here, moved: np.ndarray = moved) -> None:
            _, nearest = candidates.nearest(here[part], min(k, len(here) - 1), rows[part])  # (q, k)
            moved[part] = here[nearest].mean(1, dtype=np.float64)

        share(move, blocks(len(x), QUERIES // 4))
        here = moved
    return scale * np.linalg.norm(here.astype(np.float64) - start, axis=1)


@dataset_score(
    lambda head, k: MeanShift(k),
    hard="high",
    range="[0, inf)",
    formula="|x - x'''|; x' is the mean of the k nearest other samples of x, three times over, k = 30",
    source="Yang, Rahardja, Fränti, Pattern Recognition 2021 (mean-shift outlier detection)",
    labels=False,
)
def mean_shift(features: Any, *, k: int = 30) -> FittedTo:
    """How far a sample moves when every sample moves to the mean of its k nearest others, three times: high is atypical.

    Samples in a crowd hardly move; what lies apart is drawn into it. No reference and no label is needed.
    """
    return GivenArrays(features), MeanShift(k)
