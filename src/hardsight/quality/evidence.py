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

import numpy as np
import pyarrow as pa

from hardsight.checks import check_labels, widened
from hardsight.errors import InputError
from hardsight.files.epochs import Stories, moments, recorded
from hardsight.head import Head
from hardsight.quality.folds import numbered, predict_by_heads
from hardsight.quality.neighbors import SAMPLE, Neighborhood, find_nearby
from hardsight.quality.settings import CleanSettings
from hardsight.scores import SCORES
from hardsight.scoring.fitted_head import NONE_FINITE, head_probs, usable_rows
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.threads import blocks, share

EPOCH_SCORES = ("aum", "cartography_confidence", "cartography_correctness", "first_epoch_learned", "aldr_lambda")
RIGHT_SINCE = "right_since_learned"  # share of epochs in which the given class won, of those since it first did
RANKINGS_OF_EPOCHS = ("epochs", "aum", "cartography_confidence", "aldr_lambda")
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
        "Give a better model, or features without a head: heads are then fitted to them.",
    ),
    "probs": ("these probabilities", "Give those of a better model, with one column per class in the order of the labels."),
    "out-of-sample": ("heads fitted to these features", "Give features of a better model, or probabilities of one."),
}
MANY = 100  # samples from which agreement says something
VOTERS = 20  # samples per class from which the labels of ten neighbors say something
TINY = 1e-12  # what a probability of zero counts as in a logarithm


@dataclass(frozen=True)
class Evidence:
    """What labels are judged by: probabilities of every class, and epoch means where there are any."""

    kind: str  # epochs, probs, out-of-sample or head
    by: str  # the ranking
    classes: np.ndarray  # (c,) class number of each column of the probabilities
    labels: np.ndarray  # (n,) column of the given class, -1 for unlabeled
    head_probs: np.ndarray  # (n, c) probabilities without what the neighbors say, NaN in rows that could not be scored
    probs: np.ndarray  # (n, c) the same mixed with the votes, if out-of-sample; `judge` puts its own where neighbors decide
    votes: np.ndarray | None = None  # (n, c) what the labels of the ten nearest say; None for too few samples per class
    neighbors_decide: bool = False  # since the model knows the labels, from its training or as `judge` finds
    epochs: dict[str, np.ndarray] = field(default_factory=dict)  # (n,) EPOCH_SCORES and RIGHT_SINCE by name, if of epochs
    warnings: tuple[str, ...] = ()

    def take(self, rows: np.ndarray) -> Evidence:
        """The same of some samples, or of all in another order."""
        labels, head_probs, probs = (array[rows] for array in (self.labels, self.head_probs, self.probs))
        votes, epochs = None if self.votes is None else self.votes[rows], {name: x[rows] for name, x in self.epochs.items()}
        return replace(self, labels=labels, head_probs=head_probs, probs=probs, votes=votes, epochs=epochs)

    @property
    def known(self) -> np.ndarray:
        """(n,) whether a sample has a label, and probabilities by the heads."""
        return (self.labels >= 0) & np.isfinite(self.head_probs).all(axis=1)

    @property
    def agreement(self) -> float:
        """Share of the labels that are the most likely class by the heads."""
        known = self.known
        return float((self.head_probs[known].argmax(axis=1) == self.labels[known]).mean()) if known.any() else 0.0


def best_evidence(
    samples: Snapshot, run: Path | None, settings: CleanSettings, near: Neighborhood | None, progress: Progress
) -> Evidence:
    """The best that there is, or what the ranking `settings.by` needs.

    `run` has the epochs of the samples, if there are any; `near` is what the samples are near to, where it was searched.
    """
    if settings.by in RANKINGS_OF_EPOCHS and run is None:
        raise InputError(f"--by {settings.by} needs training dynamics, but there are none: clean a run of hardsight train.")
    evidence = _predicted(samples, settings, near, progress)
    nearest = None if near is None else neighbor_probs(near.nearby.rows, evidence.labels, len(evidence.classes))
    if nearest is not None and evidence.kind == "out-of-sample":  # however few samples a class has
        evidence = replace(evidence, probs=mixed(evidence.head_probs, nearest, evidence.labels))
    _check_informative(evidence.probs, samples.where)
    evidence = replace(evidence, votes=_votes(evidence, near, nearest) if settings.neighbors else None)
    if run is not None and settings.by in (None, *RANKINGS_OF_EPOCHS):
        columns = _epoch_columns(run, pa.array(samples.ids, samples.source.id_type), settings.by)
        if any(np.isfinite(column).any() for column in columns.values()):
            evidence = replace(evidence, kind="epochs", by=settings.by or "epochs", epochs=columns)
            if samples.features is None:  # means over the epochs, most of them before a label was memorized
                return replace(evidence, votes=None)
            return replace(evidence, neighbors_decide=True)
    knows_labels = _trained_on(samples) and samples.head is not None and evidence.kind != "probs"
    return replace(evidence, neighbors_decide=knows_labels, warnings=_warnings(evidence, samples))


