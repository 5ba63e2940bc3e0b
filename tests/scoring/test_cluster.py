"""A real Dask cluster of two worker processes writes the bytes of a local run, whatever happens to the workers."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardsight.errors import InputError, RunError
from hardsight.scoring import cluster
from hardsight.scoring.cluster import _read_part, part_name, score_part
from hardsight.scoring.job import Job
from hardsight.scoring.score import score
from hardsight.snapshot import Snapshot
from hardsight.table import write_table

dask = pytest.importorskip("dask", reason="the cluster extra is not installed")
distributed = pytest.importorskip("distributed", reason="the cluster extra is not installed")
cloudpickle = pytest.importorskip("cloudpickle")

N, D, C, PARTS = 6000, 16, 7, 6
NOBODY = "tcp://127.0.0.1:1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT", 2.0)


@contextlib.contextmanager
def two_workers() -> Iterator[Any]:
    """Two worker processes with one thread each."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    with mock.patch.dict(os.environ):  # Dask leaves OMP_NUM_THREADS=1 behind, which would slow the tests after it
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as running:
            yield running


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    """For tests that leave the workers alone."""
    with two_workers() as running:
        yield running


@pytest.fixture(scope="module")
def victims() -> Iterator[Any]:
    """For tests that kill workers: Dask restarts them."""
    with two_workers() as running:
        yield running


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A Parquet file with six row groups, and a separate head."""
    return write_samples(tmp_path, ids=[f"image {row}" for row in range(N)])


def write_samples(folder: Path, ids: list[str], bad_row: int | None = None) -> Path:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((N, D), dtype=np.float32)
    if bad_row is not None:
        features[bad_row] = np.nan
    labels = rng.integers(-1, C, N)
    flat = pa.FixedSizeListArray.from_arrays(features.reshape(-1), D)
    pq.write_table(
        pa.table({"id": ids, "label": labels, "features": flat}), folder / "samples.parquet", row_group_size=N // PARTS
    )
    np.save(folder / "weight.npy", rng.standard_normal((C, D), dtype=np.float32))
    return folder / "samples.parquet"


def on_cluster(samples: Path, address: str, **options: Any) -> Path:
    """Score on a cluster; where the table is."""
    output = samples.with_name("scores.parquet")
    score(samples, samples.with_name("weight.npy"), output=output, cluster=address, **options)
    return output


def local_bytes(samples: Path, head: Path | None = None) -> bytes:
    score(samples, head, output=samples.with_name("local.parquet"))
    return samples.with_name("local.parquet").read_bytes()


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_bytes_are_those_of_a_local_run(workers: Any, samples: Path, cli: Callable[..., Any], ending: str) -> None:
    output = samples.with_name(f"scores.{ending}")
    head = samples.with_name("weight.npy")
    there = cli("score", samples, "--head", head, "-o", output, "--cluster", workers.scheduler_address)
    assert there.code == 0, there.err
    on_cluster = output.read_bytes()
    here = cli("score", samples, "--head", head, "-o", output)
    assert here.out == there.out  # the summary too
    assert on_cluster == output.read_bytes()
    assert not output.with_name(output.name + ".parts").exists()


def test_arrays_and_limit(workers: Any, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.snapshot.snapshot.BATCH_BYTES", N * D)  # four pieces of an array; workers are told the rows
    features = np.random.default_rng(1).standard_normal((N, D), dtype=np.float32)
    np.save(samples.with_name("features.npy"), features)
    np.save(samples.with_name("labels.npy"), np.arange(N) % C)
    options: dict[str, Any] = {"labels": samples.with_name("labels.npy"), "first": N - 10, "scores": "avh,loss"}
    output = on_cluster(samples.with_name("features.npy"), workers.scheduler_address, **options)
    assert pq.read_metadata(output).num_row_groups == 4
    expected = score(samples.with_name("features.npy"), samples.with_name("weight.npy"), **options)
    assert len(expected) == N - 10 and pq.read_table(output).equals(expected.table)


def test_the_last_bit_does_not_depend_on_cores(workers: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)  # workers have one core; a product shared over two rounds otherwise for this shape
    features, weight = rng.standard_normal((257, 512), dtype=np.float32), rng.standard_normal((1000, 512), dtype=np.float32)
    Snapshot(features, weight, rng.integers(0, 1000, 257)).save(tmp_path / "wide.npz")
    score(tmp_path / "wide.npz", output=tmp_path / "scores.parquet", cluster=workers.scheduler_address)
    assert (tmp_path / "scores.parquet").read_bytes() == local_bytes(tmp_path / "wide.npz")


def slow_part(number: int, piece: range, request: Any) -> int:
    time.sleep(0.4)
    return score_part(number, piece, request)


def test_a_worker_killed_in_the_middle_changes_nothing(victims: Any, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "score_part", slow_part)
    victim = next(iter(victims.workers.values())).pid
    done: list[int] = []

    def kill_after_the_first(rows: int, total: int) -> None:
        done.append(rows)
        if len(done) == 2:  # the first call tells what was there before
            os.kill(victim, signal.SIGKILL)

    output = on_cluster(samples, victims.scheduler_address, progress=kill_after_the_first)
    assert done[-1] == N
    assert output.read_bytes() == local_bytes(samples, samples.with_name("weight.npy"))
    assert len(set(pq.read_table(output).column("id").to_pylist())) == N


def poisoned_part(number: int, piece: range, request: Any) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return score_part(number, piece, request)


def test_a_part_that_kills_its_workers_is_named(victims: Any, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "score_part", poisoned_part)
    monkeypatch.setattr(cluster, "PATIENCE", 5.0)
    with pytest.raises(RunError, match=r"part-0000\d\.parquet"):  # by Dask's count of deaths, or when none is left to die
        on_cluster(samples, victims.scheduler_address)
    assert not samples.with_name("scores.parquet").exists()


def test_a_part_that_fails_is_named_with_its_reason(workers: Any, tmp_path: Path) -> None:
    samples = write_samples(tmp_path, [f"{row}" for row in range(N)], bad_row=2500)
    with pytest.raises(InputError, match=r"part-00002\.parquet \(rows 2000 to 2999\) failed 3 times: .*row 2500 .*nonfinite"):
        on_cluster(samples, workers.scheduler_address, strict=True)


def test_started_again_only_missing_parts_are_computed(workers: Any, samples: Path) -> None:
    parts = samples.with_name("scores.parquet.parts")
    output = on_cluster(samples, workers.scheduler_address)
    expected = output.read_bytes()

    with pytest.raises(RunError, match="no Dask scheduler answers"):  # begun, and nothing computed
        on_cluster(samples, NOBODY)
    job = Job(Snapshot.load(samples, head=samples.with_name("weight.npy")))
    for number in (0, 3, 4, 5):
        write_table(job.table_of(job.pieces()[number]), parts / part_name(number))
    calls: list[int] = []
    on_cluster(samples, workers.scheduler_address, progress=lambda rows, total: calls.append(rows))
    assert calls == [4000, 5000, 6000]  # two of six parts
    assert output.read_bytes() == expected


def test_a_damaged_part_is_named(samples: Path) -> None:
    """The column id is renamed in the footer, which page checksums do not cover."""
    part = samples.with_name(part_name(0))
    write_table(Job(Snapshot.load(samples, head=samples.with_name("weight.npy"))).table_of(range(1000)), part)
    assert len(_read_part(part, 1000)) == 1000
    part.write_bytes(part.read_bytes().replace(b"predicted", b"predicteD"))
    with pytest.raises(RunError, match="part-00000.parquet: damaged.*Remove it, and run the same command again"):
        _read_part(part, 1000)


def test_parts_of_other_inputs_or_arguments_are_refused(samples: Path) -> None:
    with pytest.raises(RunError, match="no Dask scheduler answers"):
        on_cluster(samples, NOBODY)
    with pytest.raises(RunError, match="started with other scores"):
        on_cluster(samples, NOBODY, scores="avh")
    os.utime(samples, (1, 1))
    with pytest.raises(RunError, match="started with other inputs.*Remove it"):
        on_cluster(samples, NOBODY)


def test_duplicate_ids_are_refused_as_here(workers: Any, tmp_path: Path) -> None:
    samples = write_samples(tmp_path, [f"{row % (N - 1)}" for row in range(N)])
    with pytest.raises(InputError, match=r"row 5999 repeats '0' of row 0"):
        on_cluster(samples, workers.scheduler_address)
    assert not samples.with_name("scores.parquet").exists()
    output = on_cluster(samples, workers.scheduler_address, allow_duplicates=True)
    assert pq.read_metadata(output).num_rows == N


def test_what_a_cluster_cannot_do_is_refused(samples: Path) -> None:
    there: dict[str, Any] = {"output": samples.with_name("scores.parquet"), "cluster": NOBODY}
    with pytest.raises(InputError, match="not available on a cluster"):
        on_cluster(samples, NOBODY, scores="knn_agreement")
    with pytest.raises(InputError, match="cannot be fitted on a cluster"):
        score(samples, **there)
    with pytest.raises(InputError, match="in files"):
        score(np.eye(3), np.eye(3), **there)
    with pytest.raises(InputError, match="output"):
        score(samples, cluster=NOBODY)


def test_no_workers_is_an_error_and_not_a_wait(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    with distributed.LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address=":0") as empty:
        with pytest.raises(RunError, match="no worker for 1 s"):
            on_cluster(samples, empty.scheduler_address)


def test_tls(samples: Path) -> None:
    pytest.importorskip("cryptography", reason="makes the certificates")
    secure = distributed.Security.temporary()
    names = {"ca-file": secure.tls_ca_file, "client.cert": secure.tls_client_cert, "client.key": secure.tls_client_key}
    for name, text in names.items():
        samples.with_name(f"{name}.pem").write_text(text)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tls", "dashboard_address": ":0"}
    with distributed.LocalCluster(security=secure, **options) as running:
        with pytest.raises(RunError, match="distributed.comm.tls"):
            on_cluster(samples, running.scheduler_address)
        with dask.config.set({f"distributed.comm.tls.{name}": str(samples.with_name(f"{name}.pem")) for name in names}):
            output = on_cluster(samples, running.scheduler_address)
    assert output.read_bytes() == local_bytes(samples, samples.with_name("weight.npy"))
