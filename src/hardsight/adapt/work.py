"""The work of a self-training: each pair of domains made ready for a network, then every seed and method on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file

from hardsight.adapt.learner import Learner
from hardsight.adapt.loop import SelfTraining, finish, finished
from hardsight.adapt.settings import SOURCE_ONLY, AdaptSettings
from hardsight.adapt.tables import Results
from hardsight.data import ImageData
from hardsight.domains.opening import Data, Features, num_classes
from hardsight.domains.scaling import Standard, standards
from hardsight.files.run import Run
from hardsight.models.network import state_sha256, torch_device
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable, open_trainable
from hardsight.screen import percent
from hardsight.threads import num_threads
from hardsight.training.checkpoint import write_tensors
from hardsight.training.inputs import ArrayInputs, ImageInputs, Inputs, sized
from hardsight.training.network import TrainedNetwork, first_sample, open_network
from hardsight.training.optimization import MixedPrecision
from hardsight.training.results import write_model
from hardsight.training.settings import ProgressCallback

Rounds = dict[tuple[str, str, int], list[dict[str, Any]]]  # (pair, method, seed) -> one entry per round


@dataclass
class Job:
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
        """A network with a new head."""
        return Learner(self.network(), self.sample, self.num_classes)

    def model_fingerprint(self) -> str:
        """Of the weights that a learner starts from, drawn from seed 0 where they are random."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return state_sha256(self.network().module)


@dataclass
class Work:
    """All pairs of domains, and what is done with each."""

    settings: AdaptSettings
    device: torch.device
    say: Callable[[str], None]
    jobs: dict[str, Job]  # by the name of the pair

    @classmethod
    def of(cls, settings: AdaptSettings, pairs: dict[str, tuple[Data, Data]], say: Callable[[str], None]) -> Self:
        """Pairs of domains, each made ready for a network."""
        device = torch_device(settings.device)
        MixedPrecision(settings.precision, device)  # refuses what does not work, before anything is written
        return cls(settings, device, say, {name: _prepared(settings, *pair) for name, pair in pairs.items()})

    def arguments(self) -> dict[str, Any]:
        """What the result depends on, for start.json."""
        return {**self.settings.as_dict(), "device": self.device.type, "pairs": list(self.jobs)}

    def fingerprints(self) -> dict[str, Any]:
        """Of everything that is read, by pair."""
        return {
            name: {"source": job.source.fingerprint(), "target": job.target.fingerprint(), "model": job.model_fingerprint()}
            for name, job in self.jobs.items()
        }

    def all(self, run: Run, progress: ProgressCallback | None) -> Results:
        """Every pair, seed and method; what is complete already is read. Random numbers of others stay as they are."""
        with torch.random.fork_rng(devices=[]):
            return self._all(run, progress)

    def _all(self, run: Run, progress: ProgressCallback | None) -> Results:
        s, jobs = self.settings, self.jobs
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

    def _methods(self, folder: Path, loop: SelfTraining, kept: Job | None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
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


def _prepared(s: AdaptSettings, source: Data, target: Data) -> Job:
    """Two domains as a network takes them."""
    c = num_classes(source)
    names = list(source.class_names or [str(k) for k in range(c)])
    if isinstance(source, Features):
        assert isinstance(target, Features)
        ours, theirs = standards(source.values, target.values, s.standardize)
        inputs = [ArrayInputs(how(data.values), data.labels, data.ids, names) for how, data in ((ours, source), (theirs, target))]
        options = {"num_inputs": int(inputs[0].inputs.shape[1]), "num_features": s.hidden}
        network = lambda: open_trainable("feature_head", c, options=options)
        return Job(inputs[0], inputs[1], c, names, network, first_sample(inputs[0]), theirs, None)
    assert isinstance(target, ImageData)

    def trainable() -> Trainable:
        return open_network(s.model, c, s)

    preprocessing = sized(trainable().preprocessing, source, s.preprocessing())
    workers = s.workers or num_threads()
    ours_, theirs_ = (ImageInputs(data, preprocessing, workers=workers) for data in (source, target))
    return Job(ours_, theirs_, c, names, trainable, first_sample(ours_), None, preprocessing)


def _network(learner: Learner, job: Job) -> TrainedNetwork:
    """The adapted network as any trained one: `hardsight extract FOLDER DATA` opens it. It takes features as they were."""
    network = learner.with_head(learner.head, job.preprocessing, job.class_names)
    if job.standard is not None:
        state = network.state
        weight, bias = job.standard.folded(state["hidden.weight"].numpy(), state["hidden.bias"].numpy())
        state |= {"hidden.weight": torch.from_numpy(weight), "hidden.bias": torch.from_numpy(bias)}
        network.config["arguments"] = {**network.config["arguments"], "num_inputs": int(weight.shape[1])}
    return network


def _sentence(pair: str, method: str, seed: int, entry: dict[str, Any]) -> str:
    reached = "labels not known" if entry["accuracy"] is None else f"{percent(entry['accuracy'])} %"
    return f"{pair}  seed {seed}  {method}  {reached}"
