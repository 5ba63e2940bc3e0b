"""Every pair of domains, seed and method: prepare the domains for a network, then train and compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from hardsight.data import ImageData
from hardsight.domains.adaptation.alignment import Affine, coral, subspace
from hardsight.domains.adaptation.choosing import BEST, CANDIDATES, choose, warning
from hardsight.domains.adaptation.loop import (
    Report,
    RoundsResult,
    SelfTraining,
    TargetView,
    finish,
    finished,
    load_state,
    save_state,
)
from hardsight.domains.adaptation.methods import Method, models_for
from hardsight.domains.adaptation.settings import AUTO, SOURCE_ONLY, AdaptSettings
from hardsight.domains.adaptation.tables import Results
from hardsight.domains.adaptation.validation import neighbors_before
from hardsight.domains.opening import Data, Features, num_classes
from hardsight.domains.scaling import Standard, on_raw_features, standards
from hardsight.domains.source_training import not_learned
from hardsight.errors import InputError
from hardsight.files.run import Run
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable, open_trainable
from hardsight.scoring.fitted_head import fit_head, unconverged
from hardsight.screen import Progress, Say, percent
from hardsight.threads import even_rows, num_threads
from hardsight.training.inputs import ArrayInputs, ImageInputs, Inputs, sized
from hardsight.training.network import TrainedNetwork, first_sample, open_network, start_fingerprint
from hardsight.training.optimization import MixedPrecision
from hardsight.training.processes import by_first, join
from hardsight.training.results import write_model
from hardsight.training.trainee import LossChoice, Trainee

BASELINE = "logistic regression"
BASELINE_ROWS = 20_000  # source samples it is fitted on, at most
History = list[dict[str, Any]]  # one entry per round
Rounds = dict[tuple[str, str, int], History]  # by pair, method and seed
Starts = dict[tuple[str, str, int], dict[str, Any]]  # the same: the last entry of the model that a method starts from


@dataclass
class DomainPair:
    """One pair of domains, ready for a network.

    Attributes:
        standard: standardization of the target's features, folded into the saved model.
        alignment: alignment of the target's features, after that.
        notes: messages for the user.
    """

    source: Inputs
    target: Inputs
    num_classes: int
    class_names: list[str]
    network: Callable[[int], Trainable]  # from the number of inputs
    sample: torch.Tensor
    standard: Standard | None
    preprocessing: Preprocessing | None
    alignment: Affine | None = None
    notes: tuple[str, ...] = ()

    def learner(self) -> Trainee:
        """The network with a linear head: that of an earlier training, or one initialized as `nn.Linear` initializes itself."""
        softmax = LossChoice("softmax", {}, self.num_classes, len(self.source))
        learner = Trainee(self.network(int(self.sample[0].numel())), self.sample, softmax)
        if not learner.keep_class_vectors():
            bound = learner.num_features**-0.5
            torch.nn.init.uniform_(learner.objective.classes.bias, -bound, bound)  # type: ignore[arg-type]
        return learner

    def model_fingerprint(self) -> str:
        """Of the weights that a learner starts from."""
        return start_fingerprint(lambda: self.network(int(self.sample[0].numel())))

    def aligned(self, how: str, settings: AdaptSettings) -> DomainPair:
        """The same with features aligned by CORAL or by their subspaces."""
        assert isinstance(self.source, ArrayInputs) and isinstance(self.target, ArrayInputs)
        source, target = self.source.inputs, self.target.inputs
        if how == "coral":
            ours, theirs = coral(source, target, settings.coral_reg), None
        else:
            ours, theirs = subspace(source, target, settings.subspace_size)
        mapped = _with_inputs(self.source, ours)
        target_mapped = self.target if theirs is None else _with_inputs(self.target, theirs)
        return replace(self, source=mapped, target=target_mapped, sample=first_sample(mapped), alignment=theirs)


def _with_inputs(inputs: ArrayInputs, how: Affine) -> ArrayInputs:
    return ArrayInputs(how(inputs.inputs), inputs.labels, inputs.ids, inputs.class_names)


@dataclass
class Models:
    """The models of one pair of domains and one seed: read if complete, else trained from the model they start from.

    Attributes:
        job: the pair.
        settings, seed, device, report: see `SelfTraining`.
        folder: of the pair and the seed; each method has its own inside.
        keep: whether the models are written.
    """

    job: DomainPair
    settings: AdaptSettings
    seed: int
    device: torch.device
    report: Report
    folder: Path
    keep: bool
    views: dict[Method, TargetView] = field(default_factory=dict)  # of the models that were trained just now
    trainings: dict[str | None, SelfTraining] = field(default_factory=dict)  # by alignment
    jobs: dict[str, DomainPair] = field(default_factory=dict)  # by alignment

    def history(self, method: Method) -> History:
        """The rounds of a method, which is trained unless it is complete."""
        place = self.folder / method.name
        history = finished(place)
        if history is not None:
            return history
        result = self._trained(method, place)
        place.mkdir(parents=True, exist_ok=True)
        if method.rule is None:  # another method may start from it
            save_state(place / "state.safetensors", result.learner)
            self.views[method] = result.view
        training = self.training(method.alignment)
        if self.keep:
            write_model(place, _network(result.learner, self._job(method.alignment)))
        training.write_predictions(result.view, place)
        finish(place, result.history)
        return result.history

    def _trained(self, method: Method, place: Path) -> RoundsResult:
        training = self.training(method.alignment)
        if training.nearest is None and (method != Method() or isinstance(self.job.target, ArrayInputs)):
            training.nearest = self._neighbors()
        if method.is_source_model:
            return training.train_source(place, method)
        start = load_state(self.folder / method.before.name / "state.safetensors")
        return training.adapt(place, method, start, self.views.get(method.before))

    def _neighbors(self) -> np.ndarray:
        """Nearest target samples, by the given features, or by the source model's features of images."""
        training, target = self.training(None), self.job.target
        if training.nearest is None:
            features = target.inputs if isinstance(target, ArrayInputs) else self._source_view().features
            training.nearest = neighbors_before(features)
        return training.nearest

    def training(self, alignment: str | None) -> SelfTraining:
        """The training on features as they are, or aligned."""
        if alignment not in self.trainings:
            job = self._job(alignment)
            self.trainings[alignment] = SelfTraining(
                job.source, job.target, job.num_classes, self.settings, self.seed, job.learner, self.device, self.report
            )
        return self.trainings[alignment]

    def _job(self, alignment: str | None) -> DomainPair:
        if alignment is None:
            return self.job
        if alignment not in self.jobs:
            self.jobs[alignment] = self.job.aligned(alignment, self.settings)
        return self.jobs[alignment]

    def chosen(self, histories: dict[str, History]) -> History:
        """The method and round that `auto` takes, as a history of one entry; its model is written like any other.

        Args:
            histories: of the source model and of every candidate.
        """
        place = self.folder / AUTO
        history = finished(place)
        if history is None:
            choice = choose(histories)
            training, job = self.training(choice.method.alignment), self._job(choice.method.alignment)
            kept = [self.folder / choice.method.name / name for name in (BEST, "state.safetensors")]
            learner = job.learner().to(self.device)
            learner.load_state_dict(load_state(next(path for path in kept if path.is_file())))
            if self.keep:
                write_model(place, _network(learner, job))
            training.write_predictions(training.view(learner), place)
            history = [{**choice.entry, "method": choice.method.name}]
            finish(place, history)
        for name in CANDIDATES:
            (self.folder / name / BEST).unlink(missing_ok=True)
        return history

    def baseline(self) -> History:
        """Plain logistic regression as a method with a single entry, where labels of the target are known."""
        place, target = self.folder / BASELINE, self.job.target
        history = finished(place)
        if history is None:
            predicted = np.full(len(target), -1)
            if (target.labels >= 0).any():
                predicted = logistic_regression(*self._as_features())
            history = [{"round": 0, "portion": None, **self.training(None).accuracy_of(predicted)}]
            finish(place, history)
        return history

    def _as_features(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, d) features of source samples, (n,) their labels, (m, d) features of the target: of images, by the source model."""
        source, target = self.job.source, self.job.target
        if isinstance(source, ArrayInputs) and isinstance(target, ArrayInputs):
            return source.inputs, source.labels, target.inputs
        training = self.training(None)
        rows = even_rows(len(source), BASELINE_ROWS)
        return training.source_features(self._source_learner(), rows), source.labels[rows], self._source_view().features

    def _source_learner(self) -> Trainee:
        learner = self.job.learner().to(self.device)
        learner.load_state_dict(load_state(self.folder / SOURCE_ONLY / "state.safetensors"))
        return learner

    def _source_view(self) -> TargetView:
        return self.views.get(Method()) or self.training(None).view(self._source_learner())


@dataclass
class Work:
    """All pairs of domains, and what is done with each."""

    settings: AdaptSettings
    device: torch.device
    say: Say
    jobs: dict[str, DomainPair]  # by the name of the pair

    @classmethod
    def of(cls, settings: AdaptSettings, pairs: dict[str, tuple[Data, Data]], say: Say) -> Self:
        """Pairs of domains, each made ready for a network."""
        device = join(settings.device)
        MixedPrecision(settings.precision, device)  # refuses what does not work, before anything is written
        work = cls(settings, device, by_first(say), {name: _prepared(settings, *pair) for name, pair in pairs.items()})
        for note in dict.fromkeys(note for job in work.jobs.values() for note in job.notes):
            work.say(note)
        return work

    def arguments(self) -> dict[str, Any]:
        """What the result depends on, for start.json."""
        return {**self.settings.as_dict(), "device": self.device.type, "pairs": list(self.jobs)}

    def fingerprints(self) -> dict[str, Any]:
        """Of everything that is read, by pair."""
        return {
            name: {"source": job.source.fingerprint(), "target": job.target.fingerprint(), "model": job.model_fingerprint()}
            for name, job in self.jobs.items()
        }

    @torch.random.fork_rng(devices=[])
    def all(self, run: Run, progress: Progress | None) -> Results:
        """Every pair, seed and method; complete ones are read. torch's global random state is left unchanged."""
        rounds: Rounds = {}
        starts: Starts = {}
        lengths = {pair: self._lengths(job) for pair, job in self.jobs.items()}
        total, start = len(self.settings.seeds) * sum(sum(each.values()) for each in lengths.values()), 0
        for pair in self.jobs:
            for seed in self.settings.seeds:
                report = _Progress(progress, start, total, f"{pair}  seed {seed}", lengths[pair])
                starts |= self._fill(rounds, run.directory, pair, seed, report)
                start += sum(lengths[pair].values())
        order = [SOURCE_ONLY, BASELINE, *self.methods, AUTO]
        by_method = sorted(rounds, key=lambda key: (list(self.jobs).index(key[0]), order.index(key[1]), key[2]))
        return Results({key: rounds[key] for key in by_method}, next(iter(self.jobs.values())).class_names, starts)

    def _fill(self, rounds: Rounds, directory: Path, pair: str, seed: int, report: _Progress) -> Starts:
        """The rounds of every method of one pair and one seed; returns what each method started from."""
        s, job = self.settings, self.jobs[pair]
        models = Models(job, s, seed, self.device, report, directory / pair / f"seed={seed}", keep=len(self.jobs) == 1)
        last: dict[Method, dict[str, Any]] = {}
        for model in models_for(self.methods):
            history = models.history(model)
            last[model] = history[-1]
            if model == Method():
                rounds[pair, SOURCE_ONLY, seed] = history
                self._say_if_not_learned(pair, seed, job.num_classes, history)
                rounds[pair, BASELINE, seed] = self._baseline(rounds, models, pair)
            elif model.name in self.methods:
                rounds[pair, model.name, seed] = history
                self._say_how_it_went(rounds, pair, model.name, seed)
        if AUTO in s.methods:
            histories = {name: rounds[pair, name, seed] for name in (SOURCE_ONLY, *CANDIDATES)}
            rounds[pair, AUTO, seed] = models.chosen(histories)
            self._say_how_it_went(rounds, pair, AUTO, seed)
        return {(pair, model.name, seed): last[model.before] for model in last if not model.is_source_model}

    def _say_how_it_went(self, rounds: Rounds, pair: str, method: str, seed: int) -> None:
        last = rounds[pair, method, seed][-1]
        self.say(_sentence(pair, method, seed, last))
        if sentence := warning(rounds[pair, SOURCE_ONLY, seed][-1], last):
            self.say(f"warning: {pair}  seed {seed}  {method}: {sentence}")

    def _lengths(self, job: DomainPair) -> dict[str, int]:
        """Epochs or rounds of each model of a pair, in the order of training."""
        on_source = self.settings.source_length(len(job.source)).passes
        return {model.name: on_source if model.is_source_model else self.settings.rounds for model in models_for(self.methods)}

    def _baseline(self, rounds: Rounds, models: Models, pair: str) -> History:
        """On features it is the same for every seed."""
        first = rounds.get((pair, BASELINE, self.settings.seeds[0]))
        return first if first is not None and isinstance(models.job.source, ArrayInputs) else models.baseline()

    def _say_if_not_learned(self, pair: str, seed: int, num_classes: int, history: History) -> None:
        learned = history[-1]["source"]
        if learned["accuracy"] is not None:
            sentence = not_learned(learned["accuracy"], num_classes, held_out=learned["held_out"] > 0)
            if sentence is not None:
                self.say(f"{pair}  seed {seed}: {sentence} Try other --source-epochs or --source-lr.")

    @property
    def methods(self) -> list[str]:
        """The methods that adapt, without the source model itself; `auto` brings those that it chooses from."""
        asked = [method for method in self.settings.methods if method not in (SOURCE_ONLY, AUTO)]
        more = CANDIDATES if AUTO in self.settings.methods else ()
        return list(dict.fromkeys([*asked, *more]))


