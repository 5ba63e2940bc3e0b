"""Print the table of "Triplets by AVH" in docs/results.md: python docs/make_mining.py DIR [SEEDS]

DIR has mnist.npz and cifar10_test.npz. A small network learns an embedding of five classes by the triplet loss, with the same
batches and one kind of mining after another; what counts is how well it ranks images of the five classes it has never seen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from hardsight.losses import TripletLoss
from hardsight.losses.cosine_softmax import cosines
from hardsight.losses.mining import batch_triplets

Triplets = tuple[Tensor, Tensor, Tensor]
EPOCHS, PER_CLASS, LEARNING_RATE, DIMENSIONS = 4, 20, 1e-3, 64
TRAINED, TESTED = 400, 300  # images of each class


def by_random(features: Tensor, labels: Tensor) -> Triplets:
    """Of each anchor one positive and one negative by chance."""
    draw = torch.rand(len(labels), len(labels))
    same = labels[:, None] == labels
    own = draw.masked_fill(~same | torch.eye(len(labels), dtype=torch.bool), -1)
    return torch.arange(len(labels)), own.argmax(1), draw.masked_fill(same, -1).argmax(1)


def by_angle(kind: str) -> Callable[[Tensor, Tensor], Triplets]:
    """Hard or semi-hard by the angle between two samples, all with the farthest positive."""

    def mined(features: Tensor, labels: Tensor) -> Triplets:
        cosine = cosines(features, features).fill_diagonal_(torch.nan)
        return batch_triplets(cosine, labels[:, None] == labels, kind=kind, margin=0.2)  # type: ignore[arg-type]

    return mined


def avh_for_anchor(features: Tensor, labels: Tensor) -> Tensor:
    """(anchor, sample) AVH of the sample for the class of the anchor. Class vectors are the mean directions of the batch."""
    classes, place = labels.unique(return_inverse=True)
    unit = torch.nn.functional.normalize(features)
    mean = torch.stack([unit[place == k].mean(0) for k in range(len(classes))])
    angle = cosines(features, mean).clamp(-1, 1).acos()  # (n, c)
    return (angle / angle.sum(1, keepdim=True))[:, place].T


def angle_to_anchor(features: Tensor, labels: Tensor) -> Tensor:
    """(anchor, sample) angle between the two."""
    return cosines(features, features).clamp(-1, 1).acos()


def of_a_draw(farness: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Triplets]:
    """Hard among few: of three drawn samples of the anchor's class the farthest, of three per other class the nearest."""

    def mined(features: Tensor, labels: Tensor) -> Triplets:
        far, same = farness(features, labels), labels[:, None] == labels
        seen = torch.rand(len(labels), len(labels))  # who is drawn
        own = seen.masked_fill(~same | torch.eye(len(labels), dtype=torch.bool), -1).topk(3, dim=1).indices
        other = seen.masked_fill(same, -1).topk(3 * (len(labels.unique()) - 1), dim=1).indices
        positive = own.gather(1, far.gather(1, own).argmax(1, keepdim=True))[:, 0]
        negative = other.gather(1, far.gather(1, other).argmin(1, keepdim=True))[:, 0]
        return torch.arange(len(labels)), positive, negative

    return mined


MINING = {
    "random": by_random,
    "all": "all",
    "semi-hard (FaceNet)": "semihard",
    "semi-hard by angle": by_angle("semihard"),
    "hard by angle": "hard",
    "hard by angle, of a draw": of_a_draw(angle_to_anchor),
    "hard by AVH, of a draw": of_a_draw(avh_for_anchor),
}


def network(channels: int, size: int) -> nn.Module:
    """Three convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * (-(-size // 8)) ** 2, DIMENSIONS),
    )  # fmt: skip


def images(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(n, C, H, W) in [-1, 1], and labels."""
    with np.load(path, allow_pickle=False) as file:
        name = "train_images" if "train_images" in file else "images"
        pictures, labels = file[name], file[name.replace("images", "labels")]
    pictures = pictures[:, None] if pictures.ndim == 3 else pictures.transpose(0, 3, 1, 2)
    return pictures.astype(np.float32) / 127.5 - 1, labels.astype(np.int64)


def quality(features: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Recall@1, and MAP@R: the mean precision of the R nearest, R the size of the class, at each right one."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    r = int(np.bincount(labels).max()) - 1
    nearest = np.argsort(-cosine, axis=1)[:, :r]
    right = labels[nearest] == labels[:, None]
    precision = np.cumsum(right, axis=1) / np.arange(1, r + 1)
    return float(right[:, 0].mean()), float((precision * right).sum(1).mean() / r)


def trained(mining: object, x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """The network after some epochs of batches with twenty samples of each class."""
    torch.manual_seed(seed)
    model, loss = network(x.shape[1], x.shape[2]), TripletLoss(mining=mining)  # type: ignore[arg-type]
    optimizer, generator = torch.optim.Adam(model.parameters(), LEARNING_RATE), np.random.default_rng(seed)
    members = [np.flatnonzero(y.numpy() == k) for k in np.unique(y)]
    for _ in range(EPOCHS):
        orders = [generator.permutation(rows) for rows in members]
        for start in range(0, TRAINED, PER_CLASS):
            rows = np.concatenate([order[start : start + PER_CLASS] for order in orders])
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval()


def main(folder: Path, seeds: int) -> None:
    """The table as JSON lines, one per set of images, mining and seed."""
    for name in ("mnist", "cifar10_test"):
        pictures, labels = images(folder / f"{name}.npz")
        for seed in range(seeds):
            generator = np.random.default_rng(seed)
            classes = generator.permutation(10)
            rows = [[generator.permutation(np.flatnonzero(labels == k))[:m] for k in part]
                    for part, m in ((classes[:5], TRAINED), (classes[5:], TESTED))]  # fmt: skip
            train, test = (np.concatenate(part) for part in rows)
            for words, mining in MINING.items():
                model = trained(mining, torch.from_numpy(pictures[train]), torch.from_numpy(labels[train]), seed)
                with torch.no_grad():
                    features = model(torch.from_numpy(pictures[test])).numpy()
                recall, precision = quality(features, labels[test])
                line = {"set": name, "mining": words, "seed": seed, "recall": recall, "map": precision}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
