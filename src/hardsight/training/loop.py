"""The loop itself: epochs, steps, evaluation, checkpoints, and what is written at the end."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor

from hardsight.dynamics import gathering
from hardsight.dynamics.tracker import Dynamics
from hardsight.errors import FileError, InputError, RunError, TrainingError
from hardsight.extraction.extracting import ERRORS
from hardsight.files.run import Run
from hardsight.models.model import BuiltNetwork, Model, ModelOptions
from hardsight.models.network import Network
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable
from hardsight.training import processes, results
from hardsight.training.augmentation import parse_augmentation, sample_keys
from hardsight.training.checkpoint import Progress, load_checkpoint, newest_checkpoint, save_checkpoint
from hardsight.training.inputs import Inputs
from hardsight.training.schedule import rate_factor
from hardsight.training.sets import Said, Sets
from hardsight.training.settings import TrainSettings
from hardsight.training.teacher import check_teacher, taught_logits
from hardsight.training.trainee import Trainee, make_optimizer

SUMS = ("n", "correct", "avh", "norm", "loss")
FOUND_BY = 16  # images the last layer is found with

Report = Callable[[int, int, str], None]


@dataclass
class Training:
    accelerator: Accelerator
    settings: TrainSettings
    source: Trainable
    inputs: dict[str, Inputs]  # "train" first
    sets: Sets
    preprocessing: Preprocessing | None
    say: Said
    report: Report | None
    teacher: Model | None = None
    done: Progress = field(default_factory=Progress)
    fingerprints: dict[str, Any] = field(default_factory=dict)

    def arrange_and_run(self, output: Path) -> None:
        """Set up the run, go on from where it stands, train, and write what is left at the end."""
        arguments, self.fingerprints = self._arguments(), self._fingerprints()
        trainee, optimizer = self._build()
        main = self.accelerator.is_main_process
        run = Run(output, "hardsight train", arguments, self.fingerprints) if main else None
        self.accelerator.wait_for_everyone()
        if (output / "run.json").exists():
            self.say(f"{output} is complete already")
            return
        with run.only_writer() if run is not None else contextlib.nullcontext():
            self._resume(output, trainee, optimizer)
            self.accelerator.wait_for_everyone()
            with self._tracked(arguments, output):
                self._epochs(output, trainee, optimizer)
            written = self._snapshot(output, trainee)
            if run is not None:
                self._finish(run, trainee, written)
            self.accelerator.wait_for_everyone()

    def _arguments(self) -> dict[str, Any]:
        """What decides the result, beside the data and the network's weights; how many threads decode does not."""
        return {
            **self.settings.as_dict(),
            "factory": self.source.factory,
            "model_arguments": self.source.arguments,
            "preprocessing": None if self.preprocessing is None else self.preprocessing.as_dict(),
            "device": self.accelerator.device.type,
            "processes": self.accelerator.num_processes,
        }

    def _fingerprints(self) -> dict[str, Any]:
        model = Network(BuiltNetwork(self.source.module), self.source.factory, ModelOptions(device="cpu")).fingerprint()
        teacher = {} if self.teacher is None else {"teacher": self.teacher.fingerprint()}
        return {"model": model, **teacher, **{name: one.fingerprint() for name, one in self.inputs.items()}}

    def _build(self) -> tuple[Trainee, torch.optim.Optimizer]:
        set_seed(self.settings.seed)
        train = self.inputs["train"]
        first = next((batch for batch in train.batches([np.arange(min(FOUND_BY, len(train)))]) if len(batch.rows)), None)
        if first is None:
            raise FileError(f"none of the first {FOUND_BY} samples can be read.")
        c, sample = self.sets.num_classes, torch.from_numpy(first.inputs)
        trainee = Trainee(self.source, sample, self.settings, c, len(train), self.preprocessing)
        if self.teacher is not None:
            check_teacher(self.teacher, first.inputs, c)
        if len(train) < self.accelerator.num_processes:
            raise InputError(f"{len(train)} samples cannot be shared by {self.accelerator.num_processes} processes.")
        trainee.to(self.accelerator.device)
        return trainee, make_optimizer(trainee, self.settings)

    def _resume(self, output: Path, trainee: Trainee, optimizer: torch.optim.Optimizer) -> None:
        folder = output / "checkpoints"
        epoch, notes = newest_checkpoint(folder) if self.accelerator.is_main_process else (0, [])
        for note in notes:
            self.say(note)
        epoch = processes.told_by_first(epoch, self.accelerator.device)
        if epoch:
            self.done = load_checkpoint(folder, epoch, trainee, optimizer)
            self.say(f"going on after epoch {epoch} of {self.settings.epochs}")
        if self.accelerator.is_main_process:
            for path in (output / "dynamics").glob("*.parquet"):  # of epochs that are to be trained again
                kind, _, number = path.stem.partition("=")
                if number.isdigit() and int(number) > (self.done.epoch if kind == "epoch" else self.done.step):
                    path.unlink()

    def _epochs(self, output: Path, trainee: Trainee, plain_optimizer: torch.optim.Optimizer) -> None:
        self.accelerator.wait_for_everyone()
        model, optimizer = self.accelerator.prepare(trainee, plain_optimizer)
        scaler = self.accelerator.scaler
        if scaler is not None and self.done.scaler is not None:
            scaler.load_state_dict(self.done.scaler)
        dynamics = Dynamics(output)
        keys = sample_keys(self.inputs["train"].ids)
        if self.settings.at_start and self.done.epoch == 0:
            self._evaluate(0, trainee, dynamics)
            self._write_dynamics(dynamics, 0)
        for epoch in range(self.done.epoch + 1, self.settings.epochs + 1):
            started = time.monotonic()
            entry: dict[str, Any] = {"epoch": epoch, "lr": self._rate(self.done.step)}
            entry["train"] = self._train_epoch(epoch, model, trainee, optimizer, dynamics, keys)
            entry |= self._evaluate(epoch, trainee, dynamics)
            self._write_dynamics(dynamics, epoch)
            self.done.epoch = epoch
            self.done.history.append(entry)
            self.done.broken = self._all_broken()
            self.done.scaler = None if scaler is None else scaler.state_dict()
            if self.accelerator.is_main_process:
                folder = output / "checkpoints"
                folder.mkdir(exist_ok=True)
                save_checkpoint(folder, self.done, trainee, plain_optimizer)
            self.accelerator.wait_for_everyone()
            self.accelerator.log(_flat(entry), step=epoch)
            self.say(_sentence(entry, self.settings.epochs, time.monotonic() - started))

    def _train_epoch(
        self, epoch: int, model: Any, trainee: Trainee, optimizer: Any, dynamics: Dynamics, keys: np.ndarray
    ) -> dict[str, float]:
        """One pass over the training samples in a new order; their dynamics come from the forward passes made anyway."""
        settings, train = self.settings, self.inputs["train"]
        set_seed(_epoch_seed(settings.seed, epoch, gathering.rank()))
        order = np.random.default_rng([settings.seed, epoch]).permutation(len(train))
        augment, steps = parse_augmentation(settings.augment), self._steps_per_epoch
        mine = [np.array_split(rows, gathering.num_processes())[gathering.rank()] for rows in np.array_split(order, steps)]
        model.train()
        trainee.objective.set_epoch(epoch - 1)
        sums, objective_sum = dict.fromkeys(SUMS, 0.0), 0.0
        for at, batch in enumerate(train.batches(mine)):
            for group in optimizer.param_groups:
                group["lr"] = self._rate(self.done.step) * group["share"]
            if len(batch.rows) == 0 and gathering.num_processes() == 1:  # not one of its images could be read
                self.done.step += 1
                continue
            images = augment(batch.inputs, keys[batch.rows], settings.seed, epoch)
            labels = torch.from_numpy(train.labels[batch.rows]).to(self.accelerator.device)
            taught = [] if self.teacher is None else [self._tensor(taught_logits(self.teacher, images))]
            rows = torch.from_numpy(batch.rows).to(self.accelerator.device)
            loss, features = model(self._tensor(images), labels, rows, *taught)
            value = float(loss.detach())
            self._check_loss(value, features, epoch)
            head = trainee.objective.classes  # as it was in this forward pass
            found = dynamics.update(epoch, features, head, train.labels[batch.rows], [train.ids[row] for row in batch.rows])
            optimizer.zero_grad()
            self.accelerator.backward(loss)
            if settings.clip is not None:
                self.accelerator.clip_grad_norm_(trainee.parameters(), settings.clip)
            optimizer.step()
            self.done.step += 1
            sums = {key: sums[key] + found[key] for key in SUMS}
            objective_sum += value
            words = _words(_means(sums) | {"loss": objective_sum / (at + 1)})
            self._tell(at + 1, steps, f"epoch {epoch}/{settings.epochs}  {words}")
            if settings.every is not None and self.done.step % settings.every == 0:
                self._evaluate(epoch, trainee, dynamics, step=self.done.step)
                self._write_dynamics(dynamics, epoch, step=self.done.step)
                model.train()
        means = _means(processes.summed(sums, self.accelerator.device))
        return {**means, "objective": objective_sum / steps}

    def _tell(self, done: int, total: int, words: str) -> None:
        if self.report is not None and self.accelerator.is_main_process:
            self.report(done, total, words)

    @property
    def _steps_per_epoch(self) -> int:
        return -(-len(self.inputs["train"]) // self.settings.batch_size)

    def _rate(self, step: int) -> float:
        s = self.settings
        options: dict[str, Any] = {"schedule": s.schedule, "milestones": s.milestones, "gamma": s.gamma, "warmup": s.warmup}
        return s.learning_rate * rate_factor(step, self._steps_per_epoch, s.epochs, **options)

    def _tensor(self, inputs: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(inputs)).to(self.accelerator.device)

    def _check_loss(self, loss: float, features: Tensor, epoch: int) -> None:
        """Stop where the loss is not a number any more; all processes see the same loss, so all of them stop."""
        if math.isfinite(loss):
            return
        s = self.settings
        if self.done.step == 0 and bool(torch.isfinite(features).all()):
            options = ", ".join(f"{key}={value}" for key, value in s.loss_options.items()) or "its defaults"
            cause = f"nothing is trained yet and the features are finite, so look at the options of {s.loss} ({options})"
        elif self.done.step == 0:
            cause = "nothing is trained yet and the features are not finite: look at the network's weights and the inputs"
        elif s.precision != "float32":
            cause = f"numbers overflowed in {s.precision}: try precision float32, or a smaller lr than {s.learning_rate:g}"
        else:
            cause = f"the learning rate {s.learning_rate:g} is too large: try a tenth of it, warmup or clip"
        last = f"the last good checkpoint is after epoch {epoch - 1}" if epoch > 1 else "there is no checkpoint yet"
        raise TrainingError(
            f"the loss became {loss} at step {self.done.step + 1} (epoch {epoch}); {last}. Likely cause: {cause}."
        )

    @torch.no_grad()
    def _evaluate(self, epoch: int, trainee: Trainee, dynamics: Dynamics, step: int | None = None) -> dict[str, Any]:
        """The watched sets by the network as it is now."""
        trainee.eval()
        processes.same_buffers(trainee)
        head = trainee.objective.classes
        found = {}
        total = sum(len(inputs) for name, inputs in self.inputs.items() if name != "train")
        looked_at = 0
        for name, inputs in self.inputs.items():
            if name == "train":
                continue
            sums = dict.fromkeys(SUMS, 0.0)
            whole = np.array_split(np.arange(len(inputs)), max(1, -(-len(inputs) // self.settings.batch_size)))
            for batch in inputs.batches([np.array_split(rows, gathering.num_processes())[gathering.rank()] for rows in whole]):
                looked_at += len(batch.rows) * gathering.num_processes()
                self._tell(min(looked_at, total), total, f"epoch {epoch}/{self.settings.epochs}  looking at {name}")
                if len(batch.rows) == 0:
                    continue
                features = self._features(trainee, batch.inputs)
                ids = [inputs.ids[row] for row in batch.rows]
                some = dynamics.update(epoch, features, head, inputs.labels[batch.rows], ids, split=name, step=step)
                sums = {key: sums[key] + some[key] for key in SUMS}
            found[name] = _means(processes.summed(sums, self.accelerator.device))
        return found

    def _features(self, trainee: Trainee, inputs: np.ndarray) -> Tensor:
        with torch.no_grad(), self.accelerator.autocast():
            return trainee.features(self._tensor(inputs)).float()

    def _write_dynamics(self, dynamics: Dynamics, epoch: int, step: int | None = None) -> None:
        def gather(table: Any) -> Any:
            return gathering.gathered_tables(table, self.accelerator.device)

        dynamics.finish(epoch, step=step, gather=gather if gathering.num_processes() > 1 else None)

    def _all_broken(self) -> dict[str, list[str]]:
        """What no process could read, id by id."""
        here = {id: why for inputs in self.inputs.values() for id, why in inputs.broken.items()}
        rows = [{"id": id, "reason": reason, "message": message} for id, (reason, message) in here.items()]
        tables = gathering.gathered_tables(pa.Table.from_pylist(rows, ERRORS), self.accelerator.device)
        found = [row for table in tables or [] for row in table.to_pylist()]
        return {**self.done.broken, **{row["id"]: [row["reason"], row["message"]] for row in found}}

    @contextlib.contextmanager
    def _tracked(self, arguments: dict[str, Any], output: Path) -> Iterator[None]:
        """Accelerate's trackers, told the settings first and closed at the end."""
        plain = {key: value if isinstance(value, (int, float, str)) else str(value) for key, value in arguments.items()}
        name = output.resolve().name
        try:
            self.accelerator.init_trackers("hardsight", plain, {"wandb": {"name": name}, "mlflow": {"run_name": name}})
        except Exception as error:  # of a service: nobody logged in, no network, a folder that is not ours to write
            raise TrainingError(f"the tracker did not start: {type(error).__name__}: {error}") from error
        try:
            yield
        finally:
            for tracker in self.accelerator.trackers:  # not end_training, which also takes the processes apart
                tracker.finish()

    # ---- the end ----

    def _snapshot(self, output: Path, trainee: Trainee) -> list[Path]:
        """The features of every sample by the trained network; the processes write a part each in turn."""
        if not self.settings.snapshot:
            return []
        trainee.eval()
        processes.same_buffers(trainee)
        head = trainee.head
        parts = results.parts_of(self.inputs, head.num_features)
        left_out = [name for name in self.inputs if name not in {part[0] for part in parts}]
        if left_out:
            self.say(f"the snapshot leaves out {', '.join(left_out)}, whose ids are those of another set")
        folder = output / "samples"
        if self.accelerator.is_main_process:
            folder.mkdir(exist_ok=True)
        self.accelerator.wait_for_everyone()
        written = []

        def forward(inputs: np.ndarray) -> np.ndarray:
            return self._features(trainee, inputs).cpu().numpy()

        for number, (name, rows) in enumerate(parts):
            self._tell(number, len(parts), "features of every sample")
            path = folder / f"part-{number:05d}.parquet"
            if number % gathering.num_processes() == gathering.rank():
                results.write_part(path, name, self.inputs[name], rows, forward, self.settings.batch_size, head.num_features)
            written.append(path)
        self.accelerator.wait_for_everyone()
        return written

    def _finish(self, run: Run, trainee: Trainee, parts: list[Path]) -> None:
        """The model, its head, figures, and run.json last; the checkpoints have done their work then."""
        if any(one.fingerprint() != self.fingerprints[name] for name, one in self.inputs.items()):
            raise RunError(f"the data changed while it was trained on: remove {run.directory} and start over.")
        names = self.sets.class_names
        written = [*parts, *results.write_model(run, trainee, self.preprocessing, names)]
        title = f"{self.settings.loss}, epoch {self.done.epoch}"
        if parts:
            results.draw_embeddings(run, parts, trainee.head, names, title)
        written += results.write_errors(run, self.done.broken)
        if self.done.broken:
            self.say(f"{len(self.done.broken)} samples could not be read: see {run.directory / 'errors.parquet'}")
        written += sorted((run.directory / "dynamics").glob("*.parquet"))
        counts = {name: len(one) for name, one in self.inputs.items()}
        run.finish(written, {"samples": counts, "steps": self.done.step, "history": self.done.history})
        shutil.rmtree(run.directory / "checkpoints", ignore_errors=True)


def _epoch_seed(seed: int, epoch: int, rank: int) -> int:
    """For dropout and whatever else a network draws: another one for each epoch and process."""
    return int(np.random.default_rng([seed, epoch, rank]).integers(2**31))


def _means(sums: dict[str, float]) -> dict[str, float]:
    """Sums over labeled samples -> accuracy and means; nothing is known of none."""
    n = sums["n"]
    if not n:
        return {"n": 0}
    return {"n": int(n), "accuracy": sums["correct"] / n, **{key: sums[key] / n for key in ("avh", "norm", "loss")}}


def _words(means: dict[str, float]) -> str:
    if "accuracy" not in means:
        return "no labels"
    return f"loss {means['loss']:.4f}  accuracy {100 * means['accuracy']:.2f} %  AVH {means['avh']:.4f}  norm {means['norm']:.3g}"


def _sentence(entry: dict[str, Any], epochs: int, seconds: float) -> str:
    """One line per finished epoch."""
    train = entry["train"] | {"loss": entry["train"]["objective"]}
    words = [f"epoch {entry['epoch']}/{epochs}  {seconds:.0f} s  lr {entry['lr']:.3g}", f"train {_words(train)}"]
    words += [f"{name} {_words(means)}" for name, means in entry.items() if name not in ("epoch", "lr", "train")]
    return "  |  ".join(words)


def _flat(entry: dict[str, Any]) -> dict[str, float]:
    """{"test": {"avh": 0.1}} -> {"test/avh": 0.1}, for trackers."""
    flat = {"lr": entry["lr"]}
    for name, means in entry.items():
        if isinstance(means, dict):
            flat |= {f"{name}/{key}": value for key, value in means.items()}
    return flat
