"""The numbers of one model against one target: every score alone (Table 1), and every two of them (Tables 2 and 6 to 9)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from hardsight.agreement.models import Model, hard_end
from hardsight.agreement.targets import Target
from hardsight.errors import InputError
from hardsight.stats.answers import Ceiling, noise_ceilings
from hardsight.stats.bootstrap import Bootstrap, bootstrap
from hardsight.stats.coefficients import KINDS, Coefficient, Kind, correlate_columns
from hardsight.stats.concordance import compare_influences, kendall_influence
from hardsight.stats.dependent import meng, steiger, williams, zou
from hardsight.stats.independent import Outcome, fisher_test, outcome
from hardsight.stats.permutation import swap_tests

Progress = Callable[[int, int], None]
Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What the caller may choose about the statistics."""

    bins: tuple[float, ...] | None = None
    level: float = 0.95
    replicates: int = 1000
    permutations: int = 1000
    splits: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError(f"level must be between 0 and 1, such as 0.95, got {self.level}.")
        if self.splits < 1:
            raise InputError(f"splits must be at least 1, got {self.splits}.")
        if self.replicates < 20 or self.permutations < 20:
            raise InputError(f"at least 20 replicates and permutations, got {self.replicates} and {self.permutations}.")


@dataclass(frozen=True)
class Agreement:
    """One model against one target, on the samples that have a number for every score and for the target."""

    model: str
    target: Target
    accuracy: float | None
    rows: np.ndarray  # (n,) of the model's table
    ids: np.ndarray  # (n,)
    scores: dict[str, np.ndarray]  # (n,) each
    values: np.ndarray  # (n,) of the target
    left_out: dict[str, int]
    ceilings: dict[Kind, Ceiling | str]
    singles: list[Row] = field(repr=False)
    pairs: list[Row] = field(repr=False)

    clustered: bool = False  # some rows are copies of one image

    @property
    def n(self) -> int:
        return len(self.values)

    def single(self, score: str, kind: Kind = "spearman") -> Row:
        """The row of Table 1 over all samples."""
        return next(row for row in self.singles if row["score"] == score and row["kind"] == kind and row["bin"] == "all")

    def easy(self, score: str) -> np.ndarray:
        """(n,) the score, turned so that easy is high."""
        return turned(self.scores[score], hard_end(score))


def turned(values: np.ndarray, hard: str) -> np.ndarray:
    """The values, or their negatives, so that the easy end is the high one."""
    return values if hard == "low" else -values


def agree(
    model: Model, target: Target, names: Sequence[str], options: Options, *, pairs: bool, progress: Progress | None = None
) -> Agreement:
    """All coefficients and tests of one model against one target."""
    if len(target.rows) == 0:
        raise InputError(f"{model.name}: there is no sample with {target.words}.")
    columns = {name: model.column(name)[target.rows] for name in names}
    left_out: dict[str, int] = {}
    empty = [name for name, column in columns.items() if not np.isfinite(column).any()]
    keep = np.isfinite(target.values)
    left_out[f"without {target.words}"] = int((~keep).sum())
    for name, column in columns.items():
        if name not in empty:
            left_out[f"without {name}"] = int((keep & ~np.isfinite(column)).sum())
            keep &= np.isfinite(column)
    left_out = {why: count for why, count in left_out.items() if count}
    if not keep.any():
        said = ", ".join(f"{count} {why}" for why, count in left_out.items())
        raise InputError(
            f"{model.name}: no sample has {target.words} and all of {', '.join(n for n in names if n not in empty)}: {said}."
        )
    rows = np.flatnonzero(keep)
    scores = {name: column[rows] for name, column in columns.items() if name not in empty}
    values = target.values[rows]
    ceilings = _ceilings(target, rows, options)
    easy = {name: turned(column, hard_end(name)) for name, column in scores.items()}
    easy_target = turned(values, target.hard)
    varied = [name for name, column in easy.items() if len(column) >= 4 and np.ptp(column) > 0]
    clusters = _clusters(model, target.rows[rows])
    drawn: Bootstrap | None = None
    if varied and np.ptp(values) > 0:
        matrix = np.column_stack([easy[name] for name in varied])
        drawn = bootstrap(
            matrix, easy_target, replicates=options.replicates, seed=options.seed,
            clusters=clusters, progress=progress,
        )  # fmt: skip
    singles = _singles(model.name, target, easy, easy_target, values, ceilings, drawn, varied, options)
    singles += [
        _null(model.name, target, name, kind, "all", 0, f"{name} has no value for any sample") for name in empty for kind in KINDS
    ]
    found: list[Row] = []
    if pairs and drawn is not None and len(varied) > 1:
        found = _pairs(model.name, target, easy, easy_target, clusters, drawn, varied, options)
    return Agreement(
        model.name, target, _accuracy(model, target.rows[rows]), target.rows[rows], model.ids[target.rows[rows]],
        scores, values, left_out, ceilings, singles, found, clusters is not None,
    )  # fmt: skip


