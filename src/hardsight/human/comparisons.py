"""One model against one target: every single score (Table 1), and every pair of scores (Tables 2 and 6 to 9)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hardsight.errors import InputError
from hardsight.human.models import accuracy_of, base_ids, hard_end, numbers_of
from hardsight.human.settings import CorrelateSettings
from hardsight.human.tables import Row
from hardsight.human.targets import Target
from hardsight.scores import SCORES
from hardsight.screen import Progress, brief
from hardsight.snapshot import Snapshot
from hardsight.stats.answers import Ceiling, noise_ceilings
from hardsight.stats.coefficients import KINDS, Kind, correlate_columns, normal_quantile
from hardsight.stats.concordance import compare_influences, kendall_influence
from hardsight.stats.correlation_tests import Outcome, fisher_test, meng, outcome, steiger, williams, zou
from hardsight.stats.permutation import swap_tests
from hardsight.stats.resampling import Bootstrap, bootstrap

FREQUENCY_BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # the AVH paper's
FEWEST = 4  # minimum samples for a coefficient with an interval


@dataclass(frozen=True)
class Agreement:
    """One model against one target, on the samples that have every score and a target value."""

    __repr__ = brief

    model: str
    target: Target
    accuracy: float | None
    rows: np.ndarray  # (n,) of the model's table
    ids: np.ndarray  # (n,)
    scores: dict[str, np.ndarray]  # (n,) each
    values: np.ndarray  # (n,) of the target
    left_out: dict[str, int]  # reason -> number of samples
    ceilings: dict[Kind, Ceiling | str]
    singles: list[Row] = field(repr=False)
    pairs: list[Row] = field(repr=False)
    clustered: bool = False  # some rows are copies of one image

    @property
    def n(self) -> int:
        """Number of samples compared."""
        return len(self.values)

    @property
    def easy_target(self) -> np.ndarray:
        """(n,) the target, oriented so that easy is high."""
        return self.values if self.target.hard == "low" else -self.values

    def single(self, score: str, kind: Kind = "spearman") -> Row:
        """The Table 1 row over all samples."""
        return next(row for row in self.singles if row["score"] == score and row["kind"] == kind and row["bin"] == "all")

    def easy(self, score: str) -> np.ndarray:
        """(n,) the score, oriented so that easy is high."""
        return easy_by(score, self.scores[score])


def ends_of(single: Row) -> tuple[float, float]:
    """The interval of a row of Table 1: the bootstrap's if there is one, otherwise Fisher's."""
    if single["bootstrap_low"] is None:
        return single["low"], single["high"]
    return single["bootstrap_low"], single["bootstrap_high"]


def easy_by(score: str, values: np.ndarray) -> np.ndarray:
    """(n,) values of a score, oriented so that easy is high."""
    return -SCORES.harder(score, values)


def agree(
    model: Snapshot,
    target: Target,
    names: Sequence[str],
    settings: CorrelateSettings,
    *,
    pairs: bool,
    progress: Progress | None = None,
) -> Agreement:
    """All coefficients and tests of one model against one target."""
    if len(target.rows) == 0:
        raise InputError(f"{model.name}: there is no sample with {target.words}.")
    columns = {name: numbers_of(model, name)[target.rows] for name in names}
    empty = [name for name, column in columns.items() if not np.isfinite(column).any()]
    keep, left_out = _complete(model, target, {name: columns[name] for name in names if name not in empty})
    rows = target.rows[keep]
    scores = {name: column[keep] for name, column in columns.items() if name not in empty}
    sides = _Sides(
        model.where, target, settings, values=target.values[keep], clusters=_clusters(model, rows),
        easy={name: easy_by(name, column) for name, column in scores.items()},
    )  # fmt: skip
    ceilings = _ceilings(target, keep, settings)
    resampled = sides.resampled(progress)
    singles = sides.singles(ceilings, resampled)
    singles += [sides.null(name, kind, "all", 0, f"{name} has no value for any sample") for name in empty for kind in KINDS]
    return Agreement(
        model.where, target, accuracy_of(model, rows), rows, model.ids[rows], scores, sides.values, left_out, ceilings, singles,
        sides.pairs(resampled) if pairs and resampled is not None and len(sides.varied) > 1 else [],
        clustered=sides.clusters is not None,
    )  # fmt: skip


def _complete(model: Snapshot, target: Target, columns: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, int]]:
    """Indices of the target's rows that have every value, and how many samples lack which value."""
    keep = np.isfinite(target.values)
    left_out = {f"without {target.words}": int((~keep).sum())}
    for name, column in columns.items():
        left_out[f"without {name}"] = int((keep & ~np.isfinite(column)).sum())
        keep &= np.isfinite(column)
    left_out = {why: count for why, count in left_out.items() if count}
    if not keep.any():
        counted = ", ".join(f"{count} {why}" for why, count in left_out.items())
        raise InputError(f"{model.name}: no sample has {target.words} and all of {', '.join(columns)}: {counted}.")
    return np.flatnonzero(keep), left_out


