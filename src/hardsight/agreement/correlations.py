"""`correlate`: scores and people in, every coefficient and test out, as one frozen result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.agreement.calibrated import Calibration, calibration
from hardsight.agreement.comparing import Agreement, Options, Row, agree
from hardsight.agreement.disagreement import Disagreement, disagreement
from hardsight.agreement.granularity import coarse_model, coarse_people, read_superclasses, within_groups
from hardsight.agreement.hypotheses import hypotheses
from hardsight.agreement.models import DEFAULT_SCORES, Model, checked, open_models
from hardsight.agreement.predictions import ensemble, with_passes
from hardsight.agreement.targets import Target, column_targets, human_targets
from hardsight.agreement.unseen import open_set
from hardsight.errors import InputError
from hardsight.files.human import read_people
from hardsight.stats.answers import Ceiling
from hardsight.stats.coefficients import holm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUST = (
    "Which test to trust: the paired bootstrap (for Kendall the jackknife). Both coefficients come from the same samples and the "
    "same answers, so the paper's test for independent groups is the wrong model; Williams, Steiger and Meng know that, "
    "but assume normal data, which tied and bounded numbers are not."
)


@dataclass(frozen=True)
class Correlations:
    """How scores agree with people, or with any other target, for one or several models.

    `table1()` has every score alone, `pairs()` every two of them, `hypotheses()` the verdicts, `models()` the models
    side by side; `plot()` draws. All tables are Arrow. `agreement` is above 0 where what is hard for people is hard by
    the score; `raw` is the coefficient with the sign of the columns as they are.
    """

    agreements: tuple[Agreement, ...]
    options: Options
    opened: tuple[Model, ...] = field(default=(), repr=False)
    epochs: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    trust: str = field(default=TRUST, repr=False)

    @property
    def main(self) -> tuple[Agreement, ...]:
        """One agreement per model: with the first target. Levels of several degradations are targets in their own right."""
        extra = {"entropy"}
        return tuple(one for one in self.agreements if one.target.key not in extra)

    def table1(self) -> pa.Table:
        """Table 1: each score with each target, over all samples and in bins, by three coefficients."""
        return as_table([row for one in self.agreements for row in one.singles], SINGLE)

    def pairs(self) -> pa.Table:
        """Tables 2 and 6 to 9: each two scores, with the paper's test, the right ones, and Holm's correction over all rows."""
        rows = [row for one in self.agreements for row in one.pairs]
        corrected = holm([row["trusted_p"] for row in rows])
        full = [row | {"holm_p": float(p), "verdict": _verdict(row, float(p))} for row, p in zip(rows, corrected, strict=True)]
        return as_table(full, PAIR)

    def hypotheses(self) -> pa.Table:
        """The paper's four hypotheses and the slides' Discovery 5, each with verdict, effect and interval."""
        return as_table(hypotheses(self.main, self.epochs), HYPOTHESIS)

    def models(self) -> pa.Table:
        """The models side by side: accuracy, mean of each score, its correlation (Observation 4)."""
        rows = []
        for one in self.main:
            for name, column in one.scores.items():
                single = one.single(name)
                rows.append(
                    {"model": one.model, "target": one.target.key, "n": one.n, "accuracy": one.accuracy, "score": name}
                    | {"mean": float(column.mean())}
                    | {key: single[key] for key in ("agreement", "bootstrap_low", "bootstrap_high", "share_of_ceiling", "reason")}
                )
        return as_table(rows, SIDE)

    def checkpoints(self) -> pa.Table:
        """One row per epoch and score, where epochs were given (Observation 3)."""
        return as_table(list(self.epochs), EPOCH)

    def ceilings(self) -> pa.Table:
        """How well people agree among themselves, and so the best that any score could reach."""
        rows = []
        for one in self.agreements:
            for kind, ceiling in one.ceilings.items():
                row: Row = {"model": one.model, "target": one.target.key, "kind": kind}
                if isinstance(ceiling, Ceiling):
                    row |= {"n": ceiling.n, "split_half": ceiling.split_half, "reliability": ceiling.reliability}
                    row |= {"ceiling": ceiling.ceiling, "splits": ceiling.splits, "reason": None}
                else:
                    row |= {
                        "n": None,
                        "split_half": None,
                        "reliability": None,
                        "ceiling": None,
                        "splits": None,
                        "reason": ceiling,
                    }
                rows.append(row)
        return as_table(rows, CEILING)

    def plot(self, score: str | None = None, model: str | None = None) -> Figure:
        """2-D histograms against the target (Figures 5 and 16 to 18): one score, or all of a model side by side."""
        return self.draw(self.of(model), None if score is None else [score])

    def draw(self, one: Agreement, scores: Sequence[str] | None = None) -> Figure:
        """The same for one of the agreements."""
        from hardsight.plots.agreement import histograms

        names = list(one.scores) if scores is None else list(scores)
        unknown = [name for name in names if name not in one.scores]
        if unknown:
            raise InputError(f"there is no score {unknown[0]!r} here; choose from {', '.join(one.scores)}.")
        return histograms(
            [(name, one.scores[name], _title(one.single(name))) for name in names],
            one.values,
            target=one.target.words,
            title=f"{one.model}, n = {one.n}",
        )

    def disagreement(self, score: str = "avh", model: str | None = None, top: int = 12) -> Disagreement:
        """Easy for people and hard for the model, and the reverse: how many, and the clearest cases."""
        one = self.of(model)
        return disagreement(one, self._model(one.model), score, top)

    def calibration(self, model: str | None = None) -> Calibration:
        """Reliability, a temperature fitted on a half, and what it does to each correlation. Needs a run or snapshot."""
        one = self.of(model)
        return calibration(self._model(one.model), one, self.options.seed)

    def open_set(self, unseen: Any, model: str | None = None) -> pa.Table:
        """AUROC of the scores without a label for inputs of unseen classes, another snapshot of the same model."""
        rows = open_set(self._model(self.of(model).model), unseen, self.options.level)
        return as_table(rows, OPEN_SET)

    def within(self, column: str, model: str | None = None) -> pa.Table:
        """Spearman of each score inside each group of samples that share a value of a column."""
        one = self.of(model)
        opened = self._model(one.model)
        if not opened.has(column):
            raise InputError(f"{opened.name} has no column {column!r}; it has {', '.join(opened.table.column_names)}.")
        groups = np.array([str(value) for value in opened.table.column(column).take(one.rows).to_pylist()], dtype=object)
        if opened.class_names is not None and column == "label":
            groups = np.array([opened.class_names[int(group)] for group in groups], dtype=object)
        return as_table(within_groups(one, groups, "group"), GROUP)

    def _model(self, name: str) -> Model:
        return next(model for model in self.opened if model.name == name)

    def of(self, model: str | None = None) -> Agreement:
        """The agreement of one model, by default the first."""
        named = [one for one in self.main if model is None or one.model == model]
        if not named:
            raise InputError(f"there is no model {model!r}; choose from {', '.join(one.model for one in self.main)}.")
        return named[0]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON: no NaN, null where a number does not exist, with its reason."""
        return {
            "level": self.options.level,
            "replicates": self.options.replicates,
            "permutations": self.options.permutations,
            "splits": self.options.splits,
            "seed": self.options.seed,
            "notes": list(self.notes),
            "trust": self.trust,
            "targets": [
                {"model": one.model, "target": one.target.key, "words": one.target.words, "hard": one.target.hard}
                | {"n": one.n, "left_out": one.left_out, "accuracy": one.accuracy}
                for one in self.agreements
            ],
            "ceilings": self.ceilings().to_pylist(),
            "table1": self.table1().to_pylist(),
            "pairs": self.pairs().to_pylist(),
            "hypotheses": self.hypotheses().to_pylist(),
            "models": self.models().to_pylist(),
            "checkpoints": self.checkpoints().to_pylist(),
        }


