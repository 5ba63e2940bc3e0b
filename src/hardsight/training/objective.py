"""A loss by name as one module that a training can minimize: from features and labels to a number.

Head losses are used as they are. Logit losses get a linear layer of their own, and so do input losses, which run the network
themselves. Pair losses are added, with a weight, to softmax cross-entropy, which alone learns class vectors. What else a loss
needs or keeps, it says itself, by the hooks of `hardsight.losses.contract.Loss`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from hardsight.losses.contract import HeadLoss, Loss, PairLoss, check_not_negative
from hardsight.losses.softmax import SoftmaxLoss
from hardsight.training.loss_names import check_loss_options, loss_class


class Objective(nn.Module):
    """A loss by name, with the class vectors that it trains.

    Args:
        name: a key of LOSSES.
        num_features, num_classes: d and c.
        num_samples: how many training samples there are, for losses that keep something of each.
        options: the loss's own, such as {"scale": 20}; of a pair loss also `weight`, its part beside cross-entropy.

    Attributes:
        classes: the loss that has the class vectors.
        extra: the loss itself, where it has none.
    """

    def __init__(self, name: str, num_features: int, num_classes: int, num_samples: int, options: dict[str, Any]) -> None:
        super().__init__()
        check_loss_options(name, options)
        kind, options = loss_class(name), dict(options)
        self.family = kind.family
        if issubclass(kind, PairLoss):
            self.pair_weight = check_not_negative("weight", options.pop("weight", kind.pair_weight))
        taken = inspect.signature(kind).parameters
        sizes = {"num_features": num_features, "num_classes": num_classes, "num_samples": num_samples}
        options |= {size: value for size, value in sizes.items() if size in taken}
        if self.family == "inputs":
            options["reduction"] = "none"  # `Trainee` takes the mean over all processes
        loss = kind(**options)
        self.classes: HeadLoss = loss if isinstance(loss, HeadLoss) else SoftmaxLoss(num_features, num_classes)
        self.extra = None if loss is self.classes else loss

    @property
    def loss(self) -> Loss:
        """The loss that was named."""
        return self.classes if self.extra is None else self.extra

    def forward(self, features: Tensor, labels: Tensor, rows: Tensor, teacher_logits: Tensor | None = None) -> Tensor:
        """(n, d) features, (n,) labels and which training samples these are -> the mean loss."""
        given = {"indices": rows, "teacher_logits": teacher_logits}
        needed = {name: given[name] for name in self.loss.forward_needs}
        if self.extra is None:
            return self.classes(features, labels, **needed)
        if self.family == "pairs":
            return self.classes(features, labels) + self.pair_weight * self.extra(features, labels)
        return self.extra(self.classes.logits(features), labels, **needed)

    def of_inputs(self, features_of: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """For the family "inputs": a network up to its features, what goes into it, and labels -> (n,) losses."""
        assert self.extra is not None
        return self.extra(lambda moved: self.classes.logits(features_of(moved)), inputs, labels)
