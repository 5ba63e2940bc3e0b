"""Default paths of the tables that later commands write about a run or a file: in the run, or next to the file.

run/audit.parquet       photo.audit.parquet for photo.npz        hardsight audit: one row per group
run/audit.samples.parquet                                        and each sample's groups
run/drift.parquet                                                hardsight drift, of this run against an earlier one
run/drift.classes.parquet
run/subset.parquet                                               hardsight select
"""

from __future__ import annotations

from pathlib import Path


def beside(path: Path, name: str) -> Path:
    """The file of that name in a run directory, or next to a file.

    Example:
        >>> beside(Path("photo.npz"), "audit").name
        'photo.audit.parquet'
    """
    return path / f"{name}.parquet" if path.is_dir() else path.with_suffix(f".{name}.parquet")


def second_table(path: Path, name: str) -> Path:
    """A second table of the same command, next to the first.

    Example:
        >>> second_table(Path("out/audit.csv"), "samples").name
        'audit.samples.csv'
    """
    return path.with_suffix(f".{name}{path.suffix}")
