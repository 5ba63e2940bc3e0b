"""The artificial domains of docs/results.md, for `hardsight adapt`: python docs/make_domains.py pacs_effnetlite0.npz DIRECTORY

- digits.npz, and digits-contrast.npz, digits-noise.npz, digits-blur.npz: the first 898 of scikit-learn's digits, and the others
  degraded.
- DOMAIN.npz and DOMAIN-rare1.npz, DOMAIN-rare2.npz for the domains of PACS that choices were made on: all samples, and those left
  when three random classes are cut to a twelfth. Each draw is the same for every machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from hardsight.data import Degradation, degrade

SOURCE_DIGITS = 898
DEGRADATIONS = (Degradation("contrast", 0.2), Degradation("noise", 0.3), Degradation("blur", 0.15))
SOURCES, TARGETS, DRAWS = ("art_painting", "cartoon", "photo"), ("art_painting", "cartoon"), (1, 2)
RARE_CLASSES, RARE_SHARE = 3, 1 / 12


def digits(directory: Path) -> None:
    """Images of 8 x 8 pixels."""
    data = load_digits()
    images, labels = np.round(data.images * (255 / 16)).astype(np.uint8), data.target
    np.savez(directory / "digits.npz", images=images[:SOURCE_DIGITS], labels=labels[:SOURCE_DIGITS])
    for degradation in DEGRADATIONS:
        others = [
            np.asarray(degrade(Image.fromarray(images[row]), degradation, str(row))) for row in range(SOURCE_DIGITS, len(images))
        ]
        np.savez(directory / f"digits-{degradation.kind}.npz", images=np.stack(others), labels=labels[SOURCE_DIGITS:])


def pacs(file: Path, directory: Path) -> None:
    """Features of one domain each."""
    with np.load(file, allow_pickle=False) as arrays:
        features, labels, ids, classes = (arrays[name] for name in ("features", "labels", "ids", "class_names"))
        domain = arrays["domain_names"][arrays["domains"]]  # (n,)

    def save(name: str, rows: np.ndarray) -> None:
        np.savez(directory / f"{name}.npz", features=features[rows], labels=labels[rows], ids=ids[rows], class_names=classes)

    for name in SOURCES:
        save(name, np.flatnonzero(domain == name))
    for name in TARGETS:
        for draw in DRAWS:
            save(f"{name}-rare{draw}", rare(np.flatnonzero(domain == name), labels, draw))


def rare(rows: np.ndarray, labels: np.ndarray, draw: int) -> np.ndarray:
    """The rows left when some random classes are cut to RARE_SHARE."""
    rng = np.random.default_rng(draw)
    for label in rng.permutation(np.unique(labels[rows]))[:RARE_CLASSES]:
        members = rng.permutation(rows[labels[rows] == label])
        rows = np.setdiff1d(rows, members[round(len(members) * RARE_SHARE) :])
    return rows


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    digits(target)
    pacs(source, target)
    print(*sorted(path.name for path in target.glob("*.npz")), sep="\n")
