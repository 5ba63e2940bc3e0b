"""The losses by name, each as one module that a training can minimize: from features and labels to a number.

Head losses are used as they are; dual_head also takes a teacher's logits. Logit losses get a linear layer of their own, and so
does smooth_adversarial, which runs the network itself. Pair losses are added, with a weight, to softmax cross-entropy, which
alone learns class vectors.

The options of a loss are the keyword arguments of its constructor.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Literal, Union, get_args, get_origin

from torch import Tensor, nn

from hardsight import losses
from hardsight.errors import InputError, did_you_mean
from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, check_not_negative
from hardsight.training.loss_names import LOSSES

NOT_OPTIONS = ("num_features", "reduction", "class_weight", "generator")  # keyword arguments that the training sets, or leaves
IN_THE_HEAD = ("weight", "bias", "log_variance", "log_prior")  # of a loss with class vectors
PAIR_WEIGHT = {"supcon": 1.0}  # of a pair loss beside cross-entropy; of the others:
OTHER_PAIR_WEIGHT = 0.1


class Objective(nn.Module):
    """A loss by name, with the class vectors that it trains.

    Args:
        name: a key of LOSSES.
        num_features, num_classes: d and c.
        num_samples: how many training samples there are, for losses that keep something of each.
        options: the loss's own, such as {"scale": 20}; of a pair loss also `weight`, its part beside cross-entropy.
    """

    def __init__(self, name: str, num_features: int, num_classes: int, num_samples: int, options: dict[str, Any]) -> None:
        super().__init__()
        self.name, self.family, options = name, LOSSES[name][0], dict(options)
        check_loss_options(name, options)
        weight = options.pop("weight", PAIR_WEIGHT.get(name, OTHER_PAIR_WEIGHT))
        self.pair_weight = check_not_negative("weight", weight) if self.family == "pairs" else 0.0
        sizes = {"num_features": num_features, "num_classes": num_classes, "num_samples": num_samples}
        is_head = self.family == "head"
        classes = _made(name, sizes, options) if is_head else losses.SoftmaxLoss(num_features, num_classes)
        assert isinstance(classes, HeadLoss)
        self.classes, self.extra = classes, None if is_head else _made(name, sizes, options)

    def forward(self, features: Tensor, labels: Tensor, rows: Tensor, teacher_logits: Tensor | None = None) -> Tensor:
        """(n, d) features, (n,) labels and which training samples these are -> the mean loss."""
        if isinstance(self.classes, losses.DualHeadLoss):
            return self.classes(features, labels, teacher_logits)
        if self.extra is None:
            return self.classes(features, labels)
        if self.family == "pairs":
            return self.classes(features, labels) + self.pair_weight * self.extra(features, labels)
        logits = self.classes.logits(features)
        if isinstance(self.extra, losses.ALDRLoss):
            return self.extra(logits, labels, rows)
        return self.extra(logits, labels)

    def of_inputs(self, features_of: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """For the family "inputs": a network up to its features, what goes into it, and labels -> (n,) losses."""
        assert self.extra is not None
        return self.extra(lambda moved: self.classes.logits(features_of(moved)), inputs, labels)

    def set_epoch(self, epoch: float) -> None:
        """Tell the epoch, from 0 on, to losses that warm up."""
        for loss in (self.classes, self.extra):
            if isinstance(loss, (losses.LGMLoss, losses.TruncatedGCELoss)):
                loss.set_epoch(epoch)

    def lambdas(self, rows: Tensor) -> Tensor | None:
        """(b,) what ALDR keeps of some training samples; None for other losses."""
        return self.extra.temperatures[rows] if isinstance(self.extra, losses.ALDRLoss) else None

    def kept(self) -> dict[str, Tensor]:
        """What the loss has beside its head: centers, a second head, the lambdas of the training samples in their order.

        A projection is dropped.
        """
        in_the_head = {f"classes.{name}" for name in IN_THE_HEAD}
        state = {name: x for name, x in self.state_dict().items() if name not in in_the_head and x.ndim}
        state = {name: x for name, x in state.items() if not name.startswith("extra.projection.")}
        return {name.partition(".")[2]: x for name, x in state.items()}

    @property
    def head(self) -> Head:
        """What the trained network predicts with."""
        return self.classes.head


def _class(name: str) -> type[nn.Module]:
    kind: type[nn.Module] = getattr(losses, LOSSES[name][1])
    return kind


def _made(name: str, sizes: dict[str, int], options: dict[str, Any]) -> nn.Module:
    """The loss itself, with those of the sizes that its constructor takes."""
    taken = inspect.signature(_class(name)).parameters
    more: dict[str, Any] = {key: size for key, size in sizes.items() if key in taken}
    if LOSSES[name][0] == "inputs":
        more["reduction"] = "none"  # `Trainee` takes the mean over all processes
    return _class(name)(**more, **options)


def loss_options(name: str) -> dict[str, Any]:
    """Option -> its type, of a loss of LOSSES, from its constructor and from those it passes options on to.

    Example:
        >>> loss_options("cosface")
        {'margin': <class 'float'>, 'scale': <class 'float'>}
    """
    options: dict[str, Any] = {}
    for kind in _class(name).__mro__:
        if "__init__" in vars(kind):
            parameters = inspect.signature(vars(kind)["__init__"], eval_str=True).parameters.values()
            for p in parameters:
                if p.kind is p.KEYWORD_ONLY and p.name not in NOT_OPTIONS:
                    options.setdefault(p.name, p.annotation)
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    if name == "gm":
        del options["alpha"]  # it is LGM with alpha 0
    return {**options, "weight": float} if LOSSES[name][0] == "pairs" else options


def check_loss_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an option that a loss does not have, or a value of another type; the constructor checks its range."""
    known = loss_options(name)
    for option, value in options.items():
        if option not in known:
            listed = ", ".join(known) or "none"
            raise InputError(f"the loss {name} has no option {option!r}; it has: {listed}.{did_you_mean(option, known)}")
        kinds = get_args(known[option]) if get_origin(known[option]) in (Union, types.UnionType) else (known[option],)
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        if words and not callable(value) and value not in words:
            near = did_you_mean(str(value), words)
            raise InputError(f"{option} must be one of {', '.join(words)}, got {value!r}.{near}")
        if {int, float} & set(kinds) and not (value is None and type(None) in kinds):
            _check_number(option, value, whole=float not in kinds)


def _check_number(option: str, value: Any, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(f"{option} must be a number, got {value}.")
    if whole and value % 1:
        raise InputError(f"{option} must be a whole number, got {value}.")


def with_defaults(name: str, options: Mapping[str, Any], epochs: int) -> dict[str, Any]:
    """The options of a loss, and those that depend on how long the training is."""
    if name == "truncated_gce":  # 40 of 120 epochs in the paper; without any, nothing would ever be learned
        return {"warmup_epochs": epochs / 3, **options}
    return dict(options)
