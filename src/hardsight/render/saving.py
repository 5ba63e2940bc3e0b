"""Figures as files: PNG always, because pages show it; PDF and SVG next to it on request.

with figures_as("svg"):
    save_figure(figure, folder / "models.png")  # models.png and models.svg
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardsight.errors import InputError
from hardsight.files.writing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNDATED: dict[str, dict[str, None]] = {  # no date and no version: the same figure is the same bytes
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
_chosen: ContextVar[tuple[str, ...]] = ContextVar("formats of figures", default=("png",))


def figure_formats(text: str) -> tuple[str, ...]:
    """Formats as the command line gives them.

    Example:
        >>> figure_formats("svg"), figure_formats("pdf, png")
        (('png', 'svg'), ('png', 'pdf'))
    """
    names = [name.strip().lower().removeprefix(".") for name in text.split(",")]
    unknown = [name for name in names if name not in UNDATED]
    if unknown:
        raise InputError(f"figures are written as {', '.join(UNDATED)}, got {unknown[0]!r}.")
    return tuple(dict.fromkeys(["png", *names]))


@contextmanager
def figures_as(formats: str) -> Iterator[None]:
    """Inside, every figure is written in these formats, with commas between: svg, or pdf,svg."""
    token = _chosen.set(figure_formats(formats))
    try:
        yield
    finally:
        _chosen.reset(token)


def save_figure(figure: Figure, path: Path, **options: Any) -> list[Path]:
    """Write a figure to a .png, and next to it in the other chosen formats; returns all paths, the .png first."""
    import matplotlib

    paths = [path.with_suffix(f".{form}") for form in _chosen.get()]
    for file in paths:
        form = file.suffix[1:]
        with replacing(file) as temporary, matplotlib.rc_context({"svg.hashsalt": path.stem}):  # else ids in SVG are random
            figure.savefig(temporary, format=form, metadata=UNDATED[form], **options)
    return paths


def png_bytes(figure: Figure) -> bytes:
    """A figure as PNG, for a page."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata=UNDATED["png"])
    return stream.getvalue()
