"""Figure 23: the same image is easy for one group of annotators and hard for another; here, where annotators are known."""

from __future__ import annotations

import numpy as np

from hardsight.files.npy import open_npz
from hardsight.paper.context import Context
from hardsight.paper.recipe import Outcome, Table, Value, claim, recipe

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@recipe("avh/fig23", "Human selection frequency by group of annotators", needs="CIFAR-10N")
def figure_23(context: Context) -> Outcome:
    """How often each of three groups of annotators chooses the given class."""
    path = context.data.find("cifar10_annotators")
    labels, groups, about = _simulated(context.seed) if path is None else _of_cifar(open_npz(path))
    chosen = {name: np.array([(answers == labels)[labels == k].mean() for k in range(10)]) for name, answers in groups.items()}
    table = np.array([[(answers == labels).sum(), (answers != labels).sum()] for answers in groups.values()])
    p = _chi_square(table)
    per_class = [
        _chi_square(np.array([[(a == labels)[labels == k].sum(), (a != labels)[labels == k].sum()] for a in groups.values()]))
        for k in range(10)
    ]
    apart = sum(value < 0.05 / 10 for value in per_class)
    rows: list[list[Value]] = [
        [CLASSES[k] if path else str(k), *(float(share[k]) for share in chosen.values()), f"{per_class[k]:.2g}"]
        for k in range(10)
    ]
    rows.append(["all", *(float((answers == labels).mean()) for answers in groups.values()), f"{p:.2g}"])
    return Outcome(
        about=about,
        tables=[Table("Share of answers that are the given class", ("class", *chosen, "p of no difference"), rows)],
        claims=[
            claim(
                "People's frequency depends on who is asked.",
                rule="The groups differ by a chi-square test in at least one class, p below 0.05 after Bonferroni's "
                "correction over ten classes.",
                holds=None if path is None else apart > 0,
                found=f"They differ in {apart} of 10 classes."
                if path is not None
                else "The answers are generated: no people here.",
            )
        ],
    )


def _of_cifar(arrays: object) -> tuple[np.ndarray, dict[str, np.ndarray], str]:
    values = {name: np.asarray(arrays[name]) for name in ("clean", "random1", "random2", "random3")}  # type: ignore[index]
    groups = {f"answer {k}": values[f"random{k}"] for k in (1, 2, 3)}
    about = "CIFAR-10N: three answers for each of 50,000 training images. Who the annotators are is not known."
    return values["clean"], groups, about


def _simulated(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray], str]:
    rng = np.random.default_rng(seed)
    labels = np.arange(2000) % 10
    groups = {}
    for group in range(3):
        wrong = rng.random(2000) < 0.1 + 0.3 * (labels == group)  # each group finds another class hard
        groups[f"group {group}"] = np.where(wrong, (labels + rng.integers(1, 10, 2000)) % 10, labels)
    return (
        labels,
        groups,
        "Generated answers of three groups, each of which finds another class hard: the method, without people.",
    )


def _chi_square(table: np.ndarray) -> float:
    from scipy.stats import chi2_contingency

    return float(chi2_contingency(table).pvalue) if (table.sum(0) > 0).all() else 1.0
