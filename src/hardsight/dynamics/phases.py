"""The two phases of the AVH paper's conjecture (section 3.2): angles first, norms later. Found by a rule, or not found.

The paper: at first, training "will first optimize the angles among different classes while the norm will fluctuate and
increase very slowly"; later "the angles become more stable and change very slowly while the norm increases rapidly". For
hard samples it expects that neither the angle falls nor the norm rises much.

The rule, on the mean angle to the own class and the mean norm of a group, from the first moment to the last:

1. The angle falls, by at least 2 % of where it began, and the norm rises, by at least 5 %. If not, there are no two phases.
2. At each moment, take the share of the angle's whole fall that is done, and the share of the norm's whole rise. The
   boundary is the moment at which the first is furthest ahead of the second.
3. Two phases are found if at the boundary at least three quarters of the fall are done and at most half of the rise, and
   if from there on the angle stays within a quarter of its whole range of where it ends.

An angle that falls while the norm rises gives equal shares and no phases. Epoch 1 is already the end of an epoch: what
happened inside it shows only in steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.dynamics.curves import FEWEST

LEAST_FALL, LEAST_RISE = 0.02, 0.05
ANGLE_DONE, NORM_DONE, STEADY = 0.75, 0.5, 0.25


@dataclass(frozen=True)
class Phases:
    """What the rule says of one group, and the numbers it says it from. Angles in radians; `at` indexes the moments."""

    found: bool
    at: int | None  # the boundary, or the moment that came nearest to one
    angle: tuple[float, float, float]  # at the first moment, at the boundary, at the last
    norm: tuple[float, float, float]
    angle_share: float  # of its whole fall, done at the boundary
    norm_share: float  # of its whole rise, done at the boundary
    why_not: str = ""


def find_phases(angle: np.ndarray, norm: np.ndarray) -> Phases:
    """(e,) mean angle to the own class, (e,) mean norm -> the two phases, or why they are not there.

    Example:
        >>> phases = find_phases(np.array([1.5, 1.1, 0.8, 0.7, 0.7, 0.7]), np.array([5.0, 5.1, 5.2, 7.0, 9.0, 11.0]))
        >>> phases.found, phases.at
        (True, 2)
    """
    angle, norm = np.asarray(angle, np.float64), np.asarray(norm, np.float64)
    if len(angle) < FEWEST or not np.isfinite(angle + norm).all():
        why = f"there are only {len(angle)} points, and it takes at least {FEWEST} to tell"
        return _not_found(angle, norm, why if len(angle) < FEWEST else "there are gaps")
    fall, rise = angle[0] - angle[-1], norm[-1] - norm[0]
    if fall < LEAST_FALL * angle[0]:
        return _not_found(angle, norm, "the angle does not fall" + (", it rises" if fall < -LEAST_FALL * angle[0] else ""))
    if rise < LEAST_RISE * norm[0]:
        return _not_found(angle, norm, "the norm does not rise" + (", it falls" if rise < -LEAST_RISE * norm[0] else ""))
    angle_share, norm_share = (angle[0] - angle) / fall, (norm - norm[0]) / rise  # (e,) each, 0 to begin with and 1 at the end
    at = int(np.argmax(angle_share[1:-1] - norm_share[1:-1])) + 1  # between the first and the last
    in_turn = bool(angle_share[at] >= ANGLE_DONE and norm_share[at] <= NORM_DONE)
    steady = bool(np.abs(angle[at:] - angle[-1]).max() <= STEADY * np.ptp(angle))
    if in_turn:
        why_not = "" if steady else "the angle does not stay where it fell to"
    else:
        why_not = "the norm rises first" if angle_share[at] < norm_share[at] else "angle and norm move at the same time"
    return Phases(
        in_turn and steady,
        at,
        (float(angle[0]), float(angle[at]), float(angle[-1])),
        (float(norm[0]), float(norm[at]), float(norm[-1])),
        float(angle_share[at]),
        float(norm_share[at]),
        why_not,
    )


def _not_found(angle: np.ndarray, norm: np.ndarray, why: str) -> Phases:
    nan = float("nan")
    ends = [(float(curve[0]), nan, float(curve[-1])) if len(curve) else (nan, nan, nan) for curve in (angle, norm)]
    return Phases(False, None, ends[0], ends[1], nan, nan, why)
