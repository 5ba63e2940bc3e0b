"""Appendix G: "easy and hard samples can implicitly reflect imbalances in latent attributes in the dataset".

The attribute is whether a digit is drawn light on dark or dark on light; nobody tells the network. Where one of the two is rare
in training, are its held-out images the hard ones, and does AVH show it better than the loss?
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight import Snapshot, score
from hardsight.stats import auroc
from hardsight_papers.arrays import as_pixels, of_split
from hardsight_papers.avh.panels import DIGITS
from hardsight_papers.context import Context
from hardsight_papers.drawing import panels, seed_curves
from hardsight_papers.recipe import Claim, Outcome, Table, Value, recipe
from hardsight_papers.seed_statistics import SEEDS, higher, interval, seeds

SHARES = (0.5, 0.1, 0.02)  # of the images in training that are inverted
SIZES = {"train": 1000, "test": 300}
WORDS = {"avh": "AVH", "loss": "loss", "norm": "norm (short is hard)"}


@recipe("slides/fairness", "Are underrepresented groups hard? AVH, loss and norm without group labels", needs="MNIST")
def fairness(context: Context) -> Outcome:
    """AUROC of the rare group by each score, the hard end up, for three shares of it in training."""
    written = context.handwriting(**SIZES)
    model = written.lenet
    parts = [as_pixels(data, flat=False) for data in (written.train, written.test)]
    found = {share: [_areas(context, model, parts, share, seed) for seed in seeds(context)] for share in SHARES}
    of = {(share, name): np.array([each[name] for each in runs]) for share, runs in found.items() for name in found[0.5][0]}
    rows: list[list[Value]] = [
        [f"{100 * share:.0f} %", *(interval(100 * of[share, group]) for group in ("plain", "inverted")),
         *(interval(of[share, name], 3) for name in WORDS)]
        for share in SHARES
    ]  # fmt: skip
    figure, (axes,) = panels(1, width=5)
    curves = {words: np.stack([of[share, name] for share in SHARES]) for name, words in WORDS.items()}
    labels = {"xlabel": "inverted images in training (%)", "ylabel": "AUROC of inverted images", "xscale": "log"}
    seed_curves(axes, [100 * share for share in SHARES], curves, ticks=True, **labels)
    axes.axhline(0.5, color="#bbbbbb", linewidth=0.8)
    header = ("inverted in training", "accuracy, plain (%)", "inverted (%)", *(f"AUROC, {words}" for words in WORDS.values()))
    return Outcome(
        about=f"{written.name}; {model}, {DIGITS['epochs']} epochs on {len(written.train):,} images, some of them inverted; "
        f"{len(written.test)} held-out images are seen both ways. {SEEDS} seeds; intervals of 95 % over them.",
        tables=[Table("Does a score find the group?", header, rows, note="0.5: the score does not tell the groups apart.")],
        figures={"AUROC of the rare group": figure},
        claims=_claims(of),
        commands=["hardsight audit run --group COLUMN -o audit.parquet"],
    )


def _claims(of: dict[tuple[float, str], np.ndarray]) -> list[Claim]:
    even, rare = SHARES[0], SHARES[-1]
    grows = (
        f"AUROC of AVH for the group at {100 * rare:.0f} % of the training images minus that at {100 * even:.0f} %: the 95 % "
        "interval over seeds lies above 0."
    )
    better = f"AUROC of AVH minus that of the loss at {100 * rare:.0f} %: the 95 % interval over seeds lies above 0."
    reflect = "Hard samples, by AVH, reflect an imbalance of a latent attribute."
    finds = "AVH finds the group better than the loss does (not in the paper)."
    return [
        higher(reflect, of[rare, "avh"], of[even, "avh"], rule=grows),
        higher(finds, of[rare, "avh"], of[rare, "loss"], rule=better),
    ]


def _areas(context: Context, model: str, parts: list[Any], share: float, seed: int) -> dict[str, float]:
    """Accuracy of both groups, and AUROC of the inverted one by each score."""
    (pixels, labels, ids), (held_out, own, _) = parts
    some = np.random.default_rng([context.seed, seed]).permutation(len(pixels))[: round(share * len(pixels))]
    given = pixels.copy()
    given[some] = 1 - given[some]
    both = [f"{way}/{row}" for way in ("plain", "inverted") for row in range(len(own))]
    watched = (np.concatenate([held_out, 1 - held_out]), np.concatenate([own, own]), both)
    run = context.train((given, labels, ids), model, seed=seed, watch={"test": watched}, snapshot=True, **DIGITS)
    table = score(of_split(Snapshot.load(run.run), "test"), scores=list(WORDS))
    inverted = np.array([str(id).removeprefix("test/").startswith("inverted") for id in table.column("id").to_pylist()])
    right = table.column("predicted").to_numpy() == table.column("label").to_numpy()
    areas = {"plain": float(right[~inverted].mean()), "inverted": float(right[inverted].mean())}
    for name in WORDS:
        hard = table.column(name).to_numpy() * (-1 if name == "norm" else 1)
        areas[name] = auroc(hard[~inverted], hard[inverted]).value
    return areas
