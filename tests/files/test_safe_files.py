"""Outputs that would destroy something are rejected; checksums are verified; no stray files remain."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from hardsight import Head, Snapshot, score
from hardsight.errors import FileError, RunError
from hardsight.explorer.review import Review
from hardsight.files import checksums
from hardsight.files.class_names import read_class_names
from hardsight.files.heads import save_head, write_safetensors
from hardsight.files.locking import lock_file
from hardsight.files.parquet import read_parquet
from hardsight.files.reading import read_json
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.files.writing import check_output, replacing, write_json
from hardsight.table import read_scores, write_table
from refusals import refused

Cli = Callable[..., Any]
FEATURES = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
LABELS = np.arange(40) % 3
HEAD = Head("linear", FEATURES[:3])
TABLE = pa.table({"id": ["a", "b", "c"], "avh": [0.25, 0.5, None]})
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    Snapshot(FEATURES, HEAD, LABELS).save(tmp_path / "s.npz")
    return tmp_path / "s.npz"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A complete run of two parts."""
    made = Run(tmp_path / "run", "a test", {}, {})
    parts = [made.folder("samples") / f"part-0000{number}.parquet" for number in range(2)]
    with made.only_writer():
        for start, part in zip((0, 20), parts, strict=True):
            rows = slice(start, start + 20)
            write_samples(part, FEATURES[rows], {"id": np.arange(start, start + 20), "label": LABELS[rows]})
        save_head(made.directory / "head.safetensors", HEAD, ["ant", "bee", "cat"])
        made.finish([*parts, made.directory / "head.safetensors"], {}, {part.name: 20 for part in parts})
    return tmp_path / "run"


