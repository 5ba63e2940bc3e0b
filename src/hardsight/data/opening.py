"""`open_data`: detect the format, call its reader, then apply labels, split and limit the same way for all."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hardsight.checks import UNLABELED
from hardsight.data.archive import expand_braces, read_tars
from hardsight.data.arrays import read_npy, read_npz
from hardsight.data.cifar import cifar100_files, cifar_batches, read_cifar, read_cifar100
from hardsight.data.dataset import ImageData
from hardsight.data.digits import read_digits
from hardsight.data.encoded import holds_encoded, is_image_dataset, read_dataset, read_shards, shards_in
from hardsight.data.files import is_image_name, read_folder
from hardsight.data.idx import idx_files, is_idx, read_idx
from hardsight.data.labels import read_labels, split_name
from hardsight.data.lists import lists_in, read_lines, read_list, read_lists, read_sheet
from hardsight.errors import FileError, InputError, did_you_mean
from hardsight.files.kinds import kind_of
from hardsight.files.label_files import labels_in, names_among
from hardsight.files.places import TABLE_ENDINGS, Place, Remote, near_name, place, utf8_name
from hardsight.files.wide_tables import is_dataset
from hardsight.snapshot import Snapshot
from hardsight.table import read_scores

DIGITS = ("digits", "digits:train", "digits:test")  # built in
LISTS = (".txt", ".lst", ".list")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")  # the compressed ones are refused with a word


def open_data(
    spec: Any, *, limit: int | None = None, split: str | None = None, labels_from: str | Path | None = None
) -> ImageData:
    """Images from a folder, file or built-in set, with ids, labels and columns. No image is read yet.

    Args:
        spec: a folder (class folders, domain/class folders, MNIST idx, CIFAR binary files, image_list.txt), a file
            (.csv, .tsv, .parquet, .txt list, .tar, .npz, .npy, idx), or `digits`, `digits:train`, `digits:test` for the built-in
            ones (a folder of that name is `./digits`); a Hugging Face `Dataset` with images, its Parquet file, or a folder
            of its shards; WebDataset shards, as train-{000..012}.tar. Folders, tars and Parquet may be in s3://, too.
        limit: keep this many rows, spread evenly over the data so that sorted classes are all seen.
        split: picks a split where the data has them; or names a column to be used as the split; or else, as train, val
            or test, says which split all rows are.
        labels_from: source of the labels, to override the layout: `folder:N` (the N-th folder from the
            root, or from the file if negative), a column or npz array by name, or a file: .npy or text with one label a row,
            in the order of the rows, or a CSV, Parquet or list file, joined by id or path.

    Example:
        >>> data = open_data("digits:test", limit=3)
        >>> data.ids, data.labels, data.image(0).mode
        (['4', '599', '1199'], array([4, 3, 1]), 'L')
    """
    if _is_digits(spec):
        name = str(spec).partition(":")[2]
        if name and split and split_name(name) != split_name(split):
            raise InputError(f"{spec} already names a split, but split is {split!r}: give only one.")
        split = name or split
    data = _settle(_read(spec, labels_from))
    return (data if split is None else _pick_split(data, split)).spread(limit)


def open_any(spec: str | os.PathLike[str]) -> Snapshot | pa.Table | ImageData:
    """Whatever a path holds: a snapshot, a scores table or images; `hardsight.files.kinds` decides which."""
    text = os.fspath(spec)
    path = place(text)
    if isinstance(path, Remote):
        return Snapshot.load(path)
    kind = "images" if _is_digits(text) else kind_of(path)
    if kind == "snapshot":
        return Snapshot.load(path)
    return read_scores(path) if kind == "scores" else open_data(spec if isinstance(spec, (str, Path)) else text)


def open_frame(x: Any, labels: Any = None) -> Snapshot | ImageData:
    """A frame or a Hugging Face dataset, of features or images: labels are in the named column, or in `label`."""
    if is_image_dataset(x):
        return open_data(x, labels_from=labels)
    return Snapshot.open(x, labels=labels)


def _read(spec: Any, labels_from: str | Path | None) -> ImageData:
    level, column, file = _labels_source(labels_from)
    if is_dataset(spec):
        data = read_dataset(spec, column)
    else:
        data = read_digits() if _is_digits(spec) else _read_shards(spec, level) or _read_path(_existing(spec), level, column)
    if level is not None and data.kind not in ("folder", "tar", "list", "csv", "parquet"):
        raise InputError(f"--labels {labels_from} needs images in folders, but {spec} holds arrays.")
    if column is not None and data.kind not in ("csv", "parquet", "npz", "hugging face"):
        raise InputError(f"--labels {column} is neither an existing file nor folder:N, and {spec} has no columns to choose from.")
    return data if file is None else _relabel(data, file)


def _is_digits(spec: str | Path) -> bool:
    return isinstance(spec, str) and (spec == "digits" or spec.startswith("digits:"))


def _settle(data: ImageData) -> ImageData:
    """Common to all readers: usual split names, and None if no row is labeled."""
    columns, labels = data.columns, data.labels
    if "split" in columns:
        columns = {**columns, "split": [_split_value(value) for value in columns["split"]]}
    if labels is not None and len(labels) and (labels == UNLABELED).all():
        labels = None
    return replace(data, labels=labels, columns=columns)


def check_files(data: ImageData) -> None:
    """Refuse a list or table if not one of the files it names exists: its paths are meant from another folder."""
    if data.kind not in ("list", "csv", "parquet") or len(data) == 0:
        return
    paths = data.columns["path"]
    if not any(os.path.exists(data.roots[0] / path) for path in paths):
        raise FileError(
            f"none of the {len(data)} files named exists below {data.roots[0]}, from where paths are read; "
            f"the first is {paths[0]}."
        )


def _split_value(value: Any) -> str | None:
    return None if value is None else split_name(str(value)) or str(value)


def _labels_source(labels_from: str | Path | None) -> tuple[int | None, str | None, Path | None]:
    """(folder level, column, file): at most one of them."""
    if labels_from is None:
        return None, None, None
    folder = re.fullmatch("folder:([+-]?[0-9]+)", str(labels_from))
    if folder:
        return int(folder[1]), None, None
    if Path(labels_from).is_file():
        return None, None, Path(labels_from)
    return None, str(labels_from), None


def _existing(spec: str | Path) -> Place:
    if isinstance(spec, Remote) or re.match("[A-Za-z][A-Za-z0-9+.-]+://", str(spec)):
        remote = place(spec)
        if not remote.exists():
            raise InputError(f"data must be an existing folder or file, or `digits`, got {remote}, which does not exist.")
        return remote
    if not str(spec):
        raise InputError("data must be an existing folder or file, or `digits`, and the name is empty.")
    path = Path(spec)
    if not os.path.exists(path):  # false, not an error, for names that no file can have
        near = near_name(path) or did_you_mean(str(spec), DIGITS, 0.75)
        if str(spec).partition(":")[0] in ("timm", "torchvision", "hf"):
            near = " It looks like a model, which comes before the data: hardsight extract MODEL DATA."
        got = f"got {utf8_name(str(spec))!r}, which does not exist.{near}"
        raise InputError(f"data must be an existing folder or file, or `digits`, {got}")
    return path


def _read_shards(spec: str | Path, level: int | None) -> ImageData | None:
    """The tars of a pattern such as train-{000..012}.tar; None for anything else, and for a file of that very name."""
    if not re.search(r"\{.+\}", str(spec)) or os.path.exists(spec):
        return None
    paths = [_existing(name) for name in expand_braces(str(spec))]
    if not all(path.name.lower().endswith(".tar") for path in paths):
        raise InputError(f"{spec}: a pattern of shards names .tar files.")
    return read_tars(paths, level)


def _read_path(path: Place, level: int | None, column: str | None) -> ImageData:
    if path.is_dir():
        return _read_dir(path, level, column)
    name = path.name.lower()
    if name.endswith((".parquet", ".arrow")) and holds_encoded(path):
        return read_shards([path], column)
    if name.endswith(TARS):
        return read_tars([path], level)
    if isinstance(path, Remote):
        raise InputError(f"{path}: images in a store are a folder, a .tar or a .parquet with their bytes; download the rest.")
    if name.endswith(TABLE_ENDINGS):
        return read_sheet(path, level, column)
    if name.endswith(".npz"):
        return read_npz(path, column)
    if name.endswith(".npy"):
        return read_npy(path)
    if is_idx(path):
        return read_idx([path])
    if name.endswith(LISTS):
        return read_list(path, level)
    hint = " That is one image: pass its folder." if is_image_name(path.name) else ""
    hint = " Unpack it, and pass the folder." if name.endswith((".zip", ".7z", ".rar")) else hint
    raise InputError(
        f"{path}: a data file must be .csv, .tsv, .parquet, .txt (a list of `path label`), .tar, .npz, .npy or MNIST idx.{hint}"
    )


def _read_dir(folder: Place, level: int | None, column: str | None = None) -> ImageData:
    if (shards := shards_in(folder)) and holds_encoded(shards[0]):
        return read_shards(shards, column)
    if isinstance(folder, Remote):
        return read_folder(folder, level)
    if batches := cifar_batches(folder):
        return read_cifar(batches)
    if files := cifar100_files(folder):
        return read_cifar100(files)
    if idx := idx_files(folder):
        return read_idx(idx)
    if level is None and (lists := lists_in(folder)):
        return read_lists(folder, lists)
    return read_folder(folder, level)


def _pick_split(data: ImageData, split: str) -> ImageData:
    """Only the rows of one split; or a column as the split; or one split for all."""
    if split in data.columns and split not in ("split", "path"):
        return replace(data, columns={**data.columns, "split": [_split_value(value) for value in data.columns[split]]})
    usual = split_name(split)
    if "split" in data.columns:
        picked = data.of_split(usual or split)
        if not len(picked):
            splits = ", ".join(f"{name} ({count})" for name, count in Counter(data.columns["split"]).items())
            raise InputError(f"split must be one that the data has: {splits}; got {split!r}.")
        return picked
    if usual is None:
        domain = f" {split!r} is a domain here: pass its folder as the data." if split in data.columns.get("domain", []) else ""
        raise InputError(
            f"this data has no splits and no column {split!r}; to say which split all of it is, give train, val or test.{domain}"
        )
    return replace(data, columns={**data.columns, "split": [usual] * len(data)})


def _relabel(data: ImageData, file: Path) -> ImageData:
    """The data with labels from a file, by position or by id."""
    paths = data.columns.get("path", data.ids)
    values, notes = labels_in(file, data.ids, data.class_names, paths, _listed)
    names = names_among(values, data.class_names)
    labels = read_labels(values, lambda row: f"{file}, label of {data.ids[row]!r}", class_names=names)
    keep = data.class_names if labels.class_names is None and data.labels is None else None
    return replace(data, labels=labels.numbers, class_names=labels.class_names or keep, notes=data.notes + notes + labels.notes)


def _listed(file: Path) -> list[tuple[str, Any]]:
    return [(utf8_name(line.path), line.label) for line in read_lines(file)]
