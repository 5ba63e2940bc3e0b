"""Scoring on a Dask cluster of two workers against two bare processes that score one half each.

Both are started and warmed up before timing, use one thread each and read the same files. The cluster's time includes its
overhead: connecting, scheduling, joining the parts. The bare processes only score and write.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Measurement, compared
from hardsight import Snapshot, avh, score
from hardsight.cli import app
from hardsight.errors import require

D, C = 256, 1000
PART = 32768  # rows in a file: 32 MB of features
WORKERS = 2
LIMIT = 1.5


def run(n: int = 1_000_000, rounds: int = 2) -> list[Measurement]:
    """Wall time of both on n samples of 256 features and 1000 classes: 1 GB for a million."""
    with tempfile.TemporaryDirectory(prefix="hardsight-bench-") as place, patch.dict(os.environ, OMP_NUM_THREADS="1"):
        folder = Path(place)
        _write_samples(folder, n)
        with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool, _two_workers() as address:
            list(pool.map(_warm, range(4 * WORKERS)))
            work = {
                "two processes": lambda: list(pool.map(functools.partial(_half, folder), range(WORKERS))),
                "dask, two workers": lambda: _on_cluster(folder, address),
            }
            return compared(f"{(n, D, C)}", work, rounds, {"dask, two workers": LIMIT})


def _write_samples(folder: Path, n: int) -> None:
    """Random features in Parquet files, and a head."""
    rng = np.random.default_rng(0)
    (folder / "samples").mkdir()
    for number, start in enumerate(range(0, n, PART)):
        rows = min(PART, n - start)
        features = pa.FixedSizeListArray.from_arrays(rng.standard_normal(rows * D, dtype=np.float32), D)
        columns = {"id": np.arange(start, start + rows), "label": rng.integers(0, C, rows), "features": features}
        pq.write_table(pa.table(columns), folder / "samples" / f"part-{number:05d}.parquet", compression="none")
    weight = rng.standard_normal((C, D), dtype=np.float32) / np.float32(D**0.5)
    np.savez(folder / "head.npz", weight=weight, bias=rng.standard_normal(C, dtype=np.float32))


def _on_cluster(folder: Path, address: str) -> None:
    """`hardsight score --cluster`, in this process."""
    words = ["score", folder / "samples", "--head", folder / "head.npz", "-o", folder / "scores.parquet", "--cluster", address]
    with contextlib.redirect_stdout(io.StringIO()):
        app(args=list(map(str, words)), standalone_mode=False)


def _half(folder: Path, index: int) -> None:
    """The work of one bare process: score its half and write it."""
    snapshot = Snapshot.load(folder / "samples", head=folder / "head.npz")
    pq.write_table(score(snapshot, shard=(index, WORKERS)).table, folder / f"scores-{index}.parquet")


def _warm(index: int) -> float:
    return float(avh(np.eye(64, dtype=np.float32), np.eye(64, dtype=np.float32), np.arange(64)).sum())


@contextlib.contextmanager
def _two_workers() -> Iterator[str]:
    distributed = require("distributed", extra="cluster", purpose="python -m benchmarks cluster")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": None}
    with distributed.LocalCluster(n_workers=WORKERS, **options) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            client.run(_warm, 0)
        yield cluster.scheduler_address
