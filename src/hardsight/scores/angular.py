"""Scores made of angles: where a feature points, not how long it is.

All angles are between a feature and the rows of the head's weight; a bias plays no part. A Gaussian head's rows are means:
its angles are taken around the mean of them (`Head.angles`).
Chen et al., "Angular Visual Hardness", ICML 2020; Peng et al., "Angular Gap", ACM MM 2022.
"""

from __future__ import annotations

import numpy as np

from hardsight.scores.registry import row_score, row_score_at
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import ANGLES, LOGITS, NEAREST, nearest_sum

AVH_PAPER = "Chen et al., ICML 2020"
GAP_PAPER = "Peng et al., ACM MM 2022"


@row_score(
    hard="high", range="[0, 1]", formula="angle(x, w_y) / sum_k angle(x, w_k)", source=f"{AVH_PAPER}, eq. 1", terms={ANGLES}
)
def avh(rows: Sweep) -> np.ndarray:
    """Angular visual hardness: the angle to a sample's own class, over the sum of its angles to all classes.

    0 is a sample lying along its class vector; 1/c is one equally far from all c classes. Only directions count:
    rescaling a feature or a class vector changes nothing.

    Args:
        features: (n, d) inputs of the last linear layer, one row per sample.
        head: (c, d) rows of that layer, one per class, or a `Head`.
        labels: (n,) class of each sample; -1 is unlabeled.

    Returns:
        (n,) hardness, NaN where a row has no direction or no label.

    Example:
        >>> weight = np.array([[1.0, 0.0], [0.0, 1.0]])  # two classes, at right angles
        >>> features = np.array([[5.0, 0.0], [2.0, 2.0]])  # along class 0; halfway between
        >>> avh(features, weight, np.array([0, 0]))
        array([0. , 0.5])
    """
    return rows.own_angle / rows.angle_sum


@row_score(hard="high", range="[0, c]", formula="c * avh", source=f"{AVH_PAPER}, rescaled", terms={ANGLES})
def avh_relative(rows: Sweep) -> np.ndarray:
    """AVH times the number of classes: 1 is undecided, below 1 leans to the own class.

    In high dimension all angles are near a right angle and AVH crowds around 1/c; this puts it on a readable scale.
    """
    return rows.num_classes * rows.own_angle / rows.angle_sum


@row_score(
    hard="low",
    range="[0, 1]",
    formula="(pi - angle(x, w_y)) / sum_k (pi - angle(x, w_k))",
    source=f"{AVH_PAPER}, eq. 3",
    terms={ANGLES},
)
def avc_label(rows: Sweep) -> np.ndarray:
    """Angular visual confidence of the given class: 1/c is undecided, higher is easier."""
    return _share_from_pi(rows.own_angle, rows)


@row_score(
    hard="low", range="[0, 1]", formula="(pi - angle(x, w_p)) / sum_k (pi - angle(x, w_k)), p the predicted class",
    source=f"{AVH_PAPER}, eq. 3", terms={ANGLES, LOGITS}, labels=False,
)  # fmt: skip
def avc_predicted(rows: Sweep) -> np.ndarray:
    """Angular visual confidence of the predicted class: what self-training ranks by, no label needed."""
    return _share_from_pi(rows.predicted_angle, rows)


def _share_from_pi(angle: np.ndarray, rows: Sweep) -> np.ndarray:
    """(pi - angle) / sum_k (pi - angle_k); a float32 pi is a little more than pi, hence the floors."""
    return np.maximum(np.pi - angle, 0.0) / np.maximum(rows.num_classes * np.pi - rows.angle_sum, 0.0)


@row_score(hard="high", range="[0, pi]", formula="angle(x, w_y)", source=AVH_PAPER, terms={ANGLES})
def own_angle(rows: Sweep) -> np.ndarray:
    """Angle in radians to the class vector of the given class."""
    return rows.own_angle


@row_score(hard="low", range="[0, pi]", formula="min_{k != y} angle(x, w_k)", source=GAP_PAPER, terms={ANGLES, NEAREST})
def nearest_angle(rows: Sweep) -> np.ndarray:
    """Smallest angle in radians to the class vector of any other class."""
    return rows.nearest_angle


@row_score(
    hard="high",
    range="[-pi, pi]",
    formula="angle(x, w_y) - min_{k != y} angle(x, w_k)",
    source=GAP_PAPER,
    terms={ANGLES, NEAREST},
)
def angular_gap(rows: Sweep) -> np.ndarray:
    """Angle to the own class minus the angle to the nearest other one: negative when the angles are right.

    The prediction follows the logits, in which norms and the bias have a say: near 0 the two can disagree.

    Example:
        >>> weight = np.array([[1.0, 0.0], [0.0, 1.0]])
        >>> angular_gap(np.array([[2.0, 2.0], [1.0, 0.0]]), weight, np.array([0, 0])).round(4)
        array([ 0.    , -1.5708])
    """
    return rows.own_angle - rows.nearest_angle


@row_score_at(
    1,
    hard="high",
    range="[0, 1]",
    formula="angle(x, w_y) / (angle(x, w_y) + sum of the k smallest angle(x, w_j), j != y), k = 1",
    source=f"{AVH_PAPER}, over the nearest classes",
    terms=lambda k: {ANGLES, NEAREST} if k == 1 else {ANGLES, nearest_sum(k)},
)
def avh_nearest(rows: Sweep, k: int) -> np.ndarray:
    """AVH over the own class and its k nearest competitors, instead of all classes.

    Among many classes the sum of all angles is nearly the same for every sample, and AVH is the own angle alone; this
    keeps the competitor in view. With k of c - 1 or more it is AVH itself. Other k by name: `avh_nearest:10`.

    Example:
        >>> weight = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> avh_nearest(np.array([[1.0, 1.0]]), weight, np.array([0])).round(4)  # 45 degrees from two classes
        array([0.5])
    """
    others = rows.nearest_angle if k == 1 else rows.more[nearest_sum(k)]
    return rows.own_angle / (rows.own_angle + (others if rows.num_classes > 1 else 0.0))


@row_score(hard="low", range="[0, inf)", formula="|x|", source=f"{AVH_PAPER}, Table 1", terms=set(), labels=False)
def norm(rows: Sweep) -> np.ndarray:
    """Length of the feature. It follows training and contrast more than difficulty; angles do not see it."""
    return rows.norm
