"""A run directory of `correlate`: correlations.json, one CSV per table, two LaTeX files, figures, and a page with everything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardsight.files.checksums import sha256
from hardsight.files.run import Run, check_run_directory
from hardsight.files.writing import write_json, write_text
from hardsight.human.comparisons import Row, ends_of
from hardsight.human.correlations import Correlations
from hardsight.human.settings import CorrelateSettings
from hardsight.render import html_page
from hardsight.render.saving import save_figure
from hardsight.render.showing import escaped, tabular
from hardsight.screen import ShownTable, spoken
from hardsight.table import write_table

COMMAND = "hardsight correlate"


class AgreementRun:
    """The directory to write; refused before anything slow if it cannot be, or if it holds another run."""

    def __init__(self, output: str | os.PathLike[str], x: Any, human: Any, settings: CorrelateSettings) -> None:
        self.directory = check_run_directory(output, COMMAND)
        models = list(x) if isinstance(x, (list, tuple, Mapping)) else [x]
        self.arguments = {"runs": list(map(_named, models)), "human": None if human is None else _named(human)}
        self.arguments |= settings.as_dict()
        self.files = [Path(source) for source in (human, settings.superclasses) if isinstance(source, (str, os.PathLike))]
        if self.directory.is_dir() and any(self.directory.iterdir()):
            self._begin()

    def _begin(self) -> Run:
        inputs = {str(file): sha256(file) for file in self.files if file.is_file()}
        return Run(self.directory, COMMAND, self.arguments, inputs)

    def write(self, found: Correlations) -> None:
        """Write every file."""
        run = self._begin()
        with run.only_writer():
            _write(run, found)
        found.run = run.directory


def _named(source: Any) -> str:
    return str(source) if isinstance(source, (str, os.PathLike)) else type(source).__name__


def _write(run: Run, found: Correlations) -> None:
    directory = run.directory
    written = [directory / "correlations.json"]
    write_json(written[0], found.to_dict())
    for name, table in found.tables().items():
        if len(table):
            written.append(directory / f"{name}.csv")
            write_table(table, written[-1])
    for name, text in (("table1", latex_table1(found)), ("pairs", latex_pairs(found))):
        written.append(directory / f"{name}.tex")
        write_text(written[-1], text)
    folder = run.folder("figures")
    figures = [path for name, figure in found.figures().items() for path in save_figure(figure, folder / f"{name}.png")]
    written += [*figures, directory / "report.html"]
    write_text(written[-1], agreement_page(run, found, figures))
    run.finish(written, found.summary)


# ---- the page ----

FIRST = ("hypotheses", "models", "agreement")  # tables above the figures, in this order; the others are folded below
SECTIONS = {
    "hypotheses": "The paper's hypotheses about scores and people",
    "models": "Models side by side",
    "agreement": "Scores",
    "bins": "In bins",
    "pairs": "Pairs of scores",
    "epochs": "Epochs",
    "open_set": "Unseen classes",
    "groups": "Groups",
    "superclasses": "Superclasses",
    "calibration": "Calibration",
    "disagreement": "Where people and the model disagree",
}

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
        parts += [html_page.heading(SECTIONS[name]), *map(_html_table, by_name.pop(name))] if name in by_name else []
    parts += [html_page.heading("Figures") if figures else "", html_page.figures(figures, wide=True)]
    parts += [html_page.folded(SECTIONS.get(name, name), *map(_html_table, tables)) for name, tables in by_name.items()]
    parts += [html_page.paragraph(f"Note: {note}", "quiet") for note in found.notes]
    parts += [html_page.again(run.start["words"]), html_page.settings(run.start)]
    return html_page.page("Do scores agree with people?", sentence, *parts, style=WRAPPED)


def _html_table(table: ShownTable) -> str:
    of = ", ".join(f"n = {value:,}" if name == "n" else str(value) for name, value in table.of.items())
    title = None if table.name == "agreement" else table.title  # what agreement means is the first sentence of the page
    caption = ": ".join(filter(None, [of, title]))
    return html_page.paragraph(caption, "quiet") + html_page.table(list(table.header), table.rows, words=table.words)


# ---- LaTeX ----


def latex_table1(found: Correlations) -> str:
    """Table 1 for every model and target: Spearman's coefficient over all samples and in bins."""
    parts = []
    for agreement in found.agreements:
        rows = [row for row in agreement.singles if row["kind"] == "spearman"]
        bins = list(dict.fromkeys(row["bin"] for row in rows))
        of = {(row["score"], row["bin"]): row for row in rows}
        first = next(iter(agreement.scores))
        body = [["samples", "", *(str(of[first, part]["n"]) for part in bins)]]
        for name in agreement.scores:
            z = of[name, "all"]["fisher_z"]
            body.append([escaped(spoken(name)), _number(z), *(_with_interval(of[name, part]) for part in bins)])
        header = ["score", "$z$", *("total" if part == "all" else f"${part}$" for part in bins)]
        caption = (
            f"Spearman's rank correlation with {escaped(agreement.target.words)}, {escaped(agreement.model)}. "
            "Positive: what is hard for people is hard by the score. "
            f"In brackets: {_percent(found)} intervals. "
            "Bins are closed below and open above; the last one is closed. -- : no coefficient."
        )
        parts.append(tabular(header, body, caption))
    return "\n".join(parts)


def latex_pairs(found: Correlations) -> str:
    """Tables 2 and 6 to 9: every pair of scores of every model."""
    header = ["scores", "$r_1$", "$r_2$", "$Z_1$", "$Z_2$", "$z$ indep.", "$t$ Williams", "$z$ Steiger", "$z$ Meng"]
    header += [f"$r_1 - r_2$, {_percent(found)}", "$p$", "$p$ Holm"]
    parts = []
    for model in dict.fromkeys(row["model"] for row in found.pair_rows):
        body = [_pair_cells(row) for row in found.pair_rows if row["model"] == model]
        caption = (
            f"Pairs of scores, {escaped(model)}. The interval and $p$ are of the paired bootstrap (Kendall: jackknife); "
            "the $z$ of independent groups is the AVH paper's and ignores that both scores are of the same images."
        )
        parts.append(tabular(header, body, caption))
    return "\n".join(parts)


def _pair_cells(row: Row) -> list[str]:
    words = f"{spoken(row['first'])} -- {spoken(row['second'])}, {row['kind'].capitalize()}"
    coefficients = [_number(row[key]) for key in ("r_first", "r_second", "z_first", "z_second")]
    tests = [_number(row[key], ".2f") for key in ("independent_z", "williams_t", "steiger_z", "meng_z")]
    ends = f"[{_number(row['trusted_low'], '+.3f')}, {_number(row['trusted_high'], '+.3f')}]"
    return [escaped(words), *coefficients, *tests, ends, _p(row["trusted_p"]), _p(row["holm_p"])]


def _percent(found: Correlations) -> str:
    return f"{100 * found.settings.level:g}\\,\\%"


def _number(value: Any, form: str = ".3f") -> str:
    return "--" if value is None else f"${value:{form}}$"


def _with_interval(row: Row) -> str:
    """A coefficient with the ends of its interval below the line, where it takes little room."""
    low, high = ends_of(row)
    if row["agreement"] is None or low is None:
        return _number(row["agreement"])
    return f"${row['agreement']:.3f}_{{[{low:.2f},\\,{high:.2f}]}}$"


def _p(value: Any) -> str:
    if value is None:
        return "--"
    return "$<10^{-5}$" if value < 1e-5 else f"${value:.5f}$" if value < 1e-3 else f"${value:.3f}$"
