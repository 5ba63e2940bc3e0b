"""Figures that are composed but not drawn: drawing takes most of the time of a short run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image


@contextmanager
def undrawn(*but: str, once: set[str] | None = None, in_pages: bool = True) -> Iterator[None]:
    """Inside, a figure is saved as an empty file. For tests that look at something else; others draw the same figures.

    Files with one of the words `but` in their name are drawn all the same. So is the first of each name that is not in
    `once`, which then holds it. Without `in_pages`, a figure for a page is one white pixel.
    """
    figure = pytest.importorskip("matplotlib.figure").Figure
    draw = figure.savefig

    def save(self: Any, path: Any, **options: Any) -> None:
        name = Path(path).name if isinstance(path, str | Path) else ""
        kind = name.removeprefix(".").partition(".")[0]  # of a temporary file as of the file
        first = once is not None and kind not in once
        if not name and not in_pages:
            Image.new("RGB", (1, 1), "white").save(path, "PNG")
        elif first or not name or any(word in name for word in but):  # a figure in memory is for somebody who reads it
            draw(self, path, **options)
        else:
            Path(path).write_bytes(b"")
        if once is not None:
            once.add(kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "savefig", save)
        yield
