"""Section 3.3: "the norms of feature embeddings are often related to training data priors such as data imbalance and class
granularity"; the angle is not.

Which classes are frequent, and which are made of many finer ones, changes with the seed, so that no digit's own norm decides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardsight.stats import spearman
from hardsight_papers.avh.panels import DIGITS, scored
from hardsight_papers.context import Context, Handwriting
from hardsight_papers.drawing import Figure, panels, seed_curves
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.seed_statistics import SEEDS, ahead, difference, effect, interval, seeds, signed
from hardsight_papers.verdicts import CORRELATION

LARGEST, RATIO = 140, 10  # images of the most frequent class, and how many times more it has than the rarest
FINE = (4, 3, 2, 1)  # finer classes in each of four classes; every class has as many images
COARSE_IMAGES, MOST_TRAINED = 120, 5000
PRIORS = {"images": "images of the class in training", "fine": "finer classes in the class"}


@recipe("slides/imbalance", "Do norms follow class imbalance and class granularity?", needs="MNIST")
def imbalance(context: Context) -> Outcome:
    """Spearman over held-out images of norm and AVH with two priors of their class: how many images it had, how fine it is."""
    written = context.handwriting(train=MOST_TRAINED, test=1000)
    measured = {prior: [_measured(context, written, prior, seed) for seed in seeds(context)] for prior in PRIORS}
    rho = {(prior, name): np.array([each[name][0] for each in measured[prior]]) for prior in PRIORS for name in ("norm", "avh")}
    rows: list[list[Value]] = []
    for prior, words in PRIORS.items():
        norm, avh = rho[prior, "norm"], rho[prior, "avh"]
        closer = difference(np.abs(norm), np.abs(avh))  # how much more the norm goes with a prior, whatever the direction
        rows.append([words, interval(norm, 3), interval(avh, 3), signed(closer, 3)])
    return Outcome(
        about=f"{written.name}; {written.lenet}, {DIGITS['epochs']} epochs, {SEEDS} seeds, each with another order of the "
        f"classes. Imbalance: the most frequent of ten classes has {RATIO} times the images of the rarest. Granularity: four "
        f"classes of {', '.join(map(str, FINE))} digits and {COARSE_IMAGES} images each. {len(written.test)} held-out images.",
        tables=[
            Table("Spearman with a prior of the class, over held-out images", ("prior", "norm", "AVH", "|norm| - |AVH|"), rows),
            _by_class(measured),
        ],
        figures={"Norm and AVH by prior": _figure(measured)},
        claims=[
            _follows(rho, "images", "Norms of features are related to data imbalance."),
            _follows(rho, "fine", "Norms of features are related to class granularity."),
            *(_less(rho, prior) for prior in PRIORS),
        ],
    )


def _measured(context: Context, written: Handwriting, prior: str, seed: int) -> dict[str, tuple[float, list[float]]]:
    """Name of a score -> its Spearman with the prior, and its mean for each value of the prior, the smallest first."""
    labels = written.train.labels
    assert labels is not None and written.test.labels is not None
    order = np.random.default_rng([context.seed, seed]).permutation(10)
    if prior == "images":
        values = np.empty(10)
        values[order] = np.rint(LARGEST * RATIO ** (-np.arange(10) / 9))  # images of each digit
        rows = np.concatenate([np.flatnonzero(labels == k)[: int(values[k])] for k in range(10)])
        train, test, of_class = written.train.take(np.sort(rows)), written.test, values
    else:
        coarse, first = np.empty(10, np.int64), 0
        for k, size in enumerate(FINE):
            coarse[order[first : first + size]], first = k, first + size
        rows = np.concatenate([np.flatnonzero(labels == k)[: COARSE_IMAGES // FINE[coarse[k]]] for k in range(10)])
        of_class = np.array(FINE, float)
        parts, names = (written.train.take(np.sort(rows)), written.test), [str(k) for k in range(len(FINE))]
        train, test = (replace(part, labels=coarse[part.labels], class_names=names) for part in parts)
    trained = context.train(train, written.lenet, seed=seed, snapshot=False, **DIGITS)
    table = scored(context, context.extract(trained.run, test))
    given = of_class[table["label"].to_numpy()]
    by_score = {}
    for name in ("norm", "avh"):
        x = table[name].to_numpy()
        by_score[name] = (spearman(given, x), [float(x[given == v].mean()) for v in np.unique(given)])
    return by_score


def _follows(rho: dict[tuple[str, str], np.ndarray], prior: str, sentence: str) -> Claim:
    mean = difference(rho[prior, "norm"], np.zeros(SEEDS))
    return claim(
        sentence,
        rule=f"Spearman of a held-out image's norm and the number of {PRIORS[prior]}: its 95 % interval over seeds leaves out 0.",
        effects=[effect(mean, CORRELATION, sign=1 if mean.value > 0 else -1)],
        found=f"{signed(mean, 3)}.",
    )


def _less(rho: dict[tuple[str, str], np.ndarray], prior: str) -> Claim:
    text = f"AVH is less related than the norm to the number of {PRIORS[prior]}."
    rule = "The size of the norm's coefficient minus that of AVH's: its 95 % interval over seeds lies above 0."
    return ahead(text, np.abs(rho[prior, "norm"]), np.abs(rho[prior, "avh"]), rule=rule, smallest=CORRELATION, unit="")


def _by_class(measured: dict[str, list[dict[str, tuple[float, list[float]]]]]) -> Table:
    """Means at the smallest and the largest value of each prior."""
    rows: list[list[Value]] = []
    for prior, each in measured.items():
        for name in ("norm", "avh"):
            ends = np.array([[seed[name][1][0], seed[name][1][-1]] for seed in each])
            rows.append([PRIORS[prior], name, interval(ends[:, 0], 3), interval(ends[:, 1], 3)])
    return Table("Means of held-out images", ("prior", "score", "where it is smallest", "largest"), rows, words=2)


def _figure(measured: dict[str, list[dict[str, tuple[float, list[float]]]]]) -> Figure:
    figure, axes = panels(4, width=3.4)
    at = {"images": np.rint(LARGEST * RATIO ** (-np.arange(10) / 9))[::-1], "fine": np.array(FINE[::-1], float)}
    for k, (prior, name) in enumerate((prior, name) for prior in PRIORS for name in ("norm", "avh")):
        curves = np.array([seed[name][1] for seed in measured[prior]]).T  # (values, seeds)
        seed_curves(axes[k], at[prior], {name: curves}, xlabel=PRIORS[prior], ylabel={"avh": "AVH"}.get(name, name))
    return figure