def _clusters(model: Snapshot, rows: np.ndarray) -> np.ndarray | None:
    """(n,) the base image of each row: copies are resampled together, since they are not independent."""
    of_all = base_ids(model)
    bases = [] if of_all is None else [of_all[row] for row in rows]
    return None if len(set(bases)) == len(bases) else np.unique(bases, return_inverse=True)[1]


def _ceilings(target: Target, rows: np.ndarray, settings: CorrelateSettings) -> dict[Kind, Ceiling | str]:
    """The noise ceiling of each coefficient, or why there is none."""
    if target.counts is None or target.labels is None or target.measure is None:
        return dict.fromkeys(KINDS, target.no_ceiling)
    try:
        counts, labels = target.counts[rows], target.labels[rows]
        return {**noise_ceilings(counts, labels, KINDS, of=target.measure, splits=settings.splits, seed=settings.seed)}
    except InputError as error:
        return dict.fromkeys(KINDS, str(error))


def check_varied(name: str, values: np.ndarray, where: str = "") -> None:
    """Raise an InputError, with the user's column names, if a column has no coefficient."""
    n = len(values)
    if n < FEWEST:
        samples = "sample" if n == 1 else "samples"
        raise InputError(f"{n} {samples}{where}; a coefficient with an interval needs at least {FEWEST}")
    if np.ptp(values) == 0:
        raise InputError(f"{name} is the same for all {n} samples{where}")


