"""A torch module as a `Model`: one forward pass per batch, with a hook on the layer whose features are wanted.

`Model` (model.py) calls `_find_head` on the first few images, then `_run` for each batch.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from hardsight.cores import warn_of_quota
from hardsight.errors import InputError, check_choice
from hardsight.head import Head
from hardsight.models.find_head import LastLayer, Tap, find_last_layer, first_tensor, hooked, logit_tensors
from hardsight.models.model import BuiltNetwork, Model, ModelOptions
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.weights import file_sha256

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Network(Model):
    """A torch classifier.

    Args:
        built: any nn.Module from images to logits, with its preprocessing and class names where they are known;
            DataParallel and torch.compile wrappers are unwrapped.
        options: `device` is a torch device, or "auto" for where the module already is. `precision` is "float32", or
            "bfloat16" and "float16" by autocast; the head is always checked in float32. `head` names the last linear layer
            where it is not obvious, and `num_classes` picks the output where the module returns several.
        weights_file: where the weights came from, for the fingerprint; else the state dict is hashed.
    """

    def __init__(
        self, built: BuiltNetwork, name: str, options: ModelOptions = ModelOptions(), weights_file: Path | None = None
    ) -> None:
        check_choice(options.precision, PRECISIONS, "precision")
        self.module = unwrapped(built.module)
        super().__init__(name, built.preprocessing or declared_preprocessing(self.module), built.class_names)
        first = next((p for p in self.module.parameters() if p.is_floating_point()), torch.empty(0))
        warn_of_quota(torch.get_num_threads())
        self.device = first.device if options.device == "auto" else torch_device(options.device)
        self.module.to(self.device)
        self.precision = options.precision
        self._dtype = first.dtype
        self._layer, self._num_classes, self._weights_file = options.head, options.num_classes, weights_file
        self._check_every_batch = options.head is None and options.precision == "float32"
        self._last: LastLayer | None = None
        self._sha256: str | None = None
        self._released = {} if built.released is None or weights_file else {"weights": built.released}
        self._watched: dict[str, Tensor] = {}

    def fingerprint(self) -> dict[str, str]:
        """Kind, name and the hash of the weights, of their file where there is one; their name where a library released them."""
        if self._sha256 is None:
            self._sha256 = file_sha256(self._weights_file) if self._weights_file else state_sha256(self.module)
        return {"kind": "torch", "name": self.name, **self._released, "sha256": self._sha256}

    @property
    def layer(self) -> str:
        """The name of the last linear layer, once `check` has found it."""
        if self._last is None:
            raise InputError(f"the last layer of {self.name} is found on its first batch: call model.check(batch) first.")
        return self._last.name

    @property
    def watched(self) -> dict[str, np.ndarray]:
        """Name -> (b, d) features of the layers that `watch` named, of the last batch."""
        return {name: x.cpu().numpy() for name, x in self._watched.items()}

    def watch(self, layers: Sequence[str], batch: np.ndarray) -> None:
        """Keep the pooled outputs of layers of every batch from now on; they are tried on this one."""
        modules = dict(self.module.named_modules())
        for name in layers:
            if name not in modules or not name:
                near = difflib.get_close_matches(name, modules, 3) or list(modules)[1:4]
                raise InputError(f"{self.name} has no layer {name!r}; there are {', '.join(near)}, ...")
            modules[name].register_forward_hook(functools.partial(self._see, name))
        self._forward(batch, PRECISIONS[self.precision])
        missing = [name for name in layers if name not in self._watched]
        if missing:
            raise InputError(f"the layer {missing[0]!r} of {self.name} is not used, or its output is no tensor of numbers.")

    def _see(self, name: str, _: nn.Module, __: Any, output: Any) -> None:
        """Keep what a layer gives: (b, d) as it is, (b, C, H, W) averaged over places, (b, T, d) over tokens."""
        x = first_tensor(output if isinstance(output, (tuple, list)) else (output,), {})
        if x is not None and x.ndim > 1:
            x = x.detach().float()
            self._watched[name] = x.mean(1) if x.ndim == 3 else x.flatten(2).mean(2) if x.ndim > 2 else x

    def dropped(self, batch: np.ndarray, seed: int) -> np.ndarray:
        """(b, C, H, W) images -> (b, d) features of one pass with dropout left on, drawn from a seed (MC dropout)."""
        layers = [layer for layer in self.module.modules() if isinstance(layer, _DropoutNd) and layer.p > 0]
        if not layers:
            raise InputError(
                f"{self.name} has no dropout layer that drops anything, so --passes dropout=N would all be the same."
            )
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), _dropping(layers):
            torch.manual_seed(seed)
            features, logits = self._run(batch)
        if self.head.kind == "linear" and self._check_every_batch:
            self._check_again(features, logits)
        return features

    def logits(self, inputs: Tensor) -> Tensor:
        """(b, ...) inputs on the model's device -> (b, c) logits in evaluation mode, with gradients to the inputs."""
        if self._last is None or self._last.output is None:
            raise InputError(f"the output of {self.name} is not its logits, so no gradient of a loss reaches its inputs.")
        with _evaluating(self.module), _not_compiled(self.module):
            return logit_tensors(self.module(inputs.to(self._dtype)), len(inputs))[self._last.output].float()

    def _find_head(self, batch: np.ndarray) -> Head:
        self._last = find_last_layer(
            self.module, lambda: self._forward(batch, None), len(batch), choice=self._layer, num_classes=self._num_classes
        )
        return self._last.head

    def _run(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self._last is not None
        with _caught(self.module, self._last) as caught:
            result = self._forward(batch, PRECISIONS[self.precision])
        features = torch.cat([caught[tap] for tap in self._last.taps], dim=1)  # (b, d), float32
        if self._last.output is None:
            rows = features.cpu().numpy()
            return rows, np.asarray(self._last.head.logits(rows), np.float32)
        logits = logit_tensors(result, len(batch))[self._last.output].float()  # (b, c)
        return features.cpu().numpy(), logits.cpu().numpy()

    def _forward(self, batch: np.ndarray, dtype: torch.dtype | None) -> Any:
        # With channels last, convolutions of a processor take a tenth to a half less time.
        layout = torch.channels_last if batch.ndim == 4 and self.device.type == "cpu" else torch.contiguous_format
        inputs = torch.from_numpy(np.ascontiguousarray(batch))
        images = inputs.to(self.device, self._dtype, non_blocking=True, memory_format=layout)
        autocast = torch.autocast(self.device.type, dtype) if dtype is not None else nullcontext()
        with torch.no_grad(), _evaluating(self.module), _not_compiled(self.module), autocast:
            try:
                return self.module(images)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, ValueError, AssertionError, TypeError, IndexError, KeyError, ArithmeticError) as error:
                raise InputError(f"{self.name} could not run on images of shape {batch.shape[1:]}: {error}") from error


