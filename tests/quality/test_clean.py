"""`clean`: wrong labels, and what else to look at, by hand, by laws, against cleanlab, and from the command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

import hardsight
from hardsight import Dynamics, Snapshot
from hardsight.errors import FileError, InputError
from hardsight.explorer.review import Review
from hardsight.files.heads import save_head
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.files.suspects import SUSPECTS, read_suspects
from hardsight.head import Head
from hardsight.quality.error_model import (
    SHIFT,
    SLOPE,
    ErrorModel,
    _Fit,
    count_errors,
    fit_error_model,
    seen_in_training,
)
from hardsight.quality.evidence import Evidence, mixed, right_since, votes_by_probs
from hardsight.quality.flagged_labels import flagged
from hardsight.quality.neighbors import Nearby, Neighborhood, far_out
from hardsight.quality.ranking import by_epochs, confidence, confident_counts, margin, noise_factors, posterior
from hardsight.quality.review import apply_review
from hardsight.quality.verdicts import PRECEDENCE, Facts, explained_verdicts, facts_of, verdict_codes
from hardsight.scores.duplicates import Repeats
from hardsight.scoring.fitted_head import fold_rows
from hardsight.stats import pass_scores
from refusals import refused

Cli = Callable[..., Any]


def blobs(n: int = 400, c: int = 4, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of c classes around c axes, and the true labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % c
    return (3 * np.eye(d)[labels] + rng.normal(size=(n, d))).astype(np.float32), labels


def flipped(labels: np.ndarray, rate: float, *, pair: bool = False, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which a share is wrong, and which."""
    rng, c = np.random.default_rng(seed), int(labels.max()) + 1
    wrong = np.zeros(len(labels), dtype=bool)
    wrong[rng.choice(len(labels), round(rate * len(labels)), replace=False)] = True
    step = 1 if pair else rng.integers(1, c, len(labels))
    return np.where(wrong, (labels + step) % c, labels), wrong


def column(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table.column(name).to_numpy(zero_copy_only=False))


def notes(table: pa.Table) -> dict[str, Any]:
    return dict(json.loads(table.schema.metadata[b"hardsight"]))


def average_precision(wrong: np.ndarray, score: np.ndarray) -> float:
    found = wrong[np.argsort(-score, kind="stable")]
    return float((np.cumsum(found) / np.arange(1, len(found) + 1))[found].mean())


# ---- formulas ----


def test_rankings_by_hand() -> None:
    probs = np.array([[0.5, 0.3, 0.2]])
    even = np.ones((3, 3))
    np.testing.assert_allclose(
        np.exp(posterior(probs, even)),
        [[(0.3**4 + 0.2**4) ** 0.25 / 0.5, (0.5**4 + 0.2**4) ** 0.25 / 0.3, (0.5**4 + 0.3**4) ** 0.25 / 0.2]],
    )
    np.testing.assert_allclose(np.exp(confidence(probs, even)), [[2, 10 / 3, 5]])
    np.testing.assert_allclose(margin(probs, even), [[-0.2, 0.2, 0.3]])
    pairs = even.copy()
    pairs[0, 1] = 4.0  # class 0 is labeled 1 four times as often
    assert np.exp(posterior(probs, pairs))[0, 1] == pytest.approx((2**4 + 0.2**4) ** 0.25 / 0.3)


def test_even_noise_has_factors_of_one_and_pairs_do_not() -> None:
    even = np.full((4, 4), 5) + 85 * np.eye(4, dtype=int)
    np.testing.assert_array_equal(noise_factors(even), np.ones((4, 4)))
    pairs = 90 * np.eye(4, dtype=int) + 10 * np.roll(np.eye(4, dtype=int), 1, axis=1)
    factors = noise_factors(pairs)
    assert factors[0, 1] > 2 and factors[0, 2] < 0.5 and factors[1, 0] < 0.5
    np.testing.assert_array_equal(np.diag(factors), 1)
    both_ways = 90 * np.eye(4, dtype=int) + 10 * np.roll(
        np.eye(4, dtype=int), 2, axis=1
    )  # 0 and 2, 1 and 3: confusions of the model
    np.testing.assert_array_equal(noise_factors(both_ways), np.ones((4, 4)))


def test_confident_counts_are_those_of_cleanlab() -> None:
    count = pytest.importorskip("cleanlab.count")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 300)
    probs = rng.dirichlet(np.ones(4), 300) + 2 * np.eye(4)[(labels + (rng.random(300) < 0.2)) % 4]
    probs /= probs.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(
        confident_counts(probs, labels).T, count.compute_confident_joint(labels, probs, calibrate=False)
    )


def test_of_two_classes_the_ranking_is_that_of_self_confidence() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(2), 50)  # two classes have no structure
    labels = np.arange(50) % 2
    table = hardsight.clean(probs=probs, labels=labels)
    own = probs[np.arange(50), labels]
    np.testing.assert_array_equal(np.argsort(-column(table, "error_score")), np.argsort(own))
    np.testing.assert_allclose(column(table, "error_score"), np.log((1 - own) / own))


def mixture(n: int, c: int, sure: float, rate: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, c) calibrated probabilities of different sureness, (n,) labels of which a share is wrong evenly, and which are."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, sure, (n, c))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    right = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    labels, wrong = flipped(right, rate, seed=seed)
    return probs, labels, wrong


@pytest.mark.parametrize("sure, rate", [(6, 0), (6, 0.02), (6, 0.2), (3, 0), (3, 0.08), (3, 0.2)])
def test_the_model_of_errors_finds_the_rate_that_was_put_in(sure: float, rate: float) -> None:
    """Data drawn as the model says: the rate, weights of 1, and the sum of the probabilities are found again."""
    probs, labels, wrong = mixture(4000, 6, sure, rate)
    model = fit_error_model([probs], labels)
    assert model.rate == pytest.approx(rate, abs=0.015 if sure == 6 else 0.03) and model.weights == pytest.approx([1], abs=0.2)
    count = count_errors(model, model.wrong([probs], labels))
    assert count.low <= wrong.sum() <= count.high and count.certainty == "estimated"


