"""Naive Bayes against logistic regression on frozen features, by the number of samples.

Zheng, Wu, Li and Zhu, "Revisiting Discriminative vs. Generative Classifiers: Theory and Implications", ICML 2023.

The mixture of Gaussians is that of the authors' simulation: class means of -1, 1 and 2 in every dimension; a variance of d in
half of the dimensions, of 1 in the others. From 100 dimensions on hardly an error is left; a head has converged within a point.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hardsight import Head
from hardsight.scoring import fit_head
from hardsight.stats import Mean
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import unconverged
from hardsight_papers.drawing import panels, seed_curves
from hardsight_papers.losses.known_and_new import about, features_of_new, trained_on_known
from hardsight_papers.recipe import Claim, Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect, interval, signed
from hardsight_papers.verdicts import POINTS

PER_CLASS = (2, 3, 5, 10, 20, 40, 80)
FEW = 5
DRAWS = 10
HEADS = ("naive Bayes", "logistic regression")
RAW = "logistic regression, not standardized"
NEAR = 1.0  # point: this close to the accuracy with all samples, a head has converged
DIMENSIONS = (100, 200, 400, 800)  # of the mixture of Gaussians
MEANS = (-1.0, 1.0, 2.0)  # of the classes, in every dimension
REPEATS = 3
MOST, GROWTH = 2000, 1.25  # samples per class are tried from 2 on, a quarter more each time


@recipe("losses/naive-bayes", "Naive Bayes and logistic regression on frozen features, by sample count")
def naive_bayes(context: Context) -> Outcome:
    """Features of a network that has seen digits 0 to 5, heads for 6 to 9; and a mixture of Gaussians by its dimension."""
    run = trained_on_known(context, "softmax", {}, context.seed)
    features, labels = features_of_new(context, run)
    rng = np.random.default_rng(context.seed)
    cells = np.array([by_samples(features, labels, rng) for _ in range(DRAWS)])  # (draws, numbers, heads)
    accuracy = {head: cells[:, :, k].T for k, head in enumerate(HEADS)}  # (numbers, draws)
    gaps = [difference(accuracy[HEADS[0]][i], accuracy[HEADS[1]][i]) for i in range(len(PER_CLASS))]
    needed = {head: samples_needed(context, head) for head in (*HEADS, RAW)}
    figure, (left, right) = panels(2)
    seed_curves(left, PER_CLASS, accuracy, ticks=True, xlabel="samples per class", ylabel="accuracy (%)", xscale="log",
                title="digits 6 to 9, features of 0 to 5")  # fmt: skip
    by_dimension = {head: np.array(numbers)[:, None] for head, numbers in needed.items()}
    seed_curves(right, DIMENSIONS, by_dimension, ticks=True, xlabel="dimensions", ylabel="samples per class needed",
                xscale="log", yscale="log", title="mixture of Gaussians")  # fmt: skip
    rows = [(f"{n}", *(interval(accuracy[head][i]) for head in HEADS), signed(gaps[i])) for i, n in enumerate(PER_CLASS)]
    return Outcome(
        about=about(context) + f" {DRAWS} draws of samples; intervals of 95 % over them.",
        tables=[
            Table("Accuracy (%) by samples per class [95 %]", ("samples", *HEADS, "difference"), rows),
            Table("Mixture of Gaussians: samples per class for an error below 1 %", ("dimensions", *needed),
                  [(f"{d}", *(numbers[i] for numbers in needed.values())) for i, d in enumerate(DIMENSIONS)], digits=1,
                  note=f"Means of {REPEATS} repeats."),
        ],
        figures={"Naive Bayes and logistic regression": figure},
        claims=[few_shot(gaps), converges_faster(accuracy), two_regimes(gaps), grows_slower(needed)],
    )  # fmt: skip


def by_samples(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> list[list[float]]:
    """Accuracy in per cent of both heads for each number of samples of one draw; the rest of the samples are tested on."""
    order = rng.permutation(len(labels))
    ranks = np.empty(len(labels), int)  # the how manieth of its class a sample is
    for k in np.unique(labels):
        own = order[labels[order] == k]
        ranks[own] = np.arange(len(own))
    test = ranks >= max(PER_CLASS)
    accuracies = []
    for number in PER_CLASS:
        train = ranks < number
        parts = features[train], labels[train], features[test], labels[test]
        accuracies.append([100 * accuracy_of(head, *parts) for head in HEADS])
    return accuracies


def accuracy_of(head: str, x: np.ndarray, y: np.ndarray, test: np.ndarray, answers: np.ndarray) -> float:
    """Share of test samples that a head fitted to (n, d) x and (n,) y classifies right."""
    from sklearn.linear_model import LogisticRegression

    c = int(y.max()) + 1
    if head == RAW:
        with unconverged():
            return float(LogisticRegression(max_iter=1000).fit(x, y).score(test, answers))
    if head == "naive Bayes":
        logits = naive_bayes_head(x, y, c).logits(test)
    else:
        with unconverged():
            logits = fit_head(x, y, c).logits(test)
    return float((np.asarray(logits).argmax(1) == answers).mean())


def naive_bayes_head(x: np.ndarray, y: np.ndarray, c: int) -> Head:
    """Gaussian naive Bayes with one variance for all classes, each of which has samples."""
    counts = np.bincount(y, minlength=c)  # (c,)
    means = np.stack([x[y == k].mean(axis=0, dtype=np.float64) for k in range(c)])  # (c, d)
    variance = ((x - means[y]) ** 2).mean(axis=0) + 1e-9  # (d,) a constant dimension would divide by zero
    return Head("gaussian", means, log_variance=np.log(variance), log_prior=np.log(counts / counts.sum()))


def samples_needed(context: Context, head: str) -> list[float]:
    """Samples per class at which a head's mean error falls below a point, for each dimension; mean of some repeats."""
    needed = []
    for d in DIMENSIONS:
        context.say(f"{head}, {d} dimensions")
        key = {"head": head, "d": d, "means": MEANS, "repeats": REPEATS, "near": NEAR, "most": MOST, "seed": context.seed}
        rows = context.cache.rows("mixture", key, partial(_all_needed, head, d, context.seed))
        needed.append(float(np.mean(rows)))
    return needed


