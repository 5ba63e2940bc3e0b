"""Images as encoded bytes in a column of tables, as Hugging Face keeps them: Parquet shards, saved datasets, `Dataset` objects.

A column holds structs of `bytes` and `path`, or the bytes themselves. Names of classes come from the schema (`ClassLabel`).
Parquet is read a row group at a time and Arrow files are mapped, so memory stays flat however many shards there are.
"""

from __future__ import annotations

import io
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from PIL import Image

from hardsight.data.arrays import row_ids
from hardsight.data.dataset import ImageData, Images
from hardsight.data.decoding import BrokenImage, Needed, decode
from hardsight.data.files import hash_lines
from hardsight.data.labels import read_labels, split_name
from hardsight.errors import FileError, InputError
from hardsight.files.class_names import class_label_names
from hardsight.files.parquet import open_parquet, read_parquet
from hardsight.files.places import Place, place
from hardsight.files.reading import FileState, check_unchanged, file_state, read_json, reading
from hardsight.files.table_files import check_once
from hardsight.files.wide_tables import check_dataset, is_dataset
from hardsight.labels import Labels, numbers_among

CACHE_BYTES = 2**28  # of row groups that a process holds
LABELS = ("label", "labels", "fine_label", "class")  # of several columns that may hold the labels, the first is taken
SHARD = re.compile(r"(?P<split>.+?)-\d+-of-\d+")


@dataclass(frozen=True)
class Shard:
    """One file of a dataset: where its rows begin, row group by row group."""

    file: Place
    split: str | None
    counts: tuple[int, ...]  # rows of each row group; one for an Arrow file
    state: FileState


class EncodedImages:
    """Images by row, decoded from the bytes in a column of shards."""

    def __init__(self, shards: Sequence[Shard], column: str) -> None:
        self.shards, self.column = tuple(shards), column
        self.groups = [(shard, group) for shard in self.shards for group in range(len(shard.counts))]
        self.ends = np.cumsum([count for shard in self.shards for count in shard.counts], dtype=np.int64)
        self._forget()

    def _forget(self) -> None:
        self._lock, self._recent = threading.Lock(), OrderedDict[int, Any]()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_recent")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()  # a worker reads the files itself

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """Decode the image of one row."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        first = int(self.ends[number - 1]) if number else 0
        return _decoded(self._group(number)[row - first], f"{self.groups[number][0].file} row {row}", None, needed)

    def _group(self, number: int) -> Any:
        """The column of one row group; the last few that were read are kept."""
        with self._lock:
            if number in self._recent:
                self._recent.move_to_end(number)
                return self._recent[number]
            shard, group = self.groups[number]
            check_unchanged(shard.file, shard.state)
            column = _arrow_file(shard.file).column(self.column) if _is_arrow(shard.file) else self._row_group(shard, group)
            self._recent[number] = column
            while len(self._recent) > 2 and sum(kept.nbytes for kept in self._recent.values()) > CACHE_BYTES:
                self._recent.popitem(last=False)
            return column

    def _row_group(self, shard: Shard, group: int) -> Any:
        with reading(shard.file), open_parquet(shard.file) as opened:
            return opened.read_row_group(group, columns=[self.column]).column(0)

    def digest(self, ids: Sequence[str], rows: Sequence[int]) -> str:
        """sha256 over the names, sizes and times of the shards, and the ids picked from them."""
        states = [f"{shard.file.name}\0{shard.state[0]}\0{shard.state[1]}\n" for shard in self.shards]
        return hash_lines([*states, *(f"{id}\n" for id in ids)])


class DatasetImages:
    """Images of a Hugging Face `Dataset` object, read from its own tables."""

    def __init__(self, dataset: Any, column: str) -> None:
        self.dataset, self.column = dataset, column

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """Decode the image of one row."""
        return _decoded(self.dataset[row].column(self.column)[0], f"row {row}", Path.cwd(), needed)

    def digest(self, ids: Sequence[str], rows: Sequence[int]) -> str:
        """sha256 over the fingerprint that the dataset has of itself, and the ids picked from it."""
        return hash_lines([f"{getattr(self.dataset, '_fingerprint', '')}\n", *(f"{id}\n" for id in ids)])


def is_image_dataset(x: Any) -> bool:
    """Whether x is a Hugging Face dataset of images, or several in a `DatasetDict`, which `read_dataset` refuses."""
    return is_dataset(x) and (isinstance(x, dict) or image_column(x.features.arrow_schema) is not None)


def read_dataset(dataset: Any, label_column: str | None = None) -> ImageData:
    """The images of a `Dataset` object."""
    check_dataset(dataset)
    schema = dataset.features.arrow_schema
    column = _image_column(schema, "the dataset")
    others = [name for name in schema.names if name != column]
    table = dataset.select_columns(others).with_format("arrow")[:] if others else None
    images = DatasetImages(dataset.with_format("arrow"), column)
    return _data([_Part(table, schema, None, len(dataset))], images, "the dataset", label_column)


def image_column(schema: pa.Schema) -> str | None:
    """The column that holds encoded images: as the schema says, or structs with `bytes`, or bytes named like images."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"null"))["info"]["features"]
        named = [name for name, feature in features.items() if feature.get("_type") == "Image"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        named = []
    columns = [field.name for field in schema if field.name in named or _holds_images(field)]
    return columns[0] if columns else None


def _holds_images(field: pa.Field) -> bool:
    kind = field.type
    if pa.types.is_struct(kind):
        return any(kind.field(k).name == "bytes" for k in range(kind.num_fields))
    return (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)) and field.name in ("image", "img", "images")


