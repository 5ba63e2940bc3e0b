"""`hardsight reproduce` is a command of this package: found by its entry point, and named with its install line without it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hardsight import __version__

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_without_the_package_its_install_line_is_named(fresh_python: Callable[..., Any]) -> None:
    done = fresh_python(
        "import importlib.metadata, sys; importlib.metadata.entry_points = lambda **_: []\n"
        "from hardsight.cli import main; main()",
        "reproduce",
        "avh/table9",
    )
    line = f"hardsight: hardsight reproduce needs {PROJECT['name']}: pip install {PROJECT['name']}\n"
    assert (done.code, done.err) == (2, line)


def test_both_packages_have_one_version() -> None:
    assert PROJECT["version"] == __version__