def flip(path: Path, at: int) -> None:
    """Turn one bit of a byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


# ---- what a command reads ----


def test_an_output_that_is_a_link_stays_one(cli: Cli, snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, file = tmp_path / "scores.csv", tmp_path / "disk" / "real.csv"
    link.symlink_to(file)
    for _ in range(2):  # the file is not there, and there
        assert cli("score", snapshot, "-o", link).code == 0
        assert link.is_symlink() and len(read_scores(file)) == 40
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["disk", "real.csv", "s.npz", "scores.csv"]
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere" / "x.csv")
    refused(cli("score", snapshot, "-o", tmp_path / "gone.csv"), f"gone.csv: the directory {tmp_path / 'nowhere'} does not exist")


@pytest.mark.parametrize("name", ["samples/part-00001.parquet", "./samples/../samples/part-00000.parquet"])
def test_no_part_of_a_run_is_replaced(cli: Cli, run: Path, snapshot: Path, name: str) -> None:
    for source in (run, snapshot):
        refused(cli("score", source, "-o", run / name), "is part of a run")
    with pytest.raises(FileError, match="run.json is part of a run"):
        write_json(run / "run.json", {})
    with pytest.raises(FileError, match="head.safetensors is part of a run"):
        save_head(run / "head.safetensors", HEAD)
    manifest = json.loads((run / "run.json").read_text())
    bare = {"parts": [{"name": part["name"]} for part in manifest["parts"]]}  # as another tool might write it
    (run / "run.json").write_text(json.dumps(bare))
    refused(cli("score", run, "-o", run / name), "holds samples with features, and would be replaced by scores")
    assert pq.read_schema(run / name).names[-1] == "features"
    (run / "run.json").unlink()  # interrupted: it does not become complete
    for name in ("run.json", "start.json"):
        refused(cli("score", snapshot, "-o", run / name), f"{name} is part of a run")
    assert not (run / "run.json").exists()


def test_class_names_and_labels_are_inputs(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", FEATURES)
    (tmp_path / "names.json").write_text('["ant", "bee", "cat"]')
    save_head(tmp_path / "head.safetensors", HEAD)
    words = ["score", tmp_path / "f.npy", "--head", tmp_path / "head.safetensors", "--class-names", tmp_path / "names.json"]
    refused(cli(*words, "-o", tmp_path / "names.json"), "names.json is an input of this command")
    assert read_class_names(tmp_path / "names.json") == ["ant", "bee", "cat"]


def test_a_loaded_snapshot_is_not_saved_over_itself(snapshot: Path) -> None:
    before = snapshot.read_bytes()
    with pytest.raises(FileError, match="is an input"):
        Snapshot.load(snapshot).save(snapshot)
    some = Snapshot.load(snapshot).take([0, 1])
    with pytest.raises(FileError, match="is an input"):
        some.save(snapshot)
    assert some.loaded_from is None, "whoever loads the file again has all rows"
    assert snapshot.read_bytes() == before


# ---- files of another kind ----


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.csv", b"PK\3\4 a spreadsheet"),
        ("notes.csv", b"PAR1 a table"),
        ("notes.csv", PNG),
        ("notes.csv", b"<html></html>"),
        ("notes.csv", b"Dear diary,\ntoday I measured hardness.\n"),
        ("notes.json", b"id,avh\n1,2\n"),
        ("t.parquet", b"id,avh\n1,2\n"),
        ("t.parquet", b'{"a": 1}'),
    ],
)
def test_a_table_replaces_no_file_of_another_kind(cli: Cli, snapshot: Path, name: str, content: bytes) -> None:
    path = snapshot.with_name(name)
    path.write_bytes(content)
    refused(cli("score", snapshot, "-o", path), f"{path} exists and is not a", "use another name")
    assert path.read_bytes() == content and len(list(path.parent.iterdir())) == 2


def test_the_other_writers_do_neither(cli: Cli, snapshot: Path, run: Path) -> None:
    data, thesis, notes = (snapshot.with_name(name) for name in ("mydata.npz", "thesis.npz", "head.safetensors"))
    np.savez(data, x=np.ones(3))
    for output in (data, run / "head.safetensors"):
        refused(cli("report", run, "-o", output), f"{output} exists and is not an HTML page")
    with zipfile.ZipFile(thesis, "w") as archive:
        archive.writestr("word/document.xml", "years of work")
    notes.write_text("# notes on heads")
    before = snapshot.read_bytes()
    writers: dict[str, Callable[[], Any]] = {
        r"thesis.npz exists and is not an \.npz archive": lambda: Snapshot.load(snapshot).save(thesis),
        "s.npz exists and is not a JSON file": replacing(snapshot, "json").__enter__,
        r"s.npz: JSON must be written to a name that ends in \.json": lambda: write_json(snapshot, {}),
        "head.safetensors exists and is not a safetensors file": lambda: save_head(notes, HEAD),
    }
    for match, write in writers.items():
        with pytest.raises(FileError, match=match):
            write()
    assert snapshot.read_bytes() == before


@pytest.mark.parametrize("way", ["itself", "by a link"])
def test_what_is_no_file_is_not_replaced(cli: Cli, snapshot: Path, tmp_path: Path, way: str) -> None:
    """As root, `-o /dev/null` would take it from the whole machine."""
    os.mkfifo(tmp_path / "pipe")
    for name, words in {"o": ["report"], "o.html": ["report"], "o.csv": ["score"], "o.md": ["verify"]}.items():
        os.symlink("pipe", tmp_path / name) if way == "by a link" else os.link(tmp_path / "pipe", tmp_path / name)
        done = cli(*words, snapshot, "--table" if words == ["verify"] else "-o", tmp_path / name)
        assert (done.code, done.out) == (2, "") and "is a pipe or a device, not a file" in done.err, done.err
        assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)


def test_links_that_lead_nowhere_are_refused_before_anything_is_computed(cli: Cli, run: Path, tmp_path: Path) -> None:
    for name, target in {"circle.csv": "circle.csv", "void.csv": "no/where.csv"}.items():
        os.symlink(target, tmp_path / name)
        said = "Too many levels of symbolic links" if name == "circle.csv" else f"the directory {tmp_path / 'no'} does not exist"
        for words in (["score", run, "-o"], ["verify", run, "--table"]):
            done = cli(*words, tmp_path / name)
            assert (done.code, done.out) == (2, "") and said in done.err, done.err
        for words in (["correlate", run, "--against", "avh"], ["export", run, "--to", "cleanlab"]):
            done = cli(*words, "-o", tmp_path / name)
            assert (done.code, done.out) == (2, "") and f"{name} is a link to nothing" in done.err, done.err
        assert os.readlink(tmp_path / name) == target


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.json"])
def test_an_empty_file_and_an_older_output_are_replaced(cli: Cli, snapshot: Path, name: str) -> None:
    path = snapshot.with_name(name)
    path.touch()
    for _ in range(2):
        done = cli("score", snapshot, "-o", path)
        assert done.code == 0, done.err
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("link", ["directory", "file", "samples elsewhere"])
def test_no_part_of_a_run_is_replaced_through_a_link(cli: Cli, run: Path, snapshot: Path, link: str) -> None:
    part = run / "samples" / "part-00000.parquet"
    before = part.read_bytes()
    output = snapshot.with_name("link") / part.name
    if link == "directory":
        output.parent.symlink_to(run / "samples")
    elif link == "file":
        output = snapshot.with_name("link.parquet")
        output.symlink_to(part)
    else:  # a run whose samples are on another disk
        output = part
        (run / "samples").rename(snapshot.with_name("disk"))
        (run / "samples").symlink_to(snapshot.with_name("disk"))
    refused(cli("score", snapshot, "-o", output), "is part of a run")
    assert part.read_bytes() == before
    flip(part, 60)
    with pytest.raises(FileError, match="does not match the checksum in its run.json"):
        checksums.check(output)


def test_what_a_run_was_started_with_and_a_persons_marks_are_not_replaced(cli: Cli, run: Path, snapshot: Path) -> None:
    files = [run / "start.json", run / "run.json", run / "review.parquet", snapshot.with_suffix(".review.parquet")]
    for file in files[2:]:
        for mark in ("fine", "drop"):  # the explorer itself may write again
            Review(file, ["ant", "bee", "cat"]).put("tab", "3", mark)
    for file in files:
        before = file.read_bytes()
        refused(cli("score", snapshot, "-o", file), f"{file.name} {'is' if file.parent == run else 'holds review marks'}")
        assert file.read_bytes() == before
    assert Review(run / "review.parquet", ["ant", "bee", "cat"]).marks["3"].mark == "drop"


@pytest.mark.parametrize(("name", "kind"), [("scores", "scores"), ("audit", "groups of an audit"), ("drift", "what drifted")])
def test_names_that_later_commands_read_are_kept_for_their_tables(cli: Cli, run: Path, name: str, kind: str) -> None:
    (run / f"{name}.parquet").unlink(missing_ok=True)  # not written yet
    done = cli("select", run, "--budget", "2", "--method", "random", "-o", run / f"{name}.parquet")
    refused(done, f"{name}.parquet is the name for {kind} in this run, and would hold a subset")
    assert not (run / f"{name}.parquet").exists()


def test_what_later_commands_write_into_a_run_is_replaced_unless_it_is_a_part(tmp_path: Path) -> None:
    """Scores, the report and figures that exist when the run ends are listed under `files`, like everything else."""
    names = ["scores.parquet", "report.html", "figures/curve.svg", "errors.csv", "parts/report.html", "parts/figures/a.svg"]
    contents = {"parquet": "PAR1", "html": "<html>", "svg": "<svg/>", "csv": "a,b\n1,2\n"}
    made = Run(tmp_path / "run", "a test", {}, {})
    for name in names:
        (made.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (made.directory / name).write_text(contents[name.rpartition(".")[2]])
    made.finish([made.directory / name for name in names if name.startswith("parts")], {})
    for name in names[:3]:
        check_output(made.directory / name)
    for name in names[3:]:
        with pytest.raises(FileError, match=f"{name} is part of a run"):
            check_output(made.directory / name)


# ---- JSON ----


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{", b"\xff"])
def test_json_that_cannot_be_read_is_an_error_of_ours(run: Path, content: bytes) -> None:
    from hardsight.explorer.opening import open_display
    from hardsight.models.libraries import _read_processor

    for name in ("rounds.json", "preprocessor_config.json", "start.json"):
        (run / name).write_bytes(content)
    with pytest.raises(FileError, match="rounds.json: damaged"):
        read_json(run / "rounds.json")
    with pytest.raises(FileError, match="preprocessor_config.json: not an image processor's JSON"):
        _read_processor(run)
    write_table(TABLE, run / "scores.parquet")
    (run / "run.json").unlink()
    with pytest.raises(FileError, match="start.json: damaged"):
        open_display(run)


def test_json_that_a_run_lists_is_compared(tmp_path: Path) -> None:
    made = Run(tmp_path / "run", "a test", {}, {})
    rounds = made.directory / "rounds.json"
    write_json(rounds, [{"accuracy": 0.25}])
    made.finish([rounds], {})
    assert read_json(rounds) == [{"accuracy": 0.25}]
    rounds.write_text(rounds.read_text().replace("0.25", "0.95"))
    with pytest.raises(FileError, match="rounds.json: damaged, or changed"):
        read_json(rounds)


# ---- checksums ----


def writes(folder: Path) -> dict[str, Path]:
    """One file of each kind that carries its own checksum."""
    paths = {ending: folder / f"own.{ending}" for ending in ("parquet", "npz", "safetensors", "html")}
    write_table(TABLE, paths["parquet"])
    Snapshot(FEATURES, HEAD, LABELS).save(paths["npz"])
    save_head(paths["safetensors"], HEAD)
    with replacing(paths["html"]) as temporary:
        temporary.write_text("<!doctype html><p>hard")
    return paths


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """In each byte of each file, including the seal and the length of the Parquet footer."""
    for path in writes(tmp_path).values():
        assert checksums.own_checksum(path) is True
        content = path.read_bytes()
        step = 1 if len(content) < 2000 else 7
        with path.open("r+b", buffering=0) as file:
            for at in {*range(0, len(content), step), *range(len(content) - 120, len(content))}:
                for byte, sound in ((content[at] ^ 1, False), (content[at], True)):  # in place: to truncate a file is slow
                    file.seek(at)
                    file.write(bytes([byte]))
                    assert sound or checksums.own_checksum(path) is False, (path.name, at)


def test_sealed_files_open_elsewhere(tmp_path: Path) -> None:
    paths = writes(tmp_path)
    assert pq.read_table(paths["parquet"]).equals(TABLE)
    with np.load(paths["npz"]) as arrays:
        assert np.array_equal(arrays["features"], FEATURES)
    assert np.array_equal(load_file(paths["safetensors"])["weight"], FEATURES[:3])
    pandas = pytest.importorskip("pandas")
    assert pandas.read_parquet(paths["parquet"])["id"].tolist() == ["a", "b", "c"]


def test_the_seal_is_the_sha256_with_its_own_digits_as_zeros(tmp_path: Path) -> None:
    content = writes(tmp_path)["parquet"].read_bytes()
    digits = content.split(b"hardsight-sha256=")[1][:64]
    assert hashlib.sha256(content.replace(digits, b"0" * 64)).hexdigest().encode() == digits


def test_files_of_other_people_pass(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    save_file({"weight": FEATURES[:3].copy()}, tmp_path / "h.safetensors")
    (tmp_path / "short.parquet").write_bytes(b"PAR1")
    (tmp_path / "empty.npz").touch()
    for path in tmp_path.iterdir():
        assert checksums.own_checksum(path) is None
        checksums.check(path)


@pytest.mark.parametrize("name", ["head.safetensors", "samples/part-00000.parquet", "samples/part-00001.parquet", "run.json"])
def test_a_damaged_part_of_a_run_is_named(run: Path, name: str) -> None:
    size = (run / name).stat().st_size
    flip(run / name, size // 3)
    with pytest.raises(FileError, match=name):
        score(Snapshot.load(run))


def test_a_flipped_bit_in_a_footer_is_not_unlabeled(run: Path, cli: Cli) -> None:
    """The column name label in the footer: if it changes, every row would count as unlabeled."""
    part = run / "samples" / "part-00000.parquet"
    flip(part, part.read_bytes().rindex(b"label", 0, part.stat().st_size - 600))
    refused(cli("score", run), "part-00000.parquet")


@pytest.mark.parametrize("name", ["scores.parquet", "review.parquet"])
def test_tables_written_after_the_run_carry_their_own(run: Path, name: str) -> None:
    write_table(TABLE, run / name)
    flip(run / name, 60)
    with pytest.raises(FileError, match=f"{name}: damaged, or changed since it was written"):
        read_parquet(run / name)


def test_a_part_exchanged_for_a_sound_one_is_noticed(run: Path) -> None:
    """It matches its own checksum, but not that of its run."""
    first, second = (run / "samples" / f"part-0000{number}.parquet" for number in range(2))
    first.write_bytes(second.read_bytes())
    with pytest.raises(FileError, match="part-00000.parquet: damaged, or changed .* the checksum in its run.json"):
        score(Snapshot.load(run))


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its size, times and inode: a changed file is read again."""
    monkeypatch.setattr(checksums, "SETTLED", -(10**15))
    write_table(TABLE, tmp_path / "t.parquet")
    checksums.check(tmp_path / "t.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "_digest", lambda *_: pytest.fail("read again"))
        checksums.check(tmp_path / "t.parquet")
    flip(tmp_path / "t.parquet", 60)
    with pytest.raises(FileError, match="t.parquet: damaged"):
        checksums.check(tmp_path / "t.parquet")


# ---- what killed processes leave ----


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom hardsight.files.writing import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n    print('here', flush=True)\n    time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "x.json")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(f".x.json.{process.pid}.")
    write_json(tmp_path / "y.json", {})
    assert left.exists(), "its process is still writing it"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    write_json(tmp_path / "y.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["y.json"]


def test_names_that_are_not_ours_are_not_swept(tmp_path: Path) -> None:
    kept = [".notes.tmp", "x.json.1.aa.tmp", ".x.json.1.aa.tmp.gz", ".x.json.one.aa.tmp"]
    for name in [*kept, ".x.json.1.aa.tmp"]:
        (tmp_path / name).touch()
    write_json(tmp_path / "x.json", {})
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", *kept}


def test_without_locks_only_old_files_of_dead_processes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without locks that another machine may be writing to."""
    monkeypatch.setattr("hardsight.files.locking.lock", lambda descriptor, wait: None)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {"young": f".y.{dead.pid}.aa.tmp", "alive": f".a.{os.getpid()}.aa.tmp", "gone": f".g.{dead.pid}.aa.tmp"}
    for which, name in names.items():
        (tmp_path / name).touch()
        if which != "young":
            os.utime(tmp_path / name, (time.time() - 7200, time.time() - 7200))
    write_json(tmp_path / "x.json", {})
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", names["young"], names["alive"]}


def test_a_lock_file_keeps_everybody_else_out(tmp_path: Path) -> None:
    """Four processes increment a number a hundred times each: a lock on a removed file must not count."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom hardsight.files.locking import lock_file\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(100):\n"
        "    with lock_file(folder / '.lock', wait=True) as ours:\n"
        "        assert ours\n"
        "        number = int((folder / 'number').read_text())\n"
        "        (folder / 'number').write_text(str(number + 1))"
    )
    (tmp_path / "number").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert (tmp_path / "number").read_text() == "400" and not (tmp_path / ".lock").exists()


