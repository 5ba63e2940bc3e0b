"""Figure 1: two-dimensional features of MNIST by five losses, and the likelihood that L-GM has learned as a heat map."""

from __future__ import annotations

import numpy as np

from hardsight import Head, Snapshot
from hardsight_papers.arrays import of_split
from hardsight_papers.context import Context
from hardsight_papers.drawing import Axes, Figure
from hardsight_papers.lgm.digit_networks import NAMES, about, attacked, reaches, trained
from hardsight_papers.recipe import Outcome, Table, claim, recipe
from hardsight_papers.verdicts import over

LOSSES = ("softmax", "center", "l_softmax", "gm", "lgm")
EPSILON = 0.2  # of the adversarial examples in the heat map; the paper does not say
MOST_POINTS = 6000  # drawn of one loss


@recipe(
    "lgm/fig1", "Two-dimensional features by softmax, center, L-Softmax, GM and L-GM, and the likelihood of L-GM", needs="MNIST"
)
def figure_1(context: Context) -> Outcome:
    """Train five networks with two features; draw the training features, and attacked images over the likelihood."""
    features, heads, rows = {}, {}, []
    for loss in LOSSES:
        run = trained(context, loss, 2)
        batch = of_split(Snapshot.load(run.run), "train").in_memory()
        features[loss], heads[loss] = (np.asarray(batch.values, np.float64), batch.labels), run.head
        last = run.history[-1]
        rows.append((NAMES[loss], 100 * last["test"]["accuracy"], separation(*features[loss])))
    attack = attacked(context, "lgm", 2)
    area = next(
        row for row in attack.detection.to_pylist()
        if row["epsilon"] == EPSILON and row["inputs"] == "fooled" and row["detector"] == "likelihood"
    )  # fmt: skip
    ratios = {loss: row[2] for loss, row in zip(LOSSES, rows, strict=True)}
    moved = Snapshot.load(attack.run)
    level = moved.columns(["level"])["level"].to_numpy(zero_copy_only=False)  # (n,) NaN for clean images
    adversarial = np.asarray(moved.take(np.flatnonzero(level == EPSILON)).in_memory().values, np.float64)
    return Outcome(
        about=about(context, 2) + " Separation: distance of a class mean to the nearest other one, over the spread of the class.",
        tables=[Table("Two features", ("loss", "test accuracy %", "separation"), rows, digits=2)],
        figures={"Features of the training set and the likelihood of L-GM": draw(features, heads, adversarial)},
        claims=[
            reaches(context, "softmax", 2, 0.98),
            claim(
                "L-GM separates the classes more widely than GM without a margin, and GM more than softmax.",
                rule="Separation (mean over classes) of L-GM above GM, and of GM above softmax.",
                holds=bool(ratios["lgm"] > ratios["gm"] > ratios["softmax"]),
                found=", ".join(f"{NAMES[loss]} {ratios[loss]:.2f}" for loss in ("lgm", "gm", "softmax")) + ".",
            ),
            claim(
                "Adversarial examples have extremely low likelihood and can be easily distinguished.",
                rule=f"AUROC of the likelihood, images fooled by FGSM at {EPSILON} against clean ones, at least 0.95.",
                effects=[] if area["auroc"] is None
                else [over(0.95, area["auroc"], area["low"], area["high"], n=area["attacked"])],
                found="No image was fooled." if area["auroc"] is None
                else f"AUROC {area['auroc']:.3f} [{area['low']:.3f}, {area['high']:.3f}] over {area['attacked']:,} images.",
            ),
        ],
        commands=["hardsight train mnist.npz --model mnist_cnn --loss lgm -o run", "hardsight attack run -o attacked"],
    )  # fmt: skip


def separation(features: np.ndarray, labels: np.ndarray) -> float:
    """Distance of each class mean to the nearest other one, over the root mean square distance within the class; the mean of it.

    Example:
        >>> separation(np.array([[-1.0, 0], [1, 0], [9, 0], [11, 0]]), np.array([0, 0, 1, 1]))
        10.0
    """
    classes = np.unique(labels)
    mean = np.stack([features[labels == k].mean(0) for k in classes])  # (c, d)
    spread = np.array([np.sqrt(((features[labels == k] - m) ** 2).sum(1).mean()) for k, m in zip(classes, mean, strict=True)])
    gaps = np.linalg.norm(mean[:, None] - mean[None], axis=2) + np.diag(np.full(len(classes), np.inf))  # (c, c)
    return float((gaps.min(1) / spread).mean())


def draw(features: dict[str, tuple[np.ndarray, np.ndarray]], heads: dict[str, Head], adversarial: np.ndarray) -> Figure:
    """The six panels of the figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained", dpi=110)
    panels = figure.subplots(2, 3).ravel()
    for axes, letter, (loss, (points, labels)) in zip(panels, "abcde", features.items(), strict=False):
        scatter(axes, points, labels, heads[loss])
        axes.set_title(f"({letter}) {NAMES[loss]}", fontsize=10)
    heat_map(panels[5], features["lgm"][0], heads["lgm"], adversarial)
    panels[5].set_title(f"(f) likelihood of (e), brighter is higher; FGSM {EPSILON} in cyan", fontsize=10)
    return figure


def scatter(axes: Axes, points: np.ndarray, labels: np.ndarray, head: Head) -> None:
    """Features in the plane by class, and the means of a Gaussian head."""
    from matplotlib import colormaps

    order = np.random.default_rng(0).permutation(len(points))[:MOST_POINTS]  # no class on top of all others
    axes.scatter(points[order, 0], points[order, 1], s=2, c=colormaps["tab10"](labels[order]), linewidths=0)
    if head.kind == "gaussian":
        mean = np.asarray(head.weight, np.float64)  # (c, 2)
        axes.scatter(mean[:, 0], mean[:, 1], marker="+", s=50, c="#222222", linewidths=1)
    axes.set_aspect("equal", adjustable="datalim")
    axes.tick_params(labelsize=7)


def heat_map(axes: Axes, points: np.ndarray, head: Head, adversarial: np.ndarray) -> None:
    """p(x) of the mixture with equal priors, and where attacked images lie."""
    from scipy.special import logsumexp

    low, high = points.min(0), points.max(0)
    pad = 0.15 * (high - low)
    x, y = (np.linspace(low[j] - pad[j], high[j] + pad[j], 240) for j in (0, 1))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    log_density = logsumexp(np.asarray(head.logits(grid), np.float64), axis=1) - np.log(2 * np.pi * head.num_classes)
    density = np.exp(log_density).reshape(len(y), len(x))
    axes.imshow(density, extent=(x[0], x[-1], y[0], y[-1]), origin="lower", cmap="inferno", aspect="auto")
    inside = ((adversarial > low - pad) & (adversarial < high + pad)).all(1)
    shown = adversarial[inside][:400]
    axes.scatter(shown[:, 0], shown[:, 1], s=3, c="#56d4e9", linewidths=0)
    axes.tick_params(labelsize=7)
