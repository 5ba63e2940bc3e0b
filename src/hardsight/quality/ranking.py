"""`error_score`: the formulas that rank labels. Higher = more likely wrong.

From the probabilities p of one sample, for every label y it could have:

    posterior               log (sum_{k != y} (f_ky p_k)^4)^(1/4) - log p_y, f the noise factors
    confidence              -log p_y
    margin                  max_{k != y} p_k - p_y

From the epochs of a training, for the label it has:

    epochs                  (1 - w) / 2 of the normal scores of aum + (1 + w) / 2 of those of posterior by heads that have not
                            seen the sample; w is how far the noise runs one way, 0 to 1
    aum                     -mean_e (z_y - max_{k != y} z_k)
    cartography_confidence  -mean_e p_y
    aldr_lambda             lambda of the last epoch

`posterior` compares "of another class, and labeled y by mistake" with "of class y": p_k is how likely the sample is of class k,
and f_ky how likely a sample of class k is labeled y. The fourth root is close to the most likely other class: the ranking is
between self-confidence, which adds up all of them, and the margin of logits. With two classes it is the log-odds of an error.

The noise factors f come from confident disagreements: samples labeled y to which the model gives another class k with at least
k's usual probability. Their counts (Northcutt et al., "Confident Learning", JAIR 2021) say which pairs of classes are mixed up.
Single counts are small, and the mistakes of the model are among them: each is drawn towards what is expected (empirical Bayes).
Even noise gives factors of 1, and pair flips give large factors for the pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hardsight.threads import blocks, share

TINIEST = 1e-300  # what a probability of zero counts as in a logarithm
LOG_TINY = float(np.log(TINIEST))
NUMBERS = 2**20  # probabilities looked at together
POWER = 4  # 1 would add up the other classes, a large one take the most likely alone

OfProbs = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (b, c) probabilities, (c, c) factors -> (b, c), one per label


def posterior(probs: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """How much more likely each label is wrong than right, as a logarithm: (b, c), (c, c) -> (b, c).

    Example:
        >>> even = np.ones((3, 3))
        >>> posterior(np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]]), even)[:, 0].round(3)
        array([0.   , 2.197])
    """
    squares = probs * probs
    powers = squares * squares  # a product is twenty times as fast as a power
    if (factors == 1).all():
        others = _sum_of_others(powers)  # (b, c): over all k but y
    else:
        others = powers @ (factors * ~np.eye(len(factors), dtype=bool)) ** POWER
    with np.errstate(divide="ignore"):
        root = np.log(others) / POWER
    return np.maximum(root, LOG_TINY) - np.log(np.maximum(probs, TINIEST))


def _sum_of_others(values: np.ndarray) -> np.ndarray:
    """The sum of each row without the entry itself, in c steps a row instead of c^2: (b, c) -> (b, c).

    Example:
        >>> _sum_of_others(np.array([[1.0, 1e-20, 1e-20]]))
        array([[2.e-20, 1.e+00, 1.e+00]])
    """
    rows, first = np.arange(len(values)), values.argmax(axis=1)
    others = values.sum(axis=1, keepdims=True) - values  # at least half of the sum is left, but for the largest entry
    rest = values.copy()
    rest[rows, first] = 0.0
    others[rows, first] = rest.sum(axis=1)  # which a difference would round to nothing
    return others


def confidence(probs: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """-log of the probability of each label."""
    return -np.log(np.maximum(probs, TINIEST))


def margin(probs: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Largest probability of another class, minus that of the label.

    Example:
        >>> margin(np.array([[0.5, 0.3, 0.2]]), np.ones((3, 3))).round(3)
        array([[-0.2,  0.2,  0.3]])
    """
    second, first = np.split(np.partition(probs, -2, axis=1)[:, -2:], 2, axis=1)  # (b, 1) each
    return np.where(probs == first, second, first) - probs


