"""`python -m hardsight_papers.data DIR`: what `hardsight reproduce --data DIR` wants, from published files that lie in DIR.

Nothing is downloaded and nothing is unpickled. It says what it made, what is missing and where that is published.
"""

from __future__ import annotations

import csv
import gzip
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.data import ImageData, open_data
from hardsight.errors import FileError, HardsightError
from hardsight.files import replacing
from hardsight_papers.data_folder import NAMES, PUBLISHED, DataFolder, wrong_checksum

MADE = dict[str, np.ndarray]
FEW = 5  # images of each class of ImageNet that the small scale looks at, the first by name


@dataclass(frozen=True)
class Source:
    """A data set: the published files it is made from, where they are, and how it is made; None where it is used as it is."""

    published: tuple[str, ...]
    where: str
    make: Callable[[Path], MADE | None] | None = None


def cifar10(folder: Path, split: str) -> MADE:
    """Images, labels and class names of one split, from the binary version."""
    data = open_data(_unpacked(folder, "cifar-10-binary.tar.gz", "cifar-10-batches-bin"))
    rows = np.flatnonzero(np.array(data.columns["split"]) == split)
    return {**_arrays(data.take(rows)), "class_names": np.array(data.class_names)}


def mnist(folder: Path) -> MADE:
    """Both splits, from the four files of the idx format."""
    made: MADE = {}
    for split, name in (("train", "train"), ("test", "t10k")):
        made[f"{split}_images"] = _idx(folder, f"{name}-images-idx3-ubyte")
        made[f"{split}_labels"] = _idx(folder, f"{name}-labels-idx1-ubyte")
    return made


def usps(folder: Path) -> MADE:
    """Both splits, from lines of a digit and 256 gray values between -1 and 1."""
    made: MADE = {}
    for split in ("train", "test"):
        with gzip.open(folder / f"zip.{split}.gz", "rt") as file:
            rows = np.loadtxt(file)
        made[f"{split}_images"] = np.rint(127.5 * (rows[:, 1:] + 1)).astype(np.uint8).reshape(-1, 16, 16)
        made[f"{split}_labels"] = rows[:, 0].astype(np.uint8)
    return made


def imagenet_validation(folder: Path) -> None:
    """imagenet/val/WNID/IMAGE, and a folder of the first five images of each class by its number."""
    labels = _validation_labels(folder)
    classes, seen = {wnid: k for k, wnid in enumerate(sorted(set(labels.values())))}, dict.fromkeys(labels.values(), 0)
    with tarfile.open(folder / "ILSVRC2012_img_val.tar") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            name, wnid = Path(member.name).name, labels[Path(member.name).stem]
            content = archive.extractfile(member)
            assert content is not None
            pixels, places = content.read(), [folder / "imagenet" / "val" / wnid]
            places += [folder / "imagenet_val5k" / f"{classes[wnid]:04d}"] if seen[wnid] < FEW else []
            seen[wnid] += 1
            for place in places:
                place.mkdir(parents=True, exist_ok=True)
                with replacing(place / name) as temporary:
                    temporary.write_bytes(pixels)


def votes(folder: Path) -> MADE:
    """The votes of "Are we done with ImageNet?" on every label that was asked, and on the given one."""
    labels = _validation_labels(folder)
    classes = {wnid: k for k, wnid in enumerate(sorted(set(labels.values())))}
    with np.load(folder / "raters.npz", allow_pickle=False) as stored:
        tensor = stored["tensor" if "tensor" in stored.files else "scores"]  # (raters, questions, 3)
        info = stored["info"]  # (questions, 2) file name and label
    asked = tensor.sum(0).astype(np.int8)  # (questions, 3) no, maybe, yes
    names = sorted(labels)
    row_of = {name: row for row, name in enumerate(names)}
    image = np.array([row_of[Path(str(name)).stem] for name, _ in info])
    label = np.array([int(value) for _, value in info])
    own = np.array([classes[labels[name]] for name in names])
    given = np.full((len(names), 3), -1, np.int8)
    same = label == own[image]
    given[image[same]] = asked[same]
    ids = np.array([f"{k:04d}/{name}.JPEG" for k, name in zip(own, names, strict=True)])
    questions = {"question_image": image, "question_label": label, "question_votes": asked}
    return {"ids": ids, "labels": own, "given_votes": given, **questions}


