"""EnsLoss: a new random calibrated loss at every step, beside fixed losses, on pairs of classes.

Dai, "EnsLoss: Stochastic Calibrated Loss Ensembles for Preventing Overfitting in Classification", ICML 2025.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import about, accuracies, few_digits, tested, trained
from hardsight_papers.drawing import seed_dots_figure
from hardsight_papers.recipe import Outcome, Table, recipe
from hardsight_papers.seed_statistics import all_ahead, difference, interval, seeds

LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "EnsLoss": ("ens", {}),
    "logistic": ("softmax", {}),
    "exponential": ("comp_sum", {"tau": 0.0}),
    "hinge": ("ldr", {"temperature": 0.01, "margin": 1.0, "normalize": "none"}),
}
TASKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "even or odd": lambda digit: digit % 2,
    "below 5 or not": lambda digit: (digit >= 5).astype(np.int64),
}


@recipe("losses/ensloss", "EnsLoss against fixed losses on two binary tasks")
def ensloss(context: Context) -> Outcome:
    """Accuracy on test images and on those trained on, for each task and seed."""
    test_accuracy: dict[str, dict[str, np.ndarray]] = {task: {} for task in TASKS}
    seen: dict[str, dict[str, np.ndarray]] = {task: {} for task in TASKS}
    for task in TASKS:
        digits = of_two_classes(context, task)
        for name, (loss, options) in LOSSES.items():
            runs = [trained(context, digits, loss, options, seed=seed) for seed in seeds(context)]
            test_accuracy[task][name], seen[task][name] = tested(context, runs, digits.test), accuracies(runs)
    both = {name: np.concatenate([test_accuracy[task][name] for task in TASKS]) for name in LOSSES}
    gaps = {name: difference(both["EnsLoss"], both[name]) for name in LOSSES if name != "EnsLoss"}
    rows = [(task, name, interval(test_accuracy[task][name]), interval(seen[task][name])) for task in TASKS for name in LOSSES]
    return Outcome(
        about=about(few_digits(context)) + " Exponential is comp-sum with tau 0, hinge is LDR with lambda 0.01.",
        tables=[Table("Accuracy (%) [95 %]", ("task", "loss", "test images", "training images"), rows, words=2)],
        figures={"EnsLoss and fixed losses": seed_dots_figure(test_accuracy, "accuracy (%)")},
        claims=[
            all_ahead(
                "EnsLoss is better than training with a fixed loss.",
                gaps,
                rule="The 95 % interval over tasks and seeds of its accuracy less that of each fixed loss lies above 0.",
                digits=2,
            )
        ],
        commands=["hardsight train two_classes/ --model DigitsCNN --loss ens -o run"],
    )


def of_two_classes(context: Context, task: str) -> Any:
    """The digits with a task's two classes for labels."""
    digits = few_digits(context)

    def relabeled(data: Any) -> Any:
        return replace(data, labels=TASKS[task](data.labels), class_names=["0", "1"])

    return replace(digits, train=relabeled(digits.train), test=relabeled(digits.test))
