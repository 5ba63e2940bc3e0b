"""What answers about some samples tell of the others: a kernel, and a ridge regression on its landmarks.

The kernel says how alike two samples are as far as people are concerned: by their scores, what they look like, and their classes.

    k(a, b) = s_a . s_b / s  +  10 h_a h_b  +  exp(-|x_a - x_b|^2 / m) (1 + q_ab)  +  q_ab

s are scores, h the hardness that is known without people, x features; all are standardized. m is the median of the squared
distances. q is the similarity of the two given classes, by the head's class vectors: people's doubts about one terrier tell
something about the next, and with a thousand classes hardly any has answers of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from scipy.linalg import cholesky, eigh, solve, solve_triangular

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.scores import SCORES
from hardsight.scoring.score import score
from hardsight.snapshot import Snapshot
from hardsight.threads import blocks

KNOWN_HARDNESS = ("angular_gap", "logit_margin", "avh_nearest")  # without answers their mean is as good as any score
USED = (
    *KNOWN_HARDNESS, "avh", "own_angle", "nearest_angle", "confidence", "probability_margin", "loss", "entropy",
    "predicted_confidence", "max_logit", "energy", "el2n", "norm",
)  # fmt: skip
WITH_REFERENCE = ("human_hardness", "qda_confidence", "angular_confidence")
KNOWN_HARDNESS_WEIGHT = 10.0  # close to no penalty: few answers must not unlearn it


@dataclass(frozen=True)
class Known:
    """What is known of n samples without asking anybody."""

    features: np.ndarray  # (n, d) float32, standardized
    scores: np.ndarray  # (n, s), standardized, high is hard
    hardness: np.ndarray  # (n,), standardized, high is hard
    labels: np.ndarray  # (n,)
    similarity: np.ndarray  # (c, c) of classes
    correct: np.ndarray  # (n,) whether the first model predicts the given class
    complete: np.ndarray  # (n,) whether everything is known of a sample

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray | slice) -> Known:
        """The same of some samples."""
        each = (self.features, self.scores, self.hardness, self.labels)
        features, scores, hardness, labels = (array[rows] for array in each)
        return Known(features, scores, hardness, labels, self.similarity, self.correct[rows], self.complete[rows])


def kernel(a: Known, b: Known, median: float) -> np.ndarray:
    """(n, m) similarity of the samples."""
    alike = a.similarity[np.ix_(a.labels, b.labels)]  # (n, m)
    near = np.exp(-squared_distances(a.features, b.features) / median)
    known = KNOWN_HARDNESS_WEIGHT * np.outer(a.hardness, b.hardness)
    return np.asarray(a.scores @ b.scores.T / a.scores.shape[1] + known + near * (1 + alike) + alike)


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n, d), (m, d) -> (n, m)."""
    return np.maximum(np.vecdot(x, x)[:, None] + np.vecdot(y, y) - 2 * x @ y.T, 0)


# ---- from snapshots ----


def known_of(models: Sequence[Snapshot], references: Sequence[Snapshot]) -> Known:
    """What one or several models know of the same samples; their features and scores lie side by side."""
    labels = models[0].labels
    if not (labels >= 0).any():
        raise InputError(f"{models[0].where} has no labels: people are asked about the label of a sample.")
    each = [_of_model(model, references[number] if references else None) for number, model in enumerate(models)]
    features, scores, hardness, similarity, correct = zip(*each, strict=True)
    complete = np.isfinite(np.concatenate([*features, *scores], axis=1)).all(1) & (labels >= 0)
    if not complete.any():
        raise InputError(f"{models[0].where}: no sample has a label, features and finite scores.")
    hard = np.mean([_standardized(values, complete) for values in hardness], axis=0)  # (n,)
    return Known(
        _standardized(np.concatenate(features, axis=1), complete).astype(np.float32),
        _standardized(np.concatenate(scores, axis=1), complete),
        _standardized(hard, complete), np.maximum(labels, 0), np.mean(similarity, axis=0), correct[0], complete,
    )  # fmt: skip


