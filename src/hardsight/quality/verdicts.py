"""One verdict per sample at most, and why, in plain words. The first that applies:

likely mislabeled   the label is more likely wrong than right
near duplicate      nearly the same as a sample before it, or as one of the reference
outlier             far from all other samples
ambiguous           its class and another are about as likely: within a factor of two; or the model went back and forth:
                    right in more than a quarter of the epochs, but in less than three quarters of those since it first was
hard but right      the model gives it less than one half, or had it wrong in most epochs; still it is more likely right
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardsight.files.suspects import AMBIGUOUS, DUPLICATE, HARD, MISLABELED, OUTLIER
from hardsight.quality.evidence import RIGHT_SINCE, Evidence, Samples
from hardsight.quality.neighbors import Neighborhood
from hardsight.scores.duplicates import Repeats

VERDICTS = (MISLABELED, DUPLICATE, OUTLIER, AMBIGUOUS, HARD)  # the first that applies is given
FACTOR = 2.0  # between two classes that are about as likely
EVEN = 0.5  # a probability below it is less than even odds
OFTEN = 0.75  # share of epochs: wrong in fewer, and right in fewer once it was right, is back and forth


@dataclass(frozen=True)
class Judged:
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
        """(n,) whether the given class and another are about as likely."""
        if self.right is not None and self.since is not None:  # epochs before it was learned are no back and forth
            return (self.right > 1 - OFTEN) & (self.since < OFTEN)
        return (self.own <= FACTOR * self.rival_probability) & (self.rival_probability <= FACTOR * self.own)

    @property
    def hard(self) -> np.ndarray:
        """(n,) whether the model hardly finds the given class."""
        missed = self.own < EVEN
        return missed if self.right is None else missed | (self.right <= 1 - OFTEN)


def judged(evidence: Evidence, labels: np.ndarray, issue: np.ndarray) -> Judged:
    """From the probabilities and the epochs, if any; `issue` (n,) says whether a label is more likely wrong than right."""
    probs = np.where(np.isfinite(evidence.probs), evidence.probs, 0.0)  # (n, c)
    at, given = np.arange(len(labels)), np.maximum(labels, 0)
    own = probs[at, given].astype(np.float64)
    probs[at, given] = -1.0
    rival = probs.argmax(axis=1)
    known = (labels >= 0) & np.isfinite(evidence.probs).all(axis=1)
    right = since = None
    if evidence.kind == "epochs":
        own, right = evidence.epochs["cartography_confidence"], evidence.epochs["cartography_correctness"]
        since = evidence.epochs[RIGHT_SINCE]
        known = known & np.isfinite(own)
    other = probs[at, rival].astype(np.float64)
    return Judged(known, issue, own, rival, other, right, since)


def verdict_codes(facts: Judged, near: Neighborhood | None) -> np.ndarray:
    """(n,) index into VERDICTS, -1 for an ordinary sample."""
    with np.errstate(invalid="ignore"):
        rules = {AMBIGUOUS: facts.known & facts.ambiguous, HARD: facts.known & facts.hard, MISLABELED: facts.issue}
    if near is not None:
        rules |= {DUPLICATE: near.repeated, OUTLIER: near.nearby.far}
    codes = np.full(len(facts.issue), -1)
    for code in reversed(range(len(VERDICTS))):
        if VERDICTS[code] in rules:
            codes[rules[VERDICTS[code]]] = code
    return codes


class Explainer:
    """Sentences for verdicts."""

    def __init__(self, samples: Samples, facts: Judged, near: Neighborhood | None, reference_ids: list[str] | None) -> None:
        self.samples, self.facts, self.near = samples, facts, near
        self.reference_ids = reference_ids
        known = np.empty(0) if near is None else near.nearby.distance[np.isfinite(near.nearby.distance)]
        self.usual = float(np.median(known)) if len(known) else float("nan")  # distance to the tenth nearest

    def __call__(self, row: int, code: int) -> str:
        """Why a sample has its verdict."""
        explain: dict[str, Callable[[int], str]] = {
            MISLABELED: self._mislabeled,
            DUPLICATE: self._duplicate,
            OUTLIER: self._outlier,
            AMBIGUOUS: self._ambiguous,
            HARD: self._hard,
        }
        return explain[VERDICTS[code]](row) + (self._besides(row) if VERDICTS[code] == MISLABELED else "")

    def _besides(self, row: int) -> str:
        """What a mislabeled sample is as well: a verdict names one thing only."""
        if self.near is not None and self.near.repeated[row]:
            return f"; it is also {self._duplicate(row)}"
        if self.near is not None and self.near.nearby.far[row]:
            return f"; it is also {self._outlier(row)}"
        return ""

    def _name(self, label: int) -> str:
        names = self.samples.class_names
        return str(label) if names is None else names[label]

    def _labels(self, row: int) -> tuple[str, str, float, float]:
        facts = self.facts
        given, rival = self._name(int(self.samples.labels[row])), self._name(int(facts.rival[row]))
        return given, rival, float(facts.own[row]), float(facts.rival_probability[row])

    def _mislabeled(self, row: int) -> str:
        given, rival, own, other = self._labels(row)
        if self.facts.right is None:
            return f"labeled {given}, but the model gives {rival} with probability {other:.2f} (own class {own:.2f})"
        right = f"right in {100 * float(self.facts.right[row]):.0f} % of the epochs"
        return f"labeled {given}, but in training its probability was {own:.2f} on average ({right}); next is {rival}"

    def _ambiguous(self, row: int) -> str:
        given, rival, own, other = self._labels(row)
        if self.facts.since is None:
            return f"labeled {given}, and {rival} is about as likely ({own:.2f} against {other:.2f})"
        right = f"right in {100 * float(self.facts.since[row]):.0f} % of the epochs since it first was"
        return f"labeled {given}; the model went back and forth, {right}; next is {rival}"

    def _hard(self, row: int) -> str:
        given, rival, own, other = self._labels(row)
        if self.facts.right is None:
            return f"labeled {given} and probably right, though the model gives it only {own:.2f} ({rival}: {other:.2f})"
        return f"labeled {given} and probably right, though its probability was only {own:.2f} on average in training"

    def _duplicate(self, row: int) -> str:
        assert self.near is not None
        same = []
        if self.near.leaked is not None and self.near.leaked.repeated[row]:
            which = "a sample" if self.reference_ids is None else self.reference_ids[int(self.near.leaked.nearest[row])]
            same.append(f"as {which} of the reference (distance {self.near.leaked.distance[row]:.2g})")
        if self.near.repeats.repeated[row]:
            same.append(self._as_another(row, self.near.repeats))
        return f"nearly the same {' and '.join(same)}"

    def _as_another(self, row: int, repeats: Repeats) -> str:
        """Which other sample it is the same as, and how they differ."""
        twin, samples, words = int(repeats.nearest[row]), self.samples, []
        if samples.labels[row] >= 0 and samples.labels[twin] >= 0 and samples.labels[row] != samples.labels[twin]:
            words.append(f"labeled {self._name(int(samples.labels[twin]))} (this one {self._name(int(samples.labels[row]))})")
        if samples.splits is not None and samples.splits[row] != samples.splits[twin]:
            words.append(f"in split {samples.splits[twin]}, not {samples.splits[row]}")
        further = f", which is {' and '.join(words)}" if words else ""
        return f"as {samples.ids[twin].as_py()} (distance {repeats.distance[row]:.2g}){further}"

    def _outlier(self, row: int) -> str:
        assert self.near is not None
        distance = float(self.near.nearby.distance[row])
        usual = self.usual
        return f"far from all others: {distance:.2g} to its tenth nearest, where {usual:.2g} is usual"
