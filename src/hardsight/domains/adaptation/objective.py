"""What is minimized between two selections: cross-entropy against labels and pseudo-labels, and what regularizes it.

    loss = 1/m sum_i [ - sum_k y_ik log p_ik  +  mrkld t_i ( - 1/c sum_k log p_ik ) ]  +  entropy 1/u sum_j H(p_j)

over the m samples of a batch that have a label at all (a row of zeros is a target sample that was not selected); t_i is
1 on target samples and 0 on source samples. One normalizer for both terms: with one each, a batch with few selected
samples would multiply mrkld. With a one-hot y the two terms are (1 + mrkld) times cross-entropy against the smoothed label
(y + mrkld / c) / (1 + mrkld). A label may weigh less than 1: a row of y then sums to its weight, and still counts as one.

mrkld is the true weight. Public code multiplies by it twice, so its 0.1 acts as 0.01.

The last term is entropy minimization (Grandvalet and Bengio, NIPS 2004): H(p) = - sum_k p_k log p_k, over the u target
samples of the batch. Its gradient goes through p: certain samples become more certain.
"""

from __future__ import annotations

import torch
from torch import Tensor


def self_training_loss(logits: Tensor, labels: Tensor, is_target: Tensor, mrkld: float = 0.0, entropy: float = 0.0) -> Tensor:
    """(b, c) logits, (b, c) labels as distributions or zeros, (b,) bool -> the loss of the batch; 0 where nothing is labeled."""
    log_p = torch.log_softmax(logits.float(), dim=1)  # (b, c)
    labeled = (labels.sum(1) > 0).to(log_p)  # (b,)
    losses = -(labels * log_p).sum(1)
    if mrkld:
        losses = losses - mrkld * is_target.to(log_p) * labeled * log_p.mean(1)
    loss = losses.sum() / labeled.sum().clamp(min=1)
    if entropy:
        target = is_target.to(log_p)  # (b,)
        entropies = -(log_p.exp() * log_p).sum(1)  # (b,)
        loss = loss + entropy * (entropies * target).sum() / target.sum().clamp(min=1)
    return loss
