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
        >>> found = agreement(np.linspace(0, 1, 50), np.linspace(1, 0, 50))
        >>> found["n"], round(found["spearman"], 6)
        (50, -1.0)
    """
    there = np.isfinite(human) & np.isfinite(values)
    human, values = human[there].astype(np.float64), values[there].astype(np.float64)
    n = len(human)
    found: dict[str, Any] = {"n": n, "spearman": None, "low": None, "high": None, "steps": []}
    if n >= FEWEST and np.ptp(human) > 0 and np.ptp(values) > 0:
        from scipy.stats import spearmanr  # slow to import, and most pages never ask

        r = float(spearmanr(human, values).statistic)
        found |= {"spearman": r, **interval(r, n, level)}
    step = np.minimum((human * STEPS).astype(np.int64), STEPS - 1)  # the last step holds 1.0 too
    for at in range(STEPS):
        part = values[step == at]
        if len(part):
            mean, spread = float(part.mean()), float(part.std())
            found["steps"].append({"from": at / STEPS, "to": (at + 1) / STEPS, "count": len(part), "mean": mean, "std": spread})
    return found


def within(human: np.ndarray, values: np.ndarray, names: list[str], groups: np.ndarray) -> list[dict[str, Any]]:
    """The coefficient within each group, where it says anything; `groups` (n,) holds codes, -1 for none."""
    found = []
    for code, name in enumerate(names):
        one = agreement(human[groups == code], values[groups == code])
        if one["n"]:
            found.append({"name": name, **{key: one[key] for key in ("n", "spearman", "low", "high")}})
    return found


def interval(r: float, n: int, level: float) -> dict[str, float]:
    """Bonett and Wright (2000): Fisher's z with the variance (1 + r^2 / 2) / (n - 3)."""
    if abs(r) >= 1:
        return {"low": r, "high": r}
    from scipy.special import ndtri  # quantiles of the normal distribution

    half = float(ndtri((1 + level) / 2)) * np.sqrt((1 + r**2 / 2) / (n - 3))
    return {"low": float(np.tanh(np.arctanh(r) - half)), "high": float(np.tanh(np.arctanh(r) + half))}
