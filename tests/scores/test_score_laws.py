"""Laws that every score keeps, and independent answers that every score must give."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax
from scipy.stats import entropy, norm, ortho_group
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

import hardsight
from hardsight import SCORES, Head, score
from hardsight.scores.registry import ScopeName
from hardsight.scores.sweep import ARRAY_ROWS
from oracles import angle_table, generalized_entropy, plain_logits, row_scores
from properties import examples

OF_A_SNAPSHOT = {name: one for name, one in SCORES.items() if one.scope in ("row", "dataset")}  # the others need more
ROW = [name for name, one in SCORES.items() if one.default]
BY_NAME = [name for name, one in SCORES.items() if one.scope == "row" and not one.default]
DATASET = [name for name, one in SCORES.items() if one.scope == "dataset"]
ANGULAR = ["avh", "avh_relative", "avc_label", "own_angle", "nearest_angle", "angular_gap", "avh_scaled"]
FROM_LOGITS = [name for name, one in SCORES.items() if one.from_logits()]
HARD_ENDS = {
    "high": {"avh", "avh_nearest", "avh_relative", "avh_scaled", "own_angle", "angular_gap", "entropy", "el2n", "loss", "grand"}
    | {"energy", "gen", "mean_shift", "prototypicality"}
}

# Of float64 scores, relative or, below 1, absolute. Three are quotients that cancellation makes worse: differences over
# a range that may be small, and squares over a variance that may be little more than its floor.
CLOSE = dict.fromkeys(SCORES, 1e-12) | {"avh_scaled": 1e-10, "norm_in_class": 1e-10, "gm_likelihood": 1e-8, "mean_shift": 1e-10}

sizes = st.tuples(st.integers(1, 40), st.integers(2, 24), st.integers(2, 20))  # n, d, c
seeds = st.integers(0, 2**32 - 1)


def random_input(n: int, d: int, c: int, seed: int, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(c, d)).astype(dtype), rng.integers(0, c, n)


def every_score(features: Any, head: Any, labels: Any, **more: Any) -> dict[str, np.ndarray]:
    """All scores that the head allows, through the table; nulls as NaN."""
    table = score(features, head, labels, scores="all", **more)
    return {name: table.column(name).to_numpy().astype(np.float64) for name in OF_A_SNAPSHOT if name in table.column_names}


def heads(c: int, d: int, seed: int, dtype: Any = np.float64) -> dict[str, Head]:
    rng = np.random.default_rng(seed)
    weight, bias = rng.normal(size=(c, d)).astype(dtype), rng.normal(size=c).astype(dtype)
    shared, own = rng.normal(size=d).astype(dtype), rng.normal(size=(c, d)).astype(dtype)
    return {
        "linear": Head("linear", weight),
        "linear with bias": Head("linear", weight, bias),
        "linear with far biases": Head("linear", weight, 6 * bias - 20 * np.arange(c) / c),
        "cosine": Head("cosine", weight, scale=7.0),
        "cosine without scale": Head("cosine", weight),
        "angular": Head("angular", weight, scale=5.0),
        "gaussian": Head("gaussian", weight, log_prior=bias),
        "gaussian, shared variance": Head("gaussian", weight, log_variance=shared),
        "gaussian, own variances": Head("gaussian", weight, log_variance=own, log_prior=bias),
    }


# ---- invariances ----


@given(sizes, seeds)
def test_angular_scores_ignore_lengths(size: tuple[int, int, int], seed: int) -> None:
    features, weight, labels = random_input(*size, seed)
    rng = np.random.default_rng(seed + 1)
    longer, stretched = features * rng.uniform(0.01, 100, (size[0], 1)), weight * rng.uniform(0.01, 100, (size[2], 1))
    before, after = every_score(features, weight, labels), every_score(longer, stretched, labels)
    for name in ANGULAR:
        np.testing.assert_allclose(after[name], before[name], rtol=CLOSE[name], atol=CLOSE[name], err_msg=name)


@given(sizes, seeds)
def test_a_shared_rotation_changes_nothing(size: tuple[int, int, int], seed: int) -> None:
    features, weight, labels = random_input(size[0], max(2, size[1]), size[2], seed)
    rotation = ortho_group.rvs(features.shape[1], random_state=seed)
    before, after = every_score(features, weight, labels), every_score(features @ rotation, weight @ rotation, labels)
    for name in [*ROW, *BY_NAME, "avh_scaled", "norm_in_class", "prototypicality", "mean_shift"]:
        np.testing.assert_allclose(after[name], before[name], rtol=CLOSE[name], atol=CLOSE[name], err_msg=name)


@pytest.mark.parametrize("kind", [kind for kind in heads(2, 2, 0) if kind.startswith("gaussian")])
@settings(max_examples=examples(8))
@given(size=sizes, seed=seeds)
def test_moving_the_space_of_a_gaussian_head_changes_nothing(kind: str, size: tuple[int, int, int], seed: int) -> None:
    """Features and means moved together: the scores that look at the head see no difference."""
    n, d, c = size
    features, _, labels = random_input(n, d, c, seed)
    head, shift = heads(c, d, seed)[kind], 3 * np.random.default_rng(seed + 1).normal(size=d)
    there = Head("gaussian", head.weight + shift, log_variance=head.log_variance, log_prior=head.log_prior)
    before, after = score(features, head, labels), score(features + shift, there, labels)
    for name in set(ROW) - {"norm"}:
        expected, alone = before.column(name).to_numpy(), SCORES[name].function(features + shift, there, labels)
        np.testing.assert_allclose(after.column(name).to_numpy(), expected, rtol=1e-9, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(alone, expected, rtol=1e-9, atol=1e-9, err_msg=f"{name} on its own")


@given(sizes, seeds)
def test_scores_follow_their_samples_when_rows_are_shuffled(size: tuple[int, int, int], seed: int) -> None:
    features, weight, labels = random_input(*size, seed)
    order = np.random.default_rng(seed + 1).permutation(size[0])
    before, after = every_score(features, weight, labels), every_score(features[order], weight, labels[order])
    for name in set(OF_A_SNAPSHOT) - {"knn_agreement"}:  # where neighbors are equally near, the earlier row counts
        np.testing.assert_allclose(after[name], before[name][order], rtol=CLOSE[name], atol=CLOSE[name], err_msg=name)


@given(sizes, seeds)
def test_scores_do_not_depend_on_the_order_of_the_classes(size: tuple[int, int, int], seed: int) -> None:
    features, weight, labels = random_input(*size, seed)
    order = np.random.default_rng(seed + 1).permutation(size[2])
    place = np.argsort(order)
    before, after = every_score(features, weight, labels), every_score(features, weight[order], place[labels])
    for name in OF_A_SNAPSHOT:
        np.testing.assert_allclose(after[name], before[name], rtol=CLOSE[name], atol=CLOSE[name], err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=examples(12))
@given(size=sizes, seed=seeds)
def test_shares_sum_to_one_over_the_classes(size: tuple[int, int, int], seed: int, dtype: Any) -> None:
    features, weight, _ = random_input(*size, seed, dtype)
    for share in (hardsight.avh, hardsight.scores.avc_label, hardsight.scores.confidence, hardsight.scores.confidence_nobias):
        total = sum(share(features, weight, np.full(size[0], k)) for k in range(size[2]))
        np.testing.assert_allclose(total, 1, rtol=1e-5 if dtype == np.float32 else 1e-12)


@given(sizes, seeds)
def test_values_lie_in_their_range(size: tuple[int, int, int], seed: int) -> None:
    values, c = every_score(*random_input(*size, seed, np.float32)), size[2]
    words = {"inf": np.inf, "pi": np.pi, "c": c, "log c": np.log(c), "1/c": 1 / c, "sqrt 2": np.sqrt(2)}
    for name, one in OF_A_SNAPSHOT.items():
        ends = [word.strip("[]()").strip() for word in one.range.split(",")]
        low, high = (-words[w[1:]] if w[1:] in words and w[0] == "-" else words[w] if w in words else float(w) for w in ends)
        known = values[name][np.isfinite(values[name])]
        slack = 1e-6 * max(1, abs(low) if np.isfinite(low) else 1, high if np.isfinite(high) else 1)
        assert ((known >= low - slack) & (known <= high + slack)).all(), (name, one.range, known.min(), known.max())


def test_the_hard_end_is_where_wrong_labels_are() -> None:
    """On separated clusters the scores of wrongly labeled samples lie on the hard side of the rightly labeled ones."""
    rng = np.random.default_rng(0)
    weight = np.eye(5, 8) * 4
    truth = rng.integers(0, 5, 400)
    features = weight[truth] + rng.normal(size=(400, 8)) * 0.3
    wrong = np.arange(400) < 60
    labels = np.where(wrong, (truth + 1) % 5, truth)
    values = every_score(features, weight, labels)
    for name, one in OF_A_SNAPSHOT.items():
        if one.labels and name != "norm_in_class":
            sign = 1 if one.hard == "high" else -1
            assert np.median(sign * values[name][wrong]) > np.median(sign * values[name][~wrong]), name
    assert {name for name, one in OF_A_SNAPSHOT.items() if one.hard == "high"} == HARD_ENDS["high"]


# ---- against plain answers ----


@pytest.mark.parametrize(("n", "d", "c"), [(1, 5, 3), (7, 5, 7), (60, 33, 20), (40, 512, 100), (20, 2, 50)])
def test_avh_against_a_float64_double_loop(n: int, d: int, c: int) -> None:
    """Sizes with B = 1, B = c and n, d, c all different: a wrong axis cannot hide."""
    features, weight, labels = random_input(n, d, c, seed=n, dtype=np.float32)
    theta = angle_table(features, weight)
    expected = theta[np.arange(n), labels] / theta.sum(1)
    assert hardsight.avh(features, weight, labels) == pytest.approx(expected, rel=2e-6, abs=0)
    table = score(features, weight, labels)  # all scores in one pass take another road to the same number
    assert table.column("avh").to_numpy() == pytest.approx(expected, rel=2e-6, abs=0)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_avh_at_small_and_large_angles(backend: str) -> None:
    """Angles from 1e-7 to pi - 1e-7 to the own class: where an arccos of a float32 cosine has lost all its digits."""
    away = np.concatenate([np.geomspace(1e-7, 0.5, 40), np.pi - np.geomspace(1e-7, 0.5, 40)])
    features = np.stack([np.cos(away), np.sin(away), np.zeros(80)], axis=1).astype(np.float32)
    weight = np.array([[1, 0, 0], [0, 0, 1], [0.3, -0.5, 0.2]], np.float32)
    theta, labels = angle_table(features, weight), np.zeros(80, int)
    expected = theta[:, 0] / theta.sum(1)
    if backend == "torch":
        torch = pytest.importorskip("torch")
        features, weight = torch.from_numpy(features), torch.from_numpy(weight)
    assert hardsight.avh(features, weight, labels) == pytest.approx(expected, rel=2e-6, abs=0)
    assert hardsight.scores.own_angle(features, weight, labels) == pytest.approx(theta[:, 0], rel=2e-6, abs=0)


@pytest.mark.parametrize("kind", heads(2, 2, 0))
@settings(max_examples=examples(15))
@given(size=sizes, seed=seeds)
def test_every_row_score_from_its_formula(kind: str, size: tuple[int, int, int], seed: int) -> None:
    n, d, c = size
    features, _, labels = random_input(n, d, c, seed)
    head = heads(c, d, seed)[kind]
    expected, table = row_scores(features, head, labels), score(features, head, labels)
    for name in ROW:
        if name == "confidence_nobias" and head.kind != "linear":
            continue  # there is no bias to leave out
        np.testing.assert_allclose(table.column(name).to_numpy(), expected[name], rtol=1e-12, atol=1e-12, err_msg=name)
        alone = SCORES[name].function(features, head, labels)
        np.testing.assert_allclose(alone, expected[name], rtol=1e-12, atol=1e-12, err_msg=f"{name} on its own")


@pytest.mark.parametrize("kind", heads(2, 2, 0))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_head_kinds_agree_with_their_own_logits(kind: str, dtype: Any) -> None:
    features, _, labels = random_input(50, 9, 13, 4, dtype)
    head = heads(13, 9, 5, dtype)[kind]
    logits = head.logits(features)
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        logits,
        plain_logits(features.astype(np.float64), head, angle_table(features, head.weight)),
        rtol=tolerance,
        atol=tolerance,
    )
    table = score(features, head, labels, scores=FROM_LOGITS)
    assert table.column("predicted").to_pylist() == logits.argmax(1).tolist()
    for name in FROM_LOGITS:
        given = SCORES[name].function(logits=logits, labels=labels)
        np.testing.assert_allclose(table.column(name).to_numpy(), given, rtol=tolerance, atol=tolerance, err_msg=name)


@given(st.integers(1, 20), st.integers(2, 12), st.floats(0.1, 200), seeds)
def test_confidence_family_against_scipy(n: int, c: int, spread: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, labels, rows = spread * rng.normal(size=(n, c)), rng.integers(0, c, n), np.arange(n)
    p, top = softmax(logits, axis=1), np.where(np.eye(c, dtype=bool)[labels], -np.inf, logits)
    expected = {
        "confidence": p[rows, labels],
        "predicted_confidence": p.max(1),
        "probability_margin": p[rows, labels] - np.where(np.eye(c, dtype=bool)[labels], -1, p).max(1),
        "logit_margin": logits[rows, labels] - top.max(1),
        "max_logit": logits.max(1),
        "entropy": entropy(p, axis=1),
        "el2n": np.linalg.norm(p - np.eye(c)[labels], axis=1),
        "loss": logsumexp(logits, axis=1) - logits[rows, labels],
        "energy": -logsumexp(logits, axis=1),
        "gen": generalized_entropy(logits),
    }
    assert set(expected) == set(FROM_LOGITS)
    for name, values in expected.items():
        np.testing.assert_allclose(
            SCORES[name].function(logits=logits, labels=labels), values, rtol=1e-12, atol=1e-12, err_msg=name
        )


@given(st.integers(1, 20), st.integers(2, 12), seeds)
def test_probabilities_give_what_their_logits_give(n: int, c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(n, c)), rng.integers(0, c, n)
    for name in set(FROM_LOGITS) - {"max_logit", "energy"}:
        from_logits = SCORES[name].function(logits=logits, labels=labels)
        from_probs = SCORES[name].function(probs=softmax(logits, axis=1), labels=labels)
        np.testing.assert_allclose(from_probs, from_logits, rtol=1e-12, atol=1e-12, err_msg=name)


@given(sizes, seeds)
def test_gap_and_margin_have_the_sign_of_being_right(size: tuple[int, int, int], seed: int) -> None:
    features, weight, labels = random_input(*size, seed)
    theta, logits = angle_table(features, weight), features @ weight.T
    gap, margin = hardsight.scores.angular_gap(features, weight, labels), hardsight.scores.logit_margin(features, weight, labels)
    assert ((gap < 0) == (theta.argmin(1) == labels)).all()
    assert ((margin > 0) == (logits.argmax(1) == labels)).all()


# ---- dataset scores ----


@settings(max_examples=examples(15))
@given(size=sizes, seed=seeds)
def test_scaled_scores_against_a_plain_loop(size: tuple[int, int, int], seed: int) -> None:
    features, weight, labels = random_input(*size, seed)
    values, lengths = hardsight.avh(features, weight, labels), np.linalg.norm(features, axis=1)
    wide = values.max() > values.min()
    expected = (values - values.min()) / (values.max() - values.min()) if wide else np.zeros(len(values))
    np.testing.assert_allclose(hardsight.scores.avh_scaled(features, weight, labels), expected, atol=1e-12)
    for row, label in enumerate(labels):
        mine = lengths[labels == label]
        span = mine.max() - mine.min()
        one = hardsight.scores.norm_in_class(features, labels)[row]
        assert one == pytest.approx((lengths[row] - mine.min()) / span if span else 0.0, abs=1e-10)


@settings(max_examples=examples(15))
@given(size=sizes, seed=seeds)
@example(size=(7, 7, 16), seed=0)  # a variance near the floor, but above it
def test_gm_likelihood_against_scipy(size: tuple[int, int, int], seed: int) -> None:
    features, weight, labels = random_input(*size, seed)
    features = 3 * features + 1000  # far from the origin, as means of activations are
    predicted = (features @ weight.T).argmax(1)
    means = {k: features[labels == k].mean(0) for k in set(labels.tolist())}
    pooled = np.mean([(x - means[k]) ** 2 for x, k in zip(features, labels.tolist(), strict=True)], axis=0)
    pooled = np.maximum(pooled, 1e-9 * (pooled.mean() or 1.0))  # the floor
    expected = [
        norm.logpdf(x, means[p], np.sqrt(pooled)).sum() if p in means else np.nan
        for x, p in zip(features, predicted.tolist(), strict=True)
    ]
    values = hardsight.scores.gm_likelihood(features, weight, labels)
    if pooled.min() < 1e-8 * max(1.0, pooled.max()):
        assert (np.isnan(values) == np.isnan(expected)).all()  # fewer samples than it takes: only the floor is left
    else:
        np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_gm_likelihood_of_one_sample_per_class_has_no_spread_to_measure() -> None:
    """The rounding of a difference is not a variance: the order of the classes must not decide it."""
    features, weight, _ = random_input(7, 2, 7, 0)
    values = hardsight.scores.gm_likelihood(features, weight, np.arange(7))
    place = np.array([3, 6, 0, 2, 5, 1, 4])
    again = hardsight.scores.gm_likelihood(features, weight[np.argsort(place)], place)
    np.testing.assert_allclose(again, values, rtol=1e-8)


@settings(max_examples=examples(15))
@given(size=sizes, seed=seeds, k=st.integers(1, 12))
def test_knn_agreement_against_scikit_learn(size: tuple[int, int, int], seed: int, k: int) -> None:
    n, d, c = size
    features, _, labels = random_input(n, d + 8, min(c, 4), seed)  # no near ties in so many dimensions
    values = hardsight.scores.knn_agreement(features, labels, k=k)
    if n == 1:
        assert np.isnan(values).all()
        return
    neighbors = NearestNeighbors(n_neighbors=min(k, n - 1), metric="cosine", algorithm="brute").fit(features)
    nearest = neighbors.kneighbors(return_distance=False)  # without the sample itself
    np.testing.assert_allclose(values, (labels[nearest] == labels[:, None]).mean(1))


def plain_agreement(features: np.ndarray, labels: np.ndarray, k: int) -> list[float]:
    """Each sample's neighbors by a sort of all the others: nearest first, the earlier row among equals."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    shares = []
    for row in range(len(unit)):
        others = [other for other in range(len(unit)) if other != row]
        nearest = sorted(others, key=lambda other: (-float(unit[row] @ unit[other]), other))[:k]
        shares.append(float(np.mean(labels[nearest] == labels[row])))
    return shares


