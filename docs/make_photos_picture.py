"""Draw docs/images/photos.png, the picture of the README: python docs/make_photos_picture.py DATA

DATA is a folder with cifar10_test.npz, cifar10h_counts.npy and cifar10_resnet20.safetensors. hardsight itself makes the choice:
a ResNet-20 scores the 10,000 test images, and `clean` looks for 300 labels that were changed.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import hardsight

OUTPUT = Path(__file__).parent / "images" / "photos.png"
CHANGED, SHOWN = 300, 7
RED, GREEN, GRAY = "#b3261e", "#1b6e3c", "#57606a"


def main(data: Path) -> None:
    photos, answers = np.load(data / "cifar10_test.npz")["images"], np.load(data / "cifar10h_counts.npy")
    with tempfile.TemporaryDirectory() as folder:
        weights = data / "cifar10_resnet20.safetensors"
        snapshot = hardsight.extract("cifar_resnet20", data / "cifar10_test.npz", f"{folder}/run", weights=weights)
        hardest = hardsight.score(snapshot).hardest("avh", top=SHOWN).to_pylist()
        names = [name.replace("automobile", "car") for name in snapshot.class_names or []]  # short enough for a caption
        given, changed = with_wrong_labels(np.asarray(snapshot.labels))
        features = snapshot.in_memory().values
        noisy = hardsight.Snapshot(features, snapshot.head, given, ids=snapshot.ids, class_names=names)
        suspects = hardsight.clean(noisy).to_pandas()
    flagged = suspects[suspects.is_label_issue].sort_values("error_score", ascending=False)
    right = np.isin(flagged.id.astype(int), changed).sum()

    figure = Figure(figsize=(10.4, 4.75), dpi=130)
    rows: Any = figure.subfigures(2, 1, height_ratios=[1, 1.08])
    wrong, hard = rows
    heading(
        wrong, f"Wrong labels: we changed {CHANGED} of 10,000. hardsight clean flags {len(flagged)}, {right} of them rightly."
    )
    for axes, row in zip(wrong.subplots(1, SHOWN), flagged.head(SHOWN).itertuples(), strict=True):
        photo(axes, photos[int(row.id)], [(f"labeled {row.given_label}", RED), (f"hardsight: {row.suggested_label}", GREEN)])
    heading(hard, "Hard images: the largest angles to their class (AVH), and what people call them most often.")
    for axes, row in zip(hard.subplots(1, SHOWN), hardest, strict=True):
        votes = answers[int(row["id"])].astype(int)
        people = f"people: {names[votes.argmax()]} {100 * votes.max() / votes.sum():.0f} %"
        lines = [(f"labeled {names[row['label']]}", GRAY), (f"network: {names[row['predicted']]}", RED), (people, GREEN)]
        photo(axes, photos[int(row["id"])], lines)
    wrong.subplots_adjust(left=0.01, right=0.99, top=0.885, bottom=0.17, wspace=0.06)
    hard.subplots_adjust(left=0.01, right=0.99, top=0.885, bottom=0.24, wspace=0.06)
    save(figure)


def with_wrong_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels with some of them changed to any other class, and the rows of those."""
    rng = np.random.default_rng(0)
    changed = rng.choice(len(labels), CHANGED, replace=False)
    given = labels.copy()
    given[changed] = (given[changed] + rng.integers(1, 10, CHANGED)) % 10
    return given, changed


def heading(row: Any, words: str) -> None:
    row.suptitle(words, x=0.012, y=0.97, ha="left", fontsize=12.5, fontweight="bold")


def photo(axes: Any, pixels: np.ndarray, lines: list[tuple[str, str]]) -> None:
    """A photograph of 32 x 32 pixels, enlarged, above lines of words, each in its color."""
    axes.imshow(pixels, interpolation="bicubic")
    axes.set_axis_off()
    for number, (words, color) in enumerate(lines):
        axes.text(0.5, -0.05 - 0.13 * number, words, color=color, fontsize=10.5, ha="center", va="top", transform=axes.transAxes)


def save(figure: Figure, output: Path = OUTPUT) -> None:
    """A palette with dithering looks the same and takes half of the bytes."""
    whole = io.BytesIO()
    figure.savefig(whole, format="png")
    picture = Image.open(whole).convert("RGB")
    palette = picture.quantize(256, Image.Quantize.MAXCOVERAGE)
    picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(output, optimize=True)
    print(f"wrote {output}, {output.stat().st_size / 1000:.0f} kB; {whole.tell() / 1000:.0f} with all colors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
