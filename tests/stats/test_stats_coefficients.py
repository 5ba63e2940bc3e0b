"""Coefficients against SciPy (including ties), resampling against plain loops, ceilings and calibration by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats as scipy_stats
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from hardsight import stats
from hardsight.errors import InputError
from hardsight.stats.answers import _half
from hardsight.stats.coefficients import KINDS, standard_error
from hardsight.stats.resampling import CHUNK, swap_tests

ORACLE: dict[str, Any] = {
    "pearson": scipy_stats.pearsonr,
    "spearman": scipy_stats.spearmanr,
    "kendall": scipy_stats.kendalltau,
}
RNG = np.random.default_rng(7)


def tied(n: int, values: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two related columns of few distinct values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = x + rng.normal(size=n)
    return np.round(x * values / 4), np.round(y * values / 4)


columns = st.integers(5, 40).flatmap(
    lambda n: st.tuples(*(hnp.arrays(np.float64, n, elements=st.integers(-3, 3).map(float)) for _ in range(2)))
)


@given(columns, st.sampled_from(KINDS))
def test_coefficients_are_scipys_with_heavy_ties(both: tuple[np.ndarray, np.ndarray], kind: str) -> None:
    x, y = both
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    found = stats.correlate_columns(kind, x, y)  # type: ignore[arg-type]
    oracle = ORACLE[kind](x, y)
    assert found.value == pytest.approx(oracle.statistic, abs=1e-12)
    assert getattr(stats, kind)(x, y) == pytest.approx(oracle.statistic, abs=1e-12)
    if abs(found.value) < 1 - 1e-9:
        assert found.p == pytest.approx(oracle.pvalue, abs=1e-9)
    assert found.low <= found.value <= found.high and found.n == len(x)


@given(columns, st.sampled_from(KINDS), st.floats(0.1, 10), st.floats(-5, 5))
def test_scaling_changes_nothing_and_turning_only_the_sign(
    both: tuple[np.ndarray, np.ndarray], kind: str, a: float, b: float
) -> None:
    x, y = both
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    function = getattr(stats, kind)
    assert function(a * x + b, y) == pytest.approx(function(x, y), abs=1e-9)
    assert function(-x, y) == pytest.approx(-function(x, y), abs=1e-12)
    assert function(y, x) == pytest.approx(function(x, y), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_far_values(scale: float) -> None:
    x, y = RNG.normal(size=(2, 50))
    assert stats.pearson(scale * x, y) == pytest.approx(stats.pearson(x, y))


@pytest.mark.parametrize("n", [2**16 - 1, 2**16, 2**16 + 1])
def test_kendall_of_more_values_than_two_bytes_can_count(n: int) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, n))
    assert stats.kendall(x, x + y) == scipy_stats.kendalltau(x, x + y).statistic


def test_pearson_interval_is_scipys() -> None:
    x, y = tied(60, 100)
    found = stats.correlate_columns("pearson", x, y, level=0.9)
    assert (found.low, found.high) == pytest.approx(tuple(scipy_stats.pearsonr(x, y).confidence_interval(0.9)))


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_as_promised(kind: Any) -> None:
    """The true coefficient of a normal pair lies in 95 % of 600 intervals; the standard errors of Fisher's z are correct."""
    rng = np.random.default_rng(3)
    rho = 0.5
    true = {"pearson": rho, "spearman": 6 / np.pi * np.arcsin(rho / 2), "kendall": 2 / np.pi * np.arcsin(rho)}[kind]
    found = []
    for _ in range(600):
        x, noise = rng.normal(size=(2, 80))
        found.append(stats.correlate_columns(kind, x, rho * x + np.sqrt(1 - rho**2) * noise))
    covered = np.mean([one.low <= true <= one.high for one in found])
    assert 0.92 < covered < 0.98
    assert np.std([one.fisher_z for one in found]) == pytest.approx(standard_error(kind, true, 80), rel=0.1)


