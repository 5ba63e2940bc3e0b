"""Open domains and prepare them for a network: the first two steps of `adapt` and `generalize`.

    pacs.npz:photo     features (.npz, .parquet or a run) or images (folders, .tar, ...), and of these one domain
    photos/            all of it is one domain

Features are a Snapshot in memory, images an ImageData; `hardsight.extraction.inputs` has what both are asked. The mean and spread
of a feature differ from domain to domain more than its meaning does: after standardizing each domain by its own mean and
deviation, they look alike, and no labels are needed.

adapt_models.py and generalize_models.py call the second half, from `network_for` on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.data import ImageData
from hardsight.data.dataset import num_classes
from hardsight.data.opening import open_any, open_frame
from hardsight.domains.settings import DomainOptions, Standardize
from hardsight.errors import InputError, require_installed
from hardsight.extraction.inputs import Data, domains_of, in_memory, labels_among, labels_of, of_domain, split_domain, with_labels
from hardsight.files.run import check_run_directory
from hardsight.files.wide_tables import is_table
from hardsight.models.network_names import check_network_name
from hardsight.models.weights import check_weights_file
from hardsight.snapshot import Snapshot

if TYPE_CHECKING:
    from hardsight.domains.alignment import Affine
    from hardsight.extraction.feed import ImageInputs
    from hardsight.models.trainable import Trainable
    from hardsight.training.trainee import TrainedNetwork

LONGEST_NAME = 100  # bytes of a domain's name: two of them, and a method, must fit into the name of one file


def refuse_early(settings: DomainOptions, output: str | os.PathLike[str], command: str) -> None:
    """Check what can be checked before data is opened and torch, which takes seconds, is loaded."""
    require_installed("torch", extra="torch", purpose=command)
    check_network_name(settings.model)
    check_weights_file(settings.weights)
    check_run_directory(output, command)


def open_domain(spec: Any, *, limit: int | None = None) -> tuple[Data, str]:
    """Features or images from a path, a Snapshot, an ImageData or arrays; and a name for them."""
    if isinstance(spec, tuple) and len(spec) in (2, 3):
        spec = Snapshot(spec[0], None, spec[1], ids=spec[2] if len(spec) == 3 else None)
    elif is_table(spec):
        spec = open_frame(spec)
    if isinstance(spec, (Snapshot, ImageData)):
        return (in_memory(spec) if isinstance(spec, Snapshot) else spec).spread(limit), "data"
    if not isinstance(spec, (str, os.PathLike)):
        raise InputError(f"a domain is a path, a Snapshot, a frame, an ImageData or (features, labels), got {spec!r:.80}.")
    text, domain = split_domain(os.fspath(spec))
    data = _features_or_images(text)
    if domain is not None:
        data = of_domain(data, domain, text)
        check_folder_names([domain])
    name = domain or Path(text.rstrip("/")).name.split(".")[0].replace(":", "-") or "data"  # it becomes a folder
    return data.spread(limit), name


def domain_names(data: Data) -> list[str]:
    """The domains of some data, in the order of their first sample."""
    column = domains_of(data)
    return [] if column is None else list(dict.fromkeys(column.tolist()))


def check_folder_names(names: Sequence[str]) -> None:
    """Refuse domain names that cannot be folder names."""
    for name in names:
        odd = name in ("", ".", "..") or set(name) & {"/", "\\"} or any(ord(letter) < 32 for letter in name)
        if odd or len(name.encode(errors="replace")) > LONGEST_NAME:
            raise InputError(
                f"a domain's name becomes a folder of the run, but {name!r:.80} is not a valid folder name of at most "
                f"{LONGEST_NAME} bytes: rename it in the domain column."
            )


def present_classes(data: Data) -> list[str]:
    """The classes that have samples, by name."""
    present = np.unique(labels_of(data)[labels_of(data) >= 0]).tolist()
    return [str(k) if data.class_names is None else data.class_names[k] for k in present]


def class_names_of(data: Data) -> list[str]:
    """One name per class; its number where it has none."""
    return list(data.class_names or map(str, range(num_classes(data))))


def as_target(target: Data, source: Data) -> Data:
    """The target with its labels counted as the source counts them, and as many features."""
    if isinstance(target, Snapshot) != isinstance(source, Snapshot):
        raise InputError("source and target must both be features or both be images.")
    if isinstance(target, Snapshot) and isinstance(source, Snapshot) and target.source.width != source.source.width:
        raise InputError(
            f"source features have {source.source.width} columns, target features {target.source.width}: "
            "extract both with the same network."
        )
    labels = labels_among(target, source.class_names, num_classes(source), "the target", "the source")
    same: Data = with_labels(target, labels, source.class_names)
    return same


def check_network_options(data: Data, settings: DomainOptions) -> None:
    """Images need a network; features have none. Options that would do nothing are refused, not ignored."""
    if isinstance(data, Snapshot):
        if given := settings.given_among(settings.FOR_IMAGES):
            raise InputError(f"{given[0]} is for images; features get a head of `hidden` units.")
    elif settings.model is None:
        raise InputError("images need a model: lenet, cnn10, timm:NAME, or a run that hardsight trained.")
    elif given := settings.given_among(settings.FOR_FEATURES):
        raise InputError(f"{given[0]} is for features; these are images, for the network of `model`.")


def labeled_only(data: Data) -> Data:
    """The samples with a label; without any there is nothing to learn from."""
    rows = np.flatnonzero(labels_of(data) >= 0)
    if not len(rows):
        raise InputError("the source has no labels: self-training starts from labeled samples.")
    return data if len(rows) == len(data) else data.take(rows)


def _features_or_images(text: str) -> Data:
    """What a path holds; of images with splits, those to train on."""
    held = open_any(text)
    if isinstance(held, Snapshot):
        return in_memory(held)
    if not isinstance(held, ImageData):
        raise InputError(f"{text} is a table of scores; a domain is features or images.")
    splits = held.columns.get("split")
    if splits is not None and "train" in splits and set(splits) != {"train"} and not text.startswith("digits:"):
        return held.of_split("train")
    return held


# ---- prepare ----


def network_for(data: Data, settings: DomainOptions, num_inputs: int = 0) -> Trainable:
    """The network to train on some data: that of `model` on images, a head of `hidden` units on features of this number."""
    from hardsight.models.trainable import open_trainable
    from hardsight.training.opening import open_network

    if isinstance(data, Snapshot):
        options = {"num_inputs": num_inputs, "num_features": settings.hidden}
        return open_trainable("feature_head", num_classes(data), options=options)
    return open_network(settings.model, num_classes(data), settings)


def image_inputs(network: Trainable, settings: DomainOptions, *domains: ImageData) -> list[ImageInputs]:
    """Images of each domain as inputs of a network, sized as the first domain needs it."""
    from hardsight.extraction.feed import ImageInputs, sized

    preprocessing = sized(network.preprocessing, domains[0], settings.chosen_preprocessing())
    return [ImageInputs(data, preprocessing, workers=settings.workers) for data in domains]


@dataclass(frozen=True, eq=False)
class Standard:
    """x -> (x - mean) / deviation, for the features of one domain."""

    mean: np.ndarray  # (d,)
    deviation: np.ndarray  # (d,)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((features - self.mean) / self.deviation, np.float32)

    def folded(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A linear layer on standardized features -> the same layer on features as they were."""
        scaled = weight / self.deviation  # (h, d)
        return scaled.astype(np.float32), (bias - scaled @ self.mean).astype(np.float32)


def standards(source: np.ndarray, target: np.ndarray, how: Standardize) -> tuple[Standard, Standard]:
    """How to standardize the (n, d) features of the source and of the target."""
    if how == "none":
        nothing = Standard(np.zeros(source.shape[1], np.float32), np.ones(source.shape[1], np.float32))
        return nothing, nothing
    first = _standard(source)
    return first, _standard(target) if how == "domain" else first


def _standard(features: np.ndarray) -> Standard:
    mean, deviation = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)  # a feature that never changes becomes 0
    return Standard(mean.astype(np.float32), deviation.astype(np.float32))


def on_raw_features(network: TrainedNetwork, *maps: Standard | Affine) -> TrainedNetwork:
    """A `feature_head` trained on features after these maps, the first one first -> one that takes features as they were."""
    import torch

    weight, bias = network.state["hidden.weight"].cpu().numpy(), network.state["hidden.bias"].cpu().numpy()
    for how in reversed(maps):
        weight, bias = how.folded(weight, bias)
    network.state |= {"hidden.weight": torch.from_numpy(weight), "hidden.bias": torch.from_numpy(bias)}
    network.config["arguments"] = {**network.config["arguments"], "num_inputs": int(weight.shape[1])}
    return network
