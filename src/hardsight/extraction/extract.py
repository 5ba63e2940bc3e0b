"""`extract`: images (or features, for a model trained on them) and a model in, a snapshot out, part by part. In order:

    the images, or the features           inputs.py
    the model, opened                     models/opening.py
    the model, checked on a few images    `_Job.prepare`, here
    the run directory                     files/run.py; from here on `_Job.run`
    which rows are in which part          parts.py
    images decoded and prepared           `Decoder` in feed.py
    features and logits of a batch        models/network.py, or another `Model`
    each part as a file                   files/samples.py

Data loaders go another way (loader.py).

Threads decode images ahead of the model. Rows are split into parts of a fixed size, and each part is written as soon as its
features are computed: a killed run resumes with the missing parts, and gives the same bytes.

Where a large JPEG was decoded smaller than it is, and its two most likely classes are nearly equal, it is decoded again, whole.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
from PIL import Image

from hardsight.checks import check_labels
from hardsight.data import BrokenImage, Degradation, ImageData, degraded_id, parse_degradations
from hardsight.data.dataset import num_classes
from hardsight.data.decoding import WHOLE
from hardsight.errors import InputError, RunError
from hardsight.extraction.feed import Decoder, Seen, none_readable, stack, write_errors
from hardsight.extraction.inputs import Data, columns_of, fingerprint, finite_features, ids_of, open_inputs, with_labels
from hardsight.extraction.loader import COMMAND as LOADER_COMMAND
from hardsight.extraction.loader import extract_loader
from hardsight.extraction.parts import (
    AGAIN,
    BROKEN,
    PASSES,
    Part,
    check_space,
    class_names_metadata,
    fitting_batch_size,
    image_passes,
    images_per_part,
    layer_parts,
    parts_of,
    read_back,
    size_begun_with,
)
from hardsight.extraction.settings import ExtractSettings
from hardsight.files.heads import save_head
from hardsight.files.places import place_on_disk
from hardsight.files.run import Run, check_run_directory
from hardsight.files.samples import OWN_COLUMNS, write_samples
from hardsight.files.wide_tables import is_dataset
from hardsight.labels import counted_from_zero, renumbered
from hardsight.models import Model, open_model
from hardsight.models.model import refuse
from hardsight.models.weights import check_weights_file
from hardsight.options import takes
from hardsight.screen import Progress, Say
from hardsight.snapshot import Snapshot
from hardsight.threads import ahead, decoders, num_threads

if TYPE_CHECKING:
    from hardsight.option_types import ExtractOptions


COMMAND = "hardsight extract"
FEW = 4  # images to check a model with
AHEAD_BATCHES, AHEAD_BYTES = 4, 2**28  # to decode ahead of the model: maximum batches, approximate bytes
NEAR_TIE = 0.05  # of two logits, the largest: below, the second class is at least 95 % as likely as the first
TAKEN = {"id", "label", "features", *OWN_COLUMNS} - {"split", "path"}  # reserved names that a column of the data cannot have


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
    seen: Seen | None = None,
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
        seen: called with the row of each image and the image as it was decoded, or the error, by several threads.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> snapshot = extract(net, [(torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 0, 1, 1]))])
        >>> len(snapshot), snapshot.num_classes
        (5, 2)
    """
    settings = ExtractSettings.given(settings, options)
    check_weights_file(settings.weights)
    from_loader = not isinstance(data, (str, os.PathLike, ImageData, Snapshot)) and not is_dataset(data)
    if output is not None:
        check_run_directory(output, LOADER_COMMAND if from_loader else COMMAND)
    degradations = parse_degradations(settings.degradations)
    overrides = {**settings.preprocessing(), **(preprocessing or {})}
    if from_loader:
        refuse("a loader, which is read in order: use first instead", limit=settings.limit)
        refuse("a loader, whose images are ready for the model", labels_from=settings.labels_from,
               degradations=degradations or None, layers=settings.layers or None, passes=settings.passes or None)  # fmt: skip
        return extract_loader(_open_model(model, settings, overrides), data, output, settings)
    if output is None:
        raise InputError("extract needs an output directory, except for loaders: output='run'.")
    say = say or (lambda sentence: None)
    inputs, sources = open_inputs(data, model, settings, overrides)
    for note in inputs.notes if isinstance(inputs, ImageData) else ():
        say(note)
    opened = _open_model(model, settings, overrides)
    if isinstance(inputs, Snapshot):
        _check_width(opened, inputs.source.width)
    job = _Job(opened, inputs, settings, say, degradations, seen)
    job.prepare(place_on_disk(output))
    return job.run(place_on_disk(output), sources, progress)


