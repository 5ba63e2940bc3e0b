"""What folders mean: which level is the split, which the domain, which the class.

Read from the top, for images in `split/domain/class/...`:

    1. A level whose names are all train, val, test (or their usual spellings) is the split, if there are folders below.
    2. A folder that holds everything (PACS/..., amazon/images/...) means nothing and is looked through.
    3. Two levels are domain/class if at least two, and at least half, of the second-level names occur in more than one
       first-level folder: PACS/{photo,sketch}/{dog,horse}.
    4. Otherwise the first level left is the class, and folders below it mean nothing.

Images in no folder at all are unlabeled. `folder:N` overrides all this: the class is the N-th folder from the root,
or from the file if N is negative (`folder:-1`, the file's own folder).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardsight.data.labels import class_index, order_note, split_name
from hardsight.errors import InputError
from hardsight.files.places import utf8_name


@dataclass(frozen=True)
class FolderMeaning:
    """What one folder says about the images in it. `rest` are the names not yet interpreted."""

    rest: tuple[str, ...]
    split: str | None = None
    domain: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Layout:
    """What the folders say about n images."""

    labels: np.ndarray | None
    class_names: list[str] | None
    columns: dict[str, list[str | None]]
    notes: tuple[str, ...]


def read_layout(paths: Sequence[str], level: int | None = None) -> Layout:
    """Labels, class names, and the columns `split` and `domain` where they exist, from posix paths.

    Example:
        >>> layout = read_layout(["photo/dog/1.jpg", "photo/cat/1.jpg", "sketch/dog/1.jpg", "sketch/cat/1.jpg"])
        >>> layout.class_names, layout.columns
        (['cat', 'dog'], {'domain': ['photo', 'photo', 'sketch', 'sketch']})
    """
    folders = [path.rpartition("/")[0] for path in paths]
    meanings = folder_meanings(set(folders), level)
    rows = [meanings[folder] for folder in folders]
    columns: dict[str, list[str | None]] = {}
    notes: list[str] = []
    if any(meaning.split is not None for meaning in rows):
        columns["split"] = [meaning.split for meaning in rows]
    if any(meaning.domain is not None for meaning in rows):
        columns["domain"] = [meaning.domain for meaning in rows]
        first, names = sorted({str(meaning.domain) for meaning in rows}), {meaning.label for meaning in rows}
        few = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
        notes.append(
            f"Folders are read as domain/class: {len(first)} domains ({few}), {len(names)} classes. "
            "If the first folder is the class, say so with --labels folder:1."
        )
    if not any(meaning.label is not None for meaning in rows):
        return Layout(None, None, columns, tuple(notes))
    labels, class_names = class_index([meaning.label for meaning in rows])
    return Layout(labels, class_names, columns, tuple(notes + order_note(class_names)))


def folder_meanings(folders: Iterable[str], level: int | None = None) -> dict[str, FolderMeaning]:
    """The meaning of each folder, by the rules of this module."""
    meanings = {folder: FolderMeaning(tuple(utf8_name(folder).split("/")) if folder else ()) for folder in folders}
    if level is not None:
        return {folder: replace(meaning, label=_folder_number(level, meaning.rest)) for folder, meaning in meanings.items()}
    meanings = _look_through(meanings)
    if all(len(meaning.rest) > 1 for meaning in _inside(meanings)):
        meanings = _look_through(meanings, depth=1)  # photo/train/dog, amazon/images/mug
    domains = _repeated(meanings)
    return {
        folder: replace(meaning, domain=meaning.rest[0], label=meaning.rest[1])
        if domains and meaning.rest
        else replace(meaning, label=meaning.rest[0] if meaning.rest else None)
        for folder, meaning in meanings.items()
    }


def _look_through(meanings: dict[str, FolderMeaning], depth: int = 0) -> dict[str, FolderMeaning]:
    """Take out the names at a depth for as long as they are splits, or one folder that holds everything."""
    while inside := _inside(meanings, depth):
        names = {meaning.rest[depth] for meaning in inside}
        goes_on = [len(meaning.rest) > depth + 1 for meaning in inside]
        unsplit = all(meaning.split is None for meaning in inside)
        are_splits = unsplit and all(map(split_name, names)) and (depth > 0 or any(goes_on))
        hold_all = len(names) == 1 and all(goes_on) and len(inside) == len(_inside(meanings))
        if not (are_splits or hold_all):
            break
        meanings = {folder: _without(meaning, depth, are_splits) for folder, meaning in meanings.items()}
    return meanings


def _inside(meanings: dict[str, FolderMeaning], depth: int = 0) -> list[FolderMeaning]:
    return [meaning for meaning in meanings.values() if len(meaning.rest) > depth]


def _without(meaning: FolderMeaning, depth: int, is_split: bool) -> FolderMeaning:
    """Without the name at this depth, which may be the split."""
    if len(meaning.rest) <= depth:
        return meaning
    split = split_name(meaning.rest[depth]) if is_split else meaning.split
    return replace(meaning, rest=meaning.rest[:depth] + meaning.rest[depth + 1 :], split=split)


def _repeated(meanings: dict[str, FolderMeaning]) -> bool:
    """Rule 3: whether second-level names come back under other first-level folders."""
    inside = _inside(meanings)
    if any(len(meaning.rest) < 2 for meaning in inside):
        return False
    seen: dict[str, set[str]] = defaultdict(set)
    for meaning in inside:
        seen[meaning.rest[1]].add(meaning.rest[0])
    repeated = sum(len(firsts) > 1 for firsts in seen.values())
    return repeated >= 2 and 2 * repeated >= len(seen)


def _folder_number(level: int, names: tuple[str, ...]) -> str | None:
    """Folder number `level`: 1 is the outermost, -1 the innermost."""
    if level == 0:
        raise InputError("--labels folder:N counts from 1 at the root, or from -1 at the file; N cannot be 0.")
    position = level - 1 if level > 0 else level
    return names[position] if -len(names) <= position < len(names) else None
