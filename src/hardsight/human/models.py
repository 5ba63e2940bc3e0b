"""The models to compare: each is a scores table, with its snapshot if the input has one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import check_ids
from hardsight.errors import FileError, InputError, did_you_mean, first_line
from hardsight.files.epochs import moments, read_moment, rows_named
from hardsight.files.kinds import kind_of
from hardsight.files.places import missing
from hardsight.pandas_index import index_ids
from hardsight.scores import SCORES, norm_in_class
from hardsight.scoring.samples import check_unique_ids, rows_of_split
from hardsight.scoring.score import score
from hardsight.screen import brief
from hardsight.snapshot import Snapshot
from hardsight.table import TABLES, as_measured, plain, read_scores

DEFAULT_SCORES = ("avh", "angular_gap", "confidence", "loss", "entropy", "norm_in_class", "norm")
EXTRA_HARD = dict.fromkeys(("passes_entropy", "passes_aleatoric", "passes_information", "passes_variance"), "high")


@dataclass(frozen=True)
class ScoredModel:
    """A name and a scores table with extra columns; also its snapshot and run, if there are any."""

    __repr__ = brief

    name: str
    table: pa.Table
    snapshot: Snapshot | None = None
    class_names: list[str] | None = None
    directory: Path | None = None
    ordered: bool = True  # whether rows are in the order of the data
    scored: bool = True

    @property
    def splits(self) -> list[str]:
        """Names of the splits."""
        splits = self.table.column("split").to_pylist() if self.has("split") else []
        return list(dict.fromkeys(str(split) for split in splits if split is not None))

    @property
    def ids(self) -> np.ndarray:
        """(n,) strings or integers."""
        return check_ids(self.table.column("id").to_pylist(), len(self.table))

    @property
    def labels(self) -> np.ndarray:
        """(n,) class of each sample, -1 if unlabeled."""
        return np.array([-1 if label is None else label for label in self.table.column("label").to_pylist()], dtype=np.int64)

    def accuracy(self, rows: np.ndarray) -> float | None:
        """Accuracy on the labeled samples among some rows."""
        if not (self.has("label") and self.has("predicted")):
            return None
        labels, predicted = (self.table.column(name).take(rows).to_pylist() for name in ("label", "predicted"))
        right = [y == k for y, k in zip(labels, predicted, strict=True) if y is not None and k is not None]
        return float(np.mean(right)) if right else None

    def column(self, name: str) -> np.ndarray:
        """(n,) values of a numeric column; null is NaN."""
        self.check_has(name)
        try:
            return np.asarray(self.table.column(name).cast(pa.float64()).to_numpy(), dtype=np.float64)
        except pa.ArrowException as error:
            raise InputError(f"{self.name}: the column {name!r} must hold numbers: {first_line(error)}") from error

    def has(self, name: str) -> bool:
        """Whether the table has a column."""
        return name in self.table.column_names

    def check_has(self, name: str) -> None:
        """Raise an error if the table lacks a column."""
        if not self.has(name):
            known = self.table.column_names
            raise InputError(f"{self.name} has no column {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")

    @property
    def has_logits(self) -> bool:
        """Whether logits are available or can be computed."""
        return self.snapshot is not None and (self.snapshot.source.evidence != "features" or self.snapshot.head is not None)

    @property
    def num_classes(self) -> int:
        """Number of classes: the snapshot's, or else from the labels."""
        known = None if self.snapshot is None else self.snapshot.num_classes
        return known if known is not None else int(self.labels.max(initial=-1)) + 1

    def groups(self, column: str, rows: np.ndarray) -> np.ndarray:
        """(n,) values of a column as text, for some rows; labels become class names."""
        self.check_has(column)
        values = self.table.column(column).take(rows).to_pylist()
        if self.class_names is not None and column == "label":
            values = [None if label is None else self.class_names[label] for label in values]
        return np.array([str(value) for value in values], dtype=object)


def hard_end(name: str) -> str:
    """The hard end of a score, from the registry; for unknown columns, high is hard."""
    return SCORES[name].hard if name in SCORES else EXTRA_HARD.get(name, "high")


