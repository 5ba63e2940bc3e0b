"""Figure 2: what alpha means for two classes in the plane. Lemma 1: the center loss as a special case of the likelihood."""

from __future__ import annotations

import math

import numpy as np

from hardsight.errors import require_installed
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure, panels
from hardsight_papers.recipe import Outcome, Table, claim, recipe

ALPHAS = (0.0, 0.1, 0.3, 1.0, 3.0)
MEANS = np.array([[0.0, 0.0], [2.0, 0.0]])  # two classes, 2 apart, identity covariance


def reach(alpha: float) -> float:
    """How far from its own mean, towards the other, a sample of the first class is still told apart by L-GM in training.

    Where its own training logit, by our loss, falls to that of the other class.
    """
    import torch
    from scipy.optimize import brentq

    from hardsight.losses import lgm_loss

    def ahead(r: float) -> float:
        point = torch.tensor([[r, 0.0]], dtype=torch.float64)
        loss = lgm_loss(point, torch.from_numpy(MEANS), None, torch.tensor([0]), alpha=alpha, likelihood=0.0)
        return math.log(2) - float(loss)  # log 2 where both logits are the same

    return float(brentq(ahead, 1e-6, 2 - 1e-6))


@recipe("lgm/fig2", "The relation of alpha to the size of the margin")
def figure_2(context: Context) -> Outcome:
    """Find the border of each class by our loss, and compare the gap between both with the formula.

    The border of class 1 is where (1 + alpha) d_1 = d_2; on the line between the means, at D apart, that leaves a gap of
    D (s - 1) / (s + 1), s = sqrt(1 + alpha).
    """
    require_installed("torch", extra="torch", purpose="lgm/fig2")
    rows = []
    for alpha in ALPHAS:
        s, gap = math.sqrt(1 + alpha), 2 - 2 * reach(alpha)
        rows.append((f"{alpha:g}", gap, 2 * (s - 1) / (s + 1)))
    gaps = np.array([row[1] for row in rows])
    formula = np.array([row[2] for row in rows])
    return Outcome(
        about="Two classes with identity covariance whose means are 2 apart; borders found on the training logits of our loss.",
        tables=[Table("Gap between the borders of the two classes", ("alpha", "ours", "formula"), rows, digits=4)],
        figures={"Where a sample of each class must lie": draw()},
        claims=[
            claim(
                "Without a margin (alpha = 0) the borders coincide; with alpha > 0 there is a gap that grows with alpha.",
                rule="The gap is 0 at alpha 0 to six digits, grows with every alpha, and is that of the formula to six digits.",
                exact=bool(abs(gaps[0]) < 1e-6 and (np.diff(gaps) > 0).all() and np.abs(gaps - formula).max() < 1e-6),
                found=", ".join(f"{alpha:g}: {gap:.4f}" for alpha, gap in zip(ALPHAS, gaps, strict=True)) + ".",
            )
        ],
    )


def draw() -> Figure:
    """The regions in which each class's training logit wins, without and with a margin."""
    figure, plots = panels(2, width=4.5, height=3.4)
    x, y = np.meshgrid(np.linspace(-1, 3, 300), np.linspace(-1.5, 1.5, 200))
    distance = [0.5 * ((x - mean[0]) ** 2 + (y - mean[1]) ** 2) for mean in MEANS]
    for axes, alpha in zip(plots, (0.0, 1.0), strict=True):
        first, second = (1 + alpha) * distance[0] < distance[1], (1 + alpha) * distance[1] < distance[0]
        levels, colors = [-0.5, 0.5, 1.5, 2.5], ["#ffffff", "#a6cee3", "#fdbf6f"]
        axes.contourf(x, y, first.astype(float) + 2 * second, levels=levels, colors=colors)
        axes.scatter(MEANS[:, 0], MEANS[:, 1], marker="+", c="#222222", s=80)
        axes.set_title(f"({'ab'[int(alpha > 0)]}) α = {alpha:g}", fontsize=10)
        axes.set(aspect="equal", xticks=[], yticks=[])
    return figure


@recipe("lgm/lemma1", "Lemma 1: the center loss is the likelihood term with identity covariance, up to a constant")
def lemma_1(context: Context) -> Outcome:
    """L_lkd = L_C + (N / 2) D log 2 pi for random features, in double precision."""
    require_installed("torch", extra="torch", purpose="lgm/lemma1")
    import torch

    from hardsight.losses import LGMLoss, center_loss

    generator = torch.Generator().manual_seed(context.seed)
    rows = []
    for n, d, c in ((1, 2, 2), (50, 2, 10), (200, 100, 10)):
        with torch.random.fork_rng(devices=[]):  # the means of the head are drawn, too
            torch.manual_seed(context.seed)
            head = LGMLoss(d, c).double()
        features = torch.randn(n, d, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, c, (n,), generator=generator)
        with torch.no_grad():
            likelihood = float(-head.log_likelihood(features, labels).sum())
            center = float(center_loss(features, head.weight, labels, reduction="sum"))
        right = center + n / 2 * d * math.log(2 * math.pi)
        rows.append((f"N = {n}, D = {d}, K = {c}", likelihood, right, abs(likelihood - right) / abs(right)))
    return Outcome(
        about="Random features and means in double precision, by `LGMLoss.log_likelihood` and `center_loss`.",
        tables=[Table("Equation 16", ("", "L_lkd", "L_C + N/2 D log 2π", "relative difference"), rows, digits=None)],
        claims=[
            claim(
                "With Σ = I and equal priors, L_lkd = L_C + (N / 2) D log 2π.",
                rule="Both sides agree to a relative difference of 1e-12.",
                exact=max(row[3] for row in rows) < 1e-12,
                found=f"The largest relative difference is {max(row[3] for row in rows):.1e}.",
            )
        ],
    )
