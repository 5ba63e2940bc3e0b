"""Twins of score and adapt for scikit-learn, torchmetrics and skada."""

from __future__ import annotations

import warnings
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

import hardsight
from adapt_runs import by_sample_domain
from hardsight.sklearn import CleanClassifier, HardnessScorer, SelfTrainingClassifier

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
FEATURES = np.eye(3)[LABELS] * 3 + RNG.normal(size=(60, 3))


@pytest.mark.parametrize("estimator", [HardnessScorer(), CleanClassifier()], ids=lambda estimator: type(estimator).__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")  # tiny samples, and clean says so
def test_scikit_learns_own_checks(estimator: BaseEstimator) -> None:
    passed = 0
    for checked, check in estimator_checks_generator(estimator):
        try:
            check(checked)
            passed += 1
        except SkipTest:  # checks of array libraries that are not switched on
            continue
        except BaseException as error:
            error.add_note(f"in {check}")
            raise
    assert passed > 35


def test_scores_are_those_of_hardsight_score_and_high_is_hard() -> None:
    scorer = HardnessScorer().fit(FEATURES, LABELS)
    expected = hardsight.score(FEATURES, scorer.head_, LABELS, scores=["avh", "logit_margin"]).to_pydict()
    assert scorer.score_samples(FEATURES, LABELS).tolist() == expected["avh"]
    margins = HardnessScorer(by="logit_margin").fit(FEATURES, LABELS).score_samples(FEATURES, LABELS)
    assert margins == pytest.approx([-value for value in expected["logit_margin"]])  # low is hard
    predicted = np.asarray(scorer.head_.logits(FEATURES)).argmax(1)
    assert scorer.score_samples(FEATURES).tolist() == scorer.score_samples(FEATURES, predicted).tolist()


def test_labels_may_be_names_and_must_be_known() -> None:
    names = np.array(["ant", "bee", "cat"])[LABELS]
    scorer = HardnessScorer().fit(FEATURES, names)
    assert scorer.classes_.tolist() == ["ant", "bee", "cat"]
    assert (
        scorer.score_samples(FEATURES, names).tolist()
        == HardnessScorer().fit(FEATURES, LABELS).score_samples(FEATURES, LABELS).tolist()
    )
    with pytest.raises(ValueError, match="y holds 'dog', which was not among the labels in fit"):
        scorer.score_samples(FEATURES[:1], ["dog"])
    with pytest.raises(ValueError, match="by must be a row score, got 'ahv'. Did you mean avh?"):
        HardnessScorer(by="ahv").fit(FEATURES, LABELS)
    with pytest.raises(ValueError, match="one class only"):
        HardnessScorer().fit(FEATURES, np.zeros(60))


def test_in_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), HardnessScorer()).fit(FEATURES, LABELS)
    assert pipeline.score_samples(FEATURES).shape == (60,)
    assert clone(pipeline).get_params()["hardnessscorer__by"] == "avh"


# ---- self-training with sample_domain ----


@pytest.mark.slow
def test_in_a_pipeline_of_skada() -> None:
    skada = pytest.importorskip("skada", reason="make nightly installs skada")
    X, y, domain = by_sample_domain()
    ours = skada.make_da_pipeline(StandardScaler(), SelfTrainingClassifier(rounds=2, hidden=16))
    theirs = skada.make_da_pipeline(StandardScaler(), skada.CORALAdapter(), LogisticRegression())
    masked = np.where(domain < 0, -1, y)
    accuracies = [
        (pipeline.fit(X, masked, sample_domain=domain).predict(X[domain < 0]) == y[domain < 0]).mean()
        for pipeline in (ours, theirs)
    ]
    assert accuracies[0] > 0.9 and accuracies[0] > accuracies[1] - 0.1
    target = domain < 0
    assert ours.score(X[target], y[target], sample_domain=domain[target]) == accuracies[0]
    folds = skada.model_selection.SourceTargetShuffleSplit(n_splits=2, random_state=0)
    entropy = skada.metrics.PredictionEntropyScorer()
    for pipeline in (ours, theirs):  # skada's own choice among methods, which sees no label of the target
        found = cross_validate(pipeline, X, masked, cv=folds, params={"sample_domain": domain}, scoring=entropy)
        assert len(found["test_score"]) == 2 and np.isfinite(found["test_score"]).all()


def test_a_clean_classifier_learns_from_the_labels_that_are_not_flagged() -> None:
    rng = np.random.default_rng(1)
    truth = np.arange(600) % 3
    X = np.eye(3)[truth] * 4 + rng.normal(size=(600, 3))
    wrong = rng.choice(600, 60, replace=False)
    y = truth.copy()
    y[wrong] = (truth[wrong] + 1) % 3
    names = np.array(["ant", "bee", "cat"])
    with warnings.catch_warnings(action="error"):  # a tenth is left out
        model = CleanClassifier(RandomForestClassifier(50, random_state=0)).fit(X, names[y])
    dropped = np.flatnonzero(~model.kept_)
    assert np.isin(dropped, wrong).mean() > 0.9 and np.isin(wrong, dropped).mean() > 0.8
    assert model.suspects_ is not None and np.array_equal(dropped, np.flatnonzero(model.suspects_["is_label_issue"]))
    noisy = RandomForestClassifier(50, random_state=0).fit(X, names[y])
    assert model.score(X, names[truth]) > noisy.score(X, names[truth]) + 0.05
    assert model.predict_proba(X[:2]).shape == (2, 3) and not hasattr(model, "decision_function")


def test_a_weak_classifier_says_how_many_samples_it_leaves_out() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 60)
    X = np.eye(3)[labels] * 1.2 + rng.normal(size=(180, 3))
    with pytest.warns(UserWarning, match=r"of 180 samples are left out; out of fold, the classifier is right on \d+% of"):
        kept = CleanClassifier(DecisionTreeClassifier(random_state=0)).fit(X, labels).kept_
    assert kept.mean() < 0.75


def test_a_class_of_one_sample_is_kept_and_nothing_is_judged() -> None:
    model = CleanClassifier().fit([[0.0], [1.0], [1.1]], [0, 1, 1])
    assert model.suspects_ is None and model.kept_.all()
