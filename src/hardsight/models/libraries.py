"""`torchvision:NAME`, `timm:NAME` and `hf:DIR_OR_NAME`: the models of these libraries, and whether the hub can be reached."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from torch import nn

from hardsight.errors import FileError, InputError, MissingExtra, did_you_mean, first_line, why_missing
from hardsight.files.reading import read_object
from hardsight.models.model import BuiltNetwork
from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from hardsight.models.weights import tensors_only


def open_library(library: str, name: str, *, pretrained: bool | str, num_classes: int | None) -> BuiltNetwork:
    """A model of timm, torchvision or transformers (hf); what these read of weights is tensors only."""
    opener: Any = {"timm": open_timm, "torchvision": open_torchvision, "hf": open_transformers}[library]
    with tensors_only(f"{library}:{name}"):
        built: BuiltNetwork = opener(name, pretrained=pretrained, num_classes=num_classes)
        return built


def open_torchvision(name: str, *, pretrained: bool | str, num_classes: int | None) -> BuiltNetwork:
    """A torchvision classifier with its preprocessing and class names; `pretrained` may download, and may name the weights."""
    models = import_torchvision().models
    names = models.list_models(module=models)
    if name not in names:
        raise InputError(f"torchvision has no classifier {name!r}.{did_you_mean(name, names)}")
    released = _released(models.get_model_weights(name), name, pretrained)
    arguments = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    try:
        module = models.get_model(name, weights=released if pretrained else None, **arguments)
    except OSError as error:  # no network, or no such address
        raise InputError(f"the weights of torchvision:{name} could not be fetched: {error}. Pass --weights FILE.") from error
    class_names = tuple(released.meta["categories"]) if pretrained else None
    return BuiltNetwork(module, _preprocessing(released.transforms()), class_names, released.name if pretrained else None)


def _released(weights: Any, name: str, wanted: bool | str) -> Any:
    """Released weights by their name or its end: IMAGENET1K_V1 or V1. The default ones where none are named."""
    if not isinstance(wanted, str):
        return weights.DEFAULT
    members = weights.__members__
    member = next((text for text in (wanted.upper(), f"IMAGENET1K_{wanted.upper()}") if text in members), None)
    if member is None:
        raise InputError(f"torchvision:{name} has no released weights {wanted!r}; it has {', '.join(members)}.")
    return members[member]


def torchvision_network(name: str, num_classes: int | None = None) -> nn.Module:
    """An untrained torchvision classifier, to be filled with weights."""
    return open_torchvision(name, pretrained=False, num_classes=num_classes).module


def _preprocessing(preset: Any) -> Preprocessing:
    """Torchvision's evaluation preset as ours; ImageNet's usual one where a preset is of another kind."""
    crop = list(getattr(preset, "crop_size", [224]))
    resized = list(getattr(preset, "resize_size", [256]))
    interpolation: Any = getattr(getattr(preset, "interpolation", None), "value", "bilinear")
    return Preprocessing(
        size=(crop[0], crop[-1]),
        crop_pct=min(1.0, crop[0] / resized[0]),
        interpolation=interpolation,
        mean=tuple(getattr(preset, "mean", IMAGENET_MEAN)),
        std=tuple(getattr(preset, "std", IMAGENET_STD)),
    )


def import_torchvision() -> Any:
    """torchvision, also next to a torch it was not built for.

    The torchvision wheel on PyPI is built for CUDA. Next to a CPU-only torch its compiled operators do not load, and the
    import stops at two of them, for object detection, that were never declared. Classifiers use neither: declaring the
    two is enough for torchvision, and for timm and transformers, which import it, to work. Nothing is declared where the
    import works without it.
    """
    import torch

    try:
        return importlib.import_module("torchvision")
    except ImportError as error:
        raise MissingExtra(why_missing("torchvision:NAME", "torchvision", error, "torchvision")) from error
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


def import_with_torchvision(module: str, spec: str) -> Any:
    """A library that imports torchvision when it is there: timm, transformers."""
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(why_missing(spec, module, error, "'hardsight[timm]'" if module == "timm" else module)) from error


RESIZE: dict[str, Any] = {"center": "shortest", "squash": "squash", "border": "longest"}


def open_timm(name: str, *, pretrained: bool | str, num_classes: int | None) -> BuiltNetwork:
    """A timm model and its preprocessing; `pretrained` may download."""
    timm = import_with_torchvision("timm", "timm:NAME")
    if isinstance(pretrained, str):
        raise InputError(f"timm names released weights after the model, as in timm:resnet50.a1_in1k, so not {pretrained!r}.")
    if not timm.is_model(name) and not name.startswith(("hf_hub:", "hf-hub:")):
        raise InputError(f"timm has no model {name!r}.{did_you_mean(name.partition('.')[0], timm.list_models())}")
    if pretrained:
        repository = name.partition(":")[2] or f"timm/{name.partition('.')[0]}*"  # hf_hub:owner/name names its own
        check_hub(f"timm:{name}", repository, "give --weights FILE")
    arguments = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    try:
        module = timm.create_model(name, pretrained=pretrained, **arguments)
    except (OSError, RuntimeError) as error:  # no network; a name without released weights
        raise InputError(f"timm:{name} could not be opened: {error}. Pass --weights FILE.") from error
    released = (module.pretrained_cfg.get("tag") or "default") if pretrained else None
    return BuiltNetwork(module, timm_preprocessing(module), released=released)


def timm_network(name: str, num_classes: int | None = None) -> nn.Module:
    """An untrained timm model, to be filled with weights."""
    return open_timm(name, pretrained=False, num_classes=num_classes).module


def timm_preprocessing(module: nn.Module) -> Preprocessing:
    """The evaluation transform of a timm model's own configuration."""
    timm_data = import_with_torchvision("timm.data", "timm:NAME")
    config = timm_data.resolve_model_data_config(module)
    channels, height, width = config["input_size"]
    return Preprocessing(
        size=(height, width),
        resize=RESIZE[config["crop_mode"]],
        crop_pct=config["crop_pct"],
        interpolation=config["interpolation"],
        mean=tuple(config["mean"]) if channels == 3 else (sum(config["mean"]) / 3,),
        std=tuple(config["std"]) if channels == 3 else (sum(config["std"]) / 3,),
        channels="L" if channels == 1 else "RGB",
    )


