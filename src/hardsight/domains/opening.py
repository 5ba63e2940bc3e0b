"""Open domains: features or images, labeled or not, with classes numbered alike.

    pacs.npz:photo     features (.npz, .parquet or a run) or images (folders, .tar, ...), and of these one domain
    photos/            all of it is one domain

`hardsight.extraction.features` has how features and their domains are read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.data import ImageData
from hardsight.data.dataset import num_classes as count_image_classes
from hardsight.data.labels import renumbered
from hardsight.data.opening import open_any
from hardsight.domains.settings import DomainOptions
from hardsight.errors import InputError
from hardsight.extraction.features import Features as Features  # also for those who import it from here
from hardsight.extraction.features import features_of, rows_of_domain, split_domain
from hardsight.files.places import place
from hardsight.snapshot import Snapshot
from hardsight.threads import even_rows

LONGEST_NAME = 100  # bytes of a domain's name: two of them, and a method, must fit into the name of one file


Data = Features | ImageData


def open_domain(spec: Any, *, limit: int | None = None) -> tuple[Data, str]:
    """Features or images from a path, a Snapshot, an ImageData or arrays; and a name for them."""
    if isinstance(spec, tuple) and len(spec) in (2, 3):
        spec = Snapshot(spec[0], None, spec[1], ids=spec[2] if len(spec) == 3 else None)
    if isinstance(spec, Snapshot):
        spec = features_of(spec, None)
    if isinstance(spec, (Features, ImageData)):
        return _limited(spec, limit), "data"
    if not isinstance(spec, (str, os.PathLike)):
        raise InputError(f"a domain is a path, a Snapshot, an ImageData or (features, labels), got {spec!r:.80}.")
    text, domain = split_domain(os.fspath(spec))
    data = _features_or_images(text)
    if domain is not None:
        data = only(data, domain, text)
        check_folder_names([domain])
    name = domain or Path(text.rstrip("/")).name.split(".")[0].replace(":", "-") or "data"  # it becomes a folder
    return _limited(data, limit), name


def domain_names(data: Data) -> list[str]:
    """The domains of some data, in the order of their first sample."""
    column = domain_column(data)
    return [] if column is None else list(dict.fromkeys(str(name) for name in column))


def check_folder_names(names: Sequence[str]) -> None:
    """Refuse domain names that cannot be folder names."""
    for name in names:
        if name in ("", ".", "..") or set(name) & {"/", "\\"} or any(ord(letter) < 32 for letter in name):
            fault = "is not a valid folder name"
        elif len(name.encode(errors="replace")) > LONGEST_NAME:
            fault = f"has more than {LONGEST_NAME} bytes"
        else:
            continue
        raise InputError(
            f"a domain's name becomes a folder of the run, but {name!r:.80} {fault}: rename it in the domain column."
        )


def domain_column(data: Data) -> np.ndarray | None:
    """(n,) domain of each sample; None if the data has no domains."""
    if isinstance(data, Features):
        return data.domains
    column = data.columns.get("domain")
    return None if column is None else np.array([str(value) for value in column], dtype=object)


def only(data: Data, domain: str, where: str = "the data") -> Data:
    """The samples of one domain."""
    return data.take(rows_of_domain(domain_column(data), domain, where))


def labels_of(data: Data) -> np.ndarray:
    """(n,) labels, -1 for unlabeled."""
    return np.full(len(data), -1) if data.labels is None else data.labels


def num_classes(data: Data) -> int:
    """Number of classes: that of the class names where there are some, else the highest label + 1."""
    return count_image_classes(data) if isinstance(data, ImageData) else data.num_classes


def present_classes(data: Data) -> list[str]:
    """The classes that have samples, by name."""
    present = np.unique(labels_of(data)[labels_of(data) >= 0]).tolist()
    return [str(k) if data.class_names is None else data.class_names[k] for k in present]


def class_names_of(data: Data) -> list[str]:
    """One name per class; its number where it has none."""
    return list(data.class_names or map(str, range(num_classes(data))))


def first_few(names: Sequence[Any], most: int = 5) -> str:
    """Some names, and how many more there are."""
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def in_classes_of(target: Data, source: Data) -> Data:
    """The target with its labels counted as the source counts them."""
    if isinstance(target, Features) != isinstance(source, Features):
        raise InputError("source and target must both be features or both be images.")
    names, own = source.class_names, target.class_names
    labels = labels_of(target)
    if names is not None and own is not None and names != own:
        unknown = [own[k] for k in np.unique(labels[labels >= 0]) if own[k] not in names]
        if unknown:
            raise InputError(
                f"the target has samples of a class that the source does not have, {unknown[0]!r}: "
                "leave out these samples, or set their labels to -1."
            )
        labels = renumbered(labels, [name if name in names else names[0] for name in own], names)  # the others have no samples
    c = num_classes(source)
    if labels.max(initial=-1) >= c:
        raise InputError(
            f"the target has labels up to {labels.max()}, but the source knows classes 0 to {c - 1}: "
            "number both alike, give both class_names, or set those labels to -1."
        )
    if isinstance(target, Features):
        assert isinstance(source, Features)
        if target.values.shape[1] != source.values.shape[1]:
            raise InputError(
                f"source features have {source.values.shape[1]} columns, target features {target.values.shape[1]}: "
                "extract both with the same network."
            )
    return replace(target, labels=labels, class_names=names)


def check_network_options(data: Data, settings: DomainOptions) -> None:
    """Images need a network; features have none. Options that would do nothing are refused, not ignored."""
    if isinstance(data, Features):
        if given := settings.given_among(settings.FOR_IMAGES):
            raise InputError(f"{given[0]} is for images; features get a head of `hidden` units.")
    elif settings.model is None:
        raise InputError("images need a model: lenet, cnn10, timm:NAME, or a run that hardsight trained.")
    elif given := settings.given_among(settings.FOR_FEATURES):
        raise InputError(f"{given[0]} is for features; these are images, for the network of `model`.")


def labeled_only(data: Data) -> Data:
    """The samples with a label; without any there is nothing to learn from."""
    rows = np.flatnonzero(labels_of(data) >= 0)
    if not len(rows):
        raise InputError("the source has no labels: self-training starts from labeled samples.")
    return data if len(rows) == len(data) else data.take(rows)


def _features_or_images(text: str) -> Data:
    """What a path holds; of images with splits, those to train on."""
    held = open_any(text)
    if isinstance(held, Snapshot):
        return features_of(held, place(text))
    if not isinstance(held, ImageData):
        raise InputError(f"{text} is a table of scores; a domain is features or images.")
    splits = held.columns.get("split")
    if splits is not None and "train" in splits and set(splits) != {"train"} and not text.startswith("digits:"):
        return held.take([row for row, split in enumerate(splits) if split == "train"])
    return held


def _limited(data: Data, limit: int | None) -> Data:
    """`limit` samples at even distances."""
    return data if limit is None or limit >= len(data) else data.take(even_rows(len(data), limit))