def _image_column(schema: pa.Schema, where: Any) -> str:
    column = image_column(schema)
    if column is None:
        raise InputError(
            f"{where}: a column of images is needed, structs with `bytes` or bytes named image; it has {', '.join(schema.names)}."
        )
    return column


def shards_in(folder: Place) -> list[Place]:
    """The Parquet or Arrow files of a dataset that was saved in a folder, in order; none if it is something else."""
    if (folder / "dataset_dict.json").is_file():
        with reading(folder / "dataset_dict.json"):
            names = [str(split) for split in read_json(folder / "dataset_dict.json")["splits"]]
        return [file for name in names if "/" not in name and name != ".." for file in shards_in(folder / name)]
    if (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file():  # as Dataset.save_to_disk writes it
        with reading(folder / "state.json"):
            names = [str(entry["filename"]) for entry in read_json(folder / "state.json")["_data_files"]]
        return [folder / name for name in names if "/" not in name and (folder / name).is_file()]
    inside = sorted((sub for sub in folder.iterdir() if sub.name == "data" or split_name(sub.name)), key=_name)
    folders = [folder, *(sub for sub in inside if sub.is_dir())]
    return [file for sub in folders for file in sorted(sub.iterdir(), key=_name) if file.suffix.lower() == ".parquet"]


def _name(path: Place) -> str:
    return path.name


def holds_encoded(file: Place) -> bool:
    """Whether a Parquet or Arrow file has a column of encoded images."""
    return image_column(_schema(file)) is not None


def read_shards(files: Sequence[Place], label_column: str | None = None) -> ImageData:
    """The images of one or more files with the same columns, in their order."""
    parts, shards = [], []
    column = _image_column(_schema(files[0]), files[0])
    for file in files:
        schema = _schema(file)
        if column not in schema.names:
            raise FileError(f"{file}: there is no column {column!r} in it, which {files[0].name} has.")
        others = [name for name in schema.names if name != column and not pa.types.is_nested(schema.field(name).type)]
        table = _arrow_file(file).select(others) if _is_arrow(file) else read_parquet(file, others) if others else None
        counts = _counts(file)
        shards.append(Shard(file, _split_of(file), counts, file_state(file)))
        parts.append(_Part(table, schema, shards[-1].split, sum(counts)))
    return _data(parts, EncodedImages(shards, column), files[0], label_column)


class _Part(NamedTuple):
    """The columns of one file, without its images."""

    table: pa.Table | None  # None if there is no other column
    schema: pa.Schema
    split: str | None
    rows: int


def _data(parts: Sequence[_Part], images: Images, where: Any, label_column: str | None) -> ImageData:
    """Ids, labels and columns of files that follow each other."""
    tables = [part.table for part in parts if part.table is not None]
    with reading(where):
        columns = pa.concat_tables(tables, promote_options="permissive").to_pydict() if tables else {}
    name = label_column or next((name for name in LABELS if name in columns), None)
    if name is not None and name not in columns:
        raise InputError(f"{where}: --labels {name} is not one of its columns; it has {', '.join(parts[0].schema.names)}.")
    splits = [part.split for part in parts for _ in range(part.rows)]
    of_all = bool(splits) and None not in splits  # or none has one
    ids = [str(id) for id in columns.pop("id")] if "id" in columns else row_ids(splits if of_all else [None] * len(splits))
    values = None if name is None else columns.pop(name)
    columns.pop("path", None)
    data = ImageData("hugging face", ids, images, columns={"split": splits, **columns} if of_all else columns)
    if name is None or values is None:
        return data
    labels = _labels(values, parts, name, where)
    return replace(data, labels=labels.numbers, class_names=labels.class_names, notes=labels.notes)


def _labels(values: list[Any], shards: Sequence[_Part], name: str, where: Any) -> Labels:
    """The labels of all shards: where their schemas name the classes in another order, by the names of the first."""
    counted = [class_label_names(shard.schema, name) for shard in shards]
    first = next((names for names in counted if names is not None), None)

    def row_of(row: int) -> str:
        return f"{where}, column {name}, row {row + 1}"

    if first is None or all(names in (None, first) for names in counted):
        return read_labels(values, row_of, first)
    start, parts = 0, []
    for names, shard in zip(counted, shards, strict=True):
        part = read_labels(values[start : start + shard.rows], row_of, names)
        mapping = None if names is None else numbers_among(names, first)
        parts.append(part.numbers if mapping is None else mapping[part.numbers])
        start += shard.rows
    return Labels(np.concatenate(parts), first)


def _split_of(file: Place) -> str | None:
    """train of train-00000-of-00002.parquet, or of train/0000.parquet."""
    stem = SHARD.match(file.name)
    for word in (stem["split"] if stem else file.name.partition(".")[0], str(file).rpartition("/")[0].rpartition("/")[2]):
        split = split_name(word)
        if split is not None:
            return split
    return None


def _decoded(cell: pa.Scalar, name: str, root: Path | None, needed: Needed | None) -> Image.Image:
    """The image of one cell. A path without bytes is followed only below `root`, in data that a user holds in memory."""
    try:
        value = cell.as_py()
    except UnicodeDecodeError as error:
        raise BrokenImage("unreadable", name, f"a text next to it is not UTF-8: {error.reason}") from error
    content = value.get("bytes") if isinstance(value, dict) else value
    path = value.get("path") if isinstance(value, dict) else None
    if content is None and root is not None and path:
        try:
            content = (root / path).read_bytes()
        except OSError as error:
            raise BrokenImage("missing", name, str(path)) from error
    if content is None:
        raise BrokenImage("missing", name, "no bytes in the table")
    return decode(io.BytesIO(content), name, needed)


def _is_arrow(file: Place) -> bool:
    return file.suffix.lower() == ".arrow"


def _arrow_file(file: Place) -> pa.Table:
    """An Arrow file, mapped. Images are not read, but every offset is: Arrow believes them, and a wrong one ends the process."""
    with reading(file, "not a readable Arrow file"):
        try:
            table = pa.ipc.open_stream(pa.memory_map(os.fspath(file))).read_all()
        except pa.ArrowInvalid:
            table = pa.ipc.open_file(pa.memory_map(os.fspath(file))).read_all()
        table.validate(full=True)
        return table


def _schema(file: Place) -> pa.Schema:
    file = place(file)
    with reading(file):
        if _is_arrow(file):
            schema = _arrow_file(file).schema
        else:
            with open_parquet(file) as opened:
                schema = opened.schema_arrow
        check_once(file, schema.names)
        image_column(schema)  # fails here if a name is no text
        return schema


def _counts(file: Place) -> tuple[int, ...]:
    if _is_arrow(file):
        return (len(_arrow_file(file)),)
    with open_parquet(file) as opened:
        metadata = opened.metadata
        return tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
