"""What scores are compared with when people voted on labels: two readings of the samples that were not put to a vote.

Usually only doubtful labels are. Among those alone, easy samples are missing, which shrinks every coefficient. Counting the
others as chosen by everybody adds the judgment that spared them, often that of models, which raises it. So both are shown.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardsight.human.targets import Target, human_targets, match_people
from hardsight.human.votes import Votes
from hardsight.snapshot import Snapshot

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
