"""Maps: the features in two dimensions, as the axes of the scatter plot.

PCA takes a second. t-SNE, and UMAP if umap-learn is installed, take minutes: they start from the first principal components
of an even subsample, in a separate process, and other samples are not placed. Every map is saved as
`map-tsne.parquet` in the run, or `photo.map-tsne.parquet` next to photo.npz, and read again while the features are the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.errors import FileError, HardsightError, InputError, first_line
from hardsight.explorer.columns import Column
from hardsight.explorer.display import Display
from hardsight.files.checksums import entries, sha256
from hardsight.files.parquet import read_parquet, write_parquet
from hardsight.files.places import table_path
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from hardsight.stats.principal import Principal

TITLES = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
MOST_FITTED = 100_000  # samples that principal components are fitted to
MOST_PLACED = {"tsne": 10_000, "umap": 50_000}  # samples of a slow map
REDUCED = 50  # principal components that a slow map starts from
CHEAP = 50_000 * 1024  # feature values for which a report makes a PCA map
ROUNDS = 1000  # of t-SNE: scikit-learn's own
FEWEST = 5  # samples
PERPLEXITY, NEIGHBORS = 30.0, 15  # of t-SNE and UMAP: their own defaults, less for fewer samples
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
    """The maps of one display; `keep` saves them in the run or next to the file."""

    display: Display
    keep: bool = True
    _made: dict[str, Making] = field(default_factory=lambda: {method: Making() for method in TITLES})
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        snapshot = self.display.snapshot
        self._snapshot: Any = snapshot if snapshot is not None and snapshot.source.evidence == "features" else None

    @property
    def methods(self) -> list[str]:
        """Methods that can be used here: none without features."""
        if self._snapshot is None:
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
            cheap = method == "pca" and self._snapshot.source.num_samples * self._snapshot.source.width <= CHEAP
            with contextlib.suppress(HardsightError):  # a report can do without a map
                made = self._kept(method) or (self._pca() if cheap else None)
                if made is not None:
                    self._made[method] = Making("ready", columns=self._as_columns(method, *made))
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
        except PlacingStopped:
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
        parts = [principal.project(values[_within(chosen, start, len(values))]) for start, values in self._batches()]
        rows = np.concatenate(parts)
        finite = np.isfinite(rows).all(axis=1)
        if finite.sum() < FEWEST:
            raise InputError(f"{TITLES[method]} needs at least {FEWEST} samples with features, got {finite.sum()}.")
        share, started = (functools.partial(setattr, making, name) for name in ("share", "process"))
        places = np.full((n, 2), np.nan, np.float32)
        places[chosen[finite]] = placed(method, rows[finite], share, started)
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

    def _as_columns(self, method: str, places: np.ndarray, shares: str) -> tuple[Column, ...]:
        """Positions of the snapshot's rows as two columns of the display."""
        rows = self.display.snapshot_rows
        if rows is not None:
            places = np.where((rows >= 0)[:, None], places[rows], np.float32(np.nan))
        units = [f"{share} % of the variance" for share in shares.split()] or ["", ""]
        return tuple(
            Column(name, np.ascontiguousarray(values), about=f"{TITLES[method]} of the features.", unit=unit)
            for name, values, unit in zip(axes_of(method), places.T, units, strict=True)
        )

    # The file

    def _file(self, method: str) -> Path:
        assert self.display.path is not None  # a table in memory has no features
        return table_path(self.display.path, f"map-{method}")

    def _about(self, method: str) -> dict[str, Any]:
        """What a saved map must match."""
        return {"method": method, "features": self._checksum, "samples": MOST_PLACED.get(method, MOST_FITTED)}

    @functools.cached_property
    def _checksum(self) -> str:
        """sha256 of the files of the features, as listed in run.json, or of the file itself."""
        if self.display.path is not None and self.display.path.is_file():
            return sha256(self.display.path)
        parts = {name: entry.sha256 for name, entry in entries(self.display.start).items() if name.startswith("samples/")}
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


# t-SNE and UMAP in a separate process: `python -m hardsight.explorer.embedding_map METHOD rows.npy placed.npy`. They may take
# minutes and every core. There they neither keep the server from answering nor outlive it: progress goes to a pipe, and the
# process ends when nobody reads it.

Share = Callable[[float], None]  # how much is done, 0 to 1


class PlacingStopped(HardsightError):
    """The process was ended on request."""


def place(method: str, rows: np.ndarray) -> np.ndarray:
    """(m, k) rows -> (m, 2) places, the same each time; progress goes to standard output and error."""
    if method == "tsne":
        from sklearn.manifold import TSNE

        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        tsne = TSNE(2, perplexity=perplexity, max_iter=ROUNDS, init="pca", random_state=0, verbose=2)
        return np.asarray(tsne.fit_transform(rows))
    from umap import UMAP

    return np.asarray(UMAP(n_neighbors=min(NEIGHBORS, len(rows) - 1), random_state=0, verbose=True).fit_transform(rows))


def share_done(line: str) -> float | None:
    """The share of the work that is done, from a line of their output; None if it does not say.

    Example:
        >>> share_done("[t-SNE] Iteration 250: error = 70.1"), share_done("Epochs completed:  40%| ####"), share_done("")
        (0.25, 0.4, None)
    """
    if iteration := re.search(r"Iteration (\d+)", line):
        return min(1.0, int(iteration[1]) / ROUNDS)
    percent = re.search(r"(\d+)%\|", line)
    return int(percent[1]) / 100 if percent else None


def placed(method: str, rows: np.ndarray, share: Share, started: Callable[[subprocess.Popen[str]], None]) -> np.ndarray:
    """`place` in another process, which is passed to `started` so that it can be stopped."""
    with tempfile.TemporaryDirectory(prefix="hardsight-map-") as folder:
        source, target = Path(folder) / "rows.npy", Path(folder) / "placed.npy"
        np.save(source, rows, allow_pickle=False)
        script = [sys.executable, "-u", "-W", "ignore", "-m", "hardsight.explorer.embedding_map"]
        words = [*script, method, str(source), str(target)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            started(process)
            assert process.stdout is not None
            line = ""
            for line in process.stdout:  # a bar that is redrawn with \r is a line each time
                done = share_done(line)
                if done is not None:
                    share(done)
        if process.returncode < 0:
            raise PlacingStopped("stopped.")
        if process.returncode or not target.is_file():
            raise HardsightError(f"{method} ended with an error: {line.strip()}")
        return np.asarray(np.load(target, allow_pickle=False))


def main() -> None:
    """Read rows, place them, write the places."""
    method, source, target = sys.argv[1:]
    os.nice(5)  # the server comes first
    np.save(target, place(method, np.load(source, allow_pickle=False)).astype(np.float32), allow_pickle=False)


if __name__ == "__main__":
    main()
