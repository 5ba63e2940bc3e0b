"""How long to train on a source, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hardsight.domains.training_length import (
    TrainingLength,
    best_epoch,
    held_out_rows,
    is_over,
    not_learned,
    training_length,
)


@pytest.mark.parametrize(
    ("samples", "epochs", "watched"),
    [
        (5000, 8, False), (1670, 8, False), (1537, 8, False),  # 7 steps a pass and more: 8 passes are enough
        (1536, 34, True), (300, 100, True), (157, 200, True), (1, 200, True),
    ],
)  # fmt: skip
def test_few_samples_are_gone_through_more_often(samples: int, epochs: int, watched: bool) -> None:
    assert training_length(samples, 256, usual=8) == TrainingLength(epochs, watched)
    assert training_length(2, 256, usual=500) == TrainingLength(500)  # the usual passes are the least
    assert training_length(157, 16, usual=8) == TrainingLength(8)  # smaller batches: 80 steps


def test_a_fifth_of_each_class_is_held_out_by_the_seed() -> None:
    labels = np.array([0] * 10 + [1] * 5 + [2] * 2 + [3] + [-1] * 4)
    rows = held_out_rows(labels, [0, 1])
    assert np.bincount(labels[rows], minlength=4).tolist() == [2, 1, 0, 0]
    assert rows.tolist() == held_out_rows(labels, [0, 1]).tolist() != held_out_rows(labels, [5, 1]).tolist()
    assert len(held_out_rows(np.arange(4), [0])) == 0  # one sample of each class: all are trained on


def test_training_stops_a_quarter_of_its_passes_after_the_best() -> None:
    length = TrainingLength(12, True)
    losses = [0.9, 0.4, 0.5, 0.4, 0.6]
    assert best_epoch(losses) == 2  # the first among equals
    assert [is_over(losses[:n], length) for n in range(6)] == [False] * 5 + [True]
    assert is_over([3.0, 2.0, 1.0], TrainingLength(3, True))


def test_what_was_not_learned_is_said() -> None:
    assert not_learned(0.32, 10, held_out=True) is not None and not_learned(0.33, 10, held_out=True) is None
    assert not_learned(0.5, 10, held_out=False) is not None and not_learned(0.6, 10, held_out=False) is None
    assert "40 % of its own samples are right, guessing gives 10 %" in str(not_learned(0.4, 10, held_out=False))