def _standardized(values: np.ndarray, complete: np.ndarray) -> np.ndarray:
    """Values with mean 0 and deviation 1 over the complete samples; 0 for the others."""
    of = values[complete]
    scale = of.std(0, dtype=np.float64)
    standard = (values - of.mean(0, dtype=np.float64)) / np.where(scale > 0, scale, 1.0)
    return np.where(complete.reshape(-1, *[1] * (values.ndim - 1)), standard, 0.0)


def _of_model(model: Snapshot, reference: Snapshot | None) -> tuple[np.ndarray, ...]:
    """Features (n, d), scores (n, s), hardness (n,), class similarity (c, c), correct (n,); the mean over the flip pass too."""
    if model.source.evidence != "features" or model.head is None:
        raise InputError(f"{model.where}: people needs features and a head; it holds {model.source.evidence} without one.")
    views = [model, *_flipped(model)]
    tables = [_scored(view, reference) for view in views]
    features = np.mean([np.asarray(view.features) for view in views], axis=0)  # (n, d)
    names = [name for name in tables[0].column_names if name in SCORES]
    columns = {name: np.mean([_hard(table, name) for table in tables], axis=0) for name in names}
    complete = np.isfinite(np.stack(list(columns.values()))).all(0)
    best = ("human_hardness",) if reference is not None else KNOWN_HARDNESS
    hardness = np.mean([_standardized(columns[name], complete) for name in best], axis=0)
    right = to_numpy(tables[0].column("predicted").fill_null(-2)) == model.labels
    return features, np.stack(list(columns.values()), axis=1), hardness, class_similarity(model), right


def _flipped(model: Snapshot) -> list[Snapshot]:
    """What the model saw of the mirrored images, if `extract --passes flip` stored it."""
    path = None if model.run is None else model.run / "passes" / "flip"
    if path is None or not path.is_dir():
        return []
    both = model.joined(Snapshot.load(path))
    return [] if both.only_first else [both.second]


def _scored(view: Snapshot, reference: Snapshot | None) -> pa.Table:
    if reference is None:
        return view.scores(USED)
    return score(view, scores=[*USED, *WITH_REFERENCE], reference=reference).table


def _hard(table: pa.Table, name: str) -> np.ndarray:
    """(n,) a score, turned so that high is hard; NaN for null."""
    return SCORES.harder(name, np.asarray(table.column(name).to_numpy(), dtype=np.float64))


def class_similarity(model: Snapshot) -> np.ndarray:
    """(c, c) half the cosine of two class vectors around their mean, half whether they are the same class."""
    assert model.head is not None
    vectors = to_numpy(model.head.weight).astype(np.float64)
    vectors = vectors - vectors.mean(0)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length > 0, length, 1.0)
    return np.asarray((unit @ unit.T + np.eye(len(unit))) / 2)


# ---- learned ----


LANDMARKS = 2000  # answered samples that span the model; the time grows with their cube
PENALTIES = 10.0 ** np.arange(-1.5, 3.01, 0.25)
JITTER = 1e-6  # of the mean diagonal, so that two equal samples can be landmarks
ROWS = 2048  # predicted at a time
THIRDS, SPLITS = 3, 4  # with more parts, or fewer splits to average, noise has coefficients too far from 0
FLATTEST = -0.001  # slope of the line by the known hardness alone: with a flat one, all would be alike
NEAREST = 50  # least number of errors, of samples with similar predictions, that an interval is made of


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


class HardnessMap:
    """The known hardness as the one coordinate: with few answers, better than everything else together."""

    def __call__(self, known: Known) -> np.ndarray:
        """(n, 1)."""
        return known.hardness[:, None]

    def times(self, known: Known, weights: np.ndarray) -> np.ndarray:
        """(n,)."""
        return known.hardness * weights[0]


