"""The options of a training, each defined once: the Python function, the command line, the docs and start.json follow.

`TrainSettings`, the last class, is read by loop.py and what it opens: sets.py, opening.py, optimization.py.
`NetworkOptions`, `LearningOptions` and `ResourceOptions` are shared with adapt and generalize, `PacingOptions` with
curriculum. Details of one idea are a group, a settings class of its own: `--optimizer-options "momentum=0.8 nesterov"`, in
Python optimizer_options={"momentum": 0.8, "nesterov": True}. Nothing here imports NumPy or torch, so that `hardsight --help`
is quick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hardsight.errors import InputError
from hardsight.extraction.settings import PreprocessingOptions
from hardsight.options import Options, common, option, read_numbers

COMMAND = "hardsight train"  # what a run says it was made by

Optimizer = Literal["sgd", "adamw"]
Schedule = Literal["constant", "step", "cosine"]
Precision = Literal["float32", "bfloat16", "float16"]
Order = Literal["easy-first", "hard-first", "self-paced", "random"]
PacingKind = Literal["linear", "root", "geometric", "step"]
LEARNING_RATES = {"sgd": 0.01, "adamw": 1e-3}  # where none is given


def read_options(source: Any) -> dict[str, Any]:
    """Options from a mapping, or from `key=value` texts.

    Numbers, true, false and none are read as such, and several numbers with commas as a tuple.

    Example:
        >>> read_options(["scale=10", "covariance=shared", "bounds=-4,4", "bias=false"])
        {'scale': 10, 'covariance': 'shared', 'bounds': (-4, 4), 'bias': False}
    """
    if source is None or isinstance(source, Mapping):
        return dict(source or {})
    if not _are_texts(source):
        raise InputError(f"options are a mapping, or texts key=value as in scale=10, got {source!r}.")
    options: dict[str, Any] = {}
    for text in source:
        key, equals, value = text.partition("=")
        if not equals or not key.strip().isidentifier():
            raise InputError(f"an option is written key=value, as in scale=10, got {text!r}.")
        if key.strip() in options:
            raise InputError(f"the option {key.strip()} is given twice.")
        parts = tuple(_value(part.strip()) for part in value.split(","))
        options[key.strip()] = parts if len(parts) > 1 else parts[0]
    return options


def _are_texts(source: Any) -> bool:
    return isinstance(source, (list, tuple)) and all(isinstance(text, str) for text in source)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def group(options: type[Options]) -> Callable[[Any], Options]:
    """A reader of a group of options: from a mapping, or from texts of `key=value` with spaces between; a switch needs no value.

    Example:
        >>> group(OptimizerOptions)(["momentum=0.8 nesterov", "clip=1"])
        OptimizerOptions(momentum=0.8, nesterov=True, decay_all=False, head_rate=1.0, clip=1.0)
    """
    switches = {field.name for field in options.fields() if field.kind is bool}
    as_text = {field.name for field in options.fields() if field.about.read is not None}

    def read(value: Any) -> Options:
        if isinstance(value, Options) and issubclass(options, type(value)):
            return value
        value = [value] if isinstance(value, str) else value
        if not _are_texts(value):
            return options.given(None, read_options(value))
        words = " ".join(value).split()
        given = read_options([f"{word}=true" if word in switches else word for word in words])
        texts = {key: text for key, _, text in (word.partition("=") for word in words)}
        return options.given(None, {key: texts[key] if key in as_text else parsed for key, parsed in given.items()})

    return read


def key_values(help: str, options: type[Options] | None = None) -> Any:
    """An option of `key=value` texts: any keys, or those of a group."""
    default, read = ({}, read_options) if options is None else (options(), group(options))
    return option(default, help, repeat=True, read=read, metavar="KEY=VALUE")


def read_augment(value: Any) -> str:
    """Augmentations as `parse_augmentation` takes them, in their usual spelling."""
    from hardsight.training.augmentation import parse_augmentation

    return str(parse_augmentation(value))


def _pretrained(value: Any) -> bool | str:
    """Whether to start from released weights, or from which ones."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise InputError(f"pretrained must be true, false or the name of released weights, such as V1; got {value!r}.")
    return {"true": True, "false": False}.get(value.lower(), value.upper())


