"""Has adapting helped? Validators that need no labels of the target, as functions on finite arrays.

    name        what it asks                                                                   ends
    neighbors  are samples predicted like those that were near them before any adaptation?        0 to 1
    infomax     are the predictions sure, and of different classes?                            0 to log c
    snd         has every sample neighbors that are predicted alike?                          0 to log(n - 1)
    circular    does a classifier taught by the target's predictions know the source?          0 to 1
    iwv         how many source samples are right, those that look like the target first?      0 to 1
    dev         the same as an unbiased estimate with less variance                            about 0 to 1
    mean_avc    how near are the selected samples to their class vectors?                      0 to 1

High is good in all of them. None is to be trusted alone: a model that is sure of the same wrong answer everywhere has a
high `snd`, and self-training makes every model surer, right or wrong. papers/docs/results.md has what they were worth.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy.special import log_softmax

from hardsight.domains.pseudo_labels import sample_columns, select_pseudo_labels
from hardsight.head import Head
from hardsight.stats.uncertainty import entropy_of
from hardsight.threads import blocks, even_rows, share

VALIDATORS = ("neighbors", "infomax", "snd", "circular", "iwv", "dev", "mean_avc")
NEAREST = 10  # neighbors of a sample
TEMPERATURE = 0.05  # of SND, as published
AVC_PORTION = 0.2  # the same in every round, so that rounds can be compared
RIDGE = 0.1  # of circular validation, beside standardized features
LOOKED_AT = 2000  # target samples at most, at even distances, that a round is validated by: SND is n x n
NEIGHBORS_AMONG = 5000  # the same for `neighbors`: they are looked for once, not in every round
SOURCE_LOOKED_AT = 2000  # the same of the source, which has to pass through the network
_ENTRIES = 2**22  # entries of an (n, n) matrix in memory at a time


def validators(
    logits: np.ndarray,
    features: np.ndarray,
    head: Head,
    source_features: np.ndarray,
    source_labels: np.ndarray,
    nearest: np.ndarray | None = None,
) -> dict[str, float | None]:
    """Every validator of one model, by name; None where there are too few samples for it.

    Args:
        logits: (n, c) of the target; rows that are not finite are left out.
        features: (n, d) of the target.
        head: of the model.
        source_features: (m, d).
        source_labels: (m,).
        nearest: (n, k) see `nearest_neighbors`; None for none.
    """
    readable = np.isfinite(logits).all(1)  # (n,)
    predicted = np.where(readable, logits.argmax(1), -1)
    rows = np.flatnonzero(readable)
    rows = rows[even_rows(len(rows), LOOKED_AT)]
    known = np.flatnonzero(np.isfinite(source_features).all(1))
    logits, features, ours, labels = logits[rows], features[rows], source_features[known], source_labels[known]
    wide_logits, target, source = (x.astype(np.float64) for x in (logits, features, ours))
    values = dict.fromkeys(VALIDATORS, math.nan)
    if len(rows):
        values["infomax"] = information_maximization(wide_logits)
        values["snd"] = soft_neighborhood_density(wide_logits)
        values["mean_avc"] = mean_avc(logits, features, head)
    if nearest is not None:
        values["neighbors"] = neighbor_agreement(nearest, predicted, logits.shape[1])
    if len(rows) and len(ours) > 1:
        values["circular"] = circular_validation(target, logits.argmax(1), source, labels)
        right = (head.logits(ours).argmax(1) == labels).astype(np.float64)
        some = even_rows(len(target), len(source[::2]))
        weights = density_ratio(source[::2], target[some], source[1::2])  # fitted on one half, used on the other
        values["iwv"] = importance_weighted(right[1::2], weights)
        values["dev"] = deep_embedded_validation(right[1::2], weights)
    return {name: float(value) if math.isfinite(value) else None for name, value in values.items()}


# ---- from what the model says of the target ----


def information_maximization(logits: np.ndarray) -> float:
    """Entropy of the mean prediction less the mean entropy of the predictions: H(mean_i p_i) - mean_i H(p_i).

    0 where all samples are predicted alike (or nothing is known of any); log c where every sample is certain and all
    classes are predicted equally often. Krause, Perona and Gomes, NIPS 2010.

    Args:
        logits: (n, c).

    Example:
        >>> round(information_maximization(np.array([[9.0, -9.0], [-9.0, 9.0]])), 3), information_maximization(np.ones((2, 2)))
        (0.693, 0.0)
    """
    log_p = log_softmax(logits, axis=1)  # (n, c)
    p = np.exp(log_p)
    return float(entropy_of(p.mean(0)) + (p * log_p).sum(1).mean())


def soft_neighborhood_density(logits: np.ndarray, temperature: float = TEMPERATURE) -> float:
    """Mean entropy of each sample's similarities to all others, as the predictions see them.

    With u_i = p_i / |p_i| and S_ij = u_i . u_j / T, the entropy of softmax_j(S_ij) over all j but i, and its mean over
    i. A sample with many others predicted like it has a high entropy. A classifier that says the same of all samples
    reaches log(n - 1), the highest value. n^2 numbers are computed, in blocks of rows: memory does not grow with n^2.
    Saito et al., ICCV 2021.

    Args:
        logits: (n, c).
        temperature: T.

    Returns:
        From 0 to log(n - 1); NaN for fewer than two samples.

    Example:
        >>> round(soft_neighborhood_density(np.array([[9.0, -9.0]] * 3)), 3)  # two others, both alike: log 2
        0.693
    """
    p = np.exp(log_softmax(logits, axis=1))  # (n, c)
    unit = (p / np.linalg.norm(p, axis=1, keepdims=True)).astype(np.float32)
    n = len(unit)
    if n < 2:
        return math.nan
    entropies = np.empty(n)
    scaled = unit.T / np.float32(temperature)  # (c, n)

    def work(rows: slice) -> None:
        s = unit[rows] @ scaled  # (b, n)
        s[np.arange(len(s)), np.arange(rows.start, rows.stop)] = -1e30  # no sample is its own neighbor
        s -= s.max(1, keepdims=True)
        e = np.exp(s)
        total = e.sum(1, dtype=np.float64)  # (b,)
        e *= s
        entropies[rows] = np.log(total) - e.sum(1, dtype=np.float64) / total

    share(work, blocks(n, max(1, _ENTRIES // n)), np)
    return float(entropies.mean())


def mean_avc(logits: np.ndarray, features: np.ndarray, head: Head, portion: float = AVC_PORTION) -> float:
    """Mean AVC of the pseudo-labels that `cbst+avh` would select from a model: how near they are to their class vectors.

    AVC_k = (pi - angle_k) / sum_j (pi - angle_j): 1/c is a sample between all classes. Chen et al., ICML 2020.

    Args:
        logits: (n, c).
        features: (n, d).
        head: of the model.
        portion: of each class, see `select_pseudo_labels`.

    Returns:
        From 0 to 1; NaN where nothing is selected.
    """
    chosen = select_pseudo_labels(logits, features, head, portion, "cbst+avh")
    values = sample_columns(features, head, chosen.proposed)["avc"][chosen.kept]
    return float(values.mean()) if len(values) else math.nan


def class_evenness(predicted: np.ndarray, num_classes: int) -> float:
    """Entropy of how often each class is predicted, over log c: 1 where all are as frequent as each other, 0 for a single class.

    Not a validator: neither end is good. `auto` trusts class-balanced self-training less where it is low.

    Args:
        predicted: (n,) class, -1 for none.
        num_classes: c, two or more.

    Returns:
        From 0 to 1; NaN where nothing is predicted.

    Example:
        >>> class_evenness(np.array([0, 1, 0, 1, -1]), 2), class_evenness(np.array([1, 1, 1]), 2)
        (1.0, 0.0)
    """
    counts = np.bincount(predicted[predicted >= 0], minlength=num_classes)
    return float(entropy_of(counts / counts.sum())) / math.log(num_classes) if counts.sum() else math.nan


# ---- from where the samples were before ----


def nearest_neighbors(features: np.ndarray, k: int = NEAREST) -> np.ndarray:
    """The k nearest other samples of each, by the cosine of their features, among NEIGHBORS_AMONG samples at even distances.

    Args:
        features: (n, d) of the target before any adaptation; rows that are not finite have no neighbors and are none.
        k: fewer where there are not as many.

    Returns:
        (n, k) rows, in no order; -1 for a sample without neighbors.
    """
    rows = np.flatnonzero(np.isfinite(features).all(1))
    rows = rows[even_rows(len(rows), NEIGHBORS_AMONG)]
    x = features[rows].astype(np.float32)  # (r, d)
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    n, k = len(rows), min(k, len(rows) - 1)
    nearest = np.full((len(features), max(k, 0)), -1)
    if k < 1:
        return nearest

    def work(part: slice) -> None:
        cosine = unit[part] @ unit.T  # (b, r)
        cosine[np.arange(len(cosine)), np.arange(part.start, part.stop)] = -2.0  # no sample is its own neighbor
        nearest[rows[part]] = rows[np.argpartition(cosine, n - k, axis=1)[:, n - k :]]

    share(work, blocks(n, max(1, _ENTRIES // n)), np)
    return nearest


def neighbor_agreement(nearest: np.ndarray, predicted: np.ndarray, num_classes: int) -> float:
    """Share of a sample's neighbors that are predicted like it: its mean in each predicted class, and the mean of those.

    The neighbors are those before any adaptation, in features as they are given or, of images, in those of the source model:
    what adapting does to features cannot make it look better. Every class counts the same, and one that is never predicted counts
    0. A number of our own.

    Args:
        nearest: (n, k) rows, see `nearest_neighbors`.
        predicted: (n,) class, -1 for none.
        num_classes: c.

    Returns:
        From 0 to 1; NaN if no sample has a neighbor.

    Example:
        >>> neighbor_agreement(np.array([[1], [0], [1]]), np.array([0, 0, 1]), 2)  # class 0 agrees, class 1 does not
        0.5
    """
    rows = np.flatnonzero((predicted >= 0) & (nearest >= 0).all(1)) if nearest.shape[1] else np.zeros(0, np.int64)
    if not len(rows):
        return math.nan
    alike = (predicted[nearest[rows]] == predicted[rows, None]).mean(1)  # (r,)
    counts = np.bincount(predicted[rows], minlength=num_classes)
    return float((np.bincount(predicted[rows], alike, minlength=num_classes) / np.maximum(counts, 1)).sum() / num_classes)


# ---- from the source, whose labels are known ----


def circular_validation(
    features: np.ndarray, predicted: np.ndarray, source_features: np.ndarray, source_labels: np.ndarray
) -> float:
    """Mean class accuracy on the source of a classifier that is taught by the target's predicted labels.

    Where the predictions are right, the way back leads to the source's own labels; a class that is no longer predicted,
    or that stands for another one, is lost on it. The classifier on the way back is a linear one in closed form, with
    X (n, d + 1) the target's features, standardized and with a column of ones, Y (n, c) the predictions as one-hot rows,
    and D (n, n) diagonal weights by which every class counts the same:

        B = (X' D X + 0.1 n I)^-1 X' D Y,   label of a source sample x: argmax_k (x B)_k

    Each domain is standardized by itself. Bruzzone and Marconcini, PAMI 2010.

    Args:
        features: (n, d) of the target.
        predicted: (n,) classes.
        source_features: (m, d).
        source_labels: (m,) classes.

    Returns:
        From 0 to 1.
    """
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import scale

    present, codes, counts = np.unique(predicted, return_inverse=True, return_counts=True)  # classes that are predicted at all
    x, back = (np.hstack([scale(z), np.ones((len(z), 1))]) for z in (features, source_features))  # (n, d + 1) and (m, d + 1)
    balanced = (len(x) / (len(present) * counts))[codes]  # (n,) the diagonal of D
    linear = Ridge(RIDGE * len(x), fit_intercept=False, solver="cholesky").fit(x, np.eye(len(present))[codes], balanced)
    right = present[linear.predict(back).reshape(len(back), -1).argmax(1)] == source_labels
    return float(np.mean([right[source_labels == k].mean() for k in np.unique(source_labels)]))


def density_ratio(source: np.ndarray, target: np.ndarray, at: np.ndarray) -> np.ndarray:
    """How much more often samples like these occur in the target than in the source: p_t(x) / p_s(x).

    By Bayes' rule, from a logistic regression that tells the domains apart:

        w(x) = (n_s / n_t) P(target | x) / P(source | x)

    Args:
        source: (n_s, d) features to fit on.
        target: (n_t, d) features to fit on.
        at: (m, d) features to give weights to.

    Returns:
        (m,) weights.
    """
    from sklearn.linear_model import LogisticRegression

    both = np.concatenate([source, target])
    center, scale = both.mean(0), both.std(0)
    scale[scale == 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # domains that are apart let the coefficients grow; they are stopped in time
        classifier = LogisticRegression(max_iter=200).fit((both - center) / scale, np.arange(len(both)) >= len(source))
    odds = classifier.decision_function((at - center) / scale)  # (m,) log P(target | x) / P(source | x)
    return np.asarray(len(source) / len(target) * np.exp(np.minimum(odds, 500.0)))


def importance_weighted(values: np.ndarray, weights: np.ndarray) -> float:
    """Mean over source samples that stands for one over the target: sum_i w_i v_i / sum_i w_i. Sugiyama et al., JMLR 2007.

    Args:
        values: (m,) losses, or 1 where the model is right.
        weights: (m,) see `density_ratio`.

    Returns:
        NaN where all weights are 0.
    """
    total = weights.sum()
    return float((weights * values).sum() / total) if total > 0 else math.nan


def deep_embedded_validation(values: np.ndarray, weights: np.ndarray) -> float:
    """The same with a control variate, because the mean of the weights is known to be 1.

        mean(w v) + eta (mean(w) - 1),   eta = -cov(w v, w) / var(w)

    You et al., ICML 2019. Unbiased where the weights are right, and not bound to the range of the values.

    Args:
        values: (m,) losses, or 1 where the model is right.
        weights: (m,) see `density_ratio`.
    """
    product = weights * values
    if len(weights) < 2:
        return math.nan
    spread = float(np.var(weights, ddof=1))
    eta = -float(np.cov(product, weights)[0, 1]) / spread if spread > 0 else 0.0
    return float(product.mean() + eta * (weights.mean() - 1))
