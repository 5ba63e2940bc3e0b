"""From data that is open and a network by name to a training: processes, devices, network, teacher, then the loop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from hardsight.models.network import torch_device
from hardsight.screen import Progress, Say
from hardsight.training import processes
from hardsight.training.loop import Training
from hardsight.training.loss_names import loss_name
from hardsight.training.network import open_network
from hardsight.training.objective import with_defaults
from hardsight.training.optimization import MixedPrecision
from hardsight.training.sets import Sets
from hardsight.training.settings import TrainSettings
from hardsight.training.teacher import open_teacher


@dataclass(frozen=True)
class Start:
    """Where a training runs, and with which options."""

    accelerator: Accelerator
    device: torch.device
    settings: TrainSettings
    output: Path
    say: Say  # of the main process; the others are silent

    @classmethod
    def of(cls, settings: TrainSettings, output: Path, say: Say | None) -> Self:
        """The loss by its usual name, with the options it has by default, and the processes that share the work."""
        name = loss_name(settings.loss)
        settings = settings.with_loss(name, with_defaults(name, settings.loss_options, settings.epochs))
        accelerator, device = _processes(settings, output)
        return cls(accelerator, device, settings, output, say if say is not None and accelerator.is_main_process else _silent)

    def train(self, sets: Sets, model: Any, progress: Progress | None) -> None:
        """Open the network, and train it."""
        s = self.settings
        set_seed(s.seed)  # what the network starts from
        source = open_network(model, sets.num_classes, s)
        for note in source.notes:
            self.say(note)
        inputs, preprocessing = sets.prepared(source, s)
        teacher = open_teacher(s.teacher, s.loss, preprocessing, sets.class_names, str(self.device))
        Training(self.accelerator, self.device, s, source, sets, inputs, preprocessing, self.say, progress, teacher).run(
            self.output
        )


def _processes(settings: TrainSettings, output: Path) -> tuple[Accelerator, torch.device]:
    """The processes that share the work, with their trackers, and the device of this one.

    Accelerate keeps precision and device for as long as Python runs, and has no public way to change them. So a second
    training in the same process takes nothing from it but the processes: precision is `MixedPrecision`, and a process
    that is alone uses the device that was asked for.
    """
    chosen = torch_device(settings.device)
    MixedPrecision(settings.precision, chosen)  # refuses what does not work, before anything is written
    launched = processes.launched()
    accelerator = Accelerator(
        cpu=launched and chosen.type == "cpu",
        log_with=settings.tracker,
        project_dir=output / "tracker" if settings.tracker else None,
    )
    return accelerator, accelerator.device if launched else chosen


def _silent(sentence: str) -> None:
    pass
