"""`extract`: images and a model in, a snapshot out, a part at a time.

Workers decode ahead of the model. Rows are cut into parts of a fixed size, and each part is written as soon as its
features are there: a run that was killed goes on with the parts that are missing, and ends with the same bytes.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hardsight.checks import check_labels, to_numpy
from hardsight.data import BrokenImage, Degradation, ImageData, degrade, degraded_id, open_data, parse_degradations
from hardsight.errors import FileError, InputError
from hardsight.heads_on_disk import save_head
from hardsight.models import Model, open_model
from hardsight.run import Run, command_line
from hardsight.scores.sweep import num_threads
from hardsight.snapshot import Snapshot, write_samples
from hardsight.table import write_table

PART_NUMBERS = 2**22  # features in one part: 16 MB
BATCHES_AHEAD = 4  # decoded while the model works
BROKEN = b"hardsight.errors"  # where a part keeps the list of its broken images

Progress = Callable[[int, int], None]
Said = Callable[[str], None]


def extract(
    model: Any,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    head: str | None = None,
    device: str = "auto",
    precision: str = "float32",
    batch_size: int | str = "auto",
    workers: int | None = None,
    limit: int | None = None,
    split: str | None = None,
    labels_from: str | None = None,
    degradations: Sequence[str] = (),
    preprocessing: dict[str, Any] | None = None,
    keep_head: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
    say: Said | None = None,
) -> Snapshot:
    """Run a model over images and keep what its last linear layer sees.

    Args:
        model: what `hardsight extract` takes as MODEL, an `nn.Module`, or a fitted scikit-learn estimator.
        data: what `hardsight extract` takes as DATA; or any iterable of `(images, labels)`, batched or not, whose images
            are ready for the model.
        output: run directory to write; the snapshot stays in memory without it (loaders only).
        weights, head, device, precision: see `hardsight.models.open_model`.
        batch_size: images per forward pass; "auto" is 32 on a CPU and what fits on a GPU.
        workers: decoding threads; one per core when not given.
        limit, split, labels_from: see `hardsight.data.open_data`.
        degradations: such as "contrast=0.3,0.6": each image once per level, in place of the image itself.
        preprocessing: fields of the model's preprocessing to replace, such as {"size": (64, 64)}.
        keep_head: keep the model's head although its classes are not the data's.
        strict: stop at the first image that cannot be read.
        progress: called with the images done and the images in all.
        say: called with sentences for the user.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> snapshot = extract(net, [(torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 0, 1, 1]))])
        >>> len(snapshot), snapshot.num_classes
        (5, 2)
    """
    opened = (
        model if isinstance(model, Model) else open_model(model, weights=weights, head=head, device=device, precision=precision)
    )
    if preprocessing:
        opened.preprocessing = replace(opened.preprocessing, **preprocessing)
    if not isinstance(data, (str, os.PathLike, ImageData)):
        return _from_loader(opened, data, output, limit, 32 if batch_size == "auto" else int(batch_size))
    if output is None:
        raise InputError("extract needs an output directory for images on disk: output='run'.")
    images = (
        data
        if isinstance(data, ImageData)
        else open_data(Path(data) if isinstance(data, os.PathLike) else data, limit=limit, split=split, labels_from=labels_from)
    )
    for note in images.notes:
        (say or _silent)(note)
    job = _Job(opened, images, parse_degradations(degradations), workers or num_threads(), strict)
    return job.run(Path(output), batch_size, keep_head, progress, say or _silent)


@dataclass
class _Job:
    """One extraction: n images, each once, or once per degradation."""

    model: Model
    data: ImageData
    degradations: list[Degradation]
    workers: int
    strict: bool

    def run(self, output: Path, batch_size: int | str, keep_head: bool, progress: Progress | None, say: Said) -> Snapshot:
        if len(self.data) == 0:
            raise InputError("there is no image to extract.")
        self.model.check(self._first_images())
        head = self.model.head
        self.batch_size = _fitting_batch_size(self.model, self._first_images()) if batch_size == "auto" else int(batch_size)
        run = Run(
            output,
            "hardsight extract",
            {
                "degradations": [str(one) for one in self.degradations],
                "preprocessing": self.model.preprocessing.as_dict(),
                "batch_size": self.batch_size,
                "keep_head": keep_head,
                "words": command_line(),
            },
            {"model": self.model.fingerprint(), "data": self.data.fingerprint()},
        )
        if run.complete:
            say(f"{output} is complete already")
            return Snapshot.load(output)
        images_per_part = max(1, min(65536, PART_NUMBERS // head.num_features) // self.copies)
        parts = [range(at, min(at + images_per_part, len(self.data))) for at in range(0, len(self.data), images_per_part)]
        folder = run.folder("samples")
        self._sweep_temporaries(folder)
        names = [folder / f"part-{number:05d}.parquet" for number in range(len(parts))]
        missing = [(name, rows) for name, rows in zip(names, parts, strict=True) if not name.exists()]
        done = len(self.data) - sum(len(rows) for _, rows in missing)
        if done:
            say(f"going on: {len(parts) - len(missing)} of {len(parts)} parts are there")
        self._write_parts(missing, done, progress)
        return self._finish(run, names, keep_head, say)

    @property
    def copies(self) -> int:
        return max(1, len(self.degradations))

    def _write_parts(self, missing: list[tuple[Path, range]], done: int, progress: Progress | None) -> None:
        """Decode ahead, run the model, write each part when its last image is through."""
        order = (row for _, rows in missing for row in rows)
        with ThreadPoolExecutor(self.workers, thread_name_prefix="decode") as pool:
            decoded = _ahead(pool, self._decode, order, BATCHES_AHEAD * self.batch_size)
            for name, rows in missing:
                kept: list[int] = []
                broken: list[dict[str, str]] = []
                features: list[np.ndarray] = []
                waiting: list[np.ndarray] = []

                def flush(waiting: list[np.ndarray] = waiting, features: list[np.ndarray] = features) -> None:
                    if waiting:
                        features.append(self.model(_stack(waiting))[0])
                        waiting.clear()

                for row, result in zip(rows, decoded, strict=False):
                    if isinstance(result, BrokenImage):
                        broken.append({"id": self.data.ids[row], "reason": str(result.reason)})
                    else:
                        kept.append(row)
                        for image in result:
                            waiting.append(image)
                            if len(waiting) == self.batch_size:
                                flush()
                    done += 1
                    if progress is not None:
                        progress(done, len(self.data))
                flush()
                self._write_part(name, kept, features, broken)

    def _decode(self, row: int) -> list[np.ndarray] | BrokenImage:
        """One image as arrays for the model: itself, or one per degradation."""
        try:
            prepare = self.model.preprocessing
            image = prepare.fitted(self.data.image(row))
            if not self.degradations:
                return [prepare.numbers(image)]
            # At the size the model sees: noise on a large picture would be averaged away by shrinking it.
            return [prepare.numbers(degrade(image, one, self.data.ids[row])) for one in self.degradations]
        except BrokenImage as error:
            if self.strict:
                raise FileError(f"{self.data.ids[row]}: {error}. Leave out strict to skip such images.") from error
            return error

    def _first_images(self) -> np.ndarray:
        """A few images that can be read, to check the model on."""
        readable = (self._decode(row) for row in range(len(self.data)))
        found = list(islice((images[0] for images in readable if not isinstance(images, BrokenImage)), 4))
        if not found:
            raise FileError(f"none of the {len(self.data)} images can be read.")
        return _stack(found)

    def _write_part(self, name: Path, kept: list[int], features: list[np.ndarray], broken: list[dict[str, str]]) -> None:
        """One part: the kept images' columns, each repeated once per degradation."""
        base = [self.data.ids[row] for row in kept]
        labels = np.full(len(kept), -1) if self.data.labels is None else self.data.labels[kept]
        label = pa.array(np.repeat(labels, self.copies), mask=np.repeat(labels < 0, self.copies))
        columns: dict[str, Any] = {
            "id": pa.array(
                [degraded_id(i, d) for i in base for d in self.degradations] if self.degradations else base, pa.string()
            ),
            "label": label,
            "split": self._column("split", kept),
            "path": self._column("path", kept),
            "base_id": pa.array(self._repeat(base), pa.string()),
            "degradation": self._level("kind", kept, pa.string()),
            "level": self._level("level", kept, pa.float64()),
        }
        for column in self.data.columns:
            if column not in columns:
                columns[column] = self._column(column, kept)
        matrix = np.concatenate(features) if features else np.zeros((0, self.model.head.num_features), np.float32)
        write_samples(name, matrix, columns, metadata={BROKEN: json.dumps(broken).encode()})

    def _repeat(self, values: list[Any]) -> list[Any]:
        return [value for value in values for _ in range(self.copies)]

    def _level(self, name: str, kept: list[int], kind: pa.DataType) -> pa.Array:
        if not self.degradations:
            return pa.nulls(len(kept), kind)
        return pa.array([getattr(one, name) for _ in kept for one in self.degradations], kind)

    def _column(self, name: str, kept: list[int]) -> pa.Array:
        values = self.data.columns.get(name)
        if values is None:
            return pa.nulls(len(kept) * self.copies, pa.string())
        return pa.array(self._repeat([values[row] for row in kept]), type=pa.array(values).type)

    def _finish(self, run: Run, names: list[Path], keep_head: bool, say: Said) -> Snapshot:
        """errors.parquet, the head, and run.json last."""
        rows, broken = {}, []
        for name in names:
            file = pq.ParquetFile(name)
            rows[name.name] = file.metadata.num_rows
            broken += json.loads((file.schema_arrow.metadata or {}).get(BROKEN, b"[]"))
        written = list(names)
        if broken:
            path = run.directory / "errors.parquet"
            write_table(pa.Table.from_pylist(broken, pa.schema([("id", pa.string()), ("reason", pa.string())])), path)
            written.append(path)
            say(f"{len(broken)} of {len(self.data)} images could not be read: see {path}")
        class_names = self._settle_classes(keep_head, say)
        if class_names is not None:
            head_file = run.directory / "head.safetensors"
            save_head(head_file, self.model.head, class_names or None)
            written.append(head_file)
        counts = {"images": len(self.data), "rows": sum(rows.values()), "broken": len(broken)}
        run.finish(written, counts, rows)
        return Snapshot.load(run.directory)

    def _settle_classes(self, keep_head: bool, say: Said) -> list[str] | None:
        """Class names to keep with the head (none known: an empty list), or None if the head is not to be kept.

        Labels that count the data's folders mean nothing to a head trained on other classes.
        """
        c, ours = self.model.head.num_classes, self.data.class_names
        if ours is not None and len(ours) != c and not keep_head:
            say(
                f"the data has {len(ours)} classes, the model {c}: its head is left out, and score will fit one to the "
                "features by cross-validation (--keep-head keeps it)"
            )
            return None
        if self.data.labels is not None and not keep_head:
            check_labels(self.data.labels, len(self.data), c)
        return list(ours if ours is not None and len(ours) == c else self.model.class_names or [])

    @staticmethod
    def _sweep_temporaries(folder: Path) -> None:
        for left in folder.glob(".part-*.tmp"):  # of a run that was killed
            left.unlink()


