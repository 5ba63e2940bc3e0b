"""Self-training, a stage of a method: pseudo-labels are selected in each round (pseudo_labels.py) and trained on.

In a round of adapt_training.py: `choose`, `described`, `target`, then the `loss` of every batch. The base class is `RoundStage`
of paired_steps.py, which holds that of every stage trained in rounds.

    loss = 1/m sum_i [ - sum_k y_ik log p_ik  +  w t_i ( - 1/c sum_k log p_ik ) ]

over the m samples of a batch that have a label at all (a row of zeros is a target sample that was not selected); t_i is
1 on target samples and 0 on source samples. w is the weight of MRKLD, CRST's regularizer, and 0 in other methods. One
normalizer for both terms: with one each, a batch with few selected samples would multiply w. With a one-hot y the two terms are
(1 + w) times cross-entropy against the smoothed label (y + w / c) / (1 + w). A label may weigh less than 1: a row of y then sums
to its weight, and still counts as one.

w is the true weight. Public code multiplies by it twice, so its 0.1 acts as 0.01.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy.special import log_softmax

from hardsight.domains.paired_steps import RoundStage
from hardsight.domains.pseudo_labels import PseudoLabels, SelectionOptions, sample_columns, select_pseudo_labels
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor

    from hardsight.domains.adapt_training import TargetView


@dataclass(frozen=True)
class SelfTraining(RoundStage):
    """What all methods of self-training do; most have no options."""

    def choose(self, name: str, view: TargetView, portion: float) -> PseudoLabels | None:
        """The pseudo-labels of a round; `name` is one of `select_pseudo_labels`."""
        view, options = view.labeling or view, self.as_dict()
        options.pop("weight", None)
        return select_pseudo_labels(view.logits, view.features, view.head, portion, name, **options)

    def target(self, chosen: PseudoLabels | None, shape: tuple[int, int], batch_norm: bool) -> tuple[np.ndarray, np.ndarray]:
        """The target rows that pass through the network, and (n, c) labels, zeros where not selected.

        A sample without a label has no gradient, but batch normalization sees it: there, as in the papers, all of them
        pass through. A network without it, or with frozen statistics, does not notice, and is spared the work.
        """
        assert chosen is not None
        labels = np.zeros(shape, np.float32)
        if chosen.labels.ndim == 2:
            labels = chosen.labels.astype(np.float32)
        else:
            labels[chosen.kept, chosen.labels[chosen.kept]] = 1
        return (np.arange(len(labels)) if batch_norm else np.flatnonzero(chosen.kept)), labels

    def loss(self, logits: Tensor, labels: Tensor, is_target: Tensor) -> Tensor:
        """(b, c), (b, c), (b,) -> the loss of a batch."""
        return self_training_loss(logits, labels, is_target, getattr(self, "weight", 0.0))

    def described(
        self, chosen: PseudoLabels, view: TargetView, portion: float, labels: np.ndarray
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The pseudo-labels of a round as (n,) columns of a table, beside those of plain CBST, and statistics of them.

        Args:
            chosen: selected from `view` at this portion.
            labels: (n,) true classes, -1 where not known.
        """
        flipped, view = view.labeling is not None, view.labeling or view
        by_cbst = select_pseudo_labels(view.logits, None, None, portion, "cbst").kept  # (n,)
        scores = sample_columns(view.features, view.head, chosen.proposed)
        if flipped:  # the mean of two probabilities is not that of the mean feature
            proposed = np.maximum(chosen.proposed, 0)[:, None]
            scores["confidence"] = np.exp(np.take_along_axis(log_softmax(view.logits, axis=1), proposed, 1)[:, 0])
        statistics = chosen.statistics(scores, labels)
        statistics["not_selected_by_cbst"] = int((chosen.kept & ~by_cbst).sum())
        statistics["only_selected_by_cbst"] = int((by_cbst & ~chosen.kept).sum())
        columns = {
            "predicted": pa.array(chosen.predicted, mask=chosen.predicted < 0),
            "pseudo_label": pa.array(chosen.proposed, mask=~chosen.kept),
            "proposed": pa.array(chosen.proposed, mask=chosen.proposed < 0),
            "kept": chosen.kept,
            "kept_by_cbst": by_cbst,
            "why": pa.array(chosen.why, pa.string()),
            **{name: pa.array(values, from_pandas=True) for name, values in scores.items()},
        }
        return columns, statistics


@dataclass(frozen=True)
class MRKLD(SelfTraining):
    """`crst-mrkld`: CBST with a regularizer in training."""

    weight: float = option(
        0.01, "Weight of the regularizer. Public code applies its weight twice: its 0.1 is 0.01 here.", least=0
    )


@dataclass(frozen=True)
class LRENT(SelfTraining):
    """`crst-lrent`: CBST with soft labels."""

    alpha: float = SelectionOptions.redefine("alpha", 0.25)


@dataclass(frozen=True)
class CRST(LRENT, MRKLD):
    """`crst`: both."""


@dataclass(frozen=True)
class OneThreshold(SelfTraining):
    """`threshold`: one for all classes."""

    threshold: float | None = SelectionOptions.redefine("threshold", None)


def self_training_loss(logits: Tensor, labels: Tensor, is_target: Tensor, weight: float = 0.0) -> Tensor:
    """(b, c) logits, (b, c) labels as distributions or zeros, (b,) bool -> the loss of the batch; 0 where nothing is labeled."""
    return labeled_loss(logits.float().log_softmax(1), labels, is_target, weight)


def labeled_loss(log_p: Tensor, labels: Tensor, is_target: Tensor, weight: float = 0.0) -> Tensor:
    """The same from (b, c) logarithms of probabilities."""
    labeled = (labels.sum(1) > 0).to(log_p)  # (b,)
    losses = -(labels * log_p).sum(1)  # (b,)
    if weight:
        losses = losses - weight * is_target.to(log_p) * labeled * log_p.mean(1)
    return losses.sum() / labeled.sum().clamp(min=1)
