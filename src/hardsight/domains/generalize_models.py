"""The models of `generalize`: every unseen domain, loss and seed, read where they are complete and trained where they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import torch

from hardsight.data.dataset import num_classes
from hardsight.domains.drm import DRM, DRMTTA, Student, objectives
from hardsight.domains.feature_critic import FeatureCritic
from hardsight.domains.fold_training import START, Division, Fold, FoldTraining
from hardsight.domains.generalize import OpenedDomains
from hardsight.domains.generalize_result import chosen_epoch, tables_of
from hardsight.domains.meta_steps import MetaMethod
from hardsight.domains.metareg import MetaReg
from hardsight.domains.mldg import MLDG
from hardsight.domains.opening import Standard, class_names_of, image_inputs, network_for, on_raw_features, standards
from hardsight.domains.settings import EPOCHS, GeneralizeSettings, parts_of
from hardsight.domains.training_length import Steps, TrainingLength, not_learned, training_length
from hardsight.extraction.feed import ArrayInputs, ImageInputs, Inputs
from hardsight.extraction.inputs import fingerprint, finite_features, ids_of, labels_of
from hardsight.files.heads import save_head
from hardsight.files.reading import read_json, reading
from hardsight.files.writing import write_json
from hardsight.models.trainable import start_fingerprint
from hardsight.screen import Progress, Say, percent
from hardsight.snapshot import Snapshot
from hardsight.training.checkpoint import Checkpoints, History, finish, finished
from hardsight.training.forward_passes import FOUND_BY, first_sample
from hardsight.training.loss_names import loss_options, with_defaults
from hardsight.training.objective import Objective
from hardsight.training.optimization import drawn_seed, mixed_precision
from hardsight.training.processes import by_first, is_first, join
from hardsight.training.results import write_model
from hardsight.training.trainee import LossChoice

# A new one is a file, a line here and its name in settings.py.
METHODS: dict[str, type[DRM | MetaMethod]] = {
    "drm": DRM,  # a head per domain
    "drm-tta": DRMTTA,  # and one that keeps learning from arriving samples
    "mldg": MLDG,
    "metareg": MetaReg,
    "feature-critic": FeatureCritic,
}


@dataclass(frozen=True)
class Task:
    """One training.

    Attributes:
        folder: where it is written.
        loss: by name.
        scale: of the loss, if one was chosen.
        seed: of everything drawn.
        standard: standardization of the features, which becomes part of the model.
        kept: whether the model is kept.
    """

    folder: Path
    loss: str
    scale: float | None
    seed: int
    standard: Standard | None = None
    kept: bool = False


@dataclass
class GeneralizeWork:
    """The data and the settings of a comparison, and the trainings it is made of."""

    settings: GeneralizeSettings
    opened: OpenedDomains
    device: torch.device
    say: Say

    def __post_init__(self) -> None:
        self.data, self.domains = self.opened.data, self.opened.domains
        self.number = np.array([self.domains.index(str(name)) for name in self.opened.column])  # (n,) domain of each sample
        self.division = Division(self.number, labels_of(self.data), self.settings.held_out, self.opened.lists)
        self.c = num_classes(self.data)
        self.images: ImageInputs | None = None
        if not isinstance(self.data, Snapshot):
            network = network_for(self.data, self.settings)
            self.starts_from_weights = network.learned or self.settings.weights is not None
            for note in network.notes:
                self.say(note)
            (self.images,) = image_inputs(network, self.settings, self.data)

    @classmethod
    def of(cls, settings: GeneralizeSettings, opened: OpenedDomains, say: Say) -> Self:
        """The losses with their options, and the data as a network takes it."""
        device = join(settings.device)
        mixed_precision(settings.precision, device)  # refuses what does not work, before anything is written
        work = cls(_with_defaults(settings), opened, device, by_first(say))
        with torch.random.fork_rng(devices=[]):
            for loss in work.settings.losses:  # refuses values out of range
                Objective(parts_of(loss).loss, 2, work.c, 1, work._given(loss))
        return work

    def arguments(self) -> dict[str, Any]:
        """What the result depends on, for start.json."""
        lengths = [self._length(left) for _, left in self._folds()]
        lengths += [self._length(rest) for _, left in self._folds() for _, rest in self._folds(left) if self.settings.scales]
        epochs = self.settings.epochs or (None if any(length.watched for length in lengths) else EPOCHS)
        return {**self.settings.as_dict(), "epochs": epochs, "device": self.device.type, "domains": self.domains}

    def fingerprints(self) -> dict[str, Any]:
        """Of everything that is read."""
        lists = {} if self.opened.lists is None else {"lists": self.opened.lists.checksums}
        model = {}
        if self.images is not None and self.starts_from_weights:
            model = {"model": start_fingerprint(lambda: network_for(self.data, self.settings))}
        return {"data": fingerprint(self.data), **model, **lists}

    def trained_files(self, folder: Path) -> list[Path]:
        """What the trainings wrote of their epochs and scales."""
        return [*folder.rglob("epochs.json"), *folder.rglob("scale.json")]

    def _folds(self, among: list[int] | None = None) -> list[tuple[int, list[int]]]:
        """Each domain in turn, and those left to train on; among training domains, to choose a scale by."""
        numbers = range(len(self.domains)) if among is None else among
        return [(unseen, [i for i in numbers if i != unseen]) for unseen in numbers]

    def _length(self, left: list[int]) -> TrainingLength:
        """How long to train on some domains: `epochs`, or by their size."""
        if self.settings.epochs is not None:
            return TrainingLength(self.settings.epochs)
        return training_length(self.division.num_train(left), self.settings.batch_size, EPOCHS)

    def _scale_epochs(self, loss: str, left: list[int]) -> int:
        """Epochs that are spent on choosing a scale, at most; of one scale there is nothing to choose."""
        if not self._scaled(loss) or len(self.settings.scales) == 1:
            return 0
        return len(self.settings.scales) * sum(self._length(inner).epochs for _, inner in self._folds(left))

    @torch.random.fork_rng(devices=[])
    def trained_tables(self, folder: Path, progress: Progress | None) -> dict[str, pa.Table]:
        """The tables of every domain, loss and seed; complete ones are read. torch's global random state is left unchanged."""
        s, scales = self.settings, {}
        histories: dict[tuple[str, str, int], History] = {}
        lengths = [
            self._scale_epochs(loss, left) + len(s.seeds) * self._length(left).epochs
            for _, left in self._folds()
            for loss in s.losses
        ]
        steps = Steps(progress if is_first() else None, sum(lengths))
        for unseen, left in self._folds():
            domain, (inputs, standard) = self.domains[unseen], self._prepared(left)
            for loss in s.losses:
                if self._scaled(loss):
                    scales[loss, domain] = self._scale(folder / domain / loss, loss, left, inputs, steps)
                    self.say(f"{loss} without {domain}: scale {scales[loss, domain]:g}")
                for seed in s.seeds:
                    place, words = folder / domain / loss / f"seed={seed}", f"{loss} without {domain}  seed {seed}"
                    fold = self.division.fold(inputs, unseen, left, seed)
                    task = Task(place, loss, scales.get((loss, domain)), seed, standard, s.keep_models)
                    report = steps.next(f"{loss}  without {domain}  seed {seed}", self._length(left).epochs)
                    histories[loss, domain, seed] = self._history(task, fold, report)
                    self._say_reached(words, histories[loss, domain, seed], [self.domains[i] for i in left])
        return tables_of(histories, scales, s.selection)

    def _say_reached(self, words: str, history: History, trained_on: list[str]) -> None:
        reached = chosen_epoch(history, self.settings.selection)
        self.say(f"{words}  {percent(reached['test'])} % (epoch {reached['epoch']})")
        learned = reached["validation_class_accuracy"]  # NaN where nothing held out can be read
        sentence = None if math.isnan(learned) else not_learned(learned, self.c, True, trained_on)
        if sentence is not None:
            self.say(f"{words}: {sentence} Try other --epochs or --lr.")

    def _history(self, task: Task, fold: Fold, report: Callable[[int], None]) -> History:
        """The epochs of one training; read, if it is complete."""
        path = task.folder / "epochs.json"
        history = finished(path)
        if history is not None:
            return history
        method, length = self.settings.method_of(task.loss), self._length(fold.training_domains.tolist())
        if isinstance(method, MetaMethod) and method.in_phases:
            length = TrainingLength(length.epochs)
        checkpoints = Checkpoints(task.folder / "checkpoints")
        training = FoldTraining(fold, self.settings, length, task.seed, self.device, checkpoints, report, method)
        history, student = training.train(self._student(task, fold))
        task.folder.mkdir(parents=True, exist_ok=True)
        if task.kept:
            self._keep(task, student, [self.domains[i] for i in fold.training_domains])
        finish(path, history)
        return history

    def _scaled(self, loss: str) -> bool:
        """Whether a scale is to be chosen for a loss."""
        return bool(self.settings.scales) and "scale" in loss_options(parts_of(loss).loss) and "scale" not in self._given(loss)

    def _scale(self, folder: Path, loss: str, left: list[int], inputs: Inputs, steps: Steps) -> float:
        """The scale that does best on each training domain when trained on the other ones."""
        s, path, means = self.settings, folder / "scale.json", {}
        if len(s.scales) == 1:
            return s.scales[0]
        words = f"{loss}  without {folder.parent.name}  choosing its scale"
        if path.is_file():
            steps.next(words, self._scale_epochs(loss, left))
            with reading(path):
                return float(read_json(path)["scale"])
        rule = "validation" if s.selection == "oracle" else s.selection
        for scale in s.scales:
            reached = []
            for inner, rest in self._folds(left):
                fold = self.division.fold(inputs, inner, rest, s.seeds[0])
                task = Task(folder / f"scale={scale:g}" / self.domains[inner], loss, scale, s.seeds[0])
                history = self._history(task, fold, steps.next(words, self._length(rest).epochs))
                reached.append(chosen_epoch(history, rule)["test"])  # of a training domain
            means[scale] = float(np.mean(reached))
        best = max(means, key=lambda scale: means[scale])
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, {"scale": best, "accuracy": {str(scale): mean for scale, mean in means.items()}})
        return best

    def _student(self, task: Task, fold: Fold) -> Student:
        """A fresh one, drawn from the seed."""
        method = self.settings.method_of(task.loss)
        options = {**self._given(task.loss), **({} if task.scale is None else {"scale": task.scale})}
        spread = np.linspace(0, len(fold.train) - 1, min(FOUND_BY, len(fold.train))).astype(int)
        sample = first_sample(fold.inputs, fold.train[spread])
        torch.manual_seed(drawn_seed(task.seed, START))
        loss = LossChoice(parts_of(task.loss).loss, options, self.c, len(fold.train))
        network = network_for(self.data, self.settings, int(sample[0].numel()))
        count = len(fold.training_domains)
        if isinstance(method, DRM):
            return Student(network, sample, loss, count, method.gamma)
        student = Student(network, sample, loss)
        if isinstance(method, MetaMethod):
            student.own.update(method.parts(lambda: loss.objective(student.num_features), student.num_features, count))
        return student

    def _given(self, loss: str) -> dict[str, Any]:
        return dict(self.settings.loss_options.get(loss, {}))

    def _prepared(self, left: list[int]) -> tuple[Inputs, Standard | None]:
        """All samples as inputs of the network; features are standardized by the training domains alone."""
        if self.images is not None:
            return self.images, None
        assert isinstance(self.data, Snapshot)
        features = finite_features(self.data)
        seen = features[np.isin(self.number, left)]
        standard, _ = standards(seen, seen, "source" if self.settings.standardize else "none")
        return ArrayInputs(standard(features), self.data.labels, ids_of(self.data)), standard

    def _keep(self, task: Task, student: Student, domains: Sequence[str]) -> None:
        """Write a trained student where other commands find it; `domains` are those it was trained on, in the order of its heads.

            DOMAIN/LOSS/seed=0/model/             `hardsight extract DOMAIN/LOSS/seed=0 DATA` opens it
            DOMAIN/LOSS/seed=0/head.safetensors   its head; for DRM the common one, which has no vote
            DOMAIN/LOSS/seed=0/heads/             for DRM, the head of each training domain, for `hardsight score --head`

        It is the model of the selected epoch, trained on all domains but DOMAIN. If it was trained on standardized features,
        the standardization becomes part of it.
        """
        names = class_names_of(self.data)
        network = student.with_head(student.head, None if self.images is None else self.images.preprocessing, names)
        write_model(task.folder, network if task.standard is None else on_raw_features(network, task.standard))
        for domain, objective in zip(domains, objectives(student.domain_heads), strict=False):  # without DRM there are none
            (task.folder / "heads").mkdir(exist_ok=True)
            save_head(task.folder / "heads" / f"{domain}.safetensors", objective.classes.head, names)


def _with_defaults(settings: GeneralizeSettings) -> GeneralizeSettings:
    """The same with all options of the losses and methods, and the learning rate."""
    given, epochs = settings.loss_options, settings.epochs or EPOCHS
    losses = {name: with_defaults(parts_of(name).loss, given.get(name, {}), epochs) for name in settings.losses}
    methods = {
        str(parts_of(name).method): method.as_dict() for name in losses if (method := settings.method_of(name)) is not None
    }
    return replace(settings, loss_options=losses, method_options=methods, lr=settings.learning_rate)
