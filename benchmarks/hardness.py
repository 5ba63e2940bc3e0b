"""`python -m benchmarks hardness`: inject a known kind of hardness into images, and measure how well every score detects it.

Wrong labels are injected into the training set, whose samples are then scored from their training dynamics, by the final model,
and by heads that have not seen them. Everything else is mixed into the held-out samples of a model that was trained on clean
labels and has never seen two of the classes.

A case is a dataset, a kind of hardness, a rate and a seed. Its result is written to a file when complete; a repeated run
resumes with the missing cases, and repeats cases whose list of scores has grown or that were measured by another METHOD.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.finding import Detection, detection
from benchmarks.further_scores import further_scores
from benchmarks.injection import mislabeled
from benchmarks.odd_inputs import OddInputs
from benchmarks.pictures import MOST, ImageSet, as_json, available, load, place, train
from benchmarks.scored import Scores, of_training_samples
from benchmarks.settings import MISLABELED, HardnessSettings
from hardsight.errors import InputError
from hardsight.files.reading import read_json
from hardsight.files.writing import write_json
from hardsight.options import takes
from hardsight.scores import SCORES
from hardsight.screen import Progress, Say
from hardsight.threads import num_threads
from hardsight.version import VERSION

# Change it if scores are computed in another way: finished cases are then measured again.
METHOD = "calibrated heads, k-nearest distance at 1 %"
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


@takes(HardnessSettings)
def run(
    output: Path,
    *,
    settings: HardnessSettings | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Measure every case, and return the means over the seeds.

    Args:
        output: directory for the trained networks (`runs/`) and the results (`hardness/`); existing ones are reused.
        settings: all options below as one object; single options override it.
        progress: called with the cases done, the total, and a description.
        say: called with a sentence for each finished case.
    """
    settings = HardnessSettings.given(settings, options)
    study = HardnessStudy(Path(output), settings, say or (lambda sentence: None))
    cases = study.cases()
    for number, case in enumerate(cases):
        study.measure(case, _within(progress, number, len(cases), str(case)))
    return study.summary(cases)


def _within(progress: Progress | None, number: int, total: int, case: str) -> Progress:
    """Progress over all cases: the bar counts cases, with the description of the current training."""

    def tell(done: int, steps: int, words: str) -> None:
        if progress is not None:
            progress(number, total, f"{case}: {words}")

    return tell


