"""`correlate`: scores and human answers in; every coefficient and test out, as one result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from hardsight.errors import InputError
from hardsight.files.epochs import moments
from hardsight.files.human import People, match, read_people
from hardsight.files.human_studies import read_selection
from hardsight.files.reading import existing_file
from hardsight.human.comparisons import FEWEST, Agreement, Row, agree
from hardsight.human.correlations import Correlations
from hardsight.human.disagreement import images_of
from hardsight.human.models import (
    DEFAULT_SCORES,
    base_ids,
    ensemble,
    ids_of_one_type,
    of_split,
    open_models,
    with_passes,
    with_scores,
)
from hardsight.human.run_files import AgreementRun, write_run
from hardsight.human.settings import CorrelateSettings
from hardsight.human.targets import Target, match_people, selection_notes, targets_of, vote_targets
from hardsight.human.votes import Votes, read_votes
from hardsight.options import takes
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.threads import sample_rows

if TYPE_CHECKING:
    from hardsight.option_types import CorrelateOptions


@takes(CorrelateSettings)
def correlate(
    x: Any, human: Any = None, *, output: str | os.PathLike[str] | None = None, settings: CorrelateSettings | None = None,
    progress: Progress | None = None, **options: Unpack[CorrelateOptions],
) -> Correlations:  # fmt: skip
    """Test whether scores agree with people, or with any numeric column.

    With human data, the result also says where people and each model disagree and, if logits are known, how well the model is
    calibrated. Several models of the same samples form an ensemble automatically.

    Args:
        x: a model: a run, a snapshot or a table of scores, in memory or as a path; or a list of models, or a dict by name.
        human: (n, c) counts of answers per class, an (n,) selection frequency of the given class, votes of no, maybe and yes, a
            table or a file: .npy, .csv, .parquet or .json. Joined by id if it has ids, otherwise by position.
        output: run directory to write: JSON, CSV, LaTeX, figures, report.html.
        settings: all options as one object; each is also a keyword, see below.
        progress: called with the number of replicates done and the total.
    """
    settings = CorrelateSettings.given(settings, options)
    run = None if output is None else AgreementRun(output, x, human, settings)
    fine = _with_ensemble(_opened(x, human, settings))
    joined = _joined(fine)
    images = images_of(settings.images, fine.models[0])
    epochs = settings.epoch_tables or (_epoch_files(x) if settings.epochs else {})
    for model in fine.models:  # each must have the column of groups; an ensemble of several has none
        if settings.by is not None and (model.name != "ensemble" or len(fine.models) == 1):
            model.columns([settings.by])
    # The bootstrap is slow: what can be refused has been refused by now.
    agreements = _agreements(joined, settings, progress)
    found = Correlations(agreements, settings, fine.models, _over_epochs(epochs, fine), [*fine.notes, *_notes(agreements)])
    found.pictures = images
    if run is not None:
        begun = run.begin()
        with begun.only_writer():
            write_run(begun, found)
    return found


@dataclass(frozen=True)
class _Comparison:
    """The models and what people said about their samples."""

    settings: CorrelateSettings
    models: tuple[Snapshot, ...]
    people: People | None
    notes: tuple[str, ...] = ()
    votes: Votes | None = None  # where the people voted on labels


def _opened(x: Any, human: Any, settings: CorrelateSettings) -> _Comparison:
    """The models with their scores, and the human data."""
    if (human is None) == (settings.against is None):
        raise InputError("pass either human data (--human FILE) or a column to correlate against (--against COLUMN).")
    if isinstance(human, (str, os.PathLike)):
        existing_file(human)
    selection = None if settings.only is None else read_selection(settings.only)
    models = open_models(x, settings)
    class_names = settings.class_names or next((model.class_names for model in models if model.class_names), None)
    votes = None if human is None else read_votes(human, models[0], settings)
    people = votes.people if votes is not None else None if human is None else read_people(human, class_names)
    least = settings.min_answers or (None if selection is None else selection.min_answers)
    if people is not None and least is not None:
        people = people.asked(least)
    models = [of_split(model, settings.split, in_order=people is not None and people.ids is None) for model in models]
    if selection is not None:
        models = [model.take(selection.rows(model.ids)) for model in models]
        if (n := min(map(len, models))) < FEWEST:
            raise InputError(f"{selection.name} lists {n} of the samples; a coefficient needs at least {FEWEST}.")
        people = people if people is None or people.ids is None else people.take(selection.rows(people.ids))
    models = [model.numbered_as(models[0]) for model in models]
    if people is not None:
        _check_people(people, models, settings.allow_missing or votes is not None)  # before scoring, which may be slow
    models = ids_of_one_type([with_scores(model, settings) for model in models])
    if settings.passes is not None:
        models = [with_passes(model, settings.passes) for model in models]
    notes = () if votes is None else selection_notes(votes, models[0])
    return _Comparison(settings, tuple(models), people, notes, votes)


def _check_people(people: People, models: Sequence[Snapshot], allow_missing: bool) -> None:
    """Reject answers about other classes or samples; those about degraded copies are joined later."""
    if models[0].head is not None:  # other models may have more classes, as a note says
        people.check_classes(models[0].head.num_classes)
    for model in models:
        if model.source.evidence != SCORES_ALONE and base_ids(model) is None:
            match_people(model, people, allow_missing)


def _with_ensemble(fine: _Comparison) -> _Comparison:
    """Several models, and together as one more where scores are not chosen; or a note that says why not."""
    if fine.settings.passes is not None or fine.settings.scores is not None or len(fine.models) == 1:
        return fine
    together, why_not = ensemble(fine.models)
    return replace(fine, notes=(*fine.notes, why_not)) if together is None else replace(fine, models=(*fine.models, together))


def _joined(comparison: _Comparison) -> list[tuple[Snapshot, Target, list[str]]]:
    """Each model with each target, and the scores to compare."""
    settings, joined = comparison.settings, []
    for model in comparison.models:
        rows = None if settings.all_samples else sample_rows(settings, len(model))
        names = [name for name in _chosen(model, settings.scores) if name != settings.against]
        if comparison.votes is not None:
            targets = vote_targets(model, comparison.votes)
        else:
            targets = targets_of(model, comparison.people, settings, settings.allow_missing)
        joined += [(model, target.some(rows), names) for target in targets]
    return joined


def _chosen(model: Snapshot, wanted: Sequence[str] | None) -> list[str]:
    names = list(dict.fromkeys(wanted)) if wanted else [name for name in DEFAULT_SCORES if name in model.column_names]
    names += [name for name in model.column_names if name.startswith("passes_") and name not in names]
    if not names:
        raise InputError(f"{model.name} has none of the scores {', '.join(DEFAULT_SCORES)}; name others with scores.")
    return names


def _agreements(
    joined: Sequence[tuple[Snapshot, Target, list[str]]], settings: CorrelateSettings, progress: Progress | None
) -> list[Agreement]:
    """Every model against each of its targets."""
    agreements: list[Agreement] = []

    def step(done: int, total: int) -> None:
        if progress is not None:
            progress(len(agreements) * settings.replicates + done, len(joined) * settings.replicates)

    for model, target, names in joined:
        agreements.append(agree(model, target, names, settings, pairs=target.key != "entropy", progress=step))
    return agreements


# ---- epochs ----


def _epoch_files(x: Any) -> dict[str, Path]:
    """The dynamics of every epoch of one or several runs, in order, by epoch number; for several runs also by name."""
    sources = list(x.values()) if isinstance(x, Mapping) else x if isinstance(x, (list, tuple)) else [x]
    runs = [Path(source) for source in sources if isinstance(source, (str, os.PathLike))]
    files = {}
    for run in runs:
        for moment, file in moments(run) if (run / "dynamics").is_dir() else []:
            files[f"{run.name} {moment.epoch}" if len(sources) > 1 else str(moment.epoch)] = file
    if not files:
        where = runs[0] if runs else "the input"
        raise InputError(f"--each-epoch needs a run of hardsight train: {where} has no dynamics/epoch=*.parquet.")
    return files


def _over_epochs(epochs: Mapping[Any, Any], comparison: _Comparison) -> list[Row]:
    """Spearman of each score in each epoch; a dynamics table also has samples without human answers."""
    settings, people = comparison.settings, comparison.people
    if epochs and people is not None and people.ids is None:  # in the model's order; an epoch's table has its own
        ids = comparison.models[0].ids
        people = replace(people.take(match(people, ids)[1]) if people.numbered else people, ids=ids)
    quick = replace(settings, bins=(), replicates=20, permutations=20, splits=1)  # only Fisher's interval is used
    rows: list[Row] = []
    for epoch, table in epochs.items():
        model = Snapshot.open(table, by=settings.compared, allow_duplicates=True).with_columns({}, str(epoch))
        model = with_scores(model.of_split(settings.split), replace(settings, scores=None))
        target = targets_of(model, people, settings, allow_missing=True)[0]
        names = [name for name in settings.scores or DEFAULT_SCORES if name in model.column_names]
        agreement = agree(model, target, names, quick, pairs=False)
        for name in names:
            mean = float(agreement.scores[name].mean()) if name in agreement.scores else None
            row = {"model": str(epoch), "score": name, "n": agreement.n, "accuracy": agreement.accuracy, "mean": mean}
            single = agreement.single(name)
            rows.append(row | {column: single[column] for column in ("agreement", "low", "high", "p", "reason")})
    return rows


# ---- notes ----


def _notes(agreements: Sequence[Agreement]) -> list[str]:
    """Caveats that a reader needs to interpret the numbers."""
    return list(dict.fromkeys(note for agreement in agreements for note in _notes_on(agreement)))


def _notes_on(agreement: Agreement) -> list[str]:
    notes = []
    model, target, values = agreement.model, agreement.target, agreement.values
    if agreement.left_out:
        counted = ", ".join(f"{count} {why}" for why, count in agreement.left_out.items())
        notes.append(f"{model}, {target.words}: {agreement.n} samples used; left out: {counted}.")
    if agreement.clusters is not None:
        notes.append(
            f"{model}: rows are copies of the same images. The bootstrap and the jackknife draw whole images; "
            "p values and Fisher's intervals of single coefficients take the rows as independent, which they are not."
        )
    if target.words == "selection frequency" and agreement.n >= 20 and (half := float((values < 0.5).mean())) > 0.5:
        notes.append(
            f"{model}: in {100 * half:.0f} % of samples most people chose another class than the given one. "
            "Are rows, labels and classes in the same order on both sides?"
        )
    notes += _better_score(agreement)
    share = np.unique(values, return_counts=True)[1].max() / agreement.n
    if share == 1:
        notes.append(f"{target.words} is the same for all {agreement.n} samples: no score can agree with it.")
    elif share > 0.25 and target.measure is not None:
        notes.append(f"{100 * share:.0f} % of samples share one value of {target.words}; ties weaken rank correlations.")
    return notes


def _better_score(agreement: Agreement) -> list[str]:
    """Advice, where a score that looks at the nearest other class agrees better with people than AVH."""
    gain = agreement.difference("angular_gap", "avh")
    if gain is None or gain["low"] <= 0 or agreement.target.measure is None:
        return []
    return [
        f"{agreement.model}: angular_gap agrees with people better than avh, by {gain['effect']:.3f} "
        f"[{gain['low']:.3f}, {gain['high']:.3f}]. With many classes the sum over all of them hides the nearest competitor: "
        "avh_nearest and angular_gap look at it. With answers about 100 samples or more, hardsight people predicts the others."
    ]