@dataclass(frozen=True)
class Ridge:
    """A ridge regression whose penalty has the smallest leave-one-out error."""

    start: float  # the prediction where all coordinates are zero
    slope: np.ndarray  # (r,) weights of the coordinates
    penalty: float
    target: np.ndarray  # (n,)
    root: np.ndarray  # (n, r), root @ root.T + 1 / n is the hat matrix: it turns the target into what is fitted

    @classmethod
    def fit(cls, phi: np.ndarray, target: np.ndarray) -> Ridge:
        """Fit (n, r) coordinates to an (n,) target."""
        center, mean = phi.mean(0), float(target.mean())
        values, vectors = eigh((phi - center).T @ (phi - center), driver="evd")
        along, y = (phi - center) @ vectors, target - mean  # (n, r), (n,)
        raised = np.maximum(values, 0.0)[:, None] + PENALTIES  # (r, p)
        weights = (along.T @ y)[:, None] / raised
        leverage = (along**2) @ (1 / raised) + 1 / len(y)  # (n, p)
        errors = (y[:, None] - along @ weights) / np.maximum(1 - leverage, 1e-9)
        best = int(np.argmin(np.mean(errors**2, axis=0)))
        slope = vectors @ weights[:, best]
        root = along / np.sqrt(raised[:, best])
        return cls(float(mean - center @ slope), slope, float(PENALTIES[best]), target, root)

    def held_out(self, order: np.ndarray) -> np.ndarray:
        """(n,) each third of the order predicted by the other two, all around the mean of all thirds.

        So that nothing orders samples against their own answers. The mean of the others would: it is low where the own answer is
        high. Leaving out one sample at a time would, where little is learned: the slope is a little lower, too.
        """
        mean, predicted = self.target.mean(), np.empty(len(order))
        y = self.target - mean
        residual = y - self.root @ (self.root.T @ y)
        for third in np.array_split(order, THIRDS):
            others = len(order) - len(third)
            hat = self.root[third] @ self.root[third].T + 1 / len(order)
            error = solve(np.eye(len(third)) - hat, residual[third], assume_a="pos")  # of the fit to the other two
            mean_of_others = -y[third].sum() / others
            predicted[third] = self.target[third] - error - mean_of_others
        return predicted


class AnswerModel:
    """Predicts what people would say of any sample, from what they said of `rows`.

    Args:
        known: what is known of all samples.
        rows: (n,) the answered ones.
        target: (n,) their stabilized frequencies.
        answers: how many people answer about a sample.
        learned: whether there are answers enough to learn from more than the known hardness.
        seed: of the landmarks and of the splits into thirds.
    """

    def __init__(
        self, known: Known, rows: np.ndarray, target: np.ndarray, answers: float, *, learned: bool = True, seed: int = 0
    ) -> None:
        self.known, self.rows, self.target, self.answers = known, rows, target, answers
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(rows))[:LANDMARKS]
        self.map: LandmarkMap | HardnessMap = LandmarkMap(known.take(rows[chosen])) if learned else HardnessMap()
        self.phi = self.map(known.take(rows))  # (n, r)
        self.ridge = Ridge.fit(self.phi, target)
        splits = [self.ridge.held_out(rng.permutation(len(rows))) for _ in range(SPLITS)]
        self.errors = target - splits[0]  # (n,)
        if not learned:  # how steep the line is, answers say; that it falls, they need not
            self.ridge = replace(self.ridge, slope=np.minimum(self.ridge.slope, FLATTEST))
            splits = [self.predict(known.take(rows))]
        self.held_out = np.array(splits)  # (k, n) predictions of the answered samples, by splits

    @functools.cached_property
    def stable(self) -> np.ndarray:
        """(n,) predictions of all samples; of the answered ones, those of the first split."""
        stable = self.predict(self.known)
        stable[self.rows] = self.held_out[0]
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
        predicted = self.held_out[0]
        order = np.argsort(predicted, kind="stable")
        place, errors = predicted[order], self.errors[order]
        k = min(len(order), max(NEAREST, len(order) // 10))
        centers = np.linspace(0, len(order) - k, num=min(len(order) - k + 1, 200)).astype(int)
        tails = np.clip([(1 - level) / 2 * (k + 1) / k, 1 - (1 - level) / 2 * (k + 1) / k], 0, 1)
        ends = np.array([np.quantile(errors[start : start + k], tails) for start in centers])  # (w, 2)
        middle = place[centers + k // 2]  # (w,) ascending
        low, high = (np.interp(stable, middle, ends[:, end]) for end in (0, 1))
        return as_frequency(stable + low, self.answers), as_frequency(stable + high, self.answers)
