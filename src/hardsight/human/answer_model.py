"""Answers about some samples, as a ridge regression on a kernel's landmarks: predictions, their errors, and what to ask next."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from hardsight.human.answer_kernel import Known, kernel, squared_distances
from hardsight.threads import blocks

LANDMARKS = 2000  # answered samples that span the model; the time grows with their cube
PENALTIES = 10.0 ** np.arange(-1.5, 3.01, 0.25)
JITTER = 1e-6  # of the mean diagonal, so that two equal samples can be landmarks
ROWS = 2048  # predicted at a time
NEAREST = 50  # least number of errors, of samples with similar predictions, that an interval is made of
POOL = 1000  # most samples among which the next to ask are chosen


def stabilized(chosen: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Anscombe's arcsin sqrt((k + 3/8) / (n + 3/4)): the noise of k of n answers is then nearly the same at every frequency."""
    return np.asarray(np.arcsin(np.sqrt((chosen + 0.375) / (answers + 0.75))))


def as_frequency(stable: np.ndarray, answers: float) -> np.ndarray:
    """The frequency among so many answers that a stabilized number stands for."""
    share = np.sin(np.clip(stable, 0.0, np.pi / 2)) ** 2
    return np.clip((share * (answers + 0.75) - 0.375) / answers, 0.0, 1.0)


class LandmarkMap:
    """Coordinates phi of a sample with phi(a) . phi(b) = k(a, b) for landmarks, and nearly so for others (Nyström)."""

    def __init__(self, landmarks: Known) -> None:
        self.landmarks = landmarks
        apart = squared_distances(landmarks.features, landmarks.features)
        self.median = float(np.median(apart[~np.eye(len(apart), dtype=bool)])) or 1.0
        own = kernel(landmarks, landmarks, self.median)
        self.root = cholesky(own + JITTER * np.mean(np.diag(own)) * np.eye(len(own)), lower=True)  # (m, m)

    def __call__(self, known: Known) -> np.ndarray:
        """(n, m)."""
        return np.asarray(solve_triangular(self.root, kernel(self.landmarks, known, self.median), lower=True).T)

    def times(self, known: Known, weights: np.ndarray) -> np.ndarray:
        """(n,) phi . weights, without phi."""
        return kernel(known, self.landmarks, self.median) @ solve_triangular(self.root, weights, lower=True, trans="T")

    def left_out(self, known: Known, phi: np.ndarray) -> np.ndarray:
        """(n, n) k(a, b) - phi(a) . phi(b): what of the samples no landmark knows."""
        return kernel(known, known, self.median) - phi @ phi.T


class HardnessMap:
    """The known hardness as the one coordinate: with few answers, better than everything else together."""

    def __call__(self, known: Known) -> np.ndarray:
        """(n, 1)."""
        return known.hardness[:, None]

    def times(self, known: Known, weights: np.ndarray) -> np.ndarray:
        """(n,)."""
        return known.hardness * weights[0]

    def left_out(self, known: Known, phi: np.ndarray) -> np.ndarray:
        """(n, n) nothing."""
        return np.zeros((len(known), len(known)))


@dataclass(frozen=True)
class Ridge:
    """A ridge regression whose penalty has the smallest leave-one-out error."""

    mean: np.ndarray  # (r,)
    intercept: float
    vectors: np.ndarray  # (r, r) eigenvectors of the coordinates' products
    values: np.ndarray  # (r,) eigenvalues plus the penalty
    penalty: float
    weights: np.ndarray  # (r,) along the eigenvectors
    left_out: np.ndarray  # (n,) the prediction for each sample by the others

    @classmethod
    def fit(cls, phi: np.ndarray, target: np.ndarray) -> Ridge:
        """Fit (n, r) coordinates to an (n,) target."""
        mean, intercept = phi.mean(0), float(target.mean())
        values, vectors = eigh((phi - mean).T @ (phi - mean), driver="evd")
        along, y = (phi - mean) @ vectors, target - intercept  # (n, r), (n,)
        products, best = along.T @ y, None
        for penalty in PENALTIES:
            raised = np.maximum(values, 0.0) + penalty
            weights = products / raised
            leverage = (along**2) @ (1 / raised) + 1 / len(y)  # (n,)
            errors = (y - along @ weights) / np.maximum(1 - leverage, 1e-9)
            loss = float(np.mean(errors**2))
            if best is None or loss < best[0]:
                best = loss, penalty, raised, weights, target - errors
        assert best is not None
        return cls(mean, intercept, vectors, best[2], float(best[1]), best[3], best[4])

    @property
    def slope(self) -> np.ndarray:
        """(r,) weights of the coordinates."""
        return np.asarray(self.vectors @ self.weights)

    @property
    def start(self) -> float:
        """The prediction where all coordinates are zero."""
        return float(self.intercept - self.mean @ self.slope)


