"""Features as data: the rows of a snapshot in memory, all of them or one domain's.

    features.npz             a snapshot: .npz, .parquet or a run
    features.npz:photo       of these, one domain

The domain of a sample is its `domain` column: text, or numbers with `domain_names` beside them (`domains` is read as well).
Models that were trained on features take them in the place of images.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_labels, to_numpy
from hardsight.errors import InputError, did_you_mean
from hardsight.files import kinds
from hardsight.files.npy import open_npz
from hardsight.files.places import Place, Remote, place
from hardsight.snapshot import Snapshot
from hardsight.unique_ids import check_unique

COLUMNS = ("domain", "domains")


@dataclass(frozen=True, eq=False)
class Features:
    """n frozen features with what is known of them.

    Attributes:
        values: (n, d) float32, finite.
        labels: (n,) int64, -1 unlabeled.
        ids: n unique strings.
        class_names: one per class, if known.
        domains: (n,) names, if known.
        columns: further columns by name, n entries each.
    """

    values: np.ndarray
    labels: np.ndarray
    ids: list[str]
    class_names: list[str] | None
    domains: np.ndarray | None
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: np.ndarray) -> Features:
        """The samples of these rows, in this order."""
        return Features(
            self.values[rows], self.labels[rows], [self.ids[row] for row in rows], self.class_names,
            None if self.domains is None else self.domains[rows],
            {name: [column[row] for row in rows] for name, column in self.columns.items()},
        )  # fmt: skip

    @property
    def num_classes(self) -> int:
        """Number of classes: that of the class names where there are some, else the highest label + 1."""
        return len(self.class_names) if self.class_names is not None else int(self.labels.max(initial=-1)) + 1

    def fingerprint(self) -> dict[str, Any]:
        """Identity of the input: a resumed run must have the same."""
        metadata = json.dumps([self.ids, self.labels.tolist(), self.class_names, self.columns], default=str)
        return {
            "kind": "features",
            "count": len(self),
            "sha256": hashlib.sha256(np.ascontiguousarray(self.values).data).hexdigest(),
            "columns_sha256": hashlib.sha256(metadata.encode()).hexdigest(),
        }


def holds_features(data: Any) -> bool:
    """Whether some data is a snapshot of features rather than images, by its kind alone."""
    if not isinstance(data, (str, os.PathLike)):
        return isinstance(data, Snapshot)
    if not os.fspath(data):
        return False  # no name: whoever reads images says so
    path = place(split_domain(os.fspath(data))[0])
    return not isinstance(path, Remote) and kinds.holds_features(path)


def open_features(data: Any, *, labels: Any = None) -> Features:
    """The features of a path, of `path:domain` or of a Snapshot, with all their columns."""
    if isinstance(data, Snapshot):
        where, domain, path, snapshot = "the snapshot", None, None, data
    else:
        where, domain = split_domain(os.fspath(data))
        path = place(where)
        snapshot = Snapshot.load(path, labels=labels)
    features = features_of(snapshot, path)
    further = [name for name in snapshot.column_names if name not in ("id", "label", *COLUMNS)]
    features.columns.update(snapshot.columns(further).to_pydict() if further else {})
    if features.domains is not None:
        features.columns["domain"] = features.domains.tolist()
    return features if domain is None else features.take(rows_of_domain(features.domains, domain, where))


def features_of(snapshot: Snapshot, path: Place | None) -> Features:
    """A snapshot's features in memory, with their domains; `path` is its file, if it has one."""
    name = snapshot.name or "the snapshot"
    if snapshot.source.evidence != "features":
        raise InputError(f"{name} holds {snapshot.source.evidence}; a head is trained on features.")
    whole = snapshot.in_memory()
    values = np.ascontiguousarray(to_numpy(whole.values), np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(1))
    if len(bad):
        raise InputError(
            f"{name}: features must be finite, but {len(bad)} of {len(values)} rows are not; the first is row {bad[0]}."
        )
    ids = [str(id) for id in whole.ids]
    check_unique(np.array([*ids, None], dtype=object)[:-1], name)
    labels = check_labels(whole.labels, len(values), None if snapshot.class_names is None else len(snapshot.class_names))
    domains = _domains_of(snapshot, path)
    if domains is not None and len(domains) != len(values):
        raise InputError(f"{name}: there must be one domain per sample, got {len(domains)} for {len(values)}.")
    return Features(values, labels, ids, snapshot.class_names, domains)


def split_domain(text: str) -> tuple[str, str | None]:
    """`pacs.npz:photo` -> `pacs.npz`, `photo`; a path that exists as it is stays whole."""
    if os.path.exists(text) or text.startswith("digits") or "://" in text:
        return text, None
    path, colon, domain = text.rpartition(":")
    if colon and domain and os.path.exists(path):
        return path, domain
    return text, None


def rows_of_domain(domains: np.ndarray | None, domain: str, where: str) -> np.ndarray:
    """Rows of one domain among the (n,) domains of all samples."""
    if domains is None:
        raise InputError(f"{where} has no domain column, so no domain {domain!r} can be picked from it.")
    rows = np.flatnonzero(domains == domain)
    if not len(rows):
        names = list(dict.fromkeys(str(name) for name in domains))
        raise InputError(f"{where} has no domain {domain!r}; it has {', '.join(names)}.{did_you_mean(domain, names)}")
    return rows


def _domains_of(snapshot: Snapshot, path: Place | None) -> np.ndarray | None:
    name = next((name for name in COLUMNS if name in snapshot.column_names), None)
    if name is None:
        return None
    column = snapshot.columns([name]).column(0)
    arrays = open_npz(path) if path is not None and path.suffix.lower() == ".npz" and pa.types.is_integer(column.type) else {}
    if "domain_names" in arrays:
        names, numbers = np.asarray(arrays["domain_names"]), column.to_numpy()
        if numbers.max(initial=0) >= len(names):
            raise InputError(f"{path}: domains go up to {numbers.max()}, but there are {len(names)} domain_names.")
        return np.array([str(value) for value in names[numbers]], dtype=object)
    return np.array([str(value) for value in column.to_pylist()], dtype=object)
