"""`run`: adapt a classifier to a domain without labels, by one or several methods from the same source model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.adapt.settings import SOURCE_ONLY, AdaptSettings
from hardsight.adapt.tables import Results
from hardsight.data import ImageData, open_data
from hardsight.domains.opening import (
    Data,
    Features,
    domain_names,
    in_classes_of,
    labeled_only,
    num_classes,
    only,
    open_domain,
)
from hardsight.errors import InputError, require
from hardsight.options import takes
from hardsight.screen import percent

require("torch", extra="torch", purpose="hardsight.adapt.run")

# ruff: noqa: E402
import torch
from safetensors.torch import load_file

from hardsight.adapt.learner import Learner
from hardsight.adapt.loop import SelfTraining, finish, finished
from hardsight.adapt.report import write_report
from hardsight.domains.scaling import Standard, standards
from hardsight.files.parquet import read_parquet
from hardsight.files.run import Run
from hardsight.models.network import state_sha256, torch_device
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable, open_trainable
from hardsight.threads import num_threads
from hardsight.training.checkpoint import write_tensors
from hardsight.training.inputs import ArrayInputs, ImageInputs, Inputs, sized
from hardsight.training.network import TrainedNetwork, first_sample
from hardsight.training.results import write_model
from hardsight.training.settings import ProgressCallback

Rounds = dict[tuple[str, str, int], list[dict[str, Any]]]  # (pair, method, seed) -> one entry per round


@dataclass(frozen=True)
class Adapted:
    """A finished self-training.

    Attributes:
        directory: the run.
        accuracy: one row per pair of domains and method: the last round's accuracy, mean and spread over seeds, class by class.
        differences: methods against each other, with intervals.
        selection: what the first round of each method selected.
        rounds: one row per pair, method, seed and round.
    """

    directory: Path
    accuracy: pa.Table
    differences: pa.Table
    selection: pa.Table
    rounds: pa.Table


@takes(AdaptSettings)
def run(
    source: Any, target: Any = None, output: str | os.PathLike[str] = "adapted", *, settings: AdaptSettings,
    progress: ProgressCallback | None = None, say: Callable[[str], None] | None = None,
) -> Adapted:  # fmt: skip
    """Train on a source with labels, then on a target without, and compare methods that start from the same source model.

    Target labels, where there are any, are used only for reporting: nothing is selected and no round is stopped at by them.

    Args:
        source: labeled features or images: a path (`pacs.npz:photo` is one domain of it), a Snapshot, an ImageData, or
            `(features, labels)`.
        target: the same, labels not needed. None: every ordered pair of the source's domains.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object; options given beside it override its own. Defaults that depend on
            whether features or images are trained on: see `hardsight.adapt.settings.RECIPES`.
        progress: called with steps done, steps in all, and what is going on.
        say: called with sentences for the user.

    Example:
        >>> import tempfile
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([0, 1, 2], 30)
        >>> there = np.eye(3)[labels] * 3 + rng.normal(size=(90, 3))
        >>> here = there @ np.diag([2, 1, 1]) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = run((there, labels), (here, labels), folder, methods="source,cbst", rounds=2, hidden=8)
        >>> done.accuracy.column("method").to_pylist()
        ['source', 'cbst']
    """
    model = settings.model
    trained_already = isinstance(model, torch.nn.Module) or (isinstance(model, (str, os.PathLike)) and Path(model).is_dir())
    pairs = _pairs(source, target, settings.limit)
    first = next(iter(pairs.values()))[0]
    settings = settings.for_data("features" if isinstance(first, Features) else "images", trained_already)
    _check_model(first, settings)
    work = _Work(settings, torch_device(settings.device), say or (lambda sentence: None))
    jobs = {name: work.prepared(*pair) for name, pair in pairs.items()}
    arguments = {**settings.as_dict(), "device": work.device.type, "pairs": list(jobs)}
    inputs = {
        name: {"source": job.source.fingerprint(), "target": job.target.fingerprint(), "model": job.model_fingerprint()}
        for name, job in jobs.items()
    }
    # Earlier versions did not record `pretrained`; the fingerprint of the model's weights stands for it.
    defaults = {**AdaptSettings().as_dict(), "pretrained": settings.pretrained}
    directory = Run(Path(output), "hardsight adapt", arguments, inputs, defaults=defaults)
    if directory.complete:
        work.say(f"{output} is complete already")
        return _read(Path(output))
    with directory.only_writer(), torch.random.fork_rng(devices=[]):
        results = work.all(directory, jobs, progress)
        shown = _pictures(pairs, settings.images)
        written = write_report(
            directory, results, shown, lambda pair, method, seed: directory.directory / pair / f"seed={seed}" / method
        )
        parts = sorted(path for pair in jobs for path in (directory.directory / pair).rglob("*") if path.is_file())
        directory.finish([*parts, *written], {"accuracy": _headline(results), "oracle": _headline(results, best=True)})
    return _read(Path(output))


@dataclass
class _Job:
    """One pair of domains, ready for a network."""

    source: Inputs
    target: Inputs
    num_classes: int
    class_names: list[str]
    network: Callable[[], Trainable]
    sample: torch.Tensor
    standard: Standard | None
    preprocessing: Preprocessing | None

    def learner(self) -> Learner:
        return Learner(self.network(), self.sample, self.num_classes)

    def model_fingerprint(self) -> str:
        """Of the weights that a learner starts from, drawn from seed 0 where they are random."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return state_sha256(self.network().module)