def _open_model(model: Any, settings: ExtractSettings, preprocessing: dict[str, Any]) -> Model:
    """The model with its preprocessing; this loads the libraries that run it."""
    names = ("weights", "pretrained", "head", "device", "precision", "num_classes")
    opened: Model = model if isinstance(model, Model) else open_model(model, **{name: getattr(settings, name) for name in names})
    if preprocessing:
        opened.preprocessing = replace(opened.preprocessing, **preprocessing)
    return opened


def _check_width(model: Any, features: int) -> None:
    """Features are as wide as the first layer takes them."""
    width = next(weight.shape[1] for weight in model.module.parameters() if weight.ndim == 2)
    if width != features:
        raise InputError(f"{model.name} takes {width} features per sample, the data has {features}.")


class _Image(NamedTuple):
    """An image on its way to the model, or one of its degraded copies; or a row of features."""

    row: int
    version: Degradation | None
    pixels: np.ndarray


@dataclass
class _Job:
    """An extraction: n images, each once, or once per degradation; or n rows of features."""

    model: Model
    data: Data
    settings: ExtractSettings
    say: Say
    degradations: list[Degradation]
    seen: Seen | None = None

    def prepare(self, output: Path) -> None:
        """Check the model with a few images, match its classes to the data's, and choose sizes. Nothing is written."""
        settings = self.settings
        self.passes = image_passes(settings.passes)
        self.workers = settings.workers or num_threads()
        self.copies = max(1, len(self.degradations))
        self.noun = "images" if isinstance(self.data, ImageData) else "features"
        self.versions: Sequence[Degradation | None] = self.degradations or [None]
        self.came_smaller = np.zeros(len(self.data), bool)
        self.decode, self.batch = self._reading()  # a row -> its images; some images -> a batch for the model
        self.ids, self.columns = ids_of(self.data), columns_of(self.data)
        sample = self._first_images()  # (b, C, H, W), or (b, d) features
        with warnings.catch_warnings():
            if settings.fit_head:  # then the layer need not produce the model's output
                warnings.simplefilter("ignore")
            self.model.check(sample)
        if settings.layers:
            self.model.watch(settings.layers, sample)
        for image_pass in self.passes:
            image_pass.features(self.model, sample, ())  # rejects a network without dropout before anything is written
        self.head_names = self._match_classes()
        self.types = self._column_types()
        self.batch_size: int = settings.batch_size
        if settings.batch_size == "auto":
            self.batch_size = size_begun_with(output, "batch_size") or fitting_batch_size(self.model, sample)
        self.images_per_part = size_begun_with(output, "images_per_part") or images_per_part(
            len(self.data), self.copies, self.batch_size, self.model.num_features, 1 + len(self.passes)
        )
        fits = AHEAD_BYTES // (self.copies * sample[0].nbytes)
        self.images_ahead = max(2 * self.workers, min(AHEAD_BATCHES * self.batch_size, fits))

    def run(self, output: Path, sources: dict[str, Any], progress: Progress | None) -> Snapshot:
        """Write the missing parts of the run, then everything else."""
        inputs = {"model": self.model.fingerprint(), "data": fingerprint(self.data)}
        run = Run(output, COMMAND, self._arguments(), inputs, sources)
        if run.complete:
            self.say(f"{output} is complete already")
            return Snapshot.load(output)
        with run.only_writer():
            pass_runs = self._pass_runs(run)
            parts = parts_of(run.folder("samples"), len(self.data), self.images_per_part)
            missing = [part for part in parts if not self._is_written(part)]
            run.kept_in_words = lambda: (
                f"{sum(len(part.rows) for part in parts if self._is_written(part)):,} of {len(self.data):,} {self.noun}"
            )
            if len(missing) < len(parts):
                self.say(f"resuming: {len(parts) - len(missing)} of {len(parts)} parts are complete, {run.kept_in_words()}")
            numbers = self.copies * (1 + len(self.passes)) * self.model.num_features  # per image
            check_space(output, 4 * numbers * sum(len(part.rows) for part in missing), self.say)
            self._write_parts(missing, progress)
            if fingerprint(self.data) != inputs["data"]:
                raise RunError(f"the {self.noun} changed while they were read: remove {output} and start over.")
            self._finish(run, [part.file for part in parts], pass_runs)
        return Snapshot.load(output)

    # ---- before the run ----

    def _reading(self) -> tuple[Callable[[int], list[np.ndarray] | BrokenImage], Callable[[list[np.ndarray]], np.ndarray]]:
        """How a row is read, once per degradation, and how several make a batch for the model: images, or rows of features."""
        if isinstance(self.data, Snapshot):
            features = finite_features(self.data)  # (n, d)
            return (lambda row: [features[row]]), stack
        prepare = self.model.preprocessing
        decoder = Decoder(self.data, prepare, self.settings.strict, self._see)
        self.decode_whole = Decoder(self.data, replace(prepare, exact_decode=True))
        return (lambda row: decoder(row, self.versions)), (lambda pixels: prepare.normalized(stack(pixels)))

    def _see(self, row: int, picture: Image.Image | BrokenImage) -> None:
        """Remember which pictures came smaller than they are."""
        self.came_smaller[row] = not isinstance(picture, BrokenImage) and WHOLE in picture.info
        if self.seen is not None:
            self.seen(row, picture)

    def _first_images(self) -> np.ndarray:
        """A few readable images, to check the model with."""
        decoded = map(self.decode, range(len(self.data)))
        first = list(itertools.islice((images[0] for images in decoded if not isinstance(images, BrokenImage)), FEW))
        if not first:
            raise none_readable(len(self.data), self.decode(0))
        return self.batch(first)

    def _match_classes(self) -> list[str] | None:
        """Class names to store with the head (an empty list if unknown), or None to leave the head out.

        A head is useless for labels of other classes: labels by the data's own class names, if there are more or fewer of
        them than the model has classes, and label numbers that the model does not have.
        """
        if not self.model.classifies:
            return None
        if self.settings.fit_head:
            self.say("leaving the model's head out; score will fit one to the features by cross-validation")
            return None
        c, theirs = self.model.head.num_classes, self._names_of_model()
        self._follow_names_of_model(theirs)
        ours = self.data.class_names
        if ours is None and self.data.labels is not None:
            labels, notes = counted_from_zero(self.data.labels, c)
            self.data = with_labels(self.data, labels, None)
            for note in notes:
                self.say(note)
        count = num_classes(self.data)
        fits = count <= c if ours is None else count == c
        if not fits and not self.settings.keep_head:
            self.say(
                f"the data has {count} classes, the model {c}: its head is left out, and score will fit one to the "
                "features by cross-validation (--keep-head keeps it)"
            )
            return None
        if not fits and ours is not None:
            raise InputError(_no_match(ours, theirs, c))
        if self.data.labels is not None:
            check_labels(self.data.labels, len(self.data), c)
        return list(ours if ours is not None and len(ours) == c else theirs or [])

    def _names_of_model(self) -> Sequence[str] | None:
        """The class names of the model; what a user says of them holds."""
        ours = self.data.class_names
        if self.settings.class_names is not None and ours is not None and len(ours) == self.model.head.num_classes:
            return ours
        return self.model.class_names

    def _follow_names_of_model(self, theirs: Sequence[str] | None) -> None:
        """Renumber the data's labels by the model's class names: a folder may hold only some classes, or in another order."""
        ours = self.data.class_names
        if ours is None or theirs is None or list(theirs) == ours or not set(ours) <= set(theirs):
            return
        labels = None if self.data.labels is None else renumbered(self.data.labels, ours, theirs)
        self.data = with_labels(self.data, labels, list(theirs))
        self.say(f"labels follow the model's own class names: {ours[0]} is class {list(theirs).index(ours[0])}")

    def _column_types(self) -> dict[str, pa.DataType]:
        """Types of the user's columns, since a part may hold only nulls; those with reserved names are reported."""
        taken = [name for name in self.columns if name in TAKEN]
        if taken:
            self.say(f"skipping columns with reserved names: {', '.join(taken)}")
        return {name: pa.array(values).type for name, values in self.columns.items() if name not in taken}

    def _arguments(self) -> dict[str, Any]:
        """Everything the bytes depend on besides the model and the data; the number of decoding threads is not among it."""
        return {
            **self.settings.as_dict(),
            "degradations": [str(degradation) for degradation in self.degradations],
            "preprocessing": self.model.preprocessing.as_dict(),
            "batch_size": self.batch_size,
            "images_per_part": self.images_per_part,
            "device": str(getattr(self.model, "device", "cpu")),
            "precision": getattr(self.model, "precision", "float32"),
            "layer": self.model.layer_name,
        }

    # ---- the run ----

    def _pass_runs(self, run: Run) -> list[Run]:
        """A run directory for each extra pass, passes/NAME: a complete snapshot."""
        if not self.passes:
            return []
        folder, start = run.folder(PASSES), run.start
        named = [(each.name, {**start["arguments"], "pass": each.name}) for each in self.passes]
        return [Run(folder / name, COMMAND, arguments, start["inputs"], start["sources"]) for name, arguments in named]

    def _is_written(self, part: Part) -> bool:
        """Whether a part is complete, including its extra layers and passes."""
        layers = layer_parts(part.file, self.settings.layers).values()
        return all(path.exists() for path in (part.file, *layers, *(each.part(part.file) for each in self.passes)))

    def _write_parts(self, missing: list[Part], progress: Progress | None) -> None:
        """Decode ahead, run the model, and write each part after its last image."""
        done = len(self.data) - sum(len(part.rows) for part in missing)
        order = (row for part in missing for row in part.rows)
        with (
            decoders(self.workers) as pool,
            contextlib.closing(ahead(pool, self.decode, order, self.images_ahead)) as decoded,
        ):
            for part in missing:
                waiting: list[_Image] = []
                for row, result in zip(part.rows, decoded, strict=False):
                    done += 1
                    if isinstance(result, BrokenImage):
                        part.broken.append({"id": self.ids[row], "reason": result.reason, "message": str(result)})
                    else:
                        part.kept.append(row)
                        waiting += map(_Image, itertools.repeat(row), self.versions, result)
                    while len(waiting) >= self.batch_size or (waiting and row == part.rows[-1]):
                        self._run_model(part, waiting[: self.batch_size])
                        del waiting[: self.batch_size]
                        if progress is not None:
                            progress(done, len(self.data))
                self._write_part(part)

    def _run_model(self, part: Part, images: list[_Image]) -> None:
        """Add the features of a batch to a part; those of near ties, in every layer and pass, are of the whole pictures."""
        batch = self.batch([image.pixels for image in images])
        features, logits = self.model(batch)
        layers = self.model.watched
        if again := self._near_ties(images, logits):
            rows = list(again)
            batch[rows] = self.batch(list(again.values()))
            features[rows] = self.model(batch[rows])[0]
            for name, values in self.model.watched.items():
                layers[name][rows] = values
            part.again += len(rows)
        part.features.append(features)
        part.layers.append(layers)
        for each in self.passes:
            seed = part.rows[0], len(part.features)
            part.passes.setdefault(each, []).append(each.features(self.model, batch, seed))

    def _near_ties(self, images: list[_Image], logits: np.ndarray) -> dict[int, np.ndarray]:
        """Pixels from the whole picture, by place in the batch, of those that came smaller and nearly have another prediction."""
        if logits.shape[1] < 2:
            return {}
        second, first = np.partition(logits, -2, axis=1)[:, -2:].T  # (b,) each
        near = [k for k in np.flatnonzero(first - second < NEAR_TIE).tolist() if self.came_smaller[images[k].row]]
        decoded = {k: self.decode_whole(images[k].row, [images[k].version]) for k in near}
        return {k: pixels[0] for k, pixels in decoded.items() if not isinstance(pixels, BrokenImage)}

    # ---- files ----

    def _write_part(self, part: Part) -> None:
        """Write the features of extra layers and passes, and those of the part last, because they mark it as complete."""
        columns = self._columns(part.kept)
        for layer, path in layer_parts(part.file, self.settings.layers).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_samples(path, _joined([batch[layer] for batch in part.layers], 1), {"id": columns["id"]})
        metadata = class_names_metadata(self.data.class_names)
        d = self.model.num_features
        for each in self.passes:
            each.part(part.file).parent.mkdir(exist_ok=True)
            write_samples(each.part(part.file), _joined(part.passes.get(each, []), d), columns, {BROKEN: b"[]", **metadata})
        broken = json.dumps(part.broken).encode()
        write_samples(part.file, _joined(part.features, d), columns, {BROKEN: broken, AGAIN: b"%d" % part.again, **metadata})
        part.kept, part.broken, part.features, part.layers, part.passes = [], [], [], [], {}  # their memory is free again

    def _columns(self, kept: list[int]) -> dict[str, Any]:
        """The columns of the readable images, each row repeated once per degradation."""
        base = [self.ids[row] for row in kept]
        labels = np.full(len(kept), -1) if self.data.labels is None else self.data.labels[kept]
        ids = [degraded_id(base_id, how) for base_id in base for how in self.degradations] if self.degradations else base
        columns: dict[str, Any] = {"id": pa.array(ids, pa.string()), "label": np.repeat(labels, self.copies)}
        columns["base_id"] = self._repeat(base)
        if self.degradations:
            columns["degradation"] = [how.kind for _ in kept for how in self.degradations]
            columns["level"] = [how.level for _ in kept for how in self.degradations]
        for column, kind in self.types.items():
            values = self.columns[column]
            columns[column] = pa.array(self._repeat([values[row] for row in kept]), kind)
        return columns

    def _repeat(self, values: list[Any]) -> list[Any]:
        return [value for value in values for _ in range(self.copies)]

    def _finish(self, run: Run, parts: list[Path], pass_runs: Sequence[Run]) -> None:
        """Write errors.parquet, the head, the run.json of every pass, and run.json last."""
        rows, broken, again = read_back(parts)
        written = list(parts)
        layers = self.settings.layers
        written += [layer_parts(part, layers)[layer] for layer in layers for part in parts]
        written += write_errors(run.directory, broken, f"of {len(self.data)} images", self.say)
        written += self._write_head(run.directory)
        counts = {"images": len(self.data), "rows": sum(rows.values()), "broken": len(broken), "decoded_again": again}
        for pass_run in pass_runs:
            copies = [pass_run.directory / "samples" / part.name for part in parts]
            pass_run.finish([*copies, *self._write_head(pass_run.directory)], counts, rows)
        run.finish(written, counts, rows)

    def _write_head(self, directory: Path) -> list[Path]:
        """The head's file, unless it is left out."""
        if self.head_names is None:
            return []
        save_head(directory / "head.safetensors", self.model.head, self.head_names or None)
        return [directory / "head.safetensors"]


def _joined(batches: list[np.ndarray], width: int) -> np.ndarray:
    """(n, d) of all batches; `width` is that of no batch at all."""
    return np.concatenate(batches) if batches else np.zeros((0, width), np.float32)


def _no_match(ours: Sequence[str], theirs: Sequence[str] | None, c: int) -> str:
    """Why a head cannot be kept for labels by name."""
    if theirs is None:
        why = f"but the model has none: give all {c} in its order with --class-names FILE"
    else:
        why = f"but {next(name for name in ours if name not in theirs)!r} is none of them"
    return f"--keep-head: the data's {len(ours)} classes are matched to the model's {c} by name, {why}, or leave out --keep-head."
