"""What commands print: the hardest first, one JSON document with --json, nothing with --quiet, plain lines of progress in a log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import typer

from hardsight.cli.results import prints_tables
from hardsight.screen import (
    Cell,
    ProgressLines,
    Shown,
    beside,
    interval,
    number,
    percent,
    print_line,
    print_next,
    print_table,
    print_warning,
    print_wrote,
    showing,
)

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty samples of two classes at right angles, each at its own angle; the last one is closest to the other class."""
    path = tmp_path_factory.mktemp("photos") / "photos.npz"
    degrees = np.linspace(0, 40, 40)
    own = np.stack([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))], axis=1)
    labels = np.arange(40) % 2
    features = np.where(labels[:, None] == 0, own, own[:, ::-1])
    sites = np.where(np.arange(40) < 20, "a", "b")
    np.savez(path, features=features, weight=10 * np.eye(2), labels=labels, ids=np.arange(40), site=sites)
    return path


def said(*, json: bool = False, quiet: bool = False) -> Shown:
    with showing(json=json, quiet=quiet) as shown:
        print_line("n = 2", samples=2, share=float("nan"))
        header = ("name", Cell("accuracy %", "accuracy"), Cell("95 %", "accuracy"), "mean change", "")
        print_table(header, [("a", percent(0.71234567), interval(0.7, 0.8), "–", "ok")], title="one", name="rows")
        print_table(("name", "n"), [("b", number(3))], title="two", name="rows", of={"model": "m"})
        print_warning("too few")
        print_wrote("out file.csv", ": all")
        print_next("hardsight", "explore", "my run")
    return shown


def test_a_cell_is_text_that_knows_its_value() -> None:
    assert (number(0.123456), number(None), number(7)) == ("0.1235", "–", "7")
    assert number(0.123456).value == 0.123456 and number(None).value is None and number(7).value == 7
    assert percent(0.5, 0.25).value == {"": 0.5, "std": 0.25}
    assert beside(number(0.5), interval(None, None)).value == {"": 0.5, "low": None, "high": None}


def test_the_document_has_full_numbers_and_nulls(capsys: pytest.CaptureFixture[str]) -> None:
    document = said().document("x", "1.0")
    assert document == {
        "hardsight": "1.0",
        "command": "x",
        "summary": {"samples": 2, "share": None},
        "tables": {
            "rows": [
                {"name": "a", "accuracy": 0.71234567, "accuracy_low": 0.7, "accuracy_high": 0.8, "mean_change": None, "note": "ok"},
                {"model": "m", "name": "b", "n": 3},
            ]
        },
        "warnings": ["too few"],
        "files": ["out file.csv"],
        "next": "hardsight explore 'my run'",
    }
    out, err = capsys.readouterr()
    assert "71.23" in out and "wrote out file.csv: all" in out and "next: hardsight explore 'my run'" in out
    assert err == "warning: too few\n"


def test_tables_are_not_drawn_beside_a_document_and_warnings_not_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    said(json=True)
    assert "71.23" not in capsys.readouterr().out
    said(quiet=True)
    assert capsys.readouterr().err == ""


def run(words: list[str]) -> None:
    """A command that ends with an exit code after it has said something."""
    app = typer.Typer()

    @app.command()
    @prints_tables
    def check(code: int = 0) -> None:
        """Check."""
        print("by the way")
        print_line("checked", code=code)
        if code:
            raise typer.Exit(code)

    app(words, standalone_mode=False)


