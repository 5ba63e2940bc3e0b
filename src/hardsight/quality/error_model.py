"""The probability that a label is wrong, and how many are: a model of right and wrong labels, fitted by maximum likelihood.

    q_k    = softmax_k(sum_v w_v log p_vk)                what the sample is, by one or two predictions p_v, (n, c) each
    P(y)   = (1 - rate) q_y + rate sum_{k != y} q_k N_ky  a label is right, or wrong: N_ky says how class k is mislabeled
    wrong  = rate sum_{k != y} q_k N_ky / P(y)            probability that the label y is wrong

The weights w sharpen predictions that hesitate only because the labels they were fitted to are noisy. What tells noise from a
weak model: where q is sure, labels should not disagree, and those that do are the rate. If q is nowhere sure, nothing can tell,
and the interval is wide. The matrix N starts as even noise and is estimated as well (EM, drawn towards even noise).

This reads errors that do not depend on how hard a sample is. Errors where the model is unsure look like its own mistakes: the
interval reaches up by a share of its doubt, 1 - mean max_k q_k, and down by what a doubtful model takes for errors.

Constants were chosen on one half of the settings of `python -m benchmarks clean --parts counts`; docs/clean.md reports the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardsight.quality.ranking import TINIEST
from hardsight.threads import blocks, even_rows, share

ROWS, FEWEST_ROWS, NUMBERS = 5000, 1000, 2**22  # samples that the model is fitted to: fewer where there are many classes
TINY = 1e-12  # what a probability of zero counts as in a logarithm
EVEN = 5.0  # made-up errors per class that draw N towards even noise
PRIOR = (1.0, 10.0)  # made-up wrong and right labels: a rate from a handful of samples is drawn towards 1 in 11, and never 0
MOST_STEPS, CLOSE = 12, 0.01  # of EM, and the change of a parameter at which it ends
PER_CLASS = 20  # samples per class from which it can be seen which classes are mixed up
SHARPEST = 20.0  # largest weight of a prediction
LEAST_RATE, MOST_RATE = -14.0, 0.0  # log-odds: at most every other label is wrong
BELIEVED = 0.45  # rate from which the model, not the labels, is in doubt: it may be one of other classes
SHIFT, SLOPE = 0.85, 4.0  # log-odds of an error: what sure models miss, and what doubtful ones make up
BELOW, ABOVE = 0.8, 0.35  # of the squared doubt and of the doubt: how far the interval reaches down and up
CHANCE = 2.0  # standard errors
LEAST_HIGH = 3.0  # upper end where no error is seen: the rule of three
SURE, BY_HEART = 0.2, 0.5  # doubt of the neighbors at most; share of the heads' doubts that they call errors at least
FAR_APART = 0.2  # of all samples: ends that are further apart tell nothing


@dataclass(frozen=True)
class ErrorModel:
    """The fitted model."""

    weights: np.ndarray  # (v,) of the predictions
    rate: float  # share of wrong labels
    deviation: float  # standard error of the rate
    shares: np.ndarray  # (c,) of the classes among the labels
    drawn: np.ndarray | None  # (c, c) how a sample of class k is mislabeled, rows sum to 1; None for even noise
    doubt: float  # how often q expects to be wrong

    def beliefs(self, predictions: Sequence[np.ndarray]) -> np.ndarray:
        """(n, c) q of (n, c) predictions."""
        return _softmax(self.weights, [_log(prediction) for prediction in predictions])

    def wrong(self, predictions: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
        """(n,) calibrated probability that each label is wrong."""
        result = np.empty(len(labels))

        def work(rows: slice) -> None:
            q, y = self.beliefs([prediction[rows] for prediction in predictions]), labels[rows]
            right = (1 - self.rate) * q[np.arange(len(y)), y]
            error = self.rate * (q * _drawn_as(y, self.shares, self.drawn)).sum(axis=1)
            with np.errstate(divide="ignore"):
                odds = np.log(np.maximum(error, TINIEST)) - np.log(np.maximum(right, TINIEST))
            result[rows] = 1 / (1 + np.exp(-np.clip(odds + SHIFT - SLOPE * self.doubt, -50, 50)))

        share(work, blocks(len(labels), max(1, NUMBERS // 4 // len(self.shares))))
        return result

    def learned_by_heart(self, neighbors: ErrorModel) -> bool:
        """Whether heads seem to know wrong labels: the labels of the neighbors are surer, and call many of their doubts errors.

        A head that has seen a wrong label, or whose features have, hesitates between what a sample is and what it is called.
        """
        surer = neighbors.doubt < min(self.doubt, SURE)
        return surer and neighbors.rate - self.rate > BY_HEART * self.doubt


@dataclass(frozen=True)
class ErrorCount:
    """Expected number of wrong labels among n, and the interval it lies in."""

    errors: float
    low: float
    high: float
    num_samples: int

    @property
    def certainty(self) -> str:
        """Whether the ends are close enough to tell anything."""
        return "cannot tell" if self.high - self.low > max(FAR_APART * self.num_samples, LEAST_HIGH) else "estimated"


def fit_error_model(predictions: Sequence[np.ndarray], labels: np.ndarray) -> ErrorModel:
    """From (n, c) out-of-sample probabilities, of one or two kinds, and (n,) labels.

    Example:
        >>> right = np.repeat([0, 1], 500)
        >>> probs = np.where(np.arange(2) == right[:, None], 0.95, 0.05)
        >>> labels = np.where(np.arange(1000) % 10 == 0, 1 - right, right)  # every tenth is wrong
        >>> round(fit_error_model([probs], labels).rate, 2)  # what is left, a model that says 0.95 expects of itself
        0.09
    """
    c = predictions[0].shape[1]
    rows = even_rows(len(labels), max(FEWEST_ROWS, min(ROWS, NUMBERS // c)))
    logs, y = [_log(prediction[rows]) for prediction in predictions], labels[rows]
    shares = (np.bincount(labels, minlength=c) + 1.0) / (len(labels) + c)
    even = _Fit(logs, y, shares)
    even.climb(rate=0.02)
    fits = [even]
    if c > 2 and len(y) >= PER_CLASS * c:
        predicted = logs[0].argmax(axis=1)
        counts = np.bincount(predicted * c + y, minlength=c * c).reshape(c, c) * ~np.eye(c, dtype=bool)
        disagreeing = float(np.clip((predicted != y).mean(), 0.01, BELIEVED))
        fits = []
        for start, rate in ((None, 0.02), (np.maximum(counts - counts.T, 0), disagreeing), (counts, disagreeing)):
            fit = _Fit(logs, y, shares, start)
            fit.alternate(rate)
            fits.append(fit)
    return min(fits, key=lambda fit: fit.cost).model()


class _Fit:
    """One climb to the highest likelihood. Parameters: the weights, and the log-odds of the rate."""

    def __init__(self, logs: list[np.ndarray], labels: np.ndarray, shares: np.ndarray, counts: np.ndarray | None = None) -> None:
        self.logs, self.labels, self.shares = logs, labels, shares
        self.at = np.arange(len(labels))
        self.drawn = None if counts is None else _towards_even(counts, shares)
        self.as_drawn = _drawn_as(labels, shares, self.drawn)  # (n, c)
        self.parameters = np.array([1.5, *[0.0] * (len(logs) - 1), 0.0])
        self.cost = np.inf

    def surprise(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log-likelihood, and its gradient."""
        rate, q = 1 / (1 + np.exp(-parameters[-1])), _softmax(parameters[:-1], self.logs)
        chance = q * self.as_drawn
        own, wrong = q[self.at, self.labels], chance.sum(axis=1)  # (n,)
        total = np.maximum((1 - rate) * own + rate * wrong, TINY)
        slopes = []
        for log in self.logs:
            mean = (q * log).sum(axis=1)
            change = (1 - rate) * own * log[self.at, self.labels] + rate * (chance * log).sum(axis=1)
            slopes.append(((change - ((1 - rate) * own + rate * wrong) * mean) / total).sum())
        by_rate = rate * (1 - rate) * ((wrong - own) / total).sum() + PRIOR[0] * (1 - rate) - PRIOR[1] * rate
        value = np.log(total).sum() + PRIOR[0] * np.log(rate) + PRIOR[1] * np.log1p(-rate)
        return -float(value), -np.array([*slopes, by_rate])

    def climb(self, rate: float | None = None) -> None:
        """Best parameters for N as it is."""
        from scipy.optimize import minimize

        if rate is not None:
            self.parameters[-1] = np.log(rate / (1 - rate))
        bounds = [(0.0, SHARPEST)] * len(self.logs) + [(LEAST_RATE, MOST_RATE)]
        best = minimize(self.surprise, self.parameters, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 50})
        self.parameters, self.cost = best.x, float(best.fun)

    def alternate(self, rate: float) -> None:
        """EM: parameters and N in turn."""
        c = len(self.shares)
        self.climb(rate)
        for _ in range(MOST_STEPS):
            before = self.parameters
            odds, q = 1 / (1 + np.exp(-before[-1])), _softmax(before[:-1], self.logs)
            by_class = odds * q * self.as_drawn  # (n, c): wrong, and of class k
            by_class /= np.maximum((1 - odds) * q[self.at, self.labels] + by_class.sum(axis=1), TINY)[:, None]
            counts = np.stack([np.bincount(self.labels, weights=column, minlength=c) for column in by_class.T])  # (c, c)
            self.drawn = _towards_even(counts, self.shares)
            self.as_drawn = _drawn_as(self.labels, self.shares, self.drawn)
            self.climb()
            if np.abs(self.parameters - before).max() < CLOSE:
                break
        assert self.drawn is not None
        even = _towards_even(np.zeros((c, c)), self.shares)
        off = ~np.eye(c, dtype=bool)
        self.cost += EVEN * float((even[off] * np.log(even[off] / np.maximum(self.drawn[off], TINY))).sum())

    def model(self) -> ErrorModel:
        """What was found, with the standard error of the rate from the curvature of the likelihood."""
        rate = 1 / (1 + np.exp(-self.parameters[-1]))
        weights = self.parameters[:-1]
        doubt = 1 - float(_softmax(weights, self.logs).max(axis=1).mean())
        return ErrorModel(weights, float(rate), self._deviation() * rate * (1 - rate), self.shares, self.drawn, doubt)

    def _deviation(self) -> float:
        """Standard error of the log-odds of the rate."""
        last = len(self.parameters) - 1
        steps = 0.05 * np.eye(last + 1)  # of one parameter each
        columns = [(self.surprise(self.parameters + step)[1] - self.surprise(self.parameters - step)[1]) / 0.1 for step in steps]
        curvature = (np.array(columns) + np.array(columns).T) / 2
        # A weight at its bound, or one that makes no difference, as where all samples are sure, is no source of error.
        free = [i for i in range(last) if 0.01 < self.parameters[i] < SHARPEST - 0.01 and curvature[i, i] > 1e-3]
        inner = curvature[np.ix_([*free, last], [*free, last])]
        variance = float(np.linalg.pinv(inner)[-1, -1])
        return float(np.sqrt(variance if variance > 0 else 1 / max(curvature[last, last], 1e-3)))


