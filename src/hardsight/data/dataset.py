"""`ImageData`: what every reader returns. Ids, labels and columns in memory; each image is read on request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from hardsight.checks import check_count, check_unique
from hardsight.data.decoding import Needed
from hardsight.errors import InputError
from hardsight.threads import even_rows


class Images(Protocol):
    """Where pixels come from: files, a tar, arrays. Picklable; holds no open file and no decoded image."""

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """Image number `row`, or BrokenImage; where `needed` says what it will be shrunk to, it may come smaller than it is."""

    def digest(self, ids: Sequence[str], rows: Sequence[int]) -> str:
        """sha256 that changes when the images of these rows do, or their ids, without decoding any."""


@dataclass(frozen=True, eq=False)
class ImageData:
    """n images with their ids, labels and columns.

    Args:
        kind: which reader made it: "folder", "tar", "list", "csv", "parquet", "npz", "npy", "idx", "cifar10", "cifar100",
            "digits", "hugging face".
        ids: n unique strings, the same on every run: the path below the root in posix form for files and tar members,
            the row number for arrays ("42", or "test/42" where the data has splits), the `id` column where there is one.
        images: where the pixels come from.
        labels: (n,) int64, -1 where unlabeled; None where nothing is labeled.
        class_names: one name per class index, or None.
        columns: further columns by name, n entries each: `path`, `split`, `domain`, and any the user brought.
            `path` is posix, below `roots[0]`.
        roots: the directories image files are read from; empty for arrays and tar.
        notes: what the reader decided automatically, one sentence each, to show to the user.
        rows: (n,) the rows of `images`, or None for all of them.
    """

    kind: str
    ids: list[str]
    images: Images
    labels: np.ndarray | None = None
    class_names: list[str] | None = None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    roots: list[Path] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    rows: np.ndarray | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        lengths = {name: len(column) for name, column in self.columns.items()}
        if self.labels is not None:
            lengths["labels"] = len(self.labels)
        wrong = {name: length for name, length in lengths.items() if length != n}
        if wrong:
            raise InputError(f"every column needs one entry per image, {n} here, got {wrong}.")
        check_unique(np.array([*self.ids, None], dtype=object)[:-1], "the data", "Give each row its own `id`.")

    def __len__(self) -> int:
        return len(self.ids)

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """Image number `row`: RGB, or "L" for gray arrays. Raises BrokenImage; safe from threads and workers.

        Args:
            needed: (width, height) of the whole picture -> those that it will be shrunk to. A JPEG may then come smaller than it
                is, but no smaller than that. Default: the whole picture.
        """
        return self.images.image(int(self._rows[row]), needed)

    def take(self, rows: Sequence[int] | np.ndarray) -> ImageData:
        """The same data with only these rows, in this order; classes keep their index."""
        picked = [int(row) for row in rows]
        return replace(
            self,
            ids=[self.ids[row] for row in picked],
            labels=None if self.labels is None else self.labels[picked],
            columns={name: [column[row] for row in picked] for name, column in self.columns.items()},
            rows=np.asarray(self._rows, np.int64)[picked],
        )

    def of_split(self, *splits: str | None) -> ImageData:
        """The images of one split, or of several; there may be none."""
        return self.take([row for row, split in enumerate(self.columns.get("split", ())) if split in splits])

    def spread(self, limit: int | None) -> ImageData:
        """At most `limit` images, evenly spaced over the data so that sorted classes are all seen; all for None."""
        few = limit is not None and check_count(limit, "limit", 1) < len(self)
        return self.take(even_rows(len(self), limit)) if few else self

    @property
    def _rows(self) -> Any:
        return range(len(self)) if self.rows is None else self.rows

    def fingerprint(self) -> dict[str, Any]:
        """Identity of the input as JSON values: a resumed run must have the same.

        `sha256` covers the images (name, size and time of each file; all bytes of an array file), in any order;
        `columns_sha256` the ids, labels, class names and columns, in theirs.
        """
        labels = None if self.labels is None else self.labels.tolist()
        metadata = json.dumps([self.ids, labels, self.class_names, self.columns], default=str)
        return {
            "kind": self.kind,
            "count": len(self),
            "sha256": self.images.digest(self.ids, self._rows),
            "columns_sha256": hashlib.sha256(metadata.encode()).hexdigest(),
        }

    def __repr__(self) -> str:
        classes = "no" if self.labels is None else f"{num_classes(self)}"
        return f"ImageData({self.kind}, {len(self)} images, {classes} classes, columns {sorted(self.columns)})"


def num_classes(data: Any) -> int:
    """Number of classes of any samples: of the class names, else up to the highest label."""
    if data.class_names is not None:
        return len(data.class_names)
    return 0 if data.labels is None else int(data.labels.max(initial=-1)) + 1
