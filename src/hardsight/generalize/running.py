"""`run`: leave each domain out in turn, train on the others with each loss, and compare."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.domains.opening import Data, Features, domain_column, domain_names, labels_of, num_classes, open_domain
from hardsight.errors import InputError, require
from hardsight.generalize.settings import DRM, GeneralizeSettings, Selection, parts_of
from hardsight.options import takes
from hardsight.screen import percent

require("torch", extra="torch", purpose="hardsight.generalize.run")

# ruff: noqa: E402
import torch

from hardsight.domains.scaling import standards
from hardsight.files.parquet import read_parquet
from hardsight.files.reading import read_json, reading
from hardsight.files.run import Run
from hardsight.files.writing import write_json
from hardsight.generalize import tables
from hardsight.generalize.loop import START, Fold, FoldTraining, chosen_epoch, folded
from hardsight.generalize.report import write_report
from hardsight.generalize.student import Student
from hardsight.models.network import torch_device
from hardsight.models.trainable import Trainable, open_trainable
from hardsight.threads import even_rows, num_threads
from hardsight.training.checkpoint import Checkpoints
from hardsight.training.inputs import ArrayInputs, ImageInputs, Inputs, sized
from hardsight.training.network import FOUND_BY, first_sample
from hardsight.training.objective import LOSSES, loss_name, options_of, with_defaults
from hardsight.training.optimization import drawn_seed
from hardsight.training.settings import ProgressCallback
from hardsight.training.trainee import LossChoice


@dataclass(frozen=True)
class Generalized:
    """A finished comparison.

    Attributes:
        directory: the run.
        accuracy: one row per loss: accuracy on each unseen domain and on average, mean and spread over seeds.
        differences: losses against each other, with intervals.
        epochs: one row per loss, unseen domain, seed and epoch.
    """

    directory: Path
    accuracy: pa.Table
    differences: pa.Table
    epochs: pa.Table


@takes(GeneralizeSettings)
def run(
    data: Any, output: str | os.PathLike[str], *, settings: GeneralizeSettings,
    progress: ProgressCallback | None = None, say: Callable[[str], None] | None = None,
) -> Generalized:  # fmt: skip
    """Train on all domains but one and test on that one, for each domain, loss and seed.

    All losses share a seed's split, network and order of samples. Scales, where there are some to choose from, are tried
    by leaving out each training domain in turn: the unseen domain plays no part.

    Args:
        data: features with a domain column, or images in domain/class folders; see `hardsight.domains.opening`.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object; options given beside it override its own.
        progress: called with steps done, steps in all, and what is going on.
        say: called with sentences for the user.

    Example:
        >>> import tempfile
        >>> from hardsight.domains.opening import Features
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(90) % 3
        >>> features = Features(
        ...     (np.eye(3)[labels] * 3 + rng.normal(size=(90, 3))).astype(np.float32), labels, [str(i) for i in range(90)],
        ...     None, np.array(["a", "b", "c"])[np.arange(90) // 30],
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = run(features, folder, losses="softmax,avh", epochs=2, hidden=8)
        >>> done.accuracy.column("loss").to_pylist()
        ['softmax', 'avh']
    """
    settings = _checked_losses(settings)
    opened, _ = open_domain(data)
    if settings.limit is not None:
        opened = _limited(opened, domain_names(opened), settings.limit)
    domains = _checked_domains(opened)
    work = _Work(settings, opened, domains, torch_device(settings.device), say or _silent)
    arguments = {**settings.as_dict(), "device": work.device.type, "domains": domains}
    directory = Run(
        Path(output), "hardsight generalize", arguments, {"data": work.fingerprint()}, defaults=GeneralizeSettings().as_dict()
    )
    if directory.complete:
        work.say(f"{output} is complete already")
        return _read(Path(output))
    with directory.only_writer(), torch.random.fork_rng(devices=[]):
        results = work.all(directory.directory, progress)
        written = write_report(directory, results)
        parts = sorted([*directory.directory.rglob("epochs.json"), *directory.directory.rglob("scale.json")])
        counts = {loss: float(results.reached(loss, tables.AVERAGE).mean()) for loss in results.losses}
        scales_used = {f"{loss} without {domain}": scale for (loss, domain), scale in results.scales.items()}
        directory.finish([*parts, *written], {"accuracy": counts, "selection": settings.selection, "scales": scales_used})
    return _read(Path(output))


@dataclass(frozen=True)
class _Task:
    """One training: where it is written, its loss, the scale of that if one was chosen, and its seed."""

    folder: Path
    loss: str
    scale: float | None
    seed: int


@dataclass
class _Work:
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
        if self.c < 2:
            raise InputError(f"there must be at least two classes, the data has {self.c}.")
        s = self.settings
        if isinstance(self.data, Features):
            if s.model is not None or s.size is not None or s.augment != "none":
                raise InputError("model, size and augment are for images; features get a head of `hidden` units.")
            self.images: ImageInputs | None = None
        else:
            if s.model is None:
                raise InputError("images need a model: cnn10, timm:NAME, or a run that hardsight trained.")
            preprocessing = sized(self._network(0).preprocessing, self.data, s.size)
            self.images = ImageInputs(self.data, preprocessing, workers=s.workers or num_threads())

    def fingerprint(self) -> dict[str, Any]:
        """Of the data."""
        if isinstance(self.data, Features):
            return {**ArrayInputs(self.data.values, self.data.labels, self.data.ids).fingerprint(), "domains": self.domains}
        return self.data.fingerprint()

    def all(self, folder: Path, progress: ProgressCallback | None) -> tables.Results:
        """Every unseen domain, loss and seed; what is complete already is read."""
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
        s = self.settings
        return open_trainable(s.model, self.c, options=dict(s.model_options), weights=s.weights, pretrained=s.pretrained)


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


def _checked_domains(data: Data) -> list[str]:
    names = domain_names(data)
    if len(names) < 3:
        held = ", ".join(names) or "none"
        raise InputError(f"leaving a domain out takes three or more, so that two are left; the data's domain column has {held}.")
    if any("/" in name or name in (".", "..") for name in names):
        raise InputError("a domain's name becomes a folder: it must not hold a slash.")
    column, labels = domain_column(data), labels_of(data)
    assert column is not None
    for name in names:
        count = int(((column == name) & (labels >= 0)).sum())
        if count < 2:  # one is held out, one is trained on
            raise InputError(f"the domain {name} has {count or 'no'} labeled sample{'s' * (count == 0)}: two or more are needed.")
    return names


def _limited(data: Data, domains: list[str], limit: int) -> Data:
    """At most so many samples of each domain, spread over it."""
    column = domain_column(data)
    rows = [np.flatnonzero(column == name) for name in domains]
    picked = [some if len(some) <= limit else some[even_rows(len(some), limit)] for some in rows]
    return data.take(np.concatenate(picked))


def _read(directory: Path) -> Generalized:
    return Generalized(
        directory, *(read_parquet(directory / f"{name}.parquet") for name in ("accuracy", "differences", "epochs"))
    )


def _silent(sentence: str) -> None:
    pass
