"""A fitted scikit-learn classifier that ends in a linear layer: alone, or last in a pipeline.

Logistic regression, linear SVM, ridge, SGD, perceptron and linear discriminant analysis all decide by `coef_` and
`intercept_`; what the earlier steps of a pipeline make of the images are the features. A two-class model keeps a single
row, w: it becomes the two rows -w/2 and w/2, whose softmax is the model's own probability.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.errors import FileError, InputError, MissingExtra
from hardsight.head import Head
from hardsight.models.flat_images import flat_images, flat_preprocessing
from hardsight.models.matching import TOLERANCE, relative_error
from hardsight.models.model import Model

SUPPORTED = "LogisticRegression, LinearSVC, RidgeClassifier, SGDClassifier, Perceptron or LinearDiscriminantAnalysis"


class LinearEstimator(Model):
    """A scikit-learn classifier; images are flattened, and rows of numbers are taken as they are."""

    def __init__(self, estimator: Any, name: str, *, sha256: str | None = None) -> None:
        self.steps = [step for _, step in getattr(estimator, "steps", [("", estimator)]) if step not in (None, "passthrough")]
        self.last = self.steps[-1] if self.steps else estimator
        if not (hasattr(self.last, "decision_function") and hasattr(type(self.last), "fit")):
            raise InputError(f"{type(self.last).__name__} is not a linear classifier: it must be {SUPPORTED}.")
        if not hasattr(self.last, "classes_"):
            raise InputError(f"{type(self.last).__name__} is not fitted: call fit before scoring with it.")
        if not hasattr(self.last, "coef_"):
            raise InputError(f"{type(self.last).__name__} has no coef_, so no class vectors: it must be {SUPPORTED}.")
        names = tuple(str(label) for label in self.last.classes_)
        super().__init__(name, flat_preprocessing(getattr(self.steps[0], "n_features_in_", None)), names)
        self._sha256 = sha256 or _arrays_sha256(self.steps)

    def fingerprint(self) -> dict[str, str]:
        """Kind, name and the hash of the fitted numbers, of their file where there is one."""
        return {"kind": "scikit-learn", "name": self.name, "sha256": self._sha256}

    def _find_head(self, batch: np.ndarray) -> Head:
        coef = np.atleast_2d(np.asarray(self.last.coef_, np.float64))
        intercept = np.broadcast_to(np.asarray(self.last.intercept_, np.float64), (len(coef),))
        if len(coef) == 1 and len(self.last.classes_) == 2:
            coef, intercept = _two_rows(coef), _two_rows(intercept[:, None])[:, 0]
        if len(coef) != len(self.last.classes_):
            raise InputError(
                f"{type(self.last).__name__} has {len(coef)} rows for {len(self.last.classes_)} classes: "
                f"it decides between pairs of classes. Use one row per class: {SUPPORTED}."
            )
        head = Head("linear", coef, bias=intercept)
        features, logits = self._run(batch)
        error = relative_error(np.asarray(head.logits(features)), logits)
        if error > TOLERANCE:
            raise InputError(
                f"coef_ and intercept_ of {type(self.last).__name__} do not give its own decisions "
                f"(off by {error:.0%} of the largest), so it is not linear: it must be {SUPPORTED}."
            )
        return head

    def _run(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = flat_images(batch)
        wanted = getattr(self.steps[0], "n_features_in_", rows.shape[1])
        if rows.shape[1] != wanted:
            raise InputError(f"{self.name} was fitted on rows of {wanted} values, got images of shape {batch.shape[1:]}.")
        for step in self.steps[:-1]:
            rows = step.transform(rows)
        if hasattr(rows, "toarray"):  # a sparse matrix
            rows = rows.toarray()
        decision = self.last.decision_function(rows)  # (b, c), or (b,) for two classes
        logits = _two_rows(decision[None]).T if decision.ndim == 1 else decision
        return np.asarray(rows, np.float32), np.asarray(logits, np.float32)


def _two_rows(x: np.ndarray) -> np.ndarray:
    """(1, k) -> (2, k): softmax of -z/2 and z/2 is the logistic function of z."""
    return np.concatenate([-0.5 * x, 0.5 * x])


def is_estimator(model: Any) -> bool:
    """Whether this is a scikit-learn estimator or pipeline."""
    return hasattr(model, "get_params") and (hasattr(model, "predict") or hasattr(model, "steps"))


def read_skops(path: Path) -> Any:
    """The estimator of a skops file, if it contains only types that skops trusts."""
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtra("a .skops file needs skops: pip install skops") from error
    try:
        untrusted = skops.io.get_untrusted_types(file=path)
        if not untrusted:
            return skops.io.load(path, trusted=[])
    except Exception as error:  # skops raises whatever the broken file leads it to
        raise FileError(f"{path} cannot be read as a skops file: {error}") from error
    raise InputError(
        f"{path} holds types that are not known to be safe: {', '.join(untrusted[:5])}. Nothing was loaded. "
        "Load it yourself with skops and pass the estimator in Python, if you trust it."
    )


def _arrays_sha256(steps: list[Any]) -> str:
    """One hash over every fitted array of every step."""
    digest = hashlib.sha256()
    for step in steps:
        for name, value in sorted(vars(step).items()):
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                digest.update(f"{type(step).__name__}.{name} {value.dtype} {value.shape}\n".encode())
                digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()
