"""Thresholds and pseudo-labels: cases by hand, the laws of the methods, plain loops, and bad inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from hardsight.domains.pseudo_labels import METHODS, WHY, PseudoLabels, class_thresholds, select_pseudo_labels
from hardsight.errors import InputError
from hardsight.geometry import angles
from hardsight.head import Head
from hardsight.scores import SCORES

EVERY_METHOD = [*METHODS, *(f"cbst+{name}" for name, one in SCORES.items() if one.scope in ("row", "dataset"))]
ALL_KEPT = ("weighted", "depict")  # whatever the portion, if it is not 0


def world(seed: int = 0, n: int = 200, c: int = 4, d: int = 6, sharp: float = 2.0) -> tuple[np.ndarray, np.ndarray, Head]:
    """Random logits, features and head that belong together."""
    rng = np.random.default_rng(seed)
    head = Head("linear", rng.normal(size=(c, d)), bias=rng.normal(size=c))
    features = sharp * rng.normal(size=(n, d))
    return head.logits(features), features, head


def select(method: str, seed: int = 0, **options: Any) -> PseudoLabels:
    logits, features, head = world(seed)
    return select_pseudo_labels(logits, features, head, method=method, **options)


def probs(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))


def avc_of(features: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(n, c) (pi - angle_k) / sum_j (pi - angle_j)."""
    left = np.pi - angles(features, weight)
    return left / left.sum(1, keepdims=True)


# ---- thresholds ----


@pytest.mark.parametrize(
    ("n", "portion", "kept"),
    [(10, 0.2, 1), (3, 0.2, 0), (1, 0.9, 0), (1, 1.0, 0), (100, 0.5, 49), (100, 0.0, 0), (101, 0.29, 29), (100, 1.0, 99),
     (0, 0.5, 0)],
)  # fmt: skip
def test_how_many_are_kept(n: int, portion: float, kept: int) -> None:
    confidence = np.random.default_rng(n).permutation(np.linspace(0.5, 0.99, n))
    found = class_thresholds(confidence, np.zeros(n, int), portion, num_classes=1)
    assert (confidence > found[0]).sum() == kept


def test_thresholds_are_ranked_within_the_predicted_class() -> None:
    confidence = [0.9, 0.5, 0.8, 0.6, 0.7, 0.95]
    predicted = [0, 0, 0, 2, 2, 2]  # class 0: .9 .8 .5, class 2: .95 .7 .6; class 1 and 3 never
    assert class_thresholds(confidence, predicted, 0.5, num_classes=4).tolist() == [0.8, 1.0, 0.7, 1.0]
    assert class_thresholds(confidence, predicted, 0.5, num_classes=4, empty=np.inf)[1] == np.inf
    # rows that say nothing are not counted
    assert class_thresholds([0.9, np.nan, 0.8, 0.99, 0.7], [0, 0, 0, -1, 0], 0.5).tolist() == [0.8]
    assert class_thresholds([], [], 0.5).shape == (0,) and class_thresholds([], [], 0.5, num_classes=2).tolist() == [1, 1]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), max_size=40), st.floats(0, 1))
