"""`extract`: images (or features, for a model trained on them) and a model in, a snapshot out, part by part.

Threads decode images ahead of the model. Rows are split into parts of a fixed size, and each part is written as soon as its
features are computed: a killed run resumes with the missing parts, and gives the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa

from hardsight.checks import check_labels
from hardsight.data import BrokenImage, Degradation, ImageData, degrade, degraded_id, open_data, parse_degradations
from hardsight.data.dataset import num_classes
from hardsight.data.encoded import is_dataset
from hardsight.data.labels import renumbered
from hardsight.data.opening import check_files
from hardsight.errors import FileError, InputError, RunError
from hardsight.extraction.features import Features, holds_features, open_features
from hardsight.extraction.loader import COMMAND as LOADER_COMMAND
from hardsight.extraction.loader import extract_loader, stack
from hardsight.extraction.settings import ExtractSettings
from hardsight.files.checksums import check
from hardsight.files.class_names import given_class_names
from hardsight.files.heads import save_head
from hardsight.files.kinds import LIST_COLUMNS
from hardsight.files.parquet import open_parquet
from hardsight.files.places import place_on_disk, shown_address
from hardsight.files.reading import read_json, reading
from hardsight.files.run import Run, check_run_directory
from hardsight.files.samples import OWN_COLUMNS, rows_per_part, write_samples
from hardsight.labels import counted_from_zero
from hardsight.models import Model, open_model
from hardsight.models.model import refuse
from hardsight.models.trained import takes_features
from hardsight.models.weights import check_weights_file
from hardsight.options import SampleOptions, takes
from hardsight.screen import Progress, Say, time_in_words
from hardsight.snapshot import Snapshot
from hardsight.table import write_table
from hardsight.threads import num_threads, sample_rows

if TYPE_CHECKING:
    from hardsight.option_types import ExtractOptions


COMMAND = "hardsight extract"
PASSES = "passes"  # folder of the snapshots of extra passes
AHEAD_BATCHES, AHEAD_BYTES = 4, 2**28  # to decode ahead of the model: maximum batches, approximate bytes
BROKEN = b"hardsight.errors"  # metadata key for a part's list of broken images
ERRORS = pa.schema([("id", pa.string()), ("reason", pa.string()), ("message", pa.string())])
TAKEN = {"id", "label", "features", *OWN_COLUMNS} - {"split", "path"}  # reserved names that a column of the data cannot have
PART_ROWS, MOST_PARTS = 256, 1000  # only complete parts are kept, so they are small, but not so small that there are many more
LONG_RUN, LISTEN = 60.0, 5.0  # seconds: shortest run worth an estimate, and how long to measure before giving it


@takes(ExtractSettings)
def extract(
    model: Any,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    settings: ExtractSettings | None = None,
    preprocessing: dict[str, Any] | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    **options: Unpack[ExtractOptions],
) -> Snapshot:
    """Run a model over images and store the inputs of its last linear layer.

    Args:
        model: anything `hardsight extract` accepts as MODEL, an `nn.Module`, or a fitted scikit-learn estimator.
        data: anything `hardsight extract` accepts as DATA; a Hugging Face `Dataset` with images; or any iterable of
            `(images, labels)`, batched or not, whose images are ready for the model. An iterable is read in order: `first`
            takes the beginning, `limit` is rejected, and `split` is the split of all samples. For a model that was trained
            on features, such as those of adapt and generalize: a Snapshot, or the path of one.
        output: run directory to write; without it the snapshot stays in memory (loaders only).
        settings: all options as one object, instead of keywords.
        preprocessing: fields of the model's preprocessing to override, such as {"size": (64, 48)}; for square images, use the
            options of the same names.
        progress: called with the number of images done and the total.
        say: called with sentences for the user.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> snapshot = extract(net, [(torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 0, 1, 1]))])
        >>> len(snapshot), snapshot.num_classes
        (5, 2)
    """
    settings = ExtractSettings.given(settings, options)
    s = settings
    check_weights_file(s.weights)
    from_loader = not isinstance(data, (str, os.PathLike, ImageData, Snapshot)) and not is_dataset(data)
    if output is not None:
        check_run_directory(output, LOADER_COMMAND if from_loader else COMMAND)
    degradations = parse_degradations(s.degradations)
    if from_loader:
        refuse("a loader, which is read in order: use first instead", limit=s.limit)
        refuse("a loader, whose images are ready for the model", labels_from=s.labels_from, degradations=degradations or None,
               layers=s.layers or None, passes=s.passes or None)  # fmt: skip
        return extract_loader(_opened(model, s, preprocessing), data, output, s)
    if output is None:
        raise InputError("extract needs an output directory, except for loaders: output='run'.")
    say = say or _silent
    names = given_class_names(s.class_names)
    rows, sources = _rows_of(data, model, s, preprocessing, say)
    rows = rows if names is None else _named(rows, names)
    opened = _opened(model, s, preprocessing)
    if isinstance(rows, Features):
        _check_width(opened, rows)
    job = _Job(opened, rows, s, say, sources, degradations)
    return job.run(place_on_disk(output), progress)


def _rows_of(
    data: Any, model: Any, s: ExtractSettings, preprocessing: dict[str, Any] | None, say: Say
) -> tuple[ImageData | Features, dict[str, Any]]:
    """What the model is run on, and where its images are: features for a model that was trained on some, images for any other."""
    name, features = model if isinstance(model, (str, os.PathLike)) else type(model).__name__, holds_features(data)
    shown = data if isinstance(data, (str, os.PathLike)) else "the data"
    if takes_features(model):
        if not (features or isinstance(data, str) and "://" in data):
            _opened_data(data, s)  # says what is wrong with a path that holds neither
            raise InputError(f"{name} was trained on features, but {shown} holds images: pass features like those.")
        return _opened_features(data, s, preprocessing), {"data": None, "roots": []}
    if features:
        raise InputError(
            f"{name} is run on images, but {shown} holds features: pass the images, or score the features as they are."
        )
    images = _opened_data(data, s)
    for note in images.notes:
        say(note)
    return images, {"data": _source(data, images), "roots": [str(root.resolve()) for root in images.roots]}


def _named(data: ImageData | Features, names: list[str]) -> ImageData | Features:
    """The data with these class names: its own are found among them, unless they are other words for as many classes."""
    ours, labels = data.class_names, data.labels
    renamed = ours is not None and len(ours) == len(names) and not set(ours) & set(names)
    if labels is not None:
        labels = check_labels(labels, len(data), len(names)) if ours is None or renamed else renumbered(labels, ours, names)
    return replace(data, labels=labels, class_names=names)  # type: ignore[arg-type]  # features have labels


def _check_width(model: Any, features: Features) -> None:
    """Features are as wide as the first layer takes them."""
    wanted = next(weight.shape[1] for weight in model.module.parameters() if weight.ndim == 2)
    if wanted != features.values.shape[1]:
        raise InputError(f"{model.name} takes {wanted} features per sample, the data has {features.values.shape[1]}.")


def _opened_features(data: Any, s: ExtractSettings, preprocessing: dict[str, Any] | None) -> Features:
    for_images = {**s.preprocessing(), **(preprocessing or {})}
    refuse("features", degradations=s.degradations or None, layers=s.layers or None, passes=s.passes or None, **for_images)
    if isinstance(data, Snapshot):
        refuse("a snapshot that is already open", labels_from=s.labels_from)
    features = open_features(data, labels=s.labels_from)
    if s.split is not None:
        splits = features.columns.get("split", [])
        features = features.take(np.array([row for row, split in enumerate(splits) if split == s.split], np.int64))
    features = features.take(sample_rows(SampleOptions(limit=s.limit, first=s.first), len(features)))
    if len(features) == 0:
        raise InputError("there are no features to run the model on" + (f" in the split {s.split!r}." if s.split else "."))
    if s.fit_head and not (features.labels >= 0).any():
        raise InputError("fit_head needs labels to fit a head to, but the features have none: use --labels.")
    return features


def _opened_data(data: Any, s: ExtractSettings) -> ImageData:
    if isinstance(data, ImageData):
        refuse("data that is already open", limit=s.limit, first=s.first, split=s.split, labels_from=s.labels_from)
        images = data
    else:
        spec = Path(data) if isinstance(data, os.PathLike) else data
        images = open_data(spec, split=s.split, labels_from=s.labels_from)
        rows = sample_rows(SampleOptions(limit=s.limit, first=s.first), len(images))
        images = images if len(rows) == len(images) else images.take(rows)
    if len(images) == 0:
        raise InputError("there are no images to extract.")
    check_files(images)
    evidence = [name for name in images.columns if name in LIST_COLUMNS]
    if evidence:  # would be mistaken for the model's output when the run is read
        raise InputError(f"a column of the data is named {evidence[0]!r}, which is reserved for extract's output: rename it.")
    if s.fit_head and images.labels is None:
        raise InputError("fit_head needs labels to fit a head to, but the images have none: use --labels.")
    return images


def _opened(model: Any, s: ExtractSettings, preprocessing: dict[str, Any] | None) -> Model:
    """The model with its preprocessing; this loads the libraries that run it."""
    if not isinstance(model, Model):
        options: dict[str, Any] = {"head": s.head, "device": s.device, "precision": s.precision, "num_classes": s.num_classes}
        model = open_model(model, weights=s.weights, **options)
    overrides = {**s.preprocessing(), **(preprocessing or {})}
    if overrides:
        model.preprocessing = replace(model.preprocessing, **overrides)
    opened: Model = model
    return opened


@dataclass
class _Job:
    """An extraction: n images, each once, or once per degradation; or n rows of features."""

    model: Model
    data: ImageData | Features
    settings: ExtractSettings
    say: Say
    sources: dict[str, Any]  # where the images are, so that the explorer can find them
    degradations: list[Degradation]
    workers: int = 1
    batch_size: int = 0
    ahead: int = 0  # images
    types: dict[str, pa.DataType] = field(default_factory=dict)  # types of the user's columns: a part may hold only nulls
    views: list[ImageView] = field(default_factory=list)  # extra passes over the images

    def __post_init__(self) -> None:
        self.views = views_of(self.settings.passes)
        self.workers = self.settings.workers or num_threads()

    def run(self, output: Path, progress: Progress | None) -> Snapshot:
        sample = self._first_images()  # (b, C, H, W), or (b, d) features
        with warnings.catch_warnings():
            if self.settings.fit_head:  # then the layer need not produce the model's output
                warnings.simplefilter("ignore")
            self.model.check(sample)
        if self.settings.layers:
            self.model.watch(self.settings.layers, sample)
        for view in self.views:
            view.features(self.model, sample, ())  # rejects a network without dropout before anything is written
        class_names = self._settle_classes()
        self._settle_columns()
        automatic = self.settings.batch_size == "auto"
        begun = _begun_with(output)
        size = (begun.batch_size or _fitting_batch_size(self.model, sample)) if automatic else self.settings.batch_size
        self.batch_size = size
        self.ahead = max(2 * self.workers, min(AHEAD_BATCHES * size, AHEAD_BYTES // (self.copies * sample[0].nbytes)))
        num_features = self.model.head.num_features
        per_part = begun.images_per_part or self._per_part(num_features)
        inputs = {"model": self.model.fingerprint(), "data": self.data.fingerprint()}
        run = Run(output, COMMAND, self._arguments(per_part), inputs, self.sources)
        if run.complete:
            self.say(f"{output} is complete already")
            return Snapshot.load(output)
        with run.only_writer():
            n, folder, views = len(self.data), run.folder("samples"), self._view_runs(run)
            parts = [range(first, min(first + per_part, n)) for first in range(0, n, per_part)]
            names = [folder / f"part-{number:05d}.parquet" for number in range(len(parts))]
            missing = [(name, rows) for name, rows in zip(names, parts, strict=True) if not self._is_there(name)]
            run.kept = lambda: (
                f"{sum(len(rows) for name, rows in zip(names, parts, strict=True) if self._is_there(name)):,} "
                f"of {n:,} {self.noun}"
            )
            if len(missing) < len(parts):
                self.say(f"resuming: {len(parts) - len(missing)} of {len(parts)} parts are complete, {run.kept()}")
            self._write_parts(missing, progress)
            if self.data.fingerprint() != inputs["data"]:
                raise RunError(f"the {self.noun} changed while they were read: remove {output} and start over.")
            self._finish(run, names, class_names, views)
        return Snapshot.load(output)

    def _arguments(self, images_per_part: int) -> dict[str, Any]:
        """Everything the bytes depend on besides the model and the data; the number of decoding threads is not among it."""
        return {
            **self.settings.as_dict(),
            "degradations": [str(degradation) for degradation in self.degradations],
            "preprocessing": self.model.preprocessing.as_dict(),
            "batch_size": self.batch_size,
            "images_per_part": images_per_part,
            "device": str(getattr(self.model, "device", "cpu")),
            "precision": getattr(self.model, "precision", "float32"),
            "layer": self.model.layer_name,
        }

    def _per_part(self, num_features: int) -> int:
        """Images per part, so that the features of all views of a part fit in the memory of one."""
        most = rows_per_part(num_features) // (self.copies * (1 + len(self.views)))
        return max(1, min(most, images_per_part(len(self.data), self.copies, self.batch_size, num_features)))

    def _is_there(self, name: Path) -> bool:
        """Whether a part is complete, including its extra layers and passes."""
        layers = [layer_part(name, number, layer) for number, layer in enumerate(self.settings.layers)]
        return all(path.exists() for path in (name, *layers, *(view.part(name) for view in self.views)))

    def _view_runs(self, run: Run) -> list[Run]:
        """A run directory for each view, passes/NAME: a complete snapshot."""
        if not self.views:
            return []
        folder, start = run.folder(PASSES), run.start
        named = [(view.name, {**start["arguments"], "pass": view.name}) for view in self.views]
        return [Run(folder / name, COMMAND, arguments, start["inputs"], self.sources) for name, arguments in named]

    @property
    def noun(self) -> str:
        return "features" if isinstance(self.data, Features) else "images"

    @property
    def copies(self) -> int:
        return max(1, len(self.degradations))

    def _write_parts(self, missing: list[tuple[Path, range]], progress: Progress | None) -> None:
        """Decode ahead, run the model, and write each part after its last image."""
        to_do = sum(len(rows) for _, rows in missing)
        done = already = len(self.data) - to_do
        forecast = _Forecast(to_do, 4 * self.copies * (1 + len(self.views)) * self.model.head.num_features, self.say)
        order = (row for _, rows in missing for row in rows)
        with (
            ThreadPoolExecutor(self.workers, thread_name_prefix="decode") as pool,
            contextlib.closing(ahead(pool, self._decode, order, self.ahead)) as decoded,
        ):
            for name, rows in missing:
                kept: list[int] = []
                broken: list[dict[str, str]] = []
                features: list[np.ndarray] = []
                watched: list[dict[str, np.ndarray]] = []
                seen: dict[ImageView, list[np.ndarray]] = {view: [] for view in self.views}
                waiting: list[np.ndarray] = []
                for row, result in zip(rows, decoded, strict=False):
                    done += 1
                    if isinstance(result, BrokenImage):
                        broken.append({"id": self.data.ids[row], "reason": result.reason, "message": str(result)})
                    else:
                        kept.append(row)
                        waiting += result
                    while len(waiting) >= self.batch_size or (waiting and row == rows[-1]):
                        batch = stack(waiting[: self.batch_size])  # (b, C, H, W)
                        features.append(self.model(batch)[0])
                        watched.append(self.model.watched)
                        for view in self.views:
                            seen[view].append(view.features(self.model, batch, (rows[0], len(features))))
                        del waiting[: self.batch_size]
                        forecast(done - already, name.parent)
                        if progress is not None:
                            progress(done, len(self.data))
                self._write_layers(name, kept, watched)
                for view in self.views:
                    view.part(name).parent.mkdir(exist_ok=True)
                    self._write_part(view.part(name), kept, seen[view], [])
                self._write_part(name, kept, features, broken)  # last, because it marks the part as complete

    def _decode(self, row: int) -> list[np.ndarray] | BrokenImage:
        """One image as arrays for the model: itself, or one per degradation; or one row of features."""
        if isinstance(self.data, Features):
            return [self.data.values[row]]
        try:
            prepare = self.model.preprocessing
            image = prepare.fitted(self.data.image(row))
            if not self.degradations:
                return [prepare.numbers(image)]
            # At the input size of the model: shrinking a large image would average the noise away.
            return [prepare.numbers(degrade(image, degradation, self.data.ids[row])) for degradation in self.degradations]
        except BrokenImage as error:
            if self.settings.strict:
                raise FileError(f"{error} Omit --strict to skip such images.") from error
            return error

    def _first_images(self) -> np.ndarray:
        """A few readable images, to check the model with."""
        readable = (self._decode(row) for row in range(len(self.data)))
        first = list(islice((images[0] for images in readable if not isinstance(images, BrokenImage)), 4))
        if not first:
            raise FileError(f"none of the {len(self.data)} images can be read.")
        return stack(first)

    def _settle_classes(self) -> list[str] | None:
        """Class names to store with the head (an empty list if unknown), or None to leave the head out.

        A head is useless for labels of other classes: labels by the data's own class names, if there are more or fewer of
        them than the model has classes, and label numbers that the model does not have.
        """
        if self.settings.fit_head:
            self.say("leaving the model's head out; score will fit one to the features by cross-validation")
            return None
        c, ours, theirs = self.model.head.num_classes, self.data.class_names, self.model.class_names
        if self.settings.class_names is not None and ours is not None and len(ours) == c:
            theirs = tuple(ours)  # what a user says of the model's classes holds
        if ours is not None and theirs is not None and list(theirs) != ours and set(ours) <= set(theirs):
            self._renumber(ours, theirs)
            ours = self.data.class_names
        if ours is None and self.data.labels is not None:
            labels, notes = counted_from_zero(self.data.labels, c)
            self.data = replace(self.data, labels=labels)
            for note in notes:
                self.say(note)
        count = self.data.num_classes if isinstance(self.data, Features) else num_classes(self.data)
        if count > c if ours is None else count != c:
            if self.settings.keep_head and ours is not None:
                raise InputError(_no_match(ours, theirs, c))
            if not self.settings.keep_head:
                self.say(
                    f"the data has {count} classes, the model {c}: its head is left out, and score will fit one to the "
                    "features by cross-validation (--keep-head keeps it)"
                )
                return None
        if self.data.labels is not None:
            check_labels(self.data.labels, len(self.data), c)
        return list(ours if ours is not None and len(ours) == c else theirs or [])

    def _renumber(self, ours: list[str], theirs: Sequence[str]) -> None:
        """Renumber the data's labels by the model's class names: a folder may hold only some classes, or in another order."""
        labels = None if self.data.labels is None else renumbered(self.data.labels, ours, theirs)
        self.data = replace(self.data, labels=labels, class_names=list(theirs))  # type: ignore[arg-type]  # features have labels
        self.say(f"labels follow the model's own class names: {ours[0]} is class {list(theirs).index(ours[0])}")

    def _settle_columns(self) -> None:
        """Determine the types of the user's columns, and report those with reserved names."""
        taken = [name for name in self.data.columns if name in TAKEN]
        if taken:
            self.say(f"skipping columns with reserved names: {', '.join(taken)}")
        self.types = {name: pa.array(values).type for name, values in self.data.columns.items() if name not in taken}

    def _write_part(self, name: Path, kept: list[int], features: list[np.ndarray], broken: list[dict[str, str]]) -> None:
        """Write one part: the columns of the readable images, each repeated once per degradation."""
        base = [self.data.ids[row] for row in kept]
        labels = np.full(len(kept), -1) if self.data.labels is None else self.data.labels[kept]
        columns: dict[str, Any] = {"id": pa.array(self._ids(kept), pa.string()), "label": np.repeat(labels, self.copies)}
        columns["base_id"] = self._repeat(base)
        if self.degradations:
            columns["degradation"] = [how.kind for _ in kept for how in self.degradations]
            columns["level"] = [how.level for _ in kept for how in self.degradations]
        for column, kind in self.types.items():
            values = self.data.columns[column]
            columns[column] = pa.array(self._repeat([values[row] for row in kept]), kind)
        matrix = np.concatenate(features) if features else np.zeros((0, self.model.head.num_features), np.float32)
        metadata = {BROKEN: json.dumps(broken).encode()}
        if self.data.class_names is not None:  # with the labels, whatever becomes of the head
            metadata[b"hardsight"] = json.dumps({"class_names": self.data.class_names}).encode()
        write_samples(name, matrix, columns, metadata)

    def _write_layers(self, name: Path, kept: list[int], watched: list[dict[str, np.ndarray]]) -> None:
        """Write the features of extra layers for the same rows: layers/00-NAME/part-00000.parquet."""
        for number, layer in enumerate(self.settings.layers):
            path = layer_part(name, number, layer)
            path.parent.mkdir(parents=True, exist_ok=True)
            matrix = np.concatenate([batch[layer] for batch in watched]) if watched else np.zeros((0, 1), np.float32)
            write_samples(path, matrix, {"id": pa.array(self._ids(kept), pa.string())})

    def _ids(self, kept: list[int]) -> list[str]:
        """Row ids of some images: one each, or one per degradation."""
        base = [self.data.ids[row] for row in kept]
        return [degraded_id(base_id, how) for base_id in base for how in self.degradations] if self.degradations else base

    def _repeat(self, values: list[Any]) -> list[Any]:
        return [value for value in values for _ in range(self.copies)]

    def _finish(self, run: Run, names: list[Path], class_names: list[str] | None, views: Sequence[Run] = ()) -> None:
        """Write errors.parquet, the head, the run.json of every view, and run.json last."""
        rows, broken = {}, []
        for name in names:
            try:
                check(name)  # it may predate an interrupt
                with reading(name), open_parquet(name) as file:
                    rows[name.name] = file.metadata.num_rows
                    broken += json.loads((file.schema_arrow.metadata or {}).get(BROKEN, b"[]"))
            except FileError as error:
                raise RunError(f"{error} Remove it, and run the same command again.") from error
        written = list(names)
        written += [layer_part(name, number, layer) for number, layer in enumerate(self.settings.layers) for name in names]
        if broken:
            path = run.directory / "errors.parquet"
            write_table(pa.Table.from_pylist(broken, ERRORS), path)
            written.append(path)
            self.say(f"{len(broken)} of {len(self.data)} images could not be read: see {path}")
        if class_names is not None:
            head_file = run.directory / "head.safetensors"
            save_head(head_file, self.model.head, class_names or None)
            written.append(head_file)
        counts = {"images": len(self.data), "rows": sum(rows.values()), "broken": len(broken)}
        for view in views:
            parts = [view.directory / "samples" / name.name for name in names]
            if class_names is not None:
                parts.append(view.directory / "head.safetensors")
                save_head(parts[-1], self.model.head, class_names or None)
            view.finish(parts, counts, rows)
        run.finish(written, counts, rows)


