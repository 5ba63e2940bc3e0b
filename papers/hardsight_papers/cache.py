"""Trainings and extractions, each done once and shared between recipes.

A place in the cache is named after what decides its content: the same settings on the same data lead to the same place.
Most places are run directories, which know themselves whether they are complete and resume where they were interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hardsight
from hardsight.errors import FileError
from hardsight.files import read_json, replacing, write_json


def cache_directory() -> Path | None:
    """The cache directory: HARDSIGHT_CACHE, or hardsight in the user's cache directory; None if there is none."""
    chosen = os.environ.get("HARDSIGHT_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "hardsight"
        if os.name == "nt":
            local = os.environ.get("LOCALAPPDATA")
            return Path(local) / "hardsight" / "Cache" if local else None
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardsight"
    except RuntimeError:  # no home directory
        return None


class Cache:
    """Directories by their settings, below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def of_user(cls) -> Cache:
        """The cache in the user's cache directory, or the one that HARDSIGHT_CACHE names."""
        directory = cache_directory()
        if directory is None:
            raise FileError("there is no cache directory to keep trainings in: give --cache DIR.")
        return cls(directory / "reproduce")

    def create(self) -> None:
        """Make the directory, if there is none yet."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{self.directory} could not be created: {error.strerror}. --cache names another place.") from error

    def place(self, name: str, key: Mapping[str, Any]) -> Path:
        """The directory of a name and its settings; its parent exists.

        Example:
            >>> import tempfile
            >>> cache = Cache(Path(tempfile.mkdtemp()))
            >>> cache.place("train", {"lr": 0.1}) == cache.place("train", {"lr": 0.1}) != cache.place("train", {"lr": 0.2})
            True
        """
        settings = json.dumps([hardsight.__version__, name, key], sort_keys=True, default=str)
        self.create()
        return self.directory / f"{name}-{hashlib.sha256(settings.encode()).hexdigest()[:16]}"

    def arrays(self, name: str, key: Mapping[str, Any], make: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Arrays that `make` computes once: for what takes seconds and is not a run."""
        path = self.place(name, key).with_suffix(".npz")
        if not path.exists():
            made = make()
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **made)  # type: ignore[arg-type]  # of its stubs: allow_pickle is no array
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}

    def rows(self, name: str, key: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """Lists, dictionaries, words and numbers that `make` computes once."""
        path = self.place(name, key).with_suffix(".json")
        if not path.exists():
            write_json(path, make())
        return read_json(path)

    def table(self, name: str, key: Mapping[str, Any], make: Callable[[], pa.Table]) -> pa.Table:
        """A table that `make` computes once."""
        path = self.place(name, key).with_suffix(".parquet")
        if not path.exists():
            with replacing(path) as temporary:
                pq.write_table(make(), temporary)
        return pq.read_table(path)
