"""The slides' theoretical foundation: Soudry et al., The Implicit Bias of Gradient Descent on Separable Data (ICLR 2018).

On separable data, gradient descent on the logistic loss turns towards the hard-margin SVM while its norm grows like log t.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardsight.paper.context import Context
from hardsight.paper.recipe import Outcome, Table, claim, recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES, RATE = 60, 0.5
MOMENTS = np.unique(np.logspace(0, 5.3, 60).astype(int))  # steps, up to 200,000


def separable(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, 2) points of two classes with a gap between them, and (n,) signs."""
    rng = np.random.default_rng(seed)
    signs = np.repeat([-1.0, 1.0], SAMPLES // 2)
    points = rng.normal(size=(SAMPLES, 2)) + signs[:, None] * np.array([2.6, 1.4])
    keep = signs * (points @ np.array([0.88, 0.47])) > 0.5  # the gap
    return points[keep], signs[keep]


def descend(points: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """(moments, 2) the weights of logistic regression without bias, by plain gradient descent."""
    signed, weights = signs[:, None] * points, np.zeros(2)  # (n, 2)
    kept, step = [], 0
    for moment in MOMENTS:
        while step < moment:
            pull = 1 / (1 + np.exp(signed @ weights))  # (n,) how wrong each point still is
            weights = weights + RATE * (pull @ signed) / len(signed)
            step += 1
        kept.append(weights)
    return np.array(kept)


@recipe("slides/theory", "Gradient descent on separable data: the direction converges, the norm grows like log t")
def theory(context: Context) -> Outcome:
    """Logistic regression on five draws of separable points, beside the hard-margin SVM."""
    from sklearn.svm import SVC

    rows, fits, ends = [], [], []
    for seed in range(context.seed, context.seed + 5):
        points, signs = separable(seed)
        weights = descend(points, signs)
        both = np.concatenate([points, -points])  # mirrored, so that the best plane goes through the origin
        svm = SVC(kernel="linear", C=1e6).fit(both, np.concatenate([signs, -signs])).coef_[0]
        norm = np.linalg.norm(weights, axis=1)
        angle = np.degrees(np.arccos(np.clip(weights @ svm / (norm * np.linalg.norm(svm)), -1, 1)))
        late = len(MOMENTS) // 2
        fit = float(np.corrcoef(np.log(MOMENTS[late:]), norm[late:])[0, 1] ** 2)
        fits.append(fit)
        ends.append((float(angle[late]), float(angle[-1])))
        rows.append(
            [seed, len(points), float(angle[0]), float(angle[late]), float(angle[-1]), float(norm[late]), float(norm[-1]), fit]
        )
        if seed == context.seed:
            figure = curves(angle, norm)
    return Outcome(
        about=f"Logistic regression without bias on separable points in the plane, {MOMENTS[-1]:,} steps of gradient descent, 5 draws.",
        tables=[Table("Angle to the hard-margin SVM in degrees, and norm", ("draw", "points", "angle, step 1", f"step {MOMENTS[len(MOMENTS) // 2]}", "last step", "norm", "norm, last", "R2 of norm by log t"), rows)],
        figures={"Direction and norm over steps": figure},
        claims=[
            claim(
                "The direction approaches that of the hard-margin SVM.",
                rule="In every draw the angle between the two at the end is below 5 degrees and not above that at the middle of the (logarithmic) time.",
                holds=all(last < 5 and last <= middle + 0.1 for middle, last in ends),
                found=", ".join(f"{last:.2f}" for _, last in ends) + " degrees at the end.",
            ),
            claim(
                "The norm grows like log t.",
                rule="Over the second half of the logarithmic time, a straight line in log t explains at least 99 % of the norm's variance, in every draw.",
                holds=min(fits) >= 0.99,
                found=f"R2 of {min(fits):.4f} to {max(fits):.4f}.",
            ),
        ],
    )  # fmt: skip


def curves(angle: np.ndarray, norm: np.ndarray) -> Figure:
    """The angle to the SVM, and the norm, over steps on a logarithmic scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, values, words in zip(
        figure.subplots(1, 2), (angle, norm), ("angle to the hard-margin SVM (degrees)", "norm"), strict=True
    ):
        axes.plot(MOMENTS, values, color="#0072b2")
        axes.set(xscale="log", xlabel="step", ylabel=words)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
