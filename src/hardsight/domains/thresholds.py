"""One threshold per class: the confidence at a given portion of the samples predicted as that class.

Two conventions are published, and they differ by one sample. Of the n_k samples predicted as class k, sorted from the
most confident down and counted from 0:

    rule              threshold                kept are           how many (no ties)
    classification    at floor((n_k - 1) p)    those above it     floor((n_k - 1) p)
    segmentation      at floor(n_k p) - 1      those not below    floor(n_k p)

The first is what the papers say in words ("ranked at portion p", ">") and what the classification code does; it is the
default. The second is the segmentation code's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from hardsight.checks import check_count, is_tensor, to_numpy
from hardsight.errors import InputError
from hardsight.options import Options, option

Rule = Literal["classification", "segmentation"]


@dataclass(frozen=True)
class RankingOptions(Options):
    """How the thresholds of classes are ranked."""

    rule: Rule = option("classification", "Ranking rule of a class's threshold: classification or segmentation.")


def class_thresholds(
    confidence: Any,
    predicted: Any,
    portion: float,
    rule: Rule = "classification",
    *,
    num_classes: int | None = None,
    empty: float = 1.0,
) -> np.ndarray:
    """The threshold of each class at a portion of the samples predicted as it.

    A class whose rule lets nothing through because it has no sample (or, in the segmentation rule, less than one sample
    at this portion) gets `empty`: 1, as published, which no probability exceeds. In the classification rule the threshold
    of a class with one sample is that sample's own confidence, so it is not kept. Equal confidences at the threshold
    are all left out by the classification rule and all kept by the segmentation rule.

    Args:
        confidence: (n,) how sure the model is of its prediction; NaN rows are not counted.
        predicted: (n,) class index of that prediction; -1 rows are not counted.
        portion: 0 to 1, of each class.
        rule: "classification" or "segmentation", see the top of this file.
        num_classes: c; the largest prediction plus one where it is not given.
        empty: threshold of a class that nothing may be kept of; give inf for scores that are not probabilities.

    Returns:
        (c,) float64.

    Example:
        >>> class_thresholds([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0, 0, 0, 0, 0, 1], 0.5)
        array([0.7, 0.4])
        >>> class_thresholds([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0, 0, 0, 0, 0, 1], 0.5, rule="segmentation")
        array([0.8, 1. ])
    """
    values, classes = _vector(confidence, "confidence").astype(np.float64), _vector(predicted, "predicted")
    if values.shape != classes.shape:
        raise InputError(f"there must be one confidence per prediction, got {len(values)} and {len(classes)}.")
    if classes.dtype.kind not in "iu":
        raise InputError(f"predicted must be class indices, got {classes.dtype}.")
    if classes.min(initial=0) < -1:
        raise InputError(f"predicted must be class indices, or -1 for none, got {classes.min()}.")
    c = int(classes.max(initial=-1)) + 1 if num_classes is None else check_count(num_classes, "num_classes")
    if classes.max(initial=-1) >= c:
        raise InputError(f"predicted must be below {c}, got {classes.max()}.")
    usable = (classes >= 0) & ~np.isnan(values)
    values, classes = values[usable], classes[usable].astype(np.int64)
    counts = np.bincount(classes, minlength=c)  # (c,)
    indices = kept_per_class(counts, portion, rule) - (rule == "segmentation")  # (c,) from the most confident down
    order = np.argsort(classes.astype(np.uint16) if c < 2**16 else classes, kind="stable")  # 16 bits sort in linear time
    grouped, starts = values[order], np.concatenate([[0], np.cumsum(counts)])
    thresholds = np.full(c, float(empty))
    for k in np.flatnonzero((counts > 0) & (indices >= 0)):
        at = counts[k] - 1 - indices[k]  # from the least confident up
        thresholds[k] = np.partition(grouped[starts[k] : starts[k + 1]], at)[at]
    return thresholds


def kept_per_class(counts: np.ndarray, portion: float, rule: Rule) -> np.ndarray:
    """How many of each class's samples its threshold lets through, if no two are equally confident."""
    if rule not in get_args(Rule):
        raise InputError(f"rule must be one of {', '.join(get_args(Rule))}, got {rule!r}.")
    check_portion(portion)
    ranked = counts if rule == "segmentation" else np.maximum(counts - 1, 0)
    return np.floor(ranked * portion + 1e-9).astype(np.int64)  # 0.29 of 100 is 29, though 100 * 0.29 < 29 in floats


def check_portion(portion: float, name: str = "portion") -> float:
    """A number from 0 to 1."""
    if isinstance(portion, bool) or not isinstance(portion, (int, float, np.integer, np.floating)) or not 0 <= portion <= 1:
        raise InputError(f"{name} must be a number from 0 to 1, got {portion!r}.")
    return float(portion)


def _vector(x: Any, name: str) -> np.ndarray:
    array = to_numpy(x) if is_tensor(x) else np.asarray(x)
    if array.ndim != 1 or (array.dtype.kind not in "fiu" and array.size):
        raise InputError(f"{name} must be (n,) numbers, got shape {array.shape} of {array.dtype}.")
    return array if array.size else array.astype(np.int64)
