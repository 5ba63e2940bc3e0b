"""Figure 20 and appendix C: what a longer feature does to model confidence and to AVH."""

from __future__ import annotations

import numpy as np

from hardsight.scores import avh
from hardsight_papers.avh.panels import digits_snapshot
from hardsight_papers.context import Context
from hardsight_papers.drawing import panels
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe

NEAR, FAR = np.pi / 4 - 0.05, np.pi / 4 + 0.05
NORMS = np.linspace(0.5, 100, 200)
LONGER = 1.1


@recipe(
    "avh/fig20",
    "AVH and model confidence while the norm of a feature grows",
    printed={"theta_1": "pi/4 - 0.05", "theta_2": "pi/4 + 0.05", "AVH": [0.4682, 0.5318]},
)
def figure_20(context: Context) -> Outcome:
    """Two classes of equal length at right angles; a feature between them, nearer to one, then to the other."""
    figure, plots = panels(2, width=4.5, height=3.4)
    rows: list[list[Value]] = []
    values, ends = [], []
    for axes, own, title in zip(plots, (NEAR, FAR), ("nearer to its class", "nearer to the other class"), strict=True):
        weight = np.array([[1.0, 0.0], [np.cos(np.pi / 2), np.sin(np.pi / 2)]])
        features = NORMS[:, None] * np.array([np.cos(own), np.sin(own)])  # (200, 2)
        hardness = avh(features, weight, np.zeros(len(features), int))
        logits = features @ weight.T
        confidence = 1 / (1 + np.exp(logits[:, 1] - logits[:, 0]))
        axes.plot(NORMS, confidence, label="model confidence", color="#d55e00")
        axes.plot(NORMS, hardness, label="AVH", color="#0072b2")
        axes.set(title=title, xlabel="norm of the feature", ylim=(0, 1))
        axes.legend(frameon=False)
        values.append(hardness)
        ends.append(float(confidence[-1]))
        rows.append([title, float(hardness.min()), float(hardness.max()), float(confidence[0]), float(confidence[-1])])
    header = ("case", "AVH lowest", "AVH highest", "confidence first", "confidence last")
    return Outcome(
        about="Computed from the formulas: two class vectors at right angles, angles of pi/4 -+ 0.05, norms from 0.5 to 100; "
        "for appendix C, held-out digits and a small CNN.",
        tables=[Table("While the norm grows from 0.5 to 100", header, rows, digits=4)],
        figures={"AVH and model confidence by norm": figure},
        claims=[
            claim(
                "AVH stays unchanged however long the feature is, while model confidence becomes nearly perfect, or nearly 0.",
                rule="AVH moves by less than 1e-9 and is 0.4682 and 0.5318; confidence ends above 0.99 in the one case "
                "and below 0.01 in the other.",
                exact=all(np.ptp(value) < 1e-9 for value in values)
                and [round(float(v[0]), 4) for v in values] == [0.4682, 0.5318]
                and ends[0] > 0.99
                and ends[1] < 0.01,
                found=f"AVH {values[0][0]:.4f} and {values[1][0]:.4f}; confidence {ends[0]:.4f} and {ends[1]:.4f}.",
            ),
            _appendix_c(context),
        ],
    )


def _appendix_c(context: Context) -> Claim:
    """Equation 6 on a trained network: is a longer feature an easy way to a lower loss?"""
    snapshot = digits_snapshot(context)
    rows, head = snapshot.in_memory(), snapshot.head
    assert head is not None and rows.labels is not None
    features, labels = np.asarray(rows.values, np.float64), rows.labels
    before, after = (_loss(np.asarray(head.logits(scale * features)), labels) for scale in (1.0, LONGER))
    right = np.asarray(head.logits(features)).argmax(1) == labels
    lower = float((after < before)[right].mean())
    higher = float((after > before)[~right].mean()) if (~right).any() else float("nan")
    return claim(
        "Once a sample is classified correctly, a longer feature lowers its loss; a misclassified one is hurt (appendix C, "
        "equation 6).",
        rule=f"With features {LONGER} times as long the loss falls for at least 95 % of the correctly classified "
        "held-out samples, and rises for more than half of the others.",
        holds=lower >= 0.95 and (higher > 0.5 or not (~right).any()),
        found=f"It falls for {100 * lower:.1f} % of {right.sum()} and rises for {100 * higher:.1f} % of {(~right).sum()}.",
    )


def _loss(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    from scipy.special import log_softmax

    return np.asarray(-log_softmax(logits, axis=1)[np.arange(len(labels)), labels])
