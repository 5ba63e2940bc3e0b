"""How many labels are wrong, found from the data, with an interval.

From out-of-sample probabilities: what a wrong label looks like is known. Give each sample every other label, weighted as the
noise draws them, and rank it by that: a label that the model has not learned from is as surprising to it whether a person or we
got it wrong. Of those labels a share g is above some score; of the labels in the data, a share G. Wrong labels are among the
latter, so at most G / g of all labels are wrong, whatever the score; where right labels are rarely above it, hardly fewer.
The smallest bound, each with its standard error added, is the estimate. It is a mixture proportion: Blanchard, Lee & Scott,
JMLR 2010; Garg et al., NeurIPS 2021.

From epoch means of samples that were trained on, where that does not hold: two normal components are fitted to the scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.act.ranking import OfProbs
from hardsight.threads import blocks, share

EDGES = 200  # scores at which the bound is looked at
LEAST = 0.2  # share of made-up wrong labels that must be above such a score
REPLICATES = 200
LEVEL = 0.95
NUMBERS = 2**20  # probabilities looked at together
BINS = 200  # of the histogram that two components are fitted to
STEPS = 200


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


def scores_and_count(
    probs: np.ndarray, labels: np.ndarray, ranking: OfProbs, factors: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, ErrorCount]:
    """(n,) scores of the given labels by a ranking, and how many of them are wrong: from (n, c) and (n,)."""
    scores, observed, made_up = score_all(probs, labels, ranking, factors)
    return scores, count_from_shares(observed, made_up, seed)


def score_all(
    probs: np.ndarray, labels: np.ndarray, ranking: OfProbs, factors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) scores of the given labels, and (bins,) numbers of given and of made-up wrong labels between rising scores."""
    n, c = probs.shape
    scores = np.empty(n)
    parts = list(enumerate(blocks(n, max(1, NUMBERS // c))))

    def own(part: tuple[int, slice]) -> None:
        rows = part[1]
        of_all = ranking(probs[rows].astype(np.float64), factors)  # (b, c)
        scores[rows] = of_all[np.arange(len(of_all)), labels[rows]]

    share(own, parts)
    tails = np.quantile(scores, 1 - np.geomspace(1 / n, 0.9, EDGES))
    edges = np.unique(np.append(tails, np.nextafter(scores.max(), np.inf)))  # increasing; no given label is above the last
    made_up = np.zeros((len(parts), len(edges) + 1))

    def every_other(part: tuple[int, slice]) -> None:
        number, rows = part
        p = probs[rows].astype(np.float64)
        predicted = p.argmax(axis=1)
        chance = factors[predicted]  # (b, c): how a sample of the predicted class is labeled
        chance[np.arange(len(p)), predicted] = 0.0
        chance /= chance.sum(axis=1, keepdims=True)
        between = np.searchsorted(edges, ranking(p, factors).ravel(), side="right")
        made_up[number] = np.bincount(between, weights=chance.ravel(), minlength=len(edges) + 1)

    share(every_other, parts)
    observed = np.bincount(np.searchsorted(edges, scores, side="right"), minlength=len(edges) + 1)
    return scores, observed, made_up.sum(axis=0)


def count_from_shares(observed: np.ndarray, made_up: np.ndarray, seed: int = 0) -> ErrorCount:
    """From (bins,) numbers of given and of made-up wrong labels, lowest scores first; each sums to n."""
    n = int(observed.sum())
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n, observed / n, REPLICATES), rng.multinomial(n, made_up / made_up.sum(), REPLICATES)
    (rate,) = _smallest_bound(observed[None], made_up[None])
    return _with_interval(n * rate, n * _smallest_bound(*drawn), n)


def _smallest_bound(observed: np.ndarray, made_up: np.ndarray) -> np.ndarray:
    """Of (r, bins) counts: (r,) the bound G / g where it is smallest with its standard error added."""
    n = observed.sum(axis=1, keepdims=True)
    above = np.cumsum(observed[:, :0:-1], axis=1) / n  # (r, bins - 1): G, from the highest scores down
    wrong_above = np.cumsum(made_up[:, :0:-1], axis=1) / made_up.sum(axis=1, keepdims=True)  # g
    usable = wrong_above >= LEAST
    bound = np.where(usable, above / np.maximum(wrong_above, LEAST), 1.0)
    error = np.sqrt(np.maximum(above * (1 - above), 1 / n) / n) / np.maximum(wrong_above, LEAST)
    best = np.where(usable, bound + error, np.inf).argmin(axis=1)
    return np.where(usable.any(axis=1), np.minimum(bound[np.arange(len(bound)), best], 1.0), 0.0)


def count_by_two_components(scores: np.ndarray, seed: int = 0) -> ErrorCount:
    """From (n,) scores alone: the size of the higher of two normal components."""
    n = len(scores)
    if np.ptp(scores) == 0:
        return ErrorCount(0.0, 0.0, 0.0, n)
    counts, edges = np.histogram(scores, bins=BINS)
    centres = (edges[1:] + edges[:-1]) / 2
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, REPLICATES)
    sizes = _higher_component(centres, np.concatenate([counts[None], drawn]) / n)
    return _with_interval(n * sizes[0], n * sizes[1:], n)


def _higher_component(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(bins,) centres and (r, bins) shares -> (r,) size of the component with the higher mean, by expectation maximisation."""
    middle = (weight * x).sum(axis=1)  # (r,)
    spread = np.sqrt((weight * (x - middle[:, None]) ** 2).sum(axis=1))
    mean = np.stack([middle - spread / 2, middle + 2 * spread])  # (2, r)
    deviation = np.stack([spread, spread])
    size = np.stack([np.full_like(middle, 0.8), np.full_like(middle, 0.2)])
    for _ in range(STEPS):
        z = (x - mean[..., None]) / deviation[..., None]  # (2, r, bins)
        log_density = np.log(size / deviation)[..., None] - 0.5 * z**2
        density = np.exp(log_density - log_density.max(axis=0))
        part = weight * density / density.sum(axis=0)  # (2, r, bins)
        size = part.sum(axis=-1).clip(1e-9)
        mean = (part * x).sum(axis=-1) / size
        deviation = np.sqrt((part * (x - mean[..., None]) ** 2).sum(axis=-1) / size)
        deviation = np.maximum(deviation, 1e-3 * spread)  # a component of one value would have none
    return np.where(mean[1] > mean[0], size[1], size[0])


def _with_interval(errors: float, replicates: np.ndarray, num_samples: int) -> ErrorCount:
    """The middle 95 % of the replicates, moved to where their median is the estimate: drawn again, a smallest bound is lower."""
    low, middle, high = np.quantile(replicates, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    bounds = np.clip([errors + low - middle, errors + high - middle], 0, num_samples)
    return ErrorCount(float(errors), float(bounds[0]), float(bounds[1]), num_samples)
