"""`people` and `human_hardness`: how fast they are, and how well they agree with real people.

speed      `correlate` of three networks within 60 s, `people` within 30 s, and `human_hardness` beside the table of scores
reference  `human_hardness` and `angular_gap`: their Spearman with CIFAR-10H on the half of the images that nothing was chosen on,
           the difference with intervals over images; and the coefficients on all images
answers    `people`, a plain ridge and the best score without answers, by the number of answered images: CIFAR-10H, and the
           ImageNet images that people voted on

The rule of `answers` was fixed before its run: in draw number k, for k below DRAWS, the first images of
`np.random.default_rng(k).permutation(n)` are answered, and the others are scored. Nothing reads the training images. The ridge
gets the default scores but `avh_relative`, which is AVH times a constant; features, or 64 principal components of each network's
if there are more than 100; and the class, unless there are more than 100. It learns the arcsine of the root of the frequency, and
a flip pass is averaged in, as `people` does. In the study of three people an image, those are drawn from all by
`np.random.default_rng(0)`, and the images without answers are scored with what all said.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.kept_results import kept
from benchmarks.pictures import check_words
from benchmarks.timing import Measurement, compared
from hardsight import SCORES, Snapshot, correlate, extract, people, score
from hardsight.errors import InputError
from hardsight.screen import progress_bar
from hardsight.stats import bootstrap, mean_interval, pearson, selection_frequency, spearman

PARTS = ("speed", "reference", "answers")
NETWORKS, REPLICATES, ANSWERS, PEOPLE = 3, 1000, 5000, 20
CORRELATE_SECONDS, PEOPLE_SECONDS = 60.0, 30.0
BESIDE = 1.3  # times the command without it, which does not read the reference
DEFAULT = [name for name, of in SCORES.items() if of.default]

DRAWS, DRAWN_AGAIN = 4, 300  # of the answered images; of the images, for intervals
CIFAR_SIZES, IMAGENET_SIZES, THREE_SIZES = (100, 500, 2000, 5000), (100, 300, 1000, 1900), (2000,)
ONE, FLIP = "one pass", "with a flip pass"
GAINS = {(ONE, ONE): 0.010, (FLIP, ONE): 0.022, (FLIP, FLIP): 0.0}  # of human_hardness over angular_gap by passes, at least
VOTERS, THREE = 5, 3  # of an ImageNet image; of CIFAR-10H's 51 in the study of few people
MANY, COMPONENTS = 100, 64  # features or classes; of them the ridge gets so many components
PENALTIES = 10.0 ** np.arange(-2, 5.1, 0.5)
COEFFICIENTS = {"Spearman": spearman, "Pearson": pearson}


def run(
    data: Path | None = None, parts: tuple[str, ...] = ("speed",), keep: Path | None = None,
    images: int = 5000, samples: int = 50_000, width: int = 512, classes: int = 100, rounds: int = 5,
) -> list[Measurement]:  # fmt: skip
    """Some parts, or all.

    --data names the directory of CIFAR-10's images and CIFAR-10H, the weights of the ResNets, and ImageNet's images and votes;
    --keep one for what networks see of them, and for each draw of answers: a repeated run continues. The others: sizes of speed.
    """
    check_words("parts", parts, PARTS)
    if data is None and set(parts) != {"speed"}:
        raise InputError("--data must name the directory that holds cifar10_test.npz and cifar10h_counts.npy.")
    lines: list[Measurement] = []
    if "speed" in parts:
        lines += _correlate(images, width, classes)
        lines += _people(samples, width, classes)
        lines += _human_hardness(samples // 5, samples, rounds)
    with tempfile.TemporaryDirectory() as folder:
        root = keep or Path(folder)
        if "reference" in parts:
            for study in _cifar(data, root, training=True):
                lines += study.against_the_gap()
        if "answers" in parts:
            for study in [*_cifar(data, root, training=False), *_imagenet(data, root)]:
                lines += study.learning_curve()
    return lines


# ---- speed ----


def _network(n: int, d: int, c: int, seed: int = 0) -> Snapshot:
    """Features around the vectors of their classes; the labels are the same for every seed."""
    labels, rng = np.random.default_rng(0).integers(0, c, n), np.random.default_rng(seed)
    weight, bias = (rng.normal(size=size).astype(np.float32) for size in ((c, d), c))
    features = weight[labels] + 2 * rng.normal(size=(n, d)).astype(np.float32)
    return Snapshot(features, weight, labels, bias=bias)


def _answers(n: int) -> np.ndarray:
    """(n,) how many of the people chose the given class."""
    rng = np.random.default_rng(1)
    return rng.binomial(PEOPLE, rng.beta(8, 1, n))


def _timed(case: str, what: str, work: Callable[[], Any], limit: float) -> list[Measurement]:
    start = time.perf_counter()
    work()
    return [Measurement(case, what, time.perf_counter() - start, "s", limit=limit)]


def _correlate(n: int, d: int, c: int) -> list[Measurement]:
    networks = [_network(n, d, c, seed) for seed in range(NETWORKS)]
    human = {"id": np.arange(n), "frequency": _answers(n) / PEOPLE, "answers": np.full(n, PEOPLE)}
    case = f"correlate, n = {n}, {NETWORKS} networks"
    return _timed(case, f"{REPLICATES} replicates", lambda: correlate(networks, human, replicates=REPLICATES), CORRELATE_SECONDS)


def _people(n: int, d: int, c: int) -> list[Measurement]:
    snapshot, asked = _network(n, d, c), np.random.default_rng(2).permutation(n)[:ANSWERS]
    answers = {"id": asked, "frequency": _answers(n)[asked] / PEOPLE, "answers": np.full(len(asked), PEOPLE)}
    case = f"people, {len(asked)} answers, n = {n}, d = {d}"
    return _timed(case, "predicted, with its curve", lambda: people(snapshot, answers).summary, PEOPLE_SECONDS)


def _human_hardness(n: int, m: int, rounds: int) -> list[Measurement]:
    """The command with a reference, against the command alone: CIFAR's 64 features and 10 classes."""
    with tempfile.TemporaryDirectory() as folder:
        test, train, output = (str(Path(folder) / name) for name in ("test.npz", "train.npz", "scores.parquet"))
        _network(n, 64, 10).save(test)
        _network(m, 64, 10).save(train)
        command = [sys.executable, "-m", "hardsight", "score", test, "-o", output]
        more = ["--scores", ",".join([*DEFAULT, "human_hardness"]), "--reference", train]
        with_it = "hardsight score: with human_hardness"
        work = {
            "hardsight score: the usual scores": partial(subprocess.run, command, check=True, capture_output=True),
            with_it: partial(subprocess.run, [*command, *more], check=True, capture_output=True),
        }
        return compared(f"human_hardness, n = {n}, reference {m} x 64", work, rounds, {with_it: BESIDE})


