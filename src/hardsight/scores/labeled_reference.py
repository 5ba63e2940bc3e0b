"""Classes as a labeled reference shows them: Gaussians, angles to its samples and class vectors, and what people find hard."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import check_count, to_numpy
from hardsight.errors import InputError
from hardsight.head import Head, as_head
from hardsight.scores.neighbors import unit_rows
from hardsight.scores.registry import Fitted, FittedToReference, GivenArrays, reference_score
from hardsight.scores.search import QUERIES, Candidates
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import ANGLES
from hardsight.threads import blocks, even_rows, share

SHRINKAGE = 0.5  # least weight of the covariance within all classes in that of one; more where a class has few samples
RIDGE = 1e-3  # of the mean variance, so that a direction in which a class does not vary counts, too
NUMBERS = 2**18  # at a time: they stay in the cache
SAME = 1e-9  # relative: values that differ by less are equal up to rounding
SPREAD_ROWS = 4000  # samples of the reference, evenly spread, that give temperatures and principal directions
LESS_SURE = 2.0  # of human_hardness: times the temperature of the Gaussians


class LabeledReference(Fitted):
    """Features and labels of the reference's labeled samples, kept in memory: n x d x 4 bytes."""

    reference_terms: frozenset[str] = frozenset()
    fits_labels = True
    every_class = True  # whether the reference must have samples of each

    def __init__(self, head: Head | None = None) -> None:
        self.head, self.fitted = head, False
        self.parts: list[np.ndarray] = [np.zeros((0, 0), np.float32)]
        self.classes = np.zeros(0, np.int64)  # (n,)

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the labeled rows of a batch."""
        known = np.flatnonzero(rows.labeled & rows.ok)
        self.parts.append(to_numpy(x[known]).astype(np.float32))
        self.classes = np.append(self.classes, rows.labels[known])

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) values of the labeled rows; fitted to the reference before the first."""
        result, known = np.full(len(rows.labels), np.nan), np.flatnonzero(rows.labeled & rows.ok)
        if not len(known):
            return result
        if not self.fitted:
            if self.every_class:
                check_every_class(
                    self.classes, int(self.classes.max(initial=0)) + 1 if self.head is None else self.head.num_classes
                )
            self.fit(np.concatenate([part for part in self.parts if part.size] or self.parts[-1:]))
            self.parts, self.fitted = [], True
        result[known] = self.values(to_numpy(x[known]), rows.labels[known], rows, known)
        return result

    def fit(self, features: np.ndarray) -> None:
        """Learn from (n, d) features of the reference, of `self.classes`."""
        raise NotImplementedError

    def values(self, x: np.ndarray, labels: np.ndarray, rows: Sweep, known: np.ndarray) -> np.ndarray:
        """(m,) values of (m, d) labeled samples, which are the rows `known` of a sweep."""
        raise NotImplementedError

    def spread_rows(self) -> np.ndarray:
        """Some rows, evenly spread."""
        return even_rows(len(self.classes), SPREAD_ROWS)


def check_every_class(classes: np.ndarray, num_classes: int) -> None:
    """Refuse a reference without samples of some class: the others would seem nearer than they are."""
    missing = np.setdiff1d(np.arange(num_classes), classes)
    if len(missing):
        raise InputError(
            f"the reference must have samples of every class; {len(missing)} of {num_classes} are missing, such as {missing[0]}."
        )


