"""The run of `adapt` and `generalize`: one process writes it, and the tables, the figures and the page come last.

The work between is `trained_tables` of adapt_models.py or generalize_models.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hardsight.files.run import Run
from hardsight.files.writing import write_text
from hardsight.result import Result, RunResult
from hardsight.screen import Progress
from hardsight.table import write_table

if TYPE_CHECKING:
    from hardsight.domains.adapt_models import AdaptWork
    from hardsight.domains.generalize_models import GeneralizeWork

Kind = TypeVar("Kind", bound=RunResult)


def run_comparison(
    work: AdaptWork | GeneralizeWork, output: str | os.PathLike[str], command: str, result: type[Kind], progress: Progress | None
) -> Kind:
    """Train what a new or interrupted run lacks, and finish it; a complete one is read."""
    from hardsight.dynamics.gathering import num_processes
    from hardsight.training.processes import is_first, one_writes

    with one_writes():
        run = Run(Path(output), command, {**work.arguments(), "processes": num_processes()}, work.fingerprints())
        if run.complete:
            work.say(f"{output} is complete already")
            return result(output)
        with run.only_writer():
            tables = work.trained_tables(run.directory, progress)
            if is_first():
                paths = {run.directory / f"{name}.parquet": table for name, table in tables.items()}
                for path, table in paths.items():
                    write_table(table, path)
                finish_drawn(run, [*sorted(work.trained_files(run.directory)), *paths], result(run.directory))
    return result(output)


def finish_drawn(run: Run, parts: list[Path], result: Result) -> None:
    """Write figures/ and report.html; then the run is complete."""
    from hardsight.render.saving import save_figure
    from hardsight.render.showing import as_page

    folder = run.folder("figures")
    drawn = [path for name, figure in result.figures().items() for path in save_figure(figure, folder / f"{name}.png")]
    report = run.directory / "report.html"
    write_text(report, as_page(result, drawn, run.start))
    run.finish([*parts, *drawn, report], result.summary)
