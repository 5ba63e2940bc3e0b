"""The scopes of scores: what a value depends on, what it needs, and how a job gets it. A new scope is one class here.

A job asks each scope in turn: `why_not` whether its inputs allow a score; `prepare` once, before any row; `see` every batch
first, where a value depends on all rows; then `values` of each batch. The formulas are in the room `scores/`: the last to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.errors import FileError, InputError
from hardsight.files.epochs import Stories, has_dynamics, recorded
from hardsight.files.places import Place
from hardsight.files.run import read_manifest
from hardsight.files.samples import Batch, SampleFiles
from hardsight.scores.ensembles import model_agreement
from hardsight.scores.neighbors import depth_of, neighbors_vote
from hardsight.scores.registry import Fitted, Score, norms_only, not_linear, row_values
from hardsight.scores.sweep import Sweep, sweep
from hardsight.scoring.checkpoints import gradient_variances, kept_epochs, trained_on
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.threads import blocks

if TYPE_CHECKING:
    from hardsight.scoring.job import Job

LAYERS = "layers"  # the folder of `hardsight extract --layers`: layers/00-NAME/part-00000.parquet, ...
PROBABILITIES = 2**20  # per model in memory at a time


class Scope:
    """The scores of one scope in a job."""

    on_shard: ClassVar[bool] = True  # whether some of the rows can be scored without the others
    all_rows_first: ClassVar[bool] = False  # whether it must see every row before it has a value

    def __init__(self, scores: Sequence[Score]) -> None:
        self.scores = scores

    @property
    def terms(self) -> frozenset[str]:
        """What it takes from the sweep."""
        return frozenset[str]().union(*(score.terms for score in self.scores))

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """Why a score cannot be computed from these inputs, in one line; None if it can."""
        raise NotImplementedError

    @classmethod
    def in_all(cls, score: Score, job: Job) -> bool:
        """Whether the score is one of `all`."""
        return cls.why_not(score, job) is None

    def prepare(self, job: Job, rows: range, progress: Progress | None) -> None:
        """Read or fit what the values of these rows are made of."""

    def see(self, batch: Batch, swept: Sweep) -> None:
        """See one batch, where all rows must be seen first."""

    def values(self, score: Score, batch: Batch, swept: Sweep) -> np.ndarray:
        """(b,) values of one batch, NaN where there is none."""
        raise NotImplementedError


def _why_not_one_model(score: Score, job: Job) -> str | None:
    if not job.snapshot.source.of_epochs:
        return None
    return f"{score.name} is of one model, and {job.snapshot.name} holds the epochs of a training alone: score its features."


def _why_not_swept(score: Score, job: Job) -> str | None:
    """What the sweep cannot give a score of this evidence and head."""
    evidence, head = job.snapshot.source.evidence, job.snapshot.head
    if evidence != "features" and not score.from_logits():
        return f"{score.name} cannot be computed from {evidence}: it needs features and a head."
    if evidence == "probs" and score.needs_logits:
        return f"{score.name} cannot be computed from probs: it needs logits, which probs determine only up to a constant."
    return not_linear(score.name, head.kind) if score.linear and head is not None and head.kind != "linear" else None


class RowScope(Scope):
    """Scores of one sample and the head: formulas on the sweep."""

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """Logits and probabilities do not have everything."""
        return _why_not_one_model(score, job) or _why_not_swept(score, job)

    def values(self, score: Score, batch: Batch, swept: Sweep) -> np.ndarray:
        """(b,) the formula."""
        return row_values(score, swept)


class FittedScope(Scope):
    """Scores that are fitted to samples, of this snapshot or of another."""

    fitted: dict[str, Fitted]

    def prepare(self, job: Job, rows: range, progress: Progress | None) -> None:
        """Start with nothing seen."""
        self.fitted = {score.name: score.fit(job.snapshot.head) for score in self.scores if score.fit is not None}

    def see(self, batch: Batch, swept: Sweep) -> None:
        """Fit to one batch."""
        for fitted in self.fitted.values():
            fitted.see(batch.values, swept)

    def values(self, score: Score, batch: Batch, swept: Sweep) -> np.ndarray:
        """(b,) values by what was fitted."""
        of_batch = self.fitted[score.name].values_of(batch.values, swept)
        return np.where(swept.ok & np.isfinite(of_batch), of_batch, np.nan)

    @staticmethod
    def fits_labels(score: Score, job: Job) -> bool:
        """Whether it is fitted to labeled samples."""
        return score.fit is not None and score.fit(job.snapshot.head).fits_labels


class DatasetScope(FittedScope):
    """Scores of a sample among all others."""

    on_shard = False
    all_rows_first = True

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """Some need labels."""
        obstacle = _why_not_one_model(score, job) or _why_not_swept(score, job)
        if obstacle is None and cls.fits_labels(score, job) and not job.snapshot.source.labeled:
            return f"{score.name} is fitted to labeled samples, but there are no labels."
        return obstacle


class ReferenceScope(FittedScope):
    """Scores fitted to another snapshot: `hardsight score TEST --reference TRAIN`."""

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """There must be a reference, with labels for some."""
        name, reference = score.name, job.reference
        if obstacle := _why_not_one_model(score, job):
            return obstacle
        if reference is None:
            return f"{name} is fitted to another snapshot: pass the model's training data with --reference TRAIN."
        if obstacle := _why_not_swept(score, job):
            return obstacle
        if score.terms and job.snapshot.head is None:
            return f"{name} needs a head, but there is none."
        if cls.fits_labels(score, job) and not reference.source.labeled:
            return f"{name} is fitted to labeled samples, but the reference has no labels."
        return cls._why_not_every_class(score, job)

    @staticmethod
    def _why_not_every_class(score: Score, job: Job) -> str | None:
        """Some need samples of every class: without one, the others would seem nearer than they are."""
        reference, count = job.reference, job.snapshot.num_classes
        if score.fit is None or reference is None or count is None or not score.fit(None).every_class:
            return None
        missing = np.setdiff1d(np.arange(count), reference.labels)
        what = f"{score.name} needs a reference with samples of every class"
        return f"{what}; {len(missing)} of {count} are missing, such as {missing[0]}." if len(missing) else None

    def prepare(self, job: Job, rows: range, progress: Progress | None) -> None:
        """Fit to every batch of the reference."""
        super().prepare(job, rows, progress)
        reference = job.reference
        assert reference is not None
        head = reference.head or job.snapshot.head
        terms = frozenset[str]().union(*(fitted.reference_terms for fitted in self.fitted.values()))
        for batch in reference.batches():
            swept = norms_only(batch.values, batch.labels)
            if terms:
                assert head is not None
                swept = sweep(batch.values, head, np.full(len(batch), -1), terms)
                swept = replace(swept, labels=batch.labels)
            self.see(batch, swept)


def _has(job: Job) -> str:
    return f"{job.snapshot.name} has" if job.snapshot.name else "arrays have"


class DynamicsScope(Scope):
    """Scores of a sample over the epochs of a training."""

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """The run must have recorded epochs."""
        if not has_dynamics(job.snapshot.run):
            return f"{score.name} needs training dynamics, but {_has(job)} none: score a run of hardsight train."
        return None

    @classmethod
    def in_all(cls, score: Score, job: Job) -> bool:
        """Some columns are recorded for some losses only."""
        run = job.snapshot.run
        return run is not None and has_dynamics(run) and recorded(run, score)

    def prepare(self, job: Job, rows: range, progress: Progress | None) -> None:
        """Read the epochs."""
        assert job.snapshot.run is not None
        self.stories, self.id_type = Stories(job.snapshot.run, self.scores), job.snapshot.source.id_type

    def values(self, score: Score, batch: Batch, swept: Sweep) -> np.ndarray:
        """(b,) the story of each id."""
        return self.stories.of(score, pa.array(batch.ids, type=self.id_type))


class ModelsScope(Scope):
    """Agreement of several models, whose samples may be in different orders: `--models RUN2,RUN3`."""

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """There must be other models, and probabilities of this one."""
        if obstacle := _why_not_one_model(score, job):
            return obstacle
        if not job.models:
            return f"{score.name} compares several models: pass the runs of the others with --models RUN2,RUN3."
        return f"{score.name} needs the probabilities of a model: a head, logits or probs." if job.headless else None

    def prepare(self, job: Job, rows: range, progress: Progress | None) -> None:
        """The ids of every model; each must have some of the rows."""
        self.own, self.others = job.snapshot, job.models
        self.ids = [other.columns(["id"]).column("id").combine_chunks() for other in self.others]
        wanted = self.own.columns(["id"]).column("id").slice(rows.start, len(rows)).combine_chunks()
        for number, other in enumerate(self.others):
            name, kinds = other.name or "the other model", (self.ids[number].type, self.own.source.id_type)
            if kinds[0] != kinds[1]:
                raise InputError(f"{name}: its ids are {kinds[0]}, those of this model {kinds[1]}.")
            if len(wanted) and (self._places(wanted, number) < 0).all():
                raise InputError(f"{name} has none of the ids of {self.own.name or 'this snapshot'}.")

    def values(self, score: Score, batch: Batch, swept: Sweep) -> np.ndarray:
        """(b,) agreement on each row; NaN if one of the models lacks it."""
        result = np.full(len(batch), np.nan)
        ids = pa.array(batch.ids, type=self.own.source.id_type)
        rows_of_others = [self._places(ids, number) for number in range(len(self.others))]  # (b,) each
        scored = np.flatnonzero(swept.ok & np.all([rows >= 0 for rows in rows_of_others], axis=0))
        for part in blocks(len(scored), max(1, PROBABILITIES // (self.own.num_classes or 1))):
            chosen = scored[part]
            tables = [_probabilities(self.own, to_numpy(batch.values)[chosen])]
            tables += [
                _probabilities(other, _rows(other, rows[chosen])) for other, rows in zip(self.others, rows_of_others, strict=True)
            ]
            result[chosen] = model_agreement(tables)
        return result

    def _places(self, ids: pa.Array, number: int) -> np.ndarray:
        """(b,) row of each id in another model's snapshot, -1 if it is missing."""
        return pc.fill_null(pc.index_in(ids, value_set=self.ids[number]), -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _rows(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Some rows of a snapshot's values; consecutive rows are read together."""
    if len(rows) and (np.diff(rows) == 1).all():
        return to_numpy(snapshot.in_memory(int(rows[0]), int(rows[-1]) + 1).values)
    return to_numpy(snapshot.take(rows).in_memory().values)


def _probabilities(snapshot: Snapshot, evidence: np.ndarray) -> np.ndarray:
    """(b, c) float64 probabilities from whatever a snapshot holds; NaN for rows that are not finite."""
    from scipy.special import softmax  # not needed to open a table

    evidence = evidence.astype(np.float64)
    if snapshot.source.evidence == "probs":
        return evidence
    finite = np.isfinite(evidence).all(1, keepdims=True)
    logits = np.where(finite, evidence, 0.0)
    if snapshot.source.evidence == "features":
        assert snapshot.head is not None
        logits = snapshot.head.logits(logits)
    return np.where(finite, softmax(logits, axis=1), np.nan)


class LayersScope(Scope):
    """Scores of the features of several layers, among all samples: `hardsight extract --layers`."""

    on_shard = False

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """The run must have layers, in the order of the samples, and predictions."""
        if not layers_of(job.snapshot.run):
            needs = f"{score.name} needs the features of several layers, but {_has(job)} none"
            return f"{needs}: hardsight extract --layers a,b,c stores them."
        if not job.snapshot.whole:
            return f"{score.name} needs consecutive samples: use --first instead of --limit."
        if job.headless:
            return f"{score.name} needs the network's predictions, but {job.snapshot.name or 'this snapshot'} has no head."
        return None

    def prepare(self, job: Job, rows: range, progress: Progress | None) -> None:
        """The vote of the k nearest neighbors at each layer, (layers, n) for each score."""
        self.first_row = rows.start
        self.votes: dict[str, np.ndarray] = {}
        labels = job.snapshot.labels[rows.start : rows.stop]
        for score in self.scores:
            assert score.k is not None
            layers = layers_of(job.snapshot.run).items()
            votes = [neighbors_vote(_layer(name, files, rows), labels, score.k) for name, files in layers]
            self.votes[score.name] = np.stack(votes)

    def values(self, score: Score, batch: Batch, swept: Sweep) -> np.ndarray:
        """(b,) prediction depth of each row."""
        start = batch.start - self.first_row
        return depth_of(self.votes[score.name][:, start : start + len(batch)], swept.predicted)


def layers_of(run: Place | None) -> dict[str, list[Place]]:
    """The files of each stored layer of a run, first layer first."""
    if run is None or not (run / LAYERS).is_dir():
        return {}
    names = [str(part["name"]) for part in read_manifest(run)["parts"]]
    layers: dict[str, list[Place]] = {}
    for name in sorted(name for name in names if name.startswith(f"{LAYERS}/")):
        layers.setdefault(name.split("/")[1], []).append(run / name)
    return layers


def _layer(name: str, files: list[Place], rows: range) -> np.ndarray:
    source = SampleFiles(files)
    if len(source) < rows.stop:
        raise FileError(f"{files[0]}: the layer {name} has {len(source)} rows, but {rows.stop} are needed.")
    parts = [to_numpy(batch.values) for batch in source.read(rows.start, rows.stop, max(1, len(rows)), None)]
    return np.concatenate(parts) if parts else np.zeros((0, source.width), np.float32)


class CheckpointsScope(Scope):
    """Scores of the image gradients of a model at several epochs, within a class: `hardsight train --keep-epochs`."""

    on_shard = False

    @classmethod
    def why_not(cls, score: Score, job: Job) -> str | None:
        """The run must have kept epochs, and its images must be there."""
        if len(kept_epochs(job.snapshot.run)) < 2:
            needs = f"{score.name} needs a model at several epochs, but {_has(job)} none"
            return f"{needs}: hardsight train --keep-epochs stores them."
        if job.images is None and trained_on(job.snapshot.run) is None:
            where = job.snapshot.name or "this snapshot"
            return f"{score.name} needs the images that {where} was trained on: pass them with --images DATA."
        return None

    @classmethod
    def in_all(cls, score: Score, job: Job) -> bool:
        """Gradients of all images take long: only if the images were named."""
        return job.images is not None and super().in_all(score, job)

    def prepare(self, job: Job, rows: range, progress: Progress | None) -> None:
        """Compute the gradients of every image."""
        assert job.snapshot.run is not None
        samples = job.snapshot.columns(["id", "label"]).slice(rows.start, len(rows))
        self.first_row, self.variance = rows.start, gradient_variances(job.snapshot.run, job.images, samples, progress)

    def values(self, score: Score, batch: Batch, swept: Sweep) -> np.ndarray:
        """(b,) variance of gradients of each row."""
        return self.variance[batch.start - self.first_row :][: len(batch)]


SCOPES: dict[str, type[Scope]] = {
    "row": RowScope,
    "dataset": DatasetScope,
    "dynamics": DynamicsScope,
    "reference": ReferenceScope,
    "models": ModelsScope,
    "layers": LayersScope,
    "checkpoints": CheckpointsScope,
}


def scopes_of(scores: Sequence[Score]) -> list[Scope]:
    """A fresh scope for each kind of score."""
    kinds = dict.fromkeys(score.scope for score in scores)
    return [SCOPES[kind]([score for score in scores if score.scope == kind]) for kind in kinds]
