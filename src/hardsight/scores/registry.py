"""`SCORES`: every score by name, with what a user needs to know about it.

A formula under `@row_score` (angular.py, confidences.py) registers itself when its file is imported; `row_values` runs it on
a `Sweep` (sweep.py). Others do likewise: `@dataset_score` and `@reference_score` for scores that are fitted to samples first
(`Fitted`), `@plain_score` for a function of arrays, `@dynamics_score` (dynamics.py) for one of a training's epochs.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from hardsight.checks import as_matrix, check_count, check_same_space, check_some_columns, given_probs, widened
from hardsight.errors import InputError, did_you_mean
from hardsight.head import Head, as_head
from hardsight.labels import whole_labels
from hardsight.pandas_index import align, counted_by, in_class_order, same_columns
from hardsight.scores.probabilities import sweep_probs
from hardsight.scores.sweep import Sweep, sweep, sweep_logits
from hardsight.scores.terms import ANGLES, INPUT, NEAREST, NOBIAS

Formula = Callable[[Sweep], np.ndarray]
Hard = Literal["high", "low"]
ScopeName = Literal["row", "dataset", "dynamics", "reference", "models", "layers", "checkpoints"]

OF_FEATURES = frozenset({ANGLES, NEAREST, NOBIAS, INPUT})  # terms that logits cannot give


class RowScore(Protocol):
    """A public row score: one number per sample, from features and a head or from logits or probabilities."""

    __name__: str

    def __call__(
        self, features: Any = None, head: Any = None, labels: Any = None, *,
        bias: Any = None, logits: Any = None, probs: Any = None, pred_probs: Any = None,
    ) -> np.ndarray: ...  # fmt: skip


@dataclass(frozen=True)
class GivenArrays:
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
    and the head), "dataset" (all samples), "dynamics" (the sample over the epochs of a training), "reference" (another
    snapshot that it is fitted to), "models" (several models), "layers" (features of several layers) or "checkpoints" (a
    model at several epochs, and the images). `labels` says whether it needs the given class.
    """

    name: str
    hard: Hard
    scope: ScopeName
    labels: bool
    range: str
    formula: str
    source: str
    function: Callable[..., np.ndarray]
    default: bool = field(repr=False, default=False)  # whether it is in the default table
    needs_logits: bool = field(repr=False, default=False)  # whether probabilities, logits up to a constant, are not enough
    linear: bool = field(repr=False, default=False)  # whether it is defined for a linear head alone
    k: int | None = field(repr=False, default=None)  # its number, where it has one and that does not depend on the data
    at: Callable[[int], Score] | None = field(repr=False, default=None)  # the score with another k: `avh_nearest:10`
    terms: frozenset[str] = field(repr=False, default=frozenset())  # of the sweep: what its formula is made of
    of: Formula | None = field(repr=False, default=None)  # a row score on a finished sweep
    fit: Callable[[Head | None], Fitted] | None = field(repr=False, default=None)  # a score to be fitted, of a head
    columns: tuple[str, ...] = field(repr=False, default=())  # what a dynamics score takes from each epoch
    story: Callable[[Any], np.ndarray] | None = field(repr=False, default=None)  # a dynamics score on a finished story

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]

    def from_logits(self) -> bool:
        """Whether logits alone are enough: no features, no head."""
        return self.scope == "row" and bool(self.terms) and not self.terms & OF_FEATURES


