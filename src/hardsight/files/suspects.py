"""Reader of suspects.parquet, the verdicts of `hardsight clean`, for the explorer, the report and exports.

A run has its own `suspects.parquet`; for a file it is next to it: `photo.suspects.parquet` for `photo.npz`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import check_unique
from hardsight.errors import FileError, first_line
from hardsight.files.parquet import open_parquet, read_parquet, table_notes
from hardsight.files.places import TABLE_ENDINGS, table_path

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
DUPLICATE_OF = "duplicate_of"  # id of the earlier sample that it repeats, null for none; older files do not have it
CANNOT_TELL = "cannot tell"
FAR = "distance_to_tenth"  # column of scores: to the tenth nearest sample, where there are no labels to rank by
MOST_WARNINGS = 20  # that are shown


def read_suspects(path: Path) -> pa.Table | None:
    """The suspects of a run directory or a file, with ids as strings; None if there are none."""
    file = table_path(path, "suspects")
    return checked_suspects(read_parquet(file), str(file)) if file.is_file() else None


def checked_suspects(table: pa.Table, file: str) -> pa.Table:
    """The columns of a table of suspects, with ids as strings; `file` names it in an error."""
    kinds = {"id": pa.string(), **{column.name: column.type for column in SUSPECTS}, DUPLICATE_OF: pa.string()}
    missing = [name for name in kinds if name not in table.column_names and name != DUPLICATE_OF]
    if missing:
        raise FileError(f"{file}: not written by hardsight clean: it has no column {missing[0]}. Remove or rename it.")
    schema = pa.schema([(name, kind) for name, kind in kinds.items() if name in table.column_names], table.schema.metadata)
    try:
        table = table.select(schema.names).cast(schema).combine_chunks()
    except pa.ArrowException as error:
        raise FileError(f"{file}: not written by hardsight clean: {first_line(error)}. Remove or rename it.") from error
    _check(file, table)
    return table


def as_scores(suspects: pa.Table) -> pa.Table:
    """The samples of a table of suspects as a table of scores, with their given labels."""
    return suspects.select(["id", "given_label", "predicted_label"]).rename_columns(["id", "label", "predicted"])


def _check(file: str, table: pa.Table) -> None:
    """Check that ids are unique and verdicts are known."""
    check_unique(table.column("id"), str(file))
    verdicts = table.column("verdict").drop_null()
    unknown = verdicts.filter(pc.invert(pc.is_in(verdicts, value_set=pa.array(VERDICTS))))
    if len(unknown):
        raise FileError(f"{file}: unknown verdict {unknown[0].as_py()!r:.80}; verdicts are {', '.join(VERDICTS)}.")


def suspects_notes(suspects: pa.Table) -> dict[str, Any]:
    """What `hardsight clean` noted of all samples: the expected errors, warnings, how a table was opened; empty if nothing."""
    return table_notes(suspects.schema)


def _notes_next_to(path: Path) -> dict[str, Any]:
    """The notes of the suspects of a run directory or a file, from the footer alone."""
    file = table_path(path, "suspects")
    if not file.is_file():
        return {}
    with open_parquet(file) as opened:
        return table_notes(opened.schema_arrow)


def clean_columns(path: Path) -> dict[str, Any] | None:
    """Which columns of a wide table `hardsight clean` was told to take, as keywords of `Snapshot.open`; None for other files."""
    columns = _notes_next_to(path).get("columns") if path.is_file() and path.suffix.lower() in TABLE_ENDINGS else None
    if not isinstance(columns, dict):
        return None
    named = {"features": columns.get("features"), "labels": columns.get("label")}
    return named if all(isinstance(name, str | None) for name in named.values()) else None


def clean_class_names(path: Path) -> list[str] | None:
    """The class names that `hardsight clean` knew; None if it knew none."""
    names = _notes_next_to(path).get("class_names")
    return names if isinstance(names, list) and names and all(isinstance(name, str) for name in names) else None


def noted_warnings(notes: Mapping[str, Any]) -> list[str]:
    """The sentences that a person must read before the suspects."""
    warnings = notes.get("warnings")
    return [text for text in warnings if isinstance(text, str)][:MOST_WARNINGS] if isinstance(warnings, list) else []


def precision_in_words(precision: Any) -> str:
    """How many of the flagged labels are wrong, after a comma; empty where it cannot be told.

    Example:
        >>> precision_in_words(0.72), precision_in_words(None)
        (', about 7 of 10 expected to be wrong', '')
    """
    if not isinstance(precision, float):
        return ""
    tenths = round(10 * precision)
    return f", {'more than 9' if tenths == 10 else f'about {tenths}'} of 10 expected to be wrong"


def count_in_words(notes: Mapping[str, Any]) -> str:
    """How many labels are expected to be wrong, with the interval, and what that rests on; empty where it is not known.

    Example:
        >>> count_in_words({"expected_errors": 7.4, "expected_errors_low": 4.0, "expected_errors_high": 11.2})
        'Labels expected to be wrong: about 7 (95 % interval 4 to 11).'
    """
    try:
        errors, low, high = (float(notes[f"expected_errors{end}"]) for end in ("", "_low", "_high"))
    except (KeyError, TypeError, ValueError):
        return ""
    if not math.isfinite(errors + low + high):
        return ""
    words = f"Labels expected to be wrong: about {errors:,.0f} (95 % interval {low:,.0f} to {high:,.0f})."
    if notes.get("certainty") == CANNOT_TELL:
        words = f"Cannot tell how many labels are wrong: between {low:,.0f} and {high:,.0f}."
    flagged, precision, rests_on = (notes.get(name) for name in ("flagged", "precision", "rests_on"))
    if isinstance(flagged, int) and flagged:
        words = f"{words} Flagged: {flagged:,}{precision_in_words(precision)}."
    return f"{words} {rests_on}" if isinstance(rests_on, str) and rests_on else words
