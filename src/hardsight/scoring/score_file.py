"""`score_to_file`: score a snapshot on disk into a table on disk, locally or on a cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hardsight.errors import InputError, did_you_mean
from hardsight.files.class_names import read_class_names
from hardsight.files.places import Place, place
from hardsight.files.table_writing import check_table_output
from hardsight.options import takes
from hardsight.scoring.cluster import TLS, Cluster, parts_on_cluster
from hardsight.scoring.extra_inputs import Beside, listed
from hardsight.scoring.score import Job
from hardsight.scoring.settings import ScoreSettings
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.table import UNLABELED, Summary, as_hardness
from hardsight.threads import sample_rows


@dataclass(frozen=True)
class ScoredFile:
    """The path of the table, if it was written, and its summary."""

    path: Place | None
    summary: Summary
    class_names: Sequence[str] | None
    fitted_head: bool  # whether a head was fitted by cross-validation because there was none


@takes(ScoreSettings)
def score_to_file(
    snapshot: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    settings: ScoreSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ScoredFile:
    """Score a snapshot on disk, piece by piece, and write the table.

    Args:
        snapshot: a run directory, .npz, .npy, .parquet or a wide .csv; also s3://, gs:// and hdfs://.
        output: .parquet, .csv or .json. Default: scores.parquet in a run directory, if all of it is scored with the default
            scores; otherwise nothing is written.
        settings: all options as one object; each is also a keyword, see below.
        progress: called with the rows done and the total.
    """
    settings = ScoreSettings.given(settings, options)
    source = place(snapshot)
    target = _target(source, None if output is None else place(output), settings)
    names = None if settings.class_names is None else read_class_names(settings.class_names)
    opened = open_with_columns(source, settings, names)
    beside = Beside.opened(opened, settings.reference, settings.models, settings.images)
    if settings.limit is not None:
        opened = opened.of_rows(sample_rows(settings, len(opened)))
    job = Job(opened, settings.scores, settings.first, settings.shard, settings.strict, settings.allow_duplicates, beside)
    by = _ranked_by(job, settings.by)
    free = [score.name for score in job.chosen if not score.labels and settings.by is None]
    otherwise = next((name for name in (*UNLABELED, *free) if name in free), None)  # ranks unlabeled samples
    summary = Summary(by=by, top=settings.top, otherwise=otherwise, num_classes=opened.num_classes)
    with _computed(job, target, settings, progress) as parts:
        named = _refuse_unnamed_classes(parts, opened.class_names, summary)
        named = map(as_hardness, named) if settings.hardness else named
        if target is not None:
            job.write(named, target, summary)
        else:
            for part in named:
                summary.add(part)
    return ScoredFile(target, summary, opened.class_names, job.cross_validated)


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


def _target(source: Place, output: Place | None, settings: ScoreSettings) -> Place | None:
    """The output path, which is never an input."""
    whole = settings.scores is None and settings.all_samples and settings.shard is None
    if output is None and whole and source.is_dir() and (source / "run.json").is_file():  # not into a folder of shards
        output = source / "scores.parquet"
    if output is not None:
        options = (settings.head, settings.labels, settings.class_names, settings.reference, *listed(settings.models))
        check_table_output(output, "scores", (source, *options))
    elif settings.cluster is not None:
        raise InputError("--cluster writes its parts next to the output: use -o.")
    return output


def _ranked_by(job: Job, by: str | None) -> str:
    columns = [score.name for score in job.chosen]
    by = by or next((name for name in ("avh", "loss", *columns) if name in columns), "avh")
    if by not in columns:
        known = did_you_mean(by, columns) or f" They are: {', '.join(columns)}."
        raise InputError(f"--by {by}: it must be one of the computed scores.{known}")
    return by


def _computed(
    job: Job, target: Place | None, settings: ScoreSettings, progress: Progress | None
) -> AbstractContextManager[Iterator[pa.Table]]:
    """The table, piece by piece."""
    if settings.cluster is None or target is None:
        return contextlib.nullcontext(job.parts(progress))
    tls = TLS.given(settings.tls_ca, settings.tls_cert, settings.tls_key)
    return parts_on_cluster(job, target, Cluster(settings.cluster, tls), progress)


def _refuse_unnamed_classes(parts: Iterator[pa.Table], names: Sequence[str] | None, summary: Summary) -> Iterator[pa.Table]:
    """The parts. Without a head, the number of classes is known only after all labels have been read."""
    yield from parts
    if names is not None and len(names) < (summary.num_classes or 0):
        raise InputError(f"there must be one class name per class, got {len(names)} for {summary.num_classes} classes.")
