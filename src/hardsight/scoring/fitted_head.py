"""Fit a linear head by cross-validation if there is none, so that each sample is scored by a head that has not
seen it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from hardsight.checks import counted_from_one
from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.threads import thread_pool


def out_of_sample_heads(
    features: np.ndarray, labels: np.ndarray, *, folds: int = 5, seed: int = 0
) -> Iterator[tuple[np.ndarray, Head]]:
    """Row indices and the head to score them with: each fold once, then unlabeled rows with a head fitted to all labeled ones.

    Logistic regression on standardised features, folded back into a head on the raw features.
    """
    usable = np.isfinite(features).all(1)
    known = np.flatnonzero((labels >= 0) & usable)
    c = int(labels.max(initial=0)) + 1  # includes classes without a usable sample, for which no head can be fitted
    counts = np.bincount(labels[known], minlength=c)
    if c < 2 or counts.min() < 2:
        scarce = int(np.argmin(counts))
        raise InputError(
            "to fit a head, every class 0..c-1 needs at least two labeled samples and there must be two classes; "
            f"class {scarce} of {c} has {counts[scarce]}. Pass a head, or merge or drop such classes." + counted_from_one(labels)
        )
    from sklearn.model_selection import StratifiedKFold  # takes long to load, so after what is refused

    splits = StratifiedKFold(min(folds, int(counts.min())), shuffle=True, random_state=seed)
    jobs = [(known[train], known[test]) for train, test in splits.split(known, labels[known])]
    rest = np.setdiff1d(np.arange(len(labels)), known)
    if len(rest):
        jobs.append((known, rest))
    with unconverged(), thread_pool() as pool:  # a fold per core: multithreaded BLAS is slow on small data
        heads = list(pool.map(lambda rows: fit_linear_head(features[rows[0]], labels[rows[0]], c), jobs))
    return iter([(at, head) for (_, at), head in zip(jobs, heads, strict=True)])


@contextmanager
def unconverged() -> Iterator[None]:
    """Suppress convergence warnings: a nearly separable probe ranks well long before it converges.

    Wraps all fits and their threads, since warning filters are process-wide.
    """
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fit_linear_head(features: np.ndarray, labels: np.ndarray, num_classes: int) -> Head:
    """Logistic regression as a linear `Head` on the raw features: (n, d), (n,) -> (c, d)."""
    from sklearn.linear_model import LogisticRegression

    x = features.astype(np.float64)
    constant = x.min(0) == x.max(0)  # constant dimensions get no weight
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = np.where(constant, x[0], x.mean(0)), np.where(constant, 1.0, x.std(0))
    if not np.isfinite(deviation).all():
        raise InputError("to fit a head, features must be below 1e150: divide them by a number, or pass a head.")
    fitted = LogisticRegression(max_iter=300).fit((x - mean) / deviation, labels)
    weight, bias = fitted.coef_, fitted.intercept_
    if len(weight) == 1:  # two classes give one row: split it so that softmax gives the same probabilities
        weight, bias = np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    without = np.flatnonzero(~weight.any(axis=1))
    if len(without):
        raise InputError(
            f"no head can be fitted: nothing in the features distinguishes class {without[0]} from the others"
            f"{', they are the same for every sample' if constant.all() else ''}. Pass a head, or other features."
        )
    weight = weight / deviation
    dtype = np.float64 if features.dtype == np.float64 else np.float32
    return Head("linear", weight.astype(dtype), (bias - weight @ mean).astype(dtype))
