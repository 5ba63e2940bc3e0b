"""A closer look at an agreement: coarser classes, disagreement, calibration, unseen classes, and groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats as scipy_stats
from scipy.special import softmax

import hardsight
from agreement_data import COUNTS, FEATURES, FEW, FREQUENCY, LABELS, SNAPSHOT, TABLE, WEIGHT, C, D, N, made, single
from hardsight import Snapshot, correlate
from hardsight.errors import InputError
from hardsight.human.granularity import read_superclasses


def test_superclasses_by_a_plain_loop() -> None:
    mapping = {"ant": "insect", "bee": "insect", "cat": "mammal", "dog": "mammal"}
    found = correlate(SNAPSHOT, COUNTS, superclasses=mapping, **FEW).coarse
    assert found is not None
    above = [0, 0, 1, 1]
    theta = hardsight.geometry.angles(FEATURES, WEIGHT)
    probs = softmax(FEATURES @ WEIGHT.T, axis=1)
    hsf, avh, confidence = [], [], []
    for i, y in enumerate(LABELS):
        nearest = [min(theta[i, k] for k in range(C) if above[k] == s) for s in (0, 1)]
        avh.append(nearest[above[y]] / sum(nearest))
        confidence.append(sum(probs[i, k] for k in range(C) if above[k] == above[y]))
        hsf.append(sum(COUNTS[i, k] for k in range(C) if above[k] == above[y]) / COUNTS[i].sum())
    np.testing.assert_allclose(found.agreement().values, hsf)
    np.testing.assert_allclose(found.agreement().scores["avh"], avh)
    np.testing.assert_allclose(found.agreement().scores["confidence"], confidence, rtol=1e-6)
    inside = hardsight.scores.norm_in_class(FEATURES, np.array(above)[LABELS])
    np.testing.assert_allclose(found.agreement().scores["norm_in_class"], inside, atol=1e-9)
    assert {row["group"] for row in found.within("label").to_pylist()} == {"insect", "mammal"}


def test_superclasses_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("class,superclass\n0,a\n1,a\n2,b\n3,b\n")
    assert read_superclasses(tmp_path / "m.csv", None, 4).of_class.tolist() == [0, 0, 1, 1]
    (tmp_path / "n.csv").write_text("class,above\n0,a\n")
    for source, match in (
        ({"mouse": "a"}, "'mouse' is not a class"),
        ({9: "a"}, "class 9 is not among 0 to 3"),
        (tmp_path / "n.csv", "columns class and superclass"),
    ):
        with pytest.raises(InputError, match=match):
            read_superclasses(source, ["ant", "bee", "cat", "dog"], 4)


def test_disagreement_by_hand() -> None:
    table = pa.table(
        {"id": list("abcdef"), "label": [0] * 6, "predicted": [0, 1, 0, 0, 0, 0], "avh": [0.1, 0.6, 0.2, 0.5, 0.3, 0.4]}
    )
    people = [1.0, 0.9, 0.8, 0.3, 0.2, 0.1]
    found = correlate(table, people, **FEW).disagreement("avh", top=1)
    assert found.counts == {
        "easy for both": 2,  # a, c
        "easy for people, hard for the model": 1,  # b
        "hard for people, easy for the model": 1,  # e
        "hard for both": 2,  # d, f
    }
    assert [row["id"] for row in found.model_hard] == ["b"] and [row["id"] for row in found.people_hard] == ["e"]
    assert found.model_hard[0]["apart"] == pytest.approx((4.5 - 0.5) / 6) and found.model_hard[0]["predicted"] == "1"
    with pytest.raises(InputError, match="has no score 'loss'"):
        correlate(table, people, **FEW).disagreement("loss")


def test_hard_for_people_are_images_they_really_disagree_on() -> None:
    table, easy = made(avh=(0, 1))
    sure = correlate(table, 0.9 + easy / 10, scores="avh", **FEW).disagreement()  # at least 90 % of people name each image right
    assert sure.people_hard == [] and sure.counts["hard for both"] == 0 and sum(sure.counts.values()) == 400
    found = correlate(table, easy, scores="avh", **FEW).disagreement()
    assert len(found.people_hard) == 12 and max(row["frequency"] for row in found.people_hard) < 0.5  # far out on both sides
    assert found.counts["hard for both"] + found.counts["hard for people, easy for the model"] == (easy < 0.8).sum()
    assert found.rule.startswith(
        "hard for people: fewer than 80 % chose the given class; hard for the model: in the harder half by"
    )


def test_calibration_and_what_temperature_does(correlations: hardsight.human.Correlations) -> None:
    told = correlations.calibration()
    assert told.fitted_to + told.judged_on == N and told.temperature > 0
    effects = {(row["score"], row["kind"]): row for row in told.effects}
    loss = effects["loss", "spearman"]
    assert loss["before"] == pytest.approx(single(correlations, "loss")["agreement"], abs=1e-4)
    avh = effects["avh", "pearson"]
    assert avh["before"] == avh["after"] == single(correlations, "avh", "pearson")["agreement"]
    logits = FEATURES @ WEIGHT.T / told.temperature
    after = softmax(logits, axis=1)[np.arange(N), LABELS]
    assert effects["confidence", "pearson"]["after"] == pytest.approx(scipy_stats.pearsonr(after, FREQUENCY).statistic, abs=1e-4)
    with pytest.raises(InputError, match="needs logits"):
        correlate(TABLE, COUNTS, scores="avh", **FEW).calibration()


def test_unseen_classes(correlations: hardsight.human.Correlations, tmp_path: Path) -> None:
    between = (WEIGHT[0] + WEIGHT[1]) * 0.4 + 0.1 * np.random.default_rng(1).normal(size=(100, D))  # of neither class
    Snapshot(between).save(tmp_path / "unseen.npz")
    rows = correlations.open_set(tmp_path / "unseen.npz").to_pylist()
    assert [row["score"] for row in rows] == ["avc_predicted", "predicted_confidence", "entropy", "max_logit", "norm"]
    ours = next(row for row in rows if row["score"] == "predicted_confidence")
    top = softmax(between @ WEIGHT.T, axis=1).max(1)
    known = TABLE.column("predicted_confidence").to_numpy()
    assert ours["auroc"] == pytest.approx(np.mean((top[:, None] < known) + 0.5 * (top[:, None] == known)), abs=1e-6)
    assert ours["low"] < ours["auroc"] < ours["high"] and (ours["known"], ours["unseen"]) == (N, 100)
    with pytest.raises(InputError, match="wide"):
        correlations.open_set(Snapshot(np.ones((5, D + 1)), np.ones((C, D + 1))))
    with pytest.raises(InputError, match="needs its head"):
        correlate(TABLE, COUNTS, scores="avh", **FEW).open_set(tmp_path / "unseen.npz")


def test_groups_of_samples_without_a_label() -> None:
    """A frequency needs no labels, and unlabeled samples form their own group."""
    labels = np.where(np.arange(N) < 10, -1, LABELS)
    found = correlate(Snapshot(FEATURES, WEIGHT, labels, class_names=SNAPSHOT.class_names), FREQUENCY, scores="norm", **FEW)
    sizes = {row["group"]: row["n"] for row in found.within("label").to_pylist()}
    assert sizes["None"] == 10 and sum(sizes.values()) == N
