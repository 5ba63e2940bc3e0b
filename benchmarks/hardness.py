"""Inject a known kind of hardness into images, and measure how well every score detects it.

Wrong labels are injected into the training set, whose samples are then scored from their training dynamics, by the final model,
and by heads that have not seen them. Everything else is mixed into the held-out samples of a model that was trained on clean
labels and has never seen two of the classes.

A case is a dataset, a kind of hardness, a rate and a seed. Its result is written to a file when complete; a repeated run
resumes with the missing cases, and repeats cases whose list of scores has grown or that were measured by another METHOD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import hardsight
from benchmarks import peers
from benchmarks.finding import Detection, detection
from benchmarks.further_scores import further_scores
from benchmarks.injection import MISLABELS, VIEWS, mislabeled
from benchmarks.kept_results import kept
from benchmarks.odd_inputs import OddInputs
from benchmarks.pictures import MOST, QUICK, RECIPES, ImageSet, available, check_words, load, place, train
from benchmarks.scored import Scores, of_training_samples
from benchmarks.timing import num_threads
from hardsight import SCORES
from hardsight.errors import InputError
from hardsight.screen import Progress, print_line, print_table, progress_bar

# Change it if scores are computed in another way: finished cases are then measured again.
METHOD = "calibrated heads, k-nearest distance at 1 %"
KINDS = (*MISLABELS, "near", "far", *VIEWS, "duplicate")
TOP = 5  # scores to print for each kind
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One case to measure."""

    data: str
    kind: str
    rate: float
    seed: int

    def __str__(self) -> str:
        return f"{self.data}, {self.kind} {self.rate:g}, seed {self.seed}"


