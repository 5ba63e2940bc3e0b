"""The last linear layer of a torch module, found by watching one small batch go through it.

Every module's input and output is read on the way, as one (b, d) feature per image. Afterwards each matrix of the
model with one row per class is tried on what went into its own layer; if none gives the model's output, on what came
out of any layer, for heads that are written as a formula rather than a layer. What fits is the head. Where none fits,
two linear layers may be averaged, as in distilled transformers: they are one head on both features side by side.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from hardsight.errors import InputError, first_line
from hardsight.fitted_estimator import TOLERANCE, relative_error
from hardsight.head import Head
from hardsight.models.head_layer import HeadLayer
from hardsight.models.matching import READINGS, Match, Matrix, best_match, read_positions, way_forward

Side = Literal["input", "output"]
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Tap:
    """Where the features are read: the input or output of a layer, and which of its positions."""

    layer: str
    side: Side
    reading: str
    channels_first: bool

    def features(self, x: Tensor) -> Tensor:
        """The (b, d) features in what passes the layer."""
        features: Tensor = read_positions(x.detach().float(), self.reading, self.channels_first)  # (b, d)
        return features


@dataclass(frozen=True)
class LastLayer:
    """The answer: a named layer, where its features are read, and its head. Two averaged layers have two taps."""

    name: str
    taps: tuple[Tap, ...]
    head: Head
    output: int | None  # which of the model's outputs are the logits; None if they are computed from the head


@dataclass(frozen=True)
class _Candidate:
    name: str  # what --head-layer calls it
    layer: str
    matrix: Matrix
    linear: bool  # computes a linear product for certain, so it can be chosen whatever follows it


def find_last_layer(
    module: nn.Module, forward: Callable[[], Any], batch_size: int, *, choice: str | None, num_classes: int | None
) -> LastLayer:
    """Run `forward` once, and find the layer whose head reproduces what it returned.

    Args:
        module: the model, out of its wrappers.
        forward: runs the model on `batch_size` images.
        choice: a layer by name, when several or none would do.
        num_classes: of the output to explain, when the model returns several.
    """
    watch = _Watch(module, batch_size)
    with watch:
        outputs = logit_tensors(forward(), batch_size)
    arrays = {k: x.detach().float().cpu().numpy() for k, x in enumerate(outputs) if num_classes in (None, x.shape[1])}
    if not arrays:
        raise InputError(_wrong_outputs(module, outputs, num_classes))
    for output in arrays.values():
        if not np.isfinite(output).all():
            raise InputError(
                f"{type(module).__name__} returned values that are not finite on the first images: "
                "look at its weights, the preprocessing and the precision."
            )
    if choice is not None:
        return _chosen(module, choice, watch, arrays)
    candidates = [c for c in _candidates(module) if len(c.matrix.weight) in {x.shape[1] for x in arrays.values()}]
    matches, errors = _try_all(candidates, outputs=arrays, taps=lambda c: watch.inputs.get(c.layer, []))
    if not matches:
        matches, _ = _try_all(candidates, outputs=arrays, taps=lambda _: watch.outputs[::-1])
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        layers = ", ".join(f"{name} {last.head.weight.shape}" for name, last in matches.items())
        raise InputError(
            f"several layers of {type(module).__name__} could be the last one: {layers}. Choose with --head-layer NAME."
        )
    averaged = _two_averaged([c for c in candidates if c.linear], watch, arrays)
    if averaged is not None:
        return averaged
    raise InputError(_nothing_fits(module, candidates, errors, arrays))


class _Watch:
    """Hooks on every module that keep one feature per image of what goes in and out; they are gone afterwards."""

    def __init__(self, module: nn.Module, batch_size: int) -> None:
        self.module, self.batch_size = module, batch_size
        self.inputs: dict[str, list[tuple[Tap, Tensor]]] = {}
        self.outputs: list[tuple[Tap, Tensor]] = []  # in the order of execution
        self._hooks = ExitStack()

    def __enter__(self) -> None:
        for name, layer in self.module.named_modules():
            if any(True for _ in _own_tensors(layer)) or isinstance(getattr(layer, "weight", None), Tensor):
                self._hooks.callback(hooked(layer, "input", partial(self._see_input, name, layer)))
            if name:
                self._hooks.callback(hooked(layer, "output", partial(self._see_output, name)))

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    def _see_input(self, name: str, layer: nn.Module, x: Tensor) -> None:
        last_axis = isinstance(layer, nn.Linear) or x.ndim < 4
        self.inputs[name] = list(self._readings(name, "input", x, isinstance(layer, CONVOLUTIONS) or not last_axis))

    def _see_output(self, name: str, x: Tensor) -> None:
        self.outputs.extend(self._readings(name, "output", x, x.ndim >= 4))

    def _readings(self, name: str, side: Side, x: Tensor, channels_first: bool) -> Iterator[tuple[Tap, Tensor]]:
        if x.ndim < 2 or len(x) != self.batch_size or not x.is_floating_point():
            return
        for reading in READINGS[:1] if x.ndim == 2 or channels_first else READINGS:
            tap = Tap(name, side, reading, channels_first)
            yield tap, tap.features(x)


def hooked(layer: nn.Module, side: Side, see: Callable[[Tensor], None]) -> Callable[[], None]:
    """Call `see` with what goes into a layer, or comes out of it, until the function that is returned is called."""

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = first_tensor(args, kwargs)
        if x is not None:
            see(x)

    def after(_: nn.Module, __: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            see(output)

    if side == "input":
        return layer.register_forward_pre_hook(before, with_kwargs=True).remove
    return layer.register_forward_hook(after).remove


def first_tensor(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """What a layer was called with."""
    return next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)


def logit_tensors(result: Any, batch_size: int) -> list[Tensor]:
    """The (b, c) tensors among what a model returned: its logits if it names them, else all there are."""
    if isinstance(result, Mapping):
        values = [result["logits"]] if "logits" in result else list(result.values())
    elif isinstance(getattr(result, "logits", None), Tensor):
        values = [result.logits]
    else:
        values = list(result) if isinstance(result, (tuple, list)) else [result]
    tensors = [x for x in values if isinstance(x, Tensor) and x.ndim >= 2 and len(x) == batch_size and x.is_floating_point()]
    return [x.flatten(1) for x in tensors if x[0].numel() == x.shape[1]]  # (b, c, 1, 1) is (b, c)


def _own_tensors(layer: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """A layer's own parameters and buffers that could hold class vectors."""
    for name, x in (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)):
        if x.ndim == 2 and x.is_floating_point():
            yield name, x