@pytest.mark.parametrize("k", [1, 5, 10, 400])
@pytest.mark.parametrize("order", ["mixed", "by class", "all the same"])
def test_knn_agreement_with_many_ties_against_a_plain_loop(monkeypatch: pytest.MonkeyPatch, k: int, order: str) -> None:
    """Corners of a cube: their cosines are multiples of 1/4, exact in float32, and most of them tie."""
    rng = np.random.default_rng(k)
    features, labels = rng.choice([-1.0, 1.0], (150, 4)), rng.integers(0, 3, 150)
    if order == "by class":
        labels = np.sort(labels)
        features[:, 0] = np.where(labels == 0, 1, -1)
    if order == "all the same":
        features[:] = 1.0
    expected = plain_agreement(features, labels, k)
    assert hardsight.scores.knn_agreement(features, labels, k=k) == pytest.approx(expected, abs=1e-12)
    for queries, first, candidates in ((64, 16, 64), (7, 1, 3), (1000, 150, 150), (1, 149, 1)):
        monkeypatch.setattr("hardsight.scores.neighbors.QUERIES", queries)
        monkeypatch.setattr("hardsight.scores.search.FIRST", first)
        monkeypatch.setattr("hardsight.scores.search.CANDIDATES", candidates)
        assert hardsight.scores.knn_agreement(features, labels, k=k) == pytest.approx(expected, abs=1e-12)


