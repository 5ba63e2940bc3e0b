"""Tests of correlations: published reference values, the AVH paper's printed tables, and laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm

from hardsight import stats
from hardsight.errors import InputError

TESTS: dict[str, Callable[..., stats.Outcome]] = {
    "williams": stats.williams,
    "steiger": stats.steiger,
    "meng": stats.meng,
}


@pytest.mark.parametrize(
    ("name", "numbers", "statistic", "p"),
    [
        ("williams", (0.3, 0.4, 0.5, 100), -1.0767, 0.2843),
        ("steiger", (0.3, 0.4, 0.5, 100), -1.0718, 0.2838),
        ("meng", (0.3, 0.4, 0.5, 100), -1.0707, 0.2843),
        ("steiger", (0.4, 0.5, 0.1, 103), -0.8887185, 0.37415),
        ("williams", (0.4, 0.5, 0.1, 103), -0.89128, 0.37492),
        ("williams", (0.2, 0.5, 0.1, 315), -4.49499, 9.8e-6),
        ("steiger", (0.2, 0.5, 0.1, 315), -4.41518, 1.01e-5),
        ("meng", (0.2, 0.5, 0.1, 315), -4.38993, 1.13e-5),
        ("williams", (0.20, 0.45, 0.80, 100), -4.56, None),
    ],
)
def test_published_values(name: str, numbers: tuple[float, float, float, int], statistic: float, p: float | None) -> None:
    found = TESTS[name](*numbers)
    digits = len(f"{statistic}".partition(".")[2])
    assert found.statistic == pytest.approx(statistic, abs=0.5001 * 10**-digits)
    if p is not None:
        assert found.p == pytest.approx(p, rel=0.01 if p < 1e-3 else 0, abs=0.00005 if p > 1e-3 else 0)


@pytest.mark.parametrize(
    ("a", "b", "printed"),
    [
        (0.5, 0.2, (1.62, 1.70, 1.80, 1.91, 2.06, 2.245, 2.50, 2.87, 3.50)),
        (0.7, 0.4, (2.03, 2.10, 2.20, 2.32, 2.47, 2.66, 2.94, 3.35, 4.05)),
    ],
)
def test_meng_over_a_range_of_overlap(a: float, b: float, printed: tuple[float, ...]) -> None:
    found = [stats.meng(a, b, tenth / 10, 50).statistic for tenth in range(9)]
    assert found == pytest.approx(printed, abs=0.0055)


def test_meng_of_a_small_study() -> None:
    found = stats.meng(0.63, -0.03, -0.19, 15)
    assert found.statistic == pytest.approx(1.68, abs=0.005) and found.p_greater == pytest.approx(0.047, abs=0.0005)


def test_fisher_of_independent_groups() -> None:
    found = stats.fisher_test(0.4, 0.5, 100, 100)
    assert (found.statistic, found.p) == pytest.approx((-0.8751012342, 0.3815188256), abs=5e-11)
    assert stats.fisher_test(0.657, 0.430, 62, 143).statistic == pytest.approx(2.110737, abs=5e-7)


@pytest.mark.parametrize(
    ("a", "b", "over"),
    [
        (0.360, 0.325, {0.0: 4.72, 0.3: 5.58, 0.5: 6.56, 0.7: 8.41, 0.8: 10.27, 0.9: 14.47, 0.95: 20.44}),
        (0.339, 0.325, {0.5: 2.61, 0.7: 3.35, 0.9: 5.76}),
    ],
)
def test_the_papers_pairs_by_the_right_test(a: float, b: float, over: dict[float, float]) -> None:
    for c, z in over.items():
        assert stats.steiger(a, b, c, 29987).statistic == pytest.approx(z, abs=0.0055)


# ---- laws ----

coefficients = st.floats(-0.9, 0.9)


@given(coefficients, coefficients, coefficients, st.integers(10, 5000), st.sampled_from(sorted(TESTS)))
def test_swapping_the_scores_turns_the_sign(a: float, b: float, c: float, n: int, name: str) -> None:
    assume(1 + 2 * a * b * c - a * a - b * b - c * c > 0)
    one, other = TESTS[name](a, b, c, n), TESTS[name](b, a, c, n)
    assert one.statistic == pytest.approx(-other.statistic, abs=1e-12) and one.p == pytest.approx(other.p)
    assert one.p_greater == pytest.approx(1 - other.p_greater, abs=1e-12)
    assert one.p == pytest.approx(2 * min(one.p_greater, other.p_greater), abs=1e-12)
    assert TESTS[name](a, a, 0.9, n).statistic == 0


@given(coefficients, coefficients, coefficients, st.integers(10, 5000))
def test_zou_turns_around_with_the_scores(a: float, b: float, c: float, n: int) -> None:
    assume(1 + 2 * a * b * c - a * a - b * b - c * c > 0)
    low, high = stats.zou(a, b, c, n)
    assert low <= a - b <= high
    assert stats.zou(b, a, c, n) == pytest.approx((-high, -low), abs=1e-12)


def test_three_tests_agree_on_many_samples_and_hold_their_level() -> None:
    """Two equally good scores that share an error: 5 % of 1000 tests may say otherwise, and the independent one hardly any."""
    rng = np.random.default_rng(0)
    wrong = dict.fromkeys([*TESTS, "fisher"], 0)
    for _ in range(1000):
        target, shared = rng.normal(size=(2, 100))
        first, second = (target + shared + 0.7 * rng.normal(size=100) for _ in range(2))
        a, b, c = stats.pearson(first, target), stats.pearson(second, target), stats.pearson(first, second)
        for name, test in TESTS.items():
            wrong[name] += test(a, b, c, 100).p < 0.05
        wrong["fisher"] += stats.fisher_test(a, b, 100).p < 0.05
    for name in TESTS:
        assert 0.03 < wrong[name] / 1000 < 0.07, (name, wrong[name])
    assert wrong["fisher"] / 1000 < 0.01


@pytest.mark.parametrize("name", sorted(TESTS))
@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ((1.0, 0.2, 0.3, 50), "a must be a coefficient between -1 and 1, got 1.0"),
        ((0.1, float("nan"), 0.3, 50), "b must be a coefficient"),
        ((0.1, 0.1, 1.0, 50), "rank the samples identically"),
        ((0.1, 0.2, 0.3, 3), "at least 4 samples, got 3"),
        ((0.9, -0.9, 0.9, 50), "no data has correlations of"),
    ],
)
def test_impossible_numbers(name: str, numbers: tuple[float, float, float, int], match: str) -> None:
    with pytest.raises(InputError, match=match):
        TESTS[name](*numbers)


def test_holm_by_hand_and_against_bonferroni() -> None:
    np.testing.assert_allclose(stats.holm([0.01, 0.04, 0.03, np.nan]), [0.03, 0.06, 0.06, np.nan])
    np.testing.assert_allclose(stats.holm([0.9, 0.8]), [1.0, 1.0])
    assert stats.holm([]).shape == (0,)
    with pytest.raises(InputError, match="between 0 and 1"):
        stats.holm([1.5])
    p = norm.sf(np.random.default_rng(1).normal(size=50))
    corrected = stats.holm(p)
    assert (corrected >= p).all() and (corrected <= np.minimum(50 * p, 1) + 1e-15).all()
    assert (np.diff(corrected[np.argsort(p)]) >= 0).all()