CIFAR, VALIDATION = "https://www.cs.toronto.edu/~kriz/cifar.html (binary version)", "https://image-net.org and its Kaggle contest"
RESNETS = "https://github.com/akamaster/pytorch_resnet_cifar10"
IMAGENET = ("ILSVRC2012_img_val.tar", "LOC_val_solution.csv")
SOURCES: dict[str, Source] = {
    "mnist": Source(("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"), "http://yann.lecun.com/exdb/mnist", mnist),
    "usps": Source(("zip.train.gz", "zip.test.gz"), "https://hastie.su.domains/ElemStatLearn/data.html", usps),
    "cifar10": Source(("cifar-10-binary.tar.gz",), CIFAR, lambda folder: cifar10(folder, "test")),
    "cifar10_train": Source(("cifar-10-binary.tar.gz",), CIFAR, lambda folder: cifar10(folder, "train")),
    "cifar10_people": Source(("cifar10h-counts.npy",), "https://github.com/jcpeterson/cifar-10h"),
    "imagenet5k": Source(IMAGENET, VALIDATION, imagenet_validation),
    "imagenet_votes": Source(
        ("raters.npz", "LOC_val_solution.csv"), "https://github.com/google-research/reassessed-imagenet", votes
    ),
    "imagenet_frequency": Source(
        ("imagenet_frequency.json",), "https://github.com/modestyachts/ImageNetV2; papers/docs/data.md says how to write it"
    ),
    "pacs": Source(("PACS/kfold",), "https://github.com/facebookresearch/DomainBed, in DIR as PACS/kfold and PACS/splits"),
    "pacs_features": Source((), "papers/docs/data.md says how to extract them from PACS/kfold"),
    "cifar10_annotators": Source((), "https://github.com/UCSC-REAL/cifar-10-100n; papers/docs/data.md says how to convert it"),
    "cifar10_resnet20": Source((), f"{RESNETS}; papers/docs/data.md says how to convert it"),
    "cifar10_resnet32": Source((), f"{RESNETS}; papers/docs/data.md says how to convert it"),
}


def build(folder: Path) -> Iterator[str]:
    """Make what can be made; a line for each data set."""
    if not folder.is_dir():
        raise FileError(f"{folder} is not a directory: name one that holds published files, such as cifar10h-counts.npy.")
    found = DataFolder(folder, may_be_empty=True)
    for name, source in SOURCES.items():
        path = found.find(name)
        if path is None and source.make is not None and all(_published(folder, file) for file in source.published):
            made = source.make(folder)
            if made is not None:
                with replacing(folder / PUBLISHED.get(name, NAMES[name])) as temporary, temporary.open("wb") as file:
                    np.savez_compressed(file, **made)  # type: ignore[arg-type]  # of its stubs: allow_pickle is no array
            path = found.find(name)
        if path is None:
            yield f"missing  {NAMES[name]}: put {' and '.join(source.published) or 'it'} into {folder} ({source.where})"
        else:
            wrong = wrong_checksum(name, path)
            yield f"other    {path.name}: {wrong}" if wrong else f"there    {path.name}"


def _published(folder: Path, name: str) -> bool:
    """Whether a published file is there, packed or not."""
    unpacked = {"cifar-10-binary.tar.gz": "cifar-10-batches-bin"}.get(name, name.removesuffix(".gz"))
    return (folder / name).exists() or (folder / unpacked).exists()


def _unpacked(folder: Path, archive: str, name: str) -> Path:
    if not (folder / name).is_dir():
        with tarfile.open(folder / archive) as packed:
            packed.extractall(folder, filter="data")
    return folder / name


def _idx(folder: Path, name: str) -> np.ndarray:
    """An array of the idx format, packed or not: two zeros, the type (8: bytes), the number of axes, their sizes, the values."""
    packed = folder / f"{name}.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()
    axes = content[3]
    if content[:3] != b"\0\0\x08":
        raise FileError(f"{packed} must be an idx file of bytes, which begins with 0, 0, 8; got {list(content[:3])}.")
    shape = np.frombuffer(content, ">i4", axes, 4)
    return np.frombuffer(content, np.uint8, -1, 4 + 4 * axes).reshape(shape)


def _arrays(data: ImageData) -> MADE:
    assert data.labels is not None
    return {"images": np.stack([np.asarray(data.image(row)) for row in range(len(data))]), "labels": data.labels}


def _validation_labels(folder: Path) -> dict[str, str]:
    """Name of a validation image without extension -> wnid, from the contest's LOC_val_solution.csv."""
    with (folder / "LOC_val_solution.csv").open(newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    if not rows or not {"ImageId", "PredictionString"} <= rows[0].keys():
        raise FileError(f"{folder / 'LOC_val_solution.csv'} must have the columns ImageId and PredictionString.")
    return {row["ImageId"]: row["PredictionString"].split()[0] for row in rows}


def main(words: list[str]) -> int:
    """The command."""
    if len(words) != 1:
        print("usage: python -m hardsight_papers.data DIR", file=sys.stderr)
        return 2
    try:
        for line in build(Path(words[0])):
            print(line, flush=True)
    except HardsightError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
