"""Compare methods and losses: accuracy in which every class counts the same, its spread over seeds, and paired differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.stats.small_samples import mean_interval

History = list[dict[str, Any]]  # one entry per round or epoch of a training


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


def paired_difference(first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
    """Columns of a table: first - second, run by run, as mean, its 95 % interval (Student's t; None for one run) and a verdict.

    Example:
        >>> difference = paired_difference([0.6, 0.7, 0.8], [0.5, 0.5, 0.5])
        >>> {name: value if isinstance(value, str) else round(value, 3) for name, value in difference.items()}
        {'difference': 0.2, 'low': -0.048, 'high': 0.448, 'count': 3, 'verdict': 'no difference shown'}
    """
    mean, count = mean_interval(np.subtract(first, second)), len(first)
    verdict = "better" if mean.low > 0 else "worse" if mean.high < 0 else "no difference shown"
    if count < 2:
        return {"difference": mean.value, "low": None, "high": None, "count": count, "verdict": "one run: no interval"}
    return {"difference": mean.value, "low": mean.low, "high": mean.high, "count": count, "verdict": verdict}


def difference_table(where: str, what: str, reached: Mapping[str, Mapping[str, Sequence[float]]]) -> pa.Table:
    """Each method or loss against each one before it, paired run by run.

    Args:
        where, what: names of the first two columns, such as pair and method.
        reached: method -> pair -> its accuracy, seed by seed.
    """
    rows = [
        {where: place, what: name, "against": against, **paired_difference(values, reached[against][place])}
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
