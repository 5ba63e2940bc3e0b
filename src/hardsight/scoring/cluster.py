"""Scoring on a Dask cluster: each worker opens the snapshot by its path, scores a piece and writes it as a part.

    <output>.parts/start.json             what is computed, and from which inputs; needed to resume
    <output>.parts/part-00000.parquet     one piece each, visible only when complete

When all parts are complete they are joined in order into the output, which is byte-identical to that of a local run. Dask runs
pickled code from anyone who can reach its scheduler: see docs/scale.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hardsight.checks import SeenIds
from hardsight.errors import FileError, HardsightError, InputError, RunError, first_line, require
from hardsight.files.kinds import check_table_output
from hardsight.files.parquet import read_parquet
from hardsight.files.places import Place, address, place, remove_all
from hardsight.files.reading import read_json
from hardsight.files.samples import SampleFiles
from hardsight.files.writing import write_json
from hardsight.scoring.job import Job
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.table import write_table
from hardsight.version import VERSION

RETRIES = 2  # for a part that fails; if its worker dies, Dask retries
CONNECT = 15.0  # seconds to wait for the scheduler
PATIENCE = 60.0  # seconds to wait without any worker


@dataclass(frozen=True)
class Request:
    """The job description sent to a worker, as plain text."""

    path: str
    head: str | None
    labels: str | None
    scores: str
    strict: bool
    parts: str
    inputs: str  # fingerprints: a worker reopens files that have changed
    version: str = VERSION

    def job(self) -> Job:
        """The job whose pieces a worker scores."""
        return Job(Snapshot.load(self.path, head=self.head, labels=self.labels), self.scores, strict=self.strict)


def score_part(number: int, piece: range, request: Request) -> int:
    """Score one piece on this worker and write it as a part; return its number of rows."""
    if request.version != VERSION:
        raise RunError(f"this worker has hardsight {VERSION}, you have {request.version}; install the same version on both.")
    table = _opened(request).table_of(piece)
    write_table(table, place(request.parts) / part_name(number))
    return len(table)


_here = threading.local()  # an open file belongs to one thread


def _opened(request: Request) -> Job:
    """The job, opened once for many pieces."""
    if getattr(_here, "request", None) != request:
        _here.job, _here.request = request.job(), request
    return _here.job


def part_name(number: int) -> str:
    """File name of a part."""
    return f"part-{number:05d}.parquet"


@contextlib.contextmanager
def parts_on_cluster(
    job: Job, output: str | os.PathLike[str], cluster: str, progress: Progress | None = None
) -> Iterator[Iterator[pa.Table]]:
    """The table of a job, computed on a Dask cluster, piece by piece and in order: byte for byte that of `Job.tables`.

    The parts stay next to the output until the block ends without an error; by then the output must be complete. After an
    interrupt, only the missing parts are computed.

    Args:
        job: row scores of a loaded snapshot, whose files the workers can open under the same paths: on a shared disk, or s3://.
        output: a location that workers can write to.
        cluster: the address of the scheduler, such as tcp://host:8786; Dask is configured with the certificates of a tls:// one.
        progress: called with the rows done and the total.
    """
    _refuse_what_needs_all_rows(job)
    files = _files(job)
    target = place(address(output))
    check_table_output(target, "scores", _fingerprints(job, files))
    folder, pieces = target.with_name(target.name + ".parts"), job.pieces()
    request = Request(
        path=address(files["path"]),
        head=None if files["head"] is None else address(files["head"]),
        labels=None if files["labels"] is None else address(files["labels"]),
        scores=",".join(score.name for score in job.chosen),
        strict=job.strict,
        parts=address(folder),
        inputs=json.dumps(_fingerprints(job, files)),
    )
    _begin(folder, request, pieces)
    _compute_missing(request, pieces, cluster, progress)
    if json.dumps(_fingerprints(job, files)) != request.inputs:
        raise RunError(f"{job.snapshot.name} changed while it was scored. Remove {folder} and start again.")
    yield _in_order(folder, pieces, job)
    remove_all(folder)


def _refuse_what_needs_all_rows(job: Job) -> None:
    if job.headless:
        raise InputError("a head cannot be fitted on a cluster, because that needs all rows at once. Pass one with --head.")
    whole = [score for score in job.chosen if score.scope != "row"]
    if whole:
        raise InputError(
            f"{whole[0].name} is a {whole[0].scope} score: it needs all rows at once, and is not available on a cluster."
        )


def _files(job: Job) -> dict[str, Any]:
    """Paths that workers open: those of the snapshot, and of head and labels if they are separate files."""
    files = job.snapshot.loaded_from
    if files is None:
        raise InputError("a cluster needs a snapshot in files: save it, and load it with Snapshot.load.")
    arrays = [name for name, file in files.items() if not (file is None or isinstance(file, (str, os.PathLike)))]
    if arrays:
        raise InputError(f"{arrays[0]} must be a file that the workers can open, not an array.")
    return files


def _fingerprints(job: Job, files: dict[str, Any]) -> dict[str, list[int]]:
    """Size and time of every input file."""
    path, source = place(files["path"]), job.snapshot.source
    read: list[Place] = list(source.files) if isinstance(source, SampleFiles) else [path]
    if path.is_dir():
        read += [file for file in (path / "run.json", path / "head.safetensors") if file.is_file()]
    read += [place(file) for file in (files["head"], files["labels"]) if file is not None]
    stats = {str(file): file.stat() for file in read}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _begin(parts: Place, request: Request, pieces: list[range]) -> None:
    """Write `start.json`, or check that existing parts were started with the same arguments on the same files."""
    start = {
        "version": VERSION,
        "scores": request.scores,
        "strict": request.strict,
        "rows": [pieces[0].start, pieces[-1].stop] if pieces else [0, 0],
        "parts": len(pieces),
        "inputs": json.loads(request.inputs),
    }
    begun = parts / "start.json"
    if not begun.exists():
        try:
            parts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{parts} could not be created: {error.strerror}.") from error
        strangers = [file.name for file in parts.iterdir()]
        if strangers:
            raise RunError(
                f"{parts} is not empty and not the parts of a hardsight run (it holds {strangers[0]}); use another -o."
            )
        write_json(begun, start)
        return
    try:
        before = read_json(begun)
        changed = [what for what in start if before.get(what) != start[what]]
    except (FileError, AttributeError) as error:
        raise RunError(f"{begun}: damaged: {error}. Remove {parts} to start over.") from error
    if changed:
        was, is_now = (str(arguments.get(changed[0]))[:200] for arguments in (before, start))
        raise RunError(
            f"{parts} was started with other {changed[0]}: was {was}, is {is_now}. Remove it to start over, or use another -o."
        )


def _compute_missing(request: Request, pieces: list[range], cluster: str, progress: Progress | None) -> None:
    present = {file.name for file in place(request.parts).iterdir()}
    missing = [(number, piece) for number, piece in enumerate(pieces) if part_name(number) not in present]
    total = sum(map(len, pieces))
    done = total - sum(len(piece) for _, piece in missing)
    if progress is not None:
        progress(done, total)
    if not missing:
        return
    with _connected(cluster) as client:
        for rows in _computed(client, missing, request):
            done += rows
            if progress is not None:
                progress(done, total)


@contextlib.contextmanager
def _connected(cluster: str) -> Iterator[Any]:
    distributed = require("distributed", extra="cluster", purpose="scoring on a cluster")
    try:
        client = distributed.Client(cluster, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise RunError(
            f"no Dask scheduler answers at {cluster}: {first_line(error)}. Use the address that `dask scheduler` "
            "prints, such as tcp://host:8786, and for tls:// name certificates in Dask's configuration (distributed.comm.tls)."
        ) from error
    with client:
        yield client


def _computed(client: Any, missing: list[tuple[int, range]], request: Request) -> Iterator[int]:
    """Compute the missing parts on the cluster; yield the number of rows of each when it is complete."""
    numbers, pieces = zip(*missing, strict=True)
    futures = client.map(score_part, numbers, pieces, request=request, retries=RETRIES, pure=False)
    part_of = dict(zip((future.key for future in futures), missing, strict=True))
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(finished.put)
    try:
        for _ in futures:
            future = _next(finished, client, [number for number, _ in part_of.values()])
            number, piece = part_of.pop(future.key)
            if future.status in ("error", "cancelled"):
                raise _failure(future, number, piece)
            future.release()  # the part is on disk, so its worker may go away
            yield len(piece)
    finally:
        with contextlib.suppress(Exception):  # the scheduler may be gone, in which case that error is already being raised
            client.cancel(futures)


def _next(finished: queue.SimpleQueue[Any], client: Any, left: list[int]) -> Any:
    """The next part that is done or has failed. Dask would wait for a worker forever; we time out."""
    alone_since: float | None = None
    while True:
        with contextlib.suppress(queue.Empty):
            return finished.get(timeout=1.0)
        alone_since = None if _has_workers(client) else alone_since or time.monotonic()
        if alone_since is not None and time.monotonic() - alone_since > PATIENCE:
            raise RunError(
                f"the cluster has had no worker for {PATIENCE:.0f} s; parts left: {len(left)}, the first {part_name(left[0])}. "
                "Complete parts are kept: start workers, and run the same command again."
            )


def _has_workers(client: Any) -> bool:
    try:
        return client.status == "running" and bool(client.nthreads())
    except (OSError, RuntimeError, TimeoutError):
        return False


def _failure(future: Any, number: int, piece: range) -> HardsightError:
    """The error for a part that Dask gave up on."""
    error = future.exception() if future.status == "error" else None
    which = f"{part_name(number)} (rows {piece.start} to {piece.stop - 1})"
    kept = "Complete parts are kept: fix the cause, and run the same command again."
    if error is None:
        return RunError(f"{which} was cancelled ({future.status}); the scheduler may have been restarted. {kept}")
    if isinstance(error, FileError):
        kept = f"Workers open the same paths as you do: use a shared disk, or s3://. {kept}"
    kind = type(error) if isinstance(error, HardsightError) else RunError
    words = first_line(error) if isinstance(error, HardsightError) else f"{type(error).__name__}: {first_line(error)}"
    return kind(f"{which} failed {RETRIES + 1} times: {words.rstrip('.')}. {kept}")


def _in_order(folder: Place, pieces: list[range], job: Job) -> Iterator[pa.Table]:
    """All parts, one piece each, as in a local run. Fails at the end if an id is repeated."""
    seen_ids = SeenIds()
    for number, piece in enumerate(pieces):
        part = _read_part(folder / part_name(number), len(piece))
        seen_ids.add(part.column("id").to_numpy())
        yield part
    if not job.snapshot.allow_duplicates:
        seen_ids.refuse_repeated(job.ids, job.snapshot.name or "ids", job.rows.start)


def _read_part(file: Place, rows: int) -> pa.Table:
    try:
        part = read_parquet(file).combine_chunks()
    except FileError as error:
        raise RunError(f"{error} Remove it, and run the same command again.") from error
    if len(part) != rows:
        raise RunError(f"{file}: has {len(part)} rows instead of {rows}. Remove it, and run the same command again.")
    return part