@dataclass
class _Progress:
    """Overall progress, from the progress of one model.

    Attributes:
        start, total: epochs and rounds before this pair and seed, and in total.
        lengths: name -> epochs or rounds of each model, in the order of training.
    """

    progress: Progress | None
    start: int
    total: int
    words: str
    lengths: dict[str, int]

    def __call__(self, method: str, done: int) -> None:
        names = list(self.lengths)
        before = sum(self.lengths[name] for name in names[: names.index(method)])
        if self.progress is not None:
            self.progress(self.start + before + done, self.total, f"{self.words}  {method}")


def _prepared(s: AdaptSettings, source: Data, target: Data) -> DomainPair:
    """Two domains as inputs of a network."""
    c = num_classes(source)
    names = list(source.class_names or [str(k) for k in range(c)])
    if isinstance(source, Features):
        assert isinstance(target, Features)
        ours, theirs = standards(source.values, target.values, s.standardize)
        inputs = [ArrayInputs(how(data.values), data.labels, data.ids, names) for how, data in ((ours, source), (theirs, target))]

        def head(num_inputs: int) -> Trainable:
            return open_trainable("feature_head", c, options={"num_inputs": num_inputs, "num_features": s.hidden})

        return DomainPair(inputs[0], inputs[1], c, names, head, first_sample(inputs[0]), theirs, None)
    assert isinstance(target, ImageData)

    def trainable(num_inputs: int = 0) -> Trainable:
        return open_network(s.model, c, s)

    opened = trainable()
    preprocessing = sized(opened.preprocessing, source, s.chosen_preprocessing())
    workers = s.workers or num_threads()
    ours_, theirs_ = (ImageInputs(data, preprocessing, workers=workers) for data in (source, target))
    return DomainPair(ours_, theirs_, c, names, trainable, first_sample(ours_), None, preprocessing, notes=opened.notes)


