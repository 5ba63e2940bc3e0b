"""Table 6, Figures 3 and 4 and adversarial verification: MNIST by FGSM, for softmax, center and L-GM."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.attacks import Attack
from hardsight.render import error_curves, histograms, roc_curves
from hardsight_papers.context import Context
from hardsight_papers.lgm.digit_networks import EPSILONS, NAMES, about, attacked, reaches
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.verdicts import DIFFERENCE, DIGIT_POINTS, POINTS, Effect, over

LOSSES = ("softmax", "center", "lgm")
PRINTED = {  # error in per cent at epsilon 0, 0.1, 0.2, 0.3
    "softmax": (0.68, 24.08, 75.56, 84.87),
    "center": (0.47, 43.13, 67.17, 85.49),
    "lgm": (0.39, 23.63, 64.40, 81.62),
}
COMMANDS = ["hardsight train mnist.npz --model mnist_cnn --model-options num_features=100 --loss lgm -o run",
            "hardsight attack run -o attacked"]  # fmt: skip
HOW = " FGSM in pixels of 0 to 1, along the gradient of cross-entropy without a margin."


def column(attack: Attack, name: str, epsilon: float) -> np.ndarray:
    """(n,) a column of attack.parquet, of the test images at an epsilon; 0 is clean."""
    rows = attack.table.column("epsilon").to_numpy() == epsilon
    return np.asarray(attack.table.column(name).to_numpy(zero_copy_only=False)[rows], np.float64)


def error_gap(attacks: dict[str, Attack], other: str, epsilon: float) -> tuple[float, float, float]:
    """By how many points more images are wrong with another loss than with L-GM, with a 95 % interval over the same images."""
    wrong = {loss: 1 - column(attacks[loss], "correct", epsilon) for loss in (other, "lgm")}
    gap = 100 * (wrong[other] - wrong["lgm"])  # (n,)
    half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
    return float(gap.mean()), float(gap.mean() - half), float(gap.mean() + half)


@recipe("lgm/table6", "Error of FGSM on MNIST for softmax, center and L-GM", printed={"error": PRINTED}, needs="MNIST")
def table_6(context: Context) -> Outcome:
    """The error at each epsilon, and whether L-GM is ahead."""
    attacks = {loss: attacked(context, loss) for loss in LOSSES}
    rows: list[tuple[Any, ...]] = []
    curves: dict[str, list[tuple[float, float, float, float]]] = {NAMES[loss]: [] for loss in LOSSES}
    for place, epsilon in enumerate((0.0, *EPSILONS)):
        cells: list[float] = []
        for loss in LOSSES:
            row = next(row for row in attacks[loss].by_epsilon.to_pylist() if row["epsilon"] == epsilon)
            curves[NAMES[loss]].append((epsilon, row["error"], row["low"], row["high"]))
            cells += [100 * row["error"], PRINTED[loss][place]]
        rows.append((f"{epsilon:g}", *cells))
    header = ("epsilon", *(name for loss in LOSSES for name in (f"{NAMES[loss]}, ours", "printed")))
    return Outcome(
        about=about(context, 100) + HOW,
        tables=[Table("Error (%) by epsilon", header, rows, digits=2)],
        figures={"Error by epsilon": error_curves(curves, title="FGSM")},
        claims=[reaches(context, "lgm", 100, 0.992), *(ahead(attacks, epsilon) for epsilon in (0.0, *EPSILONS))],
        commands=COMMANDS,
    )


def ahead(attacks: dict[str, Attack], epsilon: float) -> Claim:
    """Whether L-GM has fewer errors than softmax and than center at an epsilon; 0 stands for clean images."""
    gaps = {other: error_gap(attacks, other, epsilon) for other in ("softmax", "center")}
    n = len(column(attacks["lgm"], "correct", epsilon))
    differences = ", ".join(f"{other} {gap:+.2f} [{low:+.2f}, {high:+.2f}]" for other, (gap, low, high) in gaps.items())
    return claim(
        f"L-GM has the lowest error on {f'images attacked by FGSM at {epsilon:g}' if epsilon else 'clean images'}.",
        rule="The error of softmax and that of center are higher, and the 95 % intervals of both differences, over the same "
        "images, lie above 0.",
        effects=[Effect(*gap, POINTS if epsilon else DIGIT_POINTS, other, n, "images") for other, gap in gaps.items()],
        found=f"Points more than L-GM: {differences}.",
    )


@recipe("lgm/fig3", "Posterior probability of adversarial examples", needs="MNIST")
def figure_3(context: Context) -> Outcome:
    """Histograms of the predicted class's posterior, of attacked images."""
    attacks = {loss: attacked(context, loss) for loss in LOSSES}
    panels: dict[str, dict[str, np.ndarray]] = {}
    rows: list[tuple[Any, ...]] = []
    for epsilon in EPSILONS:
        values = {NAMES[loss]: column(attacks[loss], "predicted_confidence", epsilon) for loss in LOSSES}
        panels[f"posterior at epsilon {epsilon:g}"] = values
        rows.append((f"{epsilon:g}", *(float((x > 0.9).mean() * 100) for x in values.values())))
    header = ("epsilon", *(NAMES[loss] for loss in LOSSES))
    middle = dict(zip(LOSSES, rows[1][1:], strict=True))
    return Outcome(
        about=about(context, 100) + HOW,
        tables=[Table("Attacked images with a posterior above 0.9 (%)", header, rows, digits=1)],
        figures={"Posterior of attacked images": histograms(panels)},
        claims=[
            claim(
                "Adversarial examples of L-GM get a lower posterior than those of softmax and center.",
                rule="At epsilon 0.2, fewer attacked images of L-GM than of either have a posterior above 0.9.",
                holds=bool(middle["lgm"] < min(middle["softmax"], middle["center"])),
                found=", ".join(f"{NAMES[loss]} {share:.1f} %" for loss, share in middle.items()) + ".",
            )
        ],
        commands=COMMANDS,
    )


