"""The result of `adapt`: accuracy (the paper's Table 3), what was selected (Table 4), rounds (Figure 6), differences.

`tables_of` makes the tables from the rounds of every method; the page, the figures and the terminal show what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.data import ImageData
from hardsight.domains.auto import CANDIDATES, warning
from hardsight.domains.comparison import difference_table, known_mean, mean_and_std, table_of
from hardsight.domains.run_directory import History, read_tables
from hardsight.domains.settings import AUTO, SOURCE_ONLY
from hardsight.domains.validation import VALIDATORS
from hardsight.screen import printable, table_lines
from hardsight.table import write_table

STATISTICS = (
    "selected",
    "true_positive_rate",
    "avh",
    "avc",
    "confidence",
    "norm",
    "not_selected_by_cbst",
    "only_selected_by_cbst",
)
ALL = "all pairs"
TABLES = ("accuracy", "differences", "selection", "rounds")
Rounds = dict[tuple[str, str, int], History]  # by pair, method and seed


@dataclass(frozen=True)
class Results:
    """The rounds of every pair of domains, method and seed.

    Attributes:
        rounds: (pair, method, seed) -> one entry per round; a model that is trained once has a round 0 alone.
        class_names: one per class.
        starts: (pair, method, seed) -> the last entry of the model that a method starts from; else the source model.
    """

    rounds: Rounds
    class_names: Sequence[str]
    starts: dict[tuple[str, str, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[list[str], list[str], list[int]]:
        """Pairs of source and target, methods and seeds, in the order of the run."""
        pairs, methods, seeds = (list(dict.fromkeys(key)) for key in zip(*self.rounds, strict=True))
        return pairs, methods, seeds

    def last(self, pair: str, method: str) -> list[float]:
        """The mean class accuracy after the last round, seed by seed; empty where target labels are not known."""
        accuracies = [self.rounds[pair, method, seed][-1]["accuracy"] for seed in self.keys[2]]
        return [] if None in accuracies else accuracies

    def best(self, pair: str, method: str) -> list[float]:
        """The best round's, which only an oracle would have stopped at; for `auto`, of all that it chose from."""
        _, names, seeds = self.keys
        methods = [name for name in names if name in (SOURCE_ONLY, *CANDIDATES)] if method == AUTO else [method]
        return [max(entry["accuracy"] for name in methods for entry in self.rounds[pair, name, seed]) for seed in seeds]


def tables_of(results: Results) -> dict[str, pa.Table]:
    """The tables of a run, by name."""
    made = (accuracy_table(results), differences_of(results), selection_table(results), rounds_table(results))
    return dict(zip(TABLES, made, strict=True))


def accuracy_table(results: Results) -> pa.Table:
    """One row per pair and method: mean and spread over seeds of the mean class accuracy and of each class, last round."""
    pairs, methods, seeds = results.keys
    rows = []
    for pair, method in ((pair, method) for pair in pairs for method in methods):
        last = results.last(pair, method)
        if not last:
            continue
        row: dict[str, Any] = {"pair": pair, "method": method, "seeds": len(last), **mean_and_std("accuracy", last)}
        row |= mean_and_std("oracle_accuracy", results.best(pair, method))
        per_class = [results.rounds[pair, method, seed][-1]["class_accuracy"] for seed in seeds]
        for k, name in enumerate(results.class_names):
            row |= mean_and_std(f"class {name}", [entry[k] for entry in per_class if entry[k] is not None])
        rows.append(row)
    return table_of(rows, "pair", "method")


def differences_of(results: Results) -> pa.Table:
    """Each method against each one before it in the list: paired over seeds, and over pairs of domains where there are several.

    The interval of one pair of domains is over seeds alone. That of all pairs is over the pairs' means.
    """
    pairs, methods, _ = results.keys
    reached = {method: {pair: last for pair in pairs if (last := results.last(pair, method))} for method in methods}
    for known in reached.values():
        if len(known) > 1:
            known[ALL] = [float(np.mean(values)) for values in known.values()]
    return difference_table("pair", "method", reached)


def selection_table(results: Results) -> pa.Table:
    """One row per pair and method that selects pseudo-labels: what its first round selected, as means over seeds."""
    pairs, methods, seeds = results.keys
    rows = []
    for pair, method in ((pair, method) for pair in pairs for method in methods if method != AUTO):
        first = [results.rounds[pair, method, seed][0].get("selection") for seed in seeds]
        if None not in first:
            means = {name: known_mean([entry[name] for entry in first]) for name in STATISTICS}
            rows.append({"pair": pair, "method": method, "round": 1, **means})
    return table_of(rows, "pair", "method")