def _candidates(module: nn.Module) -> Iterator[_Candidate]:
    """Every matrix of the model that could be class vectors, in either orientation."""
    for layer_name, layer in module.named_modules():
        weight = getattr(layer, "weight", None)  # of a parametrized layer: the one it computes with
        pointwise = isinstance(layer, CONVOLUTIONS) and layer.groups == 1 and set(layer.kernel_size) == {1}
        if isinstance(layer, nn.Linear) or pointwise:
            if isinstance(weight, Tensor):
                matrix = Matrix(_array(weight.flatten(1)), _array(layer.bias))
                linear = pointwise or type(layer).forward is nn.Linear.forward
                yield _Candidate(layer_name or type(layer).__name__, layer_name, matrix, linear)
            continue
        for name, x in _own_tensors(layer):
            full_name = f"{layer_name}.{name}" if layer_name else name
            for array in (_array(x), _array(x.T)):
                yield _Candidate(full_name, layer_name, _with_companions(layer, array), False)


def _with_companions(layer: nn.Module, weight: np.ndarray) -> Matrix:
    """A matrix with the vectors beside it that a head could use: bias, log variance, log prior."""
    c, d = weight.shape
    beside = dict((*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)))

    def named(part: str, *shapes: tuple[int, ...]) -> np.ndarray | None:
        return next((_array(x) for name, x in beside.items() if part in name and tuple(x.shape) in shapes), None)

    scale = layer.scale if isinstance(layer, HeadLayer) else None
    return Matrix(weight, named("bias", (c,)), named("log_var", (d,), (c, d)), named("log_prior", (c,)), scale=scale)


def _array(x: Any) -> Any:
    return None if x is None else x.detach().float().cpu().numpy()


