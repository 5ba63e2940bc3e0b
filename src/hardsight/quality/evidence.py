"""What there is to judge labels by, best first.

    epochs          a run with dynamics: means over the epochs of a training, before wrong labels were memorized
    probs           probabilities that were given, taken for out-of-sample ones
    out-of-sample   features without a head, or of samples that the head was trained on: heads fitted by folds, mixed with what
                    the labels of the neighbors say
    head            the snapshot's own head, on samples that it has not seen

Probabilities are there in each case: they say which class it should be instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import as_matrix, check_labels, check_some_columns, to_numpy, widened
from hardsight.errors import InputError
from hardsight.files.epochs import Stories, has_dynamics, moments, recorded
from hardsight.head import Head
from hardsight.quality.folds import numbered, predict_by_heads
from hardsight.quality.neighbors import Nearby, enough_voters, mixed, neighbor_probs, votes_by_probs
from hardsight.quality.settings import CleanSettings
from hardsight.scores import SCORES
from hardsight.scores.probabilities import check_distributions
from hardsight.scoring.fitted_head import fewest_of_class, head_probs, usable_rows
from hardsight.scoring.samples import check_unique_ids, path_of
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.threads import blocks, share

EPOCH_SCORES = ("aum", "cartography_confidence", "cartography_correctness", "first_epoch_learned", "aldr_lambda")
RIGHT_SINCE = "right_since_learned"  # share of epochs in which the given class won, of those since it first did
BY_EPOCHS = ("epochs", "aum", "cartography_confidence", "aldr_lambda")
NUMBERS = 2**22  # features whose logits are computed together
MEMORIZED = (
    "these samples were trained on, and only the final model is known: labels that it has memorized look right to it, and more "
    "may be wrong than expected here. Clean a run with dynamics (hardsight train), or pass probabilities of networks trained by "
    "folds (hardsight.quality.out_of_sample with model=)."
)
IN_TRAINING = (
    "some of these samples are in the split 'train': if the model that gave the probabilities was trained on them, labels that "
    "it has memorized look right to it, and more may be wrong than expected here. Give out-of-sample probabilities "
    "(hardsight.quality.out_of_sample)."
)
SUSPICIOUS = (
    "the model agrees with every label. If it was trained on these samples, it may have memorized the wrong ones: "
    "give out-of-sample probabilities (hardsight.quality.out_of_sample)."
)
DOUBTFUL = (
    "{model} agree with {share} of the labels only: many of these suspects are errors of the model, not of the labels. {better}"
)
WEAK = {  # what agrees with few labels, and what to give instead, by kind of evidence
    "head": (
        "predictions of the head",
        "Give a better model, or features without a head (hardsight extract --fit-head): heads are then fitted to them.",
    ),
    "probs": ("these probabilities", "Give those of a better model, with one column per class in the order of the labels."),
    "out-of-sample": ("heads fitted to these features", "Give features of a better model, or probabilities (--probs)."),
}
JUDGES = {  # by kind of evidence: what the count rests on
    "out-of-sample": "Linear heads that were fitted without each sample agree with {share} of the labels",
    "probs": "The given probabilities agree with {share} of the labels and are taken for out-of-sample ones",
    "head": "The model agrees with {share} of the labels and is taken not to have seen them",
    "epochs": "What the network said in training agrees with {share} of the labels",
}
BY_NEIGHBORS = "since the model may know these labels, those of similar samples decide"
ENDS = "The low end counts errors spread evenly over the samples, the high end also some that look like mistakes of the model."
UNSURE = "The model is unsure of too many samples to tell wrong labels from its own mistakes: give a better model."
TOO_FEW = "There are too few samples to tell how many labels are wrong."
NONE_FINITE = "no sample can be scored: every row is all zeros, or holds a value that is not finite."
MANY = 100  # samples from which agreement says something


@dataclass(frozen=True)
class Samples:
    """n samples as they were given."""

    ids: pa.Array
    labels: np.ndarray  # (n,) int64, -1 unlabeled
    features: np.ndarray | None  # (n, d)
    probs: np.ndarray | None  # (n, c), given or of given logits
    head: Head | None
    class_names: list[str] | None = None
    splits: list[str | None] | None = None
    run: Path | None = None  # that has the dynamics of the samples
    name: str | None = None
    classes: np.ndarray | None = None  # (c,) what the classes are called in the data, where they were renumbered

    def take(self, rows: np.ndarray) -> Samples:
        """The same of some samples, or of all in another order."""
        return replace(
            self,
            ids=self.ids.take(pa.array(rows)),
            labels=self.labels[rows],
            features=None if self.features is None else self.features[rows],
            probs=None if self.probs is None else self.probs[rows],
            splits=None if self.splits is None else [self.splits[row] for row in rows],
        )

    def without_gaps(self) -> Samples:
        """Classes numbered 0 to c - 1, where the labels alone say which there are: n x c probabilities are held in memory."""
        if self.probs is not None or self.head is not None:
            return self
        classes, labels = numbered(self.labels)
        names = [str(label) if self.class_names is None else self.class_names[label] for label in classes.tolist()]
        return replace(self, labels=labels, class_names=names, classes=classes)


@dataclass(frozen=True)
class Evidence:
    """What labels are judged by: probabilities of every class, and epoch means where there are any."""

    kind: str  # epochs, probs, out-of-sample or head
    by: str  # the ranking
    probs: np.ndarray  # (n, c), NaN in rows that could not be scored
    heads: np.ndarray  # (n, c) the same without what the neighbors say
    votes: np.ndarray | None  # (n, c) what the labels of the ten nearest say; None where there are too few samples per class
    seen: bool = False  # whether the labels were trained on
    epochs: dict[str, np.ndarray] = field(default_factory=dict)  # (n,) dynamics scores by name
    warnings: tuple[str, ...] = ()

    def take(self, rows: np.ndarray) -> Evidence:
        """The same of some samples, or of all in another order."""
        return replace(
            self,
            probs=self.probs[rows],
            heads=self.heads[rows],
            votes=None if self.votes is None else self.votes[rows],
            epochs={name: column[rows] for name, column in self.epochs.items()},
        )


def order_of_ids(samples: Samples) -> np.ndarray:
    """(n,) rows in the order of their ids, which must be unique."""
    import pyarrow.compute as pc

    check_unique_ids(samples.ids.to_pylist(), samples.name or "the samples")
    return np.asarray(pc.array_sort_indices(samples.ids)).astype(np.int64)


def samples_of(snapshot: Snapshot, probs: Any = None) -> Samples:
    """What a snapshot holds, with (n, c) probabilities beside its features if there are any."""
    n = len(snapshot)
    rows, source = snapshot.in_memory(), snapshot.source
    where = f"{snapshot.name}: " if snapshot.name else ""
    if not source.labeled or (rows.labels < 0).all():
        raise InputError(f"{where}no labels to check: give labels." if n else f"{where}there are 0 samples.")
    values = to_numpy(rows.values)
    if rows.missing is not None and rows.missing.any():
        values = np.where(rows.missing[:, None], np.nan, values)
    if source.evidence == "features":
        given = None if probs is None else checked_probs(as_matrix(probs, "probs"), n, snapshot.num_classes)
    elif probs is not None:
        raise InputError(f"{where}there are {source.evidence} already: probs go beside features.")
    else:
        given = checked_probs(values, n) if source.evidence == "probs" else _softmax(values)
    if given is not None:
        check_labels(rows.labels, n, given.shape[1])
    splits = snapshot.columns(["split"]).column("split").to_pylist() if "split" in snapshot.column_names else None
    run = path_of(snapshot)
    return Samples(
        pa.array(rows.ids, type=source.id_type),
        rows.labels,
        values if source.evidence == "features" else None,
        given,
        snapshot.head,
        snapshot.class_names,
        splits if splits is not None and any(splits) else None,
        run if has_dynamics(run) else None,
        snapshot.name,
    )


def checked_probs(probs: Any, num_samples: int, num_classes: int | None = None) -> np.ndarray:
    """(n, c) probabilities, one row per sample; rows that are not finite stay so."""
    values = to_numpy(probs)
    check_some_columns(values, "probs")
    if len(values) != num_samples:
        raise InputError(f"there must be one row of probs per sample, got {len(values)} rows for {num_samples} samples.")
    if num_classes is not None and values.shape[1] != num_classes:
        raise InputError(f"probs must have one column per class, got {values.shape[1]} for {num_classes} classes.")
    check_distributions(values)
    return values


def _softmax(logits: np.ndarray) -> np.ndarray:
    from scipy.special import softmax

    return np.asarray(softmax(widened(logits).astype(np.float64), axis=1))


def best_evidence(
    samples: Samples, settings: CleanSettings, nearby: Nearby | None = None, originals: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Evidence:  # fmt: skip
    """The best that there is, or what the ranking `settings.by` needs.

    `nearby` are neighbors and (n,) `originals` the rows that stand for copies, where they were searched.
    """
    asked_for_epochs = settings.by in BY_EPOCHS
    if asked_for_epochs and samples.run is None:
        raise InputError(f"--by {settings.by} needs training dynamics, but there are none: clean a run of hardsight train.")
    by_epochs = samples.run is not None and (asked_for_epochs or settings.by is None)
    kind, heads = _probabilities(samples, settings, originals, progress)
    probs, votes = heads, None
    if nearby is not None:
        votes = neighbor_probs(nearby.rows, samples.labels, probs.shape[1])
        if kind == "out-of-sample":
            probs = mixed(heads, votes, samples.labels)
    _check_informative(probs, samples)
    labeled = samples.labels >= 0
    if not settings.neighbors or not enough_voters(samples.labels[labeled], None if originals is None else originals[labeled]):
        votes = None
    elif votes is None:
        votes = _votes_of_alike(heads, samples.labels)
    seen = _trained_on(samples) and samples.head is not None and samples.probs is None
    if by_epochs:
        columns = _epoch_columns(samples, settings.by)
        if any(np.isfinite(column).any() for column in columns.values()):
            if samples.features is None:  # means over the epochs, most of them before a label was memorized
                return Evidence("epochs", settings.by or "epochs", probs, heads, None, False, columns)
            return Evidence("epochs", settings.by or "epochs", probs, heads, votes, True, columns)
    return Evidence(kind, settings.by or "posterior", probs, heads, votes, seen, warnings=_warnings(samples, kind, heads))


def _votes_of_alike(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, c) what the labels of the samples say that are predicted most alike, NaN where there is no prediction or label."""
    known = np.flatnonzero((labels >= 0) & np.isfinite(probs).all(axis=1))
    classes, own = np.unique(labels[known], return_inverse=True)
    votes = np.full(probs.shape, np.nan)
    votes[known] = 0.0
    votes[np.ix_(known, classes)] = votes_by_probs(probs[np.ix_(known, classes)], own)
    return votes


