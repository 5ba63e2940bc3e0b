"""LDR and ALDR: label-distributionally robust losses with right and wrong labels, and ALDR's lambda as a score of wrong labels.

Zhu, Ying and Yang, "Label Distributionally Robust Losses for Multi-class Classification: Consistency, Robustness and
Adaptivity", ICML 2023.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight import Dynamics
from hardsight.stats import auroc, mean_interval
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import WRONG, about, few_digits, fitted, tested, trained, trained_with_wrong_labels
from hardsight_papers.drawing import panels, seed_dots
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect, interval, seeds
from hardsight_papers.verdicts import SHARE

LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "cross-entropy": ("softmax", {}),
    "generalized CE": ("comp_sum", {"tau": 1.7}),
    "MAE": ("comp_sum", {"tau": 2.0}),
    "LDR": ("ldr", {}),
    "ALDR": ("aldr", {}),
}
SCORES = {"aldr_lambda": "ALDR's lambda", "avh": "AVH", "loss": "loss"}  # high where a label is wrong
NEAR = 1.0  # points of accuracy that are still called competitive


@recipe("losses/ldr", "LDR and ALDR with clean and noisy labels; ALDR's lambda as a noise score")
def ldr(context: Context) -> Outcome:
    """Five losses on right labels and on 30 % wrong ones; AUROC of lambda, AVH and loss for the wrong ones, ALDR trained."""
    digits = few_digits(context)
    clean, noisy, right = {}, {}, {}
    areas: dict[str, list[float]] = {name: [] for name in SCORES.values()}
    for name, (loss, options) in LOSSES.items():
        right[name] = [trained(context, digits, loss, options, seed=seed) for seed in seeds(context)]
        clean[name] = tested(context, right[name], digits.test)
        runs = [trained_with_wrong_labels(context, loss, options, seed) for seed in seeds(context)]
        noisy[name] = tested(context, [run for run, _ in runs], digits.test)
        if loss == "aldr":
            for run, wrong in runs:
                for score, value in noise_areas(run, digits.train.ids, wrong).items():
                    areas[score].append(value)
    area = {name: np.array(values) for name, values in areas.items()}
    figure, axes = panels(3)
    seed_dots(axes[0], clean, "accuracy (%)", "clean labels")
    seed_dots(axes[1], noisy, "accuracy (%)", f"{WRONG:.0%} noisy labels")
    seed_dots(axes[2], area, "AUROC", "detecting wrong labels")
    axes[2].axvline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    rows = [(name, interval(clean[name]), interval(noisy[name])) for name in LOSSES]
    return Outcome(
        about=about(digits) + fitted(right) + " Defaults of each loss. Scores of the training samples at the last epoch of ALDR.",
        tables=[
            Table("Accuracy (%) [95 %]", ("loss", "right labels", f"{WRONG:.0%} wrong"), rows),
            Table("AUROC of wrong labels [95 %]", ("score", "AUROC"), [(name, interval(x, 3)) for name, x in area.items()]),
        ],
        figures={"LDR and ALDR": figure},
        claims=[one_framework(context), competitive(clean, noisy), adapts(area["ALDR's lambda"])],
        commands=["hardsight train digits --model DigitsCNN --loss aldr -o run"],
    )


def noise_areas(run: Any, ids: list[str], wrong: np.ndarray) -> dict[str, float]:
    """AUROC of each score of a training's last epoch for (n,) which labels are wrong."""
    *_, (_, table) = Dynamics.read(run.run, columns=["id", *SCORES], split="train")  # of the last epoch
    rows = {row["id"]: row for row in table.to_pylist()}
    areas = {}
    for column, name in SCORES.items():
        values = np.array([rows[id][column] for id in ids])
        areas[name] = auroc(values[~wrong], values[wrong]).value
    return areas


def one_framework(context: Context) -> Claim:
    """The ends of lambda against cross-entropy and the multi-class SVM."""
    import torch
    import torch.nn.functional as F

    from hardsight.losses import ldr_loss

    generator = torch.Generator().manual_seed(context.seed)
    logits = torch.randn(1000, 10, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 10, (1000,), generator=generator)
    entropy = ldr_loss(logits, labels, temperature=1.0, margin=0.0, normalize="none", reduction="none")
    hinge = ldr_loss(logits, labels, temperature=1e-5, margin=1.0, normalize="none", reduction="none")
    svm = F.relu((logits - logits.gather(1, labels[:, None]) + 1).scatter(1, labels[:, None], 0.0).amax(1))
    first = float((entropy - F.cross_entropy(logits, labels, reduction="none") + np.log(10)).abs().max())
    second = float((hinge - svm).abs().max())
    return claim(
        "One framework explains cross-entropy and the SVM loss.",
        rule="On random logits, lambda 1 is cross-entropy less log c, and lambda 1e-5 with margin 1 Crammer and Singer's hinge, "
        "both within 1e-4.",
        exact=max(first, second) < 1e-4,
        found=f"Off by {first:.0e} and {second:.0e} at most.",
    )


def competitive(clean: dict[str, np.ndarray], noisy: dict[str, np.ndarray]) -> Claim:
    """ALDR beside the best of all."""
    best = [max((x for name, x in values.items() if name != "ALDR"), key=np.mean) for values in (clean, noisy)]
    gaps = [difference(values["ALDR"], other) for values, other in zip((clean, noisy), best, strict=True)]
    behind = [max(0.0, -gap.value) for gap in gaps]
    effects = [effect(gap, -NEAR, name=name) for gap, name in zip(gaps, ("right labels", "wrong labels"), strict=True)]
    return claim(
        "The adaptive loss is competitive with right labels and with wrong ones.",
        rule=f"With both, its accuracy is at most {NEAR:g} point below that of the best of the losses here: the 95 % interval "
        "over seeds of the difference lies above that.",
        effects=effects,
        found=f"Behind the best by {behind[0]:.1f} points with right labels, by {behind[1]:.1f} with {WRONG:.0%} wrong ones.",
    )


def adapts(area: np.ndarray) -> Claim:
    """Lambda as a score of noise."""
    mean = mean_interval(area)
    return claim(
        "Lambda adapts to the degree of noise of each label: it is larger where the label is wrong.",
        rule="The 95 % interval over seeds of the AUROC of lambda for wrong labels lies above 0.5.",
        effects=[effect(difference(area, 0.5), SHARE)],
        found=f"AUROC {mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}].",
    )