class ReferenceGaussians:
    """A Gaussian for each class among the first principal directions of the reference: 2 sqrt(d) of them.

    Args:
        features: (n, d) of the reference.
        classes: (n,) from 0 to c - 1, each at least once.
    """

    def __init__(self, features: np.ndarray, classes: np.ndarray) -> None:
        n, d = features.shape
        self.num_classes, size = int(classes.max()) + 1, min(d, 2 * int(np.ceil(np.sqrt(d))))
        some = features[even_rows(n, SPREAD_ROWS)]
        self.mean = some.mean(0, dtype=np.float64)  # (d,)
        centered = some - self.mean.astype(np.float32)
        self.axes = np.linalg.eigh((centered.T @ centered).astype(np.float64))[1][:, ::-1][:, :size]  # (d, D)
        y = self._coordinates(features)  # (n, D)
        members = np.split(y[np.argsort(classes, kind="stable")], np.cumsum(np.bincount(classes))[:-1])  # (n_k, D) each
        means = np.stack([part.mean(0) for part in members])  # (c, D)
        scatter = [(part - mean).T @ (part - mean) for part, mean in zip(members, means, strict=True)]  # (D, D) each
        pooled = sum(scatter) / n
        self.upper = np.triu_indices(size)
        self.weights = np.empty((len(self.upper[0]) + size + 1, self.num_classes))  # of products, coordinates and 1
        for k, part in enumerate(members):
            weight = max(SHRINKAGE, size / (size + len(part)))
            covariance = (1 - weight) * scatter[k] / len(part) + weight * pooled
            covariance += RIDGE * max(np.trace(covariance) / size, np.finfo(float).tiny) * np.eye(size)
            self.weights[:, k] = self._quadratic(means[k], covariance)

    def _quadratic(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """-(y - m)' S^-1 (y - m) / 2 - log |S| / 2 as weights of y_i y_j, y_i and 1: then a matrix product gives all classes."""
        precision = np.linalg.inv(covariance)
        products = -(precision - np.diag(np.diag(precision)) / 2)[self.upper]  # each y_i y_j, i < j, stands for two
        constant = -0.5 * mean @ precision @ mean - 0.5 * np.linalg.slogdet(covariance)[1]
        return np.concatenate([products, precision @ mean, [constant]])

    def _coordinates(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, D) along the principal directions."""
        y, mean, axes = np.empty((len(x), self.axes.shape[1])), self.mean.astype(np.float32), self.axes.astype(np.float32)

        def work(part: slice) -> None:
            y[part] = (x[part] - mean) @ axes

        share(work, blocks(len(x), max(1, NUMBERS // x.shape[1])))
        return y

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, c) log density of each class, up to a constant."""
        result, y, size = np.empty((len(x), self.num_classes)), self._coordinates(x), self.axes.shape[1]

        def work(part: slice) -> None:
            rows, end = y[part], len(self.upper[0])
            table = np.ones((len(rows), len(self.weights)))  # products, coordinates and 1
            start = 0
            for k in range(size):  # y_k y_k, y_k y_k+1, ..., in the order of `upper`
                np.multiply(rows[:, k:], rows[:, k, None], out=table[:, start : start + size - k])
                start += size - k
            table[:, end : end + size] = rows
            result[part] = table @ self.weights

        share(work, blocks(len(x), max(1, NUMBERS // len(self.weights))))
        return result


def own_entries(table: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, c), (n,) -> (n,) the entry of each row at its label."""
    return np.asarray(table[np.arange(len(labels)), labels])


def own_loss(table: np.ndarray, labels: np.ndarray, temperature: float) -> np.ndarray:
    """(n,) -log softmax(table / T) at the label."""
    from scipy.special import log_softmax  # slow to import, and everything imports the scores

    return -own_entries(log_softmax(table / temperature, axis=1), labels)


def spread(values: np.ndarray) -> float:
    """The deviation of a class's own evidence in the reference, as a temperature: differences below it say little."""
    deviation = float(values.std())
    return deviation if deviation > SAME * float(np.abs(values).max()) else 1.0


class GaussianConfidence(LabeledReference):
    """The class Gaussians of a reference, and the spread of its samples' own log density."""

    def fit(self, features: np.ndarray) -> None:
        """The Gaussians and the temperature."""
        self.gaussians, some = ReferenceGaussians(features, self.classes), self.spread_rows()
        self.temperature = spread(own_entries(self.gaussians.log_density(features[some]), self.classes[some]))

    def values(self, x: np.ndarray, labels: np.ndarray, rows: Sweep, known: np.ndarray) -> np.ndarray:
        """(m,) probability of the given class; NaN for one that the reference does not have."""
        result, there = np.full(len(x), np.nan), labels < self.gaussians.num_classes
        result[there] = np.exp(-own_loss(self.gaussians.log_density(x[there]), labels[there], self.temperature))
        return result


@reference_score(
    lambda head: GaussianConfidence(),
    hard="low",
    range="[0, 1]",
    formula="softmax(log N(x; m_k, S_k) / T)_y; m_k, S_k of class k in the reference, T the deviation of its own log densities",
    source="quadratic discriminant analysis; Lee et al., NeurIPS 2018 (class Gaussians of features)",
    labels=True,
)
def qda_confidence(features: Any, labels: Any, reference: Any, reference_labels: Any) -> FittedToReference:
    """Probability of the given class by Gaussians of the reference's classes, tempered by how much its own densities vary.

    The Gaussians are of the first 2 sqrt(d) principal directions, each class's covariance shrunk toward the common one.
    """
    return GivenArrays(features, labels=labels), GaussianConfidence(), GivenArrays(reference, labels=reference_labels)


# ---- angles ----


class NeighborRatio(Fitted):
    """Unit features of the reference by class, in memory as float32: n x d x 4 bytes."""

    fits_labels = True
    every_class = True

    def __init__(self, k: int) -> None:
        self.k = check_count(k, "k", least=1)
        self.classes: dict[int, Candidates] = {}

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the directions of a batch under their labels."""
        known = np.flatnonzero(rows.labeled & rows.ok & (rows.norm > 0))
        for label in np.unique(rows.labels[known]).tolist():
            members = known[rows.labels[known] == label]
            own = self.classes.setdefault(label, Candidates())
            own.add(unit_rows(x, members, rows.norm), own.size + np.arange(len(members)))

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) angle to the own class over that plus the angle to the nearest other one."""
        result = np.full(len(rows.labels), np.nan)
        names = np.array(sorted(self.classes))
        check_every_class(names, int(names.max(initial=0)) + 1)
        scored = np.flatnonzero(rows.labeled & rows.ok & (rows.norm > 0) & (rows.labels < len(names)))

        def ask(part: slice) -> None:
            at = scored[part]
            query = unit_rows(x, at, rows.norm)
            angles = np.stack([self._angle(query, label) for label in names.tolist()], axis=1)  # (q, c)
            own = own_entries(angles, rows.labels[at])
            angles[np.arange(len(at)), rows.labels[at]] = np.inf
            result[at] = own / (own + angles.min(1))

        share(ask, blocks(len(scored), QUERIES))
        return result

    def _angle(self, query: np.ndarray, label: int) -> np.ndarray:
        """(q,) mean angle to the k nearest of a class."""
        cosine, _ = self.classes[label].nearest(query, self.k)  # (q, k), or as many as there are
        return np.asarray(np.arccos(np.clip(cosine, -1.0, 1.0)).mean(1, dtype=np.float64))


@reference_score(
    lambda head, k: NeighborRatio(k),
    hard="high",
    range="[0, 1]",
    formula="a_y / (a_y + min_{j != y} a_j); a_j the mean angle from x to its k nearest of class j in the reference, k = 10",
    source="Jiang et al., NeurIPS 2018 (trust score), with angles",
    labels=True,
)
def neighbor_ratio(features: Any, labels: Any, reference: Any, reference_labels: Any, *, k: int = 10) -> FittedToReference:
    """Angle to the nearest samples of the own class in the reference, against those of the nearest other class.

    1/2 is halfway between two classes, above it another class is nearer. A class of fewer than k counts with all it has.

    Example:
        >>> neighbor_ratio([[1.0, 1.0], [1.0, 0.0]], [0, 0], [[1.0, 0.0], [0.0, 1.0]], [0, 1], k=1).round(4)
        array([0.5, 0. ])
    """
    return GivenArrays(features, labels=labels), NeighborRatio(k), GivenArrays(reference, labels=reference_labels)


class AngularConfidence(LabeledReference):
    """How much the reference's cosines to their own class vectors vary."""

    terms = frozenset({ANGLES})
    every_class = False

    def fit(self, features: np.ndarray) -> None:
        """The temperature."""
        some = self.spread_rows()
        self.temperature = spread(own_entries(self._cosines(features[some]), self.classes[some]))

    def values(self, x: np.ndarray, labels: np.ndarray, rows: Sweep, known: np.ndarray) -> np.ndarray:
        """(m,) probability of the given class."""
        return np.exp(-own_loss(self._cosines(x).astype(np.float64), labels, self.temperature))

    def _cosines(self, x: np.ndarray) -> np.ndarray:
        assert self.head is not None
        return np.asarray(np.cos(to_numpy(self.head.angles(x))))  # (m, c)


@reference_score(
    AngularConfidence,
    hard="low",
    range="[0, 1]",
    formula="softmax(cos angle(x, w_k) / T)_y, T the deviation of cos angle(x', w_y') in the reference",
    source="NormFace (Wang et al., ACM MM 2017), with a temperature from the reference",
    labels=True,
)
def angular_confidence(
    features: Any, head: Any, labels: Any, reference: Any, reference_labels: Any, *, bias: Any = None
) -> FittedToReference:
    """Probability of the given class by angles alone, tempered by how much they vary in the reference."""
    own = as_head(head, bias)
    return GivenArrays(features, own, labels), AngularConfidence(own), GivenArrays(reference, own, reference_labels)


# ---- what people find hard ----


class HumanHardness(AngularConfidence):
    """Class Gaussians, both temperatures, and the mean and deviation of each part over the reference."""

    every_class = True

    def fit(self, features: np.ndarray) -> None:
        """Everything from some rows of the reference but the Gaussians, which are of all."""
        super().fit(features)
        self.gaussians, some = ReferenceGaussians(features, self.classes), self.spread_rows()
        x, labels = features[some], self.classes[some]  # (r, d), (r,)
        density = self.gaussians.log_density(x)  # (r, c)
        self.of_density = LESS_SURE * spread(own_entries(density, labels))
        parts = self._parts(x, density, labels)
        self.mean, deviation = parts.mean(1), parts.std(1)
        self.scale = np.where(deviation > 0, deviation, 1.0)

    def values(self, x: np.ndarray, labels: np.ndarray, rows: Sweep, known: np.ndarray) -> np.ndarray:
        """(m,) mean of the standardized parts, far from the reference's as its logarithm: there deviations count little more."""
        parts = self._parts(x, self.gaussians.log_density(x), labels)
        return np.asarray(np.arcsinh(((parts - self.mean[:, None]) / self.scale[:, None]).mean(0)))

    def _parts(self, x: np.ndarray, density: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """(2, m) the probability of another class by Gaussians, and the loss of tempered cosines."""
        another = -np.expm1(-own_loss(density, labels, self.of_density))
        return np.stack([another, own_loss(self._cosines(x).astype(np.float64), labels, self.temperature)])


@reference_score(
    HumanHardness,
    hard="high",
    range="(-inf, inf)",
    formula="arcsinh of the mean of 1 - qda_confidence at 2 T and -log angular_confidence, each less its mean and over its "
    "deviation in the reference",
    source="hardsight: chosen on half of CIFAR-10H, checked on the other half",
    labels=True,
)
def human_hardness(
    features: Any, head: Any, labels: Any, reference: Any, reference_labels: Any, *, bias: Any = None
) -> FittedToReference:
    """What people are likely to find hard, without asking them: 0 is a typical sample of the reference, high is hard.

    Two views that err differently: the class Gaussians of the reference, and angles to the class vectors, both at a temperature
    at which a sure model is less sure.
    """
    own = as_head(head, bias)
    return GivenArrays(features, own, labels), HumanHardness(own), GivenArrays(reference, own, reference_labels)
