"""One model against one target: every single score (Table 1), and every pair of scores (Tables 2 and 6 to 9)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.human.models import accuracy_of, base_ids, hard_end, numbers_of, words_of
from hardsight.human.settings import CorrelateSettings
from hardsight.human.targets import Target
from hardsight.scores import SCORES
from hardsight.screen import Progress, brief
from hardsight.snapshot import Snapshot
from hardsight.stats import correlation_tests
from hardsight.stats.answers import Ceiling, noise_ceilings
from hardsight.stats.coefficients import KINDS, Kind, correlate_columns, normal_quantile, spearman
from hardsight.stats.resampling import Bootstrap, bootstrap, swap_tests

FREQUENCY_BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # the AVH paper's
FEWEST = 4  # minimum samples for a coefficient with an interval


@dataclass(frozen=True)
class Agreement:
    """One model against one target, on the samples that have every score and a target value."""

    __repr__ = brief

    model: str
    target: Target
    settings: CorrelateSettings = field(repr=False)
    accuracy: float | None
    rows: np.ndarray  # (n,) of the model
    ids: np.ndarray  # (n,)
    scores: dict[str, np.ndarray]  # (n,) each
    values: np.ndarray  # (n,) of the target
    left_out: dict[str, int]  # reason -> number of samples
    clusters: np.ndarray | None = None  # (n,) equal for copies of one image
    ceilings: dict[Kind, Ceiling | str] = field(default_factory=dict)
    singles: list[Row] = field(default_factory=list, repr=False)
    pairs: list[Row] = field(default_factory=list, repr=False)

    @property
    def n(self) -> int:
        """Number of samples compared."""
        return len(self.values)

    @property
    def easy_target(self) -> np.ndarray:
        """(n,) the target, oriented so that easy is high."""
        return self.values if self.target.hard == "low" else -self.values

    def easy(self, score: str) -> np.ndarray:
        """(n,) the score, oriented so that easy is high."""
        return easy_by(score, self.scores[score])

    @property
    def varied(self) -> list[str]:
        """The scores that have a coefficient; none if the target is constant."""
        if self.n < FEWEST or np.ptp(self.values) == 0:
            return []
        return [name for name, column in self.scores.items() if np.ptp(column) > 0]

    def single(self, score: str, kind: Kind = "spearman") -> Row:
        """The Table 1 row over all samples."""
        return next(row for row in self.singles if row["score"] == score and row["kind"] == kind and row["bin"] == "all")

    def difference(self, first: str, second: str, kind: Kind = "spearman") -> Row | None:
        """The first score's coefficient minus the second's, with the interval to trust; None if they were not compared."""
        for pair in self.pairs:
            if pair["kind"] == kind and {pair["first"], pair["second"]} == {first, second}:
                sign = 1 if pair["first"] == first else -1
                low, high = sorted((sign * pair["trusted_low"], sign * pair["trusted_high"]))
                return {"effect": sign * pair["difference"], "low": low, "high": high, "p": pair["trusted_p"]}
        return None


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
    agreement = Agreement(
        model.where, target, settings, accuracy_of(model, rows), rows, model.ids[rows], values=target.values[keep],
        scores={name: column[keep] for name, column in columns.items() if name not in empty},
        left_out=left_out, clusters=_clusters(model, rows), ceilings=_ceilings(target, keep, settings),
    )  # fmt: skip
    resampled = _resampled(agreement, progress)
    singles = _singles(agreement, resampled)
    singles += [_null(agreement, name, kind, reason=f"{name} has no value for any sample") for name in empty for kind in KINDS]
    compared = _pairs(agreement, resampled) if pairs and resampled is not None and len(agreement.varied) > 1 else []
    return replace(agreement, singles=singles, pairs=compared)


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


def _resampled(agreement: Agreement, progress: Progress | None) -> Bootstrap | None:
    """The paired bootstrap of all scores at once; None if there is no coefficient."""
    if not agreement.varied:
        return None
    matrix, settings = _matrix(agreement), agreement.settings
    return bootstrap(
        matrix, agreement.easy_target, replicates=settings.replicates, seed=settings.seed, clusters=agreement.clusters,
        progress=progress,
    )  # fmt: skip


def _matrix(agreement: Agreement) -> np.ndarray:
    """(n, k) the scores that have a coefficient, oriented so that easy is high."""
    return np.column_stack([agreement.easy(name) for name in agreement.varied])


# ---- single scores ----


def _singles(agreement: Agreement, resampled: Bootstrap | None) -> list[Row]:
    """Table 1: each score over all samples and in bins, by each coefficient."""
    parts = [("all", np.ones(agreement.n, dtype=bool)), *_bins(agreement)]
    rows = []
    for name, (part, inside), kind in itertools.product(agreement.scores, parts, KINDS):
        row = _single(agreement, name, kind, (part, inside))
        if part == "all" and row["agreement"] is not None:
            ceiling = agreement.ceilings[kind]
            row["share_of_ceiling"] = row["agreement"] / ceiling.ceiling if isinstance(ceiling, Ceiling) else None
            if resampled is not None and kind != "kendall":
                interval = resampled.interval(kind, agreement.varied.index(name), agreement.settings.level)
                row["bootstrap_low"], row["bootstrap_high"] = interval
        rows.append(row)
    return rows


def _bins(agreement: Agreement) -> list[tuple[str, np.ndarray]]:
    """The name and the samples of each bin: closed below and open above, except for the last, which is closed."""
    edges = agreement.settings.bins
    if edges is None:
        edges = FREQUENCY_BINS if agreement.target.key == "frequency" else ()
    bins, values = [], agreement.values
    for low, high in itertools.pairwise(edges):
        last = high == edges[-1]
        inside = (values >= low) & ((values <= high) if last else (values < high))
        bins.append((f"[{low:g}, {high:g}{']' if last else ')'}", inside))
    return bins


def _single(agreement: Agreement, name: str, kind: Kind, part: tuple[str, np.ndarray]) -> Row:
    """One coefficient of one score in one bin; null, with the reason, if undefined."""
    words, inside = part
    score, target = agreement.easy(name)[inside], agreement.easy_target[inside]
    row = _null(agreement, name, kind, words, len(score))
    try:
        where = "" if words == "all" else f" in {words}"
        check_varied(name, score, where)
        check_varied(agreement.target.words, target, where)
        coefficient = correlate_columns(kind, score, target, agreement.settings.level)
    except InputError as error:
        return row | {"reason": str(error)}
    return row | {
        "n": coefficient.n,
        "agreement": coefficient.value,
        "raw": coefficient.value if hard_end(name) == agreement.target.hard else -coefficient.value,
        "low": coefficient.low,
        "high": coefficient.high,
        "fisher_z": _finite(coefficient.fisher_z),
        "p": coefficient.p,
    }


def _null(agreement: Agreement, score: str, kind: Kind, part: str = "all", n: int = 0, reason: str | None = None) -> Row:
    """A row of Table 1 without a coefficient."""
    known = {"model": agreement.model, "target": agreement.target.key, "score": score, "hard": hard_end(score), "kind": kind}
    return dict.fromkeys(name for name, _ in COLUMNS["table1"]) | known | {"bin": part, "n": n, "reason": reason}


# ---- pairs of scores ----


def _pairs(agreement: Agreement, resampled: Bootstrap) -> list[Row]:
    """Tables 2 and 6 to 9: each pair of scores, by each coefficient."""
    matrix, target, names, settings = _matrix(agreement), agreement.easy_target, agreement.varied, agreement.settings
    clusters, level = agreement.clusters, settings.level
    pairs = list(itertools.combinations(range(len(names)), 2))
    swapped = swap_tests(matrix, target, pairs, permutations=settings.permutations, seed=settings.seed, clusters=clusters)
    to_target = {(kind, i): correlate_columns(kind, matrix[:, i], target) for kind in KINDS for i in range(len(names))}
    influences = [correlation_tests.kendall_influence(column, target) for column in matrix.T]
    rows = []
    for kind, ((i, j), p) in itertools.product(KINDS, zip(pairs, swapped, strict=True)):
        between = correlate_columns(kind, matrix[:, i], matrix[:, j]).value
        first, second = to_target[kind, i], to_target[kind, j]
        row: Row = {
            "model": agreement.model, "target": agreement.target.key, "kind": kind, "first": names[i], "second": names[j],
            "n": first.n, "r_first": first.value, "r_second": second.value, "r_between": between,
            "z_first": _finite(first.fisher_z), "z_second": _finite(second.fisher_z),
            "difference": first.value - second.value,
        }  # fmt: skip
        row |= _tests((first.value, second.value, between), first.n, level)
        if kind == "kendall":
            row |= _jackknifed(influences[i], influences[j], clusters, level)
        else:
            row |= _bootstrapped(kind, first.value - second.value, resampled, (i, j), level)
        row["permutation_p"] = float(p) if kind == "spearman" else None
        rows.append(row)
    return rows


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tests(coefficients: tuple[float, float, float], n: int, level: float) -> Row:
    """The paper's test and those for dependent correlations; null, with the reason, if undefined.

    The coefficients are those of both scores with the target, and of the scores with each other.
    """
    row: Row = {"reason": None}
    tests: dict[str, Callable[..., correlation_tests.Outcome]] = {
        "independent": correlation_tests.fisher_test,
        "williams": correlation_tests.williams,
        "steiger": correlation_tests.steiger,
        "meng": correlation_tests.meng,
    }
    for name, test in tests.items():
        keys = ("williams_t" if name == "williams" else f"{name}_z", f"{name}_p_greater", f"{name}_p")
        try:
            result = test(*(coefficients[:2] if test is correlation_tests.fisher_test else coefficients), n)
            row |= dict(zip(keys, (result.statistic, result.p_greater, result.p), strict=True))
        except (InputError, ZeroDivisionError, ValueError) as error:
            row |= {**dict.fromkeys(keys), "reason": str(error)}
    try:
        row["zou_low"], row["zou_high"] = correlation_tests.zou(*coefficients, n, level)
    except (InputError, ValueError) as error:
        row |= {"zou_low": None, "zou_high": None, "reason": str(error)}
    return row


def _bootstrapped(kind: Kind, difference: float, resampled: Bootstrap, pair: tuple[int, int], level: float) -> Row:
    """The recommended interval and p-value, from the bootstrap over images."""
    low, high = resampled.difference(kind, *pair, level)
    error = resampled.error(kind, *pair)
    return _trusted("bootstrap", low, high, correlation_tests.outcome(difference / error if error > 0 else 0.0))


def _jackknifed(
    first: tuple[float, np.ndarray], second: tuple[float, np.ndarray], clusters: np.ndarray | None, level: float
) -> Row:
    """The same for Kendall, from each sample's influence: equal to the bootstrap to first order, and much cheaper."""
    result, difference, error = correlation_tests.compare_influences(first, second, clusters)
    half = normal_quantile(level) * error
    return _trusted("jackknife", difference - half, difference + half, result)


