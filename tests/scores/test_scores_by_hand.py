"""Scores at known angles and logits: every expected number here can be had with a pencil."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import hardsight
from hardsight import Head
from oracles import on_circle

LN2, LN3 = np.log(2), np.log(3)
THREE = on_circle(0, 90, 180)  # class vectors at right angles along the upper half circle
AT_30 = on_circle(30)  # 30, 60 and 150 degrees from them, 240 in all


def test_avh_is_the_share_of_the_own_angle() -> None:
    for label, own in enumerate((30, 60, 150)):
        assert hardsight.avh(AT_30, THREE, [label]) == pytest.approx([own / 240])
        assert hardsight.scores.avh_relative(AT_30, THREE, [label]) == pytest.approx([3 * own / 240])


def test_avc_counts_the_angles_from_the_other_side() -> None:
    # 180 minus each angle: 150, 120 and 30, together 300
    assert hardsight.scores.avc_label(AT_30, THREE, [1]) == pytest.approx([120 / 300])
    assert hardsight.scores.avc_predicted(AT_30, THREE) == pytest.approx([150 / 300])  # class 0 is predicted, label or not


def test_own_nearest_and_gap_in_radians() -> None:
    assert hardsight.scores.own_angle(AT_30, THREE, [1]) == pytest.approx([np.pi / 3])
    assert hardsight.scores.nearest_angle(AT_30, THREE, [1]) == pytest.approx([np.pi / 6])
    assert hardsight.scores.angular_gap(AT_30, THREE, [1]) == pytest.approx([np.pi / 6])
    assert hardsight.scores.angular_gap(AT_30, THREE, [0]) == pytest.approx([-np.pi / 6])


def test_gap_when_every_other_cosine_is_negative() -> None:
    weight = on_circle(0, 120, 240)
    # At 0 degrees the others are both 120 away. A masked product would take the own class for the runner-up.
    assert hardsight.scores.angular_gap(on_circle(0), weight, [0]) == pytest.approx([-2 * np.pi / 3])
    assert hardsight.scores.nearest_angle(on_circle(0), weight, [0]) == pytest.approx([2 * np.pi / 3])
    behind = on_circle(100, 150, 180)  # every class behind the sample, its own in the middle
    assert hardsight.scores.angular_gap(on_circle(0), behind, [1]) == pytest.approx([np.deg2rad(150 - 100)])


@pytest.mark.parametrize(("label", "expected"), [(0, 0.4682), (1, 0.5318)])
def test_figure_20_length_does_not_matter(label: int, expected: float) -> None:
    """App. E of the paper: two classes at pi/4 -+ 0.05 from the sample, and its norm swept."""
    direction = np.array([1.0, 0.0])
    weight = on_circle(np.rad2deg(np.pi / 4 - 0.05), -np.rad2deg(np.pi / 4 + 0.05))
    lengths = np.geomspace(1e-3, 1e3, 25)
    values = hardsight.avh(lengths[:, None] * direction, weight, np.full(25, label))
    assert values[0] == pytest.approx(expected, abs=5e-5)
    assert np.ptp(values) < 1e-12
    confidences = hardsight.scores.confidence(lengths[:, None] * direction, weight, np.full(25, label))
    assert abs(confidences[-1] - confidences[0]) > 0.4  # while confidence follows the length


def test_undecided_is_one_over_c() -> None:
    diagonal = np.ones((1, 4))
    assert hardsight.avh(diagonal, np.eye(4), [2]) == pytest.approx([1 / 4])
    assert hardsight.scores.avh_relative(diagonal, np.eye(4), [2]) == pytest.approx([1])
    assert hardsight.scores.avc_label(diagonal, np.eye(4), [2]) == pytest.approx([1 / 4])
    assert hardsight.scores.angular_gap(diagonal, np.eye(4), [2]) == pytest.approx([0], abs=1e-12)


def test_along_and_against_the_class_vector() -> None:
    weight = np.eye(2)
    assert hardsight.avh([[3.0, 0.0]], weight, [0]) == pytest.approx([0], abs=1e-12)
    assert hardsight.scores.own_angle([[-3.0, 0.0]], weight, [0]) == pytest.approx([np.pi])
    assert hardsight.avh([[-3.0, 0.0]], weight, [0]) == pytest.approx([np.pi / (np.pi + np.pi / 2)])


def test_a_single_class_is_all_the_hardness_there_is() -> None:
    weight = np.array([[1.0, 0.0]])
    assert hardsight.avh([[0.0, 2.0], [1.0, 1.0]], weight, [0, 0]).tolist() == [1.0, 1.0]
    assert np.isnan(hardsight.avh([[5.0, 0.0]], weight, [0])).all()  # 0 / 0
    assert hardsight.scores.confidence([[1.0, 1.0]], weight, [0]) == [1.0]
    assert hardsight.scores.loss([[1.0, 1.0]], weight, [0]) == pytest.approx([0], abs=1e-15)
    for name in ("angular_gap", "nearest_angle", "probability_margin", "logit_margin"):  # there is no other class
        assert np.isnan(hardsight.SCORES[name].function([[1.0, 1.0]], weight, [0])).all()


def test_norm_is_pythagoras() -> None:
    assert hardsight.scores.norm([[3.0, 4.0], [-5.0, 12.0]]).tolist() == [5.0, 13.0]


# Probabilities 1/6, 1/3, 1/2 from logits 0, ln 2, ln 3.
LOGITS = np.array([[0.0, LN2, LN3]])


@pytest.mark.parametrize(
    ("name", "label", "expected"),
    [
        ("confidence", 0, 1 / 6),
        ("confidence", 2, 1 / 2),
        ("predicted_confidence", 0, 1 / 2),
        ("probability_margin", 0, 1 / 6 - 1 / 2),
        ("probability_margin", 2, 1 / 2 - 1 / 3),
        ("logit_margin", 1, LN2 - LN3),
        ("logit_margin", 2, LN3 - LN2),
        ("max_logit", 0, LN3),
        ("entropy", 0, np.log(6) / 6 + LN3 / 3 + LN2 / 2),
        ("el2n", 0, np.sqrt((5 / 6) ** 2 + (1 / 3) ** 2 + (1 / 2) ** 2)),
        ("loss", 0, np.log(6)),
        ("loss", 2, LN2),
    ],
)
def test_confidence_family_by_hand(name: str, label: int, expected: float) -> None:
    score = hardsight.SCORES[name].function
    assert score(logits=LOGITS, labels=[label]) == pytest.approx([expected])
    # The same logits from a linear layer: a product of 1 for every class, and the rest in the bias.
    assert score([[1.0]], np.ones((3, 1)), [label], bias=LOGITS[0] - 1) == pytest.approx([expected])
    if name != "max_logit":
        assert score(probs=[[1 / 6, 1 / 3, 1 / 2]], labels=[label]) == pytest.approx([expected])


def test_confidence_without_bias() -> None:
    weight, bias = np.array([[LN2], [0.0001]]), np.array([5.0, -5.0])
    assert hardsight.scores.confidence_nobias([[1.0]], weight, [0], bias=bias) == pytest.approx([2 / 3], abs=1e-4)
    assert hardsight.scores.confidence([[1.0]], weight, [0], bias=bias) > 0.9999


@pytest.mark.parametrize("spread", [3.0, 11.9, 12.1, 60.0])
def test_confidence_without_biases_that_lie_far_apart(spread: float) -> None:
    """Whether they are taken out of the same pass or of a second one, and in float32."""
    rng = np.random.default_rng(0)
    features, weight = rng.standard_normal((50, 8)).astype(np.float32), rng.standard_normal((300, 8)).astype(np.float32)
    bias = np.linspace(0, spread, 300, dtype=np.float32)
    labels = rng.integers(0, 300, 50)
    logits = features.astype(np.float64) @ weight.T.astype(np.float64)  # (50, 300)
    expected = softmax(logits, axis=1)[np.arange(50), labels]
    assert hardsight.scores.confidence_nobias(features, weight, labels, bias=bias) == pytest.approx(expected, rel=1e-5)


def test_digits_of_a_sure_answer_are_kept() -> None:
    """p = 1 - 2e-18 rounds to 1, its loss and its error vector do not round to 0."""
    sure = np.array([[40.0, 0.0]])
    tail = np.exp(-40.0)
    assert hardsight.scores.loss(logits=sure, labels=[0]) == pytest.approx([tail], rel=1e-6)
    assert hardsight.scores.el2n(logits=sure, labels=[0]) == pytest.approx([np.sqrt(2) * tail], rel=1e-6)


def test_the_first_of_equal_classes_is_predicted() -> None:
    table = hardsight.score([[1.0, 1.0]] * 2, np.eye(2), [1, 0])
    assert table.column("predicted").to_pylist() == [0, 0]


def test_avh_scaled_runs_from_zero_to_one() -> None:
    features = on_circle(0, 45, 90)  # AVH 0, 1/2 and 1 of class 0 among two classes at right angles
    weight = np.eye(2)
    assert hardsight.scores.avh_scaled(features, weight, [0, 0, 0]) == pytest.approx([0, 1 / 2, 1], abs=1e-12)
    assert hardsight.scores.avh_scaled(features[:2], weight, [0, 0]) == pytest.approx([0, 1], abs=1e-12)
    assert hardsight.scores.avh_scaled(features[:1], weight, [1]).tolist() == [0.0]  # all the same


def test_norm_in_class_is_min_max_of_its_own_class() -> None:
    lengths, labels = np.array([[1.0], [3.0], [2.0], [10.0], [20.0], [7.0]]), [0, 0, 0, 1, 1, -1]
    values = hardsight.scores.norm_in_class(lengths, labels)
    assert values[:5].tolist() == [0.0, 1.0, 0.5, 0.0, 1.0]
    assert np.isnan(values[5])


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_angles_of_a_gaussian_head_are_taken_around_the_mean_of_its_means(library: str) -> None:
    """Means at 0, 90, 180 and 270 degrees around (10, 20); a sample at 30 degrees; one at the origin; one at the center."""
    center = np.array([10.0, 20.0])
    head = Head("gaussian", on_circle(0, 90, 180, 270) + center)
    features: Any = np.concatenate([5 * on_circle(30) + center, np.zeros((1, 2)), center[None]])
    if library == "torch":
        features = pytest.importorskip("torch").tensor(features)
    table = hardsight.score(features, head, [0, 0, 0])
    assert table.column("status").to_pylist() == ["ok", "ok", "zero_norm"]
    assert table.column("avh").to_pylist()[0] == pytest.approx(30 / 360)
    assert table.column("avc_label").to_pylist()[0] == pytest.approx(150 / 360)
    assert table.column("norm").to_numpy()[:2] == pytest.approx([np.hypot(10 + 5 * np.sqrt(3) / 2, 22.5), 0])
    assert np.isfinite(table.column("avh").to_pylist()[1])
    assert hardsight.avh(features, head, [0, 0, 0])[0] == pytest.approx(30 / 360)
    assert np.isnan(hardsight.score(features, head, [0, 0, 0], scores="all").column("knn_agreement").to_numpy()[1])


def test_a_mean_at_the_mean_of_the_means_is_named() -> None:
    head = Head("gaussian", np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]], np.float32))
    with pytest.raises(
        hardsight.errors.InputError, match="class 1 is at the mean of the class means. Leave the angular scores out"
    ):
        hardsight.score(np.ones((2, 2)), head, [0, 1])
    assert len(hardsight.score(np.ones((2, 2)), head, [0, 1], scores="confidence")) == 2


def test_gm_likelihood_by_hand() -> None:
    """Two classes on a line, means 0 and 10, pooled variance 1: log N(x; 0, 1) = -x^2/2 - log(2 pi)/2."""
    features, labels = np.array([[-1.0], [1.0], [9.0], [11.0]]), [0, 0, 1, 1]
    head = Head("linear", np.array([[-1.0], [1.0]]), bias=np.array([10.0, 0.0]))  # class 1 from 5 on
    half_log = 0.5 * np.log(2 * np.pi)
    assert hardsight.scores.gm_likelihood(features, head, labels) == pytest.approx([-0.5 - half_log] * 4)


def test_gm_likelihood_of_a_gaussian_head_is_its_own() -> None:
    """Means 0 and 10, variances 4 and 1: the samples and their labels, which would say otherwise, are not fitted to."""
    features, labels = np.array([[2.0], [3.0], [12.0]]), [1, 1, 0]
    head = Head("gaussian", np.array([[0.0], [10.0]]), log_variance=np.log([[4.0], [1.0]]), log_prior=np.log([0.2, 0.8]))
    half_log = 0.5 * np.log(2 * np.pi)
    expected = [-0.5 - np.log(2) - half_log, -9 / 8 - np.log(2) - half_log, -2 - half_log]
    assert hardsight.scores.gm_likelihood(features, head, labels) == pytest.approx(expected)
    assert hardsight.scores.gm_likelihood(features, head) == pytest.approx(expected)
    for given in (labels, None):  # the table of a snapshot says the same, with labels or without
        table = hardsight.score(features, head, given, scores="gm_likelihood")
        assert table.column("gm_likelihood").to_pylist() == pytest.approx(expected)


def test_knn_agreement_by_hand() -> None:
    features = on_circle(0, 1, 3, 90, 92)
    # The two nearest of each: {1, 2}, {0, 2}, {1, 0}, {4, 2}, {3, 2}
    assert hardsight.scores.knn_agreement(features, [0, 0, 1, 1, 1], k=2).tolist() == [1 / 2, 1 / 2, 0, 1, 1]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (Head("cosine", THREE, scale=4.0), [4 * np.cos(np.pi / 6), 4 * np.cos(np.pi / 3), -4 * np.cos(np.pi / 6)]),
        (Head("angular", THREE, scale=6.0), [-np.pi, -2 * np.pi, -5 * np.pi]),
    ],
)
def test_cosine_and_angular_heads_ignore_length(head: Head, expected: list[float]) -> None:
    assert head.logits(AT_30)[0] == pytest.approx(expected)
    assert hardsight.scores.max_logit(7 * AT_30, head) == pytest.approx([max(expected)])
    assert hardsight.scores.logit_margin(7 * AT_30, head, [1]) == pytest.approx([expected[1] - expected[0]])
