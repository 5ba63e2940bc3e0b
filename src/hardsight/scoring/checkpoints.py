"""Image gradients at the checkpoints kept by `hardsight train --keep-epochs`: epochs/epoch=0001.safetensors, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.data import BrokenImage, ImageData, open_data
from hardsight.data.run_images import RunImages
from hardsight.errors import HardsightError, InputError, require
from hardsight.files.reading import read_json
from hardsight.scores.ensembles import within_class

BATCH = 64  # images per gradient computation


def kept_epochs(run: Path | None) -> list[Path]:
    """The weights that a run kept for its epochs, in order."""
    return [] if run is None else sorted((run / "epochs").glob("epoch=*.safetensors"))


def trained_on(run: Path | None) -> str | None:
    """The images that a run was trained on, as its start.json names them."""
    start = read_json(run / "start.json") if run is not None and (run / "start.json").is_file() else None
    sources = start.get("sources") if isinstance(start, dict) else None
    train = sources.get("train") if isinstance(sources, dict) else None
    return next(iter(RunImages({"train": train}).specs), None)  # none if it is not images


def gradient_variances(
    run: Path, images: Any, samples: pa.Table, progress: Callable[[int, int], None] | None = None
) -> np.ndarray:
    """(n,) how much the gradients of each sample vary over the checkpoints, within its class.

    Args: the run, its training images if they are not where it says, `id` and `label` of n of its samples, a callback.
    """
    ids, labels = samples.column("id").combine_chunks(), pc.fill_null(samples.column("label"), -1).to_numpy()
    spec = trained_on(run) if images is None else images
    data = open_data(spec) if images is not None else _still_there(run, spec)  # before loading torch, which takes seconds
    row_of = _joined(run, spec, data, ids, labels)
    require("torch", extra="torch", purpose="vog")
    values = np.full(len(ids), np.nan)
    for rows, variance in _variances(run, data, row_of, labels):
        values[rows] = variance
        if progress is not None:
            progress(0, len(values))
    if not np.isfinite(values).any():
        raise InputError(f"{spec}: none of the images can be read.")
    return within_class(values, labels)


def _still_there(run: Path, spec: Any) -> ImageData:
    try:
        return open_data(spec)
    except HardsightError as error:
        raise InputError(
            f"the images that {run} was trained on cannot be opened: {error} Pass them with --images DATA."
        ) from error


def _joined(run: Path, spec: Any, data: ImageData, ids: pa.Array, labels: np.ndarray) -> np.ndarray:
    """The row of the labeled sample of each image; -1 for none."""
    rows = pc.fill_null(pc.index_in(pa.array(data.ids, type=ids.type), value_set=ids), -1).to_pylist()
    row_of = np.array([row if row >= 0 and labels[row] >= 0 else -1 for row in rows], np.int64)
    if not (row_of >= 0).any():
        raise InputError(
            f"{spec} has none of the labeled samples of {run}: pass the data it was trained on. Its ids look like "
            f"{next(iter(data.ids), '')!r}, the samples' like {ids[0].as_py() if len(ids) else ''!r}."
        )
    return row_of


def _variances(run: Path, data: ImageData, row_of: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(b,) sample rows and the gradient variance averaged over pixels, batch by batch."""
    from hardsight.models.trained import open_trained

    built = [open_trained(run / "model", weights) for weights in kept_epochs(run)]
    prepare = built[0].preprocessing
    if prepare is None:
        raise InputError(f"{run}: vog needs gradients with respect to pixels, but this network was not trained on images.")
    wanted = np.flatnonzero(row_of >= 0).tolist()
    networks = [network.module.eval() for network in built]
    for start in range(0, len(wanted), BATCH):
        rows, pictures = [], []
        for number in wanted[start : start + BATCH]:
            try:
                pictures.append(prepare(data.image(number, prepare.needed)))
                rows.append(int(row_of[number]))
            except BrokenImage:  # it has no score
                continue
        if rows:
            yield np.array(rows), gradient_variance(networks, np.stack(pictures), labels[rows])


def gradient_variance(networks: list[Any], pictures: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(b, C, H, W) images -> (b,) variance over the networks of d z_y / d pixel, averaged over the pixels."""
    import torch

    own = torch.from_numpy(labels)
    mean: Any = 0.0
    squares: Any = 0.0  # Welford's running mean, and the sum of squared distances to it
    for count, network in enumerate(networks, 1):
        inputs = torch.from_numpy(np.ascontiguousarray(pictures)).requires_grad_()
        logits = network(inputs).gather(1, own[:, None])  # (b, 1)
        (gradient,) = torch.autograd.grad(logits.sum(), inputs)
        step = gradient.double() - mean
        mean = mean + step / count
        squares = squares + step * (gradient.double() - mean)
    return (squares / len(networks)).flatten(1).mean(1).numpy()
