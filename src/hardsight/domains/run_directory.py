"""The run directory of `adapt` and `generalize`: early checks, one writer, trainings that are resumed, tables, the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hardsight.domains.settings import DomainOptions
from hardsight.errors import require_installed
from hardsight.files.reading import read_json
from hardsight.files.run import Run, check_run_directory
from hardsight.files.writing import write_json, write_text
from hardsight.models.network_names import check_network_name
from hardsight.models.weights import check_weights_file
from hardsight.screen import Progress
from hardsight.table import write_table

if TYPE_CHECKING:
    from hardsight.domains.adapt_models import AdaptWork
    from hardsight.domains.adapt_result import Adapted
    from hardsight.domains.generalize_models import GeneralizeWork
    from hardsight.domains.generalize_result import Generalized

History = list[dict[str, Any]]  # one entry per round or epoch of a training


def refuse_early(settings: DomainOptions, output: str | os.PathLike[str], command: str) -> None:
    """Check what can be checked before data is opened and torch, which takes seconds, is loaded."""
    require_installed("torch", extra="torch", purpose=command)
    check_network_name(settings.model)
    check_weights_file(settings.weights)
    check_run_directory(output, command)


def write_run(
    output: str | os.PathLike[str], command: str, work: AdaptWork | GeneralizeWork, progress: Progress | None,
    read: Callable[[Path], Adapted | Generalized], notes: Iterable[str] = (),
) -> None:  # fmt: skip
    """Start the run or resume it; a complete one is left as it is.

    Args:
        output: the directory.
        command: such as `hardsight adapt`.
        work: what the run is made of.
        read: the result, from its directory.
        notes: messages for the user, if there is anything to train.
    """
    from hardsight.dynamics.gathering import num_processes
    from hardsight.training.processes import one_writes

    with one_writes() as writes:
        run = Run(Path(output), command, {**work.arguments(), "processes": num_processes()}, work.fingerprints())
        if run.complete:
            work.say(f"{output} is complete already")
            return
        with run.only_writer():
            for note in notes:
                work.say(note)
            tables = work.all(run.directory, progress if writes else None)
            if writes:
                _finish_run(run, tables, work.trained_files(run.directory), read)


# ---- trainings that are complete are not trained again ----


def finished(path: Path) -> History | None:
    """The history of a training, if it is complete."""
    from hardsight.training.processes import wait

    history = read_json(path) if path.is_file() else None
    wait()  # all processes have looked before one of them writes it
    return history


def finish(path: Path, history: History) -> None:
    """Mark a training as complete; its checkpoints are not needed any more."""
    from hardsight.training.checkpoint import Checkpoints

    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, history)
    Checkpoints(path.parent / "checkpoints").remove()


@dataclass
class Steps:
    """The progress of all trainings as one count of epochs and rounds; trainings come one after another."""

    progress: Progress | None
    total: int
    done: int = 0

    def next(self, words: str, length: int) -> Callable[[int], None]:
        """What the next training, of this length, calls with how far it has come."""
        start = self.done
        self.done += length
        return lambda number: None if self.progress is None else self.progress(start + number, self.total, words)


# ---- tables, figures and the page ----


def _finish_run(
    run: Run, tables: Mapping[str, pa.Table], trained: Iterable[Path], read: Callable[[Path], Adapted | Generalized]
) -> None:
    """Write NAME.parquet of each table, figures/ and report.html; then the run is complete."""
    from hardsight.render.saving import save_figure

    parts = sorted(trained)
    for name, table in tables.items():
        parts.append(run.directory / f"{name}.parquet")
        write_table(table, parts[-1])
    result = read(run.directory)
    drawn = [
        path for name, figure in result.figures().items() for path in save_figure(figure, run.folder("figures") / f"{name}.png")
    ]
    report = run.directory / "report.html"
    write_text(report, result.page(run.start, drawn))
    run.finish([*parts, *drawn, report], result.summary)
