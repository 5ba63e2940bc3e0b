"""`audit_to_file` and `drift_to_file`: what the commands do: samples in files in, tables in files out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight.errors import FileError, InputError
from hardsight.files.parquet import read_parquet, table_notes
from hardsight.files.places import Place, missing, place, second_table, table_path
from hardsight.files.table_writing import check_table_output
from hardsight.files.writing import check_output
from hardsight.groups.audit import Audit, check_groups, find_groups
from hardsight.groups.drift import Drift, find_drift, opened
from hardsight.groups.opening import open_measured, with_class_names, with_groups
from hardsight.groups.settings import AuditFileSettings, DriftFileSettings
from hardsight.options import takes
from hardsight.scoring.score_file import open_with_columns
from hardsight.screen import Progress, brief
from hardsight.table import write_table


@dataclass(frozen=True)
class AuditedFile:
    """Where the table is, if it was written, and what is in it."""

    __repr__ = brief

    path: Path | None
    audit: Audit
    replaced: str | None = None  # what an earlier audit in this file grouped by, if that was something else


@dataclass(frozen=True)
class DriftFile:
    """Where the table is, if it was written, and what is in it."""

    __repr__ = brief

    path: Path | None
    drift: Drift


@takes(AuditFileSettings)
def audit_to_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    settings: AuditFileSettings | None = None,
    progress: Progress | None = None,
    check: Callable[[Audit], object] | None = None,
    **options: Any,
) -> AuditedFile:
    """Compare the groups of a run or a file and write the table, with each sample's groups beside it.

    Args:
        source: a run directory, a snapshot (.npz, .npy, .parquet) or a scores table (.parquet, .csv, .json).
        output: .parquet, .csv or .json. Default: audit.parquet of a run, or photo.audit.parquet beside photo.npz. Nothing if
            `limit`, `first` or `split` leave samples out.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the rows scored and the rows in all, then with the groups compared and those in all.
        check: called with what was found before anything is written; what it refuses is not written.
    """
    settings = AuditFileSettings.given(settings, options)
    path = place(source)
    whole = settings.all_samples and settings.split is None
    inputs = (path, settings.head, settings.labels, settings.class_names)
    target = _target(path, output, ("audit", "groups of an audit", "samples"), whole, inputs)
    columns_named = settings.features is not None or settings.label is not None
    files = {} if columns_named else {"head": settings.head, "labels": settings.labels}
    samples = with_groups(open_with_columns(path, settings) if columns_named else source, settings.group, **files)
    check_groups(samples, settings)
    measured = open_measured(samples, settings.by, **files, sampling=settings, progress=progress)
    audit = find_groups(with_class_names(measured, settings.class_names), settings, progress)
    if check is not None:
        check(audit)
    if target is None:
        return AuditedFile(None, audit)
    replaced = _replaced(target, audit)
    write_table(audit.table, target)
    write_table(audit.members, second_table(target, "samples"))
    return AuditedFile(target, audit, replaced)


def _replaced(target: Path, audit: Audit) -> str | None:
    """The columns of an earlier audit in the same file, if this one has others."""
    if not target.is_file() or target.suffix.lower() != ".parquet":
        return None
    before, now = (table_notes(schema).get("group") for schema in (read_parquet(target).schema, audit.table.schema))
    return None if before is None or before == now else before if isinstance(before, str) else ", ".join(before)


@takes(DriftFileSettings)
def drift_to_file(
    before: str | os.PathLike[str],
    after: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    settings: DriftFileSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> DriftFile:
    """Compare two runs or files and write what got harder, with the classes beside it.

    Args:
        before, after: a run directory, a snapshot or a scores table each.
        output: .parquet, .csv or .json. Default: drift.parquet of `after`, or beside it, unless `limit`, `first` or `split` leave
            samples out.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the rows scored and the rows in all.
    """
    settings = DriftFileSettings.given(settings, options)
    sides = place(before), place(after)
    if sides[0].resolve() == sides[1].resolve():
        raise InputError(f"{sides[0]} is given twice: drift compares two runs or files.")
    for side in sides:
        if not side.exists():  # before the other one is scored
            raise FileError(missing(side))
    whole = settings.all_samples and settings.split is None
    inputs = (*sides, settings.head, settings.class_names)
    target = _target(sides[1], output, ("drift", "what drifted", "classes"), whole, inputs)
    files: tuple[Any, Any] = (before, after)
    if settings.features is not None or settings.label is not None:
        files = open_with_columns(sides[0], settings), open_with_columns(sides[1], settings)
    drift = find_drift(*opened(*files, settings, progress), settings)
    if target is not None:
        write_table(drift.table, target)
        write_table(drift.classes, second_table(target, "classes"))
    return DriftFile(target, drift)


def _target(
    source: Place, output: str | os.PathLike[str] | None, names: tuple[str, str, str], whole: bool, inputs: Iterable[Any]
) -> Path | None:
    """Where to write, which is never over what is read. `names`: of the file, of what it holds, and of the second file."""
    name, table, second = names
    target = None if output is None else place(output)
    if target is None and whole and isinstance(source, Path) and source.exists():
        target = table_path(source, name)
    if target is None:
        return None
    if not isinstance(target, Path):
        raise InputError(f"{target}: two tables are written beside each other: give a file on this machine.")
    check_table_output(target, table, inputs)
    check_output(second_table(target, second), inputs=inputs)
    return target
