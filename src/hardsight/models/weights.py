"""A file of weights into a network, executing nothing.

Safetensors, or a torch file read with `weights_only=True`: a pickle that asks for anything but tensors is refused, and
there is no option to allow it.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import pickletools
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import safe_open

from hardsight.errors import FileError, InputError, first_line
from hardsight.files.checksums import check

if TYPE_CHECKING:
    from torch import Tensor, nn

Value = TypeVar("Value")
Shapes = Mapping[str, tuple[int, ...]]

KNOWN = ("torch", "numpy", "collections", "builtins", "__builtin__", "_codecs", "copyreg", "typing", "datetime", "argparse")
MOST_NAMES = 2**24  # bytes of a pickle that is looked at: a state dict has some hundred bytes a tensor
TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
ZIP, PICKLE = b"PK", b"\x80"  # how a torch file begins; as a pickle, those before version 1.6
WRAPPERS = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before every name
_MORE_THAN_TENSORS = (
    "{path} holds {what}; it was refused and nothing in it was executed. "
    "Save the state dict alone: torch.save(model.state_dict(), FILE), or best as .safetensors."
)
NESTED = ("state_dict", "model_state_dict", "model", "net")  # where training scripts keep the weights in a checkpoint


def load_weights(module: nn.Module, path: Path, *, new_classes: bool = False) -> str | None:
    """Every weight of `module` from `path`: names and shapes must agree, or nothing is loaded.

    Args:
        module: to be filled.
        path: of the file.
        new_classes: leave the last layer as it is where the file has another number of classes.

    Returns:
        A sentence about the layer that was left out, if one was.
    """
    wanted = module.state_dict()
    weights = without_wrappers(read_weights(path), wanted)
    head = _head_of_other_classes(weights, wanted) if new_classes else None
    left_out = None
    if head is not None:
        rows = len(weights[f"{head}.weight"])
        left_out = f"{path.name} was trained on {rows} classes: all layers but the last one, {head}, start from it"
        weights, wanted = ({k: x for k, x in some.items() if _layer(k) != head} for some in (weights, wanted))
    shapes, wanted_shapes = ({k: tuple(x.shape) for k, x in some.items()} for some in (weights, wanted))
    check_shapes(path.name, shapes, type(module).__name__, wanted_shapes)
    module.load_state_dict(weights, strict=False)
    return left_out


def check_shapes(file: str, weights: Shapes, network: str, wanted: Shapes) -> None:
    """Refuse weights whose names or shapes are not those of the network."""
    missing = [k for k in wanted if k not in weights and not k.endswith("num_batches_tracked")]  # a counter, not a weight
    unexpected = [k for k in weights if k not in wanted]
    if missing or unexpected:
        raise InputError(
            f"{file} does not hold the weights of {network}: {_count(missing, 'missing')}; {_count(unexpected, 'unexpected')}."
        )
    other = [k for k in weights if weights[k] != wanted[k]]
    if other:
        shapes = [f"{k} is {weights[k]}, not {wanted[k]}" for k in other]
        message = f"{file} does not fit {network}: {_count(shapes, 'of another shape')}."
        if len(other) <= 2 and weights[other[0]] and all(weights[k][1:] == wanted[k][1:] for k in weights):
            message += f" It was trained on {weights[other[0]][0]} classes: pass --num-classes {weights[other[0]][0]}."
        raise InputError(message)


def check_weights(weights: str | os.PathLike[str] | None) -> None:
    """Refuse a file that no weights can be read from, without torch: it takes seconds to load."""
    if weights is None:
        return
    path = Path(weights)
    if not path.is_file():
        raise FileError(f"there is no weights file {path}.")
    if path.suffix not in (".safetensors", *TORCH_SUFFIXES):
        raise InputError(f"weights must be a .safetensors, .pt or .pth file, got {path.name}.")
    if path.suffix == ".safetensors":
        shapes_in(path)  # the header claims no more than there is
        return
    with path.open("rb") as file:
        start = file.read(16)
    if not start.startswith((ZIP, PICKLE)):
        raise FileError(f"{path} cannot be read as torch weights: it {f'begins with {start!r}' if start else 'is empty'}.")
    if start.startswith(ZIP) and not _is_whole_archive(path):
        raise FileError(
            f"{path} cannot be read as torch weights: it ends before the archive does, as a download that was stopped."
        )
    if whole := pickled_class(path):
        raise FileError(_MORE_THAN_TENSORS.format(path=path, what=f"a {whole}"))


def _is_whole_archive(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # an end that is damaged
        return False


def shapes_in(path: Path) -> dict[str, tuple[int, ...]] | None:
    """The names and shapes of the tensors, without reading them; None for a torch file that does not tell without torch."""
    if path.suffix != ".safetensors":
        return _shapes_in_torch(path)
    with _damage_named(path), safe_open(path, framework="np") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}


class _ShapesOnly(pickle.Unpickler):
    """Reads the pickle of a torch file: dicts stay, a tensor becomes its shape, and nothing else is made or called."""

    def find_class(self, module: str, name: str) -> Any:
        """Stand-ins for what a state dict asks for; an error for everything else."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) in (("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter")):
            return _shape_of_tensor if name.endswith("v2") else _shape_of_parameter
        if module == "torch" and name.endswith("Storage"):
            return name
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        """Where the numbers of a tensor are: they are not read."""
        return None


