"""How long `adapt` trains on its source: a small one is gone through more often, and one that was not learned is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from adapt_runs import adapted
from hardsight import adapt as run
from hardsight.domains import adapt_training
from hardsight.training.optimization import Updater

pytestmark = pytest.mark.usefixtures("undrawn")


def few_digits(count: int, level: float, others: int = 900) -> tuple[Any, Any]:
    """Some digits with labels, and others at less contrast, as images."""
    from dataclasses import replace
    from functools import partial

    from hardsight.data.arrays import ImageArrays
    from hardsight.data.degradation import Degradation, degrade
    from hardsight.data.digits import read_digits

    data = read_digits()
    order = np.random.default_rng(0).permutation(len(data))
    source, target = (replace(data.take(np.sort(rows)), columns={}) for rows in (order[:count], order[count : count + others]))
    how = Degradation("contrast", level)
    pixels = np.stack([np.asarray(degrade(target.image(row), how, id)) for row, id in enumerate(target.ids)])
    faint = ImageArrays([partial(np.asarray, pixels)], [len(pixels)], [])
    return source, replace(target, kind="npy", images=faint, rows=None)


@pytest.mark.slow
def test_a_small_source_of_images_is_learned(tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": "DigitsCNN", "methods": "source", "device": "cpu", "workers": 1}
    done = run(*few_digits(150, 0.6), tmp_path / "run", **options)
    assert done.accuracy.to_pylist()[0]["accuracy"] >= 0.78  # 8 steps give 43 %


def test_a_small_source_is_learned(tmp_path: Path) -> None:
    source, target = (
        (np.stack([np.asarray(data.image(row)).ravel() for row in range(len(data))]), data.labels)
        for data in few_digits(150, 0.3, others=300)
    )
    done = run(source, target, tmp_path / "run", methods="source", hidden=64)
    assert done.accuracy.to_pylist()[0]["accuracy"] >= 0.84  # 8 steps give 51 %
    folder = tmp_path / "run" / "source-to-target" / "seed=0" / "source"
    learned = json.loads((folder / "rounds.json").read_text("utf-8"))[0]["source"]
    assert 8 < learned["epochs"] <= 200 and learned["held_out"] == pytest.approx(30, abs=3) and learned["accuracy"] > 0.7
    assert not (folder / "checkpoints").exists()


def test_passes_asked_for_are_made_and_a_large_source_has_the_usual_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []

    def counted(self: Any, learning: Any, number: int, length: Any, among: Any = None) -> None:
        passes.append(number)
        assert among is None

    monkeypatch.setattr(adapt_training.PairTraining, "_source_epoch", counted)
    adapted(tmp_path / "asked", methods="source", source_epochs=3, batch_size=256)
    assert passes == [1, 2, 3]
    passes.clear()
    adapted(tmp_path / "usual", methods="source", source_epochs=None, batch_size=16)  # 64 steps
    assert passes == list(range(1, 9))
    start = json.loads((tmp_path / "usual" / "start.json").read_text("utf-8"))
    assert start["arguments"]["source_epochs"] == 8


def test_a_source_that_was_not_learned_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    adapted(tmp_path / "run", methods="source", source_epochs=1, lr=1e-9, say=said.append)
    assert "the source has not been learned" in said[0] and "guessing gives 33 %" in said[0]


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The share of the learning rate at every step."""
    seen: list[float] = []
    real = Updater.set_rate

    def set_rate(self: Any, factor: float) -> None:
        seen.append(factor)
        real(self, factor)

    monkeypatch.setattr(Updater, "set_rate", set_rate)
    return seen


def test_the_rate_rises_step_by_step(tmp_path: Path, rates: list[float]) -> None:
    adapted(tmp_path / "run", methods="cbst", source_epochs=2, rounds=1, epochs=2, schedule_options={"warmup": 0.5})
    assert rates[:8] == [0.5, 1, 1, 1, 1, 1, 1, 1]  # 120 samples: 4 steps an epoch
    assert rates[8] < 1 and rates[-1] == 1  # rounds warm up again


def test_all_samples_are_trained_on_at_the_rates_under_which_the_length_was_found(
    tmp_path: Path, rates: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardsight.domains.training_length.STEPS", 12)
    adapted(tmp_path / "run", methods="source", source_epochs=None, batch_size=256, schedule="cosine", lr=1.0)
    learned = json.loads((tmp_path / "run/source-to-target/seed=0/source/rounds.json").read_text("utf-8"))[0]["source"]
    found, again = rates[: -learned["epochs"]], rates[-learned["epochs"] :]
    assert 1 < learned["epochs"] < 12 and again == found[: learned["epochs"]]  # one step an epoch
