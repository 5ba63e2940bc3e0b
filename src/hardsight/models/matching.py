"""Which head turns these features into these outputs: found by trying.

A layer is the last one if its formula, applied to what went into it, gives what came out of the model. The formulas
tried are those a `Head` knows: a linear product, the same with class vectors of length one, a scaled cosine, a scaled
angle, a Gaussian. Outputs that went through a softmax are compared after one.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.fitted_estimator import TOLERANCE, relative_error
from hardsight.head import Head


@dataclass(frozen=True)
class Match:
    """A head that was tried, and how far it is from the model's outputs."""

    error: float  # largest difference, as a part of the largest output
    build: Callable[[], Head]
    softmaxed: bool  # the model returns probabilities or their logarithms, so logits come from the head

    @property
    def holds(self) -> bool:
        """Whether the head reproduces the outputs."""
        return self.error <= TOLERANCE


@dataclass(frozen=True)
class Matrix:
    """Class vectors found in a model, with whatever belongs to them."""

    weight: np.ndarray  # (c, d)
    bias: np.ndarray | None = None  # (c,)
    log_variance: np.ndarray | None = None
    log_prior: np.ndarray | None = None
    scale: float | None = None  # of cosines or angles, where the layer has one: a few images do not tell it


def best_match(features: np.ndarray, outputs: np.ndarray, matrix: Matrix) -> Match:
    """The first formula that holds, or else the one that comes nearest."""
    outputs = outputs.astype(np.float64)
    after: Callable[[np.ndarray], np.ndarray] = _same
    if _sums_to_one(outputs):
        after = _softmax
    elif outputs.max() <= 0 and _sums_to_one(np.exp(outputs)):
        after = _log_softmax
    best = Match(np.inf, lambda: Head("linear", matrix.weight, matrix.bias), softmaxed=False)
    for logits, build in _formulas(features.astype(np.float64), outputs, matrix, after is _softmax):
        for step in dict.fromkeys((_same, after)):
            match = Match(relative_error(step(logits), outputs), build, step is not _same)
            if match.holds:
                return match
            best = min(best, match, key=lambda m: m.error)
    return best


def _formulas(
    features: np.ndarray, outputs: np.ndarray, matrix: Matrix, probabilities: bool
) -> Iterator[tuple[np.ndarray, Callable[[], Head]]]:
    """(b, c) logits under each formula, and the head to build should they fit."""
    weight, bias = matrix.weight.astype(np.float64), matrix.bias
    shift = 0.0 if bias is None else bias.astype(np.float64)
    yield features @ weight.T + shift, lambda: Head("linear", matrix.weight, bias)
    if bias is not None:
        yield features @ weight.T, lambda: Head("linear", matrix.weight)
    unit = _unit(weight)
    yield features @ unit.T + shift, lambda: Head("linear", unit.astype(np.float32), bias)
    cosine = np.clip(_unit(features) @ unit.T, -1.0, 1.0)  # (b, c)
    target = np.log(np.clip(outputs, 1e-30, None)) if probabilities else outputs
    for kind, shape in (("cosine", cosine), ("angular", -np.arccos(cosine))):
        scale = _scale(shape, target) or matrix.scale
        if scale is not None:
            yield scale * shape, _builder(kind, matrix.weight, scale)
    head = Head("gaussian", matrix.weight, log_variance=matrix.log_variance, log_prior=matrix.log_prior)
    yield head.logits(features), lambda: head


def _builder(kind: Any, weight: np.ndarray, scale: float) -> Callable[[], Head]:
    return lambda: Head(kind, weight, scale=scale)


def _scale(shape: np.ndarray, target: np.ndarray) -> float | None:
    """The factor between two (b, c) arrays by least squares, each row centered: a softmax hides the row's constant."""
    if shape.shape[0] * (shape.shape[1] - 1) < 4:  # with fewer numbers any factor would seem to fit
        return None
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (shape, target))
    scale = float((a * b).sum() / max(float((a * a).sum()), 1e-30))
    return scale if np.isfinite(scale) and scale > 0 else None


def _unit(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x / np.where(length > 0, length, 1.0))


def _sums_to_one(outputs: np.ndarray) -> bool:
    return bool(outputs.min(initial=0.0) >= 0 and np.allclose(outputs.sum(axis=1), 1.0, atol=1e-3))


def _same(logits: np.ndarray) -> np.ndarray:
    return logits


def _softmax(logits: np.ndarray) -> np.ndarray:
    from scipy.special import softmax  # slow to import, for a page that only reads scores

    return np.asarray(softmax(logits, axis=1))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    from scipy.special import log_softmax

    return np.asarray(log_softmax(logits, axis=1))


READINGS = ("mean", "first", "last")


def read_positions(x: Any, reading: str, channels_first: bool) -> Any:
    """One feature per image from a layer's input, array or tensor: (b, ..., d) or (b, d, ...) -> (b, d).

    A linear layer applied at every position and averaged afterwards gives what it gives on the average position,
    so the mean stands for "pooled after"; first and last are the class tokens.
    """
    if x.ndim == 2:
        return x
    if channels_first:
        return x.reshape(x.shape[0], x.shape[1], -1).mean(-1)
    x = x.reshape(x.shape[0], -1, x.shape[-1])  # (b, positions, d)
    return x.mean(1) if reading == "mean" else x[:, 0 if reading == "first" else -1]


def way_forward(layer: str | None) -> str:
    """What to do with a model whose output is not that of a linear layer; None if it has no linear layer at all."""
    if layer is None:
        return (
            "Without a linear layer, save what you take for its features yourself: hardsight score features.npy --labels "
            "labels.npy fits a head to them by cross-validation."
        )
    word = shlex.quote(layer)
    return (
        f"To have score fit a head to what goes into {layer}, pass --head-layer {word} --fit-head; "
        f"to take the layer's own output as the logits, --head-layer {word} alone."
    )
