"""A file of weights into a network, executing nothing.

Safetensors, or a torch file read with `weights_only=True`: a pickle that asks for anything but tensors is refused, and
there is no option to allow it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardsight.errors import FileError, InputError, first_line
from hardsight.files.checksums import check

if TYPE_CHECKING:
    from torch import Tensor, nn

Shapes = Mapping[str, tuple[int, ...]]

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
WRAPPERS = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before every name
NESTED = ("state_dict", "model_state_dict", "model", "net")  # where training scripts keep the weights in a checkpoint


def load_weights(module: nn.Module, path: Path, name: str, *, new_classes: bool = False) -> str | None:
    """Every weight of `module` from `path`: names and shapes must agree, or nothing is loaded.

    Args:
        module: to be filled.
        path: of the file.
        name: of the network, for messages.
        new_classes: leave the last layer as it is where the file has another number of classes.

    Returns:
        A sentence about the layer that was left out, if one was.
    """
    wanted = module.state_dict()
    weights = _without_wrappers(read_weights(path), wanted)
    if "weight" in weights and "weight" not in wanted and not any("." in key for key in weights):
        raise InputError(f"{path} holds a head, not the weights of a network: hardsight score takes it, as --head.")
    head = _head_of_other_classes(weights, wanted) if new_classes else None
    left_out = None
    if head is not None:
        rows = len(weights[f"{head}.weight"])
        left_out = f"{path.name} was trained on {rows} classes: all layers but the last one, {head}, start from it"
        weights, wanted = ({k: x for k, x in tensors.items() if _layer(k) != head} for tensors in (weights, wanted))
    _check_fit(path.name, _shapes(weights), name, _shapes(wanted))
    module.load_state_dict(weights, strict=False)
    return left_out


def _shapes(tensors: Mapping[str, Tensor]) -> Shapes:
    return {name: tuple(x.shape) for name, x in tensors.items()}


def _check_fit(file: str, weights: Shapes, network: str, wanted: Shapes) -> None:
    """Refuse weights whose names or shapes are not those of the network."""
    missing = [k for k in wanted if k not in weights and not k.endswith("num_batches_tracked")]  # a counter, not a weight
    unexpected = [k for k in weights if k not in wanted]
    if missing or unexpected:
        raise InputError(
            f"{file} does not hold the weights of {network}: {_count(missing, 'missing')}; {_count(unexpected, 'unexpected')}. "
            "Name the architecture that it was trained with."
        )
    other = [k for k in weights if weights[k] != wanted[k]]
    if other:
        shapes = [f"{k} is {weights[k]}, not {wanted[k]}" for k in other]
        message = f"{file} does not fit {network}: {_count(shapes, 'of another shape')}."
        if len(other) <= 2 and weights[other[0]] and all(weights[k][1:] == wanted[k][1:] for k in weights):
            message += f" It was trained on {weights[other[0]][0]} classes: pass --num-classes {weights[other[0]][0]}."
        raise InputError(message)


def check_weights_file(weights: str | os.PathLike[str] | None) -> None:
    """Refuse a file that is not there, or of another format; what is in it shows when it is read."""
    if weights is None:
        return
    path = Path(weights)
    if not path.is_file():
        raise FileError(f"there is no weights file {path}.")
    if path.suffix not in (".safetensors", *TORCH_SUFFIXES):
        raise InputError(f"weights must be a .safetensors, .pt or .pth file, got {path.name}.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file or a torch state dict, by name."""
    check_weights_file(path)
    check(path)
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:  # Rust, torch and NumPy each have their own for a damaged file
        raise FileError(f"{path} cannot be read as safetensors: {first_line(error)}") from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # of pickle versions, in a file that is then refused
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        foreign = re.search(r"GLOBAL (\S+)", str(error))  # the class of a whole model, or anything else that is no tensor
        raise FileError(
            f"{path} holds {foreign[1] if foreign else 'more than tensors, or is damaged'}; it was refused and nothing in it "
            "was executed. Save the state dict alone: torch.save(model.state_dict(), FILE), or best as .safetensors."
        ) from error
    except Exception as error:  # a damaged pickle or zip fails in any of a dozen ways
        raise FileError(f"{path} cannot be read as torch weights: {first_line(error)}") from error
    for name in NESTED:
        if isinstance(checkpoint, Mapping) and isinstance(checkpoint.get(name), Mapping):
            checkpoint = checkpoint[name]
    if not (isinstance(checkpoint, Mapping) and checkpoint and all(isinstance(x, torch.Tensor) for x in checkpoint.values())):
        raise FileError(f"{path} does not hold a state dict: a flat dict of names and tensors.")
    return {str(name): x for name, x in checkpoint.items()}


@contextmanager
def tensors_only(source: str) -> Iterator[None]:
    """Libraries that fetch or read weights themselves do it as we do: whatever they ask torch for, tensors only."""
    before = {name: os.environ.pop(name, None) for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")}
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        yield
    except pickle.UnpicklingError as error:
        raise FileError(f"the weights of {source} hold more than tensors; nothing in them was executed.") from error
    finally:
        del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _without_wrappers(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, named as the bare model names them."""

    def bare(name: str) -> str:
        while name not in wanted and name.startswith(WRAPPERS):
            name = name.partition(".")[2]
        return name

    return {bare(name): x for name, x in weights.items()}


def _head_of_other_classes(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str | None:
    """The one layer whose tensors differ from those wanted, if it is by their number of rows alone."""
    other = [k for k in weights if k in wanted and weights[k].shape != wanted[k].shape]
    layers = {_layer(k) for k in other}
    if len(layers) != 1 or any(weights[k].shape[1:] != wanted[k].shape[1:] for k in other):
        return None
    head = layers.pop()
    return head if f"{head}.weight" in other and weights[f"{head}.weight"].ndim >= 2 else None


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _count(names: list[Any], what: str) -> str:
    first = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} {what}" + (f" ({first})" if names else "")


def file_sha256(*paths: Path) -> str:
    """One hash over the bytes of some files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
