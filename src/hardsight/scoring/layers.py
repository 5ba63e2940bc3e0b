"""Features of several layers, as stored by `hardsight extract --layers`: layers/00-NAME/part-00000.parquet, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import FileError
from hardsight.files.places import Place
from hardsight.files.run import read_manifest
from hardsight.files.samples import Batch, SampleFiles
from hardsight.scores.depth import depth_of, neighbors_vote
from hardsight.scores.sweep import Sweep

FOLDER = "layers"


def layers_of(run: Place | None) -> dict[str, list[Place]]:
    """The files of each stored layer of a run, first layer first."""
    if run is None or not (run / FOLDER).is_dir():
        return {}
    names = [str(part["name"]) for part in read_manifest(run)["parts"]]
    layers: dict[str, list[Place]] = {}
    for name in sorted(name for name in names if name.startswith(f"{FOLDER}/")):
        layers.setdefault(name.split("/")[1], []).append(run / name)
    return layers


class Depths:
    """The vote of the nearest neighbors at each layer, for some rows of a run."""

    def __init__(self, layers: dict[str, list[Place]], labels: np.ndarray, rows: range, k: int) -> None:
        """Args: the files of each layer, the (n,) labels of the rows, the rows, and the number of neighbors that vote."""
        self.rows = rows
        self.votes = np.stack([neighbors_vote(_features(name, files, rows), labels, k) for name, files in layers.items()])

    def of(self, batch: Batch, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) prediction depth of each row."""
        start = batch.start - self.rows.start
        return depth_of(self.votes[:, start : start + len(batch)], rows.predicted)


def _features(name: str, files: list[Place], rows: range) -> np.ndarray:
    source = SampleFiles(files)
    if len(source) < rows.stop:
        raise FileError(f"{files[0]}: the layer {name} has {len(source)} rows, but {rows.stop} are needed.")
    parts = [to_numpy(batch.values) for batch in source.read(rows.start, rows.stop, max(1, len(rows)), None)]
    return np.concatenate(parts) if parts else np.zeros((0, source.width), np.float32)
