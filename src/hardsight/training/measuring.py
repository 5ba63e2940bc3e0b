"""One batch in training, measured: a number per sample and dynamics column, from the forward pass already done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, check_labels, check_same_space, is_tensor, namespace, to_numpy, widened
from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.scores import SCORES
from hardsight.scores.registry import norms_only, values
from hardsight.scores.sweep import ANGLES, LOGITS, NEAREST, SOFTMAX, SQUARES, Sweep, sweep, sweep_logits

NUMBERS = ("own_angle", "nearest_angle", "avh", "norm", "confidence", "logit_margin", "el2n", "loss")
NEEDS = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES})


def measure(features: Any, head: Any, labels: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(b,) checked labels, and a (b,) array for each of NUMBERS and for `predicted` (-1 where there is none).

    Args:
        features: (b, d) arrays or tensors, as they went into the head.
        head: a `Head`, anything with one at `.head` (our losses), an `nn.Linear`, or a (c, d) weight.
        labels: (b,) classes, -1 for unlabeled.
    """
    features = as_matrix(features, "features")
    rows = _swept(features, head, labels)
    columns = {name: values(SCORES[name], rows) for name in NUMBERS}
    return rows.labels, columns | {"predicted": rows.predicted}


def _swept(features: Any, head: Any, labels: Any) -> Sweep:
    kind, weight, bias, whole = _parts(head)
    check_same_space(features, weight)
    given = check_labels(labels, len(features), len(weight))
    if _all_have_direction(weight):
        return sweep(features, whole or Head(kind, weight, bias), given, NEEDS)
    # A class vector at the origin, as in a head that starts from zeros: logits it has, angles it has not.
    if whole is None:
        x = widened(features)
        logits = x @ _like(weight, x).T
        logits = logits if bias is None else logits + _like(bias, x)
    else:
        logits = whole.logits(features)
    rows = sweep_logits(logits, given, NEEDS - {ANGLES, NEAREST})
    return replace(rows, norm=norms_only(features, None).norm)


def _parts(head: Any) -> tuple[Any, Any, Any, Head | None]:
    """kind, weight and bias; and the Head itself, where one was given."""
    inner = getattr(head, "head", None)
    head = inner if isinstance(inner, Head) else head
    if isinstance(head, Head):
        return head.kind, head.weight, head.bias, head
    weight: Any = getattr(head, "weight", head)
    bias: Any = getattr(head, "bias", None)
    if weight is None or isinstance(weight, str):
        raise InputError(f"head must be a Head, an nn.Linear or a (c, d) weight, got {type(head).__name__}.")
    bias = bias.detach() if is_tensor(bias) else bias
    return "linear", widened(as_matrix(weight, "weight")), bias, None


def _all_have_direction(weight: Any) -> bool:
    return bool((to_numpy(namespace(weight).amax(abs(weight), axis=1)) != 0).all())


def _like(array: Any, x: Any) -> Any:
    return namespace(x).as_tensor(array, dtype=x.dtype, device=x.device) if is_tensor(x) else to_numpy(array)
