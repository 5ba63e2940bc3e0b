"""Balanced soft labels (DEPICT) and confidence-weighted pseudo-labels (Soft Teacher), in self-training on unlabeled digits.

"Deep Clustering via Joint Convolutional Autoencoder Embedding and Relative Entropy Minimization", ICCV 2017; "End-to-End
Semi-Supervised Object Detection with Soft Teacher", ICCV 2021. The one clusters and the other detects objects; what is run here
is how they label.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import hardsight
from hardsight.data import load_digits
from hardsight_papers.context import Context, fingerprint
from hardsight_papers.drawing import seed_dots_figure
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, interval, signed

METHODS = {
    "source": "no adaptation",
    "threshold": "hard labels",
    "cbst": "hard labels, balanced (CBST)",
    "weighted": "weighted by confidence",
    "depict": "balanced soft labels (DEPICT)",
}
SMALL: dict[str, Any] = {
    "rounds": 5, "epochs": 2, "seeds": 5, "hidden": 128, "limit": 700,
    "source_epochs": 32, "weight_decay": 5e-4,  # of 8, 16, 32, ...: the first that teach the source model 99 % of its digits
    "portion": 1.0,  # every method labels every sample, so that they differ in the labels alone
}  # fmt: skip
WITHOUT = {
    "weighted": "Soft Teacher's teacher that follows the student and its detector are not part of it.",
    "depict": "DEPICT's autoencoder and its clustering are not part of it.",
}
PACS = ("photo", "art_painting")


@recipe(
    "losses/soft-labels", "Balanced soft labels and confidence-weighted pseudo-labels in self-training", needs="PACS features"
)
def soft_labels(context: Context) -> Outcome:
    """Every way to label from the same source model; the last round counts."""

    path = context.data.find("pacs_features")
    source, target = plain_and_shifted() if path is None else (f"{path}:{PACS[0]}", f"{path}:{PACS[1]}")
    options = {"methods": ",".join(METHODS), **SMALL}
    place = context.cache.place("adapt", {"source": fingerprint(source), "target": fingerprint(target), **options})
    adapted = hardsight.adapt(source, target, place, progress=context.progress("adapting"), **options)
    accuracy = by_method(adapted)
    by_words = {"": {METHODS[name]: x for name, x in accuracy.items()}}
    what = (
        "Digits as pixels, and others moved by a pixel, at half the contrast and with noise" if path is None else
        f"PACS, features of EfficientNet-Lite0, {PACS[0]} to {PACS[1]}"
    )  # fmt: skip
    rows = [(words, interval(x)) for words, x in by_words[""].items()]
    return Outcome(
        about=f"{what}; {SMALL['limit']} of each at most, a head of {SMALL['hidden']} units, {SMALL['rounds']} rounds, "
        f"{SMALL['seeds']} seeds; intervals of 95 % over them. Every sample gets a label; the last round counts.",
        tables=[Table("Accuracy on the target (%) [95 %]", ("labels", "accuracy"), rows)],
        figures={"Ways to label": seed_dots_figure(by_words, "mean accuracy of classes (%)", width=5.6, height=2.9)},
        claims=[
            better(accuracy, "weighted", "threshold", "Weighting pseudo-labels by the teacher's score is better than hard ones."),
            better(accuracy, "depict", "source", "Balanced soft labels improve on the model that made them."),
            better(accuracy, "depict", "threshold", "A prior for the frequency of classes is better than labels without one."),
        ],
        commands=["hardsight adapt pacs.npz:photo pacs.npz:art_painting --methods threshold,weighted,depict --portion 1 -o run"],
    )


def plain_and_shifted() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Half of the digits as 64 pixels; the other half moved to the right by a pixel, at half the contrast, with noise."""
    images, labels = load_digits()
    plain = images.astype(np.float32) / 255
    moved = np.zeros_like(plain)
    moved[:, :, 1:] = plain[:, :, :-1]
    noise = np.random.default_rng(0).normal(0, 0.1, moved.shape).astype(np.float32)
    shifted = 0.25 + 0.5 * moved + noise
    flat = [x.reshape(len(x), -1) for x in (plain, shifted)]
    return (flat[0][::2], labels[::2]), (flat[1][1::2], labels[1::2])


def by_method(adapted: Any) -> dict[str, np.ndarray]:
    """(seeds,) mean accuracy of the classes in per cent, after the last round."""
    last: dict[str, dict[int, tuple[int, float]]] = {}
    for row in adapted.rounds.to_pylist():
        seeds = last.setdefault(row["method"], {})
        if row["seed"] not in seeds or row["round"] > seeds[row["seed"]][0]:
            seeds[row["seed"]] = row["round"], 100 * row["accuracy"]
    return {name: np.array([last[name][seed][1] for seed in sorted(last[name])]) for name in METHODS if name in last}


def better(accuracy: dict[str, np.ndarray], first: str, second: str, text: str) -> Claim:
    """One way to label beside another: not comparable, since neither method is here whole."""
    rule = f"The 95 % interval over seeds of the accuracy of `{first}` less that of `{second}` lies above 0."
    gap = signed(difference(accuracy[first], accuracy[second]))
    return claim(text, rule=rule, found=f"{gap} points, by the way of labeling alone: {WITHOUT[first]}")
