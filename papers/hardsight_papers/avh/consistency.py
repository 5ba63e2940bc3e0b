"""Discoveries 4 and 5 of the slides: AVH goes with people throughout training, in every network; the norm does not.

The trainings are those of Figure 4. Without people's answers, levels of noise stand in for them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hardsight.files import moments, read_moment
from hardsight.render import COLORS
from hardsight.screen import interval
from hardsight.stats import wilson
from hardsight_papers.avh.curve_claims import THROUGHOUT
from hardsight_papers.avh.trainings import WatchedTraining, by_frequency
from hardsight_papers.context import Context
from hardsight_papers.drawing import panels
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.seed_statistics import spearman_interval
from hardsight_papers.verdicts import Effect

SCORES = {"avh": "AVH", "norm": "norm"}
REPLICATES = 200


@recipe(
    "slides/discovery5", "Discoveries 4 and 5: agreement of AVH and of the norm, epoch by epoch", needs="CIFAR-10 and CIFAR-10H"
)
def discovery_5(context: Context) -> Outcome:
    """Spearman of AVH and of the norm with the level of hardness, after every epoch of every network."""
    trainings = by_frequency(context)
    by_network = {each.network: _over_epochs(context, each) for each in trainings}
    rows: list[list[Value]] = []
    for network, curves in by_network.items():
        for name, words in SCORES.items():
            value, low, high = curves[name].T  # (e,) each
            sides = [int((low > 0).sum()), int((high < 0).sum()), int(((low <= 0) & (high >= 0)).sum())]
            rows.append(
                [network, words, float(value.min()), float(value.max()), float(value[-1]), interval(low[-1], high[-1]), *sides]
            )
    header = ("network", "score", "lowest", "highest", "last epoch", "95 %", "epochs above 0", "below 0", "neither")
    return Outcome(
        about=f"{trainings[0].about}. Spearman with the level of hardness after each epoch, scores turned so that above 0 "
        f"means: what is hard for people is hard for the score. {REPLICATES} bootstrap replicates, over images.",
        tables=[Table("Over the epochs", header, rows, words=2)],
        figures={"Agreement over epochs": _figure(by_network)},
        claims=_claims(by_network, min(each.learned for each in trainings)),
        commands=["hardsight correlate run --human counts.npy --epochs"],
    )


def _over_epochs(context: Context, training: WatchedTraining) -> dict[str, np.ndarray]:
    """Name of a score -> (e, 3) Spearman after each epoch with the ends of its interval."""

    def make() -> dict[str, np.ndarray]:
        groups = training.groups()
        coefficients: dict[str, list[tuple[float, float, float]]] = {name: [] for name in SCORES}
        for _, file in moments(training.run):
            table = read_moment(file, split=training.split)
            level = groups.of(table)  # 0 is the hardest, -1 is left out
            rows = np.flatnonzero(level >= 0)
            images = np.array([str(id).partition("#")[0] for id in table["id"].take(rows).to_pylist()])
            for name, values in coefficients.items():
                score = table[name].to_numpy()[rows] * (1 if name == "avh" else -1)  # high is hard
                hardness = -level[rows].astype(float)
                values.append(spearman_interval(score, hardness, replicates=REPLICATES, seed=context.seed, clusters=images))
        return {name: np.array(values) for name, values in coefficients.items()}

    key = {"run": training.run.name, "split": training.split, "replicates": REPLICATES, "seed": context.seed}
    return context.cache.arrays("discovery5", key, make)


def _claims(by_network: dict[str, dict[str, np.ndarray]], learned: float) -> list[Claim]:
    """One rule for both: a correlation is there after an epoch where its interval lies on the side of 0 on which most lie.

    It is consistent if it is there after nine of ten epochs; the share of epochs has Wilson's interval.
    """
    every = {name: np.concatenate([curves[name] for curves in by_network.values()]) for name in SCORES}  # (networks * e, 3)
    above = {name: int((each[:, 1] > 0).sum()) for name, each in every.items()}
    below = {name: int((each[:, 2] < 0).sum()) for name, each in every.items()}
    count, steady = len(every["avh"]), max(above["norm"], below["norm"])
    consistent = [_share(steps, count) for steps in (above["avh"], steady)]
    found = "; ".join(
        f"{words}: {above[name]} of {count} above 0, {below[name]} below, {count - above[name] - below[name]} hold it"
        for name, words in SCORES.items()
    )
    return [
        claim(
            "AVH's correlation with human selection frequency holds across models throughout training (discovery 4).",
            rule=f"The 95 % interval of AVH's coefficient lies above 0 after at least {100 * THROUGHOUT:.0f} % of the epochs.",
            effects=[consistent[0]],
            fitted=learned,
            found=f"{found}.",
        ),
        claim(
            "The norm's correlation with human selection frequency is not consistent (discovery 5).",
            rule="By the same rule: the 95 % interval of the norm's coefficient lies on one and the same side of 0 after fewer "
            f"than {100 * THROUGHOUT:.0f} % of the epochs.",
            effects=[replace(consistent[1], estimate=-consistent[1].estimate, low=-consistent[1].high, high=-consistent[1].low)],
            fitted=learned,
            found=f"{found}.",
        ),
    ]


def _share(steps: int, count: int) -> Effect:
    """The share of epochs, over the share that counts as throughout."""
    low, high = wilson(steps, count)
    return Effect(steps / count - THROUGHOUT, low - THROUGHOUT, high - THROUGHOUT, 0.0, "", count, "epochs")


def _figure(by_network: dict[str, dict[str, np.ndarray]]) -> Any:
    figure, axes = panels(len(by_network))
    for each, (network, curves) in zip(axes, by_network.items(), strict=True):
        for color, (name, words) in zip(COLORS, SCORES.items(), strict=False):
            value, low, high = curves[name].T
            epochs = np.arange(1, len(value) + 1)
            each.plot(epochs, value, color=color, label=words, linewidth=1.3)
            each.fill_between(epochs, low, high, color=color, alpha=0.15, linewidth=0)
        each.axhline(0, color="#999999", linewidth=0.8)
        each.set(title=network, xlabel="epoch", ylabel="agreement (Spearman)")
        each.legend(frameon=False, fontsize=8)
    return figure
