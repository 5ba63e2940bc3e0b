"""Wrong labels found by `hardsight.clean` and by cleanlab, the error count, and the time.

injected   label noise injected into digits and MNIST: average precision of the rankings, and estimated number of errors
people     the same for human labels: CIFAR-10N, if its labels and images are available
counts     how many labels are wrong and which, over hundreds of settings (counts.py)
speed      all of `clean` against the scores table and against Datalab; near duplicates against the bare product

Networks are trained once and kept, and results are written one by one, so repeating an interrupted run resumes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.counts import covered, half_of, print_counts, run_counts
from benchmarks.finding import detection
from benchmarks.injection import mislabeled
from benchmarks.kept_results import kept
from benchmarks.pictures import MOST, QUICK, ImageSet, available, check_words, even_rows, load, place, train
from benchmarks.scored import as_hardness, error_score, notes_of, opened, probabilities, suspects
from benchmarks.timing import Measurement, blockwise_product, compared
from hardsight import SCORES, Head, clean, score
from hardsight.errors import InputError
from hardsight.quality import out_of_sample
from hardsight.scores import near_duplicates
from hardsight.screen import Progress, print_line, progress_bar

PARTS = ("injected", "people", "speed", "counts")
LABEL_SETS = ("random1", "random2", "random3")  # of CIFAR-10N: the first for tuning, the others for reporting
INJECTED = (("uniform", 0.1), ("uniform", 0.3), ("pair", 0.1))  # kind and rate
INJECTED_INTO = ("digits", "mnist")
PEOPLE = "cifar10n_train.npz"
BY_PROBS = ("posterior", "confidence", "margin")  # rankings from probabilities
OF_EPOCHS = ("aum", "cartography_confidence")  # rankings from epochs alone
FROM_RUN, FROM_PROBS = "hardsight clean, of the run", "hardsight clean, of the same probabilities"
FROM_FEATURES = "hardsight clean, of features and labels"
WAYS = (FROM_RUN, FROM_PROBS, FROM_FEATURES)  # ways to call `clean`, always with its defaults
MISSED_LIMIT = 0.1  # share of intervals without the truth
COUNT_LIMIT = 0.2  # allowed relative error of the estimated number of errors
AS_GOOD = 1.0  # cleanlab's best precision over ours, at most
SHAPE, COPIES = (50_000, 512, 100), (100_000, 512)  # (n, d, c) of the timings, (n, d) of the duplicate search
# All scores of arrays except the mean shift, which searches all pairs three times. `clean` also compares every pair.
OF_ARRAYS = [name for name, entry in SCORES.items() if entry.scope in ("row", "dataset") and name != "mean_shift"]
TABLE_LIMIT, DATALAB_LIMIT, PRODUCT_LIMIT = 3.0, 0.1, 2.0


@dataclass(frozen=True)
class NoisyLabels:
    """Labels of some images, some of them wrong."""

    what: str  # kind and rate, or the name of a set of labels
    pictures: ImageSet
    given: np.ndarray  # (n,)
    right: np.ndarray  # (n,)
    seed: int


def run(
    output: Path = Path("hardsight-bench"), data: Path | None = None, sets: tuple[str, ...] = (),
    parts: tuple[str, ...] = PARTS, label_sets: tuple[str, ...] = LABEL_SETS, seeds: int = 5,
    limit: int | None = None, rounds: int = 1, quick: bool = False,
) -> list[Measurement]:  # fmt: skip
    """The parts asked for.

    Args:
        output: directory for trained networks and results; existing ones are reused.
        data: directory with mnist.npz, cifar10_train.npz and cifar10n_train.npz. Default: only the built-in digits.
        sets: comma-separated datasets of the injected noise: digits, mnist. Default: all available.
        parts: comma-separated, see above. Default: all.
        label_sets: comma-separated label sets of CIFAR-10N. Default: random1,random2,random3.
        seeds: number of seeds.
        limit: samples of each dataset, spread evenly over it. Default: 5000 of the injected noise, all of CIFAR-10N.
        rounds: interleaved rounds of the timings; the median of their ratios is reported.
        quick: try it: one seed, few samples and few epochs. The numbers mean little.
    """
    check_words("parts", parts, PARTS)
    check_words("label_sets", label_sets, LABEL_SETS)
    check_words("sets", sets, INJECTED_INTO)
    there = available(data)
    lines: list[Measurement] = []
    limit = limit or (QUICK if quick else None)
    with progress_bar("training") as progress:
        if "injected" in parts:
            for name in [name for name in sets or INJECTED_INTO if name in there]:
                lines += _injected(load(name, data, limit or MOST, quick=quick), 1 if quick else seeds, output, progress)
        if "people" in parts and data is not None and "cifar10" in there and (data / PEOPLE).is_file():
            lines += _people(load("cifar10", data, limit, quick=quick), data / PEOPLE, label_sets, output, progress)
        if "counts" in parts:
            lines += _counts(output, data, quick, progress)
    if "speed" in parts:
        small = 50 if quick else 1
        lines += _whole([max(20, size // small) for size in SHAPE], rounds)
        lines += _duplicates([max(20, size // small) for size in COPIES], rounds)
    _print_absent(data)
    return lines


def _print_absent(data: Path | None) -> None:
    """What was not measured, and why."""
    files = [name for name in ("mnist.npz", "cifar10_train.npz", PEOPLE) if data is None or not (data / name).is_file()]
    if files:
        print_line(f"not measured: what needs {', '.join(files)}; --data DIR names the directory that has them")
    if not {"cleanlab", "datasets"} <= set(peers.installed()):
        print_line("not measured: all of cleanlab; pip install 'cleanlab[datalab]'")


def _counts(output: Path, data: Path | None, quick: bool, progress: Progress) -> list[Measurement]:
    results = run_counts(output, data, progress, quick=quick)
    print_counts(results, output)
    three = [r for r in results if half_of(r["setting"]) == "reported" and "~instance~" not in r["setting"]]
    missed = 1 - float(np.mean([covered(result) for result in three]))
    return [Measurement(f"{len(three)} settings", "counts: truth outside of the interval", missed, "of all", None, MISSED_LIMIT)]


def _injected(pictures: ImageSet, seeds: int, output: Path, progress: Progress) -> list[Measurement]:
    lines: list[Measurement] = []
    for kind, rate in INJECTED:
        noisy = [mislabeled(kind, pictures.images, pictures.labels, rate, seed) for seed in range(seeds)]
        noise = [NoisyLabels(f"{kind}-{rate:g}", pictures, given, pictures.labels, seed) for seed, given in enumerate(noisy)]
        results = [measured(labels, output, progress) for labels in noise]
        lines += measurements(f"{pictures.name} ({len(pictures.labels)}), {kind} {rate:.0%}", results)
    return lines


def _people(pictures: ImageSet, file: Path, names: tuple[str, ...], output: Path, progress: Progress) -> list[Measurement]:
    """CIFAR-10N: one network on all images for each label set."""
    arrays = np.load(file)
    rows = even_rows(len(arrays["clean"]), len(pictures.labels))
    if not np.array_equal(arrays["clean"][rows], pictures.labels):
        raise InputError(f"{file}: the labels do not match the images next to it.")
    lines: list[Measurement] = []
    for name in names:
        noise = NoisyLabels(name, pictures, arrays[name][rows].astype(np.int64), pictures.labels, 0)
        lines += measurements(f"CIFAR-10N {name} ({len(rows)})", [measured(noise, output, progress)])
    return lines


def measured(noise: NoisyLabels, output: Path, progress: Progress) -> dict[str, Any]:
    """Average precisions and error counts of one case, kept in a file."""
    known = sorted([*WAYS, *OF_EPOCHS, *BY_PROBS, *peers.installed(), "interval"])
    path = place(output, "clean", noise.pictures, noise.what, noise.seed)
    return kept(path, lambda: _measured(noise, output, progress), known)


def _measured(noise: NoisyLabels, output: Path, progress: Progress) -> dict[str, Any]:
    directory = place(output, "runs", noise.pictures, noise.what, noise.seed)
    case = f"{noise.pictures.name}, {noise.what}, seed {noise.seed}"
    case_progress: Progress = lambda done, total, words: progress(done, total, f"{case}: {words}")
    train(noise.pictures, noise.given, directory, noise.seed, progress=case_progress)
    snapshot, features, rows = opened(directory)
    labels, wrong = noise.given[rows], (noise.given != noise.right)[rows]
    probs = out_of_sample(features, labels)
    tables = {
        FROM_RUN: suspects(snapshot),
        FROM_PROBS: suspects(probs=probs, labels=labels),
        FROM_FEATURES: suspects(features=features, labels=labels),
    }
    rankings = {name: error_score(table) for name, table in tables.items()} | peers.label_rankings(probs, labels)
    epochs = as_hardness(score(snapshot, scores=OF_EPOCHS))
    rankings |= {f"clean --by {name}": epochs[name] for name in OF_EPOCHS}
    for by in BY_PROBS:
        rankings[f"clean --by {by}, of probabilities"] = error_score(suspects(probs=probs, labels=labels, by=by))
    notes = {name: notes_of(table) for name, table in tables.items()}
    precision = {name: detection(x, wrong).average_precision for name, x in rankings.items()}
    print_line(f"{case}: " + ", ".join(f"{name} {value:.3f}" for name, value in precision.items()))
    return {
        "errors": int(wrong.sum()),
        "expected": {name: note["expected_errors"] for name, note in notes.items()},
        "interval": {name: [note["expected_errors_low"], note["expected_errors_high"]] for name, note in notes.items()},
        "average_precision": precision,
    }


def measurements(case: str, results: list[dict[str, Any]]) -> list[Measurement]:
    """Means over seeds: the precision of each ranking, ours against cleanlab's best, and the error of the counts."""
    names = results[0]["average_precision"]
    mean = {name: float(np.mean([result["average_precision"][name] for result in results])) for name in names}
    theirs = max((value for name, value in mean.items() if name.startswith("cleanlab")), default=None)
    lines = []
    for name, value in mean.items():
        ratio = theirs / value if theirs is not None and name in WAYS else None
        lines.append(Measurement(case, name, value, "AP", ratio, None if ratio is None else AS_GOOD))
    errors = np.array([result["errors"] for result in results])
    for name in WAYS:
        expected = np.array([result["expected"][name] for result in results])
        off = float(np.mean(np.abs(expected - errors) / errors))
        unit = f"of {errors.mean():.0f} errors"
        lines.append(Measurement(case, f"{name}: expected errors", float(expected.mean()), unit, off, COUNT_LIMIT))
        low, high = np.array([result["interval"][name] for result in results]).T
        covered = float(np.mean((low <= errors) & (errors <= high)))
        lines.append(Measurement(case, f"{name}: intervals that cover the truth", covered, "of all seeds"))
    return lines


