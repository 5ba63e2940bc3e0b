"""Extra passes over the same images, each a separate snapshot: mirrored, or with dropout enabled (MC dropout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsight.models import Model

FOLDER = "passes"


@dataclass(frozen=True)
class ImageView:
    """An extra pass over every image; `draw` numbers the dropout draws, and is None for mirrored images."""

    name: str
    draw: int | None = None

    def features(self, model: Model, batch: np.ndarray, where: Sequence[int]) -> np.ndarray:
        """(b, C, H, W) images -> (b, d) features; `where` seeds dropout by batch, so a resumed run draws the same masks."""
        if self.draw is None:
            return model(np.ascontiguousarray(batch[..., ::-1]))[0]
        seed = int(np.random.SeedSequence([self.draw, *where]).generate_state(1, np.uint64)[0] >> 1)
        return model.dropped(batch, seed)

    def part(self, samples_part: Path) -> Path:
        """Path of its features for a part of samples/."""
        return samples_part.parent.parent / FOLDER / self.name / "samples" / samples_part.name


def views_of(passes: Sequence[str]) -> list[ImageView]:
    """The views named by `--passes`.

    Example:
        >>> [view.name for view in views_of(["flip", "dropout=3"])]
        ['flip', 'dropout-00', 'dropout-01', 'dropout-02']
    """
    views = []
    for text in passes:
        kind, _, count = text.partition("=")
        views += [ImageView(f"{kind}-{k:02d}", k) for k in range(int(count))] if count else [ImageView(kind)]
    return views
