"""What a model is run on: images, or, for a model that was trained on some, the features of a snapshot.

photos/                  images, as `hardsight.data` opens them
features.npz             a snapshot: .npz, .parquet or a run
features.npz:photo       of these, one domain

`open_inputs` opens and checks them for `extract`. What both are asked alike (ids, labels, columns, domains) follows.
The domain of a sample is its `domain` column: text, or numbers with `domain_names` beside them (`domains` is read as well).
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_labels
from hardsight.data import ImageData, open_data
from hardsight.data.opening import check_files
from hardsight.errors import InputError, did_you_mean
from hardsight.extraction.settings import ExtractSettings
from hardsight.files import kinds
from hardsight.files.class_names import given_class_names
from hardsight.files.npy import open_npz
from hardsight.files.places import Remote, place, shown_address
from hardsight.labels import renumbered
from hardsight.models.model import refuse
from hardsight.models.trained import takes_features
from hardsight.snapshot import Snapshot
from hardsight.threads import sample_rows

Data = ImageData | Snapshot


# ---- opened for a model ----


def open_inputs(data: Any, model: Any, settings: ExtractSettings, preprocessing: dict[str, Any]) -> tuple[Data, dict[str, Any]]:
    """The inputs of a model, and where its images are, so that the explorer can find them."""
    names = given_class_names(settings.class_names)
    name, features = model if isinstance(model, (str, os.PathLike)) else type(model).__name__, holds_features(data)
    shown = data if isinstance(data, (str, os.PathLike)) else "the data"
    if takes_features(model):
        if not (features or isinstance(data, str) and "://" in data):
            _open_images(data, settings)  # says what is wrong with a path that holds neither
            raise InputError(f"{name} was trained on features, but {shown} holds images: pass features like those.")
        return _named(_open_features(data, settings, preprocessing), names), {"data": None, "roots": []}
    if features:
        raise InputError(
            f"{name} is run on images, but {shown} holds features: pass the images, or score the features as they are."
        )
    images = _open_images(data, settings)
    return _named(images, names), {"data": _address(data, images), "roots": [str(root.resolve()) for root in images.roots]}


def _open_features(data: Any, settings: ExtractSettings, preprocessing: dict[str, Any]) -> Snapshot:
    refuse(
        "features", degradations=settings.degradations or None, layers=settings.layers or None,
        passes=settings.passes or None, **preprocessing,
    )  # fmt: skip
    domain = None
    if isinstance(data, Snapshot):
        refuse("a snapshot that is already open", labels_from=settings.labels_from)
    else:
        path, domain = split_domain(os.fspath(data))
        data = Snapshot.load(path, labels=settings.labels_from)
    features = in_memory(data).of_split(settings.split)
    features = features if domain is None else of_domain(features, domain, features.where)
    features = features.take(sample_rows(settings, len(features)))
    if len(features) == 0:
        raise InputError("there are no features to run the model on.")
    if settings.fit_head and not (features.labels >= 0).any():
        raise InputError("fit_head needs labels to fit a head to, but the features have none: use --labels.")
    return features


def _open_images(data: Any, settings: ExtractSettings) -> ImageData:
    split, labels_from = settings.split, settings.labels_from
    if isinstance(data, ImageData):
        refuse("data that is already open", limit=settings.limit, first=settings.first, split=split, labels_from=labels_from)
        images = data
    else:
        images = open_data(Path(data) if isinstance(data, os.PathLike) else data, split=split, labels_from=labels_from)
        rows = sample_rows(settings, len(images))
        images = images if len(rows) == len(images) else images.take(rows)
    if len(images) == 0:
        raise InputError("there are no images to extract.")
    check_files(images)
    evidence = [name for name in images.columns if name in kinds.LIST_COLUMNS]
    if evidence:  # would be mistaken for the model's output when the run is read
        raise InputError(f"a column of the data is named {evidence[0]!r}, which is reserved for extract's output: rename it.")
    if settings.fit_head and images.labels is None:
        raise InputError("fit_head needs labels to fit a head to, but the images have none: use --labels.")
    return images


def _address(data: Any, images: ImageData) -> str | None:
    """A path or name that opens the same images from any directory; None for data that was passed as an object."""
    if not isinstance(data, (str, os.PathLike)):
        return None
    return str(data) if images.kind == "digits" else shown_address(data)


# ---- what is known of the samples, of images and of features alike ----


def ids_of(data: Data) -> list[str]:
    """Ids as text."""
    return [str(id) for id in data.ids]


def labels_of(data: Data) -> np.ndarray:
    """(n,) labels, -1 for unlabeled."""
    return np.full(len(data), -1) if data.labels is None else data.labels


def columns_of(data: Data) -> dict[str, list[Any]]:
    """Further columns by name, n entries each."""
    if isinstance(data, ImageData):
        return data.columns
    return data.columns([name for name in data.column_names if name not in ("id", "label", "domains")]).to_pydict()


def domains_of(data: Data) -> np.ndarray | None:
    """(n,) domain of each sample; None if the data has no domains."""
    if "domain" not in (data.columns if isinstance(data, ImageData) else data.column_names):
        return None
    return np.array([str(value) for value in columns_of(data)["domain"]], dtype=object)


def of_domain(data: Any, domain: str, where: str = "the data") -> Any:
    """The samples of one domain."""
    domains = domains_of(data)
    if domains is None:
        raise InputError(f"{where} has no domain column, so no domain {domain!r} can be picked from it.")
    rows = np.flatnonzero(domains == domain)
    if not len(rows):
        names = list(dict.fromkeys(domains.tolist()))
        raise InputError(f"{where} has no domain {domain!r}; it has {', '.join(names)}.{did_you_mean(domain, names)}")
    return data.take(rows)


def with_labels(data: Any, labels: np.ndarray | None, class_names: list[str] | None) -> Any:
    """The same samples, images or features in memory, with other labels and class names."""
    if isinstance(data, ImageData):
        return replace(data, labels=labels, class_names=class_names)
    same = copy.copy(data)
    same.source, same.class_names = copy.copy(data.source), class_names
    same.source.labels = labels
    return same


def labels_among(data: Any, names: list[str] | None, count: int, whose: str, others: str) -> np.ndarray:
    """(n,) labels of some data, counted as others count their classes; a class that these do not have is refused.

    Args:
        names: class names of the others, if they have any.
        count: how many classes they have.
        whose, others: what to call both in a message.
    """
    labels, own = labels_of(data), data.class_names
    if names is not None and own is not None and names != own:
        unknown = [own[k] for k in np.unique(labels[labels >= 0]) if own[k] not in names]
        if unknown:
            raise InputError(
                f"{whose} has samples of a class that {others} does not have, {unknown[0]!r}: "
                "leave out these samples, or set their labels to -1."
            )
        labels = renumbered(labels, [name if name in names else names[0] for name in own], names)  # the others have no samples
    if labels.max(initial=-1) >= count:
        raise InputError(
            f"{whose} has labels up to {labels.max()}, but {others} knows classes 0 to {count - 1}: "
            "number both alike, give both class_names, or set those labels to -1."
        )
    return labels


def _named(data: Data, names: list[str] | None) -> Data:
    """The data with these class names: its own are found among them, unless they are other words for as many classes."""
    if names is None:
        return data
    ours, labels = data.class_names, data.labels
    renamed = ours is not None and len(ours) == len(names) and not set(ours) & set(names)
    if labels is not None:
        labels = check_labels(labels, len(data), len(names)) if ours is None or renamed else renumbered(labels, ours, names)
    return with_labels(data, labels, names)


def fingerprint(data: Data) -> dict[str, Any]:
    """Identity of the input: a resumed run must have the same."""
    if isinstance(data, ImageData):
        return data.fingerprint()
    metadata = json.dumps([ids_of(data), data.labels.tolist(), data.class_names, columns_of(data)], default=str)
    return {
        "kind": "features",
        "count": len(data),
        "sha256": hashlib.sha256(finite_features(data).data).hexdigest(),
        "columns_sha256": hashlib.sha256(metadata.encode()).hexdigest(),
    }


# ---- features ----


def holds_features(data: Any) -> bool:
    """Whether some data is a snapshot of features rather than images, by its kind alone."""
    if not isinstance(data, (str, os.PathLike)):
        return isinstance(data, Snapshot)
    if not os.fspath(data):
        return False  # no name: whoever reads images says so
    path = place(split_domain(os.fspath(data))[0])
    return not isinstance(path, Remote) and kinds.holds_features(path)


def split_domain(text: str) -> tuple[str, str | None]:
    """`pacs.npz:photo` -> `pacs.npz`, `photo`; a path that exists as it is stays whole."""
    if os.path.exists(text) or text.startswith("digits") or "://" in text:
        return text, None
    path, colon, domain = text.rpartition(":")
    if colon and domain and os.path.exists(path):
        return path, domain
    return text, None


def finite_features(snapshot: Snapshot) -> np.ndarray:
    """(n, d) float32, or an InputError that names the first row that is not finite."""
    name = snapshot.name or "the snapshot"
    if snapshot.source.evidence != "features":
        raise InputError(f"{name} holds {snapshot.source.evidence}; a head is trained on features.")
    values = np.ascontiguousarray(snapshot.features, np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(1))
    if len(bad):
        raise InputError(
            f"{name}: features must be finite, but {len(bad)} of {len(values)} rows are not; the first is row {bad[0]}."
        )
    return values


def in_memory(snapshot: Snapshot) -> Snapshot:
    """A snapshot of finite features in memory, with the domains by name."""
    finite_features(snapshot)
    held = snapshot.take(np.arange(len(snapshot)))
    name = next((name for name in ("domain", "domains") if name in held.column_names), None)
    return held if name is None else held.with_columns({"domain": _domain_names(snapshot, held.columns([name]).column(0))})


def _domain_names(snapshot: Snapshot, column: pa.ChunkedArray) -> pa.Array:
    """Domains by name: those of `domain_names`, if the file has numbers and names for them."""
    path = (snapshot.loaded_from or {}).get("path")
    arrays = open_npz(path) if path is not None and path.suffix.lower() == ".npz" and pa.types.is_integer(column.type) else {}
    if "domain_names" not in arrays:
        return pa.array([str(value) for value in column.to_pylist()], pa.string())
    names, numbers = np.asarray(arrays["domain_names"]), column.to_numpy()
    if numbers.max(initial=0) >= len(names):
        raise InputError(f"{path}: domains go up to {numbers.max()}, but there are {len(names)} domain_names.")
    return pa.array([str(value) for value in names[numbers]], pa.string())
