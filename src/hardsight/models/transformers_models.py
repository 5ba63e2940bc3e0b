"""`hf:DIR_OR_NAME`: image classifiers of transformers, from a directory or the Hugging Face hub."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from hardsight.errors import FileError, InputError
from hardsight.files.reading import read_json
from hardsight.models.libraries import check_hub, import_with_torchvision
from hardsight.models.model import BuiltNetwork
from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

PROCESSOR_FILE = "preprocessor_config.json"
FILTERS: dict[int, Any] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's numbers


def open_transformers(name: str, *, pretrained: bool, num_classes: int | None) -> BuiltNetwork:
    """A transformers image classifier with its preprocessing and class names.

    A directory is read as it is; only a name that is no directory is looked up on the hub. No code from either is run.
    """
    transformers = import_with_torchvision("transformers", "hf:NAME")
    local = Path(name).is_dir()
    if not local:
        check_hub(f"hf:{name}", name, f"give hf:DIRECTORY ({name} is none here)")
    options = {"local_files_only": local, "trust_remote_code": False}
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it warns of every attempt; the error below says enough
    try:
        config = transformers.AutoConfig.from_pretrained(name, **options)
        if num_classes is not None and not pretrained:
            config.num_labels = num_classes
        auto = transformers.AutoModelForImageClassification
        if pretrained:
            module, loading = auto.from_pretrained(name, output_loading_info=True, **options)
        else:
            module, loading = auto.from_config(config), {}
    except (OSError, ValueError) as error:  # not there, no network, not an image classifier
        raise InputError(f"hf:{name} could not be opened: {str(error).splitlines()[0]}") from error
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
    return _read_processor(Path(name)) if Path(name).is_dir() else _fetch_processor(name)


def _read_processor(directory: Path) -> dict[str, Any]:
    """The image processor a directory describes; empty if it has none."""
    for name, key in ((PROCESSOR_FILE, None), ("processor_config.json", "image_processor")):
        path = directory / name
        if path.is_file():
            config = read_json(path, "not an image processor's JSON")
            processor = config.get(key, {}) if key and isinstance(config, dict) else config
            if not isinstance(processor, dict):
                raise FileError(f"{path}: not an image processor's JSON: it must hold an object.")
            return processor
    return {}


def _fetch_processor(name: str) -> dict[str, Any]:
    hub = import_with_torchvision("transformers.utils", "hf:NAME")
    path = hub.cached_file(name, PROCESSOR_FILE, _raise_exceptions_for_missing_entries=False)
    return _read_processor(Path(path).parent) if path else {}


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
