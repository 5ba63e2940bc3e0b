"""`SCORES`: every score by name, with what a reader must know of it to use it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from hardsight.checks import as_matrix, check_labels, check_same_space, check_some_columns, given_probs, widened
from hardsight.errors import InputError
from hardsight.head import Head, as_head
from hardsight.pandas_index import align
from hardsight.scores.probabilities import sweep_probs
from hardsight.scores.sweep import Sweep, sweep, sweep_logits
from hardsight.scores.terms import ANGLES, NEAREST, NOBIAS

Formula = Callable[[Sweep], np.ndarray]


class RowScore(Protocol):
    """A public row score: one number per sample, from features and a head or from logits or probabilities."""

    __name__: str

    def __call__(
        self, features: Any = None, head: Any = None, labels: Any = None, *,
        bias: Any = None, logits: Any = None, probs: Any = None, pred_probs: Any = None,
    ) -> np.ndarray: ...  # fmt: skip


@dataclass(frozen=True)
class Inputs:
    """What a score function was called with."""

    features: Any = None
    head: Any = None
    labels: Any = None
    bias: Any = None
    logits: Any = None
    probs: Any = None


@dataclass(frozen=True)
class Score:
    """One score: what it means and how it is computed.

    `hard` is the end at which a sample is hard, "high" or "low". `scope` says what one value depends on: "row" (one sample
    and the head), "dataset" (all samples) or "dynamics" (the sample over the epochs of a training). `labels` says whether it
    needs the given class.
    """

    name: str
    hard: Literal["high", "low"]
    scope: Literal["row", "dataset", "dynamics"]
    labels: bool
    range: str
    formula: str
    source: str
    function: Callable[..., np.ndarray]
    terms: frozenset[str] = field(repr=False, default=frozenset())  # of the sweep: what its formula is made of
    of: Formula | None = field(repr=False, default=None)  # a row score on a finished sweep
    fit: Callable[[Head | None], Fitted] | None = field(repr=False, default=None)  # a dataset score, to be fitted, of a head
    columns: tuple[str, ...] = field(repr=False, default=())  # what a dynamics score takes from each epoch
    story: Callable[[Any], np.ndarray] | None = field(repr=False, default=None)  # a dynamics score on a finished story

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]

    def from_logits(self) -> bool:
        """Whether logits alone are enough: no features, no head."""
        return self.scope == "row" and bool(self.terms) and not self.terms & {ANGLES, NEAREST, NOBIAS}


SCORES: dict[str, Score] = {}


def row_score(
    *, hard: Literal["high", "low"], range: str, formula: str, source: str, terms: set[str], labels: bool = True
) -> Callable[[Formula], RowScore]:
    """Register a formula on a `Sweep` as a score, and make it a function of features, head and labels."""

    def register(of: Formula) -> RowScore:
        name = of.__name__

        @functools.wraps(of)
        def function(
            features: Any = None, head: Any = None, labels: Any = None, *,
            bias: Any = None, logits: Any = None, probs: Any = None, pred_probs: Any = None,
        ) -> np.ndarray:  # fmt: skip
            inputs = Inputs(features, head, labels, bias, logits, given_probs(probs, pred_probs))
            return values(SCORES[name], swept(inputs, frozenset(terms), name))

        del function.__wrapped__  # help() should show the signature of the function, not of the formula
        function.__annotations__ = {}
        SCORES[name] = Score(name, hard, "row", labels, range, formula, source, function, terms=frozenset(terms), of=of)
        return function

    return register


class Fitted(Protocol):
    """A dataset score at work: it sees every batch once, then gives each batch its values."""

    terms: frozenset[str]
    labels: bool  # whether it is fitted to labeled samples

    def see(self, x: Any, rows: Sweep) -> None:
        """Fit to one batch: x (b, d) and its sweep."""

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) values of one batch, once all have been seen."""


FittedTo = tuple[Inputs, Fitted]  # arrays in memory, and the score to fit to them


def dataset_score(
    fit: Callable[[Head | None], Fitted],
    *,
    hard: Literal["high", "low"],
    range: str,
    formula: str,
    source: str,
    labels: bool = True,
) -> Callable[[Callable[..., FittedTo]], Callable[..., np.ndarray]]:
    """Register a dataset score: `fit` makes a fresh one for a head, the decorated function is its form on arrays."""

    def register(ask: Callable[..., FittedTo]) -> Callable[..., np.ndarray]:
        @functools.wraps(ask)
        def function(*args: Any, **kwargs: Any) -> np.ndarray:
            inputs, fitted = ask(*args, **kwargs)
            rows = swept(inputs, fitted.terms, ask.__name__)
            x = as_matrix(inputs.features, "features")
            fitted.see(x, rows)
            return np.where(rows.ok, fitted.of(x, rows), np.nan)

        function.__annotations__ = {**ask.__annotations__, "return": np.ndarray}
        SCORES[ask.__name__] = Score(
            ask.__name__, hard, "dataset", labels, range, formula, source, function, terms=fit(None).terms, fit=fit
        )
        return function

    return register


def values(score: Score, rows: Sweep) -> np.ndarray:
    """A row score of a finished sweep: NaN where a row has no status "ok", or no label and the score needs one."""
    assert score.of is not None
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        result = np.asarray(score.of(rows), dtype=np.float64)
    result = np.where(rows.ok, result, np.nan)
    if score.labels:
        result = np.where(rows.labels >= 0, result, np.nan)
    return np.where(np.isfinite(result), result, np.nan)


def swept(inputs: Inputs, terms: frozenset[str], name: str) -> Sweep:
    """Check what a caller passed to the score `name`, and make the one pass over it."""
    passed = [key for key in ("features", "logits", "probs") if getattr(inputs, key) is not None]
    if len(passed) != 1:
        raise InputError(f"{name} needs one of features, logits or probs, got {' and '.join(passed) or 'none'}.")
    labels = align(inputs.labels, "labels", getattr(inputs, passed[0]), passed[0])
    if inputs.features is None:
        if terms & {ANGLES, NEAREST, NOBIAS} or not terms:
            raise InputError(f"{name} needs features and a head; {passed[0]} alone do not have it.")
        table = as_matrix(inputs.logits if inputs.probs is None else inputs.probs, passed[0])
        check_some_columns(table, passed[0])
        labels = check_labels_or_none(labels, *table.shape)
        return sweep_probs(table, labels, terms) if inputs.logits is None else sweep_logits(widened(table), labels, terms)
    features = as_matrix(inputs.features, "features")
    check_some_columns(features, "features")
    if inputs.head is None:
        if terms:
            raise InputError(f"{name} needs a head: a Head, or the (c, d) weight of the last linear layer.")
        return norms_only(features, labels)
    head = as_head(inputs.head, inputs.bias)
    check_same_space(features, head.weight)
    return sweep(features, head, check_labels_or_none(labels, len(features), head.num_classes), terms)


def norms_only(features: Any, labels: Any) -> Sweep:
    """A sweep without a head: status and norm of each row, and the labels whatever their number."""
    anything = Head("linear", np.ones((1, features.shape[1])))  # never used: nothing is asked of the classes
    labels = np.full(len(features), -1) if labels is None else check_labels(labels, len(features), None)
    return replace(sweep(features, anything, labels, frozenset()), num_classes=int(labels.max(initial=-1)) + 1)


def check_labels_or_none(labels: Any, num_samples: int, num_classes: int) -> np.ndarray:
    """Checked labels; all unlabeled when none are given."""
    if labels is None:
        return np.full(num_samples, -1)
    return check_labels(labels, num_samples, num_classes)
