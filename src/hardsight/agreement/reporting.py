"""Everything `correlate` found, as files: JSON, CSV, LaTeX and figures, in a run directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.agreement import latex
from hardsight.agreement.calibrated import Calibration
from hardsight.agreement.comparing import Agreement, Row
from hardsight.agreement.correlations import Correlations
from hardsight.agreement.disagreement import MODEL_HARD, PEOPLE_HARD, Disagreement
from hardsight.files.run import Run
from hardsight.files.writing import replacing, write_json
from hardsight.table import write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Beside:
    """What was asked for beside the coefficients."""

    calibrations: list[Calibration] = field(default_factory=list)
    disagreements: list[tuple[str, Disagreement]] = field(default_factory=list)  # by model
    open_set: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    coarse: Correlations | None = None
    coarse_groups: list[Row] = field(default_factory=list)
    images: Callable[[Any], Any] | None = None


def save(run: Run, found: Correlations, beside: Beside) -> None:
    """Write the run: correlations.json, one CSV per table, two LaTeX files, figures."""
    directory = run.directory
    written = [directory / "correlations.json"]
    write_json(written[0], as_json(found, beside))
    tables = {
        "table1": found.table1(), "pairs": found.pairs(), "hypotheses": found.hypotheses(), "models": found.models(),
        "ceilings": found.ceilings(), "checkpoints": found.checkpoints(),
    }  # fmt: skip
    if beside.coarse is not None:
        tables |= {"coarse_table1": beside.coarse.table1(), "coarse_pairs": beside.coarse.pairs()}
    for name, rows in _extra_rows(beside).items():
        table = pa.Table.from_pylist(rows)
        empty = [(column.name, pa.string() if pa.types.is_null(column.type) else column.type) for column in table.schema]
        tables[name] = table.cast(pa.schema(empty))  # a CSV has no column without a type
    for name, table in tables.items():
        if len(table):
            written.append(directory / f"{name}.csv")
            write_table(table, written[-1])
    for name, text in (("table1", latex.table1(found)), ("pairs", latex.pairs(found))):
        written.append(directory / f"{name}.tex")
        with replacing(written[-1]) as temporary:
            temporary.write_text(text, encoding="utf-8")
    written += _figures(run.folder("figures"), found, beside)
    counts = {
        "models": len(found.main),
        "samples": found.of().n,
        "coefficients": len(tables["table1"]),
        "pairs": len(tables["pairs"]),
    }
    run.finish(written, counts)


def _extra_rows(beside: Beside) -> dict[str, list[Row]]:
    split = [
        {"model": model, "quadrant": words, **{key: value for key, value in row.items() if key != "row"}}
        for model, one in beside.disagreements
        for words, rows in ((MODEL_HARD, one.model_hard), (PEOPLE_HARD, one.people_hard))
        for row in rows
    ]
    found = {
        "disagreement": split,
        "calibration": [row for one in beside.calibrations for row in one.effects],
        "open_set": beside.open_set,
        "groups": beside.groups,
        "superclasses": beside.coarse_groups,
    }
    return {name: rows for name, rows in found.items() if rows}


def as_json(found: Correlations, beside: Beside) -> dict[str, Any]:
    """All of it as one JSON document."""
    told = found.to_dict()
    told["calibration"] = [_calibration(one) for one in beside.calibrations]
    told["disagreement"] = [{"model": model, **asdict(one)} for model, one in beside.disagreements]
    told["open_set"] = beside.open_set
    told["groups"] = beside.groups
    told["coarse"] = None if beside.coarse is None else beside.coarse.to_dict() | {"superclasses": beside.coarse_groups}
    return told


def _calibration(one: Calibration) -> dict[str, Any]:
    def curve(of: Any) -> dict[str, Any]:
        lists = {key: [None if np.isnan(x) else x for x in getattr(of, key).tolist()] for key in ("confidence", "accuracy")}
        return {"ece": of.ece, "edges": of.edges.tolist(), "count": of.count.tolist(), **lists}

    told = {key: getattr(one, key) for key in ("model", "temperature", "fitted_to", "judged_on", "effects")}
    return told | {"before": curve(one.before), "after": curve(one.after)}


def _figures(folder: Path, found: Correlations, beside: Beside) -> list[Path]:
    from hardsight.plots.agreement import over_epochs, quadrants, reliability_diagram, side_by_side

    drawn: dict[str, Figure] = {}
    for one in found.main:
        drawn[f"{_file(one.model)}-{_file(one.target.key)}"] = found.draw(one)
    if len({one.model for one in found.main}) > 1:
        drawn["models"] = side_by_side(found.models().to_pylist(), target=found.of().target.words)
    if found.epochs:
        drawn["epochs"] = over_epochs(found.epochs, target=found.of().target.words)
    for calibration in beside.calibrations:
        curves = {"as it is": calibration.before, f"temperature {calibration.temperature:.2f}": calibration.after}
        title = f"Calibration of {calibration.model}, on {calibration.judged_on} samples"
        drawn[f"{_file(calibration.model)}-reliability"] = reliability_diagram(curves, title=title)
    for model, parted in beside.disagreements:
        if beside.images is not None:
            cases = {MODEL_HARD: parted.model_hard, PEOPLE_HARD: parted.people_hard}
            corners = {words: _captioned(rows, parted, beside.images) for words, rows in cases.items()}
            title = f"Where people and {model} disagree, by {parted.score}"
            drawn[f"{_file(model)}-disagreement"] = quadrants(corners, parted.counts, title=title)
    if beside.coarse is not None:
        for one in beside.coarse.main:
            drawn[f"{_file(one.model)}-superclasses"] = beside.coarse.draw(one)
            drawn[f"{_file(one.model)}-superclass-norm"] = _norm_by_superclass(beside, one)
    paths = []
    for name, figure in drawn.items():
        paths.append(folder / f"{name}.png")
        with replacing(paths[-1]) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
    return paths


def _norm_by_superclass(beside: Beside, one: Agreement) -> Figure:
    """Figure 19: the norm against the frequency, inside the superclasses with the most, the middle and the fewest samples."""
    from hardsight.plots.agreement import histograms

    assert beside.coarse is not None
    name = "norm" if "norm" in one.scores else next(iter(one.scores))
    model = next(opened for opened in beside.coarse.opened if opened.name == one.model)
    names, label = model.class_names or [], model.labels[one.rows]
    sizes = {k: int((label == k).sum()) for k in range(len(names))}
    order = sorted((k for k in sizes if sizes[k]), key=lambda k: -sizes[k])
    shown = list(dict.fromkeys([order[0], order[len(order) // 2], order[-1]]))
    told = {(row["model"], row["group"], row["score"]): row["agreement"] for row in beside.coarse_groups}
    panels = []
    for k in shown:
        r = told.get((one.model, names[k], name))
        words = "no coefficient" if r is None else f"agreement {r:+.3f}"
        panels.append((name, one.scores[name][label == k], f"{names[k]}, n = {sizes[k]}: {words}"))
    values = [one.values[label == k] for k in shown]
    return histograms(panels, values, target=one.target.words, title=f"{one.model}, within superclasses")


def _captioned(rows: Sequence[Row], one: Disagreement, images: Callable[[Any], Any]) -> list[tuple[Any, str]]:
    found = []
    for row in rows:
        (key,) = [key for key in row if key not in ("id", "row", "label", "predicted", "apart", one.score)]
        seen = "" if row["predicted"] is None else f"\nseen as {row['predicted']}"
        caption = f"given {row['label']}{seen}\npeople {row[key]:.2f}, {one.score} {row[one.score]:.3f}"
        found.append((images(row["id"]), caption))
    return found


def _file(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:60] or "model"