def rounds_table(results: Results) -> pa.Table:
    """One row per pair, method, seed and round; that of `auto` says which method it took."""
    rows = []
    for (pair, method, seed), rounds in results.rounds.items():
        source = results.rounds.get((pair, SOURCE_ONLY, seed)) or [{}]
        before = results.starts.get((pair, method, seed)) or source[-1]
        for entry in rounds:
            selection, validated = entry.get("selection") or {}, entry.get("validators") or {}
            row = {"pair": pair, "method": method, "seed": seed, "round": entry["round"], "portion": entry["portion"]}
            row |= {"accuracy": entry["accuracy"], **{name: validated.get(name) for name in VALIDATORS}}
            row["evenness"] = entry.get("evenness")
            row["avc_change"] = _change(before, entry) if method not in (SOURCE_ONLY, AUTO) else None
            taken = {"chosen": entry.get("method")} if AUTO in results.keys[1] else {}
            rows.append({**row, **taken, **{name: selection.get(name) for name in STATISTICS}})
            before = entry
    return pa.Table.from_pylist(rows)


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> float | None:
    """Of the mean AVC, from one round to the next."""
    first, second = ((entry.get("validators") or {}).get("mean_avc") for entry in (before, after))
    return None if first is None or second is None else second - first


@dataclass(frozen=True)
class Adapted:
    """A finished adaptation.

    Attributes:
        table: one row per pair of domains and method: the last round's accuracy, mean and spread over seeds, class by class.
        differences: methods against each other, with intervals.
        selection: what the first round of each method selected.
        rounds: one row per pair, method, seed and round.
        run: the run directory.
        class_names: one per class.
        images: of a pair's target, where there are any, for the figures.
    """

    table: pa.Table
    differences: pa.Table
    selection: pa.Table
    rounds: pa.Table
    run: Path
    class_names: Sequence[str] = ()
    images: Mapping[str, ImageData] = field(default_factory=dict, repr=False)

    @classmethod
    def read(
        cls, run: str | os.PathLike[str], class_names: Sequence[str] = (), images: Mapping[str, ImageData] | None = None
    ) -> Adapted:
        """From the tables of a run."""
        return cls(*read_tables(Path(run), TABLES), Path(run), class_names, images or {})

    @property
    def accuracy(self) -> pa.Table:
        """The main table."""
        return self.table

    @property
    def summary(self) -> dict[str, Any]:
        """pair -> method -> accuracy after the last round, and that of the best round (oracle); means over seeds."""
        pairs: dict[str, dict[str, dict[str, float]]] = {
            name: {pair: {} for pair in self.pairs} for name in ("accuracy", "oracle")
        }
        for row in self.table.to_pylist():
            pairs["accuracy"][row["pair"]][row["method"]] = row["accuracy"]
            pairs["oracle"][row["pair"]][row["method"]] = row["oracle_accuracy"]
        return pairs

    @property
    def notes(self) -> list[str]:
        """A sentence for each pair, method and seed of which nothing that needs no labels shows that it helped."""
        return [f"{pair}: {sentence}" for pair in self.pairs for sentence in self.warnings(pair)]

    def tables(self) -> dict[str, pa.Table]:
        """All tables, by name."""
        return dict(zip(TABLES, (self.table, self.differences, self.selection, self.rounds), strict=True))

    def figures(self) -> dict[str, Any]:
        """Accuracy by round (Figure 6), and samples that a score selects and softmax does not (Figure 21), by name."""
        from hardsight.domains.adapt_report import figures

        return figures(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """The main table as a file, its format by the extension."""
        write_table(self.table, path)

    # ---- what pages and figures ask ----

    @cached_property
    def histories(self) -> dict[tuple[str, str, int], list[dict[str, Any]]]:
        """(pair, method, seed) -> the rows of its rounds."""
        histories: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for row in self.rounds.to_pylist():
            histories.setdefault((row["pair"], row["method"], row["seed"]), []).append(row)
        return histories

    @property
    def pairs(self) -> list[str]:
        """Pairs of source and target, in the order of the run."""
        return list(dict.fromkeys(pair for pair, _, _ in self.histories))

    @property
    def methods(self) -> list[str]:
        """Methods, in the order of the run."""
        return list(dict.fromkeys(method for _, method, _ in self.histories))

    @property
    def seeds(self) -> list[int]:
        """Seeds, in the order of the run."""
        return list(dict.fromkeys(seed for _, _, seed in self.histories))

    @property
    def in_rounds(self) -> list[str]:
        """The methods that go on in rounds: not the source model, nor what is trained once, nor `auto`, which is one of them."""
        last = {method: self.histories[self.pairs[0], method, self.seeds[0]][-1] for method in self.methods if method != AUTO}
        return [method for method, row in last.items() if row["round"] > 0]

    def curve(self, pair: str, method: str) -> np.ndarray:
        """(seeds, rounds) accuracy; NaN where target labels are not known."""
        return np.array([[row["accuracy"] for row in self.histories[pair, method, seed]] for seed in self.seeds], np.float64)

    def warnings(self, pair: str) -> list[str]:
        """The notes of one pair."""
        sources = {seed: self.histories.get((pair, SOURCE_ONLY, seed), [{}])[-1] for seed in self.seeds}
        return [
            f"{method}, seed {seed}: {sentence}."
            for method in self.methods
            for seed, source in sources.items()
            if method != SOURCE_ONLY
            and (sentence := warning({"validators": source}, {"validators": self.histories[pair, method, seed][-1]}))
        ]

    def __repr__(self) -> str:
        columns = ("pair", "method", "accuracy", "accuracy std", "oracle_accuracy", "seeds")
        where = f"Adapted: {len(self.table)} rows of accuracy, in {printable(str(self.run))}"
        return "\n".join([where, *table_lines(self.table.to_pylist(), columns)])
