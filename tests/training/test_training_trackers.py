"""Trackers get the numbers of a training: each is run for real where it is installed, and read back."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from hardsight.errors import MissingExtra, TrainingError
from hardsight.training.train import _installed

Numbers = dict[str, dict[int, float]]  # {"test/avh": {1: 0.1, 2: 0.09}}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """wandb and mlflow write to the working directory, unless their own settings say otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")


def train(tracker: str, output: str = "first-try", **options: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    data = rng.normal(labels[:, None], 1, (40, 3)), labels
    return hardsight.train(
        data, output, model="point_mlp:PointMLP", epochs=2, watch={"test": data}, tracker=tracker, snapshot=False, **options
    ).history


def check(found: Numbers, history: list[dict[str, Any]]) -> None:
    """What a tracker holds is what the run says."""
    assert {"lr", "train/objective", "train/avh", "test/accuracy", "test/norm"} <= set(found)
    for entry in history:
        for name in ("train", "test"):
            for key, value in entry[name].items():
                assert found[f"{name}/{key}"][entry["epoch"]] == pytest.approx(value, rel=1e-6)
    assert all(set(steps) == {1, 2} for steps in found.values())


def skip_without(module: str, reason: str = "is not installed") -> None:
    if not _installed(module):
        pytest.skip(f"{module} {reason}")


def test_tensorboard(tmp_path: Path) -> None:
    skip_without("tensorboardX")
    history = train("tensorboard")
    (events,) = (tmp_path / "first-try" / "tracker" / "hardsight").glob("events*")
    check(_scalars(events), history)


def _scalars(path: Path) -> Numbers:
    """The scalars of an events file: records of length, checksum, an Event, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    content, at = path.read_bytes(), 0
    found: dict[str, Any] = {}
    while at < len(content):
        (length,) = struct.unpack("<Q", content[at : at + 8])
        event = Event.FromString(content[at + 12 : at + 12 + length])
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found.setdefault(value.tag, {})[event.step] = value.simple_value
        at += length + 16
    return found


@pytest.mark.filterwarnings("ignore")
def test_wandb_offline(tmp_path: Path) -> None:
    skip_without("wandb", "is installed by make nightly")
    history = train("wandb")
    (path,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    found, name = _wandb_history(path)
    assert name == "first-try"
    check(found, history)


def _wandb_history(path: Path) -> tuple[Numbers, str | None]:
    """The history in a .wandb file: after 7 bytes, records in blocks of 32 KB, as LevelDB writes its log."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, block, at, whole = path.read_bytes(), 32768, 7, b""
    found: Numbers = {}
    name = None
    while at + 7 <= len(content):
        if block - at % block < 7:  # no room for another header: the rest of the block is empty
            at += block - at % block
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a record, or its last piece
            record, whole = Record.FromString(whole), b""
            name = record.run.display_name or name
            numbers = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for key, value in numbers.items():
                if not key.startswith("_"):
                    found.setdefault(key, {})[numbers["_step"]] = value
    return found, name


@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path: Path) -> None:
    skip_without("mlflow", "is installed by make nightly")
    from mlflow import MlflowClient

    history = train("mlflow")
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'hardsight'")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "first-try" and run.info.status == "FINISHED"
    assert run.data.params["loss"] == "softmax" and run.data.params["batch_size"] == "128"
    check(
        {key: {m.step: m.value for m in client.get_metric_history(run.info.run_id, key)} for key in run.data.metrics},
        history,
    )


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_is_not_there_says_how_to_get_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda module, *a: None if module == name else found(module, *a))
    with pytest.raises(MissingExtra, match=f"pip install {name}"):
        train(name)
    assert not (tmp_path / "first-try").exists()


def test_a_folder_is_not_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_tracker").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.util.find_spec("some_tracker") is not None and not _installed("some_tracker")
    assert _installed("numpy") and not _installed("no_such_tracker")


def test_a_tracker_that_does_not_start_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nobody is logged in; the training has not begun, and the same command goes on without it."""
    skip_without("tensorboardX")
    from accelerate.tracking import TensorBoardTracker

    def refuse(self: Any) -> None:
        raise PermissionError("nobody is logged in")

    with monkeypatch.context() as patch:
        patch.setattr(TensorBoardTracker, "start", refuse)
        with pytest.raises(TrainingError, match="the tracker did not start: PermissionError: nobody is logged in"):
            train("tensorboard")
    assert len(train("tensorboard")) == 2
