"""A fitted scikit-learn classifier that ends in a linear layer, alone or last in a pipeline, as a head with class names.

Logistic regression, linear SVM, ridge, SGD, perceptron and linear discriminant analysis all use `coef_` and `intercept_`; the
features are the output of the earlier steps of a pipeline. A two-class model has a single row, w: it becomes the two rows
-w/2 and w/2, whose softmax is the model's own probability. scikit-learn is not imported here.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, to_numpy
from hardsight.errors import InputError, first_line
from hardsight.head import Head, is_estimator
from hardsight.labels import Classes

SUPPORTED = "LogisticRegression, LinearSVC, RidgeClassifier, SGDClassifier, Perceptron or LinearDiscriminantAnalysis"
TOLERANCE = 1e-3  # relative to the largest output; float32 layers agree to 1e-6, a wrong layer is off by 0.1 or more
TRIED = 256  # rows used to compare the head with the classifier


class FittedEstimator:
    """The steps of a classifier, the last of them linear."""

    def __init__(self, estimator: Any) -> None:
        estimator = getattr(estimator, "best_estimator_", estimator)  # of a search
        self.steps = [step for _, step in getattr(estimator, "steps", [("", estimator)]) if step not in (None, "passthrough")]
        self.last = self.steps[-1] if self.steps else estimator
        name = type(self.last).__name__
        instead = " Its probabilities can be scored: probs=model.predict_proba(X)." if hasattr(self.last, "predict_proba") else ""
        decides = hasattr(self.last, "decision_function") and hasattr(type(self.last), "fit")
        if decides and not hasattr(self.last, "classes_"):
            raise InputError(f"{name} is not fitted: call fit before scoring with it.")
        if not decides or not hasattr(self.last, "coef_"):
            raise InputError(f"{name} is not a linear classifier with coef_: it must be {SUPPORTED}.{instead}")
        self.classes = np.asarray(self.last.classes_)
        self.class_names = [str(_whole(label)) for label in self.classes.tolist()]

    @property
    def column_names(self) -> list[str] | None:
        """Columns of the frame it was fitted to, if it was a frame."""
        names = getattr(self.steps[0], "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def features(self, rows: Any) -> Any:
        """(n, k) inputs -> (n, d) input of the linear step; the inputs unchanged if there is no other step."""
        named = self.column_names is not None and hasattr(rows, "iloc")
        rows = rows if named else to_numpy(as_matrix(rows, "features"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*feature names")  # of a frame that came as an array
            try:
                for step in self.steps[:-1]:
                    rows = step.transform(rows)
            except ValueError as error:
                raise InputError(f"{type(self.steps[0]).__name__} does not take these features: {first_line(error)}.") from error
        return rows.toarray() if hasattr(rows, "toarray") else rows  # not sparse

    def decisions(self, features: Any) -> np.ndarray:
        """(n, d) features -> (n, c) decisions, which are logits."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*feature names")
            try:
                decision = np.asarray(self.last.decision_function(features))  # (n, c), or (n,) for two classes
            except ValueError as error:
                raise InputError(f"{type(self.last).__name__} does not take these features: {first_line(error)}.") from error
        return _two_rows(decision[None]).T if decision.ndim == 1 else decision

    def head(self, features: Any) -> Head:
        """The class vectors, after checking that they reproduce the classifier's decisions on the first (n, d) features."""
        coef = np.atleast_2d(np.asarray(self.last.coef_, np.float64))
        intercept = np.broadcast_to(np.asarray(self.last.intercept_, np.float64), (len(coef),))
        if len(coef) == 1 and len(self.classes) == 2:
            coef, intercept = _two_rows(coef), _two_rows(intercept[:, None])[:, 0]
        if len(coef) != len(self.classes):
            raise InputError(
                f"{type(self.last).__name__} has {len(coef)} rows for {len(self.classes)} classes: "
                f"it decides between pairs of classes. Use one row per class: {SUPPORTED}."
            )
        head = Head("linear", coef, bias=intercept)
        rows = to_numpy(as_matrix(features, "features"))[:TRIED]
        rows = rows[np.isfinite(rows).all(axis=1)]
        error = relative_error(np.asarray(head.logits(rows)), self.decisions(rows)) if len(rows) else 0.0
        if error > TOLERANCE:
            raise InputError(
                f"coef_ and intercept_ of {type(self.last).__name__} do not give its own decisions "
                f"(off by {error:.0%} of the largest), so it is not linear: it must be {SUPPORTED}."
            )
        return head

    @property
    def counted(self) -> bool:
        """Whether its classes are numbers."""
        return self.classes.dtype.kind in "iuf"

    def known_classes(self) -> Classes:
        """Its classes, for labels as they were passed to `fit`."""
        return Classes(self.class_names, integers=self.counted and self.class_names != [str(k) for k in range(len(self.classes))])


def fitted_columns(head: Any) -> list[str] | None:
    """Names of the columns that a classifier was fitted to; None if it has none, or is not a classifier."""
    return FittedEstimator(head).column_names if is_estimator(head) else None


def _whole(label: Any) -> Any:
    """A class 1.0 is class 1."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _two_rows(x: np.ndarray) -> np.ndarray:
    """(1, k) -> (2, k): softmax of -z/2 and z/2 is the logistic function of z."""
    return np.concatenate([-0.5 * x, 0.5 * x])


def relative_error(values: np.ndarray, outputs: np.ndarray) -> float:
    """Largest difference relative to the largest output; infinite if anything is not finite."""
    largest = float(np.abs(outputs).max(initial=0.0))
    error = float(np.abs(values - outputs).max(initial=0.0)) / (largest or 1.0)
    return error if np.isfinite(error) else np.inf
