"""What a MODEL may be, and who opens it.

    timm:NAME             a timm model                      ┐
    torchvision:NAME      a torchvision classifier          │  with --weights FILE; without, the library fetches
    hf:DIR_OR_NAME        a transformers image classifier   ┘  the released weights of that name; owner/name is hf:owner/name
    package.module:make   your own function or class that gives a torch module or a fitted estimator; also mynet.py:Net
    cifar_resnet20        one of hardsight's own networks, with --weights FILE
    run/                  a directory that hardsight trained
    model.onnx            an ONNX file from any framework
    model.skops           a fitted scikit-learn classifier or pipeline

In Python also the object itself: an nn.Module, or a fitted estimator.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from hardsight.errors import FileError, HardsightError, InputError, did_you_mean, first_line, require
from hardsight.models.model import BuiltNetwork, Model, ModelOptions, refuse
from hardsight.models.network_names import OWN_NETWORKS, hub_id

LIBRARIES = ("timm", "torchvision", "hf")


def open_model(
    spec: Any,
    *,
    weights: str | os.PathLike[str] | None = None,
    head: str | None = None,
    device: str = "auto",
    precision: str = "float32",
    num_classes: int | None = None,
    pretrained: str | None = None,
) -> Model:
    """Open a classifier, to be called on batches of images.

    Args:
        spec: what to open; see the top of this file.
        weights: a .safetensors file, or a .pt or .pth holding tensors only, for the architecture that spec names.
        head: the last linear layer (the name of a module, or of a node in an ONNX graph) if it cannot be found automatically.
        device: "cpu", "cuda", "mps", ...; "auto" takes the fastest, and leaves a module passed in Python where it is.
        precision: "float32", "bfloat16" or "float16".
        num_classes: to build an architecture for as many classes as its weights have; in a module with several outputs,
            which of them to explain.
        pretrained: which of the weights that torchvision releases, such as V1; by default the library's own choice, which changes
            with its version. timm names them in the model's name: timm:resnet50.a1_in1k.

    Example:
        >>> import numpy as np
        >>> model = open_model("hardsight.models.networks:cifar_resnet20", num_classes=3)
        >>> images = np.random.default_rng(0).random((2, 3, 32, 32), np.float32)
        >>> features, logits = model(images)
        >>> features.shape, logits.shape
        ((2, 64), (2, 3))
    """
    weights_file = None if weights is None else Path(weights)
    options = ModelOptions(head, device, precision, num_classes)
    if not isinstance(spec, (str, os.PathLike)):
        return _open_object(spec, type(spec).__name__, weights_file, options)
    text = os.fspath(spec)
    check_model_name(text)
    factory = _own_network(text)
    if factory is not None and weights_file is None:
        raise InputError(f"{text} is one of hardsight's own networks, not trained: give --weights FILE, or train it first.")
    text = factory or hub_id(text) or text
    prefix, _, name = text.partition(":")
    if pretrained is not None and (prefix not in ("timm", "torchvision") or weights_file is not None):
        what = text if weights_file is None else f"{text} with --weights {weights_file.name}"
        raise InputError(f"--pretrained {pretrained} names released weights of timm:NAME or torchvision:NAME, not of {what}.")
    if prefix in LIBRARIES and name:
        return _open_library(prefix, name, weights_file, options, pretrained)
    path = Path(text)
    if path.suffix in (".onnx", ".skops"):
        return _open_file(path, weights_file, options)
    if path.is_dir():
        return _open_directory(path, weights_file, options)
    return _open_object(call_factory(prefix, name, num_classes), text, weights_file, options, made_here=True)


def check_model_name(spec: Any) -> None:
    """Refuse a text that no model can be called; whether there is one of that name shows when it is opened."""
    if not isinstance(spec, (str, os.PathLike)):
        return
    text = os.fspath(spec)
    if not text:
        raise InputError("the model's name is empty: give timm:NAME, module:function, a trained directory or a file.")
    text = _own_network(text) or hub_id(text) or text
    path, (prefix, _, name) = Path(text), text.partition(":")
    if (prefix in LIBRARIES and name) or path.suffix in (".onnx", ".skops") or path.is_dir():
        return
    if not (prefix and name) or path.exists():
        raise InputError(_unknown(path))


def _own_network(text: str) -> str | None:
    """module:function of a network of hardsight's own by its bare name, such as cifar_resnet20; a directory comes first."""
    return None if Path(text).is_dir() else OWN_NETWORKS.get(text)