def run(
    output: Path = Path("hardsight-bench"), data: Path | None = None, sets: tuple[str, ...] = (),
    kinds: tuple[str, ...] = KINDS, rates: tuple[float, ...] = (0.05, 0.1, 0.3), seeds: int = 5,
    limit: int | None = None, quick: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Measure every case, and return the means over the seeds.

    Args:
        output: directory for the trained networks (`runs/`) and the results (`hardness/`); existing ones are reused.
        data: directory with mnist.npz or cifar10_train.npz. Default: only the built-in digits.
        sets: comma-separated datasets: digits, mnist, cifar10. Default: all available.
        kinds: comma-separated kinds of hardness: wrong labels (uniform, pair, adjacent, instance), inputs of unseen classes and
            of none (near, far), atypical views (shift, zoom, crop), duplicate. Default: all.
        rates: comma-separated shares of hard samples, at most 0.5.
        seeds: number of seeds.
        limit: samples of each dataset, spread evenly over it. Default: 5000.
        quick: try it: one seed, one rate, few samples and few epochs. The numbers mean little.
    """
    if quick:
        seeds, rates = 1, (0.1 if 0.1 in rates else rates[0],)
    cases = cases_of(data, sets, kinds, rates, seeds)
    study = HardnessStudy(output, data, limit or (QUICK if quick else MOST), quick)
    with progress_bar("training") as progress:
        results = [
            study.result(case, lambda *done, number=number, case=case: progress(number, len(cases), f"{case}: {done[2]}"))
            for number, case in enumerate(cases)
        ]
    pictures = [study.pictures(name) for name in dict.fromkeys(case.data for case in cases)]
    groups: dict[tuple[str, str, float], list[Row]] = {}
    for case, result in zip(cases, results, strict=True):
        groups.setdefault((case.data, case.kind, case.rate), []).append(result)
    return {
        "version": hardsight.__version__,
        "threads": num_threads(),
        "seeds": list(range(seeds)),
        "peers": peers.installed(),
        "sets": {p.name: {"samples": len(p.labels), "network": p.recipe.network, "epochs": p.epochs} for p in pictures},
        "results": [row for group in groups.values() for row in means(group)],
    }


def cases_of(
    data: Path | None, sets: Sequence[str], kinds: Sequence[str], rates: Sequence[float], seeds: int
) -> list[Case]:  # fmt: skip
    """Every available dataset, seed, kind and rate; cases that share a network are adjacent."""
    check_words("kinds", kinds, KINDS)
    check_words("sets", sets, tuple(RECIPES))
    if not all(0 < rate <= 0.5 for rate in rates):
        raise InputError(f"rates must be above 0 and at most 0.5, got {', '.join(f'{rate:g}' for rate in rates)}.")
    there = available(data)
    missing = [name for name in sets if name not in there]
    if missing:
        raise InputError(f"{missing[0]} is missing; --data DIR names a directory that has it. Available: {', '.join(there)}.")
    names = [name for name in there if name in (sets or there)]
    return [Case(name, kind, rate, seed) for name in names for seed in range(seeds) for kind in kinds for rate in rates]


@dataclass(frozen=True)
class HardnessStudy:
    """What the cases share."""

    output: Path
    data: Path | None
    limit: int
    quick: bool

    @cached_property
    def pictures(self) -> Callable[[str], ImageSet]:
        """The images of a dataset, cached while in use."""
        return cache(lambda name: load(name, self.data, self.limit, quick=self.quick))

    @cached_property
    def odd(self) -> Callable[[str, int], OddInputs]:
        """Held-out samples of a dataset, split by a seed."""
        clean = partial(place, self.output, "runs")
        return cache(lambda name, seed: OddInputs(self.pictures(name), seed, clean(self.pictures(name), "clean", seed)))

    def place(self, folder: str, case: Case) -> Path:
        """Path of the network or the result of a case."""
        return place(self.output, folder, self.pictures(case.data), f"{case.kind}-{case.rate:g}", case.seed)

    def result(self, case: Case, progress: Progress) -> Row:
        """How well everything that scores a sample finds the hard ones of a case."""
        known = sorted([METHOD, *SCORES, *peers.installed()])
        return kept(self.place("hardness", case), lambda: self._measured(case, progress), known)

    def _measured(self, case: Case, progress: Progress) -> Row:
        scores, hard = (self._label_errors if case.kind in MISLABELS else self._odd_inputs)(case, progress)
        rows = [{"evidence": e, "score": name, **asdict(detection(x, hard))} for (e, name), x in scores.items()]
        best = max(rows, key=lambda row: row["average_precision"])
        print_line(f"{case}: average precision {best['average_precision']:.3f} by {best['score']} ({best['evidence']})")
        return {**asdict(case), "samples": len(hard), "hard": int(hard.sum()), "found": rows}

    def _label_errors(self, case: Case, progress: Progress) -> tuple[Scores, np.ndarray]:
        """Scores of the training samples of a network trained on wrong labels, and which labels are wrong."""
        pictures = self.pictures(case.data)
        noisy = mislabeled(case.kind, pictures.images, pictures.labels, case.rate, case.seed)
        directory = self.place("runs", case)
        train(pictures, noisy, directory, case.seed, progress=progress)
        scores = of_training_samples(directory, noisy)
        scores |= further_scores(pictures, noisy, directory, case.seed, progress)
        theirs, notes = peers.datagnosis(pictures, noisy)
        for note in notes:
            print_line(note)
        scores |= {("own training", name): values for name, values in theirs.items()}
        return scores, noisy != pictures.labels

    def _odd_inputs(self, case: Case, progress: Progress) -> tuple[Scores, np.ndarray]:
        """Scores of held-out samples, and which of them are odd."""
        odd = self.odd(case.data, case.seed)
        odd.train(progress)
        return odd.scored(case.kind, case.rate)


def means(results: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The mean of every score over the results of one dataset, kind and rate, one per seed."""
    by_score: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for result in results:
        for row in result["found"]:
            by_score.setdefault((row["evidence"], row["score"]), []).append(row)
    first = results[0]
    for (evidence, score), rows in by_score.items():
        numbers = {name: float(np.mean([row[name] for row in rows])) for name in Detection.__dataclass_fields__}
        precisions = [row["average_precision"] for row in rows]
        deviation = float(np.std(precisions, ddof=1)) if len(rows) > 1 else None
        case = {name: first[name] for name in ("data", "kind", "rate", "samples", "hard")}
        yield {**case, "evidence": evidence, "score": score, "seeds": len(rows), **numbers, "deviation": deviation}


def report(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """Print which score finds what: the best of every case, and AVH with its rank; returns the summary, for JSON."""
    groups: dict[str, list[Row]] = {}
    for row in summary["results"]:
        title = f"{row['data']}, {row['kind']}, {row['rate']:.0%}: {row['hard']} of {row['samples']}"
        groups.setdefault(title, []).append(row)
    header = ("score", "evidence", "rank", "AUROC", "average precision", "missed")
    for title, rows in groups.items():
        ordered = enumerate(sorted(rows, key=lambda row: -row["average_precision"]), 1)
        cells = [_cells(f"{rank} of {len(rows)}", row) for rank, row in ordered if rank <= TOP or row["score"] == "avh"]
        print_table(header, cells, title=title, words=2)
    seeds, missed = len(summary["seeds"]), "missed: hard samples that are not among as many that rank first"
    print_line(f"means over {seeds} seed{'s' if seeds > 1 else ''}; {missed}")
    absent = [name for name in peers.LIBRARIES if name not in summary["peers"]]
    if absent:
        print_line(f"not installed, so not measured: {', '.join(absent)}")
    return summary


def _cells(rank: str, row: Row) -> tuple[str, ...]:
    spread = "" if row["deviation"] is None else f" ± {row['deviation']:.3f}"
    numbers = (f"{row['auroc']:.3f}", f"{row['average_precision']:.3f}{spread}", f"{row['missed']:.3f}")
    return (row["score"], row["evidence"], rank, *numbers)
