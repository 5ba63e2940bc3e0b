"""A `Snapshot` is what one model saw of one dataset at one moment.

It holds features (or only logits or probabilities), the head, labels and ids; in memory, or in files that are read
batch by batch. Extraction and training produce snapshots; scoring reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.checks import (
    arrow_numbers,
    as_array,
    as_matrix,
    check_count,
    check_same_space,
    check_some_columns,
    check_unique,
    given_probs,
    id_array,
    is_text,
    to_numpy,
)
from hardsight.errors import InputError, did_you_mean
from hardsight.files.class_names import check_class_names, given_class_names
from hardsight.files.kinds import SAMPLES, holds_scores
from hardsight.files.places import place
from hardsight.files.reading import naming
from hardsight.files.samples import Batch, SampleFiles
from hardsight.files.wide_tables import is_table
from hardsight.files.writing import check_output, replacing
from hardsight.head import ARRAYS
from hardsight.labels import Classes
from hardsight.pandas_index import align, in_class_order
from hardsight.screen import Progress, printable, warn, wrapped
from hardsight.snapshot.joining import Joined, joined, numbered_as
from hardsight.snapshot.opening import EVIDENCE as EVIDENCE
from hardsight.snapshot.opening import Arrays, Opened, open_arrays, open_path
from hardsight.snapshot.sources import SCORES_ALONE, ArraySource, SelectedRows, TableSource, selected
from hardsight.table import is_scores, noted_class_names, plain, read_scores, scores_given, with_class_numbers
from hardsight.threads import blocks, even_rows

if TYPE_CHECKING:
    from hardsight.option_types import ArrayOptions, LoadOptions

BATCH_BYTES = 32 * 2**20  # features per batch when reading from files
LEFT_IN_FILES = 2**28  # a larger part of files is not read into memory at once


class Snapshot:
    """Features, a head, labels and ids: one model's view of one dataset.

    Args:
        features: (n, d) inputs of the last linear layer.
        head: a `Head`, the (c, d) weight of a linear head (with a separate `bias`), or a fitted scikit-learn linear
            classifier: the earlier steps of a pipeline are applied to the features, and its classes name the labels.
        labels: (n,) class numbers or names; -1 or null for unlabeled. Names are matched to the known class names; if there
            are none, classes are numbered in natural order of their names.
        ids: (n,) unique strings or integers. Default: the index of a pandas frame, or row numbers.
        logits, probs: (n, c), instead of features; `pred_probs` is an alias of `probs`.
        class_names: (c,) class names.
        columns: other (n,) columns by name, such as split or path.

    pandas objects are joined by index, everything else by position. Columns of frames are joined by name: those of a weight
    to those of the features, those of logits and probabilities to named labels.

    Example:
        >>> snapshot = Snapshot(np.eye(3), np.eye(3), labels=[0, 1, 2])
        >>> len(snapshot), snapshot.num_classes
        (3, 3)
    """

    loaded_from: dict[str, Any] | None = None  # arguments of `load`, so that other processes can load the same
    whole: bool = True  # whether its rows are in the order of its source, without gaps
    read_from: tuple[Any, ...] = ()  # source files of the rows, also after `take`: `save` replaces none of them
    allow_duplicates: bool = False
    notes: tuple[str, ...] = ()  # what was made of the labels, such as a subtracted 1

    def __init__(self, features: Any = None, head: Any = None, labels: Any = None, **options: Unpack[ArrayOptions]) -> None:
        given = Arrays(features, head, labels, **options)
        self._set(open_arrays(given), None, given.allow_duplicates)

    @classmethod
    def open(
        cls, x: Any = None, head: Any = None, labels: Any = None, *, features: Any = None, by: str | None = None, **given: Any
    ) -> Snapshot:
        """A snapshot of anything: every verb opens its samples here.

        Args:
            x: a run directory, a file, (n, d) features, a pandas or polars frame, an Arrow table, a Hugging Face dataset, a table
                of scores, another Snapshot; or nothing, with features, logits or probs by keyword.
            head, labels: as for `Snapshot`; of a path, also the files that hold them; of a table, `labels` names a column.
            features: columns of a table, as names or patterns: "f*"; or the features themselves.
            by: a column to rank by: a table that has it is a table of scores, whatever its other columns.
            given: the other keywords of `Snapshot`: logits, probs, bias, ids, class_names, columns, allow_duplicates.

        A table with the columns predicted and status, or with a column named after a score, is a table of scores unless
        `features` or `labels` name its columns; any other is a table of features.

        Example:
            >>> Snapshot.open([[1.0, 0.0], [0.0, 2.0]], labels=["cat", "dog"]).class_names
            ['cat', 'dog']
        """
        options = {name: value for name, value in given.items() if value is not None}
        options |= {name: value for name, value in (("head", head), ("labels", labels)) if value is not None}
        if x is None:
            x, features = features, None
        if isinstance(x, Snapshot):
            return x._with_options({**options, **({} if features is None else {"features": features})})
        if isinstance(x, (str, os.PathLike)):
            return cls._of_path(x, options, features, by)
        x = plain(x)
        named = features is not None or labels is not None  # a table of scores has its own labels
        if is_table(x) and not named and head is None and is_scores(x, by):
            names = given_class_names(options.pop("class_names", None))
            return cls.of_scores(scores_given(x, names), **options)
        arrays = Arrays(x, **options)
        snapshot = cls.__new__(cls)
        snapshot._set(open_arrays(arrays, features), None, arrays.allow_duplicates)
        return snapshot

    def _with_options(self, options: dict[str, Any]) -> Snapshot:
        """This snapshot with probabilities next to its features, which is all that can be added."""
        probs = given_probs(options.pop("probs", None), options.pop("pred_probs", None))
        if options.pop("allow_duplicates", False) and not self.allow_duplicates:
            return self._again(allow_duplicates=True)._with_options({**options, "probs": probs})
        extra = [name for name in options if name != "columns" or options[name]]
        if extra:
            raise InputError(f"{extra[0]} can only be used with arrays; a snapshot has its own.")
        if probs is None:
            return self
        if self.source.evidence != "features":
            raise InputError(f"{self.where}: there are {self.source.evidence} already: probs go beside features.")
        both = self._again()
        both._add_evidence("probs", align(probs, "probs", None, self.source.evidence, self.ids))
        return both

    @classmethod
    def _of_path(cls, path: Any, options: dict[str, Any], features: Any, by: str | None) -> Snapshot:
        beside: dict[str, Any] = {name: options.pop(name) for name in ("probs", "pred_probs") if name in options}
        files = ("head", "labels", "class_names", "allow_duplicates")
        extra = [name for name in options if name not in files]
        if extra:
            raise InputError(f"{extra[0]} can only be used with arrays; a snapshot has its own.")
        path, named = place(path), features is not None or set(options) & {"head", "labels"}
        if not named and isinstance(path, Path) and holds_scores(path, by):
            table = read_scores(path, given_class_names(options.get("class_names")))
            snapshot = cls.of_scores(table, name=str(path), **options)
            snapshot.loaded_from, snapshot.read_from = {"path": path}, (path,)
        else:
            snapshot = cls.load(path, features=features, **options)
        return snapshot._with_options(beside)

    @classmethod
    def of_scores(
        cls, table: pa.Table, *, name: str | None = None, class_names: Any = None, allow_duplicates: bool = False, **given: Any
    ) -> Snapshot:
        """A snapshot of a table of scores: columns, and no features."""
        if given:
            raise InputError(f"{name or 'the table'}: {next(iter(given))} goes with features, and this is a table of scores.")
        snapshot = cls.__new__(cls)
        with naming(name):
            table = with_class_numbers(table, given_class_names(class_names))
            snapshot._set(Opened(TableSource(table), None, Classes(noted_class_names(table.schema))), name, allow_duplicates)
        return snapshot

    def _set(self, opened: Opened, name: str | None, allow_duplicates: bool = False) -> None:
        source, head = opened.source, opened.head
        self.source, self.head, self.name, self.allow_duplicates = source, head, name, allow_duplicates
        self.others: dict[str, np.ndarray] = {}  # further evidence, such as probabilities next to features
        self.added: dict[str, Any] = {}  # (n,) columns of `with_columns`
        if isinstance(source, ArraySource) and source.ids is not None and not allow_duplicates:
            check_unique(source.ids, self.where)
        if isinstance(source, SampleFiles) and len(source) == 0 and source.width == 0 and head is not None:
            source.width = head.num_features  # there is no row to infer it from
        values = SimpleNamespace(shape=(source.num_samples, source.width))  # they may be in files
        if source.evidence != SCORES_ALONE:
            check_some_columns(values, source.evidence)
        if head is not None:
            if source.evidence != "features":
                raise InputError(f"a head goes with features; {source.evidence} are already its output.")
            check_same_space(values, head.weight)
        names = None if opened.classes.names is None else check_class_names(opened.classes.names, self.num_classes)
        self.class_names, self.notes = source.read_labels(replace(opened.classes, names=names, count=self.num_classes))
        for note in self.notes:
            warn(note)
        for evidence, further in opened.others.items():
            self._add_evidence(evidence, further)

    def _again(self, **changes: Any) -> Snapshot:
        """The same model's view, with other attributes: of other rows, with further columns."""
        other = Snapshot.__new__(Snapshot)
        other.__dict__.update(self.__dict__ | {"others": dict(self.others)} | changes)
        return other

    def with_columns(self, columns: Mapping[str, Any], name: str | None = None) -> Snapshot:
        """The same samples with further (n,) Arrow columns, or others in the place of their own; also under another name.

        Scores are of the labels that a snapshot was opened with: those cannot be replaced.

        Example:
            >>> Snapshot(np.eye(2)).with_columns({"site": pa.array(["a", "b"])}).columns(["id", "site"]).to_pydict()
            {'id': [0, 1], 'site': ['a', 'b']}
        """
        if "label" in columns:
            raise InputError(f"{self.where}: label cannot be replaced by a column: open the samples again with labels=.")
        return self._again(added={**self.added, **columns}, name=name or self.name)

    def _add_evidence(self, name: str, values: Any) -> None:
        matrix = to_numpy(as_matrix(in_class_order(values, self.class_names), name))
        check_some_columns(matrix, name)
        if len(matrix) != len(self):
            raise InputError(f"there must be one row of {name} per sample, got {len(matrix)} rows for {len(self)} samples.")
        if self.num_classes is not None and matrix.shape[1] != self.num_classes:
            raise InputError(f"{name} must have one column per class, got {matrix.shape[1]} for {self.num_classes} classes.")
        self.others[name] = matrix

    @property
    def where(self) -> str:
        """What to call it in a message."""
        return self.name or "the samples"

    @property
    def path(self) -> Path | None:
        """The run or file on this machine that it was loaded from; None for arrays."""
        path = (self.loaded_from or {}).get("path")
        return path if isinstance(path, Path) else None

    @property
    def run(self) -> Path | None:
        """Its run directory: epochs, images, suspects, review; None for arrays and single files."""
        return self.path if self.path is not None and self.path.is_dir() else None

    @property
    def is_changed(self) -> bool:
        """Whether it was opened with another head or other labels than its own: what is stored of it does not hold then."""
        return any((self.loaded_from or {}).get(name) is not None for name in ("head", "labels"))

    @property
    def ids(self) -> np.ndarray:
        """(n,) strings or integers, proven to be unique unless duplicates are allowed."""
        ids = id_array(self.columns(["id"]).column(0))
        if not isinstance(self.source, ArraySource) and not self.allow_duplicates:  # those in memory were checked when opened
            check_unique(ids, self.where)
        return ids

    @property
    def labels(self) -> np.ndarray:
        """(n,) class numbers, -1 for unlabeled."""
        if isinstance(self.source, ArraySource):
            return np.asarray(self.source.labels)
        values, valid = arrow_numbers(self.columns(["label"]).column(0))
        return np.where(valid, values, -1).astype(np.int64)

    @property
    def features(self) -> np.ndarray | None:
        """(n, d) in memory, NaN in missing rows; None where there are none."""
        return self._evidence("features")

    @property
    def logits(self) -> np.ndarray | None:
        """(n, c) in memory, NaN in missing rows; None where none were given."""
        return self._evidence("logits")

    @property
    def probs(self) -> np.ndarray | None:
        """(n, c) in memory, NaN in missing rows; None where none were given."""
        return self._evidence("probs")

    def _evidence(self, name: str) -> np.ndarray | None:
        if self.source.evidence != name:
            return self.others.get(name)
        batch = self.in_memory()
        values = to_numpy(batch.values)
        return values if batch.missing is None else np.where(batch.missing[:, None], np.nan, values)

    @property
    def splits(self) -> np.ndarray | None:
        """(n,) split of each sample, None where it has none; None if no sample has one."""
        if "split" not in self.column_names:
            return None
        splits = np.array([*self.columns(["split"]).column(0).to_pylist(), None], dtype=object)[:-1]
        return splits if any(split is not None for split in splits) else None

    def of_split(self, split: str | None) -> Snapshot:
        """The samples of one split, at least one; all samples for None.

        Example:
            >>> snapshot = Snapshot(np.eye(3), columns={"split": ["train", "test", "train"]})
            >>> snapshot.of_split("train").ids
            array([0, 2])
        """
        return self if split is None else self.of_rows(self.rows_of_split(split))

    def rows_of_split(self, split: str) -> np.ndarray:
        """The rows of one split, at least one."""
        splits = self.splits
        rows = np.flatnonzero(splits == split) if splits is not None else np.empty(0, np.int64)
        if len(rows) == 0:
            present = [] if splits is None else sorted({str(name) for name in splits if name is not None})
            hint = did_you_mean(split, present)
            raise InputError(f"{self.where}: there is no split {split!r}; splits: {', '.join(present) or 'none'}.{hint}")
        return rows

    def first(self, count: int | None) -> Snapshot:
        """The first samples; all for None."""
        n = len(self) if count is None else min(len(self), check_count(count, "first"))
        return self.of_rows(np.arange(n))

    def spread(self, limit: int | None) -> Snapshot:
        """At most `limit` samples, evenly spaced; all for None."""
        return self.of_rows(even_rows(len(self), None if limit is None else check_count(limit, "limit")))

    def selected(self, split: str | None = None, first: int | None = None, limit: int | None = None) -> Snapshot:
        """What --split, --first and --limit select, in this order: the samples of a split, the first of them, some of those."""
        return self.of_split(split).first(first).spread(limit)

    def scores(self, names: Sequence[str], progress: Progress | None = None) -> pa.Table:
        """id, label, predicted, status and these scores of every sample: read where they are stored, computed otherwise.

        A name that is no score is a column of the table of scores, or of the run's scores.parquet. Values are as measured:
        `SCORES.harder` turns them so that high is hard.

        Example:
            >>> Snapshot(np.eye(2), np.eye(2), [0, 0]).scores(["avh"])["avh"].to_pylist()
            [0.0, 1.0]
        """
        from hardsight.scoring.job import scores_of  # the room that computes them comes after this one

        return scores_of(self, names, progress)

    @property
    def num_classes(self) -> int | None:
        """Number of classes, if a head, logits or probabilities define it."""
        if self.head is not None:
            return self.head.num_classes
        return self.source.width if self.source.evidence in ("logits", "probs") else None

    def __len__(self) -> int:
        return self.source.num_samples

    def __repr__(self) -> str:
        source, names = self.source, self.column_names
        facts = [
            f"Snapshot: {len(self):,} sample{'s' * (len(self) != 1)}, {source.width} {source.evidence} each",
            "labeled" if source.labeled else "no labels",
            *([] if self.num_classes is None else [f"{self.num_classes} classes"]),
            *([] if self.head is None else [f"{self.head.kind} head"]),
        ]
        where = [] if self.name is None else [f"from {printable(self.name)}"]
        classes = [] if self.class_names is None else wrapped("classes: ", self.class_names, most=2)
        return "\n".join([", ".join(facts), *where, *wrapped("columns: ", names, most=2), *classes])

    def batches(self, start: int = 0, stop: int | None = None, rows: int | None = None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of about 32 MB or of a given number of rows."""
        rows = rows or self.batch_rows
        return self.source.read(start, len(self) if stop is None else min(stop, len(self)), rows, self.num_classes)

    def pieces(self) -> list[range]:
        """Rows that are scored and written together: row groups of a Parquet file, about 32 MB of anything else."""
        if isinstance(self.source, SampleFiles):
            return self.source.pieces(self.batch_rows)
        return [range(part.start, part.stop) for part in blocks(len(self), self.batch_rows)]

    @property
    def batch_rows(self) -> int:
        """Rows in a batch of about 32 MB."""
        return max(1, BATCH_BYTES // max(1, self.source.width * self.source.itemsize))

    def in_memory(self, start: int = 0, stop: int | None = None) -> Batch:
        """All the rows as one batch; what is in memory is not copied."""
        parts = list(self.batches(start, stop, len(self) if isinstance(self.source, ArraySource) else None))
        if not parts:
            return Batch(start, np.zeros((0, self.source.width), np.float32), None, np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Batch.joined(parts)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns other than features: id, label, then any others."""
        return list(dict.fromkeys([*self.source.column_names, *self.added]))

    def columns(self, names: Sequence[str] | None = None) -> pa.Table:
        """The columns of `column_names` as an Arrow table, or those of `names` in that order.

        Features are not read. Unlabeled samples have a null label.

        Example:
            >>> snapshot = Snapshot(np.eye(3), labels=[0, 1, -1], columns={"split": ["train", "train", "test"]})
            >>> snapshot.columns(["label", "split"]).to_pydict()
            {'label': [0, 1, None], 'split': ['train', 'train', 'test']}
        """
        known = self.column_names
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise InputError(
                f"{self.name or 'the snapshot'} has no column {unknown[0]!r}; it has {', '.join(known)}."
                + did_you_mean(unknown[0], known)
            )
        wanted = list(dict.fromkeys(known if names is None else names))
        stored = self.source.columns([name for name in wanted if name not in self.added], self.num_classes)
        return pa.table({name: self.added[name] if name in self.added else stored.column(name) for name in wanted})

    def take(self, rows: Any) -> Snapshot:
        """A snapshot in memory of the given rows, in the given order, with their labels, ids and other columns.

        Example:
            >>> snapshot = Snapshot(np.eye(3), labels=[0, 1, 2])
            >>> snapshot.take([2, 0]).columns().to_pydict()
            {'id': [2, 0], 'label': [2, 0]}
        """
        rows = _check_rows(rows, len(self))
        if isinstance(self.source, TableSource):
            return self._again(source=TableSource(self.columns().take(rows)), added={})
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        values: np.ndarray | None = None
        missing = np.zeros(len(rows), dtype=bool)
        first, last = (int(ascending[0]), int(ascending[-1]) + 1) if len(rows) else (0, 0)
        for batch in self.batches(first, last):  # only the selected rows stay in memory
            here = slice(*np.searchsorted(ascending, (batch.start, batch.start + len(batch))))
            picked, target = ascending[here] - batch.start, order[here]
            held = to_numpy(batch.values)
            if values is None:
                values = np.empty((len(rows), held.shape[1]), held.dtype)
            values[target] = held[picked]
            if batch.missing is not None:
                missing[target] = batch.missing[picked]
        if values is None:
            values = np.zeros((0, self.source.width), np.float32)
        columns = self.columns().take(rows)
        labels = columns.column("label") if self.source.labeled else None
        further = {name: columns.column(name) for name in columns.column_names[2:]}
        ids = columns.column("id").to_numpy() if len(rows) else None
        source = ArraySource(self.source.evidence, values, labels, ids, further)
        source.missing = missing if missing.any() else None
        source.of_epochs, source.note = self.source.of_epochs, self.source.note
        taken = Snapshot.__new__(Snapshot)
        taken._set(Opened(source, self.head, Classes(self.class_names)), self.name, self.allow_duplicates)
        taken.read_from, taken.notes = self.read_from, self.notes
        taken.others = {name: matrix[rows] for name, matrix in self.others.items()}
        return taken

    def of_rows(self, rows: Any) -> Snapshot:
        """`take` for increasing rows that keeps track of the source run; the snapshot itself if these are all rows.

        Rows in files stay there if they would take more than 256 MB.
        """
        if len(rows) == len(self):
            return self
        in_files = isinstance(self.source, (SampleFiles, SelectedRows))
        if in_files and len(rows) * self.source.width * self.source.itemsize > LEFT_IN_FILES:
            taken = self._again(
                source=selected(self.source, _check_rows(rows, len(self))),
                others={name: matrix[rows] for name, matrix in self.others.items()},
                added={name: column.take(pa.array(rows)) for name, column in self.added.items()},
            )
        else:
            taken = self.take(rows)
        taken.loaded_from, taken.whole = self.loaded_from, False
        return taken

    def joined(self, other: Snapshot) -> Joined:
        """The samples that both have, by id and in this order; refused if there are none.

        Example:
            >>> old, new = Snapshot(np.eye(3), ids=["a", "b", "c"]), Snapshot(np.eye(2), ids=["c", "a"])
            >>> both = old.joined(new)
            >>> both.second.ids, both.only_first
            (array(['a', 'c'], dtype=object), 1)
        """
        return joined(self, other)

    def numbered_as(self, other: Snapshot) -> Snapshot:
        """The same samples with class numbers of another snapshot, where both have the same class names in another order.

        Example:
            >>> first, second = (Snapshot(np.eye(2), labels=[0, 1], class_names=names) for names in (["a", "b"], ["b", "a"]))
            >>> second.numbered_as(first).labels
            array([1, 0])
        """
        return numbered_as(self, other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as `.npz`, with the standard names as keys."""
        if place(path).suffix.lower() != ".npz":
            raise InputError(f"{path}: a snapshot is saved as .npz; give a name with that ending.")
        check_output(place(path), table=SAMPLES, inputs=self.read_from)
        everything = self.in_memory()
        arrays: dict[str, Any] = {self.source.evidence: to_numpy(everything.values), "labels": everything.labels}
        arrays["ids"] = everything.ids if everything.ids.dtype.kind == "i" else _as_text_array("id", everything.ids)
        if self.head is not None:
            arrays["kind"] = np.array(self.head.kind)
            held = {name: getattr(self.head, name) for name in (*ARRAYS, "scale")}
            arrays |= {name: to_numpy(array) for name, array in held.items() if array is not None}
        if self.class_names is not None:
            arrays["class_names"] = np.array(self.class_names, dtype=str)
        arrays |= _saved_columns(self.columns([name for name in self.column_names if name not in ("id", "label")]))
        with replacing(path, table=SAMPLES) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, allow_duplicates: bool = False, **given: Unpack[LoadOptions]) -> Snapshot:
        """Open a snapshot without reading its rows yet; only wide tables are read into memory.

        Args:
            path: a run directory, a folder that `Dynamics` wrote, a `.npz` with the standard names, a Parquet file (or a folder
                of shards) with `features` (or `logits` or `probs`), `label` and `id` columns, a `.npy` with features alone, or
                a wide `.csv`, `.tsv` or Parquet table.
            head: a Head, a weight array or a file, to add or override the head.
            labels: an array, or a file (by id: .csv, .parquet; in the order of the samples: .npy, text), to add or override
                labels; for a table, the name of a column.
            features: columns of a wide table, as names or patterns: "f*", or "width,height".
            class_names: (c,) class names, or a file of them, to add or override them.
            allow_duplicates: accept repeated ids.
        """
        path = place(path)
        opened = open_path(path, **given)
        snapshot, source = cls.__new__(cls), opened.source
        with naming(path):
            snapshot._set(opened, str(path), allow_duplicates)
        wide = isinstance(source, ArraySource) and source.note is not None
        beside = {name: given.get(name) for name in ("head", "labels")}
        if not wide and not (source.named and given.get("class_names") is not None):
            snapshot.loaded_from = {"path": path, **beside}
        snapshot.read_from = (path, *beside.values())
        return snapshot


def _check_rows(rows: Any, num_samples: int) -> np.ndarray:
    """(k,) valid row numbers."""
    column = as_array(rows, "rows")
    if column.ndim != 1 or (column.dtype.kind not in "iu" and len(column)):
        raise InputError(f"rows must be a list of row numbers, got {column.dtype} of shape {column.shape}.")
    outside = np.flatnonzero((column < 0) | (column >= num_samples))
    if len(outside):
        raise InputError(f"rows must be 0 to {num_samples - 1}, got {column[outside[0]]}.")
    return column.astype(np.int64)


def _saved_columns(table: pa.Table) -> dict[str, np.ndarray]:
    """Columns as arrays that can be saved without pickle; those that cannot, such as text with nulls, are left out and named."""
    arrays = {}
    for name in table.column_names:
        column = table.column(name)
        values = as_array(column, f"column {name}")
        if values.dtype != object:
            arrays[name] = values
        elif all(is_text(value) for value in values):
            arrays[name] = _as_text_array(f"column {name}", values)
        elif column.null_count < len(column):
            warn(f"column {name} is not saved: .npz holds numbers and text, but no nulls among text and no other objects.")
    return arrays


def _as_text_array(name: str, values: np.ndarray) -> np.ndarray:
    """Text as NumPy holds it, without NUL at its end, which would be lost."""
    cut = [value for value in values if str(value).endswith("\0")]
    if cut:
        raise InputError(f"{name} {cut[0]!r:.80} ends in NUL, which .npz cannot hold.")
    return values.astype(str)
