"""Fitted scikit-learn classifiers: the head read from coef_, the features from the steps before it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from hardsight.errors import HardsightError, InputError
from hardsight.models import open_model

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
IMAGES = DIGITS.reshape(-1, 1, 8, 8).astype(np.float32)

ESTIMATORS: dict[str, Any] = {
    "logistic regression": LogisticRegression(max_iter=30),
    "linear svm": LinearSVC(max_iter=30),
    "ridge": RidgeClassifier(),
    "sgd": SGDClassifier(max_iter=5, random_state=0),
    "lda": LinearDiscriminantAnalysis(),
    "pipeline": make_pipeline(StandardScaler(), PCA(20), LogisticRegression(max_iter=30)),
    "pipeline of one": make_pipeline(RidgeClassifier()),
}


def fitted(estimator: Any, classes: int = 10) -> Any:
    keep = LABELS < classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations do
        return estimator.fit(DIGITS[keep], LABELS[keep])


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_head_decides_as_the_estimator(kind: str, classes: int) -> None:
    estimator = fitted(ESTIMATORS[kind], classes)
    model = open_model(estimator)
    features, logits = model(IMAGES[:100])
    assert features.dtype == logits.dtype == np.float32
    assert model.head.weight.shape == (classes, features.shape[1])
    np.testing.assert_allclose(model.head.logits(features), logits, rtol=1e-3, atol=1e-3 * np.abs(logits).max())
    np.testing.assert_array_equal(logits.argmax(1), estimator.predict(DIGITS[:100]))
    assert model.class_names == tuple(str(k) for k in range(classes))
    assert model.preprocessing.size == (8, 8) and model.preprocessing.channels == "L"


def test_two_classes_keep_their_probability() -> None:
    estimator = fitted(LogisticRegression(), 2)
    logits = open_model(estimator)(IMAGES[:50])[1].astype(np.float64)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(probs, estimator.predict_proba(DIGITS[:50]), atol=1e-5)


def test_features_are_what_the_earlier_steps_made() -> None:
    pipeline = fitted(ESTIMATORS["pipeline"])
    features, _ = open_model(pipeline)(IMAGES[:20])
    np.testing.assert_array_equal(open_model(pipeline)(DIGITS[:20].astype(np.float32))[0], features)  # rows as they are
    np.testing.assert_allclose(features, pipeline[:-1].transform(DIGITS[:20]), rtol=1e-3, atol=1e-4)


def test_color_images_are_flattened_as_numpy_would() -> None:
    pictures = np.random.default_rng(0).random((30, 4, 4, 3)).astype(np.float32)  # (n, H, W, C)
    labels = np.arange(30) % 3
    model = open_model(RidgeClassifier().fit(pictures.reshape(30, -1), labels))
    assert (model.preprocessing.size, model.preprocessing.channels) == ((4, 4), "RGB")
    np.testing.assert_array_equal(model(pictures.transpose(0, 3, 1, 2))[0], pictures.reshape(30, -1))


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "curved": (SVC(kernel="rbf"), {}, "coef_|not linear"),
    "one against one": (SVC(kernel="linear"), {}, "45 rows for 10 classes"),
    "forest": (RandomForestClassifier(2), {}, "not a linear classifier"),
    "last step": (make_pipeline(StandardScaler(), KNeighborsClassifier()), {}, "not a linear classifier"),
    "head": (RidgeClassifier(), {"head": "fc"}, "head does not apply"),
    "weights": (RidgeClassifier(), {"weights": "w.pt"}, "weights does not apply"),
    "precision": (RidgeClassifier(), {"precision": "float16"}, "precision does not apply"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    estimator, options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        open_model(fitted(estimator), **options).check(IMAGES[:20])
    with pytest.raises(InputError, match="is not fitted"):
        open_model(LogisticRegression())
    with pytest.raises(InputError, match=r"rows of 64 values, got images of shape \(1, 4, 4\)"):
        open_model(fitted(RidgeClassifier())).check(IMAGES[:5, :, :4, :4])


def test_fingerprints_see_every_step() -> None:
    one = make_pipeline(PCA(5, random_state=0), RidgeClassifier())
    two = make_pipeline(PCA(6, random_state=0), RidgeClassifier())
    assert open_model(fitted(one)).fingerprint() == open_model(fitted(one)).fingerprint()
    assert open_model(fitted(one)).fingerprint() != open_model(fitted(two)).fingerprint()


def shout(x: np.ndarray) -> np.ndarray:
    return 2 * x


def test_skops_files(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    pipeline = fitted(ESTIMATORS["pipeline"])
    skops.dump(pipeline, tmp_path / "digits.skops")
    model = open_model(tmp_path / "digits.skops")
    for ours, theirs in zip(model(IMAGES[:20]), open_model(pipeline)(IMAGES[:20]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert model.fingerprint()["kind"] == "scikit-learn" and model.name == "digits.skops"
    skops.dump(fitted(make_pipeline(FunctionTransformer(shout), RidgeClassifier())), tmp_path / "foreign.skops")
    (tmp_path / "broken.skops").write_bytes(b"PK\x03\x04")
    for name, message in {
        "foreign": "not known to be safe: .*shout.* Nothing was loaded",
        "broken": "cannot be read as a skops file",
        "absent": "there is no file",
    }.items():
        with pytest.raises(HardsightError, match=message):
            open_model(tmp_path / f"{name}.skops")
