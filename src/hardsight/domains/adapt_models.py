"""The models of `adapt`: every pair of domains, seed and method, read where they are complete and trained where they are not.

From top to bottom: all pairs (`AdaptWork`): `of` makes them ready, and run_directory.py, which opens and ends the run, calls
`trained_tables`; one pair, prepared for a network (`DomainPair`; `network_for`, `standards` and `image_inputs` are the second
half of opening.py); its models (`Models`), which adapt_training.py trains. adapt_result.py makes tables of what they reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import torch
from scipy.special import log_softmax

from hardsight.data import ImageData
from hardsight.domains.adapt_result import Rounds, Starts, tables_of
from hardsight.domains.adapt_training import PairTraining, Report, RoundsResult, TargetView, id_and_label
from hardsight.domains.alignment import Affine
from hardsight.domains.auto import BEST, CANDIDATES, choose, warning
from hardsight.domains.methods import Method, models_for, stage_of
from hardsight.domains.opening import Standard, class_names_of, image_inputs, network_for, on_raw_features, standards
from hardsight.domains.settings import AUTO, SOURCE_ONLY, AdaptSettings
from hardsight.domains.training_length import Steps, not_learned
from hardsight.domains.validation import nearest_neighbors
from hardsight.errors import InputError
from hardsight.extraction.feed import ArrayInputs, Inputs
from hardsight.extraction.inputs import Data, finite_features, ids_of
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable, start_fingerprint
from hardsight.scoring.fitted_head import fit_head, unconverged
from hardsight.screen import Progress, Say, percent
from hardsight.snapshot import Snapshot
from hardsight.table import write_table
from hardsight.threads import even_rows
from hardsight.training.checkpoint import History, finish, finished, load_state, save_state
from hardsight.training.forward_passes import all_features, first_sample
from hardsight.training.optimization import mixed_precision
from hardsight.training.processes import by_first, is_first, join
from hardsight.training.results import write_model
from hardsight.training.trainee import LossChoice, TrainedNetwork, Trainee

BASELINE = "logistic regression"
BASELINE_ROWS = 20_000  # source samples it is fitted on, at most
Pairs = dict[str, tuple[Data, Data]]  # name -> source and target


@dataclass
class AdaptWork:
    """All pairs of domains, and what is done with each."""

    settings: AdaptSettings
    device: torch.device
    say: Say
    pairs: dict[str, DomainPair]  # by name

    @classmethod
    def of(cls, settings: AdaptSettings, pairs: Pairs, say: Say) -> Self:
        """Pairs of domains, each made ready for a network."""
        device = join(settings.device)
        mixed_precision(settings.precision, device)  # refuses what does not work, before anything is written
        work = cls(settings, device, by_first(say), {name: _prepared(settings, *pair) for name, pair in pairs.items()})
        for note in dict.fromkeys(note for pair in work.pairs.values() for note in pair.notes):
            work.say(note)
        return work

    def arguments(self) -> dict[str, Any]:
        """What the result depends on, for start.json."""
        return {**self.settings.as_dict(), "device": self.device.type, "pairs": list(self.pairs)}

    def fingerprints(self) -> dict[str, Any]:
        """Of everything that is read, by pair."""
        return {
            name: {"source": pair.source.fingerprint(), "target": pair.target.fingerprint(), "model": pair.model_fingerprint()}
            for name, pair in self.pairs.items()
        }

    def trained_files(self, folder: Path) -> list[Path]:
        """What the trainings wrote."""
        return [path for pair in self.pairs for path in (folder / pair).rglob("*") if path.is_file()]

    @property
    def methods(self) -> list[str]:
        """The methods that adapt, by name."""
        return [method.name for method in self.settings.all_methods()]

    @torch.random.fork_rng(devices=[])
    def trained_tables(self, folder: Path, progress: Progress | None) -> dict[str, pa.Table]:
        """The tables of every pair, seed and method; complete ones are read. torch's global random state is left unchanged."""
        rounds: Rounds = {}
        starts: Starts = {}
        lengths = [self._length(pair, method) for pair in self.pairs.values() for method in models_for(self.methods)]
        steps = Steps(progress if is_first() else None, len(self.settings.seeds) * sum(lengths))
        for name, pair in self.pairs.items():
            for seed in self.settings.seeds:
                place = folder / name / f"seed={seed}"
                models = Models(pair, self.settings, seed, self.device, place, keep=len(self.pairs) == 1)
                starts |= self._fill(rounds, name, models, steps)
        order = [SOURCE_ONLY, BASELINE, *self.methods, AUTO]
        by_method = sorted(rounds, key=lambda key: (list(self.pairs).index(key[0]), order.index(key[1]), key[2]))
        names = next(iter(self.pairs.values())).class_names
        return tables_of({key: rounds[key] for key in by_method}, names, starts)

    def _length(self, pair: DomainPair, method: Method) -> int:
        """Epochs or rounds of a method."""
        on_source = self.settings.source_length(len(pair.source)).passes
        return on_source if method.is_source_model else self.settings.rounds

    def _fill(self, rounds: Rounds, pair: str, models: Models, steps: Steps) -> Starts:
        """The rounds of every method of one pair and one seed; returns what each method started from."""
        seed, last = models.seed, {}
        for method in models_for(self.methods):
            report = steps.next(f"{pair}  seed {seed}  {method.name}", self._length(models.pair, method))
            history = models.read_or_trained(method, report)
            last[method] = history[-1]
            if method.name == SOURCE_ONLY:
                rounds[pair, SOURCE_ONLY, seed] = history
                self._say_if_not_learned(pair, models, history)
                rounds[pair, BASELINE, seed] = self._baseline(rounds, models, pair)
            elif method.name in self.methods:
                rounds[pair, method.name, seed] = history
                self._say_how_it_went(rounds, pair, method.name, seed)
        if AUTO in self.settings.methods:
            histories = {name: rounds[pair, name, seed] for name in (SOURCE_ONLY, *CANDIDATES)}
            rounds[pair, AUTO, seed] = models.chosen(histories)
            self._say_how_it_went(rounds, pair, AUTO, seed)
        return {(pair, method.name, seed): last[method.before] for method in last if not method.is_source_model}

    def _baseline(self, rounds: Rounds, models: Models, pair: str) -> History:
        """On features it is the same for every seed."""
        first = rounds.get((pair, BASELINE, self.settings.seeds[0]))
        return first if first is not None and isinstance(models.pair.source, ArrayInputs) else models.baseline()

    def _say_how_it_went(self, rounds: Rounds, pair: str, method: str, seed: int) -> None:
        last = rounds[pair, method, seed][-1]
        reached = "labels not known" if last["accuracy"] is None else f"{percent(last['accuracy'])} %"
        taken = f" ({last['method']}, round {last['round']})" if "method" in last else ""
        self.say(f"{pair}  seed {seed}  {method}  {reached}{taken}")
        if sentence := warning(rounds[pair, SOURCE_ONLY, seed][-1], last):
            self.say(f"warning: {pair}  seed {seed}  {method}: {sentence}")

    def _say_if_not_learned(self, pair: str, models: Models, history: History) -> None:
        learned = history[-1]["source"]
        if learned["accuracy"] is not None:
            sentence = not_learned(learned["accuracy"], len(models.pair.class_names), held_out=learned["held_out"] > 0)
            if sentence is not None:
                self.say(f"{pair}  seed {models.seed}: {sentence} Try other --source-epochs or --lr.")


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
    class_names: list[str]
    network: Callable[..., Trainable]  # takes the number of inputs
    sample: torch.Tensor
    standard: Standard | None
    preprocessing: Preprocessing | None = None
    alignment: Affine | None = None
    notes: tuple[str, ...] = ()

    def make_learner(self) -> Trainee:
        """The network with a linear head: that of an earlier training, or one initialized as `nn.Linear` initializes itself."""
        softmax = LossChoice("softmax", {}, len(self.class_names), len(self.source))
        learner = Trainee(self.network(int(self.sample[0].numel())), self.sample, softmax)
        if not learner.keep_class_vectors():
            bound = learner.num_features**-0.5
            torch.nn.init.uniform_(learner.objective.classes.bias, -bound, bound)  # type: ignore[arg-type]
        return learner

    def model_fingerprint(self) -> str:
        """Of the weights that a learner starts from."""
        return start_fingerprint(lambda: self.network(int(self.sample[0].numel())))

    def aligned(self, name: str, settings: AdaptSettings) -> DomainPair:
        """The same with features aligned by a stage of that name."""
        assert isinstance(self.source, ArrayInputs) and isinstance(self.target, ArrayInputs)
        ours, theirs = stage_of(name, settings.method_options).maps(self.source.inputs, self.target.inputs)  # type: ignore[union-attr]
        source = _with_inputs(self.source, ours)
        target = self.target if theirs is None else _with_inputs(self.target, theirs)
        return replace(self, source=source, target=target, sample=first_sample(source), alignment=theirs)


