"""Scores of a labeled reference: by hand, against scikit-learn, their laws, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.neighbors import NearestNeighbors

import hardsight
from hardsight import Head, Snapshot, score
from hardsight.errors import InputError
from hardsight.scores.labeled_reference import ReferenceGaussians
from oracles import on_circle

RNG = np.random.default_rng(0)
N, C, D = 240, 4, 9
CENTERS = 2 * RNG.normal(size=(C, D))
TRAIN_LABELS, TEST_LABELS = np.arange(N) % C, np.arange(60) % C
TRAIN = CENTERS[TRAIN_LABELS] + RNG.normal(size=(N, D))
TEST = CENTERS[TEST_LABELS] + 1.5 * RNG.normal(size=(60, D))
HEAD = Head("linear", CENTERS, RNG.normal(size=C))
REFERENCE = Snapshot(TRAIN, HEAD, TRAIN_LABELS)
NAMES = ("human_hardness", "qda_confidence", "angular_confidence", "neighbor_ratio")


def table(features: np.ndarray = TEST, labels: np.ndarray = TEST_LABELS, reference: Any = REFERENCE) -> dict[str, np.ndarray]:
    """The scores, by name."""
    found = score(Snapshot(features, HEAD, labels), scores=list(NAMES), reference=reference)
    return {name: found[name].to_numpy() for name in NAMES}


def test_qda_by_hand() -> None:
    """Two classes on a line with equal spread: a shared variance v, and the log odds of x are linear, over T."""
    reference, labels = np.array([[-3.0], [-1.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    variance = 1 + 1e-3  # within either class, and the ridge
    density = -((reference - [-2.0, 2.0]) ** 2) / (2 * variance)  # (4, 2)
    own = density[np.arange(4), labels]
    x = np.array([[0.5], [2.0]])
    expected = softmax(-((x - [-2.0, 2.0]) ** 2) / (2 * variance) / (own.std() or 1), axis=1)[:, 1]
    assert hardsight.scores.qda_confidence(x, [1, 1], reference, labels) == pytest.approx(expected)


def test_gaussians_are_those_of_the_classes() -> None:
    """Against the written-out density in the principal directions, with the shrinkage written out."""
    gaussians = ReferenceGaussians(TRAIN.astype(np.float32), TRAIN_LABELS)
    size = 6  # 2 sqrt(9)
    assert gaussians.axes.shape == (D, size)
    y = (TRAIN - TRAIN.mean(0)) @ gaussians.axes
    parts = [y[TRAIN_LABELS == k] for k in range(C)]
    pooled = np.mean([np.cov(part.T, bias=True) for part in parts], axis=0)
    weight = max(0.5, size / (size + N / C))
    expected = np.empty((60, C))
    for k, part in enumerate(parts):
        covariance = (1 - weight) * np.cov(part.T, bias=True) + weight * pooled
        covariance += 1e-3 * np.trace(covariance) / size * np.eye(size)
        apart = (TEST - TRAIN.mean(0)) @ gaussians.axes - part.mean(0)
        inverse, volume = np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1]
        expected[:, k] = -0.5 * np.einsum("nd,de,ne->n", apart, inverse, apart) - volume / 2
    assert gaussians.log_density(TEST) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_neighbor_ratio_by_hand_and_against_scikit_learn() -> None:
    assert hardsight.scores.neighbor_ratio(on_circle(10), [0], on_circle(0, 40), [0, 1], k=1) == pytest.approx([0.25], rel=1e-4)
    angles = np.empty((60, C))
    for k in range(C):
        near = NearestNeighbors(n_neighbors=10, metric="cosine").fit(TRAIN[TRAIN_LABELS == k])
        angles[:, k] = np.arccos(1 - near.kneighbors(TEST)[0]).mean(1)
    own = angles[np.arange(60), TEST_LABELS].copy()
    angles[np.arange(60), TEST_LABELS] = np.inf
    assert table()["neighbor_ratio"] == pytest.approx(own / (own + angles.min(1)), rel=1e-3)


def test_angular_confidence_by_hand() -> None:
    cosine = np.cos(HEAD.angles(TRAIN))[np.arange(N), TRAIN_LABELS]
    expected = softmax(np.cos(HEAD.angles(TEST)) / cosine.std(), axis=1)[np.arange(60), TEST_LABELS]
    assert table()["angular_confidence"] == pytest.approx(expected, rel=1e-4)


def test_human_hardness_is_the_compressed_mean_of_two_standardized_parts() -> None:
    def parts(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        gaussians, rows = ReferenceGaussians(TRAIN.astype(np.float32), TRAIN_LABELS), np.arange(len(y))
        temperature = 2 * gaussians.log_density(TRAIN)[np.arange(N), TRAIN_LABELS].std()
        another = 1 - softmax(gaussians.log_density(x) / temperature, axis=1)[rows, y]
        cosines = np.cos(HEAD.angles(TRAIN))[np.arange(N), TRAIN_LABELS].std()
        return np.stack([another, -log_softmax(np.cos(HEAD.angles(x)) / cosines, axis=1)[rows, y]])

    known, found = parts(TRAIN, TRAIN_LABELS), parts(TEST, TEST_LABELS)
    expected = ((found - known.mean(1, keepdims=True)) / known.std(1, keepdims=True)).mean(0)
    assert np.sinh(table()["human_hardness"]) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_a_typical_sample_of_the_reference_has_hardness_zero() -> None:
    values = table(TRAIN, TRAIN_LABELS)["human_hardness"]
    assert np.sinh(values).mean() == pytest.approx(0, abs=1e-6)


def test_laws() -> None:
    """The order of samples and of the reference does not matter; unlabeled samples have no value."""
    order, expected = RNG.permutation(N), table()
    shuffled = table(TEST[::-1], TEST_LABELS[::-1], Snapshot(TRAIN[order], HEAD, TRAIN_LABELS[order]))
    for name in NAMES:
        assert shuffled[name][::-1] == pytest.approx(expected[name], rel=1e-3, abs=1e-4), name
        assert np.isnan(table(labels=np.where(np.arange(60) == 3, -1, TEST_LABELS))[name][3])


def test_missing_classes_are_refused() -> None:
    few = Snapshot(TRAIN[TRAIN_LABELS != 2], HEAD, TRAIN_LABELS[TRAIN_LABELS != 2])
    for name in ("human_hardness", "qda_confidence", "neighbor_ratio"):
        with pytest.raises(InputError, match="1 of 4 are missing, such as 2"):
            score(Snapshot(TEST, HEAD, TEST_LABELS), scores=[name], reference=few)
