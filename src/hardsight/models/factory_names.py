"""What a user's file defines, read from its source: importing it, and torch with it, would take seconds."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterable
from pathlib import Path

from hardsight.errors import InputError, did_you_mean, first_line


def check_factory_name(module: str, name: str) -> None:
    """Refuse `mynet.py:Nett` or `mynet:Nett` where the file in the current directory defines no such name."""
    path = Path(module if module.endswith(".py") else module.replace(".", "/") + ".py")
    if module.endswith(".py") and not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        known = _defined(path) if path.is_file() else None
    except SyntaxError as error:
        raise InputError(in_users_code(module, error)) from error
    if known is not None and name not in known:
        raise InputError(no_factory(module, name, known))


def no_factory(module: str, name: str, known: Iterable[str]) -> str:
    """The message about a function or class that a module does not have."""
    return f"{module} has no function or class {name!r} that makes a model.{did_you_mean(name, known)}"


def in_users_code(name: str, error: Exception) -> str:
    """An error of the user's own module or function, in one line with the place where it was raised."""
    if isinstance(error, SyntaxError):
        return f"{name} is not Python: {error.msg}, line {error.lineno}."
    frame = traceback.extract_tb(error.__traceback__)[-1]
    said = f": {first_line(error)}" if str(error) else ""
    return f"{name} could not be used: {type(error).__name__}{said} ({Path(frame.filename).name}, line {frame.lineno})."


def _defined(path: Path) -> list[str] | None:
    """The names at the top of a file; None where more may come from elsewhere."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, ValueError):
        return None
    names: list[str] = []
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            names += [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names += [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        elif not (isinstance(statement, (ast.Expr, ast.Pass)) or _is_main(statement)):
            return None  # an if, a loop, a with: whatever it defines
    return None if "*" in names or "__getattr__" in names else names


def _is_main(statement: ast.stmt) -> bool:
    """`if __name__ == "__main__":`, which defines nothing for others."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test).startswith("__name__ ==")
