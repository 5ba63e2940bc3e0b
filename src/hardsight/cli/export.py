"""`hardsight export`: a run for other tools. Next: exporting/export.py."""

from __future__ import annotations

import typer

from hardsight.cli import argument, command, writes
from hardsight.exporting.settings import TOOLS, ExportSettings


@command(ExportSettings, prints="lines")
def export(
    settings: ExportSettings,
    x: str = argument("RUN", "Run directory, or a file: a scores table, a snapshot, a wide table."),
    to: str = typer.Option(..., "--to", metavar=f"[{'|'.join(TOOLS)}]", help="Tool to export to."),
    output: str = writes("Directory to write. Default: next to the run, such as run-coco.", "DIR"),
) -> None:
    """Export samples and scores to another tool.

    Includes suspects and marks, if there are any. Image files stay where they are; images from arrays are written as PNG,
    and hub holds the images themselves.

    \b
    Example:
        hardsight export hardsight-demo --to labelstudio
    """
    from hardsight.exporting.export import export as write_export
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("scoring") as progress:
        done = write_export(x, to, output, settings=settings, progress=progress)
    for note in done.notes:
        print_line(note)
    print_wrote(done.folder, f" ({done.samples:,} samples)")
    print_line(f"open it with: {done.opens}", samples=done.samples, opens=done.opens, notes=done.notes)
