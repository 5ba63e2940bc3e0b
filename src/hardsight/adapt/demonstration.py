"""The demo's self-training: a network that learned clean digits meets faint ones, without their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from hardsight.adapt.running import run
from hardsight.adapt.settings import SOURCE_ONLY
from hardsight.data import ImageData
from hardsight.data.arrays import ImageArrays

METHOD = "cbst+avh"
RECIPE: dict[str, Any] = {"rounds": 5, "epochs": 1, "portion": "0.3:0.1:0.7", "batch_size": 64, "device": "cpu", "workers": 1}


@dataclass(frozen=True, eq=False)
class Adapted:
    """What became of the faint digits.

    Attributes:
        accuracy: (rounds + 1,) mean class accuracy: of the source model, then after each round.
        class_accuracy: (2, c) before the first round and after the last.
        before, after: (n,) predictions, in the order of the samples.
    """

    accuracy: list[float]
    class_accuracy: np.ndarray
    before: np.ndarray
    after: np.ndarray


def adapt_to_faint(
    directory: Path,
    model: torch.nn.Module,
    source: ImageData,
    target: ImageData,
    *,
    seed: int,
    progress: Callable[..., None] | None = None,
) -> Adapted:
    """Self-training from the source, which `model` has learned, to the target; `directory` becomes a run of `hardsight adapt`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums then do not depend on the number of cores
    try:
        done = run(
            source, target, directory, methods=(SOURCE_ONLY, METHOD), seeds=[seed], model=model, progress=progress, **RECIPE
        )
    finally:
        torch.set_num_threads(threads)
    rows = done.accuracy.to_pylist()
    folder = directory / rows[0]["pair"] / f"seed={seed}"
    names = [name for name in done.accuracy.column_names if name.startswith("class ") and not name.endswith(" std")]
    return Adapted(
        accuracy=[rows[0]["accuracy"], *(row["accuracy"] for row in done.rounds.to_pylist() if row["method"] == METHOD)],
        class_accuracy=np.array([[row[name] for name in names] for row in rows]),
        before=pq.read_table(folder / SOURCE_ONLY / "predictions.parquet").column("predicted").to_numpy(),
        after=pq.read_table(folder / METHOD / "predictions.parquet").column("predicted").to_numpy(),
    )


def image_data(pixels: np.ndarray, labels: np.ndarray, ids: list[str], class_names: list[str]) -> ImageData:
    """(n, h, w) uint8 in memory as data."""
    return ImageData(
        "npy", ids, ImageArrays([partial(np.asarray, pixels)], [len(pixels)], []), labels.astype(np.int64), class_names
    )
