"""Angles: exact at known values, and never NaN if defined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardsight.geometry import angles, angles_at, cosines_to_angles, row_norms, sum_angles
from oracles import angle_table, on_circle


def test_known_angles_in_the_plane() -> None:
    degrees = [0, 30, 60, 90, 120, 179, 180]
    assert angles(on_circle(0), on_circle(*degrees))[0] == pytest.approx(np.deg2rad(degrees))


def test_identical_float32_vectors_are_at_zero_not_nan() -> None:
    """An arccos of their unclamped cosines is NaN one time in five, and off by up to 1e-3 when clamped."""
    vectors = np.random.default_rng(0).normal(size=(500, 128)).astype(np.float32)
    naive = np.einsum("nd,nd->n", vectors, vectors) / np.linalg.norm(vectors, axis=1) ** 2
    assert (naive > 1).any()  # the trap is there
    assert np.diag(angles(vectors, vectors)) == pytest.approx(np.zeros(500), abs=1e-7)
    assert np.diag(angles(-vectors, vectors)) == pytest.approx(np.full(500, np.pi), abs=1e-7)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@given(tiny=st.floats(1e-7, 0.3), far=st.booleans())
def test_angles_near_the_poles_keep_their_digits(backend: str, tiny: float, far: bool) -> None:
    turn = np.pi - tiny if far else tiny
    features = np.array([[np.cos(turn), np.sin(turn)]], np.float32)
    weight = np.array([[1, 0]], np.float32)
    expected = angle_table(features, weight)[0, 0]
    if backend == "torch":
        torch = pytest.importorskip("torch")
        features, weight = torch.from_numpy(features), torch.from_numpy(weight)
    assert float(angles(features, weight)[0, 0]) == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_rows_without_a_direction_are_nan(backend: str) -> None:
    features: Any = np.array([[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [1e-40, 0.0], [1e300, 0.0]])
    weight: Any = np.eye(2)
    if backend == "torch":
        torch = pytest.importorskip("torch")
        features, weight = torch.from_numpy(features), torch.from_numpy(weight)
    theta = np.asarray(angles(features, weight))
    assert np.isnan(theta[:3]).all()
    assert theta[3:] == pytest.approx(np.array([[0, np.pi / 2]] * 2), abs=1e-12)


@given(st.integers(1, 30), st.integers(1, 50), st.integers(0, 999))
def test_a_tile_of_float32_cosines_becomes_angles(b: int, t: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(b, 3)).astype(np.float32), rng.normal(size=(t, 3)).astype(np.float32)
    theta = (x @ w.T / row_norms(x, np)[:, None] / row_norms(w, np)).astype(np.float32)
    cosines_to_angles(theta, x, w)
    np.testing.assert_allclose(theta, angle_table(x, w), rtol=2e-6, atol=1e-7)


@given(st.integers(1, 20), st.integers(1, 60), st.sampled_from([3, 30, 200]), st.integers(0, 999))
def test_the_quick_sum_of_angles(b: int, t: int, d: int, seed: int) -> None:
    """In many dimensions cosines are small and a short polynomial sums them, in fewer a longer one; in three, arccos."""
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(b, d)).astype(np.float32), rng.normal(size=(t, d)).astype(np.float32)
    cosine = (x @ w.T / row_norms(x, np)[:, None] / row_norms(w, np)).astype(np.float32)
    some = np.arange(b), rng.integers(0, t, b)
    expected = angle_table(x, w)
    np.testing.assert_allclose(angles_at(cosine, x, w, some), expected[some], rtol=2e-6)
    total = sum_angles(cosine, x, w, (np.empty_like(cosine), np.empty_like(cosine)))
    np.testing.assert_allclose(total, expected.sum(1), rtol=2e-6)
