"""Figures 3 and 7: two overlapping Gaussians on the unit sphere, an MLP with one 3 x 2 hidden layer, AVH and norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight import Snapshot, score
from hardsight.render import COLORS
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect, signed
from hardsight_papers.verdicts import DIFFERENCE

NETWORK = "hardsight_papers.networks:SphereMLP"
PER_CLASS, SPREAD, SEEDS = 1000, 0.4, 5
ACTIVATIONS = ("tanh", "leaky_relu", "identity")
READINGS = ("a long feature is hard, as the caption reads", "a short feature is hard")
CENTERS = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.0]])  # our choice: the paper does not say


def two_gaussians(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(2000, 3) points on the sphere, 1000 of each of two classes that overlap, and their labels."""
    labels = np.repeat([0, 1], PER_CLASS)
    points = np.random.default_rng(seed).normal(CENTERS[labels], SPREAD)  # (n, 3)
    return points / np.linalg.norm(points, axis=1, keepdims=True), labels


def in_overlap(points: np.ndarray) -> np.ndarray:
    """(n,) whether the rarer class has a share of at least a fifth where the point lies, by the densities themselves.

    The two densities are mirror images, so their ratio depends on the distances to the two centers only.
    """
    fine, _ = two_gaussians(1_000_003)
    labels = np.repeat([0, 1], PER_CLASS)
    near = np.argsort(-(points @ fine.T), axis=1)[:, :50]  # (n, 50) the nearest of other draws
    share = labels[near].mean(axis=1)
    return np.minimum(share, 1 - share) >= 0.2


@recipe("avh/fig3", "Two overlapping Gaussians on a sphere: AVH and norm as heat maps")
@recipe("avh/fig7", "Two overlapping Gaussians on a sphere, as in the appendix")
def figure_3(context: Context) -> Outcome:
    """Train the MLP on five draws with each activation; compare how well AVH and the norm mark the overlap of the classes."""
    areas: dict[str, np.ndarray] = {}  # (draws, 3) by activation: AUROC of AVH, of the norm, of the norm turned round
    for activation in ACTIVATIONS:
        measured = [_marks_overlap(context, activation, context.seed + k) for k in range(SEEDS)]
        areas[activation] = np.array([area for area, _ in measured])
        if activation == ACTIVATIONS[0]:
            figure = measured[0][1]
    rows = [[activation, *areas[activation].mean(0).tolist()] for activation in ACTIVATIONS]
    return Outcome(
        about=f"2 x {PER_CLASS} points on the sphere, {SEEDS} draws; an MLP with one 3 x 2 hidden layer, 30 epochs, with three "
        "activations after it, since the paper names none.",
        tables=[Table("AUROC of points in the overlap of the two classes", ("activation", "AVH", *READINGS), rows)],
        figures={"Samples, AVH and norm": figure},
        claims=[_better(areas, reading, column) for column, reading in enumerate(READINGS, start=1)],
    )


def _marks_overlap(context: Context, activation: str, seed: int) -> tuple[list[float], Figure]:
    """AUROC of the overlap by AVH, by a large norm and by a small one; and the three spheres."""
    from sklearn.metrics import roc_auc_score

    points, labels = two_gaussians(seed)
    options: dict[str, Any] = {"model_options": {"activation": activation}, "epochs": 30, "batch_size": 64, "lr": 0.1}
    trained = context.train((points.astype(np.float32), labels), NETWORK, seed=seed, **options)
    table = score(Snapshot.load(trained.run), scores=["avh", "norm"])
    avh, norm = (table.column(name).to_numpy() for name in ("avh", "norm"))
    overlap = in_overlap(points)
    return [float(roc_auc_score(overlap, x)) for x in (avh, norm, -norm)], heat_maps(points, labels, avh, norm)


def _better(areas: dict[str, np.ndarray], reading: str, column: int) -> Claim:
    gaps = {activation: difference(area[:, 0], area[:, column]) for activation, area in areas.items()}
    return claim(
        f"AVH marks the overlap of the classes better than the norm does ({reading}).",
        rule="AUROC of AVH for points in the overlap is higher than that of the norm: the 95 % interval over draws, with every "
        "activation.",
        effects=[effect(gap, DIFFERENCE, SEEDS, activation, "draws") for activation, gap in gaps.items()],
        found="; ".join(f"{activation} {signed(gap, 3)}" for activation, gap in gaps.items()) + ".",
        post_hoc=True,
    )


def heat_maps(points: np.ndarray, labels: np.ndarray, avh: np.ndarray, norm: np.ndarray) -> Figure:
    """The three spheres of the figure: classes, AVH, norm."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    two = ListedColormap(COLORS[:2])
    shades = (("classes", labels, two), ("AVH", avh, "viridis"), ("norm", norm, "viridis"))
    for position, (title, color, map) in enumerate(shades):
        axes = figure.add_subplot(1, 3, position + 1, projection="3d")
        shown = axes.scatter(*points.T, c=color, cmap=map, s=6)
        axes.set_title(title)
        axes.view_init(elev=25, azim=45)
        if position:
            figure.colorbar(shown, ax=axes, shrink=0.6)
    return figure