def _silent(sentence: str) -> None:
    pass


def _stack(images: list[np.ndarray]) -> np.ndarray:
    if len({image.shape for image in images}) > 1:
        shapes = sorted({image.shape[1:] for image in images})
        raise InputError(f"images of one batch must have the same size, got {shapes[0]} and {shapes[-1]}; give --size.")
    return np.stack(images)  # (b, C, H, W)


def _ahead(pool: ThreadPoolExecutor, work: Callable[[int], Any], order: Iterable[int], depth: int) -> Iterator[Any]:
    """Results in order, with up to `depth` of them under way."""
    rows = iter(order)
    under_way: deque[Future[Any]] = deque(pool.submit(work, row) for row in islice(rows, depth))
    while under_way:
        result = under_way.popleft().result()
        for row in islice(rows, 1):
            under_way.append(pool.submit(work, row))
        yield result


def _fitting_batch_size(model: Model, sample: np.ndarray) -> int:
    """32 on a CPU; on a GPU the largest power of two up to 512 that the memory holds."""
    device = getattr(getattr(model, "device", None), "type", "cpu")
    if device == "cpu":
        return 32
    return largest_that_fits(lambda size: model(np.repeat(sample[:1], size, axis=0)))


def largest_that_fits(attempt: Callable[[int], object], largest: int = 512) -> int:
    """The largest power of two for which the attempt does not run out of memory."""
    size = largest
    while size > 1:
        try:
            attempt(size)
            return size
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "out of memory" not in str(error).lower():
                raise
            size //= 2
    return 1


