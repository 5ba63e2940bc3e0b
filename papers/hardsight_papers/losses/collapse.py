"""Neural collapse during training, next to AVH: past zero training error, features of a class shrink and means spread evenly.

"Perturbation Analysis of Neural Collapse", ICML 2023.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.dynamics import neural_collapse, read_epochs
from hardsight.stats import spearman
from hardsight_papers.arrays import as_pixels
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import few_digits, trained
from hardsight_papers.drawing import panels, seed_curves
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect, interval
from hardsight_papers.verdicts import SHARE

EPOCHS = {"all": 60}  # three times the length at which cross-entropy has learned its training images
SEEDS = 3
DECAYS = {"weight decay 0.0005": 5e-4, "weight decay 0.05": 5e-2}
MAIN = "weight decay 0.0005"
MEASURES = ("nc1", "nc2", "nc3", "nc4", "avh", "accuracy")


@recipe("losses/collapse", "Neural collapse during training, next to AVH")
def collapse(context: Context) -> Outcome:
    """NC1 to NC4 of the training images after each epoch, long past the first without an error, with AVH beside them."""
    digits = few_digits(context)
    seeds = range(context.seed, context.seed + SEEDS)
    curves = {name: np.array([measured(context, decay, seed) for seed in seeds]) for name, decay in DECAYS.items()}
    main = curves[MAIN]  # (seeds, epochs, measures)
    fitted = [first_without_error(each[:, MEASURES.index("accuracy")]) for each in main]
    at = {name: k for k, name in enumerate(MEASURES)}
    first = np.array([each[start] for each, start in zip(main, fitted, strict=True)])  # (seeds, measures)
    last = main[:, -1]
    epochs = np.arange(1, main.shape[1] + 1)
    figure, axes = panels(3, width=3.9)
    measures = {"NC1": ("nc1",), "distance from a simplex": ("nc2", "nc3"), "AVH": ("avh",)}
    for plot, (label, names) in zip(axes, measures.items(), strict=True):
        lines = {f"{name.upper()}, {key}" if len(names) > 1 else key: values[:, :, at[name]].T
                 for key, values in curves.items() for name in names}  # fmt: skip
        seed_curves(plot, epochs, lines, xlabel="epoch", ylabel=label, yscale="log" if names == ("nc1",) else "linear")
        plot.axvline(float(np.mean(fitted)) + 1, color="#999999", linewidth=0.8, linestyle=":")
        for line in plot.lines:
            line.set_marker("")
    rows = [(name, *(interval(values[:, -1, at[measure]], 3) for measure in MEASURES)) for name, values in curves.items()]
    return Outcome(
        about=f"{digits.name}, {len(digits.train)} images; {digits.model}, {EPOCHS['all']} epochs, {SEEDS} seeds. The dotted "
        "line is the first epoch without a training error.",
        tables=[
            Table("Training images at the end [95 % over seeds]", ("training", *MEASURES), rows),
            Table("From the first epoch without an error to the last, mean over seeds", ("", *MEASURES),
                  [("first", *map(float, first.mean(0))), ("last", *map(float, last.mean(0)))], digits=4),
        ],
        figures={"Neural collapse and AVH": figure},
        claims=[
            falls("Past zero training error the variability within classes decreases.", "NC1", first[:, 0], last[:, 0], fitted),
            falls("The means of classes approach a tight frame.", "NC2", first[:, 1], last[:, 1], fitted),
            not_exact(last[:, 0]),
            below_the_input(context, last[:, 0]),
            with_avh(main, at),
        ],
        commands=["hardsight train digits --model DigitsCNN --epochs 60 -o run", "hardsight dynamics run"],
    )  # fmt: skip


def measured(context: Context, decay: float, seed: int) -> list[list[float]]:
    """NC1 to NC4, AVH and accuracy of the training images after each epoch."""
    settings: dict[str, Any] = {"epochs": EPOCHS["all"], "weight_decay": decay, "schedule": "constant"}
    run = trained(context, few_digits(context), "softmax", seed=seed, watch={}, **settings)
    rows = read_epochs(run.run, ["train"]).to_pylist()
    return [[float(row[name]) for name in MEASURES] for row in rows]


def first_without_error(accuracy: np.ndarray) -> int:
    """The first of (epochs,) with all training images right, counted from 0; the last where there is none.

    Example:
        >>> first_without_error(np.array([0.8, 1.0, 0.9, 1.0])), first_without_error(np.array([0.8, 0.9]))
        (1, 1)
    """
    return int(np.argmax(np.append(accuracy[:-1], 1.0) >= 1))


def falls(text: str, name: str, first: np.ndarray, last: np.ndarray, fitted: list[int]) -> Claim:
    """Whether a measure is smaller at the end than where the training error became 0, seed by seed."""
    return claim(
        text,
        rule=f"{name} of the training images is smaller at the end than at the first epoch without an error: the 95 % interval "
        "over seeds of the share by which it falls.",
        effects=[effect(difference(1 - last / first, 0.0), SHARE, len(first))] if max(fitted) < EPOCHS["all"] - 1 else [],
        found="; ".join(f"{a:.3g} to {b:.3g}" for a, b in zip(first, last, strict=True))
        + f", from epoch {', '.join(str(start + 1) for start in fitted)} on.",
    )


def not_exact(last: np.ndarray) -> Claim:
    """Whether something is left of the variability within classes."""
    return claim(
        "Practical networks do not reach exact collapse.",
        rule="NC1 at the end is above 0.001: its 95 % interval over seeds.",
        effects=[effect(difference(last, 0.001), 0.0, len(last))],
        found=", ".join(f"{value:.3g}" for value in last) + ".",
    )


def below_the_input(context: Context, last: np.ndarray) -> Claim:
    """The features beside the pixels that they are made from."""
    pixels, labels, _ = as_pixels(few_digits(context).train)
    before = neural_collapse(features=pixels, labels=labels)["nc1"]
    return claim(
        "The variability within classes is reduced compared to the features that go in.",
        rule="NC1 of the features at the end is smaller than NC1 of the pixels: the 95 % interval over seeds of the share.",
        effects=[effect(difference(1 - last / before, 0.0), SHARE, len(last))],
        found=f"Pixels {before:.3g}, features {', '.join(f'{value:.3g}' for value in last)}.",
    )


def with_avh(curves: np.ndarray, at: dict[str, int]) -> Claim:
    """NC1 beside mean AVH, epoch by epoch."""
    ranks = [spearman(each[:, at["nc1"]], each[:, at["avh"]]) for each in curves]
    return claim(
        "Collapse means that angles to the own class vanish: mean AVH falls as NC1 does (not in the abstract).",
        rule="Spearman's rank correlation of NC1 and mean AVH over the epochs is at least 0.9: its 95 % interval over seeds.",
        effects=[effect(difference(np.array(ranks), 0.9), 0.0, len(ranks))],
        found=", ".join(f"{rank:.2f}" for rank in ranks) + ".",
    )