class AnswerModel:
    """Predicts what people would say of any sample, from what they said of `rows`.

    Args:
        known: what is known of all samples.
        rows: (n,) the answered ones.
        target: (n,) their stabilized frequencies.
        answers: how many people answer about a sample.
        learned: whether there are answers enough to learn from more than the known hardness.
        seed: of the landmarks.
    """

    def __init__(
        self, known: Known, rows: np.ndarray, target: np.ndarray, answers: float, *, learned: bool = True, seed: int = 0
    ) -> None:
        self.known, self.rows, self.target, self.answers = known, rows, target, answers
        chosen = np.random.default_rng(seed).permutation(len(rows))[:LANDMARKS]
        self.map: LandmarkMap | HardnessMap = LandmarkMap(known.take(rows[chosen])) if learned else HardnessMap()
        self.phi = self.map(known.take(rows))  # (n, r)
        self.ridge = Ridge.fit(self.phi, target)
        self.errors = target - self.ridge.left_out  # (n,)

    @functools.cached_property
    def stable(self) -> np.ndarray:
        """(n,) predictions of all samples; of an answered one, by the answers about the others."""
        stable = self.predict(self.known)
        stable[self.rows] = self.ridge.left_out
        return stable

    def predict(self, known: Known) -> np.ndarray:
        """(n,) stabilized frequencies of samples that nobody was asked about."""
        parts = [self.map.times(known.take(part), self.ridge.slope) for part in blocks(len(known), ROWS)]
        return self.ridge.start + np.concatenate(parts)

    def expected(self, stable: np.ndarray) -> np.ndarray:
        """(n,) mean frequency over the errors: a frequency is bounded, so the frequency of the mean would be too far out."""
        spread = np.quantile(self.errors, np.linspace(0.01, 0.99, 50))
        return np.mean([as_frequency(stable + error, self.answers) for error in spread], axis=0)

    def interval(self, stable: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """(n,) low and high frequency, by the errors of the answered samples with the most similar predictions."""
        order = np.argsort(self.ridge.left_out, kind="stable")
        place, errors = self.ridge.left_out[order], self.errors[order]
        k = min(len(order), max(NEAREST, len(order) // 10))
        centers = np.linspace(0, len(order) - k, num=min(len(order) - k + 1, 200)).astype(int)
        tails = np.clip([(1 - level) / 2 * (k + 1) / k, 1 - (1 - level) / 2 * (k + 1) / k], 0, 1)
        ends = np.array([np.quantile(errors[start : start + k], tails) for start in centers])  # (w, 2)
        middle = place[centers + k // 2]  # (w,) ascending
        low, high = (np.interp(stable, middle, ends[:, end]) for end in (0, 1))
        return as_frequency(stable + low, self.answers), as_frequency(stable + high, self.answers)

    def worth_asking(self, among: np.ndarray, count: int, seed: int) -> np.ndarray:
        """(count,) of these rows, those whose answers would make all predictions surest, one after the other.

        Each lowers the sum of the posterior variances most. The least sure samples are outliers, which tell little of others.
        """
        pool = np.random.default_rng(seed).permutation(among)[:POOL]
        known, ridge = self.known.take(pool), self.ridge
        phi = self.map(known)
        along = (phi - ridge.mean) @ ridge.vectors / np.sqrt(ridge.values)  # (p, r)
        covariance = ridge.penalty * along @ along.T + self.map.left_out(known, phi)  # (p, p) posterior
        chosen: list[int] = []
        for _ in range(min(count, len(pool))):
            lowered = np.sum(covariance**2, axis=0) / (np.diag(covariance) + ridge.penalty)
            lowered[chosen] = -np.inf
            chosen.append(int(np.argmax(lowered)))
            shared = covariance[chosen[-1]].copy()  # (p,)
            covariance -= np.outer(shared, shared) / (shared[chosen[-1]] + ridge.penalty)
        return pool[chosen]
