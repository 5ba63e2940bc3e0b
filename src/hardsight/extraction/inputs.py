"""What images and the features of a snapshot are asked alike: ids, labels, columns, domains; `extract`, `train`, `adapt` ask.

The domain of a sample is its `domain` column: text, or numbers with `domain_names` beside them (`domains` is read as well).
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_labels
from hardsight.data import ImageData
from hardsight.data.dataset import num_classes as num_image_classes
from hardsight.data.labels import renumbered
from hardsight.errors import InputError, did_you_mean
from hardsight.files import kinds
from hardsight.files.npy import open_npz
from hardsight.files.places import Remote, place
from hardsight.snapshot import Snapshot

Data = ImageData | Snapshot


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


def num_classes(data: Data) -> int:
    """Number of classes: that of the class names where there are some, else the highest label + 1."""
    if isinstance(data, ImageData):
        return num_image_classes(data)
    return int(data.labels.max(initial=-1)) + 1 if data.class_names is None else len(data.class_names)


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


def with_class_names(data: Data, names: list[str]) -> Data:
    """The data with these class names: its own are found among them, unless they are other words for as many classes."""
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
