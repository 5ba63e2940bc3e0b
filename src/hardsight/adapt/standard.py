"""Frozen features brought to a common scale: standardised, and if asked for, turned to their main directions.

The mean and spread of a feature differ from domain to domain more than its meaning does: standardised by its own mean
and deviation, each domain looks like the other, and no label is needed for it. The principal directions are those of both
domains together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.adapt.settings import Standardize
from hardsight.errors import InputError


@dataclass(frozen=True, eq=False)
class Standard:
    """x -> ((x - mean) / deviation) @ directions: what was done to the features of one domain."""

    mean: np.ndarray  # (d,)
    deviation: np.ndarray  # (d,)
    directions: np.ndarray | None = None  # (d, k)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        scaled = (features - self.mean) / self.deviation
        return np.ascontiguousarray(scaled if self.directions is None else scaled @ self.directions, np.float32)

    def folded(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A linear layer on standardised features -> the same layer on features as they were."""
        turned = weight if self.directions is None else weight @ self.directions.T  # (h, d)
        turned = turned / self.deviation
        return turned.astype(np.float32), (bias - turned @ self.mean).astype(np.float32)


def standards(source: np.ndarray, target: np.ndarray, how: Standardize, components: int | None) -> tuple[Standard, Standard]:
    """What is to be done to the source's and to the target's (n, d) features."""
    d = source.shape[1]
    if how == "none":
        first = second = Standard(np.zeros(d, np.float32), np.ones(d, np.float32))
    else:
        first = _standard(source)
        second = _standard(target) if how == "domain" else first
    if components is None:
        return first, second
    if not 1 <= components <= d:
        raise InputError(f"components must be 1 to {d}, the number of features, got {components}.")
    both = np.concatenate([first(source), second(target)]).astype(np.float64)
    _, directions = np.linalg.eigh(both.T @ both)  # by rising eigenvalue
    main = directions[:, ::-1][:, :components]
    main = main / np.sqrt(np.mean((both @ main) ** 2))  # numbers of about 1, as they were
    return tuple(Standard(one.mean, one.deviation, main.astype(np.float32)) for one in (first, second))  # type: ignore[return-value]


def _standard(features: np.ndarray) -> Standard:
    mean, deviation = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)  # a feature that never changes becomes 0
    return Standard(mean.astype(np.float32), deviation.astype(np.float32))