def _log(probs: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probs, TINY, dtype=np.float64))


def _softmax(weights: np.ndarray, logs: Sequence[np.ndarray]) -> np.ndarray:
    """(n, c) probabilities, of the weighted sum of (n, c) logarithms."""
    z = weights[0] * logs[0]
    for weight, log in zip(weights[1:], logs[1:], strict=True):
        z += weight * log
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=1, keepdims=True)
    return np.asarray(z)


def _towards_even(counts: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(c, c) how class k is mislabeled, from counted errors and a few of even noise; rows sum to 1, no label is its own error.

    Example:
        >>> _towards_even(np.array([[0, 5, 0], [0, 0, 0], [0, 0, 0]]), np.full(3, 1 / 3))
        array([[0.  , 0.75, 0.25],
               [0.5 , 0.  , 0.5 ],
               [0.5 , 0.5 , 0.  ]])
    """
    off = ~np.eye(len(shares), dtype=bool)
    even = shares * off
    drawn = counts * off + EVEN * even / even.sum(axis=1, keepdims=True)
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


def _drawn_as(labels: np.ndarray, shares: np.ndarray, drawn: np.ndarray | None) -> np.ndarray:
    """(n, c) chance that an error of a sample of class k has the label it has; 0 for its own class."""
    if drawn is not None:
        return np.asarray(drawn.T[labels])
    chance = shares[labels][:, None] / (1 - shares)[None, :]  # (n, c): any other class, as often as it is a label
    chance[np.arange(len(labels)), labels] = 0.0
    return np.asarray(chance)


def count_errors(model: ErrorModel, wrong: np.ndarray) -> ErrorCount:
    """From the model and the (n,) probabilities that labels are wrong: how many, and the interval."""
    n = len(wrong)
    if n == 0:
        return ErrorCount(0.0, 0.0, 0.0, 0)
    share = float(wrong.mean())
    if model.rate > BELIEVED:
        return ErrorCount(n * share, 0.0, float(n), n)
    chance = CHANCE * max(min(model.deviation, 0.1), float(np.sqrt(max(share, 1 / n) / n)))
    low = share - np.hypot(chance, BELOW * model.doubt**2)
    high = share + np.hypot(chance, ABOVE * model.doubt)
    return ErrorCount(n * share, max(0.0, n * low), min(float(n), max(LEAST_HIGH, n * high)), n)


def seen_in_training(wrong: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(n,) probabilities of an error, with the (n,) shares of epochs in which labels won taken into account.

    How much losing says is read off the samples: how much more often likely errors lost than likely right labels. A network
    that has learned little loses both, and changes little.
    """
    fifth = np.minimum((5 * np.nan_to_num(right)).astype(int), 4)  # (n,)
    usual = np.bincount(fifth, minlength=5) / max(1, len(fifth))  # one made-up sample of each kind
    of_wrong = np.bincount(fifth, weights=wrong, minlength=5) + usual
    of_right = np.bincount(fifth, weights=1 - wrong, minlength=5) + usual
    with np.errstate(divide="ignore", invalid="ignore"):
        says = np.log(of_wrong / of_wrong.sum()) - np.log(of_right / of_right.sum())
        odds = np.log(wrong) - np.log1p(-wrong)
    return np.asarray(1 / (1 + np.exp(-np.clip(odds + np.nan_to_num(says)[fifth], -50, 50))))
