"""One or several models to compare: each is a scores table, with its snapshot where the input has one."""

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
from hardsight.files.dynamics import moments, read_moment, rows_named
from hardsight.files.kinds import kind_of
from hardsight.files.places import missing
from hardsight.pandas_index import index_ids
from hardsight.scores import SCORES, norm_in_class
from hardsight.scoring.job import score
from hardsight.screen import brief
from hardsight.snapshot import Snapshot
from hardsight.table import TABLES, as_measured, plain, read_scores

DEFAULT_SCORES = ("avh", "angular_gap", "confidence", "loss", "entropy", "norm_in_class", "norm")
EXTRA_HARD = dict.fromkeys(("passes_entropy", "passes_aleatoric", "passes_information", "passes_variance"), "high")


@dataclass(frozen=True)
class ScoredModel:
    """A name and a scores table with further columns; the snapshot behind it and its run, if there are."""

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
        """Names of the splits there are."""
        splits = self.table.column("split").to_pylist() if self.has("split") else []
        return list(dict.fromkeys(str(split) for split in splits if split is not None))

    @property
    def ids(self) -> np.ndarray:
        """(n,) strings or integers."""
        return check_ids(self.table.column("id").to_pylist(), len(self.table))

    @property
    def labels(self) -> np.ndarray:
        """(n,) class of each sample, -1 where it has none."""
        return np.array([-1 if label is None else label for label in self.table.column("label").to_pylist()], dtype=np.int64)

    def accuracy(self, rows: np.ndarray) -> float | None:
        """Share of the labeled samples among some rows that are predicted right."""
        if not (self.has("label") and self.has("predicted")):
            return None
        labels, predicted = (self.table.column(name).take(rows).to_pylist() for name in ("label", "predicted"))
        right = [y == k for y, k in zip(labels, predicted, strict=True) if y is not None and k is not None]
        return float(np.mean(right)) if right else None

    def column(self, name: str) -> np.ndarray:
        """(n,) numbers of a column; null is NaN."""
        self.check_has(name)
        try:
            return np.asarray(self.table.column(name).cast(pa.float64()).to_numpy(), dtype=np.float64)
        except pa.ArrowException as error:
            raise InputError(f"{self.name}: the column {name!r} must hold numbers: {first_line(error)}") from error

    def has(self, name: str) -> bool:
        """Whether its table has a column."""
        return name in self.table.column_names

    def check_has(self, name: str) -> None:
        """Refuse a column that its table lacks."""
        if not self.has(name):
            known = self.table.column_names
            raise InputError(f"{self.name} has no column {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")

    @property
    def has_logits(self) -> bool:
        """Whether logits are known or can be computed."""
        return self.snapshot is not None and (self.snapshot.source.evidence != "features" or self.snapshot.head is not None)

    @property
    def num_classes(self) -> int:
        """Number of classes: the snapshot's, or else by the labels."""
        known = None if self.snapshot is None else self.snapshot.num_classes
        return known if known is not None else int(self.labels.max(initial=-1)) + 1

    def groups(self, column: str, rows: np.ndarray) -> np.ndarray:
        """(n,) value of a column as text, for some rows; a label by its class name."""
        self.check_has(column)
        values = self.table.column(column).take(rows).to_pylist()
        if self.class_names is not None and column == "label":
            values = [None if label is None else self.class_names[label] for label in values]
        return np.array([str(value) for value in values], dtype=object)


def hard_end(name: str) -> str:
    """At which end a sample is hard: as the registry says; a column we do not know is hard where it is high."""
    return SCORES[name].hard if name in SCORES else EXTRA_HARD.get(name, "high")


WORDS = {
    "avh": "angular visual hardness (AVH)", "angular_gap": "angular gap in radians", "loss": "cross-entropy loss",
    "confidence": "confidence in the given class", "entropy": "entropy of the prediction", "norm": "norm of the feature",
    "norm_in_class": "norm within the class", "passes_entropy": "entropy of the mean prediction",
    "passes_aleatoric": "mean entropy of a model (aleatoric)", "passes_variance": "variance over models",
    "passes_information": "mutual information over models (epistemic)",
}  # fmt: skip


def score_words(name: str) -> str:
    """A score as a person would call it."""
    return WORDS.get(name, name.replace("_", " "))


def score_axis(name: str) -> str:
    """What a score is and which end is hard, for an axis of a figure."""
    return f"{score_words(name)}, {hard_end(name)} is hard"


def open_models(source: Any, scores: Sequence[str] | None = None, split: str | None = None) -> list[ScoredModel]:
    """Models from tables, snapshots, paths, a list of those, or a dict of them by name; of all samples, or of one split."""
    return scored_models(load_models(source, scores), scores, split)


def load_models(source: Any, scores: Sequence[str] | None = None) -> list[ScoredModel]:
    """The same before anything is scored, which may take long: where scores are not known, a table has the samples alone."""
    named: list[tuple[Any, str | None]] = [(source, None)]
    if isinstance(source, Mapping):
        named = [(model, str(name)) for name, model in source.items()]
    elif isinstance(source, (list, tuple)):
        named = [(model, None if isinstance(model, (str, os.PathLike)) else f"model {at}") for at, model in enumerate(source)]
    if not named:
        raise InputError("there is no model: give a run, a snapshot or a scores table.")
    return [_open(model, scores, name) for model, name in named]


