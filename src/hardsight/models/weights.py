"""A file of weights into a network, executing nothing.

Safetensors, or a torch file read with `weights_only=True`: a pickle that asks for anything but tensors is refused, and
there is no option to allow it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardsight.errors import FileError, InputError, first_line
from hardsight.files.checksums import check
from hardsight.files.inputs import note_input

if TYPE_CHECKING:
    from torch import Tensor, nn

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
WRAPPERS = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before every name
NESTED = ("state_dict", "model_state_dict", "model", "net")  # where training scripts keep the weights in a checkpoint


def load_weights(module: nn.Module, path: Path) -> None:
    """Every weight of `module` from `path`: names and shapes must agree, or nothing is loaded."""
    wanted = module.state_dict()
    given = _without_wrappers(read_weights(path), wanted)
    missing = [k for k in wanted if k not in given and not k.endswith("num_batches_tracked")]  # a counter, not a weight
    unexpected = [k for k in given if k not in wanted]
    if missing or unexpected:
        raise InputError(
            f"{path.name} does not hold the weights of {type(module).__name__}: "
            f"{_count(missing, 'missing')}; {_count(unexpected, 'unexpected')}."
        )
    other = [f"{k} is {tuple(given[k].shape)}, not {tuple(wanted[k].shape)}" for k in given if given[k].shape != wanted[k].shape]
    if other:
        message = f"{path.name} does not fit {type(module).__name__}: {_count(other, 'of another shape')}."
        if len(other) <= 2 and all(given[k].shape[1:] == wanted[k].shape[1:] for k in given):
            rows = next(len(given[k]) for k in given if given[k].shape != wanted[k].shape)
            message += f" It was trained on {rows} classes: pass --num-classes {rows}."
        raise InputError(message)
    module.load_state_dict(given, strict=False)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file or a torch state dict, by name."""
    if not path.is_file():
        raise FileError(f"there is no weights file {path}.")
    note_input(path)
    check(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.suffix in TORCH_SUFFIXES:
        return _read_torch(path)
    raise InputError(f"weights must be a .safetensors, .pt or .pth file, got {path.name}.")


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


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:  # a damaged header fails in any of a dozen ways
        raise FileError(f"{path} cannot be read as safetensors: {first_line(error)}") from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FileError(
            f"{path} holds more than tensors, or is broken; it was refused and nothing in it was executed. "
            "Save the state dict alone, best as .safetensors."
        ) from error
    except Exception as error:  # zip, pickle and tensor storage: each fails in ways of its own
        raise FileError(f"{path} cannot be read as torch weights: {first_line(error)}") from error
    for name in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not (isinstance(found, Mapping) and found and all(isinstance(x, torch.Tensor) for x in found.values())):
        raise FileError(f"{path} does not hold a state dict: a flat dict of names and tensors.")
    return {str(name): x for name, x in found.items()}


def _without_wrappers(given: dict[str, Tensor], wanted: Iterable[str]) -> dict[str, Tensor]:
    """The same tensors, named as the bare model names them."""
    own = set(wanted)

    def bare(name: str) -> str:
        while name not in own and name.startswith(WRAPPERS):
            name = name.partition(".")[2]
        return name

    return {bare(name): x for name, x in given.items()}


def _count(names: list[Any], what: str) -> str:
    first = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} {what}" + (f" ({first})" if names else "")


def file_sha256(*paths: Path) -> str:
    """One hash over the bytes of some files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()
