"""The features of two snapshots: in one space, whether they moved; in the spaces of two models, who is near whom in both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.groups.feature_shift import Kept, Moved, angles_between, features_moved, neighbors_kept
from hardsight.groups.opening import Measured
from hardsight.groups.settings import DriftSettings
from hardsight.scoring.comparable import why_two_scales


@dataclass(frozen=True)
class ComparedFeatures:
    """What could be compared."""

    moved: Moved | None = None  # in one space
    angle: np.ndarray | None = None  # (n,) degrees between a sample's two features
    kept: Kept | None = None  # in two spaces
    why_not: str | None = None  # why features were not compared as those of one space


def compare_features(first: Measured, second: Measured, settings: DriftSettings) -> ComparedFeatures:
    """Compare the features of two snapshots; if paired, row by row of the same samples."""
    for side in (first, second):
        if side.snapshot is None or side.snapshot.source.evidence != "features":
            return ComparedFeatures(why_not=f"{side.name} holds no features")
    why_two = _two_spaces(first, second)
    if why_two is not None and settings.unpaired:
        return ComparedFeatures(why_not=why_two)
    before, after = _on_one_scale(first.features(), second.features())
    some = _one_of_each_image(first), _one_of_each_image(second if settings.unpaired else first)
    if why_two is not None:
        kept = neighbors_kept(before[some[0]], after[some[1]], level=settings.level, seed=settings.seed)
        return ComparedFeatures(kept=kept, why_not=why_two)
    paired = not settings.unpaired
    moved = features_moved(before[some[0]], after[some[1]], paired=paired, level=settings.level, seed=settings.seed)
    angle = angles_between(before, after) if paired else None
    return ComparedFeatures(moved, angle, why_not=None if moved else "there are too few samples with features")


def _on_one_scale(before: np.ndarray | None, after: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Both over the largest number in either, so that no square of it overflows; nothing here depends on the unit."""
    assert before is not None and after is not None
    largest = max(float(np.abs(x).max(initial=0.0, where=np.isfinite(x))) for x in (before, after))
    return (before / largest, after / largest) if largest > 0 else (before, after)


def _two_spaces(first: Measured, second: Measured) -> str | None:
    """Why the features of the two are not in one space; None where one model made both, as far as can be seen."""
    assert first.snapshot is not None and second.snapshot is not None
    widths = [side.snapshot.source.width for side in (first, second) if side.snapshot is not None]
    if widths[0] != widths[1]:
        return f"one has {widths[0]} features, the other {widths[1]}"
    if first.head is None and second.head is None:
        return None
    return why_two_scales(first.head, second.head, (first.name, second.name))


def _one_of_each_image(measured: Measured) -> np.ndarray:
    """Rows of the first copy of each image: copies are no independent evidence."""
    units = measured.units
    return np.arange(len(measured)) if units is None else np.sort(np.unique(units, return_index=True)[1])


def features_in_words(features: ComparedFeatures, level: float) -> str:
    """Whether the features moved, and what was tested, in one sentence."""
    moved = features.moved
    if features.kept is not None:
        share, control = features.kept.share, features.kept.control
        return (
            f"features: from two models, because {features.why_not}. {100 * share.value:.1f} % [{100 * share.low:.1f}, "
            f"{100 * share.high:.1f}] of a sample's {features.kept.nearest} nearest samples are the same in both; "
            f"shuffled control: {100 * control.value:.1f} % [{100 * control.low:.1f}, {100 * control.high:.1f}]."
        )
    if moved is None:
        return f"features: not compared, because {features.why_not}."
    told, control_of_rule = moved.told, moved.control
    asked = "the later of a sample's two features" if moved.paired else "which of the two sets a feature is from"
    shown = f"{100 * told.share:.1f} % [{100 * told.low:.1f}, {100 * told.high:.1f}] of cases, p = {told.p:.2g}"
    verdict = "moved" if told.p <= 1 - level and told.share > 0.5 else "no shift found"
    angle = "" if moved.angle is None else f"; mean angle between the two: {moved.angle.value:.2f} degrees"
    return (
        f"features: {verdict}. A linear classifier tells {asked} in {shown}; chance is 50 %, shuffled control "
        f"{100 * control_of_rule.share:.1f} % [{100 * control_of_rule.low:.1f}, {100 * control_of_rule.high:.1f}]{angle}."
    )