def _degradations(value: Any) -> tuple[str, ...]:
    from hardsight.data import parse_degradations

    return tuple(str(degradation) for degradation in parse_degradations(value))


def _watch(value: Any) -> Mapping[str, Any] | None:
    """{name: data} from name=data texts; None where nothing is said, an empty mapping for `none`."""
    if value is None or isinstance(value, Mapping):
        return value
    texts: Sequence[str] = value
    if list(texts) == ["none"]:
        return {}
    watched: dict[str, str] = {}
    for text in texts:
        name, equals, data = text.partition("=")
        if not equals or not name or not data:
            raise InputError(f"--watch is written name=DATA, as in test=photos/, or none; got {text!r}.")
        if name in watched:
            raise InputError(f"--watch {name} is given twice.")
        watched[name] = data
    return watched or None


def _keep_epochs(value: Any) -> bool | int:
    """Every how many epochs: 1 for the switch alone, False where it is off."""
    if isinstance(value, bool) or value in ("true", "false"):
        return 1 if value is True or value == "true" else False
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if not isinstance(number, int) or number < 1:
        raise InputError(f"keep_epochs must be true, false or a whole number of 1 or more, got {value!r}.")
    return number


@dataclass(frozen=True)
class NetworkOptions(Options):
    """Which network to train, beside its name, and what it is given to see."""

    model_options: Mapping[str, Any] = key_values("Option of the network, such as num_features=2; repeatable.")
    weights: Path | None = option(
        None, "Weights to start from: .safetensors, or .pt with tensors only.", read=Path, decides=False
    )
    pretrained: bool | str = option(
        False,
        "Start from the weights that timm or torchvision releases; of torchvision also by name: --pretrained V1.",
        read=_pretrained,
        word="(?i:V[0-9]+|IMAGENET1K_[0-9A-Z_]+|DEFAULT)",
        metavar="[NAME]",
    )
    head_hidden: int | None = option(
        None, "Units of a hidden layer in the head, before the classes: linear, ReLU, then the loss. Default: none.", least=1
    )
    size: int | None = PreprocessingOptions.redefine("size", None)
    exact_decode: bool = PreprocessingOptions.redefine("exact_decode", False)
    preprocessing: PreprocessingOptions = key_values(
        "Preprocessing of images as in extract: resize, crop_pct, scaling, mean, std, interpolation, channels; "
        "repeatable. Default: the network's own.",
        PreprocessingOptions,
    )

    def check(self) -> None:
        """The size may come from one place only."""
        super().check()
        if self.size is not None and self.preprocessing.size is not None:
            raise InputError(f"size is given twice: {self.size}, and {self.preprocessing.size} in preprocessing.")

    def chosen_preprocessing(self) -> dict[str, Any]:
        """Fields of the network's preprocessing to override."""
        chosen = self.preprocessing if self.size is None else dataclasses.replace(self.preprocessing, size=self.size)
        return {**chosen.preprocessing(), **({"exact_decode": True} if self.exact_decode else {})}


@dataclass(frozen=True)
class OptimizerOptions(Options):
    """How the optimizer treats the parameters, beside learning rate and weight decay."""

    momentum: float = option(0.9, "Momentum of sgd.", least=0)
    nesterov: bool | None = option(False, "Use Nesterov momentum; None: where there is momentum.")
    decay_all: bool = option(False, "Apply weight decay to every parameter, biases and norms included.")
    head_rate: float = option(
        1.0, "Learning-rate multiplier for the head: the class vectors and everything else after the network.", above=0
    )
    clip: float | None = option(None, "Clip the gradient norm to this value.", above=0)

    def check(self) -> None:
        """What must hold between options."""
        if self.nesterov and self.momentum == 0:
            raise InputError("nesterov needs a momentum above 0.")


