"""`hardsight correlate`: scores and human data in, coefficients, tests and verdicts out. Next: human/correlate.py."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import argument, command, writes
from hardsight.human.settings import CorrelateSettings
from hardsight.options import COMMON


@command(CorrelateSettings, figures=True)
def correlate(
    settings: CorrelateSettings,
    runs: list[Path] = argument("RUN...", "Runs, snapshots or tables of scores; several are compared side by side."),
    human: Path = typer.Option(None, metavar="FILE", help=COMMON["human"][1]),
    output: Path = writes("Run directory to write: JSON, CSV, LaTeX, figures, report.html.", "RUN"),
    verbose: bool = typer.Option(
        False, "-v", "--verbose", help="Print every table: bins, pairs of scores, calibration and disagreement of each model."
    ),
) -> None:
    """Test whether scores agree with people.

    Computes Tables 1, 2 and 6 to 9 of the AVH paper for your model.

    \b
    Example:
        hardsight correlate run --human counts.npy -o agreement
        hardsight correlate degraded --against level
    """
    from hardsight.human.correlate import correlate
    from hardsight.render.showing import show_lines
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("bootstrap") as progress:
        found = correlate(list(runs), human, output=output, settings=settings, progress=progress)
    show_lines(found.lines(verbose))
    for note in found.notes:
        print_line(f"note: {note}", notes=found.notes)
    if output is None and not verbose:
        print_line("--verbose prints every table; -o DIRECTORY writes them, with figures")
    if output is not None:
        print_wrote(output, ": correlations.json, table1 and pairs as .csv and .tex, figures/, report.html")
