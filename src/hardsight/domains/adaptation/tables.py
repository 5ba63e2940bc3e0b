"""The results of a run as tables: accuracy (the paper's Table 3), what was selected (Table 4), rounds (Figure 6), differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.domains.accuracy import known_mean, mean_and_std, paired_difference
from hardsight.domains.adaptation.choosing import CANDIDATES, warning
from hardsight.domains.adaptation.settings import AUTO, SOURCE_ONLY
from hardsight.domains.adaptation.validation import VALIDATORS

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


@dataclass(frozen=True)
class Results:
    """The rounds of every pair of domains, method and seed.

    Attributes:
        rounds: (pair, method, seed) -> one entry per round; a model that is trained once has a round 0 alone.
        class_names: one per class.
        starts: (pair, method, seed) -> the last entry of the model that a method starts from; else the source model.
    """

    rounds: dict[tuple[str, str, int], list[dict[str, Any]]]
    class_names: Sequence[str]
    starts: dict[tuple[str, str, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[str]:
        """Pairs of source and target, in the order of the run."""
        return list(dict.fromkeys(pair for pair, _, _ in self.rounds))

    @property
    def methods(self) -> list[str]:
        """Methods, in the order of the run."""
        return list(dict.fromkeys(method for _, method, _ in self.rounds))

    @property
    def seeds(self) -> list[int]:
        """Seeds, in the order of the run."""
        return list(dict.fromkeys(seed for _, _, seed in self.rounds))

    @property
    def in_rounds(self) -> list[str]:
        """The methods that go on in rounds: not the source model, nor what is trained once, nor `auto`, which is one of them."""
        first = {method: self.rounds[self.pairs[0], method, self.seeds[0]][-1] for method in self.methods if method != AUTO}
        return [method for method, entry in first.items() if entry["round"] > 0]

    @property
    def selecting(self) -> list[str]:
        """The methods that select pseudo-labels."""
        return [method for method in self.in_rounds if "selection" in self.rounds[self.pairs[0], method, self.seeds[0]][0]]

    def last(self, pair: str, method: str) -> list[float]:
        """The mean class accuracy after the last round, seed by seed; empty where target labels are not known."""
        accuracies = [self.rounds[pair, method, seed][-1]["accuracy"] for seed in self.seeds]
        return [] if None in accuracies else accuracies

    def best(self, pair: str, method: str) -> list[float]:
        """The best round's, which only an oracle would have stopped at; for `auto`, of all that it chose from."""
        methods = [name for name in self.methods if name in (SOURCE_ONLY, *CANDIDATES)] if method == AUTO else [method]
        return [max(entry["accuracy"] for name in methods for entry in self.rounds[pair, name, seed]) for seed in self.seeds]

    def start(self, pair: str, seed: int) -> dict[str, Any]:
        """The source model's entry."""
        return (self.rounds.get((pair, SOURCE_ONLY, seed)) or [{}])[-1]

    def warnings(self, pair: str) -> list[str]:
        """A sentence for each method and seed of which nothing that needs no labels shows that it helped."""
        return [
            f"{method}, seed {seed}: {sentence}."
            for method in self.methods
            for seed in self.seeds
            if method != SOURCE_ONLY and (sentence := warning(self.start(pair, seed), self.rounds[pair, method, seed][-1]))
        ]


def accuracy_table(results: Results) -> pa.Table:
    """One row per pair and method: mean and spread over seeds of the mean class accuracy and of each class, last round."""
    rows = []
    for pair in results.pairs:
        for method in results.methods:
            last = results.last(pair, method)
            if not last:
                continue
            per_class = [results.rounds[pair, method, seed][-1]["class_accuracy"] for seed in results.seeds]
            row: dict[str, Any] = {"pair": pair, "method": method, "seeds": len(last), **mean_and_std("accuracy", last)}
            row |= mean_and_std("oracle_accuracy", results.best(pair, method))
            for k, name in enumerate(results.class_names):
                values = [entry[k] for entry in per_class if entry[k] is not None]
                row |= mean_and_std(f"class {name}", values)
            rows.append(row)
    return pa.Table.from_pylist(rows) if rows else pa.table({"pair": [], "method": []})


def selection_table(results: Results, round_number: int = 1) -> pa.Table:
    """One row per pair and method: what its first round selected, as means over seeds."""
    rows = []
    for pair in results.pairs:
        for method in results.selecting:
            selection = [results.rounds[pair, method, seed][round_number - 1]["selection"] for seed in results.seeds]
            means = {name: known_mean([entry[name] for entry in selection]) for name in STATISTICS}
            rows.append({"pair": pair, "method": method, "round": round_number, **means})
    return pa.Table.from_pylist(rows) if rows else pa.table({"pair": [], "method": []})


def rounds_table(results: Results) -> pa.Table:
    """One row per pair, method, seed and round; that of `auto` says which method it took."""
    rows = []
    for (pair, method, seed), rounds in results.rounds.items():
        before = results.starts.get((pair, method, seed)) or results.start(pair, seed)
        for entry in rounds:
            selection, looked_at = entry.get("selection") or {}, entry.get("validators") or {}
            row = {"pair": pair, "method": method, "seed": seed, "round": entry["round"], "portion": entry["portion"]}
            row |= {"accuracy": entry["accuracy"], **{name: looked_at.get(name) for name in VALIDATORS}}
            row["evenness"] = entry.get("evenness")
            row["avc_change"] = _change(before, entry) if method not in (SOURCE_ONLY, AUTO) else None
            taken = {"chosen": entry.get("method")} if AUTO in results.methods else {}
            rows.append({**row, **taken, **{name: selection.get(name) for name in STATISTICS}})
            before = entry
    return pa.Table.from_pylist(rows)


def difference_table(results: Results) -> pa.Table:
    """Each method against each one before it in the list: paired over seeds, and over pairs of domains where there are several.

    The interval of one pair of domains is over seeds alone. That of all pairs is over the pairs' means.
    """
    rows: list[dict[str, Any]] = []
    methods = results.methods
    for number, method in enumerate(methods):
        for against in methods[:number]:
            means: list[tuple[float, float]] = []
            for pair in results.pairs:
                ours, theirs = results.last(pair, method), results.last(pair, against)
                if ours and theirs:
                    rows.append(_difference_row(pair, method, against, ours, theirs))
                    means.append((float(np.mean(ours)), float(np.mean(theirs))))
            if len(means) > 1:
                rows.append(_difference_row(ALL, method, against, [ours for ours, _ in means], [theirs for _, theirs in means]))
    return pa.Table.from_pylist(rows) if rows else pa.table({"pair": [], "method": []})


def _change(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Of the mean AVC, from one round to the next."""
    first, second = ((entry.get("validators") or {}).get("mean_avc") for entry in (before, after))
    return None if first is None or second is None else second - first


def _difference_row(pair: str, method: str, against: str, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    return {"pair": pair, "method": method, "against": against, **paired_difference(ours, theirs).columns}
