"""The terms that a score can take from the one pass over the classes, the further terms, and the statuses of a row.

A further term needs all classes of a row at once, which the one pass never has: it takes a pass of its own, only when asked for.
Those are computed in float64: a power of 1/10 makes much of a small probability.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from hardsight.checks import is_tensor, namespace, to_numpy
from hardsight.head import Head
from hardsight.threads import blocks, like, share, take

ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS = "angles nearest logits softmax squares moment nobias".split()
EVERYTHING = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS})

# Further terms: the length of the layer's input, and the sum of GEN.
INPUT, TOP = "input", "top"

OK, NONFINITE, ZERO, NONFINITE_LOGIT = "ok", "nonfinite_feature", "zero_norm", "nonfinite_logit"
STATUSES = (OK, NONFINITE, ZERO, NONFINITE_LOGIT)

TABLE = 2**20  # entries of one table of rows and classes: 8 MB of float64
GAMMA, MOST = 0.1, 100  # GEN's power, and how many of the largest probabilities it takes

Table = Callable[[Any, Any], Any]  # (b, d) features and (b,) given classes, 0 for unlabeled -> (b,)


def nearest_sum(k: int) -> str:
    """The further term with the sum of the angles to the k nearest other classes."""
    return f"{NEAREST}:{k}"


def further_terms(
    features: Any, head: Head, labels: np.ndarray, columns: dict[str, Any], terms: Collection[str]
) -> dict[str, np.ndarray]:
    """The further terms of (n, d) features, by name; `columns` are those of the pass, for its rows that could be scored."""
    result: dict[str, np.ndarray] = {}
    for term in sorted(terms):
        if term == INPUT:  # of the last layer: the feature, and a 1 where there is a bias
            result[term] = columns["norm"] if head.bias is None else np.hypot(columns["norm"], 1.0)
        elif term == TOP:
            result[term] = _by_tables(features, labels, columns["code"], head, lambda x, own: generalized_entropy(head.logits(x)))
        else:
            nearest = functools.partial(_nearest_angles, head, int(term.removeprefix(f"{NEAREST}:")))
            result[term] = _by_tables(features, labels, columns["code"], head, nearest)
    return result


def further_terms_of_logits(logits: Any, terms: Collection[str]) -> dict[str, np.ndarray]:
    """The further terms of (n, c) logits, by name."""
    result = np.full(len(logits), np.nan)

    def work(part: slice) -> None:
        with np.errstate(invalid="ignore", over="ignore"):  # rows that are not finite have a status of their own
            result[part] = to_numpy(generalized_entropy(_double(logits[part])))

    if TOP in terms:
        share(work, blocks(len(logits), max(1, TABLE // logits.shape[1])), namespace(logits))
    return {TOP: result} if TOP in terms else {}


def generalized_entropy(logits: Any) -> Any:
    """GEN of (b, c) logits: the sum of (p (1 - p))^gamma over the largest probabilities, (b,)."""
    xp = namespace(logits)
    rows, best = xp.arange(len(logits), device=logits.device), logits.argmax(1)
    e = xp.exp(logits - xp.amax(logits, axis=1)[:, None])  # (b, c)
    e[rows, best] = 0.0  # the largest is 1, and set apart: 1 - p keeps its digits where p is nearly 1
    rest = e.sum(1)
    total = (1 + rest)[:, None]
    others = _largest(e, MOST - 1)  # (b, up to 99)
    spread = (others / total * ((total - others) / total)) ** GAMMA
    return (rest / total[:, 0] / total[:, 0]) ** GAMMA + spread.sum(1)


def _nearest_angles(head: Head, k: int, x: Any, own: Any) -> Any:
    """(b,) sum of the angles to the k nearest classes but the own one; to all others, where there are fewer."""
    theta = head.angles(x)  # (b, c)
    xp, k = namespace(theta), min(k, theta.shape[1] - 1)
    theta[xp.arange(len(theta), device=theta.device), own] = float("inf")
    return -_largest(-theta, k).sum(1) if k else xp.zeros_like(theta[:, 0])


def _largest(table: Any, k: int) -> Any:
    """The k largest of each row of a (b, c) table, in any order; the whole row where it has no more."""
    c = table.shape[1]
    if c <= k:
        return table
    return table.topk(k, dim=1).values if is_tensor(table) else np.partition(table, c - k, axis=1)[:, c - k :]


def _by_tables(features: Any, labels: np.ndarray, code: np.ndarray, head: Head, table: Table) -> np.ndarray:
    """(n,) a number per row from tables of rows and classes, some rows at a time; NaN for rows that cannot be scored."""
    result = np.full(len(labels), np.nan)
    rows, own = np.flatnonzero(code == 0), np.maximum(labels, 0)

    def work(part: slice) -> None:
        at = rows[part]
        result[at] = to_numpy(table(_double(take(features, at)), like(own[at], features)))

    share(work, blocks(len(rows), max(1, TABLE // max(head.weight.shape))), namespace(features))
    return result


def _double(x: Any) -> Any:
    return x.double() if is_tensor(x) else x.astype(np.float64)
