"""The experiment of docs/results.md about groups that a training set lacks: python docs/make_fairness.py DATA

DATA is a directory with mnist.npz and usps.npz. Digits of both are one data set of 16 x 16 pixels, and where a digit comes from
is the attribute that nobody recorded. A small network learns from 4,000 digits of which fewer and fewer are from USPS; then
1,000 test digits of each are scored.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from PIL import Image
from sklearn.neural_network import MLPClassifier

from hardsight import Head, Snapshot, audit, score
from hardsight.stats import auroc, mean_interval

SHARES, SEEDS, TRAIN, TEST = (0.5, 0.1, 0.02, 0.005), range(5), 4000, 1000
SCORES = ("avh", "loss", "confidence", "predicted_confidence", "norm")
LOW_IS_HARD = ("confidence", "predicted_confidence", "norm")


def pixels(images: np.ndarray, side: int = 16) -> np.ndarray:
    """(n, side * side) in [0, 1]."""
    resized = [np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)) for image in images]
    return np.stack(resized).reshape(len(images), -1).astype(np.float32) / 255


def digits(file: Path, split: str, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Some digits, drawn by chance."""
    with np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
    rows = rng.permutation(len(images))[:count]
    images = images[rows]
    if images.dtype != np.uint8:
        images = np.clip(255 * (images - images.min()) / (images.max() - images.min()), 0, 255).astype(np.uint8)
    return pixels(images), labels[rows].astype(np.int64)


def network(x: np.ndarray, y: np.ndarray, seed: int) -> MLPClassifier:
    """One hidden layer of 64: its activations are the features."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops after 40 passes, converged or not
        return MLPClassifier((64,), max_iter=40, random_state=seed).fit(x, y)


def features_of(model: MLPClassifier, x: np.ndarray) -> np.ndarray:
    """(n, 64) after the ReLU."""
    return np.maximum(x @ model.coefs_[0] + model.intercepts_[0], 0).astype(np.float32)


def measure(folder: Path, share: float, seed: int) -> dict[str, float]:
    """What is measured for one share of USPS and one seed."""
    rng = np.random.default_rng(seed)
    rare = max(1, round(TRAIN * share))
    train = [digits(folder / "mnist.npz", "train", TRAIN - rare, rng), digits(folder / "usps.npz", "train", rare, rng)]
    test = [digits(folder / f"{name}.npz", "test", TEST, rng) for name in ("mnist", "usps")]
    x, y = (np.concatenate([part[at] for part in train]) for at in (0, 1))
    model = network(x, y, seed)
    features = np.concatenate([features_of(model, part[0]) for part in test])
    labels = np.concatenate([part[1] for part in test])
    source = np.repeat(["mnist", "usps"], TEST)
    head = Head("linear", model.coefs_[1].T.astype(np.float32), model.intercepts_[1].astype(np.float32))
    table = score(features, head, labels, scores=SCORES)
    known = audit(features=features, head=head, labels=labels, columns={"source": source}, group="source")
    by = {row["group"]: row for row in known.to_pylist()}
    measured = {"accuracy mnist": by["mnist"]["accuracy"], "accuracy usps": by["usps"]["accuracy"]}
    measured |= {"avh mnist": by["mnist"]["mean_avh"], "avh usps": by["usps"]["mean_avh"]}
    rare_ones = source == "usps"
    for name in SCORES:
        hard = table.column(name).to_numpy() * (-1 if name in LOW_IS_HARD else 1)
        measured[f"auroc {name}"] = auroc(hard[~rare_ones], hard[rare_ones]).value
        hardest = np.argsort(-hard, kind="stable")[: TEST // 5]  # the hardest tenth
        measured[f"tenth {name}"] = float(rare_ones[hardest].mean())
    # A half of each group is tested: the groups that are confirmed, and how many of their hardest samples are from USPS.
    latent = audit(Snapshot(features, head, labels), seed=seed)
    worse = latent.filter(pc.match_substring_regex(latent["verdict"], "less accurate|harder"))
    ids = [int(id) for text in worse["hardest"].to_pylist() for id in text.split(", ")]
    measured |= {"latent groups": float(len(worse)), "latent usps": float(rare_ones[ids].mean()) if ids else float("nan")}
    return measured


def main(folder: Path) -> None:
    """Print a row per share: means over the seeds and their standard deviations."""
    for share in SHARES:
        runs = [measure(folder, share, seed) for seed in SEEDS]
        print(f"share {share}")
        for name in runs[0]:
            values = np.array([run[name] for run in runs])
            known = values[np.isfinite(values)]
            spread = f" ± {known.std(ddof=1):.4f}" if len(known) > 1 else ""
            print(f"  {name:30} {known.mean():.4f}{spread}", flush=True)
        for measure in ("auroc", "tenth"):
            gap = mean_interval(np.array([run[f"{measure} avh"] - run[f"{measure} loss"] for run in runs]))
            print(f"  {measure + ' avh - loss':30} {gap.value:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
