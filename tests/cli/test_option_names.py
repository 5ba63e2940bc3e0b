"""Options have one meaning and one spelling."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from hardsight import Snapshot
from hardsight.cli import app
from hardsight.files.human import People, match
from hardsight.options import COMMON

FEATURES, WEIGHT, LABELS = np.random.default_rng(0).normal(size=(10, 4)), np.eye(3, 4), np.arange(10) % 3


def options() -> dict[str, dict[str, Any]]:
    """Every option of every command: flag -> the parameter."""
    group: Any = typer.main.get_command(app)
    return {
        name: {flag: option for option in command.params for flag in option.opts if flag.startswith("--")}
        for name, command in group.commands.items()
    }


@pytest.mark.parametrize("name", ["level", "human", "allow-missing", "head-layer", "first"])
def test_one_meaning_of_an_option_in_every_command(name: str) -> None:
    said = {command[f"--{name}"].help.partition(" Groups samples")[0] for command in options().values() if f"--{name}" in command}
    assert said == {COMMON[name.replace("-", "_")][1]}


def test_values_have_names() -> None:
    for name, known in options().items():
        for flag, option in known.items():
            assert option.metavar not in ("TEXT", "PATH"), (name, flag)
    for flag in ("--split", "--weights", "--device", "--seeds", "--human", "--head"):
        assert len({known[flag].metavar for known in options().values() if flag in known}) == 1, flag


def test_every_command_that_prints_has_json_and_with_tables_also_files_of_them() -> None:
    known = options()
    assert [name for name, flags in known.items() if "--json" not in flags or "--quiet" not in flags] == ["explore"]
    for name, flags in known.items():
        if name != "reproduce":  # of another package
            source = inspect.getsource(importlib.import_module(f"hardsight.cli.{name}"))
            assert "print_table" not in source or "--table" in flags, name
            assert ("--figures" in flags) == ("figures=True" in source), name


def test_commands_take_some_samples_alike(tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.groups.audit_page.write_audit_page", lambda *_: None)  # another test's
    ids = np.array([f"s{row}" for row in range(10)])
    Snapshot(FEATURES, WEIGHT, LABELS, ids=ids).save(tmp_path / "s.npz")
    words = {"score": [], "clean": ["--no-neighbors"], "audit": ["--group", "label", "--least", "2"]}
    for command, more in words.items():
        spread = cli(command, tmp_path / "s.npz", "--limit", 6, *more, "-o", tmp_path / f"{command}.csv")
        first = cli(command, tmp_path / "s.npz", "--first", 6, *more, "-o", tmp_path / f"{command}_first.csv")
        assert spread.code == first.code == 0, (spread.err, first.err)
    rows = [line.split(",")[0].strip('"') for line in (tmp_path / "score.csv").read_text().splitlines()[1:]]
    assert rows == ["s0", "s1", "s3", "s5", "s6", "s8"]
    cleaned = (tmp_path / "clean.csv").read_text()
    assert "s8" in cleaned and "s2" not in cleaned and "s2" in (tmp_path / "clean_first.csv").read_text()


@pytest.mark.parametrize(
    ("ids", "rows"),
    [
        (np.array([2, 0, 1]), [2, 0, 1]),  # numbers of rows
        (np.array(["test/2", "test/0", "test/1"], dtype=object), [2, 0, 1]),
        (np.array(["a", "b", "c"], dtype=object), [0, 1, 2]),  # names: in their order
        (np.array([10, 20, 30]), [0, 1, 2]),
    ],
)
def test_one_rule_for_human_arrays(ids: np.ndarray, rows: list[int]) -> None:
    assert match(People("human", None, frequency=np.zeros(3)), ids)[1].tolist() == rows
