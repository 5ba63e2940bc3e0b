"""Unwritable outputs and interrupted commands: one line, the right exit code, nothing half-written."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from hardsight import HardsightError, Snapshot
from hardsight.demo import run_demo
from hardsight.errors import RunError
from hardsight.files.run import Run
from hardsight.files.writing import write_json
from hardsight.table import write_table
from refusals import refused

Cli = Callable[..., Any]
MAIN = "from hardsight.cli import main; main()"
RNG = np.random.default_rng(0)
TABLE = pa.table({"id": [f"image {i}" for i in range(5000)], "avh": RNG.random(5000)})
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and /dev/full are Linux's")


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    np.savez(tmp_path / "s.npz", features=RNG.normal(size=(40, 4)), weight=RNG.normal(size=(3, 4)), labels=np.arange(40) % 3)
    return tmp_path / "s.npz"


# ---- places ----


@linux
@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_a_directory_that_takes_no_files(cli: Cli, snapshot: Path, ending: str) -> None:
    done = cli("score", snapshot, "-o", f"/proc/x.{ending}")
    refused(done, f"/proc/x.{ending} could not be written", "write somewhere else")
    assert done.out == ""


def test_a_directory_of_others_is_noticed_first(cli: Cli, snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    monkeypatch.setattr(Snapshot, "open", lambda *_, **__: pytest.fail("the samples were opened first"))
    out = snapshot.with_name("t.csv")
    refused(cli("score", snapshot, "-o", out), f"{out} could not be written: no write permission for {out.parent}")


@linux
def test_a_run_where_no_directory_can_be_made(cli: Cli) -> None:
    refused(cli("demo", "-o", "/proc/x"), "/proc/x could not be created", "write somewhere else")
    with pytest.raises(RunError, match="/proc/x could not be created"):
        Run("/proc/x", "a command", {}, {})


def test_an_output_below_a_file(cli: Cli, snapshot: Path, tmp_path: Path) -> None:
    refused(cli("score", snapshot, "-o", snapshot / "x.csv"), f"{snapshot} is a file, not a directory")
    refused(cli("score", snapshot, "-o", tmp_path / ("x" * 300 + ".csv")), "use a shorter name")
    assert list(tmp_path.iterdir()) == [snapshot]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "get write permission"),
        (errno.EROFS, "is read-only; write to another"),
        (errno.EIO, "write somewhere else"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_what_the_system_refuses(
    cli: Cli, snapshot: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str, ending: str
) -> None:
    """Flushing to disk fails: the error states the reason, and the old file is kept."""

    def failing(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    out = snapshot.with_name(f"old.{ending}")
    out.write_text(old := {"parquet": "PAR1 old", "csv": "id,label,predicted,status\n", "json": "[1]"}[ending])
    monkeypatch.setattr("hardsight.files.writing.os.fsync", failing)
    refused(cli("score", snapshot, "-o", out), f"{out} could not be written: {os.strerror(number)}", remedy)
    assert out.read_text() == old and sorted(snapshot.parent.iterdir()) == sorted([out, snapshot])


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_a_disk_that_is_full_half_way(fresh_python: Callable[..., Any], tmp_path: Path, ending: str) -> None:
    pq.write_table(TABLE, tmp_path / "whole.parquet")
    code = (
        "import resource, sys, pyarrow.parquet as pq\n"
        "from hardsight.table import write_table\n"
        "table = pq.read_table(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"  # Python ignores the signal and sees the error
        "write_table(table, sys.argv[2])"
    )
    done = fresh_python(code, tmp_path / "whole.parquet", tmp_path / f"t.{ending}")
    assert done.code == 1 and "hardsight.errors.FileError" in done.err and "File too large; the file exceeds" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["whole.parquet"]


@linux
@pytest.mark.parametrize("words", [["score"], ["--version"]])
def test_a_screen_that_is_full(snapshot: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", MAIN, *words, *([str(snapshot)] if words == ["score"] else [])]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "hardsight: standard output: No space left on device.\n")


def test_a_screen_that_is_gone(tmp_path: Path, snapshot: Path) -> None:
    words = [sys.executable, "-c", MAIN, "score", str(snapshot), "-o", str(tmp_path / "o.csv")]
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], stderr=subprocess.PIPE, text=True, timeout=60)
    assert (closed.returncode, closed.stderr) == (0, "") and (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ("", "a path is empty"),
        ("a\0b", "not a valid file name"),
        ("ftp://x/s.npz", "only local paths, s3://"),
        *((value, "a path must be text or a Path, got") for value in (3, None, b"s.npz", ["s.npz"])),
    ],
)
def test_names_that_are_no_files(bad: Any, match: str) -> None:
    for act in (Snapshot.load, lambda path: write_table(TABLE, path), lambda path: write_json(path, 1), run_demo):
        with pytest.raises(HardsightError, match=match):
            act(bad)


def test_names_that_are_no_files_on_the_command_line(cli: Cli, snapshot: Path) -> None:
    refused(cli("score", ""), "a path is empty")
    refused(cli("score", snapshot, "-o", ""), "a path is empty")
    refused(cli("score", snapshot, "--head", ""), "a path is empty")
    refused(cli("score", "ftp://example.org/s.npz"), "ftp://example.org/s.npz: only local paths", "pass its local path")
    refused(cli("score", "file:///data/s.npz"), "write /data/s.npz")
    refused(cli("demo", "-o", "s3://bucket/run"), "a run must be written to a local disk")
    refused(cli("extract", "", "digits", "-o", "run"), "the model's name is empty")
    refused(cli("extract", "hardsight.models.networks:DigitsCNN", "", "-o", "run"), "the name is empty")
    refused(cli("extract", "..:net", "digits", "-o", "run"), "'..' is not the name of a module")
    refused(cli("extract", "builtins:open", "digits", "-o", "run"), "must make a model without further arguments")
    refused(cli("extract", "a:b", "digits", "-o", "run", "--batch-size", "²"), "batch_size must be a positive number")


# ---- Ctrl-C and kill ----


def stopped(words: list[str], when: Callable[[], bool], number: int) -> tuple[int, str]:
    """Exit code and standard error of a command that gets a signal after a given event, without lines of progress.

    Those are printed from two seconds on, which a busy machine may take.
    """

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the tests themselves may run in the background, where it is ignored

    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heed
    )
    while not when():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)
    process.send_signal(number)
    lines = process.communicate(timeout=60)[1].splitlines(keepends=True)
    return process.returncode, "".join(line for line in lines if not re.match(r"(scoring|extracting): \d", line))


STOPS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_score_is_stopped(tmp_path: Path, number: int, code: int) -> None:
    weight = RNG.normal(size=(600, 64)).astype(np.float32)
    np.savez(tmp_path / "s.npz", features=weight, weight=weight, labels=np.arange(600))
    slow = (  # 600 parts, each a moment apart: a minute's work
        "import time\n"
        "from hardsight import snapshot\n"
        "from hardsight.scoring.job import Job\n"
        "snapshot.snapshot.BATCH_BYTES = 256  # one row\n"
        "scored = Job.table_of\n"
        "Job.table_of = lambda *a, **k: (time.sleep(0.1), scored(*a, **k))[1]\n"
    )
    writing = lambda: bool(list(tmp_path.glob(".scores*.tmp")))  # noqa: E731
    words = ["-c", slow + MAIN, "score", str(tmp_path / "s.npz"), "-o", str(tmp_path / "scores.parquet")]
    assert stopped(words, writing, number) == (code, "hardsight: stopped.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_extract_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.py").write_text(  # a linear model starts sooner than a network
        "import numpy as np\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "model = lambda: LogisticRegression().fit(np.random.default_rng(0).random((20, 64)), np.arange(20) % 2)\n"
    )
    for row in range(60):
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.fromarray(RNG.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / "photos" / f"{row}.png")
    run = tmp_path / "run"
    slow = (  # six parts, each a moment apart
        "import time\n"
        "import hardsight.extraction.extract as extraction\n"
        "from hardsight.files import samples\n"
        "samples.PART_NUMBERS = 640  # of 64 features, which are ten rows\n"
        "written = extraction.write_samples\n"
        "extraction.write_samples = lambda *a, **k: (time.sleep(0.2), written(*a, **k))[1]\n"
    )
    command = ["extract", "small:model", str(tmp_path / "photos"), "-o", str(run), "--channels", "L"]
    command += ["--size", "8", "--batch-size", "10", "--mean", "0", "--std", "1"]
    there = lambda: len(list(run.glob("samples/part-*.parquet"))) >= 2  # noqa: E731
    ended = stopped(["-c", slow + MAIN, *command], there, number)
    kept = len(list(run.glob("samples/part-*.parquet")))
    said = f"hardsight: stopped. {run} keeps {10 * kept} of 60 images: run the same command again to resume.\n"
    assert ended == (code, said) and 2 <= kept < 6
    assert not list(run.rglob("*.tmp")) and not (run / "run.json").exists()


def test_the_handlers_are_put_back(cli: Cli) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert cli("--version").code == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_memory_and_disks_that_fail_are_one_line(cli: Cli, snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> Callable[..., Any]:
        def load(*words: Any, **more: Any) -> Any:
            raise error

        return load

    monkeypatch.setattr("hardsight.snapshot.Snapshot.load", fail(MemoryError("12 GiB")))
    refused(cli("score", snapshot), "not enough memory: 12 GiB")
    monkeypatch.setattr("hardsight.snapshot.Snapshot.load", fail(OSError(errno.EIO, "Input/output error", "/disk/x")))
    refused(cli("score", snapshot), "/disk/x: Input/output error.")
