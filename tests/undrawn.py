"""Figures that are composed but not drawn: drawing takes most of the time of a short run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def undrawn(*but: str) -> Iterator[None]:
    """Inside, a figure is saved as an empty file. For tests that look at something else; others draw the same figures.

    Files with one of the words `but` in their name are drawn all the same.
    """
    figure = pytest.importorskip("matplotlib.figure").Figure
    draw = figure.savefig

    def save(self: Any, path: Any, **options: Any) -> None:
        if any(word in Path(path).name for word in but):
            draw(self, path, **options)
        else:
            Path(path).write_bytes(b"")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "savefig", save)
        yield
