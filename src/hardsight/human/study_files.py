"""A study as files: JSON, CSV, LaTeX, figures and a page, in a run directory."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.files.latex import escaped, tabular
from hardsight.files.run import Run
from hardsight.files.writing import write_json, write_text
from hardsight.human.calibration import Calibration
from hardsight.human.comparisons import Agreement
from hardsight.human.correlate import Correlations
from hardsight.human.disagreement import Disagreement
from hardsight.human.models import score_axis, score_words
from hardsight.human.printing import for_whom, print_study
from hardsight.human.study import Study
from hardsight.human.tables import Row
from hardsight.render import html_page
from hardsight.render.saving import save_figure
from hardsight.screen import ShownTable, showing, spoken
from hardsight.stats.calibration import Reliability
from hardsight.table import write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(run: Run, study: Study) -> None:
    """Write the run: correlations.json, one CSV per table, two LaTeX files, figures, and a page with everything."""
    directory, correlations = run.directory, study.correlations
    written = [directory / "correlations.json"]
    write_json(written[0], as_json(study))
    tables = {
        name: getattr(correlations, name)() for name in ("table1", "pairs", "hypotheses", "models", "ceilings", "checkpoints")
    }
    if study.coarse is not None:
        tables |= {"coarse_table1": study.coarse.table1(), "coarse_pairs": study.coarse.pairs()}
    for name, rows in _extra_rows(study).items():
        table = pa.Table.from_pylist(rows)
        typed = [(column.name, pa.string() if pa.types.is_null(column.type) else column.type) for column in table.schema]
        tables[name] = table.cast(pa.schema(typed))  # a CSV cannot hold a column of null type
    for name, table in tables.items():
        if len(table):
            written.append(directory / f"{name}.csv")
            write_table(table, written[-1])
    for name, text in (("table1", latex_table1(correlations)), ("pairs", latex_pairs(correlations))):
        written.append(directory / f"{name}.tex")
        write_text(written[-1], text)
    figures = _figures(run.folder("figures"), study)
    written += [*figures, directory / "report.html"]
    write_text(written[-1], agreement_page(run, study, figures))
    counts = {
        "models": len(correlations.main),
        "samples": correlations.of().n,
        "coefficients": len(tables["table1"]),
        "pairs": len(tables["pairs"]),
    }
    run.finish(written, counts)


def _extra_rows(study: Study) -> dict[str, list[Row]]:
    cases = [
        {"model": disagreement.model, "quadrant": quadrant, **{key: value for key, value in row.items() if key != "row"}}
        for disagreement in study.disagreements
        for quadrant, rows in disagreement.cases.items()
        for row in rows
    ]
    extra = {
        "disagreement": cases,
        "calibration": [row for calibration in study.calibrations for row in calibration.effects],
        "open_set": study.open_set,
        "groups": study.groups,
        "superclasses": study.coarse_groups,
    }
    return {name: rows for name, rows in extra.items() if rows}


def as_json(study: Study) -> dict[str, Any]:
    """Everything as one JSON document."""
    coarse = study.coarse
    return {
        **study.correlations.to_dict(),
        "calibration": [_calibration(calibration) for calibration in study.calibrations],
        "disagreement": [asdict(disagreement) for disagreement in study.disagreements],
        "open_set": study.open_set,
        "groups": study.groups,
        "coarse": None if coarse is None else coarse.to_dict() | {"superclasses": study.coarse_groups},
    }


def _calibration(calibration: Calibration) -> dict[str, Any]:
    def curve(reliability: Reliability) -> dict[str, Any]:
        lists = {
            key: [None if np.isnan(x) else x for x in getattr(reliability, key).tolist()] for key in ("confidence", "accuracy")
        }
        return {"ece": reliability.ece, "edges": reliability.edges.tolist(), "count": reliability.count.tolist(), **lists}

    known = {key: getattr(calibration, key) for key in ("model", "temperature", "fitted_to", "judged_on", "effects")}
    return known | {"before": curve(calibration.before), "after": curve(calibration.after)}


def _figures(folder: Path, study: Study) -> list[Path]:
    return [path for name, figure in _drawn(study).items() for path in save_figure(figure, folder / f"{name}.png")]


def _drawn(study: Study) -> dict[str, Figure]:
    """Every figure by file name."""
    from hardsight.render.agreement import over_epochs, quadrants, reliability_diagram, side_by_side

    correlations, target = study.correlations, study.correlations.of().target.words
    drawn: dict[str, Figure] = {}
    for agreement in correlations.main:
        drawn[f"{_file(agreement.model)}-{_file(agreement.target.key)}"] = correlations.draw(agreement)
    if len({agreement.model for agreement in correlations.main}) > 1:
        rows = [row for row in correlations.models().to_pylist() if row["target"] == correlations.of().target.key]
        beside = side_by_side(rows, target=target, words=score_words, level=correlations.settings.level)
        drawn |= {} if beside is None else {"models": beside}
    if correlations.epochs:
        drawn["epochs"] = over_epochs(correlations.epochs, target=target, words=score_words, level=correlations.settings.level)
    for calibration in study.calibrations:
        curves = {"as it is": calibration.before, f"temperature {calibration.temperature:.2f}": calibration.after}
        title = f"Calibration of {calibration.model}, on {calibration.judged_on} samples"
        drawn[f"{_file(calibration.model)}-reliability"] = reliability_diagram(curves, title=title)
    if study.images is not None:
        for disagreement in study.disagreements:
            corners = {words: _captioned(rows, disagreement, study.images) for words, rows in disagreement.cases.items()}
            title = f"Where people and {disagreement.model} disagree"
            pictures = quadrants(corners, disagreement.counts, title=title, rule=disagreement.rule)
            drawn[f"{_file(disagreement.model)}-disagreement"] = pictures
    if study.coarse is not None:
        for agreement in study.coarse.main:
            drawn[f"{_file(agreement.model)}-superclasses"] = study.coarse.draw(agreement)
            norms = _norm_by_superclass(study.coarse, agreement, study.coarse_groups)
            drawn[f"{_file(agreement.model)}-superclass-norm"] = norms
    return drawn


def _norm_by_superclass(coarse: Correlations, agreement: Agreement, groups: Sequence[Row]) -> Figure:
    """Figure 19: norm against frequency, within the superclasses with the most, a medium number and the fewest samples."""
    from hardsight.render.agreement import score_histograms

    name = "norm" if "norm" in agreement.scores else next(iter(agreement.scores))
    model = coarse.model(agreement.model)
    names, label = model.class_names or [], model.labels[agreement.rows]
    sizes = {k: int((label == k).sum()) for k in range(len(names))}
    order = sorted((k for k in sizes if sizes[k]), key=lambda k: -sizes[k])
    shown = list(dict.fromkeys([order[0], order[len(order) // 2], order[-1]]))
    coefficients = {(row["model"], row["group"], row["score"]): row["agreement"] for row in groups}
    panels = []
    for k in shown:
        r = coefficients.get((agreement.model, names[k], name))
        words = "no coefficient" if r is None else f"agreement {r:+.3f}"
        panels.append((score_axis(name), agreement.scores[name][label == k], f"{names[k]}, {sizes[k]} samples: {words}"))
    values = [agreement.values[label == k] for k in shown]
    return score_histograms(panels, values, target=agreement.target.axis, title=f"{agreement.model}, within superclasses")


def _captioned(rows: Sequence[Row], disagreement: Disagreement, image_of: Callable[[Any], Any]) -> list[tuple[Any, str]]:
    """Image and caption of each case."""
    pictures, score = [], disagreement.score
    short = "AVH" if score == "avh" else score.replace("_", " ")
    for row in rows:
        (target,) = [key for key in row if key not in ("id", "row", "label", "predicted", "apart", score)]
        predicted = "" if row["predicted"] is None else f"\nseen as {row['predicted']}"
        caption = f"given {row['label']}{predicted}\npeople {100 * row[target]:.0f} %, {short} {row[score]:.3f}"
        pictures.append((image_of(row["id"]), caption))
    return pictures


def _file(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:60] or "model"


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
    parts += [html_page.heading("Figures") if figures else "", html_page.figures(figures, wide=True)]
    parts += [html_page.folded(SECTIONS.get(name, name), *map(_html_table, tables)) for name, tables in by_name.items()]
    parts += [html_page.paragraph(f"Note: {note}", "quiet") for note in correlations.notes]
    return html_page.page(
        "Do scores agree with people?",
        sentence,
        *parts,
        html_page.again(run.start["words"]),
        html_page.settings(run.start),
        style=WRAPPED,
    )


def _section(name: str, tables: Sequence[ShownTable]) -> str:
    return "\n".join([html_page.heading(SECTIONS[name]), *map(_html_table, tables)])


def _html_table(table: ShownTable) -> str:
    of = ", ".join(f"n = {value:,}" if name == "n" else str(value) for name, value in table.of.items())
    title = None if table.name == "agreement" else table.title  # what agreement means is the first sentence of the page
    caption = ": ".join(filter(None, [of, title]))
    return html_page.paragraph(caption, "quiet") + html_page.table(list(table.header), table.rows, words=table.words)


def latex_table1(correlations: Correlations) -> str:
    """Table 1 for every model and target: Spearman's coefficient over all samples and in bins."""
    parts = []
    percent = f"{100 * correlations.settings.level:g}"
    for agreement in correlations.agreements:
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
            f"In brackets: {percent}\\,\\% intervals. "
            "Bins are closed below and open above; the last one is closed. -- : no coefficient."
        )
        parts.append(tabular(header, body, caption))
    return "\n".join(parts)


