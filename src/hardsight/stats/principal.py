"""Principal components of rows that arrive in blocks: memory holds one block and one (d, d) matrix.

With more columns than `WIDEST` that matrix would be too large; then all rows are held in memory, and the components come from
their (m, m) products.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.errors import InputError

WIDEST = 2048  # maximum columns for a covariance matrix; beyond that, the maximum number of rows


@dataclass(frozen=True)
class Principal:
    """The k orthogonal directions of largest variance, largest first."""

    mean: np.ndarray  # (d,)
    axes: np.ndarray  # (k, d) of length 1, or 0 if there are no more directions
    shares: np.ndarray  # (k,) shares of the total variance
    num_rows: int  # number of rows in the fit

    def project(self, rows: np.ndarray) -> np.ndarray:
        """(b, d) rows -> (b, k) coordinates around the mean, NaN for rows that are not finite."""
        finite, coordinates = _finite(rows), np.full((len(rows), len(self.axes)), np.nan, np.float32)
        coordinates[finite] = _around(rows[finite], self.mean) @ self.axes.T.astype(np.float32)
        return coordinates


def principal_components(blocks: Iterable[np.ndarray], num_components: int) -> Principal:
    """The first components of (b, d) blocks of rows; rows that are not finite are skipped.

    The sign of a component is chosen so that its largest entry is positive.

    Example:
        >>> line = np.array([[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]])
        >>> principal = principal_components([line], 1)
        >>> principal.axes.round(4), principal.shares.round(4)
        (array([[0.7071, 0.7071]]), array([1.]))
        >>> principal.project(line)[:, 0].round(2)
        array([-1.89, -0.47,  2.36], dtype=float32)
    """
    finite = (block[_finite(block)] for block in blocks)
    filled = (block for block in finite if len(block))
    first = next(filled, None)
    if first is None:
        raise InputError("there are no components: no row is finite.")
    d = first.shape[1]
    center = first.mean(axis=0, dtype=np.float64)  # (d,) of the first block: close enough for squares to keep their precision
    scale = float(np.abs(first - center).max()) or 1.0
    around = (_around(block, center, scale) for block in itertools.chain([first], filled))
    mean, variance, values, axes, n = _by_rows(around) if d > WIDEST else _by_covariance(around, d, num_components)
    if not np.isfinite(variance):
        raise InputError("there are no components: the rows are too far apart for their squares.")
    values, axes = values[:num_components], axes[:num_components]
    missing = num_components - len(values)  # if there is only one column or one row
    axes = np.pad(axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None], ((0, missing), (0, 0)))
    shares = np.pad(np.maximum(values, 0) / (variance or 1.0), (0, missing))
    return Principal(center + scale * mean, axes, shares, n)


def _finite(rows: np.ndarray) -> Any:
    """(b,) bool, or a slice of everything, which avoids a copy."""
    finite = np.isfinite(rows)
    return slice(None) if finite.all() else finite.all(axis=1)


def _around(rows: np.ndarray, center: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Rows around a center as float32; float64 rows are rounded only after the subtraction."""
    kind = np.float64 if rows.dtype.itemsize > 4 else np.float32
    around = rows - center.astype(kind)
    around *= kind(1 / scale)
    return around.astype(np.float32, copy=False)


Parts = tuple[np.ndarray, float, np.ndarray, np.ndarray, int]  # mean, total variance, variances, axes, rows


def _by_covariance(blocks: Iterable[np.ndarray], d: int, k: int) -> Parts:
    from scipy.linalg import eigh

    n, total, product = 0, np.zeros(d), np.zeros((d, d))
    for block in blocks:
        n += len(block)
        total += block.sum(axis=0, dtype=np.float64)
        product += block.T @ block  # (d, d)
    mean = total / n
    covariance = product / n - np.outer(mean, mean)
    if not np.isfinite(covariance).all():
        return mean, np.inf, np.zeros(0), np.zeros((0, d)), n
    values, vectors = eigh(covariance, subset_by_index=[max(0, d - k), d - 1])  # ascending
    return mean, float(np.trace(covariance)), values[::-1], vectors.T[::-1], n


def _by_rows(blocks: Iterable[np.ndarray]) -> Parts:
    rows = np.concatenate(list(blocks))[:WIDEST]
    mean = rows.mean(axis=0, dtype=np.float64)
    rows = rows - mean
    products = rows @ rows.T / len(rows)  # (m, m) with the same variances as the covariance
    if not np.isfinite(products).all():
        return mean, np.inf, np.zeros(0), rows[:0], len(rows)
    values, vectors = np.linalg.eigh(products)
    axes = vectors.T[::-1] @ rows  # (m, d)
    lengths = np.linalg.norm(axes, axis=1, keepdims=True)
    rank = (lengths[:, 0] > 1e-9 * max(lengths.max(), 1e-300)).sum()  # as many directions as the rows have
    return mean, float(np.trace(products)), values[::-1][:rank], axes[:rank] / lengths[:rank], len(rows)
