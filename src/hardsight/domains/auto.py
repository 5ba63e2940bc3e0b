"""`auto`: choose the method and the round to stop at, by a validator alone; and when to warn.

Nothing here looks at a label of the target. Which validator, and which limits, was decided on four pairs of domains and
measured once on others: papers/docs/results.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardsight.domains.methods import Method
from hardsight.domains.settings import SOURCE_ONLY

CAREFUL = "weighted"  # the candidate that does not assume classes to be about as frequent as each other
CANDIDATES = ("cbst", "crst", "cbst+avh", "dann", CAREFUL)  # the methods `auto` runs and chooses from
CHOSEN_BY = "neighbors"  # the validator that chooses
LEAST_GAIN = 0.025  # of what the source model leaves between that validator and 1: with less, nothing shows that adapting helped
LEAST_LEAD = 2.0  # of the same, times how uneven classes are: by as much another method must lead the careful one
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


def judged(entry: Mapping[str, Any]) -> float:
    """The validator that rounds are compared by; -inf if it is not known."""
    value = (entry.get("validators") or {}).get(CHOSEN_BY)
    return -math.inf if value is None else float(value)


def best_round(history: History) -> int:
    """The number of the round with the highest judgment, the last among equals.

    Example:
        >>> best_round([{"round": k + 1, "validators": {CHOSEN_BY: value}} for k, value in enumerate([0.5, 0.7, 0.6])])
        2
    """
    return int(max(history, key=lambda entry: (judged(entry), entry["round"]))["round"])


def to_reach(source: Mapping[str, Any]) -> float:
    """The value of the validator above which a round counts as better than the source model.

    A share of the room left: where 0.97 of the neighbors agree already, no round could rise by as much as from 0.6.

    Example:
        >>> [round(to_reach({"validators": {CHOSEN_BY: before}}), 4) for before in (0.6, 0.968)]
        [0.61, 0.9688]
    """
    before = judged(source)
    return before + LEAST_GAIN * (1 - before) if before > -math.inf else before


def to_lead(source: Mapping[str, Any], careful: Mapping[str, Any]) -> float:
    """The value of the validator that another method needs to be chosen over the careful method.

    To select the same share of each predicted class is right where classes are about as frequent as each other. Where some are
    rare, it teaches the model that parts of others belong to them, whole neighborhoods at a time, which neighbors cannot tell.
    So the more uneven the careful method finds the classes, the further another one must be ahead of it. `dann`, which
    makes the domains look alike, errs in the same way.

    Example:
        >>> source, careful = {"validators": {CHOSEN_BY: 0.6}}, {"validators": {CHOSEN_BY: 0.7}}
        >>> [round(to_lead(source, {**careful, "evenness": evenness}), 3) for evenness in (1.0, 0.95)]
        [0.7, 0.74]
    """
    evenness = careful.get("evenness")
    uneven = 0.0 if evenness is None else 1 - float(evenness)
    return judged(careful) + LEAST_LEAD * uneven * (1 - judged(source))


def choose(histories: Mapping[str, History]) -> Choice:
    """The best round of another method where it leads the careful method's; else that one; else the source model.

    Args:
        histories: the rounds of `source` and of each candidate.
    """
    source = histories[SOURCE_ONLY][-1]
    others = {name: history for name, history in histories.items() if name != SOURCE_ONLY}
    best = {name: next(e for e in history if e["round"] == best_round(history)) for name, history in others.items()}
    choice, to_beat = Choice(Method(), source), to_reach(source)
    careful = best.pop(CAREFUL, None)
    if careful is not None and judged(careful) > -math.inf:
        if judged(careful) > to_beat:
            choice = Choice(Method.read(CAREFUL), careful)
        to_beat = max(to_beat, to_lead(source, careful))
    for name, entry in best.items():
        if judged(entry) > to_beat:
            choice, to_beat = Choice(Method.read(name), entry), judged(entry)
    return choice


def warning(source: Mapping[str, Any], last: Mapping[str, Any]) -> str | None:
    """A warning if the validator has not risen enough to count as better than the source model, else None.

    It may have risen a little and accuracy with it, so the sentence says no more than what is known.
    """
    before, after, least = judged(source), judged(last), to_reach(source)
    if not -math.inf < after < least:
        return None
    return (
        f"no sign that adapting helped: {CHOSEN_BY} went from {before:.4f} to {after:.4f}, less than the {least:.4f} "
        f"that would show it; compare with --methods {SOURCE_ONLY},{CAREFUL}"
    )
