"""`open_inputs`: what a model is run on, opened and checked: images, or, for a model that was trained on some, features.

photos/                  images, as `hardsight.data` opens them
features.npz             a snapshot: .npz, .parquet or a run
features.npz:photo       of these, one domain
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.data import ImageData, open_data
from hardsight.data.opening import check_files
from hardsight.errors import InputError
from hardsight.extraction.inputs import Data, holds_features, in_memory, of_domain, split_domain
from hardsight.extraction.settings import ExtractSettings
from hardsight.files import kinds
from hardsight.files.places import shown_address
from hardsight.models.model import refuse
from hardsight.models.trained import takes_features
from hardsight.options import SampleOptions
from hardsight.snapshot import Snapshot
from hardsight.threads import sample_rows


def open_inputs(data: Any, model: Any, settings: ExtractSettings, preprocessing: dict[str, Any]) -> tuple[Data, dict[str, Any]]:
    """The inputs of a model, and where its images are, so that the explorer can find them."""
    name, features = model if isinstance(model, (str, os.PathLike)) else type(model).__name__, holds_features(data)
    shown = data if isinstance(data, (str, os.PathLike)) else "the data"
    if takes_features(model):
        if not (features or isinstance(data, str) and "://" in data):
            _open_images(data, settings)  # says what is wrong with a path that holds neither
            raise InputError(f"{name} was trained on features, but {shown} holds images: pass features like those.")
        return _open_features(data, settings, preprocessing), {"data": None, "roots": []}
    if features:
        raise InputError(
            f"{name} is run on images, but {shown} holds features: pass the images, or score the features as they are."
        )
    images = _open_images(data, settings)
    return images, {"data": _address(data, images), "roots": [str(root.resolve()) for root in images.roots]}


def _open_features(data: Any, settings: ExtractSettings, preprocessing: dict[str, Any]) -> Snapshot:
    refuse(
        "features", degradations=settings.degradations or None, layers=settings.layers or None,
        passes=settings.passes or None, **preprocessing,
    )  # fmt: skip
    domain = None
    if isinstance(data, Snapshot):
        refuse("a snapshot that is already open", labels_from=settings.labels_from)
    else:
        path, domain = split_domain(os.fspath(data))
        data = Snapshot.load(path, labels=settings.labels_from)
    features = in_memory(data).of_split(settings.split)
    features = features if domain is None else of_domain(features, domain, features.where)
    features = features.take(_chosen_rows(settings, len(features)))
    if len(features) == 0:
        raise InputError("there are no features to run the model on.")
    if settings.fit_head and not (features.labels >= 0).any():
        raise InputError("fit_head needs labels to fit a head to, but the features have none: use --labels.")
    return features


def _open_images(data: Any, settings: ExtractSettings) -> ImageData:
    split, labels_from = settings.split, settings.labels_from
    if isinstance(data, ImageData):
        refuse("data that is already open", limit=settings.limit, first=settings.first, split=split, labels_from=labels_from)
        images = data
    else:
        images = open_data(Path(data) if isinstance(data, os.PathLike) else data, split=split, labels_from=labels_from)
        rows = _chosen_rows(settings, len(images))
        images = images if len(rows) == len(images) else images.take(rows)
    if len(images) == 0:
        raise InputError("there are no images to extract.")
    check_files(images)
    evidence = [name for name in images.columns if name in kinds.LIST_COLUMNS]
    if evidence:  # would be mistaken for the model's output when the run is read
        raise InputError(f"a column of the data is named {evidence[0]!r}, which is reserved for extract's output: rename it.")
    if settings.fit_head and images.labels is None:
        raise InputError("fit_head needs labels to fit a head to, but the images have none: use --labels.")
    return images


def _chosen_rows(settings: ExtractSettings, count: int) -> np.ndarray:
    return sample_rows(SampleOptions(limit=settings.limit, first=settings.first), count)


def _address(data: Any, images: ImageData) -> str | None:
    """A path or name that opens the same images from any directory; None for data that was passed as an object."""
    if not isinstance(data, (str, os.PathLike)):
        return None
    return str(data) if images.kind == "digits" else shown_address(data)
