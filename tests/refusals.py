"""What a command says when it refuses: one line on standard error, exit code 2."""

from __future__ import annotations

from typing import Any


def refused(done: Any, *words: str) -> None:
    """The finished command refused, with all of these words."""
    assert done.code == 2 and done.err.count("\n") == 1 and done.err.startswith("hardsight: "), done.err
    assert all(word in done.err for word in words), done.err