def test_the_gradient_of_the_likelihood() -> None:
    probs, labels, _ = mixture(200, 4, 3, 0.1)
    other = mixture(200, 4, 1, 0, seed=1)[0]
    fit = _Fit([np.log(probs), np.log(other)], labels, np.full(4, 0.25), np.arange(16.0).reshape(4, 4))
    at, (_, gradient) = np.array([1.3, 0.4, -2.0]), fit.surprise(np.array([1.3, 0.4, -2.0]))
    for i in range(3):
        step = 1e-5 * np.eye(3)[i]
        assert gradient[i] == pytest.approx((fit.surprise(at + step)[0] - fit.surprise(at - step)[0]) / 2e-5, rel=1e-5)


def test_probabilities_of_an_error_are_those_of_the_formula() -> None:
    """Two classes, rate 1/10, no doubt to speak of: q = (0.8, 0.2), labeled 1: 0.1 * 0.8 against 0.9 * 0.2."""
    model = ErrorModel(np.ones(1), 0.1, 0.01, np.full(2, 0.5), None, SHIFT / SLOPE)  # where nothing is added to the log-odds
    assert model.wrong([np.array([[0.8, 0.2]])], np.array([1])) == pytest.approx([0.08 / (0.08 + 0.18)])
    assert model.beliefs([np.array([[0.8, 0.2]])]) == pytest.approx(np.array([[0.8, 0.2]]))


def test_pairs_of_classes_that_are_mixed_up_are_found() -> None:
    probs, right = mixture(4000, 6, 6, 0)[0], mixture(4000, 6, 6, 0)[1]
    labels, wrong = flipped(right, 0.2, pair=True)
    model = fit_error_model([probs], labels)
    assert model.rate == pytest.approx(0.2, abs=0.02) and model.drawn is not None
    assert model.drawn[np.arange(6), (np.arange(6) + 1) % 6].min() > 0.9 and np.allclose(model.drawn.sum(axis=1), 1)


def test_a_model_that_is_never_sure_cannot_tell() -> None:
    probs, labels, _ = mixture(2000, 10, 0.9, 0)
    count = count_errors(model := fit_error_model([probs], labels), wrong := model.wrong([probs], labels))
    assert model.doubt > 0.6 and count.certainty == "cannot tell" and count.low == 0
    assert flagged(wrong, count).mean() <= 0.02


def test_no_error_seen_is_not_none_at_all() -> None:
    """The rule of three; of two samples, no more than two can be wrong."""
    probs = np.where(np.arange(2) == np.arange(500)[:, None] % 2, 0.999, 0.001)
    labels = np.arange(500) % 2
    model = fit_error_model([probs], labels)
    assert count_errors(model, model.wrong([probs], labels)).high >= 3
    assert count_errors(model, np.zeros(2)).high == 2 and count_errors(model, np.zeros(0)).high == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_that_knows_nothing_of_the_labels_cannot_tell() -> None:
    """Predictions of other classes, by chance or all off by one: nothing is flagged but the few that are always allowed."""
    right = np.arange(900) % 9
    chance = np.random.default_rng(0).dirichlet(np.full(9, 0.3), 900)
    for probs in (chance, 0.9 * np.eye(9)[(right + 1) % 9] + 0.1 / 9):
        table = hardsight.clean(probs=probs, labels=right, neighbors=False)
        assert notes(table)["certainty"] == "cannot tell" and notes(table)["precision"] is None
        assert column(table, "is_label_issue").mean() <= 0.021


def test_where_all_samples_are_sure_the_interval_is_short() -> None:
    """No weight makes a difference there, and none of them is a source of error."""
    labels = np.arange(1000) % 40
    probs = 0.999 * np.eye(40)[labels] + 0.001 / 40
    count = count_errors(model := fit_error_model([probs], labels), model.wrong([probs], labels))
    assert count.low == 0 and count.high < 10


def test_a_few_certain_errors_among_few_samples_are_flagged() -> None:
    right = np.arange(60) % 3
    probs, labels = 0.99 * np.eye(3)[right] + 0.01 / 3, right.copy()
    labels[:2] = (labels[:2] + 1) % 3
    assert np.flatnonzero(column(hardsight.clean(probs=probs, labels=labels), "is_label_issue")).tolist() == [0, 1]


def test_features_of_the_split_train_are_judged_by_heads_unless_a_head_has_seen_them() -> None:
    features, right = blobs(n=400)
    labels, _ = flipped(right, 0.1)
    plain = hardsight.clean(features=features, labels=labels)
    split = hardsight.clean(Snapshot(features, labels=labels, columns={"split": ["train"] * 400}))
    np.testing.assert_array_equal(column(split, "label_quality"), column(plain, "label_quality"))
    assert "may know" not in notes(split)["rests_on"]


def test_a_class_that_is_predicted_but_no_label_makes_labels_wrong() -> None:
    right = np.arange(400) % 5
    probs = 0.99 * np.eye(5)[right] + 0.01 / 5
    table = hardsight.clean(probs=probs, labels=np.where(right == 4, 2, right))
    assert column(table, "is_label_issue")[right == 4].all() and not column(table, "is_label_issue")[right != 4].any()


def test_what_losing_in_training_says_is_read_off_the_samples() -> None:
    """The likely errors lost, and no other: they are surer errors, the others less. Where all lost alike, nothing changes."""
    wrong = np.array([0.6] * 10 + [0.1] * 90)
    lost = np.array([0.0] * 10 + [1.0] * 90)
    after = seen_in_training(wrong, lost)
    assert after[0] > 0.9 and after[-1] < 0.07
    assert seen_in_training(wrong, np.zeros(100)) == pytest.approx(wrong)


def test_errors_that_a_model_knows_are_counted_by_their_neighbors() -> None:
    """A model that has learned the labels raises the logit of each: wrong ones surprise it less than made-up ones."""
    rng = np.random.default_rng(0)
    right = rng.integers(0, 10, 1500)
    labels = np.where(rng.random(1500) < 0.2, (right + rng.integers(1, 10, 1500)) % 10, right)
    wrong = labels != right
    logits = 8 * np.eye(10)[right] + 1.5 * rng.normal(size=(1500, 10))
    learned = logits + rng.uniform(0, 4, (1500, 1)) * np.eye(10)[labels]
    for name, values in (("unseen", logits), ("learned", learned)):
        probs = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
        heads, neighbors = (fit_error_model([p], labels) for p in (probs, votes_by_probs(probs, labels)))
        assert heads.learned_by_heart(neighbors) == (name == "learned")
        assert notes(hardsight.clean(probs=probs, labels=labels))["expected_errors"] == pytest.approx(wrong.sum(), rel=0.2)
    assert heads.rate < 0.5 * wrong.mean()


# ---- what it finds ----