def _open_library(library: str, name: str, weights: Path | None, options: ModelOptions, pretrained: str | None = None) -> Model:
    require("torch", extra="torch", purpose=f"{library}:{name}")
    from hardsight.models.libraries import open_library

    built = open_library(library, name, pretrained=pretrained or weights is None, num_classes=options.num_classes)
    return _network(built, f"{library}:{name}", weights, _on_fastest(options), load=True)


def _open_directory(path: Path, weights: Path | None, options: ModelOptions) -> Model:
    from hardsight.models.trained import open_trained, read_config, trained_directory

    directory = trained_directory(path)
    if directory is None:
        raise InputError(f"{path} is a directory without model/config.json, so not one that hardsight trained.")
    if "factory" not in read_config(directory):  # written by transformers
        return _open_library("hf", str(directory), weights, options)
    require("torch", extra="torch", purpose=str(path))
    weights = weights or directory / "model.safetensors"
    return _network(open_trained(directory, weights), path.name, weights, _on_fastest(options), load=False)


def _open_file(path: Path, weights: Path | None, options: ModelOptions) -> Model:
    refuse(f"{path.name}, which holds its own", weights=weights)
    if not path.is_file():
        raise FileError(f"there is no file {path}.")
    if path.suffix == ".skops":
        from hardsight.models.linear_estimator import LinearEstimator, read_skops
        from hardsight.models.weights import file_sha256

        _refuse_torch_options(path.name, options, head=options.head)
        return LinearEstimator(read_skops(path), path.name, sha256=file_sha256(path))
    from hardsight.models.onnx_model import OnnxModel

    _refuse_torch_options(path.name, options)
    return OnnxModel(path, node=options.head, device=options.device)


def _open_object(model: Any, name: str, weights: Path | None, options: ModelOptions, *, made_here: bool = False) -> Model:
    """A torch module or an estimator, passed in by the user or made here by their function."""
    torch = sys.modules.get("torch")  # a module exists only where torch is loaded
    if torch is not None and isinstance(model, torch.nn.Module):
        options = _on_fastest(options) if made_here else options
        return _network(BuiltNetwork(model), name, weights, options, load=True)
    from hardsight.head import is_estimator
    from hardsight.models.linear_estimator import LinearEstimator

    if not is_estimator(model):
        raise InputError(
            "a model must be a torch module, a fitted linear scikit-learn classifier or the name of one, "
            f"got {type(model).__name__}."
        )
    refuse("a scikit-learn estimator", weights=weights)
    _refuse_torch_options(name, options, head=options.head)
    return LinearEstimator(model, name)


def _network(built: BuiltNetwork, name: str, weights: Path | None, options: ModelOptions, *, load: bool) -> Model:
    """A `Network`, filled with weights if they are still to `load`."""
    from hardsight.models.network import Network, unwrapped
    from hardsight.models.weights import load_weights

    module = unwrapped(built.module)
    if weights is not None and load:
        load_weights(module, weights, name)
    if built.preprocessing is None and hasattr(module, "pretrained_cfg"):
        from hardsight.models.libraries import timm_preprocessing

        built = built._replace(preprocessing=timm_preprocessing(module))
    return Network(built, name, options, weights)


def _on_fastest(options: ModelOptions) -> ModelOptions:
    """For a network made here, not passed in: "auto" may move it to the fastest device."""
    from hardsight.models.network import torch_device

    return replace(options, device=str(torch_device(options.device)))


