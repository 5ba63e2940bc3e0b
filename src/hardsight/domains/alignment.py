"""Align the features of two domains by a linear map, from means and covariances alone: no labels are used.

CORAL (Sun, Feng and Saenko, AAAI 2016) gives the source the covariance of the target:

    x' = (x - m_s) C_s^(-1/2) C_t^(1/2) + m_t,  C = covariance + lambda I

Subspace alignment (Fernando et al., ICCV 2013) projects each domain on its own k principal directions, P_s and P_t, both (d, k),
and turns the source's into the target's:

    source  (x - m_s) P_s P_s' P_t        target  (x - m_t) P_t

With k = d the turn undoes the projection, and nothing is aligned but the means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.options import Options, option

CORAL_REG = 1.0  # lambda of CORAL, for features of unit variance
SUBSPACE_SIZE = 30  # directions of subspace alignment, where there are as many


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> (x - center) @ matrix + offset: what is done to the features of one domain."""

    center: np.ndarray  # (d,)
    matrix: np.ndarray  # (d, k)
    offset: np.ndarray  # (k,)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, k) float32."""
        return np.ascontiguousarray((features - self.center) @ self.matrix + self.offset, np.float32)

    def folded(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A linear layer on mapped features, (h, k) and (h,) -> the same layer on features as they were, (h, d) and (h,)."""
        inner = weight @ self.matrix.T  # (h, d)
        return inner, bias + weight @ self.offset - inner @ self.center


def coral(source: np.ndarray, target: np.ndarray, reg: float = CORAL_REG) -> Affine:
    """What CORAL does to the source; the target stays as it is.

    Args:
        source, target: (n, d) and (m, d).
        reg: lambda, above 0; 1 in the paper, for features of unit variance.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> source, target = rng.normal(size=(50, 3)), rng.normal(size=(60, 3)) * [1, 2, 3] + 1
        >>> mapped = coral(source, target, reg=1e-6)(source)
        >>> np.abs(np.cov(mapped.T) - np.cov(target.T)).max() < 1e-4
        np.True_
    """
    whitened = _power(_covariance(source, reg), -0.5)  # (d, d)
    colored = _power(_covariance(target, reg), 0.5)  # (d, d)
    return Affine(source.mean(0, dtype=np.float64), whitened @ colored, target.mean(0, dtype=np.float64))


def subspace(source: np.ndarray, target: np.ndarray, size: int = SUBSPACE_SIZE) -> tuple[Affine, Affine]:
    """What subspace alignment does to the source and to the target.

    Args:
        source, target: (n, d) and (m, d).
        size: k; at most d are taken.
    """
    ours, theirs = _directions(source, size), _directions(target, size)  # (d, k) each
    none = np.zeros(ours.shape[1])
    return (
        Affine(source.mean(0, dtype=np.float64), ours @ (ours.T @ theirs), none),
        Affine(target.mean(0, dtype=np.float64), theirs, none),
    )


@dataclass(frozen=True)
class Coral(Options):
    """The stage `coral`."""

    reg: float = option(CORAL_REG, "Regularization: added to the diagonal of the covariance matrices.", above=0)

    def maps(self, source: np.ndarray, target: np.ndarray) -> tuple[Affine, Affine | None]:
        """What is done to the source and to the target, (n, d) and (m, d); None for nothing."""
        return coral(source, target, self.reg), None


@dataclass(frozen=True)
class Subspace(Options):
    """The stage `subspace`."""

    size: int = option(SUBSPACE_SIZE, "Number of principal directions to keep.", least=1)

    def maps(self, source: np.ndarray, target: np.ndarray) -> tuple[Affine, Affine | None]:
        """What is done to the source and to the target, (n, d) and (m, d)."""
        return subspace(source, target, self.size)


def _covariance(features: np.ndarray, reg: float) -> np.ndarray:
    """(n, d) -> (d, d), lambda added to its diagonal; of one sample, zeros."""
    centered = features - features.mean(0, dtype=np.float64)
    return centered.T @ centered / max(1, len(features) - 1) + reg * np.eye(features.shape[1])


def _power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """(d, d) symmetric, eigenvalues above 0 -> its power."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


def _directions(features: np.ndarray, size: int) -> np.ndarray:
    """(n, d) -> (d, k) principal directions, the longest first."""
    _, vectors = np.linalg.eigh(_covariance(features, 0.0))  # shortest first
    return vectors[:, ::-1][:, : min(size, features.shape[1])]