WORDS = {
    "avh": "angular visual hardness (AVH)", "angular_gap": "angular gap in radians", "loss": "cross-entropy loss",
    "confidence": "confidence in the given class", "entropy": "entropy of the prediction", "norm": "norm of the feature",
    "norm_in_class": "norm within the class", "passes_entropy": "entropy of the mean prediction",
    "passes_aleatoric": "mean entropy of a model (aleatoric)", "passes_variance": "variance over models",
    "passes_information": "mutual information over models (epistemic)",
}  # fmt: skip


def score_words(name: str) -> str:
    """The human-readable name of a score."""
    return WORDS.get(name, name.replace("_", " "))


def score_axis(name: str) -> str:
    """The name and hard end of a score, for an axis label."""
    return f"{score_words(name)}, {hard_end(name)} is hard"


def open_models(source: Any, scores: Sequence[str] | None = None, split: str | None = None) -> list[ScoredModel]:
    """Models from tables, snapshots, paths, a list of those, or a dict by name; with all samples, or one split."""
    return scored_models(load_models(source, scores), scores, split)


def load_models(source: Any, scores: Sequence[str] | None = None) -> list[ScoredModel]:
    """The same without scoring, which may be slow: if scores are not known yet, the table has only the samples."""
    named: list[tuple[Any, str | None]] = [(source, None)]
    if isinstance(source, Mapping):
        named = [(model, str(name)) for name, model in source.items()]
    elif isinstance(source, (list, tuple)):
        named = [(model, None if isinstance(model, (str, os.PathLike)) else f"model {at}") for at, model in enumerate(source)]
    if not named:
        raise InputError("there is no model: pass a run, a snapshot or a scores table.")
    return [_open(model, scores, name) for model, name in named]


def scored_models(models: list[ScoredModel], scores: Sequence[str] | None, split: str | None) -> list[ScoredModel]:
    """The models of `load_models`, scored and checked."""
    models = [model if model.scored else _scored(model, scores) for model in models]
    names = [model.name for model in models]
    if len(set(names)) < len(names):  # runs with the same name in different directories
        models = [replace(model, name=f"{model.name} ({at})") for at, model in enumerate(models)]
    return _ids_of_one_type([checked(_of_split(model, split), scores) for model in models])


def _ids_of_one_type(models: list[ScoredModel]) -> list[ScoredModel]:
    """The models with all ids as text if some have text ids: extract writes '7' where an .npz has row 7."""
    types = [pa.types.is_integer(model.table.schema.field("id").type) for model in models]
    if all(types) or not any(types):
        return models
    tables = [model.table for model in models]
    places = [table.column_names.index("id") for table in tables]
    texts = [table.set_column(i, "id", table.column("id").cast(pa.string())) for i, table in zip(places, tables, strict=True)]
    return [replace(model, table=table) for model, table in zip(models, texts, strict=True)]


def _of_split(model: ScoredModel, split: str | None) -> ScoredModel:
    """The model restricted to one split, with its snapshot in memory."""
    if split is None:
        return model
    if model.directory is not None and split not in model.splits:
        watched = _last_epoch(model.directory, split)
        if watched is not None:
            return replace(_in_order(model.name, watched), class_names=model.class_names)
    rows = rows_of_split(model.table.column("split").to_pylist() if model.has("split") else None, split, model.name)
    snapshot = None if model.snapshot is None else model.snapshot.take(rows)
    return replace(model, table=model.table.take(rows), snapshot=snapshot)


def _last_epoch(run: Path, split: str) -> pa.Table | None:
    """The last dynamics of a held-out set whose features were not kept; None if there is no such set."""
    files = moments(run) if (run / "dynamics").is_dir() else []
    table = read_moment(files[-1][1], split=split) if files else None
    return table if table is not None and len(table) else None


def _in_order(name: str, table: pa.Table) -> ScoredModel:
    """Restore the data order: dynamics are sorted by id as text, so this works if ids are the numbers 0 to n - 1."""
    rows = rows_named(table.column("id").combine_chunks())
    if rows is None or not np.array_equal(np.sort(rows), np.arange(len(rows))):
        return ScoredModel(name, table, ordered=False)
    return ScoredModel(name, table.take(np.argsort(rows)))


