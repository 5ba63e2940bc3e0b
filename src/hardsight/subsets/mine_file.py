"""`mine_to_file`: what `hardsight mine` does: samples in files in, triplets or pairs in a file out."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from hardsight.errors import InputError, did_you_mean
from hardsight.files.places import place
from hardsight.files.table_writing import check_table_output
from hardsight.options import takes
from hardsight.scoring.score_file import open_with_columns
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.subsets.mine import Mined, mined_triplets
from hardsight.subsets.mine_settings import MineFileSettings
from hardsight.table import write_table
from hardsight.threads import sample_rows


@takes(MineFileSettings)
def mine_to_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    settings: MineFileSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Mined:
    """Mine the triplets of a run or a file and write them.

    Args:
        source: a run directory, .npz, .npy, .parquet or .csv.
        output: .parquet, .csv or .json; nothing is written without it.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the tiles of products done, and those there are in all.
    """
    settings = MineFileSettings.given(settings, options)
    target = None if output is None else place(output)
    if target is not None:
        check_table_output(target, "pairs" if settings.pairs else "triplets", (source, settings.labels))
    snapshot = _chosen(open_with_columns(place(source), settings), settings)
    mined = mined_triplets(snapshot, settings, progress)
    if target is not None:
        write_table(mined.pairs_table() if settings.pairs else mined.table(), target)
    return mined


def _chosen(snapshot: Snapshot, settings: MineFileSettings) -> Snapshot:
    """The samples of the split, or some of them."""
    if settings.split is None and settings.all_samples:
        return snapshot
    rows = np.arange(len(snapshot))
    if settings.split is not None:
        if "split" not in snapshot.column_names:
            raise InputError(f"{snapshot.name}: --split {settings.split} needs a column split, and there is none.")
        splits = snapshot.columns(["split"]).column("split").to_pylist()
        rows = np.array([row for row, split in enumerate(splits) if split == settings.split], np.int64)
        if len(rows) == 0:
            present = sorted({str(split) for split in splits if split is not None})
            there, near = ", ".join(present) or "none", did_you_mean(settings.split, present)
            raise InputError(f"{snapshot.name}: there is no split {settings.split!r}; splits: {there}.{near}")
    return snapshot.take(rows[sample_rows(settings, len(rows))])