@pytest.mark.parametrize(("rate", "pair"), [(0.1, False), (0.3, False), (0.1, True)])
def test_injected_errors_are_found_and_counted(rate: float, pair: bool) -> None:
    features, right = blobs(n=1000)
    labels, wrong = flipped(right, rate, pair=pair)
    table = hardsight.clean(features=features, labels=labels, neighbors=False)
    assert average_precision(wrong, column(table, "error_score")) > 0.9
    assert notes(table)["expected_errors"] == pytest.approx(wrong.sum(), rel=0.2)
    issue = column(table, "is_label_issue")
    assert (column(table, "suggested_label") == right)[issue & wrong].mean() > 0.9
    assert notes(table)["evidence"] == "out-of-sample"


def test_the_structure_of_pair_flips_is_used() -> None:
    features, right = blobs(n=1000)
    labels, wrong = flipped(right, 0.1, pair=True)
    probs = hardsight.quality.out_of_sample(features, labels)
    found = {by: column(hardsight.clean(probs=probs, labels=labels, by=by), "error_score") for by in ("posterior", "confidence")}
    assert average_precision(wrong, found["posterior"]) > average_precision(wrong, found["confidence"])


def test_no_errors_are_expected_where_every_label_is_surely_right() -> None:
    labels = np.arange(60) % 3
    probs = np.full((60, 3), 0.01) + 0.97 * np.eye(3)[labels]
    table = hardsight.clean(probs=probs, labels=labels)
    assert notes(table)["expected_errors"] < 1 and not column(table, "is_label_issue").any()
    assert table.column("verdict").null_count == 60


def test_classes_that_no_sample_is_labeled_as_change_nothing() -> None:
    """Gaps between class indices, and a head that knows more classes than the data has: a wrong label is one of those in use."""
    features, right = blobs(n=200)
    labels, _ = flipped(right, 0.2)
    probs = hardsight.quality.out_of_sample(features, labels)
    table = hardsight.clean(probs=probs, labels=labels)
    gaps = np.zeros((200, 40))
    gaps[:, :40:10] = probs
    more = np.concatenate([0.9 * probs, 0.1 * np.random.default_rng(0).dirichlet(np.ones(30), 200)], axis=1)
    for other in (hardsight.clean(probs=gaps, labels=10 * labels), hardsight.clean(probs=more, labels=labels)):
        assert notes(other)["expected_errors"] == pytest.approx(notes(table)["expected_errors"], rel=0.05)
    np.testing.assert_array_equal(
        column(hardsight.clean(probs=gaps, labels=10 * labels), "suggested_label"), 10 * column(table, "suggested_label")
    )


def test_rows_and_classes_may_come_in_any_order() -> None:
    features, right = blobs(n=200)
    labels, _ = flipped(right, 0.2)
    probs = hardsight.quality.out_of_sample(features, labels)
    order = np.random.default_rng(2).permutation(200)
    ids = np.array([f"s{row:03d}" for row in range(200)])
    for given in ({"features": features}, {"features": features, "probs": probs}):
        table = hardsight.clean(**given, labels=labels, ids=ids)  # type: ignore[arg-type]
        moved: Any = {name: values[order] for name, values in (given | {"labels": labels, "ids": ids}).items()}
        for name in ("error_score", "suggested_label", "is_label_issue"):
            np.testing.assert_array_equal(column(hardsight.clean(**moved), name), column(table, name)[order])
    classes = np.array([2, 0, 3, 1])
    renamed = hardsight.clean(probs=probs[:, np.argsort(classes)], labels=classes[labels])
    np.testing.assert_allclose(column(renamed, "error_score"), column(table, "error_score"), rtol=1e-12)
    np.testing.assert_array_equal(column(renamed, "predicted_label"), classes[column(table, "predicted_label")])


def test_out_of_sample_predictions_do_not_know_the_label() -> None:
    """A sample whose label is turned around is predicted the same: what predicts it has not seen it."""
    features, labels = blobs(n=80)
    probs = hardsight.quality.out_of_sample(features, labels, folds=4, seed=3)
    assert probs.shape == (80, 4) and (probs.argmax(axis=1) == labels).mean() > 0.8
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    unlabeled = labels.copy()
    unlabeled[:8] = -1
    assert np.isfinite(hardsight.quality.out_of_sample(features, unlabeled)).all()
    with pytest.raises(InputError, match="class 3 has one"):
        hardsight.quality.out_of_sample(features, np.where(np.arange(80) == 3, 3, labels % 3))


def test_networks_by_folds_have_not_seen_copies_of_what_they_predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    features, labels = (np.concatenate([part, part[:8]]) for part in blobs(n=24, c=2, d=3))  # rows 24 to 31 are copies
    seen: list[set[str]] = []

    def train(train: Any, test: Any, *_: Any) -> dict[str, np.ndarray]:
        seen.append(set(train.ids))
        return {id: np.full(2, 0.5) for id in test.ids}

    monkeypatch.setattr("hardsight.quality.folds._train", train)
    hardsight.quality.out_of_sample(features.reshape(32, 1, 3), labels, model="point_mlp:PointMLP", output=tmp_path, folds=4)
    assert all((str(row) in ids) == (str(row + 24) in ids) for ids in seen for row in range(8)) and len(seen) == 4


