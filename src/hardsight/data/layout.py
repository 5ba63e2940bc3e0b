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
class Place:
    """What one folder says of the images in it. `rest` are the names not yet given a meaning."""

    rest: tuple[str, ...]
    split: str | None = None
    domain: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Layout:
    """What the folders say of n images."""

    labels: np.ndarray | None
    class_names: list[str] | None
    columns: dict[str, list[str | None]]
    notes: tuple[str, ...]


def read_layout(paths: Sequence[str], level: int | None = None) -> Layout:
    """Labels, class names, and the columns `split` and `domain` where there are such, from posix paths.

    Example:
        >>> layout = read_layout(["photo/dog/1.jpg", "photo/cat/1.jpg", "sketch/dog/1.jpg", "sketch/cat/1.jpg"])
        >>> layout.class_names, layout.columns
        (['cat', 'dog'], {'domain': ['photo', 'photo', 'sketch', 'sketch']})
    """
    folders = [path.rpartition("/")[0] for path in paths]
    places = places_of(set(folders), level)
    rows = [places[folder] for folder in folders]
    columns: dict[str, list[str | None]] = {}
    notes: list[str] = []
    if any(place.split is not None for place in rows):
        columns["split"] = [place.split for place in rows]
    if any(place.domain is not None for place in rows):
        columns["domain"] = [place.domain for place in rows]
        first, names = sorted({str(place.domain) for place in rows}), {place.label for place in rows}
        notes.append(
            f"Folders are read as domain/class: {len(first)} domains ({_few(first)}), {len(names)} classes. "
            "If the first folder is the class, say so with labels_from='folder:1'."
        )
    if not any(place.label is not None for place in rows):
        return Layout(None, None, columns, tuple(notes))
    labels, class_names = class_index([place.label for place in rows])
    return Layout(labels, class_names, columns, tuple(notes + order_note(class_names)))


def places_of(folders: Iterable[str], level: int | None = None) -> dict[str, Place]:
    """The meaning of each folder, by the rules of this module."""
    places = {folder: Place(tuple(utf8_name(folder).split("/")) if folder else ()) for folder in folders}
    if level is not None:
        return {folder: replace(place, label=_at(place.rest, level)) for folder, place in places.items()}
    places = _look_through(places)
    if all(len(place.rest) > 1 for place in _inside(places)):
        places = _look_through(places, at=1)  # photo/train/dog, amazon/images/mug
    domains = _repeated(places)
    return {
        folder: replace(place, domain=place.rest[0], label=place.rest[1])
        if domains and place.rest
        else replace(place, label=place.rest[0] if place.rest else None)
        for folder, place in places.items()
    }


def _look_through(places: dict[str, Place], at: int = 0) -> dict[str, Place]:
    """Take out the names at level `at` for as long as they are splits, or one folder that holds everything."""
    while inside := _inside(places, at):
        names = {place.rest[at] for place in inside}
        goes_on = [len(place.rest) > at + 1 for place in inside]
        unsplit = all(place.split is None for place in inside)
        if unsplit and all(map(split_name, names)) and (at or any(goes_on)):
            places = {f: _without(p, at, split_name(p.rest[at])) if len(p.rest) > at else p for f, p in places.items()}
        elif len(names) == 1 and all(goes_on) and len(inside) == len(_inside(places)):
            places = {f: _without(p, at, p.split) for f, p in places.items()}
        else:
            break
    return places


def _inside(places: dict[str, Place], at: int = 0) -> list[Place]:
    return [place for place in places.values() if len(place.rest) > at]


def _without(place: Place, at: int, split: str | None) -> Place:
    return replace(place, rest=place.rest[:at] + place.rest[at + 1 :], split=split)


def _repeated(places: dict[str, Place]) -> bool:
    """Rule 3: whether second-level names come back under other first-level folders."""
    inside = _inside(places)
    if any(len(place.rest) < 2 for place in inside):
        return False
    seen: dict[str, set[str]] = defaultdict(set)
    for place in inside:
        seen[place.rest[1]].add(place.rest[0])
    repeated = sum(len(firsts) > 1 for firsts in seen.values())
    return repeated >= 2 and 2 * repeated >= len(seen)


def _at(names: tuple[str, ...], level: int) -> str | None:
    """Folder number `level`: 1 is the outermost, -1 the innermost."""
    if level == 0:
        raise InputError("labels_from='folder:N' counts from 1 at the root, or from -1 at the file; N cannot be 0.")
    position = level - 1 if level > 0 else level
    return names[position] if -len(names) <= position < len(names) else None


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
