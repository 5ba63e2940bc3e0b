"""Means and proportions: intervals and tests against SciPy, and a published example."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from hardsight.stats import fisher_exact, mean_interval, share_difference, sign_test, welch, wilson


def test_intervals_and_tests_against_scipy() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=17), rng.normal(0.3, 2.0, size=31)
    ours, oracle = welch(first, second), scipy_stats.ttest_ind(first, second, equal_var=False)
    assert ours.p == pytest.approx(oracle.pvalue)
    assert (ours.low, ours.high) == pytest.approx(tuple(oracle.confidence_interval(0.95)))
    ends = scipy_stats.t.interval(0.95, 16, first.mean(), scipy_stats.sem(first))
    assert (mean_interval(first).low, mean_interval(first).high) == pytest.approx(ends)
    assert fisher_exact((3, 4), (1, 9)) == pytest.approx(scipy_stats.fisher_exact([[3, 1], [1, 8]]).pvalue)
    assert sign_test(8, 2) == pytest.approx(scipy_stats.binomtest(8, 10).pvalue)
    assert welch(1e150 * first, 1e150 * second).p == pytest.approx(oracle.pvalue)  # no square of a variance overflows
    assert wilson(0, 0) == (0.0, 1.0) and wilson(0, 5)[0] == 0.0 and wilson(5, 5)[1] == 1.0
    assert [round(end, 4) for end in share_difference((56, 70), (48, 80))[1:]] == [0.0524, 0.3339]  # Newcombe (1998), method 10
