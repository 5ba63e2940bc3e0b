"""Options of `hardsight extract`, defined once. Nothing heavy is imported, so `--help` is fast."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from hardsight.errors import InputError
from hardsight.options import Options, SampleOptions, common, option, read_numbers


def _batch_size(value: Any) -> int | str:
    """A positive whole number, or "auto"."""
    if value == "auto":
        return "auto"
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"batch_size must be a positive number or auto, got {value!r}.")
    return number


def _layers(value: Any) -> tuple[str, ...]:
    """Unique names of layers."""
    names = value.split(",") if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"layers must be names of layers, such as layer1,layer2, got {value!r}.")
    names = [name.strip() for name in names if name.strip()]
    odd = [name for name in names if names.count(name) > 1 or set(name) & set("/\\")]
    if odd:
        raise InputError(f"layers must be different layer names, but {odd[0]!r} is repeated or empty.")
    return tuple(names)


def _passes(value: Any) -> tuple[str, ...]:
    """Extra passes over the images: `flip`, `dropout=N`, each at most once."""
    parts = value.split(",") if isinstance(value, str) else list(value)
    names = tuple(str(part).strip() for part in parts if str(part).strip())
    odd = [name for name in names if not re.fullmatch(r"flip|dropout=[1-9][0-9]{0,2}", name)]
    kinds = [name.partition("=")[0] for name in names]
    if odd or len(set(kinds)) < len(kinds):
        raise InputError(f"passes must be flip, dropout=N (N up to 999) or both, such as flip,dropout=20, got {value!r}.")
    return names


@dataclass(frozen=True)
class PreprocessingOptions(Options):
    """Overrides of the model's own preprocessing, shared by the commands that read images."""

    size: int | None = option(None, "Input size in pixels. Default: the model's own.", least=1)
    resize: str | None = option(
        None,
        "Resize mode: shortest (then center crop), squash, or longest (then pad). Default: the model's own.",
        choices=("shortest", "squash", "longest"),
    )
    crop_pct: float | None = option(
        None, "Center crop as a fraction of the resized side, such as 0.875. Default: the model's own.", above=0, most=1
    )
    scaling: str | None = option(
        None,
        "Scaling of pixels x in 0..255: unit (x / 255), imagenet (by the mean and standard deviation of ImageNet) or centered "
        "((x - 128) / 128). Default: the model's own.",
        choices=("unit", "imagenet", "centered"),
    )
    mean: tuple[float, ...] | None = option(
        None,
        "Comma-separated channel means, for pixels in 0..1. Default: the model's own.",
        read=partial(read_numbers, name="mean"),
    )
    std: tuple[float, ...] | None = option(
        None, "Comma-separated channel standard deviations. Default: the model's own.", read=partial(read_numbers, name="std")
    )
    interpolation: str | None = option(
        None,
        "Interpolation: bilinear, bicubic, lanczos, nearest, box or hamming. Default: the model's own.",
        choices=("bilinear", "bicubic", "lanczos", "nearest", "box", "hamming"),
    )
    channels: str | None = option(None, "Channels: RGB, BGR or L (gray). Default: the model's own.", choices=("RGB", "BGR", "L"))
    exact_decode: bool = option(
        False, "Decode large JPEGs whole instead of at a half, a fourth or an eighth of their size: slower."
    )

    def check(self) -> None:
        """Pixels can be scaled in one way only."""
        super().check()
        if self.scaling is not None and (self.mean is not None or self.std is not None):
            raise InputError("scaling contradicts mean and std: use one or the other.")

    def preprocessing(self) -> dict[str, Any]:
        """Fields of the model's preprocessing to override."""
        names = ("mean", "std", "resize", "crop_pct", "interpolation", "channels")
        chosen = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.scaling is not None:
            from hardsight.models.preprocessing import SCALINGS  # imports NumPy, which --help does not need

            chosen["mean"], chosen["std"] = SCALINGS[self.scaling]
        if self.exact_decode:
            chosen["exact_decode"] = True
        return chosen if self.size is None else {"size": (self.size, self.size), **chosen}


@dataclass(frozen=True)
class ExtractSettings(PreprocessingOptions, SampleOptions):
    """Options of an extraction: model, images and preprocessing.

    Model and data are recorded by their fingerprints, so the options that only select them are not compared again on resume.
    """

    weights: Any = option(None, "Weights of the model: .safetensors, or .pt with tensors only.", metavar="FILE", decides=False)
    pretrained: str | None = option(
        None, "Released weights of torchvision:NAME, such as V1. Default: the library's choice.",
        metavar="VERSION", decides=False,
    )  # fmt: skip
    num_classes: int | None = option(
        None, "Number of classes in the weights. Default: the architecture's own.", least=1, decides=False
    )
    head: str | None = common("head_layer")
    device: Any = common("device")
    precision: str = option(
        "float32", "Precision of the forward pass: float32, bfloat16 or float16.", choices=("float32", "bfloat16", "float16")
    )
    batch_size: Any = option(
        "auto",
        "Images per forward pass; auto is 4 to 32 on a CPU, by the size of an image, and the largest that fits on a GPU.",
        read=_batch_size,
    )
    workers: int | None = option(None, "Decoding threads. Default: one per core.", least=1, decides=False)
    limit: int | None = common("limit", decides=False)
    first: int | None = common("first", decides=False)
    split: str | None = option(
        None,
        "Split to use; or train, val or test to label data without splits; or the column that holds the split.",
        decides=False,
    )
    labels_from: Any = common("labels_from")
    class_names: Any = common(
        "class_names", help="File of class names, in the order of the model's classes or of the labels: one per line, or a JSON "
        "list. Default: the folders' names, or the model's.", decides=False,
    )  # fmt: skip
    degradations: Any = option(
        (), "Degradation, such as contrast=0.1,0.3,1.0 or noise=0.0,0.2: each image once per level, instead of the "
        "original; repeatable.", flag="--degrade", repeat=True,
    )  # fmt: skip
    layers: Any = option(
        (), "Comma-separated layers whose features to store as well, first layer first; the score prediction_depth needs them.",
        read=_layers, metavar="A,B,C",
    )  # fmt: skip
    passes: Any = option(
        (), "Extra passes over the images, each a snapshot in passes/: flip (mirrored), dropout=N (N times with dropout "
        "enabled); correlate --passes reads them.", read=_passes, metavar="flip,dropout=20",
    )  # fmt: skip
    keep_head: bool = option(False, "Keep the model's head even if its classes differ from the data's; names are matched.")
    fit_head: bool = option(False, "Leave the model's head out: score fits one to the features by cross-validation.")
    strict: bool = option(False, "Stop at an image that cannot be read instead of skipping and listing it.", decides=False)

    def check(self) -> None:
        """The head is either kept or left out."""
        super().check()
        if self.keep_head and self.fit_head:
            raise InputError("keep_head and fit_head contradict each other: use one of them.")

    def as_dict(self) -> dict[str, Any]:
        """Options that the result depends on, except preprocessing, whose outcome is recorded as a whole."""
        preprocessing = {field.name for field in PreprocessingOptions.fields()}
        return {name: value for name, value in super().as_dict().items() if name not in preprocessing}
