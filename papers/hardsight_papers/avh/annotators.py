"""Figure 23: the same image is easy for one group of annotators and hard for another.

It is decided where --data says which group gave an answer (annotator_groups.csv). CIFAR-10N's three answers are not in groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight_papers.arrays import read_answers, read_arrays
from hardsight_papers.context import Context
from hardsight_papers.recipe import Outcome, Table, Value, claim, recipe

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ANSWERS = ("random1", "random2", "random3")  # of CIFAR-10N


@dataclass(frozen=True)
class GroupedAnswers:
    """One row per answer: class of the image, who answered, and whether the answer is that class."""

    label: np.ndarray  # (n,) names
    group: np.ndarray  # (n,) names
    chosen: np.ndarray  # (n,) bool
    about: str
    why_not: str = ""  # why they cannot decide the claim


@recipe("avh/fig23", "Human selection frequency by group of annotators", needs="a table of answers with groups of annotators")
def figure_23(context: Context) -> Outcome:
    """How often each group of annotators chooses the given class."""
    answers = _answers(context)
    classes, groups = np.unique(answers.label).tolist(), np.unique(answers.group).tolist()
    tables = {k: _counts(answers, answers.label == k, groups) for k in classes}
    whole = _counts(answers, np.ones(len(answers.label), bool), groups)
    p = {k: _chi_square(table) for k, table in tables.items()}
    apart = sum(value < 0.05 / len(classes) for value in p.values())
    rows: list[list[Value]] = [[k, *_shares(table), f"{p[k]:.2g}"] for k, table in tables.items()]
    rows.append(["all", *_shares(whole), f"{_chi_square(whole):.2g}"])
    return Outcome(
        about=answers.about,
        tables=[Table("Share of answers that are the given class", ("class", *groups, "p of no difference"), rows)],
        claims=[
            claim(
                "People's frequency depends on who is asked.",
                rule="Groups of annotators differ by a chi-square test in at least one class, p below 0.05 after Bonferroni's "
                "correction over the classes.",
                holds=None if answers.why_not else apart > 0,
                found=f"They differ in {apart} of {len(classes)} classes.{answers.why_not and f' {answers.why_not}'}",
            )
        ],
    )


def _answers(context: Context) -> GroupedAnswers:
    """GroupedAnswers by group, or CIFAR-10N's, or generated ones."""
    path = context.data.find("annotator_groups")
    if path is not None:
        columns = read_answers(path, ("label", "group", "answer"))
        about = f"{path.name}: {len(columns['label']):,} answers of {len(np.unique(columns['group']))} groups of annotators."
        why_not = "" if len(np.unique(columns["group"])) > 1 else "There is one group only."
        return GroupedAnswers(columns["label"], columns["group"], columns["answer"] == columns["label"], about, why_not)
    path = context.data.find("cifar10_annotators")
    if path is None:
        return _generated(context.seed)
    arrays = read_arrays(path, {"clean": "(n,)", **dict.fromkeys(ANSWERS, "(n,)")})
    labels, n = arrays["clean"], len(arrays["clean"])
    return GroupedAnswers(
        np.tile(np.array([CLASSES[k] if 0 <= k < 10 else str(k) for k in labels.tolist()]), 3),
        np.repeat([f"answer {k}" for k in (1, 2, 3)], n),
        np.concatenate([arrays[name] == labels for name in ANSWERS]),
        f"CIFAR-10N: three answers for each of {n:,} training images. Who the annotators are is not known.",
        "The first, second and third answer come from whoever was there: they are not groups of annotators.",
    )


def _generated(seed: int) -> GroupedAnswers:
    rng = np.random.default_rng(seed)
    labels = np.arange(2000) % 10
    right = [rng.random(2000) >= 0.1 + 0.3 * (labels == group) for group in range(3)]  # each group finds another class hard
    return GroupedAnswers(
        np.tile(labels.astype(str), 3),
        np.repeat([f"group {group}" for group in range(3)], 2000),
        np.concatenate(right),
        "Generated answers of three groups, each of which finds another class hard: the method, without people.",
        "The answers are generated: no people here.",
    )


def _counts(answers: GroupedAnswers, rows: np.ndarray, groups: list[str]) -> np.ndarray:
    """(groups, 2) answers that are the given class, and others, among some rows."""
    chosen, group = answers.chosen[rows], answers.group[rows]
    return np.array([[(chosen & (group == name)).sum(), (~chosen & (group == name)).sum()] for name in groups])


def _shares(table: np.ndarray) -> list[float]:
    with np.errstate(invalid="ignore"):  # a group that saw no image of a class
        return [float(share) for share in table[:, 0] / table.sum(1)]


def _chi_square(table: np.ndarray) -> float:
    from scipy.stats import chi2_contingency

    table = table[table.sum(1) > 0]
    return float(chi2_contingency(table).pvalue) if len(table) > 1 and (table.sum(0) > 0).all() else 1.0
