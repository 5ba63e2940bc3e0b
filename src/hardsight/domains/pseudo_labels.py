"""Pseudo-labels: which target samples to train on next, and with which labels. The published rules, on arrays.

With p the softmax probabilities, k the class, and lambda_k its threshold (see `class_thresholds`):

    cbst         label k* = argmax_k p_k / lambda_k, kept if p_k* / lambda_k* > 1
    crst-mrkld   the same; training adds the regularizer (see self_training.py)
    crst-lrent   soft label softmax((log p - log lambda) / alpha), kept if sum_k (p_k / lambda_k)^(1/alpha) > 1
    crst         MRKLD + LRENT: soft labels, and the regularizer in training
    cbst+avh     k* as cbst, kept if AVC_k*(x) > beta_k*, the AVC ranked at the same portion (Chen et al., eq. 4)
    cbst+NAME    the same with any score of `hardsight.SCORES` in place of AVC
    avc          AVC in the place of p throughout: label, thresholds, selection
    threshold    label argmax_k p_k, kept if it is above one threshold for all classes
    weighted     label argmax_k p_k, all kept: each counts in training with its probability as weight
    depict       soft label q_k proportional to p_k / sqrt(sum_i p_ik), all kept: DEPICT's balancing alone

The last two have no use for a portion, but for 0. DEPICT (Dizaji et al., ICCV 2017) balances the clusters of an autoencoder so,
and neither of these is here; the code its authors released squares p and divides by the sum itself, as DEC does.

Probabilities are compared by their logarithms, in float64: a float32 softmax says 1.0 of most samples of a well
trained network, and a threshold of 1.0 tells none of them apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from scipy.special import logsumexp, softmax

from hardsight.checks import as_matrix, check_count, check_same_space, is_tensor, to_numpy
from hardsight.domains.comparison import known_mean
from hardsight.errors import InputError, did_you_mean
from hardsight.head import Head, as_head
from hardsight.options import Options, option, takes
from hardsight.pandas_index import align
from hardsight.scores import SCORES
from hardsight.scores.registry import row_values
from hardsight.scores.sweep import sweep
from hardsight.scores.terms import ANGLES, LOGITS, SOFTMAX
from hardsight.threads import blocks, share, take

if TYPE_CHECKING:
    from hardsight.option_types import SelectionOptions as SelectionKeywords

METHODS = ("cbst", "crst", "crst-mrkld", "crst-lrent", "cbst+avh", "avc", "threshold", "weighted", "depict")  # and cbst+NAME
SOFT = ("crst", "crst-lrent")  # whose pseudo-labels are distributions, by LRENT

WHY = (
    "kept",
    "not above its threshold",
    "class too small",  # the portion of the samples predicted as its class is less than one
    "portion is 0",
    "not finite",  # logits, or the score, are not numbers: a feature without a direction has no angles
)
_BLOCK = 2**22  # numbers of features whose angles are taken at a time
_ROWS = 2**14  # rows of (n, c) arrays worked on at a time: they stay in the cache
OF_A_SNAPSHOT = tuple(name for name, score in SCORES.items() if score.scope in ("row", "dataset"))  # all that a target has


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """What was selected.

    Attributes:
        labels: (n,) class, -1 where not kept; or, for LRENT and `depict`, (n, c) distributions, a row of zeros where not kept;
            for `weighted`, the weight in the column of the class.
        kept: (n,) bool.
        thresholds: (c,) what a sample had to exceed: lambda, or beta where another score selects.
        why: (n,) one of WHY.
        proposed: (n,) the class each sample was considered for, kept or not; -1 where its logits are not finite.
        predicted: (n,) the class of the largest probability.
        class_weights: (c,) lambda (of `depict`, the root of the sum), by which probabilities were divided before the label
            was chosen; ones where they were not.
    """

    labels: np.ndarray
    kept: np.ndarray
    thresholds: np.ndarray
    why: np.ndarray
    proposed: np.ndarray
    predicted: np.ndarray
    class_weights: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """(c,) how many samples of each class were kept."""
        return np.bincount(self.proposed[self.kept], minlength=len(self.thresholds))

    def statistics(self, columns: dict[str, np.ndarray], labels: np.ndarray) -> dict[str, Any]:
        """Table 4 of the AVH paper: of the selected samples, the share with the right label, and means of their scores.

        Args:
            columns: see `sample_columns`.
            labels: (n,) true classes, -1 where not known.
        """
        kept = self.kept
        labeled = kept & (labels >= 0)
        predicted = self.predicted[self.predicted >= 0]
        return {
            "selected": int(kept.sum()),
            "true_positive_rate": float((self.proposed == labels)[labeled].mean()) if labeled.any() else None,
            **{name: known_mean(scores[kept & np.isfinite(scores)].tolist()) for name, scores in columns.items()},
            "selected_per_class": self.counts.tolist(),
            "predicted_per_class": np.bincount(predicted, minlength=len(self.thresholds)).tolist(),
            "moved": int((kept & (self.proposed != self.predicted)).sum()),
        }


def sample_columns(features: np.ndarray, head: Head, proposed: np.ndarray) -> dict[str, np.ndarray]:
    """(n,) confidence, AVC and AVH of the class each sample was considered for, and the norm of its feature."""
    rows = sweep(features, head, np.maximum(proposed, 0), frozenset({ANGLES, LOGITS, SOFTMAX}))
    with np.errstate(invalid="ignore", divide="ignore"):
        confidence = rows.own_exp / rows.partition
    return {
        "confidence": confidence,
        "avc": row_values(SCORES["avc_label"], rows),
        "avh": row_values(SCORES["avh"], rows),
        "norm": rows.norm,
    }


@dataclass(frozen=True)
class SelectionOptions(Options):
    """The options of `select_pseudo_labels`."""

    alpha: float = option(0.25, "Temperature of LRENT's soft labels; towards 0 it becomes CBST.", above=0)
    threshold: float | None = option(
        None,
        "Fixed probability for the method threshold, whatever the portion above 0. Default: that of all samples at the portion.",
        least=0,
        most=1,
    )


@takes(SelectionOptions)
def select_pseudo_labels(
    logits: Any = None,
    features: Any = None,
    head: Any = None,
    portion: float = 0.2,
    method: str = "cbst+avh",
    *,
    settings: SelectionOptions | None = None,
    **options: Unpack[SelectionKeywords],
) -> PseudoLabels:
    """Choose pseudo-labels for unlabeled samples.

    A class that was never predicted has threshold 1 (infinity where a score selects) and is never chosen. With portion 0
    nothing is kept, by any method. With portion 1 CBST keeps all but the least confident of each class. LRENT keeps what CBST
    keeps and more, so its number is not bounded by the portion: it also keeps the sample that sets a threshold, and so a class's
    only one. With a single class every probability is 1: all are ties. Rows whose logits or score are not finite are not kept
    and change no other row; no rows in, no rows out.

    Args:
        logits: (n, c); made from features and head where not given.
        features: (n, d), for methods that look at angles or norms.
        head: a `Head` or a (c, d) weight, for the same.
        portion: 0 to 1, of the samples predicted as each class.
        method: see the top of this file.
        settings: all options below as one object; options given beside it override its own.

    Example:
        >>> logits = np.log([[0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.45, 0.55], [0.3, 0.7]])
        >>> chosen = select_pseudo_labels(logits, portion=0.5, method="cbst")
        >>> chosen.thresholds.round(2), chosen.labels
        (array([0.7, 0.7]), array([ 0, -1, -1, -1, -1]))
    """
    settings = SelectionOptions.given(settings, options)
    name = check_method(method)
    if settings.threshold is not None and name != "threshold":
        raise InputError(f"threshold goes with the method threshold, not with {name}.")
    inputs = _Selection(logits, features, head, check_portion(portion))
    if name == "avc":
        return inputs.choose(inputs.log_avc())
    evidence = inputs.log_probs()
    if name == "threshold":
        return inputs.above_one_threshold(evidence, settings.threshold)
    if name in SOFT:
        return inputs.soften(evidence, settings.alpha)
    if name in ("weighted", "depict"):
        return inputs.weigh(evidence) if name == "weighted" else inputs.balance(evidence)
    chosen = inputs.choose(evidence)
    score = "avc_label" if name == "cbst+avh" else name.partition("+")[2]
    return inputs.rerank(chosen, score) if score else chosen


def check_method(method: str, also: Sequence[str] = ()) -> str:
    """A method by name, as METHODS writes it; the error names those that are known elsewhere, too."""
    name = str(method).strip().lower()
    score = name.removeprefix("cbst+")
    if name in METHODS or (name != score and score in OF_A_SNAPSHOT):
        return name
    known = [*METHODS, *also, *(f"cbst+{name}" for name in OF_A_SNAPSHOT)]
    near = did_you_mean(name, known)
    raise InputError(f"method must be one of {', '.join([*METHODS, *also])} or cbst+SCORE, got {method!r}.{near}")


def class_thresholds(
    confidence: Any, predicted: Any, portion: float, *, num_classes: int | None = None, empty: float = 1.0
) -> np.ndarray:
    """The threshold of each class: the confidence at a portion p of the samples predicted as it.

    Of the n_k samples predicted as class k, sorted from the most confident down and counted from 0, it is the confidence at
    floor((n_k - 1) p), and those above it are kept. So the papers say ("ranked at portion p", ">"), and so does the
    classification code; CBST's segmentation code takes one sample more.

    A class without samples gets `empty`: 1, as published, which no probability exceeds. The threshold of a class with one
    sample is that sample's own confidence, so it is not kept. Equal confidences at the threshold are all left out.

    Args:
        confidence: (n,) how sure the model is of its prediction; NaN rows are not counted.
        predicted: (n,) class index of that prediction; -1 rows are not counted.
        portion: 0 to 1, of each class.
        num_classes: c; the largest prediction plus one where it is not given.
        empty: threshold of a class that nothing may be kept of; give inf for scores that are not probabilities.

    Returns:
        (c,) float64.

    Example:
        >>> class_thresholds([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0, 0, 0, 0, 0, 1], 0.5)
        array([0.7, 0.4])
    """
    values, classes = _vector(confidence, "confidence").astype(np.float64), _vector(predicted, "predicted")
    if values.shape != classes.shape:
        raise InputError(f"there must be one confidence per prediction, got {len(values)} and {len(classes)}.")
    if classes.dtype.kind not in "iu":
        raise InputError(f"predicted must be class indices, got {classes.dtype}.")
    if classes.min(initial=0) < -1:
        raise InputError(f"predicted must be class indices, or -1 for none, got {classes.min()}.")
    c = int(classes.max(initial=-1)) + 1 if num_classes is None else check_count(num_classes, "num_classes")
    if classes.max(initial=-1) >= c:
        raise InputError(f"predicted must be below {c}, got {classes.max()}.")
    usable = (classes >= 0) & ~np.isnan(values)
    values, classes = values[usable], classes[usable].astype(np.int64)
    counts = np.bincount(classes, minlength=c)  # (c,)
    indices = kept_per_class(counts, portion)  # (c,) from the most confident down
    order = np.argsort(classes.astype(np.uint16) if c < 2**16 else classes, kind="stable")  # 16 bits sort in linear time
    grouped, starts = values[order], np.concatenate([[0], np.cumsum(counts)])
    thresholds = np.full(c, float(empty))
    for k in np.flatnonzero(counts):
        at = counts[k] - 1 - indices[k]  # from the least confident up
        thresholds[k] = np.partition(grouped[starts[k] : starts[k + 1]], at)[at]
    return thresholds


def kept_per_class(counts: np.ndarray, portion: float) -> np.ndarray:
    """How many of each class's samples its threshold lets through, if no two are equally confident."""
    ranked = np.maximum(counts - 1, 0) * check_portion(portion)
    return np.floor(ranked + 1e-9).astype(np.int64)  # 0.29 of 100 is 29, though 100 * 0.29 < 29 in floats