def _predicted(samples: Snapshot, settings: CleanSettings, near: Neighborhood | None, progress: Progress) -> Evidence:
    """What was given, or is said by the head; of what the head was trained on, by heads fitted without the sample."""
    by, labels, head, features = settings.by or "posterior", samples.labels, samples.head, samples.features
    given = _given_probs(samples)
    if given is not None:
        check_labels(labels, len(labels), given.shape[1])
        return Evidence("probs", by, np.arange(given.shape[1]), labels, given, given)
    assert features is not None
    if head is not None and not _trained_on(samples):
        return _by_head(head, features, labels, by)
    # Without a head the labels alone say which classes there are: n x c probabilities are held in memory.
    classes, columns = numbered(labels) if head is None else (np.arange(head.num_classes), labels)
    try:
        originals = None if near is None else near.originals
        groups = None if settings.group is None else group_numbers(samples, settings.group)
        fitting = {"folds": settings.folds, "seed": settings.seed, "progress": progress}
        heads = predict_by_heads(features, columns, originals, groups, **fitting)
    except InputError as error:
        if head is not None:  # a class with a single sample: no fold can do without it
            return _by_head(head, features, labels, by)
        raise InputError(f"{samples.where}: {error}") from error
    if heads.shape[1] < len(classes):  # classes of the head without a label
        heads = np.concatenate([heads, np.zeros((len(heads), len(classes) - heads.shape[1]))], axis=1)
    return Evidence("out-of-sample", by, classes, columns, heads, heads)


def group_numbers(samples: Snapshot, column: str) -> np.ndarray:
    """(n,) number of the group that each sample is in; a sample without one is a group of its own."""
    if column not in samples.column_names:
        there = ", ".join(name for name in samples.column_names if name not in ("id", "label"))
        raise InputError(f"{samples.where}: --group {column} is not one of its columns; it has {there or 'none'}.")
    values = samples.columns([column]).column(0).to_pylist()
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault((row,) if value is None else value, len(numbers)) for row, value in enumerate(values)])


def _given_probs(samples: Snapshot) -> np.ndarray | None:
    """(n, c) probabilities that were given, or those of given logits."""
    from scipy.special import softmax

    probs, logits = samples.probs, samples.logits
    if probs is not None or logits is None:
        return probs
    return np.asarray(softmax(widened(logits).astype(np.float64), axis=1))


def _votes(evidence: Evidence, near: Neighborhood | None, nearest: np.ndarray | None) -> np.ndarray | None:
    """(n, c) the votes to judge by: of the nearest by features, else by predictions; None for too few samples per class.

    NaN where there is no prediction or label to go by.
    """
    labels, labeled = evidence.labels, evidence.labels >= 0
    originals = None if near is None or near.originals is None else near.originals[labeled]
    voters = labeled.sum() if originals is None else len(np.unique(originals))  # copies count once
    if min(SAMPLE, voters) < VOTERS * len(np.unique(labels[labeled])):
        return None
    if nearest is not None:
        return nearest
    known = np.flatnonzero(evidence.known)
    classes, own = np.unique(labels[known], return_inverse=True)
    votes = np.full(evidence.head_probs.shape, np.nan)
    votes[known] = 0.0
    votes[np.ix_(known, classes)] = votes_by_probs(evidence.head_probs[np.ix_(known, classes)], own)
    return votes


