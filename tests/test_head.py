"""The four kinds of head: their logits, their input checks, and their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardsight import Head
from hardsight.errors import FileError, InputError
from hardsight.files.heads import load_head, save_head

WEIGHT = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.5]])


def test_linear_logits_by_hand() -> None:
    head = Head("linear", WEIGHT, bias=np.array([10.0, 20.0, 30.0]))
    assert head.logits(np.array([[1.0, 1.0]])).tolist() == [[13.0, 19.0, 31.0]]
    assert (head.num_classes, head.num_features) == (3, 2)


def test_gaussian_logits_by_hand() -> None:
    """log prior - 1/2 sum log v - 1/2 sum (x - m)^2 / v at x = (1, 1), means (0, 0) and (1, 3)."""
    means, x = np.array([[0.0, 0.0], [1.0, 3.0]]), np.array([[1.0, 1.0]])
    assert Head("gaussian", means).logits(x)[0] == pytest.approx([-1.0, -2.0])
    shared = Head("gaussian", means, log_variance=np.log([1.0, 4.0]), log_prior=np.log([0.25, 0.75]))
    assert shared.logits(x)[0] == pytest.approx([np.log(0.25) - np.log(2) - 0.625, np.log(0.75) - np.log(2) - 0.5])
    own = Head("gaussian", means, log_variance=np.log([[1.0, 4.0], [1.0, 1.0]]))
    assert own.logits(x)[0] == pytest.approx([-np.log(2) - 0.625, -2.0])


def test_gaussian_with_unit_variance_is_a_linear_layer() -> None:
    """w_k = mean_k, b_k = -|mean_k|^2 / 2, up to a constant per sample."""
    rng = np.random.default_rng(0)
    means, x = rng.normal(size=(4, 6)), rng.normal(size=(9, 6))
    linear = Head("linear", means, bias=-0.5 * (means**2).sum(1)).logits(x)
    gaussian = Head("gaussian", means).logits(x)
    np.testing.assert_allclose(gaussian - gaussian[:, :1], linear - linear[:, :1], atol=1e-12)


def test_gaussian_far_from_the_origin_keeps_its_digits() -> None:
    rng = np.random.default_rng(1)
    means, x = rng.normal(size=(4, 6)), rng.normal(size=(9, 6))
    far = Head("gaussian", (means + 1000).astype(np.float32)).logits((x + 1000).astype(np.float32))
    np.testing.assert_allclose(far, Head("gaussian", means).logits(x), atol=2e-3)


def test_classes_of_a_head_give_those_columns() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5, 3))
    for head in (
        Head("linear", rng.normal(size=(6, 3)), bias=rng.normal(size=6)),
        Head("cosine", rng.normal(size=(6, 3)), scale=3.0),
        Head("angular", rng.normal(size=(6, 3))),
    ):
        for which in (slice(2, 5), np.array([4, 0, 2])):
            np.testing.assert_allclose(head.classes(which).logits(x), head.logits(x)[:, which])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"kind": "quadratic"}, "one of linear, cosine, angular, gaussian"),
        ({"kind": "cosine", "bias": np.zeros(3)}, "bias belongs to a linear head"),
        ({"kind": "linear", "scale": 3.0}, "scale belongs to an angular or cosine head, and this one is linear"),
        ({"kind": "linear", "log_prior": np.zeros(3)}, "log_prior belongs to a gaussian head"),
        ({"kind": "gaussian", "log_variance": np.zeros(3)}, r"\(2,\) or \(3, 2\)"),
        ({"kind": "gaussian", "log_variance": np.full(2, np.inf)}, "log_variance must be finite"),
        ({"kind": "linear", "bias": np.array(["a", "b", "c"])}, "bias must hold numbers"),
        ({"kind": "gaussian", "weight": np.array([[np.nan, 1.0]])}, "finite"),
        ({"kind": "gaussian", "weight": np.zeros((0, 2))}, "at least one class"),
    ],
)
def test_what_a_head_refuses(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Head(**{"weight": WEIGHT, **arguments})


@pytest.mark.parametrize(
    "head",
    [
        Head("linear", WEIGHT.astype(np.float32), bias=np.arange(3, dtype=np.float32)),
        Head("cosine", WEIGHT, scale=12.5),
        Head("angular", WEIGHT),
        Head("gaussian", WEIGHT, log_variance=np.zeros((3, 2)), log_prior=np.log([0.2, 0.3, 0.5])),
    ],
)
def test_a_head_comes_back_from_its_file(tmp_path: Path, head: Head) -> None:
    save_head(tmp_path / "head.safetensors", head, ["a", "ü", '"'])
    again, names = load_head(tmp_path / "head.safetensors")
    assert names == ["a", "ü", '"'] and (again.kind, again.scale) == (head.kind, head.scale)
    for name in ("weight", "bias", "log_variance", "log_prior"):
        before, after = getattr(head, name), getattr(again, name)
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_array_equal(before, after)
            assert before.dtype == after.dtype


def test_a_head_from_numpy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "weight.npy", WEIGHT)
    np.savez(tmp_path / "head.npz", weight=WEIGHT, kind="cosine", scale=9.0, class_names=["x", "y", "z"])
    plain, no_names = load_head(tmp_path / "weight.npy")
    cosine, names = load_head(tmp_path / "head.npz")
    assert (plain.kind, no_names) == ("linear", None)
    assert (cosine.kind, cosine.scale, names) == ("cosine", 9.0, ["x", "y", "z"])
    np.savez(tmp_path / "head.npz", kernel=WEIGHT)
    with pytest.raises(FileError, match="no array named weight"):
        load_head(tmp_path / "head.npz")


def test_tensors_stay_tensors() -> None:
    torch = pytest.importorskip("torch")
    head = Head("linear", WEIGHT, bias=np.ones(3))
    logits = head.logits(torch.ones(2, 2, dtype=torch.float64))
    assert isinstance(logits, torch.Tensor) and logits.tolist() == [[4.0, 0.0, 2.0]] * 2