def test_perfect_agreement_has_no_infinite_interval() -> None:
    x = np.arange(10.0)
    found = stats.correlate_columns("spearman", x, x**3)
    assert (found.value, found.low, found.high, found.p) == (1.0, 1.0, 1.0, 0.0)
    assert stats.interval("kendall", 0.2, 4) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        ([1.0, 1.0, 1.0, 1.0], [1, 2, 3, 4], r"x is constant \(1\)"),
        ([1, 2, 3, 4], [0.5] * 4, "y is constant"),
        ([1, 2, np.nan, 4], [1, 2, 3, 4], "x must be finite, but 1 of 4 values are not; the first is row 2"),
        ([1, 2, 3], [1, 2, 3, 4], "of the same length, got 3 and 4"),
        ([1], [1], "at least two samples, got 1"),
        ([[1, 2]], [1, 2], "one-dimensional"),
    ],
)
def test_columns_that_have_no_correlation(x: Any, y: Any, match: str) -> None:
    for function in (stats.pearson, stats.spearman, stats.kendall, stats.kendall_influence):
        with pytest.raises(InputError, match=match):
            function(x, y)


# ---- bootstrap ----


def drawn(n: int, replicates: int, seed: int = 0, clusters: np.ndarray | None = None) -> list[np.ndarray]:
    """The rows of each replicate, with the same draws as the bootstrap, written out."""
    rows = []
    streams = np.random.SeedSequence(seed).spawn(-(-replicates // CHUNK))
    for index, stream in enumerate(streams):
        rng = np.random.default_rng(stream)
        for _ in range(min(CHUNK, replicates - index * CHUNK)):
            if clusters is None:
                rows.append(rng.integers(0, n, n))
            else:
                names = np.unique(clusters)
                rows.append(
                    np.concatenate([np.flatnonzero(clusters == names[k]) for k in rng.integers(0, len(names), len(names))])
                )
    return rows


@pytest.mark.parametrize("values", [3, 1000])
@pytest.mark.parametrize("clustered", [False, True])
def test_bootstrap_is_scipy_on_rows_written_out(values: int, clustered: bool) -> None:
    x, y = tied(60, values)
    scores = np.column_stack([x, np.random.default_rng(5).normal(size=60)])
    clusters = np.arange(60) // 3 if clustered else None
    found = stats.bootstrap(scores, y, replicates=45, clusters=clusters)
    for at, rows in enumerate(drawn(60, 45, clusters=clusters)):
        for k in range(2):
            assert found.spearman[at, k] == pytest.approx(scipy_stats.spearmanr(scores[rows, k], y[rows]).statistic, abs=1e-12)
            assert found.pearson[at, k] == pytest.approx(scipy_stats.pearsonr(scores[rows, k], y[rows]).statistic, abs=1e-12)


def test_bootstrap_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, target = RNG.normal(size=(100, 3)), RNG.normal(size=100)
    told: list[tuple[int, int]] = []
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = stats.bootstrap(scores, target, replicates=50, progress=lambda *at: told.append(at))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    two = stats.bootstrap(scores, target, replicates=50)
    np.testing.assert_array_equal(one.spearman, two.spearman)
    assert told[-1] == (50, 50)
    assert not np.array_equal(one.spearman, stats.bootstrap(scores, target, replicates=50, seed=1).spearman)


def test_bootstrap_intervals_are_right_about_a_known_difference() -> None:
    """Most of 100 intervals of 95 % contain the true difference, and equal scores are seldom reported as different."""
    rng = np.random.default_rng(11)
    covered = apart = 0
    for seed in range(100):
        target = rng.normal(size=150)
        better, worse, like = (target + spread * rng.normal(size=150) for spread in (1.0, 2.0, 2.0))
        found = stats.bootstrap(np.column_stack([better, worse, like]), target, replicates=200, seed=seed)
        low, high = found.difference("pearson", 0, 1)
        covered += low <= 1 / np.sqrt(2) - 1 / np.sqrt(5) <= high
        apart += found.p("spearman", 1, 2) < 0.05
    assert covered >= 88 and apart <= 13


def test_bootstrap_of_constant_columns() -> None:
    target = np.arange(20.0)
    found = stats.bootstrap(np.column_stack([np.ones(20), target]), target, replicates=5)
    assert np.isnan(found.spearman[:, 0]).all() and np.isnan(found.pearson[:, 0]).all()
    with pytest.raises(InputError, match="no replicate has a coefficient"):
        found.interval("spearman", 0)


# ---- permutation ----


def test_swap_test_is_the_share_of_all_swaps() -> None:
    """Eight images have 256 ways to swap; the test's p from many coins is near the share among all of them."""
    rng = np.random.default_rng(2)
    target = np.arange(8.0)
    first, second = target + rng.normal(size=8), target + 4 * rng.normal(size=8)

    def standardized(column: np.ndarray) -> np.ndarray:
        rank = scipy_stats.rankdata(column)
        return (rank - rank.mean()) / rank.std()

    one, other, t = standardized(first), standardized(second), standardized(target)
    gaps = []
    for coins in itertools.product([False, True], repeat=8):
        swap = np.array(coins)
        a, b = np.where(swap, other, one), np.where(swap, one, other)
        gaps.append(abs(np.corrcoef(a, t)[0, 1] - np.corrcoef(b, t)[0, 1]))
    exact = np.mean(np.array(gaps) >= gaps[0] - 1e-9)
    assert stats.swap_test(first, second, target, permutations=20000) == pytest.approx(exact, abs=0.015)


def test_swap_test_holds_its_level_and_finds_what_is_there() -> None:
    rng = np.random.default_rng(4)
    p = []
    for seed in range(200):
        target, shared = rng.normal(size=(2, 60))
        first, second = (target + shared + rng.normal(size=60) for _ in range(2))
        p.append(stats.swap_test(first, second, target, permutations=99, seed=seed))
    assert np.mean(np.array(p) <= 0.05) < 0.1
    target = rng.normal(size=300)
    assert stats.swap_test(target + rng.normal(size=300), rng.normal(size=300), target, permutations=199) == 0.005


def test_swap_tests_of_several_pairs() -> None:
    scores, target = RNG.normal(size=(50, 3)), RNG.normal(size=50)
    all_pairs = [(0, 1), (0, 2), (1, 2)]
    p = swap_tests(scores, target, all_pairs, permutations=100)
    assert p == pytest.approx([stats.swap_test(scores[:, i], scores[:, j], target, permutations=100) for i, j in all_pairs])


# ---- Kendall sample by sample ----


@given(columns)
def test_concordance_is_that_of_all_pairs(both: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = both
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    tau, influence = stats.kendall_influence(x, y)
    assert tau == pytest.approx(scipy_stats.kendalltau(x, y).statistic, abs=1e-12)
    sign_x, sign_y = (np.sign(column[:, None] - column[None, :]) for column in (x, y))
    s, u, v = (sign_x * sign_y).sum(1), (sign_x != 0).sum(1), (sign_y != 0).sum(1)
    n = len(x)
    expected = 2 * n * (s / np.sqrt(u.sum() * v.sum()) - tau * (u / u.sum() + v / v.sum()) / 2)
    np.testing.assert_allclose(influence, expected, atol=1e-9)


def test_influence_is_what_leaving_a_sample_out_does() -> None:
    x, y = tied(200, 6)
    tau, influence = stats.kendall_influence(x, y)
    without = np.array([stats.kendall(np.delete(x, i), np.delete(y, i)) for i in range(200)])
    assert np.corrcoef(tau - without, influence)[0, 1] > 0.999
    assert np.std((tau - without) * 199) == pytest.approx(influence.std(), rel=0.02)


def test_errors_of_kendall_differences_are_those_of_the_bootstrap() -> None:
    rng = np.random.default_rng(9)
    target = np.round(rng.normal(size=150), 1)
    first, second = target + rng.normal(size=150), target + 1.5 * rng.normal(size=150)
    one, other = (stats.kendall_influence(score, target) for score in (first, second))
    outcome, difference, error = stats.compare_influences(one, other)
    again = []
    for _ in range(400):
        rows = rng.integers(0, 150, 150)
        again.append(stats.kendall(first[rows], target[rows]) - stats.kendall(second[rows], target[rows]))
    assert error == pytest.approx(np.std(again), rel=0.15)
    assert difference == pytest.approx(stats.kendall(first, target) - stats.kendall(second, target))
    assert outcome.statistic == pytest.approx(difference / error)
    assert stats.compare_influences(one, one)[0].p == 1


# ---- what people said ----


def test_frequency_and_entropy_by_hand() -> None:
    counts = np.array([[3, 1, 0], [0, 0, 0], [2, 2, 2], [0, 5, 0]])
    np.testing.assert_allclose(stats.selection_frequency(counts, [0, 0, 1, 0]), [0.75, np.nan, 1 / 3, 0])
    np.testing.assert_allclose(stats.selection_frequency(counts, [-1, 0, 1, 0])[0], np.nan)
    expected = [-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)), np.nan, np.log(3), 0]
    np.testing.assert_allclose(stats.answer_entropy(counts), expected)


def test_ceiling_is_what_a_perfect_score_reaches() -> None:
    """The probability of a right answer varies by image, and is itself the best possible score."""
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.2, 1, size=4000)
    right = rng.binomial(20, chance)
    counts, labels = np.stack([right, 20 - right], axis=1), np.zeros(4000, int)
    for kind in ("pearson", "spearman"):
        found = stats.noise_ceiling(counts, labels, kind=kind)  # type: ignore[arg-type]
        reached = getattr(stats, kind)(chance, stats.selection_frequency(counts, labels))
        assert found.ceiling == pytest.approx(reached, abs=0.01)
        assert found.reliability == pytest.approx(2 * found.split_half / (1 + found.split_half))
        assert found.n == 4000
    entropy = stats.noise_ceiling(counts, labels, of="entropy")
    assert 0 < entropy.ceiling <= 1


