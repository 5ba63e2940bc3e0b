"""`correlate`: scores and human answers in, every coefficient and test out, as one frozen result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError, did_you_mean
from hardsight.files.human import People, match, read_people
from hardsight.files.reading import existing_file
from hardsight.human.calibration import Calibration, calibration
from hardsight.human.comparisons import Agreement, agree
from hardsight.human.disagreement import Disagreement, disagreement
from hardsight.human.granularity import coarse_model, coarse_people, read_superclasses, within_groups
from hardsight.human.hypotheses import hypotheses
from hardsight.human.models import (
    DEFAULT_SCORES,
    ScoredModel,
    checked,
    hard_end,
    load_models,
    open_models,
    score_axis,
    score_words,
    scored_models,
)
from hardsight.human.open_set_detection import open_set
from hardsight.human.predictions import ensemble, with_passes
from hardsight.human.settings import CorrelateSettings
from hardsight.human.tables import CEILING, EPOCH, GROUP, HYPOTHESIS, OPEN_SET, PAIR, SIDE, SINGLE, Row, as_table
from hardsight.human.targets import Target, column_targets, human_targets, match_people
from hardsight.options import takes
from hardsight.screen import table_lines
from hardsight.stats.coefficients import holm
from hardsight.threads import sample_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.option_types import CorrelateOptions

MOST_SHOWN = 3  # models and notes in the repr
TRUST = (
    "Which test to trust: the paired bootstrap (for Kendall the jackknife). Both coefficients come from the same samples and the "
    "same answers, so the paper's test for independent groups is the wrong model; Williams, Steiger and Meng know that, "
    "but assume normal data, which tied and bounded numbers are not."
)


@dataclass(frozen=True)
class Correlations:
    """How scores agree with people, or with any other target, for one or several models.

    `table1()` has single scores, `pairs()` pairs of scores, `hypotheses()` the verdicts, `models()` the models side by side;
    `plot()` draws figures. All tables are Arrow. `agreement` is above 0 if what is hard for people is hard by the score;
    `raw` is the coefficient with the original signs of the columns.

    Example:
        >>> table = pa.table({"id": [0, 1, 2, 3, 4], "label": [0] * 5, "avh": [0.1, 0.2, 0.3, 0.4, 0.6]})
        >>> correlations = correlate(table, [1.0, 0.9, 0.9, 0.5, 0.6], replicates=50)
        >>> round(correlations.of().single("avh")["agreement"], 3)
        0.872
    """

    agreements: tuple[Agreement, ...]
    settings: CorrelateSettings
    opened: tuple[ScoredModel, ...] = field(default=(), repr=False)
    epochs: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    trust: str = field(default=TRUST, repr=False)

    def __repr__(self) -> str:
        lines = []
        for agreement in self.main[:MOST_SHOWN]:
            singles = [agreement.single(name) for name in agreement.scores]
            lines.append(f"Correlations: {agreement.model}, {agreement.n:,} samples, with {agreement.target.words}")
            lines += table_lines(singles, ("score", "agreement", "low", "high"), most=12)
        more = [f"and {len(self.main) - MOST_SHOWN} more: models() has all"] if len(self.main) > MOST_SHOWN else []
        ways = "table1(), pairs(), hypotheses(), models() and plot() have the rest"
        return "\n".join([*lines, *more, *(f"note: {note}" for note in self.notes[:MOST_SHOWN]), ways])

    @property
    def main(self) -> tuple[Agreement, ...]:
        """One agreement per model, with the first target. Levels of several degradations are separate targets."""
        return tuple(agreement for agreement in self.agreements if agreement.target.key != "entropy")

    def table1(self) -> pa.Table:
        """Table 1: each score with each target, over all samples and in bins, by three coefficients."""
        return as_table([row for agreement in self.agreements for row in agreement.singles], SINGLE)

    def pairs(self) -> pa.Table:
        """Tables 2 and 6 to 9: each pair of scores, with the paper's test, the correct ones, and Holm's correction."""
        rows = [row for agreement in self.agreements for row in agreement.pairs]
        corrected = holm([row["trusted_p"] for row in rows])
        full = [row | {"holm_p": float(p), "verdict": _verdict(row, float(p))} for row, p in zip(rows, corrected, strict=True)]
        return as_table(full, PAIR)

    def hypotheses(self) -> pa.Table:
        """The paper's four hypotheses and the slides' Discovery 5, each with a verdict, effect and interval."""
        return as_table(hypotheses(self.main, self.epochs), HYPOTHESIS)

    def models(self) -> pa.Table:
        """The models side by side: accuracy, mean of each score, its correlation (Observation 4)."""
        rows = []
        for agreement in self.main:
            known = {"model": agreement.model, "target": agreement.target.key, "n": agreement.n, "accuracy": agreement.accuracy}
            for name, column in agreement.scores.items():
                rows.append({**agreement.single(name), **known, "mean": float(column.mean())})
        return as_table(rows, SIDE)

    def checkpoints(self) -> pa.Table:
        """One row per epoch and score, if epochs were given (Observation 3)."""
        return as_table(self.epochs, EPOCH)

    def ceilings(self) -> pa.Table:
        """How well people agree with each other, which bounds what any score can reach."""
        rows = []
        for agreement in self.agreements:
            for kind, ceiling in agreement.ceilings.items():
                known = {"reason": ceiling} if isinstance(ceiling, str) else vars(ceiling)
                rows.append({**known, "model": agreement.model, "target": agreement.target.key, "kind": kind})
        return as_table(rows, CEILING)

    def plot(self, score: str | None = None, model: str | None = None) -> Figure:
        """2-D histograms against the target (Figures 5 and 16 to 18): one score, or all scores of a model side by side.

        The number above each is its `agreement`, as in `table1`.
        """
        return self.draw(self.of(model), None if score is None else [score])

    def draw(self, agreement: Agreement, scores: Sequence[str] | None = None) -> Figure:
        """The same for one of the agreements."""
        from hardsight.render.agreement import score_histograms

        names = list(agreement.scores) if scores is None else list(scores)
        unknown = [name for name in names if name not in agreement.scores]
        if unknown:
            raise InputError(
                f"there is no score {unknown[0]!r} here; choose from {', '.join(agreement.scores)}."
                + did_you_mean(unknown[0], agreement.scores)
            )
        return score_histograms(
            [(*self._axis(agreement, name), _title(agreement.single(name))) for name in names],
            agreement.values,
            target=agreement.target.axis,
            title=f"{agreement.model}, {agreement.n} samples; agreement is positive where hard by the score is hard "
            + ("for people" if agreement.target.measure is not None else f"by {agreement.target.words}"),
        )

    def _axis(self, agreement: Agreement, name: str) -> tuple[str, np.ndarray]:
        """The description and values of a score for a figure, oriented so that high is hard if requested."""
        if self.settings.hardness and hard_end(name) == "low":
            return f"{score_words(name)}, other sign: high is hard", -agreement.scores[name]
        return score_axis(name), agreement.scores[name]

    def disagreement(self, score: str = "avh", model: str | None = None, top: int = 12) -> Disagreement:
        """Samples easy for people and hard for the model, and the reverse: counts, and the clearest cases."""
        agreement = self.of(model)
        return disagreement(agreement, self.model(agreement.model), score, top)

    def calibration(self, model: str | None = None) -> Calibration:
        """Reliability, a temperature fitted on a half, and its effect on each correlation. Needs a run or snapshot."""
        agreement = self.of(model)
        return calibration(self.model(agreement.model), agreement, self.settings.seed)

    def open_set(self, unseen: Any, model: str | None = None) -> pa.Table:
        """AUROC of label-free scores for inputs of unseen classes, from another snapshot of the same model."""
        rows = open_set(self.model(self.of(model).model), unseen, self.settings.level)
        return as_table(rows, OPEN_SET)

    def within(self, column: str, model: str | None = None) -> pa.Table:
        """Spearman of each score within each group of samples that share a value of a column."""
        agreement = self.of(model)
        return as_table(within_groups(agreement, self.model(agreement.model).groups(column, agreement.rows)), GROUP)

    def model(self, name: str) -> ScoredModel:
        """The scores table behind an agreement."""
        return next(model for model in self.opened if model.name == name)

    def of(self, model: str | None = None) -> Agreement:
        """The agreement of one model, by default the first."""
        named = [agreement for agreement in self.main if model is None or agreement.model == model]
        if not named:
            known = ", ".join(agreement.model for agreement in self.main)
            raise InputError(f"there is no model {model!r}; choose from {known}.")
        return named[0]

    def to_dict(self) -> dict[str, Any]:
        """Everything for JSON: undefined numbers are null, with a reason, instead of NaN."""
        return {
            **{name: getattr(self.settings, name) for name in ("level", "replicates", "permutations", "splits", "seed")},
            "notes": list(self.notes),
            "trust": self.trust,
            "targets": [
                {"model": agreement.model, "target": agreement.target.key, "words": agreement.target.words}
                | {"hard": agreement.target.hard, "n": agreement.n, "left_out": agreement.left_out}
                | {"accuracy": agreement.accuracy}
                for agreement in self.agreements
            ],
            "ceilings": self.ceilings().to_pylist(),
            "table1": self.table1().to_pylist(),
            "pairs": self.pairs().to_pylist(),
            "hypotheses": self.hypotheses().to_pylist(),
            "models": self.models().to_pylist(),
            "checkpoints": self.checkpoints().to_pylist(),
        }


@takes(CorrelateSettings)
def correlate(
    table: Any,
    human: Any = None,
    *,
    settings: CorrelateSettings | None = None,
    passes: Any = None,
    superclasses: Any = None,
    epochs: Mapping[Any, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[CorrelateOptions],
) -> Correlations:
    """Test whether scores agree with people, or with any numeric column.

    Args:
        table: a scores table (Arrow or pandas), a `Snapshot`, or the path of a run or of either; or a list, or a dict by name,
            for several models.
        human: (n, c) counts of answers per class, an (n,) selection frequency of the given class, a table or a file:
            .npy, .csv, .parquet or .json. Joined by id if it has ids, otherwise by position.
        settings: all options as one object; each is also a keyword, see below.
        passes: (passes, n, c) probabilities of MC dropout or ensemble members, snapshots of them or a directory of such:
            their aleatoric part, mutual information and variance become scores. Several models of the same samples form an
            ensemble automatically.
        superclasses: a mapping class -> superclass, a dict or a CSV: both sides are recomputed for the coarser classes.
        epochs: tables of several epochs by number, to correlate as well.
        progress: called with the number of replicates done and the total.
    """
    settings = CorrelateSettings.given(settings, options)
    comparison = prepare(table, human, settings=settings, passes=passes, superclasses=superclasses, epochs=epochs)
    return comparison.computed(progress)


@dataclass(frozen=True)
class Comparison:
    """All inputs of `correlate`, opened, validated and joined; nothing is computed yet."""

    settings: CorrelateSettings
    models: tuple[ScoredModel, ...]
    people: People | None
    joined: tuple[tuple[ScoredModel, Target, list[str]], ...]  # each model with each target, and the scores to compare
    epochs: Mapping[Any, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def computed(self, progress: Callable[[int, int], None] | None = None) -> Correlations:
        """Every coefficient and test. `progress` is called with the number of replicates done and the total."""
        agreements = _agreements(self.joined, self.settings, progress)
        people = self.people
        if self.epochs and people is not None and people.ids is None:  # in the model's order; an epoch's table has its own
            ids = self.models[0].ids
            people = replace(people.take(match(people, ids)[1]) if people.numbered else people, ids=ids)
        rows = _over_epochs(self.epochs, people, self.settings)
        notes = (*self.notes, *_notes(agreements))
        return Correlations(tuple(agreements), self.settings, self.models, tuple(rows), notes)


def prepare(
    table: Any,
    human: Any,
    *,
    settings: CorrelateSettings,
    passes: Any = None,
    superclasses: Any = None,
    epochs: Mapping[Any, Any] | None = None,
) -> Comparison:
    """Open and join all inputs of `correlate`."""
    if (human is None) == (settings.against is None):
        raise InputError("pass either human data (--human FILE) or a column to correlate against (--against COLUMN).")
    if isinstance(human, (str, os.PathLike)):
        existing_file(human)
    loaded = load_models(table, settings.scores)
    class_names = settings.class_names or next((model.class_names for model in loaded if model.class_names), None)
    people = None if human is None else read_people(human, class_names)
    if people is not None and settings.split is None:
        _check_people(people, loaded, settings.allow_missing)  # before scoring, which may be slow
    models = scored_models(loaded, settings.scores, settings.split)
    if people is not None:
        _check_classes(people, models[0])
    if passes is not None:
        models = [with_passes(model, passes) for model in models]
    notes: tuple[str, ...] = ()
    if passes is None and superclasses is None and settings.scores is None and len(models) > 1:
        together, why_not = ensemble(models)
        models, notes = ([*models, together], ()) if together is not None else (models, (why_not,))
    if superclasses is not None:
        if people is None:
            raise InputError("superclasses need human data.")
        mapping = read_superclasses(superclasses, class_names, models[0].num_classes)
        people = coarse_people(people, mapping)
        models = [checked(coarse_model(model, mapping), settings.scores) for model in models]
    joined = [
        (
            model,
            target.some(None if settings.all_samples else sample_rows(settings, len(model.table))),
            [name for name in _chosen(model, settings.scores) if name != settings.against],
        )
        for model in models
        for target in _targets(model, people, settings, settings.allow_missing)
    ]
    return Comparison(settings, tuple(models), people, tuple(joined), epochs or {}, notes)


def _check_people(people: People, models: Sequence[ScoredModel], allow_missing: bool) -> None:
    """Reject answers about other classes or samples; those about degraded copies are joined later."""
    _check_classes(people, models[0])  # other models may have more classes, as a note says
    for model in models:
        if model.snapshot is not None and not model.has("base_id"):
            match_people(model, people, allow_missing)


def _check_classes(people: People, model: ScoredModel) -> None:
    if model.snapshot is not None and model.snapshot.head is not None:
        people.check_classes(model.snapshot.head.num_classes)


def _agreements(
    joined: Sequence[tuple[ScoredModel, Target, list[str]]],
    settings: CorrelateSettings,
    progress: Callable[[int, int], None] | None,
) -> list[Agreement]:
    """Every model against each of its targets."""
    agreements: list[Agreement] = []

    def step(done: int, total: int) -> None:
        if progress is not None:
            progress(len(agreements) * settings.replicates + done, len(joined) * settings.replicates)

    for model, target, names in joined:
        agreements.append(agree(model, target, names, settings, pairs=target.key != "entropy", progress=step))
    return agreements


def _targets(model: ScoredModel, people: People | None, settings: CorrelateSettings, allow_missing: bool) -> Iterable[Target]:
    """The targets of a model's scores."""
    if people is not None:
        return human_targets(model, people, allow_missing)
    assert settings.against is not None
    return column_targets(model, settings.against, settings.hard)


