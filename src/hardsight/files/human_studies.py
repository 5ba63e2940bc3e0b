"""Human data as studies publish them: the selection frequencies and lists of ImageNetV2, and the answers of CIFAR-10H.

ImageNetV2 (Recht et al., ICML 2019)   {image: {wnid: frequency}}, or {"image_fraction_selected": that,
                                       "image_num_assignments": {image: {wnid: people}}}: the attributes of its MTurkData
its lists                              {"image_filenames": [[image, wnid], ...], "min_num_annotations": 10}
CIFAR-10H (Peterson et al., ICCV 2019) cifar10h-raw.csv, a row for each answer
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from hardsight.errors import InputError, did_you_mean
from hardsight.files.reading import existing_file, reading

FRACTIONS, ASSIGNMENTS, LISTED = "image_fraction_selected", "image_num_assignments", "image_filenames"
ATTENTION_CHECK = -99999  # in place of the index of a test image
RAW_CIFAR10H = ("annotator_id", "is_attn_check", "chosen_label", "cifar10_test_set_idx", "reaction_time")
ByClass = Mapping[int, tuple[float, float]]  # class -> frequency and number of people, NaN where it is not known


@dataclass(frozen=True)
class Selection:
    """A list of images, and the fewest answers that it asks for."""

    name: str
    ids: list[str]
    min_answers: int | None = None

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """The rows of the (n,) ids that are in the list, by id or by file name."""
        known = set(self.ids)
        if not known & set(ids.tolist()):
            known = {file_name(id) for id in self.ids}
            names = unambiguous(ids.tolist(), self.name, "samples")
            ids = np.array(names, dtype=object)
        rows = np.array([row for row, id in enumerate(ids.tolist()) if id in known], dtype=np.int64)
        if not len(rows):
            raise InputError(f"{self.name}: none of its {len(self.ids)} images, such as {self.ids[0]!r}, is among the samples.")
        return rows


def read_selection(path: str | Path) -> Selection:
    """A list of images: that of a study as JSON, or a text file with an id per line."""
    path = Path(path)
    with reading(existing_file(path), "not readable as a list of images"):
        text = path.read_text(encoding="utf-8")
        document: Any = parsed(text) if path.suffix.lower() == ".json" else {LISTED: text.split("\n")}
    listed = document.get(LISTED) if isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        raise InputError(f"{path} must hold the list {LISTED} of [image, wnid] pairs, or one id per line.")
    ids = [each[0] if isinstance(each, list) and each else each for each in listed]
    ids = [id.strip() if isinstance(id, str) else id for id in ids if id != ""]
    if not ids or not all(isinstance(id, str) for id in ids):
        raise InputError(f"{path} must list images by name, got {next((id for id in ids if not isinstance(id, str)), 'none')!r}.")
    least = document.get("min_num_annotations") if isinstance(document, Mapping) else None
    return Selection(str(path), list(dict.fromkeys(ids)), least)


def parsed(text: str) -> Any:
    """JSON in which no key of an object stands twice with different values: the second would silently win."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        known: dict[str, Any] = {}
        for key, value in pairs:
            if known.setdefault(key, value) != value:
                raise InputError(f"{key!r} stands twice, with {known[key]!r:.40} and with {value!r:.40}: keep one.")
        return known

    return json.loads(text, object_pairs_hook=unique)


def is_by_class(source: Any) -> bool:
    """Whether this is {image: {wnid: frequency}}, alone or with the number of people beside it."""
    if not isinstance(source, Mapping) or not source:
        return False
    return FRACTIONS in source or all(isinstance(value, Mapping) for value in source.values())


def by_class(source: Mapping[str, Any], class_names: Sequence[str] | None) -> tuple[list[str], list[ByClass]]:
    """Ids, and for each the frequency and the number of people by class."""
    fractions = source.get(FRACTIONS, source)
    people = source.get(ASSIGNMENTS) if FRACTIONS in source else None
    class_of = _numbered(class_names)
    rows: list[ByClass] = []
    for image, by_wnid in fractions.items():
        row = {}
        for wnid, frequency in by_wnid.items():
            answers = np.nan if people is None else _number(people.get(image, {}).get(wnid), image, "number of people", np.inf)
            value = _number(frequency, image, "frequency", 1.0)
            row[class_of(wnid)] = (np.nan if answers == 0 else value, answers)
        rows.append(row)
    return list(fractions), rows


def _numbered(class_names: Sequence[str] | None) -> Callable[[str], int]:
    """A function from a wnid to its class."""
    if not class_names:
        raise InputError("frequencies by wnid need the classes in order: pass --class-names, or a run that has class names.")
    known = {name: k for k, name in enumerate(class_names)}

    def class_of(wnid: str) -> int:
        if wnid not in known:
            hint = did_you_mean(wnid, list(known)) or f" The classes are {', '.join(list(known)[:3])}, ..."
            raise InputError(f"{wnid!r} is not one of the {len(known)} classes.{hint}")
        return known[wnid]

    return class_of


def _number(value: Any, image: str, what: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        limit = "0 or more" if most == np.inf else f"between 0 and {most:g}"
        raise InputError(f"a {what} must be {limit}, but that of {image!r} is {value!r:.40}.")
    return float(value)


def is_raw_cifar10h(columns: Mapping[str, Any]) -> bool:
    """Whether these are the columns of cifar10h-raw.csv."""
    return set(RAW_CIFAR10H) <= set(columns)


def answers_of_cifar10h(columns: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) indices of test images, (n, 10) counts of answers, and (n,) median reaction times; attention checks are left out."""
    index, chosen, time = (np.asarray(columns[name], np.float64) for name in (*RAW_CIFAR10H[3:1:-1], RAW_CIFAR10H[4]))
    asked = (np.asarray(columns["is_attn_check"]).astype(int) == 0) & (index != ATTENTION_CHECK)
    if not asked.any():
        raise InputError("there are no answers but those of attention checks.")
    ids, where = np.unique(index[asked].astype(np.int64), return_inverse=True)
    classes = chosen[asked].astype(np.int64)
    if classes.min() < 0 or classes.max() > 9:
        raise InputError(f"chosen_label must be 0 to 9, got {classes.min()} to {classes.max()}.")
    counts = np.zeros((len(ids), 10), np.int64)
    np.add.at(counts, (where, classes), 1)
    order = np.lexsort((time[asked], where))
    by_image = np.split(time[asked][order], np.cumsum(np.bincount(where))[:-1])
    return ids, counts, np.array([np.median(each) for each in by_image])


def file_name(id: Any) -> str:
    """The name that an image has in every folder: without folders and without its extension.

    Example:
        >>> file_name("val/n01440764/ILSVRC2012_val_00000293.JPEG")
        'ILSVRC2012_val_00000293'
    """
    name = PurePosixPath(str(id).replace("\\", "/"))
    return name.stem if name.suffix.lower() in SUFFIXES else name.name


SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def unambiguous(ids: Sequence[Any], name: str, whose: str) -> list[str]:
    """The file name of each id; an error if two have the same."""
    seen: dict[str, Any] = {}
    for id in ids:
        other = seen.setdefault(file_name(id), id)
        if other != id:
            raise InputError(
                f"{name}: images are matched by file name, but the {whose} {str(other)!r} and {str(id)!r} share one: use the "
                "same folders on both sides."
            )
    return [file_name(id) for id in ids]
