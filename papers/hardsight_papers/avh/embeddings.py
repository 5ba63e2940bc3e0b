"""Figures 2 and 8: embeddings of MNIST by a CNN whose last layer sees two numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight import Snapshot
from hardsight.training import Trained
from hardsight_papers.context import Context, Handwriting
from hardsight_papers.plane import embedding_figure
from hardsight_papers.recipe import Outcome, Table, claim, recipe

MOST = 20000  # training images of MNIST
TRAINING: dict[str, Any] = {
    "batch_size": 64, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.0, "size": 28, "snapshot": False,
}  # fmt: skip
NETWORK = "hardsight_papers.networks:PlanarLeNet"


@recipe("avh/fig2", "Embeddings of MNIST in two dimensions", needs="MNIST")
@recipe("avh/fig8", "Embeddings of MNIST in two dimensions, as in the appendix", needs="MNIST")
def figure_2(context: Context) -> Outcome:
    """A LeNet with two features, held-out digits drawn with the class vectors."""
    written, epochs, trained, snapshot = in_two_features(context)
    rows = snapshot.in_memory()
    features, labels = np.asarray(rows.values, np.float64), rows.labels
    assert snapshot.head is not None
    accuracy = float((np.asarray(snapshot.head.logits(features)).argmax(1) == labels).mean())
    widths = {k: cone_width(features[labels == k]) for k in np.unique(labels)}
    cells = [(str(k), width) for k, width in widths.items()]
    figure = embedding_figure(features, labels, head=snapshot.head, title=f"{written.name}, {100 * accuracy:.1f} % correct")
    return Outcome(
        about=f"{len(written.train):,} images of {written.name}, LeNet with two features and nothing after them, "
        f"{epochs} epochs; {len(labels):,} held-out images, of which {100 * accuracy:.1f} % are predicted correctly.",
        tables=[Table("Width of the cone that holds 90 % of a class", ("digit", "degrees"), cells, digits=1)],
        figures={f"Two features of {written.name}": figure},
        claims=[
            claim(
                "The samples of each class concentrate in a convex cone.",
                rule="For every class, the narrowest cone from the origin that holds 90 % of its held-out samples is "
                "narrower than 90 degrees.",
                holds=max(widths.values()) < 90,
                found=f"Widths of {min(widths.values()):.0f} to {max(widths.values()):.0f} degrees.",
            )
        ],
    )


def in_two_features(context: Context) -> tuple[Handwriting, int, Trained, Snapshot]:
    """Digits, the epochs of LeNet with two features, its run, and what it sees of the held-out digits."""
    written = context.handwriting(train=MOST, test=3000)
    epochs = 4 if written.name == "MNIST" else 20
    trained = context.train(written.train, NETWORK, epochs=epochs, watch={"test": written.test}, **TRAINING)
    weights = trained.run / "model" / "model.safetensors"
    return written, epochs, trained, context.extract(NETWORK, written.test, weights=weights, num_classes=10)


def cone_width(features: np.ndarray, share: float = 0.9) -> float:
    """Degrees of the narrowest cone from the origin that holds a share of (n, 2) features.

    Example:
        >>> corners = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> round(cone_width(corners, share=1.0), 6)
        90.0
    """
    polar = np.sort(np.degrees(np.arctan2(features[:, 1], features[:, 0])) % 360)
    inside = max(1, int(np.ceil(share * len(polar))))
    around = np.concatenate([polar, polar + 360])
    return float((around[inside - 1 : inside - 1 + len(polar)] - polar).min())
