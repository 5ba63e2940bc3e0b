"""`hardsight report`: one HTML file to keep or to send. Next: explorer/report.py."""

from __future__ import annotations

from pathlib import Path

from hardsight.cli import argument, command, writes
from hardsight.explorer.settings import ReportSettings


@command(ReportSettings, prints="lines")
def report(
    settings: ReportSettings,
    x: str = argument("RUN", "Run directory, or a file: a scores table, a snapshot, a wide table."),
    output: Path = writes("File to write. Default: report.html in the run directory."),
) -> None:
    """Write a run as one HTML file to keep or send.

    It contains the numbers, figures, the hardest samples and the interactive scatter, and needs no server.

    \b
    Example:
        hardsight report hardsight-demo -o digits.html
    """
    from hardsight.explorer.report import report as write_report
    from hardsight.screen import print_wrote, progress_bar

    with progress_bar("scoring") as progress:
        path = write_report(x, output, settings=settings, progress=progress)
    print_wrote(path, f" ({path.stat().st_size / 1e6:.1f} MB)")
