"""`study`: the complete analysis of how runs agree with people, which the command prints and writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.epochs import moments
from hardsight.human.calibration import Calibration
from hardsight.human.correlate import Comparison, Correlations, prepare
from hardsight.human.disagreement import Disagreement, images_of
from hardsight.human.open_set_detection import open_unseen
from hardsight.human.settings import StudySettings
from hardsight.human.tables import Row
from hardsight.options import takes
from hardsight.screen import brief
from hardsight.table import read_scores

FEWEST_LABELED = 8  # minimum samples to fit a temperature on one half and evaluate it on the other


@dataclass(frozen=True)
class Study:
    """The coefficients of all models, and the additional analyses that were requested or are possible."""

    __repr__ = brief

    correlations: Correlations
    calibrations: list[Calibration] = field(default_factory=list)
    disagreements: list[Disagreement] = field(default_factory=list)
    open_set: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    coarse: Correlations | None = None  # the same for superclasses
    coarse_groups: list[Row] = field(default_factory=list)
    images: Callable[[Any], Any] | None = field(default=None, repr=False)  # id -> thumbnail


@takes(StudySettings)
def study(
    runs: Any,
    human: Any = None,
    *,
    settings: StudySettings | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Study:
    """Compute everything that `hardsight correlate` shows.

    In addition to the coefficients: with human data, where people and each model disagree, and calibration if logits are
    available; and groups, superclasses, epochs and unseen classes if the options request them.

    Args:
        runs: one or several models, as for `correlate`.
        human: human answers, as for `correlate`.
        settings: all options as one object; each is also a keyword, see below.
        progress: called with the number of replicates done and the total.
    """
    settings = StudySettings.given(settings, options)
    epochs = epoch_tables(runs) if settings.epochs else None
    fine = prepare(runs, human, settings=settings, passes=settings.passes, epochs=epochs)
    by_superclass = None
    if settings.superclasses is not None:
        by_superclass = prepare(runs, human, settings=settings, superclasses=settings.superclasses)
    images = images_of(settings.images, fine.models[0])
    _check_options(fine, settings)  # reject bad options before the slow bootstrap
    correlations = fine.computed(progress)
    coarse = None if by_superclass is None else by_superclass.computed(progress)
    scored = [a.model for a in correlations.main if "avh" in a.scores or "confidence" in a.scores]
    alone = len(correlations.opened) == 1  # otherwise an ensemble is no model by itself: it has no scores of its own
    names = list(dict.fromkeys(name for name in scored if name != "ensemble" or alone))
    disagreements = _disagreements(correlations, names, settings.top)
    return Study(
        correlations,
        calibrations=[correlations.calibration(name) for name in names if _can_be_calibrated(correlations, name)],
        disagreements=disagreements,
        open_set=_rows(lambda name: correlations.open_set(settings.unseen, name), names) if settings.unseen else [],
        groups=_rows(lambda name: correlations.within(str(settings.by), name), names) if settings.by else [],
        coarse=coarse,
        coarse_groups=_rows(lambda name: coarse.within("label", name), names) if coarse is not None else [],
        images=images if disagreements else None,
    )


def _check_options(comparison: Comparison, settings: StudySettings) -> None:
    """Reject groups and unseen classes that some model does not have. Ensembles are exempt."""
    models = [model for model in comparison.models if model.name != "ensemble" or len(comparison.models) == 1]
    for model in models:
        if settings.by:
            model.check_has(settings.by)
        if settings.unseen:
            open_unseen(model, settings.unseen)


def epoch_tables(runs: Any) -> dict[str, pa.Table]:
    """Scores of every epoch of one or several runs, in order, by epoch number; for several runs also by name."""
    sources = list(runs.values()) if isinstance(runs, Mapping) else runs if isinstance(runs, (list, tuple)) else [runs]
    directories = [Path(source) for source in sources if isinstance(source, (str, os.PathLike))]
    tables = {}
    for run in directories:
        for moment, file in moments(run) if (run / "dynamics").is_dir() else []:
            tables[f"{run.name} {moment.epoch}" if len(sources) > 1 else str(moment.epoch)] = read_scores(file)
    if not tables:
        where = directories[0] if directories else "the input"
        raise InputError(f"--each-epoch needs a run of hardsight train: {where} has no dynamics/epoch=*.parquet.")
    return tables


def _disagreements(correlations: Correlations, names: list[str], top: int) -> list[Disagreement]:
    """With human data only: where each model disagrees with people, by AVH or its first score."""
    if not _with_people(correlations) or not top:
        return []
    scores = {name: correlations.of(name).scores for name in names}
    chosen = {name: next(score for score in ("avh", "confidence", *scores[name]) if score in scores[name]) for name in names}
    return [correlations.disagreement(chosen[name], name, top) for name in names]


def _can_be_calibrated(correlations: Correlations, name: str) -> bool:
    model = correlations.model(name)
    labeled = model.has("label") and (model.labels >= 0).sum() >= FEWEST_LABELED
    return bool(_with_people(correlations) and model.has_logits and labeled)


def _with_people(correlations: Correlations) -> bool:
    return correlations.of().target.measure is not None


def _rows(ask: Callable[[str], pa.Table], names: list[str]) -> list[Row]:
    return [row for name in names for row in ask(name).to_pylist()]
