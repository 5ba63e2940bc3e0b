"""Linear heads fitted by cross-validation: what a model says of a sample that it has not learned from.

A head that was fitted to a wrong label may have learned it, and then sees nothing wrong. So the samples are cut into folds, a
head is fitted without each, and predicts it. Near duplicates are in one fold: a head that has learned a copy with the same wrong
label sees nothing wrong, either. `score`, `audit`, `drift`, `clean` and `out_of_sample` use these heads where none is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from hardsight.checks import counted_from_one, to_numpy, widened
from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.scores.duplicates import find_repeats, first_rows
from hardsight.screen import Progress
from hardsight.threads import even_rows, thread_pool

FOLDS = 5
# C of a logistic regression times the samples per class: weak enough to tell classes apart, and strong enough to ignore what
# features of a network know of single labels. Chosen on digits, MNIST and CIFAR-10N random1 (docs/decisions.md).
INVERSE_SHRINKAGE = 2.0
CALIBRATED_ON = 5000  # samples that the temperature is fitted to
WORK = 3e11  # multiplications of one fit, about: 50,000 x 512 with 100 classes then takes seconds a fold
MOST_STEPS = 300
OR_A_HEAD = ", or pass a head"  # which `check` does not take
NONE_FINITE = "no sample can be scored: every row is all zeros, or holds a value that is not finite."


def heads_with_every_class(features: np.ndarray, labels: np.ndarray) -> list[tuple[np.ndarray, Head]]:
    """`unseen_heads` for scores, which need a direction of every class: rows, and the head to score them with."""
    usable = usable_rows(features)
    if not usable.any():
        raise InputError(NONE_FINITE)
    known = labels[(labels >= 0) & usable]
    fewest_of_class(known)
    absent = np.setdiff1d(np.arange(labels.max() + 1), known)
    if len(absent):
        raise InputError(
            "to fit a head, every class needs labeled samples with finite features that are not all 0, "
            f"but class {absent[0]} has none. Merge or drop such classes{OR_A_HEAD}.{counted_from_one(labels)}"
        )
    heads = unseen_heads(features, labels, find_repeats(features).originals(labels, FOLDS))
    for _, head in heads:
        check_told_apart(head)
    return heads


def check_told_apart(head: Head) -> None:
    """Refuse a fitted head with a class that the features say nothing of."""
    told = to_numpy(head.weight).any(axis=1)  # (c,)
    if not told.all():
        raise InputError(
            f"no head can be fitted: nothing in the features distinguishes class {told.argmin()} from the others"
            f"{'' if told.any() else ', they are the same for every sample'}. Give other features{OR_A_HEAD}."
        )


@contextmanager
def unconverged() -> Iterator[None]:
    """Suppress convergence warnings: a nearly separable probe ranks well long before it converges.

    Wraps all fits and their threads, since warning filters are process-wide.
    """
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def usable_rows(features: np.ndarray) -> np.ndarray:
    """(n,) whether a row says something: finite, and not all zeros, which have no direction and no score (`zero_norm`)."""
    return np.asarray(np.isfinite(features).all(axis=1) & features.any(axis=1))


def unseen_heads(
    features: np.ndarray, labels: np.ndarray, originals: np.ndarray | None = None, *, groups: np.ndarray | None = None,
    folds: int = FOLDS, seed: int = 0, progress: Progress | None = None,
) -> list[tuple[np.ndarray, Head]]:  # fmt: skip
    """Rows, and the head that was fitted without them, once per fold; unlabeled rows have one fitted to all labeled ones.

    The heads are shrunk, and hesitate: one temperature for all makes their probabilities those of the given labels again.
    """
    usable = usable_rows(features)
    known = np.flatnonzero((labels >= 0) & usable)
    c = int(labels.max(initial=-1)) + 1
    copies = None if originals is None else originals[known]
    cut = (
        fold_rows(labels[known], folds, seed, copies)
        if groups is None
        else group_folds(labels[known], groups[known], folds, seed)
    )
    parts = [(known[train], known[test]) for train, test in cut]
    rest = np.flatnonzero((labels < 0) & usable)
    jobs = [*parts, (known, rest)] if len(rest) else parts

    def fit(rows: tuple[np.ndarray, np.ndarray]) -> Head:
        train, _ = rows
        return fit_head(features[train], labels[train], c, inverse_shrinkage_of(labels[train]))

    heads = []
    with unconverged(), thread_pool() as pool:  # a fold per core: the threads of a product are slow on small data
        for done, head in enumerate(pool.map(fit, jobs), start=1):
            heads.append(head)
            if progress is not None:
                progress(done, len(jobs))
    logits = np.empty((len(labels), c))
    for head, (_, test) in zip(heads, jobs, strict=True):
        logits[test] = _logits(head, features[test])
    power = sharpness(logits[known], labels[known])
    sharp = [Head("linear", power * to_numpy(head.weight), power * to_numpy(head.bias)) for head in heads]
    return [(test, head) for head, (_, test) in zip(sharp, jobs, strict=True)]


def sharpness(logits: np.ndarray, labels: np.ndarray) -> float:
    """Factor of (n, c) logits that gives the (n,) labels the highest likelihood: temperature scaling.

    Example:
        >>> logits, labels = np.log([[0.6, 0.4]] * 10 + [[0.4, 0.6]] * 10), np.array([0] * 9 + [1] * 10 + [0])
        >>> scaled = np.exp(sharpness(logits, labels) * logits[0])
        >>> (scaled / scaled.sum()).round(3)  # nine in ten of these labels are class 0
        array([0.9, 0.1])
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    rows = even_rows(len(labels), CALIBRATED_ON)

    def surprise(log_power: float) -> float:
        own = log_softmax(np.exp(log_power) * logits[rows], axis=1)[np.arange(len(rows)), labels[rows]]
        return -float(np.maximum(own, -50.0).mean())

    return float(np.exp(minimize_scalar(surprise, bounds=(-3.0, 3.0), method="bounded").x))