def _try_all(
    candidates: list[_Candidate], taps: Callable[[_Candidate], Sequence[tuple[Tap, Tensor]]], outputs: dict[int, np.ndarray]
) -> tuple[dict[str, LastLayer], dict[str, float]]:
    """The candidates that fit, and how far off each one is, by name: a square matrix is tried both ways round."""
    matches: dict[str, LastLayer] = {}
    errors: dict[str, float] = {}
    for candidate in candidates:
        last, error = _try(candidate, taps(candidate), outputs)
        errors[candidate.name] = min(error, errors.get(candidate.name, np.inf))
        if last is not None:
            matches.setdefault(candidate.name, last)
    return matches, errors


def _try(
    candidate: _Candidate, taps: Sequence[tuple[Tap, Tensor]], outputs: dict[int, np.ndarray]
) -> tuple[LastLayer | None, float]:
    """The candidate as the last layer if it fits anywhere, and the smallest error met."""
    c, d = candidate.matrix.weight.shape
    nearest = np.inf
    softmaxed: LastLayer | None = None
    for tap, x in taps:
        if x.shape[1] != d:
            continue
        features = x.cpu().numpy()
        for k, output in outputs.items():
            if output.shape[1] != c:
                continue
            match: Match = best_match(features, output, candidate.matrix)
            nearest = min(nearest, match.error)
            if match.holds and not match.softmaxed:
                return LastLayer(candidate.name, (tap,), match.build(), k), match.error
            if match.holds and softmaxed is None:
                softmaxed = LastLayer(candidate.name, (tap,), match.build(), None)
    return softmaxed, nearest


def _two_averaged(candidates: list[_Candidate], watch: _Watch, outputs: dict[int, np.ndarray]) -> LastLayer | None:
    """Two linear layers whose average is the output: ([x1, x2] [W1, W2]' + b1 + b2) / 2 is one linear head."""
    read = [
        (candidate, tap, _linear(x.cpu().numpy(), candidate.matrix))
        for candidate in candidates
        for tap, x in watch.inputs.get(candidate.layer, [])
        if x.shape[1] == candidate.matrix.weight.shape[1]
    ]
    for (first, first_tap, first_logits), (second, second_tap, second_logits) in combinations(read, 2):
        if first.layer == second.layer or first_logits.shape != second_logits.shape:
            continue
        for k, output in outputs.items():
            if output.shape == first_logits.shape and relative_error((first_logits + second_logits) / 2, output) <= TOLERANCE:
                weight = np.concatenate([first.matrix.weight, second.matrix.weight], axis=1) / 2  # (c, 2 d)
                biases = [c.matrix.bias for c in (first, second) if c.matrix.bias is not None]
                head = Head("linear", weight, sum(biases) / 2 if biases else None)
                return LastLayer(f"{first.name} + {second.name}", (first_tap, second_tap), head, k)
    return None


def _linear(features: np.ndarray, matrix: Matrix) -> np.ndarray:
    product = features.astype(np.float64) @ matrix.weight.T  # (b, c)
    return product if matrix.bias is None else product + matrix.bias


def _chosen(module: nn.Module, choice: str, watch: _Watch, outputs: dict[int, np.ndarray]) -> LastLayer:
    """The layer the user named. If something follows it, its own output is what counts."""
    everything = list(_candidates(module))
    name = choice
    while name not in {c.name for c in everything} and name.startswith(("module.", "_orig_mod.")):
        name = name.partition(".")[2]
    candidates = [c for c in everything if name in (c.name, c.layer)]
    if not candidates:
        close = get_close_matches(name, dict.fromkeys(c.name for c in everything), n=5, cutoff=0.3)
        raise InputError(
            f"{type(module).__name__} has no linear layer {choice!r}. Near that name: {', '.join(close)}."
            if close
            else f"{type(module).__name__} has no linear layer {choice!r}, nor any layer like one. {way_forward(None)}"
        )
    nearest = np.inf
    for candidate in candidates:
        for taps in (watch.inputs.get(candidate.layer, []), watch.outputs[::-1]):
            last, error = _try(candidate, taps, outputs)
            nearest = min(nearest, error)
            if last is not None:
                return last
    candidate, d = candidates[0], candidates[0].matrix.weight.shape[1]
    fitting = tuple(tap for tap, x in watch.inputs.get(candidate.layer, []) if x.shape[1] == d)
    if not candidate.linear or not fitting:
        raise InputError(
            f"{choice} does not reproduce the output of {type(module).__name__} as a linear or cosine head "
            f"({_off(nearest)}), and is not a linear layer that was called. Choose another with --head-layer NAME."
        )
    warnings.warn(
        f"the output of {type(module).__name__} is not that of its layer {choice} ({_off(nearest)}): "
        "features, logits and scores are those of the layer.",
        stacklevel=2,
    )
    return LastLayer(candidate.name, fitting[:1], Head("linear", candidate.matrix.weight, candidate.matrix.bias), None)


