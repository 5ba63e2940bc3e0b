"""Draw docs/images/disagreement.png: python docs/make_people_picture.py DATA

DATA is a folder with cifar10_test.npz, cifar10h_counts.npy and cifar10_resnet20.safetensors. Above: of the images
whose label all people choose and the network does not, those with the lowest confidence. Below: of the images whose label at most
40 % of the people choose while the network is at least 97 % sure of it, those that the fewest people choose. No class twice.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from make_photos_picture import GRAY, GREEN, RED, heading, photo, save
from matplotlib.figure import Figure

import hardsight
from hardsight.stats import selection_frequency

OUTPUT = Path(__file__).parent / "images" / "disagreement.png"
SHOWN = 7
DOUBTED, SURE = 0.4, 0.97  # at most so many people choose the label; at least so sure is the network of it


def main(data: Path) -> None:
    photos, counts = np.load(data / "cifar10_test.npz")["images"], np.load(data / "cifar10h_counts.npy")
    with tempfile.TemporaryDirectory() as folder:
        weights = data / "cifar10_resnet20.safetensors"
        snapshot = hardsight.extract("cifar_resnet20", data / "cifar10_test.npz", f"{folder}/run", weights=weights)
        table = hardsight.score(snapshot, scores=["confidence"]).table.to_pandas()
        names = [name.replace("automobile", "car") for name in snapshot.class_names or []]  # short enough for a caption
    rows = table.id.astype(int).to_numpy()
    label, predicted, confidence = (table[name].to_numpy() for name in ("label", "predicted", "confidence"))
    people = selection_frequency(counts[rows], label)

    figure = Figure(figsize=(10.4, 4.7), dpi=130)
    halves: Any = figure.subfigures(2, 1)
    surprised = (people == 1) & (predicted != label)
    doubted = (people <= DOUBTED) & (confidence >= SURE)
    shown = {
        f"All people agree, the network does not ({surprised.sum()} of 10,000 images)": clearest(confidence, surprised, label),
        f"The network is sure, most people are not ({doubted.sum()} of 10,000 images)": clearest(people, doubted, label),
    }
    for half, (words, picked) in zip(halves, shown.items(), strict=True):
        heading(half, words)
        for axes, at in zip(half.subplots(1, SHOWN), picked, strict=True):
            votes = counts[rows[at]]
            said, share = int(votes.argmax()), votes.max() / votes.sum()
            lines = [
                (f"labeled {names[label[at]]}", GRAY),
                (f"network: {names[predicted[at]]}", GREEN if predicted[at] == label[at] else RED),
                (f"people: {names[said]}{f' {100 * share:.0f} %' if share < 1 else ''}", GREEN if said == label[at] else RED),
            ]
            photo(axes, photos[rows[at]], lines)
        half.subplots_adjust(left=0.01, right=0.99, top=0.885, bottom=0.25, wspace=0.06)
    save(figure, OUTPUT)


def clearest(values: np.ndarray, inside: np.ndarray, label: np.ndarray) -> list[int]:
    """The samples with the smallest values, no class twice."""
    order = np.argsort(values, kind="stable")
    first: dict[int, int] = {}
    for at in order[inside[order]]:
        first.setdefault(int(label[at]), int(at))
    return list(first.values())[:SHOWN]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