def _chosen(model: ScoredModel, wanted: Sequence[str] | None) -> list[str]:
    names = list(dict.fromkeys(wanted)) if wanted else [name for name in DEFAULT_SCORES if model.has(name)]
    names += [name for name in model.table.column_names if name.startswith("passes_") and name not in names]
    if not names:
        raise InputError(f"{model.name} has none of the scores {', '.join(DEFAULT_SCORES)}; name others with scores.")
    return names


def _over_epochs(epochs: Mapping[Any, Any], people: People | None, settings: CorrelateSettings) -> list[Row]:
    """Spearman of each score in each epoch; a dynamics table also has samples without human answers."""
    rows: list[Row] = []
    quick = replace(settings, bins=(), replicates=20, permutations=20, splits=1)  # only Fisher's interval is used
    for epoch, table in epochs.items():
        (model,) = open_models({str(epoch): table}, None, settings.split)
        target = next(iter(_targets(model, people, settings, allow_missing=True)))
        names = [name for name in settings.scores or DEFAULT_SCORES if model.has(name)]
        agreement = agree(model, target, names, quick, pairs=False)
        for name in names:
            mean = float(agreement.scores[name].mean()) if name in agreement.scores else None
            row = {"model": str(epoch), "score": name, "n": agreement.n, "accuracy": agreement.accuracy, "mean": mean}
            single = agreement.single(name)
            rows.append(row | {column: single[column] for column in ("agreement", "low", "high", "p", "reason")})
    return rows


