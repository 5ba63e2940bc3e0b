"""No command overwrites a file that it reads, whichever option names it, and under any name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardsight import Head, Snapshot, score
from hardsight.errors import FileError
from hardsight.files.heads import save_head
from hardsight.files.kinds import kind_in_file
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.table import read_scores, write_table
from refusals import refused

Cli = Callable[..., Any]
RNG = np.random.default_rng(0)
FEATURES, LABELS = RNG.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 2
HEAD = Head("linear", RNG.normal(size=(2, 4)))
SAMPLES = {"id": np.arange(40), "label": LABELS, "site": np.array(["a", "b"] * 20)}
FEW = ["--replicates", "20", "--permutations", "20"]

READS: dict[str, list[str]] = {  # a command that reads FILE, without an output
    "score": ["score", "FILE", "--head", "head.safetensors"],
    "score --models": ["score", "other.parquet", "--head", "head.safetensors", "--models", "FILE"],
    "score --reference": ["score", "other.parquet", "--head", "head.safetensors", "--reference", "FILE"],
    "clean": ["clean", "FILE", "--head", "head.safetensors"],
    "select": ["select", "FILE", "--budget", "5"],
    "curriculum": ["curriculum", "FILE", "--epochs", "3"],
    "mine": ["mine", "FILE"],
    "audit": ["audit", "FILE", "--group", "site"],
    "drift": ["drift", "FILE", "other.parquet"],
    "drift to": ["drift", "other.parquet", "FILE"],
    "correlate": ["correlate", "FILE", "--against", "avh", *FEW],
    "correlate --human": ["correlate", "scores.parquet", *FEW, "--human", "FILE"],
    "verify": ["verify", "FILE"],
    "report": ["report", "FILE"],
    "dynamics --human": ["dynamics", "run", "--human", "FILE"],
}
NO_TABLE = ("correlate", "correlate --human", "verify", "report", "dynamics --human")  # -o is a folder or a page, or none


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two copies of samples, their scores and their head, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("s.parquet", "other.parquet"):
        write_samples(tmp_path / name, FEATURES, SAMPLES)
    save_head(tmp_path / "head.safetensors", HEAD)
    write_table(score(FEATURES, HEAD, LABELS), tmp_path / "scores.parquet")
    return tmp_path


def named(folder: Path, way: str) -> str:
    """Another name of s.parquet."""
    if way in ("symbolic", "hard"):
        link: Callable[..., None] = os.symlink if way == "symbolic" else os.link
        link(folder / "s.parquet", folder / "link.parquet")
        return "link.parquet"
    if way == "folder":
        os.symlink(folder, folder / "there")
        return "there/s.parquet"
    return {"same": "s.parquet", "absolute": str(folder / "s.parquet"), "dots": f"../{folder.name}/./s.parquet"}[way]


@pytest.mark.parametrize("way", ["same", "absolute", "dots", "symbolic", "hard", "folder"])
def test_no_output_option_writes_over_an_input(cli: Cli, folder: Path, way: str) -> None:
    before, name = (folder / "s.parquet").read_bytes(), named(folder, way)
    for reads, words in READS.items():
        if way not in ("same", "symbolic") and reads not in ("score", "select", "drift to"):
            continue  # the write path is the same
        words = [word.replace("FILE", "s.parquet") for word in words]
        if reads not in NO_TABLE:
            refused(cli(*words, "-o", name), "is an input of this command")
        if reads == "report":
            refused(cli(*words, "-o", name), "is not an HTML page")
            continue
        output = ["-o", "out.parquet"] if reads in ("select", "curriculum") else []
        refused(cli(*words, *output, "--table", name), "this command reads or writes that file already")
    assert (folder / "s.parquet").read_bytes() == before
    assert not (folder / "out.parquet").exists()


@pytest.fixture
def run(folder: Path) -> Path:
    """A run with scores."""
    made = Run(folder / "run", "a test", {}, {})
    part = made.folder("samples") / "part-00000.parquet"
    with made.only_writer():
        write_samples(part, FEATURES, SAMPLES)
        save_head(made.directory / "head.safetensors", HEAD)
        made.finish([part, made.directory / "head.safetensors"], {}, {part.name: 40})
    write_table(score(made.directory), made.directory / "scores.parquet")
    return made.directory


@pytest.mark.parametrize(
    "words",
    [
        ["select", "run", "--budget", "5", "--by", "avh", "-o", "chosen.parquet", "--table", "run/scores.parquet"],
        ["verify", "run", "--table", "run/scores.parquet"],
        ["score", "run", "--table", "run/scores.parquet"],
        ["correlate", "run", "--against", "avh", "--scores", "norm", *FEW, "--table", "run/scores.parquet"],
        ["audit", "run", "--group", "site", "-o", "run/scores.parquet"],
    ],
    ids=lambda words: words[0],
)
def test_scores_of_a_run_that_were_read_or_just_written_stay(cli: Cli, run: Path, words: list[str]) -> None:
    before = read_scores(run)
    done = cli(*words)
    refused(
        done, "is an output of this command" if words[0] == "score" else "scores.parquet holds scores, and would be replaced by"
    )
    assert read_scores(run).equals(before)


TABLES = {  # a command that writes a table, and what the table holds
    "scores": ["score", "run"],
    "suspects": ["clean", "run"],
    "triplets": ["mine", "run"],
    "pairs": ["mine", "run", "--pairs"],
    "a subset": ["select", "run", "--budget", "5"],
    "a curriculum": ["curriculum", "run", "--epochs", "3"],
    "groups of an audit": ["audit", "run", "--group", "site"],
    "what drifted": ["drift", "other.parquet", "run", "--head", "head.safetensors"],
}


def test_a_table_replaces_none_of_another_kind(cli: Cli, run: Path, folder: Path) -> None:
    """A table replaces neither another kind of table nor a user's own, only its own kind."""
    others = [*list(TABLES.items())[1:], next(iter(TABLES.items()))]
    for number, ((table, words), (other, more)) in enumerate(zip(TABLES.items(), others, strict=True)):
        output = folder / f"table-{number}{('.parquet', '.csv', '.json')[number % 3]}"
        assert cli(*words, "-o", output).code == 0 and kind_in_file(output) == table
        before = output.read_bytes()
        refused(cli(*more, "-o", output), f"{output} holds {table}, and would be replaced by {other}; use another name")
        assert output.read_bytes() == before
    for content, ending in (("photo,votes\na,3\n", "csv"), ('[\n{"photo": "a", "votes": 3}\n]\n', "json")):
        votes = folder / f"votes.{ending}"
        votes.write_text(content)
        refused(cli("mine", run, "-o", votes), f"{votes} holds a table that begins with the column 'photo'")
        assert votes.read_text() == content
        votes.unlink()
        for _ in range(2):
            assert cli("mine", run, "-o", votes).code == 0