class Scores(dict[str, Score]):
    """Every score by its name. A name may carry a number, as in `SCORES["avh_nearest:10"]`; plain names are listed."""

    def __missing__(self, name: str) -> Score:
        carried = re.fullmatch(r"(\w+):([1-9][0-9]{0,8})", name) if isinstance(name, str) else None
        score = dict.get(self, carried[1]) if carried else None
        if carried is None or score is None or score.at is None:
            raise KeyError(name)
        return score.at(int(carried[2]))

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def get(self, name: Any, default: Any = None) -> Any:
        """The score of a name, with or without a number; the default where there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def harder(self, name: str, values: np.ndarray) -> np.ndarray:
        """(n,) values of a score, or of another column, whose high end is hard, turned so that high is hard.

        Example:
            >>> SCORES.harder("confidence", np.array([0.9, 0.2])), SCORES.harder("votes", np.array([3.0]))
            (array([-0.9, -0.2]), array([3.]))
        """
        return -values if name in self and self[name].hard == "low" else values

    def refusal(self, name: str) -> str:
        """Why there is no score of this name, in one line."""
        plain, colon, number = name.partition(":")
        score = dict.get(self, plain)
        if not colon or score is None:
            return f"there is no score named {name!r}." + (
                did_you_mean(plain, self) or f" Choose from {', '.join(self)}, or all."
            )
        if score.at is None:
            return f"{plain} has no k that a name could carry, got {name!r}."
        return f"{plain}: k must be a whole number of 1 or more, got {number!r}."


SCORES = Scores()


def plain_score(
    scope: ScopeName, *, hard: Hard, range: str, formula: str, source: str, labels: bool = True
) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Register a function of arrays as a score; `scoring` gathers the arrays for it. A number k is a keyword of its own."""

    def register(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        name, number = function.__name__, inspect.signature(function).parameters.get("k")
        score = Score(name, hard, scope, labels, range, formula, source, function)
        SCORES[name] = score if number is None else replace(score, k=number.default, at=functools.partial(_carrying, name))
        return function

    return register


def row_score(
    *, hard: Hard, range: str, formula: str, source: str, terms: set[str], labels: bool = True, **about: Any
) -> Callable[[Formula], RowScore]:
    """Register a formula on a `Sweep` as a score, and make it a function of features, head and labels.

    `about` sets further fields of its `Score`: `default=False` for one that is computed only when asked for.
    """

    def register(of: Formula) -> RowScore:
        name = of.__name__

        @functools.wraps(of)
        def function(
            features: Any = None, head: Any = None, labels: Any = None, *,
            bias: Any = None, logits: Any = None, probs: Any = None, pred_probs: Any = None,
        ) -> np.ndarray:  # fmt: skip
            inputs = GivenArrays(features, head, labels, bias, logits, given_probs(probs, pred_probs))
            return row_values(SCORES[name], swept(inputs, frozenset(terms), name))

        _own_signature(function)
        SCORES[name] = Score(
            name, hard, "row", labels, range, formula, source, function, terms=frozenset(terms), of=of,
            **{"default": True, **about},
        )  # fmt: skip
        return function

    return register


def row_score_at(
    k: int, *, hard: Hard, range: str, formula: str, source: str, terms: Callable[[int], set[str]]
) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Register a formula on a `Sweep` and a number k, which a name can carry: `avh_nearest:10`."""

    def register(of: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        name = of.__name__

        def of_k(k: int) -> dict[str, Any]:
            return {"terms": frozenset(terms(k)), "of": functools.partial(of, k=k)}

        @functools.wraps(of)
        def function(features: Any, head: Any, labels: Any, *, bias: Any = None, k: int = k) -> np.ndarray:
            score = _carrying(name, check_count(k, "k", least=1), **of_k(k))
            return row_values(score, swept(GivenArrays(features, head, labels, bias), score.terms, name))

        _own_signature(function)
        SCORES[name] = Score(
            name, hard, "row", True, range, formula, source, function, k=k, **of_k(k),
            at=lambda k: _carrying(name, k, **of_k(k)),
        )  # fmt: skip
        return function

    return register


def _own_signature(function: Any) -> None:
    """help() should show the signature of the function, not of the formula that it wraps."""
    del function.__wrapped__
    function.__annotations__ = {}


def _carrying(name: str, k: int, **changes: Any) -> Score:
    """The score `name:k`: its function under the same name and docstring, with another number."""
    plain = dict.__getitem__(SCORES, name)
    function = functools.update_wrapper(functools.partial(plain.function, k=k), plain.function)
    formula = re.sub(r"k = .*", f"k = {k}", plain.formula)  # it is the last thing that a formula says
    return replace(plain, name=f"{name}:{k}", formula=formula, function=function, k=k, at=None, **changes)


class Fitted:
    """A dataset or reference score at work: it sees every batch it is fitted to once, then gives each batch its values.

    It is made for a head, and once without one, to ask for its attributes.
    """

    terms: frozenset[str] = frozenset()
    fits_labels: bool = False  # whether it is fitted to labeled samples
    every_class: bool = False  # whether a reference must have samples of each class

    @property
    def reference_terms(self) -> frozenset[str]:
        """What it takes from the sweep of a reference: `terms`, unless a subclass needs fewer."""
        return self.terms

    def see(self, x: Any, rows: Sweep) -> None:
        """Fit to one batch: x (b, d) and its sweep."""

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) values of one batch, once all have been seen."""
        raise NotImplementedError


FittedTo = tuple[GivenArrays, Fitted]  # arrays in memory, and the score to fit to them
FittedToReference = tuple[GivenArrays, Fitted, GivenArrays]  # arrays to score, the score, and the reference to fit it to


def dataset_score(
    fit: Callable[..., Fitted], *, hard: Hard, range: str, formula: str, source: str, labels: bool = True
) -> Callable[[Callable[..., FittedTo]], Callable[..., np.ndarray]]:
    """Register a dataset score: `fit` makes a fresh one for a head, the decorated function is its form on arrays.

    Where that has a number k, `fit` takes it after the head.
    """
    about = {"hard": hard, "range": range, "formula": formula, "source": source, "labels": labels}
    return lambda ask: _fitted_score(ask, fit, scope="dataset", **about)


def reference_score(
    fit: Callable[..., Fitted], *, hard: Hard, range: str, formula: str, source: str, labels: bool = False, **about: Any
) -> Callable[[Callable[..., FittedToReference]], Callable[..., np.ndarray]]:
    """Register a score that is fitted to another snapshot: as `dataset_score`, with the reference beside the arrays."""
    about |= {"hard": hard, "range": range, "formula": formula, "source": source, "labels": labels}
    return lambda ask: _fitted_score(ask, fit, scope="reference", **about)


def _fitted_score(
    ask: Callable[..., FittedTo | FittedToReference], fit: Callable[..., Fitted], **about: Any
) -> Callable[..., np.ndarray]:
    """Put a score that is fitted into the registry, with what it takes of a sweep and its other k."""

    @functools.wraps(ask)
    def function(*args: Any, **kwargs: Any) -> np.ndarray:
        inputs, fitted, *references = ask(*args, **kwargs)
        for reference in references:
            known, x = as_matrix(reference.features, "reference"), as_matrix(inputs.features, "features")
            if known.shape[1] != x.shape[1]:
                raise InputError(
                    f"features and reference must have the same number of columns, got {tuple(x.shape)} and {tuple(known.shape)}."
                )
            fitted.see(known, swept(reference, fitted.reference_terms, ask.__name__))
        rows, x = swept(inputs, fitted.terms, ask.__name__), as_matrix(inputs.features, "features")
        if not references:
            fitted.see(x, rows)
        return np.where(rows.ok, fitted.values_of(x, rows), np.nan)

    function.__annotations__ = {**ask.__annotations__, "return": np.ndarray}
    number = inspect.signature(ask).parameters.get("k")

    def fit_at(k: int | None) -> Callable[[Head | None], Fitted]:
        return lambda head: fit(head, k)

    name, of_no_k = ask.__name__, fit if number is None else fit_at(number.default)
    score = Score(name, function=function, fit=of_no_k, terms=of_no_k(None).terms, **about)
    if number is not None:
        score = replace(score, k=number.default, at=lambda k: _carrying(name, k, fit=fit_at(k)))
    SCORES[name] = score
    return function


def row_values(score: Score, rows: Sweep) -> np.ndarray:
    """A row score of a finished sweep: NaN where a row has no status "ok", or no label and the score needs one."""
    assert score.of is not None
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        result = np.asarray(score.of(rows), dtype=np.float64)
    result = np.where(rows.ok, result, np.nan)
    if score.labels:
        result = np.where(rows.labels >= 0, result, np.nan)
    return np.where(np.isfinite(result), result, np.nan)


def swept(inputs: GivenArrays, terms: frozenset[str], name: str) -> Sweep:
    """Check what a caller passed to the score `name`, and make the one pass over it."""
    passed = [key for key in ("features", "logits", "probs") if getattr(inputs, key) is not None]
    if len(passed) != 1:
        raise InputError(f"{name} needs one of features, logits or probs, got {' and '.join(passed) or 'none'}.")
    labels = align(inputs.labels, "labels", getattr(inputs, passed[0]), passed[0])
    if inputs.features is None:
        return _swept_outputs(passed[0], getattr(inputs, passed[0]), labels, terms, name)
    features = as_matrix(inputs.features, "features")
    check_some_columns(features, "features")
    if inputs.head is None:
        if terms:
            raise InputError(f"{name} needs a head: a Head, or the (c, d) weight of the last linear layer.")
        return norms_only(features, labels)
    head = as_head(same_columns(inputs.head, inputs.features), inputs.bias)
    check_same_space(features, head.weight)
    if name in SCORES and SCORES[name].linear and head.kind != "linear":
        raise InputError(not_linear(name, head.kind))
    labels = check_labels_or_none(counted_by(labels, inputs.head, 0), len(features), head.num_classes)
    return sweep(features, head, labels, terms)


def _swept_outputs(evidence: str, given: Any, labels: Any, terms: frozenset[str], name: str) -> Sweep:
    """The pass over logits or probabilities, which are the output of a head."""
    if terms & OF_FEATURES or not terms:
        raise InputError(f"{name} needs features and a head; {evidence} alone do not have it.")
    if evidence == "probs" and name in SCORES and SCORES[name].needs_logits:
        raise InputError(f"{name} needs logits: probabilities know them only up to a constant.")
    given = in_class_order(given)
    table = as_matrix(given, evidence)
    check_some_columns(table, evidence)
    labels = check_labels_or_none(counted_by(labels, given, 1), *table.shape)
    return sweep_probs(table, labels, terms) if evidence == "probs" else sweep_logits(widened(table), labels, terms)


def not_linear(name: str, kind: str) -> str:
    """What to say of a head that a score is not defined for."""
    return f"{name} is defined for a linear head, and this one is {kind}."


def norms_only(features: Any, labels: Any) -> Sweep:
    """A sweep without a head: status and norm of each row, and the labels whatever their number."""
    anything = Head("linear", np.ones((1, features.shape[1])))  # never used: no term of the classes is computed
    labels = np.full(len(features), -1) if labels is None else whole_labels(labels, len(features), None)
    return replace(sweep(features, anything, labels, frozenset()), num_classes=int(labels.max(initial=-1)) + 1)


def check_labels_or_none(labels: Any, num_samples: int, num_classes: int) -> np.ndarray:
    """Checked labels; all unlabeled when none are given."""
    if labels is None:
        return np.full(num_samples, -1)
    return whole_labels(labels, num_samples, num_classes)
