"""Labels in a file of their own, of images and of snapshots alike.

.csv, .tsv, .parquet   columns `label` and `id` (or `path`): joined by id
.npy                   one label per sample, in the order of the samples
text                   one label per line, in their order; or `id label`: joined by id
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.errors import InputError
from hardsight.files.npy import open_npy
from hardsight.files.places import TABLE_ENDINGS
from hardsight.files.reading import reading
from hardsight.files.table_files import read_columns
from hardsight.labels import Written

Pairs = list[tuple[str, Any]]


def labels_in(
    file: Path, ids: Sequence[str], class_names: Sequence[str] | None,
    paths: Sequence[str] | None = None, listed: Callable[[Path], Pairs] | None = None,
) -> tuple[Any, tuple[str, ...]]:  # fmt: skip
    """(n,) labels of all samples, None where the file has none of a sample, and a note of how many these are.

    Args:
        ids, paths: of the samples; either may stand in the file.
        class_names: the names of the classes, if they are known.
        listed: reads a text file with several words in a line. Default: the last is the label.
    """
    paths = ids if paths is None else paths
    if file.suffix.lower() in TABLE_ENDINGS:
        columns = read_columns(file)
        key = "id" if "id" in columns else "path"
        if key not in columns or "label" not in columns:
            raise InputError(f"{file}: labels need columns `label` and `id` (or `path`), got {', '.join(columns)}.")
        label = (
            "label_name" if names_among(columns.get("label_name", ()), class_names) else "label"
        )  # `clean --apply` writes both
        labels, notes = _joined(file, list(zip(map(str, columns[key]), columns[label], strict=True)), ids, paths)
        return labels if file.suffix.lower() == ".parquet" else Written(labels), notes
    if file.suffix.lower() == ".npy":
        values: Any = np.asarray(open_npy(file))
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    else:
        with reading(file, "not a readable text file"):
            values = Written(line.strip() for line in file.read_text("utf-8-sig", "surrogateescape").splitlines() if line.strip())
        pairs = [(*line.rsplit(None, 1), None)[:2] for line in values]
        if any(label is not None for _, label in pairs):
            labels, notes = _joined(file, pairs if listed is None else listed(file), ids, paths)
            return Written(labels), notes
    if len(values) != len(ids):
        raise InputError(f"{file}: labels are in the order of the samples, got {len(values)} labels for {len(ids)} samples.")
    return values, ()


def names_among(values: Iterable[Any], class_names: Sequence[str] | None) -> Sequence[str] | None:
    """The class names, if all values are among them: they stay, also those that no sample has now."""
    held, names = [value for value in values if value is not None], set(class_names or ())
    return class_names if held and all(isinstance(value, str) and value in names for value in held) else None


def _joined(file: Path, pairs: Pairs, ids: Sequence[str], paths: Sequence[str]) -> tuple[list[Any], tuple[str, ...]]:
    """The label of each sample, None for those that the file does not have, and a note of how many these are."""
    labels: dict[str, Any] = {}
    for id, label in pairs:
        if labels.setdefault(id, label) != label:
            raise InputError(f"{file}: there must be one label per id, but {id!r} has {labels[id]!r} and {label!r}.")
    absent = [id for id, path in zip(ids, paths, strict=True) if id not in labels and path not in labels]
    if absent and len(absent) == len(ids):
        raise InputError(
            f"{file}: none of its rows is in the data, whose ids look like {ids[0]!r}; "
            f"its own look like {next(iter(labels), '')!r}."
        )
    notes = (f"{file} has no label for {len(absent)} of {len(ids)} samples, such as {absent[0]!r}: unlabeled.",) if absent else ()
    return [labels.get(id, labels.get(path)) for id, path in zip(ids, paths, strict=True)], notes
