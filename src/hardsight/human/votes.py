"""Votes of people on a question such as "is this a terrier?": no, maybe or yes, as totals or one row per vote.

    id, no, maybe, yes               totals about the given label of each sample
    id, label, no, maybe, yes        totals about several candidate labels of each sample
    id, label, annotator, vote       one row per vote; without label, about the given one

`maybe` may be missing. The frequency of a sample is the share of yes for its given label, plus a weight times that of maybe.
With candidate labels, the entropy of the samples' yes shares says how many labels people accept. Labels that nobody doubted
are often not put to a vote: see `contested`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.errors import InputError
from hardsight.files.human import People
from hardsight.files.human_studies import file_name, unambiguous
from hardsight.files.places import TABLE_ENDINGS
from hardsight.files.table_files import read_columns
from hardsight.files.wide_tables import as_frame, is_table
from hardsight.human.settings import VoteOptions
from hardsight.snapshot import Snapshot
from hardsight.stats.uncertainty import entropy_of

VOTES = ("no", "maybe", "yes")


@dataclass(frozen=True)
class Votes:
    """The votes as human answers, and how much people are of two minds about the label."""

    people: People  # frequency of the given label; answers, where it is a share of whole votes
    entropy: np.ndarray | None  # (n,) over the candidate labels, in the order of people; None without candidates
    unasked: int  # samples with votes about other labels alone


def read_votes(source: Any, model: Snapshot, settings: VoteOptions) -> Votes | None:
    """Votes about the samples of a model from a table or its file; None if it holds human answers of another kind."""
    class_names, raters = model.class_names, settings.raters
    columns = None if {"no", "yes"} <= set(class_names or ()) else _columns(source)  # else they are counts of these classes
    if columns is None or not ({"no", "yes"} <= columns.keys() or "vote" in columns):
        return None
    name = str(source) if isinstance(source, (str, os.PathLike)) else "votes"
    if "id" not in columns:
        raise InputError(f"{name}: votes need a column id.")
    columns["id"], ids = list(map(str, columns["id"])), list(map(str, model.ids.tolist()))
    if not set(columns["id"]) & set(ids):  # the same images may lie in other folders
        columns["id"], ids = list(map(file_name, columns["id"])), unambiguous(ids, name, "samples")
    label_of = {id: int(label) for id, label in zip(ids, model.labels.tolist(), strict=True)}
    asked = _asked(columns, label_of, class_names, name)  # (q,) the label of each question
    keys = list(zip(map(str, columns["id"]), asked, strict=True))
    totals = _one_by_one(keys, columns, raters, name) if "vote" in columns else _totals(keys, columns, name)
    if raters != "equal" and "vote" not in columns:
        raise InputError(f"{name}: dawid-skene needs one row per vote with the column annotator; these are totals.")
    return _votes(totals, label_of, settings.maybe, (name, raters == "equal" and settings.maybe in (0, 1)))


def _columns(source: Any) -> dict[str, list[Any]] | None:
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if path.suffix.lower() not in TABLE_ENDINGS or not path.is_file():
            return None
        return {key: list(column) for key, column in read_columns(path).items()}
    if isinstance(source, Mapping):
        return {str(key): list(column) for key, column in source.items() if hasattr(column, "__len__")}
    return as_frame(source).to_dict(as_series=False) if is_table(source) else None


def _asked(columns: dict[str, list[Any]], label_of: dict[str, int], class_names: list[str] | None, name: str) -> list[int]:
    """The class that each question was about: that in the column label, or else the sample's given one."""
    if "label" not in columns:
        return [label_of.get(str(id), -1) for id in columns["id"]]
    number = {text: k for k, text in enumerate(class_names or [])}
    asked = []
    for row, value in enumerate(columns["label"]):
        text = str(value)
        if text not in number and not text.isdecimal():
            raise InputError(f"{name}: label must be a class number or name, but row {row} holds {text!r:.80}.")
        asked.append(number[text] if text in number else int(text))
    return asked


def _totals(keys: list[tuple[str, int]], columns: dict[str, list[Any]], name: str) -> dict[tuple[str, int], np.ndarray]:
    """no, maybe and yes of each sample and label."""
    zeros = [0] * len(keys)
    try:
        counts = np.array([columns.get(vote, zeros) for vote in VOTES], dtype=np.float64).T  # (q, 3)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: no, maybe and yes must hold whole numbers.") from error
    asked = ~((counts[:, [0, 2]] < 0).all(1) & (counts[:, 1] <= 0))  # -1 stands for a question that was not asked
    bad = np.flatnonzero(asked & ~((counts >= 0) & (counts == np.floor(counts))).all(1))
    if len(bad):
        raise InputError(f"{name}: no, maybe and yes must be whole numbers; row {bad[0]} holds {counts[bad[0]].tolist()}.")
    totals: dict[tuple[str, int], np.ndarray] = {}
    for row in np.flatnonzero(asked & (counts.sum(1) > 0)):
        if keys[row] in totals:
            raise InputError(f"{name}: give one row per id and label: row {row} repeats {keys[row][0]!r}, {keys[row][1]}.")
        totals[keys[row]] = counts[row]
    return totals


