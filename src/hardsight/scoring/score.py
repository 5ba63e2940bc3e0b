"""`score`: from anything that a snapshot opens to the scores table. Every step is a call, in order:

    the samples, opened                     snapshot/
    what some scores need beside them       here
    which scores of which rows              job.py, first half
    their values, batch by batch            job.py, second half; then scopes.py
    the table, in memory or in a file       here
    what is printed of it                   `ScoresTable` in result.py

Next: job.py, scopes.py, then below: parts are scored while they are written, by `TableWriter` of table.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from hardsight.data.run_images import pictures_of
from hardsight.errors import InputError, did_you_mean
from hardsight.files.places import Place
from hardsight.options import takes
from hardsight.result import ScoresTable, table_target
from hardsight.scoring.comparable import check_reference
from hardsight.scoring.job import CROSS_VALIDATED, Job
from hardsight.scoring.settings import ScoreSettings
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.table import LABEL_FREE, Summary, TableWriter, as_hardness, plain

if TYPE_CHECKING:
    from hardsight.option_types import ScoreOptions


@takes(ScoreSettings)
def score(
    x: Any = None,
    head: Any = None,
    labels: Any = None,
    *,
    output: str | os.PathLike[str] | None = None,
    settings: ScoreSettings | None = None,
    progress: Progress | None = None,
    **options: Unpack[ScoreOptions],
) -> ScoresTable:
    """Score every sample: one row per sample, with id, label, predicted, status and one column per score.

    Args:
        x: (n, d) inputs of the last linear layer; a `Snapshot`, or the path of one; or a table: a pandas or polars frame, an
            Arrow table, a Hugging Face dataset, a .csv file.
        head: a `Head`, an `nn.Linear`, the (c, d) weight of a linear head, a fitted scikit-learn linear classifier or pipeline,
            or a file. Without one, a head is fitted by cross-validation.
        labels: (n,) class numbers or names; -1 or null for unlabeled. For a table, the name of a column; for a path, also a file.
        output: .parquet, .csv or .json file to write piece by piece, in little memory; the table is read from it when needed.
        settings: all options as one object; each is also a keyword, see below.
        progress: called with the rows done and the total.

    pandas objects are joined by index, everything else by position. The returned table shows a summary and the hardest
    samples, and works like a `pyarrow.Table`; `.table` is that table.

    Example:
        >>> table = score([[2.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], [0, 0], scores=["avh", "angular_gap"])
        >>> table.select(["id", "predicted", "avh"]).to_pylist()
        [{'id': 0, 'predicted': 0, 'avh': 0.0}, {'id': 1, 'predicted': 0, 'avh': 0.5}]
    """
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of the rows done and the total, got {progress!r}.")
    settings = ScoreSettings.given(settings, options, head=head, labels=labels)
    inputs = (settings.head, settings.labels, settings.class_names, settings.reference, *_listed(settings.models))
    target = table_target(output, "scores", (x, *inputs))  # which is never an input
    if settings.cluster is not None and target is None:
        raise InputError("--cluster writes its parts next to the output: use -o (output= in Python).")
    snapshot = _opened(x, settings)
    job = _job(snapshot, settings)
    summary = _summary(job, settings)
    with _computed(job, target, settings, progress) as parts:  # tables, one after another
        table = _kept(parts, job.schema, target, settings, summary)
    scored = ScoresTable(table, snapshot.class_names, by=settings.by, num_classes=snapshot.num_classes)
    scored.keep_summary(summary)
    scored.fitted_head = CROSS_VALIDATED if job.cross_validated else None
    return scored.set_samples(snapshot, pictures_of(snapshot, settings.images))


def _opened(x: Any, settings: ScoreSettings) -> Snapshot:
    """The samples, which must hold one kind of evidence to score by."""
    snapshot = Snapshot.open(x, **settings.keywords())
    if snapshot.source.evidence == SCORES_ALONE:
        raise InputError(f"{snapshot.where}: this is a table of scores: pass the features it was computed from.")
    if snapshot.others:
        both = " and ".join([snapshot.source.evidence, *snapshot.others])
        raise InputError(f"scores are of one of features, logits or probs, got {both}.")
    return snapshot


def _job(snapshot: Snapshot, settings: ScoreSettings) -> Job:
    """Which scores of which rows, with what some scores need beside them."""
    reference, models = _reference(snapshot, settings.reference), _models(snapshot, settings.models)
    if settings.limit is not None:
        snapshot = snapshot.selected(first=settings.first, limit=settings.limit)
    return Job(
        snapshot, settings.scores, settings.first, settings.shard, settings.strict,
        reference=reference, models=models, images=settings.images,
    )  # fmt: skip


def _reference(snapshot: Snapshot, source: Any) -> Snapshot | None:
    """The reference at a path, or a snapshot, of the same model; None for none."""
    if source is None:
        return None
    reference = _snapshot(source, "reference")
    check_reference(snapshot, reference)
    return reference


def _models(snapshot: Snapshot, sources: Any) -> tuple[Snapshot, ...]:
    """Snapshots of other models, from paths or snapshots, over the same classes."""
    others = tuple(_snapshot(source, "models").numbered_as(snapshot) for source in _listed(sources))
    for other in others:
        _check_classes(snapshot, other)
    return others


def _snapshot(source: Any, name: str) -> Snapshot:
    if isinstance(source, Snapshot):
        return source
    if isinstance(source, (str, os.PathLike)):
        return Snapshot.load(source)
    raise InputError(f"{name} must be a snapshot or the path of one, got {type(source).__name__}.")


def _listed(models: Any) -> Sequence[Any]:
    """Snapshots or paths, also from comma-separated text."""
    if models is None:
        return ()
    if isinstance(models, str):
        return [path.strip() for path in models.split(",") if path.strip()]
    return [models] if isinstance(models, (Snapshot, os.PathLike)) else list(models)


def _check_classes(snapshot: Snapshot, other: Snapshot) -> None:
    """Require probabilities over the same classes, by which models are compared."""
    name = other.name or "the other model"
    if other.source.evidence == "features" and other.head is None:
        raise InputError(f"{name} has no head: models are compared by their probabilities.")
    if snapshot.num_classes is not None and other.num_classes != snapshot.num_classes:
        raise InputError(f"{name} has {other.num_classes} classes, this model {snapshot.num_classes}: they cannot be compared.")


def _summary(job: Job, settings: ScoreSettings) -> Summary:
    """An empty summary, which ranks by the requested score: AVH, or the loss without angles."""
    columns = [score.name for score in job.chosen]
    by = settings.by or next((name for name in ("avh", "loss", *columns) if name in columns), "avh")
    if by not in columns and settings.by is not None:
        known = did_you_mean(by, columns) or f" They are: {', '.join(columns)}."
        raise InputError(f"--by {by}: it must be one of the computed scores.{known}")
    free = [score.name for score in job.chosen if not score.labels and settings.by is None]
    otherwise = next((name for name in (*LABEL_FREE, *free) if name in free), None)  # ranks unlabeled samples
    return Summary(by=by, top=settings.top, otherwise=otherwise, num_classes=job.snapshot.num_classes)


def _computed(
    job: Job, target: Place | None, settings: ScoreSettings, progress: Progress | None
) -> AbstractContextManager[Iterator[pa.Table]]:
    """The table, piece by piece: computed here, batch by batch (job.py), or on a cluster."""
    if settings.cluster is None or target is None:
        return contextlib.nullcontext(job.tables(progress))
    from hardsight.scoring.cluster import parts_on_cluster

    return parts_on_cluster(job, target, settings.cluster, progress)


def _kept(
    parts: Iterator[pa.Table], schema: pa.Schema, target: Place | None, settings: ScoreSettings, summary: Summary
) -> pa.Table | Place:
    """The parts as one table; or their summary alone; or, written as they come, a file that appears when complete.

    A table in memory is summarized when somebody asks (`ScoresTable.gathered`).
    """
    oriented = as_hardness if settings.hardness else plain
    schema, kept = oriented(schema.empty_table()).schema, []
    with contextlib.nullcontext() if target is None else TableWriter(target, schema) as writer:
        for part in map(oriented, parts):
            if writer is None and not settings.summary_only:
                kept.append(part)
                continue
            summary.add(part)
            if writer is not None:
                writer.write(part)
    return pa.concat_tables([schema.empty_table(), *kept]) if target is None else target
