"""`auto`: which method to take and at which round to stop, by a validator alone; and when to warn that adapting hurts.

Nothing here looks at a label of the target. Which validator, and which limits, was decided on four pairs of domains and
measured once on others: docs/results.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardsight.adapt.methods import Method
from hardsight.adapt.settings import SOURCE_ONLY

CANDIDATES = ("cbst", "crst", "cbst+avh")  # the methods `auto` runs and chooses from
CHOSEN_BY = "neighbours"  # the validator that chooses
LEAST_GAIN = 0.025  # of what the source model leaves between that validator and 1: with less, adapting is taken to hurt
BEST = "best.safetensors"  # a candidate's model at its best round, until `auto` has chosen

History = Sequence[Mapping[str, Any]]  # one entry per round


@dataclass(frozen=True)
class Choice:
    """What `auto` takes.

    Attributes:
        method: one of the candidates, or `source` where no round of any is judged better than the source model.
        entry: that round's entry in the history.
    """

    method: Method
    entry: Mapping[str, Any]


def candidates(images: bool) -> tuple[str, ...]:
    """The methods `auto` chooses from; of images, those that align nothing."""
    return tuple(name for name in CANDIDATES if not (images and Method.read(name).alignment))


def judged(entry: Mapping[str, Any]) -> float:
    """What rounds are compared by; -inf where the validator is not known."""
    value = (entry.get("validators") or {}).get(CHOSEN_BY)
    return -math.inf if value is None else float(value)


def best_round(history: History) -> int:
    """The number of the round with the highest judgement, the last among equals.

    Example:
        >>> best_round([{"round": k + 1, "validators": {CHOSEN_BY: value}} for k, value in enumerate([0.5, 0.7, 0.6])])
        2
    """
    return int(max(history, key=lambda entry: (judged(entry), entry["round"]))["round"])


def to_reach(source: Mapping[str, Any]) -> float:
    """What a round must be judged to count as better than the source model.

    A share of the room left: where 0.97 of the neighbours agree already, no round could rise by as much as from 0.6.

    Example:
        >>> [round(to_reach({"validators": {CHOSEN_BY: before}}), 4) for before in (0.6, 0.968)]
        [0.61, 0.9688]
    """
    before = judged(source)
    return before + LEAST_GAIN * (1 - before) if before > -math.inf else before


def choose(histories: Mapping[str, History]) -> Choice:
    """The best round of all candidates; the source model where none reaches what is asked of it.

    Args:
        histories: the rounds of `source` and of each candidate.
    """
    source = histories[SOURCE_ONLY][-1]
    choice, to_beat = Choice(Method(), source), to_reach(source)
    for name, history in histories.items():
        entry = next(entry for entry in history if entry["round"] == best_round(history))
        if judged(entry) > to_beat:
            choice, to_beat = Choice(Method.read(name), entry), judged(entry)
    return choice


def warning(source: Mapping[str, Any], last: Mapping[str, Any]) -> str | None:
    """A sentence where the validators say that a method made the model worse than the source model; None where not."""
    before, after, least = judged(source), judged(last), to_reach(source)
    if not -math.inf < after < least:
        return None
    return f"adapting seems to hurt: {CHOSEN_BY} went from {before:.4f} to {after:.4f}, where it should have reached {least:.4f}"