def test_whole_networks_by_folds(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    features, labels = blobs(n=24, c=2, d=3)
    options: dict[str, Any] = {
        "model": "point_mlp:PointMLP",
        "output": tmp_path / "out",
        "folds": 2,
        "epochs": 1,
        "device": "cpu",
    }
    done: list[tuple[int, int]] = []
    probs = hardsight.quality.out_of_sample(features, labels, progress=lambda *at: done.append(at), **options)
    assert probs.shape == (24, 2) and np.isfinite(probs).all() and done == [(1, 2), (2, 2)]
    stamp = (tmp_path / "out" / "fold-0" / "run.json").stat().st_mtime_ns
    np.testing.assert_array_equal(hardsight.quality.out_of_sample(features, labels, **options), probs)
    assert (tmp_path / "out" / "fold-0" / "run.json").stat().st_mtime_ns == stamp  # not trained again
    assert len(hardsight.clean(tmp_path / "out" / "out-of-sample.npz")) == 24
    with pytest.raises(InputError, match="give model= and output="):
        hardsight.quality.out_of_sample(features, labels, epochs=3)
    with pytest.raises(InputError, match="there is no option 'bogus'"):
        hardsight.quality.out_of_sample(features, labels, bogus=1, **options)


# ---- verdicts ----

FACTS = Facts(
    known=np.ones(6, dtype=bool),
    issue=np.array([True, False, False, False, False, False]),
    own=np.array([0.01, 0.98, 0.95, 0.45, 0.4, 0.9]),
    rival=np.array([8, 0, 0, 1, 2, 3]),
    rival_probability=np.array([0.97, 0.01, 0.01, 0.4, 0.1, 0.05]),
    right=None,
)
NEAR = Neighborhood(
    Nearby(np.zeros((6, 1), dtype=int), np.array([1.0, 1.0, 9.0, 1.1, 1.2, np.nan])),
    Repeats(np.array([1, 0, -1, -1, -1, -1]), np.full(6, 0.01), np.full(6, -1)),
)


def test_every_verdict_once_the_first_that_applies() -> None:
    words = [*PRECEDENCE, None]
    assert [words[code] for code in verdict_codes(FACTS, NEAR)] == [
        "likely mislabeled", "near duplicate", "outlier", "ambiguous", "hard but right", None,
    ]  # fmt: skip
    assert [words[code] for code in verdict_codes(FACTS, None)][1:3] == [None, None]


def test_back_and_forth_over_the_epochs_is_ambiguous() -> None:
    right, since = np.array([0.5, 1.0, 0.9, 0.75, 0.25, 0.1]), np.array([0.5, 1.0, 0.9, 0.75, 0.25, 0.5])
    facts = replace(FACTS, issue=np.zeros(6, dtype=bool), right=right, since=since)
    words = [*PRECEDENCE, None]
    assert [words[code] for code in verdict_codes(facts, None)] == [
        "ambiguous", None, None, "hard but right", "hard but right", "hard but right",
    ]  # fmt: skip


def test_a_sample_that_was_learned_late_is_not_ambiguous() -> None:
    """Wrong at first and right from then on, as most samples of a short training are."""
    right, first = np.full(2, 2 / 3), np.array([6.0, 5.0])  # wrong, right, right; and right, wrong, right
    epochs = {"cartography_confidence": np.full(2, 0.6), "cartography_correctness": right}
    epochs["right_since_learned"] = right_since(right, first, np.array([5, 6, 7]))
    half = np.full((2, 2), 0.5)
    evidence = Evidence("epochs", "epochs", np.arange(2), np.array([0, 1]), half, half, None, True, epochs)
    facts = facts_of(evidence, np.zeros(2, dtype=bool))
    np.testing.assert_array_equal(facts.ambiguous, [False, True])


def test_explanations_are_sentences_with_the_numbers() -> None:
    labels = np.arange(60) % 10
    probs = 0.99 * np.eye(10)[labels] + 0.001
    labels[8] = 3  # it is an 8
    probs[1, [1, 7]], probs[12, [2, 5]] = (0.48, 0.512), (0.64, 0.352)
    said = hardsight.clean(probs=probs, labels=labels).column("explanation").to_pylist()
    assert said[8] == "labeled 3, but the model gives 8 with probability 0.99 (own class 0.00)"
    assert said[1] == "labeled 1 (0.48), and 7 is likely, too (0.51)" and said[0] is None
    assert said[12] == "labeled 2 (0.64), and 5 is likely, too (0.35)"


def test_a_label_that_the_model_rules_out_is_not_called_probably_right() -> None:
    known, own, other = np.ones(2, dtype=bool), np.array([0.3, 0.0]), np.array([0.7, 1.0])
    facts = Facts(known, ~known, own, np.array([1, 1]), other, None)
    half = np.full((2, 2), 0.5)
    evidence = Evidence("probs", "posterior", np.arange(2), np.zeros(2, int), half, half)
    samples = hardsight.Snapshot.open(probs=half, labels=[0, 0], class_names=["horse", "dog"])
    likely, unlikely = explained_verdicts(samples, evidence, facts, None).explanations
    assert likely == "labeled horse, though the model gives it only 0.30 (dog: 0.70): probably right"
    assert unlikely == "labeled horse, though the model gives it only 0.00 (dog: 1.00): look at it"


def test_duplicates_and_outliers_of_features() -> None:
    features, labels = blobs(n=120)
    features += 5 * np.eye(8, dtype=np.float32)[labels]  # narrow enough for one to be far out
    features = np.concatenate([features, features[:1] * 2 + 1e-6, -5 * np.ones((1, 8), np.float32), features[1:2] * 4])
    labels = np.append(labels, [(labels[0] + 1) % 4, 0, labels[1]])
    splits = ["train"] * 120 + ["test", "test", "test"]
    snapshot = Snapshot(features, labels=labels, columns={"split": splits}, ids=[f"s{row}" for row in range(123)])
    rows = hardsight.clean(snapshot).to_pylist()
    assert rows[0]["verdict"] is None and rows[1]["verdict"] is None  # the first of them is kept
    assert rows[120]["verdict"] == "likely mislabeled"  # its label is wrong as well
    assert "; it is also nearly the same as s0 (distance " in rows[120]["explanation"]
    assert rows[120]["explanation"].endswith("), which is labeled 0 (this one 1) and in split train, not test")
    assert rows[121]["verdict"] == "outlier" and rows[121]["explanation"].startswith("far from all others: 1.")
    assert rows[122]["verdict"] == "near duplicate"
    assert rows[122]["explanation"] == "nearly the same as s1 (distance 0), which is in split train, not test"
    assert far_out(np.array([1.0, 2.0, 3.0, 4.0, np.nan])) == pytest.approx(3.25 + 3 * 1.5)


def test_what_is_far_out_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once for each likely mistake, which takes the square of the number of samples."""
    asked: list[int] = []
    monkeypatch.setattr("hardsight.quality.neighbors.far_out", lambda distance: asked.append(len(distance)) or far_out(distance))
    features, right = blobs(n=200)
    table = hardsight.clean(features=features, labels=flipped(right, 0.1)[0])
    assert column(table, "is_label_issue").sum() > 5 and asked == [200]


def noisy_digits(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels, labels of which a tenth is wrong, and which."""
    from sklearn.datasets import load_digits

    features, right = load_digits(return_X_y=True)
    return features[:n].astype(np.float32), *flipped(right[:n], 0.1)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_copies_do_not_vouch_for_each_other(noise: float) -> None:
    """Every row twice: the copy has the same wrong label, and is neither asked nor learned from."""
    features, labels, wrong = noisy_digits()
    copies = features + noise * np.random.default_rng(0).normal(size=features.shape).astype(np.float32)
    table = hardsight.clean(features=np.concatenate([features, copies]), labels=np.tile(labels, 2))
    assert notes(table)["expected_errors"] == pytest.approx(2 * wrong.sum(), rel=0.2)
    assert average_precision(np.tile(wrong, 2), column(table, "error_score")) > 0.98


def test_folds_keep_copies_together_but_no_class_apart() -> None:
    labels = np.repeat([0, 1, 2], 20)
    group = np.full(60, -1)
    group[0:20:2] = group[1:20:2] = np.arange(10)  # ten pairs of class 0
    group[20:40] = 10  # class 1 is one image over and over: each counts
    originals = Repeats(group, np.zeros(60), group).originals(labels, 5)
    np.testing.assert_array_equal(originals[:20], np.repeat(np.arange(0, 20, 2), 2))
    np.testing.assert_array_equal(originals[20:], np.arange(20, 60))
    parts = list(fold_rows(labels, 5, 0, originals))
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in parts])), np.arange(60))
    for train, test in parts:
        assert not set(originals[train]) & set(originals[test]) and (np.bincount(labels[test]) == 4).all()
    plain, single = fold_rows(labels, 5, 0), fold_rows(labels, 5, 0, np.arange(60))
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(plain, single, strict=True))


