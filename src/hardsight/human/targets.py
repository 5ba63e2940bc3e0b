"""What scores are compared with: how often people chose the class, how much they disagreed, or any numeric column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hardsight.errors import InputError
from hardsight.files.human import People, match, match_bases
from hardsight.human.models import base_ids, numbers_of, splits_of
from hardsight.human.settings import CorrelateSettings
from hardsight.human.votes import Votes
from hardsight.screen import brief
from hardsight.snapshot import Snapshot
from hardsight.stats.answers import Measure, answer_entropy, selection_frequency

HARD_LEVEL = {"contrast": "low", "brightness": "low", "sharpness": "low", "noise": "high", "blur": "high"}


@dataclass(frozen=True)
class Target:
    """One column to compare with. `hard` is the end at which a sample is hard for people."""

    __repr__ = brief

    key: str  # frequency, entropy, or the name of a column
    words: str
    hard: str
    rows: np.ndarray  # (m,) rows of the model's table that it covers
    values: np.ndarray  # (m,) NaN if unknown
    counts: np.ndarray | None = None  # (m, c) answers, or (m, 2): the given class and the others
    labels: np.ndarray | None = None  # (m,) columns of counts
    measure: Measure | None = None
    no_ceiling: str = "a noise ceiling needs people's answers"

    def some(self, rows: np.ndarray | None) -> Target:
        """The target restricted to these rows of the table; None for all."""
        if rows is None:
            return self
        kept = np.isin(self.rows, rows)
        counts, labels = (None if x is None else x[kept] for x in (self.counts, self.labels))
        return replace(self, rows=self.rows[kept], values=self.values[kept], counts=counts, labels=labels)


def targets_of(model: Snapshot, people: People | None, settings: CorrelateSettings, allow_missing: bool) -> list[Target]:
    """What the scores of a model are compared with: human data, or a column of its own."""
    if people is not None:
        return human_targets(model, people, allow_missing)
    assert settings.against is not None
    return list(column_targets(model, settings.against, settings.hard))


def human_targets(model: Snapshot, people: People, allow_missing: bool) -> list[Target]:
    """Selection frequency, and the entropy of the answers if counts are known."""
    rows, of_people = match_people(model, people, allow_missing)
    people = people.take(of_people).about_labels(model.labels[rows])
    if people.counts is None:
        assert people.frequency is not None
        counts, why = _counts_from_frequency(people)
        target = Target(
            "frequency", "selection frequency", "low", rows, people.frequency, counts,
            None if counts is None else np.zeros(len(rows), dtype=np.int64), "frequency", why,
        )  # fmt: skip
        return [target]
    labels = model.labels[rows]
    if len(labels) and labels.max() < 0:
        raise InputError(f"{model.name} has no labels: with counts, the given class of each sample must be known.")
    counts = people.for_labels(labels).counts
    chosen, entropy = selection_frequency(counts, labels), answer_entropy(counts)
    common = {"counts": counts, "labels": labels}
    targets = [
        Target("frequency", "selection frequency", "low", rows, chosen, **common, measure="frequency"),
        Target("entropy", "entropy of the answers", "high", rows, entropy, **common, measure="entropy"),
    ]
    if people.reaction_time is not None:
        targets.append(Target("reaction_time", "median reaction time", "high", rows, people.reaction_time))
    return targets


def match_people(model: Snapshot, people: People, allow_missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Matching rows of the model and of the human data; degraded copies belong to their base image."""
    bases, splits = base_ids(model), splits_of(model)
    if people.ids is None and len(people) != len(model) and len(splits) > 1 and bases is None:
        raise InputError(
            f"{people.name}: {len(people)} rows without ids for {len(model)} samples of {model.name}, which are of the "
            f"splits {', '.join(splits)}: choose one with split."
        )
    return match(people, model.ids, allow_missing) if bases is None else match_bases(people, bases, allow_missing)


def _counts_from_frequency(people: People) -> tuple[np.ndarray | None, str]:
    """(n, 2) chosen and not chosen, if the number of people is known."""
    if people.answers is None:
        return None, "a noise ceiling needs counts, or the number of answers beside each frequency"
    assert people.frequency is not None
    answers = people.answers
    bad = np.flatnonzero(~(np.isfinite(answers) & (answers >= 0) & (np.floor(answers) == answers)))
    if len(bad):
        raise InputError(f"{people.name}: answers must be whole numbers of people; row {bad[0]} holds {answers[bad[0]]:g}.")
    people.frequency[answers == 0] = np.nan  # nobody answered
    chosen = np.nan_to_num(people.frequency) * answers
    off = np.flatnonzero(np.abs(chosen - np.rint(chosen)) > 0.05)
    if len(off):
        row = int(off[0])
        raise InputError(
            f"{people.name}: a frequency must be some of the answers over all of them, but row {row} has "
            f"{people.frequency[row]:g} of {answers[row]:g}."
        )
    own = np.rint(chosen).astype(np.int64)
    return np.stack([own, answers.astype(np.int64) - own], axis=1), ""


def column_targets(model: Snapshot, name: str, hard: str | None) -> Iterator[Target]:
    """A numeric column as the target; for degradation levels, one target per kind."""
    values = numbers_of(model, name)
    if name == "level" and "degradation" in model.column_names:
        kinds = np.array([kind or "" for kind in model.columns(["degradation"]).column(0).to_pylist()], dtype=object)
        for kind in dict.fromkeys(kinds.tolist()):
            rows = np.flatnonzero(kinds == kind)
            words = f"{kind} level" if kind else "level"
            yield Target(str(kind) or name, words, hard or HARD_LEVEL.get(str(kind), "high"), rows, values[rows])
        return
    yield Target(name, name, hard or "high", np.arange(len(values)), values)


# ---- votes: two readings of the samples that were not put to a vote ----


ALL = "frequency_all"


def vote_targets(model: Snapshot, votes: Votes) -> list[Target]:
    """Share of yes among the samples put to a vote; the same with all others as 1; entropy over the candidate labels."""
    contested = human_targets(model, votes.people, allow_missing=True)[0]
    contested = replace(contested, words="selection frequency of samples put to a vote")
    targets = [contested]
    labeled = np.flatnonzero(model.labels >= 0)
    if len(np.setdiff1d(labeled, contested.rows)):
        values = np.full(len(model), np.nan)
        values[labeled] = 1.0
        values[contested.rows] = contested.values
        words = "selection frequency, 1 where nobody was asked"
        targets.append(Target(ALL, words, "low", labeled, values[labeled], no_ceiling="nobody was asked about some samples"))
    if votes.entropy is not None:
        rows, of_people = match_people(model, votes.people, allow_missing=True)
        words = "entropy of the labels that people accept"
        no_ceiling = "a noise ceiling needs answers that exclude each other"
        targets.append(Target("entropy", words, "high", rows, votes.entropy[of_people], no_ceiling=no_ceiling))
    return targets


def selection_notes(votes: Votes, model: Snapshot) -> tuple[str, ...]:
    """What was put to a vote, and why there are two readings."""
    rows, _ = match_people(model, votes.people, allow_missing=True)
    left = len(model) - len(rows)
    if not left:
        return ()
    words = f"{len(rows)} of {len(model)} samples were put to a vote."
    if votes.unasked:
        words += f" {votes.unasked} more have votes about other labels alone."
    return (
        f"{words} If these are the doubtful ones, coefficients over them alone are too low, and those that count the others as 1 "
        "are too high: both are given.",
    )
