"""Metrics of a held-out set beside those of one look at each sample: top-k accuracy, and ten crops of each image.

Ten crops are the four corners and the center of the resized picture, and their mirror images; their logits are averaged
(Krizhevsky et al., NIPS 2012, average probabilities).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from hardsight.training.inputs import ImageInputs
from hardsight.training.network import as_tensor

VIEWS = 5  # of a picture; each is mirrored, too
OF_CROPS = "_10_crops"  # end of a metric's name


def hits(logits: Tensor, labels: np.ndarray, k: int = 1) -> int:
    """How many samples have their class among the k highest of their (b, c) logits; unlabeled ones (-1) have none."""
    best = logits.topk(min(k, logits.shape[1]), dim=1).indices  # (b, k)
    return int((best == torch.as_tensor(labels, device=logits.device)[:, None]).any(1).sum())


def counts_of(top_k: int | None, crops: int) -> dict[str, float]:
    """The further metrics that are counted, by name, each at 0.

    Example:
        >>> list(counts_of(5, crops=10)), counts_of(None, crops=1)
        (['top5', 'accuracy_10_crops', 'top5_10_crops'], {})
    """
    top = [] if top_k is None else [f"top{top_k}"]
    of_crops = [f"{name}{OF_CROPS}" for name in ("accuracy", *top)] if crops > 1 else []
    return dict.fromkeys([*top, *of_crops], 0.0)


@torch.no_grad()
def ten_crop_logits(
    logits_of: Callable[[Tensor], Tensor], inputs: ImageInputs, rows: Sequence[np.ndarray], device: torch.device
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """(b,) rows and their (b, c) mean logits, batch by batch."""
    for batch in inputs.batches(rows, lambda row, picture: inputs.preprocessing.five_crops(picture)):
        if len(batch.rows):
            views = as_tensor(batch.inputs, device)  # (5 b, C, H, W)
            logits = logits_of(torch.cat([views, views.flip(3)]))  # (10 b, c)
            yield batch.rows, logits.reshape(2, len(batch.rows), VIEWS, -1).mean((0, 2))