def _probabilities(
    samples: Samples, settings: CleanSettings, originals: np.ndarray | None, progress: Progress | None
) -> tuple[str, np.ndarray]:
    """Which probabilities there are, and they themselves."""
    if samples.probs is not None:
        return "probs", samples.probs
    assert samples.features is not None
    if samples.head is not None and not _trained_on(samples):
        return "head", _of_head(samples.head, samples.features)
    try:
        predicted = predict_by_heads(
            samples.features, samples.labels, originals, folds=settings.folds, seed=settings.seed, progress=progress
        )
    except InputError as error:
        if samples.head is not None:  # a class with a single sample: no fold can do without it
            return "head", _of_head(samples.head, samples.features)
        raise InputError(f"{samples.name}: {error}" if samples.name else str(error)) from error
    if samples.head is not None and predicted.shape[1] < samples.head.num_classes:  # classes of the head without a label
        more = np.zeros((len(predicted), samples.head.num_classes - predicted.shape[1]))
        predicted = np.concatenate([predicted, more], axis=1)
    return "out-of-sample", predicted


def _of_head(head: Head, features: np.ndarray) -> np.ndarray:
    """(n, c) probabilities by a head, NaN where a row is not finite, or all zeros."""
    result = np.full((len(features), head.num_classes), np.nan)

    def work(rows: slice) -> None:
        good = rows.start + np.flatnonzero(usable_rows(features[rows]))
        with np.errstate(invalid="ignore"):
            result[good] = head_probs(head, features[good])

    share(work, blocks(len(features), max(1, NUMBERS // max(features.shape[1], head.num_classes))))
    return result


def _epoch_columns(samples: Samples, by: str | None) -> dict[str, np.ndarray]:
    """(n,) dynamics scores of the samples, by name."""
    assert samples.run is not None
    wanted = [name for name in EPOCH_SCORES if name != "aldr_lambda" or recorded(samples.run, SCORES[name])]
    if by == "aldr_lambda" and "aldr_lambda" not in wanted:
        raise InputError(f"{samples.run}: aldr_lambda is not in its dynamics; it is recorded where the loss has it: --loss aldr.")
    stories = Stories(samples.run, [SCORES[name] for name in wanted])
    columns = {name: stories.of(SCORES[name], samples.ids) for name in wanted}
    epochs = np.unique([moment.epoch for moment, _ in moments(samples.run)])  # (e,)
    columns[RIGHT_SINCE] = right_since(columns["cartography_correctness"], columns["first_epoch_learned"], epochs)
    return columns


def right_since(right: np.ndarray, first: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """Share of epochs that were right, of those since the first right one; of (n,) shares of all (e,) epochs.

    Example:
        >>> right_since(np.array([0.5, 0.5, 0.0]), np.array([3, 1, 5]), np.arange(1, 5))  # 0011, 1001 and 0000
        array([1. , 0.5, 0. ])
    """
    left = len(epochs) - np.searchsorted(epochs, first)
    return np.minimum(right * len(epochs) / np.maximum(left, 1), 1.0)


def _trained_on(samples: Samples) -> bool:
    return samples.splits is not None and "train" in samples.splits


def _warnings(samples: Samples, kind: str, probs: np.ndarray) -> tuple[str, ...]:
    warnings = []
    if _trained_on(samples) and samples.probs is None and samples.head is not None:
        warnings.append(MEMORIZED)
    if _trained_on(samples) and samples.features is None:  # probabilities beside features are out-of-sample ones
        warnings.append(IN_TRAINING)
    known = (samples.labels >= 0) & np.isfinite(probs).all(axis=1)
    if known.sum() < MANY:
        return tuple(warnings)
    agreeing = float((probs[known].argmax(axis=1) == samples.labels[known]).mean())
    if agreeing < 0.5:
        model, better = WEAK[kind]
        warnings.append(DOUBTFUL.format(model=model, share=f"{100 * agreeing:.0f} %", better=better))
    if agreeing == 1 and kind in ("probs", "head") and not warnings:
        warnings.append(SUSPICIOUS)
    return tuple(warnings)


def rests_on(evidence: Evidence, count: Any, agreement: float) -> str:
    """What the expected number of errors rests on, and what its ends mean."""
    judge = JUDGES[evidence.kind].format(share=f"{100 * agreement:.0f} %")
    if evidence.seen and evidence.votes is not None:
        judge = f"{judge}; {BY_NEIGHBORS}"
    unsure = UNSURE if count.num_samples >= MANY else TOO_FEW
    return f"{judge}. {unsure if count.certainty == 'cannot tell' else ENDS}"


def check_samples(samples: Samples) -> None:
    """Labels of two classes at least, and features that labels can be judged by. Refused before anything takes time."""
    labeled = samples.labels >= 0
    present = np.unique(samples.labels[labeled])
    where = f"{samples.name}: " if samples.name else ""
    if len(present) < 2:
        raise InputError(f"{where}wrong labels are found among two classes or more, but every label is class {present[0]}.")
    if samples.probs is not None or samples.features is None:
        return
    features = samples.features
    if len(features) > 1 and np.array_equal(features[0], features[1]) and (features == features[0]).all():
        raise InputError(f"{where}all rows of features are equal, so they say nothing of single samples: give other features.")
    usable = usable_rows(samples.features)
    if not (labeled & usable).any():
        raise InputError(where + NONE_FINITE)
    if samples.head is None:  # heads will be fitted
        try:
            fewest_of_class(samples.labels[labeled & usable])
        except InputError as error:
            raise InputError(f"{where}{error}") from error


def _check_informative(probs: np.ndarray, samples: Samples) -> None:
    """Probabilities that differ from sample to sample."""
    finite = probs[np.isfinite(probs).all(axis=1)]
    where = f"{samples.name}: " if samples.name else ""
    if len(finite) == 0:
        raise InputError(where + NONE_FINITE)
    if len(finite) > 1 and np.ptp(finite, axis=0).max() < 1e-9:
        raise InputError(
            f"{where}all rows of probabilities are equal, so they say nothing of single samples: "
            "give those of a trained model, or other features."
        )
