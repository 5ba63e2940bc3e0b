"""What a recipe is given: the scale, the data that are there, the cache, and a way to say how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

import hardsight
from hardsight import Snapshot
from hardsight.attacks import Attack
from hardsight.data import ImageData, open_data
from hardsight.errors import require_installed
from hardsight.screen import Progress
from hardsight.training import Trained, read_trained
from hardsight_papers.arrays import even_rows, open_labeled
from hardsight_papers.cache import Cache
from hardsight_papers.data_folder import DataFolder

Scale = Literal["small", "cpu", "paper"]
LOCAL: dict[str, Any] = {"device": "cpu", "workers": 1}  # so small a network gains nothing from more
AUTOMATIC: dict[str, Any] = {"device": "auto", "workers": None}


@dataclass(frozen=True)
class Handwriting:
    """Handwritten digits to train and test on: MNIST where --data has it, scikit-learn's 8 x 8 digits otherwise."""

    name: str  # "MNIST" or "digits"
    train: ImageData
    test: ImageData
    model: str  # a small network for images of this size

    @property
    def lenet(self) -> str:
        """LeNet, or what comes nearest to it for smaller images."""
        return "DigitsCNN" if self.name == "digits" else "lenet"


@dataclass
class Context:
    """What a recipe may use.

    Attributes:
        scale: `small` for minutes on a laptop, `cpu` for hours where a training needs them, `paper` for the full protocol.
        data: which data sets are there: `context.data.find("mnist")` is a path or None.
        cache: where trainings and extractions are kept.
        seed: of everything random.
        report: called with what is done, of how many, and words; set by whoever runs the recipe.
        device: for training, extraction and attacks; by default the CPU at small scale, automatic at scale paper.
    """

    scale: Scale = "small"
    data: DataFolder = field(default_factory=lambda: DataFolder(None))
    cache: Cache = field(default_factory=Cache.of_user)
    seed: int = 0
    report: Progress | None = None
    device: str | None = None

    @property
    def machine(self) -> dict[str, Any]:
        """Device and workers by default, which name a place in the cache; the device that was asked for does not."""
        return AUTOMATIC if self.scale == "paper" else LOCAL

    @property
    def asked(self) -> dict[str, Any]:
        """The device that was asked for, if any; it comes before that of a recipe."""
        return {} if self.device is None else {"device": self.device}

    def say(self, words: str, done: int = 0, total: int = 0) -> None:
        """What the recipe does now."""
        if self.report is not None:
            self.report(done, total, words)

    def progress(self, words: str) -> Callable[..., None]:
        """A callback for `hardsight.train`, `extract` and their like; further arguments of theirs are ignored."""
        return lambda done, total, *_: self.say(words, done, total)

    def train(self, data: Any, model: str, **settings: Any) -> Trained:
        """Train a network once: the same settings on the same data give the same run, whichever recipe asks.

        Args:
            data: what `hardsight.train` takes.
            model: a network by name.
            settings: options of `hardsight.train`; the seed is the context's unless it is given.
        """
        require_installed("torch", extra="torch", purpose="training")
        settings = {"seed": self.seed, **self.machine, **settings}
        watch = settings.get("watch") or {}
        key = {**settings, "watch": {name: fingerprint(watched) for name, watched in watch.items()}}
        place = self.cache.place("train", {"data": fingerprint(data), "model": model, **key})
        if (place / "run.json").exists():  # without opening data and network again
            return read_trained(place)
        words = f"training {model}"
        self.say(words)
        return hardsight.train(data, place, model=model, progress=self.progress(words), **{**settings, **self.asked})

    def extract(self, model: Any, data: Any, **settings: Any) -> Snapshot:
        """Extract features once.

        Args:
            model: a run of `train`, a model by name, or `(name, make)`: a function that builds the network, and what to call it.
            data: what `hardsight.extract` takes.
            settings: options of `hardsight.extract`.
        """
        require_installed("torch", extra="torch", purpose="extraction")
        name, make = model if isinstance(model, tuple) else (model, lambda: model)
        settings = {**self.machine, **settings}
        place = self.cache.place("extract", {"model": fingerprint(name), "data": fingerprint(data), **settings})
        if (place / "run.json").exists():  # without building the network
            return Snapshot.load(place)
        words = f"extracting features of {Path(str(name)).name}"
        self.say(words)
        return hardsight.extract(make(), data, place, progress=self.progress(words), **{**settings, **self.asked})

    def attack(self, model: Any, data: Any, of: str, **settings: Any) -> Attack:
        """Attack images once.

        Args:
            model: a run of `train`; or `(key, network)`: an nn.Module, and what tells it apart from others.
            data: what `hardsight.attack` takes.
            of: a word for the model, for the user.
            settings: options of `hardsight.attack`.
        """
        require_installed("torch", extra="torch", purpose="attacks")
        key, network = model if isinstance(model, tuple) else (model.run.name, str(model.run))
        settings = {**self.machine, **settings}
        place = self.cache.place("attack", {"model": key, "data": fingerprint(data), **settings})
        words = f"attacking {of}"
        self.say(words)
        return hardsight.attack(network, place, data=data, progress=self.progress(words), **{**settings, **self.asked})

    def handwriting(self, train: int | None = None, test: int | None = None) -> Handwriting:
        """MNIST from --data, or at small scale the built-in digits; `train` and `test` are the sizes of even subsamples."""
        path = self.data.require("mnist", "the full protocol") if self.scale == "paper" else self.data.find("mnist")
        data = open_data("digits") if path is None else open_labeled(path, splits=True)
        parts = []
        for split, most in (("train", train), ("test", test)):
            rows = np.flatnonzero(np.array(data.columns["split"]) == split)
            parts.append(data.take(rows if most is None or most >= len(rows) else rows[even_rows(len(rows), most)]))
        name, model = ("digits", "DigitsCNN") if path is None else ("MNIST", "mnist_cnn")
        return Handwriting(name, parts[0], parts[1], model)


def fingerprint(data: Any) -> Any:
    """What stands for data in the cache: of images their digest, of a file its path, size and time, of arrays their bytes."""
    import hashlib

    if isinstance(data, ImageData):
        return data.fingerprint()
    if isinstance(data, Path):
        stat = data.stat()
        return [str(data.resolve()), stat.st_size if data.is_file() else 0, stat.st_mtime_ns if data.is_file() else 0]
    if isinstance(data, (tuple, list)):
        return [fingerprint(part) for part in data]
    if isinstance(data, Mapping):
        return {name: fingerprint(part) for name, part in data.items()}
    if isinstance(data, np.ndarray):
        return [list(data.shape), str(data.dtype), hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()]
    return data
