"""`score`, `clean` and `adapt` as scikit-learn estimators: they can be cloned and used in pipelines and grid searches.

    HardnessScorer().fit(X, y).score_samples(X, y)               one number per sample, high is hard
    CleanClassifier(clf).fit(X, y)                               any classifier, fitted without the labels that are likely wrong
    SelfTrainingClassifier().fit(X, y, sample_domain=domain)     self-training on an unlabeled domain, as in skada

Invalid input raises ValueError, as in scikit-learn.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from safetensors.numpy import load_file
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from hardsight.domains.opening import standards
from hardsight.errors import InputError, did_you_mean
from hardsight.quality.clean import clean
from hardsight.scores import SCORES
from hardsight.scoring.fitted_head import check_told_apart, fit_head, inverse_shrinkage_of, unconverged
from hardsight.scoring.score import score
from hardsight.screen import warn_in_python

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MANY_LEFT_OUT = 0.25  # share of the samples from which that is worth a warning
MASKED = -1  # the label of a target sample, whose class must not be seen


class HardnessScorer(BaseEstimator):
    """Hardness of each sample, from a linear head fitted to features and labels.

    Args:
        by: a row score by name, such as "avh", "angular_gap" or "loss".

    `score_samples` orients every score so that high is hard. For samples without labels, it uses the predicted class.

    Attributes:
        classes_: (c,) the labels seen in `fit`.
        head_: the fitted `Head`; class k is `classes_[k]`.

    Example:
        >>> X, y = np.array([[2.0, 0.0], [3.0, 0.1], [0.0, 2.0], [0.1, 3.0]]), ["cat", "cat", "dog", "dog"]
        >>> scorer = HardnessScorer().fit(X, y)
        >>> scorer.score_samples(X, ["cat", "dog", "dog", "dog"]).argmax()  # the second is no dog
        np.int64(1)
    """

    def __init__(self, by: str = "avh") -> None:
        self.by = by

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the head: logistic regression on standardized features."""
        if self.by not in SCORES or SCORES[self.by].scope != "row":
            rows = [name for name, each in SCORES.items() if each.scope == "row"]
            raise ValueError(f"by must be a row score, got {self.by!r}.{did_you_mean(self.by, rows)}")
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"a head needs samples of two classes, and there is one class only: {self.classes_.tolist()[0]!r}.")
        try:
            with unconverged():
                self.head_ = fit_head(X, labels, len(self.classes_), inverse_shrinkage_of(labels))
            check_told_apart(self.head_)
        except InputError as error:
            raise ValueError(str(error)) from error
        return self

    def score_samples(self, X: Any, y: Any = None) -> np.ndarray:
        """(n,) hardness; NaN if undefined, such as for an all-zero feature."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        labels = self._labels(X, y)
        try:
            values = score(X, self.head_, labels, scores=[self.by]).column(self.by)
        except InputError as error:
            raise ValueError(str(error)) from error
        return SCORES.harder(self.by, values.to_numpy(zero_copy_only=False).astype(np.float64))

    def _labels(self, X: np.ndarray, y: Any | None) -> np.ndarray:
        """(n,) class indices: the given labels, or the predicted ones."""
        if y is None:
            return np.asarray(self.head_.logits(X)).argmax(1)
        given = np.asarray(y)
        places = np.searchsorted(self.classes_, given).clip(max=len(self.classes_) - 1)
        unknown = given[self.classes_[places] != given]
        if len(unknown):
            raise ValueError(f"y holds {unknown.tolist()[0]!r}, which was not among the labels in fit.")
        return places

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _has(method: str) -> Any:
    """Whether the wrapped classifier has a method: ours is there only then."""
    return available_if(lambda self: hasattr(self.estimator_ if hasattr(self, "estimator_") else self._base(), method))


class CleanClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that is fitted without the labels that are likely wrong.

    Each label is judged by `hardsight.clean`, by the probabilities of classifiers that were fitted without its fold. The
    classifier is then fitted once more, on the samples whose labels are not flagged.

    Args:
        estimator: any classifier with `predict_proba`; logistic regression by default.
        folds: number of folds.
        seed: draws the folds.

    Attributes:
        classes_: (c,) the labels seen in `fit`.
        estimator_: the fitted classifier.
        suspects_: what `hardsight.clean` found, one row per sample; None where a class is too small for two folds.
        kept_: (n,) whether a sample was trained on.

    Example:
        >>> X, y = np.repeat([[0.0], [1.0]], 20, axis=0) + np.linspace(0, 0.3, 40)[:, None], np.repeat(["cat", "dog"], 20)
        >>> y[3] = "dog"
        >>> np.flatnonzero(~CleanClassifier().fit(X, y).kept_)
        array([3])
    """

    def __init__(self, estimator: Any = None, *, folds: int = 5, seed: int = 0) -> None:
        self.estimator, self.folds, self.seed = estimator, folds, seed

    def _base(self) -> Any:
        return LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Judge every label out of sample, then fit on those that are not flagged."""
        if y is None:
            raise ValueError("CleanClassifier requires y to be passed, but the target y is None.")
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        X, y = indexable(X, y)
        check_classification_targets(y)
        self.classes_, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
        self.suspects_, self.kept_ = None, np.ones(len(y), bool)
        folds = min(self.folds, counts.min())
        if folds >= 2 and len(self.classes_) >= 2:
            split = StratifiedKFold(folds, shuffle=True, random_state=self.seed)
            probs = cross_val_predict(clone(self._base()), X, y, cv=split, method="predict_proba")  # (n, c)
            self.suspects_ = clean(probs=probs, labels=labels, class_names=[str(name) for name in self.classes_])
            flagged = np.asarray(self.suspects_["is_label_issue"].to_numpy(zero_copy_only=False), bool)
            remaining = np.bincount(labels[~flagged], minlength=len(self.classes_))
            self.kept_ = ~flagged | (remaining == 0)[labels]  # no class is emptied
            if np.mean(self.kept_) < 1 - MANY_LEFT_OUT:
                accuracy = f"out of fold, the classifier is right on {np.mean(probs.argmax(axis=1) == labels):.0%} of the labels"
                left_out = f"{np.count_nonzero(~self.kept_)} of {len(y)} samples are left out"
                warn_in_python([f"{left_out}; {accuracy}. A weak classifier leaves out right labels as well."])
        rows = np.flatnonzero(self.kept_)
        self.estimator_ = clone(self._base()).fit(_safe_indexing(X, rows), y[rows])
        for name in ("n_features_in_", "feature_names_in_"):  # what X may be is for the classifier to say
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(n,) labels."""
        return self._fitted().predict(X)

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c) probabilities."""
        return self._fitted().predict_proba(X)

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> np.ndarray:
        """Confidence of the classes, as the classifier has it."""
        return self._fitted().decision_function(X)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self.estimator_

    def __sklearn_tags__(self) -> Any:
        tags, base = super().__sklearn_tags__(), get_tags(self._base())
        tags.input_tags, tags.classifier_tags = base.input_tags, base.classifier_tags
        return tags


class SelfTrainingClassifier(ClassifierMixin, BaseEstimator):
    """`hardsight adapt` on features: train on source domains, self-train on target domains, predict both.

    Args:
        method: cbst, crst, cbst+avh, coral+cbst, ...: see `hardsight.domains`; "source" does not adapt.
        rounds: number of rounds of selecting pseudo-labels and training on them.
        hidden: units of the hidden layer.
        seed: random seed.
        options: other options of `hardsight.adapt`, such as {"portion": "0.2:0.05:0.8"}.

    `sample_domain` follows skada: positive for source samples, negative for target samples. Without it, samples labeled -1
    are the target. Labels of target samples are never used.

    Attributes:
        classes_: (c,) the labels of the source.
        rounds_: the selection and metrics of each round, as reported by `hardsight.adapt`.

    Example:
        domain = np.repeat([1, -2], [len(X_source), len(X_target)])
        classifier = SelfTrainingClassifier("cbst+avh").fit(X, y, sample_domain=domain)
        classifier.predict(X_target)
    """

    __metadata_request__fit = {"sample_domain": True}
    __metadata_request__predict = {"sample_domain": True}
    __metadata_request__predict_proba = {"sample_domain": True}
    __metadata_request__decision_function = {"sample_domain": True}
    __metadata_request__score = {"sample_domain": True}

    def __init__(
        self,
        method: str = "cbst+avh",
        *,
        rounds: int = 10,
        hidden: int = 512,
        seed: int = 0,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.method, self.rounds, self.hidden, self.seed, self.options = method, rounds, hidden, seed, options

    def fit(self, X: Any, y: Any, sample_domain: ArrayLike | None = None) -> Self:
        """Train on the samples of source domains, then self-train on those of target domains."""
        X, y = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(y)
        target = y == MASKED if sample_domain is None else np.asarray(sample_domain) < 0
        if target.all() or not target.any():
            raise ValueError("self-training needs samples of a source (sample_domain above 0) and of a target (below 0).")
        self.classes_, labels = np.unique(y[~target], return_inverse=True)
        try:
            state = self._adapted((X[~target], labels), X[target])
        except InputError as error:
            raise ValueError(str(error)) from error
        self._layers = [state[name].astype(np.float64) for name in ("hidden.weight", "hidden.bias", "weight", "bias")]
        how = (self.options or {}).get("standardize", "domain")
        self._source, self._target = standards(X[~target], X[target], how)
        return self

    def _adapted(self, source: tuple[np.ndarray, np.ndarray], target: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of the adapted network, which takes raw target features."""
        from hardsight.domains.adapt import adapt
        from hardsight.files.heads import load_head

        with tempfile.TemporaryDirectory() as folder:
            unlabeled = np.full(len(target), -1)
            more = {"rounds": self.rounds, "hidden": self.hidden, "seeds": (self.seed,), **(self.options or {})}
            done = adapt(source, (target, unlabeled), Path(folder) / "run", methods=self.method, **more)
            self.rounds_ = done.rounds
            model = next((Path(folder) / "run").glob(f"*/seed={self.seed}/{self.method}/model"))
            head, _ = load_head(model.parent / "head.safetensors")
            return {**load_file(model / "model.safetensors"), "weight": head.weight, "bias": head.bias}

    def decision_function(self, X: Any, sample_domain: ArrayLike | None = None) -> np.ndarray:
        """(n, c) logits; samples count as target samples unless `sample_domain` says otherwise."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float32)
        if sample_domain is not None:
            moved = self._source(X) * self._target.deviation + self._target.mean  # to the scale that the network expects
            X = np.where((np.asarray(sample_domain) > 0)[:, None], moved, X)
        hidden, hidden_bias, weight, bias = self._layers
        return np.maximum(X @ hidden.T + hidden_bias, 0) @ weight.T + bias

    def predict_proba(self, X: Any, sample_domain: ArrayLike | None = None) -> np.ndarray:
        """(n, c) probabilities."""
        from scipy.special import softmax

        return softmax(self.decision_function(X, sample_domain), axis=1)

    def predict(self, X: Any, sample_domain: ArrayLike | None = None) -> np.ndarray:
        """(n,) labels."""
        return self.classes_[self.decision_function(X, sample_domain).argmax(1)]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, sample_domain: ArrayLike | None = None) -> float:
        """Accuracy of the predictions."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X, sample_domain), sample_weight=sample_weight))
