"""Whether the features themselves moved between two snapshots of one model: a classifier two-sample test.

    paired      the same samples twice. A linear rule w is fitted to the differences phi(after) - phi(before) of one half of the
                samples, and asked about the other half: which of a sample's two features is the later one?
    unpaired    different samples. A linear discriminant is fitted to one half, and asked of the other half: from which snapshot?

phi(x) are the standardized features and, up to 512 of them, their squares, so that a spread which grows is seen as well as a
shift. Where nothing moved, the rule is right in half of the cases; the share comes with Wilson's interval, and p is exact: a
sign test, or Fisher's. Asking each half by the rule of the other would not give twice the evidence: both depend on whether the
two halves agree. The control is the same with before and after exchanged by chance. Lopez-Paz and Oquab, "Revisiting
Classifier Two-Sample Tests", ICLR 2017.

Two models have two spaces, which no rule can compare. There `neighbors_kept` asks what both spaces have: who is near whom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.groups.comparing import Measures
from hardsight.groups.settings import DriftSettings
from hardsight.scoring.comparable import why_two_scales
from hardsight.stats.small_samples import Mean, fisher_exact, mean_interval, sign_test, wilson
from hardsight.subsets.eligible import directions
from hardsight.subsets.methods import neighbor_graph
from hardsight.threads import even_rows

MOST_ROWS = 5000  # of each snapshot
MOST_SQUARED = 512  # features up to which their squares are used too
FEWEST = 20  # samples of each
NEAREST = 10  # samples that are looked at of each


@dataclass(frozen=True)
class Told:
    """How often a rule told before from after."""

    share: float
    low: float
    high: float
    p: float
    n: int  # decisions


@dataclass(frozen=True)
class Moved:
    """What the test says, with the same of shuffled data beside it."""

    paired: bool
    told: Told
    control: Told
    angle: Mean | None  # paired: degrees between a sample's two features


def features_moved(before: np.ndarray, after: np.ndarray, *, paired: bool, level: float = 0.95, seed: int = 0) -> Moved | None:
    """Test two (n, d) and (m, d) feature matrices of one model, row by row the same samples if paired.

    Rows that are not finite are left out; None where fewer than 20 are left of either.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 4))
        >>> features_moved(x, x, paired=True).told.share, features_moved(x, x + 1, paired=True).told.share
        (0.5, 1.0)
    """
    good = [np.isfinite(rows).all(axis=1) for rows in (before, after)]
    if paired:
        both = good[0] & good[1]
        good = [both, both]
    before, after = before[good[0]], after[good[1]]
    before, after = before[even_rows(len(before), MOST_ROWS)], after[even_rows(len(after), MOST_ROWS)]
    if min(len(before), len(after)) < FEWEST:
        return None
    rng = _own_draws(seed)
    shuffled = _exchanged(before, after, rng, paired)
    tell = _tell_pairs if paired else _tell_sets
    angle = mean_interval(angles_between(before, after), level) if paired else None
    return Moved(paired, tell(before, after, level, seed), tell(*shuffled, level, seed), angle)


@dataclass(frozen=True)
class Kept:
    """How many of a sample's nearest samples are the same in two spaces, with the same of shuffled samples beside it."""

    share: Mean  # 1 where both spaces have the same neighbors
    control: Mean
    n: int


def neighbors_kept(before: np.ndarray, after: np.ndarray, *, level: float = 0.95, seed: int = 0) -> Kept | None:
    """Compare (n, d) and (n, e) features of the same samples by two models: of each one's ten nearest, the share in both.

    Nearest is by angle. Rows without a direction are left out; None where fewer than 20 are left.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 4))
        >>> kept = neighbors_kept(x, 3 * x[:, ::-1])  # another basis, the same neighbors
        >>> kept.share.value, kept.control.value < 0.2
        (1.0, True)
    """
    units = directions(before), directions(after)
    good = np.flatnonzero(np.isfinite(units[0][:, 0]) & np.isfinite(units[1][:, 0]))
    good = good[even_rows(len(good), MOST_ROWS)]
    n = len(good)
    if n < FEWEST:
        return None
    first, second = (neighbor_graph(unit[good], NEAREST)[0] for unit in units)  # (n, k) rows
    order = _own_draws(seed).permutation(n)
    shuffled = np.argsort(order)[second[order]]  # the neighbors of a space whose samples go by other names
    share, control = (
        mean_interval((first[:, :, None] == other[:, None, :]).any(2).mean(1), level) for other in (second, shuffled)
    )
    return Kept(share, control, n)


