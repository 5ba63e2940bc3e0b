"""Real data, where it is at hand: a directory named by HARDSIGHT_DATA, or shared/data beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("HARDSIGHT_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def real(name: str) -> Path:
    """The path of a file of real data; the test is skipped where it is missing."""
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{name} is not here; HARDSIGHT_DATA can name the directory that holds it")
    return path
