"""How many labels are wrong, estimated from the data, with an interval.

From out-of-sample probabilities: what a wrong label looks like is known. Give each sample every other label, weighted as the
noise draws them, and rank it by that: a label that the model has not learned from is as surprising to it whether a person or we
got it wrong. Of those made-up labels a share g is above some score; of the given labels, a share G. Wrong labels are among the
latter, so at most G / g of all labels are wrong, whatever the score; where right labels are rarely above it, hardly fewer
(a mixture proportion: Blanchard, Lee & Scott, JMLR 2010). The estimate is this bound at g = 0.93.

If the model, or the network that its features come from, was trained on the same labels, wrong labels are less surprising than
made-up ones. It shows: the bound then falls as g does, while it hardly changes otherwise. In that case the same bound is taken
from the labels of the ten samples that are predicted most alike. What a model has memorised of a label moves that sample a
little, but not the labels around it (Zhu, Song & Liu, "Clusterability as an Alternative to Anchor Points", ICML 2021).

From the epochs of a training: the labels that won in fewer than a quarter of the epochs.

The interval covers chance, by a bootstrap, and the bias of the estimate, by its usual size in benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.act.noise import Noise, estimated_noise
from hardsight.act.ranking import OfProbs, posterior
from hardsight.threads import blocks, share

EDGES = 400  # scores at which the shares are known
SHARE = 0.93  # of made-up wrong labels that are above the score at which the bound is taken
HALF = 0.5  # a smaller share, to compare with
FLAT = 0.75  # the bound at HALF over that at SHARE: smaller where the model knows something of wrong labels
REPLICATES = 200
BIAS = 0.1  # of the estimate: standard deviation of what it is off beyond chance, over the sets of `hardsight bench clean`
WON = 0.25  # share of epochs: wrong labels win in fewer, as long as they are not learned by heart
LEAST_HIGH = 3.0  # upper end of the interval where no error is seen: the rule of three
LEVEL, NORMAL = 0.95, 1.96  # of the interval, and the normal quantile that belongs to it
NUMBERS = 2**20  # probabilities looked at together


@dataclass(frozen=True)
class ErrorCount:
    """Expected number of wrong labels among n, and the interval it lies in."""

    errors: float
    low: float
    high: float
    num_samples: int

    @property
    def rate(self) -> float:
        """As a share of all samples."""
        return self.errors / self.num_samples if self.num_samples else 0.0


def count_by_votes(votes: np.ndarray, labels: np.ndarray, seed: int = 0) -> ErrorCount:
    """From what the labels of the neighbours say of each of n samples, (n, c), and the (n,) given labels."""
    _, observed, made_up = score_all(votes, labels, posterior, estimated_noise(votes, labels))
    return count_from_shares(observed, made_up, seed)


def leaky(observed: np.ndarray, made_up: np.ndarray) -> bool:
    """Whether given labels seem to be known to the model: wrong ones surprise it less than made-up ones. (bins,) numbers of each.

    Example:
        >>> made_up = np.array([0.0, 100.0, 400.0, 500.0])  # 1,000, lowest scores first
        >>> leaky(np.array([900, 10, 40, 50]), made_up), leaky(np.array([900, 50, 40, 10]), made_up)
        (False, True)
    """
    at_half, at_share = (_bound(observed[None], made_up[None], share)[0] for share in (HALF, SHARE))
    return bool(at_half < FLAT * at_share)


def score_all(probs: np.ndarray, labels: np.ndarray, ranking: OfProbs, noise: Noise) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) scores of the given labels, and (bins,) numbers of given and of made-up wrong labels between rising scores."""
    n, c = probs.shape
    scores = np.empty(n)
    parts = list(enumerate(blocks(n, max(1, NUMBERS // c))))

    def own(part: tuple[int, slice]) -> None:
        rows = part[1]
        of_all = ranking(probs[rows].astype(np.float64), noise.factors)  # (b, c)
        scores[rows] = of_all[np.arange(len(of_all)), labels[rows]]

    share(own, parts)
    tails = np.quantile(scores, 1 - np.geomspace(1 / n, 0.9, EDGES))
    edges = np.unique(np.append(tails, np.nextafter(scores.max(), np.inf)))  # increasing; no given label is above the last
    made_up = np.zeros((len(parts), len(edges) + 1))

    def every_other(part: tuple[int, slice]) -> None:
        number, rows = part
        p = probs[rows].astype(np.float64)
        predicted = p.argmax(axis=1)
        chance = noise.chances[predicted]  # (b, c): how a sample of the predicted class is labeled
        chance[np.arange(len(p)), predicted] = 0.0
        chance /= chance.sum(axis=1, keepdims=True)
        between = np.searchsorted(edges, ranking(p, noise.factors).ravel(), side="right")
        made_up[number] = np.bincount(between, weights=chance.ravel(), minlength=len(edges) + 1)

    share(every_other, parts)
    observed = np.bincount(np.searchsorted(edges, scores, side="right"), minlength=len(edges) + 1)
    return scores, observed, made_up.sum(axis=0)


def count_from_shares(observed: np.ndarray, made_up: np.ndarray, seed: int = 0) -> ErrorCount:
    """From (bins,) numbers of given and of made-up wrong labels, lowest scores first; each sums to n."""
    n = int(observed.sum())
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n, observed / n, REPLICATES), rng.multinomial(n, made_up / made_up.sum(), REPLICATES)
    (rate,) = _bound(observed[None], made_up[None])
    return _with_interval(n * rate, n * _bound(*drawn), n)


def _bound(observed: np.ndarray, made_up: np.ndarray, share: float = SHARE) -> np.ndarray:
    """Of (r, bins) counts: (r,) the bound G / g where g is nearest to a share."""
    above = np.cumsum(observed[:, :0:-1], axis=1) / observed.sum(axis=1, keepdims=True)  # (r, bins - 1): G, from the top down
    wrong_above = np.cumsum(made_up[:, :0:-1], axis=1) / made_up.sum(axis=1, keepdims=True)  # g
    at = np.arange(len(above)), np.abs(wrong_above - share).argmin(axis=1)
    return np.minimum(above[at] / np.maximum(wrong_above[at], 1e-9), 1.0)


def count_of_lost(right: np.ndarray, seed: int = 0) -> ErrorCount:
    """From the (n,) shares of epochs in which the given label won: how many won in fewer than a quarter."""
    n, lost = len(right), int((right < WON).sum())
    drawn = np.random.default_rng(seed).binomial(n, lost / max(1, n), REPLICATES)
    return _with_interval(lost, drawn, n)


def _with_interval(errors: float, replicates: np.ndarray, num_samples: int) -> ErrorCount:
    """The middle 95 % of the replicates, moved to where their median is the estimate, and widened by its usual bias.

    None seen among n is not none at all: with 3 in n wrong, a sample without any is drawn one time in twenty.
    """
    low, middle, high = np.quantile(replicates, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    below, above = np.hypot([middle - low, high - middle], NORMAL * BIAS * errors)
    highest = min(float(num_samples), max(LEAST_HIGH, float(errors + above)))
    return ErrorCount(float(errors), max(0.0, float(errors - below)), highest, num_samples)
