"""Maps: the features in two dimensions, as the axes of the scatter plot.

PCA takes a second. t-SNE, and UMAP if umap-learn is installed, take minutes: they start from the first principal components
of an even subsample, in the background (embedding_process.py), and other samples are not placed. Every map is saved as
`map-tsne.parquet` in the run, or `photo.map-tsne.parquet` next to photo.npz, and read again while the features are the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.errors import FileError, HardsightError, InputError, first_line
from hardsight.explorer import embedding_process
from hardsight.explorer.columns import Column
from hardsight.explorer.sheet import Sheet
from hardsight.files.checksums import entries, sha256
from hardsight.files.parquet import read_parquet, write_parquet
from hardsight.files.places import table_path
from hardsight.snapshot import Snapshot
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from hardsight.stats.principal import Principal

TITLES = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
MOST_FITTED = 100_000  # samples that principal components are fitted to
MOST_PLACED = {"tsne": 10_000, "umap": 50_000}  # samples of a slow map
REDUCED = 50  # principal components that a slow map starts from
CHEAP = 50_000 * 1024  # feature values for which a report makes a PCA map
SOON = 0.7  # seconds that a request waits for a map: quick ones are then ready at once


@dataclass
class Making:
    """The state of one map."""

    state: str = "none"  # none, working, ready, failed
    share: float | None = None
    note: str = ""  # what went wrong, or what else to tell the user
    began: float = 0.0
    columns: tuple[Column, ...] = ()
    thread: Thread | None = None
    process: subprocess.Popen[str] | None = None


@dataclass
class Maps:
    """The maps of one sheet; `keep` saves them in the run or next to the file."""

    sheet: Sheet
    keep: bool = True
    _made: dict[str, Making] = field(default_factory=lambda: {method: Making() for method in TITLES})
    _lock: Lock = field(default_factory=Lock)

    @property
    def methods(self) -> list[str]:
        """Methods that can be used here: none without features."""
        if self.sheet.snapshot is None or self.sheet.snapshot.source.evidence != "features":
            return []
        return [method for method in TITLES if method != "umap" or importlib.util.find_spec("umap") is not None]

    def described(self) -> list[dict[str, Any]]:
        """Title, axes and largest number of samples of each, for JSON."""
        return [
            {"method": method, "title": TITLES[method], "axes": axes_of(method), "most": MOST_PLACED.get(method)}
            for method in self.methods
        ]

    def columns(self) -> dict[str, Column]:
        """The axes of the maps that are ready."""
        return {column.name: column for making in self._made.values() for column in making.columns}

    def described_columns(self, *methods: str) -> list[dict[str, Any]]:
        """The axes of the given maps, or of all, for JSON; menus of columns do not list them."""
        return [
            column.described() | {"hidden": True, "map": method}
            for method in methods or self._made
            for column in self._made[method].columns
        ]

    def state(self, method: str) -> dict[str, Any]:
        """How far a map is, for JSON."""
        making = self._made[method]
        seconds = time.monotonic() - making.began
        share = making.share if making.state == "working" else None
        return {
            "state": making.state,
            "share": share,
            "left": seconds * (1 - share) / share if share else None,
            "note": making.note,
            "columns": self.described_columns(method),
        }

    def start(self, method: str) -> None:
        """Start a map, unless it is ready or being made, and wait a moment for it."""
        with self._lock:
            making = self._made[method]
            if making.state in ("none", "failed"):
                thread = Thread(target=self._work, args=(method,), daemon=True)
                making = self._made[method] = Making("working", began=time.monotonic(), thread=thread)
                thread.start()
        if making.thread is not None:
            making.thread.join(SOON)

    def stop(self, method: str) -> None:
        """End the process of a slow map."""
        process = self._made[method].process
        if process is not None:
            process.terminate()

    def ready_for_report(self) -> dict[str, Column]:
        """The maps that are saved, and PCA if it is cheap."""
        for method in self.methods:
            assert self.sheet.snapshot is not None
            source = self.sheet.snapshot.source
            if self._file(method).is_file() or (method == "pca" and source.num_samples * source.width <= CHEAP):
                with contextlib.suppress(HardsightError):  # a report can do without a map
                    places, about = self._kept(method) or (self._pca() if method == "pca" else (None, ""))
                    if places is not None:
                        self._made[method] = Making("ready", columns=self._as_columns(method, places, about))
        return self.columns()

    # In the background

    def _work(self, method: str) -> None:
        making = self._made[method]
        try:
            kept = self._kept(method)
            places, about = kept or (self._pca() if method == "pca" else self._slow(method))
            making.columns = self._as_columns(method, places, about)
            if kept is None and self.keep:
                making.note = self._write(method, places, about)
            making.state = "ready"
        except embedding_process.PlacingStopped:
            self._made[method] = Making()
        except (HardsightError, OSError, MemoryError, ValueError) as error:
            making.note = f"The map could not be made: {first_line(error)}"
            making.state = "failed"

    def _pca(self) -> tuple[np.ndarray, str]:
        """(rows of the snapshot, 2) and the shares of variance of the axes, in percent."""
        principal = self._principal(2)
        parts = [principal.project(values) for _, values in self._batches()]
        shares = " ".join(f"{100 * share:.3g}" for share in principal.shares)
        return np.concatenate(parts), shares

    def _slow(self, method: str) -> tuple[np.ndarray, str]:
        """(rows of the snapshot, 2), NaN for samples that are not placed."""
        making, n = self._made[method], len(self._snapshot)
        principal, chosen = self._principal(min(REDUCED, self._snapshot.source.width)), even_rows(n, MOST_PLACED[method])
        rows = np.concatenate(
            [principal.project(values[_within(chosen, start, len(values))]) for start, values in self._batches()]
        )
        finite = np.isfinite(rows).all(axis=1)
        if finite.sum() < embedding_process.FEWEST:
            raise InputError(
                f"{TITLES[method]} needs at least {embedding_process.FEWEST} samples with features, got {finite.sum()}."
            )
        share, started = (functools.partial(setattr, making, name) for name in ("share", "process"))
        places = np.full((n, 2), np.nan, np.float32)
        places[chosen[finite]] = embedding_process.placed(method, rows[finite], share, started)
        return places, ""

    def _principal(self, num_components: int) -> Principal:
        from hardsight.stats.principal import WIDEST, principal_components  # slow to import, and few pages need it

        limit = MOST_FITTED if self._snapshot.source.width <= WIDEST else WIDEST
        chosen = even_rows(len(self._snapshot), limit)
        blocks = (values[_within(chosen, start, len(values))] for start, values in self._batches())
        return principal_components(blocks, num_components)

    def _batches(self) -> Iterator[tuple[int, np.ndarray]]:
        """The first row of each batch, and its (b, d) features, NaN for rows without."""
        for batch in self._snapshot.batches():
            values = to_numpy(batch.values)
            if batch.missing is not None and batch.missing.any():
                values = np.where(batch.missing[:, None], np.nan, values)
            yield batch.start, values

    @property
    def _snapshot(self) -> Snapshot:
        assert self.sheet.snapshot is not None
        return self.sheet.snapshot

    def _as_columns(self, method: str, places: np.ndarray, shares: str) -> tuple[Column, ...]:
        """Positions of the snapshot's rows as two columns of the sheet."""
        rows = self.sheet.snapshot_rows
        if rows is not None:
            places = np.where((rows >= 0)[:, None], places[rows], np.float32(np.nan))
        units = [f"{share} % of the variance" for share in shares.split()] or ["", ""]
        return tuple(
            Column(name, np.ascontiguousarray(values), about=f"{TITLES[method]} of the features.", unit=unit)
            for name, values, unit in zip(axes_of(method), places.T, units, strict=True)
        )

    # The file

    def _file(self, method: str) -> Path:
        return table_path(self.sheet.path, f"map-{method}")

    def _about(self, method: str) -> dict[str, Any]:
        """What a saved map must match."""
        return {"method": method, "features": self._checksum, "samples": MOST_PLACED.get(method, MOST_FITTED)}

    @functools.cached_property
    def _checksum(self) -> str:
        """sha256 of the files of the features, as listed in run.json, or of the file itself."""
        if self.sheet.path.is_file():
            return sha256(self.sheet.path)
        parts = {name: entry.sha256 for name, entry in entries(self.sheet.start).items() if name.startswith("samples/")}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _kept(self, method: str) -> tuple[np.ndarray, str] | None:
        """The saved map of the same features, if there is a readable one."""
        file = self._file(method)
        if not file.is_file():
            return None
        try:
            table = read_parquet(file)
            about = json.loads((table.schema.metadata or {})[b"hardsight_map"])
            shares = about.pop("shares")
            if about == self._about(method) and len(table) == len(self._snapshot):
                return np.stack([table.column(name).to_numpy() for name in ("x", "y")], axis=1), str(shares)
        except (FileError, KeyError, ValueError, AttributeError):  # damaged, or something else: it is made again
            pass
        return None

    def _write(self, method: str, places: np.ndarray, shares: str) -> str:
        """Save a map, and return a note if that fails."""
        file = self._file(method)
        about = json.dumps(self._about(method) | {"shares": shares})
        columns = {"id": self._snapshot.columns(["id"]).column("id"), "x": places[:, 0], "y": places[:, 1]}
        table = pa.table(columns).replace_schema_metadata({"hardsight_map": about})
        try:
            if not os.access(file.parent, os.W_OK):
                raise FileError(f"{file.parent} cannot be written to.")
            write_parquet(file, table)
        except FileError as error:
            return f"The map is not saved: {first_line(error)}"
        return ""


def axes_of(method: str) -> list[str]:
    """Names of the two columns of a map."""
    return [f"{method}_1", f"{method}_2"]


def _within(chosen: np.ndarray, start: int, count: int) -> np.ndarray:
    """Which of some ascending rows are in a batch, counted from its start."""
    return chosen[slice(*np.searchsorted(chosen, (start, start + count)))] - start
