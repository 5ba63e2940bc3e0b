"""The verdict of a sample, one at most, and its explanation in plain words. The first that applies:

likely mislabeled   the label is more likely wrong than right
near duplicate      nearly the same as a sample before it, or as one of the reference
outlier             far from all other samples
ambiguous           its class and another are both likely: within a factor of two; or the model went back and forth:
                    right in more than a quarter of the epochs, but in less than three quarters of those since it first was
hard but right      the model gives it less than one half, or had it wrong in most epochs; still it is more likely right
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardsight.files.suspects import AMBIGUOUS, DUPLICATE, HARD, MISLABELED, OUTLIER
from hardsight.quality.evidence import RIGHT_SINCE, Evidence
from hardsight.quality.neighbors import Neighborhood
from hardsight.scores.duplicates import Repeats
from hardsight.snapshot import Snapshot

PRECEDENCE = (MISLABELED, DUPLICATE, OUTLIER, AMBIGUOUS, HARD)  # the first that applies is given
FACTOR = 2.0  # at most, between two classes that are both likely
EVEN = 0.5  # a probability below it is less than even odds
UNLIKELY = 0.05  # a probability below it: nothing says that such a label is right
OFTEN = 0.75  # share of epochs: wrong in fewer, and right in fewer once it was right, is back and forth
WORDS_BY_PROBS = {
    MISLABELED: "labeled {given}, but the model gives {rival} with probability {other:.2f} (own class {own:.2f})",
    AMBIGUOUS: "labeled {given} ({own:.2f}), and {rival} is likely, too ({other:.2f})",
    HARD: "labeled {given}, though the model gives it only {own:.2f} ({rival}: {other:.2f}): {likely}",
}
WORDS_BY_EPOCHS = {
    MISLABELED: "labeled {given}, but in training its probability was {own:.2f} on average (right in {right:.0f} % of the "
    "epochs); next is {rival}",
    AMBIGUOUS: "labeled {given}; the model went back and forth, right in {since:.0f} % of the epochs since it first was; "
    "next is {rival}",
    HARD: "labeled {given}, though its probability was only {own:.2f} on average in training: {likely}",
}


@dataclass(frozen=True)
class Facts:
    """What is known of each of n samples when verdicts are given; rows that could not be scored are not `known`."""

    known: np.ndarray  # (n,) bool
    issue: np.ndarray  # (n,) bool: more likely wrong than right
    own: np.ndarray  # (n,) probability of the given class, or its mean over the epochs
    rival: np.ndarray  # (n,) class that is most likely besides the given one
    rival_probability: np.ndarray  # (n,)
    right: np.ndarray | None  # (n,) share of epochs in which the given class won
    since: np.ndarray | None = None  # (n,) the same of the epochs since it first won

    @property
    def ambiguous(self) -> np.ndarray:
        """(n,) whether the given class and another are both likely."""
        if self.right is not None and self.since is not None:  # epochs before it was learned are no back and forth
            return (self.right > 1 - OFTEN) & (self.since < OFTEN)
        return (self.own <= FACTOR * self.rival_probability) & (self.rival_probability <= FACTOR * self.own)

    @property
    def hard(self) -> np.ndarray:
        """(n,) whether the model hardly finds the given class."""
        missed = self.own < EVEN
        return missed if self.right is None else missed | (self.right <= 1 - OFTEN)


def facts_of(evidence: Evidence, issue: np.ndarray) -> Facts:
    """From the probabilities and the epochs, if any; `issue` (n,) says whether a label is more likely wrong than right."""
    labels = evidence.labels
    probs = np.where(np.isfinite(evidence.probs), evidence.probs, 0.0)  # (n, c)
    rows, given = np.arange(len(labels)), np.maximum(labels, 0)
    own = probs[rows, given].astype(np.float64)
    probs[rows, given] = -1.0
    rival = probs.argmax(axis=1)
    known = (labels >= 0) & np.isfinite(evidence.probs).all(axis=1)
    right = since = None
    if evidence.kind == "epochs":
        own, right = evidence.epochs["cartography_confidence"], evidence.epochs["cartography_correctness"]
        since = evidence.epochs[RIGHT_SINCE]
        known = known & np.isfinite(own)
    other = probs[rows, rival].astype(np.float64)
    return Facts(known, issue, own, rival, other, right, since)


def verdict_codes(facts: Facts, near: Neighborhood | None) -> np.ndarray:
    """(n,) index into PRECEDENCE, -1 for an ordinary sample."""
    with np.errstate(invalid="ignore"):
        rules = {AMBIGUOUS: facts.known & facts.ambiguous, HARD: facts.known & facts.hard, MISLABELED: facts.issue}
    if near is not None:
        rules |= {DUPLICATE: near.repeated, OUTLIER: near.nearby.far}
    codes = np.full(len(facts.issue), -1)
    for code in reversed(range(len(PRECEDENCE))):
        if PRECEDENCE[code] in rules:
            codes[rules[PRECEDENCE[code]]] = code
    return codes


def class_name(label: int, names: Sequence[str] | None) -> str:
    """The name of a class, or its number where it has none."""
    return str(label) if names is None or label >= len(names) else names[label]


@dataclass(frozen=True)
class Verdicts:
    """What is said of n samples in the end."""

    facts: Facts
    names: np.ndarray  # (n,) one of PRECEDENCE, None for an ordinary sample
    explanations: np.ndarray  # (n,) why, None for an ordinary sample


def explained_verdicts(samples: Snapshot, evidence: Evidence, facts: Facts, near: Neighborhood | None) -> Verdicts:
    """The verdict of every sample, and why it has it."""
    codes = verdict_codes(facts, near)
    names = np.array([*PRECEDENCE, None], dtype=object)[codes]  # -1 is the last
    explain = Explainer(samples, evidence, facts, near)
    explanations = np.full(len(codes), None, dtype=object)
    for row in np.flatnonzero(codes >= 0):
        explanations[row] = explain(int(row), names[row])
    return Verdicts(facts, names, explanations)


class Explainer:
    """Sentences for verdicts."""

    def __init__(self, samples: Snapshot, evidence: Evidence, facts: Facts, near: Neighborhood | None) -> None:
        self.labels, self.facts, self.near = evidence.labels, facts, near
        self.ids, self.splits = samples.ids, samples.splits
        self.names = [class_name(label, samples.class_names) for label in evidence.classes.tolist()]
        known = np.empty(0) if near is None else near.nearby.distance[np.isfinite(near.nearby.distance)]
        self.usual = float(np.median(known)) if len(known) else float("nan")  # distance to the tenth nearest

    def __call__(self, row: int, verdict: str) -> str:
        """Why a sample has its verdict."""
        if verdict == DUPLICATE:
            return self._duplicate(row)
        if verdict == OUTLIER:
            return self._outlier(row)
        return self._label(row, verdict) + (self._besides(row) if verdict == MISLABELED else "")

    def _label(self, row: int, verdict: str) -> str:
        """What the model says of the label."""
        facts = self.facts
        by_epochs = facts.right is not None and facts.since is not None
        return (WORDS_BY_EPOCHS if by_epochs else WORDS_BY_PROBS)[verdict].format(
            given=self.names[self.labels[row]],
            rival=self.names[facts.rival[row]],
            own=facts.own[row],
            other=facts.rival_probability[row],
            likely="look at it" if facts.own[row] < UNLIKELY else "probably right",
            right=0 if facts.right is None else 100 * facts.right[row],
            since=0 if facts.since is None else 100 * facts.since[row],
        )

    def _besides(self, row: int) -> str:
        """What a mislabeled sample is as well: a verdict names one thing only."""
        if self.near is not None and self.near.repeated[row]:
            return f"; it is also {self._duplicate(row)}"
        if self.near is not None and self.near.nearby.far[row]:
            return f"; it is also {self._outlier(row)}"
        return ""

    def _duplicate(self, row: int) -> str:
        assert self.near is not None
        same = []
        if self.near.leaked is not None and self.near.leaked.repeated[row]:
            original = self.near.reference_ids[self.near.leaked.nearest[row]]
            same.append(f"as {original} of the reference (distance {self.near.leaked.distance[row]:.2g})")
        if self.near.repeats.repeated[row]:
            same.append(self._as_another(row, self.near.repeats))
        return f"nearly the same {' and '.join(same)}"

    def _as_another(self, row: int, repeats: Repeats) -> str:
        """Which other sample it is the same as, and how they differ."""
        twin, labels, splits, words = int(repeats.nearest[row]), self.labels, self.splits, []
        if labels[row] >= 0 and labels[twin] >= 0 and labels[row] != labels[twin]:
            words.append(f"labeled {self.names[labels[twin]]} (this one {self.names[labels[row]]})")
        if splits is not None and splits[row] != splits[twin]:
            words.append(f"in split {splits[twin]}, not {splits[row]}")
        further = f", which is {' and '.join(words)}" if words else ""
        return f"as {self.ids[twin]} (distance {repeats.distance[row]:.2g}){further}"

    def _outlier(self, row: int) -> str:
        assert self.near is not None
        distance = float(self.near.nearby.distance[row])
        return f"far from all others: {distance:.2g} to its tenth nearest, where {self.usual:.2g} is usual"
