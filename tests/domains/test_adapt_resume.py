"""A self-training that is killed is resumed where it was and ends with the same bytes.

That it also survives `kill -9` in the middle of a file is in test_training_resume.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from adapt_runs import QUICK, contents, domains
from hardsight import adapt as run
from hardsight.domains import source_training
from hardsight.domains.adaptation import loop
from hardsight.training import checkpoint


def test_a_killed_run_is_resumed_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: Callable[..., list[int]]
) -> None:
    there, here, labels = domains()
    options = {**QUICK, "methods": ("cbst", "crst"), "ema": 0.9}
    whole = run((there, labels), (here, labels), tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    calls = killed(loop.SelfTraining, "_train", at=(3, 8, 9))  # in the source model, in a third round, and at once again
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run((there, labels), (here, labels), tmp_path / "killed", **options)
    done = run((there, labels), (here, labels), tmp_path / "killed", **options)
    assert len(calls) == 4 + 2 * 3 + 3  # nothing was trained twice: every kill cost the epoch it fell into
    assert contents(done.directory) == contents(whole.directory)


@pytest.mark.usefixtures("undrawn")
def test_a_small_source_is_trained_the_same_way_twice_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: Callable[..., list[int]]
) -> None:
    there, here, labels = domains(n=60)
    options: dict[str, Any] = {**QUICK, "source_epochs": None, "methods": "source", "batch_size": 256}
    monkeypatch.setattr(source_training, "STEPS", 12)
    whole = run((there, labels), (here, labels), tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    killed(loop.SelfTraining, "_train", at=(8, 20))  # while the length is found, and after it
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run((there, labels), (here, labels), tmp_path / "killed", **options)
    done = run((there, labels), (here, labels), tmp_path / "killed", **options)
    assert contents(done.directory) == contents(whole.directory)


@pytest.mark.usefixtures("undrawn")
def test_a_killed_auto_is_resumed_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: Callable[..., list[int]]
) -> None:
    there, here, labels = domains()
    options = {**QUICK, "methods": "auto", "rounds": 2, "source_epochs": 1}
    whole = run((there, labels), (here, labels), tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    killed(loop.SelfTraining, "_train", at=(3, 5))  # in a candidate's second round, and in the next candidate
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run((there, labels), (here, labels), tmp_path / "killed", **options)
    done = run((there, labels), (here, labels), tmp_path / "killed", **options)
    assert contents(done.directory) == contents(whole.directory)