def _network(learner: Trainee, job: DomainPair) -> TrainedNetwork:
    """The adapted network in the format of any trained one: `hardsight extract FOLDER DATA` opens it. It takes raw features."""
    network = learner.with_head(learner.head, job.preprocessing, job.class_names)
    maps = [how for how in (job.standard, job.alignment) if how is not None]  # in the order they were applied
    return on_raw_features(network, *maps) if maps else network


def _sentence(pair: str, method: str, seed: int, entry: dict[str, Any]) -> str:
    reached = "labels not known" if entry["accuracy"] is None else f"{percent(entry['accuracy'])} %"
    taken = f" ({entry['method']}, round {entry['round']})" if "method" in entry else ""
    return f"{pair}  seed {seed}  {method}  {reached}{taken}"


def logistic_regression(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Plain logistic regression on the source, a baseline that every method should beat: predicted classes of the target.

    Rows with a number that is not finite are left out, and predicted -1.

    Args:
        source: (n, d) features.
        labels: (n,) their classes.
        target: (m, d) features.

    Returns:
        (m,) int64 class.

    Example:
        >>> logistic_regression(np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([3, 3, 5, 5]), np.array([[-9.0], [9.0]]))
        array([3, 5])
    """
    rows = np.flatnonzero(np.isfinite(source).all(1) & (labels >= 0))
    rows = rows[even_rows(len(rows), BASELINE_ROWS)]
    usable = np.isfinite(target).all(1)
    present, own = np.unique(labels[rows], return_inverse=True)
    predicted = np.full(len(target), -1)
    if not len(present):
        return predicted
    predicted[usable] = present[np.bincount(own).argmax()]  # where nothing can be told apart: the largest class
    if len(present) > 1:
        try:
            with unconverged():
                head = fit_head(source[rows], own, len(present))
        except InputError:  # features that are too large
            return predicted
        predicted[usable] = present[head.logits(target[usable]).argmax(1)]
    return predicted
