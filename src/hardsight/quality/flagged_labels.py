"""Why a label is flagged: it is more likely wrong than right. From the evidence to what is said of every label.

error_score      the ranking and the classes that are mixed up (ranking.py)
label_quality    1 - the probability that the label is wrong, by the heads and the neighbors (error_model.py)
is_label_issue   that probability is above one half; where there may be no error at all, only the likeliest are flagged

The evidence is chosen in evidence.py, and the words of the explanation are in verdicts.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hardsight.errors import InputError
from hardsight.quality.error_model import ErrorCount, ErrorModel, count_errors, fit_error_model, seen_in_training
from hardsight.quality.evidence import Evidence
from hardsight.quality.ranking import RANKINGS_OF_PROBS, by_epochs, estimated_noise, posterior, scores_of_labels
from hardsight.threads import thread_pool

WON = 0.25  # share of epochs: wrong labels win in fewer, as long as they are not memorized
FEW = 0.02  # of all samples: flagged at most where there may be no error at all


@dataclass(frozen=True)
class Judgment:
    """What is said of the labels of n samples, NaN where nothing can be."""

    scores: np.ndarray  # (n,) the ranking
    wrong: np.ndarray  # (n,) probability that the label is wrong
    flagged: np.ndarray  # (n,) bool, False where nothing can be said
    count: ErrorCount

    def take(self, rows: np.ndarray) -> Judgment:
        """The same of some samples, or of all in another order."""
        return Judgment(self.scores[rows], self.wrong[rows], self.flagged[rows], self.count)

    def unscored(self, labels: np.ndarray, features: np.ndarray | None) -> dict[str, int]:
        """How many samples have no error score, by why."""
        unlabeled = labels < 0
        unscored = ~np.isfinite(self.scores) & ~unlabeled
        zeros = np.zeros_like(unscored) if features is None else unscored & ~features.any(axis=1)
        counts = {"are all zeros": zeros, "could not be scored": unscored & ~zeros, "are unlabeled": unlabeled}
        return {words: int(rows.sum()) for words, rows in counts.items() if rows.any()}


def flagged(wrong: np.ndarray, count: ErrorCount) -> np.ndarray:
    """(n,) whether a label is more likely wrong than right; where there may be no error at all, only the likeliest of them.

    Example:
        >>> flagged(np.array([0.9, 0.6, 0.4]), ErrorCount(2, 1, 3, 3))
        array([ True,  True, False])
    """
    likely = wrong > 0.5
    if count.low == 0 and len(wrong):
        most = math.ceil(FEW * len(wrong))
        limit = np.sort(wrong)[-most]
        likely &= wrong >= limit if (wrong >= limit).sum() <= 2 * most + 1 else wrong > limit  # a few ties are flagged together
    return np.asarray(likely)


def judge(evidence: Evidence) -> tuple[Evidence, Judgment]:
    """What is said of the labels; and the evidence, which is that of the neighbors where the heads know wrong labels."""
    known = _known(evidence)
    labels = evidence.labels[known]
    factors, one_way = estimated_noise(evidence.probs[known], labels)
    ranking = RANKINGS_OF_PROBS.get(evidence.by, posterior)
    scores, wrong = np.full(len(known), np.nan), np.full(len(known), np.nan)
    scores[known] = scores_of_labels(evidence.probs[known], labels, ranking, factors)
    # A class that is neither a label nor predicted is no true class, either: a head may know thousands.
    classes = np.union1d(labels, evidence.head_probs[known].argmax(axis=1))
    own = np.searchsorted(classes, labels)
    heads, votes = (None if values is None else values[known][:, classes] for values in (evidence.head_probs, evidence.votes))
    assert heads is not None
    model, predictions = _fitted(evidence, heads, votes, own)
    wrong[known] = model.wrong(predictions, own)
    by_neighbors = predictions[0] is votes
    if by_neighbors:
        evidence = replace(evidence, neighbors_decide=True)
        if evidence.kind not in ("probs", "head"):  # what was given is shown as it is
            beliefs = evidence.probs.copy()
            beliefs[known] = 0.0
            beliefs[np.ix_(known, classes)] = model.beliefs(predictions)
            evidence = replace(evidence, probs=beliefs)
    lost = 0.0
    if evidence.kind == "epochs":
        columns = {name: column[known] for name, column in evidence.epochs.items()}
        scores[known] = by_epochs(columns, evidence.by, scores[known], one_way)
        right = columns["cartography_correctness"]
        if by_neighbors:  # the epochs are a second witness
            wrong[known] = seen_in_training(wrong[known], right)
        lost = float((right < WON).sum())  # of right labels, too, where the network has learned little: the other end
    count = count_errors(model, wrong[known])
    count = replace(count, high=max(count.high, lost))
    flags, sayable = np.zeros(len(wrong), bool), np.isfinite(wrong)
    flags[sayable] = flagged(wrong[sayable], count)
    return evidence, Judgment(scores, wrong, flags, count)


def _known(evidence: Evidence) -> np.ndarray:
    """(n,) whether a label can be judged; they must be of two classes at least."""
    known = evidence.known
    if evidence.kind == "epochs":
        known &= np.isfinite(evidence.epochs["aum" if evidence.by == "epochs" else evidence.by])
    if len(np.unique(evidence.labels[known])) < 2:
        raise InputError(f"wrong labels are found among two classes or more: only {known.sum()} samples of one can be scored.")
    return known


def _fitted(
    evidence: Evidence, heads: np.ndarray, votes: np.ndarray | None, labels: np.ndarray
) -> tuple[ErrorModel, list[np.ndarray]]:
    """The model of errors by the heads and the neighbors, or by the neighbors alone where the heads know the labels."""
    if votes is not None and evidence.neighbors_decide:
        return fit_error_model([votes], labels), [votes]
    both = [heads] if votes is None or evidence.kind != "out-of-sample" else [heads, votes]
    if votes is None:
        return fit_error_model(both, labels), both
    with thread_pool() as pool:
        model, neighbors = pool.map(lambda predictions: fit_error_model(predictions, labels), (both, [votes]))
    return (neighbors, [votes]) if model.learned_by_heart(neighbors) else (model, both)
