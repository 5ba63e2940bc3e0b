"""`attack`: move every image so that the model errs, and keep what the model then sees, a part at a time.

samples/part-00000.parquet ...    features of each image, clean and attacked: a snapshot with its head
attack.parquet                    a row per image and attack: predicted, correct, avh, norm, likelihood, score, ...
epsilons.parquet                  a row per attack: error with an interval, and medians of the scores
detection.parquet                 AUROC of telling attacked inputs from clean ones
trajectories.parquet              paths of some samples in angle and norm
figures/                          error.png, roc.png, histograms.png, trajectory.png

A run that was killed is resumed with the missing parts, and ends with the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.attacks import tables
from hardsight.attacks.attack_result import Attack
from hardsight.attacks.settings import AttackSettings
from hardsight.attacks.target import (
    AttackTarget,
    check_same_model,
    check_target,
    in_classes_of,
    open_attacked,
    saved_centers,
    training_features,
)
from hardsight.errors import FileError, RunError, require_installed
from hardsight.extraction.feed import ImageInputs, sized, write_errors
from hardsight.extraction.parts import BROKEN, parts_of, read_back
from hardsight.files.heads import save_head
from hardsight.files.parquet import read_parquet
from hardsight.files.places import place_on_disk
from hardsight.files.run import Run, check_run_directory
from hardsight.files.samples import rows_per_part, write_samples
from hardsight.options import takes
from hardsight.render.saving import save_figure
from hardsight.screen import Progress, Say
from hardsight.table import write_table
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from torch import Tensor

    from hardsight.models.network import Network
    from hardsight.option_types import AttackOptions

COMMAND = "hardsight attack"
PART_IMAGES = 512


@takes(AttackSettings)
def attack(
    run: Any, output: str | os.PathLike[str], *, settings: AttackSettings | None = None, progress: Progress | None = None,
    say: Say | None = None, **options: Unpack[AttackOptions],
) -> Attack:  # fmt: skip
    """Attack a model by FGSM or PGD, and measure what gives attacked inputs away.

    Gradients are those of cross-entropy on the logits that the model predicts with, without a margin.

    Args:
        run: a run of `hardsight train`; a run of `hardsight extract`, with `model`; or a model, with `data`: its name, or an
            `nn.Module`.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object.
        progress: called with the number of images done and the number of all images.
        say: called with sentences for the user.

    Example:
        >>> import tempfile
        >>> from hardsight.models.networks import DigitsCNN
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = attack(DigitsCNN(), folder, data="digits", limit=20, epsilon=0.2, trajectories=0)
        >>> done.by_epsilon.select(["method", "epsilon", "n"]).to_pylist()
        [{'method': 'clean', 'epsilon': 0.0, 'n': 20}, {'method': 'fgsm', 'epsilon': 0.2, 'n': 20}]
    """
    settings = AttackSettings.given(settings, options)
    require_installed("torch", extra="torch", purpose="hardsight.attack")
    final = {name: value for name, value in settings.as_dict().items() if name != "device"}  # auto becomes a device later
    check_run_directory(output, COMMAND, final)
    target = check_target(run, settings)  # torch, which takes seconds to load, is loaded after this
    say = say or (lambda sentence: None)
    for note in target.notes:
        say(note)
    directory = place_on_disk(output)
    _Job.of(target, settings, say, progress).run(directory)
    return Attack(directory, notes=target.notes)


@dataclass
class _Job:
    """One attack, from an empty or interrupted run directory to a complete one."""

    model: Network
    inputs: ImageInputs
    target: AttackTarget
    settings: AttackSettings
    say: Say
    progress: Progress | None

    @classmethod
    def of(cls, target: AttackTarget, settings: AttackSettings, say: Say, progress: Progress | None) -> _Job:
        """The model opened and its last layer found, the images as it takes them."""
        from hardsight.training.forward_passes import first_sample

        model = open_attacked(target.model, settings)
        check_same_model(target.directory, model)
        model.preprocessing = sized(model.preprocessing, target.data, settings.preprocessing.preprocessing())
        model.check(first_sample(ImageInputs(target.data, model.preprocessing, workers=settings.workers)).numpy())
        data = in_classes_of(model, target.data)
        return cls(model, ImageInputs(data, model.preprocessing, workers=settings.workers), target, settings, say, progress)

    def run(self, output: Path) -> None:
        """Start the run or resume it, attack what is missing, and sum up."""
        per_part = max(1, min(PART_IMAGES, rows_per_part(self.model.head.num_features) // (1 + len(self.attacks))))
        arguments = {
            **self.settings.as_dict(),
            "preprocessing": self.model.preprocessing.as_dict(),
            "images_per_part": per_part,
            "layer": self.model.layer_name,
            "device": self.model.device.type,
        }
        fingerprints = {"model": self.model.fingerprint(), "data": self.inputs.fingerprint()}
        sources = {"data": self.target.source, "roots": [str(root.resolve()) for root in self.target.data.roots]}
        run = Run(output, COMMAND, arguments, fingerprints, sources)
        if run.complete:
            self.say(f"{output} is complete already")
            return
        with run.only_writer():
            n = len(self.inputs)
            parts = {part.file: part.rows for part in parts_of(run.folder("samples"), n, per_part)}
            run.kept_in_words = lambda: f"{sum(len(rows) for name, rows in parts.items() if name.exists()):,} of {n:,} images"
            if any(name.exists() for name in parts):
                self.say(f"resuming: {run.kept_in_words()} are attacked")
            for name, rows in parts.items():
                if not name.exists():
                    self._write_part(name, rows)
            if self.inputs.fingerprint() != fingerprints["data"]:
                raise RunError(f"the images changed while they were read: remove {output} and start over.")
            self._finish(run, list(parts))

    @property
    def attacks(self) -> list[tuple[str, float]]:
        """Every method at every epsilon."""
        return [(method, epsilon) for method in self.settings.methods for epsilon in self.settings.epsilon]

    def _write_part(self, name: Path, rows: range) -> None:
        """Some images, clean and by every attack, as rows of a snapshot."""
        kept: list[np.ndarray] = []
        features: list[list[np.ndarray]] = [[] for _ in range(1 + len(self.attacks))]
        size = self.settings.batch_size
        slices = [np.arange(read, min(read + size, rows.stop)) for read in range(rows.start, rows.stop, size)]
        for batch in self.inputs.batches(slices):
            if len(batch.rows):
                kept.append(batch.rows)
                for of_version, inputs in zip(features, self._versions(batch.rows, batch.inputs), strict=True):
                    of_version.append(self.model(inputs)[0])
            if self.progress is not None:
                self.progress(int(slices[len(kept) - 1][-1]) + 1 if kept else rows.start, len(self.inputs))
        read = np.concatenate(kept) if kept else np.zeros(0, np.int64)
        width = self.model.head.num_features
        matrix = np.concatenate([x for of_version in features for x in of_version]) if kept else np.zeros((0, width), np.float32)
        broken = [
            {"id": self.inputs.ids[row], "reason": why[0], "message": why[1]}
            for row in rows
            if (why := self.inputs.broken.get(self.inputs.ids[row])) is not None
        ]
        write_samples(name, matrix, self._columns(read), metadata={BROKEN: json.dumps(broken).encode()})

    def _columns(self, rows: np.ndarray) -> dict[str, Any]:
        base, n = [self.inputs.ids[row] for row in rows], len(rows)
        endings = ["", *(f"#{method}={epsilon:.6g}" for method, epsilon in self.attacks)]
        columns: dict[str, Any] = {
            "id": pa.array([id + ending for ending in endings for id in base], pa.string()),
            "label": np.tile(self.inputs.labels[rows], len(endings)),
            "base_id": pa.array(base * len(endings), pa.string()),
            "degradation": pa.array([None] * n + [method for method, _ in self.attacks for _ in base], pa.string()),
            "level": pa.array([None] * n + [epsilon for _, epsilon in self.attacks for _ in base], pa.float64()),
        }
        further = self.inputs.columns.items()
        return columns | {name: [values[row] for row in rows] * len(endings) for name, values in further}

    def _versions(self, rows: np.ndarray, inputs: np.ndarray) -> Iterator[np.ndarray]:
        """(b, C, H, W) inputs as they are, and by every attack."""
        import torch

        from hardsight.attacks import gradient_sign

        yield inputs
        s, view = self.settings, _Pixels(self.model)
        pixels, labels = view.pixels(inputs), torch.as_tensor(self.inputs.labels[rows], device=self.model.device)
        direction = gradient_sign.slope(view.logits, pixels, labels) if "fgsm" in s.methods else None
        noise = self._noise(rows, pixels) if "pgd" in s.methods and s.random_start else None
        for method, epsilon in self.attacks:
            if method == "fgsm":
                assert direction is not None
                yield view.inputs(gradient_sign.moved(pixels, direction, epsilon))
            else:
                how: dict[str, Any] = {"steps": s.steps, "step_size": s.step_size, "noise": noise}
                yield view.inputs(gradient_sign.pgd(view.logits, pixels, labels, epsilon, **how))

    def _noise(self, rows: np.ndarray, pixels: Tensor) -> Tensor:
        """In -1 to 1, drawn from the seed and the image, so that a resumed run draws the same."""
        import torch

        shape = tuple(pixels.shape[1:])
        drawn = [np.random.default_rng([self.settings.seed, int(row)]).uniform(-1, 1, shape) for row in rows]
        return torch.as_tensor(np.array(drawn, np.float32), device=pixels.device)

    def _finish(self, run: Run, parts: list[Path]) -> None:
        """The head, the tables, the figures, and run.json last."""
        rows, broken, _ = read_back(parts)
        samples, features = _read_parts(parts)
        if len(features) == 0:
            raise FileError(f"none of the {len(self.inputs)} images can be read.")
        head, directory, d = self.model.head, self.target.directory, self.model.head.num_features
        names = self.inputs.class_names or self.model.class_names
        save_head(run.directory / "head.safetensors", head, list(names) if names and len(names) == head.num_classes else None)
        clean = samples.column("degradation").is_null().to_numpy()
        labels = samples.column("label").to_numpy().astype(np.int64)
        trained = training_features(directory, d)
        verified = tables.verification(head, saved_centers(directory, d), trained, (features[clean], labels[clean]))
        table = tables.attack_table(samples, features, verified)
        path = run.directory / "trajectories.parquet"
        if not path.exists():
            write_table(self._paths(table), path)
        written = {"attack": table, "epsilons": tables.epsilon_table(table), "detection": tables.detection_table(table)}
        for name, each in written.items():
            write_table(each, run.directory / f"{name}.parquet")
        write_errors(run.directory, broken, f"of {len(self.inputs)} images", self.say)
        fitted = "the head" if head.kind == "gaussian" else "training features" if trained is not None else "clean inputs"
        counts = {
            "images": int(clean.sum()),
            "broken": len(broken),
            "score": verified.name,
            "gaussians": fitted,
            "trajectories": tables.describe_paths(read_parquet(path)),
        }
        for name, figure in Attack(run.directory, counts=counts).figures().items():
            save_figure(figure, run.folder("figures") / f"{name}.png")
        run.finish(parts, counts, rows)

    def _paths(self, table: pa.Table) -> pa.Table:
        """Paths of some images that are classified rightly, up to the largest epsilon."""
        import torch

        from hardsight.attacks import gradient_sign

        s = self.settings
        clean = table.slice(0, int((table.column("method").to_numpy(zero_copy_only=False) == "clean").sum()))
        right = clean.filter(clean.column("correct")).column("id").to_pylist()
        wanted = set(right[place] for place in even_rows(len(right), s.trajectories)) if s.trajectories else set()
        chosen = np.array([row for row, id in enumerate(self.inputs.ids) if id in wanted], np.int64)
        if len(chosen) == 0:
            return tables.PATH_COLUMNS.empty_table()
        view, seen, features = _Pixels(self.model), [], []
        for batch in self.inputs.batches(np.array_split(chosen, -(-len(chosen) // s.batch_size))):
            labels = torch.as_tensor(self.inputs.labels[batch.rows], device=self.model.device)
            steps = gradient_sign.ascent(view.logits, view.pixels(batch.inputs), labels, s.epsilon[-1], s.path_steps)
            features.append(np.stack([self.model(view.inputs(pixels))[0] for pixels in steps], axis=1))  # (b, steps + 1, d)
            seen.append(batch.rows)
        rows = np.concatenate(seen)
        ids = [self.inputs.ids[row] for row in rows]
        return tables.path_table(ids, self.inputs.labels[rows], np.concatenate(features), self.model.head, s.epsilon[-1])


class _Pixels:
    """A model's inputs as pixels of 0 to 1, and back."""

    def __init__(self, model: Network) -> None:
        import torch

        self.model = model
        mean, std = model.preprocessing.mean, model.preprocessing.std
        self.mean, self.std = (torch.tensor(values, device=model.device)[:, None, None] for values in (mean, std))

    def pixels(self, inputs: np.ndarray) -> Tensor:
        """(b, C, H, W) inputs -> pixels on the model's device."""
        import torch

        return (torch.from_numpy(inputs).to(self.model.device) * self.std + self.mean).clamp(0, 1)

    def logits(self, pixels: Tensor) -> Tensor:
        """(b, C, H, W) pixels -> (b, c) logits, with gradients."""
        return self.model.logits((pixels - self.mean) / self.std)

    def inputs(self, pixels: Tensor) -> np.ndarray:
        """(b, C, H, W) pixels -> the model's inputs."""
        array: np.ndarray = ((pixels - self.mean) / self.std).cpu().numpy()
        return array


def _read_parts(parts: list[Path]) -> tuple[pa.Table, np.ndarray]:
    """The parts as one table and (n, d) features."""
    table = pa.concat_tables([read_parquet(part).replace_schema_metadata(None) for part in parts])
    column = table.column("features").combine_chunks()
    features = column.flatten().to_numpy().reshape(len(table), -1) if len(table) else np.zeros((0, 1), np.float32)
    return table.drop_columns("features"), features
