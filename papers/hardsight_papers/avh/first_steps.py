"""Figure 15: norm and angle over the first 60 iterations on MNIST."""

from __future__ import annotations

import math
from typing import Any

from hardsight.dynamics import read_curves
from hardsight.errors import FileError
from hardsight.render import curves_figure
from hardsight_papers.avh.trainings import subset
from hardsight_papers.context import Context
from hardsight_papers.recipe import Outcome, Table, claim, recipe

FEWEST = 20  # steps, to look at those after the tenth


PRINTED = {"iterations": 60, "flat after": 10}


@recipe("avh/fig15", "Norm and angle over the first 60 iterations on MNIST", printed=PRINTED, needs="MNIST")
def figure_15(context: Context) -> Outcome:
    """Norm and angle after each of the first 60 steps."""
    written = context.handwriting(test=300)
    size = 64 if written.name == "MNIST" else 24
    train = subset(written.train, 60 * size)
    if len(train) < FEWEST * size:
        path = context.data.require("mnist", "this recipe")
        least = f"{FEWEST * size} training images, {FEWEST} batches of {size}"
        raise FileError(f"{path} must hold at least {least}; it has {len(train)}.")
    options: dict[str, Any] = {"model_options": {"num_features": 64}} if written.name == "MNIST" else {}
    settings = {"epochs": 1, "batch_size": size, "lr": 0.01, "every": 1, "snapshot": False, **options}
    trained = context.train(train, written.model, watch={"test": written.test}, **settings)
    curves = read_curves(trained.run, split="test", steps=True, columns=("norm", "avh", "own_angle", "correct"))
    norm, angle = curves.mean["norm"][0], curves.mean["own_angle"][0]
    ten, last = 9, len(angle) - 1
    share = float((angle[0] - angle[ten]) / (angle[0] - angle[last]))
    slopes = float((norm[ten] - norm[0]) / ten), float((norm[last] - norm[ten]) / (last - ten))
    rows = [
        [step + 1, norm[step], math.degrees(angle[step]), curves.mean["avh"][0][step], curves.mean["correct"][0][step]]
        for step in (0, ten, last // 2, last)
    ]
    return Outcome(
        about=f"{written.name}, {len(angle)} steps of {size} samples, {len(written.test)} test samples looked at after each.",
        tables=[Table("Mean over the test samples", ("after step", "norm", "angle", "AVH", "accuracy"), rows, digits=4)],
        figures={f"Norm and angle over steps on {written.name}": curves_figure(curves, ("norm", "own_angle"))},
        claims=[
            claim(
                "The angle falls sharply at first and is almost flat after 10 iterations.",
                rule="After 10 steps at least 80 % of the fall of the mean angle over 60 steps is done.",
                holds=share >= 0.8,
                found=f"{100 * share:.0f} % is done.",
            ),
            claim(
                "The norm rises with a large slope at first, less after 10 iterations.",
                rule="The norm's mean slope over the first 10 steps is above that over the rest, and both are positive.",
                holds=slopes[0] > slopes[1] > 0,
                found=f"{slopes[0]:+.3f} a step, then {slopes[1]:+.3f}.",
            ),
        ],
    )