def _off(error: float) -> str:
    return f"off by {error:.0%} of the largest output" if np.isfinite(error) else "never given features of its size"


def _wrong_outputs(module: nn.Module, outputs: list[Tensor], num_classes: int | None) -> str:
    if outputs:
        shapes = " and ".join(str(x.shape[1]) for x in outputs)
        return f"{type(module).__name__} returns {shapes} classes, but num_classes is {num_classes}."
    return (
        f"{type(module).__name__} must return logits of shape (batch, classes): a tensor, a tuple or dict holding one, "
        "or an object with .logits. Nothing like that came back."
    )


def _nothing_fits(
    module: nn.Module, candidates: list[_Candidate], errors: dict[str, float], outputs: dict[int, np.ndarray]
) -> str:
    shapes = " or ".join(str(x.shape) for x in outputs.values())
    message = f"no layer of {type(module).__name__} reproduces its output {shapes} as a linear or cosine head."
    if not candidates:
        seen = list(dict.fromkeys(f"{c.name} {c.matrix.weight.shape}" for c in _candidates(module) if c.linear))[-5:]
        last = seen[-1].partition(" ")[0] if seen else None
        return message + f" None has a row per class; its last linear layers are {', '.join(seen) or 'none'}. {way_forward(last)}"
    tried = "; ".join(f"{c.name} {c.matrix.weight.shape}, {_off(errors[c.name])}" for c in candidates[-5:])
    nearest = min(candidates, key=lambda c: errors[c.name]).name
    return message + f" Tried: {tried}. {way_forward(nearest)}"


# ---- cut off, to train another ----


class Cut(nn.Module):
    """What stands where the last layer was: keeps the features that reach it, and passes them on."""

    features: Tensor | None = None

    def forward(self, features: Tensor) -> Tensor:
        """Keep the features and return them unchanged."""
        self.features = features
        return features


@torch.no_grad()
def cut_off(module: nn.Module, sample: Tensor) -> tuple[LastLayer, Cut, nn.Module]:
    """Take the last layer out of a network, found by running a few images.

    Returns:
        Where it was and what it computed, the `Cut` in its place, and the layer itself.
    """
    was_training = module.training
    module.eval()
    try:
        module(sample)
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        shape = tuple(sample.shape[1:])
        rows = f" For rows of numbers there is feature_head, with num_inputs={shape[0]}." if len(shape) == 1 else ""
        reason = first_line(error).rstrip(".")
        raise InputError(f"{type(module).__name__} could not run on inputs of shape {shape}: {reason}.{rows}") from error
    last = find_last_layer(module, lambda: module(sample), len(sample), choice=None, num_classes=None)
    tap = last.taps[0]
    if len(last.taps) > 1:
        raise InputError(f"{type(module).__name__} averages two heads, {last.name}: train a version of it that has one.")
    if tap.side != "input":
        raise InputError(f"the head of {type(module).__name__} is a formula, not a layer: a new one cannot take its place.")
    layer = module.get_submodule(tap.layer)
    cut = Cut()
    module.set_submodule(tap.layer, cut, strict=True)
    try:
        module(sample)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"{type(module).__name__} cannot run without its last layer {last.name}: {error}") from error
    finally:
        module.train(was_training)
    if cut.features is None or cut.features.ndim != 2:
        raise InputError(f"the last layer of {type(module).__name__} must see one feature per image, (b, d).")
    cut.features = None
    return last, cut, layer
