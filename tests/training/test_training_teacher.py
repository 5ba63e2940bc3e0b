"""Losses that need more than features and labels: a teacher's logits, or the network and its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from safetensors.torch import load_file

from hardsight import losses, training
from hardsight.errors import InputError, RunError
from hardsight.models import open_model
from hardsight.models.networks import feature_head
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import open_trainable
from hardsight.training.trainee import LossChoice, Trainee
from point_mlp import points

MLP = {"num_inputs": 3, "num_features": 6}


def train(output: Path, **options: Any) -> training.Trained:  # type: ignore[name-defined]
    data_and_model = {"data": points(), "model": "feature_head", "model_options": MLP}
    return hardsight.train(output=output, **{**data_and_model, "epochs": 1, "lr": 0.1, **options})


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("teacher") / "run"
    train(run, epochs=5)
    return run


def test_the_teacher_is_in_the_loss(tmp_path: Path, teacher: Path) -> None:
    """One step on all points: the loss is the one of the untrained student, written out."""
    done = train(tmp_path / "run", loss="dual_head", loss_options={"distill": 0.5, "hidden": 4}, teacher=teacher)
    inputs, labels = points()
    torch.manual_seed(0)
    network = feature_head(3, **MLP)
    torch.manual_seed(0)
    loss = losses.DualHeadLoss(6, 3, distill=0.5, hidden=4)
    features = network.relu(network.hidden(torch.from_numpy(inputs)))
    _, logits = open_model(teacher)(inputs)
    expected = float(loss(features, torch.from_numpy(labels), torch.from_numpy(logits)).detach())
    assert done.history[0]["train"]["objective"] == pytest.approx(expected, rel=1e-5)
    assert expected > float(loss(features, torch.from_numpy(labels)).detach()) + 0.01
    assert "second" not in "".join(load_file(tmp_path / "run" / "model" / "model.safetensors"))  # the teacher's head is dropped
    assert open_model(tmp_path / "run")(inputs)[1].shape == (60, 3)


def test_another_teacher_is_another_training(tmp_path: Path, teacher: Path) -> None:
    train(tmp_path / "run", loss="dual_head", teacher=teacher)
    train(tmp_path / "other", epochs=2)
    with pytest.raises(RunError, match="teacher was"):
        train(tmp_path / "run", loss="dual_head", teacher=tmp_path / "other")


def test_a_teacher_must_fit(tmp_path: Path, teacher: Path) -> None:
    digits: dict[str, Any] = {"data": "digits", "model": "DigitsCNN", "model_options": {}, "limit": 20}
    train(tmp_path / "digits", **digits)
    for options, words in (
        ({"teacher": None}, "dual_head needs a teacher"),
        ({"loss": "avh"}, "a teacher goes with the loss dual_head, not with avh"),
        ({"data": (points()[0], np.arange(60) % 4)}, "the teacher knows 3 classes, and the training data has 4"),
        (digits | {"size": 9, "teacher": tmp_path / "digits"}, r"images alike: size is \[8, 8\] and \[9, 9\]"),
    ):
        with pytest.raises(InputError, match=words):
            train(tmp_path / "run", **{"loss": "dual_head", "teacher": teacher, **options})
    assert not (tmp_path / "run").exists()


def test_without_moves_smooth_adversarial_is_softmax(tmp_path: Path) -> None:
    plain = train(tmp_path / "plain", epochs=2, batch_size=16)
    adversarial: dict[str, Any] = {"epochs": 2, "batch_size": 16, "loss": "smooth_adversarial"}
    same = train(tmp_path / "same", **adversarial, loss_options={"nu": 0.0, "steps": 0})
    assert np.allclose(plain.head.weight, same.head.weight, atol=1e-6)
    moved = train(tmp_path / "moved", **adversarial, loss_options={"steps": 2, "radius": 0.1})
    assert moved.history[0]["train"]["objective"] > plain.history[0]["train"]["objective"]


def test_pixels_are_moved_and_not_what_they_are_normalized_to() -> None:
    options: dict[str, Any] = {"radius": 0.25, "step": 0.2, "steps": 3}
    preprocessing = Preprocessing(size=(2, 2), mean=(0.5, 0.4, 0.3), std=(0.25, 0.5, 0.1))
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    pixels, labels = torch.rand(6, 3, 2, 2), torch.arange(6) % 3
    mean, std = (torch.tensor(values)[:, None, None] for values in (preprocessing.mean, preprocessing.std))
    inputs = (pixels - mean) / std
    trainee = Trainee(open_trainable(net, 3), inputs, LossChoice("smooth_adversarial", options, 3, 6), preprocessing)
    torch.manual_seed(0)
    loss, features = trainee(inputs, labels, torch.arange(6))
    torch.manual_seed(0)
    expected = losses.smooth_adversarial_comp_sum_loss(
        lambda x: trainee.objective.classes.logits(trainee.features((x - mean) / std)), pixels, labels, **options
    )
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(features, trainee.features(inputs), rtol=1e-4, atol=1e-5)
    loss.backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in trainee.parameters())
