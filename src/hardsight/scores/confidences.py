"""Scores made of logits and their softmax: what a model says, and how sure it is.

They need a head, or logits, or probabilities alone (`logits=`, `probs=`). The softmax is kept as sums over the
*other* classes, so that a confidence of 1 - 1e-12 still has digits in its loss and its EL2N. Probabilities themselves
are reported as the model would report them, in the precision of its features: there they may tie at 1, the loss does not.
Those that were given are reported as they are.
"""

from __future__ import annotations

import numpy as np

from hardsight.scores.registry import row_score
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import INPUT, LOGITS, MOMENT, NOBIAS, SOFTMAX, SQUARES, TOP

AVH_PAPER = "Chen et al., ICML 2020"


@row_score(hard="low", range="[0, 1]", formula="p_y", source=f"{AVH_PAPER}, Def. 1", terms={SOFTMAX})
def confidence(rows: Sweep) -> np.ndarray:
    """Softmax probability of the given class: the paper's "model confidence".

    Example:
        >>> confidence(probs=np.array([[0.7, 0.3], [0.1, 0.9]]), labels=np.array([0, 0])).round(4)
        array([0.7, 0.1])
    """
    return rows.own_probability


@row_score(
    hard="low", range="[0, 1]", formula="softmax(x W^T)_y", source=f"{AVH_PAPER}, Def. 1 as printed", terms={SOFTMAX, NOBIAS}
)
def confidence_nobias(rows: Sweep) -> np.ndarray:
    """Softmax probability of the given class with the head's bias left out, as Definition 1 prints it."""
    return rows.reported(rows.nobias_confidence)


@row_score(hard="low", range="[1/c, 1]", formula="max_k p_k", source="maximum softmax probability", terms={SOFTMAX}, labels=False)
def predicted_confidence(rows: Sweep) -> np.ndarray:
    """Softmax probability of the predicted class; no label needed."""
    return rows.largest_probability


@row_score(hard="low", range="[-1, 1]", formula="p_y - max_{k != y} p_k", source="classification margin", terms={SOFTMAX})
def probability_margin(rows: Sweep) -> np.ndarray:
    """Probability of the given class minus the largest other one: negative when the prediction is wrong."""
    return rows.probability_margin


@row_score(
    hard="low", range="(-inf, inf)", formula="z_y - max_{k != y} z_k", source="Pleiss et al., NeurIPS 2020 (AUM)", terms={LOGITS}
)
def logit_margin(rows: Sweep) -> np.ndarray:
    """Logit of the given class minus the largest other one: what AUM averages over training."""
    return rows.own_logit - rows.other_logit


@row_score(
    hard="low", range="(-inf, inf)", formula="max_k z_k", source="maximum logit", terms={LOGITS}, labels=False, needs_logits=True
)
def max_logit(rows: Sweep) -> np.ndarray:
    """Largest logit; no label needed."""
    return rows.max_logit


@row_score(
    hard="high",
    range="[0, log c]",
    formula="-sum_k p_k log p_k",
    source="Shannon entropy",
    terms={SOFTMAX, MOMENT},
    labels=False,
)
def entropy(rows: Sweep) -> np.ndarray:
    """Entropy of the softmax in nats: 0 is sure, log c undecided; no label needed.

    Example:
        >>> entropy(probs=np.array([[0.5, 0.5], [1.0, 0.0]])).round(4)
        array([0.6931, 0.    ])
    """
    own = rows.own_logit - rows.max_logit
    moment = rows.other_moment + own * rows.own_exp  # sum_k (z_k - max) e^(z_k - max)
    return np.maximum(np.log(rows.partition) - moment / rows.partition, 0.0)


@row_score(
    hard="high", range="[0, sqrt 2]", formula="|p - onehot(y)|_2", source="Paul et al., NeurIPS 2021", terms={SOFTMAX, SQUARES}
)
def el2n(rows: Sweep) -> np.ndarray:
    """Length of the error vector: probabilities minus the one-hot label.

    Example:
        >>> el2n(probs=np.array([[1.0, 0.0], [0.0, 1.0]]), labels=np.array([0, 0])).round(4)
        array([0.    , 1.4142])
    """
    return el2n_of(rows)


def el2n_of(rows: Sweep) -> np.ndarray:
    """The formula of EL2N on a sweep."""
    return np.sqrt(rows.other_sum**2 + rows.other_squares) / rows.partition  # 1 - p_y = other_sum / partition


@row_score(hard="high", range="[0, inf)", formula="-log p_y", source="cross-entropy", terms={SOFTMAX})
def loss(rows: Sweep) -> np.ndarray:
    """Cross-entropy of the given class: -log of its softmax probability."""
    return rows.own_loss


@row_score(
    hard="high", range="[0, inf)", formula="|p - onehot(y)|_2 * |(x, 1)|_2, without the 1 where the head has no bias",
    source="Paul et al., NeurIPS 2021 (GraNd), of the last layer", terms={SOFTMAX, SQUARES, INPUT}, default=False, linear=True,
)  # fmt: skip
def grand(rows: Sweep) -> np.ndarray:
    """Length of the loss's gradient in the last linear layer: EL2N times the length of what the layer takes in.

    The gradient of the weight is the outer product of p - onehot(y) and the feature, and that of the bias p - onehot(y): no
    backward pass is needed. The head must be linear.

    Example:
        >>> grand(np.array([[3.0, 4.0]]), np.zeros((2, 2)), np.array([0])).round(4)  # p = 1/2, 1/2 and |x| = 5
        array([3.5355])
    """
    return el2n_of(rows) * rows.more[INPUT]


@row_score(
    hard="high", range="(-inf, inf)", formula="-log sum_k e^z_k", source="Liu et al., NeurIPS 2020 (energy)", terms={SOFTMAX},
    labels=False, default=False, needs_logits=True,
)  # fmt: skip
def energy(rows: Sweep) -> np.ndarray:
    """Energy of the logits: high where all of them are low, as for inputs unlike any that was trained on; no label needed.

    Example:
        >>> energy(logits=np.array([[0.0, 0.0], [5.0, 0.0]])).round(4)
        array([-0.6931, -5.0067])
    """
    return -(rows.max_logit + np.log(rows.partition))


@row_score(
    hard="high", range="[0, 100]", formula="sum of (p_k (1 - p_k))^0.1 over the 100 largest p_k",
    source="Liu, Lochman, Zach, CVPR 2023 (GEN)", terms={LOGITS, TOP}, labels=False, default=False,
)  # fmt: skip
def gen(rows: Sweep) -> np.ndarray:
    """Generalized entropy of the largest probabilities: high is undecided, and small probabilities count; no label needed.

    Example:
        >>> gen(probs=np.array([[0.5, 0.5], [1.0, 0.0]])).round(4)  # 2 * 0.25^0.1
        array([1.7411, 0.    ])
    """
    return rows.more[TOP]
