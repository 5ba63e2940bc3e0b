"""A run directory of `correlate`: correlations.json, one CSV per table, two LaTeX files, figures, and a page with everything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardsight.domains.run_directory import finish_drawn
from hardsight.files.checksums import sha256
from hardsight.files.run import Run, check_run_directory
from hardsight.files.writing import write_json, write_text
from hardsight.human.correlations import Correlations
from hardsight.human.settings import CorrelateSettings
from hardsight.render.showing import as_latex
from hardsight.screen import ShownTable
from hardsight.table import write_table

COMMAND = "hardsight correlate"
LATEX = {"table1": ("agreement", "bins"), "pairs": ("pairs",)}  # file -> the printed tables in it


class AgreementRun:
    """The directory to write; refused before anything slow if it cannot be, or if it holds another run."""

    def __init__(self, output: str | os.PathLike[str], x: Any, human: Any, settings: CorrelateSettings) -> None:
        self.directory = check_run_directory(output, COMMAND)
        models = list(x) if isinstance(x, (list, tuple, Mapping)) else [x]
        self.arguments = {"runs": list(map(_named, models)), "human": None if human is None else _named(human)}
        self.arguments |= settings.as_dict()
        self.human = Path(human) if isinstance(human, (str, os.PathLike)) else None
        if self.directory.is_dir() and any(self.directory.iterdir()):
            self.begin()

    def begin(self) -> Run:
        """The run, which is refused if the directory holds another one."""
        inputs = {str(self.human): sha256(self.human)} if self.human is not None and self.human.is_file() else {}
        return Run(self.directory, COMMAND, self.arguments, inputs)


def _named(source: Any) -> str:
    return str(source) if isinstance(source, (str, os.PathLike)) else type(source).__name__


def write_run(run: Run, found: Correlations) -> None:
    """Write every file."""
    directory = found.run = run.directory
    written = [directory / "correlations.json"]
    write_json(written[0], found.to_dict())
    for name, table in found.tables().items():
        if len(table):
            written.append(directory / f"{name}.csv")
            write_table(table, written[-1])
    printed = [item for item in found.lines(verbose=True) if isinstance(item, ShownTable)]
    for name, tables in LATEX.items():
        written.append(directory / f"{name}.tex")
        write_text(written[-1], "\n".join(as_latex(table) for table in printed if table.name in tables))
    finish_drawn(run, written, found)
