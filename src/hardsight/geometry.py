"""Angles between features and class vectors: the geometry behind every angular score.

The fast path is a matrix product, two rescalings and an arccos. It loses precision where the cosine is near
+1 or -1 (a float32 cosine of 1 - 1e-7 covers any angle up to half a milliradian), so the few pairs
there are recomputed from the vectors in float64. NumPy and torch share the code: the operations used here
have the same names in both.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, check_same_space, check_weight, namespace, to_numpy, widened

__all__ = [
    "angles",
]

# Past these cosines the angle's relative error would exceed 2e-6 in float32: d(angle) = d(cos) / sin(angle).
NEAR_ZERO_ANGLE = 0.95
NEAR_PI = -0.99
SAME_DIRECTION = 1e-15  # angle between float64 multiples of one vector that comes from rounding alone

# asin(x) = x * q(x^2) up to |x| = limit: the limit, and a Chebyshev fit of q. Largest errors 9.4e-8 and 4.3e-8.
_ARCSINES = (
    (0.25, (1.000000368, 0.1665617039, 0.07940373753)),
    (0.5, (1.000000077, 0.1666516372, 0.07546479581, 0.03972113483, 0.05050536303)),
)
_FEW = 0.02  # share of a tile's cosines that may lie past the limit

# acos(x) = sqrt(1 - x) * p(x) on [0, 1]; Chebyshev fit of degree 6, largest error 1.8e-7.
_ARCCOS_POLYNOMIAL = (
    1.570796151,
    -0.2145836961,
    0.08873732884,
    -0.04872440226,
    0.02674933124,
    -0.01101238611,
    0.002251368254,
)


def angles(features: Any, weight: Any) -> Any:
    """Angle in radians from each feature to each class vector: (n, d), (c, d) -> (n, c).

    Arrays give an array, tensors a tensor on their device. A row without a direction (all zeros, or a
    value that is not finite) gives NaN. The result is n x c: to score many samples use `score`,
    which never materializes it.

    Example:
        >>> angles(np.array([[3.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])).round(4)
        array([[0.    , 1.5708, 3.1416]])
    """
    features = widened(as_matrix(features, "features"))
    weight = check_weight(weight)
    check_same_space(features, weight)
    xp = namespace(features)
    if xp is np:
        features, weight = np.asarray(features, np.float64), np.asarray(weight, np.float64)
    else:
        weight = xp.as_tensor(weight, dtype=features.dtype, device=features.device)
    largest = xp.amax(xp.abs(features), axis=1)  # (n,) scaling first keeps 1e30 and 1e-40 from over- and underflowing
    usable = xp.isfinite(largest) & (largest > 0)
    safe = xp.where(usable, largest, xp.ones_like(largest))
    unit = xp.where(usable[:, None], features / safe[:, None], xp.ones_like(features))  # (n, d)
    weight = weight / xp.amax(xp.abs(weight), axis=1)[:, None]  # only directions count: rescaled so that 1e30 does not overflow
    theta = unit @ weight.T / row_norms(unit, xp)[:, None] / row_norms(weight, xp)  # (n, c) cosines
    cosines_to_angles(theta, unit, weight)
    theta[~usable] = float("nan")
    return theta


def row_norms(x: Any, xp: ModuleType) -> Any:
    """Euclidean length of each row, without a copy of x: (n, d) -> (n,)."""
    if xp is np:
        with np.errstate(over="ignore"):  # 1e20 squared is infinite in float32; such rows fall back to float64
            return np.sqrt(np.vecdot(x, x))
    return xp.linalg.vector_norm(x, axis=1)


def safe_row_norms(x: Any, xp: ModuleType) -> Any:
    """`row_norms` where squares would over- or underflow: each row is first scaled by its largest value."""
    plain = row_norms(x, xp)
    if bool(((plain > 1e-15) & (plain < 1e15)).all()):
        return plain
    largest = xp.amax(xp.abs(x), axis=1)  # (n,)
    scale = xp.where(largest > 0, largest, xp.ones_like(largest))
    return scale * row_norms(x / scale[:, None], xp)


def cosines_to_angles(
    cosine: Any, x: Any, w: Any, scratch: tuple[Any, Any] | None = None, first: np.ndarray | None = None
) -> None:
    """Turn a (b, t) tile of cosines into angles, in place, given the (b, d) and (t, d) vectors they came from.

    Only the directions of x and w count. `scratch` is two work arrays shaped like `cosine`. If each row has its own class
    vectors, w holds them all, and `first` (b,) is where those of each row start.
    """
    xp = namespace(cosine)
    near = _near_the_poles(cosine, xp)
    if near is not None:
        cosine[near] = 0.0  # rounding may have pushed these past 1, where arccos is NaN
    if xp is np and cosine.dtype == np.float32:
        _arccos_float32(cosine, *(scratch or (np.empty_like(cosine), np.empty_like(cosine))))
    else:
        xp.arccos(cosine, out=cosine)
    if near is not None:
        rows, columns = near
        measured = _measured_angles(x, w, rows, columns if first is None else first[rows] + columns)
        cosine[near] = measured if xp is np else xp.as_tensor(measured, dtype=cosine.dtype, device=cosine.device)


def sum_angles(cosine: Any, x: Any, w: Any, scratch: tuple[Any, Any]) -> np.ndarray:
    """(b,) sums of the angles of a (b, c) tile of float32 cosines, which is overwritten.

    The sum of c angles is c pi/2 minus the sum of the arcsines, and for small cosines an arcsine is a short odd
    polynomial: one product over the row adds them up, two to three times as fast as arccos and a sum. If there are only a
    few larger cosines, they are taken out and added exactly.
    """
    xp, (b, c) = namespace(cosine), cosine.shape
    square, q = scratch
    xp.multiply(cosine, cosine, out=square)
    largest = float(square.max())
    few = (arcsine for arcsine in _ARCSINES if largest <= arcsine[0] ** 2 or (square > arcsine[0] ** 2).sum() <= _FEW * b * c)
    limit, polynomial = next(few, (None, ()))
    if limit is None:
        cosines_to_angles(cosine, x, w, scratch=(square, q))
        return to_numpy(cosine.sum(1))
    extra: Any = 0.0
    if largest > limit**2:
        large = xp.where(square > limit**2)
        over = angles_at(cosine, x, w, large) - np.pi / 2  # relative to the pi/2 of a zero cosine
        extra = np.bincount(to_numpy(large[0]), over, minlength=b)
        cosine[large] = square[large] = 0.0
    _arcsine_over_sine(square, q, polynomial)
    arcsines = np.vecdot(cosine, q) if xp is np else to_numpy(q.mul_(cosine).sum(1))  # (b,)
    return c * np.pi / 2 - arcsines.astype(np.float64) + extra


def _arcsine_over_sine(square: Any, q: Any, polynomial: tuple[float, ...]) -> None:
    """q(x^2) = asin(x) / x into q, by Horner's rule."""
    *rest, last = polynomial
    if not isinstance(square, np.ndarray):
        import torch

        torch.add(square.new_tensor(rest.pop()), square, alpha=last, out=q)
        for coefficient in reversed(rest):
            torch.addcmul(square.new_tensor(coefficient), q, square, out=q)  # a sum and a product in one pass
        return
    np.multiply(square, np.float32(last), out=q)
    np.add(q, np.float32(rest.pop()), out=q)
    for coefficient in reversed(rest):
        np.multiply(q, square, out=q)
        np.add(q, np.float32(coefficient), out=q)


def angles_at(cosine: Any, x: Any, w: Any, at: tuple[Any, ...]) -> np.ndarray:
    """The float64 angles at some entries of a (b, t) tile of cosines, at the rows and columns `at`."""
    return pair_angles(to_numpy(cosine[at]), x, w, *at)


def pair_angles(cosine: np.ndarray, x: Any, w: Any, rows: Any, others: Any) -> np.ndarray:
    """(p,) angles between x[rows] and w[others] in float64, from their (p,) cosines; near the poles, from the vectors."""
    theta = np.arccos(np.clip(cosine.astype(np.float64), -1.0, 1.0))
    near = np.flatnonzero((cosine > NEAR_ZERO_ANGLE) | (cosine < NEAR_PI))
    theta[near] = _measured_angles(x, w, rows[near], others[near])
    return theta


def _near_the_poles(cosine: Any, xp: ModuleType) -> tuple[Any, Any] | None:
    """Row and column indices of cosines too close to +1 or -1 for arccos to be accurate."""
    low, high = (cosine.min(), cosine.max()) if xp is np else xp.aminmax(cosine)
    if high <= NEAR_ZERO_ANGLE and low >= NEAR_PI:
        return None
    rows = xp.where((xp.amax(cosine, axis=1) > NEAR_ZERO_ANGLE) | (xp.amin(cosine, axis=1) < NEAR_PI))[0]
    close = cosine[rows]
    where, columns = xp.where((close > NEAR_ZERO_ANGLE) | (close < NEAR_PI))
    return rows[where], columns


def _measured_angles(x: Any, w: Any, rows: Any, columns: Any) -> np.ndarray:
    """The angle between x[rows[i]] and w[columns[i]], exact near 0 and pi (Kahan): 2 atan2(|u - v|, |u + v|)."""
    result = np.empty(len(rows))
    step = max(1, 2**20 // x.shape[1])  # 8 MB of float64 at a time
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        u, v = _float64(x[rows[part]]), _float64(w[columns[part]])  # (p, d) each
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        result[part] = 2 * np.arctan2(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1))
    result[result < SAME_DIRECTION] = 0.0
    return result


def _float64(x: Any) -> np.ndarray:
    if not isinstance(x, np.ndarray):
        x = x.detach().cpu().double().numpy()
    return x.astype(np.float64)


def _arccos_float32(x: np.ndarray, a: np.ndarray, p: np.ndarray) -> None:
    """arccos in place by a polynomial: without AVX-512 NumPy's is not vectorized, and five times slower."""
    np.abs(x, out=a)
    np.multiply(a, np.float32(_ARCCOS_POLYNOMIAL[-1]), out=p)
    for coefficient in _ARCCOS_POLYNOMIAL[-2:0:-1]:
        np.add(p, np.float32(coefficient), out=p)
        np.multiply(p, a, out=p)
    np.add(p, np.float32(_ARCCOS_POLYNOMIAL[0]), out=p)
    np.subtract(np.float32(1), a, out=a)
    np.sqrt(a, out=a)
    np.multiply(p, a, out=p)  # arccos(|x|)
    np.subtract(np.float32(np.pi / 2), p, out=p)  # arcsin(|x|), so that arccos(x) = pi/2 - sign(x) * arcsin(|x|)
    sign = np.bitwise_and(x.view(np.int32), np.int32(-(2**31)), out=x.view(np.int32))
    np.bitwise_xor(p.view(np.int32), sign, out=sign)
    np.subtract(np.float32(np.pi / 2), x, out=x)
