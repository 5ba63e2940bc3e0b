"""Print the tables of docs/results.md about choosing without labels, from finished runs of `hardsight adapt`:

python docs/make_validation.py RUN [RUN ...]

The methods of `auto` must be among those of the runs; whether `auto` itself is does not matter: its choice follows from
the validators of every round, which are in rounds.parquet. Runs on rare classes are those of docs/make_domains.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import spearmanr

from hardsight.domains.accuracy import paired_difference
from hardsight.domains.adaptation.choosing import (
    CANDIDATES,
    CAREFUL,
    CHOSEN_BY,
    LEAST_GAIN,
    best_round,
    choose,
    judged,
    to_lead,
    warning,
)
from hardsight.domains.adaptation.validation import VALIDATORS
from hardsight.domains.adaptation.work import BASELINE
from hardsight.screen import interval

CHOSEN_ON = ("art_painting-to-cartoon", "cartoon-to-art_painting", "photo-to-art_painting", "mnist-to-usps")
RARE = "-rare"  # of the names of pairs with rare classes
Entry = dict[str, Any]


@dataclass
class Trial:
    """One pair of domains and one seed: the source model's entry, and those of each candidate's rounds.

    Attributes:
        baseline: accuracy of plain logistic regression on the source.
    """

    pair: str
    source: Entry
    histories: dict[str, list[Entry]]
    baseline: float = float("nan")

    @property
    def rounds(self) -> list[Entry]:
        """Everything there is to choose from."""
        return [self.source, *(entry for history in self.histories.values() for entry in history)]

    @property
    def oracle(self) -> float:
        """The best there is."""
        return max(entry["accuracy"] for entry in self.rounds)

    @property
    def auto(self) -> float:
        """What `auto` reaches."""
        return float(choose({"source": [self.source], **self.histories}).entry["accuracy"])

    def last(self, method: str) -> float:
        """What a method reaches at its last round."""
        return float(self.source["accuracy"] if method == "source" else self.histories[method][-1]["accuracy"])

    def highest(self, validator: str) -> float:
        """What the round with the highest value of a validator reaches, the last among equals."""
        known = [entry for entry in self.rounds if entry["validators"][validator] is not None]
        return float(max(known, key=lambda entry: (entry["validators"][validator], entry["round"]))["accuracy"])


def trials(runs: Iterable[Path]) -> list[Trial]:
    """Every pair and seed of some runs."""
    found: dict[tuple[str, int], Trial] = {}
    for run in runs:
        for row in pq.read_table(run / "rounds.parquet").to_pylist():
            entry = {**row, "validators": {name: row[name] for name in VALIDATORS}}
            if row["method"] == "source":
                found[row["pair"], row["seed"]] = Trial(row["pair"], entry, {method: [] for method in CANDIDATES})
            elif row["method"] == BASELINE:
                found[row["pair"], row["seed"]].baseline = row["accuracy"]
            elif row["method"] in CANDIDATES:
                found[row["pair"], row["seed"]].histories[row["method"]].append(entry)
    return list(found.values())


def choices(some: Sequence[Trial]) -> str:
    """One row per pair: the source model, and gains of logistic regression, each last round, `auto` and the oracle.

    Means over seeds, then over pairs; only the lowest gain of `auto` is that of a single run.
    """
    pairs = list(dict.fromkeys(trial.pair for trial in some))
    rows = {pair: _gains([trial for trial in some if trial.pair == pair]) for pair in pairs}
    head = ["domains", "source", BASELINE, *CANDIDATES, "auto", "oracle", "regret of auto", "lowest of auto"]
    together = np.array(list(rows.values()))  # (pairs, columns)
    rows["mean"] = np.append(together[:, :-1].mean(0), together[:, -1].min())
    told = (
        [f"{row[0]:.1f}", *(f"{gain:+.1f}" for gain in row[1:-2]), f"{row[-2]:.1f}", f"{row[-1]:+.1f}"] for row in rows.values()
    )
    return _table(head, [[name, *cells] for name, cells in zip(rows, told, strict=True)])


def _gains(members: Sequence[Trial]) -> np.ndarray:
    """The numbers of one row of `choices`, in points."""
    source = np.array([trial.last("source") for trial in members])  # (t,)
    reached = [[t.baseline, *(t.last(method) for method in CANDIDATES), t.auto, t.oracle] for t in members]  # (t, columns)
    gains = np.array(reached) - source[:, None]
    means = gains.mean(0)
    return 100 * np.array([source.mean(), *means, means[-1] - means[-2], gains[:, -2].min()])


def against(some: Sequence[Trial]) -> str:
    """`auto` against the source model and the last round of each method.

    Its interval is over the means of pairs; points below are those of single runs.
    """
    pairs = list(dict.fromkeys(trial.pair for trial in some))

    def by_pair(reached: Sequence[float]) -> list[float]:
        return [
            float(np.mean([value for value, trial in zip(reached, some, strict=True) if trial.pair == pair])) for pair in pairs
        ]

    ours, rows = [trial.auto for trial in some], []
    for method in ("source", *CANDIDATES):
        theirs = [trial.last(method) for trial in some]
        found = paired_difference(by_pair(ours), by_pair(theirs))
        between = "" if found.low is None or found.high is None else f" {interval(found.low, found.high, 1, factor=100)}"
        below = 100 * (np.array(theirs) - np.array(ours))  # (t,)
        worst = some[int(below.argmax())].pair if below.max() > 0 else ""
        lower = f"{max(below.max(), 0.0):.1f} {worst}".strip()
        rows.append([f"`{method}`", f"{100 * found.mean:+.1f}{between}", f"{(below > 1).sum()} of {len(some)}", lower])
    return _table(["`auto` against", "mean over pairs", "runs more than 1 point below", "most below"], rows)


def by_validator(some: Sequence[Trial]) -> str:
    """One row per validator: what choosing its highest round costs against the oracle, and the rank correlation."""

    def rank(trial: Trial, name: str) -> float:
        known = [entry for entry in trial.rounds if entry["validators"][name] is not None]
        values, accuracies = [entry["validators"][name] for entry in known], [entry["accuracy"] for entry in known]
        return float(spearmanr(values, accuracies)[0]) if len(set(values)) > 1 else 0.0  # a constant orders nothing

    rows = []
    for name in VALIDATORS:
        regret = [100 * (trial.oracle - trial.highest(name)) for trial in some]
        below = max(100 * (trial.last("source") - trial.highest(name)) for trial in some)
        ranks = np.mean([rank(trial, name) for trial in some])
        rows.append([f"`{name}`", f"{np.mean(regret):.1f}", f"{max(below, 0.0):.1f}", f"{ranks:+.2f}"])
    return _table(["validator", "mean regret", "most below source", "rank correlation"], rows)


def warned(some: Sequence[Trial]) -> str:
    """How many last rounds were worse than the source model, how many of them a warning was given for, and false alarms."""
    ends = [
        (history[-1]["accuracy"] < trial.source["accuracy"], warning(trial.source, history[-1]) is not None)
        for trial in some
        for history in trial.histories.values()
    ]
    harmful, harmless = [told for worse, told in ends if worse], [told for worse, told in ends if not worse]
    return f"harmful: {sum(harmful)} of {len(harmful)} warned of; harmless: {sum(harmless)} of {len(harmless)} warned of"


@dataclass
class End:
    """The last round of a method in a trial, with what a rule may look at. No label of the target is among it."""

    trial: Trial
    method: str

    @property
    def last(self) -> Entry:
        """Its entry."""
        return self.trial.histories[self.method][-1]

    @property
    def harmful(self) -> bool:
        """Whether it ends below the source model: what a rule is to find out."""
        return bool(self.last["accuracy"] < self.trial.source["accuracy"])

    @property
    def balanced(self) -> bool:
        """Whether the method selects the same share of each class."""
        return self.method != CAREFUL

    def rise(self, name: str) -> float:
        """How far a validator has risen."""
        return float(self.last["validators"][name] - self.trial.source["validators"][name])

    @property
    def share(self) -> float:
        """The rise of `neighbors` as a share of the room left by the source model."""
        return self.rise(CHOSEN_BY) / (1 - judged(self.trial.source))

    @property
    def uneven(self) -> float:
        """1 - evenness of the classes that the source model predicts."""
        return 1 - float(self.trial.source["evenness"])

    def leads(self, part: float) -> bool:
        """Whether its `neighbors` lead those of the careful method by this part of what `auto` asks for."""
        history = self.trial.histories[CAREFUL]
        careful = next(entry for entry in history if entry["round"] == best_round(history))
        asked = judged(careful) + part * (to_lead(self.trial.source, careful) - judged(careful))
        return judged(self.last) > asked


RULES: dict[str, Callable[[End], bool]] = {
    f"`neighbors` rises by less than {LEAST_GAIN} (the default)": lambda end: end.share < LEAST_GAIN,
    "`neighbors` rises by less than 0.1": lambda end: end.share < 0.1,
    "`neighbors` rises by less than 0.2": lambda end: end.share < 0.2,
    f"`neighbors` rises by less than {LEAST_GAIN} + 2 (1 - evenness of the source model)": (
        lambda end: end.share < LEAST_GAIN + 2 * end.uneven * end.balanced
    ),
    f"`neighbors` rises by less than {LEAST_GAIN} + 5 (1 - evenness of the source model)": (
        lambda end: end.share < LEAST_GAIN + 5 * end.uneven * end.balanced
    ),
    "`neighbors` does not lead that of `weighted` as `auto` asks": lambda end: end.balanced and not end.leads(1),
    "`neighbors` does not lead that of `weighted` by half as much": lambda end: end.balanced and not end.leads(0.5),
    "evenness of the source model is below 0.96": lambda end: end.balanced and end.uneven > 0.04,
    "evenness rises": lambda end: end.balanced and end.last["evenness"] > end.trial.source["evenness"],
    "`infomax` rises by less than 0.2": lambda end: end.rise("infomax") < 0.2,
    "`circular` falls": lambda end: end.rise("circular") < 0,
    "`mean_avc` rises by less than 0.02": lambda end: end.rise("mean_avc") < 0.02,
}


def rules(some: Sequence[Trial]) -> str:
    """One row per rule for warning: the harmful runs it catches, and its false alarms."""
    ends = [End(trial, method) for trial in some for method in trial.histories]
    harmful, harmless = [end for end in ends if end.harmful], [end for end in ends if not end.harmful]
    return _table(
        ["warn if", f"caught, of {len(harmful)}", f"false alarms, of {len(harmless)}"],
        ([name, f"{sum(map(rule, harmful))}", f"{sum(map(rule, harmless))}"] for name, rule in RULES.items()),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    everything = trials(map(Path, sys.argv[1:]))
    rare = [trial for trial in everything if RARE in trial.pair]
    chosen_on = [trial for trial in everything if trial.pair in CHOSEN_ON]
    reported = [trial for trial in everything if trial not in rare and trial not in chosen_on]
    for title, members in (("chosen on", chosen_on), ("rare classes", rare), ("reported", reported)):
        if members:
            print(f"{title}\n\n{choices(members)}\n\n{against(members)}\n\n{by_validator(members)}\n\n{warned(members)}\n")
    if chosen_on and rare:
        print(f"rules tried for the warning, on the pairs chosen on and those with rare classes\n\n{rules(chosen_on + rare)}")
