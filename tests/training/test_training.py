"""`hardsight.train` and `hardsight train`: what a run holds, and that it is what the network really did."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import hardsight

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from safetensors.torch import load_file

from hardsight import Snapshot, training
from hardsight.data import open_data
from hardsight.errors import FileError, InputError, RunError, TrainingError
from hardsight.losses import SoftmaxLoss
from hardsight.models import open_model
from point_mlp import PointMLP, points

OPENED_AGAIN: dict[str, Any] = {"model": "feature_head", "model_options": {"num_inputs": 3, "num_features": 6}}  # one of our own


DIGITS: dict[str, Any] = {"data": "digits", "model": "DigitsCNN", "watch": None}


def on_points(output: Path, **options: Any) -> training.Trained:  # type: ignore[name-defined]
    defaults: dict[str, Any] = {"epochs": 2, "batch_size": 16, "lr": 0.05, "watch": {"test": points(30, seed=1)}}
    data_and_model = {"data": points(), "model": "point_mlp:PointMLP"}
    return hardsight.train(output=output, **{**data_and_model, **defaults, **options})


def untrained(**options: Any) -> tuple[Any, SoftmaxLoss]:
    """The layers up to the features, and the loss, that a training on points with seed 0 starts from."""
    torch.manual_seed(0)
    hidden = PointMLP(num_classes=3).hidden
    torch.manual_seed(0)
    return hidden, SoftmaxLoss(2, 3, **options)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on digits, degraded ones watched too, and steps inside epochs."""
    output = tmp_path_factory.mktemp("digits") / "run"
    hardsight.train(
        "digits", output, model="DigitsCNN", epochs=2, limit=120, batch_size=32, lr=0.05, augment="crop=1",
        degradations=["contrast=0.3"], every=3,
    )  # fmt: skip
    return output


def test_the_run_holds_every_file_of_a_training(digits: Path) -> None:
    names = sorted(path.relative_to(digits).as_posix() for path in digits.rglob("*") if path.is_file())
    assert names == [
        "dynamics/epoch=0001.parquet",
        "dynamics/epoch=0002.parquet",
        "dynamics/step=000003.parquet",
        "dynamics/step=000006.parquet",
        "head.safetensors",
        "model/config.json",
        "model/model.safetensors",
        "run.json",
        "samples/part-00000.parquet",
        "samples/part-00001.parquet",
        "start.json",
    ]
    told = json.loads((digits / "run.json").read_text())
    assert told["counts"]["samples"] == {"train": 120, "test": 240} and told["counts"]["steps"] == 8
    assert {part["name"] for part in told["parts"]} == {name for name in names if "/" in name or name.startswith("head")}


def test_progress_tells_the_loss_while_batches_wait_to_be_measured(tmp_path: Path) -> None:
    told: list[str] = []
    tell = lambda done, total, words: told.append(words)  # noqa: E731
    hardsight.train("digits", tmp_path / "run", model="DigitsCNN", epochs=1, limit=64, batch_size=32, progress=tell)
    steps = [words for words in told if words.startswith("epoch 1/1") and "evaluating" not in words]
    assert len(steps) == 2 and all("loss 2." in words and "no labels" not in words for words in steps)


def test_every_sample_is_in_the_dynamics_once(digits: Path) -> None:
    ids = set(open_data("digits", split="train", limit=120).ids)
    held_out = set(open_data("digits", split="test", limit=120).ids)
    for epoch in (1, 2):
        table = pq.read_table(digits / "dynamics" / f"epoch={epoch:04d}.parquet").to_pylist()
        assert len(table) == 360
        assert {row["id"] for row in table if row["split"] == "train"} == ids
        assert {row["id"] for row in table if row["split"] == "test"} == held_out | {f"{id}#contrast=0.3" for id in held_out}
    steps = pq.read_table(digits / "dynamics" / "step=000003.parquet")
    assert len(steps) == 240 and set(steps.column("split").to_pylist()) == {"test"}


