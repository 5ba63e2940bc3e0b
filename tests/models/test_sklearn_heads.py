"""A fitted scikit-learn classifier as the head of `score`: its class vectors, its classes, the steps before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hardsight import Snapshot, avh, extract, score
from hardsight.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) + np.repeat(np.eye(3, 4) * 4, 20, axis=0)  # (60, 4), three groups
NAMES = np.repeat(["ant", "bee", "cow"], 20)


def confidences(model: Any, x: Any, labels: Any) -> list[float]:
    """The oracle: the classifier's own probability of each label."""
    return [float(row[list(model.classes_).index(label)]) for row, label in zip(model.predict_proba(x), labels, strict=True)]


def test_two_classes_by_hand() -> None:
    """One row, w = (1, 0): class 1 lies at 0 degrees, class 0 at 180. A sample at 60 degrees has 60 / 180 and 120 / 180."""
    model = LogisticRegression().fit([[-1.0, 0.0], [1.0, 0.0]], ["no", "yes"])
    model.coef_, model.intercept_ = np.array([[1.0, 0.0]]), np.zeros(1)
    sample = np.array([[np.cos(np.pi / 3), np.sin(np.pi / 3)]] * 2)
    table = score(sample, model, ["yes", "no"], scores="avh,confidence")
    assert table.column("avh").to_pylist() == pytest.approx([1 / 3, 2 / 3])
    assert table.column("label").to_pylist() == [1, 0]
    assert table.column("confidence").to_pylist() == pytest.approx(confidences(model, sample, ["yes", "no"]))


@pytest.mark.parametrize("labels", [NAMES, np.repeat([3, 7, 9], 20), np.repeat([0, 1, 2], 20), np.repeat([-1.0, 1.0, 2.0], 20)])
def test_labels_mean_what_they_meant_to_fit(labels: np.ndarray) -> None:
    model = LogisticRegression().fit(X, labels)
    table = score(X, model, labels, scores="confidence")
    assert table.column("label").to_pylist() == np.repeat([0, 1, 2], 20).tolist()
    assert table.column("confidence").to_pylist() == pytest.approx(confidences(model, X, labels))
    snapshot = Snapshot(X, model, list(labels))
    assert snapshot.class_names == [str(label).removesuffix(".0") for label in model.classes_]


def test_flags() -> None:
    flags = NAMES == "bee"
    model = RidgeClassifier().fit(X, flags)
    table = score(X, model, flags)
    assert table.column("predicted").to_pylist() == model.predict(X).astype(int).tolist()


@pytest.mark.parametrize("wrap", ["pipeline", "search"])
def test_earlier_steps_make_the_features(wrap: str) -> None:
    pipeline: Any = make_pipeline(StandardScaler(), LogisticRegression())
    if wrap == "search":
        pipeline = GridSearchCV(pipeline, {"logisticregression__C": [1.0]}, cv=2)
    pipeline.fit(X, NAMES)
    steps = getattr(pipeline, "best_estimator_", pipeline)
    expected = score(steps[:-1].transform(X), steps[-1].coef_, np.repeat([0, 1, 2], 20), bias=steps[-1].intercept_)
    assert score(X, pipeline, NAMES).select(["avh", "loss"]).equals(expected.select(["avh", "loss"]))


def test_frames_and_csv_use_the_columns_it_was_fitted_to(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abcd")).assign(serial=np.arange(60), kind=NAMES)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame[list("dabc")], frame["kind"])
    expected = pytest.approx(confidences(model, frame[list("dabc")], NAMES))
    assert score(frame, model, "kind", scores="confidence").column("confidence").to_pylist() == expected
    frame.to_csv(tmp_path / "frame.csv", index=False)
    assert score(tmp_path / "frame.csv", model, "kind", scores="confidence").column("confidence").to_pylist() == expected


def test_a_loader_with_names_follows_the_model() -> None:
    """Batch by batch, none of which has all names."""
    model = RidgeClassifier().fit(X, NAMES)
    snapshot = extract(model, [(X[rows], NAMES[rows]) for rows in (slice(0, 30), slice(30, 60))])
    assert snapshot.columns(["label"]).column(0).to_pylist() == np.repeat([0, 1, 2], 20).tolist()
    with pytest.raises(InputError, match="such as 'elk'"):
        extract(model, [(X, np.repeat("elk", 60))])


def test_bad_classifiers() -> None:
    model = LogisticRegression().fit(X, NAMES)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, NAMES)
    numbers = LogisticRegression().fit(X, np.repeat([3, 7, 9], 20))
    cases: list[tuple[Any, Any, Any, str]] = [
        (X, KNeighborsClassifier().fit(X, NAMES), NAMES, r"is not a linear classifier.*scored: probs=model.predict_proba\(X\)"),
        (X[:, :3], model, NAMES, "features and weight must have the same number of columns"),
        (X, model, np.repeat("elk", 60), "1 of 1 names among the labels are none of the classes, such as 'elk'"),
        (X, numbers, np.repeat([3, 7, 5], 20), "none of the classes, such as '5'; the classes are 3, 7, 9"),
        (model, X, NAMES, r"the samples come first, and the model after them: score\(X, model, y\)"),
        (X, NAMES, None, r"the second argument is the head, .* labels go by name: score\(X, labels=y\)"),
        (X[:, :3], pipeline, NAMES, "StandardScaler does not take these features: X has 3 features"),
    ]
    for features, head, labels, message in cases:
        with pytest.raises(InputError, match=message):
            score(features, head, labels)
    with pytest.raises(InputError, match="LogisticRegression from scikit-learn works as a head only in hardsight.score"):
        avh(X, model, NAMES)
    for arguments, message in (
        ({"features": X, "class_names": ["a", "b", "c"]}, "a classifier has its own class names"),
        ({"probs": np.full((60, 3), 1 / 3)}, "probs are already its output"),
    ):
        with pytest.raises(InputError, match=message):
            score(head=model, labels=NAMES, **arguments)  # type: ignore[arg-type]
