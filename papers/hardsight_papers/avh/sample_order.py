"""Appendix G: "feeding easy samples first and hard samples later (known as curriculum learning) can improve the convergence".

The paper plans to use AVH there and measures nothing. Here a teacher's AVH orders the images of a student, which is also a
transfer of knowledge: the teacher has seen other digits, and hands on nothing but the order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hardsight.data import ImageData
from hardsight_papers.arrays import even_rows
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import TRAINING, WRONG, all_digits, few_digits, tested, trained, with_wrong_labels
from hardsight_papers.drawing import seed_dots_figure
from hardsight_papers.recipe import Claim, Outcome, Table, recipe
from hardsight_papers.seed_statistics import SEEDS, ahead, difference, interval, seeds, signed

EPOCHS = 6  # a short training, in which an order can matter
MOST_TAUGHT = 3000  # digits that the teacher learns from
ORDERS = ("random", "easy-first", "hard-first")
LABELS = {"right labels": 0.0, f"{100 * WRONG:.0f} % wrong labels": WRONG}


@recipe("slides/curriculum", "Curriculum by a teacher's AVH: does easy-first ordering help a short training?", needs="MNIST")
def curriculum(context: Context) -> Outcome:
    """The same number of steps on the same number of images, in three orders; labels right, and some of them wrong."""
    digits = few_digits(context)
    others = _others(context, digits.train, digits.test)
    teacher = trained(context, replace(digits, train=others), "softmax", seed=context.seed)
    accuracy: dict[str, dict[str, np.ndarray]] = {}
    for words, share in LABELS.items():
        accuracy[words] = {}
        for order in ORDERS:
            runs = []
            for seed in seeds(context):
                given = with_wrong_labels(digits.train, share, seed)[0]
                hardness: dict[str, Any] = {}
                if order != "random":
                    hardness["curriculum"] = f"{context.extract(teacher.run, given).name}:avh"
                student = replace(digits, train=given)
                runs.append(trained(context, student, "softmax", seed=seed, epochs=EPOCHS, order=order, **hardness))
            accuracy[words][order] = tested(context, runs, digits.test)
    rows = [
        (words, order, interval(reached[order]), _gain(reached, order)) for words, reached in accuracy.items() for order in ORDERS
    ]
    return Outcome(
        about=f"{digits.name}, {len(digits.train)} images to train on and {len(digits.test):,} others to test on; "
        f"{digits.model}, {EPOCHS} epochs, the first on a fifth of the images, all from the fourth; {SEEDS} seeds. The teacher "
        f"is the same network after {TRAINING['epochs']} epochs on {len(others):,} digits that are in neither set.",
        tables=[Table("Accuracy (%) [95 %]", ("labels", "order", "accuracy", "less that of random order"), rows, words=2)],
        figures={"Accuracy by order": seed_dots_figure(accuracy, "accuracy (%)")},
        claims=[_helps(words, reached) for words, reached in accuracy.items()],
        commands=["hardsight train digits --model lenet --curriculum teacher:avh --order easy-first --epochs 6 -o run"],
    )


def _others(context: Context, *used: ImageData) -> ImageData:
    """Digits that no other part of the recipe sees."""
    data, seen = all_digits(context), {id for part in used for id in part.ids}
    rows = np.array([row for row, id in enumerate(data.ids) if id not in seen])
    return data.take(rows[even_rows(len(rows), min(MOST_TAUGHT, len(rows)))])


def _gain(reached: dict[str, np.ndarray], order: str) -> str | None:
    return None if order == "random" else signed(difference(reached[order], reached["random"]))


def _helps(words: str, reached: dict[str, np.ndarray]) -> Claim:
    return ahead(
        f"Feeding easy samples first, by AVH, improves the convergence of the model ({words}).",
        reached["easy-first"],
        reached["random"],
        rule="Accuracy after a short training, easy samples first minus random order with as many steps: the 95 % interval over "
        "seeds lies above 0.",
        also=f"; hard samples first {_gain(reached, 'hard-first')}",
    )