def _accuracy(model: Model, rows: np.ndarray) -> float | None:
    return Model(model.name, model.table.take(rows)).accuracy


def _clusters(model: Model, rows: np.ndarray) -> np.ndarray | None:
    """Degraded copies of one image are drawn together: they are not independent."""
    if not model.has("base_id"):
        return None
    base = [str(one) for one in model.table.column("base_id").take(rows).to_pylist()]
    return None if len(set(base)) == len(base) else np.unique(base, return_inverse=True)[1]


def _ceilings(target: Target, rows: np.ndarray, options: Options) -> dict[Kind, Ceiling | str]:
    if target.counts is None or target.labels is None or target.measure is None:
        return dict.fromkeys(KINDS, target.no_ceiling)
    try:
        counts, labels = target.counts[rows], target.labels[rows]
        return {**noise_ceilings(counts, labels, KINDS, of=target.measure, splits=options.splits, seed=options.seed)}
    except InputError as error:
        return dict.fromkeys(KINDS, str(error))


# ---- every score alone ----


def bin_edges(target: Target, options: Options) -> list[tuple[float, float, str]]:
    """Low edge, high edge and name of each bin: closed below, open above, but the last one is closed."""
    edges = options.bins
    if edges is None:
        edges = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0) if target.key == "frequency" else ()
    if len(edges) == 1 or any(not low < high for low, high in itertools.pairwise(edges)):
        raise InputError(f"bins are edges in rising order, such as 0,0.2,0.4,0.6,0.8,1, got {edges}.")
    last = len(edges) - 2
    return [
        (low, high, f"[{low:g}, {high:g}{']' if at == last else ')'}") for at, (low, high) in enumerate(itertools.pairwise(edges))
    ]


def _singles(
    model: str,
    target: Target,
    easy: dict[str, np.ndarray],
    easy_target: np.ndarray,
    values: np.ndarray,
    ceilings: dict[Kind, Ceiling | str],
    drawn: Bootstrap | None,
    varied: list[str],
    options: Options,
) -> list[Row]:
    parts: list[tuple[str, np.ndarray]] = [("all", np.ones(len(values), dtype=bool))]
    cut = bin_edges(target, options)
    for at, (low, high, name) in enumerate(cut):
        inside = (values >= low) & ((values <= high) if at == len(cut) - 1 else (values < high))
        parts.append((name, inside))
    found = []
    for name, (part, inside), kind in itertools.product(easy, parts, KINDS):
        try:
            one = correlate_columns(kind, *_named(easy[name][inside], easy_target[inside], name, target, part), options.level)
        except InputError as error:
            found.append(_null(model, target, name, kind, part, int(inside.sum()), str(error)))
            continue
        row = _row(model, target, name, part, one)
        if part == "all":
            ceiling = ceilings[kind]
            row["share_of_ceiling"] = one.value / ceiling.ceiling if isinstance(ceiling, Ceiling) else None
            if drawn is not None and name in varied and kind != "kendall":
                row["bootstrap_low"], row["bootstrap_high"] = drawn.interval(kind, varied.index(name), options.level)
        found.append(row)
    return found


