"""Which data sets are in --data DIR. Nothing is downloaded: a recipe runs on what is there, and on built-in data without it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from hardsight.errors import FileError

FILES = {
    "mnist": "mnist.npz",  # train_images, train_labels, test_images, test_labels
    "usps": "usps.npz",
    "cifar10": "cifar10_test.npz",  # images, labels, class_names
    "cifar10_people": "cifar10h_counts.npy",  # (10000, 10) answers per class, in the order of the test images
    "cifar10_train": "cifar10_train.npz",
    "cifar100": "cifar100.npz",
    "cifar10_resnet20": "cifar10_resnet20.safetensors",
    "cifar10_resnet32": "cifar10_resnet32.safetensors",
    "pacs_features": "pacs_effnetlite0.npz",
    "imagenet5k": "imagenet_val5k.tar",
    "imagenet_votes": "imagenet_votes.npz",
    "cifar10_annotators": "cifar10n_train.npz",  # three people's labels for each training image
    "annotator_groups": "annotator_groups.csv",  # label, group, answer: one row per answer
    "wordnet": "data.noun",  # the nouns of WordNet 3.0
}
FOLDERS = {  # of the full protocols: papers/docs/protocols.md shows what is in them
    "imagenet": "imagenet",
    "imagenet_frequency": "imagenet_frequency.csv",  # id, frequency, answers
    "visda": "visda",
    "pacs": "PACS",
    "mnist_folder": "mnist",
    "cifar10_folder": "cifar10",
    "cifar100_folder": "cifar100",
}
NAMES: Mapping[str, str] = {**FILES, **FOLDERS}
INSTEAD = {"mnist": "mnist_folder"}  # where the file is missing, the folder will do


class DataFolder:
    """A directory of data sets under their usual names; without a directory, none of them is there.

    Example:
        >>> DataFolder(None).has("mnist")
        False
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        if directory is None or self.present():
            return
        wrong = "holds no data set by its usual name" if directory.is_dir() else "is not a directory"
        some = ", ".join(list(FILES.values())[:3])
        raise FileError(f"{directory} {wrong}: --data names one that holds {some} or others (papers/docs/reproduce.md).")

    def find(self, name: str) -> Path | None:
        """The path of a data set of `NAMES`, or None."""
        if self.directory is None:
            return None
        path = self.directory / NAMES[name]
        if path.exists():
            return path
        return self.find(INSTEAD[name]) if name in INSTEAD else None

    def has(self, *names: str) -> bool:
        """Whether all of these are there."""
        return all(self.find(name) is not None for name in names)

    def require(self, name: str, purpose: str) -> Path:
        """The path of a data set, or one line that says what is missing."""
        path = self.find(name)
        if path is None:
            where = "--data DIR" if self.directory is None else str(self.directory)
            raise FileError(f"{purpose} needs {NAMES[name]} in {where}.")
        return path

    def present(self) -> list[str]:
        """The names of what is there."""
        return [name for name in NAMES if self.directory is not None and (self.directory / NAMES[name]).exists()]

    def described(self, scale: str) -> str:
        """What is there and what is not, by file name, in one line."""
        found = [NAMES[name] for name in self.present()]
        return f"{self.directory}: found {', '.join(found)}; not found: {', '.join(missing(self.present(), scale)) or 'none'}."


def missing(present: Collection[str], scale: str) -> list[str]:
    """File names of what recipes of a scale would use but is not there; the folders are of the full protocols.

    Example:
        >>> missing(["mnist"], "small")[:2], missing(["mnist_folder"], "small")[:2]
        (['usps.npz', 'cifar10_test.npz'], ['usps.npz', 'cifar10_test.npz'])
    """
    used = NAMES if scale == "paper" else FILES
    return [used[name] for name in used if name not in present and INSTEAD.get(name) not in present]
