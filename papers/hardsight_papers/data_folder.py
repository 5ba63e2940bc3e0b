"""Which data sets are in --data DIR. Nothing is downloaded: a recipe runs on what is there, and on built-in data without it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

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
PUBLISHED = {  # names under which others publish or build the same
    "cifar10_people": "cifar10h-counts.npy",
    "imagenet5k": "imagenet_val5k",
    "imagenet_votes": "imagenet_votes_all.npz",  # on all validation images, not on the 5,000 of our numbers: no checksum
    "imagenet_frequency": "imagenet_frequency.json",
}
MEASURED = {  # SHA-256 of what the numbers in papers/docs were measured on, see `digest`
    "mnist": "a88444cd21ebbcb02ec951ff0f24478ae821985eddaff3abed4fe92eb6e75699",
    "usps": "50b29cc7fce782dc205f2c251387db6bc2660ef29e4688ebcac9d2026ec0fcc6",
    "cifar10": "f68b021d37be22bddff65e38c1914d0888c48d19273caa0050114228e9c83279",
    "cifar10_people": "044904430f5941b9530b05ccc2449634e87ce541348c9ea067167bd9584737b4",
    "cifar10_resnet20": "02926273efb1deadb6dc654c7087baea932ef2026d9f854680d6858146d85838",
    "cifar10_resnet32": "897ca9a2e3e0f83d51ba9f0b65434c9242c2d4c896ded18d40f5bab4254875da",
    "pacs_features": "a38b1866197de08ee2622c1517592d8b340e1a5bb962fcaf5e9eb88884bbb4d3",
    "imagenet5k": "6364057f3ca4a89261a34b526eeb75c351d874ee31d6352fdc4c320baf98ed01",
    "imagenet_votes": "5b0760503af2115607a53d55b2d38ba75014d2e38ffbc7a53fd457463cc30a1d",
    "cifar10_annotators": "dd2cf4efd06e9bbe7b8409781e636dfa5c8eefc8512d2c307a1c2dd7228f327f",
}


def digest(path: Path) -> str:
    """SHA-256 of a file; of arrays that of their values, whatever they are packed into and however wide their integers are."""
    sha = hashlib.sha256()
    if path.suffix not in (".npy", ".npz"):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    stored = np.load(path, allow_pickle=False)
    arrays = {"": stored} if isinstance(stored, np.ndarray) else {name: stored[name] for name in sorted(stored.files)}
    for name, array in arrays.items():
        values = array.astype(np.int64) if array.dtype.kind in "iub" else array
        sha.update(f"{name} {values.dtype.str} {values.shape}".encode())
        sha.update(np.ascontiguousarray(values).tobytes())
    return sha.hexdigest()


def wrong_checksum(name: str, path: Path) -> str:
    """How a file differs from what was measured on; nothing where it is the same, or was not measured on."""
    if name not in MEASURED or not path.is_file() or path.name == PUBLISHED["imagenet_votes"]:
        return ""
    try:
        found = digest(path)
    except (OSError, ValueError, EOFError, BadZipFile):
        return ""  # whoever opens it says what is wrong with it
    return "" if found == MEASURED[name] else f"its SHA-256 is {found[:12]}..., not the {MEASURED[name][:12]}... of our numbers"


class DataFolder:
    """A directory of data sets under their usual names; without a directory, none of them is there.

    Example:
        >>> DataFolder(None).has("mnist")
        False
    """

    def __init__(self, directory: Path | None, may_be_empty: bool = False) -> None:
        self.directory = directory
        if directory is None or may_be_empty or self.present():
            return
        wrong = "holds no data set by its usual name" if directory.is_dir() else "is not a directory"
        some = ", ".join(list(FILES.values())[:3])
        raise FileError(f"{directory} {wrong}: --data names one that holds {some} or others (papers/docs/reproduce.md).")

    def find(self, name: str) -> Path | None:
        """The path of a data set of `NAMES`, or None."""
        if self.directory is None:
            return None
        for file in (NAMES[name], PUBLISHED.get(name)):
            if file is not None and (self.directory / file).exists():
                return self.directory / file
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
        return [name for name in NAMES if (path := self.find(name)) is not None and path.name not in self._instead(name)]

    def _instead(self, name: str) -> tuple[str, ...]:
        return (NAMES[INSTEAD[name]],) if name in INSTEAD else ()

    def check(self) -> None:
        """Refuse a file that is not what the numbers in papers/docs were measured on."""
        for name in self.present():
            path = self.find(name)
            if path is not None and (wrong := wrong_checksum(name, path)):
                raise FileError(f"{path}: {wrong}. --unchecked uses it anyway.")

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