def test_thresholds_are_those_of_a_sorted_list(rows: list[tuple[float, int]], portion: float) -> None:
    found = class_thresholds([row[0] for row in rows], np.array([row[1] for row in rows], int), portion, num_classes=4)
    for k in range(4):
        ranked = sorted((value for value, own in rows if own == k), reverse=True)
        assert found[k] == (ranked[math.floor((len(ranked) - 1) * portion + 1e-9)] if ranked else 1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_portion_never_raises_a_threshold(values: list[float], one: float, other: float) -> None:
    low, high = sorted([one, other])
    first = class_thresholds(values, np.zeros(len(values), int), low)
    assert class_thresholds(values, np.zeros(len(values), int), high) <= first


# ---- CBST ----


def plain_cbst(logits: np.ndarray, portion: float) -> tuple[list[int], list[bool]]:
    """The published rule, one sample at a time."""
    p = probs(logits)
    n, c = p.shape
    limits = []
    for k in range(c):
        ranked = sorted((p[i].max() for i in range(n) if p[i].argmax() == k), reverse=True)
        limits.append(ranked[math.floor((len(ranked) - 1) * portion)] if ranked else 1.0)
    labels = [int(np.argmax(p[i] / limits)) for i in range(n)]
    return labels, [bool(p[i][k] / limits[k] > 1) for i, k in enumerate(labels)]


@pytest.mark.parametrize("seed", range(5))
def test_cbst_is_the_published_rule(seed: int) -> None:
    logits, _, _ = world(seed)
    chosen = select_pseudo_labels(logits, portion=0.3, method="cbst")
    labels, kept = plain_cbst(logits, 0.3)
    assert chosen.proposed.tolist() == labels
    assert chosen.kept.tolist() == kept
    assert chosen.labels.tolist() == [k if keep else -1 for k, keep in zip(labels, kept, strict=True)]


def test_cbst_by_hand_moves_a_sample_to_the_class_with_the_low_threshold() -> None:
    p = np.array([[0.98, 0.02], [0.90, 0.10], [0.55, 0.45], [0.46, 0.54], [0.60, 0.40], [0.49, 0.51]])
    chosen = select_pseudo_labels(np.log(p), portion=0.6, method="cbst")
    # class 0: .98 .90 .60 .55, index floor(3 * .6) = 1 -> .90; class 1: .54 .51, index floor(.6) = 0 -> .54
    assert chosen.thresholds == pytest.approx([0.90, 0.54])
    # .45/.54 > .55/.90: sample 2 is predicted 0 and proposed 1
    assert chosen.proposed.tolist() == [0, 0, 1, 1, 1, 1]
    assert chosen.predicted.tolist() == [0, 0, 0, 1, 0, 1]
    assert chosen.labels.tolist() == [0, -1, -1, -1, -1, -1]
    assert chosen.why.tolist() == ["kept", WHY[1], WHY[2], WHY[2], WHY[2], WHY[2]]
    assert chosen.counts.tolist() == [1, 0]


def test_a_class_never_predicted_is_never_chosen() -> None:
    logits, features, head = world(1)
    logits[:, 2] = logits.min() - 5
    for method in ("cbst", "crst-mrkld", "crst"):
        chosen = select_pseudo_labels(logits, portion=0.9, method=method)
        assert chosen.thresholds[2] == 1
        assert (chosen.proposed != 2).all()
    for method, empty in (("cbst+avh", np.inf), ("cbst+norm", np.inf), ("cbst+loss", -np.inf)):
        chosen = select_pseudo_labels(logits, features, head, portion=0.9, method=method)
        assert chosen.thresholds[2] == empty and chosen.counts[2] == 0 and chosen.counts.sum() > 100


def test_saturated_probabilities_are_still_told_apart() -> None:
    gaps = np.arange(60.0, 160.0, 10.0)  # every softmax is exactly 1.0, in float64 too
    logits = np.stack([gaps, np.zeros(10)], axis=1).astype(np.float32)
    assert (probs(logits.astype(np.float64))[:, 0] == 1).all()
    chosen = select_pseudo_labels(logits, portion=0.5, method="cbst")
    assert np.flatnonzero(chosen.kept).tolist() == [6, 7, 8, 9]
    tied = select_pseudo_labels(np.tile(logits[:1], (10, 1)), portion=0.5, method="cbst")
    assert not tied.kept.any()


# ---- CRST ----


@pytest.mark.parametrize("alpha", [0.05, 0.25, 1.0, 4.0])
def test_lrent_short_form_is_the_long_form(alpha: float) -> None:
    logits, _, _ = world(3, sharp=1.0)
    chosen = select_pseudo_labels(logits, portion=0.3, method="crst-lrent", alpha=alpha)
    p, limits = probs(logits), chosen.thresholds
    raw = (p / limits) ** (1 / alpha)
    soft = raw / raw.sum(1, keepdims=True)
    cost = (-soft * np.log(p) + alpha * soft * np.log(np.maximum(soft, 1e-300))).sum(1)
    gain = -(soft * np.log(limits)).sum(1) - cost  # alpha times the log of the short form's sum
    clear = np.abs(gain) > 1e-9  # at the sample that sets a threshold the two sides are equal but for rounding
    assert clear.mean() > 0.95
    assert chosen.kept[clear].tolist() == (gain > 0)[clear].tolist()
    assert chosen.labels[chosen.kept] == pytest.approx(soft[chosen.kept])
    assert chosen.labels[chosen.kept].sum(1) == pytest.approx(1)
    assert (chosen.labels[~chosen.kept] == 0).all()
    assert chosen.kept[select_pseudo_labels(logits, portion=0.3, method="cbst").kept].all()  # it keeps more


def test_lrent_becomes_cbst_as_alpha_vanishes() -> None:
    logits, _, _ = world(4)
    hard = select_pseudo_labels(logits, portion=0.4, method="cbst")
    soft = select_pseudo_labels(logits, portion=0.4, method="crst-lrent", alpha=1e-6)
    # the samples that set the thresholds have p / lambda = 1 exactly, and the sum is then barely above 1
    edge = np.isclose(probs(logits)[np.arange(len(logits)), hard.proposed], hard.thresholds[hard.proposed])
    assert soft.kept[~edge].tolist() == hard.kept[~edge].tolist()
    both = soft.kept & hard.kept
    assert soft.labels[both] == pytest.approx(np.eye(4)[hard.labels[both]], abs=1e-6)


def test_lrent_keeps_nothing_where_all_are_certain_ties() -> None:
    logits = np.array([[800.0, 0.0, 0.0], [800.0, 0.0, 0.0], [0.0, 800.0, 0.0], [1.0, 1.0, 800.0]])  # p = 1: thresholds 1
    soft = select_pseudo_labels(logits, portion=1.0, method="crst-lrent", alpha=1.0)
    assert soft.thresholds.tolist() == [1, 1, 1] and not soft.kept.any()


def test_mrkld_selects_as_cbst_and_crst_as_lrent() -> None:
    for first, second in (("cbst", "crst-mrkld"), ("crst-lrent", "crst")):
        assert np.array_equal(select(first, 6, portion=0.3).labels, select(second, 6, portion=0.3).labels)


# ---- another score in the place of the probability ----


def test_cbst_avh_is_equation_4_one_sample_at_a_time() -> None:
    logits, features, head = world(7)
    chosen = select_pseudo_labels(logits, features, head, portion=0.3, method="cbst+avh")
    labels, _ = plain_cbst(logits, 0.3)
    avc, p = avc_of(features, head.weight), probs(logits)
    beta = []
    for k in range(4):
        ranked = sorted((avc[i, k] for i in range(len(p)) if p[i].argmax() == k), reverse=True)
        beta.append(ranked[math.floor((len(ranked) - 1) * 0.3)])
    assert chosen.thresholds == pytest.approx(beta)
    assert chosen.proposed.tolist() == labels
    assert chosen.kept.tolist() == [bool(avc[i, k] > beta[k]) for i, k in enumerate(labels)]
    assert (chosen.kept != select_pseudo_labels(logits, portion=0.3, method="cbst").kept).any()  # softmax has no say in it


def test_cbst_avh_reduces_to_cbst_where_avc_orders_as_the_probability() -> None:
    at = np.deg2rad(np.random.default_rng(0).uniform(1, 89, 100))
    features = np.stack([np.cos(at), np.sin(at)], axis=1)  # between two classes at right angles: angles sum to 90 degrees
    head = Head("angular", np.eye(2), scale=7.0)
    for portion in (0.1, 0.35, 0.8):
        plain = select_pseudo_labels(None, features, head, portion=portion, method="cbst")
        avh = select_pseudo_labels(None, features, head, portion=portion, method="cbst+avh")
        stayed = plain.proposed == plain.predicted  # p / lambda and AVC / beta order alike within the predicted class
        assert plain.kept[stayed].tolist() == avh.kept[stayed].tolist()
        assert plain.kept.sum() > 0


def test_a_score_that_is_hard_at_its_high_end_is_turned_around() -> None:
    low, high, plain = (select(method, 9, portion=0.3) for method in ("cbst+loss", "cbst+confidence", "cbst"))
    assert low.kept.tolist() == high.kept.tolist() == plain.kept.tolist()
    assert low.thresholds == pytest.approx(-np.log(high.thresholds))


@pytest.mark.parametrize("method", ["cbst+avh", "avc"])
def test_moving_the_space_of_a_gaussian_head_selects_the_same(method: str) -> None:
    _, features, head = world(12)
    shift = 20 * np.random.default_rng(0).normal(size=features.shape[1])
    here, there = (
        select_pseudo_labels(None, features + by, Head("gaussian", head.weight + by), portion=0.3, method=method)
        for by in (0, shift)
    )
    assert here.labels.tolist() == there.labels.tolist() and here.kept.any()
    assert here.thresholds == pytest.approx(there.thresholds)
    center = head.weight.mean(0)  # architecture.md, section 2: the mean of the class means
    avc = avc_of(features - center, head.weight - center)
    predicted = avc.argmax(1) if method == "avc" else Head("gaussian", head.weight).logits(features).argmax(1)
    own = avc[np.arange(len(avc)), predicted]
    assert here.thresholds == pytest.approx(class_thresholds(own, predicted, 0.3, num_classes=4))


def test_avc_alone_is_cbst_on_angles() -> None:
    _, features, head = world(11)
    chosen = select_pseudo_labels(None, features, head, portion=0.3, method="avc")
    same = select_pseudo_labels(np.log(avc_of(features, head.weight)), portion=0.3, method="cbst")  # softmax of log p is p
    assert chosen.labels.tolist() == same.labels.tolist()
    assert chosen.thresholds == pytest.approx(same.thresholds)
    assert chosen.predicted.tolist() == angles(features, head.weight).argmin(1).tolist()


def test_one_threshold_for_all() -> None:
    logits, _, _ = world(12)
    top = probs(logits).max(1)
    fixed = select_pseudo_labels(logits, portion=0.5, method="threshold", threshold=0.9)
    assert fixed.kept.tolist() == (top > 0.9).tolist()
    assert fixed.labels[fixed.kept].tolist() == logits.argmax(1)[fixed.kept].tolist()
    ranked = select_pseudo_labels(logits, portion=0.25, method="threshold")
    assert ranked.kept.sum() == math.floor(199 * 0.25)
    assert top[ranked.kept].min() > top[~ranked.kept].max()


# ---- every sample, with a weight or a soft label ----


def test_weighted_by_hand() -> None:
    chosen = select_pseudo_labels(np.log([[0.9, 0.1], [0.4, 0.6]]), portion=0.2, method="weighted")
    assert chosen.labels == pytest.approx(np.array([[0.9, 0], [0, 0.6]])) and chosen.kept.all()
    assert chosen.proposed.tolist() == [0, 1] and chosen.thresholds.tolist() == [0, 0]


def test_depict_by_hand() -> None:
    p = np.array([[0.8, 0.2], [0.55, 0.45]])  # sums 1.35 and 0.65
    chosen = select_pseudo_labels(np.log(p), portion=0.2, method="depict")
    raw = p / np.sqrt([1.35, 0.65])
    assert chosen.labels == pytest.approx(raw / raw.sum(1, keepdims=True))
    assert chosen.predicted.tolist() == [0, 0] and chosen.proposed.tolist() == [0, 1]  # the rare class gains
    assert chosen.class_weights == pytest.approx(np.sqrt([1.35, 0.65]))
    logits = np.array([[0.0, 1.0, -2000.0], [1.0, 0.0, -2000.0]])  # a class whose probabilities all vanish
    assert select_pseudo_labels(logits, portion=1.0, method="depict").labels.sum(1) == pytest.approx(1)


# ---- what thresholds are ranked among, and whose counts ----

FOUR = np.log([[0.5, 0.45, 0.05], [0.3, 0.4, 0.3], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]])  # predicted 0, 1, 0, 2


