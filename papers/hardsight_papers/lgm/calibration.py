"""The claim that GM outputs calibrated scores: expected calibration error beside that of softmax."""

from __future__ import annotations

import numpy as np

from hardsight import Snapshot, score
from hardsight.render import COLORS, MARKERS
from hardsight.stats import Reliability, reliability
from hardsight_papers.arrays import of_split
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure, panels
from hardsight_papers.lgm.digit_networks import NAMES, about, trained
from hardsight_papers.recipe import Outcome, Table, claim, recipe
from hardsight_papers.verdicts import DIGIT_POINTS, Effect

LOSSES = ("softmax", "center", "gm", "lgm")
DRAWS = 1000


@recipe("lgm/calibration", "Are GM's scores calibrated? ECE next to softmax", needs="MNIST")
def calibration(context: Context) -> Outcome:
    """ECE of the test images, and a paired bootstrap of its difference to softmax."""
    seen: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for loss in LOSSES:
        snapshot = Snapshot.load(trained(context, loss, 100).run)
        table = score(of_split(snapshot, "test"), scores=["predicted_confidence"])
        correct = table.column("predicted").to_numpy() == table.column("label").to_numpy()
        seen[loss] = table.column("predicted_confidence").to_numpy().astype(np.float64).clip(0, 1), correct
    bars = {loss: reliability(*values) for loss, values in seen.items()}
    rng = np.random.default_rng(context.seed)
    n = len(seen["softmax"][1])
    drawn = []  # (draws, losses)
    for _ in range(DRAWS):
        rows = rng.integers(0, n, n)
        drawn.append([reliability(confidence[rows], correct[rows]).ece for confidence, correct in seen.values()])
    low, high = np.percentile(100 * (np.array(drawn) - np.array(drawn)[:, :1]), [2.5, 97.5], axis=0)
    base = bars["softmax"].ece
    rows_shown = [
        (NAMES[loss], 100 * float((~correct).mean()), 100 * float(confidence.mean()), 100 * bars[loss].ece,
         None if loss == "softmax" else f"{100 * (bars[loss].ece - base):+.2f} [{low[k]:+.2f}, {high[k]:+.2f}]")
        for k, (loss, (confidence, correct)) in enumerate(seen.items())
    ]  # fmt: skip
    at = LOSSES.index("gm")
    header = ("loss", "error", "mean confidence", "ECE", "ECE - softmax [95 %]")
    return Outcome(
        about=about(context, 100) + " ECE of 15 equal bins.",
        tables=[Table("Calibration of the test images (%)", header, rows_shown, digits=2)],
        figures={"Reliability": draw(bars)},
        claims=[
            claim(
                "GM loss outputs calibrated scores.",
                rule="The ECE of GM is below that of softmax, by the bootstrap interval of the difference over images.",
                effects=[Effect(100 * (base - bars["gm"].ece), -high[at], -low[at], DIGIT_POINTS, n=n, unit="images")],
                found=f"GM {100 * bars['gm'].ece:.2f}, softmax {100 * base:.2f}, difference [{low[at]:+.2f}, {high[at]:+.2f}].",
            )
        ],
    )  # fmt: skip


def draw(bars: dict[str, Reliability]) -> Figure:
    """Accuracy against confidence: a mark per loss and bin, whose area grows with the images in the bin."""
    figure, (axes,) = panels(1, width=4.8, height=4.6)
    axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=0.8)
    for k, (loss, bar) in enumerate(bars.items()):
        area = 300 * np.sqrt(bar.count / bar.count.sum())  # a bin of three images must not look like one of three hundred
        name = f"{NAMES[loss]}, ECE {100 * bar.ece:.2f} %"
        axes.scatter(bar.confidence, bar.accuracy, s=area, marker=MARKERS[k], facecolors="none", edgecolors=COLORS[k], label=name)
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.03), ylim=(-0.03, 1.05), aspect="equal")
    axes.set_title("15 bins; larger marks hold more images", fontsize=9)
    for handle in axes.legend(frameon=False, fontsize=8, loc="lower right").legend_handles:
        handle.set_sizes([30])  # type: ignore[union-attr]  # its stubs say an artist of any kind
    return figure