@dataclass(frozen=True)
class ScheduleOptions(Options):
    """When and by how much a schedule changes the learning rate; epochs need not be whole."""

    milestones: tuple[float, ...] = option(
        (),
        "Comma-separated epochs at which the step schedule multiplies the learning rate by gamma. Default: 1/2 and 3/4 of the "
        "epochs.",
        read=partial(read_numbers, name="milestones"),
    )
    step_size: float | None = option(None, "Epochs between milestones of the step schedule, instead of milestones.", above=0)
    gamma: float = option(0.1, "Factor by which the step schedule multiplies the learning rate.", above=0)
    warmup: float = option(0.0, "Epochs of linear learning-rate warmup, before any schedule.", least=0)

    def check(self) -> None:
        """What must hold between options."""
        if any(epoch < 0 for epoch in self.milestones):
            raise InputError(f"milestones must be epochs of 0 or more, got {self.milestones}.")
        if self.milestones and self.step_size is not None:
            raise InputError(f"step_size ({self.step_size:g}) and milestones both say when: leave one of them out.")


@dataclass(frozen=True)
class LearningOptions(Options):
    """How a network learns."""

    batch_size: int = option(128, "Samples per step, over all processes.", least=1)
    optimizer: Optimizer = option("sgd", "Optimizer: sgd or adamw.")
    lr: float | None = option(None, "Learning rate. Default: 0.01 for sgd, 0.001 for adamw.", above=0)
    weight_decay: float = option(5e-4, "Weight decay of matrices and filters; biases and norms have none.", least=0)
    optimizer_options: OptimizerOptions = key_values(
        "Option of the optimizer: momentum=0.9, nesterov, decay_all (biases and norms too), head_rate=10 (multiplies the "
        "learning rate of the head), clip=1 (the gradient norm); repeatable. Default: momentum=0.9.",
        OptimizerOptions,
    )
    freeze_bn: bool = option(False, "Freeze the running statistics of batch normalization, and use them in training as well.")
    schedule: Schedule = option("constant", "Learning-rate schedule: constant, step or cosine.")
    schedule_options: ScheduleOptions = key_values(
        "Option of the schedule: warmup=EPOCHS; of step milestones=30,60 or step_size=30, and gamma=0.1; repeatable. "
        "Default: gamma=0.1 at 1/2 and 3/4 of the epochs.",
        ScheduleOptions,
    )
    precision: Precision = option("float32", "Precision: float32, bfloat16, or float16 on a GPU.")
    augment: str = option(
        "none",
        "Comma-separated augmentations of images: flip, crop, crop=PIXELS, resized-crop, resized-crop=0.08:1; or none.",
        read=read_augment,
    )

    def check(self) -> None:
        """What must hold between options."""
        super().check()
        for name in ("milestones", "step_size"):
            if getattr(self.schedule_options, name) and self.schedule != "step":
                raise InputError(f"{name} goes with schedule 'step', not with {self.schedule!r}.")

    @property
    def learning_rate(self) -> float:
        """`lr`, or that of the optimizer where none is given."""
        return LEARNING_RATES[self.optimizer] if self.lr is None else self.lr


@dataclass(frozen=True)
class ResourceOptions(Options):
    """Where to compute, and on how much of the data. The fingerprints of the inputs tell what was read."""

    device: Any = common("device", decides=False)
    workers: int | None = option(None, "Decoding threads. Default: one per core.", least=1, decides=False)
    limit: int | None = common("limit", help="Use only N samples of each dataset, spread evenly over it.", decides=False)


