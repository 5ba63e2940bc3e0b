"""Reader of suspects.parquet, the verdicts of `hardsight clean`, for the explorer, the report and exports.

A run has its own `suspects.parquet`; for a file it is next to it: `photo.suspects.parquet` for `photo.npz`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import FileError, first_line
from hardsight.files.inputs import note_input
from hardsight.files.parquet import read_parquet

MISLABELED, AMBIGUOUS, HARD = "likely mislabeled", "ambiguous", "hard but right"
OUTLIER, DUPLICATE = "outlier", "near duplicate"
VERDICTS = (MISLABELED, AMBIGUOUS, HARD, OUTLIER, DUPLICATE)
SUSPECTS = pa.schema(
    [
        ("given_label", pa.int64()),
        ("suggested_label", pa.int64()),
        ("suggested_probability", pa.float64()),
        ("error_score", pa.float64()),  # higher: more likely wrong
        ("verdict", pa.string()),  # one of VERDICTS, null for an ordinary sample
        ("explanation", pa.string()),
        ("is_label_issue", pa.bool_()),  # this and the next two: cleanlab's names
        ("label_quality", pa.float64()),
        ("predicted_label", pa.int64()),
    ]
)
BESIDE = ".suspects.parquet"


def suspects_file(path: Path) -> Path:
    """Path of the suspects of a run directory or a file.

    Example:
        >>> suspects_file(Path("photo.npz")).name
        'photo.suspects.parquet'
    """
    return path / "suspects.parquet" if path.is_dir() else path.with_suffix(BESIDE)


def read_suspects(path: Path) -> pa.Table | None:
    """The suspects of a run directory or a file, with ids as strings; None if there are none."""
    file = suspects_file(path)
    if not file.is_file():
        return None
    note_input(file)
    table = read_parquet(file)
    missing = [name for name in ("id", *SUSPECTS.names) if name not in table.column_names]
    if missing:
        raise FileError(f"{file}: not written by hardsight clean: it has no column {missing[0]}. Remove or rename it.")
    schema = pa.schema([("id", pa.string()), *SUSPECTS], table.schema.metadata)
    try:
        table = table.select(schema.names).cast(schema).combine_chunks()
    except pa.ArrowException as error:
        raise FileError(f"{file}: not written by hardsight clean: {first_line(error)}. Remove or rename it.") from error
    _check(file, table)
    return table


def _check(file: Path, table: pa.Table) -> None:
    """Check that ids are unique and verdicts are known."""
    counted = pc.value_counts(table.column("id"))
    twice = counted.filter(pc.greater(counted.field("counts"), 1))
    if len(twice):
        raise FileError(f"{file}: ids must be unique, but {twice[0]['values'].as_py()!r:.80} appears {twice[0]['counts']} times.")
    verdicts = table.column("verdict").drop_null()
    unknown = verdicts.filter(pc.invert(pc.is_in(verdicts, value_set=pa.array(VERDICTS))))
    if len(unknown):
        raise FileError(f"{file}: unknown verdict {unknown[0].as_py()!r:.80}; verdicts are {', '.join(VERDICTS)}.")


def expected_errors(suspects: pa.Table) -> tuple[float, float, float] | None:
    """The expected number of wrong labels and its interval; None if the file does not have it."""
    try:
        notes = json.loads((suspects.schema.metadata or {})[b"hardsight"])
        errors, low, high = (float(notes[f"expected_errors{end}"]) for end in ("", "_low", "_high"))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return (errors, low, high) if math.isfinite(errors + low + high) else None
