"""RUN as what is attacked: a model that gradients pass through, images with labels, and what its loss saved.

    run/                a run of train, adapt or generalize: its model, and the images that it was trained or watched on
    run/ --model M      a run of extract, which keeps the images' place but not the model
    MODEL --data DATA   any model of torch, as `hardsight extract` takes it

What is quick is checked in `check_target`, before torch is loaded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open

from hardsight.attacks.settings import AttackSettings
from hardsight.checks import check_labels
from hardsight.data import ImageData, open_data
from hardsight.data.opening import check_files
from hardsight.errors import InputError
from hardsight.files.checksums import check
from hardsight.files.places import SAMPLE_ENDINGS
from hardsight.files.reading import reading
from hardsight.files.run import read_start
from hardsight.labels import counted_from_zero, renumbered
from hardsight.models.opening import check_model_name, open_model
from hardsight.models.trained import trained_directory
from hardsight.models.weights import check_weights_file
from hardsight.options import SampleOptions
from hardsight.snapshot import Snapshot
from hardsight.threads import even_rows, sample_rows

if TYPE_CHECKING:
    from hardsight.models.network import Network

HELD_OUT = ("test", "val")  # what is attacked by default
NO_GRADIENTS = (*SAMPLE_ENDINGS, ".onnx", ".skops", ".safetensors")  # arrays do not lead back to an image
MOST_REFERENCE = 20_000  # training samples that Gaussians are fitted to


@dataclass(frozen=True)
class AttackTarget:
    """What a RUN names, before the model is opened.

    Attributes:
        model: as `open_model` takes it.
        directory: the run, if it is one.
        data: labeled images to attack.
        source: where they are, if known.
        notes: sentences for the user.
    """

    model: Any
    directory: Path | None
    data: ImageData
    source: str | None
    notes: tuple[str, ...]


def check_target(run: Any, settings: AttackSettings) -> AttackTarget:
    """Everything about RUN that can be known without torch."""
    s = settings
    directory = Path(run) if isinstance(run, (str, os.PathLike)) and Path(run).is_dir() else None
    model = _model(run, directory, s.model)
    check_weights_file(s.weights)
    spec, watched = (s.data, None) if s.data is not None else _recorded_data(run, directory)
    data, notes = _opened_data(spec, s, watched, trained=directory is not None and model == str(directory))
    source = str(Path(spec).resolve()) if isinstance(spec, (str, os.PathLike)) and Path(spec).exists() else None
    return AttackTarget(model, directory, data, source or (spec if isinstance(spec, str) else None), tuple(notes))


def _model(run: Any, directory: Path | None, chosen: Any) -> Any:
    """The model that is attacked: the one chosen, or else the run's own."""
    if not isinstance(run, (str, os.PathLike)):
        if chosen is not None:
            raise InputError("give the model once: as the first argument or as model.")
        return run
    if chosen is not None:
        return _checked_model(chosen)
    if directory is not None and trained_directory(directory) is None:
        raise InputError(
            f"{run} has no model to attack (there is no model/config.json in it): name the model that its features came from "
            "with --model MODEL."
        )
    return _checked_model(os.fspath(run)) if directory is None else str(directory)


def _checked_model(spec: Any) -> Any:
    """A model to attack: a known name, and no file that is known to give no gradients."""
    if isinstance(spec, (str, os.PathLike)) and Path(spec).suffix in NO_GRADIENTS:
        raise InputError(f"{spec} gives no gradients, and an attack follows them: give the network in torch with --model.")
    check_model_name(spec)
    return spec


def _recorded_data(run: Any, directory: Path | None) -> tuple[Any, str | None]:
    """Where the images of a run are, and under which name it watched them."""
    name = os.fspath(run) if isinstance(run, (str, os.PathLike)) else "a model"
    sources = {} if directory is None else read_start(directory).get("sources")
    sources = sources if isinstance(sources, dict) else {}
    watch: dict[str, Any] = sources.get("watch") or {}
    images = next(
        ((watch[each], each) for each in HELD_OUT if each in watch), (sources.get("data") or sources.get("train"), None)
    )
    if not isinstance(images[0], str):
        raise InputError(f"{name} does not say which images to attack: give --data DATA.")
    return images


