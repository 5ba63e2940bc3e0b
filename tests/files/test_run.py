"""Run directories: started, resumed, finished, and never mixed up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hardsight
from hardsight.errors import RunError
from hardsight.files.checksums import sha256
from hardsight.files.run import Run
from hardsight.files.writing import discarding, replacing, write_json

ARGUMENTS = {"seed": 1, "scores": ("avh", "loss"), "path": None}
INPUTS = {"data": "abc"}


def begin(directory: Path, **changes: object) -> Run:
    return Run(directory, "hardsight demo", {**ARGUMENTS, **changes}, INPUTS)


def test_start_first_and_run_last(tmp_path: Path) -> None:
    run = begin(tmp_path / "deep" / "run")
    start = json.loads((run.directory / "start.json").read_text())
    assert start["command"] == "hardsight demo" and start["arguments"]["seed"] == 1 and start["inputs"] == INPUTS
    assert start["versions"]["hardsight"] == hardsight.__version__ and "numpy" in start["versions"]
    assert not run.complete
    part = run.folder("samples") / "part-00000.parquet"
    part.write_bytes(b"data")
    run.finish([part], {"samples": 4}, rows={"part-00000.parquet": 4})
    assert run.complete
    end = json.loads((run.directory / "run.json").read_text())
    digest = "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7"  # sha256sum of the word data
    assert end["parts"] == [{"name": "samples/part-00000.parquet", "rows": 4, "sha256": digest}]
    assert end["counts"] == {"samples": 4} and end["seconds"] >= 0
    assert {name: end[name] for name in start} == start
    assert sha256(part) == digest


def test_the_same_arguments_go_on_where_it_stopped(tmp_path: Path) -> None:
    begin(tmp_path / "run")
    before = (tmp_path / "run" / "start.json").read_bytes()
    assert not begin(tmp_path / "run").complete
    assert (tmp_path / "run" / "start.json").read_bytes() == before


def test_what_differs_is_refused_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path / "run")
    with pytest.raises(RunError, match=r"other arguments: seed was 1 and is 2.*another -o"):
        begin(tmp_path / "run", seed=2)
    with pytest.raises(RunError, match="other inputs: data was 'abc' and is 'xyz'"):
        Run(tmp_path / "run", "hardsight demo", ARGUMENTS, {"data": "xyz"})
    with pytest.raises(RunError, match="other command"):
        Run(tmp_path / "run", "hardsight score", ARGUMENTS, INPUTS)
    monkeypatch.setattr("hardsight.files.run.VERSION", "99.0")
    with pytest.raises(RunError, match="other versions: hardsight was .* and is '99.0'"):
        begin(tmp_path / "run")


@pytest.mark.parametrize("damaged", ["", "{", "[]", "null"])
def test_a_damaged_start_is_an_error_of_ours(tmp_path: Path, damaged: str) -> None:
    begin(tmp_path / "run")
    (tmp_path / "run" / "start.json").write_text(damaged)
    with pytest.raises(RunError, match="start.json"):
        begin(tmp_path / "run")


def test_someone_elses_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="not empty and not a hardsight run"):
        begin(tmp_path)
    with pytest.raises(RunError, match="is a file"):
        begin(tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})
    with pytest.raises(KeyError), replacing(path) as temporary:
        temporary.write_text("half")
        assert temporary.parent == path.parent
        raise KeyError
    assert json.loads(path.read_text()) == {"a": 1} and list(tmp_path.iterdir()) == [path]


HOLD = """
import sys
from pathlib import Path
from hardsight.files.run import Run
with Run(Path(sys.argv[1]), "hardsight demo", {}, {}).only_writer():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    command = [sys.executable, "-c", HOLD, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout is not None and first.stdout.readline() == "held\n"
            second = Run(directory, "hardsight demo", {}, {})
            with (
                pytest.raises(RunError, match=rf"is being written by process {first.pid} on .+; wait for it"),
                second.only_writer(),
            ):
                pytest.fail("two writers")
        finally:
            first.kill()  # the lock ends with the process, its file stays
    with second.only_writer():
        assert str(os.getpid()) in (directory / ".lock").read_text()
    assert [path.name for path in directory.iterdir()] == ["start.json"]


def test_of_two_writers_of_a_file_the_last_to_finish_wins(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with replacing(path) as first:
        first.write_text("id,avh\n1,")
        with replacing(path) as second:
            second.write_text("id,avh\n2,0.2\n")
        assert path.read_text() == "id,avh\n2,0.2\n"
        first.write_text("id,avh\n1,0.1\n")
    assert path.read_text() == "id,avh\n1,0.1\n" and [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_what_a_process_beside_the_writer_writes_is_thrown_away(tmp_path: Path) -> None:
    writer = begin(tmp_path / "run")
    with writer.only_writer(), discarding():
        beside = begin(tmp_path / "run")  # the same arguments
        with beside.only_writer():  # no lock of its own
            write_json(beside.directory / "part.json", [1])
            with replacing(tmp_path / "table.csv") as temporary:
                temporary.write_text("id")
            beside.finish([], {})
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) in (["start.json"], [".lock", "start.json"])
    write_json(writer.directory / "part.json", [1])
    assert (writer.directory / "part.json").exists()
