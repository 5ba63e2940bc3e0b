"""Per-sample dynamics in a Hugging Face training: `Trainer(callbacks=[DynamicsCallback("run")])`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardsight.dynamics.head_hook import HeadWatch, gather, labels_and_ids
from hardsight.dynamics.tracker import Dynamics
from hardsight.errors import InputError
from hardsight.models.libraries import import_with_torchvision

TrainerCallback: Any = import_with_torchvision("transformers", "the Hugging Face callback").TrainerCallback


class DynamicsCallback(TrainerCallback):  # type: ignore[misc]
    """Record the dynamics of every sample while a Hugging Face `Trainer` trains; epochs count from 1.

    Each sample of the dataset needs an integer `ids` in addition to its `labels`, and `TrainingArguments` needs
    `remove_unused_columns=False`, so that the Trainer does not drop it. The callback removes the ids before the model sees
    them. Training samples are measured in their training forward pass; evaluation samples (split "val") after each epoch,
    or at the step where evaluation runs within an epoch.

    Args:
        folder: files go to `folder/dynamics/`.
        head: name of the head in the model, such as `classifier`. Default: its last `nn.Linear` or head loss.
        ids: the key of the ids in a batch.
    """

    def __init__(self, folder: str | Path, *, head: str | None = None, ids: str = "ids") -> None:
        self.tracker = Dynamics(folder)
        self.head, self.ids = head, ids
        self.epoch = 0  # the current epoch, from 1
        self.step: int | None = None  # optimizer step; None after the training part of the epoch

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Attach the hook on the head and the hook that removes the ids."""
        self.watch = HeadWatch(model, self.head, self.tracker)
        self.hook = model.register_forward_pre_hook(self._take_out_ids, with_kwargs=True)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the dynamics of the previous epoch, and start the next."""
        self._finish()  # evaluation runs after the end of the epoch, so write it now
        self.epoch, self.step = int((state.epoch or 0) + 1e-6) + 1, int(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remember the number of optimizer steps."""
        self.step = int(state.global_step)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the end of the epoch's training."""
        self.step = None

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the dynamics of an evaluation within an epoch."""
        if self.epoch and self.step is not None:
            self.tracker.finish(self.epoch, step=self.step, gather=gather)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the last epoch's dynamics, and remove the hooks."""
        self._finish()
        self.watch.remove()
        self.hook.remove()

    def _finish(self) -> None:
        if self.epoch:
            self.tracker.finish(self.epoch, gather=gather)

    def _take_out_ids(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Before the forward pass: announce the samples to the hook on the head, and hide the ids from the model."""
        if self.ids not in kwargs:
            raise InputError(
                f"a batch has no {self.ids!r}, only {', '.join(kwargs) or 'nothing'}. Samples need an integer {self.ids!r}, "
                "and TrainingArguments needs remove_unused_columns=False."
            )
        labels, ids = labels_and_ids({**kwargs, "ids": kwargs[self.ids]})
        train = bool(model.training)
        self.watch.expect(self.epoch, labels, ids, split="train" if train else "val", step=None if train else self.step)
        return args, {name: value for name, value in kwargs.items() if name != self.ids}
