"""`python -m benchmarks cluster`: scoring on a Dask cluster of two workers against two bare processes that share the pieces.

Both are started and warmed up before timing, use one thread each and read the same files. The cluster's time includes its
overhead: connecting, scheduling, joining the parts. The bare processes only score and write.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Measurement, compared
from hardsight.errors import require
from hardsight.files.heads import save_head
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.head import Head
from hardsight.scoring.cluster import score_on_cluster
from hardsight.scoring.score import Job
from hardsight.snapshot import Snapshot
from hardsight.table import TableWriter

D, C = 256, 1000
PART = 32768  # rows in a file: 32 MB of features
WORKERS = 2
LIMIT = 1.5


def run(n: int, rounds: int) -> list[Measurement]:
    """Wall time of both on the same run, alternating."""
    with tempfile.TemporaryDirectory(prefix="hardsight-bench-") as folder, _one_thread_each():
        snapshot = _make_run(Path(folder) / "run", n)
        with _two_processes() as pool, _two_workers() as address:
            work: dict[str, Callable[[], object]] = {
                "two processes": lambda: list(pool.map(functools.partial(_share, snapshot), range(WORKERS))),
                "dask, two workers": lambda: score_on_cluster(
                    Job(Snapshot.load(snapshot)), Path(folder) / "scores.parquet", address
                ),
            }
            return compared(f"{(n, D, C)}", work, rounds, "two processes", {"dask, two workers": LIMIT})


def _make_run(folder: Path, n: int) -> Path:
    """A complete run directory with random features."""
    rng = np.random.default_rng(0)
    made = Run(folder, "bench", {"n": n}, {})
    parts = []
    for number, start in enumerate(range(0, n, PART)):
        rows = min(PART, n - start)
        columns = {"id": np.arange(start, start + rows), "label": rng.integers(0, C, rows)}
        parts.append(made.folder("samples") / f"part-{number:05d}.parquet")
        write_samples(parts[-1], rng.standard_normal((rows, D), dtype=np.float32), columns)
    weight = rng.standard_normal((C, D), dtype=np.float32) / np.float32(D**0.5)
    save_head(folder / "head.safetensors", Head("linear", weight, rng.standard_normal(C, dtype=np.float32)))
    made.finish(parts, {})
    return folder


def _share(snapshot: Path, index: int) -> int:
    """The work of one bare process: every other piece."""
    job = Job(Snapshot.load(snapshot))
    with TableWriter(snapshot.with_name(f"scores-{index}.parquet"), job.schema) as writer:
        for piece in job.pieces()[index::WORKERS]:
            writer.write(job.part(piece))
    return index


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside this context use one thread."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


@contextlib.contextmanager
def _two_processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_warm, range(4 * WORKERS)))
        yield pool


def _warm(index: int) -> Any:
    from hardsight.scores import avh

    return avh(np.eye(64, dtype=np.float32), np.eye(64, dtype=np.float32), np.arange(64)).sum()


@contextlib.contextmanager
def _two_workers() -> Iterator[str]:
    distributed = require("distributed", extra="cluster", purpose="python -m benchmarks cluster")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": None}
    with distributed.LocalCluster(n_workers=WORKERS, **options) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            client.run(_warm, 0)
        yield cluster.scheduler_address