def neighbor_probs(nearest: np.ndarray, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Shares of the classes among the labels of the neighbors, with the shares of all labels as one more: -> (n, c).

    Example:
        >>> nearest, labels = np.array([[1, 2], [0, -1], [0, 1]]), np.array([0, 0, 1])
        >>> neighbor_probs(nearest, labels, 2).round(3)
        array([[0.556, 0.444],
               [0.833, 0.167],
               [0.889, 0.111]])
    """
    known = labels >= 0
    everyone = np.bincount(labels[known], minlength=num_classes) / max(1, known.sum())  # (c,)
    votes = np.tile(everyone, (len(nearest), 1))  # (n, c)
    of_neighbor = np.where(nearest >= 0, labels[nearest], -1)  # (n, k)
    for column in of_neighbor.T:
        has = np.flatnonzero(column >= 0)
        votes[has, column[has]] += 1
    return votes / votes.sum(axis=1, keepdims=True)


def mixed(probs: np.ndarray, others: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mixture of two (n, c) predictions that gives the (n,) labels the highest likelihood, by shares of a tenth."""
    rows = np.flatnonzero((labels >= 0) & np.isfinite(probs).all(axis=1))
    first, second = probs[rows, labels[rows]], others[rows, labels[rows]]
    shares = np.linspace(0, 1, 11)
    likelihood = [np.log(np.maximum(share * first + (1 - share) * second, TINY)).mean() for share in shares]
    best = shares[int(np.argmax(likelihood))]
    return best * probs + (1 - best) * others


def votes_by_probs(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What the labels of the ten samples that are predicted most alike say: (n, c), (n,) -> (n, c).

    Alike are centered log-probabilities of nearly the same direction.
    """
    logs = np.log(np.maximum(probs, TINY))
    nearby = find_nearby(logs - logs.mean(axis=1, keepdims=True))
    return neighbor_probs(nearby.rows, labels, probs.shape[1])


def _by_head(head: Head, features: np.ndarray, labels: np.ndarray, by: str) -> Evidence:
    """What a head says, NaN where a row is not finite, or all zeros."""
    result = np.full((len(features), head.num_classes), np.nan)

    def work(rows: slice) -> None:
        good = rows.start + np.flatnonzero(usable_rows(features[rows]))
        with np.errstate(invalid="ignore"):
            result[good] = head_probs(head, features[good])

    share(work, blocks(len(features), max(1, NUMBERS // max(features.shape[1], head.num_classes))))
    return Evidence("head", by, np.arange(head.num_classes), labels, result, result)


def _epoch_columns(run: Path, ids: pa.Array, by: str | None) -> dict[str, np.ndarray]:
    """(n,) dynamics scores of the samples, by name."""
    wanted = [name for name in EPOCH_SCORES if name != "aldr_lambda" or recorded(run, SCORES[name])]
    if by == "aldr_lambda" and "aldr_lambda" not in wanted:
        raise InputError(f"{run}: aldr_lambda is not in its dynamics; it is recorded where the loss has it: --loss aldr.")
    stories = Stories(run, [SCORES[name] for name in wanted])
    columns = {name: stories.of(SCORES[name], ids) for name in wanted}
    epochs = np.unique([moment.epoch for moment, _ in moments(run)])  # (e,)
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


def _trained_on(samples: Snapshot) -> bool:
    return samples.splits is not None and "train" in samples.splits


def _warnings(evidence: Evidence, samples: Snapshot) -> tuple[str, ...]:
    warnings, kind = [], evidence.kind
    if _trained_on(samples) and kind != "probs" and samples.head is not None:
        warnings.append(MEMORIZED)
    if _trained_on(samples) and samples.features is None:  # probabilities beside features are out-of-sample ones
        warnings.append(IN_TRAINING)
    if evidence.known.sum() < MANY:
        return tuple(warnings)
    agreement = evidence.agreement
    if agreement < 0.5:
        model, better = WEAK[kind]
        warnings.append(DOUBTFUL.format(model=model, share=f"{100 * agreement:.0f} %", better=better))
    if agreement == 1 and kind in ("probs", "head") and not warnings:
        warnings.append(SUSPICIOUS)
    return tuple(warnings)


def _check_informative(probs: np.ndarray, where: str) -> None:
    """Probabilities that differ from sample to sample."""
    finite = probs[np.isfinite(probs).all(axis=1)]
    if len(finite) == 0:
        raise InputError(f"{where}: {NONE_FINITE}")
    if len(finite) > 1 and np.ptp(finite, axis=0).max() < 1e-9:
        raise InputError(
            f"{where}: all rows of probabilities are equal, so they say nothing of single samples: "
            "give those of a trained model, or other features."
        )