def _named(score: np.ndarray, target: np.ndarray, name: str, of: Target, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The two columns, or why they have no correlation, in the words of the user's table."""
    where = "" if part == "all" else f" in {part}"
    if len(score) < 4:
        raise InputError(
            f"{len(score)} {'sample' if len(score) == 1 else 'samples'}{where}; a coefficient with an interval needs at least 4"
        )
    for column, words in ((score, name), (target, of.words)):
        if np.ptp(column) == 0:
            raise InputError(f"{words} is the same for all {len(score)} samples{where}")
    return score, target


def _row(model: str, target: Target, score: str, part: str, one: Coefficient) -> Row:
    sign = 1 if hard_end(score) == target.hard else -1
    return {
        "model": model, "target": target.key, "score": score, "hard": hard_end(score), "kind": one.kind, "bin": part, "n": one.n,
        "agreement": one.value, "raw": sign * one.value, "low": one.low, "high": one.high,
        "bootstrap_low": None, "bootstrap_high": None,
        "fisher_z": one.fisher_z if math.isfinite(one.fisher_z) else None, "p": one.p, "share_of_ceiling": None, "reason": None,
    }  # fmt: skip


def _null(model: str, target: Target, score: str, kind: Kind, part: str, n: int, reason: str) -> Row:
    empty: Row = dict.fromkeys(("agreement", "raw", "low", "high", "bootstrap_low", "bootstrap_high", "fisher_z", "p"))
    return {
        "model": model, "target": target.key, "score": score, "hard": hard_end(score), "kind": kind, "bin": part, "n": n,
        **empty, "share_of_ceiling": None, "reason": reason,
    }  # fmt: skip


# ---- every two of them ----


def _pairs(
    model: str,
    target: Target,
    easy: dict[str, np.ndarray],
    easy_target: np.ndarray,
    clusters: np.ndarray | None,
    drawn: Bootstrap,
    varied: list[str],
    options: Options,
) -> list[Row]:
    couples = list(itertools.combinations(range(len(varied)), 2))
    matrix = np.column_stack([easy[name] for name in varied])
    swapped = swap_tests(matrix, easy_target, couples, permutations=options.permutations, seed=options.seed, clusters=clusters)
    to_target = {(kind, i): correlate_columns(kind, matrix[:, i], easy_target) for kind in KINDS for i in range(len(varied))}
    influences = [kendall_influence(matrix[:, i], easy_target) for i in range(len(varied))]
    found = []
    for kind in KINDS:
        for (i, j), p in zip(couples, swapped, strict=True):
            between = correlate_columns(kind, matrix[:, i], matrix[:, j]).value
            first, second = to_target[kind, i], to_target[kind, j]
            row: Row = {
                "model": model, "target": target.key, "kind": kind, "first": varied[i], "second": varied[j], "n": first.n,
                "r_first": first.value, "r_second": second.value, "r_between": between,
                "z_first": _finite(first.fisher_z), "z_second": _finite(second.fisher_z),
                "difference": first.value - second.value,
            }  # fmt: skip
            row |= _tests(first.value, second.value, between, first.n, options.level)
            if kind == "kendall":
                row |= _jackknifed(influences[i], influences[j], clusters, options.level)
            else:
                row |= _redrawn(kind, first.value - second.value, drawn, (i, j), options.level)
            row["permutation_p"] = float(p) if kind == "spearman" else None
            found.append(row)
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tests(a: float, b: float, c: float, n: int, level: float) -> Row:
    """The paper's test and those for dependent correlations; null, with the reason, where they do not exist."""
    found: Row = {"reason": None}
    tests: dict[str, Callable[[], Outcome]] = {
        "independent": lambda: fisher_test(a, b, n),
        "williams": lambda: williams(a, b, c, n),
        "steiger": lambda: steiger(a, b, c, n),
        "meng": lambda: meng(a, b, c, n),
    }
    for name, test in tests.items():
        try:
            one = test()
            found |= {f"{name}_z" if name != "williams" else "williams_t": one.statistic}
            found |= {f"{name}_p_greater": one.p_greater, f"{name}_p": one.p}
        except (InputError, ZeroDivisionError, ValueError) as error:
            found |= {f"{name}_z" if name != "williams" else "williams_t": None, f"{name}_p_greater": None, f"{name}_p": None}
            found["reason"] = str(error)
    try:
        found["zou_low"], found["zou_high"] = zou(a, b, c, n, level)
    except (InputError, ValueError) as error:
        found |= {"zou_low": None, "zou_high": None, "reason": str(error)}
    return found


def _redrawn(kind: Kind, difference: float, drawn: Bootstrap, at: tuple[int, int], level: float) -> Row:
    """The interval and p to trust, from images drawn again."""
    low, high = drawn.difference(kind, *at, level)
    error = drawn.error(kind, *at)
    return _trusted("bootstrap", low, high, outcome(difference / error if error > 0 else 0.0))


def _jackknifed(
    first: tuple[float, np.ndarray], second: tuple[float, np.ndarray], clusters: np.ndarray | None, level: float
) -> Row:
    """The same for Kendall, from what each sample contributes: equal to the bootstrap to first order, and much cheaper."""
    one, difference, error = compare_influences(first, second, clusters)
    half = -float(ndtri((1 - level) / 2)) * error
    return _trusted("jackknife", difference - half, difference + half, one)


def _trusted(method: str, low: float, high: float, one: Outcome) -> Row:
    return {"trusted": method, "trusted_low": low, "trusted_high": high, "trusted_p_greater": one.p_greater, "trusted_p": one.p}