def _one_by_one(
    keys: list[tuple[str, int]], columns: dict[str, list[Any]], raters: str, name: str
) -> dict[tuple[str, int], np.ndarray]:
    """no, maybe and yes of each sample and label: counted, or the probabilities of Dawid and Skene times the votes."""
    if "annotator" not in columns:
        raise InputError(f"{name}: one row per vote needs the column annotator.")
    votes = [str(vote).strip().lower() for vote in columns["vote"]]
    bad = [row for row, vote in enumerate(votes) if vote not in VOTES]
    if bad:
        raise InputError(f"{name}: a vote must be no, maybe or yes, but row {bad[0]} holds {columns['vote'][bad[0]]!r:.80}.")
    seen: dict[Any, int] = {}
    for row, key in enumerate(zip(keys, map(str, columns["annotator"]), strict=True)):
        if seen.setdefault(key, row) != row:
            raise InputError(f"{name}: annotator {key[1]!r} voted twice on {key[0][0]!r}: rows {seen[key]} and {row}.")
    number: dict[tuple[str, int], int] = {}
    item = np.array([number.setdefault(key, len(number)) for key in keys])
    vote = np.array([VOTES.index(text) for text in votes])
    counts = np.zeros((len(number), 3))
    np.add.at(counts, (item, vote), 1.0)
    if raters == "dawid-skene":
        rater = np.unique(list(map(str, columns["annotator"])), return_inverse=True)[1]
        counts = dawid_skene(item, rater, vote, len(VOTES)) * counts.sum(1, keepdims=True)
    return {key: counts[row] for key, row in number.items()}


def _votes(totals: dict[tuple[str, int], np.ndarray], label_of: dict[str, int], maybe: float, about: tuple[str, bool]) -> Votes:
    """Frequency of the given label of each sample, and the entropy over its candidates."""
    name, whole = about
    weight = np.array([0.0, maybe, 1.0])
    yes_of: dict[str, list[float]] = {}
    given: dict[str, np.ndarray] = {}
    for (id, label), counts in totals.items():
        yes_of.setdefault(id, []).append(float(counts @ weight / counts.sum()))
        if label == label_of.get(id):
            given[id] = counts
    if not given:
        raise InputError(f"{name}: {_why_none(totals, label_of)}")
    ids, counts = list(given), np.array(list(given.values()))  # (n, 3)
    frequency, answers = counts @ weight / counts.sum(1), counts.sum(1)
    people = People(name, np.array(ids), frequency=frequency, answers=answers if whole else None)
    entropy = None
    if any(len(shares) > 1 for shares in yes_of.values()):
        entropy = np.array([_entropy(yes_of[id]) for id in ids])
    asked_only_of_others = sum(id in label_of and id not in given for id in yes_of)
    return Votes(people, entropy, asked_only_of_others)


def _why_none(totals: dict[tuple[str, int], np.ndarray], label_of: dict[str, int]) -> str:
    """Why no vote is about the given label of a sample."""
    if not totals:
        return "there are no votes here."
    both = [key for key in totals if key[0] in label_of]
    if not both:
        some, known = next(iter(totals))[0], next(iter(label_of), "")
        return f"no id of a vote matches a sample; its ids look like {some!r}, the samples' like {known!r}."
    id, label = both[0]
    return f"no vote is about the given label of a sample; {id!r} was asked about class {label}, its label is {label_of[id]}."


def _entropy(shares: list[float]) -> float:
    """Entropy of the accepted labels, each by its share of yes; NaN where none was accepted by anybody."""
    total = sum(shares)
    return float(entropy_of(np.array([shares]) / total)[0]) if total > 0 else float("nan")


# Dawid and Skene (1979): what was probably meant, when some raters are more careful than others

ROUNDS, SMALL_CHANGE = 1000, 1e-10  # most rounds of EM; the change of the log-likelihood per vote that ends them
TINY = 1e-10  # a probability that stands for 0


def dawid_skene(item: np.ndarray, rater: np.ndarray, vote: np.ndarray, k: int) -> np.ndarray:
    """(items, k) probability of each answer, by EM over how each rater errs, from the shares of votes.

    Args:
        item, rater, vote: (v,) one entry per vote, numbered from 0.
        k: number of answers.

    Example:
        >>> item, rater = np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3)
        >>> votes = np.array([1, 1, 0, 0, 0, 1, 1, 1, 0])  # the third rater always disagrees
        >>> dawid_skene(item, rater, votes, 2)[:, 1].round(2)
        array([1., 0., 1.])
    """
    n, r = int(item.max()) + 1, int(rater.max()) + 1
    posterior = np.zeros((n, k))
    np.add.at(posterior, (item, vote), 1.0)
    posterior /= posterior.sum(1, keepdims=True)
    before = -np.inf
    for _ in range(ROUNDS):
        prior = posterior.mean(0)  # (k,)
        confusion = np.zeros((r, k, k))  # of a rater: [vote, truth], then normalized over votes
        np.add.at(confusion, (rater, vote), posterior[item])
        confusion /= np.maximum(confusion.sum(1, keepdims=True), TINY)
        joint = np.tile(np.log(prior + TINY), (n, 1))  # (n, k)
        np.add.at(joint, item, np.log(confusion[rater, vote] + TINY))
        top = joint.max(1, keepdims=True)
        total = np.exp(joint - top).sum(1, keepdims=True)
        posterior = np.exp(joint - top) / total
        likelihood = float((top + np.log(total)).sum()) / len(vote)
        if likelihood - before < SMALL_CHANGE:
            break
        before = likelihood
    return posterior
