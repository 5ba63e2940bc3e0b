"""A closer look at an agreement: disagreement, calibration, and groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats as scipy_stats
from scipy.special import softmax

import hardsight
from agreement_data import COUNTS, FEATURES, FEW, FREQUENCY, LABELS, SNAPSHOT, TABLE, WEIGHT, N, made, single
from hardsight import Snapshot, correlate
from hardsight.errors import InputError


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


def test_groups_of_samples_without_a_label() -> None:
    """A frequency needs no labels, and unlabeled samples form their own group."""
    labels = np.where(np.arange(N) < 10, -1, LABELS)
    found = correlate(Snapshot(FEATURES, WEIGHT, labels, class_names=SNAPSHOT.class_names), FREQUENCY, scores="norm", **FEW)
    sizes = {row["group"]: row["n"] for row in found.within("label").to_pylist()}
    assert sizes["None"] == 10 and sum(sizes.values()) == N