@contextmanager
def _caught(module: nn.Module, last: LastLayer) -> Iterator[dict[Tap, Tensor]]:
    """The features of whatever runs inside, the last that passed each tap."""
    caught: dict[Tap, Tensor] = {}

    def catch(tap: Tap, x: Tensor) -> None:
        caught[tap] = tap.features(x)

    with ExitStack() as hooks:
        for tap in last.taps:
            hooks.callback(hooked(module.get_submodule(tap.layer), tap.side, functools.partial(catch, tap)))
        yield caught


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, and every submodule as it was outside: the module may be in the middle of training."""
    training = [layer for layer in module.modules() if layer.training]
    module.eval()
    try:
        yield
    finally:
        for layer in training:
            layer.training = True


@contextmanager
def _dropping(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Dropout layers drop inside although the network is in evaluation mode: `forward` runs as in training."""
    before = [layer.register_forward_pre_hook(lambda layer, _: setattr(layer, "training", True)) for layer in layers]
    after = [layer.register_forward_hook(lambda layer, *_: setattr(layer, "training", False)) for layer in layers]
    try:
        yield
    finally:
        for hook in (*before, *after):
            hook.remove()


def _not_compiled(module: nn.Module) -> AbstractContextManager[Any]:
    """Parts that are compiled run as they are written, or hooks inside them would not be called."""
    compiled = any(
        hasattr(layer, "_orig_mod") or getattr(layer, "_compiled_call_impl", None) is not None for layer in module.modules()
    )
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def unwrapped(module: nn.Module) -> nn.Module:
    """The model inside torch.compile, DataParallel, DistributedDataParallel and AveragedModel."""
    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.optim.swa_utils.AveragedModel)
    while True:
        inner = module.module if isinstance(module, wrappers) else getattr(module, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def declared_preprocessing(module: nn.Module) -> Preprocessing:
    """What a module says of its inputs: an attribute `preprocessing`, or nothing but its number of channels."""
    declared = getattr(module, "preprocessing", None)
    if isinstance(declared, Preprocessing):
        return declared
    if isinstance(declared, dict):
        return Preprocessing.from_dict(declared)
    first = next((layer for layer in module.modules() if isinstance(layer, nn.Conv2d)), None)
    return Preprocessing(channels="L" if first is not None and first.in_channels == 1 else "RGB")


def torch_device(device: str) -> torch.device:
    """A device by name; "auto" is the fastest there is."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
        return torch.device(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used: {reason}. Try --device cpu.") from error


def state_sha256(module: nn.Module) -> str:
    """One hash over every tensor of the state dict: its name, type, shape and bytes."""
    digest = hashlib.sha256()
    for name, x in sorted(module.state_dict().items()):
        if isinstance(x, Tensor):
            digest.update(f"{name} {x.dtype} {tuple(x.shape)}\n".encode())
            digest.update(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
