"""A self-training that is killed is resumed where it was and ends with the same bytes.

That it also survives `kill -9` in the middle of a file is in test_training_resume.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from adapt_runs import adapted, contents
from hardsight.domains import adapt_training, training_length
from hardsight.training import checkpoint


def test_a_killed_run_is_resumed_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: Callable[..., list[int]]
) -> None:
    options = {"methods": ("cbst", "crst")}
    whole = adapted(tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    calls = killed(
        adapt_training.PairTraining, "_train", at=(3, 8, 9)
    )  # in the source model, in a third round, and at once again
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            adapted(tmp_path / "killed", **options)
    done = adapted(tmp_path / "killed", **options)
    assert len(calls) == 4 + 2 * 3 + 3  # nothing was trained twice: every kill cost the epoch it fell into
    assert contents(done.run) == contents(whole.run)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("options", "at"),
    [
        # while the length of the training on a small source is found, and after it
        ({"source_epochs": None, "methods": "source", "batch_size": 256}, (8, 20)),
        # in the second round of a candidate of auto, and in the next candidate
        ({"source_epochs": 1, "methods": "auto", "rounds": 2}, (3, 5)),
    ],
)
def test_what_is_found_before_and_after_a_kill_is_the_same(
    options: dict[str, Any],
    at: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed: Callable[..., list[int]],
) -> None:
    monkeypatch.setattr(training_length, "STEPS", 12)
    whole = adapted(tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    killed(adapt_training.PairTraining, "_train", at=at)
    for _ in at:
        with pytest.raises(KeyboardInterrupt):
            adapted(tmp_path / "killed", **options)
    assert contents(adapted(tmp_path / "killed", **options).run) == contents(whole.run)