def test_arrays_that_are_no_snapshot_are_not_replaced_by_one(folder: Path) -> None:
    np.savez(folder / "images.npz", images=np.zeros((3, 2, 2)))
    with pytest.raises(
        FileError, match=r"images.npz holds other arrays \(images\), and would be replaced by samples with features"
    ):
        Snapshot(FEATURES, HEAD, LABELS).save(folder / "images.npz")
    Snapshot(FEATURES, HEAD, LABELS).save(folder / "s.npz")
    Snapshot(FEATURES[:3], HEAD, LABELS[:3]).save(folder / "s.npz")
    assert len(Snapshot.load(folder / "s.npz")) == 3


def test_a_table_whose_columns_cannot_be_read_is_written_again(cli: Cli, run: Path) -> None:
    (run / "scores.parquet").write_bytes((run / "scores.parquet").read_bytes()[:-20])
    assert cli("score", run).code == 0 and len(read_scores(run)) == 40


def test_two_outputs_have_two_names(cli: Cli, folder: Path) -> None:
    score_words = ["score", "s.parquet", "--head", "head.safetensors"]
    refused(cli(*score_words, "-o", "t.csv", "--table", "./t.csv"), "this command reads or writes that file already")
    select_words = ["select", "scores.parquet", "--budget", "5", "-o", "t.csv", "--curve"]
    refused(cli(*select_words, "t.csv"), "is both the subset and its curve")
    (folder / "c.png").write_bytes(b"somebody's notes")
    refused(cli(*select_words, "c.png"), "c.png exists and is not a PNG")
    assert not (folder / "t.csv").exists()
    done = cli(*score_words, "-o", "t.csv", "--table", "hardest.csv")
    assert done.code == 0 and len(read_scores(folder / "t.csv")) == 40


@pytest.mark.parametrize("name", ["thesis.tex", "README.md"])
def test_text_of_somebodys_is_no_table(cli: Cli, folder: Path, name: str) -> None:
    words = ["score", "s.parquet", "--head", "head.safetensors", "--table", name]
    (folder / name).write_text("\\documentclass{book}\n" if name.endswith("tex") else "# Years of work\n\n| a | b |\n")
    refused(cli(*words), f"{name} exists and is not a table in ")
    (folder / name).unlink()
    for _ in range(2):  # its own may be replaced
        assert cli(*words).code == 0
