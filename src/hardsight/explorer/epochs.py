"""Dynamics for the page: each epoch's values in the order of the display, angles in degrees.

Files are read one at a time. Up to `KEPT` bytes are cached, so that playing the epochs twice, or drawing the curves of another
selection, does not read the files again.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import check_choice
from hardsight.explorer.columns import is_angle, rows_of
from hardsight.files.epochs import NUMBERS, moments, number_column, read_moment
from hardsight.files.parquet import parquet_columns
from hardsight.snapshot import Snapshot

KEPT = 200 * 2**20  # bytes of float32 values


class Epochs:
    """The dynamics files of a run, matched to the n ids of a display."""

    def __init__(self, files: list[tuple[int, Path]]) -> None:
        self.files = files
        self.numbers = [number for number, _ in files]  # the epoch of each
        self.ids: pa.Array | None = None
        self.split: pa.Array | None = None
        self._places: tuple[pa.Array, pa.Array, np.ndarray] | None = None  # the last file's ids and splits, and their rows

    @classmethod
    def of(cls, where: Path) -> Epochs | None:
        """The dynamics of a run directory, if it has any."""
        if not (where / "dynamics").is_dir():
            return None
        files = [(moment.epoch, path) for moment, path in moments(where)]
        return cls(files) if files else None

    @functools.cached_property
    def measures(self) -> list[str]:
        """The columns that can be drawn over the epochs."""
        names = parquet_columns(self.files[-1][1])
        return [name for name in NUMBERS if name in names]

    def last(self, split: str | None = None) -> pa.Table:
        """The last epoch as a table of samples; of one split, or of all with each id once: it may be in several splits."""
        path = self.files[-1][1]
        table = read_moment(path, parquet_columns(path))
        samples = Snapshot.of_scores(table, name=str(path), allow_duplicates=True)
        if split is not None:
            return samples.of_split(split).columns()
        return table.take(pa.array(np.sort(np.unique(samples.ids, return_index=True)[1])))

    def match(self, ids: pa.Array, split: pa.Array | None = None) -> None:
        """Use these ids, of these splits, as rows: the same id may be another sample in another split."""
        self.ids, self.split = ids, split
        self._cached = functools.lru_cache(KEPT // (4 * max(1, len(ids))))(self._read)

    def values(self, index: int, measure: str) -> np.ndarray:
        """(n,) float32 of one epoch, as the page shows them: angles in degrees; NaN for samples without a value."""
        check_choice(measure, self.measures, "a dynamics column")
        return self._cached(index, measure)

    def _read(self, index: int, measure: str) -> np.ndarray:
        assert self.ids is not None, "match() comes first"
        table = read_moment(self.files[index][1], ["id", "split", measure])
        ids, split = (table.column(name).cast(pa.string()).combine_chunks() for name in ("id", "split"))
        if self._places is None or not (ids.equals(self._places[0]) and split.equals(self._places[1])):
            self._places = ids, split, self._rows(ids, split)
        rows = self._places[2]
        values = np.full(len(self.ids), np.nan, np.float32)
        measured = number_column(table, measure).astype(np.float32)
        measured = np.degrees(measured) if is_angle(measure) else measured
        values[rows[rows >= 0][::-1]] = measured[rows >= 0][::-1]  # of an id that occurs twice, the first counts
        return values

    def _rows(self, ids: pa.Array, split: pa.Array) -> np.ndarray:
        """The display's row of each row of a file, -1 for none."""
        display_ids = self.ids
        if self.split is not None and len(pc.unique(ids)) < len(ids):
            ids, display_ids = (
                pc.binary_join_element_wise(pc.fill_null(s, ""), i, "\0") for i, s in ((ids, split), (display_ids, self.split))
            )
        return rows_of(ids, display_ids)

    def story(self, row: int, measure: str) -> list[float | None]:
        """One sample over the epochs."""
        values = [float(self.values(index, measure)[row]) for index in range(len(self.files))]
        return [value if np.isfinite(value) else None for value in values]
