"""The snapshot at a path, with the columns that options name."""

from __future__ import annotations

from typing import Any

from hardsight.errors import InputError
from hardsight.files.places import Place
from hardsight.snapshot import Snapshot


def open_with_columns(source: Place, settings: Any, class_names: list[str] | None = None) -> Snapshot:
    """The snapshot, with the options (head, labels, and those of TableColumns) applied."""
    table = source.suffix.lower() in (".csv", ".tsv", ".parquet", ".pq")
    if settings.label is not None and not table:
        raise InputError(f"--label names a column of a .csv or .parquet table, but {source} is not one; --labels takes a file.")
    if settings.features is not None and not table:
        raise InputError(f"--features names columns of a .csv or .parquet table, but {source} is not one.")
    labels = getattr(settings, "labels", None) if settings.label is None else settings.label
    head = getattr(settings, "head", None)  # mining needs none
    duplicates = getattr(settings, "allow_duplicates", False)
    options: dict[str, Any] = {"features": settings.features, "class_names": class_names, "allow_duplicates": duplicates}
    return Snapshot.load(source, head=head, labels=labels, **options)
