"""A hook on the head of a model, for trainers that run the forward pass themselves.

Labels and ids are announced before a forward pass. The hook reads the input of the head and measures it with the weights of
that pass; the trainer's own step is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import torch
from torch import nn

from hardsight.dynamics.gathering import gathered_tables
from hardsight.dynamics.tracker import Dynamics
from hardsight.errors import InputError
from hardsight.losses.contract import HeadLoss
from hardsight.models.find_head import first_tensor

LABEL_NAMES = ("labels", "label", "targets", "target", "y")
ID_NAMES = ("ids", "id", "sample_ids", "index", "idx")


class HeadWatch:
    """A hook on the head of a model that passes every announced batch to a tracker.

    Args:
        model: any module that contains the head.
        head: the head's name in the model (`model.fc`). Default: the last `nn.Linear` or head loss in it.
        tracker: receives the batches.
    """

    def __init__(self, model: nn.Module, head: str | None, tracker: Dynamics) -> None:
        self.name, self.layer = _head_of(model, head)
        self.tracker = tracker
        self._expected: dict[str, Any] | None = None
        self._hook = self.layer.register_forward_pre_hook(self._read, with_kwargs=True)

    def expect(self, epoch: int, labels: Any, ids: Any, *, split: str, step: int | None = None) -> None:
        """Announce the samples of the next forward pass. A second pass before the next `expect` is ignored."""
        self._expected = {"epoch": epoch, "labels": labels, "ids": ids, "split": split, "step": step}

    def remove(self) -> None:
        """Remove the hook from the head."""
        self._hook.remove()

    def _read(self, layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._expected is None:
            return
        expected, self._expected = self._expected, None
        features = first_tensor(args, kwargs)
        if features is None or features.ndim != 2:
            shape = "nothing" if features is None else f"shape {tuple(features.shape)}"
            raise InputError(f"the head {self.name!r} must get (n, d) features, got {shape}. Name another with head=.")
        self.tracker.update(features=features.detach(), head=layer, **expected)


def gather(table: pa.Table) -> list[pa.Table] | None:
    """The tables of all processes on the main process; with a single process, just its own."""
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    return gathered_tables(table, device)


def labels_and_ids(batch: Any) -> tuple[Any, Any]:
    """Labels and ids of a batch: by key in a dictionary, or the second and third item of a tuple."""
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in LABEL_NAMES if name in batch), None)
        ids = next((batch[name] for name in ID_NAMES if name in batch), None)
        if labels is not None and ids is not None:
            return labels, ids
        description = f"a dictionary with {', '.join(map(str, batch))}"
    else:
        if isinstance(batch, (tuple, list)) and len(batch) >= 3:
            return batch[1], batch[2]
        description = f"a {type(batch).__name__} of {len(batch)}" if hasattr(batch, "__len__") else f"a {type(batch).__name__}"
    raise InputError(
        f"a batch must hold labels and ids, as (inputs, labels, ids) or under the names labels and ids, got {description}. "
        "Let the dataset return each sample's id, or pass labels_and_ids= to extract them."
    )


def _head_of(model: nn.Module, head: str | None) -> tuple[str, nn.Module]:
    named = {name: layer for name, layer in model.named_modules() if isinstance(layer, (nn.Linear, HeadLoss))}
    if head is None:
        if not named:
            raise InputError(f"{type(model).__name__} has no nn.Linear and no head loss: name its head with head=.")
        return list(named.items())[-1]
    try:
        layer = model.get_submodule(head)
    except AttributeError as error:
        raise InputError(f"{type(model).__name__} has no layer {head!r}; it has {', '.join(named) or 'no head'}.") from error
    if getattr(getattr(layer, "weight", None), "ndim", 0) != 2:
        raise InputError(f"{head!r} is a {type(layer).__name__}; a head needs a (c, d) weight, like nn.Linear.")
    return head, layer