def test_extract_reads_what_train_wrote(digits: Path, tmp_path: Path) -> None:
    """The features of the run's own snapshot, and the last epoch's dynamics of held-out samples, by the saved model."""
    snapshot = hardsight.extract(digits, "digits", tmp_path / "again", split="test", limit=120, batch_size=30)
    table = {row["id"]: row for row in hardsight.score(snapshot).to_pylist()}
    own = hardsight.score(digits).to_pylist()
    compared = [row for row in own if row["id"] in table]
    assert len(compared) == 120 and len(own) == 360
    dynamics = pq.read_table(digits / "dynamics" / "epoch=0002.parquet").to_pylist()
    watched = {row["id"]: row for row in dynamics if row["split"] == "test"}
    for row in compared:
        for name in ("avh", "confidence", "norm", "own_angle"):
            assert row[name] == pytest.approx(table[row["id"]][name], rel=1e-4, abs=1e-6)
            assert row[name] == pytest.approx(watched[row["id"]][name], rel=1e-4, abs=1e-6)
        assert watched[row["id"]]["correct"] == (row["predicted"] == row["label"])
    assert open_model(digits).class_names == tuple(str(digit) for digit in range(10))


def test_history_is_the_mean_of_the_dynamics(digits: Path, tmp_path: Path) -> None:
    done = training.read_trained(digits)
    history = done.history
    done.save(tmp_path / "epochs.csv")
    saved = [line.split(",")[:2] for line in (tmp_path / "epochs.csv").read_text().replace('"', "").splitlines()]
    assert saved == [["split", "epoch"], *([split, str(epoch)] for epoch in (1, 2) for split in ("train", "test"))]
    assert done.summary == history[-1] and list(done.figures()) == ["train", "test"] and done.run == digits
    for entry in history:
        rows = pq.read_table(digits / "dynamics" / f"epoch={entry['epoch']:04d}.parquet").to_pylist()
        for split in ("train", "test"):
            some = [row for row in rows if row["split"] == split]
            assert entry[split]["n"] == len(some)
            assert entry[split]["accuracy"] == pytest.approx(np.mean([row["correct"] for row in some]))
            for name in ("avh", "norm", "loss"):
                assert entry[split][name] == pytest.approx(np.mean([row[name] for row in some]), rel=1e-4)


def test_the_loop_is_what_plain_torch_does(tmp_path: Path) -> None:
    """SGD with momentum and decay, written out, from the same start and in the same order."""
    inputs, labels = points()
    done = on_points(tmp_path / "run", optimizer_options={"clip": 0.5}, weight_decay=0.01, schedule="cosine", watch={})
    hidden, loss = untrained()
    matrices = [p for p in (*hidden.parameters(), *loss.parameters()) if p.ndim == 2]
    vectors = [p for p in (*hidden.parameters(), *loss.parameters()) if p.ndim == 1]
    optimizer = torch.optim.SGD([{"params": matrices, "weight_decay": 0.01}, {"params": vectors}], lr=0.05, momentum=0.9)
    step = 0
    for epoch in (1, 2):
        order = np.random.default_rng([0, epoch]).permutation(60)
        for rows in np.array_split(order, 4):
            for group in optimizer.param_groups:
                group["lr"] = 0.05 * 0.5 * (1 + np.cos(np.pi * step / 8))
            optimizer.zero_grad()
            loss(hidden(torch.from_numpy(inputs[rows])), torch.from_numpy(labels[rows])).backward()
            torch.nn.utils.clip_grad_norm_([*matrices, *vectors], 0.5)
            optimizer.step()
            step += 1
    assert np.allclose(done.head.weight, loss.weight.detach(), atol=1e-6)
    assert np.allclose(done.head.bias, loss.bias.detach(), atol=1e-6)  # type: ignore[union-attr]


