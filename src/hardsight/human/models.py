"""The models to compare: each is a Snapshot with a name, and with its scores among its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import softmax

from hardsight.checks import check_unique, to_numpy
from hardsight.errors import FileError, InputError, did_you_mean, first_line
from hardsight.files.epochs import moments, read_moment, rows_named
from hardsight.files.npy import open_npy
from hardsight.human.settings import CorrelateSettings
from hardsight.scores import SCORES, norm_in_class
from hardsight.scores.probabilities import probs_to_logits
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.stats.uncertainty import Passes, pass_scores

DEFAULT_SCORES = ("avh", "angular_gap", "confidence", "loss", "entropy", "norm_in_class", "norm")
COMPUTED = tuple(name for name in DEFAULT_SCORES if name != "norm_in_class")  # which follows from the norm
WORDS = {
    "avh": "angular visual hardness (AVH)", "angular_gap": "angular gap in radians", "loss": "cross-entropy loss",
    "confidence": "confidence in the given class", "entropy": "entropy of the prediction", "norm": "norm of the feature",
    "norm_in_class": "norm within the class", "passes_entropy": "entropy of the mean prediction",
    "passes_aleatoric": "mean entropy of a model (aleatoric)", "passes_variance": "variance over models",
    "passes_information": "mutual information over models (epistemic)",
}  # fmt: skip


def hard_end(name: str) -> str:
    """The hard end of a score, from the registry; for other columns, high is hard."""
    return SCORES[name].hard if name in SCORES else "high"


def score_words(name: str) -> str:
    """The human-readable name of a score."""
    return WORDS.get(name, name.replace("_", " "))


# ---- opened ----


def open_models(x: Any, settings: CorrelateSettings) -> list[Snapshot]:
    """Models from anything that a snapshot opens, from a list of such, or a dict by name. Nothing is scored yet."""
    named: list[tuple[Any, str | None]] = [(x, None)]
    if isinstance(x, Mapping):
        named = [(model, str(name)) for name, model in x.items()]
    elif isinstance(x, (list, tuple)):
        named = [(model, None if _is_path(model) else f"model {number}") for number, model in enumerate(x)]
    if not named:
        raise InputError("there is no model: pass a run, a snapshot or a scores table.")
    models = [_open(model, name, settings) for model, name in named]
    names = [model.where for model in models]
    if len(set(names)) < len(names):  # runs with the same name in different directories
        models = [model.with_columns({}, f"{model.name} ({number})") for number, model in enumerate(models)]
    return models


def _open(source: Any, name: str | None, settings: CorrelateSettings) -> Snapshot:
    """One model; ids are proven unique later, because two splits may share some."""
    given = {key: value for key, value in settings.keywords().items() if key != "class_names"}
    model = Snapshot.open(source, by=settings.compared, **{**given, "allow_duplicates": True})
    if _is_path(source):
        path = Path(os.path.abspath(source))  # the user's name for it, also for a link
        name = name or (path.name if path.is_dir() else path.stem)
    return model.with_columns({}, name or model.name or "model")


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def of_split(model: Snapshot, split: str | None, in_order: bool) -> Snapshot:
    """The samples of one split; those of a watched set whose features were not kept are in the last epoch of the dynamics.

    `in_order` says whether the order of the samples matters, because human data are joined by position.
    """
    if split is not None and model.run is not None and split not in splits_of(model):
        files = moments(model.run) if (model.run / "dynamics").is_dir() else []
        watched = read_moment(files[-1][1], split=split) if files else ()
        if len(watched):
            return _in_order(watched, model, in_order)
    return model.of_split(split)


def _in_order(table: pa.Table, model: Snapshot, in_order: bool) -> Snapshot:
    """Restore the order of the data: dynamics are sorted by id as text, so this works if ids are the numbers 0 to n - 1."""
    rows = rows_named(table.column("id").combine_chunks())
    if rows is not None and np.array_equal(np.sort(rows), np.arange(len(rows))):
        table = table.take(np.argsort(rows))
    elif in_order:
        raise InputError(f"the samples of {model.name} are in no defined order; pass human data with ids.")
    return Snapshot.open(table, class_names=model.class_names, allow_duplicates=True).with_columns({}, model.name)


def ids_of_one_type(models: list[Snapshot]) -> list[Snapshot]:
    """The models with all ids as text if some have text ids: extract writes '7' where an .npz has row 7."""
    ids = [model.columns(["id"]).column(0) for model in models]
    if len({pa.types.is_integer(column.type) for column in ids}) == 1:
        return models
    return [model.with_columns({"id": column.cast(pa.string())}) for model, column in zip(models, ids, strict=True)]


# ---- scored ----


def with_scores(model: Snapshot, settings: CorrelateSettings) -> Snapshot:
    """The model with the scores to compare among its columns: read where they are stored, otherwise computed."""
    if len(model) == 0:
        raise InputError(f"{model.name} has no samples.")
    if not settings.allow_duplicates:
        check_unique(model.ids, model.where)
    if model.source.evidence != SCORES_ALONE:
        asked = [name for name in settings.scores or () if name in SCORES] or _computable(model)
        if settings.against is not None and settings.against in SCORES:
            asked = list(dict.fromkeys([*asked, settings.against]))
        table = model.scores(asked)
        model = model.with_columns({name: table.column(name) for name in table.column_names if name not in ("id", "label")})
    labeled = model.source.labeled or model.source.evidence != SCORES_ALONE
    if "norm_in_class" not in model.column_names and "norm" in model.column_names and labeled:
        column = norm_in_class(numbers_of(model, "norm")[:, None], model.labels)
        model = model.with_columns({"norm_in_class": pa.array(column)})
    for name in settings.scores or ():
        if name not in model.column_names:
            known = [column for column in model.column_names if column in SCORES or column.startswith("passes_")]
            raise InputError(f"{model.name} has no score {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")
    return model


def _computable(model: Snapshot) -> list[str]:
    """The scores that follow from what the model has: features, logits or probabilities."""
    evidence = model.source.evidence
    if evidence == "features":
        return list(COMPUTED)
    of_logits = [name for name in COMPUTED if SCORES[name].from_logits()]
    return of_logits if evidence == "logits" else [name for name in of_logits if not SCORES[name].needs_logits]


# ---- what the analyses ask of a model ----


def numbers_of(model: Snapshot, name: str) -> np.ndarray:
    """(n,) float64 values of a column; null is NaN."""
    column = model.columns([name]).column(0)
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowException as error:
        raise InputError(f"{model.name}: the column {name!r} must hold numbers: {first_line(error)}") from error


def words_of(model: Snapshot, name: str) -> list[str | None]:
    """(n,) values of a column as text, None for null; class numbers become class names if they are known."""
    values = model.columns([name]).column(0).to_pylist()
    names = model.class_names if name in ("label", "predicted") else None
    return [None if value is None else str(value) if names is None else names[value] for value in values]


def splits_of(model: Snapshot) -> list[str]:
    """Names of the splits, in order of appearance."""
    splits = model.splits
    return [] if splits is None else list(dict.fromkeys(str(split) for split in splits if split is not None))


def base_ids(model: Snapshot) -> list[str] | None:
    """(n,) the image that each sample is a degraded copy of, itself if it is none; None if there are no copies."""
    if "base_id" not in model.column_names:
        return None
    columns = model.columns(["base_id", "id"])
    if columns.column("base_id").null_count == len(model):
        return None
    base, ids = (columns.column(name).cast(pa.string()) for name in ("base_id", "id"))
    return pc.coalesce(base, ids).to_pylist()


def accuracy_of(model: Snapshot, rows: np.ndarray) -> float | None:
    """Accuracy on the labeled samples among some rows; None if it is unknown."""
    if "predicted" not in model.column_names:
        return None
    both = model.columns(["label", "predicted"]).take(rows)
    right = pc.mean(pc.equal(both.column("label"), both.column("predicted")).cast(pa.float64())).as_py()
    return None if right is None else float(right)


def has_logits(model: Snapshot) -> bool:
    """Whether logits are known or can be computed."""
    return model.head is not None or model.source.evidence in ("logits", "probs")


# ---- logits, several passes and ensembles ----


def all_logits(model: Snapshot, purpose: str) -> np.ndarray:
    """(n, c) float32 logits of every row; NaN for rows without features."""
    evidence, head = model.source.evidence, model.head
    if evidence == SCORES_ALONE:
        raise InputError(f"{purpose} needs logits: pass a run or a snapshot, not a table of scores.")
    if evidence == "features" and head is None:
        raise InputError(f"{purpose} needs a head: {model.where} has only features.")
    parts = [np.zeros((0, model.num_classes or 0), np.float32)]
    for batch in model.batches():
        values = batch.values if head is None else head.logits(batch.values)
        parts.append(to_numpy(probs_to_logits(values) if evidence == "probs" else values).astype(np.float32))
    return np.concatenate(parts)


def rows_by_id(other: Snapshot, model: Snapshot) -> np.ndarray:
    """(n,) the other's row for each sample of the model; an error if it lacks one."""
    wanted, ids = (each.columns(["id"]).column(0).cast(pa.string()).combine_chunks() for each in (model, other))
    rows = pc.index_in(wanted, value_set=ids)
    if rows.null_count:
        absent = wanted.filter(rows.is_null()).to_pylist()
        raise InputError(
            f"{len(absent)} of the {len(wanted)} samples of {model.where} are not in {other.where}, whose ids look like "
            f"{ids[0].as_py()!r}; the first is {min(absent)!r}."
        )
    return np.asarray(rows, np.int64)


