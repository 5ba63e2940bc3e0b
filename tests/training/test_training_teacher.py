"""Losses that need more than features and labels: a teacher's logits, or the network and its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from hardsight import losses, training
from hardsight.errors import InputError, RunError
from hardsight.models import open_model
from hardsight.models.feature_head import feature_head
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import open_trainable
from hardsight.training.trainee import LossChoice, Trainee

SMALL = {"num_inputs": 3, "num_features": 4}  # of feature_head


def points(n: int = 60, c: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % c
    return (np.eye(3)[labels % 3] * 2 + rng.normal(0, 0.4, (n, 3))).astype(np.float32), labels


def train(output: Path, **options: Any) -> training.Trained:  # type: ignore[name-defined]
    return hardsight.train(points(), "feature_head", output, **{"epochs": 1, "lr": 0.1, "model_options": SMALL, **options})


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
    network = feature_head(3, **SMALL)
    torch.manual_seed(0)
    loss = losses.DualHeadLoss(4, 3, distill=0.5, hidden=4)
    features = network.relu(network.hidden(torch.from_numpy(inputs)))
    _, logits = open_model(teacher)(inputs)
    expected = float(loss(features, torch.from_numpy(labels), torch.from_numpy(logits)).detach())
    assert done.history[0]["train"]["objective"] == pytest.approx(expected, rel=1e-5)
    assert expected > float(loss(features, torch.from_numpy(labels)).detach()) + 0.01
    assert "second" not in "".join(torch_names(tmp_path / "run"))  # the teacher's head is dropped
    assert open_model(tmp_path / "run")(inputs)[1].shape == (60, 3)


def torch_names(run: Path) -> list[str]:
    from safetensors.torch import load_file

    return list(load_file(run / "model" / "model.safetensors"))


def test_another_teacher_is_another_training(tmp_path: Path, teacher: Path) -> None:
    train(tmp_path / "run", loss="dual_head", teacher=teacher)
    train(tmp_path / "other", epochs=2)
    with pytest.raises(RunError, match="teacher was"):
        train(tmp_path / "run", loss="dual_head", teacher=tmp_path / "other")


def test_a_teacher_must_fit(tmp_path: Path, teacher: Path) -> None:
    with pytest.raises(InputError, match="dual_head needs a teacher"):
        train(tmp_path / "run", loss="dual_head")
    with pytest.raises(InputError, match="a teacher goes with the loss dual_head, not with avh"):
        train(tmp_path / "run", loss="avh", teacher=teacher)
    with pytest.raises(InputError, match="the teacher knows 3 classes, and the training data has 4"):
        hardsight.train(points(c=4), "feature_head", tmp_path / "run", model_options=SMALL, loss="dual_head", teacher=teacher)
    with pytest.raises(InputError, match=r"must see images alike: size is \[8, 8\] and \[9, 9\]"):
        hardsight.train("digits", "DigitsCNN", tmp_path / "digits", epochs=1, limit=20)
        hardsight.train("digits", "DigitsCNN", tmp_path / "run", limit=20, size=9, loss="dual_head", teacher=tmp_path / "digits")
    assert not (tmp_path / "run").exists()


def test_without_moves_smooth_adversarial_is_softmax(tmp_path: Path) -> None:
    plain = train(tmp_path / "plain", epochs=2, batch_size=16)
    options = {"nu": 0.0, "steps": 0}
    same = train(tmp_path / "same", epochs=2, batch_size=16, loss="smooth_adversarial", loss_options=options)
    assert np.allclose(plain.head.weight, same.head.weight, atol=1e-6)
    moved = train(
        tmp_path / "moved", epochs=2, batch_size=16, loss="smooth_adversarial", loss_options={"steps": 2, "radius": 0.1}
    )
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