@dataclass(frozen=True)
class _Sides:
    """The two sides of a comparison, on the same n samples and oriented so that easy is high."""

    model: str
    target: Target
    settings: CorrelateSettings
    easy: dict[str, np.ndarray]  # score -> (n,)
    values: np.ndarray  # (n,) the raw target
    clusters: np.ndarray | None  # (n,) equal for copies of one image

    @functools.cached_property
    def easy_target(self) -> np.ndarray:
        return self.values if self.target.hard == "low" else -self.values

    @functools.cached_property
    def varied(self) -> list[str]:
        """The scores that have a coefficient."""
        return [name for name, column in self.easy.items() if len(column) >= FEWEST and np.ptp(column) > 0]

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """(n, k) values of those scores."""
        return np.column_stack([self.easy[name] for name in self.varied])

    def resampled(self, progress: Progress | None) -> Bootstrap | None:
        """The paired bootstrap of all scores at once; None if there is no coefficient."""
        if not self.varied or np.ptp(self.values) == 0:
            return None
        draws, seed = self.settings.replicates, self.settings.seed
        return bootstrap(self.matrix, self.easy_target, replicates=draws, seed=seed, clusters=self.clusters, progress=progress)

    # ---- single scores ----

    def bins(self) -> list[tuple[str, np.ndarray]]:
        """The name and the samples of each bin: closed below and open above, except for the last, which is closed."""
        edges = self.settings.bins
        if edges is None:
            edges = FREQUENCY_BINS if self.target.key == "frequency" else ()
        bins, values = [], self.values
        for low, high in itertools.pairwise(edges):
            last = high == edges[-1]
            inside = (values >= low) & ((values <= high) if last else (values < high))
            bins.append((f"[{low:g}, {high:g}{']' if last else ')'}", inside))
        return bins

    def singles(self, ceilings: dict[Kind, Ceiling | str], resampled: Bootstrap | None) -> list[Row]:
        """Table 1: each score over all samples and in bins, by each coefficient."""
        parts = [("all", np.ones(len(self.values), dtype=bool)), *self.bins()]
        rows = []
        for name, (part, inside), kind in itertools.product(self.easy, parts, KINDS):
            score, target = self.easy[name][inside], self.easy_target[inside]
            try:
                where = "" if part == "all" else f" in {part}"
                check_varied(name, score, where)
                check_varied(self.target.words, target, where)
                coefficient = correlate_columns(kind, score, target, self.settings.level)
            except InputError as error:
                rows.append(self.null(name, kind, part, len(score), str(error)))
                continue
            row = self.null(name, kind, part, coefficient.n, None) | {
                "agreement": coefficient.value,
                "raw": coefficient.value if hard_end(name) == self.target.hard else -coefficient.value,
                "low": coefficient.low,
                "high": coefficient.high,
                "fisher_z": _finite(coefficient.fisher_z),
                "p": coefficient.p,
            }
            if part == "all":
                ceiling = ceilings[kind]
                row["share_of_ceiling"] = coefficient.value / ceiling.ceiling if isinstance(ceiling, Ceiling) else None
                if resampled is not None and name in self.varied and kind != "kendall":
                    interval = resampled.interval(kind, self.varied.index(name), self.settings.level)
                    row["bootstrap_low"], row["bootstrap_high"] = interval
            rows.append(row)
        return rows

    def null(self, score: str, kind: Kind, part: str, n: int, reason: str | None) -> Row:
        """A row of Table 1 without a coefficient."""
        numbers = ("agreement", "raw", "low", "high", "bootstrap_low", "bootstrap_high", "fisher_z", "p", "share_of_ceiling")
        known = {"model": self.model, "target": self.target.key, "score": score, "hard": hard_end(score), "kind": kind}
        return {**known, "bin": part, "n": n, **dict.fromkeys(numbers), "reason": reason}

    # ---- pairs of scores ----

    def pairs(self, resampled: Bootstrap) -> list[Row]:
        """Tables 2 and 6 to 9: each pair of scores, by each coefficient."""
        matrix, target, names, settings = self.matrix, self.easy_target, self.varied, self.settings
        pairs = list(itertools.combinations(range(len(names)), 2))
        draws, seed = settings.permutations, settings.seed
        swapped = swap_tests(matrix, target, pairs, permutations=draws, seed=seed, clusters=self.clusters)
        to_target = {(kind, i): correlate_columns(kind, matrix[:, i], target) for kind in KINDS for i in range(len(names))}
        influences = [kendall_influence(column, target) for column in matrix.T]
        rows = []
        for kind in KINDS:
            for (i, j), p in zip(pairs, swapped, strict=True):
                between = correlate_columns(kind, matrix[:, i], matrix[:, j]).value
                first, second = to_target[kind, i], to_target[kind, j]
                row: Row = {
                    "model": self.model, "target": self.target.key, "kind": kind, "first": names[i], "second": names[j],
                    "n": first.n, "r_first": first.value, "r_second": second.value, "r_between": between,
                    "z_first": _finite(first.fisher_z), "z_second": _finite(second.fisher_z),
                    "difference": first.value - second.value,
                }  # fmt: skip
                row |= _tests(first.value, second.value, between, first.n, settings.level)
                if kind == "kendall":
                    row |= _jackknifed(influences[i], influences[j], self.clusters, settings.level)
                else:
                    row |= _bootstrapped(kind, first.value - second.value, resampled, (i, j), settings.level)
                row["permutation_p"] = float(p) if kind == "spearman" else None
                rows.append(row)
        return rows


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tests(a: float, b: float, c: float, n: int, level: float) -> Row:
    """The paper's test and those for dependent correlations; null, with the reason, if undefined."""
    row: Row = {"reason": None}
    tests: dict[str, Callable[[], Outcome]] = {
        "independent": lambda: fisher_test(a, b, n),
        "williams": lambda: williams(a, b, c, n),
        "steiger": lambda: steiger(a, b, c, n),
        "meng": lambda: meng(a, b, c, n),
    }
    for name, test in tests.items():
        keys = ("williams_t" if name == "williams" else f"{name}_z", f"{name}_p_greater", f"{name}_p")
        try:
            result = test()
            row |= dict(zip(keys, (result.statistic, result.p_greater, result.p), strict=True))
        except (InputError, ZeroDivisionError, ValueError) as error:
            row |= {**dict.fromkeys(keys), "reason": str(error)}
    try:
        row["zou_low"], row["zou_high"] = zou(a, b, c, n, level)
    except (InputError, ValueError) as error:
        row |= {"zou_low": None, "zou_high": None, "reason": str(error)}
    return row


def _bootstrapped(kind: Kind, difference: float, resampled: Bootstrap, pair: tuple[int, int], level: float) -> Row:
    """The recommended interval and p-value, from the bootstrap over images."""
    low, high = resampled.difference(kind, *pair, level)
    error = resampled.error(kind, *pair)
    return _trusted("bootstrap", low, high, outcome(difference / error if error > 0 else 0.0))


def _jackknifed(
    first: tuple[float, np.ndarray], second: tuple[float, np.ndarray], clusters: np.ndarray | None, level: float
) -> Row:
    """The same for Kendall, from each sample's influence: equal to the bootstrap to first order, and much cheaper."""
    result, difference, error = compare_influences(first, second, clusters)
    half = normal_quantile(level) * error
    return _trusted("jackknife", difference - half, difference + half, result)


def _trusted(method: str, low: float, high: float, result: Outcome) -> Row:
    interval = {"trusted": method, "trusted_low": low, "trusted_high": high}
    return {**interval, "trusted_p_greater": result.p_greater, "trusted_p": result.p}
