"""`python -m benchmarks clean`: wrong labels found by `hardsight.clean` and by cleanlab, the error count, and the time.

injected   label noise injected into digits and MNIST: average precision of the rankings, and estimated number of errors
people     the same for human labels: CIFAR-10N, if its labels and images are available
counts     how many labels are wrong and which, over hundreds of settings (counts.py)
speed      all of `clean` against the scores table and against Datalab; near duplicates against the bare product

Networks are trained once and kept, and results are written one by one, so repeating an interrupted run resumes it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import peers
from benchmarks.counts import covered, half_of, print_counts, run_counts
from benchmarks.finding import detection
from benchmarks.injection import mislabeled
from benchmarks.pictures import MOST, ImageSet, as_json, available, load, place, train
from benchmarks.scored import as_hardness, error_score, suspects
from benchmarks.settings import CleanBenchSettings
from benchmarks.timing import Measurement, compared
from hardsight import clean, score
from hardsight.errors import InputError
from hardsight.files.npy import open_npz
from hardsight.files.reading import read_json
from hardsight.files.writing import write_json
from hardsight.head import Head
from hardsight.options import takes
from hardsight.quality import out_of_sample
from hardsight.quality.ranking import BY_PROBS
from hardsight.scores import SCORES
from hardsight.scores.duplicates import near_duplicates
from hardsight.scoring.fitted_head import head_probs
from hardsight.screen import Progress, print_line, progress_bar
from hardsight.snapshot import Snapshot
from hardsight.threads import even_rows

INJECTED = (("uniform", 0.1), ("uniform", 0.3), ("pair", 0.1))  # kind and rate
INJECTED_INTO = ("digits", "mnist")
PEOPLE = "cifar10n_train.npz"
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
QUERIES, CANDIDATES = 1024, 8192  # block size of the bare product


@dataclass(frozen=True)
class NoisyLabels:
    """Labels of some images, some of them wrong."""

    what: str  # kind and rate, or the name of a set of labels
    pictures: ImageSet
    given: np.ndarray  # (n,)
    right: np.ndarray  # (n,)
    seed: int


@takes(CleanBenchSettings)
def run(output: Path, *, settings: CleanBenchSettings | None = None, **options: Any) -> list[Measurement]:
    """Run the requested parts; networks and results are kept in `output`."""
    settings = CleanBenchSettings.given(settings, options)
    lines: list[Measurement] = []
    with progress_bar("training") as progress:
        if "injected" in settings.parts:
            lines += _injected(Path(output), settings, progress)
        if "people" in settings.parts:
            lines += _people(Path(output), settings, progress)
        if "counts" in settings.parts:
            lines += _counts(Path(output), settings, progress)
    if "speed" in settings.parts:
        small = 50 if settings.quick else 1
        lines += _whole(tuple(max(20, size // small) for size in SHAPE), settings.rounds)
        lines += _duplicates(tuple(max(20, size // small) for size in COPIES), settings.rounds)
    return lines


def _counts(output: Path, settings: CleanBenchSettings, progress: Progress) -> list[Measurement]:
    results = run_counts(output, settings.data, quick=settings.quick, progress=progress)
    print_counts(results, output)
    reported = [result for result in results if half_of(result["setting"]) == "reported"]
    three = [result for result in reported if "~instance~" not in result["setting"]]
    missed = 1 - float(np.mean([covered(result) for result in three]))
    return [Measurement(f"{len(three)} settings", "counts: truth outside of the interval", missed, "of all", None, MISSED_LIMIT)]


def _injected(output: Path, settings: CleanBenchSettings, progress: Progress) -> list[Measurement]:
    there = [name for name in available(settings.data) if name in INJECTED_INTO and name in (settings.sets or INJECTED_INTO)]
    lines: list[Measurement] = []
    for name in there:
        pictures = load(name, settings.data, settings.used_limit or MOST, quick=settings.quick)
        for kind, rate in INJECTED:
            results = []
            for seed in settings.used_seeds:
                noisy = mislabeled(kind, pictures.images, pictures.labels, rate, seed)
                noise = NoisyLabels(f"{kind}-{rate:g}", pictures, noisy, pictures.labels, seed)
                results.append(measured(noise, output, progress))
            lines += measurements(f"{name} ({len(noisy)}), {kind} {rate:.0%}", results)
    return lines


def _people(output: Path, settings: CleanBenchSettings, progress: Progress) -> list[Measurement]:
    """CIFAR-10N: one network on all images for each label set."""
    if settings.data is None or "cifar10" not in available(settings.data) or not (settings.data / PEOPLE).is_file():
        return []
    pictures = load("cifar10", settings.data, settings.used_limit, quick=settings.quick)
    arrays = open_npz(settings.data / PEOPLE)
    rows = even_rows(len(arrays["clean"]), settings.used_limit)
    if not np.array_equal(np.asarray(arrays["clean"])[rows], pictures.labels):
        raise InputError(f"{settings.data}: the labels of {PEOPLE} do not match the images next to it.")
    lines: list[Measurement] = []
    for name in settings.label_sets:
        noise = NoisyLabels(name, pictures, np.asarray(arrays[name])[rows].astype(np.int64), pictures.labels, settings.seeds[0])
        lines += measurements(f"CIFAR-10N {name} ({len(rows)})", [measured(noise, output, progress)])
    return lines


def measured(noise: NoisyLabels, output: Path, progress: Progress) -> dict[str, Any]:
    """Average precisions and error counts of one case, cached in a file."""
    path = as_json(place(output, "clean", noise.pictures, noise.what, noise.seed))
    known = sorted([*WAYS, *OF_EPOCHS, *BY_PROBS, *peers.installed(), "interval"])
    if path.is_file() and (before := read_json(path)).get("known") == known:
        return dict(before)
    directory = place(output, "runs", noise.pictures, noise.what, noise.seed)
    case = f"{noise.pictures.name}, {noise.what}, seed {noise.seed}"
    case_progress: Progress = lambda done, total, words: progress(done, total, f"{case}: {words}")
    train(noise.pictures, noise.given, directory, noise.seed, progress=case_progress)
    snapshot = Snapshot.load(directory)
    features = np.asarray(snapshot.in_memory().values)
    rows = np.asarray(snapshot.columns(["id"]).column("id").to_pylist(), dtype=np.int64)
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
    rankings |= {
        f"clean --by {by}, of probabilities": error_score(suspects(probs=probs, labels=labels, by=by)) for by in BY_PROBS
    }
    result: dict[str, Any] = {
        "known": known,
        "errors": int(wrong.sum()),
        "expected": {name: _expected(table) for name, table in tables.items()},
        "interval": {name: _interval(table) for name, table in tables.items()},
        "average_precision": {name: detection(x, wrong).average_precision for name, x in rankings.items()},
    }
    write_json(path, result)
    print_line(f"{case}: " + ", ".join(f"{name} {value:.3f}" for name, value in result["average_precision"].items()))
    return result


def _expected(table: pa.Table) -> float:
    return float(json.loads(table.schema.metadata[b"hardsight"])["expected_errors"])


def _interval(table: pa.Table) -> list[float]:
    notes = json.loads(table.schema.metadata[b"hardsight"])
    return [float(notes["expected_errors_low"]), float(notes["expected_errors_high"])]


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


def _whole(shape: tuple[int, ...], rounds: int) -> list[Measurement]:
    """All of `clean` against the scores table and against Datalab, on the same features and probabilities."""
    n, d, c = shape
    rng = np.random.default_rng(0)
    labels = rng.integers(0, c, n)
    weight = rng.standard_normal((c, d), dtype=np.float32)
    features = rng.standard_normal((n, d), dtype=np.float32) + np.float32(0.3) * weight[labels]
    head = Head("linear", weight / np.float32(d**0.5))
    probs = head_probs(head, features)
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
    lines = compared(f"{n} x {d}, {c} classes", work, rounds, table, {ours: TABLE_LIMIT})
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


def _duplicates(shape: tuple[int, ...], rounds: int) -> list[Measurement]:
    """Near duplicates against the product of all rows with all rows, in blocks that are discarded."""
    n, d = shape
    features = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    copies = n // 100
    features[-copies:] = features[:copies]  # every hundredth row is a copy
    block = np.empty((QUERIES, CANDIDATES), np.float32)

    def product() -> None:
        for start in range(0, n, QUERIES):
            x = features[start : start + QUERIES]
            for first in range(0, n, CANDIDATES):
                y = features[first : first + CANDIDATES]
                np.matmul(x, y.T, out=block[: len(x), : len(y)])

    work: dict[str, Callable[[], object]] = {
        "NumPy: blockwise product": product,
        "hardsight: near_duplicates": lambda: near_duplicates(features),
    }
    limits = {"hardsight: near_duplicates": PRODUCT_LIMIT}
    return compared(f"duplicates, {n} x {d}", work, rounds, "NumPy: blockwise product", limits)


def absent(settings: CleanBenchSettings) -> list[str]:
    """What was not measured, and why, one sentence each."""
    notes = []
    folder = settings.data
    if "injected" in settings.parts and (folder is None or "mnist" not in available(folder)):
        notes.append("MNIST: --data DIR names the directory that has mnist.npz")
    if "people" in settings.parts and (
        folder is None or not all((folder / name).is_file() for name in ("cifar10_train.npz", PEOPLE))
    ):
        notes.append(f"CIFAR-10N: --data DIR names the directory that has cifar10_train.npz and {PEOPLE}")
    if importlib.util.find_spec("cleanlab") is None:
        notes.append("cleanlab: pip install cleanlab")
    elif "speed" in settings.parts and importlib.util.find_spec("datasets") is None:
        notes.append("Datalab: pip install 'cleanlab[datalab]'")
    return notes