def fold_rows(
    labels: np.ndarray, folds: int, seed: int, originals: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to train on and rows to predict, once per fold: every class has its share in each, and copies are together.

    Example:
        >>> labels, originals = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 3, 4, 4])
        >>> [test.tolist() for _, test in fold_rows(labels, 2, 0, originals)]
        [[1, 3], [0, 2, 4, 5]]
    """
    folds = min(folds, fewest_of_class(labels))

    from sklearn.model_selection import StratifiedKFold

    first = np.arange(len(labels)) if originals is None else first_rows(originals)  # (n,)
    distinct = np.unique(first)
    if np.bincount(labels[distinct], minlength=labels.max() + 1)[np.unique(labels)].min() < folds:
        first = distinct = np.arange(len(labels))  # a class that is mostly copies of others: too few folds would have it
    for _, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(distinct, labels[distinct]):
        held_out = np.isin(first, distinct[test])
        yield np.flatnonzero(~held_out), np.flatnonzero(held_out)


def group_folds(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same with all samples of a group in one fold, such as the images of a patient; classes as even as that allows.

    Example:
        >>> cut = group_folds(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), 5, 0)
        >>> sorted(test.tolist() for _, test in cut)
        [[0, 1], [2, 3]]
    """
    folds = min(folds, fewest_of_class(labels), len(np.unique(groups)))
    if folds < 2:
        raise InputError("folds without the group of a sample need two groups or more, but all samples are of one.")

    from sklearn.model_selection import StratifiedGroupKFold

    return list(StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(groups, labels, groups))


def fewest_of_class(labels: np.ndarray) -> int:
    """Samples of the smallest class among (n,) labels; refuses what no fold can do without.

    Example:
        >>> fewest_of_class(np.array([0, 0, 0, 2, 2]))
        2
    """
    present, counts = np.unique(labels, return_counts=True)
    if len(present) < 2:
        what = f"all {len(labels)} labels are class {present[0]}" if len(present) else "there are no labels"
        raise InputError(f"a model needs samples of two classes to tell them apart, but {what}.")
    if counts.min() < 2:
        scarce = present[counts.argmin()]
        raise InputError(
            f"every class needs two samples, one to learn from and one to predict, but class {scarce} has one. "
            "Drop or merge such classes."
        )
    return int(counts.min())


def inverse_shrinkage_of(labels: np.ndarray) -> float:
    """`inverse_shrinkage` of a head for (n,) labels: the less, the more samples a class has."""
    return INVERSE_SHRINKAGE * len(np.unique(labels)) / len(labels)


def fit_head(features: np.ndarray, labels: np.ndarray, num_classes: int, inverse_shrinkage: float = 1.0) -> Head:
    """Logistic regression as a linear head: (n, d), (n,) -> (c, d). A class without samples gets no probability.

    `inverse_shrinkage` is scikit-learn's C: smaller values shrink the weights more.

    Steps are limited so that large data takes seconds: the ranking of its predictions settles long before it converges.
    """
    from sklearn.linear_model import LogisticRegression

    x = widened(features)
    with np.errstate(over="ignore", invalid="ignore"):  # the message below says it
        mean, deviation = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)  # (d,)
    if not np.isfinite(deviation).all():
        raise InputError("to fit a head, features must be below 1e150: divide them by a number, or pass a head.")
    rounding = 8 * np.finfo(x.dtype).eps * np.abs(mean)
    deviation = np.where(deviation > rounding, deviation, np.inf)  # a constant dimension gets no weight
    present, own = np.unique(labels, return_inverse=True)
    steps = int(np.clip(WORK / (4.0 * x.size * len(present)), 30, MOST_STEPS))
    fitted = LogisticRegression(C=inverse_shrinkage, max_iter=steps).fit(((x - mean) / deviation).astype(np.float32), own)
    coefficients, intercept = fitted.coef_.astype(np.float64), fitted.intercept_.astype(np.float64)
    if len(coefficients) == 1:  # two classes have one row: split it so that softmax gives the same probabilities
        coefficients, intercept = np.concatenate([-coefficients, coefficients]) / 2, np.concatenate([-intercept, intercept]) / 2
    weight, bias = np.zeros((num_classes, x.shape[1])), np.full(num_classes, -1e4)
    weight[present] = coefficients / deviation
    bias[present] = intercept - weight[present] @ mean
    return Head("linear", weight, bias)


def head_probs(head: Head, features: np.ndarray) -> np.ndarray:
    """(n, c) softmax of the head's logits, in float64."""
    from scipy.special import softmax

    return np.asarray(softmax(_logits(head, features), axis=1))


def _logits(head: Head, features: np.ndarray) -> np.ndarray:
    return to_numpy(head.logits(features)).astype(np.float64)