@pytest.mark.parametrize(
    ("portion", "thresholds", "labels"),
    [
        (0.5, [0.8, 0.4, 0.6], [1, -1, -1, -1]),  # .45 / .4 > .5 / .8: the first is taken for 1
        (1.0, [0.5, 0.4, 0.6], [1, -1, 0, -1]),
    ],
)
def test_thresholds_by_hand(portion: float, thresholds: list[float], labels: list[int]) -> None:
    chosen = select_pseudo_labels(FOUR, portion=portion, method="cbst")
    assert chosen.thresholds == pytest.approx(thresholds)
    assert chosen.labels.tolist() == labels
    assert chosen.class_weights == pytest.approx(thresholds)


def test_a_broken_row_changes_no_threshold() -> None:
    more = np.concatenate([FOUR, [[np.nan, 0, 0]]])
    whole, with_it = (select_pseudo_labels(x, portion=1.0, method="cbst") for x in (FOUR, more))
    assert with_it.thresholds == pytest.approx(whole.thresholds) and with_it.labels.tolist() == [*whole.labels.tolist(), -1]


# ---- what holds for every method ----


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_every_method(method: str) -> None:
    chosen = select(method, portion=0.3)
    hard = chosen.labels if chosen.labels.ndim == 1 else np.where(chosen.kept, chosen.labels.argmax(1), -1)
    assert (hard >= 0).tolist() == chosen.kept.tolist()
    assert hard[chosen.kept].tolist() == chosen.proposed[chosen.kept].tolist()
    assert (chosen.why == "kept").tolist() == chosen.kept.tolist()
    assert chosen.thresholds.shape == (4,)
    assert chosen.kept.all() if method in ALL_KEPT else 0 < chosen.kept.sum() < 200
    assert not select(method, portion=0.0).kept.any()
    assert set(select(method, portion=0.0).why) == {"portion is 0"}


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_a_broken_row_is_not_kept_and_changes_no_other(method: str) -> None:
    if "knn" in method or "gm_" in method:
        pytest.skip("these scores look at the other samples, so a row that is gone changes them")
    logits, features, head = world(2)
    broken_logits, broken = logits.copy(), features.copy()
    broken_logits[5], broken[5] = np.nan, np.nan
    chosen = select_pseudo_labels(broken_logits, broken, head, portion=0.3, method=method)
    rest = np.arange(200) != 5
    alone = select_pseudo_labels(logits[rest], features[rest], head, portion=0.3, method=method)
    assert chosen.why[5] == "not finite" and not chosen.kept[5]
    assert chosen.kept[rest].tolist() == alone.kept.tolist()


