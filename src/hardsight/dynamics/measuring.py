"""One batch in training, swept: from the forward pass already done to a dozen numbers per sample.

A batch of a few hundred rows is too small for `sweep` to be worth its preparations, which take longer than the sums
themselves, and it comes thousands of times an epoch. So an ordinary batch on the CPU is swept here in one tile; anything
else (odd norms, Gaussian heads, many classes, a GPU) goes the usual way. Both leave the same `Sweep`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, check_labels, check_same_space, is_tensor, namespace, to_numpy, widened
from hardsight.errors import InputError
from hardsight.geometry import cosines_to_angles, row_norms
from hardsight.head import Head
from hardsight.pandas_index import align
from hardsight.scores.registry import norms_only
from hardsight.scores.running import FLOOR
from hardsight.scores.sweep import ORDINARY, Sweep, sweep, sweep_logits
from hardsight.scores.terms import ANGLES, LOGITS, NEAREST, SOFTMAX, SQUARES

TERMS = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES})
ONE_TILE = 2**18  # entries of the (b, c) product up to which a batch is swept in one go


def sweep_batch(features: Any, head: Any, labels: Any) -> Sweep:
    """What the dynamics columns need of each row of a batch.

    Args:
        features: (b, d) arrays or tensors, as they went into the head.
        head: a `Head`, anything with one at `.head` (our losses), an `nn.Linear`, or a (c, d) weight.
        labels: (b,) classes, -1 for unlabeled.
    """
    labels = align(labels, "labels", features, "features")
    features = as_matrix(features, "features")
    kind, weight, bias, scale, whole = _parts(head)
    check_same_space(features, weight)
    given = check_labels(labels, len(features), len(weight))
    if kind != "gaussian" and _on_cpu(features, weight) and len(features) * len(weight) <= ONE_TILE:
        rows = _in_one_tile(widened(features), kind, weight, bias, scale or 1.0, given)
        if rows is not None:
            return rows
    if _all_have_direction(weight if whole is None else whole.directions):
        return sweep(features, whole or Head(kind, weight, bias), given, TERMS)
    # A class vector at the origin, as in a head that starts from zeros: logits it has, angles it has not.
    rows = sweep_logits(_logits(features, weight, bias, whole), given, TERMS - {ANGLES, NEAREST})
    return replace(rows, norm=norms_only(features, None).norm)


def join(sweeps: list[Sweep]) -> Sweep:
    """The rows of several batches as one."""
    parts = {field.name: [getattr(rows, field.name) for rows in sweeps] for field in fields(Sweep)}
    c, precision = max(parts.pop("num_classes")), np.result_type(*parts.pop("precision")).type
    return Sweep(c, precision, **{name: np.concatenate(arrays) for name, arrays in parts.items()})


def _in_one_tile(x: Any, kind: str, weight: Any, bias: Any, scale: float, labels: np.ndarray) -> Sweep | None:
    """The whole batch at once; None if a row, a class vector or a logit is out of the ordinary."""
    b, (c, _) = len(x), weight.shape
    w = weight.to(x.dtype) if is_tensor(x) else weight.astype(x.dtype, copy=False)
    product = np.ascontiguousarray(to_numpy(x @ w.T))  # (b, c), by the library that the batch came from
    x, w = to_numpy(x), to_numpy(w)
    norm, w_norm = row_norms(x, np), row_norms(w, np)  # (b,), (c,)
    low, high = ORDINARY
    if not (b and norm.min() > low and norm.max() < high and w_norm.min() > low and w_norm.max() < high):
        return None
    theta = product / norm[:, None]
    theta /= w_norm
    cosines_to_angles(theta, x, w)  # (b, c)
    if kind == "linear":
        logits = product if bias is None else product + to_numpy(bias).astype(product.dtype, copy=False)
    else:
        logits = scale * np.cos(theta) if kind == "cosine" else -scale * theta
    own = np.maximum(labels, 0)  # unlabeled rows stand in as class 0
    at = own + np.arange(0, b * c, c)  # where they are in the flat (b, c) arrays
    flat_theta, flat_logits = theta.reshape(-1), logits.reshape(-1)
    columns = np.empty((8, b))  # float64
    columns[:4] = norm, theta.sum(1), flat_theta[at], flat_logits[at]
    flat_theta[at], flat_logits[at] = np.inf, -np.inf  # from here on, the other classes
    index, best = logits.argmax(1), logits.max(1)
    columns[4:6] = theta.min(1), best
    _, angle_sum, own_angle, own_logit, nearest_angle, other_logit, other_sum, other_squares = columns
    if c < 2 or not np.isfinite(own_logit + other_logit).all():
        return None
    shrink = np.exp(np.minimum(other_logit - own_logit, 0))  # sums of e^ are relative to the largest logit of all
    logits -= best[:, None]
    terms = np.exp(np.maximum(logits, FLOOR, out=logits), out=logits)
    terms.reshape(-1)[at] = 0.0
    np.multiply(shrink, terms.sum(1), out=other_sum)
    np.multiply(shrink**2, np.vecdot(terms, terms), out=other_squares)
    wins = (own_logit > other_logit) | ((own_logit == other_logit) & (own < index))  # the first among equals
    nothing = np.broadcast_to(np.nan, (b,))
    return Sweep(
        num_classes=c,
        precision=x.dtype.type,
        labels=labels,
        code=np.zeros(b, np.int8),
        predicted=np.where(wins, own, index),
        norm=columns[0],
        angle_sum=angle_sum,
        own_angle=own_angle,
        nearest_angle=nearest_angle,
        predicted_angle=nothing,
        own_logit=own_logit,
        other_logit=other_logit,
        other_sum=other_sum,
        other_squares=other_squares,
        other_moment=nothing,
        nobias_confidence=nothing,
    )


def _parts(head: Any) -> tuple[Any, Any, Any, float | None, Head | None]:
    """kind, weight, bias and scale; and the Head itself, where one was given."""
    if not isinstance(head, Head):
        inner = getattr(type(head), "head", None) and head.head  # a property of our losses
        head = inner if isinstance(inner, Head) else head
    if isinstance(head, Head):
        return head.kind, head.weight, head.bias, head.scale, head
    weight: Any = getattr(head, "weight", head)
    bias: Any = getattr(head, "bias", None)
    if weight is None or isinstance(weight, str):
        raise InputError(f"head must be a Head, an nn.Linear or a (c, d) weight, got {type(head).__name__}.")
    bias = bias.detach() if is_tensor(bias) else bias
    return "linear", widened(as_matrix(weight, "weight")), bias, None, None


def _on_cpu(features: Any, weight: Any) -> bool:
    both = is_tensor(features), is_tensor(weight)
    return both == (False, False) or (both == (True, True) and features.device.type == weight.device.type == "cpu")


def _all_have_direction(weight: Any) -> bool:
    return bool((to_numpy(namespace(weight).amax(abs(weight), axis=1)) != 0).all())


def _logits(features: Any, weight: Any, bias: Any, whole: Head | None) -> Any:
    if whole is not None:
        return whole.logits(features)
    x = widened(features)

    def like(array: Any) -> Any:
        return namespace(x).as_tensor(array, dtype=x.dtype, device=x.device) if is_tensor(x) else to_numpy(array)

    logits = x @ like(weight).T
    return logits if bias is None else logits + like(bias)