def correlate(
    table: Any,
    human: Any = None,
    *,
    against: str | None = None,
    hard: str | None = None,
    scores: str | Sequence[str] | None = None,
    bins: Sequence[float] | None = None,
    level: float = 0.95,
    replicates: int = 1000,
    permutations: int = 1000,
    splits: int = 100,
    seed: int = 0,
    split: str | None = None,
    limit: int | None = None,
    allow_missing: bool = False,
    class_names: Sequence[str] | None = None,
    passes: Any = None,
    superclasses: Any = None,
    epochs: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Correlations:
    """Test whether scores agree with people, or with any numeric column.

    Args:
        table: a scores table (Arrow or pandas), a `Snapshot`, the path of a run or of either; a list or a dict of several
            models' by name.
        human: (n, c) counts of answers per class, an (n,) selection frequency of the given class, a table or a file:
            .npy, .csv, .parquet or .json. Joined by id where it has ids, else by order.
        against: instead of human data, a numeric column of the table, such as `level` of a degradation.
        hard: for `against`, the end at which samples are hard: "high" (when not given) or "low".
        scores: names, with commas or as a list. By default avh, angular_gap, confidence, loss, entropy and the norm.
        bins: edges in which coefficients are computed as well; for a frequency 0, 0.2, 0.4, 0.6, 0.8, 1.
        level: of all intervals.
        replicates, permutations: of the paired bootstrap and the permutation test.
        splits: of the people into halves, for the noise ceiling.
        seed: same seed, same numbers.
        split: only the samples of one split, such as "test" of a run of `hardsight train`.
        limit: only the first samples of each model.
        allow_missing: use the samples that both sides have, where one has more.
        class_names: for human data with names of classes.
        passes: (passes, n, c) probabilities of MC-dropout or ensemble members, or snapshots of them: their variance and
            mutual information become scores. Several models of the same samples make an ensemble by themselves.
        superclasses: a mapping class -> superclass, a dict or a CSV: both sides are recomputed for the coarser classes.
        epochs: tables of several epochs by number, to be correlated as well.
        progress: called with what is done and what there is in all.

    Example:
        >>> table = pa.table({"id": [0, 1, 2, 3, 4], "label": [0] * 5, "avh": [0.1, 0.2, 0.3, 0.4, 0.6]})
        >>> found = correlate(table, [1.0, 0.9, 0.9, 0.5, 0.6], replicates=50)
        >>> round(found.of().single("avh")["agreement"], 3)
        0.872
    """
    options = Options(None if bins is None else tuple(bins), level, replicates, permutations, splits, seed)
    if (human is None) == (against is None):
        raise InputError("give human data, or a column to correlate against: one of the two.")
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1, got {limit}.")
    if hard not in (None, "low", "high"):
        raise InputError(f"hard must be low or high, got {hard!r}.")
    wanted = [one.strip() for one in scores.split(",")] if isinstance(scores, str) else scores
    models = open_models(table, wanted, split)
    names = class_names or next((model.class_names for model in models if model.class_names), None)
    people = None if human is None else read_people(human, names)
    together = ensemble(models) if passes is None and superclasses is None and scores is None else None
    if together is not None:
        models.append(together)
    if passes is not None:
        models = [with_passes(model, passes) for model in models]
    if superclasses is not None:
        if people is None:
            raise InputError("superclasses go with human data.")
        mapping = read_superclasses(superclasses, names, _num_classes(models[0]))
        people = coarse_people(people, mapping)
        models = [checked(coarse_model(model, mapping), wanted) for model in models]
    targets: list[tuple[Model, list[Target]]] = []
    for model in models:
        every = human_targets(model, people, allow_missing) if people is not None else column_targets(model, against or "", hard)
        targets.append((model, [target.first(limit) for target in every]))
    chosen = {model.name: _chosen(model, wanted) for model in models}
    total = sum(len(found) for _, found in targets) * replicates
    done = 0

    def step(at: int, of: int) -> None:
        if progress is not None:
            progress(done + at, total)

    agreements = []
    for model, found in targets:
        for target in found:
            agreements.append(agree(model, target, chosen[model.name], options, pairs=target.key != "entropy", progress=step))
            done += replicates
    if epochs and people is not None and people.ids is None:  # in the order of the model; a table of an epoch has its own
        people = replace(people, ids=models[0].ids)
    rows = _over_epochs(epochs, people, against, hard, wanted, options, split) if epochs else []
    return Correlations(tuple(agreements), options, tuple(models), tuple(rows), tuple(_notes(agreements)))


def _num_classes(model: Model) -> int:
    known = None if model.snapshot is None else model.snapshot.num_classes
    return known if known is not None else int(model.labels.max(initial=-1)) + 1


def _chosen(model: Model, wanted: Sequence[str] | None) -> list[str]:
    names = list(dict.fromkeys(wanted)) if wanted else [name for name in DEFAULT_SCORES if model.has(name)]
    names += [name for name in model.table.column_names if name.startswith("passes_") and name not in names]
    if not names:
        raise InputError(f"{model.name} has none of the scores {', '.join(DEFAULT_SCORES)}; name others with scores.")
    return names


def _over_epochs(
    epochs: Any,
    people: Any,
    against: str | None,
    hard: str | None,
    wanted: Sequence[str] | None,
    options: Options,
    split: str | None,
) -> list[Row]:
    """Spearman of each score in each epoch; a table of dynamics also has samples that people have not seen."""
    found: list[Row] = []
    for key, table in epochs.items():
        (model,) = open_models({str(key): table}, None, split)
        targets = human_targets(model, people, True) if people is not None else list(column_targets(model, against or "", hard))
        names = [name for name in wanted or DEFAULT_SCORES if model.has(name)]
        few = Options((), options.level, 20, 20, 1, options.seed)
        one = agree(model, targets[0], names, few, pairs=False)
        for name in names:
            single = one.single(name)
            found.append(
                {"model": str(key), "score": name, "n": one.n, "accuracy": one.accuracy}
                | {"mean": float(one.scores[name].mean()) if name in one.scores else None}
                | {column: single[column] for column in ("agreement", "low", "high", "p", "reason")}
            )
    return found


def _notes(agreements: Sequence[Agreement]) -> list[str]:
    """What a reader must know before believing the numbers."""
    notes = []
    for one in agreements:
        if one.left_out:
            said = ", ".join(f"{count} {why}" for why, count in one.left_out.items())
            notes.append(f"{one.model}, {one.target.words}: {one.n} samples used; left out: {said}.")
        if one.clustered:
            notes.append(
                f"{one.model}: rows are copies of the same images. The bootstrap and the jackknife draw whole images; "
                "p values and Fisher's intervals of single coefficients take the rows as independent, which they are not."
            )
        if one.target.key == "frequency" and one.n >= 20 and (half := float((one.values < 0.5).mean())) > 0.5:
            notes.append(
                f"{one.model}: in {100 * half:.0f} % of samples most people chose another class than the given one. "
                "Are rows, labels and classes in the same order on both sides?"
            )
        share = np.unique(one.values, return_counts=True)[1].max() / one.n
        if share > 0.25 and one.target.measure is not None:
            notes.append(f"{100 * share:.0f} % of samples share one value of {one.target.words}; ties weaken rank correlations.")
    return list(dict.fromkeys(notes))


def _title(single: Row) -> str:
    if single["agreement"] is None:
        return f"no coefficient: {single['reason']}"
    low, high = (single[f"bootstrap_{end}"] if single["bootstrap_low"] is not None else single[end] for end in ("low", "high"))
    raw = single["raw"]
    ends = (low, high) if raw == single["agreement"] else (-high, -low)
    return f"Spearman {raw:+.3f} [{ends[0]:+.3f}, {ends[1]:+.3f}]"


def _verdict(row: Row, holm_p: float) -> str:
    if not holm_p < 0.05:
        return "no difference shown"
    return f"{row['first'] if row['difference'] > 0 else row['second']} agrees more"


def _schema(words: str, numbers: str, whole: str = "n") -> list[tuple[str, pa.DataType]]:
    kinds = {**dict.fromkeys(words.split(), pa.string()), **dict.fromkeys(whole.split(), pa.int64())}
    return [(name, kinds.get(name, pa.float64())) for name in numbers.split()]


SINGLE = _schema(
    "model target score hard kind bin reason",
    "model target score hard kind bin n agreement raw low high bootstrap_low bootstrap_high fisher_z p share_of_ceiling reason",
)
PAIR = _schema(
    "model target kind first second trusted verdict reason",
    "model target kind first second n r_first r_second r_between z_first z_second difference "
    "independent_z independent_p_greater independent_p williams_t williams_p_greater williams_p steiger_z steiger_p_greater "
    "steiger_p meng_z meng_p_greater meng_p zou_low zou_high permutation_p trusted trusted_low trusted_high trusted_p_greater "
    "trusted_p holm_p verdict reason",
)
HYPOTHESIS = _schema(
    "model target hypothesis statement verdict note",
    "model target hypothesis statement verdict effect low high p share_of_ceiling note",
)
SIDE = _schema(
    "model target score reason",
    "model target n accuracy score mean agreement bootstrap_low bootstrap_high share_of_ceiling reason",
)
OPEN_SET = _schema("model score", "model score auroc low high known unseen", "known unseen")
GROUP = _schema("model group score reason", "model group score n mean agreement reason")
EPOCH = _schema("model score reason", "model score n accuracy mean agreement low high p reason")
CEILING = _schema("model target kind reason", "model target kind n split_half reliability ceiling splits reason", "n splits")


def as_table(rows: Sequence[Row], columns: list[tuple[str, pa.DataType]]) -> pa.Table:
    """Rows as Arrow, with all columns there even if no row is."""
    return pa.table({name: pa.array([row.get(name) for row in rows], type=kind) for name, kind in columns})