@pytest.mark.parametrize("method", ["cbst", "crst", "cbst+avh", "avc"])
def test_samples_may_come_in_any_order(method: str) -> None:
    logits, features, head = world(13)
    order = np.random.default_rng(1).permutation(200)
    straight = select_pseudo_labels(logits, features, head, portion=0.3, method=method)
    mixed = select_pseudo_labels(logits[order], features[order], head, portion=0.3, method=method)
    assert np.array_equal(mixed.labels, straight.labels[order])


def test_logits_may_be_left_to_the_head_and_tensors_go_in() -> None:
    torch = pytest.importorskip("torch")
    logits, features, head = world(14)
    whole = select_pseudo_labels(logits, features, head, portion=0.3)
    made = select_pseudo_labels(None, features, head, portion=0.3)
    tensors = select_pseudo_labels(torch.from_numpy(logits), torch.from_numpy(features), head, portion=0.3)
    assert whole.labels.tolist() == made.labels.tolist() == tensors.labels.tolist()


def test_a_feature_without_direction_has_no_angles_but_a_probability() -> None:
    logits, features, head = world(15)
    features[3] = 0
    logits = head.logits(features)
    assert select_pseudo_labels(logits, features, head, portion=0.3, method="cbst+avh").why[3] == "not finite"
    assert select_pseudo_labels(logits, features, head, portion=0.3, method="cbst").why[3] != "not finite"


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_no_samples_at_all_and_none_that_can_be_used(method: str) -> None:
    logits, features, head = world(16, n=6)
    chosen = select_pseudo_labels(logits[:0], features[:0], head, portion=0.5, method=method)
    assert chosen.kept.shape == (0,) and chosen.why.shape == (0,) and chosen.thresholds.shape == (4,)
    broken = select_pseudo_labels(logits * np.nan, features * np.nan, head, portion=0.5, method=method)
    assert set(broken.why) == {"not finite"} and (broken.proposed == -1).all() and not broken.kept.any()


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_a_single_sample(method: str) -> None:
    logits, features, head = world(17, n=1)
    if method in ("cbst+knn_agreement", "cbst+mean_shift"):  # a sample without neighbors neither agrees nor moves
        assert select_pseudo_labels(logits, features, head, 1.0, method).why.tolist() == ["not finite"]
        return
    lrent = method in ("crst", "crst-lrent")  # its sum is above 1 by the other classes
    for portion in (0.5, 1.0):
        chosen = select_pseudo_labels(logits, features, head, portion, method)
        assert chosen.kept[0] == (lrent or method in ALL_KEPT)
        assert chosen.why[0] == ("kept" if chosen.kept[0] else "class too small")


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_samples_that_are_all_alike(method: str) -> None:
    logits, features, head = world(18, n=1)
    logits, features = np.repeat(logits, 10, axis=0), np.repeat(features, 10, axis=0)
    chosen = select_pseudo_labels(logits, features, head, portion=0.5, method=method)
    assert chosen.kept.sum() == (10 if method in ("crst", "crst-lrent", *ALL_KEPT) else 0)