LOSSES = {
    "softmax": {},
    "avh": {"scale": 12},
    "normface": {},
    "arcface": {"scale": 8},
    "l_softmax": {"base": 5.0},
    "lgm": {"covariance": "per_class", "prior": (0.2, 0.3, 0.5), "step_up": (0.1, 2.0, 2)},
    "gm": {"covariance": "shared"},
    "center": {},
    "truncated_gce": {},
    "aldr": {},
    "triplet": {"weight": 0.5},
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_trained_model_predicts_as_its_head_does(loss: str, tmp_path: Path) -> None:
    done = on_points(tmp_path / "run", loss=loss, loss_options=LOSSES[loss], **OPENED_AGAIN)
    snapshot = hardsight.Snapshot.load(tmp_path / "run")
    test_inputs, _ = points(30, seed=1)
    model = open_model(tmp_path / "run")
    features, logits = model(test_inputs)
    assert model.head.kind == done.head.kind == snapshot.head.kind  # type: ignore[union-attr]
    assert np.allclose(logits, done.head.logits(features), rtol=1e-3, atol=1e-3)
    assert all(np.isfinite(entry["test"]["avh"]) for entry in done.history)


def test_the_untrained_network_is_epoch_0(tmp_path: Path) -> None:
    """Held-out samples alone, by the weights that training starts from; the training itself is the same."""
    with_start, without = (on_points(tmp_path / name, at_start=name == "with") for name in ("with", "without"))
    assert np.array_equal(with_start.head.weight, without.head.weight) and with_start.history == without.history
    assert not (tmp_path / "without" / "dynamics" / "epoch=0000.parquet").exists()
    rows = pq.read_table(tmp_path / "with" / "dynamics" / "epoch=0000.parquet").to_pylist()
    assert len(rows) == 30 and {row["split"] for row in rows} == {"test"}
    inputs, labels = points(30, seed=1)
    hidden, loss = untrained(reduction="none")
    expected = loss(hidden(torch.from_numpy(inputs)), torch.from_numpy(labels)).tolist()
    told = {row["id"]: row["loss"] for row in rows}
    assert [told[f"test/{row}"] for row in range(30)] == pytest.approx(expected, abs=1e-5)
    assert [moment.epoch for moment, _ in hardsight.Dynamics.read(tmp_path / "with", split="test")] == [0, 1, 2]


def first_features() -> tuple[Any, Any]:
    """Features of the training points by the network that training starts from, and their labels."""
    inputs, labels = points()
    return untrained()[0](torch.from_numpy(inputs)).detach(), torch.from_numpy(labels)


def test_centers_are_saved(tmp_path: Path) -> None:
    """One step from zero: center_k = rate * the sum of its features / (1 + n_k), by features not trained yet."""
    features, labels = first_features()
    on_points(tmp_path / "run", loss="center", loss_options={"rate": 0.4}, epochs=1, batch_size=len(labels))
    kept = load_file(tmp_path / "run" / "loss.safetensors")
    assert list(kept) == ["centers"]
    expected = [0.4 * features[labels == k].sum(0) / (1 + (labels == k).sum()) for k in range(3)]
    torch.testing.assert_close(kept["centers"], torch.stack(expected))
    assert "loss.safetensors" in hardsight.verify(tmp_path / "run").sound


def test_the_lambdas_of_aldr_are_saved_and_a_score(tmp_path: Path) -> None:
    """One step: lambda = 1 - KL(softmax(gaps) || uniform) / (2 log c), the gaps of logits over their mean size, margin 1."""
    features, labels = first_features()
    logits = untrained()[1].logits(features).detach()
    on_points(tmp_path / "run", loss="aldr", epochs=1, batch_size=len(labels))
    expected = []
    for z, y in zip(logits.tolist(), labels.tolist(), strict=True):
        gaps = [(value - z[y]) / (sum(map(abs, z)) / 3) + (k != y) for k, value in enumerate(z)]
        p = [math.exp(gap) / sum(map(math.exp, gaps)) for gap in gaps]
        expected.append(1 - sum(q * math.log(3 * q) for q in p) / (2 * math.log(3)))
    kept = load_file(tmp_path / "run" / "loss.safetensors")["temperatures"]
    assert kept.tolist() == pytest.approx(expected, abs=1e-5)
    table = hardsight.score(tmp_path / "run", scores="aldr_lambda").to_pylist()
    told = {row["id"]: row["aldr_lambda"] for row in table}
    assert [told[str(row)] for row in range(len(labels))] == pytest.approx(expected, abs=1e-5)
    assert told["test/0"] is None  # it is kept of training samples
    assert hardsight.SCORES["aldr_lambda"].scope == "dynamics"
    assert "aldr_lambda" in hardsight.score(tmp_path / "run", scores="all", limit=5).column_names


def test_training_learns(tmp_path: Path) -> None:
    done = on_points(tmp_path / "run", epochs=15, lr=0.2)
    assert done.history[-1]["test"]["accuracy"] > 0.95
    assert done.history[-1]["train"]["objective"] < done.history[0]["train"]["objective"]


def test_who_learns_how() -> None:
    from hardsight.models.trainable import open_trainable
    from hardsight.training.optimization import parameter_groups
    from hardsight.training.settings import LearningOptions, OptimizerOptions
    from hardsight.training.trainee import LossChoice, Trainee

    settings = LearningOptions(lr=0.5, optimizer_options=OptimizerOptions(head_rate=10.0), weight_decay=0.1)
    everything = LearningOptions(weight_decay=0.1, optimizer_options=OptimizerOptions(decay_all=True))
    loss = LossChoice("lgm", {"covariance": "shared"}, num_classes=3, num_samples=9)
    trainee = Trainee(open_trainable("point_mlp:PointMLP", 3), torch.randn(4, 3), loss)
    names = {id(p): name for name, p in trainee.named_parameters()}
    learned = {names[id(p)]: (g["lr"], g["weight_decay"]) for g in parameter_groups(trainee, settings) for p in g["params"]}
    assert learned == {
        "network.hidden.1.weight": (0.5, 0.1),
        "network.hidden.1.bias": (0.5, 0.0),
        "objective.classes.weight": (5.0, 0.1),
        "objective.classes.log_variance": (0.5, 0.0),
    }
    assert all(group["weight_decay"] == 0.1 for group in parameter_groups(trainee, everything))


def test_a_complete_run_is_left_alone(tmp_path: Path) -> None:
    first = on_points(tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    said: list[str] = []
    again = on_points(tmp_path / "run", say=said.append)
    assert again.history == first.history and (tmp_path / "run" / "run.json").read_bytes() == before
    assert said == [f"{tmp_path / 'run'} is complete already"]
    with pytest.raises(RunError, match="lr was 0.05 and is 0.1"):
        on_points(tmp_path / "run", lr=0.1)
    with pytest.raises(RunError, match="other inputs: train: its values changed"):
        on_points(tmp_path / "run", data=(points()[0] + 1, points()[1]))


def test_a_run_can_be_trained_on(tmp_path: Path) -> None:
    """Class vectors and network go on from where they were."""
    first = on_points(tmp_path / "first", loss="avh", epochs=10, lr=0.2, **OPENED_AGAIN)
    on = on_points(tmp_path / "second", model=tmp_path / "first", loss="avh", epochs=1, lr=1e-6)
    assert np.allclose(on.head.weight, first.head.weight, atol=1e-4)
    assert on.history[0]["test"]["accuracy"] == first.history[-1]["test"]["accuracy"]
    fresh = on_points(tmp_path / "third", loss="avh", epochs=1, lr=1e-6, **OPENED_AGAIN)
    assert not np.allclose(fresh.head.weight, first.head.weight, atol=1e-2)


def test_a_module_of_ones_own(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    before = net[0].weight.detach().clone()
    done = hardsight.train(points(), tmp_path / "run", model=net, epochs=2, lr=0.1, optimizer="adamw", precision="bfloat16")
    assert done.head.num_features == 6 and torch.equal(net[0].weight, before)
    with pytest.raises(InputError, match="name it yourself: torch.nn.modules.container:Sequential --weights"):
        open_model(tmp_path / "run")


def test_held_out_samples_are_seen_as_in_use(tmp_path: Path) -> None:
    """Without dropout and with running statistics, which a public port leaves in training mode: the saved network agrees."""

    def net() -> Any:
        some = torch.nn.Linear(3, 6), torch.nn.BatchNorm1d(6), torch.nn.Tanh(), torch.nn.Dropout(0.5)
        return torch.nn.Sequential(*some, torch.nn.Linear(6, 3))

    inputs, labels = points(30, seed=1)
    hardsight.train(points(), tmp_path / "run", model=net(), epochs=2, batch_size=16, lr=0.1, watch={"test": (inputs, labels)})
    trained = net().eval()
    trained.load_state_dict(load_file(tmp_path / "run" / "model" / "model.safetensors"))
    losses = torch.nn.functional.cross_entropy(trained(torch.from_numpy(inputs)), torch.from_numpy(labels), reduction="none")
    rows = pq.read_table(tmp_path / "run" / "dynamics" / "epoch=0002.parquet").to_pylist()
    told = {row["id"]: row["loss"] for row in rows if row["split"] == "test"}
    assert [told[f"test/{row}"] for row in range(30)] == pytest.approx(losses.tolist(), abs=1e-5)


def test_images_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for number in range(12):
        (photos / "ab"[number % 2]).mkdir(exist_ok=True, parents=True)
        image = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(image).save(photos / "ab"[number % 2] / f"{number:02d}.png")
    (photos / "a" / "04.png").write_bytes(b"nothing")
    said: list[str] = []
    hardsight.train(str(photos), tmp_path / "run", model="DigitsCNN", epochs=1, batch_size=4, size=8, say=said.append)
    errors = pq.read_table(tmp_path / "run" / "errors.parquet").to_pylist()
    assert [(row["id"], row["reason"]) for row in errors] == [("a/04.png", "not_an_image")]
    assert len(pq.read_table(tmp_path / "run" / "dynamics" / "epoch=0001.parquet")) == 11
    assert len(hardsight.Snapshot.load(tmp_path / "run")) == 11 and "1 samples could not be read" in said[-1]
    hardsight.train(str(photos), tmp_path / "single", model="DigitsCNN", epochs=1, batch_size=1, size=8)  # a batch of nothing
    assert json.loads((tmp_path / "single" / "run.json").read_text())["counts"]["steps"] == 12
    with pytest.raises(FileError, match="not_an_image"):
        hardsight.train(str(photos), tmp_path / "strict", model="DigitsCNN", epochs=1, size=8, strict=True)


def test_labels_of_a_watched_set_follow_the_names(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, 8, 8), np.uint8)
    np.savez(tmp_path / "train.npz", images=images, labels=np.arange(9) % 3, class_names=["a", "b", "c"])
    np.savez(tmp_path / "test.npz", images=images, labels=[0, 1] * 4 + [0], class_names=["c", "b"])
    sets = {name: str(tmp_path / f"{name}.npz") for name in ("train", "test", "other")}
    hardsight.train(sets["train"], tmp_path / "run", model="DigitsCNN", epochs=1, watch={"test": sets["test"]})
    rows = pq.read_table(tmp_path / "run" / "dynamics" / "epoch=0001.parquet").to_pylist()
    assert [row["label"] for row in rows if row["split"] == "test"] == [2, 1] * 4 + [2]
    np.savez(tmp_path / "other.npz", images=images, labels=[0, 1] * 4 + [0], class_names=["c", "dog"])
    with pytest.raises(InputError, match="other has samples of a class .*, 'dog'"):
        hardsight.train(sets["train"], tmp_path / "no", model="DigitsCNN", epochs=1, watch={"other": sets["other"]})


def test_a_frame_and_a_snapshot_train_as_arrays_do(tmp_path: Path) -> None:
    inputs, labels = points()
    frame = pd.DataFrame(inputs, columns=["x", "y", "z"]).assign(label=labels)
    runs = [
        on_points(tmp_path / name, data=data, watch=None).run / "dynamics" / "epoch=0002.parquet"
        for name, data in {
            "arrays": (inputs, labels),
            "frame": frame,
            "arrow": pa.Table.from_pandas(frame),
            "snapshot": Snapshot.open(frame, features="x,y,z"),
        }.items()
    ]
    assert all(pq.read_table(run).equals(pq.read_table(runs[0])) for run in runs)
    with pytest.raises(InputError, match="holds scores"):
        on_points(tmp_path / "no", data=hardsight.score(inputs, labels=labels))


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"lr": 1e30}, "(epoch 1); there is no checkpoint yet. Likely cause: the learning rate 1e+30 is too large"),
        ({"loss": "arcface", "loss_options": {"scale": 1e39}}, "look at the options of arcface"),
        ({"lr": 1e30, "precision": "bfloat16"}, "numbers overflowed in bfloat16"),
        (
            {"schedule": "step", "schedule_options": {"milestones": [2], "gamma": 1e35}},
            "the last good checkpoint is after epoch 2",
        ),
    ],
)
def test_a_loss_that_is_no_number_stops_with_its_cause(options: dict[str, Any], cause: str, tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    with pytest.raises(TrainingError, match=re.escape(cause)):
        hardsight.train(points(), tmp_path / "run", model=net, **{"epochs": 3, "batch_size": 8, "lr": 0.01, **options})
    assert not (tmp_path / "run" / "run.json").exists()
    assert (tmp_path / "run" / "checkpoints" / "epoch=0002.json").exists() == ("schedule" in options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"lr": -1}, "lr must be a number above 0"),
        ({"lr": float("nan")}, "lr must be a number above 0"),
        ({"optimizer_options": {"clip": 0}}, "clip must be a number above 0"),
        ({"schedule": "linear"}, "schedule must be one of"),
        ({"schedule_options": {"milestones": [1]}}, "milestones goes with schedule 'step'"),
        ({"optimizer": "adam"}, "optimizer must be one of sgd, adamw"),
        ({"optimizer_options": ["nesterov momentum=0"]}, "nesterov needs a momentum"),
        ({"momentum": 0.5}, "'momentum'. It is one of optimizer_options"),
        ({"optimizer_options": 5}, "got 5"),
        ({"size": 8, "preprocessing": "size=9"}, "size is given twice: 8, and 9"),
        ({"precision": "float16", "device": "cpu"}, "float16 needs a GPU"),
        ({"loss": "l2"}, "loss must be one of"),
        ({"watch": {"train": points()}}, "a name of its own"),
        ({"watch": {"test": (points()[0], points()[1] + 1)}}, "test has labels up to 3"),
        ({"size": 8}, "for images, not for arrays"),
        ({"watch": {"test": "digits"}}, "can watch arrays only"),
        ({"tracker": "paper"}, "tracker must be one of"),
        ({"crops": 5}, "crops must be 1 or 10, got 5"),
        ({"crops": 10}, "crops .* for images"),
        ({"top_k": 1}, "top_k must be"),
        ({"schedule_options": {"step_size": 7}}, "step_size goes with schedule 'step'"),
        ({"schedule_options": {"step_size": 7, "milestones": [1]}, "schedule": "step"}, "step_size .* milestones"),
        ({"data": (np.ones((4, 3)), np.zeros(4, int))}, "at least two classes"),
        ({"data": (np.ones((4, 3)), np.array([0, 1, -1, 1]))}, "every training sample needs a label"),
        ({"data": 3}, "data must be a path"),
        ({"data": "nowhere.npz"}, "which does not exist"),
        (DIGITS | {"size": 20}, r"DigitsCNN could not run on inputs of shape \(1, 20, 20\)"),
        (DIGITS | {"split": "val"}, "no split 'val' to train on; it has train, test"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        on_points(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


# The command


def test_the_command_trains_and_tells(tmp_path: Path, cli: Callable[..., Any]) -> None:
    run = tmp_path / "run"
    network = ("train", "digits", "--model", "DigitsCNN", "--loss", "center", "--loss-options", "pull=0.02", "-o", run)
    pace = (
        "--epochs",
        2,
        "--limit",
        60,
        "--batch-size",
        20,
        "--lr",
        "0.05",
        "--schedule",
        "step",
        "--schedule-options",
        "milestones=1 gamma=0.1",
    )
    done = cli(*network, *pace)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "watching test (60 images) of the same data"
    words = ("epoch 1/2", "train loss", "accuracy", "AVH", "norm", "|  test")
    assert all(word in lines[1] for word in words)
    assert "lr 0.005" in lines[2].replace("  ", " ") and lines[-1] == f"next: hardsight score {run}"
    arguments = json.loads((run / "start.json").read_text())["arguments"]
    assert arguments["loss_options"] == {"pull": 0.02} and (arguments["epochs"], arguments["schedule_options"]["milestones"]) == (
        2,
        [1],
    )
    assert cli("score", run).code == 0
    assert "epoch 2/2" not in cli(*network, *pace).out


def test_the_command_watches_what_it_is_told(tmp_path: Path, cli: Callable[..., Any]) -> None:
    words = ("train", "digits:train", "--model", "DigitsCNN", "--epochs", 1, "--limit", 30, "--no-snapshot")
    done = cli(*words, "--watch", "test=digits", "--watch", "again=digits:test", "-o", tmp_path / "run")
    assert done.code == 0, done.err
    rows = pq.read_table(tmp_path / "run" / "dynamics" / "epoch=0001.parquet").to_pylist()
    ids = {split: [row["id"] for row in rows if row["split"] == split] for split in ("train", "test", "again")}
    assert len(ids["test"]) == 30 and ids["test"] == ids["again"] and not set(ids["train"]) & set(ids["test"])
    nothing = cli(*words, "--watch", "none", "-o", tmp_path / "alone")
    assert nothing.code == 0 and len(pq.read_table(tmp_path / "alone" / "dynamics" / "epoch=0001.parquet")) == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--watch", "test"), "--watch is written name=DATA"),
        (("--watch", "a=digits", "--watch", "a=digits"), "--watch a is given twice"),
        (("--schedule-options", "milestones=x"), "milestones must be comma-separated numbers, got 'x'"),
        (("--momentum", "0.8"), "--optimizer-options momentum=VALUE"),
        (("--loss", "nothing"), "loss must be one of"),
        (("--loss-options", "scale"), "key=value"),
    ],
)
def test_a_wrong_command_is_one_line_and_exit_2(
    words: tuple[str, ...], message: str, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    done = cli("train", "digits", "--model", "DigitsCNN", "-o", tmp_path / "run", *words)
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1 and not (tmp_path / "run").exists()


def test_no_torch_says_how_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom hardsight.cli import main\nmain()"
    words = ["train", "digits", "--model", "mnist_cnn", "-o", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "hardsight: hardsight train needs torch: pip install 'hardsight[torch]'\n"


def test_features_are_those_of_any_snapshot(tmp_path: Path) -> None:
    """From Parquet, with ids as written; those of a limit are spread over the file, and each keeps its own."""
    x, labels = points(24)
    ids = [f"s{row}" for row in range(24)]
    columns = {"id": ids, "label": labels, "features": list(x), "site": ["a", "b"] * 12}
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), tmp_path / "features.parquet")
    options: dict[str, Any] = {"model": "feature_head", "model_options": {"num_inputs": 3}, "epochs": 1, "limit": 10}
    run = hardsight.train(tmp_path / "features.parquet", tmp_path / "run", **options).run
    kept = hardsight.Snapshot.load(run).columns(["id", "label", "site"]).to_pylist()
    assert len(kept) == 10 and len({row["id"] for row in kept}) == 10
    assert all((row["label"], row["site"]) == (labels[ids.index(row["id"])], "ab"[ids.index(row["id"]) % 2]) for row in kept)
    with pytest.raises(InputError, match="finite, but 1 of 24 rows"):
        broken = {**columns, "features": [*x[:23], x[23] * np.nan]}
        pq.write_table(pa.table({name: pa.array(column) for name, column in broken.items()}), tmp_path / "broken.parquet")
        hardsight.train(tmp_path / "broken.parquet", tmp_path / "no", **{**options, "limit": None})
