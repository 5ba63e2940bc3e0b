"""Values far from ordinary: large and small class vectors, distant means, tiny features, odd types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import hardsight
from hardsight.errors import FileError, InputError


def some(n: int = 40, d: int = 8, c: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((c, d)), rng.integers(0, c, n)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e155, 1e300])
def test_class_vectors_of_any_length(scale: float) -> None:
    features, weight, labels = some()
    expected = hardsight.avh(features, weight, labels)
    np.testing.assert_allclose(hardsight.avh(features, weight * scale, labels), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e20, 1e30])
def test_angles_and_scores_agree_on_long_float32_vectors(scale: float) -> None:
    features, weight, labels = (torch.tensor(x) for x in some())
    features, weight = features.float(), weight.float()
    theta = hardsight.geometry.angles(features, weight * scale).double().numpy()
    own = theta[np.arange(len(labels)), labels]
    np.testing.assert_allclose(
        own, hardsight.geometry.angles(features, weight).numpy()[np.arange(len(labels)), labels], atol=2e-6
    )
    np.testing.assert_allclose(hardsight.scores.own_angle(features, weight * scale, labels), own, atol=2e-6)


@pytest.mark.parametrize("far", [1e3, 1e4, 1e5])
def test_a_distant_mean_does_not_blur_the_others(far: float) -> None:
    features, means, labels = some()
    means[0] += far
    features = means[1] + 0.1 * features
    exact = hardsight.Head("gaussian", means).logits(features)
    close = hardsight.Head("gaussian", means.astype(np.float32))
    near = features.astype(np.float32)
    np.testing.assert_allclose(close.logits(near)[:, 1:], exact[:, 1:], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(hardsight.scores.max_logit(near, close), exact.max(1), rtol=1e-4, atol=1e-4)


def test_likelihood_ranks_the_same_at_any_scale() -> None:
    features, weight, labels = some(200)
    expected = np.argsort(hardsight.scores.gm_likelihood(features, weight, labels))
    for scale in (1e-6, 1e6):
        assert (np.argsort(hardsight.scores.gm_likelihood(features * scale, weight, labels)) == expected).all()


def test_a_bias_without_a_weight_is_refused(tmp_path: Path) -> None:
    features, _, labels = some()
    with pytest.raises(InputError, match="bias goes with a weight"):
        hardsight.score(features, labels=labels, bias=np.zeros(5))
    np.savez(tmp_path / "s.npz", features=features, labels=labels, bias=np.zeros(5))
    with pytest.raises(FileError, match="no weight"):
        hardsight.score(tmp_path / "s.npz")


def test_logits_too_far_apart_have_their_status() -> None:
    table = hardsight.score(logits=np.array([[1e308, -1e308], [1.0, 2.0]]), labels=[1, 1])
    assert table["status"].to_pylist() == ["nonfinite_logit", "ok"]


def test_integer_and_half_logits_and_probabilities() -> None:
    whole = hardsight.score(logits=np.array([[3, 1], [0, 2]]), labels=[0, 0])
    assert whole["logit_margin"].to_pylist() == [2.0, -2.0]
    half = torch.tensor([[0.75, 0.25]], dtype=torch.bfloat16)
    assert hardsight.scores.confidence(probs=half, labels=[0]) == pytest.approx([0.75])
    assert hardsight.score(logits=half, labels=[0])["logit_margin"].to_pylist() == [0.5]
