"""The options of generalizing to unseen domains, each defined once. Nothing here imports NumPy or torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hardsight.domains.settings import DomainOptions, check_different, read_list
from hardsight.errors import InputError
from hardsight.options import option
from hardsight.training.loss_names import loss_name
from hardsight.training.settings import read_numbers, read_options

Selection = Literal["validation", "last", "oracle"]
DRM, DRM_TTA = "drm", "drm-tta"  # a head per domain; and one that keeps learning from arriving samples
DRM_GAMMA = 1.0  # how much more a sure head's vote counts
EPOCHS = 10  # passes over the training domains, where they make enough steps


@dataclass(frozen=True)
class LossParts:
    """What a name asks for.

    Attributes:
        loss: one of `hardsight.training.loss_names`.
        per_domain: whether each training domain has a head of its own (DRM).
        adapts: whether these learn from the samples of the unseen domain as they arrive (test-time adaptation).
    """

    loss: str
    per_domain: bool = False
    adapts: bool = False


def parts_of(name: str) -> LossParts:
    """`drm` and `drm-tta` are with softmax; `drm+avh`, `drm-tta+avh`, ... with another loss; any other name is a loss.

    Example:
        >>> parts_of("drm-tta+avh"), parts_of("avh")
        (LossParts(loss='avh', per_domain=True, adapts=True), LossParts(loss='avh', per_domain=False, adapts=False))
    """
    method, plus, loss = name.partition("+")
    if method not in (DRM, DRM_TTA):
        return LossParts(name)
    return LossParts(loss if plus else "softmax", True, method == DRM_TTA)


def _losses(value: Any) -> tuple[str, ...]:
    """Names with commas or in a sequence, as they are known inside."""
    return tuple(_usual_name(str(name).strip().lower()) for name in read_list(value, "losses"))


def _usual_name(name: str) -> str:
    """A loss as it is known inside, with drm or drm-tta before it where there is a head per domain."""
    method, plus, loss = name.partition("+")
    if method not in (DRM, DRM_TTA):
        return loss_name(name)
    return f"{method}+{loss_name(loss)}" if plus else method


def _loss_options(value: Any) -> dict[str, dict[str, Any]]:
    """{"avh": {"scale": 20}} from avh:scale=20."""
    if value is None or isinstance(value, Mapping):
        return {name: dict(options) for name, options in (value or {}).items()}
    texts: dict[str, list[str]] = {}
    for text in value:
        loss, colon, one_option = text.partition(":")
        if not colon:
            raise InputError(f"--loss-options is written loss:key=value, as in avh:scale=20, got {text!r}.")
        texts.setdefault(loss, []).append(one_option)
    return {loss: read_options(options) for loss, options in texts.items()}


def _scales(value: Any) -> tuple[float, ...]:
    return read_numbers(value, "scales")


@dataclass(frozen=True)
class GeneralizeSettings(DomainOptions):
    """The options of `hardsight.generalize` and `hardsight generalize`."""

    losses: tuple[str, ...] = option(
        "softmax",
        "Comma-separated losses to compare: softmax, avh, cosface, lgm, ...; drm or drm+LOSS for one head per domain; drm-tta or "
        "drm-tta+LOSS for heads that keep learning from incoming samples.",
        read=_losses,
    )
    loss_options: Mapping[str, Mapping[str, Any]] = option(
        {}, "Option of a loss, such as avh:scale=20; repeatable.", repeat=True, read=_loss_options, metavar="LOSS:KEY=VALUE"
    )
    scales: tuple[float, ...] = option(
        (), "Comma-separated scales to choose from by cross-validation on the training domains.", read=_scales
    )
    selection: Selection = option(
        "validation",
        "Model selection: the best epoch on held-out samples of the training domains (validation), the last epoch, or the "
        "best on the unseen domain (oracle).",
    )
    held_out: float = option(0.2, "Share of each training domain that is held out for validation.", above=0, below=1)
    lists: Path | None = option(
        None,
        "Folder of official split files: DOMAIN_train_kfold.txt, DOMAIN_crossval_kfold.txt, DOMAIN_test_kfold.txt.",
        read=Path,
        decides=False,
    )
    keep_models: bool = option(
        True, "Keep the model of each loss, unseen domain and seed.", flag="--keep-models/--no-keep-models"
    )
    drm_gamma: float = option(
        DRM_GAMMA,
        "Gamma of DRM, whose heads vote by their entropy to the power of minus gamma: 0 for equal votes; below 0 the surest head "
        "decides alone.",
    )
    tta_confidence: float = option(
        0.9, "Minimum confidence at which drm-tta learns from its own prediction of an incoming sample.", least=0, most=1
    )
    tta_rate: float = option(1.0, "Learning-rate multiplier of drm-tta's heads on incoming samples.", above=0)
    tta_steps: int = option(1, "Steps of drm-tta on each batch of incoming samples.", least=1)
    tta_batch_size: int = option(32, "Batch size of incoming samples, for drm-tta.", least=1)
    epochs: int | None = option(
        None,
        "Passes over the training domains. Default: 10, more for small domains (held-out samples say how many).",
        least=1,
    )
    batch_size: int = DomainOptions.redefine("batch_size", 128, help="Samples per step.", least=2)
    standardize: bool = option(
        True,
        "Standardize features by the mean and standard deviation of the training domains.",
        flag="--standardize/--no-standardize",
    )

    def check(self) -> None:
        """There must be at least one loss, and none twice; scales must be positive."""
        super().check()
        check_different("losses", self.losses)
        if self.loss_options or self.scales:
            from hardsight.training.objective import check_loss_options, loss_options
        for name, options in self.loss_options.items():
            if name not in self.losses:
                raise InputError(f"options are given for {name}, which is not among the losses {', '.join(self.losses)}.")
            check_loss_options(parts_of(name).loss, options)
        if self.scales and not any("scale" in loss_options(parts_of(name).loss) for name in self.losses):
            raise InputError(f"scales are given, but {', '.join(self.losses)} has none to choose: add a loss such as avh.")
        if any(not 0 < scale < math.inf for scale in self.scales):
            raise InputError(f"scales must be positive numbers, got {self.scales}.")