def test_portion_one() -> None:
    for method in ("cbst", "crst-mrkld", "cbst+avh", "avc", "cbst+norm"):
        assert select(method, 19, portion=1.0).kept.sum() >= 200 - 4, method  # at most the least sure of each class is left out
    assert select("threshold", 19, portion=1.0).kept.sum() == 199


@pytest.mark.parametrize("method", ["cbst", "crst", "crst-mrkld", "crst-lrent", "cbst+avh", "avc", "threshold"])
def test_a_single_class_is_all_ties(method: str) -> None:
    logits, features, head = world(20, n=8, c=1)
    chosen = select_pseudo_labels(logits, features, head, portion=0.5, method=method)
    assert not chosen.kept.any() and (chosen.proposed == 0).all()


def test_infinite_logits_are_not_finite() -> None:
    logits, _, _ = world(21, n=20)
    logits[3, 1], logits[4, 0] = np.inf, -np.inf
    chosen = select_pseudo_labels(logits, portion=0.9, method="cbst")
    assert (chosen.why == "not finite").nonzero()[0].tolist() == [3, 4]


def test_a_fixed_threshold_asks_for_no_portion() -> None:
    logits = np.log([[0.95, 0.05], [0.6, 0.4], [0.1, 0.9]])  # 3 samples: a fifth of them is none
    chosen = select_pseudo_labels(logits, portion=0.2, method="threshold", threshold=0.8)
    assert chosen.labels.tolist() == [0, -1, 1] and chosen.why.tolist() == ["kept", "not above its threshold", "kept"]
    assert not select_pseudo_labels(logits, portion=0.0, method="threshold", threshold=0.8).kept.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "cbst+ahv"}, "Did you mean cbst\\+avh"),
        ({"method": "cbst", "portion": 1.5}, "portion must be a number from 0 to 1, got 1.5"),
        ({"method": "cbst", "portion": float("nan")}, "portion must be"),
        ({"method": "cbst", "portions": 0.5}, "there is no option 'portions'"),
        ({"method": "crst", "alpha": 0}, "alpha must be a number above 0, got 0"),
        ({"method": "coral"}, "method must be one of"),
        ({"method": "cbst", "threshold": 0.9}, "threshold goes with the method threshold"),
        ({"method": "threshold", "threshold": 9}, "threshold must be a number of 0 or more and of at most 1, got 9"),
        ({"method": "cbst+avh", "features": None}, "looks at features"),
        ({"method": "cbst", "logits": None, "features": None}, "need logits, or features and a head"),
        ({"method": "cbst+avh", "features": np.ones((7, 6))}, "one row of features per row of logits"),
        ({"method": "cbst+avh", "head": np.ones((5, 6))}, "the head has 5 classes, the logits 4"),
        ({"method": "cbst", "logits": np.zeros((3, 0)), "features": None, "head": None}, "a column for each class"),
        ({"method": "cbst", "logits": np.zeros(3)}, "logits must be two-dimensional"),
        ({"predicted": [0, 1], "portion": 0.5}, "one confidence per prediction"),
        ({"predicted": [0.5], "portion": 0.5}, "class indices"),
        ({"predicted": [-5], "portion": 0.5}, "got -5"),
        ({"predicted": [0], "portion": 0.5, "num_classes": -1}, "num_classes"),
        ({"predicted": [0], "portion": True}, "portion must be"),
        ({"predicted": [2], "portion": 0.5, "num_classes": 2}, "below 2, got 2"),
    ],
)
def test_bad_inputs_are_named(options: dict[str, Any], message: str) -> None:
    logits, features, head = world(0)
    given = {"logits": logits, "features": features, "head": head, "portion": 0.3, **options}
    with pytest.raises(InputError, match=message):
        class_thresholds([0.1], **options) if "predicted" in options else select_pseudo_labels(**given)