@dataclass(frozen=True)
class HardnessStudy:
    """The cases, the paths of their results, and what they share."""

    output: Path
    settings: HardnessSettings
    say: Say

    def cases(self) -> list[Case]:
        """Every dataset, seed, kind and rate; those that share a network are adjacent."""
        there = available(self.settings.data)
        missing = [name for name in self.settings.sets if name not in there]
        if missing:
            raise InputError(f"{missing[0]} is missing; --data DIR names a directory that has it. Available: {', '.join(there)}.")
        s = self.settings
        names = [name for name in there if name in (s.sets or there)]
        return [
            Case(n, kind, rate, seed) for n in names for seed in s.used_seeds for kind in s.used_kinds for rate in s.used_rates
        ]

    @cached_property
    def known(self) -> list[str]:
        """Everything that scores a sample: our scores, and other installed libraries; and the method."""
        return sorted([METHOD, *SCORES, *peers.installed()])

    @cached_property
    def pictures(self) -> Callable[[str], ImageSet]:
        """The images of a dataset, cached while in use."""
        s = self.settings
        return cache(lambda name: load(name, s.data, MOST if s.used_limit is None else s.used_limit, quick=s.quick))

    @cached_property
    def odd(self) -> Callable[[str, int], OddInputs]:
        """Held-out samples of a dataset, split by a seed."""
        clean = partial(place, self.output, "runs")
        return cache(lambda name, seed: OddInputs(self.pictures(name), seed, clean(self.pictures(name), "clean", seed)))

    def place(self, folder: str, case: Case) -> Path:
        """Path of the network or the result of a case."""
        return place(self.output, folder, self.pictures(case.data), f"{case.kind}-{case.rate:g}", case.seed)

    def measure(self, case: Case, progress: Progress) -> None:
        """Write the result of a case, unless it exists."""
        path = as_json(self.place("hardness", case))
        if path.is_file() and read_json(path).get("known") == self.known:
            return
        start = time.perf_counter()
        scores, hard = self._label_errors(case, progress) if case.kind in MISLABELED else self._odd_inputs(case, progress)
        rows = [{"evidence": e, "score": name, **asdict(detection(x, hard))} for (e, name), x in scores.items()]
        result = {**asdict(case), "known": self.known, "samples": len(hard), "hard": int(hard.sum()), "found": rows}
        write_json(path, result)
        self.say(f"{case}: {_sentence(rows)}  {time.perf_counter() - start:.0f} s")

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
            self.say(note)
        scores |= {("own training", name): values for name, values in theirs.items()}
        return scores, noisy != pictures.labels

    def _odd_inputs(self, case: Case, progress: Progress) -> tuple[Scores, np.ndarray]:
        """Scores of held-out samples, and which of them are odd."""
        odd = self.odd(case.data, case.seed)
        odd.train(progress)
        return odd.scored(case.kind, case.rate)

    def summary(self, cases: list[Case]) -> dict[str, Any]:
        """The results for the JSON file: means over the seeds."""
        groups: dict[tuple[str, str, float], list[Row]] = {}
        for case in cases:
            path = as_json(self.place("hardness", case))
            groups.setdefault((case.data, case.kind, case.rate), []).append(read_json(path))
        names = dict.fromkeys(case.data for case in cases)
        return {
            "version": VERSION,
            "threads": num_threads(),
            "seeds": list(self.settings.used_seeds),
            "peers": peers.installed(),
            "sets": {name: self._described(name) for name in names},
            "results": [row for group in groups.values() for row in means(group)],
        }

    def _described(self, name: str) -> dict[str, Any]:
        pictures = self.pictures(name)
        return {"samples": len(pictures.labels), "network": pictures.recipe.network, "epochs": pictures.epochs}


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


def _sentence(rows: list[Row]) -> str:
    """A short summary of a case: the best score, and AVH."""
    ordered = sorted(rows, key=lambda row: -row["average_precision"])
    avh = next((row for row in ordered if row["score"] == "avh"), None)
    words = [f"{row['score']} ({row['evidence']}) {row['average_precision']:.3f}" for row in (ordered[0], avh) if row]
    return "average precision " + ", ".join(words)


def shown(summary: Mapping[str, Any], top: int) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """A title and the table rows for every dataset, kind and rate: the best scores, and AVH with its rank."""
    groups: dict[tuple[str, str, float], list[Row]] = {}
    for row in summary["results"]:
        groups.setdefault((row["data"], row["kind"], row["rate"]), []).append(row)
    for (data, kind, rate), rows in groups.items():
        ordered = sorted(rows, key=lambda row: -row["average_precision"])
        kept = [(rank, row) for rank, row in enumerate(ordered, 1) if rank <= top or row["score"] == "avh"]
        yield (
            f"{data}, {kind}, {rate:.0%}: {rows[0]['hard']} of {rows[0]['samples']}",
            [_cells(rank, len(ordered), row) for rank, row in kept],
        )


def _cells(rank: int, total: int, row: Row) -> tuple[str, ...]:
    spread = "" if row["deviation"] is None else f" ± {row['deviation']:.3f}"
    numbers = (f"{row['auroc']:.3f}", f"{row['average_precision']:.3f}{spread}", f"{row['missed']:.3f}")
    return (row["score"], row["evidence"], f"{rank} of {total}", *numbers)


def report(summary: Mapping[str, Any], settings: HardnessSettings) -> None:
    """Print which score finds what."""
    from hardsight.screen import print_line, print_table

    header = ("score", "evidence", "rank", "AUROC", "average precision", "missed")
    for title, rows in shown(summary, settings.top):
        print_table(header, rows, title=title, words=2, name="ranking", of={"case": title})
    seeds, missed = len(summary["seeds"]), "missed: hard samples that are not among as many that rank first"
    print_line(f"means over {seeds} seed{'s' if seeds > 1 else ''}; {missed}", **summary)
    absent = [name for name in peers.LIBRARIES if name not in summary["peers"]]
    if absent:
        print_line(f"not installed, so not measured: {', '.join(absent)}")
