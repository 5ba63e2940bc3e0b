"""Proto-Triplet and ICNN: episodes of few samples of classes never seen, beside softmax and the triplet loss.

"SuSana Distancia is all you need: Enforcing class separability in metric learning via two novel distance-based loss functions
for few-shot image classification", arXiv:2305.09062. The authors train on episodes, we on batches of all known classes; as they
do, a loss on distances is added to cross-entropy. Triplet loss stands for the other metric-based losses, and looks at directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.render import COLORS, MARKERS
from hardsight_papers.arrays import directions
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import fitted
from hardsight_papers.drawing import panels, seed_dots
from hardsight_papers.losses.known_and_new import about_seeds, episode_accuracy, features_of_new, trained_on_known
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect, interval, seeds, signed
from hardsight_papers.verdicts import POINTS

LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "Proto-Triplet": ("proto_triplet", {"weight": 1.0}),
    "ICNN": ("icnn", {"weight": 1.0}),
    "triplet": ("triplet", {"weight": 1.0}),
    "softmax": ("softmax", {}),
}
BY_DIRECTION = ("triplet",)  # judged at length 1, as the loss sees features; the others as they are
SHOTS = (1, 5)
PRINTED = {"points ahead of other metric-based methods, miniImageNet": 2}


@recipe("losses/proto-triplet", "Proto-Triplet and ICNN: few-shot learning of unseen classes", printed=PRINTED)
def proto_triplet(context: Context) -> Outcome:
    """Four-way episodes with 1 and 5 samples per class, nearest mean; and ICNN's score of the same embeddings."""
    import torch
    from scipy.stats import spearmanr

    from hardsight.losses import icnn_scores

    accuracy: dict[int, dict[str, np.ndarray]] = {shots: {} for shots in SHOTS}
    quality: dict[str, np.ndarray] = {}
    runs = {name: [trained_on_known(context, *loss, seed) for seed in seeds(context)] for name, loss in LOSSES.items()}
    for name in LOSSES:
        each, scores = [], []
        for seed, run in zip(seeds(context), runs[name], strict=True):
            features, labels = features_of_new(context, run)
            features = directions(features) if name in BY_DIRECTION else features
            each.append([episode_accuracy(features, labels, shots, seed) for shots in SHOTS])
            scores.append(float(icnn_scores(torch.from_numpy(features), torch.from_numpy(labels)).mean()))
        quality[name] = np.array(scores)
        for k, shots in enumerate(SHOTS):
            accuracy[shots][name] = np.array(each)[:, k]
    rank = spearmanr(np.concatenate(list(quality.values())), np.concatenate(list(accuracy[5].values())))
    figure, axes = panels(3)
    for plot, shots in zip(axes, SHOTS, strict=False):
        seed_dots(plot, accuracy[shots], "accuracy (%)", f"4-way {shots}-shot")
    for k, name in enumerate(LOSSES):
        axes[2].plot(quality[name], accuracy[5][name], MARKERS[k], color=COLORS[k], label=name, markersize=5)
    axes[2].set_xlabel("ICNN score of the new classes", fontsize=9)
    axes[2].set_ylabel("5-shot accuracy (%)", fontsize=9)
    axes[2].legend(frameon=False, fontsize=8)
    rows = [(name, *(interval(accuracy[shots][name]) for shots in SHOTS), interval(quality[name], 3)) for name in LOSSES]
    return Outcome(
        about=about_seeds(context)
        + fitted(runs)
        + " Losses on distances are added to softmax with weight 1; features of triplet loss are taken at length 1.",
        tables=[Table("Accuracy (%) [95 %]", ("loss", "1-shot", "5-shot", "ICNN score"), rows)],
        figures={"Few samples of classes never seen": figure},
        claims=[
            *(ahead(accuracy, name) for name in ("Proto-Triplet", "ICNN")),
            claim(
                "The ICNN score assesses the quality of embeddings.",
                rule="Over all losses and seeds, Spearman's rank correlation of the score with 5-shot accuracy is positive, "
                "p < 0.05.",
                holds=bool(rank.statistic > 0 and rank.pvalue < 0.05),
                found=f"{rank.statistic:+.2f}, p {rank.pvalue:.2g}.",
            ),
        ],
        commands=["hardsight train digits --model DigitsCNN --loss proto_triplet --loss-options weight=1 -o run"],
    )


def ahead(accuracy: dict[int, dict[str, np.ndarray]], name: str) -> Claim:
    """One of the two losses beside the triplet loss."""
    gaps = {shots: difference(accuracy[shots][name], accuracy[shots]["triplet"]) for shots in SHOTS}
    plain = {shots: difference(accuracy[shots][name], accuracy[shots]["softmax"]) for shots in SHOTS}
    return claim(
        f"{name} generalizes better to unseen classes than other metric-based losses.",
        rule="With 1 and with 5 samples, the 95 % interval over seeds of its accuracy less that of triplet loss lies above 0.",
        effects=[effect(gap, POINTS, name=f"{shots}-shot") for shots, gap in gaps.items()],
        found="; ".join(f"{shots}-shot {signed(gaps[shots])} (to softmax {signed(plain[shots])})" for shots in SHOTS)
        + " points.",
    )
