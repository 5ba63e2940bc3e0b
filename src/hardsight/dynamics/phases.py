"""The two phases of the AVH paper's conjecture (section 3.2): angles first, norms later.

The paper: at first, training "will first optimize the angles among different classes while the norm will fluctuate and
increase very slowly"; later "the angles become more stable and change very slowly while the norm increases rapidly". For
hard samples it expects that neither the angle falls nor the norm rises much.

We test it with a rule on the mean angle to the own class and the mean norm of a group, from the first moment to the last:

1. The angle falls by at least 2 % of its initial value, and the norm rises by at least 5 %. If not, there are no two phases.
2. At each moment, compute how much of the angle's total fall and of the norm's total rise is complete. The boundary is the
   moment at which the first is furthest ahead of the second.
3. There are two phases if, at the boundary, at least three quarters of the fall and at most half of the rise are complete,
   and if from there on the angle stays within a quarter of its total range of its final value.

An angle that falls while the norm rises gives equal shares and no phases. Epoch 1 is recorded at its end: what happens
within it is visible only in steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.dynamics.curves import FEWEST

LEAST_FALL, LEAST_RISE = 0.02, 0.05
ANGLE_DONE, NORM_DONE, STEADY = 0.75, 0.5, 0.25


@dataclass(frozen=True)
class Phases:
    """The result of the rule for one group, with its numbers. Angles in radians; `at` indexes the moments."""

    found: bool
    at: int | None  # the boundary, or the closest moment to one
    angle: tuple[float, float, float]  # at the first moment, at the boundary, at the last
    norm: tuple[float, float, float]
    angle_share: float  # share of its total fall that is complete at the boundary
    norm_share: float  # share of its total rise that is complete at the boundary
    why_not: str = ""


def find_phases(angle: np.ndarray, norm: np.ndarray) -> Phases:
    """(e,) mean angle to the own class, (e,) mean norm -> the two phases, or why there are none.

    Example:
        >>> phases = find_phases(np.array([1.5, 1.1, 0.8, 0.7, 0.7, 0.7]), np.array([5.0, 5.1, 5.2, 7.0, 9.0, 11.0]))
        >>> phases.found, phases.at
        (True, 2)
    """
    angle, norm = np.asarray(angle, np.float64), np.asarray(norm, np.float64)
    if len(angle) < FEWEST or not np.isfinite(angle + norm).all():
        why = f"there are only {len(angle)} points, and at least {FEWEST} are needed"
        return _not_found(angle, norm, why if len(angle) < FEWEST else "there are gaps")
    fall, rise = angle[0] - angle[-1], norm[-1] - norm[0]
    if fall < LEAST_FALL * angle[0]:
        return _not_found(angle, norm, "the angle does not fall" + (", it rises" if fall < -LEAST_FALL * angle[0] else ""))
    if rise < LEAST_RISE * norm[0]:
        return _not_found(angle, norm, "the norm does not rise" + (", it falls" if rise < -LEAST_RISE * norm[0] else ""))
    angle_share, norm_share = (angle[0] - angle) / fall, (norm - norm[0]) / rise  # (e,) each, from 0 at the start to 1 at the end
    lead = angle_share - norm_share
    boundary = int(np.argmax(lead[1:-1])) + 1  # between the first and the last
    in_turn = bool(angle_share[boundary] >= ANGLE_DONE and norm_share[boundary] <= NORM_DONE)
    steady = bool(np.abs(angle[boundary:] - angle[-1]).max() <= STEADY * np.ptp(angle))
    if in_turn:
        why_not = "" if steady else "the angle does not stay at its lower level"
    else:
        why_not = "the norm rises first" if lead[boundary] < 0 else "angle and norm move at the same time"
    angles, norms = ((float(curve[0]), float(curve[boundary]), float(curve[-1])) for curve in (angle, norm))
    shares = float(angle_share[boundary]), float(norm_share[boundary])
    return Phases(in_turn and steady, boundary, angles, norms, *shares, why_not)


def _not_found(angle: np.ndarray, norm: np.ndarray, why: str) -> Phases:
    nan = float("nan")
    ends = [(float(curve[0]), nan, float(curve[-1])) if len(curve) else (nan, nan, nan) for curve in (angle, norm)]
    return Phases(False, None, ends[0], ends[1], nan, nan, why)
