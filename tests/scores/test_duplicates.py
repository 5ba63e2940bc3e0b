"""Near duplicates: cases by hand, a plain loop over all pairs, copies that rounding must not tell apart, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits

from hardsight.errors import InputError
from hardsight.scores.duplicates import Duplicates, near_duplicates
from hardsight.scores.search import pairs_above
from oracles import on_circle
from properties import examples


def chord(degrees: float) -> float:
    """Distance between two unit vectors at an angle."""
    return float(2 * np.sin(np.deg2rad(degrees) / 2))


def test_by_hand() -> None:
    features = on_circle(0, 2, 90, 93, 180) * np.array([[1.0], [5.0], [0.1], [1.0], [1e30]])
    found = near_duplicates(features, threshold=chord(2.5))
    assert found.nearest.tolist() == [1, 0, 3, 2, 3]
    assert found.distance == pytest.approx([chord(2), chord(2), chord(3), chord(3), chord(87)])
    assert found.near.tolist() == [True, True, False, False, False]
    assert found.group.tolist() == [0, 0, -1, -1, -1]
    assert near_duplicates(features, threshold=chord(3.5)).group.tolist() == [0, 0, 1, 1, -1]


def test_a_chain_of_near_duplicates_is_one_group() -> None:
    found = near_duplicates(on_circle(0, 3, 2, 90, 1), threshold=chord(1.1))
    assert found.group.tolist() == [0, 0, 0, -1, 0]
    links = near_duplicates(on_circle(0, 1, 2.4, 3.4), threshold=chord(1.5))  # the middle link is nobody's nearest
    assert links.nearest.tolist() == [1, 0, 3, 2] and links.group.tolist() == [0, 0, 0, 0]


def test_what_has_leaked_from_a_reference() -> None:
    found = near_duplicates(on_circle(10, 50), on_circle(90, 10.5, 0), threshold=chord(1))
    assert found.nearest.tolist() == [1, 1] and found.near.tolist() == [True, False]
    assert found.distance == pytest.approx([chord(0.5), chord(39.5)])
    assert found.group.tolist() == [-1, -1]


def plain(features: np.ndarray, reference: np.ndarray | None, threshold: float) -> Duplicates:
    """All pairs at once, in float64."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    other = unit if reference is None else reference / np.linalg.norm(reference, axis=1, keepdims=True)
    table = np.linalg.norm(unit[:, None] - other[None], axis=2)
    table[table < 1e-15] = 0
    if reference is None:
        np.fill_diagonal(table, np.inf)
    nearest, distance = table.argmin(1), table.min(1)
    near = distance <= threshold
    group = np.full(len(unit), -1)
    if reference is None:
        _, part = connected_components(table <= threshold, directed=False)
        seen: dict[int, int] = {}
        for row in np.flatnonzero(near):
            group[row] = seen.setdefault(int(part[row]), len(seen))
    return Duplicates(nearest, distance, near, group, threshold)