def _from_loader(model: Model, loader: Iterable[Any], output: Any, limit: int | None, batch_size: int) -> Snapshot:
    """Any iterable of (images, labels): batches of a loader, or single samples of a dataset."""
    features, labels, seen = [], [], 0
    for images, given in _batched(loader, batch_size):
        if limit is not None:
            images, given = images[: limit - seen], given[: limit - seen]
        if len(images) == 0:
            break
        features.append(model(np.ascontiguousarray(images, dtype=np.float32))[0])
        labels.append(given)
        seen += len(images)
    if not features:
        raise InputError("the loader gave no images.")
    matrix, column = np.concatenate(features), np.concatenate(labels)
    names = list(model.class_names) if model.class_names else None
    snapshot = Snapshot(matrix, model.head, column, class_names=names)
    if output is not None:
        run = Run(output, "hardsight.extract", {"source": "a loader"}, {"model": model.fingerprint(), "count": len(matrix)})
        part = run.folder("samples") / "part-00000.parquet"
        columns = {"id": pa.array([str(row) for row in range(len(matrix))]), "label": pa.array(column, mask=column < 0)}
        write_samples(part, matrix, columns)
        save_head(run.directory / "head.safetensors", model.head, names)
        run.finish([part, run.directory / "head.safetensors"], {"rows": len(matrix)}, {part.name: len(matrix)})
    return snapshot