def test_a_full_disk_is_not_noticed_by_the_lock(tmp_path: Path) -> None:
    """What a lock says of its holder is not worth an error: the first file that is written gets a better one."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with lock_file(tmp_path / ".lock", wait=False):
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with lock_file(tmp_path / ".lock", wait=False) as ours:
            assert ours and (tmp_path / ".lock").read_text() == ""
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_a_lock_that_leads_elsewhere_empties_nothing(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("mine")
    run = Run(tmp_path / "run", "a test", {}, {})
    os.symlink(tmp_path / "diary", run.directory / ".lock")
    with pytest.raises(RunError, match="run could not be written: Too many levels of symbolic links"), run.only_writer():
        pass
    assert (tmp_path / "diary").read_text() == "mine"


# ---- safetensors ----


def test_tensors_are_read_back_by_the_library(tmp_path: Path) -> None:
    """Of every type, of no dimension, empty, transposed, big-endian; the same bytes each time."""
    arrays = {
        "f": FEATURES.T, "d": np.array(2.5), "none": np.zeros((0, 3), np.int16), "b": np.array([True, False]),
        "big": np.arange(3, dtype=">i4"), "h": np.arange(3, dtype=np.float16), "u": np.arange(5, dtype=np.uint8),
    }  # fmt: skip
    write_safetensors(tmp_path / "x.safetensors", arrays, {"kind": "linear"})
    write_safetensors(tmp_path / "y.safetensors", dict(reversed(arrays.items())), {"kind": "linear"})
    read = load_file(tmp_path / "x.safetensors")
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
    assert (tmp_path / "x.safetensors").read_bytes() == (tmp_path / "y.safetensors").read_bytes()
    assert checksums.own_checksum(tmp_path / "x.safetensors") is True


def test_torch_tensors_too(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file as load_torch

    tensors = {
        "half": torch.arange(6).reshape(2, 3).bfloat16().T,
        "step": torch.tensor(3),
        "learned": torch.nn.Parameter(torch.ones(2)),
    }
    write_safetensors(tmp_path / "x.safetensors", tensors)
    read = load_torch(tmp_path / "x.safetensors")
    assert all(torch.equal(read[name], tensor) and read[name].dtype == tensor.dtype for name, tensor in tensors.items())
