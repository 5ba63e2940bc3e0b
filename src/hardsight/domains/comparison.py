"""Compare methods and losses: accuracy in which every class counts the same, its spread over seeds, and paired differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit


def class_accuracies(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> list[float | None]:
    """Share of each class's samples that are predicted right; None for a class without any.

    Example:
        >>> class_accuracies(np.array([0, 0, 1, -1]), np.array([0, 1, 1, 0]), 3)
        [0.5, 1.0, None]
    """
    labeled = labels >= 0
    counts = np.bincount(labels[labeled], minlength=num_classes)
    right = np.bincount(labels[labeled & (labels == predicted)], minlength=num_classes)
    return [float(right[k] / counts[k]) if counts[k] else None for k in range(num_classes)]


def known_mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None: of class accuracies, each class that has samples counts the same."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def mean_and_std(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Columns of a table: the mean over seeds, and the standard deviation where there is more than one."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {name: float(np.mean(values)) if len(values) else None, f"{name} std": deviation}


@dataclass(frozen=True)
class PairedDifference:
    """The mean of paired differences, and where it lies with 95 % confidence (Student's t; None for a single pair)."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of a table of differences."""
        return {"difference": self.mean, "low": self.low, "high": self.high, "count": self.count, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """In words, by the interval alone."""
        if self.low is None or self.high is None:
            return "one run: no interval"
        return "better" if self.low > 0 else "worse" if self.high < 0 else "no difference shown"


def paired_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> PairedDifference:
    """first - second, run by run.

    Example:
        >>> difference = paired_difference([0.6, 0.7, 0.8], [0.5, 0.5, 0.5])
        >>> round(difference.mean, 3), round(difference.low, 3), round(difference.high, 3), difference.verdict
        (0.2, -0.048, 0.448, 'no difference shown')
    """
    differences = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return PairedDifference(mean, None, None, n)
    margin = float(stdtrit(n - 1, 0.5 + level / 2) * differences.std(ddof=1) / np.sqrt(n))
    return PairedDifference(mean, mean - margin, mean + margin, n)


def difference_table(where: str, what: str, reached: Mapping[str, Mapping[str, Sequence[float]]]) -> pa.Table:
    """Each method or loss against each one before it, paired run by run.

    Args:
        where, what: names of the first two columns, such as pair and method.
        reached: method -> pair -> its accuracy, seed by seed.
    """
    rows = [
        {where: place, what: name, "against": against, **paired_difference(values, reached[against][place]).columns}
        for number, name in enumerate(reached)
        for against in list(reached)[:number]
        for place, values in reached[name].items()
    ]
    return table_of(rows, where, what)


def table_of(rows: list[dict[str, Any]], *columns: str) -> pa.Table:
    """A table of these rows; without any, one of empty columns."""
    return pa.Table.from_pylist(rows) if rows else pa.table({name: [] for name in columns})


def rows_by(table: pa.Table, *columns: str) -> dict[Any, list[dict[str, Any]]]:
    """(pair, method, seed), or what the columns are -> the rows of its rounds or epochs."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(tuple(row[name] for name in columns), []).append(row)
    return found


def counted(**things: Collection[Any]) -> list[str]:
    """How many there are of each.

    Example:
        >>> counted(pair=["a-to-b"], loss=["softmax", "avh"])
        ['1 pair', '2 losses']
    """
    plural = {"loss": "losses"}
    return [f"{len(some)} {name if len(some) == 1 else plural.get(name, f'{name}s')}" for name, some in things.items()]