def scores_of_labels(probs: np.ndarray, labels: np.ndarray, ranking: OfProbs, factors: np.ndarray) -> np.ndarray:
    """(n,) scores of the given labels, of (n, c) probabilities."""
    scores = np.empty(len(labels))

    def work(rows: slice) -> None:
        of_all = ranking(probs[rows].astype(np.float64), factors)  # (b, c)
        scores[rows] = of_all[np.arange(len(of_all)), labels[rows]]

    share(work, blocks(len(labels), max(1, NUMBERS // probs.shape[1])))
    return scores


RANKINGS_OF_PROBS: dict[str, OfProbs] = {"posterior": posterior, "confidence": confidence, "margin": margin}


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Values replaced by the normal quantile of their rank; ties share the mean rank. (n,) -> (n,)

    Example:
        >>> normal_scores(np.array([10.0, 30.0, 20.0])).round(3)
        array([-0.674,  0.674,  0.   ])
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return np.asarray(ndtri(rankdata(values) / (len(values) + 1)))


def by_epochs(columns: dict[str, np.ndarray], by: str, unseen: np.ndarray, one_way: float) -> np.ndarray:
    """The ranking `by` from (n,) dynamics scores by name, `posterior` by heads on unseen samples, and `one_way` of the noise."""
    if by == "aldr_lambda":
        return columns["aldr_lambda"]
    if by != "epochs":
        return -columns[by]
    weight = (1 + one_way) / 2
    return weight * normal_scores(unseen) + (1 - weight) * normal_scores(-columns["aum"])


ROWS = 8192  # looked at together
SIGNIFICANT = 3.0  # standard errors: factors that vary less than that would only add noise


def confident_counts(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How many samples labeled y are confidently of class k: (n, c), (n,) -> (c, c), row k, column y.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.9, 0.1]])
        >>> confident_counts(probs, np.array([0, 0, 1, 1]))  # the last is labeled 1, and confidently 0
        array([[1, 1],
               [0, 1]])
    """
    c = probs.shape[1]
    usual = usual_probability(probs, labels)  # (c,)
    best = np.full(len(labels), -1)

    def work(rows: slice) -> None:
        part = probs[rows]
        confident = np.where(part >= usual, part, -1.0)  # (b, c)
        best[rows] = np.where(confident.max(axis=1) >= 0, confident.argmax(axis=1), -1)

    share(work, blocks(len(labels), ROWS))
    known = best >= 0
    return np.bincount(best[known] * c + labels[known], minlength=c * c).reshape(c, c)


def usual_probability(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(c,) mean probability of each class over the samples labeled so; infinite for a class without any."""
    c = probs.shape[1]
    own = probs[np.arange(len(labels)), labels].astype(np.float64)  # (n,)
    count = np.bincount(labels, minlength=c)
    total = np.bincount(labels, weights=own, minlength=c)
    return np.where(count > 0, total / np.maximum(count, 1), np.inf)


def noise_factors(counts: np.ndarray) -> np.ndarray:
    """How much more often class k is labeled y than expected: (c, c) counts -> (c, c) factors, 1 on the diagonal.

    With o disagreements counted in a cell and e expected, the factor is (a + o) / (a + e): the mean of a gamma-distributed
    factor given a Poisson count, 1/a the variance of the factors. What a model mixes up, it mixes up both ways; what runs one
    way is noise. So e is that of even noise as far as the counts run one way, and their mean over both ways otherwise. Where
    they do not run one way more than by chance, all factors are 1.
    """
    c = len(counts)
    off = ~np.eye(c, dtype=bool)
    share = one_way(counts)
    if c < 3 or share == 0:
        return np.ones((c, c))
    size, wrong = counts.sum(axis=1, keepdims=True), counts[off].sum()
    even = np.where(off, size * (wrong / (len(counts) - 1) / size.sum()), 0.0)  # (c, c) under even noise, sums to `wrong`
    beyond = float(((counts - even) ** 2 - even)[off].sum() / (even**2).sum())  # variance of the factors beyond the counts'
    both_ways = np.where(off, (counts + counts.T) / 2, 0.0)
    expected = share * even + (1 - share) * both_ways
    a = 1 / max(beyond, 1e-9)
    return np.where(off, (a + counts) / (a + expected), 1.0)


def one_way(counts: np.ndarray) -> float:
    """Share of the squared (c, c) counts that runs from one class to another and not back: 0 (also by chance) to 1."""
    off = ~np.eye(len(counts), dtype=bool)
    mean, half = np.where(off, (counts + counts.T) / 2, 0.0), (counts - counts.T) / 2
    squares = (mean**2).sum()
    if squares == 0:
        return 0.0
    share = (half**2 - mean / 2)[off].sum() / squares  # mean / 2 is the variance of half the difference by chance
    by_chance = np.sqrt((mean**2 / 2 + mean / 8)[off].sum()) / squares
    return float(min(share, 1.0)) if share > SIGNIFICANT * by_chance else 0.0


def estimated_noise(probs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float]:
    """How classes are mixed up, from (n, c) probabilities and (n,) labels: (c, c) factors for the ranking, and `one_way`.

    A class that nothing is labeled as is no wrong label, either.

    Example:
        >>> estimated_noise(np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3]]), np.array([0, 1]))[0].shape
        (3, 3)
    """
    c = probs.shape[1]
    given = np.unique(labels)
    counts = confident_counts(probs, labels)[np.ix_(given, given)]
    factors = np.ones((c, c))
    factors[np.ix_(given, given)] = noise_factors(counts)
    return factors, one_way(counts)
