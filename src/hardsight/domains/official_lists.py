"""Official lists of a benchmark: which samples of each domain to train on, to hold out and to test on.

    art_painting_train_kfold.txt       art_painting/dog/pic_333.jpg 1
    art_painting_crossval_kfold.txt    art_painting/dog/pic_219.jpg 1
    art_painting_test_kfold.txt        both of them

So PACS has them (Li et al., ICCV 2017). `_kfold` may be missing, and `crossval` may be called `val`. A domain without such
a list has a share of its training list held out, and one without a test list is tested on whole.

A listed path and a sample's id are the same where their last three parts are, domain/class/file, whatever the file's suffix:
so lists and images may lie in different folders, and images may have been converted. The data's own labels count. Those of the
lists, from 0 or from 1, must mean the same classes throughout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hardsight.data.lists import Line, read_lines
from hardsight.errors import FileError, InputError
from hardsight.files.checksums import sha256
from hardsight.files.places import utf8_name

NAME = re.compile(r"(?P<domain>.+)_(?P<part>train|crossval|val|test)(_kfold)?\.txt")
PARTS = {"train": "train", "crossval": "held_out", "val": "held_out", "test": "test"}


@dataclass(frozen=True, eq=False)
class OfficialLists:
    """What the lists say of n samples.

    Attributes:
        train, held_out, test: (n,) whether a sample is in such a list of its domain.
        notes: messages for the user.
        checksums: of the files, by name.
    """

    train: np.ndarray
    held_out: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...]
    checksums: dict[str, str]

    def take(self, rows: np.ndarray) -> OfficialLists:
        """What they say of some of the samples."""
        return replace(self, train=self.train[rows], held_out=self.held_out[rows], test=self.test[rows])


def read_official_lists(folder: Path, ids: Sequence[str], domains: np.ndarray, labels: np.ndarray) -> OfficialLists:
    """The lists of a folder, joined to n samples by their ids.

    Args:
        folder: with DOMAIN_train_kfold.txt and so on, for every domain of the data.
        ids: of the samples, ending in domain/class/file.
        domains: (n,) their names.
        labels: (n,) -1 for unlabeled.
    """
    names = list(dict.fromkeys(domains.tolist()))
    files, rows = _files(folder, names), _Rows(ids)
    masks = {part: np.zeros(len(ids), bool) for part in ("train", "held_out", "test")}
    entries: list[tuple[Line, int]] = []  # every line, and the row it names; -1 if that is not in the data
    for (domain, part), path in files.items():
        pairs = [(line, rows.find(utf8_name(line.path))) for line in read_lines(path)]
        at = np.array([row for _, row in pairs if row >= 0], np.int64)
        if not len(at):
            like = f"its own look like {pairs[0][0].path!r}" if pairs else "it is empty"
            raise InputError(f"{path}: none of its files is in the data, whose ids look like {ids[0]!r}; {like}.")
        other = domains[at][domains[at] != domain]
        if len(other):
            raise InputError(f"{path}: a list of the domain {domain} names samples of {other[0]}.")
        masks[part][at] = True
        entries += pairs
    _check_labels(entries, labels)
    both = np.flatnonzero(masks["train"] & masks["held_out"])
    if len(both):
        raise InputError(f"{len(both)} samples are in lists to train on and to hold out at once; the first is {ids[both[0]]}.")
    for domain in names:
        if (domain, "test") not in files:
            masks["test"] |= domains == domain
    missing = [line.path for line, row in entries if row < 0]
    note = f"{len(missing)} of the {len(entries)} lines in the lists name files that are not in the data; the first is "
    notes = tuple(note + path for path in missing[:1])
    return OfficialLists(**masks, notes=notes, checksums={path.name: sha256(path) for path in files.values()})


def _files(folder: Path, domains: Sequence[str]) -> dict[tuple[str, str], Path]:
    """(domain, part) -> its list, for the domains of the data; each must have one to train on."""
    if not folder.is_dir():
        raise FileError(f"lists: there is no folder {folder}.")
    files: dict[tuple[str, str], Path] = {}
    for path in sorted(folder.glob("*.txt")):
        name = NAME.fullmatch(path.name)
        if name is None or name["domain"] not in domains:
            continue
        key = name["domain"], PARTS[name["part"]]
        if key in files:
            raise InputError(f"{folder} has two lists for the same purpose: {files[key].name} and {path.name}.")
        files[key] = path
    without = [domain for domain in domains if (domain, "train") not in files]
    if without:
        names = ", ".join(path.name for path in files.values()) or "no list of any domain"
        raise InputError(f"{folder} has no list {without[0]}_train_kfold.txt of the domain {without[0]}; it has {names}.")
    return files


class _Rows:
    """Samples by the end of their ids."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.exact, self.converted = _unique([_end(id) for id in ids]), _unique([_without_suffix(_end(id)) for id in ids])

    def find(self, path: str) -> int:
        """The row of a listed path; -1 if it is not in the data."""
        return self.exact.get(_end(path), self.converted.get(_without_suffix(_end(path)), -1))


def _end(path: str) -> str:
    return "/".join(path.split("/")[-3:])


def _without_suffix(path: str) -> str:
    return re.sub(r"\.[^./]*$", "", path)


def _unique(names: Sequence[str]) -> dict[str, int]:
    """name -> row, of those that only one row has."""
    count = Counter(names)
    return {name: row for row, name in enumerate(names) if count[name] == 1}


def _check_labels(entries: list[tuple[Line, int]], labels: np.ndarray) -> None:
    """Each label of the lists must be one class of the data, and each class one label."""
    by_label: dict[str, int] = {}
    by_class: dict[int, str] = {}
    for line, row in entries:
        if line.label is None or row < 0 or labels[row] < 0:
            continue
        label, number = line.label, int(labels[row])
        if by_label.setdefault(label, number) != number or by_class.setdefault(number, label) != label:
            raise InputError(f"{line.where}: the label {label} does not fit the data: elsewhere it means another class.")
