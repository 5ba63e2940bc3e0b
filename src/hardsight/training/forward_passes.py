"""Forward passes over a set of samples, without gradients: features, logits of ten crops, and how many samples are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from hardsight.dynamics.gathering import num_processes
from hardsight.errors import FileError
from hardsight.extraction.feed import ImageInputs, Inputs, even_batches
from hardsight.training import processes
from hardsight.training.trainee import Trainee

FOUND_BY = 16  # samples to find the last layer with
FORWARD = 512  # samples per batch without gradients
FORWARD_NUMBERS = 2**16  # input numbers per batch without gradients, unless a training batch has more
VIEWS = 5  # of a picture; each is mirrored, too
OF_CROPS = "_10_crops"  # end of a metric's name


def first_sample(inputs: Inputs, rows: np.ndarray | None = None) -> Tensor:
    """(b, ...) a few inputs, by default the first ones, to find a network's last layer by."""
    rows = np.arange(min(FOUND_BY, len(inputs))) if rows is None else rows
    batch = next(iter(inputs.batches([rows])))
    if not len(batch.rows):
        raise FileError(f"none of the first {FOUND_BY} samples can be read.")
    return torch.from_numpy(batch.inputs)


def forward_size(batch_size: int, sample: Tensor) -> int:
    """Batch size without gradients: that of a training batch, or larger for small samples.

    Example:
        >>> [forward_size(32, torch.zeros(1, 1, side, side)) for side in (8, 28, 224)]
        [512, 83, 32]
    """
    return max(batch_size, min(FORWARD, FORWARD_NUMBERS // sample[0].numel()))


def as_tensor(values: np.ndarray, device: torch.device) -> Tensor:
    """An array on a device."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


@torch.no_grad()
def forward_pass(
    function: Callable[[Tensor], Tensor], inputs: Inputs, rows: Sequence[np.ndarray], device: torch.device, gather: bool = True
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """(b,) rows of the samples that could be read and what a function of their inputs gives, batch by batch, no gradients.

    Args:
        function: (b, ...) -> (b, d).
        gather: where there are several processes, each computes a part of each batch, and all get the whole; else each
            computes all rows that it is given.
    """
    several = gather and num_processes() > 1
    for batch in inputs.batches(processes.shares(rows) if several else rows):
        values = function(as_tensor(batch.inputs, device)) if len(batch.rows) else None
        if several:
            every, whole = processes.rows_of_all(batch.rows, values, device)
            if len(every):
                yield every, whole
        elif values is not None:
            yield batch.rows, values


def all_features(
    network: Trainee, inputs: Inputs, device: torch.device, rows: np.ndarray | None = None, mirrored: bool = False
) -> np.ndarray:
    """(n, d) features of every sample by a network in evaluation mode; NaN where a sample cannot be read.

    Args:
        rows: (r,) in rising order: of these samples alone, (r, d).
        mirrored: of the mirror images instead.
    """
    network.eval()
    rows = np.arange(len(inputs)) if rows is None else rows
    features = np.full((len(rows), network.num_features), np.nan, np.float32)
    function = (lambda images: network.features(images.flip(-1))) if mirrored else network.features
    for some, values in forward_pass(function, inputs, even_batches(rows, FORWARD), device):
        features[np.searchsorted(rows, some)] = values.float().cpu().numpy()
    return features


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
    """(b,) rows and their (b, c) mean logits, batch by batch.

    Ten crops are the four corners and the center of the resized picture, and their mirror images (Krizhevsky et al.,
    NIPS 2012, average probabilities).
    """
    for batch in inputs.batches(rows, lambda row, picture: inputs.preprocessing.five_crops(picture)):
        if len(batch.rows):
            views = as_tensor(batch.inputs, device)  # (5 b, C, H, W)
            logits = logits_of(torch.cat([views, views.flip(3)]))  # (10 b, c)
            yield batch.rows, logits.reshape(2, len(batch.rows), VIEWS, -1).mean((0, 2))