def _notes(agreements: Sequence[Agreement]) -> list[str]:
    """Caveats that a reader needs to interpret the numbers."""
    notes = []
    for agreement in agreements:
        model, target, values = agreement.model, agreement.target, agreement.values
        if agreement.left_out:
            counted = ", ".join(f"{count} {why}" for why, count in agreement.left_out.items())
            notes.append(f"{model}, {target.words}: {agreement.n} samples used; left out: {counted}.")
        if agreement.clustered:
            notes.append(
                f"{model}: rows are copies of the same images. The bootstrap and the jackknife draw whole images; "
                "p values and Fisher's intervals of single coefficients take the rows as independent, which they are not."
            )
        if target.key == "frequency" and agreement.n >= 20 and (half := float((values < 0.5).mean())) > 0.5:
            notes.append(
                f"{model}: in {100 * half:.0f} % of samples most people chose another class than the given one. "
                "Are rows, labels and classes in the same order on both sides?"
            )
        share = np.unique(values, return_counts=True)[1].max() / agreement.n
        if share > 0.25 and target.measure is not None:
            notes.append(f"{100 * share:.0f} % of samples share one value of {target.words}; ties weaken rank correlations.")
    return list(dict.fromkeys(notes))


def _title(single: Row) -> str:
    if single["agreement"] is None:
        return f"no coefficient: {single['reason']}"
    low, high = (single[f"bootstrap_{end}"] if single["bootstrap_low"] is not None else single[end] for end in ("low", "high"))
    return f"agreement {single['agreement']:+.3f} [{low:+.3f}, {high:+.3f}] (Spearman)"


def _verdict(row: Row, holm_p: float) -> str:
    if not holm_p < 0.05:
        return "no difference shown"
    return f"{row['first'] if row['difference'] > 0 else row['second']} agrees more"