def _opened_data(spec: Any, s: AttackSettings, watched: str | None, trained: bool) -> tuple[ImageData, list[str]]:
    """The labeled images to attack: of data with splits those held out, of these as many as asked for."""
    data = spec if isinstance(spec, ImageData) else _images(spec, s)
    notes = list(data.notes)
    if data.labels is None:
        raise InputError("an attack needs the labels of the images, and these have none: give --labels.")
    splits = data.columns.get("split", [])
    held_out = next((name for name in HELD_OUT if name in splits), None)
    if s.split is None and held_out is not None:
        data = data.of_split(held_out)
    elif trained and s.split is None and s.data is None and watched is None:
        notes.append("nothing was held out: the model was trained on these images")
    labeled = np.flatnonzero(np.asarray(data.labels) >= 0)
    if len(labeled) < len(data):
        notes.append(f"{len(data) - len(labeled)} images without a label are left out")
        data = data.take(labeled)
    if len(data) == 0:
        raise InputError("there are no images to attack.")
    rows = sample_rows(SampleOptions(limit=s.limit, first=s.first), len(data))
    return data if len(rows) == len(data) else data.take(rows), notes


def _images(spec: Any, s: AttackSettings) -> ImageData:
    data = open_data(Path(spec) if isinstance(spec, os.PathLike) else spec, split=s.split, labels_from=s.labels_from)
    check_files(data)
    return data


def open_attacked(model: Any, settings: AttackSettings) -> Network:
    """The model, which must be a network of torch."""
    from hardsight.models.network import Network

    s = settings
    opened = open_model(model, weights=s.weights, head=s.head, device=s.device, num_classes=s.num_classes)
    if not isinstance(opened, Network):
        raise InputError(f"{opened.name} gives no gradients, and an attack follows them: give the network in torch.")
    return opened


def check_same_model(directory: Path | None, model: Network) -> None:
    """Of a run of extract: the model given must be the one that its features came from."""
    recorded = {} if directory is None else read_start(directory)
    before = (recorded.get("inputs") or {}).get("model") if recorded.get("command") == "hardsight extract" else None
    current = model.fingerprint()
    if isinstance(before, dict) and before.get("sha256") != current["sha256"]:
        raise InputError(
            f"{directory} holds features of another model, {before.get('name')}: give that one, with its weights, as --model."
        )


def in_classes_of(model: Network, data: ImageData) -> ImageData:
    """The images with their labels counted as the model counts its classes."""
    ours, theirs = data.class_names, model.class_names
    if ours is not None and theirs is not None and list(theirs) != ours and set(ours) <= set(theirs):
        data = replace(data, labels=renumbered(np.asarray(data.labels), ours, theirs), class_names=list(theirs))
    labels, notes = (data.labels, ()) if data.labels is None else counted_from_zero(data.labels, model.head.num_classes)
    check_labels(labels, len(data), model.head.num_classes)
    return replace(data, labels=labels, notes=data.notes + notes)


def saved_centers(directory: Path | None, num_features: int) -> np.ndarray | None:
    """(c, d) centers that the center loss learned, from the run's loss.safetensors."""
    path = None if directory is None else directory / "loss.safetensors"
    if path is None or not path.is_file():
        return None
    check(path)
    with reading(path, "not a readable safetensors file"), safe_open(path, framework="numpy") as file:
        centers = np.asarray(file.get_tensor("centers"), np.float64) if "centers" in file.keys() else None  # noqa: SIM118
    return centers if centers is not None and centers.shape[1:] == (num_features,) else None


def training_features(directory: Path | None, num_features: int) -> tuple[np.ndarray, np.ndarray] | None:
    """(n, d) features and (n,) labels of what the model was trained on, an even subsample, if the run kept them."""
    if directory is None or not (directory / "samples").is_dir() or not (directory / "run.json").is_file():
        return None
    snapshot = Snapshot.load(directory)
    splits = snapshot.splits
    if snapshot.source.width != num_features or splits is None or "train" not in splits:
        return None
    trained = snapshot.of_split("train")
    rows = np.flatnonzero(trained.labels >= 0)
    if len(rows) == 0:
        return None
    batch = trained.take(rows[even_rows(len(rows), MOST_REFERENCE)]).in_memory()
    return np.asarray(batch.values, np.float64), batch.labels