def test_halves_are_halves() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (500, 4))
    half = _half(counts, rng)
    assert (half >= 0).all() and (half <= counts).all()
    more = 2 * half.sum(1) - counts.sum(1)
    assert np.abs(more).max() <= 1 and more[counts.sum(1) % 2 == 1].mean() == pytest.approx(0, abs=0.2)


# ---- calibration, passes, open set ----


def test_reliability_by_hand() -> None:
    found = stats.reliability([0.1, 0.95, 0.95, 0.5, 1.0], [0, 1, 0, 1, 1], bins=10)
    assert found.count.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 0, 3]
    assert found.accuracy[9] == pytest.approx(2 / 3) and found.confidence[9] == pytest.approx(2.9 / 3)
    assert np.isnan(found.accuracy[1])
    assert found.ece == pytest.approx((0.1 + 0.5 + 0.9) / 5)


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_temperature_is_found_again(true: float) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5000, 5))
    labels = np.array([rng.choice(5, p=p) for p in softmax(logits, axis=1)])
    assert stats.fit_temperature(true * logits, labels) == pytest.approx(true, rel=0.1)
    mended = softmax(true * logits / stats.fit_temperature(true * logits, labels), axis=1)
    assert stats.reliability(mended.max(1), mended.argmax(1) == labels).ece < 0.03


