"""The order of rooms, read from the source: a module imports from its own room and from those before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hardsight

ROOT = Path(hardsight.__file__).parent
ROOMS = (
    "errors", "version", "options", "checks", "named_labels", "pandas_index", "cores", "threads", "screen",
    "geometry", "head", "fitted_estimator",
    "stats", "scores", "files", "losses",
    "snapshot", "table", "plots", "scores_table",
    "data", "models",
    "extraction", "scoring", "dynamics", "training",
    "domains", "adapt", "generalize",
    "sklearn", "torchmetrics",
    "agreement", "act", "attacks", "explorer", "exporting",
    "paper",
    "demo", "bench", "cli", "__main__",
)  # fmt: skip


SIDE_BY_SIDE = {("models", "data"), ("generalize", "adapt")}  # neither of a pair knows the other


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of ours in a file, also inside functions; not those for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unchecked = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in unchecked:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level + (node.module or "")  # no room: write it as an absolute import
            continue
        elif isinstance(node, ast.ImportFrom) and node.module == "hardsight":
            names = [f"hardsight.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif _is_import_by_name(node):
            names = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)]
        else:
            continue
        for name in names:
            if name.startswith("hardsight."):
                yield getattr(node, "lineno", 0), name.split(".")[1]


def _is_import_by_name(node: ast.AST) -> bool:
    """`importlib.import_module("hardsight...")`, or a table `_HOME` of where a package's names are."""
    if isinstance(node, ast.Call):
        return "import_module" in (getattr(node.func, "attr", None), getattr(node.func, "id", None))
    return isinstance(node, ast.Assign) and any(isinstance(name, ast.Name) and name.id == "_HOME" for name in node.targets)


def is_wrong(room: str, imported: str) -> bool:
    """Whether a room may not import another, or what is imported is no room."""
    return imported not in ROOMS or ROOMS.index(imported) > ROOMS.index(room) or (room, imported) in SIDE_BY_SIDE


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def test_every_module_has_a_room() -> None:
    assert {room_of(path) for path in ROOT.rglob("*.py")} == {*ROOMS, "__init__"}


def test_imports_point_to_rooms_before() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {room}"
        for path in sorted(ROOT.rglob("*.py"))
        if room_of(path) != "__init__"
        for line, room in imports(path)
        if is_wrong(room_of(path), room)
    ]
    assert wrong == []


def test_the_reader_of_imports_sees_those_inside_functions(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("if TYPE_CHECKING:\n    import hardsight.cli\ndef f():\n    from hardsight import bench\n")
    assert list(imports(tmp_path / "x.py")) == [(4, "bench")]


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("from . import cli", "."),
        ("from ..cli import app", "..cli"),
        ("importlib.import_module('hardsight.cli.app')", "cli"),
        ("import_module('hardsight.cli')", "cli"),
        ("_HOME = {'app': 'hardsight.cli'}", "cli"),
        ("import hardsight.nowhere", "nowhere"),
    ],
)
def test_every_way_to_import_is_seen(tmp_path: Path, line: str, room: str) -> None:
    (tmp_path / "x.py").write_text(f'"""hardsight.bench is no import."""\n{line}\n')
    assert list(imports(tmp_path / "x.py")) == [(2, room)]
    assert is_wrong("files", room) and not is_wrong("files", "files")


def test_no_room_hides_a_public_function() -> None:
    """Once imported, a submodule of that name would stand in the function's place."""
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert not rooms & set(hardsight.__all__)
