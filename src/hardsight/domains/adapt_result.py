"""The result of `adapt`: accuracy (the paper's Table 3), what was selected (Table 4), rounds (Figure 6), differences.

`tables_of` makes the tables from the rounds of every method; the page, the figures and the terminal show what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.domains.auto import CANDIDATES, CHOSEN_BY, warning
from hardsight.domains.comparison import History, counted, difference_table, known_mean, mean_and_std, rows_by, table_of
from hardsight.domains.settings import AUTO, SOURCE_ONLY
from hardsight.domains.validation import VALIDATORS
from hardsight.render.domains import accuracy_per_round, shown_differences
from hardsight.result import RunResult
from hardsight.screen import Cell, Sentence, ShownTable, line, number, percent

STATISTICS = "selected true_positive_rate avh avc confidence norm not_selected_by_cbst only_selected_by_cbst".split()
ALL = "all pairs"
ABOUT = (
    "The last round is the result; the best round is called oracle, because only labels of the target could choose it, and "
    "those are used for this report alone. All methods of a seed start from the same source model. Logistic regression is "
    "fitted on the source alone: on what the network gets, of images on the source model's features."
)
FEW = 6  # methods whose differences are all printed
Key = tuple[str, str, int]  # pair, method and seed
Rounds = dict[Key, History]
Starts = dict[Key, dict[str, Any]]


def tables_of(rounds: Rounds, class_names: Sequence[str], starts: Starts | None = None) -> dict[str, pa.Table]:
    """The tables of a run, by name.

    Args:
        rounds: one entry per round; a model that is trained once has a round 0 alone.
        starts: the last entry of the model that a method starts from; else the source model.
    """
    return {
        "accuracy": accuracy_table(rounds, class_names),
        "differences": differences_of(rounds),
        "selection": selection_table(rounds),
        "rounds": rounds_table(rounds, starts or {}),
    }


def accuracy_table(rounds: Rounds, class_names: Sequence[str]) -> pa.Table:
    """One row per pair and method: mean and spread over seeds of the mean class accuracy and of each class, last round.

    The best round's is called oracle, for only an oracle would have stopped there; for `auto`, of all that it chose from.
    """
    rows = []
    for (pair, method), histories in by_seed(rounds).items():
        last = _last_accuracies(histories)
        if not last:
            continue
        judged = [name for _, name in by_seed(rounds) if name in (SOURCE_ONLY, *CANDIDATES)] if method == AUTO else [method]
        best = [max(entry["accuracy"] for name in judged for entry in rounds[pair, name, seed]) for seed in histories]
        row: dict[str, Any] = {"pair": pair, "method": method, "seeds": len(last), **mean_and_std("accuracy", last)}
        row |= mean_and_std("oracle_accuracy", best)
        per_class = [history[-1]["class_accuracy"] for history in histories.values()]
        for k, name in enumerate(class_names):
            row |= mean_and_std(f"class {name}", [entry[k] for entry in per_class if entry[k] is not None])
        rows.append(row)
    return table_of(rows, "pair", "method")


def by_seed(rounds: Rounds) -> dict[tuple[str, str], dict[int, History]]:
    """(pair, method) -> seed -> its rounds."""
    found: dict[tuple[str, str], dict[int, History]] = {}
    for (pair, method, seed), history in rounds.items():
        found.setdefault((pair, method), {})[seed] = history
    return found


def _last_accuracies(histories: Mapping[int, History]) -> list[float]:
    """The mean class accuracy after the last round, seed by seed; empty where target labels are not known."""
    accuracies = [history[-1]["accuracy"] for history in histories.values()]
    return [] if None in accuracies else accuracies


def differences_of(rounds: Rounds) -> pa.Table:
    """Each method against each one before it in the list: paired over seeds, and over pairs of domains where there are several.

    The interval of one pair of domains is over seeds alone. That of all pairs is over the pairs' means.
    """
    reached: dict[str, dict[str, list[float]]] = {}
    for (pair, method), histories in by_seed(rounds).items():
        if last := _last_accuracies(histories):
            reached.setdefault(method, {})[pair] = last
    for known in reached.values():
        if len(known) > 1:
            known[ALL] = [float(np.mean(values)) for values in known.values()]
    return difference_table("pair", "method", reached)


def selection_table(rounds: Rounds) -> pa.Table:
    """One row per pair and method that selects pseudo-labels: what its first round selected, as means over seeds."""
    rows = []
    for (pair, method), histories in by_seed(rounds).items():
        first = [entry for history in histories.values() if (entry := history[0].get("selection"))]
        if first and method != AUTO:
            means = {name: known_mean([entry[name] for entry in first]) for name in STATISTICS}
            rows.append({"pair": pair, "method": method, "round": 1, **means})
    return table_of(rows, "pair", "method")


def rounds_table(rounds: Rounds, starts: Starts) -> pa.Table:
    """One row per pair, method, seed and round; that of `auto` says which method it took."""
    rows = []
    chooses = any(method == AUTO for _, method, _ in rounds)
    for (pair, method, seed), history in rounds.items():
        before = starts.get((pair, method, seed)) or rounds.get((pair, SOURCE_ONLY, seed), [{}])[-1]
        for entry in history:
            selection, validated = entry.get("selection") or {}, entry.get("validators") or {}
            row = {"pair": pair, "method": method, "seed": seed, "round": entry["round"], "portion": entry["portion"]}
            row |= {"accuracy": entry["accuracy"], **{name: validated.get(name) for name in VALIDATORS}}
            row["evenness"] = entry.get("evenness")
            row["avc_change"] = _change(before, entry) if method not in (SOURCE_ONLY, AUTO) else None
            taken = {"chosen": entry.get("method")} if chooses else {}
            rows.append({**row, **taken, **{name: selection.get(name) for name in STATISTICS}})
            before = entry
    return pa.Table.from_pylist(rows)


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> float | None:
    """Of the mean AVC, from one round to the next."""
    first, second = ((entry.get("validators") or {}).get("mean_avc") for entry in (before, after))
    return None if first is None or second is None else second - first


class Adapted(RunResult):
    """A finished adaptation.

    Attributes:
        table, accuracy: one row per pair of domains and method: the last round's accuracy, mean and spread over seeds.
        differences: methods against each other, with intervals.
        selection: what the first round of each method selected.
        rounds: one row per pair, method, seed and round.
        notes: a sentence for each pair, method and seed of which nothing that needs no labels shows that it helped.
    """

    files = ("accuracy", "differences", "selection", "rounds")
    shown = ("pair", "method", "accuracy", "accuracy std", "oracle_accuracy", "seeds")
    accuracy: pa.Table
    differences: pa.Table
    selection: pa.Table
    rounds: pa.Table

    def __init__(self, run: str | os.PathLike[str], tables: Mapping[str, pa.Table] | None = None) -> None:
        super().__init__(run, tables)
        self.histories = rows_by(self.rounds, "pair", "method", "seed")
        self.pairs, self.methods, self.seeds = (list(dict.fromkeys(names)) for names in zip(*self.histories, strict=True))
        self.notes = [f"{pair}: {sentence}" for pair in self.pairs for sentence in self.warnings(pair)]

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

    # ---- what pages and figures ask ----

    @property
    def in_rounds(self) -> list[str]:
        """The methods that go on in rounds: not the source model, nor what is trained once, nor `auto`, which is one of them."""
        return [name for name in self.methods if name != AUTO and self.histories[self.pairs[0], name, self.seeds[0]][-1]["round"]]

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

    # ---- what is shown ----

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """Accuracy, differences, and what the first round selected."""
        yield line(", ".join(counted(pair=self.pairs, method=self.methods, seed=self.seeds)), **self.summary)
        accuracy = [
            (row["pair"], row["method"], percent(row["accuracy"], row["accuracy std"]), percent(row["oracle_accuracy"]))
            for row in self.table.to_pylist()
        ]
        if accuracy:
            header = ("domains", "method", Cell("last round", "accuracy"), Cell("best (oracle)", "oracle_accuracy"))
            yield ShownTable("accuracy", header, accuracy, "mean class accuracy (%)", 2)
        few = len(self.methods) <= FEW
        shown = [row for row in self.differences.to_pylist() if few or row["against"] == SOURCE_ONLY]
        title = "differences, run by run" if few else "differences from the source model, run by run; differences.parquet has all"
        yield from shown_differences(title, shown, ("pair", "method", "against"))
        names = STATISTICS[:6]
        selected = [(row["pair"], row["method"], *(number(row[name]) for name in names)) for row in self.selection.to_pylist()]
        if selected:
            yield ShownTable("selection", ("domains", "method", *names), selected, "what the first round selected", 2)

    def details(self) -> Iterator[Sentence | ShownTable]:
        """Accuracy class by class, differences of many methods, and what can be said without labels, round by round."""
        yield line(ABOUT if len(self.table) else "The labels of the target are not known, so there is no accuracy to report.")
        for pair in self.pairs:
            yield from self._classes(pair)
        if len(self.methods) > FEW:
            yield from shown_differences("all differences", self.differences.to_pylist(), ("pair", "method", "against"))
        yield from self._validators()

    def _classes(self, pair: str) -> Iterator[ShownTable]:
        """Table 3, a column for each method: there are fewer of them than classes."""
        methods = [row for row in self.table.to_pylist() if row["pair"] == pair]
        columns = self.table.column_names
        rows = [
            (name.removeprefix("class "), *(percent(row[name], row[f"{name} std"]) for row in methods))
            for name in columns
            if name.startswith("class ") and f"{name} std" in columns
        ]
        if methods:
            header = ("class", *(row["method"] for row in methods))
            yield ShownTable("classes", header, rows, f"accuracy by class (%), {pair}, last round")

    def _validators(self) -> Iterator[ShownTable]:
        """Every validator by round, as means over seeds."""
        by_round: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for row in self.rounds.to_pylist():
            if row[CHOSEN_BY] is not None:
                taken = f" ({row['chosen']})" if row.get("chosen") else ""
                by_round.setdefault((row["pair"], row["method"] + taken, row["round"]), []).append(row)
        names = (*VALIDATORS, "avc_change")
        rows = [
            (pair, method, str(number_of), *(number(known_mean([row[name] for row in of_seeds])) for name in names))
            for (pair, method, number_of), of_seeds in by_round.items()
        ]
        if rows:
            title = f"without labels: high is good in each; the warning and auto go by {CHOSEN_BY}"
            yield ShownTable("validators", ("domains", "method", "round", *names), rows, title, 2)

    def figures(self) -> dict[str, Any]:
        """Accuracy by round (Figure 6 of the AVH paper) where target labels are known, by name: `accuracy-PAIR`."""
        return {f"accuracy-{pair}": self._curves(pair) for pair in self.pairs if self.in_rounds and len(self.table)}

    def _curves(self, pair: str) -> Any:
        reached = {row["method"]: row["accuracy"] for row in self.table.to_pylist() if row["pair"] == pair}
        curves = {method: self.curve(pair, method) for method in self.in_rounds}
        levels = {name: level for name, level in reached.items() if name not in (SOURCE_ONLY, AUTO, *curves)}
        return accuracy_per_round(curves, self.curve(pair, SOURCE_ONLY)[:, -1], pair.replace("-to-", " → "), levels)
