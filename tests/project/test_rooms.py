"""The order of the rooms, checked in the source: a module imports only from its own room and from those before it."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import hardsight

ROOT = Path(hardsight.__file__).parent
ROOMS = (
    "errors", "version", "options", "checks", "cores", "threads", "screen", "labels", "pandas_index",
    "geometry", "head", "fitted_estimator",
    "stats", "scores", "files", "losses",
    "table", "snapshot", "render", "result",
    "data", "models",
    "extraction", "scoring", "dynamics", "training",
    "domains",
    "torchmetrics",
    "human", "subsets", "groups", "quality", "sklearn", "attacks", "explorer", "exporting", "checking",
    "demo", "cli", "__main__",
)  # fmt: skip


PATHS = sorted(ROOT.rglob("*.py"))
SIDE_BY_SIDE = {("models", "data")}  # neither of a pair knows the other


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """Every module as a syntax tree. It takes seconds and millions of objects, so it is kept only for this file's tests."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PATHS}


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, room) of every hardsight import in a module, also inside functions, except for those for type checkers only."""
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
    """`importlib.import_module("hardsight...")`."""
    return isinstance(node, ast.Call) and "import_module" in (getattr(node.func, "attr", None), getattr(node.func, "id", None))


def is_wrong(room: str, imported: str) -> bool:
    """Whether a room may not import another, or what is imported is no room."""
    return imported not in ROOMS or ROOMS.index(imported) > ROOMS.index(room) or (room, imported) in SIDE_BY_SIDE


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def test_every_module_has_a_room() -> None:
    assert {room_of(path) for path in ROOT.rglob("*.py")} == {*ROOMS, "__init__"}


def test_imports_point_to_rooms_before(trees: dict[Path, ast.Module]) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {room}"
        for path, tree in trees.items()
        if room_of(path) != "__init__"
        for line, room in imports(tree)
        if is_wrong(room_of(path), room)
    ]
    assert wrong == [
        line for line in wrong if re.fullmatch(r"snapshot/snapshot.py:[0-9]+ imports scoring", line)
    ]  # `Snapshot.scores`


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("if TYPE_CHECKING: import hardsight.errors\ndef f(): from hardsight import cli", "cli"),
        ("from . import cli", "."),
        ("from ..cli import app", "..cli"),
        ("importlib.import_module('hardsight.cli.app')", "cli"),
        ("import_module('hardsight.cli')", "cli"),
        ("import hardsight.nowhere", "nowhere"),
    ],
)
def test_every_way_to_import_is_seen(line: str, room: str) -> None:
    assert [found for _, found in imports(ast.parse(f'"""benchmarks is no import."""\n{line}\n'))] == [room]
    assert is_wrong("files", room) and not is_wrong("files", "files")


def test_no_room_hides_a_public_function() -> None:
    """Once imported, a submodule of that name would shadow the function."""
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert not rooms & set(hardsight.__all__)


# ---- the size of the house ----

SAME_IN_TWINS = {"DynamicsCallback"}  # of two trainers


def test_everything_public_has_a_docstring(trees: dict[Path, ast.Module]) -> None:
    def bare(node: ast.AST, where: str) -> Iterator[str]:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not inner.name.startswith("_"):
                if ast.get_docstring(inner) is None and not _is_stub(inner):
                    yield f"{where}:{inner.lineno} {inner.name}"
                if isinstance(inner, ast.ClassDef):
                    yield from bare(inner, where)

    assert [name for path, tree in trees.items() for name in bare(tree, str(path.relative_to(ROOT)))] == []


def _is_stub(node: ast.AST) -> bool:
    """`...`, as in a protocol."""
    body = getattr(node, "body", [])
    return len(body) == 1 and isinstance(body[0], ast.Expr) and getattr(body[0].value, "value", None) is ...


def test_a_class_name_has_one_meaning(trees: dict[Path, ast.Module]) -> None:
    names = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == SAME_IN_TWINS


@pytest.mark.parametrize("room", [path.parent for path in PATHS if path.name == "__init__.py" and path.parent != ROOT], ids=str)
def test_a_room_says_what_lives_in_it(room: Path, trees: dict[Path, ast.Module]) -> None:
    """At least one paragraph, and all its files; those of the command line are named after the commands."""
    said = ast.get_docstring(trees[room / "__init__.py"]) or ""
    assert len(said) > 40
    listed = re.findall(r"[a-z_0-9*]+\.py", said)
    modules = {path.name for path in room.glob("*.py")} - {"__init__.py"}
    if room.name != "cli":
        assert {name for name in modules if not any(fnmatch.fnmatch(name, pattern) for pattern in listed)} == set()
    assert {name for name in listed if "*" not in name and not any(ROOT.rglob(name))} == set()
