"""What a run of self-training leaves for people: tables, figures, and one page with both."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hardsight.adapt.settings import SOURCE_ONLY
from hardsight.adapt.tables import Results, accuracy_table, difference_table, rounds_table, selection_table
from hardsight.data import BrokenImage, ImageData
from hardsight.plots.adaptation import accuracy_per_round, thumbnails
from hardsight.run import Run
from hardsight.table import write_table
from hardsight.writing import replacing

SHOWN = 18  # thumbnails
TABLES = {
    "accuracy": ("Accuracy on the target after the last round", accuracy_table),
    "differences": ("Differences between methods, run by run, with 95 % intervals", difference_table),
    "selection": ("What the first round selected", selection_table),
    "rounds": ("Round by round", rounds_table),
}


def write_report(run: Run, results: Results, images: dict[str, ImageData], folder_of: Any) -> list[Path]:
    """accuracy, differences, selection and rounds as Parquet, figures/, and report.html.

    Args:
        images: pair -> pictures of its target, where there are any.
        folder_of: (pair, method, seed) -> where its rounds are.
    """
    written, tables = [], {}
    for name, (_, make) in TABLES.items():
        tables[name] = make(results)
        write_table(tables[name], run.directory / f"{name}.parquet")
        written.append(run.directory / f"{name}.parquet")
    figures = [*_curves(run, results), *_only_by_score(run, results, images, folder_of)]
    page = run.directory / "report.html"
    with replacing(page) as temporary:
        temporary.write_text(_page(tables, figures), encoding="utf-8")
    return [*written, *figures, page]


def _curves(run: Run, results: Results) -> list[Path]:
    """Figure 6 of the AVH paper, for each pair whose target labels are known."""
    drawn = []
    for pair in results.pairs:
        methods = [method for method in results.methods if method != SOURCE_ONLY]
        start = results.last(pair, SOURCE_ONLY)
        if not methods or not start:
            continue
        curves = {
            method: np.array([[entry["accuracy"] for entry in results.rounds[pair, method, seed]] for seed in results.seeds])
            for method in methods
        }
        figure = accuracy_per_round(curves, float(np.mean(start)), pair)
        drawn.append(_save(run, f"accuracy-{pair}.png", figure))
    return drawn


def _only_by_score(run: Run, results: Results, images: dict[str, ImageData], folder_of: Any) -> list[Path]:
    """Figure 21 of the AVH paper: samples that a score selects in the first round and softmax does not, surest first."""
    drawn = []
    scored = [method for method in results.methods if method.startswith("cbst+")]
    for pair, data in images.items():
        for method in scored:
            table = pq.read_table(folder_of(pair, method, results.seeds[0]) / "round=01.parquet")
            chosen = table.filter(pc.and_(table.column("kept"), pc.invert(table.column("kept_by_cbst"))))
            chosen = chosen.sort_by([("avc", "descending")])
            pictures, captions = _pictures(chosen, data, results.class_names)
            if pictures:
                title = f"{pair}: selected by {method} and not by cbst, round 1"
                drawn.append(_save(run, f"only-{method.replace('+', '-')}-{pair}.png", thumbnails(pictures, captions, title)))
    return drawn


def _pictures(chosen: pa.Table, data: ImageData, class_names: Sequence[str]) -> tuple[list[Any], list[str]]:
    row_of = {id: row for row, id in enumerate(data.ids)}
    pictures: list[Any] = []
    captions: list[str] = []
    for entry in chosen.to_pylist():
        row = row_of.get(entry["id"])
        if row is None or len(pictures) == SHOWN:
            continue
        try:
            pictures.append(np.asarray(data.image(row)))
        except BrokenImage:
            continue
        known = "" if entry["label"] is None else f"is {class_names[entry['label']]}\n"
        captions.append(
            f"{known}taken for {class_names[entry['pseudo_label']]}\np {entry['confidence']:.2f}  AVC {entry['avc']:.3f}"
        )
    return pictures, captions


def _save(run: Run, name: str, figure: Any) -> Path:
    path = run.folder("figures") / name
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None})
    return path


STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}td,th{padding:.2rem .6rem;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}"
    "img{max-width:100%}"
)


def _page(tables: dict[str, pa.Table], figures: Sequence[Path]) -> str:
    """One HTML file with everything in it."""
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>Self-training</title><style>{STYLE}</style>"]
    parts.append("<h1>Self-training</h1><p>The last round is the result. <code>oracle</code> columns hold the best round, ")
    parts.append("which only target labels could choose. Accuracies are means over classes.</p>")
    for name in ("accuracy", "differences", "selection"):
        parts.append(f"<h2>{TABLES[name][0]}</h2>{_html_table(tables[name])}")
    parts.append("<h2>Figures</h2>")
    for path in figures:
        data = base64.b64encode(path.read_bytes()).decode()
        parts.append(f'<figure><img alt="{html.escape(path.stem)}" src="data:image/png;base64,{data}"></figure>')
    return "\n".join(parts) + "\n"


def _html_table(table: pa.Table) -> str:
    head = "".join(f"<th>{html.escape(name)}" for name in table.column_names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(value))}" for value in row.values()) for row in table.to_pylist())
    return f"<table><tr>{head}{body}</table>"


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
