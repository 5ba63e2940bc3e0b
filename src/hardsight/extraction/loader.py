"""Run a user's own loader or dataset through a model: anything that yields (images, labels), batched or one at a time.

Nothing is decoded here; images are arrays or tensors that are ready for the model. With a run directory each part is
written as soon as it is full, so that the features of a large loader are never all in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.checks import check_labels, to_numpy
from hardsight.errors import InputError, RunError
from hardsight.extraction.feed import stack
from hardsight.extraction.parts import class_names_metadata
from hardsight.extraction.settings import ExtractSettings
from hardsight.files.class_names import given_class_names
from hardsight.files.heads import save_head
from hardsight.files.places import place_on_disk
from hardsight.files.run import Run
from hardsight.files.samples import rows_per_part, write_samples
from hardsight.labels import class_numbers, names_in
from hardsight.models import Model
from hardsight.snapshot import Snapshot

COMMAND = "hardsight.extract"
Rows = tuple[np.ndarray, np.ndarray]  # (b, d) features and (b,) labels


def extract_loader(
    model: Model, loader: Iterable[Any], output: str | os.PathLike[str] | None, settings: ExtractSettings
) -> Snapshot:
    """The loader's snapshot: in memory, or in the run directory `output`. Ids are row numbers."""
    split, names = settings.split, given_class_names(settings.class_names)
    rows = _rows(model, loader, settings, names)
    if output is not None:
        return _written(model, rows, place_on_disk(output), settings, names)
    features, labels = (np.concatenate(each) for each in zip(*rows, strict=True))
    columns = {} if split is None else {"split": np.full(len(features), split)}
    if settings.fit_head:
        return Snapshot(features, labels=labels, class_names=names, columns=columns)
    return Snapshot(features, model.head, labels, class_names=names or _names_of(model), columns=columns)


def _names_of(model: Model) -> list[str] | None:
    return list(model.class_names) if model.class_names else None


def _rows(model: Model, loader: Iterable[Any], settings: ExtractSettings, names: list[str] | None) -> Iterator[Rows]:
    """Features and labels, batch by batch, of the `first` images."""
    first, batch_size = settings.first, 32 if settings.batch_size == "auto" else settings.batch_size
    seen = 0
    for images, labels in _batches(loader, batch_size, names or _names_of(model)):
        if first is not None:
            images, labels = images[: first - seen], labels[: first - seen]
        features, _ = model(np.ascontiguousarray(images, dtype=np.float32))  # (b, d)
        num_classes = (None if names is None else len(names)) if settings.fit_head else model.head.num_classes
        yield features, check_labels(labels, len(images), num_classes, first_row=seen)
        seen += len(images)
        if first is not None and seen >= first:
            return
    if not seen:
        raise InputError("the loader returned no images.")


def _written(model: Model, rows: Iterator[Rows], output: Path, settings: ExtractSettings, names: list[str] | None) -> Snapshot:
    """Write part by part. A loader cannot be compared with an earlier one, so it is always read from the start."""
    split = settings.split
    arguments = {"source": "a loader", "split": split, "fit_head": settings.fit_head}
    run = Run(output, COMMAND, arguments, {"model": model.fingerprint()})
    if run.complete:
        raise RunError(f"{output} holds a complete run; use another directory, or load it with Snapshot.load.")
    with run.only_writer():
        folder = run.folder("samples")
        for left in folder.glob("part-*.parquet"):
            left.unlink()
        counts: dict[str, int] = {}
        written_rows = 0
        for features, labels in _parts(rows, lambda: rows_per_part(model.head.num_features)):
            part = folder / f"part-{len(counts):05d}.parquet"
            columns = {"id": np.arange(written_rows, written_rows + len(labels)), "label": labels, "split": [split] * len(labels)}
            counts[part.name] = write_samples(part, features, columns, class_names_metadata(names))
            written_rows += len(labels)
        written = [folder / name for name in counts]
        if not settings.fit_head:
            written.append(run.directory / "head.safetensors")
            save_head(written[-1], model.head, names or _names_of(model))
        run.finish(written, {"rows": written_rows}, counts)
    return Snapshot.load(output)


def _parts(rows: Iterator[Rows], rows_per_part: Callable[[], int]) -> Iterator[Rows]:
    """The same rows in parts of a fixed size, independent of the loader's batches; the first batch determines the size."""
    waiting: list[Rows] = []
    rows_waiting = 0
    for batch in rows:
        waiting.append(batch)
        rows_waiting += len(batch[1])
        size = rows_per_part()
        if rows_waiting >= size:
            features, labels = (np.concatenate(each) for each in zip(*waiting, strict=True))
            whole = rows_waiting - rows_waiting % size
            for start in range(0, whole, size):
                yield features[start : start + size], labels[start : start + size]
            waiting, rows_waiting = [(features[whole:], labels[whole:])], rows_waiting % size
    if rows_waiting:
        features, labels = (np.concatenate(each) for each in zip(*waiting, strict=True))
        yield features, labels


def _batches(loader: Iterable[Any], batch_size: int, class_names: list[str] | None) -> Iterator[Rows]:
    """Images (b, ...) and labels (b,), from batches or single images."""
    singles: list[tuple[np.ndarray, int]] = []

    def stacked() -> Rows:
        images, labels = zip(*singles, strict=True)
        singles.clear()
        return stack(list(images)), np.array(labels, dtype=np.int64)

    for number, item in enumerate(_samples(loader)):
        if not isinstance(item, (tuple, list)) or len(item) < 2:
            raise InputError(f"the loader must return (images, labels) pairs; number {number} is {type(item).__name__}.")
        images, labels = to_numpy(item[0]), _numbers(item[1], class_names)
        if images.ndim == 4 or (images.ndim == 2 and labels.ndim == 1):  # or rows of numbers for a scikit-learn model
            if len(images):
                yield images, check_labels(np.atleast_1d(labels), len(images), None)
        elif images.ndim in (1, 2, 3) and labels.size == 1:
            singles.append((images, int(check_labels(labels.reshape(1), 1, None, first_row=number)[0])))
            if len(singles) == batch_size:
                yield stacked()
        else:
            raise InputError(
                f"images must be (b, C, H, W) with (b,) labels, or (C, H, W) with one label; number {number} of the loader has "
                f"images of shape {images.shape} and labels of shape {labels.shape}."
            )
    if singles:
        yield stacked()


def _numbers(labels: Any, class_names: list[str] | None) -> np.ndarray:
    """Labels of a batch; names are mapped to the model's class names, if it has them: a batch does not contain all names."""
    values = to_numpy(labels)
    if class_names is None or names_in(values.reshape(-1)) is None:
        return values
    return class_numbers(values.reshape(-1), class_names)[0].reshape(values.shape)


def _samples(loader: Any) -> Iterator[Any]:
    """Items of an iterable, or of a dataset that only has a length and indexing."""
    if hasattr(loader, "__iter__"):
        return iter(loader)
    if not (hasattr(loader, "__len__") and hasattr(loader, "__getitem__")):
        raise InputError(f"data must be a path, an iterable of (images, labels) or a dataset, got {type(loader).__name__}.")
    return (loader[row] for row in range(len(loader)))
