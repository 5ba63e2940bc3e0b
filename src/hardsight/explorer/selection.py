"""A selection: its groups, their curves over the epochs, agreement of a score with people; and as a table or a file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from hardsight.errors import InputError, check_choice
from hardsight.explorer.columns import Column, rows_of, signed, words
from hardsight.explorer.display import Display
from hardsight.explorer.epochs import Epochs
from hardsight.explorer.review import Review
from hardsight.files.kinds import without_formulas
from hardsight.files.suspects import DUPLICATE_OF

HUMAN = "human"  # the column of human frequencies
MOST_CURVES = 12  # groups drawn at once
STEPS = 10  # of human frequency
FEWEST = 4  # samples for a correlation
FORMATS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet", "txt": "text/plain; charset=utf-8"}


def groups_of(column: Column, chosen: np.ndarray, most: int = MOST_CURVES) -> tuple[list[str], np.ndarray]:
    """Names and (n,) codes, -1 for none: the largest groups of a column of words, or five groups of equal size for numbers.

    Most human frequencies are close to 1, so they are cut at 0.2, 0.4, 0.6 and 0.8 instead.
    """
    if column.names is not None:
        code = np.where(chosen, signed(column), -1)
        counts = np.bincount(code[code >= 0], minlength=len(column.names))
        largest = np.sort(np.argsort(-counts, kind="stable")[:most])
        group_of = np.full(len(column.names) + 1, -1)
        group_of[largest] = np.arange(len(largest))
        return [column.names[index] for index in largest], group_of[code]
    counted = chosen & np.isfinite(column.values)
    values = column.values[counted]
    if not len(values):
        return ["selection"], np.full(len(chosen), -1)
    fifths = np.array([0.2, 0.4, 0.6, 0.8])
    cuts = fifths if column.name == HUMAN else np.unique(np.quantile(values, fifths))  # the paper's bins of human frequency
    code = np.where(counted, np.searchsorted(cuts, column.values, side="right"), -1)
    ends = [float(values.min()), *cuts.tolist(), float(values.max())]
    return [f"{low:.3g} to {high:.3g}" for low, high in zip(ends[:-1], ends[1:], strict=True)], code


def curves_of_groups(epochs: Epochs, measure: str, names: list[str], groups: np.ndarray) -> dict[str, Any]:
    """Mean and standard deviation of each group over the epochs, as the page draws them; empty groups are left out.

    `groups` (n,) holds codes, indices into the names, -1 for none.
    """
    from hardsight.dynamics.curves import group_moments  # with SciPy: slow to import, and few pages need it

    means, spreads, counts = (np.zeros((len(names), len(epochs.files))) for _ in range(3))  # (g, e)
    for index in range(len(epochs.files)):
        values = epochs.values(index, measure).astype(np.float64)
        means[:, index], spreads[:, index] = group_moments(values, groups, len(names))
        counts[:, index] = np.bincount(groups[(groups >= 0) & np.isfinite(values)], minlength=len(names))
    described = [
        {"name": name, "mean": _list(mean), "std": _list(spread), "count": int(count.max())}
        for name, mean, spread, count in zip(names, means, spreads, counts, strict=True)
        if count.any()
    ]
    return {"epochs": epochs.numbers, "groups": described}


def _list(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def agreement(human: np.ndarray, values: np.ndarray, level: float = 0.95) -> dict[str, Any]:
    """Spearman's coefficient with the Bonett-Wright interval, and mean and spread of the score by human frequency.

    Args:
        human: (n,) how often people chose the given class, 0 to 1.
        values: (n,) a score.
        level: of the interval.

    Example:
        >>> result = agreement(np.linspace(0, 1, 50), np.linspace(1, 0, 50))
        >>> result["n"], round(result["spearman"], 6)
        (50, -1.0)
    """
    finite = np.isfinite(human) & np.isfinite(values)
    human, values = human[finite].astype(np.float64), values[finite].astype(np.float64)
    n = len(human)
    result: dict[str, Any] = {"n": n, "spearman": None, "low": None, "high": None, "steps": []}
    if n >= FEWEST and np.ptp(human) > 0 and np.ptp(values) > 0:
        from hardsight.stats.coefficients import correlate_columns  # with SciPy: slow to import, and few pages need it

        found = correlate_columns("spearman", human, values, level)
        result |= {"spearman": found.value, "low": found.low, "high": found.high}
    steps = np.minimum((human * STEPS).astype(np.int64), STEPS - 1)  # the last step includes 1.0
    for step in np.unique(steps).tolist():
        part = values[steps == step]
        moments = {"count": len(part), "mean": float(part.mean()), "std": float(part.std())}
        result["steps"].append({"from": step / STEPS, "to": (step + 1) / STEPS, **moments})
    return result


def within(human: np.ndarray, values: np.ndarray, names: list[str], groups: np.ndarray) -> list[dict[str, Any]]:
    """The coefficient within each group that has samples; `groups` (n,) holds codes, -1 for none."""
    rows = []
    for code, name in enumerate(names):
        result = agreement(human[groups == code], values[groups == code])
        if result["n"]:
            rows.append({"name": name, **{key: result[key] for key in ("n", "spearman", "low", "high")}})
    return rows


# As a table, and as a file to download


def selection_table(display: Display, rows: np.ndarray, review: Review) -> pa.Table:
    """The rows with all their columns, and their marks if there are any."""
    indices = pa.array(rows)
    columns: dict[str, Any] = {"id": display.own_ids.take(indices)}
    if display.paths is not None:
        columns["path"] = display.paths.take(indices)
    for name, column in display.columns.items():
        values = column.values[rows]
        if column.names is None:
            columns[name] = pa.array(values, from_pandas=True)
        elif name in ("label", "predicted", "suggested_label"):
            columns[name] = pa.array(values.astype(np.int64), mask=values >= len(column.names))
            columns[f"{name}_name"] = words(column).take(indices)
        elif column.names == ["false", "true"]:
            columns[name] = pa.array(values == 1, mask=values >= len(column.names))
        else:
            columns[name] = words(column).take(indices)
    if display.suspects is not None:
        columns[DUPLICATE_OF] = display.suspects.duplicate_of.take(indices)
    _, marks = review.current()
    if marks:
        given = [marks.get(id) for id in display.ids.take(indices).to_pylist()]
        columns["mark"] = pa.array([None if mark is None else mark.mark for mark in given], pa.string())
        columns["suggestion"] = pa.array([None if mark is None else mark.suggestion for mark in given], pa.int64())
    return pa.table(columns)


def review_table(display: Display, review: Review) -> pa.Table:
    """The review with each sample's id as it was given, label and path."""
    table = review.table()
    rows = rows_of(table.column("id"), display.ids)
    places = pa.array(rows, mask=rows < 0)  # null for a sample that is not shown
    if (rows >= 0).all():
        table = table.set_column(0, "id", display.own_ids.take(places))
    table = table.add_column(1, "label", pa.array(display.labels, mask=display.labels < 0).take(places))
    return table if display.paths is None else table.add_column(2, "path", display.paths.take(places))


def as_file(table: pa.Table, form: str, roots: list[str]) -> bytes:
    """The bytes of a file: csv, parquet, or txt with one path per line."""
    check_choice(form, FORMATS, "format")
    stream = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    elif form == "csv":
        pacsv.write_csv(without_formulas(table), stream)
    else:
        return _path_lines(table, roots)
    return stream.getvalue()


def _path_lines(table: pa.Table, roots: list[str]) -> bytes:
    name = "path" if "path" in table.column_names else "id"
    lines = [str(value) for value in table.column(name).to_pylist() if value is not None]
    if any("\n" in line or "\r" in line for line in lines):
        raise InputError("some paths contain line breaks, which a list of lines cannot hold; export CSV or Parquet.")
    if name == "path" and roots:
        lines = [line if line.startswith("/") else f"{roots[0]}/{line}" for line in lines]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