@pytest.mark.parametrize("code", [0, 2])
def test_json_is_all_of_standard_output(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--json", "--code", str(code)])
    out, err = capsys.readouterr()
    assert json.loads(out)["summary"] == {"code": code} and json.loads(out)["command"] == "check"
    assert err == "by the way\nchecked\n"
    run(["--json", "--quiet"])
    out, err = capsys.readouterr()
    assert json.loads(out)["summary"] == {"code": 0} and err == ""
    run(["--quiet"])
    assert capsys.readouterr() == ("", "")


def test_one_of_several_processes_prints_the_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    run(["--json"])
    assert capsys.readouterr().out == ""


def test_progress_in_a_log_is_lines_with_a_new_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = ProgressLines("scoring", clock=lambda: now)
    for second in range(0, 101):  # 10 a second, then half as many
        now = float(second)
        progress(10 * second if second <= 50 else 500 + 5 * (second - 50), 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "scoring: 100 of 1,000 (10 %), about 90 s left".replace("90 s", "2 min"),
        "scoring: 300 of 1,000 (30 %), about 70 s left",
        "scoring: 600 of 1,000 (60 %), about 47 s left",
    ]
    assert "\r" not in "".join(lines)


def test_another_count_has_its_own_pace_and_a_short_job_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = ProgressLines("reading", clock=lambda: now)
    progress(0, 10)
    now = 9.0
    progress(10, 10)
    assert capsys.readouterr().err == ""
    progress(40, 100, "epoch 2")  # resumed in the middle
    now = 19.0
    progress(60, 100, "epoch 2")
    assert capsys.readouterr().err == "epoch 2: 60 of 100 (60 %), about 20 s left\n"
    progress.quiet, now = True, 500.0
    progress(61, 100)
    assert capsys.readouterr().err == ""


def test_score_says_the_hardest_first_then_a_summary_and_what_is_next(cli: Cli, photos: Path, tmp_path: Path) -> None:
    done = cli("score", photos, "--top", 2, "-o", tmp_path / "scores.parquet")
    lines = done.out.splitlines()
    assert done.code == 0 and lines[0].startswith("hardest 2 by avh")
    assert [line.split()[0] for line in lines if line.strip()[:2] in ("38", "39")] == ["39", "38"]
    (summary,) = [line for line in lines if line.startswith("n = 40   c = 2   accuracy = 100.00 %   mean avh = ")]
    assert lines.index(summary) > 4 and "angular_gap  " not in done.out.split(summary)[1]
    assert lines[-2:] == [f"wrote {tmp_path}/scores.parquet", f"next: hardsight explore {tmp_path}/scores.parquet"]
    verbose = cli("score", photos, "--verbose").out
    assert " hard end" in verbose and verbose.splitlines()[-1] == f"next: hardsight score {photos} -o scores.parquet"
    quiet = cli("score", photos, "--quiet", "-o", tmp_path / "quiet.parquet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "") and (tmp_path / "quiet.parquet").is_file()
    wrong = cli("score", tmp_path / "absent.npz", "--quiet")
    assert wrong.code == 2 and wrong.out == "" and wrong.err.count("\n") == 1


def test_score_of_a_run_leads_to_the_run(cli: Cli, photos: Path, tmp_path: Path) -> None:
    from hardsight.snapshot import Snapshot

    Snapshot.load(photos).save(tmp_path / "run")
    assert f"next: hardsight explore {tmp_path}/run\n" in cli("score", tmp_path / "run").out


COMMANDS: dict[str, tuple[list[str], list[str]]] = {  # words after the input, and the tables of the document
    "score": (["--verbose"], ["hardest", "means"]),
    "clean": ([], ["verdicts"]),
    "select": (["--budget", "10", "-o", "OUT/subset.csv"], ["classes"]),
    "curriculum": (["--epochs", "4", "-o", "OUT/order.csv"], ["epochs"]),
    "mine": ([], ["hardest"]),
    "audit": (["--group", "site", "-o", "OUT/audit.csv"], ["groups"]),
    "drift": (["INPUT"], ["classes"]),
    "correlate": (["--against", "site_number", "--replicates", "20", "--permutations", "20"], ["agreement", "hypotheses"]),
    "verify": ([], []),
}


@pytest.fixture
def document(cli: Cli, photos: Path, tmp_path: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """The document of a command on the forty samples."""

    def read(command: str) -> dict[str, Any]:
        words = [word.replace("OUT", str(tmp_path)).replace("INPUT", str(photos)) for word in COMMANDS[command][0]]
        done = cli(command, photos, *words, "--json")
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        assert found["command"] == command and not done.err.startswith("{")
        return found

    yield read


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_tables_has_a_document(document: Callable[[str], dict[str, Any]], command: str) -> None:
    found = document(command)
    assert list(found["tables"]) == COMMANDS[command][1]
    for rows in found["tables"].values():
        assert rows and len({tuple(row) for row in rows}) == 1  # the same columns in every row
        assert not [key for row in rows for key in row if not key.isprintable() or " " in key]


def test_values_of_the_document_are_those_of_the_table(document: Callable[[str], dict[str, Any]], photos: Path) -> None:
    import hardsight

    table = hardsight.score(photos)
    found = document("score")
    assert found["tables"]["hardest"][0]["avh"] == table.column("avh").to_pylist()[39]  # to the last digit
    assert found["summary"]["accuracy"] == 1.0 and found["summary"]["samples"] == 40
    assert found["next"].startswith("hardsight score ")
    means = {row["score"]: row["mean"] for row in found["tables"]["means"]}
    assert means["avh"] == pytest.approx(np.mean(table.column("avh").to_numpy()), rel=1e-12)
    assert pa.types.is_floating(table.schema.field("avh").type)