def scored_models(models: list[ScoredModel], scores: Sequence[str] | None, split: str | None) -> list[ScoredModel]:
    """What `load_models` gave, scored and checked."""
    models = [model if model.scored else _scored(model, scores) for model in models]
    names = [model.name for model in models]
    if len(set(names)) < len(names):  # runs of the same name in other directories
        models = [replace(model, name=f"{model.name} ({at})") for at, model in enumerate(models)]
    return _ids_of_one_type([checked(_of_split(model, split), scores) for model in models])


def _ids_of_one_type(models: list[ScoredModel]) -> list[ScoredModel]:
    """The models with all ids as text where only some have text: extract writes '7' where an .npz has row 7."""
    types = [pa.types.is_integer(model.table.schema.field("id").type) for model in models]
    if all(types) or not any(types):
        return models
    tables = [model.table for model in models]
    at = [table.column_names.index("id") for table in tables]
    texts = [table.set_column(i, "id", table.column("id").cast(pa.string())) for i, table in zip(at, tables, strict=True)]
    return [replace(model, table=table) for model, table in zip(models, texts, strict=True)]


def _of_split(model: ScoredModel, split: str | None) -> ScoredModel:
    """The model of one split's samples, its snapshot in memory."""
    if split is None:
        return model
    if model.directory is not None and split not in model.splits:
        watched = _last_epoch(model.directory, split)
        if watched is not None:
            return replace(_in_order(model.name, watched), class_names=model.class_names)
    if not model.has("split"):
        raise InputError(f"{model.name} has no column 'split' to choose {split!r} from.")
    rows = np.flatnonzero([name == split for name in model.table.column("split").to_pylist()])
    if len(rows) == 0:
        raise InputError(
            f"{model.name} has no sample of the split {split!r}; its splits are {', '.join(model.splits) or 'none'}."
        )
    snapshot = None if model.snapshot is None else model.snapshot.take(rows)
    return replace(model, table=model.table.take(rows), snapshot=snapshot)


def _last_epoch(run: Path, split: str) -> pa.Table | None:
    """What a training last saw of a watched set whose features it did not keep; None if it saw nothing of that name."""
    files = moments(run) if (run / "dynamics").is_dir() else []
    table = read_moment(files[-1][1], split=split) if files else None
    return table if table is not None and len(table) else None


def _in_order(name: str, table: pa.Table) -> ScoredModel:
    """Dynamics are sorted by the text of their ids: in the order of the data again, where ids are numbers from 0 on."""
    rows = rows_named(table.column("id").combine_chunks())
    if rows is None or not np.array_equal(np.sort(rows), np.arange(len(rows))):
        return ScoredModel(name, table, ordered=False)
    return ScoredModel(name, table.take(np.argsort(rows)))


def _open(source: Any, scores: Sequence[str] | None, name: str | None) -> ScoredModel:
    """A model with its scores where these are known already, else with its samples alone."""
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
    name = Path(os.path.abspath(path)).name if path.is_dir() else path.stem  # as the user calls it, also of a link
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
    """A snapshot, scored: by the names asked for, or by every row score."""
    assert model.snapshot is not None
    known = None if scores is None else [score for score in scores if score in SCORES]
    table = score(model.snapshot, scores=known) if known is None or known else score(model.snapshot, scores=None)
    return replace(model, table=_with_sample_columns(table.arrow, model.snapshot), scored=True)


def _with_sample_columns(table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """The table with what else is known of each sample: path, split, level, ... in the same order."""
    samples = snapshot.columns()
    if not samples.column("id").equals(table.column("id")):
        raise InputError(f"{snapshot.name}: its scores.parquet is of other samples; score it again.")
    for name in samples.column_names:
        if name not in table.column_names:
            table = table.append_column(name, samples.column(name))
    return table


def checked(model: ScoredModel, scores: Sequence[str] | None) -> ScoredModel:
    """The model with ids that are unique and with the norm within its class, where it can be computed."""
    table = model.table
    if "id" not in table.column_names:
        table = table.append_column("id", pa.array(np.arange(len(table))))
    ids = check_ids(table.column("id").to_pylist(), len(table))
    if len(ids) == 0:
        raise InputError(f"{model.name} has no samples.")
    seen: dict[Any, int] = {}
    for row, sample in enumerate(ids.tolist()):
        if seen.setdefault(sample, row) != row:
            raise InputError(f"{model.name}: ids must be unique, but {sample!r} is at rows {seen[sample]} and {row}.")
    model = replace(model, table=_with_base_ids(table))
    if not model.has("norm_in_class") and model.has("norm") and model.has("label"):
        column = pa.array(norm_in_class(model.column("norm")[:, None], model.labels))
        model = replace(model, table=model.table.append_column("norm_in_class", column))
    for name in scores or ():
        if not model.has(name):
            known = score_names(model)
            raise InputError(f"{model.name} has no score {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")
    return model


def _with_base_ids(table: pa.Table) -> pa.Table:
    """An image that is no degraded copy is its own base; where there are no copies, there is nothing to say."""
    if "base_id" not in table.column_names:
        return table
    base = table.column("base_id")
    if base.null_count == len(base):
        return table.drop_columns(["base_id"])
    at = table.column_names.index("base_id")
    return table.set_column(at, "base_id", pc.coalesce(base.cast(pa.string()), table.column("id").cast(pa.string())))


def score_names(model: ScoredModel) -> list[str]:
    """Columns that are scores."""
    return [name for name in model.table.column_names if name in SCORES or name in EXTRA_HARD]
