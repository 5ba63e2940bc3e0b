"""A study as files: JSON, CSV, LaTeX, figures and a page, in a run directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.files.run import Run
from hardsight.files.writing import replacing, write_json
from hardsight.human import latex
from hardsight.human.calibration import Calibration
from hardsight.human.comparisons import Agreement
from hardsight.human.correlate import Correlations
from hardsight.human.disagreement import Disagreement
from hardsight.human.models import score_axis, score_words
from hardsight.human.page import agreement_page
from hardsight.human.study import Study
from hardsight.human.tables import Row
from hardsight.render.saving import save_figure
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
    for name, text in (("table1", latex.table1(correlations)), ("pairs", latex.pairs(correlations))):
        written.append(directory / f"{name}.tex")
        with replacing(written[-1]) as temporary:
            temporary.write_text(text, encoding="utf-8")
    figures = _figures(run.folder("figures"), study)
    written += [*figures, directory / "report.html"]
    with replacing(written[-1]) as temporary:
        temporary.write_text(agreement_page(run, study, figures), encoding="utf-8")
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
        beside = side_by_side(_first_target(correlations), target=target, words=score_words, level=correlations.settings.level)
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


def _first_target(correlations: Correlations) -> list[Row]:
    """The models side by side, for the target named in the figure."""
    return [row for row in correlations.models().to_pylist() if row["target"] == correlations.of().target.key]


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