def with_passes(model: Snapshot, passes: Any) -> Snapshot:
    """The model with the uncertainty from several passes (MC dropout, an ensemble) over its samples as further columns.

    Args:
        model: the model whose samples they are.
        passes: (passes, n, c) probabilities, the .npy file of them, a list of at least two snapshots or their paths, or
            a directory of snapshots, such as run/passes of `extract --passes`: its dropout draws, or all if there are none.
    """
    if isinstance(passes, (list, tuple)) and len(passes) == 1 and isinstance(passes[0], (str, os.PathLike)):
        passes = passes[0]
    if isinstance(passes, (str, os.PathLike)):
        path = Path(passes)
        passes = _below(path) if path.suffix.lower() != ".npy" else np.asarray(open_npy(path))
    if isinstance(passes, (list, tuple)) and not any(isinstance(member, np.ndarray) for member in passes):
        scores = _of_snapshots(passes, model)
    else:
        probs = np.asarray(to_numpy(passes))
        if probs.ndim == 3 and probs.shape[1] != len(model):
            raise InputError(f"passes are over {probs.shape[1]} samples, {model.name} has {len(model)}.")
        scores = pass_scores(probs)
    return model.with_columns({name: pa.array(column) for name, column in scores.items()})


def _below(path: Path) -> list[Path]:
    """The snapshots in a directory, by name; a snapshot's own path gives just that one.

    Dropout draws are samples of one posterior. The mirrored view that may lie beside them is not, and is left out.
    """
    if not path.is_dir() or (path / "start.json").exists() or (path / "samples").exists():
        return [path]
    runs = sorted(each for each in path.iterdir() if (each / "run.json").is_file())
    if not runs:
        raise FileError(f"{path} holds no snapshots: pass the passes/ of a run of extract --passes, or several --passes.")
    return [each for each in runs if each.name.startswith("dropout-")] or runs


