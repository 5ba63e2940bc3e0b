"""The last layer taken out of a network that is to be trained, so that its features can be had and a loss takes its place."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardsight.errors import InputError, first_line
from hardsight.models.find_head import LastLayer, find_last_layer


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
    module.train(was_training)
    tap = last.taps[0]
    if len(last.taps) > 1:
        raise InputError(f"{type(module).__name__} averages two heads, {last.name}: train a version of it that has one.")
    if tap.side != "input":
        raise InputError(f"the head of {type(module).__name__} is a formula, not a layer: a new one cannot take its place.")
    layer = module.get_submodule(tap.layer)
    cut = Cut()
    module.set_submodule(tap.layer, cut, strict=True)
    try:
        module.eval()
        module(sample)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"{type(module).__name__} cannot run without its last layer {last.name}: {error}") from error
    finally:
        module.train(was_training)
    if cut.features is None or cut.features.ndim != 2:
        raise InputError(f"the last layer of {type(module).__name__} must see one feature per image, (b, d).")
    cut.features = None
    return last, cut, layer