def test_two_predictions_are_mixed_by_how_well_they_predict_the_labels() -> None:
    labels = np.array([0, 1, 0, 1])
    good, useless = np.full((4, 2), 0.1) + 0.8 * np.eye(2)[labels], np.full((4, 2), 0.5)
    np.testing.assert_array_equal(mixed(good, useless, labels), good)
    np.testing.assert_array_equal(mixed(useless, good, labels), good)


def test_a_reference_shows_what_has_leaked() -> None:
    features, labels = blobs(n=80)
    other = Snapshot(np.concatenate([blobs(n=40, seed=5)[0], features[7:8]]), ids=[f"train-{row}" for row in range(41)])
    table = hardsight.clean(features=features, labels=labels, reference=other)
    np.testing.assert_array_equal(
        column(table, "error_score"), column(hardsight.clean(features=features, labels=labels), "error_score")
    )
    assert column(table, "verdict").tolist().count("near duplicate") == 1
    assert table.column("explanation")[7].as_py() == "nearly the same as train-40 of the reference (distance 0)"
    features[27], features[32] = features[7], features[8]
    both = hardsight.clean(features=features, labels=labels, reference=other).to_pylist()
    assert [row["id"] for row in both if row["verdict"] == "near duplicate"] == [7, 27, 32]
    said = "nearly the same as train-40 of the reference (distance 0) and as 7 (distance 0)"
    assert both[27]["explanation"].startswith(said) and both[32]["explanation"].startswith("nearly the same as 8 (distance 0)")


def test_rows_of_zeros_are_not_judged(cli: Cli, tmp_path: Path) -> None:
    """They have no direction and no score in `hardsight score`, either."""
    features, right = blobs(n=200)
    labels, _ = flipped(right, 0.1)
    features[::8] = 0.0
    np.savez(tmp_path / "x.npz", features=features, labels=labels)
    assert "samples without an error score: 25 are all zeros\n" in cli("clean", tmp_path / "x.npz").out
    for head in (None, 3 * np.eye(8)[:4]):
        table = hardsight.clean(features=features, labels=labels, head=head)
        assert table.slice(0, 9).column("error_score").null_count == 2 and table.column("error_score").null_count == 25
        assert not column(table, "is_label_issue")[::8].any() and table.column("verdict")[0].as_py() is None


def test_classes_with_large_gaps_are_numbered_first() -> None:
    """Class 3,000,000 would otherwise ask for n x 3,000,001 probabilities."""
    features, right = blobs(n=120)
    labels, _ = flipped(right, 0.1)
    labels[5] = -1
    gaps = np.where(labels < 0, -1, 10**6 * labels)
    table, far = (hardsight.clean(features=features, labels=given).table for given in (labels, gaps))
    np.testing.assert_array_equal(column(far, "error_score"), column(table, "error_score"))
    for name in ("given_label", "suggested_label", "predicted_label"):
        np.testing.assert_array_equal(column(far, name), 10**6 * column(table, name))
    issue = int(np.flatnonzero(column(far, "is_label_issue"))[0])
    assert far["explanation"][issue].as_py().startswith(f"labeled {far['given_label'][issue]}, but the model gives ")
    probs = hardsight.quality.out_of_sample(features, np.where(labels < 0, -1, 100 * labels))
    np.testing.assert_array_equal(probs[:, ::100], hardsight.quality.out_of_sample(features, labels))
    assert probs.shape == (120, 301) and not np.delete(probs, [0, 100, 200, 300], axis=1).any()


# ---- the table ----


def test_the_schema_is_fixed() -> None:
    features, labels = blobs(n=40)
    labels[3], features[5] = -1, np.nan
    table = hardsight.clean(features=features, labels=labels, ids=[f"id{row}" for row in range(40)])
    assert table.schema.names == ["id", *SUSPECTS.names, "duplicate_of"] == [
        "id", "given_label", "suggested_label", "suggested_probability", "error_score", "verdict", "explanation",
        "is_label_issue", "label_quality", "predicted_label", "duplicate_of",
    ]  # fmt: skip
    assert [str(kind) for kind in table.schema.types] == [
        "string", "int64", "int64", "double", "double", "string", "string", "bool", "double", "int64", "string",
    ]  # fmt: skip
    unlabeled, broken = table.slice(3, 1).to_pylist()[0], table.slice(5, 1).to_pylist()[0]
    assert unlabeled["given_label"] is None and unlabeled["error_score"] is None and unlabeled["predicted_label"] == 3
    assert broken["predicted_label"] is None and broken["given_label"] == 1 and broken["is_label_issue"] is False
    quality, score = column(table, "label_quality"), column(table, "error_score")
    known = np.isfinite(score)
    assert ((quality[known] >= 0) & (quality[known] <= 1)).all()
    assert spearmanr(quality[known], -score[known]).statistic > 0.9  # two ways to the same order, nearly
    assert {"evidence", "by", "expected_errors"} <= set(notes(table))


