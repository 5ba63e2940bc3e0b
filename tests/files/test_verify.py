"""`hardsight verify`: every file of a run is reported when one of its bits flips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import hardsight
from hardsight import Head
from hardsight.errors import FileError
from hardsight.explorer.review import Review
from hardsight.files.heads import save_head
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.files.writing import write_json
from hardsight.table import write_table

Cli = Callable[..., Any]
FEATURES = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)


@pytest.fixture
def run(tmp_path: Path, cli: Cli) -> Path:
    """A run with every kind of file: parts, other files, and what later commands add."""
    made = Run(tmp_path / "run", "a test", {}, {})
    part = made.folder("samples") / "part-00000.parquet"
    with made.only_writer():
        write_samples(part, FEATURES, {"id": np.arange(40), "label": np.arange(40) % 3})
        save_head(made.directory / "head.safetensors", Head("linear", FEATURES[:3]), ["ant", "bee", "cat"])
        write_json(made.folder("model") / "config.json", {"factory": "x"})
        write_table(pa.table({"id": ["x"], "reason": ["y"]}), made.directory / "errors.parquet")
        Image.new("L", (4, 4)).save(made.folder("figures") / "listed.png")
        made.finish([part], {}, {part.name: 40})
    assert cli("score", made.directory).code == 0
    assert cli("report", made.directory).code == 0
    Review(made.directory / "review.parquet", ["ant", "bee", "cat"]).put("tab", "3", "drop")
    Image.new("L", (4, 4)).save(made.directory / "figures" / "later.png")
    return made.directory


def names(run: Path) -> list[str]:
    return sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())


def test_a_sound_run(cli: Cli, run: Path) -> None:
    done = cli("verify", run)
    assert done.code == 0 and done.out == f"{run}: 11 of 11 files agree with their checksums\n"


def test_one_flipped_bit_in_each_file_names_each(cli: Cli, run: Path) -> None:
    """Also anywhere in run.json: then only files with checksums of their own can be verified, and the others are named."""
    contents = {name: (run / name).read_bytes() for name in names(run)}
    manifest = contents["run.json"]
    spots = [0, 5, manifest.index(b"seconds"), manifest.index(b"checksum"), len(manifest) - 60, len(manifest) - 1]
    for spot in spots:
        for name, content in contents.items():
            at = spot if name == "run.json" else len(content) * 2 // 3
            (run / name).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        found = hardsight.verify(run)
        assert {*found.damaged, *found.unchecked} == {*contents}, spot
        assert {"run.json", "head.safetensors", "scores.parquet"} <= {*found.damaged}, spot
    done = cli("verify", run)
    assert done.code == 2 and "run.json: damaged" in done.out
    (run / "run.json").write_bytes(manifest)
    assert {*hardsight.verify(run).damaged} == {*contents} - {"run.json"}


def test_one_flipped_bit_in_one_file_names_it_alone(cli: Cli, run: Path) -> None:
    rng = np.random.default_rng(1)
    for name in names(run):
        content = (run / name).read_bytes()
        for at in (0, len(content) // 2, len(content) - 1, *rng.integers(len(content), size=5)):
            changed = bytearray(content)
            changed[at] ^= 1 << int(rng.integers(8))
            (run / name).write_bytes(changed)
            assert list(hardsight.verify(run).damaged) == [name], (name, at)
        (run / name).write_bytes(content)
    assert not hardsight.verify(run).damaged


def test_missing_and_unlisted_files(cli: Cli, run: Path) -> None:
    (run / "model" / "config.json").unlink()
    (run / "notes.txt").write_text("mine")
    done = cli("verify", run)
    assert done.code == 2 and done.out.splitlines() == [
        "model/config.json: missing",
        "notes.txt: not checked: run.json does not list it, and it has no checksum",
        f"{run}: 1 of 12 files are damaged, changed or missing",
    ]


def test_single_files(cli: Cli, run: Path, tmp_path: Path) -> None:
    assert cli("verify", run / "scores.parquet").out.endswith("1 of 1 files agree with their checksums\n")
    assert cli("verify", run / "model" / "config.json").code == 0  # its run lists it
    np.savez(tmp_path / "x.npz", x=np.ones(3))
    assert "x.npz: not checked" in cli("verify", tmp_path / "x.npz").out
    (tmp_path / "x.parquet").write_bytes(b"PAR1 half")
    done = cli("verify", tmp_path / "x.parquet")
    assert done.code == 2 and "x.parquet: damaged" in done.out


def test_what_cannot_be_verified(cli: Cli, tmp_path: Path) -> None:
    for path, words in ((tmp_path, "it has no run.json"), (tmp_path / "no", "does not exist")):
        done = cli("verify", path)
        assert done.code == 2 and words in done.err
    Run(tmp_path / "half", "a test", {}, {})
    with pytest.raises(FileError, match="it was interrupted"):
        hardsight.verify(tmp_path / "half")


def test_progress_counts_bytes_to_the_end(run: Path) -> None:
    seen: list[tuple[int, int]] = []
    hardsight.verify(run, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] > 0


def test_nothing_remembered_is_trusted(run: Path) -> None:
    """A file that was sound a moment ago and changed without a new modification time."""
    import os

    path = run / "samples" / "part-00000.parquet"
    assert not hardsight.verify(run).damaged
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert list(hardsight.verify(run).damaged) == ["samples/part-00000.parquet"]