def _whole(shape: list[int], rounds: int) -> list[Measurement]:
    """All of `clean` against the scores table and against Datalab, on the same features and probabilities."""
    n, d, c = shape
    rng = np.random.default_rng(0)
    labels = rng.integers(0, c, n)
    weight = rng.standard_normal((c, d), dtype=np.float32)
    features = rng.standard_normal((n, d), dtype=np.float32) + np.float32(0.3) * weight[labels]
    head = Head("linear", weight / np.float32(d**0.5))
    probs = probabilities(head, features)
    noisy = mislabeled("uniform", features, labels, 0.1, 0)
    ours, table = "hardsight: clean", "hardsight: table of row and dataset scores"
    work: dict[str, Callable[[], object]] = {
        table: lambda: score(features, head, noisy, scores=OF_ARRAYS),
        "hardsight: table of row scores": lambda: score(features, head, noisy),
        ours: lambda: clean(features=features, probs=probs, labels=noisy),
    }
    datalab = "cleanlab: Datalab.find_issues"
    if {"cleanlab", "datasets"} <= set(peers.installed()):
        work[datalab] = lambda: _find_issues(features, probs, noisy)
    lines = compared(f"{n} x {d}, {c} classes", work, rounds, {ours: TABLE_LIMIT})
    times = {line.what: line.value for line in lines}
    if datalab in times:
        ratio = times[ours] / times[datalab]
        lines.append(Measurement(lines[0].case, "hardsight: clean over Datalab", times[ours], "ms", ratio, DATALAB_LIMIT))
    return lines


def _find_issues(features: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> None:
    from cleanlab import Datalab

    with peers.quiet():
        lab = Datalab({"label": labels.tolist()}, label_name="label", verbosity=0)
        lab.find_issues(features=features, pred_probs=probs)


def _duplicates(shape: list[int], rounds: int) -> list[Measurement]:
    """Near duplicates against the product of all rows with all rows, in blocks that are discarded."""
    n, d = shape
    features = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    copies = n // 100
    features[-copies:] = features[:copies]  # every hundredth row is a copy
    work = {
        "NumPy: blockwise product": lambda: blockwise_product(features),
        "hardsight: near_duplicates": lambda: near_duplicates(features),
    }
    return compared(f"duplicates, {n} x {d}", work, rounds, {"hardsight: near_duplicates": PRODUCT_LIMIT})
