"""papers/ and benchmarks/ use hardsight as anybody could: public names alone, checked in the source.

Public is what stands in the `__all__` of `hardsight`, of one of its rooms (a package below it), or of a module beside them that
writes one down, and in the API reference.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import hardsight

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(hardsight.__file__).parent
TREES = ("papers", "benchmarks")


def imports(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, module, name) of every import of hardsight, also inside functions and by `import_module`; name "" for a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in (getattr(node.func, "attr", ""), getattr(node.func, "id", "")):
            texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
            yield from ((node.lineno, text, "") for text in texts if _is_ours(text))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "hardsight"


def public_names(module: str) -> set[str]:
    """The names that `from module import` may take."""
    parts = module.split(".")
    if len(parts) > 2 or parts[-1].startswith("_"):
        return set()
    if len(parts) == 2 and not (LIBRARY / parts[1]).is_dir() and not _writes_all(LIBRARY / f"{parts[1]}.py"):
        return set()
    rooms = (
        {path.stem for path in LIBRARY.iterdir() if path.stem != "__init__" and public_names(f"hardsight.{path.stem}")}
        if len(parts) == 1
        else set()
    )
    return {*getattr(importlib.import_module(module), "__all__", ()), *rooms}


def _writes_all(path: Path) -> bool:
    if not path.is_file():
        return False
    assigned = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign))
    return any(getattr(target, "id", "") == "__all__" for node in assigned for target in node.targets)


def is_public(module: str, name: str) -> bool:
    if not name:
        return module == "hardsight" or module.removeprefix("hardsight.") in public_names("hardsight")
    return name in public_names(module)


@pytest.mark.parametrize("tree", TREES)
def test_only_public_names_are_imported(tree: str) -> None:
    private = [
        f"{path.relative_to(ROOT)}:{line} {module} {name}".rstrip()
        for path in sorted((ROOT / tree).rglob("*.py"))
        if "tests" not in path.parts
        for line, module, name in imports(path.read_text(encoding="utf-8"))
        if not is_public(module, name)
    ]
    assert private == []


def test_every_public_module_is_in_the_reference() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    modules = [name for path in LIBRARY.iterdir() if path.stem != "__init__" and public_names(f"hardsight.{(name := path.stem)}")]
    assert len(modules) > 15 and [name for name in modules if f"hardsight.{name}: api/{name}.md" not in navigation] == []


@pytest.mark.parametrize(
    ("line", "public"),
    [
        ("import hardsight", True),
        ("from hardsight import score, losses, errors", True),
        ("from hardsight.losses import LGMLoss", True),
        ("from hardsight.errors import InputError", True),
        ("def f():\n    from hardsight.losses.lgm import LGMLoss", False),
        ("from hardsight.losses import lgm", False),
        ("from hardsight.threads import num_threads", False),
        ("import hardsight.cli.score", False),
        ("importlib.import_module('hardsight.cli.score')", False),
    ],
)
def test_the_reader_of_imports_sees_what_is_public(line: str, public: bool) -> None:
    found = list(imports(line))
    assert found and all(is_public(module, name) for _, module, name in found) is public
