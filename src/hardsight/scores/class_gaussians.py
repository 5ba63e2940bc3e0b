"""Class Gaussians of a reference: how probable the given class is where each class has its own mean and covariance (QDA)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.scores.registry import FittedToReference, ScoreInputs, reference_score
from hardsight.scores.sweep import Sweep
from hardsight.threads import blocks

SHRINKAGE = 0.1  # least weight of the covariance within all classes in that of one; more where a class has few samples
RIDGE = 1e-3  # of the mean variance, so that a direction in which a class does not vary counts, too
NUMBERS = 2**22  # in memory at a time
SAME = 1e-9  # relative: values that differ by less are equal up to rounding
SPREAD_ROWS = 10_000  # samples of the reference, evenly spread, by which a temperature is set


class LabeledReference:
    """Features and labels of the reference's labeled samples, kept in memory: n x d x 4 bytes."""

    terms: frozenset[str] = frozenset()
    labels = True
    every_class = True  # whether the reference must have samples of each

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = [np.zeros((0, 0), np.float32)]
        self.classes = np.zeros(0, np.int64)  # (n,)

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the labeled rows of a batch."""
        known = np.flatnonzero(rows.labeled & rows.ok)
        self.parts.append(to_numpy(x[known]).astype(np.float32))
        self.classes = np.append(self.classes, rows.labels[known])

    def joined(self) -> np.ndarray:
        """(n, d) all features."""
        self.parts = [np.concatenate([part for part in self.parts if part.size] or self.parts[-1:])]
        return self.parts[0]

    def spread_rows(self) -> np.ndarray:
        """Some rows, evenly spread."""
        n = len(self.classes)
        return np.unique(np.linspace(0, n - 1, min(n, SPREAD_ROWS)).astype(np.int64))


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
        c, size = int(classes.max()) + 1, min(d, 2 * int(np.ceil(np.sqrt(d))))
        self.mean = features.mean(0, dtype=np.float64)  # (d,)
        centered = features - self.mean.astype(np.float32)
        self.axes = np.linalg.eigh((centered.T @ centered).astype(np.float64))[1][:, ::-1][:, :size]  # (d, D)
        y = centered.astype(np.float64) @ self.axes  # (n, D)
        members = [y[classes == k] for k in range(c)]
        means = np.stack([part.mean(0) for part in members])  # (c, D)
        within = y - means[classes]
        pooled = within.T @ within / n
        self.upper = np.triu_indices(size)
        self.weights = np.empty((len(self.upper[0]) + size + 1, c))  # of products, coordinates and 1
        for k, part in enumerate(members):
            weight = max(SHRINKAGE, size / (size + len(part)))
            own = (part - means[k]).T @ (part - means[k]) / len(part)
            covariance = (1 - weight) * own + weight * pooled
            covariance += RIDGE * max(np.trace(covariance) / size, np.finfo(float).tiny) * np.eye(size)
            self.weights[:, k] = self._quadratic(means[k], covariance)

    def _quadratic(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """-(y - m)' S^-1 (y - m) / 2 - log |S| / 2 as weights of y_i y_j, y_i and 1: then a matrix product gives all classes."""
        precision = np.linalg.inv(covariance)
        products = -(precision - np.diag(np.diag(precision)) / 2)[self.upper]  # each y_i y_j, i < j, stands for two
        constant = -0.5 * mean @ precision @ mean - 0.5 * np.linalg.slogdet(covariance)[1]
        return np.concatenate([products, precision @ mean, [constant]])

    @property
    def num_classes(self) -> int:
        """c."""
        return self.weights.shape[1]

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, c) log density of each class, up to a constant."""
        result = np.empty((len(x), self.num_classes))
        for part in blocks(len(x), max(1, NUMBERS // len(self.weights))):
            y = (x[part] - self.mean) @ self.axes  # (b, D)
            products = y[:, self.upper[0]] * y[:, self.upper[1]]
            result[part] = np.concatenate([products, y, np.ones((len(y), 1))], axis=1) @ self.weights
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

    fitted: tuple[ReferenceGaussians, float] | None = None

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) probability of the given class."""
        result = np.full(len(rows.labels), np.nan)
        if not (rows.labeled & rows.ok).any():
            return result
        gaussians, temperature = self.fit()
        known = np.flatnonzero(rows.labeled & rows.ok & (rows.labels < gaussians.num_classes))
        result[known] = np.exp(-own_loss(gaussians.log_density(to_numpy(x[known])), rows.labels[known], temperature))
        return result

    def fit(self) -> tuple[ReferenceGaussians, float]:
        """The Gaussians and the temperature."""
        if self.fitted is None:
            features = self.joined()
            check_every_class(self.classes, int(self.classes.max(initial=0)) + 1)
            gaussians, some = ReferenceGaussians(features, self.classes), self.spread_rows()
            self.fitted = gaussians, spread(own_entries(gaussians.log_density(features[some]), self.classes[some]))
        return self.fitted


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
    return ScoreInputs(features, labels=labels), GaussianConfidence(), ScoreInputs(reference, labels=reference_labels)
