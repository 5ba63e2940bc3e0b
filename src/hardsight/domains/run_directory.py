"""The run directory of `adapt` and `generalize`: one process writes it, and the tables, the figures and the page come last."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hardsight.files.run import Run
from hardsight.files.writing import write_text
from hardsight.screen import Say
from hardsight.table import write_table

if TYPE_CHECKING:
    from hardsight.domains.adapt_result import Adapted
    from hardsight.domains.generalize_result import Generalized


@contextlib.contextmanager
def started_run(
    output: str | os.PathLike[str], command: str, arguments: dict[str, Any], fingerprints: dict[str, Any], say: Say
) -> Iterator[Run | None]:
    """The run, new or to be resumed, and nobody else writes it; None where it is complete already."""
    from hardsight.dynamics.gathering import num_processes
    from hardsight.training.processes import one_writes

    with one_writes():
        run = Run(Path(output), command, {**arguments, "processes": num_processes()}, fingerprints)
        if run.complete:
            say(f"{output} is complete already")
            yield None
            return
        with run.only_writer():
            yield run


def finish_run(
    run: Run, tables: Mapping[str, pa.Table], trained: Iterable[Path], read: Callable[[Path], Adapted | Generalized]
) -> None:
    """Write NAME.parquet of each table, figures/ and report.html; then the run is complete."""
    from hardsight.render.saving import save_figure
    from hardsight.render.showing import as_page
    from hardsight.training.processes import is_first

    if not is_first():
        return
    parts = sorted(trained)
    for name, table in tables.items():
        parts.append(run.directory / f"{name}.parquet")
        write_table(table, parts[-1])
    result = read(run.directory)
    drawn = [
        path for name, figure in result.figures().items() for path in save_figure(figure, run.folder("figures") / f"{name}.png")
    ]
    report = run.directory / "report.html"
    write_text(report, as_page(result, drawn, run.start))
    run.finish([*parts, *drawn, report], result.summary)
