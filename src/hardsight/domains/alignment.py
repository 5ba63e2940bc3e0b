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


@dataclass(frozen=True)
class Coral(Options):
    """The stage `coral`; its lambda is for features of unit variance.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> source, target = rng.normal(size=(50, 3)), rng.normal(size=(60, 3)) * [1, 2, 3] + 1
        >>> ours, _ = Coral(reg=1e-6).maps(source, target)
        >>> np.abs(np.cov(ours(source).T) - np.cov(target.T)).max() < 1e-4
        np.True_
    """

    reg: float = option(1.0, "Regularization: added to the diagonal of the covariance matrices.", above=0)

    def maps(self, source: np.ndarray, target: np.ndarray) -> tuple[Affine, Affine | None]:
        """What is done to the source and to the target, (n, d) and (m, d); None for nothing."""
        whitened = _power(_covariance(source, self.reg), -0.5)  # (d, d)
        colored = _power(_covariance(target, self.reg), 0.5)  # (d, d)
        return Affine(source.mean(0, dtype=np.float64), whitened @ colored, target.mean(0, dtype=np.float64)), None


@dataclass(frozen=True)
class Subspace(Options):
    """The stage `subspace`."""

    size: int = option(30, "Number of principal directions to keep.", least=1)

    def maps(self, source: np.ndarray, target: np.ndarray) -> tuple[Affine, Affine]:
        """What is done to the source and to the target, (n, d) and (m, d)."""
        ours, theirs = _directions(source, self.size), _directions(target, self.size)  # (d, k) each
        none = np.zeros(ours.shape[1])
        return (
            Affine(source.mean(0, dtype=np.float64), ours @ (ours.T @ theirs), none),
            Affine(target.mean(0, dtype=np.float64), theirs, none),
        )


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
