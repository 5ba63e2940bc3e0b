"""The work of a comparison: the data made ready for a network, then every unseen domain, loss and seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from hardsight.domains.opening import Data, Features, domain_column, num_classes
from hardsight.domains.scaling import standards
from hardsight.errors import InputError
from hardsight.files.reading import read_json, reading
from hardsight.files.writing import write_json
from hardsight.generalize import tables
from hardsight.generalize.loop import START, Fold, FoldTraining, chosen_epoch, folded
from hardsight.generalize.settings import DRM, GeneralizeSettings, Selection, parts_of
from hardsight.generalize.student import Student
from hardsight.models.network import torch_device
from hardsight.models.trainable import Trainable, open_trainable
from hardsight.screen import percent
from hardsight.threads import num_threads
from hardsight.training.checkpoint import Checkpoints
from hardsight.training.inputs import ArrayInputs, ImageInputs, Inputs, sized
from hardsight.training.network import FOUND_BY, first_sample, open_network
from hardsight.training.objective import LOSSES, loss_name, options_of, with_defaults
from hardsight.training.optimization import MixedPrecision, drawn_seed
from hardsight.training.settings import ProgressCallback
from hardsight.training.trainee import LossChoice


@dataclass(frozen=True)
class _Task:
    """One training: where it is written, its loss, the scale of that if one was chosen, and its seed."""

    folder: Path
    loss: str
    scale: float | None
    seed: int


@dataclass
class Work:
    """The data and the settings of a comparison, and the trainings it is made of."""

    settings: GeneralizeSettings
    data: Data
    domains: list[str]
    device: torch.device
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        column = domain_column(self.data)
        assert column is not None
        self.number = np.array([self.domains.index(str(name)) for name in column])  # (n,) domain of each sample
        self.c = num_classes(self.data)
        self.images: ImageInputs | None = None
        if not isinstance(self.data, Features):
            preprocessing = sized(self._network(0).preprocessing, self.data, self.settings.preprocessing())
            self.images = ImageInputs(self.data, preprocessing, workers=self.settings.workers or num_threads())

    @classmethod
    def of(cls, settings: GeneralizeSettings, data: Data, domains: list[str], say: Callable[[str], None]) -> Self:
        """The losses as they are known inside, and the data as a network takes it."""
        device = torch_device(settings.device)
        MixedPrecision(settings.precision, device)  # refuses what does not work, before anything is written
        return cls(_checked_losses(settings), data, domains, device, say)

    def arguments(self) -> dict[str, Any]:
        """What the result depends on, for start.json."""
        return {**self.settings.as_dict(), "device": self.device.type, "domains": self.domains}

    def fingerprint(self) -> dict[str, Any]:
        """Of the data."""
        if isinstance(self.data, Features):
            return {**ArrayInputs(self.data.values, self.data.labels, self.data.ids).fingerprint(), "domains": self.domains}
        return self.data.fingerprint()

    def all(self, folder: Path, progress: ProgressCallback | None) -> tables.Results:
        """Every unseen domain, loss and seed; what is complete already is read. Random numbers of others stay as they are."""
        with torch.random.fork_rng(devices=[]):
            return self._all(folder, progress)

    def _all(self, folder: Path, progress: ProgressCallback | None) -> tables.Results:
        s, scales, at = self.settings, {}, 0
        histories: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        tried = len(s.scales) * (len(self.domains) - 1)  # trainings to choose a scale by
        trainings = sum(len(s.seeds) + tried * self._scaled(loss) for loss in s.losses)
        total = len(self.domains) * trainings * s.epochs

        def report(words: str) -> Callable[[int], None]:
            return lambda epoch, at=at: None if progress is None else progress(at + epoch, total, words)  # type: ignore[misc]

        for unseen, domain in enumerate(self.domains):
            left = [i for i in range(len(self.domains)) if i != unseen]
            inputs = self._inputs(left)
            for loss in s.losses:
                home = folder / domain / loss
                if self._scaled(loss):
                    words = f"{loss}  without {domain}  choosing its scale"
                    scales[loss, domain] = self._scale(home, loss, left, inputs, report(words))
                    self.say(f"{loss} without {domain}: scale {scales[loss, domain]:g}")
                    at += tried * s.epochs
                for seed in s.seeds:
                    fold = folded(inputs, self.number, unseen, left, s.held_out, seed)
                    task = _Task(home / f"seed={seed}", loss, scales.get((loss, domain)), seed)
                    history = self._history(task, fold, report(f"{loss}  without {domain}  seed {seed}"))
                    histories[loss, domain, seed] = history
                    reached = chosen_epoch(history, s.selection)
                    self.say(f"{loss} without {domain}  seed {seed}  {percent(reached['test'])} % (epoch {reached['epoch']})")
                    at += s.epochs
        return tables.Results(histories, scales, list(s.losses), self.domains, list(s.seeds), s.selection)

    def _history(self, task: _Task, fold: Fold, report: Callable[[int], None]) -> list[dict[str, Any]]:
        """The epochs of one training; read, if it is complete."""
        path = task.folder / "epochs.json"
        if path.is_file():
            return read_json(path)
        checkpoints = Checkpoints(task.folder / "checkpoints")
        training = FoldTraining(fold, self.settings, task.seed, self.device, checkpoints, report)
        history = training.train(self._student(task, fold))
        task.folder.mkdir(parents=True, exist_ok=True)
        write_json(path, history)
        checkpoints.remove()
        return history

    def _scaled(self, loss: str) -> bool:
        """Whether a scale is to be chosen for a loss."""
        name, _ = parts_of(loss)
        return bool(self.settings.scales) and "scale" in options_of(LOSSES[name][1]) and "scale" not in self._given(loss)

    def _scale(self, folder: Path, loss: str, left: list[int], inputs: Inputs, report: Callable[[int], None]) -> float:
        """The scale that does best on each training domain when trained on the other ones."""
        s, path = self.settings, folder / "scale.json"
        if path.is_file():
            with reading(path):
                return float(read_json(path)["scale"])
        rule: Selection = "validation" if s.selection == "oracle" else s.selection
        seed, means, at = s.seeds[0], {}, 0
        for scale in s.scales:
            reached = []
            for inner in left:
                fold = folded(inputs, self.number, inner, [i for i in left if i != inner], s.held_out, seed)
                task = _Task(folder / f"scale={scale:g}" / self.domains[inner], loss, scale, seed)
                history = self._history(task, fold, lambda epoch, at=at: report(at + epoch))  # type: ignore[misc]
                reached.append(chosen_epoch(history, rule)["test"])  # of a training domain
                at += s.epochs
            means[scale] = float(np.mean(reached))
        best = max(means, key=lambda scale: means[scale])
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, {"scale": best, "accuracy": {str(scale): mean for scale, mean in means.items()}})
        return best

    def _student(self, task: _Task, fold: Fold) -> Student:
        """A fresh one, drawn from the seed."""
        name, per_domain = parts_of(task.loss)
        options = {**self._given(task.loss), **({} if task.scale is None else {"scale": task.scale})}
        spread = np.linspace(0, len(fold.train) - 1, min(FOUND_BY, len(fold.train))).astype(int)
        sample = first_sample(fold.inputs, fold.train[spread])
        torch.manual_seed(drawn_seed(task.seed, START))
        loss = LossChoice(name, options, self.c, len(fold.train))
        return Student(self._network(int(sample[0].numel())), sample, loss, len(fold.training_domains) if per_domain else 0)

    def _given(self, loss: str) -> dict[str, Any]:
        return dict(self.settings.loss_options.get(loss, {}))

    def _inputs(self, left: list[int]) -> Inputs:
        """All samples as the network takes them; of features, standardised by the training domains alone."""
        if self.images is not None:
            return self.images
        assert isinstance(self.data, Features)
        values = self.data.values
        if self.settings.standardize:
            seen = values[np.isin(self.number, left)]
            values = standards(seen, seen, "source")[0](values)
        return ArrayInputs(values, self.data.labels, self.data.ids)

    def _network(self, num_inputs: int) -> Trainable:
        if isinstance(self.data, Features):
            options = {"num_inputs": num_inputs, "num_features": self.settings.hidden}
            return open_trainable("feature_head", self.c, options=options)
        return open_network(self.settings.model, self.c, self.settings)


def _checked_losses(settings: GeneralizeSettings) -> GeneralizeSettings:
    """The same with the losses as they are known inside, and the options that each one takes."""
    names = tuple(
        name if name == DRM else f"{DRM}+{loss_name(parts_of(name)[0])}" if parts_of(name)[1] else loss_name(name)
        for name in settings.losses
    )
    unknown = [name for name in settings.loss_options if name not in names]
    if unknown:
        raise InputError(f"options are given for {unknown[0]}, which is not among the losses {', '.join(names)}.")
    if settings.scales and not any("scale" in options_of(LOSSES[parts_of(name)[0]][1]) for name in names):
        raise InputError(f"scales are given, but {', '.join(names)} has none to choose.")
    options = {name: with_defaults(parts_of(name)[0], settings.loss_options.get(name, {}), settings.epochs) for name in names}
    return replace(settings, losses=names, loss_options=options, lr=settings.learning_rate)
