"""The results of a training in its run: the model, its head and a snapshot of the data.

model/model.safetensors, model/config.json    images to logits: `hardsight extract run/ DATA` reads it
head.safetensors                              the head alone
loss.safetensors                              what the loss has beside it: centers, ALDR's lambdas, a second head
samples/part-00000.parquet ...                features of every sample, by the trained network, nothing augmented
errors.parquet                                samples that could not be read
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.extraction.feed import Inputs
from hardsight.files.heads import load_head, save_head, write_safetensors
from hardsight.files.run import read_manifest
from hardsight.files.samples import OWN_COLUMNS, rows_per_part, write_samples
from hardsight.files.writing import write_json
from hardsight.head import Head
from hardsight.result import RunResult
from hardsight.screen import Progress, Say, Sentence, ShownTable, line, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.training.objective import Objective
    from hardsight.training.trainee import TrainedNetwork

RowsAndFeatures = tuple[np.ndarray, np.ndarray]  # (b,) and (b, d)
FeaturesOf = Callable[[Inputs, range], Iterable[RowsAndFeatures]]  # some rows of a set, batch by batch


def write_model(directory: Path, network: TrainedNetwork) -> list[Path]:
    """model/ and head.safetensors in a directory: `open_model` opens it."""
    folder = directory / "model"
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", network.state)
    write_json(folder / "config.json", network.config)
    save_head(directory / "head.safetensors", network.head, network.config.get("class_names"))
    return [folder / "model.safetensors", folder / "config.json", directory / "head.safetensors"]


def write_loss(directory: Path, objective: Objective) -> list[Path]:
    """loss.safetensors, if the loss has anything beside its head."""
    kept = objective.loss.extra_state()
    if not kept:
        return []
    write_safetensors(directory / "loss.safetensors", kept)
    return [directory / "loss.safetensors"]


def write_snapshot(
    folder: Path, sets: dict[str, Inputs], features_of: FeaturesOf, num_features: int, say: Say, tell: Progress
) -> list[Path]:
    """samples/part-00000.parquet ..., the snapshot of all sets; several processes write a part each in turn."""
    from hardsight.dynamics.gathering import num_processes, rank  # torch, which reading a run does not need

    parts = parts_of(sets, num_features)
    written_sets = dict.fromkeys(name for name, _ in parts)
    left_out = [name for name in sets if name not in written_sets]
    if left_out:
        say(f"the snapshot leaves out {', '.join(left_out)}, whose ids are those of another set")
    folder.mkdir(exist_ok=True)
    types = column_types(sets[name] for name in written_sets)
    paths = [folder / f"part-{number:05d}.parquet" for number in range(len(parts))]
    for number, (name, rows) in enumerate(parts):
        tell(number, len(parts), "features of every sample")
        if number % num_processes() == rank():
            write_part(paths[number], name, sets[name], features_of(sets[name], rows), num_features, types)
    return paths


def parts_of(sets: dict[str, Inputs], num_features: int) -> list[tuple[str, range]]:
    """The snapshot's parts: which rows of which set each holds. Sets whose ids are taken by one before are left out."""
    size = rows_per_part(num_features)
    taken: set[str] = set()
    parts = []
    for name, inputs in sets.items():
        if taken.isdisjoint(inputs.ids):
            taken.update(inputs.ids)
            parts += [(name, range(start, min(start + size, len(inputs)))) for start in range(0, len(inputs), size)]
    return parts


def column_types(sets: Iterable[Inputs]) -> dict[str, pa.DataType]:
    """The columns that the data brought, and one type for each in all parts: of numbers and text together it is text."""
    types: dict[str, pa.DataType] = {}
    for inputs in sets:
        for name, values in inputs.columns.items():
            if name not in OWN_COLUMNS:
                types[name] = _common(types.get(name, pa.null()), _arrow(values).type)
    return types


def _common(*kinds: pa.DataType) -> pa.DataType:
    try:
        schemas = [pa.schema([("", kind)]) for kind in kinds]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        return pa.string()


def _arrow(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array:
    """A column; values of several kinds become text."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def write_part(
    path: Path, name: str, inputs: Inputs, features_of: Iterable[RowsAndFeatures], num_features: int,
    types: dict[str, pa.DataType],
) -> None:  # fmt: skip
    """One part of the snapshot: the features of some rows of the set of that name, with the columns that the data brought."""
    nothing = np.zeros(0, np.int64), np.zeros((0, num_features), np.float32)
    rows, matrix = (np.concatenate(parts) for parts in zip(*(list(features_of) or [nothing]), strict=True))
    columns: dict[str, Any] = {"id": pa.array([inputs.ids[row] for row in rows], pa.string()), "label": inputs.labels[rows]}
    columns |= {key: [column[row] for row in rows] for key, column in inputs.columns.items() if key in OWN_COLUMNS}
    columns["split"] = [name] * len(rows)
    for key, kind in types.items():
        column = inputs.columns.get(key)
        columns[key] = pa.nulls(len(rows), kind) if column is None else _arrow([column[row] for row in rows], kind)
    write_samples(path, matrix, columns)


# ---- the result, read from the run ----


class Trained(RunResult):
    """A finished training.

    Attributes:
        table: a row per epoch and set: split, epoch, lr, n, accuracy, and means of avh, norm and loss.
        run: its directory.
        head: what the trained network predicts with.
        history: one entry per epoch: {"epoch": 1, "lr": ..., "train": {"accuracy": ..., "avh": ..., ...}, "test": ...}.
        notes: what was found in the data, one sentence each.
    """

    files, by = ("epochs",), "epoch"
    shown = ("split", "epoch", "accuracy", "loss", "avh", "norm")

    def __init__(self, run: Path, head: Head, history: list[dict[str, Any]], notes: Sequence[str] = ()) -> None:
        rows = [
            {"split": split, "epoch": entry["epoch"], "lr": entry["lr"], **means}
            for entry in history
            for split, means in entry.items()
            if isinstance(means, dict)
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        super().__init__(run, {"epochs": pa.table({name: [row.get(name) for row in rows] for name in names})}, notes)
        self.head, self.history = head, history

    @property
    def summary(self) -> dict[str, Any]:
        """The last epoch: {"epoch": 10, "train": {"accuracy": ..., ...}, "test": ...}."""
        return dict(self.history[-1]) if self.history else {}

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """How many epochs, and the accuracy of each set after the last one."""
        sets = {name: means for name, means in self.summary.items() if isinstance(means, dict)}
        reached = [f"{name} accuracy {percent(means.get('accuracy'))} %" for name, means in sets.items()]
        yield line(f"{len(self.history)} epoch{'s' * (len(self.history) != 1)}: {', '.join(reached)}", **self.summary)

    def figures(self) -> dict[str, Figure]:
        """Mean norm, AVH, accuracy and confidence of each set over the epochs."""
        from hardsight.dynamics.curves import read_curves
        from hardsight.render.dynamics import curves_figure

        columns = ("norm", "avh", "correct", "confidence")
        splits = dict.fromkeys(self.table["split"].to_pylist()) if self.history else {}
        return {split: curves_figure(read_curves(self.run, split=split), columns, title=split) for split in splits}


def read_trained(directory: Path, notes: Sequence[str] = ()) -> Trained:
    """A finished training from its run directory."""
    head, _ = load_head(directory / "head.safetensors")
    return Trained(directory, head, read_manifest(directory)["counts"]["history"], notes)