def angles_between(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """(n,) degrees between the rows of two (n, d) matrices; NaN where one has no direction."""
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (before * after).sum(1) / (np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1))
    same = (before == after).all(axis=1) & np.isfinite(cosine)
    return np.where(same, 0.0, np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def _exchanged(before: np.ndarray, after: np.ndarray, rng: np.random.Generator, paired: bool) -> tuple[np.ndarray, np.ndarray]:
    if paired:
        swap = (rng.random(len(before)) < 0.5)[:, None]
        return np.where(swap, after, before), np.where(swap, before, after)
    pooled = np.concatenate([before, after])[rng.permutation(len(before) + len(after))]
    return pooled[: len(before)], pooled[len(before) :]


def _tell_pairs(before: np.ndarray, after: np.ndarray, level: float, seed: int) -> Told:
    phi = _expansion(np.concatenate([before, after]))
    gap = phi(after) - phi(before)  # (n, k)
    first = _first_half(len(gap), seed)
    side = gap[~first] @ _discriminant(gap[first].mean(0), gap[first])
    n, wins, losses = len(side), int((side > 0).sum()), int((side < 0).sum())
    right = wins + (n - wins - losses) / 2  # features that are the same twice tell nothing
    return Told(right / n, *wilson(right, n, level), sign_test(wins, losses), n)


def _tell_sets(before: np.ndarray, after: np.ndarray, level: float, seed: int) -> Told:
    phi = _expansion(np.concatenate([before, after]))
    sides = [phi(before), phi(after)]
    halves = [_first_half(len(side), seed + at) for at, side in enumerate(sides)]
    means = [side[half].mean(0) for side, half in zip(sides, halves, strict=True)]
    spread = np.concatenate([side[half] - mean for side, half, mean in zip(sides, halves, means, strict=True)])
    w = _discriminant(means[1] - means[0], spread)
    cut = (means[0] + means[1]) @ w / 2
    said_after = [int((side[~half] @ w > cut).sum()) for side, half in zip(sides, halves, strict=True)]
    n, m = (int((~half).sum()) for half in halves)
    share = ((n - said_after[0]) / n + said_after[1] / m) / 2  # chance is one half, however many there are of each
    low, high = wilson(share * (n + m), n + m, level)
    return Told(share, low, high, fisher_exact((said_after[0], n), (said_after[1], m)), n + m)


def _expansion(rows: np.ndarray) -> Any:
    """Standardize by the mean and spread of all rows, and add squares where there are few features."""
    mean, spread = rows.mean(0), rows.std(0)
    scale = np.where(spread > 0, spread, 1.0)

    def phi(x: np.ndarray) -> np.ndarray:
        z = (x - mean) / scale
        return z if z.shape[1] > MOST_SQUARED else np.concatenate([z, z * z], axis=1)

    return phi


def _discriminant(direction: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(k,) Fisher's discriminant, its covariance drawn towards a multiple of the identity by as much as it lacks samples."""
    n, k = rows.shape
    centered = rows - rows.mean(0)
    covariance = centered.T @ centered / n
    share = k / (k + n)
    ridge = float(np.trace(covariance)) / k
    if ridge == 0:  # all rows are the same: their mean is all there is
        return direction
    return np.linalg.solve((1 - share) * covariance + share * ridge * np.eye(k), direction)


def _own_draws(seed: int) -> np.random.Generator:
    """Draws of our own: `default_rng(seed)` may have drawn which samples are compared, and a control must not repeat that."""
    return np.random.default_rng([seed, 0x647269])


def _first_half(n: int, seed: int) -> np.ndarray:
    return np.isin(np.arange(n), _own_draws(seed).permutation(n)[: n // 2])


@dataclass(frozen=True)
class ComparedFeatures:
    """What could be compared."""

    moved: Moved | None = None  # in one space
    angle: np.ndarray | None = None  # (n,) degrees between a sample's two features
    kept: Kept | None = None  # in two spaces
    why_not: str | None = None  # why features were not compared as those of one space


def compare_features(first: Measures, second: Measures, settings: DriftSettings) -> ComparedFeatures:
    """Compare the features of two snapshots; if paired, row by row of the same samples."""
    for side in (first, second):
        if side.samples.source.evidence != "features":
            return ComparedFeatures(why_not=f"{side.name} holds no features")
    why_two = _two_spaces(first, second)
    if why_two is not None and settings.unpaired:
        return ComparedFeatures(why_not=why_two)
    before, after = _on_one_scale(first.features, second.features)
    rows = _one_of_each_image(first), _one_of_each_image(second if settings.unpaired else first)
    if why_two is not None:
        kept = neighbors_kept(before[rows[0]], after[rows[1]], level=settings.level, seed=settings.seed)
        return ComparedFeatures(kept=kept, why_not=why_two)
    paired = not settings.unpaired
    moved = features_moved(before[rows[0]], after[rows[1]], paired=paired, level=settings.level, seed=settings.seed)
    angle = angles_between(before, after) if paired else None
    return ComparedFeatures(moved, angle, why_not=None if moved else "there are too few samples with features")


def _on_one_scale(before: np.ndarray | None, after: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Both over the largest number in either, so that no square of it overflows; nothing here depends on the unit."""
    assert before is not None and after is not None
    largest = max(float(np.abs(x).max(initial=0.0, where=np.isfinite(x))) for x in (before, after))
    return (before / largest, after / largest) if largest > 0 else (before, after)


def _two_spaces(first: Measures, second: Measures) -> str | None:
    """Why the features of the two are not in one space; None where one model made both, as far as can be seen."""
    widths = [side.samples.source.width for side in (first, second)]
    if widths[0] != widths[1]:
        return f"one has {widths[0]} features, the other {widths[1]}"
    heads = first.samples.head, second.samples.head
    return None if heads == (None, None) else why_two_scales(*heads, (first.name, second.name))


def _one_of_each_image(measures: Measures) -> np.ndarray:
    """Rows of the first copy of each image: copies are no independent evidence."""
    units = measures.units
    return np.arange(len(measures)) if units is None else np.sort(np.unique(units, return_index=True)[1])


def features_in_words(features: ComparedFeatures, level: float) -> str:
    """Whether the features moved, and what was tested, in one sentence."""
    moved = features.moved
    if features.kept is not None:
        share, control = features.kept.share, features.kept.control
        return (
            f"features: from two models, because {features.why_not}. {100 * share.value:.1f} % [{100 * share.low:.1f}, "
            f"{100 * share.high:.1f}] of a sample's {NEAREST} nearest samples are the same in both; "
            f"shuffled control: {100 * control.value:.1f} % [{100 * control.low:.1f}, {100 * control.high:.1f}]."
        )
    if moved is None:
        return f"features: not compared, because {features.why_not}."
    told, control_of_rule = moved.told, moved.control
    question = "the later of a sample's two features" if moved.paired else "which of the two sets a feature is from"
    shown = f"{100 * told.share:.1f} % [{100 * told.low:.1f}, {100 * told.high:.1f}] of cases, p = {told.p:.2g}"
    verdict = "moved" if told.p <= 1 - level and told.share > 0.5 else "no shift found"
    angle = "" if moved.angle is None else f"; mean angle between the two: {moved.angle.value:.2f} degrees"
    return (
        f"features: {verdict}. A linear classifier tells {question} in {shown}; chance is 50 %, shuffled control "
        f"{100 * control_of_rule.share:.1f} % [{100 * control_of_rule.low:.1f}, {100 * control_of_rule.high:.1f}]{angle}."
    )