def _all_needed(head: str, d: int, seed: int) -> list[int]:
    """Samples per class, for each repeat."""
    return [needed_once(head, d, np.random.default_rng([seed, d, repeat])) for repeat in range(REPEATS)]


def needed_once(head: str, d: int, rng: np.random.Generator) -> int:
    """The first number of samples per class with an error of less than a point, each time with new samples."""
    deviation = np.where(np.arange(d) < d // 2, np.sqrt(d), 1.0)  # (d,)
    answers = np.arange(len(MEANS)).repeat(700)

    def drawn(labels: np.ndarray) -> np.ndarray:
        """(n, d) samples of (n,) classes."""
        return np.array(MEANS)[labels][:, None] + deviation * rng.normal(size=(len(labels), d))

    test, number = drawn(answers), 2
    while number < MOST:
        labels = np.arange(len(MEANS)).repeat(number)
        if 1 - accuracy_of(head, drawn(labels), labels, test, answers) < NEAR / 100:
            return number
        number = max(number + 1, round(GROWTH * number))
    return MOST


def few_shot(gaps: list[Mean]) -> Claim:
    """Both heads with five samples per class."""
    gap = gaps[PER_CLASS.index(FEW)]
    return claim(
        "Naive Bayes shows promise in few-shot cases.",
        rule=f"With {FEW} samples per class the 95 % interval of its accuracy less that of logistic regression lies above 0.",
        effects=[effect(gap, POINTS, DRAWS)],
        found=f"{signed(gap)} points.",
    )


def converges_faster(accuracy: dict[str, np.ndarray]) -> Claim:
    """From how many samples on a head is near its own best."""
    reached = {}
    for head, values in accuracy.items():
        mean = values.mean(1)
        reached[head] = next(number for number, each in zip(PER_CLASS, mean, strict=True) if each >= mean[-1] - NEAR)
    return claim(
        "Naive Bayes converges faster as the number of samples increases.",
        rule=f"Its mean accuracy comes within {NEAR:g} point of that with {PER_CLASS[-1]} samples per class at fewer samples.",
        holds=reached[HEADS[0]] < reached[HEADS[1]],
        found=", ".join(f"{head} at {number}" for head, number in reached.items()) + " samples per class.",
    )


def two_regimes(gaps: list[Mean]) -> Claim:
    """Where one head is ahead, and where the other."""
    first = [n for n, gap in zip(PER_CLASS, gaps, strict=True) if gap.low > 0]
    later = [n for n, gap in zip(PER_CLASS, gaps, strict=True) if gap.high < 0]
    return claim(
        "Two regimes: naive Bayes is better with few samples, logistic regression with many.",
        rule="There is a number of samples with the interval above 0, and a larger one with the interval below 0.",
        holds=bool(first and later and min(first) < max(later)),
        found=f"Naive Bayes is ahead with {first or 'no number of'} samples per class, the other with {later or 'none'}.",
    )


def grows_slower(needed: dict[str, list[float]]) -> Claim:
    """O(log d) against O(d)."""
    growth = {head: numbers[-1] / numbers[0] for head, numbers in needed.items()}
    slower = {head: growth[HEADS[0]] < growth[head] / 2 for head in (HEADS[1], RAW)}
    raw = "holds" if slower[RAW] else "does not hold"
    return claim(
        "Naive Bayes needs O(log d) samples to approach its asymptotic error, logistic regression O(d).",
        rule=f"From {DIMENSIONS[0]} to {DIMENSIONS[-1]} dimensions the samples that naive Bayes needs grow by less than half of "
        "the factor of logistic regression on standardized features, which is the usual practice.",
        holds=slower[HEADS[1]],
        found=", ".join(f"{head} {factor:.1f} times" for head, factor in growth.items())
        + f". By the same rule without standardizing, as in the authors' simulation, it {raw}.",
    )
