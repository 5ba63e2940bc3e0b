"""Further features of the same images: mirrored, with dropout, or of earlier layers. Each part of a run has its own of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsight.models import Model

PASSES = "passes"  # folder of the snapshots of extra passes


@dataclass(frozen=True)
class ImagePass:
    """An extra pass over every image; `draw` numbers the dropout draws, and is None for mirrored images."""

    name: str
    draw: int | None = None

    def features(self, model: Model, batch: np.ndarray, seed: Sequence[int]) -> np.ndarray:
        """(b, C, H, W) images -> (b, d) features; `seed` tells batches apart, so a resumed run draws the same dropout masks."""
        if self.draw is None:
            return model(np.ascontiguousarray(batch[..., ::-1]))[0]
        drawn = int(np.random.SeedSequence([self.draw, *seed]).generate_state(1, np.uint64)[0] >> 1)
        return model.dropped(batch, drawn)

    def part(self, samples_part: Path) -> Path:
        """Path of its features for a part of samples/."""
        return samples_part.parent.parent / PASSES / self.name / "samples" / samples_part.name


def image_passes(passes: Sequence[str]) -> list[ImagePass]:
    """The passes named by `--passes`.

    Example:
        >>> [each.name for each in image_passes(["flip", "dropout=3"])]
        ['flip', 'dropout-00', 'dropout-01', 'dropout-02']
    """
    named = []
    for text in passes:
        kind, _, count = text.partition("=")
        named += [ImagePass(f"{kind}-{k:02d}", k) for k in range(int(count))] if count else [ImagePass(kind)]
    return named


def layer_parts(samples_part: Path, layers: Sequence[str]) -> dict[str, Path]:
    """Paths of the features of each layer for a part of samples/: layers/00-NAME/part-00000.parquet."""
    folder = samples_part.parent.parent / "layers"
    return {layer: folder / f"{number:02d}-{layer}" / samples_part.name for number, layer in enumerate(layers)}
