"""Two small domains of features, and self-training on them in a moment: shared by the tests of `hardsight.domains`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

METHODS = ("source", "cbst", "crst", "cbst+avh")
SHOWN = ("source", "logistic regression", *METHODS[1:])  # in every table
QUICK: dict[str, Any] = {"rounds": 3, "epochs": 1, "source_epochs": 4, "hidden": 16, "batch_size": 32, "lr": 0.05}


def domains(shift: float = 1.2, n: int = 120, d: int = 8, c: int = 3) -> tuple[Any, Any, np.ndarray]:
    """Two clouds of features with the same classes; the second is stretched and turned a little."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % c
    centers = rng.normal(size=(c, d)) * 1.5
    there = centers[labels] + rng.normal(size=(n, d))
    turn = np.eye(d) + 0.25 * rng.normal(size=(d, d))
    here = (centers[labels] + rng.normal(size=(n, d))) @ turn * 2 + shift
    return there.astype(np.float32), here.astype(np.float32), labels


def adapted(folder: Path, **options: Any) -> Any:
    """A quick run on these two domains."""
    from hardsight import adapt

    there, here, labels = domains()
    return adapt((there, labels), (here, labels), folder, **{**QUICK, **options})


def check_kept_model(folder: Path, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The model in the folder reaches the accuracy of its last round on features as they were; returns its predictions."""
    from hardsight.domains.comparison import class_accuracies, known_mean
    from hardsight.models.opening import open_model

    model = open_model(folder)
    model.check(features[:16])
    predicted = model(features)[1].argmax(1)
    last = json.loads((folder / "rounds.json").read_text("utf-8"))[-1]
    assert known_mean(class_accuracies(labels, predicted, 3)) == pytest.approx(last["accuracy"])
    return predicted


def contents(folder: Path) -> dict[str, str]:
    """Every file but those that hold times."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("run.json", "start.json", ".lock")
    }


def by_sample_domain() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A source and a target that is scaled and moved; positive and negative domains."""
    rng = np.random.default_rng(1)
    labels = np.arange(120) % 3
    there, here = (np.eye(3)[labels] * 4 + rng.normal(size=(120, 3)) for _ in range(2))
    return np.concatenate([there, here * [3, 1, 1] + 5]), np.tile(labels, 2), np.repeat([1, -2], 120)
