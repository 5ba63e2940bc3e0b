"""The project's own files agree with each other: versions, pins, the tree in CONTRIBUTING, and the rule about skips."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from test_rooms import ROOMS

from benchmarks.__main__ import BENCHMARKS
from hardsight.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line)


def normal(name: str) -> str:
    """A normalized package name."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=! ;]", name)[0]).lower()


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)
    assert versions[0] == VERSION
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == VERSION


def test_every_dependency_is_pinned() -> None:
    asked = [*PROJECT["project"]["dependencies"], *(name for group in PROJECT["dependency-groups"].values() for name in group)]
    asked += [name for extra in PROJECT["project"]["optional-dependencies"].values() for name in extra]
    missing = {normal(name) for name in asked} - {normal(name) for name in PINS} - {"hardsight", "hardsight-papers"}
    assert missing == set()
    assert list(PINS) == sorted(PINS, key=str.lower)
    assert not [name for name, version in PINS.items() if "+" in version]  # no local versions


def test_pre_commit_runs_the_pinned_ruff() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["rev"] for repo in hooks["repos"] if repo["repo"].endswith("ruff-pre-commit")] == ["v" + PINS["ruff"]]


def test_type_checkers_are_told() -> None:
    assert "Typing :: Typed" in PROJECT["project"]["classifiers"] and (ROOT / "src" / "hardsight" / "py.typed").is_file()


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_call_tasks_that_exist(workflow: Path) -> None:
    tasks = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    steps = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    assert set(re.findall(r"\bmake ([a-z]+)", steps)) <= tasks
    for path in re.findall(r"\btests/\w+\.py|\.ci/\w+", steps):
        assert (ROOT / path).is_file()


def test_contributing_shows_every_room_in_order() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = contributing.split("src/hardsight/\n")[1].split("```")[0]
    rooms = re.findall(r"^  (\w+)(/|\.py) {2,}\S", tree, re.MULTILINE)
    assert tuple(name for name, _ in rooms) == ROOMS
    for name, ending in rooms:
        assert (ROOT / "src" / "hardsight" / (name + ending)).exists()


SKIPPING = """
import pytest

def test_of_an_extra():
    pytest.importorskip("no_such_package")

def test_of_data():
    pytest.skip("x is not here; HARDSIGHT_DATA can name the directory that holds it")
"""


@pytest.mark.parametrize(("environment", "code"), [({}, 0), ({"HARDSIGHT_NO_SKIPS": "1"}, 1)])
def test_skips_can_be_forbidden(tmp_path: Path, environment: dict[str, str], code: int) -> None:
    (tmp_path / "test_x.py").write_text(SKIPPING)
    variables = {name: value for name, value in os.environ.items() if name != "HARDSIGHT_NO_SKIPS"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "skips", "-c", os.devnull, "--rootdir", ".", "test_x.py"],
        cwd=tmp_path,
        env={**variables, **environment, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout
    assert ("test_of_an_extra: " in done.stdout) == bool(code) and "test_of_data" not in done.stdout


def test_contributing_names_the_one_file_to_open_for_each_task() -> None:
    """Every file that the table names is there, and no task is listed twice."""
    contributing, rooms = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), ROOT / "src" / "hardsight"
    rows = [line.split("|")[1:3] for line in contributing.splitlines() if line.startswith("| ") and "you want to" not in line]
    assert len(rows) >= 15 and len({task for task, _ in rows}) == len(rows)
    for task, place in rows:
        first, *named = [path for path in re.findall(r"`([\w./]+)`", place) if re.search(r"\w/|\.(py|html|css)$", path)]
        assert (rooms / first).exists(), task
        assert all((rooms / path).exists() or (rooms / first).parent.joinpath(path).exists() for path in named), task


def test_make_bench_runs_every_benchmark() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.search(r"^BENCHMARKS := (.+)$", makefile, re.M)
    assert named is not None and {*named[1].split(), *re.findall(r"-m benchmarks (\w+)", makefile)} == set(BENCHMARKS)
