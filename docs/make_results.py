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

from hardsight.domains.accuracy import PairedDifference, paired_difference

Row = dict[str, Any]


def adapted(*runs: Path) -> str:
    """One row per pair of domains: the source model, each method's gain over it, and CRST and CBST+AVH against CBST.

    Intervals of a pair are over its seeds, which may be those of several runs; those of all pairs over the pairs' means.
    """
    reached: dict[str, dict[str, dict[int, float]]] = {}  # pair -> method -> seed -> accuracy after the last round
    for row in (row for run in runs for row in _rows(run / "rounds.parquet")):
        reached.setdefault(row["pair"], {}).setdefault(row["method"], {})[row["seed"]] = row["accuracy"]
    methods = [name for name in next(iter(reached.values())) if name != "source"]
    against_cbst = [name for name in ("crst", "cbst+avh") if {name, "cbst"} <= set(methods)]
    contests = [(name, "source") for name in methods] + [(name, "cbst") for name in against_cbst]
    groups = {pair: {name: list(by_seed.values()) for name, by_seed in of_pair.items()} for pair, of_pair in reached.items()}
    if len(groups) > 1:
        means = {name: [sum(of_pair[name]) / len(of_pair[name]) for of_pair in groups.values()] for name in ("source", *methods)}
        groups["all pairs"] = means
    return _table(
        ["domains", "source", *(f"{one} - {other}" for one, other in contests)],
        (
            [
                pair,
                f"{100 * sum(values['source']) / len(values['source']):.1f}",
                *(_points(paired_difference(values[one], values[other])) for one, other in contests),
            ]
            for pair, values in groups.items()
        ),
    )


def first_selection(*runs: Path) -> str:
    """One row per class-balanced method: what it selects in the first round, as means over pairs (the AVH paper's Table 4)."""
    columns = {"selected": ".0f", "true_positive_rate": ".1%", "avh": ".4f", "avc": ".4f", "confidence": ".3f", "norm": ".2f"}
    rows = [row for run in runs for row in _rows(run / "selection.parquet") if row["round"] == 1]
    found = {}
    for name in ("cbst", "crst", "cbst+avh"):
        own = [row for row in rows if row["method"] == name]
        if own:
            means = {column: sum(row[column] for row in own) / len(own) for column in columns}
            found[name] = [format(means[column], text).replace("%", " %") for column, text in columns.items()]
    head = ["method", "selected", "correct", "AVH", "AVC", "confidence", "norm"]
    return _table(head, ([f"`{name}`", *cells] for name, cells in found.items()))


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
                _points(_difference(average[row["loss"]])) if row["loss"] in average else "",
                f"{100 * row['oracle average']:.1f}",
            ]
            for row in rows
        ),
    )


def _difference(row: Row) -> PairedDifference:
    return PairedDifference(row["difference"], row["low"], row["high"], row["count"])


def _points(found: PairedDifference) -> str:
    """Points with their 95 % interval, where there is more than one run; bold where it leaves out 0."""
    if found.low is None or found.high is None:
        return f"{100 * found.mean:+.1f}"
    text = f"{100 * found.mean:+.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return f"**{text}**" if found.verdict in ("better", "worse") else text


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
        tables = [adapted(*runs), first_selection(*runs)] if methods is not None else [generalized(run) for run in runs]
        print(f"{', '.join(run.name for run in runs)}\n")
        print(*tables, sep="\n\n", end="\n\n")
