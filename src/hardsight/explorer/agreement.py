"""Human frequency against a score: the rank correlation with its interval, and the mean score of each step."""

from __future__ import annotations

from typing import Any

import numpy as np

HUMAN = "human"
STEPS = 10
FEWEST = 4  # samples below which nothing is said


def agreement(human: np.ndarray, values: np.ndarray, level: float = 0.95) -> dict[str, Any]:
    """Spearman's coefficient with the Bonett-Wright interval, and mean and spread of the score by human frequency.

    Args:
        human: (n,) how often people chose the given class, 0 to 1.
        values: (n,) a score.
        level: of the interval.

    Example:
        >>> result = agreement(np.linspace(0, 1, 50), np.linspace(1, 0, 50))
        >>> result["n"], round(result["spearman"], 6)
        (50, -1.0)
    """
    there = np.isfinite(human) & np.isfinite(values)
    human, values = human[there].astype(np.float64), values[there].astype(np.float64)
    n = len(human)
    result: dict[str, Any] = {"n": n, "spearman": None, "low": None, "high": None, "steps": []}
    if n >= FEWEST and np.ptp(human) > 0 and np.ptp(values) > 0:
        from scipy.stats import spearmanr  # slow to import, and most pages never ask

        from hardsight.stats.coefficients import interval

        r = float(spearmanr(human, values).statistic)
        low, high = interval("spearman", r, n, level)
        result |= {"spearman": r, "low": low, "high": high}
    step = np.minimum((human * STEPS).astype(np.int64), STEPS - 1)  # the last step holds 1.0 too
    for at in range(STEPS):
        part = values[step == at]
        if len(part):
            mean, spread = float(part.mean()), float(part.std())
            result["steps"].append({"from": at / STEPS, "to": (at + 1) / STEPS, "count": len(part), "mean": mean, "std": spread})
    return result


def within(human: np.ndarray, values: np.ndarray, names: list[str], groups: np.ndarray) -> list[dict[str, Any]]:
    """The coefficient within each group, where it says anything; `groups` (n,) holds codes, -1 for none."""
    rows = []
    for code, name in enumerate(names):
        result = agreement(human[groups == code], values[groups == code])
        if result["n"]:
            rows.append({"name": name, **{key: result[key] for key in ("n", "spearman", "low", "high")}})
    return rows
