"""A run directory of `correlate`: correlations.json, one CSV per table, two LaTeX files, figures, and a page with everything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardsight.files.checksums import sha256
from hardsight.files.run import Run, check_run_directory
from hardsight.files.writing import write_json, write_text
from hardsight.human.correlations import Correlations
from hardsight.human.settings import CorrelateSettings
from hardsight.render import html_page
from hardsight.render.saving import save_figure
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
    folder = run.folder("figures")
    figures = [path for name, figure in found.figures().items() for path in save_figure(figure, folder / f"{name}.png")]
    written += [*figures, directory / "report.html"]
    write_text(written[-1], agreement_page(run, found, figures))
    run.finish(written, found.summary)


# ---- the page ----

FIRST = ("hypotheses", "models", "agreement")  # tables above the figures, in this order; the others are folded below
WRAPPED = ".wide .word { white-space: normal; max-width: 20rem }"  # wrap sentences in cells, so that the table is not cut off


def agreement_page(run: Run, found: Correlations, figures: Sequence[Path]) -> str:
    """A single self-contained HTML file."""
    from hardsight.human.lines import for_whom

    by_name: dict[str, list[ShownTable]] = {}
    for item in found.lines(verbose=True):
        if isinstance(item, ShownTable):
            by_name.setdefault(item.name, []).append(item)
    first, models = found.agreement(), dict.fromkeys(agreement.model for agreement in found.main)
    sentence = (
        f"Agreement of scores with {first.target.words}, of {first.n:,} samples and {len(models)} "
        f"model{'s' if len(models) > 1 else ''}: {', '.join(models)}. It is positive if samples that are hard by the score are "
        f"hard {for_whom(first)}, too."
    )
    parts = []
    for name in FIRST:
        parts += [html_page.heading(name.capitalize()), *map(_html_table, by_name.pop(name))] if name in by_name else []
    parts += [html_page.heading("Figures") if figures else "", html_page.figures(figures, wide=True)]
    parts += [html_page.folded(name.capitalize(), *map(_html_table, tables)) for name, tables in by_name.items()]
    parts += [html_page.paragraph(f"Note: {note}", "quiet") for note in found.notes]
    parts += [html_page.again(run.start["words"]), html_page.settings(run.start)]
    return html_page.page("Do scores agree with people?", sentence, *parts, style=WRAPPED)


def _html_table(table: ShownTable) -> str:
    of = ", ".join(f"n = {value:,}" if name == "n" else str(value) for name, value in table.of.items())
    title = None if table.name == "agreement" else table.title  # what agreement means is the first sentence of the page
    caption = ": ".join(filter(None, [of, title]))
    return html_page.paragraph(caption, "quiet") + html_page.table(list(table.header), table.rows, words=table.words)