def test_passes_by_hand() -> None:
    agree = np.tile([[[0.5, 0.5], [1.0, 0.0]]], (3, 1, 1))
    found = stats.pass_scores(agree)
    np.testing.assert_allclose(found["passes_entropy"], [np.log(2), 0])
    np.testing.assert_allclose(found["passes_information"], 0, atol=1e-15)
    np.testing.assert_allclose(found["passes_variance"], 0, atol=1e-15)


def test_auroc_is_scikit_learns_and_its_interval_delongs() -> None:
    rng = np.random.default_rng(0)
    known, unseen = np.round(rng.normal(size=300), 1), np.round(rng.normal(0.8, 1, size=200), 1)
    found = stats.auroc(known, unseen)
    assert found.value == pytest.approx(roc_auc_score(np.repeat([0, 1], [300, 200]), np.concatenate([known, unseen])))
    wins = (unseen[:, None] > known[None, :]) + 0.5 * (unseen[:, None] == known[None, :])  # DeLong, pair by pair
    error = np.sqrt(wins.mean(1).var(ddof=1) / 200 + wins.mean(0).var(ddof=1) / 300)
    assert (found.high - found.low) / 2 == pytest.approx(1.959964 * error, rel=1e-6)
    assert stats.auroc(known, unseen).value + stats.auroc(unseen, known).value == pytest.approx(1)