def _no_match(ours: Sequence[str], theirs: Sequence[str] | None, c: int) -> str:
    """Why a head cannot be kept for labels by name."""
    if theirs is None:
        why = f"but the model has none: give all {c} in its order with --class-names FILE"
    else:
        why = f"but {next(name for name in ours if name not in theirs)!r} is none of them"
    return f"--keep-head: the data's {len(ours)} classes are matched to the model's {c} by name, {why}, or leave out --keep-head."


def layer_part(name: Path, number: int, layer: str) -> Path:
    """Path of a layer's features for a part of samples/."""
    return name.parent.parent / "layers" / f"{number:02d}-{layer}" / name.name


def images_per_part(images: int, copies: int, batch_size: int, num_features: int) -> int:
    """Images per part, from the input alone, so that an interrupted run ends with the same parts as an uninterrupted one.

    About 256 forward passes, or a batch; more in a large run, to limit the number of parts; fewer if the features of one
    part would not fit in 16 MB.

    Example:
        >>> images_per_part(1670, copies=1, batch_size=32, num_features=1280)
        256
        >>> images_per_part(2_000_000, copies=1, batch_size=32, num_features=512)
        2048
    """
    rows = max(PART_ROWS, batch_size, math.ceil(images * copies / MOST_PARTS))
    rows = PART_ROWS * math.ceil(rows / PART_ROWS)  # whole batches, if their size is a power of two
    return max(1, min(math.ceil(rows / copies), rows_per_part(num_features) // copies))


class _Forecast:
    """Estimates once, a few seconds into a long run, how much time and disk space it needs."""

    def __init__(self, images: int, bytes_per_image: int, say: Say) -> None:
        self.images, self.bytes, self.say = images, images * bytes_per_image, say
        self.first: tuple[float, int] | None = None  # when the first batch was done, and its images
        self.reported = False

    def __call__(self, done: int, folder: Path) -> None:
        clock = time.monotonic()
        if self.first is None:
            self.first = clock, done  # the first batch is slow: start the clock after it
        elif not self.reported and clock - self.first[0] >= LISTEN:
            self.reported = True
            seconds = (clock - self.first[0]) / max(1, done - self.first[1]) * self.images
            if seconds > LONG_RUN:
                self.say(f"about {time_in_words(seconds)} and {megabytes(self.bytes)} for {self.images:,} images")
            free = shutil.disk_usage(folder).free
            if free < self.bytes:
                self.say(f"but {folder} has only {megabytes(free)} free")


def megabytes(count: float) -> str:
    """Bytes as a readable size.

    Example:
        >>> megabytes(310e6), megabytes(8.2e9)
        ('310 MB', '8.2 GB')
    """
    return f"{max(1, count / 1e6):.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def _source(data: Any, images: ImageData) -> str | None:
    """Paths or names that open the same images from any directory; None for data that was passed as an object."""
    if not isinstance(data, (str, os.PathLike)):
        return None
    return str(data) if images.kind == "digits" else shown_address(data)


def _silent(sentence: str) -> None:
    pass


def ahead(pool: ThreadPoolExecutor, work: Callable[[int], Any], order: Iterable[int], depth: int) -> Generator[Any, None, None]:
    """Results in order, with up to `depth` computed ahead."""
    rows = iter(order)
    under_way: deque[Future[Any]] = deque(pool.submit(work, row) for row in islice(rows, depth))
    try:
        while under_way:
            result = under_way.popleft().result()
            for row in islice(rows, 1):
                under_way.append(pool.submit(work, row))
            yield result
    finally:  # on an interrupt, do not wait for tasks that have not started
        for future in under_way:
            future.cancel()


class _Begun(NamedTuple):
    """The settings an interrupted run was started with."""

    batch_size: int | None = None
    images_per_part: int | None = None


def _begun_with(output: Path) -> _Begun:
    """Keep the sizes of an interrupted run: what fits on a GPU, or the part size, may have changed, but the result must not."""
    try:
        arguments = read_json(output / "start.json")["arguments"]
        sizes = [arguments[name] for name in _Begun._fields]
    except (FileError, OSError, KeyError, TypeError):
        return _Begun()
    return _Begun(*(size if isinstance(size, int) and size > 0 else None for size in sizes))


def _fitting_batch_size(model: Model, sample: np.ndarray) -> int:
    """32 on a CPU; on a GPU the largest power of two up to 512 that the memory holds."""
    device = getattr(getattr(model, "device", None), "type", "cpu")
    if device == "cpu":
        return 32
    return largest_that_fits(lambda size: model(np.repeat(sample[:1], size, axis=0)))


def largest_that_fits(attempt: Callable[[int], object], largest: int = 512) -> int:
    """The largest power of two that does not run out of memory."""
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


@dataclass(frozen=True)
class ImageView:
    """An extra pass over every image; `draw` numbers the dropout draws, and is None for mirrored images."""

    name: str
    draw: int | None = None

    def features(self, model: Model, batch: np.ndarray, where: Sequence[int]) -> np.ndarray:
        """(b, C, H, W) images -> (b, d) features; `where` seeds dropout by batch, so a resumed run draws the same masks."""
        if self.draw is None:
            return model(np.ascontiguousarray(batch[..., ::-1]))[0]
        seed = int(np.random.SeedSequence([self.draw, *where]).generate_state(1, np.uint64)[0] >> 1)
        return model.dropped(batch, seed)

    def part(self, samples_part: Path) -> Path:
        """Path of its features for a part of samples/."""
        return samples_part.parent.parent / PASSES / self.name / "samples" / samples_part.name


def views_of(passes: Sequence[str]) -> list[ImageView]:
    """The views named by `--passes`.

    Example:
        >>> [view.name for view in views_of(["flip", "dropout=3"])]
        ['flip', 'dropout-00', 'dropout-01', 'dropout-02']
    """
    views = []
    for text in passes:
        kind, _, count = text.partition("=")
        views += [ImageView(f"{kind}-{k:02d}", k) for k in range(int(count))] if count else [ImageView(kind)]
    return views
