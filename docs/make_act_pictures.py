"""Draw pictures of mine.md, curriculum.md, drift.md, select.md, audit.md, generalize.md: python docs/make_act_pictures.py DIR

DIR is where the commands of these pages were run: it has digits.npz, triplets.parquet, curve.png, curriculum.parquet, june.npz,
july.npz, audit.html, drift.parquet and drift.classes.parquet. The pictures go to docs/images. The page of the audit is taken by
Chromium, driven by Playwright.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import hardsight
from benchmarks.explore import find_browser
from hardsight.render.style import COLORS, MARKERS
from hardsight.training.pacing import Pacing

IMAGES = Path(__file__).parent / "images"
EPOCHS, SHOWN, PAIRS = 8, 9, 5
ANCHORS, NEGATIVES = 5, 3


def digit(axes: Any, pixels: np.ndarray, title: str = "") -> None:
    """One digit, dark on light."""
    axes.imshow(pixels.reshape(8, 8), cmap="gray_r")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=8, pad=3)


def mine(folder: Path) -> Figure:
    """The hardest anchors of different classes, each with its positive and its nearest negatives."""
    arrays, table = np.load(folder / "digits.npz"), pq.read_table(folder / "triplets.parquet").to_pandas()
    table["label"] = arrays["labels"][table.anchor]
    table["hardness"] = table.angle_positive - table.angle_negative
    figure = Figure(figsize=(8, 6.9), layout="constrained")
    grid = figure.subplots(ANCHORS, 2 + NEGATIVES)
    hardest = table.sort_values("hardness", ascending=False).drop_duplicates("label").head(ANCHORS)
    for row, first in zip(grid, hardest.itertuples(), strict=True):
        mined = table[table.anchor == first.anchor].sort_values("angle_negative").head(NEGATIVES)
        cells = [(first.anchor, "anchor", None, "black"), (first.positive, "positive", first.angle_positive, COLORS[0])]
        cells += [(each.negative, "negative", each.angle_negative, COLORS[1]) for each in mined.itertuples()]
        for axes, (at, role, angle, color) in zip(row, cells, strict=True):
            degrees = "" if angle is None else f", {np.degrees(angle):.0f}°"
            digit(axes, arrays["features"][at])
            axes.set_title(f"{role}: {arrays['labels'][at]}{degrees}", fontsize=10, color=color, pad=4)
            axes.spines[:].set(color=color, linewidth=2)
    return figure


def curriculum(folder: Path) -> Figure:
    """How fast each pacing lets samples in; beside it, what is let in when."""
    figure = Figure(figsize=(10.5, 3.8), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.5))[0]
    axes = left.subplots()
    epochs = np.arange(1, EPOCHS + 1)
    for kind, color, marker in zip(("root", "linear", "geometric", "step"), COLORS, MARKERS, strict=False):
        shares = [100 * Pacing(kind, 0.2, EPOCHS / 2).share(int(epoch)) for epoch in epochs]
        axes.plot(epochs, shares, color=color, marker=marker, label=kind)
    axes.set_xlabel("epoch")
    axes.set_ylabel("samples that are in (%)")
    axes.set_ylim(0, 105)
    axes.legend(frameon=False, title="--pacing")
    table = pq.read_table(folder / "curriculum.parquet").to_pandas()
    images = load_digits().data
    right.suptitle("let in from epoch ...", fontsize=9)
    grid = right.subplots(EPOCHS // 2 + 1, SHOWN)
    for row, epoch in zip(grid, epochs, strict=False):
        mine = table[table.first_epoch == epoch]
        some = mine.iloc[np.linspace(0, len(mine) - 1, SHOWN).astype(int)]
        for cell, id in zip(row, some.id, strict=True):
            digit(cell, images[int(id)])
        row[0].set_ylabel(f"{epoch}", rotation=0, ha="right", va="center")
    return figure


def drift(folder: Path) -> Figure:
    """What each class lost, and samples that turned wrong, before and after."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.3))[0]
    classes = pq.read_table(folder / "drift.classes.parquet").to_pylist()[::-1]
    axes = left.subplots()
    for at, row in enumerate(classes):
        told = row["verdict"] != "no change found"
        mean, low, high = (1000 * row[name] for name in ("mean_change", "change_low", "change_high"))
        axes.errorbar(mean, at, xerr=[[mean - low], [high - mean]], fmt="o", color=COLORS[1] if told else "#7f7f7f", capsize=3)
    axes.axvline(0, color="#7f7f7f", linestyle=":")
    axes.set_yticks(range(len(classes)), [row["class"] for row in classes])
    axes.set_xlabel("mean change of AVH in thousandths (right: harder)")
    axes.set_ylabel("class")
    before, after = (np.load(folder / f"{month}.npz") for month in ("june", "july"))
    row_of = {int(id): row for row, id in enumerate(before["ids"])}
    table = pq.read_table(folder / "drift.parquet").to_pandas()
    turned = table[table.outcome == "right, then wrong"].sort_values("change", ascending=False).head(PAIRS)
    grid = right.subplots(2, PAIRS)
    for column, sample in zip(grid.T, turned.itertuples(), strict=True):
        at = row_of[int(sample.id)]
        digit(column[0], before["features"][at], f"{sample.label} read as {sample.predicted_before}")
        digit(column[1], after["features"][at], f"{sample.label} read as {sample.predicted_after}")
    for row, month in zip(grid, ("June", "July"), strict=True):
        row[0].set_ylabel(month)
    return figure


def generalized(folder: Path) -> Figure:
    """Digits in four domains, each left out in turn: what four losses reach on it."""
    features, labels = load_digits(return_X_y=True)
    features, labels, part = features[:1200].copy(), labels[:1200], [slice(n, n + 300) for n in range(0, 1200, 300)]
    features[part[1]] += np.random.default_rng(0).normal(0, 4, (300, 64))
    features[part[2]] *= 0.3
    features[part[3]] = np.roll(features[part[3]].reshape(-1, 8, 8), 1, axis=2).reshape(-1, 64)
    domain = np.repeat(["plain", "noisy", "faint", "moved"], 300)
    snapshot = hardsight.Snapshot(features, labels=labels, columns={"domain": domain})
    run = folder / "generalized"
    return hardsight.generalize(snapshot, run, losses="softmax,avh,drm,mldg", epochs=10, seeds=3).figures()["accuracy"]


def audit_page(folder: Path) -> None:
    """The page that `hardsight audit` writes, as a browser shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 1010})
        page.goto((folder / "audit.html").resolve().as_uri())
        page.screenshot(path=IMAGES / "audit.png")
        browser.close()


def main(folder: Path) -> None:
    """All of them."""
    for name, draw in (("mine", mine), ("curriculum", curriculum), ("drift", drift), ("generalize", generalized)):
        figure = draw(folder)
        figure.savefig(IMAGES / f"{name}.png", dpi=90, metadata={"Software": None})
    shutil.copyfile(folder / "curve.png", IMAGES / "select-curve.png")
    audit_page(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