def _imported(name: str) -> ModuleType:
    """The user's module, by its name or by its file. Their current directory is on the path, as with `python -m`."""
    folder = str(Path(name).parent.resolve()) if name.endswith(".py") else os.getcwd()
    if folder not in sys.path and not ("" in sys.path and folder == os.getcwd()):
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    if name.endswith(".py"):
        with _users_own(name):
            return _from_file(Path(name))
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"{name!r} is not the name of a module.")
    with _users_own(name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the user's module exists and misses something itself
            raise InputError(f"there is no module {name!r} on the path or in the current directory.") from error


@contextlib.contextmanager
def _users_own(name: str) -> Iterator[None]:
    """What goes wrong in the user's own code is one line with its place; Python shows the rest as its cause."""
    try:
        yield
    except HardsightError:
        raise
    except Exception as error:
        raise InputError(_in_users_code(name, error)) from error


def _in_users_code(name: str, error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{name} is not Python: {error.msg}, line {error.lineno}."
    frame = traceback.extract_tb(error.__traceback__)[-1]
    reason = f": {first_line(error)}" if str(error) else ""
    return f"{name} could not be used: {type(error).__name__}{reason} ({Path(frame.filename).name}, line {frame.lineno})."


def _from_file(path: Path) -> ModuleType:
    """A module by its file, under the name it would be imported by; a module of that name from elsewhere stays as it is."""
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    imported = sys.modules.get(path.stem)
    if imported is not None and getattr(imported, "__file__", None) and Path(str(imported.__file__)).resolve() == path.resolve():
        return imported
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be imported as a module.")
    module = importlib.util.module_from_spec(spec)
    if imported is None:
        sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if imported is None:
            del sys.modules[path.stem]
        raise
    return module


def call_factory(module_name: str, function: str, num_classes: int | None, **options: Any) -> Any:
    """What the user's own function or class gives, by the name of its module or the path of its file."""
    module = _imported(module_name)
    factory = getattr(module, function, None)
    if not callable(factory):
        near = did_you_mean(function, [name for name, value in vars(module).items() if callable(value)])
        raise InputError(f"{module_name} has no function or class {function!r} that makes a model.{near}")
    signature = inspect.signature(factory)
    takes = signature.parameters
    unknown = [name for name in options if name not in takes and not any(p.kind is p.VAR_KEYWORD for p in takes.values())]
    if unknown:
        names = ", ".join(name for name in takes if name != "num_classes") or "none"
        raise InputError(f"{module_name}:{function} has no option {unknown[0]!r}; it has: {names}.")
    if num_classes is not None and "num_classes" in takes:
        options["num_classes"] = num_classes
    try:
        signature.bind(**options)
    except TypeError as error:
        raise InputError(f"{module_name}:{function} must make a model without further arguments: {error}.") from error
    with _users_own(f"{module_name}:{function}"):
        return factory(**options)


def _refuse_torch_options(name: str, options: ModelOptions, **more: Any) -> None:
    reduced = None if options.precision == "float32" else options.precision
    refuse(f"{name}, which runs as it was saved", precision=reduced, num_classes=options.num_classes, **more)


def _unknown(path: Path) -> str:
    message = f"{path} is not a model: give timm:NAME, torchvision:NAME, hf:NAME, module:function, a trained directory, "
    message += "an .onnx or a .skops file."
    library, slash, rest = str(path).partition("/")
    if library in LIBRARIES and slash:
        message += f" Did you mean {library}:{rest}?"
    if re.fullmatch("[a-z][a-z0-9_]*", str(path)):
        message += f" Of a library, write it as timm:{path}."
    if path.suffix in (".pt", ".pth", ".safetensors", ".bin", ".ckpt"):
        message += f" Weights alone need their architecture: timm:NAME --weights {path}."
    elif path.suffix in (".h5", ".keras", ".pb", ".tflite"):
        message += " Export it to ONNX, for example with tf2onnx."
    elif path.suffix in (".pkl", ".joblib"):
        message += " Pickles are not read: save a scikit-learn model with skops.io.dump."
    elif path.suffix == ".py":
        message += f" Say what makes the model in it: {path}:Net."
    return message
