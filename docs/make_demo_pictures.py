"""Draw the pictures of start.md, extract.md and adapt.md from the demo: python docs/make_demo_pictures.py hardsight-demo

The pictures go to docs/images: overview.png is the figure of the demo's report, contrast.png shows what scores make of less
contrast, and adaptation.png its self-training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hardsight.demo import METHOD, NAMES, load_digits
from hardsight.explorer.opening import open_page
from hardsight.explorer.report import overview
from hardsight.explorer.settings import ExploreSettings
from hardsight.render.style import COLORS

IMAGES = Path(__file__).parent / "images"
SHOWN = 12  # digits
SCORES = {  # of the picture of contrast
    "avh": "AVH: high is hard", "angular_gap": "angular gap (radians): high is hard", "confidence": "confidence: low is hard",
    "norm": "norm of the feature",
}  # fmt: skip


def contrast(demo: Path) -> Figure:
    """Medians and quartiles of four scores, by how much contrast the digits have left."""
    table = pq.read_table(demo / "degraded.parquet", filters=[("degradation", "=", "contrast")]).to_pandas()
    quartiles = table.groupby("level")[list(SCORES)].quantile([0.25, 0.5, 0.75]).unstack()
    figure = Figure(figsize=(8, 5.2), layout="constrained", dpi=120)
    figure.suptitle(
        f"{table.base_id.nunique()} digits, each at five levels of contrast: median, and the middle half", fontsize=11
    )
    for axes, (score, words), color in zip(figure.subplots(2, 2).flat, SCORES.items(), COLORS, strict=False):
        low, middle, high = (quartiles[score][part] for part in (0.25, 0.5, 0.75))
        axes.plot(middle, marker="o", color=color)
        axes.fill_between(quartiles.index, low, high, color=color, alpha=0.2, linewidth=0)
        axes.set_title(words, fontsize=10)
        axes.set_xticks(quartiles.index)
        axes.set_ylim(bottom=0 if score == "norm" else None)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("contrast: 1 is the digit as it is", fontsize=10)
    return figure


def adaptation(demo: Path) -> Figure:
    """Digits that are read rightly only after self-training, above accuracy by round and by class."""
    accuracy = pq.read_table(demo / "adapt" / "accuracy.parquet").to_pylist()
    before, after = (next(row for row in accuracy if row["method"] == method) for method in ("source", METHOD))
    rounds = pq.read_table(demo / "adapt" / "rounds.parquet").to_pylist()
    reached = [before["accuracy"], *(row["accuracy"] for row in rounds if row["method"] == METHOD)]
    folder = next((demo / "adapt").glob("*/seed=*"))
    first, last = (
        pq.read_table(folder / method / "predictions.parquet")["predicted"].to_numpy() for method in ("source", METHOD)
    )
    _, _, faint = load_digits(int(folder.name.partition("=")[2]))
    learned = np.flatnonzero((first != faint.labels) & (last == faint.labels))
    lost = int(((first == faint.labels) & (last != faint.labels)).sum())
    figure = Figure(figsize=(10, 5.2), layout="constrained", dpi=120)
    parts: Any = figure.subfigures(2, 1, height_ratios=[1, 1.9])
    parts[0].suptitle(
        f"Faint digits, self-training without labels: {100 * reached[0]:.1f} % → {100 * reached[-1]:.1f} %; "
        f"{len(learned)} of {len(first)} put right, {lost} put wrong",
        fontsize=11,
    )
    shown = learned[np.linspace(0, len(learned) - 1, min(SHOWN, len(learned))).astype(int)]
    for axes, row in zip(parts[0].subplots(1, SHOWN), shown, strict=False):
        axes.imshow(np.asarray(faint.image(int(row))), cmap="gray_r", vmin=0, vmax=255)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_xlabel(f"read as {first[row]},\nthen {last[row]}", fontsize=8)
    left, right = parts[1].subplots(1, 2)
    left.plot(100 * np.array(reached), marker="o", color=COLORS[0])
    left.set(xlabel="round of self-training (0: the model that learned clean images)", ylabel="mean class accuracy (%)")
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    low, high = (np.array([100 * row[f"class {name}"] for name in NAMES]) for row in (before, after))
    right.vlines(range(len(NAMES)), low, high, color="0.7", linewidth=2)
    right.plot(low, "o", color=COLORS[1], label="before")
    right.plot(high, "o", color=COLORS[0], label="after")
    right.set(xticks=range(len(NAMES)), xlabel="class", ylabel="accuracy (%)")
    right.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main(demo: Path) -> None:
    """All three."""
    figures = {"overview": overview(open_page(demo, None, ExploreSettings(read_only=True)))}
    figures |= {"contrast": contrast(demo), "adaptation": adaptation(demo)}
    for name, figure in figures.items():
        figure.savefig(IMAGES / f"{name}.png", metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