def latex_pairs(correlations: Correlations) -> str:
    """Tables 2 and 6 to 9: every pair of scores of every model."""
    parts = []
    rows = correlations.pairs().to_pylist()
    percent = f"{100 * correlations.settings.level:g}"
    for model in dict.fromkeys(row["model"] for row in rows):
        body = []
        for row in (row for row in rows if row["model"] == model):
            interval = f"[{_signed(row['trusted_low'])}, {_signed(row['trusted_high'])}]"
            words = f"{spoken(row['first'])} -- {spoken(row['second'])}, {row['kind'].capitalize()}"
            numbers = [_number(row[key]) for key in ("r_first", "r_second", "z_first", "z_second")]
            tests = [
                "--" if row[key] is None else f"${row[key]:.2f}$"
                for key in ("independent_z", "williams_t", "steiger_z", "meng_z")
            ]
            body.append([escaped(words), *numbers, *tests, interval, _p(row["trusted_p"]), _p(row["holm_p"])])
        header = ["scores", "$r_1$", "$r_2$", "$Z_1$", "$Z_2$", "$z$ indep.", "$t$ Williams", "$z$ Steiger", "$z$ Meng"]
        header += [rf"$r_1 - r_2$, {percent}\,\%", "$p$", "$p$ Holm"]
        caption = (
            f"Pairs of scores, {escaped(model)}. The interval and $p$ are of the paired bootstrap (Kendall: jackknife); "
            "the $z$ of independent groups is the AVH paper's and ignores that both scores are of the same images."
        )
        parts.append(tabular(header, body, caption))
    return "\n".join(parts)


def _number(value: Any) -> str:
    return "--" if value is None else f"${value:.3f}$"


def _with_interval(row: dict[str, Any]) -> str:
    """A coefficient with the ends of its interval below the line, where it takes little room."""
    low, high = (row["low"], row["high"]) if row["bootstrap_low"] is None else (row["bootstrap_low"], row["bootstrap_high"])
    if row["agreement"] is None or low is None:
        return _number(row["agreement"])
    return f"${row['agreement']:.3f}_{{[{low:.2f},\\,{high:.2f}]}}$"


def _signed(value: Any) -> str:
    return "--" if value is None else f"${value:+.3f}$"


def _p(value: Any) -> str:
    if value is None:
        return "--"
    return "$<10^{-5}$" if value < 1e-5 else f"${value:.5f}$" if value < 1e-3 else f"${value:.3f}$"
