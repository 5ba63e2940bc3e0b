"""Print the tables of docs/results.md from finished runs of `hardsight adapt` and `hardsight generalize`:

python docs/make_results.py RUN [RUN ...]

Runs of `adapt` that compare the same methods share a table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]


def adapted(*runs: Path) -> str:
    """One row per pair of domains: the source model, each method's gain over it, and CRST and CBST+AVH against CBST."""
    accuracy = {(row["pair"], row["method"]): row for run in runs for row in _rows(run / "accuracy.parquet")}
    differences = {
        (row["pair"], row["method"], row["against"]): row for run in runs for row in _rows(run / "differences.parquet")
    }
    pairs = list(dict.fromkeys(pair for pair, *_ in differences))  # with "all pairs" last, where there are several
    methods = [name for name in dict.fromkeys(method for _, method in accuracy) if name != "source"]
    against_cbst = [name for name in ("crst", "cbst+avh") if {name, "cbst"} <= set(methods)]
    contests = [(name, "source") for name in methods] + [(name, "cbst") for name in against_cbst]

    def source(pair: str) -> float:
        found = [
            row["accuracy"] for (where, method), row in accuracy.items() if method == "source" and pair in (where, "all pairs")
        ]
        return sum(found) / len(found)

    return _table(
        ["domains", "source", *(f"{one} - {other}" for one, other in contests)],
        (
            [pair, f"{100 * source(pair):.1f}", *(_interval(differences[pair, *contest]) for contest in contests)]
            for pair in pairs
        ),
    )


def generalized(run: Path) -> str:
    """One row per loss: accuracy on each unseen domain, their average, and its difference to the first loss."""
    rows = _rows(run / "accuracy.parquet")
    places = [name.removesuffix(" std") for name in rows[0] if name.endswith(" std")]
    first = rows[0]["loss"]
    average = {
        row["loss"]: row for row in _rows(run / "differences.parquet") if (row["domain"], row["against"]) == ("average", first)
    }
    return _table(
        ["loss", *places, f"average - {first}", "average of the best epochs (oracle)"],
        (
            [
                row["loss"],
                *(f"{100 * row[place]:.1f} ± {100 * row[f'{place} std']:.1f}" for place in places),
                _interval(average[row["loss"]]) if row["loss"] in average else "",
                f"{100 * row['oracle average']:.1f}",
            ]
            for row in rows
        ),
    )


def _interval(row: Row) -> str:
    """Points with their 95 % interval, where there is more than one run; bold where it leaves out 0."""
    if row["low"] is None:
        return f"{100 * row['difference']:+.1f}"
    text = f"{100 * row['difference']:+.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
    return f"**{text}**" if row["verdict"] in ("better", "worse") else text


def _methods(run: Path) -> list[str] | None:
    """What a run of `adapt` compares; None for one of another command."""
    if not (run / "rounds.parquet").exists():
        return None
    return list(dict.fromkeys(row["method"] for row in _rows(run / "accuracy.parquet")))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _rows(path: Path) -> list[Row]:
    return pq.read_table(path).to_pylist()


if __name__ == "__main__":
    for methods, group in groupby(map(Path, sys.argv[1:]), _methods):
        runs = list(group)
        tables = [adapted(*runs)] if methods is not None else [generalized(run) for run in runs]
        print(f"{', '.join(run.name for run in runs)}\n")
        print(*tables, sep="\n\n", end="\n\n")
