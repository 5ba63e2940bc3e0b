"""`score`: a snapshot in, the scores table out, batch by batch.

Row scores take one pass over the rows. Dataset scores take an extra pass first, to see all rows, and reference scores one over
the reference. Other inputs of a score (a run's epochs, other models, layers, checkpoints) are read beforehand and joined by id
or row.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_count, given_probs, to_numpy, widened
from hardsight.errors import InputError
from hardsight.files.epochs import Stories, has_dynamics, recorded
from hardsight.files.samples import Batch
from hardsight.files.wide_tables import take_apart
from hardsight.head import Head
from hardsight.result import ScoresTable
from hardsight.scores import SCORES
from hardsight.scores.probabilities import sweep_probs
from hardsight.scores.registry import Fitted, Score, norms_only, not_linear, values
from hardsight.scores.sweep import Sweep, sweep, sweep_logits
from hardsight.scores.terms import ANGLES, LOGITS, NEAREST, NONFINITE, NONFINITE_LOGIT, OK, ZERO
from hardsight.scoring.checkpoints import GradientVariance, kept_epochs, trained_on
from hardsight.scoring.extra_inputs import Beside, Depths, SeveralModels, layers_of
from hardsight.scoring.fitted_head import heads_with_every_class
from hardsight.scoring.run_images import pictures_of
from hardsight.scoring.samples import path_of
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.table import Summary, TableWriter, as_hardness
from hardsight.threads import even_rows
from hardsight.unique_ids import SeenIds
from hardsight.version import VERSION

MISSING, UNLABELED, ALL_ZERO, ALL_PI = "missing_feature", "unlabeled", "all_angles_zero", "all_angles_pi"
NONFINITE_PROBABILITY = "nonfinite_probability"
UNSCORED = (NONFINITE, NONFINITE_LOGIT, NONFINITE_PROBABILITY, MISSING, ZERO)  # such rows have no scores
CROSS_VALIDATED = "linear, cross-validated: each sample scored by a head that was not fitted to it"
OF_ALL_ROWS = ("dataset", "layers", "checkpoints")  # scopes in which a value depends on other rows

Values = Callable[[Batch, Any, Sweep], np.ndarray]  # a batch, its features and its sweep -> (b,)


def score(
    source: Any = None,
    head: Any = None,
    labels: Any = None,
    *,
    features: Any = None,
    bias: Any = None,
    logits: Any = None,
    probs: Any = None,
    pred_probs: Any = None,
    ids: Any = None,
    class_names: list[str] | None = None,
    scores: str | Sequence[str] | None = None,
    limit: int | None = None,
    first: int | None = None,
    shard: tuple[int, int] | str | None = None,
    strict: bool = False,
    allow_duplicates: bool = False,
    reference: Any = None,
    models: Any = None,
    images: Any = None,
    hardness: bool = False,
    progress: Progress | None = None,
) -> ScoresTable:
    """Score every sample: one row per sample, with id, label, predicted, status and one column per score.

    Args:
        source: (n, d) inputs of the last linear layer; a `Snapshot`, or the path of one; or a table: a pandas or polars
            frame, an Arrow table, a Hugging Face dataset, a .csv file.
        head: a `Head`, an `nn.Linear`, the (c, d) weight of a linear head, or a fitted scikit-learn linear classifier or
            pipeline. Without one, a head is fitted by cross-validation.
        labels: (n,) class numbers or names; -1 or null for unlabeled. For a table, the name of a column.
        features: feature columns of the table, as names or patterns: "f*". Or the features themselves, as a keyword.
        bias: (c,) for a weight array.
        logits, probs: (n, c) instead of features, for the scores of the confidence family. `pred_probs` is an alias of
            `probs`.
        ids: (n,) unique strings or integers, or the name of a column. Default: the index of a pandas frame, or row numbers.
        class_names: (c,) class names, to which named labels are matched.
        scores: names from `SCORES`, "all", or None for the default row scores that the input allows.
        limit: number of rows to score, spread evenly over the data.
        first: score only the first rows.
        shard: (i, n) or "i/n" for part i of n equal parts of the rows, counted from 0.
        strict: raise an error for rows that cannot be scored instead of keeping them with their status.
        allow_duplicates: accept repeated ids.
        reference: a `Snapshot`, or the path of one, of the model's training data, to fit reference scores to.
        models: snapshots of other models on the same samples, or their paths, for `model_agreement`.
        images: the training data of the run, for `vog`. Default: the data named in its start.json.
        hardness: orient every score so that high is hard: scores whose low end is hard change sign. The table's metadata
            records this, and every reader reverts it.
        progress: called with the rows done and the total.

    pandas objects are joined by index, everything else by position. The returned table shows a summary and the hardest
    samples, and works like a `pyarrow.Table`; `.arrow` is that table.

    Example:
        >>> table = score(np.array([[2.0, 0.0], [1.0, 1.0]]), np.eye(2), [0, 0], scores=["avh", "angular_gap"])
        >>> table.select(["id", "predicted", "avh"]).to_pylist()
        [{'id': 0, 'predicted': 0, 'avh': 0.0}, {'id': 1, 'predicted': 0, 'avh': 0.5}]
    """
    snapshot = Snapshot.open(
        source, head, labels, features=features, bias=bias, logits=logits, probs=given_probs(probs, pred_probs), ids=ids,
        class_names=class_names, allow_duplicates=allow_duplicates or None,
    )  # fmt: skip
    _check_evidence(snapshot)
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of the rows done and the total, got {progress!r}.")
    further = Beside.opened(snapshot, reference, models, images)
    if limit is not None:
        n = len(snapshot) if first is None else min(len(snapshot), check_count(first, "first"))
        snapshot = snapshot.of_rows(even_rows(n, check_count(limit, "limit")))
    job = Job(snapshot, scores, first, shard, strict, allow_duplicates, further)
    parts = list(job.parts(progress))
    table = pa.concat_tables(parts) if parts else job.schema.empty_table()
    table = as_hardness(table) if hardness else table
    scored = ScoresTable(table, snapshot.class_names, pictures_of(snapshot, images), num_classes=snapshot.num_classes)
    scored.features = snapshot.source.note
    return scored


def _check_evidence(snapshot: Snapshot) -> None:
    """One kind of evidence, to score by."""
    if snapshot.source.evidence == SCORES_ALONE:
        raise InputError(f"{snapshot.where}: this is a table of scores: pass the features it was computed from.")
    if snapshot.others:
        both = " and ".join([snapshot.source.evidence, *snapshot.others])
        raise InputError(f"scores are of one of features, logits or probs, got {both}.")


def of_table(table: Any, features: Any, options: dict[str, Any]) -> Snapshot:
    """The snapshot of a wide table; keywords name the feature columns, labels, ids, a head and so on."""
    options = {name: value for name, value in options.items() if value is not None}
    if features is None:
        if {"predicted", "status"} <= set(map(str, getattr(table, "column_names", None) or table.columns)):
            raise InputError("this is a table of scores: pass the features it was computed from, or name some of its columns.")
        return Snapshot(table, **options)
    wide = take_apart(table, features, options.pop("labels", None), options.pop("ids", None))
    names, columns = options.pop("class_names", None) or wide.class_names, {**wide.columns, **options.pop("columns", {})}
    own = {wide.evidence: wide.values, "labels": wide.labels, "ids": wide.ids, "columns": columns, "class_names": names}
    snapshot = Snapshot(**options, **own)
    snapshot.source.note = wide.note
    return snapshot


@dataclass(frozen=True)
class FoldHeads:
    """Fitted heads, and which of them scores each row: one that was not fitted to it."""

    heads: list[Head]
    fold_of: np.ndarray  # (n,)


@dataclass(frozen=True)
class Job:
    """A scoring job: which rows, which scores, how strict. `parts` computes the table, `schema` has its columns."""

    snapshot: Snapshot
    scores: str | Sequence[str] | None = None
    first: int | None = None
    shard: tuple[int, int] | str | None = None
    strict: bool = False
    allow_duplicates: bool = False
    beside: Beside = Beside()
    fold_heads: FoldHeads | None = None  # instead of fitting heads, if there is none

    @property
    def headless(self) -> bool:
        """Whether there are features but no head."""
        return self.snapshot.head is None and self.snapshot.source.evidence == "features"

    @functools.cached_property
    def of_features_alone(self) -> bool:
        """Whether there are no labels to fit a head to, and no requested score needs one: nothing is predicted."""
        if not self.headless or self.snapshot.source.labeled or not self.chosen:
            return False
        return not any(score.terms or score.labels for score in self.chosen)

    @property
    def cross_validated(self) -> bool:
        """Whether there is no head, so that one is fitted by cross-validation."""
        return self.headless and not self.of_features_alone

    @functools.cached_property
    def run(self) -> Path | None:
        """The run directory of the snapshot, if it has one."""
        path = path_of(self.snapshot)
        return path if path is not None and path.is_dir() else None

    @functools.cached_property
    def run_with_dynamics(self) -> Path | None:
        """The run directory, if it has dynamics of the samples."""
        return self.run if has_dynamics(self.run) else None

    @functools.cached_property
    def chosen(self) -> list[Score]:
        """The requested scores, or the default row scores that the input allows."""
        if self.scores is None and not self.snapshot.source.of_epochs:
            return [score for score in SCORES.values() if score.default and self._obstacle(score) is None]
        if self.scores is None or (isinstance(self.scores, str) and self.scores.strip() == "all"):
            run = self.run_with_dynamics
            slow = () if self.beside.images is not None else ("checkpoints",)  # gradients of all images: if asked for
            possible = [score for score in SCORES.values() if score.scope not in slow and self._obstacle(score) is None]
            chosen = [score for score in possible if run is None or recorded(run, score)]
        else:
            names = list(dict.fromkeys(_names(self.scores)))
            unknown = [name for name in names if name not in SCORES]
            if unknown:
                raise InputError(SCORES.refusal(unknown[0]))
            chosen = [SCORES[name] for name in names]
            for obstacle in map(self._obstacle, chosen):
                if obstacle is not None:
                    raise InputError(obstacle)
        if self.shard is not None and any(score.scope in OF_ALL_ROWS for score in chosen):
            raise InputError("dataset scores need all rows and are not available for a single shard.")
        return chosen

    def _obstacle(self, score: Score) -> str | None:
        """Why a score cannot be computed from this input, in one line; None if it can."""
        name, source, head = score.name, self.snapshot.source, self.snapshot.head
        if score.scope in ("dynamics", "layers", "checkpoints"):
            return self._missing_in_run(score)
        if source.of_epochs:
            return f"{name} is of one model, and {self.snapshot.name} holds the epochs of a training alone: score its features."
        if score.scope == "models":
            if not self.beside.models:
                return f"{name} compares several models: pass the runs of the others with --models RUN2,RUN3."
            return f"{name} needs the probabilities of a model: a head, logits or probs." if self.headless else None
        if score.scope == "reference" and self.beside.reference is None:
            return f"{name} is fitted to another snapshot: pass the model's training data with --reference TRAIN."
        if source.evidence != "features" and not score.from_logits():
            return f"{name} cannot be computed from {source.evidence}: it needs features and a head."
        if source.evidence == "probs" and score.needs_logits:
            return f"{name} cannot be computed from probs: it needs logits, which probs determine only up to a constant."
        if score.linear and head is not None and head.kind != "linear":
            return not_linear(name, head.kind)
        if score.scope == "reference" and score.terms and head is None:
            return f"{name} needs a head, but there is none."
        if score.fit is not None and score.fit(head).labels:
            if score.scope == "reference" and not (self.beside.reference and self.beside.reference.source.labeled):
                return f"{name} is fitted to labeled samples, but the reference has no labels."
            if score.scope == "dataset" and not source.labeled:
                return f"{name} is fitted to labeled samples, but there are no labels."
        return None

    def _missing_in_run(self, score: Score) -> str | None:
        """What a score needs from a run that the run does not have."""
        name, where = score.name, self.snapshot.name or "this snapshot"
        has = f"{self.snapshot.name} has" if self.snapshot.name else "arrays have"
        if score.scope == "dynamics" and self.run_with_dynamics is None:
            return f"{name} needs training dynamics, but {has} none: score a run of hardsight train."
        if score.scope == "layers" and not layers_of(self.run):
            return f"{name} needs the features of several layers, but {has} none: hardsight extract --layers a,b,c stores them."
        if score.scope == "layers" and not self.snapshot.whole:
            return f"{name} needs consecutive samples: use --first instead of --limit."
        if score.scope == "layers" and self.headless:
            return f"{name} needs the network's predictions, but {where} has no head."
        if score.scope == "checkpoints" and len(kept_epochs(self.run)) < 2:
            return f"{name} needs a model at several epochs, but {has} none: hardsight train --keep-epochs stores them."
        if score.scope == "checkpoints" and self.beside.images is None and trained_on(self.run) is None:
            return f"{name} needs the images that {where} was trained on: pass them with --images DATA."
        return None

    @functools.cached_property
    def rows(self) -> range:
        """The rows of this job."""
        n = len(self.snapshot)
        n = n if self.first is None else min(n, check_count(self.first, "first"))
        if self.shard is None:
            return range(n)
        index, count = _shard(self.shard)
        return range(n * index // count, n * (index + 1) // count)

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """Columns of the table; notes go into its metadata."""
        ids = self.snapshot.source.id_type
        notes: dict[str, Any] = {
            "version": VERSION,
            "head": CROSS_VALIDATED if self.cross_validated else getattr(self.snapshot.head, "kind", None),
        }
        if self.snapshot.class_names is not None:
            notes["class_names"] = self.snapshot.class_names
        fixed = [("id", ids), ("label", pa.int64()), ("predicted", pa.int64()), ("status", pa.string())]
        columns = [*fixed, *((score.name, pa.float64()) for score in self.chosen)]
        return pa.schema(columns, metadata={"hardsight": json.dumps(notes)})

    def parts(self, progress: Progress | None = None) -> Iterator[pa.Table]:
        """The table, piece by piece, in row order. Fails at the end if an id is repeated."""
        chosen, rows = self.chosen, self.rows
        fitted: dict[str, Fitted] = {score.name: score.fit(self.snapshot.head) for score in chosen if score.fit is not None}
        of_all = [fitted[score.name] for score in chosen if score.scope == "dataset"]
        rounds = 2 if of_all else 1
        seen_ids = SeenIds()
        heads = self.fold_heads or self.fit_heads() if self.cross_validated and len(rows) else None
        self._fit_to_reference([fitted[score.name] for score in chosen if score.scope == "reference"])
        if of_all:
            for batch in self.snapshot.batches(rows.start, rows.stop):
                x, swept = self._sweep(batch, self.terms, heads)
                for dataset_score in of_all:
                    dataset_score.see(x, swept)
                if progress is not None:
                    progress(batch.start + len(batch) - rows.start, rounds * len(rows))
        done = (rounds - 1) * len(rows)

        def seen(batch: Batch) -> None:
            nonlocal done
            seen_ids.add(batch.ids)
            done += len(batch)
            if progress is not None:
                progress(done, rounds * len(rows))

        values_of = {name: _of_fitted(score) for name, score in fitted.items()} | self._looked_up(progress)
        for piece in self.pieces():
            yield self.part(piece, values_of, heads, seen)
        if not self.allow_duplicates:
            seen_ids.refuse_repeated(self.ids, self.snapshot.name or "ids", rows.start)

    def ids(self) -> np.ndarray:
        """(n,) ids of the rows of this job."""
        return np.concatenate([np.asarray(batch.ids) for batch in self.snapshot.batches(self.rows.start, self.rows.stop)])

    def _fit_to_reference(self, scores: list[Fitted]) -> None:
        """Fit reference scores to every batch of the reference."""
        reference = self.beside.reference
        if reference is None or not scores:
            return
        head = reference.head or self.snapshot.head
        terms: frozenset[str] = frozenset().union(*(score.terms for score in scores))
        for batch in reference.batches():
            swept = norms_only(batch.values, batch.labels)
            if terms:
                assert head is not None
                swept = sweep(batch.values, head, np.full(len(batch), -1), terms)
                swept = replace(swept, labels=batch.labels)
            for score in scores:
                score.see(batch.values, swept)

    def _looked_up(self, progress: Progress | None) -> dict[str, Values]:
        """The scores that are read or computed outside the passes over the rows, by name."""
        values_of: dict[str, Values] = {}
        dynamic = [score for score in self.chosen if score.scope == "dynamics"]
        if dynamic and self.run_with_dynamics is not None:
            stories = Stories(self.run_with_dynamics, dynamic)
            values_of |= {score.name: self._of_story(stories, score) for score in dynamic}
        for score in self.chosen:
            if score.scope == "models":
                several = SeveralModels(self.snapshot, self.beside.models, self.rows)
                values_of[score.name] = several.agreement
            elif score.scope == "layers":
                assert score.k is not None
                values_of[score.name] = Depths(layers_of(self.run), self._labels(), self.rows, score.k).of
            elif score.scope == "checkpoints":
                assert self.run is not None
                samples = self.snapshot.columns(["id", "label"]).slice(self.rows.start, len(self.rows))
                values_of[score.name] = GradientVariance(self.run, self.beside.images, samples, progress).of
        return values_of

    def _of_story(self, stories: Stories, score: Score) -> Values:
        return lambda batch, x, rows: stories.of(score, pa.array(batch.ids, type=self.snapshot.source.id_type))

    def _labels(self) -> np.ndarray:
        """(n,) labels of the rows of this job, -1 for unlabeled."""
        labels = self.snapshot.columns(["label"]).column("label").slice(self.rows.start, len(self.rows))
        return np.asarray(labels.fill_null(-1).to_numpy(), np.int64)

    def write(self, parts: Iterable[pa.Table], output: str | os.PathLike[str], summary: Summary) -> None:
        """Write pieces of the table as they are computed, and summarize them; the file appears when complete."""
        pieces = iter(parts)
        first = list(itertools.islice(pieces, 1))  # its schema says whether scores changed sign
        with TableWriter(output, first[0].schema if first else self.schema) as writer:
            for part in itertools.chain(first, pieces):
                writer.write(part)
                summary.add(part)

    def part(
        self,
        piece: range,
        values_of: dict[str, Values] | None = None,
        heads: FoldHeads | None = None,
        seen: Callable[[Batch], None] = lambda batch: None,
    ) -> pa.Table:
        """One piece of the table. With a given head, row scores need only the piece, so it can be scored anywhere."""
        tables = []
        for batch in self.snapshot.batches(piece.start if heads else self._batch_start(piece.start), piece.stop):
            x, swept = self._sweep(batch, self.terms, heads)
            if (lead := piece.start - batch.start) > 0:
                batch, x, swept = batch.since(lead), x[lead:], swept.since(lead)
            tables.append(self._table(batch, x, swept, values_of or {}))
            seen(batch)
        return pa.concat_tables(tables).combine_chunks()

    def _batch_start(self, row: int) -> int:
        """The first row of a row's batch when all rows are scored.

        The rounding of a matrix product depends on a row's position in the batch, so a shard that starts within a batch also
        sweeps the rows before it: joined shards equal the whole table to the last bit.
        """
        if self.shard is None:
            return row
        start = next(piece.start for piece in self.snapshot.pieces() if row in piece)
        return row - (row - start) % self.snapshot.batch_rows

    def pieces(self) -> list[range]:
        """The rows of this job, split where the snapshot is."""
        rows = self.rows
        cut = (range(max(piece.start, rows.start), min(piece.stop, rows.stop)) for piece in self.snapshot.pieces())
        return [piece for piece in cut if len(piece)]

    @functools.cached_property
    def terms(self) -> frozenset[str]:
        """What the sweep must compute for the chosen scores, and for `predicted`."""
        return frozenset() if self.of_features_alone else frozenset({LOGITS}).union(*(score.terms for score in self.chosen))

    def _table(self, batch: Batch, x: Any, swept: Sweep, values_of: dict[str, Values]) -> pa.Table:
        """One batch, swept, as rows of the table."""
        status = _status(swept, batch, self.terms, self.snapshot.source.evidence)
        self._refuse_if_strict(status, batch)
        columns = {
            score.name: values(score, swept) if score.of is not None else values_of[score.name](batch, x, swept)
            for score in self.chosen
        }
        return _as_table(batch, swept, status, columns, self.schema)

    def _sweep(self, batch: Batch, terms: frozenset[str], heads: FoldHeads | None) -> tuple[Any, Sweep]:
        evidence = self.snapshot.source.evidence
        if evidence != "features":
            if evidence == "logits":
                return batch.values, sweep_logits(widened(batch.values), batch.labels, terms)
            try:
                return batch.values, sweep_probs(batch.values, batch.labels, terms)
            except InputError as error:
                raise InputError(f"{self.snapshot.name or 'probs'}: {error}") from error
        if self.of_features_alone:
            return batch.values, replace(norms_only(batch.values, None), predicted=np.full(len(batch), -1))
        if heads is None:
            assert self.snapshot.head is not None
            try:
                return batch.values, sweep(batch.values, self.snapshot.head, batch.labels, terms)
            except InputError as error:  # a class vector without a direction
                raise InputError(f"{self.snapshot.name}: {error}" if self.snapshot.name else str(error)) from error
        whole: Sweep | None = None
        for fold, head in enumerate(heads.heads):  # each row with the head that did not see it
            mine = np.flatnonzero(heads.fold_of[batch.start - self.rows.start :][: len(batch)] == fold)
            if len(mine):
                part = sweep(to_numpy(batch.values)[mine], head, batch.labels[mine], terms)
                whole = _scatter(whole, part, mine, len(batch))
        assert whole is not None
        return batch.values, replace(whole, labels=batch.labels, num_classes=heads.heads[0].num_classes)

    def fit_heads(self) -> FoldHeads:
        """Heads fitted to the rows of this job by cross-validation."""
        if not self.snapshot.source.labeled:
            name = f"{self.snapshot.name}: " if self.snapshot.name else ""
            raise InputError(f"{name}features alone cannot be scored: pass a head, or labels to fit one to.")
        everything = self.snapshot.in_memory(self.rows.start, self.rows.stop)
        fold_of = np.zeros(len(self.rows), dtype=np.int64)
        heads: list[Head] = []
        try:
            for at, head in heads_with_every_class(to_numpy(everything.values), everything.labels):
                fold_of[at] = len(heads)
                heads.append(head)
        except InputError as error:
            raise InputError(f"{self.snapshot.name}: {error}" if self.snapshot.name else str(error)) from error
        return FoldHeads(heads, fold_of)

    def _refuse_if_strict(self, status: np.ndarray, batch: Batch) -> None:
        bad = np.flatnonzero((status != OK) & (status != UNLABELED))
        if self.strict and len(bad):
            (name,) = batch.ids[bad[:1]].tolist()
            raise InputError(
                f"{self.snapshot.name or 'input'}: row {batch.start + bad[0]} (id {name!r}) cannot be scored: "
                f"{status[bad[0]]}. Fix or drop it, or omit strict to keep such rows with their status."
            )


def _names(scores: Any) -> list[str]:
    """Score names, from comma-separated text or any iterable."""
    names = scores.split(",") if isinstance(scores, str) else scores
    if isinstance(names, (set, frozenset, bytes)) or not hasattr(names, "__iter__"):
        raise InputError(f'scores must be a list of names, text such as "avh,loss", or "all", got {scores!r}.')
    names = list(names)
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise InputError(f"scores must be names, but {odd[0]!r} is not; choose from {', '.join(SCORES)}, or all.")
    return [name.strip() for name in names]


def _shard(shard: Any) -> tuple[int, int]:
    """(i, n), also from the text i/n."""
    if isinstance(shard, str) and re.fullmatch(r"-?[0-9]{1,18}/-?[0-9]{1,18}", shard):
        shard = tuple(int(number) for number in shard.split("/"))
    if not (isinstance(shard, (tuple, list)) and len(shard) == 2):
        raise InputError(f"shard must look like 0/4, or (0, 4) in Python, got {shard!r}.")
    index, count = (check_count(number, "each number of a shard", -(2**63)) for number in shard)
    if not 0 <= index < count:
        raise InputError(f"a shard is i/n with i from 0 to n - 1, got {index}/{count}.")
    return index, count


def _status(swept: Sweep, batch: Batch, terms: frozenset[str], evidence: str) -> np.ndarray:
    """Why a row has null scores, or "ok"."""
    status = swept.status
    if evidence == "probs":
        status[status == NONFINITE_LOGIT] = NONFINITE_PROBABILITY
    if batch.missing is not None:
        status[batch.missing] = MISSING
    fine = status == OK
    if terms & {ANGLES, NEAREST}:
        status[fine & (swept.angle_sum == 0)] = ALL_ZERO
        status[fine & (swept.angle_sum >= swept.num_classes * np.pi * (1 - 1e-15))] = ALL_PI
    status[(status == OK) & ~swept.labeled] = UNLABELED
    return status


def _of_fitted(fitted: Fitted) -> Values:
    def of(batch: Batch, x: Any, swept: Sweep) -> np.ndarray:
        values = fitted.of(x, swept)
        return np.where(swept.ok & np.isfinite(values), values, np.nan)

    return of


def _scatter(whole: Sweep | None, part: Sweep, at: np.ndarray, n: int) -> Sweep:
    """Copy the rows of a part to their positions in a sweep of n rows."""
    names = [name for name in vars(part) if name not in ("num_classes", "precision", "more")]

    def put(values: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        array = np.empty(n, dtype=values.dtype) if before is None else before
        array[at] = values
        return array

    arrays = {name: put(getattr(part, name), None if whole is None else getattr(whole, name)) for name in names}
    more = {term: put(values, None if whole is None else whole.more[term]) for term, values in part.more.items()}
    return Sweep(part.num_classes, part.precision, **arrays, more=more)


def _as_table(batch: Batch, swept: Sweep, status: np.ndarray, columns: dict[str, np.ndarray], schema: pa.Schema) -> pa.Table:
    scored = np.isin(status, UNSCORED, invert=True)
    arrays = [
        pa.array(batch.ids, type=schema.field("id").type),
        pa.array(batch.labels, mask=batch.labels < 0),
        pa.array(swept.predicted, mask=~scored | (swept.predicted < 0)),
        pa.array(status, type=pa.string()),
        *(pa.array(column, mask=np.isnan(column)) for column in columns.values()),
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