def _shape_of_tensor(storage: Any, offset: Any, size: Any, *_: Any) -> tuple[int, ...]:
    return tuple(int(length) for length in size)


def _shape_of_parameter(tensor: Any, *_: Any) -> Any:
    return tensor


def _shapes_in_torch(path: Path) -> dict[str, tuple[int, ...]] | None:
    try:
        with zipfile.ZipFile(path) as archive:
            name = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
            if name is None or archive.getinfo(name).file_size > MOST_NAMES:
                return None
            checkpoint = _ShapesOnly(io.BytesIO(archive.read(name))).load()
    except Exception:  # damaged, or more than tensors: torch says it
        return None
    shapes = _state_dict(checkpoint)
    if not (isinstance(shapes, Mapping) and shapes and all(isinstance(shape, tuple) for shape in shapes.values())):
        return None
    return {str(name): shape for name, shape in shapes.items()}


def _state_dict(checkpoint: Any) -> Any:
    """The weights in a checkpoint, which may be one of several things that it holds."""
    for name in NESTED:
        if isinstance(checkpoint, Mapping) and isinstance(checkpoint.get(name), Mapping):
            checkpoint = checkpoint[name]
    return checkpoint


def pickled_class(path: Path) -> str | None:
    """The first class of a model that a torch file asks for, where a whole one was saved and not its state dict.

    Only the names in the pickle are read. None where there is none, or where the file is not of today's format.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            name = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
            if name is None or archive.getinfo(name).file_size > MOST_NAMES:
                return None
            asked = [str(argument) for code, argument, _ in pickletools.genops(archive.read(name)) if code.name == "GLOBAL"]
    except Exception:  # damaged in whatever way: torch says it
        return None
    modules = [words.partition(" ")[0] for words in asked]
    foreign = (module.partition(".")[0] not in KNOWN or module.startswith("torch.nn.modules") for module in modules)
    return next((words.replace(" ", ".") for words, is_foreign in zip(asked, foreign, strict=True) if is_foreign), None)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file or a torch state dict, by name."""
    check_weights(path)
    check(path)
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)


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

    with _damage_named(path):
        return load_file(path)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Rust, torch and NumPy each have their own for a damaged file
        raise FileError(f"{path} cannot be read as safetensors: {first_line(error)}") from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # of pickle versions, in a file that is then refused
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FileError(_MORE_THAN_TENSORS.format(path=path, what="more than tensors, or is broken")) from error
    except Exception as error:  # a damaged pickle or zip fails in any of a dozen ways
        raise FileError(f"{path} cannot be read as torch weights: {first_line(error)}") from error
    checkpoint = _state_dict(checkpoint)
    if not (isinstance(checkpoint, Mapping) and checkpoint and all(isinstance(x, torch.Tensor) for x in checkpoint.values())):
        raise FileError(f"{path} does not hold a state dict: a flat dict of names and tensors.")
    return {str(name): x for name, x in checkpoint.items()}


def without_wrappers(weights: Mapping[str, Value], wanted: Iterable[str]) -> dict[str, Value]:
    """The same tensors (or their shapes), named as the bare model names them."""
    own = set(wanted)

    def bare(name: str) -> str:
        while name not in own and name.startswith(WRAPPERS):
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
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()
