"""Figures as files: PNG always, because pages show it; PDF and SVG next to it, and a width in inches, on request.

with figures_as("svg", width=3.3):  # a column of a paper
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
SMALLEST = 6.0  # points: smaller text cannot be read in print
PANEL = 1.6  # inches: narrower panels are stacked
NARROW = 5.0  # inches
ROW = 1.4  # inches: lower panels show nothing
_width: ContextVar[float | None] = ContextVar("width of figures", default=None)
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
def figures_as(formats: str, width: float | None = None) -> Iterator[None]:
    """Inside, every figure is written in these formats, with commas between: svg, or pdf,svg; `width` is in inches."""
    if width is not None and not 2 <= width <= 40:
        raise InputError(f"the width of figures must be 2 to 40 inches, got {width:g}. A column of a paper has about 3.3.")
    tokens = _chosen.set(figure_formats(formats)), _width.set(width)
    try:
        yield
    finally:
        _chosen.reset(tokens[0])
        _width.reset(tokens[1])


def save_figure(figure: Figure, path: Path, **options: Any) -> list[Path]:
    """Write a figure to a .png, and next to it in the other chosen formats; returns all paths, the .png first."""
    import matplotlib

    if (width := _width.get()) is not None:
        _set_width(figure, width)
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


def _set_width(figure: Figure, width: float) -> None:
    """Scale a figure to a width: text shrinks with it as far as it can be read, and panels in a row are stacked."""
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    before, height = figure.get_size_inches()
    specs = [axes.get_subplotspec() for axes in figure.axes]
    grids = {spec.get_gridspec() for spec in specs if spec is not None}
    grid = grids.pop() if len(grids) == 1 and not figure.subfigs and None not in specs else None
    if grid is not None and grid.nrows == 1 and width / grid.ncols < PANEL:
        across = max(1, int(width / PANEL))
        down = -(-grid.ncols // across)
        stacked = figure.add_gridspec(down, across)
        for at, axes in enumerate(figure.axes):
            axes.set_subplotspec(stacked[divmod(at, across)])
        before, height = before * across / grid.ncols, height * down
    share = min(1.0, width / before)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_fontsize(max(min(SMALLEST, text.get_fontsize()), share * text.get_fontsize()))
    for line in figure.findobj(Line2D):
        assert isinstance(line, Line2D)
        line.set_linewidth(share * line.get_linewidth())
        line.set_markersize(share * line.get_markersize())
    rows = max((spec.rowspan.stop for axes in figure.axes if (spec := axes.get_subplotspec()) is not None), default=1)
    height = max(height * width / before, ROW * rows)
    for legend in figure.legends if width < NARROW else []:
        legend.set_loc("outside lower center")  # beside the panels there is no room
        height += 0.2 * (2 + len(legend.get_texts()))
    figure.set_size_inches(width, height)
