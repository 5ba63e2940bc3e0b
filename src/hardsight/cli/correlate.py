"""`hardsight correlate`: scores and human data in, coefficients, tests and verdicts out."""

from __future__ import annotations

from pathlib import Path

import typer

from hardsight.cli import command
from hardsight.human.settings import StudySettings
from hardsight.options import COMMON

COMMAND = "hardsight correlate"


@command(StudySettings, figures=True)
def correlate(
    settings: StudySettings,
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Runs, snapshots or tables of scores; several are compared side by side."
    ),
    human: Path = typer.Option(None, metavar="FILE", help=COMMON["human"][1]),
    output: Path = typer.Option(
        None, "-o", "--output", metavar="RUN", help="Run directory to write: JSON, CSV, LaTeX, figures, report.html."
    ),
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
    from hardsight.files.checksums import sha256
    from hardsight.files.run import Run, check_run_directory
    from hardsight.human.printing import print_study
    from hardsight.human.study import study
    from hardsight.human.study_files import save
    from hardsight.screen import print_line, print_wrote, progress_bar

    def begin() -> Run:
        arguments = {"runs": list(map(str, runs)), "human": None if human is None else str(human), **settings.as_dict()}
        files = [Path(file) for file in (human, settings.superclasses) if file is not None]
        inputs = {str(file): sha256(file) for file in files if file.is_file()}
        return Run(output, COMMAND, arguments, inputs)

    if output is not None:  # what would be refused at the end is refused now
        check_run_directory(output, COMMAND)
        if output.is_dir() and any(output.iterdir()):
            begin()
    with progress_bar("bootstrap") as progress:
        result = study(list(runs), human, settings=settings, progress=progress)
    print_study(result, verbose)
    if output is None and not verbose:
        print_line("--verbose prints every table; -o DIRECTORY writes them, with figures")
    if output is not None:
        run = begin()
        with run.only_writer():
            save(run, result)
        print_wrote(output, ": correlations.json, table1 and pairs as .csv and .tex, figures/, report.html")