@dataclass
class _Work:
    settings: AdaptSettings
    device: torch.device
    say: Callable[[str], None]

    def prepared(self, source: Data, target: Data) -> _Job:
        """Two domains as a network takes them."""
        c = num_classes(source)
        if c < 2:
            raise InputError(f"self-training needs at least two classes, the source has {c}.")
        names = list(source.class_names or [str(k) for k in range(c)])
        s = self.settings
        if isinstance(source, Features):
            assert isinstance(target, Features)
            ours, theirs = standards(source.values, target.values, s.standardize)
            inputs = [
                ArrayInputs(how(data.values), data.labels, data.ids, names) for how, data in ((ours, source), (theirs, target))
            ]
            options = {"num_inputs": int(inputs[0].inputs.shape[1]), "num_features": s.hidden}
            network = lambda: open_trainable("feature_head", c, options=options)
            return _Job(inputs[0], inputs[1], c, names, network, first_sample(inputs[0]), theirs, None)
        assert isinstance(target, ImageData)

        def trainable() -> Trainable:
            return open_trainable(s.model, c, options=dict(s.model_options), weights=s.weights, pretrained=s.pretrained)

        preprocessing = sized(trainable().preprocessing, source, s.size)
        workers = s.workers or num_threads()
        ours_, theirs_ = (ImageInputs(data, preprocessing, workers=workers) for data in (source, target))
        return _Job(ours_, theirs_, c, names, trainable, first_sample(ours_), None, preprocessing)

    def all(self, run: Run, jobs: dict[str, _Job], progress: ProgressCallback | None) -> Results:
        """Every pair, seed and method; what is complete already is read."""
        s = self.settings
        source_epochs = s.source_epochs or 0
        steps = source_epochs + len(self.methods) * s.rounds  # of one pair and seed
        rounds: Rounds = {}
        tasks = [(pair, seed) for pair in jobs for seed in s.seeds]
        for number, (pair, seed) in enumerate(tasks):

            def report(method: str, done: int, at: int = number * steps, words: str = f"{pair}  seed {seed}") -> None:
                before = 0 if method == SOURCE_ONLY else source_epochs + self.methods.index(method) * s.rounds
                if progress is not None:
                    progress(at + before + done, steps * len(tasks), f"{words}  {method}")

            job = jobs[pair]
            loop = SelfTraining(job.source, job.target, job.num_classes, s, seed, job.learner, self.device, report)
            folder = run.directory / pair / f"seed={seed}"
            for method, history in self._methods(folder, loop, job if len(jobs) == 1 else None):
                rounds[pair, method, seed] = history
                if method != SOURCE_ONLY:
                    self.say(_sentence(pair, method, seed, history[-1]))
        by_method = sorted(rounds, key=lambda key: (list(jobs).index(key[0]), [SOURCE_ONLY, *self.methods].index(key[1]), key[2]))
        return Results({key: rounds[key] for key in by_method}, next(iter(jobs.values())).class_names)

    @property
    def methods(self) -> list[str]:
        """The methods that adapt, without the source model itself."""
        return [method for method in self.settings.methods if method != SOURCE_ONLY]

    def _methods(self, folder: Path, loop: SelfTraining, kept: _Job | None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """The rounds of the source model and of each method from it; the models of a `kept` job are written, too."""
        source, view = folder / SOURCE_ONLY, None
        history = finished(source)
        if history is None:
            result = loop.train_source(source)
            source.mkdir(parents=True, exist_ok=True)
            write_tensors(source / "state.safetensors", result.learner.state_dict())
            loop.write_predictions(result.view, source)
            finish(source, result.history)
            history, view = result.history, result.view
        yield SOURCE_ONLY, history
        start = load_file(source / "state.safetensors")
        for method in self.methods:
            history = finished(folder / method)
            if history is None:
                result = loop.adapt(folder / method, method, start, view)
                if kept is not None:
                    write_model(folder / method, _network(result.learner, kept))
                loop.write_predictions(result.view, folder / method)
                finish(folder / method, result.history)
                history = result.history
            yield method, history


def _network(learner: Learner, job: _Job) -> TrainedNetwork:
    """The adapted network as any trained one: `hardsight extract FOLDER DATA` opens it. It takes features as they were."""
    network = learner.with_head(learner.head, job.preprocessing, job.class_names)
    if job.standard is not None:
        state = network.state
        weight, bias = job.standard.folded(state["hidden.weight"].numpy(), state["hidden.bias"].numpy())
        state |= {"hidden.weight": torch.from_numpy(weight), "hidden.bias": torch.from_numpy(bias)}
        network.config["arguments"] = {**network.config["arguments"], "num_inputs": int(weight.shape[1])}
    return network


def _pairs(source: Any, target: Any, limit: int | None) -> dict[str, tuple[Data, Data]]:
    """The pairs of domains by name, classes counted alike."""
    first, name = open_domain(source, limit=limit if target is not None else None)
    if target is not None:
        second, other = open_domain(target, limit=limit)
        pairs = {f"{name}-to-{other}" if name != other else "source-to-target": (first, second)}
    else:
        names = domain_names(first)
        if len(names) < 2:
            raise InputError("without a target the data needs a domain column with at least two domains.")
        parts = {domain: open_domain(only(first, domain), limit=limit)[0] for domain in names}
        pairs = {f"{a}-to-{b}": (parts[a], parts[b]) for a in names for b in names if a != b}
    checked = {}
    for key, (a, b) in pairs.items():
        a = labeled_only(a)
        if len(b) == 0:
            raise InputError("the target has no samples.")
        checked[key] = (a, in_classes_of(b, a))
    return checked


def _check_model(data: Data, settings: AdaptSettings) -> None:
    if isinstance(data, Features):
        for_images = [name for name in ("model", "weights", "size") if getattr(settings, name) is not None]
        if for_images or settings.pretrained or settings.augment != "none":
            raise InputError(
                f"{(for_images or ['pretrained or augment'])[0]} is for images; features get a head of `hidden` units."
            )
    elif settings.model is None:
        raise InputError("images need a model: lenet, mnist_cnn, timm:NAME, or a run that hardsight trained.")


def _pictures(pairs: dict[str, tuple[Data, Data]], images: Any) -> dict[str, ImageData]:
    if images is not None:
        shown = images if isinstance(images, ImageData) else open_data(images)
        known = set(shown.ids)
        if not any(known.intersection(target.ids) for _, target in pairs.values()):
            raise InputError(f"none of the images has the id of a target sample: theirs look like {shown.ids[0]!r}.")
        return dict.fromkeys(pairs, shown)
    return {name: target for name, (_, target) in pairs.items() if isinstance(target, ImageData)}


def _sentence(pair: str, method: str, seed: int, entry: dict[str, Any]) -> str:
    reached = "labels not known" if entry["accuracy"] is None else f"{percent(entry['accuracy'])} %"
    return f"{pair}  seed {seed}  {method}  {reached}"


def _headline(results: Results, best: bool = False) -> dict[str, dict[str, float]]:
    """pair -> method -> accuracy, a mean over seeds."""
    take = results.best if best else results.last
    known = {pair: [m for m in results.methods if results.last(pair, m)] for pair in results.pairs}
    return {pair: {method: float(np.mean(take(pair, method))) for method in methods} for pair, methods in known.items()}


def _read(directory: Path) -> Adapted:
    names = ("accuracy", "differences", "selection", "rounds")
    return Adapted(directory, *(read_parquet(directory / f"{name}.parquet") for name in names))