def _trusted(method: str, low: float, high: float, result: correlation_tests.Outcome) -> Row:
    interval = {"trusted": method, "trusted_low": low, "trusted_high": high}
    return {**interval, "trusted_p_greater": result.p_greater, "trusted_p": result.p}


Row = dict[str, Any]


def _columns(words: str, names: str, whole: str = "n") -> list[tuple[str, pa.DataType]]:
    """Names in order with their types: text, integers, and float64 for the rest."""
    kinds = {**dict.fromkeys(words.split(), pa.string()), **dict.fromkeys(whole.split(), pa.int64())}
    return [(name, kinds.get(name, pa.float64())) for name in names.split()]


COLUMNS = {  # of every table by its name
    "table1": _columns(
        "model target score hard kind bin reason",
        "model target score hard kind bin n agreement raw low high bootstrap_low bootstrap_high fisher_z p share_of_ceiling "
        "reason",
    ),
    "pairs": _columns(
        "model target kind first second trusted verdict reason",
        "model target kind first second n r_first r_second r_between z_first z_second difference "
        "independent_z independent_p_greater independent_p williams_t williams_p_greater williams_p steiger_z steiger_p_greater "
        "steiger_p meng_z meng_p_greater meng_p zou_low zou_high permutation_p trusted trusted_low trusted_high "
        "trusted_p_greater trusted_p holm_p verdict reason",
    ),
    "hypotheses": _columns(
        "model target hypothesis statement verdict note",
        "model target hypothesis statement verdict effect low high p share_of_ceiling note",
    ),
    "models": _columns(
        "model target score reason",
        "model target n accuracy score mean agreement bootstrap_low bootstrap_high share_of_ceiling reason",
    ),
    "ceilings": _columns(
        "model target kind reason", "model target kind n split_half reliability ceiling splits reason", "n splits"
    ),
    "checkpoints": _columns("model score reason", "model score n accuracy mean agreement low high p reason"),
    "groups": _columns("model group score reason", "model group score n mean agreement reason"),
}


def as_table(rows: Sequence[Row], name: str) -> pa.Table:
    """Rows as the table of that name; all columns exist even without rows, and are null if a row lacks one."""
    return pa.table({column: pa.array([row.get(column) for row in rows], type=kind) for column, kind in COLUMNS[name]})


# ---- within groups ----


def within_groups(agreement: Agreement, model: Snapshot, column: str) -> list[Row]:
    """Spearman of each score within each group of samples that share a value of a column; null, with the reason, if undefined."""
    rows: list[Row] = []
    words = words_of(model, column)
    groups = np.array([str(words[row]) for row in agreement.rows], dtype=object)  # (n,)
    for group in dict.fromkeys(groups.tolist()):
        inside = np.flatnonzero(groups == group)
        target = agreement.easy_target[inside]
        for name, column_of_score in agreement.scores.items():
            score = column_of_score[inside]
            row: Row = {"model": agreement.model, "group": group, "score": name, "n": len(target), "agreement": None}
            row |= {"mean": float(score.mean()), "reason": None}
            try:
                check_varied(name, score)
                check_varied(agreement.target.words, target)
                row["agreement"] = spearman(easy_by(name, score), target)
            except InputError as error:
                row["reason"] = str(error)
            rows.append(row)
    return rows