def _open(source: Any, scores: Sequence[str] | None, name: str | None) -> ScoredModel:
    """A model with its scores if they are already known, otherwise with its samples only."""
    if isinstance(source, ScoredModel):
        return source
    if isinstance(source, (str, os.PathLike)):
        opened = _open_path(Path(source), scores)
        opened = replace(opened, directory=Path(source)) if Path(source).is_dir() else opened
        return opened if name is None else replace(opened, name=name)
    if isinstance(source, Snapshot):
        return _samples_alone(source, name or source.name or "model")
    source = plain(source)
    if isinstance(source, pa.Table):
        return ScoredModel(name or "model", as_measured(source))
    if hasattr(source, "columns") and hasattr(source, "to_dict"):  # a pandas frame
        table, ids = pa.Table.from_pandas(source, preserve_index=False), index_ids(source)
        if ids is not None and "id" not in table.column_names:
            table = table.append_column("id", [check_ids(ids, len(table))])
        return ScoredModel(name or "model", table)
    raise InputError(f"a model is a scores table, a Snapshot or the path of one, got {type(source).__name__}.")


def _open_path(path: Path, scores: Sequence[str] | None) -> ScoredModel:
    name = Path(os.path.abspath(path)).name if path.is_dir() else path.stem  # the user's name for it, also for a link
    if path.is_dir():
        if (path / "samples").is_dir():
            snapshot = Snapshot.load(path)
            known = read_scores(path) if (path / "scores.parquet").is_file() else None
            wanted = [name for name in scores or DEFAULT_SCORES if name != "norm_in_class"]
            if known is not None and set(wanted) <= set(known.column_names) and len(known) == len(snapshot):
                return ScoredModel(name, _with_sample_columns(known, snapshot), snapshot, snapshot.class_names)
            return _samples_alone(snapshot, name)
        return ScoredModel(name, read_scores(path))
    if not path.exists():
        raise FileError(missing(path))
    if path.suffix.lower() in TABLES and kind_of(path) != "snapshot":
        return ScoredModel(name, read_scores(path))
    return _samples_alone(Snapshot.load(path), name)


def _samples_alone(snapshot: Snapshot, name: str) -> ScoredModel:
    return ScoredModel(name, snapshot.columns(), snapshot, snapshot.class_names, scored=False)


def _scored(model: ScoredModel, scores: Sequence[str] | None) -> ScoredModel:
    """A snapshot scored with the requested scores, or with every row score."""
    assert model.snapshot is not None
    known = None if scores is None else [score for score in scores if score in SCORES]
    table = score(model.snapshot, scores=known) if known is None or known else score(model.snapshot, scores=None)
    return replace(model, table=_with_sample_columns(table.table, model.snapshot), scored=True)


def _with_sample_columns(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """The table with the other columns of each sample (path, split, level, ...), in the same order."""
    samples = snapshot.columns()
    if not samples.column("id").equals(table.column("id")):
        raise InputError(f"{snapshot.name}: its scores.parquet is of other samples; score it again.")
    for name in samples.column_names:
        if name not in table.column_names:
            table = table.append_column(name, samples.column(name))
    return table


def checked(model: ScoredModel, scores: Sequence[str] | None) -> ScoredModel:
    """The model, with ids checked to be unique and `norm_in_class` added if it can be computed."""
    table = model.table
    if "id" not in table.column_names:
        table = table.append_column("id", pa.array(np.arange(len(table))))
    ids = check_ids(table.column("id").to_pylist(), len(table))
    if len(ids) == 0:
        raise InputError(f"{model.name} has no samples.")
    check_unique_ids(ids.tolist(), model.name)
    model = replace(model, table=_with_base_ids(table))
    if not model.has("norm_in_class") and model.has("norm") and model.has("label"):
        column = pa.array(norm_in_class(model.column("norm")[:, None], model.labels))
        model = replace(model, table=model.table.append_column("norm_in_class", column))
    for name in scores or ():
        if not model.has(name):
            known = [name for name in model.table.column_names if name in SCORES or name in EXTRA_HARD]
            raise InputError(f"{model.name} has no score {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")
    return model


def _with_base_ids(table: pa.Table) -> pa.Table:
    """Fill in base ids: an image that is not a degraded copy is its own base; without copies, nothing changes."""
    if "base_id" not in table.column_names:
        return table
    base = table.column("base_id")
    if base.null_count == len(base):
        return table.drop_columns(["base_id"])
    place = table.column_names.index("base_id")
    return table.set_column(place, "base_id", pc.coalesce(base.cast(pa.string()), table.column("id").cast(pa.string())))