@dataclass(frozen=True)
class PacingOptions(Options):
    """In which order samples are let into a training, and how fast."""

    order: Order | None = option(
        None,
        "Order of a curriculum: easy-first, hard-first, self-paced (by the network's own loss, epoch by epoch) or random (as a "
        "control). Default: easy-first, if there is a curriculum.",
    )
    pacing: PacingKind = option("linear", "Growth of the share of samples in use: linear, root, geometric or step.")
    pace_start: float = option(0.2, "Share of the samples that a curriculum starts with.", above=0, most=1)
    pace_epochs: float | None = option(None, "Epochs until a curriculum uses all samples. Default: half of the epochs.", least=0)


@dataclass(frozen=True)
class TrainSettings(PacingOptions, NetworkOptions, LearningOptions, ResourceOptions):
    """The options of `hardsight.train` and `hardsight train`."""

    loss: str = option("softmax", "Loss: softmax, avh, lgm, gm, center, l_softmax, arcface, ...: see docs/training.md.")
    loss_options: Mapping[str, Any] = key_values("Option of the loss, such as scale=20; repeatable.")
    epochs: int = option(10, "Passes over the training data.", least=1)
    watch: Mapping[str, Any] | None = option(
        None,
        "Held-out set to evaluate after each epoch; repeatable; `none` turns it off. Default: the data's other splits.",
        repeat=True,
        read=_watch,
        metavar="NAME=DATA",
        decides=False,
    )
    degradations: tuple[str, ...] = option(
        (),
        "Degradation of the watched images, such as contrast=0.1,0.3 or noise=0.2; repeatable.",
        flag="--degrade",
        repeat=True,
        read=_degradations,
    )
    every: int | None = option(None, "Evaluate the watched sets every N training steps as well.", least=1)
    top_k: int | None = option(None, "Report top-N accuracy of the watched sets as well, such as 5.", least=2)
    crops: int = option(
        1,
        "Crops of each watched image: 1, or 10 (corners and center, mirrored too) to report the accuracy of their mean logits.",
    )
    at_start: bool = option(False, "Evaluate the watched sets before training as well, as epoch 0.")
    seed: int = common("seed")
    split: str | None = option(None, "Split of DATA to train on. Default: train, where it has splits.", decides=False)
    subset: Any = option(
        None,
        "Samples to train on: a table with a column id, as hardsight select writes it. Default: all.",
        metavar="FILE",
        decides=False,
    )
    curriculum: Any = option(
        None,
        "Curriculum by a score of an earlier run, or by a column of a table: teacher:avh, scores.parquet:loss.",
        metavar="RUN:SCORE",
        decides=False,
    )
    labels_from: str | None = common("labels_from")
    keep_epochs: bool | int = option(
        False,
        "Save the network after every epoch, or every K-th, in epochs/; the score vog needs them. Default: none.",
        read=_keep_epochs,
        word="[0-9]+",
        metavar="[K]",
    )
    snapshot: bool = option(True, "Store the features of every sample at the end.", flag="--snapshot/--no-snapshot")
    strict: bool = option(False, "Stop at an image that cannot be read instead of skipping and listing it.")
    tracker: str | None = option(None, "Log metrics to a tracker: tensorboard, wandb or mlflow.", decides=False)
    teacher: Any = option(None, "Teacher for --loss dual_head: a run, or a model as for extract.", metavar="MODEL", decides=False)

    def check(self) -> None:
        """What must hold between options."""
        super().check()
        if self.crops not in (1, 10):
            raise InputError(f"crops must be 1 or 10, got {self.crops}.")
        if self.subset is not None and self.limit is not None:
            raise InputError("subset and limit both choose the samples to train on: leave one of them out.")
        paced = [name for name in ("pacing", "pace_start", "pace_epochs") if getattr(self, name) != getattr(PacingOptions, name)]
        if paced and self.curriculum is None and self.order is None:
            raise InputError(
                f"--{paced[0].replace('_', '-')} goes with a curriculum: give --curriculum RUN:SCORE, or an --order."
            )