def check_hub(spec: str, repositories: str, instead: str) -> None:
    """Refuse a model that is neither in the hub's cache nor to be had over the network.

    Args:
        spec: what the user calls it.
        repositories: owner/name on the hub, or a pattern of them.
        instead: what to do without a network.
    """
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT
    cached = Path(constants.HF_HUB_CACHE).glob(f"models--{repositories.replace('/', '--')}")
    if not any(cached) and not _is_known(host):
        raise InputError(f"{spec}: its weights are not on this machine, and {host} cannot be reached: {instead}.")


def _is_known(host: str) -> bool:
    """Whether the name of the host is found; behind a proxy, the proxy looks it up."""
    if urllib.request.getproxies():
        return True
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False


# ---- transformers ----

PROCESSOR_FILE = "preprocessor_config.json"
FILTERS: dict[int, Any] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's numbers


@contextlib.contextmanager
def opening_transformers(name: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The library, and how it opens a directory or what the hub has under a name; no code from either is run."""
    transformers = import_with_torchvision("transformers", "hf:NAME")
    local = Path(name).is_dir()
    if not local:
        check_hub(f"hf:{name}", name, f"give hf:DIRECTORY ({name} is none here)")
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it warns of every attempt; the error below says enough
    try:
        yield transformers, {"local_files_only": local, "trust_remote_code": False}
    except (OSError, ValueError) as error:  # not there, no network, not of this kind
        raise InputError(f"hf:{name} could not be opened: {first_line(error)}") from error


def open_transformers(name: str, *, pretrained: bool, num_classes: int | None) -> BuiltNetwork:
    """A transformers image classifier with its preprocessing and class names.

    A directory is read as it is; only a name that is no directory is looked up on the hub. No code from either is run.
    """
    with opening_transformers(name) as (transformers, options):
        config = transformers.AutoConfig.from_pretrained(name, **options)
        if num_classes is not None and not pretrained:
            config.num_labels = num_classes
        auto = transformers.AutoModelForImageClassification
        if pretrained:
            module, loading = auto.from_pretrained(name, output_loading_info=True, **options)
        else:
            module, loading = auto.from_config(config), {}
    absent = sorted(loading.get("missing_keys", ()))
    if absent:  # transformers would continue with random ones
        raise InputError(f"hf:{name} has no weights for {', '.join(absent[:3])}: it was not trained as a classifier.")
    return BuiltNetwork(module, processor_preprocessing(processor_of(name), config), _class_names(config))


def _class_names(config: Any) -> tuple[str, ...] | None:
    """The labels in class order, unless they are the placeholders LABEL_0, LABEL_1, ..."""
    labels = {int(k): str(name) for k, name in (config.id2label or {}).items()}
    names = tuple(labels[k] for k in sorted(labels))
    return None if names == tuple(f"LABEL_{k}" for k in range(len(names))) else names


def processor_of(name: str) -> dict[str, Any]:
    """The image processor of a directory, or of a name on the hub; empty if there is none."""
    if Path(name).is_dir():
        return _read_processor(Path(name))
    hub = import_with_torchvision("transformers.utils", "hf:NAME")
    path = hub.cached_file(name, PROCESSOR_FILE, _raise_exceptions_for_missing_entries=False)
    return _read_processor(Path(path).parent) if path else {}


def _read_processor(directory: Path) -> dict[str, Any]:
    """The image processor a directory describes; empty if it has none."""
    for name, key in ((PROCESSOR_FILE, None), ("processor_config.json", "image_processor")):
        path = directory / name
        if path.is_file():
            config = read_object(path, "not an image processor's JSON")
            processor = config.get(key, {}) if key else config
            if not isinstance(processor, dict):
                raise FileError(f"{path}: not an image processor's JSON: it must hold an object.")
            return processor
    return {}


def processor_preprocessing(processor: dict[str, Any], config: Any) -> Preprocessing:
    """An image processor's settings as ours; without any, the configuration's image size and ImageNet's colors."""
    channels = getattr(config, "num_channels", 3)
    if not processor:
        side = getattr(config, "image_size", None) or 224
        height, width = (side, side) if isinstance(side, int) else side
        gray = channels == 1
        return Preprocessing(
            size=(height, width),
            resize="squash",
            mean=(0.5,) if gray else IMAGENET_MEAN,
            std=(0.5,) if gray else IMAGENET_STD,
            channels="L" if gray else "RGB",
        )
    mean, std = _normalization(processor)
    order: Any = "L" if channels == 1 else "BGR" if processor.get("do_flip_channel_order") else "RGB"
    interpolation = FILTERS.get(processor.get("resample", 2), "bilinear")
    return Preprocessing(**_geometry(processor), interpolation=interpolation, mean=mean, std=std, channels=order)


def _geometry(processor: dict[str, Any]) -> dict[str, Any]:
    """size, resize and crop_pct. A processor resizes to (h, w) or a shortest edge, and then may cut a center crop."""
    crop = _sides(processor.get("crop_size")) if processor.get("do_center_crop") else None
    if not processor.get("do_resize", True):
        return {"size": crop}
    size = processor.get("size", 224)
    shortest = size.get("shortest_edge") if isinstance(size, dict) else None
    target = (shortest, shortest) if shortest else _sides(size)
    if target is None:
        raise InputError(f"the image processor's size {size!r} is not known: it must be height and width, or shortest_edge.")
    if processor.get("crop_pct") and shortest:  # ConvNeXt and ResNet: below 384 a crop, from 384 on the whole picture
        return {"size": target, "crop_pct": processor["crop_pct"]} if shortest < 384 else {"size": target, "resize": "squash"}
    if crop is None:
        return {"size": target, "resize": "shortest" if shortest else "squash"}
    return {"size": crop, "resize": "shortest" if shortest else "squash", "crop_pct": min(1.0, crop[0] / target[0])}


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        return size["height"], size["width"]
    if isinstance(size, dict) and "shortest_edge" in size:
        return size["shortest_edge"], size["shortest_edge"]
    return None


def _normalization(processor: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """mean and std for pixels of 0..1, with the processor's own scaling of 0..255 folded in."""
    mean, std = [0.0] * 3, [1.0] * 3
    if processor.get("do_normalize") and processor.get("image_mean") is not None:  # MobileViT states a mean and uses none
        mean, std = _three(processor["image_mean"]), _three(processor["image_std"])
    if processor.get("include_top"):  # EfficientNet divides by std a second time
        std = [s * s for s in std]
    if processor.get("rescale_offset"):  # and may scale to -1..1 first
        mean = [m + 1 for m in mean]
    factor = 255 * processor.get("rescale_factor", 1 / 255) if processor.get("do_rescale", True) else 255.0
    return tuple(m / factor for m in mean), tuple(s / factor for s in std)


def _three(value: Any) -> list[float]:
    values = [float(v) for v in value] if isinstance(value, (list, tuple)) else [float(value)]
    return values * 3 if len(values) == 1 else values
