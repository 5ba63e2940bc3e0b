"""Detects whether an input path is a snapshot, a scores table or images, in one place for every command."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from hardsight.files.npy import open_npy, open_npz
from hardsight.files.parquet import parquet_columns
from hardsight.files.reading import reading
from hardsight.files.table_kinds import LIST_COLUMNS

Kind = Literal["snapshot", "scores", "images"]


def kind_of(path: Path) -> Kind:
    """The kind of a run directory, a folder or a file. Anything else counts as images, whose reader reports what it needs."""
    if path.is_dir():
        return _kind_of_directory(path)
    ending = path.suffix.lower()
    if not path.is_file():
        return "images"
    if ending == ".npz":
        return "snapshot" if set(LIST_COLUMNS) & set(open_npz(path)) else "images"
    if ending == ".npy":
        return "snapshot" if open_npy(path).ndim <= 2 else "images"
    if ending in (".parquet", ".pq"):
        return _kind_of_columns(parquet_columns(path))
    if ending in (".csv", ".tsv"):
        return _kind_of_columns(_header(path))
    return "scores" if ending == ".json" else "images"


def _kind_of_directory(path: Path) -> Kind:
    if (path / "samples").is_dir() and (path / "run.json").is_file():
        return "snapshot"
    if (path / "scores.parquet").is_file():
        return "scores"
    # An incomplete run: its reader reports it; or the epochs that a training loop recorded.
    return "snapshot" if (path / "start.json").is_file() or any((path / "dynamics").glob("epoch=*.parquet")) else "images"


def _kind_of_columns(names: Iterable[str]) -> Kind:
    """A column of feature lists means a snapshot; paths or encoded images without predictions mean images."""
    held = set(names)
    if held & set(LIST_COLUMNS):
        return "snapshot"
    return "images" if held & {"path", "image", "img"} and not held & {"predicted", "status"} else "scores"


def _header(path: Path) -> list[str]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with reading(path, "not a readable CSV file"), open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        return [name.strip() for name in next(csv.reader(file, delimiter=delimiter), [])]