def check_portion(portion: float, name: str = "portion") -> float:
    """A number from 0 to 1."""
    if isinstance(portion, bool) or not isinstance(portion, (int, float, np.integer, np.floating)) or not 0 <= portion <= 1:
        raise InputError(f"{name} must be a number from 0 to 1, got {portion!r}.")
    return float(portion)


def _vector(x: Any, name: str) -> np.ndarray:
    array = to_numpy(x) if is_tensor(x) else np.asarray(x)
    if array.ndim != 1 or (array.dtype.kind not in "fiu" and array.size):
        raise InputError(f"{name} must be (n,) numbers, got shape {array.shape} of {array.dtype}.")
    return array if array.size else array.astype(np.int64)


class _Selection:
    """The checked inputs, and the steps that the methods share."""

    def __init__(self, logits: Any, features: Any, head: Any, portion: float) -> None:
        self.portion = portion
        self.ranked = True  # whether the threshold was found at the portion
        features = align(features, "features", logits, "logits")
        self.features = None if features is None else as_matrix(features, "features")
        self.head: Head | None = None if head is None else as_head(head)
        if self.features is not None and self.head is not None:
            check_same_space(self.features, self.head.weight)
        if logits is None:
            if self.features is None or self.head is None:
                raise InputError("pseudo-labels need logits, or features and a head.")
            logits = self.head.logits(self.features)
        self.logits = to_numpy(as_matrix(logits, "logits"))
        self.n, self.c = self.logits.shape
        if self.c == 0:
            raise InputError(f"logits must have a column for each class, got shape {self.logits.shape}.")
        if self.features is not None and len(self.features) != self.n:
            raise InputError(f"there must be one row of features per row of logits, got {len(self.features)} and {self.n}.")
        if self.head is not None and self.head.num_classes != self.c:
            raise InputError(f"the head has {self.head.num_classes} classes, the logits {self.c} columns.")
        self.finite = np.isfinite(self.logits).all(1)  # (n,)

    # ---- evidence for each class: (n, c) logarithms, the largest is the prediction ----

    def log_probs(self) -> np.ndarray:
        """log softmax, with all digits where the probability is next to 1."""
        log_p = np.empty((self.n, self.c))

        def work(rows: slice) -> None:
            z = np.where(self.finite[rows, None], self.logits[rows], 0.0).astype(np.float64)  # (b, c)
            top = z.argmax(1, keepdims=True)
            z -= np.take_along_axis(z, top, 1)
            others = np.exp(z)
            np.put_along_axis(others, top, 0.0, 1)
            np.subtract(z, np.log1p(others.sum(1, keepdims=True)), out=log_p[rows])

        share(work, blocks(self.n, _ROWS), np)
        return log_p

    def log_avc(self) -> np.ndarray:
        """log of (pi - angle_k) / sum_j (pi - angle_j)."""
        features, head = self._with_head("avc")
        left = np.empty((self.n, self.c))
        for rows in blocks(self.n, max(1, _BLOCK // features.shape[1])):
            left[rows] = np.pi - to_numpy(head.angles(features[rows]))
        directed = np.isfinite(left).all(1) & (left.sum(1) > 0)
        self.finite &= directed
        left[~directed] = 1.0
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(left, 0.0)) - np.log(left.sum(1, keepdims=True))

    # ---- the steps ----

    def ratios(self, evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log(p / lambda), in the place of log p, and lambda's logarithm."""
        best, largest = _best(evidence)
        predicted = np.where(self.finite, best, -1)
        log_lambda = self._thresholds(largest, predicted, empty=0.0)
        self.predicted = predicted
        evidence -= log_lambda
        return evidence, log_lambda

    def _thresholds(self, values: np.ndarray, classes: np.ndarray, empty: float) -> np.ndarray:
        """(c,) thresholds of (n,) values, each ranked within its class, -1 for none."""
        self.counts = np.bincount(classes[classes >= 0], minlength=self.c)
        return class_thresholds(values, classes, self.portion, num_classes=self.c, empty=empty)

    def choose(self, evidence: np.ndarray) -> PseudoLabels:
        """CBST: the class of the largest p / lambda, kept where that is above 1."""
        ratio, log_lambda = self.ratios(evidence)
        best, largest = _best(ratio)
        proposed = np.where(self.finite, best, -1)
        return self._result(proposed, self._above(largest, 0.0), np.exp(log_lambda), np.exp(log_lambda))

    def soften(self, evidence: np.ndarray, alpha: float) -> PseudoLabels:
        """LRENT: the distribution that minimizes its cost, kept where that cost is below that of no label."""
        ratio, log_lambda = self.ratios(evidence)
        top, gain = np.empty(self.n, np.int64), np.empty(self.n)

        def work(rows: slice) -> None:
            shares = ratio[rows]  # (b, c) a view: log (p / lambda), in the end the distribution
            shares /= alpha
            best = shares.argmax(1)[:, None]
            largest = np.take_along_axis(shares, best, 1)
            np.exp(np.subtract(shares, largest, out=shares), out=shares)
            np.put_along_axis(shares, best, 0.0, 1)
            others = shares.sum(1, keepdims=True)  # beside the largest, which counts for 1
            np.put_along_axis(shares, best, 1.0, 1)
            shares /= 1 + others
            top[rows], gain[rows] = best[:, 0], (largest + np.log1p(others))[:, 0]  # log sum_k (p_k / lambda_k)^(1/alpha)

        share(work, blocks(self.n, _ROWS), np)
        proposed = np.where(self.finite, top, -1)
        hard = self._result(proposed, self._above(gain, 0.0), np.exp(log_lambda), np.exp(log_lambda))
        ratio[~hard.kept] = 0.0
        return replace(hard, labels=ratio)

    def weigh(self, evidence: np.ndarray) -> PseudoLabels:
        """Every sample with the class it is predicted as, and its confidence as weight."""
        best, largest = _best(evidence)
        hard = self._everything(best, best, np.ones(self.c))
        labels = np.zeros((self.n, self.c))
        labels[hard.kept, best[hard.kept]] = np.exp(largest[hard.kept])
        return replace(hard, labels=labels)

    def balance(self, evidence: np.ndarray) -> PseudoLabels:
        """DEPICT: each class's probabilities divided by the root of their sum, so that a class chosen often counts less."""
        predicted, _ = _best(evidence)
        log_sums = logsumexp(evidence[self.finite], axis=0) if self.finite.any() else np.zeros(self.c)  # (c,)
        log_q = evidence - 0.5 * log_sums  # (n, c), but for a constant of each row
        best, _ = _best(log_q)
        hard = self._everything(best, predicted, np.exp(0.5 * log_sums))
        return replace(hard, labels=np.where(hard.kept[:, None], softmax(log_q, axis=1), 0.0))

    def _everything(self, best: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> PseudoLabels:
        """All samples kept, whatever the portion above 0."""
        self.ranked, self.predicted = False, np.where(self.finite, predicted, -1)
        self.counts = np.zeros(self.c, np.int64)  # no threshold, so none that samples were ranked among
        return self._result(np.where(self.finite, best, -1), np.ones(self.n, bool), np.zeros(self.c), weights)

    def rerank(self, chosen: PseudoLabels, name: str) -> PseudoLabels:
        """CBST's labels, kept where another score of theirs is above its threshold among the samples predicted as the class."""
        score = self._score(name)
        at_label = score(chosen.proposed)  # (n,) high is easy
        ranked = at_label.copy()
        moved = np.flatnonzero(chosen.proposed != chosen.predicted)
        if len(moved):
            ranked[moved] = score(chosen.predicted, moved)
        beta = self._thresholds(ranked, chosen.predicted, empty=np.inf)
        self.finite &= np.isfinite(at_label)
        kept = self._above(at_label, beta[np.maximum(chosen.proposed, 0)])
        sign = -1.0 if SCORES[name].hard == "high" else 1.0
        return self._result(chosen.proposed, kept, sign * beta, chosen.class_weights)

    def above_one_threshold(self, evidence: np.ndarray, fixed: float | None) -> PseudoLabels:
        """The most probable class, kept above one threshold for all."""
        proposed = np.where(self.finite, evidence.argmax(1), -1)
        self.predicted = proposed
        together = np.where(self.finite, 0, -1)  # all samples as one class
        self.counts = np.full(self.c, self.finite.sum())
        if fixed is None:
            limit = class_thresholds(evidence.max(1), together, self.portion, num_classes=1, empty=0.0)[0]
        else:
            self.ranked = False
            with np.errstate(divide="ignore"):
                limit = np.log(fixed)
        kept = self._above(evidence.max(1), limit)
        return self._result(proposed, kept, np.full(self.c, np.exp(limit)), np.ones(self.c))

    def _above(self, values: np.ndarray, limits: Any) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.asarray(values > limits)

    def _result(self, proposed: np.ndarray, above: np.ndarray, thresholds: np.ndarray, weights: np.ndarray) -> PseudoLabels:
        small = (kept_per_class(self.counts, self.portion) == 0) & self.ranked  # (c,)
        kept = above & self.finite & (self.portion > 0)
        code = np.where(kept, 0, np.where(small[np.maximum(proposed, 0)], 2, 1))
        if self.portion == 0:
            code[:] = 3
        code[~self.finite] = 4
        labels = np.where(kept, proposed, -1)
        return PseudoLabels(labels, kept, thresholds, np.array(WHY, dtype=object)[code], proposed, self.predicted, weights)

    def _score(self, name: str) -> Callable[..., np.ndarray]:
        """A score as a function of labels (and, if only some are asked for, rows): high where a sample is easy."""
        score = SCORES[name]
        sign = -1.0 if score.hard == "high" else 1.0
        if score.from_logits():
            logits = self.logits
            return lambda labels, rows=slice(None): sign * score.function(logits=logits[rows], labels=labels[rows])
        features, head = self._with_head(name)
        if score.scope == "dataset":  # it looks at all samples, whichever are asked for
            takes = inspect.signature(score.function).parameters
            more = {"head": head} if "head" in takes else {}
            if "labels" not in takes:
                return lambda labels, rows=slice(None): sign * score.function(features, **more)[rows]
            return lambda labels, rows=slice(None): sign * score.function(features, labels=labels, **more)[rows]
        return lambda labels, rows=slice(None): sign * score.function(take(features, rows), head, labels[rows])

    def _with_head(self, name: str) -> tuple[Any, Head]:
        if self.features is None or self.head is None:
            raise InputError(f"{name} looks at features: give features and head beside the logits.")
        return self.features, self.head


def _best(evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, c) -> (n,) the class of the largest entry of each row, the first among equals, and that entry."""
    index, largest = np.empty(len(evidence), np.int64), np.empty(len(evidence))

    def work(rows: slice) -> None:
        best = evidence[rows].argmax(1)
        index[rows] = best
        largest[rows] = evidence[rows][np.arange(len(best)), best]

    share(work, blocks(len(evidence), _ROWS), np)
    return index, largest
