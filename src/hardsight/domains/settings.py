"""The options of `adapt` and `generalize`, each defined once. Nothing here imports NumPy or torch.

Options of a single method, `--method-options NAME:KEY=VALUE`, are its fields: see methods.py and METHODS of generalize_models.py.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardsight.errors import InputError, did_you_mean, require_installed
from hardsight.options import Options, option, read_numbers
from hardsight.training.loss_names import loss_name
from hardsight.training.settings import (
    LearningOptions,
    NetworkOptions,
    Optimizer,
    OptimizerOptions,
    ResourceOptions,
    group,
    read_augment,
    read_options,
)

if TYPE_CHECKING:
    from hardsight.domains.drm import DRM
    from hardsight.domains.meta_steps import MetaMethod
    from hardsight.domains.methods import Method
    from hardsight.domains.training_length import TrainingLength

Standardize = Literal["domain", "source", "none"]
Selection = Literal["validation", "last", "oracle"]

SOURCE_ONLY = "source"  # the method that does nothing
AUTO = "auto"  # the method that chooses between others
GENERALIZE_METHODS = ("drm", "drm-tta", "mldg", "metareg", "feature-critic")  # before a plus, or alone with softmax
SOURCE_EPOCHS, EPOCHS = 8, 10  # passes over the source, and over the training domains, where they make enough steps
RECIPES: dict[str, dict[str, Any]] = {  # the defaults of adapt, by what is trained on
    "features": {"optimizer": "sgd", "lr": 0.03, "weight_decay": 0.05},
    "images": {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 5e-4},
}


# ---- values as they are written ----


def read_list(value: Any, name: str) -> list[Any]:
    """Comma-separated text, or a sequence, as a list."""
    if isinstance(value, str):
        return value.split(",")
    if not isinstance(value, Iterable):
        raise InputError(f"{name} must be comma-separated text or a list, got {value!r}.")
    return list(value)


def read_seeds(value: Any) -> tuple[int, ...]:
    """A number of seeds, counted from 0, or the seeds themselves: a sequence, or comma-separated text.

    Example:
        >>> read_seeds(3), read_seeds("3"), read_seeds("5,7")
        ((0, 1, 2), (0, 1, 2), (5, 7))
    """
    if isinstance(value, str):
        try:
            listed = [int(part) for part in value.split(",") if part.strip()]
        except ValueError as error:
            raise InputError(f"seeds must be a number of seeds or comma-separated seeds, got {value!r}.") from error
        value = listed if "," in value or not listed else listed[0]
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if int(value) < 1:
            raise InputError(f"seeds must be 1 or more, got {value}.")
        return tuple(range(int(value)))
    seeds = tuple(read_list(value, "seeds"))
    if not all(isinstance(seed, numbers.Integral) and int(seed) >= 0 for seed in seeds):
        raise InputError(f"seeds must be whole numbers of 0 or more, got {value!r}.")
    return tuple(int(seed) for seed in seeds)


def read_named_options(value: Any, name: str, example: str) -> dict[str, dict[str, Any]]:
    """{"avh": {"scale": 20}} from a mapping of mappings, or from one or several texts such as avh:scale=20.

    Example:
        >>> read_named_options(["coral:reg=10", "crst:alpha=0.2"], "method_options", "coral:reg=10")
        {'coral': {'reg': 10}, 'crst': {'alpha': 0.2}}
    """
    if isinstance(value, Mapping) and all(isinstance(options, Mapping) for options in value.values()):
        return {str(key): dict(options) for key, options in value.items()}
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise InputError(f"{name} must be a mapping from each name to its options, or texts such as {example}, got {value!r}.")
    texts: dict[str, list[str]] = {}
    for text in [value] if isinstance(value, str) else value:
        whose, colon, key_and_value = str(text).partition(":")
        if not colon:
            raise InputError(f"{name} are written name:key=value, as in {example}, got {text!r}.")
        texts.setdefault(whose.strip(), []).append(key_and_value)
    return {whose: read_options(options) for whose, options in texts.items()}


def named_option(help: str, name: str, example: str, metavar: str) -> Any:
    """A repeatable option that holds the options of several losses or methods."""
    read = partial(read_named_options, name=name, example=example)
    return option({}, help, repeat=True, read=read, metavar=metavar)


def check_method_options(
    given: Mapping[str, Mapping[str, Any]], methods: Mapping[str, type[Options]], used: Iterable[str]
) -> None:
    """Refuse options of a method that does not exist or is not used, and options or values that a method does not take.

    Args:
        given: method -> its options.
        methods: the options class of every method that may have options.
        used: the methods that are run.
    """
    used = list(dict.fromkeys(used))
    for method, options in given.items():
        if method not in methods:
            near = did_you_mean(method, methods)
            raise InputError(f"method_options: there is no method {method!r}; those used are {', '.join(used) or 'none'}.{near}")
        if method not in used:
            raise InputError(
                f"method_options are given for {method}, which is not among the methods used: {', '.join(used) or 'none'}."
            )
        keys = [field.name for field in methods[method].fields()]
        for key in options:
            if key not in keys:
                near = did_you_mean(key, keys)
                raise InputError(f"the method {method} has no option {key!r}; it has: {', '.join(keys) or 'none'}.{near}")
        try:
            methods[method](**options)
        except InputError as error:
            raise InputError(f"method_options of {method}: {error}") from error


def check_different(name: str, values: tuple[Any, ...]) -> None:
    """Check that there is at least one value, and no value twice."""
    if not values:
        raise InputError(f"there must be at least one of {name}.")
    if len(set(values)) != len(values):
        raise InputError(f"{name} must be distinct, got {', '.join(map(str, values))}.")


# ---- both commands ----


@dataclass(frozen=True)
class NesterovByDefault(OptimizerOptions):
    """Those of a comparison: Nesterov momentum, where there is momentum."""

    nesterov: bool | None = OptimizerOptions.redefine("nesterov", None)


@dataclass(frozen=True)
class DomainOptions(NetworkOptions, LearningOptions, ResourceOptions):
    """Options of a comparison over domains and seeds."""

    FOR_IMAGES: ClassVar[tuple[str, ...]] = ("model", "augment", *(field.name for field in NetworkOptions.fields()))
    FOR_FEATURES: ClassVar[tuple[str, ...]] = ("hidden",)
    seeds: tuple[int, ...] = option(1, "Number of seeds, counted from 0, or comma-separated seeds.", read=read_seeds)
    model: Any = option(None, "Network for images: lenet, mnist_cnn, timm:NAME, ..., or a trained run.", metavar="MODEL")
    hidden: int = option(512, "Hidden units of the head that is trained on features.", least=1)
    optimizer_options: OptimizerOptions = LearningOptions.redefine(
        "optimizer_options", NesterovByDefault(), read=group(NesterovByDefault)
    )

    def check(self) -> None:
        """Check the seeds, and the precision on a CPU."""
        super().check()
        check_different("seeds", self.seeds)
        if self.precision == "float16" and self.device == "cpu":  # of device auto, torch knows
            raise InputError("precision float16 needs a GPU; on a CPU use bfloat16.")

    def given_among(self, names: tuple[str, ...]) -> list[str]:
        """Those of these options that differ from their defaults and are not `none`."""
        default = {field.name: field.default for field in self.fields()}
        return [name for name in names if getattr(self, name) not in (default[name], "none")]


# ---- adapt ----


@dataclass(frozen=True)
class Portions:
    """A portion that grows round by round: used first, then raised.

    Example:
        >>> growing = Portions.read("0.2:0.05:0.3", "portion")
        >>> [round(growing.at(number), 2) for number in (1, 2, 3, 4)], Portions.read(0.3, "portion").at(9)
        ([0.2, 0.25, 0.3, 0.3], 0.3)
    """

    start: float
    step: float = 0.0
    stop: float = 1.0

    @classmethod
    def read(cls, text: Any, name: str) -> Portions:
        """`start:step:stop`, one number for all rounds, or the three as a tuple."""
        if isinstance(text, Portions):
            return text
        try:
            values = [float(part) for part in (str(text).split(":") if isinstance(text, (str, int, float)) else text)]
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} is written start:step:stop, as in 0.2:0.05:0.5, or as one number; got {text!r}.") from error
        if len(values) == 1:
            values = [values[0], 0.0, values[0]]
        if len(values) != 3 or not all(0 <= value <= 1 for value in values) or values[2] < values[0]:
            raise InputError(f"{name} is written start:step:stop with 0 <= start <= stop <= 1, got {text!r}.")
        return cls(*values)

    def at(self, round_number: int) -> float:
        """The portion of a round, counted from 1."""
        return min(self.start + (round_number - 1) * self.step, self.stop)

    def __str__(self) -> str:
        return f"{self.start:g}:{self.step:g}:{self.stop:g}"


def read_methods(value: Any) -> tuple[str, ...]:
    """Methods by name, with `source` for none at all and `auto` for a choice; a text has commas between them."""
    from hardsight.domains.methods import Method

    names = read_list(value, "methods")
    return tuple(AUTO if str(name).strip().lower() == AUTO else Method.read(name).name for name in names)


@dataclass(frozen=True)
class AdaptSettings(DomainOptions):
    """The options of `hardsight.adapt` and `hardsight adapt`."""

    FOR_IMAGES: ClassVar[tuple[str, ...]] = (*DomainOptions.FOR_IMAGES, "target_augment", "flip_labels")
    FOR_FEATURES: ClassVar[tuple[str, ...]] = (*DomainOptions.FOR_FEATURES, "standardize")
    methods: tuple[str, ...] = option(
        "cbst+avh",
        "Comma-separated methods to compare: cbst, crst, crst-mrkld, crst-lrent, cbst+avh, cbst+SCORE, avc, threshold, weighted, "
        "depict; mmd, deep-coral, dann, mcd, adr, entropy, coral and subspace, alone or before one of these (coral+cbst); "
        "source is no adaptation, auto chooses method and round without labels.",
        read=read_methods,
    )
    method_options: Mapping[str, Mapping[str, Any]] = named_option(
        "Option of a method, such as coral:reg=10 or crst:alpha=0.2; repeatable. docs/adapt.md lists them.",
        "method_options",
        "coral:reg=10",
        "METHOD:KEY=VALUE",
    )
    rounds: int = option(10, "Rounds of selecting pseudo-labels and training on them.", least=1)
    epochs: int = option(2, "Passes over source and selected samples in each round.", least=1)
    source_epochs: int | None = option(
        None,
        "Passes over the source alone before the first round. Default: 8, more for a small source (held-out samples say how "
        "many), 0 for a trained run.",
        least=0,
    )
    portion: Portions = option(
        "0.2:0.05:0.5",
        "Share of each class to pseudo-label, as start:step:stop over the rounds.",
        read=partial(Portions.read, name="portion"),
    )
    source_portion: Portions = option(
        "1",
        "Share of the source samples to train on in each round, as start:step:stop or one number.",
        read=partial(Portions.read, name="source_portion"),
    )
    standardize: Standardize = option(
        "domain",
        "Standardize features by the mean and standard deviation of their own domain, of the source, or not at all (none).",
    )
    balance: bool = option(True, "Draw the same number of source samples from each class.", flag="--balance/--no-balance")
    flip_labels: bool = option(False, "Average the probabilities of each image and its mirror image to choose pseudo-labels.")
    target_augment: str | None = option(
        None, "Augmentations of target images, in the form of --augment. Default: those of --augment.", read=read_augment
    )
    batch_size: int = DomainOptions.redefine("batch_size", 256, help="Samples per step.")
    optimizer: Optimizer | None = DomainOptions.redefine(  # type: ignore[assignment]
        "optimizer", None, help="Optimizer: sgd or adamw. Default: sgd on features, adamw on images."
    )
    lr: float | None = DomainOptions.redefine("lr", None, help="Learning rate. Default: 0.03 on features, 0.001 on images.")
    weight_decay: float | None = DomainOptions.redefine(  # type: ignore[assignment]
        "weight_decay", None, help="Weight decay of matrices and filters. Default: 0.05 on features, 0.0005 on images."
    )

    def check(self) -> None:
        """There must be at least one method, none twice, and something to select in the last round."""
        super().check()
        check_different("methods", self.methods)
        if self.method_options:
            from hardsight.domains.methods import STAGES

            check_method_options(self.method_options, STAGES, (stage for method in self.all_methods() for stage in method.stages))
        if self.source_portion.start == 0:
            raise InputError("source_portion must be above 0: every round trains on some source samples, got 0.")
        if self.portion.at(self.rounds) == 0:
            raise InputError(
                f"portion {self.portion.start:g} selects nothing in any round: it must rise above 0, as 0.2:0.05:0.5."
            )

    def all_methods(self) -> list[Method]:
        """The methods that adapt, without the source model itself; `auto` brings those that it chooses from."""
        from hardsight.domains.auto import CANDIDATES
        from hardsight.domains.methods import Method

        named = [method for method in self.methods if method not in (SOURCE_ONLY, AUTO)]
        candidates = CANDIDATES if AUTO in self.methods else ()
        return [Method.read(name) for name in dict.fromkeys([*named, *candidates])]

    def source_length(self, num_samples: int) -> TrainingLength:
        """How long to train on a source of this size: `source_epochs`, or by its size."""
        from hardsight.domains.training_length import TrainingLength, training_length

        if self.source_epochs is not None:
            return TrainingLength(self.source_epochs)
        return training_length(num_samples, self.batch_size, SOURCE_EPOCHS)


# ---- generalize ----


@dataclass(frozen=True)
class LossParts:
    """What a name asks for.

    Attributes:
        loss: one of `hardsight.training.loss_names`.
        method: one of GENERALIZE_METHODS; None for plain training on all domains.
    """

    loss: str
    method: str | None = None


def parts_of(name: str) -> LossParts:
    """A method alone, such as `drm` or `mldg`, is with softmax, `drm+avh` with another loss; any other name is a loss.

    Example:
        >>> parts_of("drm-tta+avh"), parts_of("avh")
        (LossParts(loss='avh', method='drm-tta'), LossParts(loss='avh', method=None))
    """
    method, plus, loss = name.partition("+")
    if method not in GENERALIZE_METHODS:
        return LossParts(name)
    return LossParts(loss if plus else "softmax", method)


def _losses(value: Any) -> tuple[str, ...]:
    """Names with commas or in a sequence, as they are known inside."""
    return tuple(_usual_name(str(name).strip().lower()) for name in read_list(value, "losses"))


def _usual_name(name: str) -> str:
    """A loss as it is known inside, with the method before it, if there is one."""
    method, plus, loss = name.partition("+")
    if method not in GENERALIZE_METHODS:
        return loss_name(name)
    return f"{method}+{loss_name(loss)}" if plus else method


@dataclass(frozen=True)
class GeneralizeSettings(DomainOptions):
    """The options of `hardsight.generalize` and `hardsight generalize`."""

    losses: tuple[str, ...] = option(
        "softmax",
        "Comma-separated losses to compare: softmax, avh, cosface, lgm, ...; methods, with softmax or as METHOD+LOSS: drm (one "
        "head per domain), drm-tta (these keep learning from incoming samples), mldg, metareg, feature-critic.",
        read=_losses,
    )
    loss_options: Mapping[str, Mapping[str, Any]] = named_option(
        "Option of a loss, such as avh:scale=20; repeatable.", "loss_options", "avh:scale=20", "LOSS:KEY=VALUE"
    )
    method_options: Mapping[str, Mapping[str, Any]] = named_option(
        "Option of a method, such as drm:gamma=0 or mldg:inner_rate=2; repeatable. docs/generalize.md lists them.",
        "method_options",
        "drm:gamma=0",
        "METHOD:KEY=VALUE",
    )
    scales: tuple[float, ...] = option(
        (),
        "Comma-separated scales to choose from by cross-validation on the training domains.",
        read=partial(read_numbers, name="scales"),
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
    epochs: int | None = option(
        None, "Passes over the training domains. Default: 10, more for small domains (held-out samples say how many).", least=1
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
        if self.method_options or self.loss_options or self.scales:
            require_installed("torch", extra="torch", purpose="hardsight generalize")
        if self.method_options:
            from hardsight.domains.generalize_models import METHODS

            check_method_options(self.method_options, METHODS, filter(None, (parts_of(name).method for name in self.losses)))
        self._check_losses()

    def _check_losses(self) -> None:
        """Options and scales must be those of the losses."""
        if not self.loss_options and not self.scales:
            return
        from hardsight.training.loss_names import check_loss_options, loss_options

        for name, options in self.loss_options.items():
            if name not in self.losses:
                raise InputError(f"options are given for {name}, which is not among the losses {', '.join(self.losses)}.")
            check_loss_options(parts_of(name).loss, options)
        if self.scales and not any("scale" in loss_options(parts_of(name).loss) for name in self.losses):
            raise InputError(f"scales are given, but {', '.join(self.losses)} has none to choose: add a loss such as avh.")
        if any(not 0 < scale < math.inf for scale in self.scales):
            raise InputError(f"scales must be positive numbers, got {self.scales}.")

    def method_of(self, name: str) -> DRM | MetaMethod | None:
        """The method of a loss with its options; None for plain training."""
        from hardsight.domains.generalize_models import METHODS

        method = parts_of(name).method
        return None if method is None else METHODS[method](**self.method_options.get(method, {}))