def _batched(loader: Iterable[Any], batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of (b, C, H, W) and (b,), whether the iterable gives batches or single images."""
    singles: list[tuple[np.ndarray, int]] = []

    def stacked() -> tuple[np.ndarray, np.ndarray]:
        images, labels = zip(*singles, strict=True)
        singles.clear()
        return _stack(list(images)), np.array(labels, dtype=np.int64)

    for number, item in enumerate(_samples(loader)):
        if not isinstance(item, (tuple, list)) or len(item) < 2:
            raise InputError(f"the loader must give (images, labels) pairs; number {number} is {type(item).__name__}.")
        images = to_numpy(item[0])
        if images.ndim == 4:
            yield images, check_labels(np.atleast_1d(to_numpy(item[1])), len(images), None)
        elif images.ndim == 3:
            singles.append((images, int(to_numpy(item[1]))))
            if len(singles) == batch_size:
                yield stacked()
        else:
            raise InputError(f"images must be (b, C, H, W) or (C, H, W), got shape {images.shape}.")
    if singles:
        yield stacked()


def _samples(loader: Any) -> Iterator[Any]:
    """Items of an iterable, or of a dataset that only knows its length and its rows."""
    if hasattr(loader, "__iter__"):
        return iter(loader)
    return (loader[row] for row in range(len(loader)))
