"""`Correlations`: how scores agree with people, or with another target; the result of `correlate`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hardsight.errors import InputError
from hardsight.human.calibration import FEWEST_LABELED, Calibration, calibration
from hardsight.human.comparisons import Agreement, Row, as_table, within_groups
from hardsight.human.disagreement import Disagreement, disagreement
from hardsight.human.hypotheses import hypotheses
from hardsight.human.models import has_logits
from hardsight.human.settings import CorrelateSettings
from hardsight.render.showing import as_arrow
from hardsight.result import Result
from hardsight.screen import Sentence, ShownTable
from hardsight.snapshot import Snapshot
from hardsight.stats.coefficients import holm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SHOWN = 12  # scores in the repr
TRUST = (
    "Which test to trust: the paired bootstrap (for Kendall the jackknife). Both coefficients come from the same samples and the "
    "same answers, so the paper's test for independent groups is the wrong model; Williams, Steiger and Meng know that, "
    "but assume normal data, which tied and bounded numbers are not."
)


class Correlations(Result):
    """How scores agree with people, or with any other target, for one or several models.

    `table` is Table 1 of the AVH paper: each score with each target, over all samples and in bins, by three coefficients.
    `tables()` has the others by name: pairs of scores, verdicts on the hypotheses, the models side by side, noise ceilings,
    and what the options asked for. `agreement` is above 0 if what is hard for people is hard by the score; `raw` is the
    coefficient with the original signs of the columns.

    Example:
        >>> from hardsight import correlate
        >>> table = pa.table({"id": [0, 1, 2, 3, 4], "label": [0] * 5, "avh": [0.1, 0.2, 0.3, 0.4, 0.6]})
        >>> correlations = correlate(table, [1.0, 0.9, 0.9, 0.5, 0.6], replicates=50)
        >>> round(correlations.agreement().single("avh")["agreement"], 3)
        0.872
    """

    shown = ("model", "target", "score", "n", "agreement", "low", "high")
    title, folded = "Do scores agree with people?", True

    def __init__(
        self,
        agreements: Sequence[Agreement],
        settings: CorrelateSettings,
        models: Sequence[Snapshot],
        epochs: Sequence[Row] = (),
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(as_table([row for agreement in agreements for row in agreement.singles], "table1"), notes)
        self.agreements, self.settings = tuple(agreements), settings
        self.models, self.epochs = tuple(models), tuple(epochs)

    # ---- one model ----

    @property
    def main(self) -> tuple[Agreement, ...]:
        """One agreement per model, with the first target. Levels of several degradations are separate targets."""
        return tuple(agreement for agreement in self.agreements if agreement.target.key != "entropy")

    @property
    def several(self) -> bool:
        """Whether there are several models."""
        return len({agreement.model for agreement in self.main}) > 1

    @property
    def with_people(self) -> bool:
        """Whether the target is human answers, and not a column."""
        return self.agreement().target.measure is not None

    def agreement(self, model: str | None = None) -> Agreement:
        """The agreement of one model, by default the first."""
        named = [agreement for agreement in self.main if model is None or agreement.model == model]
        if not named:
            known = ", ".join(agreement.model for agreement in self.main)
            raise InputError(f"there is no model {model!r}; choose from {known}.")
        return named[0]

    def model(self, name: str) -> Snapshot:
        """The model behind an agreement, with its scores among its columns."""
        return next(model for model in self.models if model.name == name)

    def disagreement(self, score: str = "avh", model: str | None = None, top: int = 12) -> Disagreement:
        """Samples easy for people and hard for the model, and the reverse: counts, and the clearest cases."""
        agreement = self.agreement(model)
        return disagreement(agreement, self.model(agreement.model), score, top)

    def calibration(self, model: str | None = None) -> Calibration:
        """Reliability, a temperature fitted on a half, and its effect on each correlation. Needs a run or snapshot."""
        agreement = self.agreement(model)
        return calibration(self.model(agreement.model), agreement, self.settings.seed)

    def within(self, column: str, model: str | None = None) -> pa.Table:
        """Spearman of each score within each group of samples that share a value of a column."""
        agreement = self.agreement(model)
        return as_table(within_groups(agreement, self.model(agreement.model), column), "groups")

    def plot(self, score: str | None = None, model: str | None = None) -> Figure:
        """2-D histograms against the target (Figures 5 and 16 to 18): one score, or all scores of a model side by side.

        The number above each is its `agreement`, as in the table.
        """
        from hardsight.human.figures import histograms

        return histograms(self.agreement(model), None if score is None else [score])

    # ---- all models ----

    @functools.cached_property
    def closer(self) -> list[str]:
        """The models for which there are further analyses; an ensemble of several has no scores of its own."""
        scored = [agreement.model for agreement in self.main if {"avh", "confidence"} & set(agreement.scores)]
        return list(dict.fromkeys(name for name in scored if name != "ensemble" or len(self.models) == 1))

    @functools.cached_property
    def calibrations(self) -> list[Calibration]:
        """With human data: the calibration of each model whose logits and labels are known."""
        models = [self.model(name) for name in self.closer if self.with_people]
        known = [model.name for model in models if has_logits(model) and (model.labels >= 0).sum() >= FEWEST_LABELED]
        return [self.calibration(name) for name in known]

    @functools.cached_property
    def disagreements(self) -> list[Disagreement]:
        """With human data: where each model disagrees with people, by AVH or else by confidence."""
        names = self.closer if self.with_people and self.settings.top else []
        score_of = {name: "avh" if "avh" in self.agreement(name).scores else "confidence" for name in names}
        return [self.disagreement(score, name, self.settings.top) for name, score in score_of.items()]

    @functools.cached_property
    def group_rows(self) -> list[Row]:
        """Coefficients within groups, if a column of them was named."""
        by = self.settings.by
        return [] if by is None else [row for name in self.closer for row in self.within(by, name).to_pylist()]

    # ---- rendered ----

    @property
    def summary(self) -> dict[str, Any]:
        """How much was compared."""
        counts = {"models": len(self.main), "samples": self.agreement().n, "coefficients": len(self)}
        return {**counts, "pairs": sum(len(agreement.pairs) for agreement in self.agreements)}

    def tables(self) -> dict[str, pa.Table]:
        """Every table by name, with full numbers.

        `table1`, `pairs` (Tables 2 and 6 to 9), `hypotheses`, `models`, `ceilings` and `checkpoints` always; `disagreement`,
        `calibration` and `groups` where there are such.
        """
        tables = self._coefficients()
        further = {
            "disagreement": [row for each in self.disagreements for row in each.rows()],
            "calibration": [row for each in self.calibrations for row in each.effects],
            "groups": self.group_rows,
        }
        return tables | {name: as_arrow(rows).select(list(rows[0])) for name, rows in further.items() if rows}

    def _coefficients(self) -> dict[str, pa.Table]:
        rows = {
            "pairs": self.pair_rows,
            "hypotheses": self.verdict_rows,
            "models": self.model_rows,
            "ceilings": self._ceilings(),
            "checkpoints": self.epochs,
        }
        return {"table1": self.table, **{name: as_table(rows[name], name) for name in rows}}

    @functools.cached_property
    def pair_rows(self) -> list[Row]:
        """Each pair of scores, with the paper's test, the correct ones, Holm's correction over all pairs, and a verdict."""
        rows = [row for agreement in self.agreements for row in agreement.pairs]
        corrected = holm([row["trusted_p"] for row in rows])
        return [row | {"holm_p": float(p), "verdict": _verdict(row, float(p))} for row, p in zip(rows, corrected, strict=True)]

    @functools.cached_property
    def verdict_rows(self) -> list[Row]:
        """The paper's four hypotheses, each with a verdict, effect and interval."""
        return hypotheses(self.main)

    @functools.cached_property
    def model_rows(self) -> list[Row]:
        """The models side by side: accuracy, mean of each score, its correlation (Observation 4)."""
        rows = []
        for agreement in self.main:
            known = {"model": agreement.model, "target": agreement.target.key, "n": agreement.n, "accuracy": agreement.accuracy}
            for name, column in agreement.scores.items():
                rows.append({**agreement.single(name), **known, "mean": float(column.mean())})
        return rows

    def _ceilings(self) -> list[Row]:
        """How well people agree with each other, which bounds what any score can reach."""
        rows = []
        for agreement in self.agreements:
            for kind, ceiling in agreement.ceilings.items():
                known = {"reason": ceiling} if isinstance(ceiling, str) else vars(ceiling)
                rows.append({**known, "model": agreement.model, "target": agreement.target.key, "kind": kind})
        return rows

    def lines(self, verbose: bool = False) -> Iterator[Sentence | ShownTable]:
        """The most important parts: one table of all models, the verdicts, and what an option requested.

        `verbose` adds the `details` behind them.
        """
        from hardsight.human.lines import main_lines

        yield from main_lines(self)
        if verbose:
            yield from self.details()

    def details(self) -> Iterator[Sentence | ShownTable]:
        """Every coefficient, bin, pair and sample."""
        from hardsight.human.lines import detail_lines

        return detail_lines(self)

    def figures(self) -> dict[str, Figure]:
        """Every figure by file name."""
        from hardsight.human.figures import figures_of

        return figures_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything for JSON: undefined numbers are null, with a reason, instead of NaN."""
        tables = self._coefficients()
        return {
            **{name: getattr(self.settings, name) for name in ("level", "replicates", "permutations", "splits", "seed")},
            "notes": self.notes,
            "trust": TRUST,
            "targets": [
                {"model": agreement.model, "target": agreement.target.key, "words": agreement.target.words}
                | {"hard": agreement.target.hard, "n": agreement.n, "left_out": agreement.left_out}
                | {"accuracy": agreement.accuracy}
                for agreement in self.agreements
            ],
            **{name: tables[name].to_pylist() for name in ("ceilings", "table1", "pairs", "hypotheses", "models", "checkpoints")},
            "calibration": [each.to_dict() for each in self.calibrations],
            "disagreement": [asdict(each) for each in self.disagreements],
            "groups": self.group_rows,
        }

    def _first_rows(self) -> tuple[str, pa.Table]:
        """Each score over all samples."""
        rows = [agreement.single(name) for agreement in self.main for name in agreement.scores]
        return "tables(), figures() and plot() have the rest", as_table(rows[:MOST_SHOWN], "table1")


def _verdict(row: Row, holm_p: float) -> str:
    if not holm_p < 0.05:
        return "no difference shown"
    return f"{row['first'] if row['difference'] > 0 else row['second']} agrees more"
