"""`timm:NAME`: the models of timm, each with the input its pretrained configuration states."""

from __future__ import annotations

from typing import Any

from torch import nn

from hardsight.errors import InputError, did_you_mean
from hardsight.models.downloads import check_hub
from hardsight.models.model import BuiltNetwork
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.torchvision_models import import_with_torchvision

RESIZE: dict[str, Any] = {"center": "shortest", "squash": "squash", "border": "longest"}


def open_timm(name: str, *, pretrained: bool | str, num_classes: int | None) -> BuiltNetwork:
    """A timm model and its preprocessing; `pretrained` may download."""
    timm = import_with_torchvision("timm", "timm:NAME")
    if isinstance(pretrained, str):
        name, pretrained = _tagged(timm, name, pretrained), True
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


def _tagged(timm: Any, name: str, tag: str) -> str:
    """A model with the tag of its released weights, as timm writes it: resnet50.a1_in1k."""
    base = name.partition(".")[0]
    known = [each.partition(".")[2] for each in timm.list_pretrained(f"{base}.*")]
    if tag not in known:
        raise InputError(f"timm:{base} has no released weights {tag!r}; it has {', '.join(known) or 'none'}.")
    return f"{base}.{tag}"


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