def _with_inputs(inputs: ArrayInputs, how: Affine) -> ArrayInputs:
    return ArrayInputs(how(inputs.inputs), inputs.labels, inputs.ids, inputs.class_names)


def _prepared(settings: AdaptSettings, source: Data, target: Data) -> DomainPair:
    """Two domains as inputs of a network."""
    names, network = class_names_of(source), partial(network_for, source, settings)
    if isinstance(source, Snapshot) and isinstance(target, Snapshot):
        features = finite_features(source), finite_features(target)
        ours, theirs = standards(*features, settings.standardize)
        of_each = zip((ours, theirs), features, (source, target), strict=True)
        inputs = [ArrayInputs(how(values), data.labels, ids_of(data), names) for how, values, data in of_each]
        return DomainPair(inputs[0], inputs[1], names, network, first_sample(inputs[0]), theirs)
    assert isinstance(source, ImageData) and isinstance(target, ImageData)
    opened = network()
    images = image_inputs(opened, settings, source, target)
    return DomainPair(
        images[0], images[1], names, network, first_sample(images[0]), None, images[0].preprocessing, notes=opened.notes
    )


@dataclass
class Models:
    """The models of one pair of domains and one seed: read if complete, else trained from the model they start from.

    Attributes:
        pair: the domains.
        settings, seed, device: see `PairTraining`.
        folder: of the pair and the seed; each method has its own inside.
        keep: whether the models are written.
    """

    pair: DomainPair
    settings: AdaptSettings
    seed: int
    device: torch.device
    folder: Path
    keep: bool
    views: dict[Method, TargetView] = field(default_factory=dict)  # of the models that were trained just now
    trainings: dict[str | None, PairTraining] = field(default_factory=dict)  # by alignment
    pairs: dict[str, DomainPair] = field(default_factory=dict)  # by alignment

    def read_or_trained(self, method: Method, report: Report) -> History:
        """The rounds of a method, which is trained unless it is complete."""
        place = self.folder / method.name
        history = finished(place / "rounds.json")
        if history is not None:
            return history
        result = self._trained(method, place, report)
        if method.rule is None:  # another method may start from it
            save_state(place / "state.safetensors", result.learner)
            self.views[method] = result.view
        self._write(place, method, result.learner, result.view)
        finish(place / "rounds.json", result.history)
        return result.history

    def _write(self, place: Path, method: Method, learner: Trainee, view: TargetView) -> None:
        """The model, if models are kept, and its predictions."""
        place.mkdir(parents=True, exist_ok=True)
        if self.keep:
            write_model(place, _network(learner, self._aligned(method.alignment)))
        _write_predictions(view, self.pair.target, place)

    def _trained(self, method: Method, place: Path, report: Report) -> RoundsResult:
        training = self.training(method.alignment)
        # Neighbors by the given features; of images by the source model, whose own training sets them when it is evaluated.
        if training.nearest is None and (method.name != SOURCE_ONLY or isinstance(self.pair.target, ArrayInputs)):
            training.nearest = self._neighbors()
        if method.is_source_model:
            return training.train_source(place, report)
        start = load_state(self.folder / method.before.name / "state.safetensors")
        return training.adapt(place, method, start, self.views.get(method.before), report)

    def _neighbors(self) -> np.ndarray:
        """Nearest target samples, by the given features, or by the source model's features of images."""
        training, target = self.training(None), self.pair.target
        if training.nearest is None:
            features = target.inputs if isinstance(target, ArrayInputs) else self._source_view().features
            training.nearest = nearest_neighbors(features)
        return training.nearest

    def training(self, alignment: str | None) -> PairTraining:
        """The training on features as they are, or aligned."""
        if alignment not in self.trainings:
            pair = self._aligned(alignment)
            self.trainings[alignment] = PairTraining(
                pair.source, pair.target, len(pair.class_names), self.settings, self.seed, pair.make_learner, self.device
            )
        return self.trainings[alignment]

    def _aligned(self, alignment: str | None) -> DomainPair:
        if alignment is None:
            return self.pair
        if alignment not in self.pairs:
            self.pairs[alignment] = self.pair.aligned(alignment, self.settings)
        return self.pairs[alignment]

    def chosen(self, histories: dict[str, History]) -> History:
        """The method and round that `auto` takes, as a history of one entry; its model is written like any other.

        Args:
            histories: of the source model and of every candidate.
        """
        place = self.folder / AUTO
        history = finished(place / "rounds.json")
        if history is None:
            choice = choose(histories)
            kept = [self.folder / choice.method.name / name for name in (BEST, "state.safetensors")]
            learner = self._loaded(next(path for path in kept if path.is_file()), choice.method.alignment)
            self._write(place, choice.method, learner, self.training(choice.method.alignment).view(learner))
            history = [{**choice.entry, "method": choice.method.name}]
            finish(place / "rounds.json", history)
        for name in CANDIDATES:
            (self.folder / name / BEST).unlink(missing_ok=True)
        return history

    def baseline(self) -> History:
        """Plain logistic regression as a method with a single entry, where labels of the target are known."""
        path, target = self.folder / BASELINE / "rounds.json", self.pair.target
        history = finished(path)
        if history is None:
            predicted = np.full(len(target), -1)
            if (target.labels >= 0).any():
                predicted = logistic_regression(*self._as_features())
            history = [{"round": 0, "portion": None, **self.training(None).accuracy_of(predicted)}]
            finish(path, history)
        return history

    def _as_features(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, d) features of source samples, (n,) their labels, (m, d) features of the target: of images, by the source model."""
        source, target = self.pair.source, self.pair.target
        if isinstance(source, ArrayInputs) and isinstance(target, ArrayInputs):
            return source.inputs, source.labels, target.inputs
        rows = even_rows(len(source), BASELINE_ROWS)
        ours = all_features(self._source_learner(), source, self.device, rows)
        return ours, source.labels[rows], self._source_view().features

    def _loaded(self, path: Path, alignment: str | None) -> Trainee:
        learner = self._aligned(alignment).make_learner().to(self.device)
        learner.load_state_dict(load_state(path))
        return learner

    def _source_learner(self) -> Trainee:
        return self._loaded(self.folder / SOURCE_ONLY / "state.safetensors", None)

    def _source_view(self) -> TargetView:
        return self.views.get(Method()) or self.training(None).view(self._source_learner())


def _network(learner: Trainee, pair: DomainPair) -> TrainedNetwork:
    """The adapted network in the format of any trained one: `hardsight extract FOLDER DATA` opens it. It takes raw features."""
    network = learner.with_head(learner.head, pair.preprocessing, pair.class_names)
    maps = [how for how in (pair.standard, pair.alignment) if how is not None]  # in the order they were applied
    return on_raw_features(network, *maps) if maps else network


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


def _write_predictions(view: TargetView, target: Inputs, folder: Path) -> None:
    """predictions.parquet: the predicted class and confidence of each target sample."""
    log_p = log_softmax(view.logits.astype(np.float64), axis=1)  # (n, c)
    table = {
        **id_and_label(target),
        "predicted": pa.array(log_p.argmax(1), mask=~view.readable),
        "confidence": pa.array(np.exp(log_p.max(1)), mask=~view.readable),
    }
    write_table(pa.table(table), folder / "predictions.parquet")
