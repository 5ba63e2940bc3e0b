"""Per-sample dynamics in a Lightning training: `Trainer(callbacks=[DynamicsCallback("run")])`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hardsight.dynamics.head_hook import HeadWatch, gather, labels_and_ids
from hardsight.dynamics.tracker import Dynamics
from hardsight.errors import MissingExtra
from hardsight.models.libraries import import_with_torchvision

try:
    Callback: Any = import_with_torchvision("lightning.pytorch", "the Lightning callback").Callback
except MissingExtra:
    Callback = import_with_torchvision("pytorch_lightning", "the Lightning callback").Callback


class DynamicsCallback(Callback):  # type: ignore[misc]
    """Record the dynamics of every sample while Lightning trains; epochs count from 1.

    Training samples are measured in their training forward pass, validation samples (split "val", or "val1", "val2", ...
    for further loaders) after each epoch, or at the step where validation runs within an epoch.

    Args:
        folder: files go to `folder/dynamics/`.
        head: name of the head in the LightningModule, such as `model.fc`. Default: its last `nn.Linear` or head loss.
        labels_and_ids: a function that returns the labels and ids of a batch. Default: take them from
            `(inputs, labels, ids)` or from the keys `labels` and `ids`.
    """

    def __init__(
        self, folder: str | Path, *, head: str | None = None, labels_and_ids: Callable[[Any], tuple[Any, Any]] = labels_and_ids
    ) -> None:
        self.tracker = Dynamics(folder)
        self.head, self.labels_and_ids = head, labels_and_ids
        self.watch: HeadWatch | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach the hook to the head."""
        self.watch = HeadWatch(pl_module, self.head, self.tracker)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Announce the labels and ids of a training batch."""
        self._expect(trainer, batch, "train", None)

    def on_validation_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Announce the labels and ids of a validation batch."""
        if not trainer.sanity_checking:
            self._expect(trainer, batch, f"val{dataloader_idx or ''}", _step(trainer))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the dynamics of a validation within an epoch."""
        if self.watch is not None and not trainer.sanity_checking and _step(trainer) is not None:
            self.tracker.finish(trainer.current_epoch + 1, step=_step(trainer), gather=gather)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the dynamics of the epoch."""
        self.tracker.finish(trainer.current_epoch + 1, gather=gather)  # validation has run by now

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Remove the hook."""
        if self.watch is not None:
            self.watch.remove()
            self.watch = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Remove the hook after an error."""
        self.on_fit_end(trainer, pl_module)

    def _expect(self, trainer: Any, batch: Any, split: str, step: int | None) -> None:
        if self.watch is not None:  # None outside `fit`
            labels, ids = self.labels_and_ids(batch)
            self.watch.expect(trainer.current_epoch + 1, labels, ids, split=split, step=step)


def _step(trainer: Any) -> int | None:
    """The step at which validation runs, or None at the end of an epoch."""
    return None if trainer.is_last_batch else int(trainer.global_step)