def test_pred_probs_is_another_name_of_probs() -> None:
    probs, labels = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]), [0, 1, 0]
    assert hardsight.clean(pred_probs=probs, labels=labels).equals(hardsight.clean(probs=probs, labels=labels))
    assert hardsight.score(pred_probs=probs, labels=labels).equals(hardsight.score(probs=probs, labels=labels))
    np.testing.assert_array_equal(
        hardsight.scores.loss(pred_probs=probs, labels=labels), hardsight.scores.loss(probs=probs, labels=labels)
    )
    assert Snapshot(pred_probs=probs).num_classes == 2
    np.testing.assert_array_equal(hardsight.scores.model_agreement(pred_probs=[probs, probs]), [1, 1, 1])
    np.testing.assert_array_equal(pass_scores(pred_probs=[probs, probs])["passes_variance"], [0, 0, 0])
    calls: list[Callable[..., Any]] = [hardsight.clean, hardsight.score, hardsight.scores.loss, Snapshot]
    for call in calls:
        with pytest.raises(InputError, match="probs and pred_probs are the same argument"):
            call(probs=probs, pred_probs=probs, labels=labels)


def test_models_that_know_too_much_or_too_little_are_warned_of() -> None:
    features, labels = blobs(n=200)
    seen = Snapshot(features, 4 * np.eye(8)[:4], labels, columns={"split": ["train"] * 200})
    with pytest.warns(UserWarning, match=r"trained on, and only the final model is known.* more may be wrong than expected here"):
        table = hardsight.clean(seen, neighbors=False)
    assert notes(table)["evidence"] == "out-of-sample"
    held_out = Snapshot(features, 4 * np.eye(8)[:4], labels, columns={"split": ["test"] * 200})
    assert notes(hardsight.clean(held_out, neighbors=False))["evidence"] == "head"
    sure = np.full((200, 4), 0.01) + 0.96 * np.eye(4)[labels]
    with pytest.warns(UserWarning, match="the model agrees with every label"):
        hardsight.clean(probs=sure, labels=labels)
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"heads fitted to these features agree with \d+ % of the labels only"):
        hardsight.clean(features=rng.normal(size=(200, 8)), labels=labels, neighbors=False)
    with pytest.warns(UserWarning, match=r"these probabilities agree with \d+ % of the labels only"):
        hardsight.clean(probs=rng.dirichlet(np.ones(4), 200), labels=labels)


def test_probabilities_of_the_training_split_are_warned_of() -> None:
    labels = np.arange(40) % 4
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 40) / 2 + np.eye(4)[labels] / 2
    columns = {"split": ["train", "test"] * 20}
    with pytest.warns(UserWarning, match="some of these samples are in the split 'train': if the model that gave the prob"):
        hardsight.clean(Snapshot(probs=probs, labels=labels, columns=columns))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hardsight.clean(Snapshot(probs=probs, labels=labels, columns=columns), split="test")
        hardsight.clean(Snapshot(np.log(probs), labels=labels, columns=columns), probs=probs)  # out-of-sample ones


