"""The page of `hardsight correlate`: verdicts, every table that `--verbose` prints, figures, and settings."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from hardsight.files.run import Run
from hardsight.human.printing import for_whom, print_study
from hardsight.human.study import Study
from hardsight.render import html_page as rp
from hardsight.screen import ShownTable, showing

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


def agreement_page(run: Run, study: Study, figures: Sequence[Path]) -> str:
    """A single self-contained HTML file."""
    with showing(json=True) as shown, redirect_stdout(io.StringIO()):
        print_study(study, verbose=True)
    by_name: dict[str, list[ShownTable]] = {}
    for table in shown.tables:
        by_name.setdefault(table.name, []).append(table)
    correlations = study.correlations
    target, models = correlations.of().target, dict.fromkeys(agreement.model for agreement in correlations.main)
    sentence = (
        f"Agreement of scores with {target.words}, of {correlations.of().n:,} samples and {len(models)} "
        f"model{'s' if len(models) > 1 else ''}: {', '.join(models)}. It is positive if samples that are hard by the score are "
        f"hard {for_whom(correlations.of())}, too."
    )
    parts = [_section(name, by_name.pop(name)) for name in FIRST if name in by_name]
    parts += [rp.heading("Figures") if figures else "", rp.figures(figures, wide=True)]
    parts += [rp.folded(SECTIONS.get(name, name), *map(_table, tables)) for name, tables in by_name.items()]
    parts += [rp.paragraph(f"Note: {note}", "quiet") for note in correlations.notes]
    return rp.page(
        "Do scores agree with people?", sentence, *parts, rp.again(run.start["words"]), rp.settings(run.start), style=WRAPPED
    )


def _section(name: str, tables: Sequence[ShownTable]) -> str:
    return "\n".join([rp.heading(SECTIONS[name]), *map(_table, tables)])


def _table(table: ShownTable) -> str:
    of = ", ".join(f"n = {value:,}" if name == "n" else str(value) for name, value in table.of.items())
    title = None if table.name == "agreement" else table.title  # what agreement means is the first sentence of the page
    caption = ": ".join(filter(None, [of, title]))
    return rp.paragraph(caption, "quiet") + rp.table(list(table.header), table.rows, words=table.words)