COUNT, ONES = np.arange(20.0), np.ones(20)
HALF = np.full((3, 2, 2), 0.5)
EVEN = np.stack([np.random.default_rng(1).binomial(4, 0.5, size=12)] * 2, axis=1)
REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("at least 4 samples, got 3", lambda: stats.correlate_columns("spearman", [1, 2, 3], [1, 3, 2])),
    ("between -1 and 1", lambda: stats.fisher_z(1.0)),
    ("level", lambda: stats.interval("pearson", 0.1, 20, level=95)),
    ("row 3 is not", lambda: stats.bootstrap(np.where(COUNT == 3, np.nan, COUNT)[:, None], COUNT)),
    ("replicates", lambda: stats.bootstrap(COUNT[:, None], COUNT, replicates=0)),
    ("two samples", lambda: stats.bootstrap(np.ones((1, 1)), np.ones(1))),
    ("the second score is constant", lambda: stats.swap_test(COUNT, ONES, COUNT)),
    ("permutations", lambda: stats.swap_test(COUNT, -COUNT, COUNT, permutations=0)),
    ("whole, .*, but row 0 has 0.5 for class 1", lambda: stats.answer_entropy(np.array([[1.0, 0.5]]))),
    ("0 or more .*, but row 0 has -2 for class 1", lambda: stats.answer_entropy(np.array([[1, -2]]))),
    ("whole, .*, but row 0 has nan", lambda: stats.answer_entropy(np.array([[1.0, np.nan]]))),
    (r"\(n, c\)", lambda: stats.answer_entropy(np.array([1, 2]))),
    ("whole numbers, got", lambda: stats.answer_entropy(np.array([["a", "b"]]))),
    ("two answers or more, got 0 of 10", lambda: stats.noise_ceiling(np.eye(10, dtype=int)[:, :3], np.zeros(10, int))),
    ("do not agree|constant", lambda: stats.noise_ceiling(EVEN, np.zeros(12, int))),
    ("row 1 holds 1.5", lambda: stats.reliability([0.5, 1.5], [1, 1])),
    ("at least one sample", lambda: stats.reliability([], [])),
    ("there are none", lambda: stats.fit_temperature(np.eye(3), [-1, -1, -1])),
    ("at least two, got 1", lambda: stats.pass_scores(HALF[:1])),
    (r"\(passes, n, c\)", lambda: stats.pass_scores(HALF[0])),
    ("sum to 1", lambda: stats.pass_scores(2 * HALF)),
    (r"known .* got shape \(1,\)", lambda: stats.auroc([1.0], COUNT)),
    (r"known .* got shape \(1, 2\)", lambda: stats.auroc([[1.0, 2.0]], COUNT)),
    ("known must be finite; row 0", lambda: stats.auroc([np.nan, 1.0], COUNT)),
]


@pytest.mark.parametrize(("match", "ask"), REFUSED)
def test_bad_input(match: str, ask: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=match):
        ask()