def same(found: Duplicates, expected: Duplicates) -> None:
    """All the same; of rows that are far from any, the distance to seven digits: among those, rounding may choose."""
    np.testing.assert_array_equal(found.near, expected.near)
    np.testing.assert_array_equal(found.group, expected.group)
    np.testing.assert_array_equal(found.nearest[found.near], expected.nearest[found.near])
    np.testing.assert_allclose(found.distance[found.near], expected.distance[found.near], rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(found.distance, expected.distance, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@settings(max_examples=examples(10))
@given(n=st.integers(2, 60), d=st.integers(1, 12), among=st.booleans(), seed=st.integers(0, 2**31))
def test_against_all_pairs(library: str, n: int, d: int, among: bool, seed: int) -> None:
    """Copies, scaled copies and near copies in blocks of seven rows, some of them in another order."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d + 1))
    copies = rng.integers(0, n, n // 3)
    features[rng.permutation(n)[: len(copies)]] = features[copies] + rng.choice([0.0, 1e-7, 1e-3], (len(copies), 1))
    reference = None if among else np.concatenate([rng.normal(size=(9, d + 1)), features[: n // 2]])
    expected = plain(features, reference, 0.01)
    given_features: Any = features
    if library == "torch":
        given_features = pytest.importorskip("torch").from_numpy(features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardsight.scores.search.SIDE", 7)
        same(near_duplicates(given_features, reference, threshold=0.01), expected)
        patch.setattr("hardsight.scores.search.MANY", 0)  # every block with a pair is a crowd
        crowded = near_duplicates(given_features, reference, threshold=0.01)
        np.testing.assert_array_equal(crowded.group, expected.group)
        np.testing.assert_allclose(crowded.distance, expected.distance, atol=1e-6)


def made_up(kind: str, rng: np.random.Generator) -> np.ndarray:
    """(240, d) features of one kind, of which some are near copies of others."""
    if kind == "digits":
        features = load_digits().data[:240]
    elif kind == "random":
        features = rng.normal(size=(240, 96))
    elif kind == "classes":  # far apart, and narrow in all directions but a few
        features = 3 * rng.normal(size=(8, 300))[rng.integers(0, 8, 240)] + rng.normal(size=(240, 300)) * 0.9 ** np.arange(300)
    else:  # in a plane, where the rest has no length, and the threshold is small
        features = rng.normal(size=(240, 2)) @ rng.normal(size=(2, 64))
    copies = rng.permutation(240)[:60]
    noise = rng.choice([0.0, 1e-6, 1e-3, 1e-2, 0.1], (30, 1)) * rng.normal(size=(30, features.shape[1]))
    features[copies[:30]] = 2 * features[copies[30:]] + noise * features.std()
    return features.astype(np.float32)


@pytest.mark.parametrize("among", [False, True])
@pytest.mark.parametrize("kind", ["random", "classes", "digits", "plane"])
def test_few_dimensions_first_find_the_same(kind: str, among: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near duplicates alone, compared in a few dimensions first, are those of all pairs in all dimensions."""
    features = made_up(kind, np.random.default_rng(0))
    x, y = (features[:150], features[150:]) if among else (features, None)
    monkeypatch.setattr("hardsight.scores.search.MANY", 10**6)  # every pair is measured in float64, also of a crowd
    in_few: list[int] = []
    monkeypatch.setattr(
        "hardsight.scores.duplicates.pairs_above", lambda *given: (in_few.append(given[0].shape[1]), pairs_above(*given))[1]
    )
    for threshold in (None, 0.3):
        full = near_duplicates(x, y, threshold=threshold)
        assert 0 < full.near.sum() < len(x) or threshold == 0.3
        for tile, short in ((512, (15, 31, 63, 127)), (17, (3, 31)), (100, (1,))):
            monkeypatch.setattr("hardsight.scores.search.TILE", tile)
            monkeypatch.setattr("hardsight.scores.search.SIDE", 2 * tile + 1)
            monkeypatch.setattr("hardsight.scores.duplicates.SHORT", short)
            found = near_duplicates(x, y, threshold=threshold, only_near=True)
            for name in ("near", "group"):
                np.testing.assert_array_equal(getattr(found, name), getattr(full, name))
            for name in ("nearest", "distance"):
                np.testing.assert_array_equal(getattr(found, name)[full.near], getattr(full, name)[full.near])
            assert (found.nearest[~full.near] == -1).all()
    assert len(set(in_few)) > 1  # it was not all dimensions at once, and not always the same few


def test_a_copy_is_nearer_than_a_near_copy() -> None:
    """Products of 1 - 5e-9 and 1 are the same float32: the copy, which comes last, must still be found."""
    rng = np.random.default_rng(0)
    one = rng.normal(size=64)
    features = np.stack([one, *(one + 1e-4 * rng.normal(size=(20, 64))), 3 * one])
    found = near_duplicates(features)
    assert found.nearest[0] == 21 and found.nearest[21] == 0 and found.distance[0] == 0
    assert (found.distance[1:21] > 1e-5).all()


def test_the_usual_threshold_follows_the_data() -> None:
    """0.13 of the median distance to the nearest row."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(300, 16))
    features[299] = 2 * features[7]
    found = near_duplicates(features)
    assert found.threshold == pytest.approx(0.13 * np.median(found.distance))
    assert np.flatnonzero(found.near).tolist() == [7, 299] and found.group[7] == found.group[299] == 0
    wide = near_duplicates(100 * features.astype(np.float32))
    assert wide.threshold == pytest.approx(found.threshold, rel=1e-4)


def test_rows_without_a_direction_have_no_neighbor_and_are_none() -> None:
    features = np.array([[1.0, 0.0], [0.0, 0.0], [np.nan, 1.0], [2.0, 0.0], [np.inf, 0.0]])
    found = near_duplicates(features, threshold=0.1)
    assert found.nearest.tolist() == [3, -1, -1, 0, -1] and found.group.tolist() == [0, -1, -1, 0, -1]
    assert np.isnan(found.distance[[1, 2, 4]]).all() and not found.near[[1, 2, 4]].any()


@pytest.mark.parametrize("features", [np.zeros((0, 3)), np.ones((1, 3)), np.zeros((4, 3))])
def test_too_few_rows(features: np.ndarray) -> None:
    found = near_duplicates(features)
    assert (found.nearest == -1).all() and np.isnan(found.distance).all() and not found.near.any() and found.threshold == 0
    assert len(near_duplicates(features, np.eye(3)).nearest) == len(features)


def test_all_rows_the_same_are_one_group() -> None:
    found = near_duplicates(np.ones((50, 3), np.float32))
    assert found.group.tolist() == [0] * 50 and (found.distance == 0).all()
    assert found.nearest.tolist() == [1] + [0] * 49


@pytest.mark.parametrize("threshold", [-0.1, 2.1, np.nan, "near", True, None])
def test_bad_input(threshold: Any) -> None:
    if threshold is not None:
        with pytest.raises(InputError, match="threshold must be a distance between unit vectors, 0 to 2"):
            near_duplicates(np.eye(3), threshold=threshold)
    with pytest.raises(InputError, match=r"same number of columns, got \(3, 3\) and \(2, 4\)"):
        near_duplicates(np.eye(3), np.ones((2, 4)))
    with pytest.raises(InputError, match="features must be two-dimensional"):
        near_duplicates(np.ones(3))
