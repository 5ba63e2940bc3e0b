"""The training loop: the network (opening.py) and the data are prepared, then epochs, steps, evaluation, checkpoints.

`Trainee` (trainee.py) is the network with its loss; `Updater` (optimization.py) takes the steps; `Checkpoints` (checkpoint.py)
keeps the state after each epoch; results.py writes what the run holds at the end.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor

from hardsight.data import ImageData, parse_degradations
from hardsight.dynamics import gathering
from hardsight.dynamics.tracker import Dynamics
from hardsight.errors import InputError, RunError, TrainingError
from hardsight.extraction.feed import ERRORS, ArrayInputs, ImageInputs, InputBatch, Inputs, even_batches, sized, write_errors
from hardsight.files.heads import write_safetensors
from hardsight.files.run import Run
from hardsight.models.model import BuiltNetwork, Model, ModelOptions
from hardsight.models.network import Network, torch_device
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable
from hardsight.screen import Progress, Say, percent
from hardsight.training import forward_passes, processes, results
from hardsight.training.augmentation import AugmentedInputs
from hardsight.training.checkpoint import Checkpoints, TrainingState
from hardsight.training.loss_names import loss_name, with_defaults
from hardsight.training.opening import check_teacher, open_network, open_teacher, taught_logits
from hardsight.training.optimization import Updater, drawn_seed, mixed_precision, rate_factor
from hardsight.training.sets import Sets
from hardsight.training.settings import COMMAND, TrainSettings
from hardsight.training.trainee import LossChoice, Trainee

SUMS = ("n", "correct", "avh", "norm", "loss")


def start_training(
    settings: TrainSettings, sets: Sets, model: Any, output: Path, say: Say | None, progress: Progress | None
) -> None:
    """Find the processes and the device, open the network and its teacher, and train.

    Accelerate keeps precision and device for as long as Python runs, and has no public way to change them. So a second
    training in the same process takes nothing from it but the processes: precision is `mixed_precision`, and a single
    process uses the device from the settings.
    """
    name = loss_name(settings.loss)
    loss_options = with_defaults(name, settings.loss_options, settings.epochs)
    s = replace(settings, loss=name, loss_options=loss_options, lr=settings.learning_rate)  # what is used, for start.json
    device = torch_device(s.device)
    mixed_precision(s.precision, device)  # refuses what does not work, before anything is written
    launched = processes.launched()
    folder = output / "tracker" if s.tracker else None
    accelerator = Accelerator(cpu=launched and device.type == "cpu", log_with=s.tracker, project_dir=folder)
    device = accelerator.device if launched else device
    if say is None or not accelerator.is_main_process:
        say = lambda sentence: None
    set_seed(s.seed)  # initial weights of the network; `_build` draws those of the loss
    source = open_network(model, sets.num_classes, s)
    for note in (*sets.notes, *source.notes):
        say(note)
    inputs, preprocessing = prepared(sets, source, s)
    teacher = open_teacher(s.teacher, preprocessing, sets.class_names, str(device))
    Training(accelerator, device, s, source, sets, inputs, preprocessing, say, progress, teacher).run(output)


def prepared(sets: Sets, source: Trainable, settings: TrainSettings) -> tuple[dict[str, Inputs], Preprocessing | None]:
    """Every set as batches of numbers, `train` first, and the preprocessing they share."""
    if isinstance(sets.train, ArrayInputs):
        if settings.chosen_preprocessing() or settings.degradations or settings.augment != "none" or settings.crops > 1:
            raise InputError("size and other preprocessing, augment, crops and degradations are for images, not for arrays.")
        return {"train": sets.train, **sets.watched}, None  # type: ignore[dict-item]
    preprocessing = sized(source.preprocessing, sets.train, settings.chosen_preprocessing())
    common: dict[str, Any] = {"workers": settings.workers, "strict": settings.strict}
    inputs: dict[str, Inputs] = {"train": ImageInputs(sets.train, preprocessing, **common)}
    degradations = parse_degradations(settings.degradations)
    for name, data in sets.watched.items():
        assert isinstance(data, ImageData)
        inputs[name] = ImageInputs(data, preprocessing, degradations=degradations, **common)
    return inputs, preprocessing


@dataclass
class Training:
    """One training, from an empty or interrupted run directory to a complete one.

    Attributes:
        accelerator: processes and trackers.
        device: where the network is.
        settings: with every default filled in.
        source: the network as it was opened.
        sets, inputs: the data, and the same as batches of numbers, "train" first.
        preprocessing: of images.
        say, progress: called with messages and the progress.
        teacher: for dual_head.
        state: how far it has come.
        fingerprints: of all inputs.
        trainee: the network with its loss, made of `source` by `_build`.
        updater: takes the steps down the loss.
        model: the trainee as it is called in training, shared by all processes.
        dynamics: records how every sample does.
    """

    accelerator: Accelerator
    device: torch.device
    settings: TrainSettings
    source: Trainable
    sets: Sets
    inputs: dict[str, Inputs]
    preprocessing: Preprocessing | None
    say: Say
    progress: Progress | None
    teacher: Model | None = None

    def run(self, output: Path) -> None:
        """Start the run or resume it, train, and write the results."""
        arguments, self.fingerprints = self._arguments(), self._fingerprints()
        self._build()
        main = self.accelerator.is_main_process
        run = Run(output, COMMAND, arguments, self.fingerprints, self.sets.sources) if main else None
        self.accelerator.wait_for_everyone()
        if (output / "run.json").exists():
            self.say(f"{output} is complete already")
            return
        with run.only_writer() if run is not None else contextlib.nullcontext():
            self._resume(output)
            self.accelerator.wait_for_everyone()
            self.dynamics = Dynamics(output)
            with self._tracked(arguments, output):
                self._epochs(output)
            written = self._snapshot(output)
            if run is not None:
                self._finish(run, written)
            self.accelerator.wait_for_everyone()

    def _arguments(self) -> dict[str, Any]:
        """What decides the result, beside the data and the network's weights; how many threads decode does not."""
        return {
            **self.settings.as_dict(),
            "factory": self.source.factory,
            "model_arguments": self.source.arguments,
            "preprocessing": None if self.preprocessing is None else self.preprocessing.as_dict(),
            "device": self.device.type,
            "processes": self.accelerator.num_processes,
        }

    def _fingerprints(self) -> dict[str, Any]:
        model = Network(BuiltNetwork(self.source.module), self.source.factory, ModelOptions(device="cpu")).fingerprint()
        teacher = {} if self.teacher is None else {"teacher": self.teacher.fingerprint()}
        if self.sets.curriculum is not None:
            teacher["curriculum"] = self.sets.curriculum.fingerprint()
        return {"model": model, **teacher, **{name: inputs.fingerprint() for name, inputs in self.inputs.items()}}

    def _build(self) -> None:
        """The network with its loss, and what updates it."""
        set_seed(self.settings.seed)  # again: how much opening drew depends on the network
        train, s = self.inputs["train"], self.settings
        sample = forward_passes.first_sample(train)
        self.forward_size = forward_passes.forward_size(s.batch_size, sample)
        loss = LossChoice(s.loss, dict(s.loss_options), self.sets.num_classes, len(train))
        self.trainee = Trainee(self.source, sample, loss, self.preprocessing)
        self.trainee.keep_class_vectors()
        if self.teacher is not None:
            check_teacher(self.teacher, sample.numpy(), self.sets.num_classes)
        if len(train) < self.accelerator.num_processes:
            raise InputError(f"{len(train)} samples cannot be shared by {self.accelerator.num_processes} processes.")
        self.trainee.to(self.device)
        self.updater = Updater(self.trainee, s, wrapped=True)

    def _resume(self, output: Path) -> None:
        """Continue from the newest checkpoint that is whole."""
        self.checkpoints = Checkpoints(output / "checkpoints", between=0.0)
        self.state: TrainingState = self.checkpoints.resume(self.trainee, self.updater.optimizer, self.say)
        if self.state.epoch:
            self.say(f"resuming after epoch {self.state.epoch} of {self.settings.epochs}")
        if self.updater.scaler is not None and self.state.scaler is not None:
            self.updater.scaler.load_state_dict(self.state.scaler)
        if self.accelerator.is_main_process:
            for path in (output / "dynamics").glob("*.parquet"):  # of epochs that are to be trained again
                kind, _, number = path.stem.partition("=")
                if number.isdigit() and int(number) > (self.state.epoch if kind == "epoch" else self.state.step):
                    path.unlink()

    def _epochs(self, output: Path) -> None:
        self.accelerator.wait_for_everyone()
        self.model = processes.shared(self.trainee, self.device)
        self.train_inputs = AugmentedInputs(self.inputs["train"], self.settings.augment, self.settings.seed)
        if self.settings.at_start and self.state.epoch == 0:
            self._evaluate(0)
            self._write_dynamics(0)
        for epoch in range(self.state.epoch + 1, self.settings.epochs + 1):
            started = time.monotonic()
            entry: dict[str, Any] = {"epoch": epoch, "lr": self.updater.lr * self._factor(epoch, 0, 1)}
            entry["train"] = self._train_epoch(epoch)
            entry |= self._evaluate(epoch)
            self._write_dynamics(epoch)
            self._keep_epoch(output, epoch)
            self.state.epoch = epoch
            self.state.history.append(entry)
            self.state.broken = self._all_broken()
            self.state.scaler = None if self.updater.scaler is None else self.updater.scaler.state_dict()
            self.checkpoints.save(self.state, self.trainee, self.updater.optimizer)
            self.accelerator.wait_for_everyone()
            self.accelerator.log(_flat(entry), step=epoch)
            self.say(_sentence(entry, self.settings.epochs, time.monotonic() - started))

    def _keep_epoch(self, output: Path, epoch: int) -> None:
        """epochs/epoch=0003.safetensors: the network after this epoch, with --keep-epochs."""
        every = self.settings.keep_epochs
        if not every or epoch % every or not self.accelerator.is_main_process:
            return
        (output / "epochs").mkdir(exist_ok=True)
        network = self.trainee.with_head(self.trainee.head, self.preprocessing, self.sets.class_names)
        write_safetensors(output / "epochs" / f"epoch={epoch:04d}.safetensors", network.state)

    def _order(self, epoch: int) -> np.ndarray:
        """Rows of the training samples of an epoch, in a new order: all of them, or the part that a curriculum lets in."""
        rng, curriculum = np.random.default_rng([self.settings.seed, epoch]), self.sets.curriculum
        if curriculum is None:
            return rng.permutation(len(self.inputs["train"]))
        if curriculum.order == "self-paced":
            curriculum.update(self._losses())
        return rng.permutation(curriculum.part(epoch))

    @torch.no_grad()
    def _losses(self) -> np.ndarray:
        """(n,) the loss of every training sample by the network as it is, NaN where it cannot be read."""
        self.trainee.eval()
        inputs, head = self.inputs["train"], self.trainee.objective.classes  # the objective owns the class vectors
        losses = np.full(len(inputs), np.nan)
        for rows, features in self._features(inputs, np.arange(len(inputs))):
            labels = torch.from_numpy(inputs.labels[rows]).to(self.device)
            losses[rows] = torch.nn.functional.cross_entropy(head.logits(features), labels, reduction="none").cpu().numpy()
        return losses

    def _train_epoch(self, epoch: int) -> dict[str, float]:
        """One pass over the training samples in a new order; their dynamics come from the forward passes made anyway."""
        s, several = self.settings, gathering.num_processes()
        set_seed(drawn_seed(s.seed, epoch, gathering.rank()))
        batches = even_batches(self._order(epoch), s.batch_size)
        steps = len(batches)
        self.model.train()
        self.trainee.objective.loss.set_epoch(epoch - 1)
        sums, objective_sum = dict.fromkeys(SUMS, 0.0), 0.0
        for number, batch in enumerate(self.train_inputs.batches(batches, epoch), 1):
            self.updater.set_rate(self._factor(epoch, number - 1, steps))
            self.state.step += 1
            if len(batch.rows) == 0 and several == 1:  # not one of its images could be read
                continue
            metrics, value = self._train_step(epoch, batch)
            sums = _added(sums, metrics)
            objective_sum += value
            words = _words(_means(sums) | {"loss": objective_sum / number})
            self._tell(number, steps, f"epoch {epoch}/{s.epochs}  {words}")
            if s.every is not None and self.state.step % s.every == 0:
                self._evaluate(epoch, step=self.state.step)
                self._write_dynamics(epoch, step=self.state.step)
                self.model.train()
        means = _means(processes.summed(sums, self.device))
        return {**means, "objective": objective_sum / steps}

    def _train_step(self, epoch: int, batch: InputBatch) -> tuple[dict[str, float], float]:
        """Learn from a batch: sums of its metrics, and its loss."""
        train, rows = self.inputs["train"], torch.from_numpy(batch.rows).to(self.device)
        labels = train.labels[batch.rows]
        images = forward_passes.as_tensor(batch.inputs, self.device)
        taught = [] if self.teacher is None else [taught_logits(self.teacher, batch.inputs)]
        teacher = [forward_passes.as_tensor(logits, self.device) for logits in taught]
        # `Trainee.forward`, also where it is wrapped to be shared by processes
        loss, features = self.model(images, torch.from_numpy(labels).to(self.device), rows, *teacher)
        value = float(loss.detach())
        self._check_loss(value, features, epoch)
        head = self.trainee.objective.classes  # as it was in this forward pass
        columns: dict[str, Any] = dict(self.trainee.objective.loss.per_sample(rows))
        metrics = self.dynamics.update(epoch, features, head, labels, [train.ids[row] for row in batch.rows], **columns)
        self.updater.update(loss)
        return metrics, value

    def _tell(self, done: int, total: int, words: str) -> None:
        if self.progress is not None and self.accelerator.is_main_process:
            self.progress(done, total, words)

    def _factor(self, epoch: int, done: int, steps: int) -> float:
        """The share of the learning rate in an epoch, some steps of which are done."""
        whole = -(-len(self.inputs["train"]) // self.settings.batch_size)
        return rate_factor(self.settings, (epoch - 1) * whole + done * whole / steps, whole, self.settings.epochs)

    def _check_loss(self, loss: float, features: Tensor, epoch: int) -> None:
        """Stop where the loss is not a number any more; all processes see the same loss, so all of them stop."""
        if math.isfinite(loss):
            return
        s = self.settings
        if self.state.step == 1 and bool(torch.isfinite(features).all()):
            options = ", ".join(f"{key}={value}" for key, value in s.loss_options.items()) or "its defaults"
            cause = f"nothing is trained yet and the features are finite, so look at the options of {s.loss} ({options})"
        elif self.state.step == 1:
            cause = "nothing is trained yet and the features are not finite: look at the network's weights and the inputs"
        elif s.precision != "float32":
            cause = f"numbers overflowed in {s.precision}: try precision float32, or a smaller lr than {s.learning_rate:g}"
        else:
            cause = f"the learning rate {s.learning_rate:g} is too large: try a tenth of it, warmup or clip"
        last = f"the last good checkpoint is after epoch {epoch - 1}" if epoch > 1 else "there is no checkpoint yet"
        raise TrainingError(f"the loss became {loss} at step {self.state.step} (epoch {epoch}); {last}. Likely cause: {cause}.")

    @torch.no_grad()
    def _evaluate(self, epoch: int, step: int | None = None) -> dict[str, Any]:
        """The metrics of the watched sets by the network as it is."""
        self.trainee.eval()
        head, several = self.trainee.objective.classes, gathering.num_processes()
        watched = {name: inputs for name, inputs in self.inputs.items() if name != "train"}
        total, seen, metrics = sum(map(len, watched.values())), 0, {}
        for name, inputs in watched.items():
            sums = dict.fromkeys(SUMS, 0.0)
            counts = forward_passes.counts_of(self.settings.top_k, self.settings.crops if step is None else 1)
            for rows, features in self._features(inputs, np.arange(len(inputs)), own_share=True):
                seen += len(rows) * several
                self._tell(min(seen, total), total, f"epoch {epoch}/{self.settings.epochs}  evaluating {name}")
                ids, labels = [inputs.ids[row] for row in rows], inputs.labels[rows]
                sums = _added(sums, self.dynamics.update(epoch, features, head, labels, ids, split=name, step=step))
                if self.settings.top_k is not None:
                    counts[f"top{self.settings.top_k}"] += forward_passes.hits(head.logits(features), labels, self.settings.top_k)
            if step is None and self.settings.crops > 1:
                self._count_crops(inputs, counts)
            metrics[name] = _means(processes.summed({**sums, **counts}, self.device))
        return metrics

    def _count_crops(self, inputs: Inputs, counts: dict[str, float]) -> None:
        """Add the hits of ten crops of each image."""
        assert isinstance(inputs, ImageInputs)
        s, head = self.settings, self.trainee.objective.classes
        batches = processes.shares(even_batches(np.arange(len(inputs)), max(1, s.batch_size // (2 * forward_passes.VIEWS))))
        logits_of = lambda images: head.logits(self.trainee.features(images))
        for rows, logits in forward_passes.ten_crop_logits(logits_of, inputs, batches, self.device):
            counts[f"accuracy{forward_passes.OF_CROPS}"] += forward_passes.hits(logits, inputs.labels[rows])
            if s.top_k is not None:
                counts[f"top{s.top_k}{forward_passes.OF_CROPS}"] += forward_passes.hits(logits, inputs.labels[rows], s.top_k)

    def _features(self, inputs: Inputs, rows: np.ndarray, own_share: bool = False) -> Iterator[tuple[np.ndarray, Tensor]]:
        """(b,) rows and their (b, d) features, batch by batch; if asked, the batches of this process alone."""
        batches = even_batches(rows, self.forward_size)
        batches = processes.shares(batches) if own_share else batches
        return forward_passes.forward_pass(self.trainee.features, inputs, batches, self.device, gather=False)

    def _write_dynamics(self, epoch: int, step: int | None = None) -> None:
        gather = lambda table: gathering.gathered_tables(table, self.device)
        self.dynamics.finish(epoch, step=step, gather=gather if gathering.num_processes() > 1 else None)

    def _all_broken(self) -> dict[str, list[str]]:
        """What no process could read, id by id."""
        here = {id: why for inputs in self.inputs.values() for id, why in inputs.broken.items()}
        rows = [{"id": id, "reason": reason, "message": message} for id, (reason, message) in here.items()]
        tables = gathering.gathered_tables(pa.Table.from_pylist(rows, ERRORS), self.device)
        everywhere = [row for table in tables or [] for row in table.to_pylist()]
        return {**self.state.broken, **{row["id"]: [row["reason"], row["message"]] for row in everywhere}}

    @contextlib.contextmanager
    def _tracked(self, arguments: dict[str, Any], output: Path) -> Iterator[None]:
        """Accelerate's trackers: settings are logged first, and they are closed at the end."""
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

    def _snapshot(self, output: Path) -> list[Path]:
        """The features of every sample by the trained network, if they are wanted."""
        if not self.settings.snapshot:
            return []
        self.trainee.eval()
        num_features = self.trainee.head.num_features
        written = results.write_snapshot(output / "samples", self.inputs, self._measured, num_features, self.say, self._tell)
        self.accelerator.wait_for_everyone()
        return written

    def _measured(self, inputs: Inputs, rows: range) -> Iterator[results.RowsAndFeatures]:
        for batch_rows, features in self._features(inputs, np.arange(rows.start, rows.stop)):
            yield batch_rows, features.cpu().numpy()

    def _finish(self, run: Run, parts: list[Path]) -> None:
        """The model, its head, and run.json last; the checkpoints have done their work then."""
        if any(inputs.fingerprint() != self.fingerprints[name] for name, inputs in self.inputs.items()):
            raise RunError(f"the data changed while it was trained on: remove {run.directory} and start over.")
        names = self.sets.class_names
        network = self.trainee.with_head(self.trainee.head, self.preprocessing, names)
        written = [*parts, *results.write_model(run.directory, network)]
        written += results.write_loss(run.directory, self.trainee.objective)
        broken = [{"id": id, "reason": why, "message": text} for id, (why, text) in sorted(self.state.broken.items())]
        written += write_errors(run.directory, broken, "samples", self.say)
        written += sorted((run.directory / "dynamics").glob("*.parquet"))
        written += sorted((run.directory / "epochs").glob("*.safetensors"))
        counts = {name: len(inputs) for name, inputs in self.inputs.items()}
        run.finish(written, {"samples": counts, "steps": self.state.step, "history": self.state.history})
        shutil.rmtree(run.directory / "checkpoints", ignore_errors=True)


def _added(sums: dict[str, float], further: dict[str, float]) -> dict[str, float]:
    return {key: sums[key] + further[key] for key in SUMS}


def _means(sums: dict[str, float]) -> dict[str, float]:
    """Sums over labeled samples -> accuracy and means, and shares of what else was counted; nothing is known of none."""
    n = sums["n"]
    if not n:
        return {"n": 0}
    further = [key for key in sums if key not in SUMS]
    return {"n": int(n), "accuracy": sums["correct"] / n, **{key: sums[key] / n for key in ("avh", "norm", "loss", *further)}}


def _words(means: dict[str, float]) -> str:
    if "accuracy" not in means:  # without labels
        return f"loss {means['loss']:.4f}" if "loss" in means else "no labels"
    words = f"loss {means['loss']:.4f}  accuracy {percent(means['accuracy'])} %  AVH {means['avh']:.4f}  norm {means['norm']:.3g}"
    shares = [key for key in means if key.startswith("top") or key.endswith(forward_passes.OF_CROPS)]
    return "  ".join([words, *(f"{key.replace('_', ' ')} {percent(means[key])} %" for key in shares)])


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