def test_knn_agreement_of_many_samples_against_scikit_learn() -> None:
    features, _, labels = random_input(3000, 24, 5, 3, np.float32)
    neighbors = NearestNeighbors(n_neighbors=10, metric="cosine", algorithm="brute").fit(features.astype(np.float64))
    expected = (labels[neighbors.kneighbors(return_distance=False)] == labels[:, None]).mean(1)
    for rows in (np.arange(3000), np.argsort(labels, kind="stable")):
        np.testing.assert_allclose(hardsight.scores.knn_agreement(features[rows], labels[rows]), expected[rows])


# ---- one answer whatever the road: blocks, threads, torch ----


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Tiles of a few classes and slices of a few rows, so that small arrays take many of them."""

    def shrink(block: int, part: int) -> None:
        monkeypatch.setattr("hardsight.scores.sweep.BLOCK", block)
        monkeypatch.setattr("hardsight.scores.sweep.SLICE", {"numpy": part, "torch": part})

    return shrink


@pytest.mark.parametrize("kind", heads(2, 2, 0))
@pytest.mark.parametrize(("backend", "dtype"), [("numpy", np.float32), ("numpy", np.float64), ("torch", np.float32)])
def test_blocks_do_not_change_the_scores(small_blocks: Callable[[int, int], None], kind: str, dtype: Any, backend: str) -> None:
    features, _, labels = random_input(1030, 12, 24, 6, dtype)
    features[5], features[700] = 0, features[700] * dtype(1e-20)  # odd rows take a road of their own
    head = heads(24, 12, 7, dtype)[kind]
    given = features if backend == "numpy" else pytest.importorskip("torch").from_numpy(features)
    whole = every_score(given, head, labels)
    # Differences of logits are as exact as the logits: in float32 those of size 50 are steps of 4e-6 apart.
    size = np.abs(head.logits(features[np.arange(1030) != 5])).max() if dtype == np.float32 else 1.0
    small_blocks(2048, 256)
    parts = every_score(given, head, labels)
    for name in whole:
        close = 1e-6 if name in (*ANGULAR, "norm", "avc_predicted") else 1e-6 * max(1.0, size)
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-6, atol=close, err_msg=name)


def test_threads_do_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    features, weight, labels = random_input(6000, 32, 100, 9, np.float32)
    results = []
    for threads in (1, 2, 8):
        monkeypatch.setattr("hardsight.threads.num_threads", lambda threads=threads: threads)
        with threadpool_limits(threads):
            table = score(features, weight, labels)
            results.append((hardsight.avh(features, weight, labels), {name: table.column(name).to_numpy() for name in ROW}))
    for alone, together in results[1:]:
        np.testing.assert_allclose(alone, results[0][0], rtol=1e-6)
        for name in ROW:
            np.testing.assert_allclose(together[name], results[0][1][name], rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", heads(2, 2, 0))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=examples(8))
@given(size=sizes, seed=seeds)
def test_torch_twin_equals_numpy(kind: str, dtype: Any, size: tuple[int, int, int], seed: int) -> None:
    torch = pytest.importorskip("torch")
    n, d, c = size
    features, _, labels = random_input(n, d, c, seed, dtype)
    head = heads(c, d, seed, dtype)[kind]
    arrays = {name: getattr(head, name) for name in ("weight", "bias", "log_variance", "log_prior")}
    tensors = {name: None if array is None else torch.from_numpy(array) for name, array in arrays.items()}
    twin = Head(head.kind, scale=head.scale, **tensors)
    expected = every_score(features, head, labels)
    actual = every_score(torch.from_numpy(features), twin, torch.from_numpy(labels))
    for name in expected:
        if name == "gm_likelihood" and dtype == np.float32:
            continue  # a tie among float32 logits may predict another class
        tolerance = 1e-4 if dtype == np.float32 else CLOSE[name]
        np.testing.assert_allclose(actual[name], expected[name], rtol=tolerance, atol=tolerance, err_msg=name)


def test_a_tensor_of_many_rows_gives_the_bits_of_its_array() -> None:
    """Few rows go through torch, many through the array that shares their memory: for both, rows in between agree."""
    torch = pytest.importorskip("torch")
    n = ARRAY_ROWS
    features, weight, labels = random_input(n, 5, 4, 2, np.float32)
    x, layer = torch.from_numpy(features).requires_grad_(), torch.from_numpy(weight)
    expected = hardsight.avh(features, weight, labels)
    np.testing.assert_array_equal(hardsight.avh(x, layer, labels), expected)
    np.testing.assert_allclose(hardsight.avh(x[: n - 1], layer, labels[: n - 1]), expected[: n - 1], rtol=2e-6)
    halves = x.bfloat16()  # NumPy has no such type
    np.testing.assert_allclose(hardsight.avh(halves, layer, labels), hardsight.avh(halves.float(), layer, labels), rtol=2e-6)


# ---- the contract ----


@pytest.mark.parametrize("name", SCORES)
def test_every_score_describes_itself(name: str) -> None:
    one = SCORES[name]
    assert one.name == name == one.function.__name__
    assert one.hard in ("high", "low") and one.scope in get_args(ScopeName)
    assert one.range and one.formula and one.source and one.summary.endswith((".", ":")) is True
    assert getattr(hardsight.scores, name) is one.function


@pytest.mark.parametrize("name", OF_A_SNAPSHOT)
def test_every_score_is_a_pure_function(name: str) -> None:
    features, weight, labels = random_input(20, 4, 3, 2)
    arrays = [x.copy() for x in (features, weight, labels)]
    takes = inspect.signature(SCORES[name].function).parameters
    given = {"features": features, "head": weight, "labels": labels}
    ask = lambda: SCORES[name].function(**{key: value for key, value in given.items() if key in takes})
    first, second = ask(), ask()
    assert first.shape == (20,) and first.dtype == np.float64
    np.testing.assert_array_equal(first, second)
    for before, after in zip(arrays, (features, weight, labels), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_allclose(every_score(features, weight, labels)[name], first, rtol=1e-12, atol=1e-12)
