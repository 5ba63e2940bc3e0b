"""Dual-head distillation: a narrow network taught by a wide one, with one head for both losses and with two.

Yang et al., "Dual-Head Knowledge Distillation: Enhancing Logits Utilization with an Auxiliary Head", arXiv:2411.08937.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight_papers.arrays import as_pixels
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import TRAINING, accuracies, few_digits
from hardsight_papers.drawing import seed_dots_figure
from hardsight_papers.recipe import Claim, Outcome, Table, recipe
from hardsight_papers.seed_statistics import SEEDS, ahead, all_ahead, difference, interval, seeds

WIDTHS = {"teacher": 512, "student": 32}  # hidden units of a network with one hidden layer, on pixels
# Of 20, 30, 45, ...: the first at which labels alone teach the student 99 % of its images.
EPOCHS = {"teacher": 60, "student": 60}
STUDENTS: dict[str, dict[str, Any]] = {
    "labels alone": {"loss": "softmax"},
    "logits alone": {"loss": "dual_head", "loss_options": {"hidden": None, "distill": 100.0}},  # labels have a hundredth
    "one head for both losses": {"loss": "dual_head", "loss_options": {"hidden": None}},
    "dual head": {"loss": "dual_head"},
}


@recipe("losses/distillation", "Dual-head distillation: one head for both losses, or two")
def distillation(context: Context) -> Outcome:
    """The same narrow network on labels, on a wide teacher's logits, and on both: by a head of their own or by the common one."""
    runs_of: dict[str, list[Any]] = {name: [] for name in ("teacher", *STUDENTS)}
    for seed in seeds(context):
        teacher = pixels_trained(context, "teacher", seed=seed, loss="softmax")
        runs_of["teacher"].append(teacher)
        for name, settings in STUDENTS.items():
            taught = {"teacher": str(teacher.run)} if settings["loss"] == "dual_head" else {}
            runs_of[name].append(pixels_trained(context, "student", seed=seed, **settings, **taught))
    accuracy = {name: accuracies(runs, "test") for name, runs in runs_of.items()}
    digits = few_digits(context)
    return Outcome(
        about=f"{digits.name} as pixels, {len(digits.train)} to train on and {len(digits.test):,} others to test on; one hidden "
        f"layer of {WIDTHS['teacher']} units (teacher) and of {WIDTHS['student']} (student), {EPOCHS['student']} epochs, "
        f"{SEEDS} seeds, each with its own teacher; distill 1, T 2.",
        tables=[Table("Accuracy (%) [95 %]", ("network", "accuracy"), [(name, interval(x)) for name, x in accuracy.items()])],
        figures={"Distillation": seed_dots_figure({"": accuracy}, "accuracy (%)", width=5.2, height=2.8)},
        claims=[
            better(accuracy, "dual head", "labels alone", "Dual-head distillation improves the student."),
            better(accuracy, "dual head", "one head for both losses", "Two heads are better than one for both losses."),
            degrades(accuracy),
        ],
        commands=["hardsight train digits --model DigitsCNN --loss dual_head --teacher teacher/ -o run"],
    )


def pixels_trained(context: Context, role: str, **settings: Any) -> Any:
    """A network with one hidden layer on pixels: the wide teacher, or the narrow student."""
    train, test = pixels(context)
    options = {"num_inputs": train[0].shape[1], "num_features": WIDTHS[role]}
    settings = {**TRAINING, "epochs": EPOCHS[role], "watch": {"test": test}, **settings}
    return context.train(train, "feature_head", model_options=options, **settings)


def pixels(context: Context) -> list[tuple[np.ndarray, np.ndarray, list[str]]]:
    """Training and test images as (n, pixels) from 0 to 1, their labels and ids."""
    digits = few_digits(context)
    return [as_pixels(data) for data in (digits.train, digits.test)]


def better(accuracy: dict[str, np.ndarray], first: str, second: str, text: str) -> Claim:
    """Whether one way is ahead of another."""
    rule = f"The 95 % interval over seeds of the accuracy of {first} less that of {second} lies above 0."
    return ahead(text, accuracy[first], accuracy[second], rule=rule)


def degrades(accuracy: dict[str, np.ndarray]) -> Claim:
    """Both losses in one head, beside each of them alone."""
    gaps = {name: difference(accuracy[name], accuracy["one head for both losses"]) for name in ("labels alone", "logits alone")}
    return all_ahead(
        "A loss on logits added to that of the labels in one head degrades the student, below either alone.",
        gaps,
        rule="The 95 % intervals over seeds of the accuracy of labels alone and of logits alone, each less that of one head for "
        "both, lie above 0.",
    )