@recipe("lgm/fig4", "Likelihood of adversarial examples and of normal inputs", needs="MNIST")
def figure_4(context: Context) -> Outcome:
    """Histograms of each loss's own verification score, clean and attacked at 0.2."""
    attacks = {loss: attacked(context, loss) for loss in LOSSES}
    panels, rows = {}, []
    for loss in LOSSES:
        normal, moved = column(attacks[loss], "score", 0.0), column(attacks[loss], "score", 0.2)
        panels[f"{NAMES[loss]}: {'logit' if loss == 'softmax' else 'log-likelihood'}"] = {"normal": normal, "FGSM 0.2": moved}
        low = np.percentile(normal, 5)
        rows.append((NAMES[loss], float(np.median(normal)), float(np.median(moved)), float(100 * (moved < low).mean())))
    share = {loss: row[3] for loss, row in zip(LOSSES, rows, strict=True)}
    header = ("loss", "median, normal", "median, FGSM 0.2", "attacked below the lowest 5 % of normal (%)")
    return Outcome(
        about=about(context, 100) + HOW + " Center and L-GM in logarithms, for the exponentials round to 0.",
        tables=[Table("Verification score of each loss", header, rows, digits=2)],
        figures={"Verification score of normal and attacked inputs": histograms(panels)},
        claims=[
            claim(
                "The likelihood of L-GM tells adversarial examples from normal inputs more clearly than other losses' scores.",
                rule="At epsilon 0.2, more attacked images of L-GM than of either lie below the lowest 5 % of normal inputs.",
                holds=bool(share["lgm"] > max(share["softmax"], share["center"])),
                found=", ".join(f"{NAMES[loss]} {value:.1f} %" for loss, value in share.items()) + ".",
            )
        ],
        commands=COMMANDS,
    )


@recipe("lgm/verification", "Adversarial verification by each loss's own score: ROC and AUROC", needs="MNIST")
def adversarial_verification(context: Context) -> Outcome:
    """AUROC of attacked against clean images: softmax by the logit, center and L-GM by the distance to the predicted class."""
    from hardsight.attacks import roc_curve

    attacks = {loss: attacked(context, loss) for loss in LOSSES}
    rows, areas = [], {}
    for inputs in ("all", "fooled"):
        for epsilon in EPSILONS:
            cells: list[Any] = []
            for loss in LOSSES:
                area = _area(attacks[loss], epsilon, inputs)
                areas[loss, epsilon, inputs] = area
                known = area["auroc"] is not None
                cells.append(f"{area['auroc']:.3f} [{area['low']:.3f}, {area['high']:.3f}]" if known else None)
            rows.append((inputs, f"{epsilon:g}", *cells))
    values = {loss: areas[loss, 0.2, "all"]["auroc"] for loss in LOSSES}
    curves = {
        f"{NAMES[loss]}, {values[loss]:.3f}": roc_curve(column(attacks[loss], "score", 0.0), column(attacks[loss], "score", 0.2))
        for loss in LOSSES
    }
    best, likelihood = areas["lgm", 0.2, "all"], _area(attacks["lgm"], 0.2, "all", "likelihood")
    return Outcome(
        about=about(context, 100) + HOW + " `fooled`: right before the attack and wrong after it.",
        tables=[
            Table("AUROC of attacked against clean images, by each loss's own score [95 %]",
                  ("images", "epsilon", *(NAMES[loss] for loss in LOSSES)), rows, words=2)
        ],
        figures={"ROC at epsilon 0.2": roc_curves(curves, title="FGSM 0.2, each loss's own score")},
        claims=[
            claim(
                "The likelihood of L-GM verifies inputs better than the scores of softmax and center.",
                rule="At epsilon 0.2, its AUROC over all attacked images is above both, and its interval too.",
                effects=[over(values[loss], best["auroc"], best["low"], best["high"], DIFFERENCE, loss, best["attacked"])
                         for loss in ("softmax", "center")],
                found=f"L-GM {best['auroc']:.3f} [{best['low']:.3f}, {best['high']:.3f}], "
                f"softmax {values['softmax']:.3f}, center {values['center']:.3f}. The log-likelihood under the predicted class: "
                f"{likelihood['auroc']:.3f} [{likelihood['low']:.3f}, {likelihood['high']:.3f}].",
            )
        ],
        commands=COMMANDS,
    )  # fmt: skip


def _area(attack: Attack, epsilon: float, inputs: str, detector: str = "score") -> dict[str, Any]:
    wanted = {"epsilon": epsilon, "inputs": inputs, "detector": detector}
    rows = attack.detection.to_pylist()
    area: dict[str, Any] = next(row for row in rows if all(row[name] == value for name, value in wanted.items()))
    return area
