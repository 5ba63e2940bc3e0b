"""The datasets of the benchmarks `hardness` and `clean`, and the small network that is trained on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hardsight
from hardsight.data import load_digits
from hardsight.errors import InputError
from hardsight.models import open_model

MOST, QUICK = 5000, 600  # default number of samples of a dataset, also in a quick trial


@dataclass(frozen=True)
class TrainingRecipe:
    """A dataset: where it is, and how to train a network on it.

    Attributes:
        file: in the directory of `--data`; None for the built-in digits.
        arrays: names of the images and the labels in that file.
        network: the network to train.
        scaling: mean and standard deviation for the network's input.
        epochs, quick_epochs: number of epochs, normally and in a quick trial.
        batch_size: samples per step.
        lr: learning rate.
    """

    file: str | None
    arrays: tuple[str, str]
    network: str
    scaling: tuple[float, float]
    epochs: int
    quick_epochs: int
    batch_size: int
    lr: float


RECIPES = {
    "digits": TrainingRecipe(None, ("", ""), "hardsight.models.networks:DigitsCNN", (0.0, 1.0), 10, 4, 32, 2e-3),
    "mnist": TrainingRecipe(
        "mnist.npz", ("train_images", "train_labels"), "hardsight.models.networks:lenet", (0.1307, 0.3081), 8, 2, 64, 1e-3
    ),
    "cifar10": TrainingRecipe(
        "cifar10_train.npz", ("images", "labels"), "benchmarks.small_cnn:small_cnn", (0.5, 0.25), 8, 2, 128, 1e-3
    ),
}


@dataclass(frozen=True)
class ImageSet:
    """Images (n, channels, h, w) in [0, 1] with labels (n,), and the recipe to train a network on them."""

    name: str
    images: np.ndarray
    labels: np.ndarray
    recipe: TrainingRecipe
    epochs: int

    @property
    def num_classes(self) -> int:
        """c, from the labels."""
        return int(self.labels.max()) + 1

    def inputs(self, images: np.ndarray) -> np.ndarray:
        """Images as network input."""
        mean, deviation = self.recipe.scaling
        return (images - np.float32(mean)) / np.float32(deviation)


def check_words(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a word of an option that is not known."""
    unknown = [word for word in given if word not in known]
    if unknown:
        raise InputError(f"{option} must be of {', '.join(known)}, got {unknown[0]!r}.")


def available(folder: Path | None) -> list[str]:
    """Names of the available datasets: the built-in digits, and those in a directory."""
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder} is not a directory.")
    names = [name for name, recipe in RECIPES.items() if recipe.file is None or (folder and (folder / recipe.file).is_file())]
    if folder is not None and len(names) == 1:
        files = " or ".join(recipe.file for recipe in RECIPES.values() if recipe.file)
        raise InputError(f"{folder} has no {files}: --data names the directory that holds one of them.")
    return names


def load(name: str, folder: Path | None, limit: int | None, *, quick: bool = False) -> ImageSet:
    """A dataset by name, or an even subsample of it."""
    recipe = RECIPES[name]
    if recipe.file is None:
        images, labels = load_digits()
    else:
        assert folder is not None
        arrays = np.load(folder / recipe.file)
        images, labels = (arrays[name] for name in recipe.arrays)
    rows = even_rows(len(images), limit)
    images = images[rows]
    channels = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    scaled = np.ascontiguousarray(channels, dtype=np.float32) / np.float32(255)
    return ImageSet(name, scaled, labels[rows].astype(np.int64), recipe, recipe.quick_epochs if quick else recipe.epochs)


def even_rows(n: int, limit: int | None) -> np.ndarray:
    """At most `limit` of n rows, evenly spaced."""
    k = min(n, limit or n)
    return np.arange(k) * n // k


def open_network(spec: Any, **options: Any) -> Any:
    """The torch module of a network by its name, or of a run."""
    model: Any = open_model(spec, device="cpu", **options)
    return model.module


def train(
    pictures: ImageSet, labels: np.ndarray, output: Path, seed: int, watch: dict[str, Any] | None = None, **options: Any
) -> Path:  # fmt: skip
    """Train the dataset's network on its images and these labels: a run with dynamics, resumed if interrupted.

    Args:
        pictures: what to train on; images whose label is -1 are left out.
        labels: (n,) given labels.
        output: run directory.
        seed: random seed of the training.
        watch: more sets by name, (images, labels), to evaluate after each epoch.
        **options: other options of `hardsight.train`, such as progress.
    """
    kept, recipe = np.flatnonzero(labels >= 0), pictures.recipe
    data = pictures.inputs(pictures.images[kept]), labels[kept], kept
    sets = {name: (pictures.inputs(images), own) for name, (images, own) in (watch or {}).items()}
    how: dict[str, Any] = {"epochs": pictures.epochs, "batch_size": recipe.batch_size, "lr": recipe.lr, **options}
    where: dict[str, Any] = {"device": "cpu", "workers": 1}
    hardsight.train(
        data, output, model=recipe.network, seed=seed, watch=sets, optimizer="adamw", weight_decay=0.0, **how, **where
    )
    return output


def place(output: Path, folder: str, pictures: ImageSet, what: str, seed: int) -> Path:
    """Path of a trained network or a result; its name encodes what it depends on."""
    return output / folder / f"{pictures.name}-{len(pictures.labels)}x{pictures.epochs}-{what}-seed{seed}"