# ---- runs, files and the command line ----


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 90 samples with the dynamics of five epochs; the first nine labels are wrong, and memorized at the end."""
    features, right = blobs(n=90, c=3, d=3)
    labels = np.where(np.arange(90) < 9, (right + 1) % 3, right)
    ids = [f"s{row:02d}" for row in range(90)]
    made = Run(tmp_path / "run", "hardsight train", {}, {})
    part = made.folder("samples") / "part-00000.parquet"
    with made.only_writer():
        write_samples(part, features, {"id": ids, "label": labels, "split": ["train"] * 90})
        save_head(made.directory / "head.safetensors", Head("linear", np.eye(3)), ["ant", "bee", "cat"])
        with Dynamics(made.directory) as tracker:
            for epoch in range(1, 6):
                tracker.update(epoch, features, epoch / 3 * np.eye(3), labels, ids)
        made.finish([part], {}, {part.name: 90})
    return made.directory


def test_epochs_and_unseen_heads_are_weighted_by_how_far_the_noise_runs_one_way() -> None:
    columns = {"aum": np.array([3.0, 1.0, 2.0])}  # the second lost its epochs, then the third
    unseen = np.array([0.5, 0.1, 0.9])  # the third looks wrong, then the first
    quartile = 0.6744897501960817  # of the normal distribution: the quantiles of three ranks are -0.67, 0 and 0.67
    epochs, heads = quartile * np.array([-1, 1, 0]), quartile * np.array([0, -1, 1])
    np.testing.assert_allclose(by_epochs(columns, "epochs", unseen, 0.0), (epochs + heads) / 2)
    np.testing.assert_allclose(by_epochs(columns, "epochs", unseen, 0.5), epochs / 4 + 3 * heads / 4)
    np.testing.assert_allclose(by_epochs(columns, "epochs", unseen, 1.0), heads)
    np.testing.assert_allclose(by_epochs(columns, "aum", unseen, 0.5), [-3.0, -1.0, -2.0])


def test_a_run_with_dynamics_is_judged_by_its_epochs(run: Path, cli: Cli) -> None:
    done = cli("clean", run)
    assert done.code == 0, done.err
    table = pq.read_table(run / "suspects.parquet")
    assert notes(table)["evidence"] == "epochs" and "evidence: epochs   ranked by epochs" in done.out
    assert "What the network said in training agrees with" in notes(table)["rests_on"]
    assert "those of similar samples decide" in notes(table)["rests_on"]
    assert average_precision(np.arange(90) < 9, column(table, "error_score")) > 0.9
    assert "expected label errors: " in done.out and "likely mislabeled" in done.out
    assert f"wrote {run}/suspects.parquet" in done.out and f"next: hardsight explore {run}" in done.out
    assert "suspects.parquet" in hardsight.verify(run).sound
    assert cli("clean", run).code == 0  # it may be written again
    by = hardsight.clean(run, by="aum")
    np.testing.assert_allclose(column(by, "error_score"), -column(hardsight.score(run, scores="aum"), "aum"))
    with pytest.raises(InputError, match="aldr_lambda is not in its dynamics"):
        hardsight.clean(run, by="aldr_lambda")


def test_a_review_is_applied(run: Path, cli: Cli, tmp_path: Path) -> None:
    review = Review(run / "review.parquet", ["ant", "bee", "cat"])
    marks = [("s00", "wrong label", 0), ("s01", "drop", None), ("s02", "wrong label", None), ("s03", "fine", None)]
    for id, mark, suggestion in marks:
        review.put("tab", id, mark, suggestion)
    done = cli("clean", run, "--apply", run / "review.parquet", "-o", tmp_path / "labels.parquet")
    assert done.code == 0 and "88 samples: 1 labels changed, 1 samples dropped, 1 left out" in done.out
    table = pq.read_table(tmp_path / "labels.parquet")
    assert table.column_names == ["id", "label", "given_label", "changed", "label_name"] and len(table) == 88
    rows = {row["id"]: row for row in table.to_pylist()}
    assert rows["s00"] == {"id": "s00", "label": 0, "given_label": 1, "changed": True, "label_name": "ant"}
    assert rows["s03"] == {"id": "s03", "label": 1, "given_label": 1, "changed": False, "label_name": "bee"}
    assert "s01" not in rows and "s02" not in rows
    given = Snapshot.load(run).columns(["id", "label"]).to_pylist()
    assert all(rows[row["id"]]["label"] == row["label"] for row in given if row["id"] not in ("s00", "s01", "s02"))
    assert cli("clean", run, "--apply", run / "review.parquet").code == 0 and (run / "labels.parquet").is_file()


def test_ids_that_are_numbers_join_the_text_of_a_review(tmp_path: Path) -> None:
    review = Review(tmp_path / "x.review.parquet", ["a", "b"])
    review.put("tab", "2", "wrong label", 1)
    applied = apply_review(Snapshot(np.eye(4), labels=[0, 1, 0, -1]), tmp_path / "x.review.parquet")
    assert applied.table.to_pydict() == {
        "id": [0, 1, 2, 3], "label": [0, 1, 1, None], "given_label": [0, 1, 0, None], "changed": [False, False, True, False],
    }  # fmt: skip
    marks = review.table()
    for table in (marks, marks.to_pandas(), marks.to_pydict(), hardsight.result.Result(marks)):
        assert apply_review(Snapshot(np.eye(4), labels=[0, 1, 0, -1]), table).equals(applied)
    with pytest.raises(FileError, match="the table of marks: not a review: it has no column 'mark'"):
        apply_review(Snapshot(np.eye(1), labels=[0]), {"id": [0]})
    with pytest.raises(InputError, match="the table of marks is of other samples: 1 of its 1 ids"):
        apply_review(Snapshot(np.eye(1), labels=[0]), marks)


def test_a_review_of_classes_or_ids_that_are_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "review.parquet"

    snapshot = Snapshot(np.eye(4), labels=[0, 1, 2, -1])  # no head: the labels say how many classes there are
    twice = Snapshot(np.eye(3), labels=[0, 1, 2], ids=["a", "b", "a"], allow_duplicates=True)
    marks: list[tuple[Snapshot, list[str], list[Any], str]] = [
        (
            snapshot,
            ["0", "1", "0"],
            [1, 2, 2],
            "row 2 repeats '0' of row 0. Keep one mark",
        ),
        (snapshot, ["0"], ["cat"], "not a review: suggestions must be class indices"),
        (twice, ["a"], [1], "row 2 repeats 'a' of row 0"),
        (snapshot, ["0"], [3], "'0' is marked as class 3, and classes are 0 to 2"),
    ]
    for samples, ids, suggestions, match in marks:
        pq.write_table(pa.table({"id": ids, "mark": ["wrong label"] * len(ids), "suggestion": suggestions}), file)
        with pytest.raises((FileError, InputError), match=match):
            apply_review(samples, file)
    assert apply_review(snapshot, file, ["a", "b", "c", "d"]).table.column("label")[0].as_py() == 3
    with pytest.raises(InputError, match="the samples: no sample has a label to keep or change"):
        apply_review(Snapshot(np.eye(4)), file)


def test_a_file_of_probabilities_and_one_of_features(cli: Cli, tmp_path: Path) -> None:
    features, right = blobs(n=200)
    labels, _ = flipped(right, 0.1)
    probs = hardsight.quality.out_of_sample(features, labels)
    np.savez(tmp_path / "probs.npz", probs=probs, labels=labels)
    np.save(tmp_path / "features.npy", features)
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "probs.npy", probs)
    done = cli("clean", tmp_path / "probs.npz", "-o", tmp_path / "suspects.csv", "--top", "3")
    assert done.code == 0 and "worst 3" in done.out and (tmp_path / "suspects.csv").read_text().startswith('"id","given_label"')
    np.savez(tmp_path / "two.npz", a=probs, b=probs)
    ask = ("clean", tmp_path / "features.npy", "--labels", tmp_path / "labels.npy", "--pred-probs")
    assert "evidence: probs" in cli(*ask, tmp_path / "probs.npz", "-o", tmp_path / "suspects.json").out  # its array probs
    assert "must be the array probs or pred_probs, or the only one; arrays: a, b." in cli(*ask, tmp_path / "two.npz").err
    both = cli(*ask, tmp_path / "probs.npy")
    assert both.code == 0 and "evidence: probs" in both.out and (tmp_path / "features.suspects.parquet").is_file()
    assert "next:" not in both.out  # the explorer would not have the labels
    alone = cli("clean", tmp_path / "features.npy", "--labels", tmp_path / "labels.npy", "--no-neighbors", "--first", "100")
    assert alone.code == 0 and alone.out.startswith("n = 100   evidence: out-of-sample   ranked by posterior")
    assert "Linear heads that were fitted without each sample agree with " in alone.out
    assert "The given probabilities agree with " in both.out and "taken for out-of-sample ones" in both.out
    assert "nothing was written: give -o features.suspects.parquet" in alone.out and "next:" not in alone.out


def test_the_suspects_of_a_file_are_where_the_explorer_looks(cli: Cli, tmp_path: Path) -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    photo = tmp_path / "photo.npz"
    np.savez(photo, probs=probs, labels=probs.argmax(axis=1))
    elsewhere = cli("clean", photo, "-o", tmp_path / "elsewhere.parquet")
    assert elsewhere.code == 0 and "next:" not in elsewhere.out and read_suspects(photo) is None
    done = cli("clean", photo)
    assert f"wrote {tmp_path}/photo.suspects.parquet" in done.out and f"next: hardsight explore {photo}" in done.out
    found, again = read_suspects(photo), hardsight.clean(photo, output=tmp_path / "again.parquet")
    assert found is not None and len(found) == again.summary["samples"] == 30 and list(again.tables())[0] == "verdicts"
    assert pq.read_table(tmp_path / "again.parquet").equals(again.table)
    refused(cli("clean", tmp_path / "no" / "such.npz"), "such.npz")


REFUSED: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "all unlabeled": ({"probs": np.eye(3), "labels": [-1, -1, -1]}, [], "no labels to check: give labels"),
    "one class": ({"probs": np.eye(3), "labels": [1, 1, 1]}, [], "every label is class 1"),
    "equal": ({"probs": np.full((6, 2), 0.5), "labels": [0, 1] * 3}, [], "all rows of probabilities are equal"),
    "equal features": ({"features": np.ones((6, 2)), "labels": [0, 1] * 3}, [], "all rows of features are equal"),
    "nothing finite": ({"features": np.full((6, 2), np.nan), "labels": [0, 1] * 3}, [], "a value that is not finite"),
    "too large": (
        {"features": 1e160 * np.random.default_rng(0).normal(size=(6, 2)), "labels": [0, 1] * 3},
        ["--no-neighbors"],
        "features must be below 1e150: divide them by a number",
    ),
    "class of one": ({"features": np.eye(5), "labels": [0, 0, 1, 1, 2]}, [], "every class needs two samples, one to learn from"),
    "no distribution": ({"probs": np.ones((4, 2)), "labels": [0, 1] * 2}, [], "probs must be probabilities that sum to 1"),
    "labels beyond": ({"probs": np.eye(3), "labels": [0, 1, 3]}, [], "labels must be 0 to 2"),
    "no dynamics": ({"probs": np.eye(3), "labels": [0, 1, 2]}, ["--by", "aum"], "needs training dynamics, but there are none"),
    "no split": ({"probs": np.eye(3), "labels": [0, 1, 2]}, ["--split", "test"], "there is no split 'test'"),
    "marks of others": (
        {"probs": np.eye(3), "labels": [0, 1, 2]},
        ["--apply", "review.parquet", "-o", "labels.parquet"],
        "review.parquet is of other samples: 1 of its 1 ids are not in x.npz, such as 'elsewhere'; its ids look like '0'.",
    ),
    "marks without output": ({"probs": np.eye(3), "labels": [0, 1, 2]}, ["--apply", "review.parquet"], "give -o labels.parquet"),
    "reference of another size": (
        {"features": np.random.default_rng(0).normal(size=(8, 3)), "labels": [0, 1] * 4},
        ["--reference", "other.npz"],
        "other.npz is of another model: its features have 5 dimensions, these have 3.",
    ),
    "reference of another head": (
        {"features": np.random.default_rng(0).normal(size=(8, 5)), "labels": [0, 1] * 4, "weight": np.eye(5)[:2]},
        ["--reference", "other.npz"],
        "other.npz is of another model: the two heads differ in their weights.",
    ),
    "ids twice": ({"probs": np.eye(3), "labels": [0, 1, 2], "ids": ["a", "b", "b"]}, [], "row 2 repeats 'b' of row 1"),
    "reference not searched": (
        {"features": np.eye(6), "labels": [0, 1] * 3},
        ["--reference", "other.npz", "--no-neighbors"],
        "leave out --no-neighbors",
    ),
    "reference of probabilities": (
        {"probs": np.eye(3), "labels": [0, 1, 2]}, ["--reference", "other.npz"], "a reference is compared by features"
    ),
}  # fmt: skip


POINTS, CLASSES, EVEN = *blobs(n=40), np.full((40, 4), 0.25)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        ("one row of probs per sample, got 39 rows for 40", {"features": POINTS, "probs": EVEN[:39]}),
        ("got 3 for 4 classes", {"features": POINTS, "head": np.eye(8)[:4], "probs": EVEN[:, :3] / 0.75}),
        (
            "features can only be used with arrays",
            {"x": Snapshot(probs=EVEN, labels=CLASSES), "labels": None, "features": POINTS},
        ),
        ("there are probs already", {"x": Snapshot(probs=EVEN, labels=CLASSES), "labels": None, "probs": EVEN}),
        ("features must be two-dimensional, one row per sample", {"x": [1], "labels": None}),
        ("features, logits or probs, got none of them", {}),
        ("no sample of the reference has finite features", {"features": POINTS, "reference": np.full((3, 8), np.nan)}),
    ],
)
def test_arrays_that_do_not_fit_are_refused(message: str, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=message):
        hardsight.clean(**{"labels": CLASSES} | given)


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_clear_line(case: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, words, said = REFUSED[case]
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", **arrays)
    np.savez("other.npz", features=np.random.default_rng(1).normal(size=(4, 5)), weight=2 * np.eye(5)[:2])
    Review(Path("review.parquet"), ["a", "b", "c"]).put("tab", "elsewhere", "drop")
    monkeypatch.setattr("hardsight.quality.neighbors.find_repeats", lambda *_: pytest.fail("duplicates were searched first"))
    refused(cli("clean", "x.npz", *words), said)
    assert not Path("x.suspects.parquet").exists() and not Path("labels.parquet").exists()


def test_labels_of_a_frame_survive_a_review_and_so_do_those_of_suspects() -> None:
    rng = np.random.default_rng(0)
    label = np.arange(60) % 2
    features = 4.0 * np.eye(2)[label] + rng.normal(0, 0.3, (60, 2))
    frame = pd.DataFrame({"f0": features[:, 0], "f1": features[:, 1], "label": label}, index=np.arange(60) + 100)
    marks = {"id": [103, 104], "mark": ["wrong label", "drop"], "suggestion": [0, None]}
    corrected = apply_review(frame, marks)
    assert corrected["label"].null_count == 0 and corrected["given_label"].to_pylist() == np.delete(label, 4).tolist()
    assert repr(corrected).startswith("CorrectedLabels: 59 samples: 1 labels changed, 1 samples dropped")
    suspects = hardsight.clean(frame)
    for found in (suspects, suspects.table, suspects.to_pandas()):
        assert apply_review(found, marks).equals(corrected)
    with pytest.raises(InputError, match="no sample has a label to keep or change: say where they are, such as labels='y'"):
        apply_review(frame.rename(columns={"label": "class"}), marks)


def test_what_clean_left_out_is_in_its_repr() -> None:
    features = np.repeat(np.eye(2), 20, axis=0) + np.random.default_rng(0).normal(0, 0.1, (40, 2))
    features[3] = np.nan
    suspects = hardsight.clean(features, [-1] * 2 + [0] * 18 + [1] * 20)
    said = "samples without an error score: 1 could not be scored, 2 are unlabeled"
    assert said in repr(suspects) and said in suspects._repr_html_() and suspects.summary["unscored"] == 3