def _of_snapshots(passes: Sequence[Any], model: Snapshot) -> dict[str, np.ndarray]:
    """Scores from snapshots of the model's samples, one in memory at a time; they may also hold other samples."""
    seen = Passes()
    for source in passes:
        snapshot = Snapshot.open(source)
        probs = softmax(all_logits(snapshot, "a pass"), axis=1)[rows_by_id(snapshot, model)]  # (n, c)
        if seen.count and probs.shape != seen.mean.shape:
            raise InputError(f"{snapshot.where}: {probs.shape[1]} classes, where the first has {seen.mean.shape[1]}.")
        seen.add(probs)
    return seen.scores()


def ensemble(models: Sequence[Snapshot]) -> tuple[Snapshot | None, str]:
    """Several models of the same samples as an ensemble: mean prediction and disagreement. Or None, and why there is none."""
    first = models[0]
    try:
        probs = np.stack([_probs_of_the_same(model, first) for model in models])  # (models, n, c)
    except InputError as error:
        return None, f"no ensemble: {error}"
    mean, labels = probs.mean(0), first.labels  # (n, c), (n,)
    own = np.where(labels >= 0, mean[np.arange(len(mean)), np.maximum(labels, 0)], np.nan)
    table = first.columns([name for name in ("id", "label", "base_id", "degradation", "level") if name in first.column_names])
    columns = {"predicted": mean.argmax(1), "confidence": own, **pass_scores(probs)}
    for name, column in columns.items():
        table = table.append_column(name, [column])
    return Snapshot.open(table, class_names=first.class_names, allow_duplicates=True).with_columns({}, "ensemble"), ""


def _probs_of_the_same(model: Snapshot, first: Snapshot) -> np.ndarray:
    """(n, c) the model's probabilities in the order of the first model's samples; an error if the samples differ."""
    if not has_logits(model):
        raise InputError(f"{model.name} has no logits; pass runs or snapshots, not tables of scores.")
    if model.num_classes != first.num_classes:
        raise InputError(f"{model.name} has {model.num_classes} classes, {first.name} has {first.num_classes}.")
    rows = rows_by_id(model, first)
    rows_by_id(first, model)  # no sample is only in this one
    probs = softmax(all_logits(model, "an ensemble"), axis=1)[rows]
    if not np.isfinite(probs).all():
        raise InputError(f"{model.name} has samples without finite logits.")
    return np.asarray(probs)