# ---- agreement with people ----


@dataclass(frozen=True)
class Agreement:
    """Coefficients with people, or their differences, with 95 % intervals."""

    value: float
    low: float
    high: float

    @classmethod
    def over_draws(cls, values: Sequence[float], errors: Sequence[float]) -> Agreement:
        """The mean over draws of the answered images; `errors` are those over images, which all draws share."""
        mean = mean_interval(np.array(values))
        half = hypot(mean.high - mean.value, 1.96 * float(np.sqrt(np.mean(np.square(errors)))))
        return cls(mean.value, mean.value - half, mean.value + half)

    def lines(
        self, case: str, what: str, unit: str, limit: float | None = None, high_limit: float | None = None
    ) -> list[Measurement]:
        """The number and both ends of the interval, with limits of the number and of the upper end."""
        ends = (("", self.value, limit), (", low end", self.low, None), (", high end", self.high, high_limit))
        return [Measurement(case, what + end, value, unit, limit=most) for end, value, most in ends]


@dataclass(frozen=True)
class Study:
    """What networks see of the same images, in one or two passes, and what people say of them."""

    name: str
    networks: list[Snapshot]
    references: list[Snapshot]  # their training images, where they are used
    frequency: np.ndarray  # (n,) how often people choose the given class
    said: np.ndarray  # (n,) the same of the people whose answers are learned from
    answers: np.ndarray  # (n,) how many they are
    sizes: tuple[int, ...]  # of the answered images
    keep: Path  # directory of finished draws

    def views(self, flip: bool = True) -> list[list[Snapshot]]:
        """The passes of each network."""
        return [[network, *(_flipped(network) if flip else [])] for network in self.networks]

    def scores(self, names: list[str], flip: bool = True) -> list[dict[str, np.ndarray]]:
        """(n,) scores of each network, the mean over its passes, turned so that high is hard."""
        each = []
        for number, views in enumerate(self.views(flip)):
            reference = self.references[number] if "human_hardness" in names else None
            tables = [score(view, scores=names, reference=reference).table for view in views]
            each.append({name: np.mean([_hard(table, name) for table in tables], axis=0) for name in names})
        return each

    # ---- without answers ----

    def against_the_gap(self) -> list[Measurement]:
        """`human_hardness` and `angular_gap`, averaged over passes and networks."""
        n, lines, columns = len(self.frequency), [], {}
        for passes in (ONE, FLIP):
            tables = self.scores(["angular_gap", "human_hardness"], flip=passes == FLIP)
            for name in tables[0]:
                columns[name, passes] = -np.mean([table[name] for table in tables], axis=0)
            for unit, coefficient in COEFFICIENTS.items():
                value = coefficient(columns["human_hardness", passes], self.frequency)
                lines.append(Measurement(self.name, f"human_hardness, all images, {passes}", value, unit))
        held_out = np.random.default_rng(0).permutation(n)[n // 2 :]
        people_say = self.frequency[held_out]
        for (ours, theirs), gain in GAINS.items():
            both = np.stack([columns["angular_gap", theirs], columns["human_hardness", ours]], axis=1)[held_out]
            low, high = bootstrap(both, people_say, replicates=REPLICATES).difference("spearman", 0, 1)
            less = Agreement(spearman(both[:, 0], people_say) - spearman(both[:, 1], people_say), low, high)
            what = f"angular_gap, {theirs}, less human_hardness, {ours}, held-out half"
            lines += less.lines(self.name, what, "Spearman", limit=-gain, high_limit=0.0)
        return lines

    @cached_property
    def best_score(self) -> tuple[str, dict[str, float]]:
        """The score with the best Spearman on all images, averaged over passes and networks, and its coefficients."""
        names = [*DEFAULT, "avh_nearest"]
        tables = self.scores(names)
        means = {name: -np.mean([table[name] for table in tables], axis=0) for name in names}
        best = max(names, key=lambda name: spearman(means[name], self.frequency))
        return best, {unit: of(means[best], self.frequency) for unit, of in COEFFICIENTS.items()}

    # ---- with answers ----

    def learning_curve(self) -> list[Measurement]:
        """`people`, a plain ridge, and the one less the other, on images without answers."""
        best, values = self.best_score
        lines = [Measurement(self.name, f"best score without answers: {best}", value, unit) for unit, value in values.items()]
        with progress_bar(self.name) as progress:
            for number, size in enumerate(self.sizes):
                draws = []
                for seed in range(DRAWS):
                    progress(number * DRAWS + seed, len(self.sizes) * DRAWS, f"{self.name}: {size} answers")
                    draws.append(kept(self.keep / f"{self.name}, {size} answers, seed {seed}", partial(self._drawn, size, seed)))
                for unit in COEFFICIENTS:
                    for what in draws[0][unit]:
                        agreement = Agreement.over_draws(*zip(*(draw[unit][what] for draw in draws), strict=True))
                        limit = 0.0 if what == "ridge less people" else None
                        lines += agreement.lines(f"{self.name}, {size} answers", what, unit, limit)
        return lines

    def _drawn(self, size: int, seed: int) -> dict[str, dict[str, tuple[float, float]]]:
        """Coefficients and their errors over images, by kind."""
        order = np.random.default_rng(seed).permutation(len(self.frequency))
        asked, rest = order[:size], order[size:]
        ids, frequency = np.asarray(self.networks[0].ids), self.frequency[rest]
        said = {"id": ids[asked], "frequency": self.said[asked], "answers": self.answers[asked]}
        predicted = people(self.networks, said).table.column("predicted_frequency").to_numpy()
        both = np.stack([predicted[rest], self._ridge(asked)[rest]], axis=1)
        again, found = bootstrap(both, frequency, replicates=DRAWN_AGAIN, seed=seed), {}
        for unit, coefficient in COEFFICIENTS.items():
            ours, ridge = (coefficient(column, frequency) for column in both.T)
            draws = getattr(again, unit.lower())  # (r, 2)
            found[unit] = {
                "people": (ours, float(draws[:, 0].std())),
                "ridge": (ridge, float(draws[:, 1].std())),
                "ridge less people": (ridge - ours, again.error(unit.lower(), 1, 0)),
            }
        return found

    def _ridge(self, asked: np.ndarray) -> np.ndarray:
        """(n,) frequencies that a ridge regression predicts; its penalty has the smallest leave-one-out error."""
        model = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
        model.fit(self.inputs[asked], np.arcsin(np.sqrt(self.said[asked])))
        return np.asarray(np.sin(np.clip(model.predict(self.inputs), 0, np.pi / 2)) ** 2)

    @cached_property
    def inputs(self) -> np.ndarray:
        """(n, r) of the ridge."""
        names = [name for name in DEFAULT if name != "avh_relative"]
        columns = [column for table in self.scores(names) for column in table.values()]
        for views in self.views():
            features = np.mean([np.asarray(view.features) for view in views], axis=0)
            small = features if features.shape[1] <= MANY else PCA(COMPONENTS, random_state=0).fit_transform(features)
            columns += list(small.T)
        labels = self.networks[0].labels
        if labels.max() < MANY:
            columns += list(np.eye(labels.max() + 1)[labels].T)
        return np.stack(columns, axis=1)


def _flipped(network: Snapshot) -> list[Snapshot]:
    """What the network saw of the mirrored images, if that was extracted."""
    path = None if network.run is None else network.run / "passes" / "flip"
    return [network.joined(Snapshot.load(path)).second] if path is not None and path.is_dir() else []


def _hard(table: Any, name: str) -> np.ndarray:
    return np.asarray(SCORES.harder(name, table.column(name).to_numpy().astype(np.float64)))


def _cifar(data: Path | None, keep: Path, training: bool) -> list[Study]:
    """ResNet-20, ResNet-32 and both, on the images of CIFAR-10H."""
    assert data is not None
    tests, trains = [], []
    for depth in (20, 32):
        weights = data / f"cifar10_resnet{depth}.safetensors"
        seen = partial(extract, f"cifar_resnet{depth}", weights=weights)
        tests.append(seen(data / "cifar10_test.npz", keep / f"resnet{depth}-test", passes="flip"))
        trains += [seen(data / "cifar10_train.npz", keep / f"resnet{depth}-train")] if training else []
    counts = np.load(data / "cifar10h_counts.npy", allow_pickle=False)[np.asarray(tests[0].ids).astype(int)]
    frequency, answers = selection_frequency(counts, tests[0].labels), counts.sum(1).astype(int)
    known = (frequency, frequency, answers, CIFAR_SIZES, keep / "draws")
    some = {"ResNet-20": slice(0, 1), "ResNet-32": slice(1, 2), "both": slice(2)}
    studies = [Study(f"CIFAR-10H, {name}", tests[part], trains[part], *known) for name, part in some.items()]
    chosen = np.rint(frequency * answers).astype(int)
    three = np.random.default_rng(0).hypergeometric(chosen, answers - chosen, THREE)
    one_pass = tests[0].take(np.arange(len(frequency)))  # without its run, so without the flip pass
    few = (frequency, three / THREE, np.full(len(frequency), THREE), THREE_SIZES, keep / "draws")
    return studies if training else [*studies, Study("CIFAR-10H, ResNet-20, one pass, three people each", [one_pass], [], *few)]


def _imagenet(data: Path | None, keep: Path) -> list[Study]:
    """EfficientNet-Lite0, and Lite0, 1 and 2, on the images that people voted on."""
    from hardsight_papers.avh.imagenet import lite, read_votes, voted_rows

    assert data is not None
    seen = [extract(lite(k), data / "imagenet_val5k.tar", keep / f"lite{k}") for k in range(3)]
    votes = read_votes(data / "imagenet_votes.npz")
    rows = voted_rows(data / "imagenet_votes.npz", votes.ids, [str(id) for id in seen[0].ids])
    contested = np.flatnonzero(votes.contested[rows])
    networks, frequency = [network.take(contested) for network in seen], votes.frequency[rows][contested]
    known = (frequency, frequency, np.full(len(contested), VOTERS), IMAGENET_SIZES, keep / "draws")
    some = {"Lite0": networks[:1], "Lite0, 1 and 2": networks}
    return [Study(f"ImageNet contested, {name}", few, [], *known) for name, few in some.items()]
