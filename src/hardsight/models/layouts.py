"""The blocks of well-known architectures, read from the source of their library, to refuse weights of another one without torch.

ResNet-50's weights for a ResNet-18, those of a small vision transformer for a base one: the names and numbers of blocks tell them
apart. What is not known here is compared when the network is built.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hardsight.errors import InputError
from hardsight.models.network_names import OWN_NETWORKS

Shapes = Mapping[str, tuple[int, ...]]
NAME_IT = " Name the architecture that it was trained with."


class BlockLayout(NamedTuple):
    """What the function that makes a model states, and what its tensors are called.

    Attributes:
        blocks: finds the number of blocks, or those of each stage, in the function's source.
        names: a tensor's stage and block.
        width: finds the number of features in the function's source.
        wide: a tensor with as many rows.
        stages: how many have the same number of blocks.
    """

    blocks: str
    names: str
    width: str | None = None
    wide: str = ""
    stages: int = 1


def _listed(argument: str) -> str:
    return rf"\b{argument}=[\[(]([\d, ]+)[\])]"


RESNET, DENSENET = r"(layer\d+)\.(\d+)\.", r"(features\.denseblock\d+)\.denselayer(\d+)\."
LAYOUTS = {  # package.module of the functions
    "timm.models.resnet": BlockLayout(_listed("layers"), RESNET),
    "timm.models.densenet": BlockLayout(_listed("block_config"), DENSENET),
    "timm.models.convnext": BlockLayout(
        _listed("depths"), r"(stages\.\d+)\.blocks\.(\d+)\.", r"\bdims=[\[(](\d+)", "stages.0.blocks.0.conv_dw.weight"
    ),
    "timm.models.vision_transformer": BlockLayout(
        r"\bdepth=(\d+)", r"(blocks)\.(\d+)\.", r"\bembed_dim=(\d+)", "blocks.0.norm1.weight"
    ),
    "torchvision.models.resnet": BlockLayout(r"_resnet\(\w+, \[([\d, ]+)\]", RESNET),
    "torchvision.models.densenet": BlockLayout(r"_densenet\(\d+, \(([\d, ]+)\)", DENSENET),
    "torchvision.models.vision_transformer": BlockLayout(
        r"\bnum_layers=(\d+)", r"(encoder)\.layers\.encoder_layer_(\d+)\.", r"\bhidden_dim=(\d+)",
        "encoder.layers.encoder_layer_0.ln_1.weight",
    ),
    "hardsight.models.cifar_resnet": BlockLayout(r"CifarResNet\((\d+)", RESNET, stages=3),
}  # fmt: skip


def check_layout(file: str, shapes: Shapes, model: str) -> None:
    """Refuse the tensors of a file that are not those of the architecture that `model` names.

    Args:
        file: its name, for the message.
        shapes: of its tensors, by name.
        model: such as timm:resnet18, or one of hardsight's networks.
    """
    library, _, name = OWN_NETWORKS.get(model, model).partition(":")
    own = library in {spec.partition(":")[0] for spec in OWN_NETWORKS.values()}
    wrong = f"{file} does not hold the weights of {name if own else model}"
    layers = (
        set(re.findall(r"self\.(\w+)(?=[^=\n(]* = )", _source(library))) - {"head"} if own else set()
    )  # a head may be of any network
    if layers and not layers & {part for tensor in shapes for part in tensor.split(".")}:
        raise InputError(f"{wrong}: {_others(shapes)}.{NAME_IT}")
    for module, layout in LAYOUTS.items():
        if module == library or module.startswith(f"{library}.models."):
            function = _function(module, name.partition(".")[0])
            difference = "" if function is None else _difference(shapes, layout, function)
            if difference:
                raise InputError(f"{wrong}: {difference}.{NAME_IT}")


def _difference(shapes: Shapes, layout: BlockLayout, function: str) -> str:
    """What the tensors have and the function does not, in words; nothing where they agree or too little is known."""
    stated = re.search(layout.blocks, function)
    if stated is None:
        return ""
    blocks = [int(number) for number in re.findall(r"\d+", stated[1])] * layout.stages
    by_stage: dict[str, set[str]] = {}  # the blocks that the tensors name
    for match in (re.search(rf"(?:^|\.){layout.names}", name) for name in shapes):
        if match is not None:
            by_stage.setdefault(match[1], set()).add(match[2])
    if not by_stage:
        return _others(shapes)
    held = [len(by_stage[stage]) for stage in sorted(by_stage)]
    if held != blocks:
        return f"it has {_numbers(held)} blocks, not {_numbers(blocks)}"
    deep, plain = ("Bottleneck" in function, "BasicBlock" in function)
    if deep != plain and deep != any(name.endswith("layer1.0.conv3.weight") for name in shapes):
        return f"its blocks have {'two' if deep else 'three'} convolutions, not {'three' if deep else 'two'}"
    width = None if layout.width is None else re.search(layout.width, function)
    shape = next((shape for name, shape in shapes.items() if layout.wide and name.endswith(layout.wide)), None)
    if width is not None and shape is not None and shape[0] != int(width[1]):
        return f"its features are {shape[0]} wide, not {width[1]}"
    return ""


def _function(module: str, name: str) -> str | None:
    """The source of a function at the top of a module."""
    definition = re.search(rf"^def {re.escape(name)}\(.*?(?=^[^\s)]|\Z)", _source(module), re.MULTILINE | re.DOTALL)
    return None if definition is None else definition[0]


def _source(module: str) -> str:
    package, _, rest = module.partition(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    path = Path(spec.origin).parent / (rest.replace(".", "/") + ".py")
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _others(shapes: Shapes) -> str:
    first = ", ".join(list(shapes)[:3])
    return f"its tensors have other names ({first}{', ...' if len(shapes) > 3 else ''})"


def _numbers(numbers: list[int]) -> str:
    return " + ".join(map(str, numbers))
