"""`people`: what people would say of every sample, learned from their answers about some.

id                    of the input
predicted_frequency   how often people would choose the given class; low is hard
low, high             the interval in which the frequency among as many people would lie
source                answered: predicted by two thirds of the answers, without its own; predicted: nobody was asked
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.human import People, match, read_people
from hardsight.human.answer_model import THIRDS, AnswerModel, Known, Ridge, known_of, stabilized
from hardsight.human.settings import PeopleSettings
from hardsight.human.votes import read_votes
from hardsight.options import takes
from hardsight.result import Result, table_target
from hardsight.scoring.comparable import check_reference
from hardsight.screen import Cell, Sentence, ShownTable, line, number, percent
from hardsight.snapshot import Snapshot
from hardsight.stats.coefficients import COEFFICIENTS, Kind, interval

if TYPE_CHECKING:
    from hardsight.option_types import PeopleOptions

FEWEST = 30  # answered samples for any prediction
ENOUGH = 100  # answered samples to learn from; with fewer, a score that needs none ranks better
ASSUMED = 10  # answers a sample, where a frequency comes without their number
DRAWS, CURVE = 3, 500  # of the learning curve: draws of each size, and landmarks, fewer than of the model itself
ALIKE = 1e-9  # frequencies no further apart are one
MEMORIZED = 0.02  # how much better a model is on the answered samples if it was trained on them


@dataclass(frozen=True)
class Answered:
    """What people said of some samples."""

    rows: np.ndarray  # (n,) of the samples
    frequency: np.ndarray  # (n,)
    answers: np.ndarray | None  # (n,) how many people were asked, if known

    def model(self, known: Known, seed: int) -> AnswerModel:
        """What the answers teach."""
        enough = len(self.rows) >= ENOUGH
        answers = np.full(len(self.rows), ASSUMED) if self.answers is None else self.answers
        target = stabilized(self.frequency * answers, answers)
        return AnswerModel(known, self.rows, target, float(np.median(answers)), learned=enough, seed=seed)

    @property
    def noise(self) -> float | None:
        """Mean binomial variance of the frequencies: what no prediction can explain."""
        if self.answers is None or (several := self.answers > 1).sum() < FEWEST:
            return None
        frequency = self.frequency[several]
        return float(np.mean(frequency * (1 - frequency) / (self.answers[several] - 1)))


class PredictedAnswers(Result):
    """What people would say, with how much of it is known, and what to ask next."""

    by = "predicted_frequency"

    def __init__(self, model: AnswerModel, answered: Answered, ids: pa.Array, settings: PeopleSettings) -> None:
        self.model, self.answered, self.ids, self.settings = model, answered, ids, settings
        known = model.known.complete
        low, high = model.interval(model.stable, settings.level)
        source = np.full(len(known), "predicted")
        source[answered.rows] = "answered"
        columns = {"predicted_frequency": model.expected(model.stable), "low": low, "high": high}
        nulls = {name: pa.array(column, mask=~known) for name, column in columns.items()}
        super().__init__(pa.table({"id": ids, **nulls, "source": source}))

    @functools.cached_property
    def agreement(self) -> dict[str, float]:
        """Spearman and Pearson of answered samples, mean over splits; Spearman of the hardness alone; NaN if all are alike."""
        frequency, hardness = self.answered.frequency, self.model.known.hardness[self.answered.rows]
        spearman = float(np.mean([_coefficient("spearman", predicted, frequency) for predicted in self.model.held_out]))
        low, high = interval("spearman", spearman, len(frequency), self.settings.level)
        expected = [self.model.expected(predicted) for predicted in self.model.held_out]
        pearson = float(np.mean([_coefficient("pearson", predicted, frequency) for predicted in expected]))
        alone = _coefficient("spearman", -hardness, frequency)
        return {"spearman": spearman, "low": low, "high": high, "pearson": pearson, "hardness": alone}

    @functools.cached_property
    def shares(self) -> dict[str, float]:
        """Of the variance of people's frequencies: what is predicted, what is noise of few answers, what is left to learn."""
        frequency, noise = self.answered.frequency, self.answered.noise
        variance, predicted = float(frequency.var()), self.model.expected(self.model.target - self.model.errors)
        left = float(np.mean((frequency - predicted) ** 2)) / variance
        shares = {"predicted": 1 - left}
        return shares if noise is None else shares | {"noise": noise / variance, "left": max(0.0, left - noise / variance)}

    @functools.cached_property
    def curve(self) -> list[tuple[int, float]]:
        """Spearman on the other answered samples, by the number of those that it learns from."""
        n, curve = len(self.answered.rows), []
        for size in (size for size in (n // 8, n // 4, n // 2) if size >= ENOUGH):
            draws = [self._of_some(np.random.default_rng(self.settings.seed + k).permutation(n), size) for k in range(DRAWS)]
            curve.append((size, float(np.mean(draws))))
        return [*curve, (n - n // THIRDS, self.agreement["spearman"])]

    def _of_some(self, order: np.ndarray, size: int) -> float:
        few, rest = order[:size], order[size:]
        phi = self.model.phi[:, :CURVE]  # the first coordinates are those of the first landmarks
        ridge = Ridge.fit(phi[few], self.model.target[few])
        return _coefficient("spearman", phi[rest] @ ridge.slope, self.answered.frequency[rest])

    @functools.cached_property
    def ask_next(self) -> list[Any]:
        """Ids of some samples without answers, drawn at random: on CIFAR-10H no choice that we tried taught more than chance."""
        without = np.setdiff1d(np.flatnonzero(self.model.known.complete), self.answered.rows)
        rows = np.random.default_rng(self.settings.seed).permutation(without)[: self.settings.ask]
        return self.ids.take(pa.array(rows)).to_pylist()

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """How well it predicts, what limits it, how it grows with answers, and what to ask next."""
        n, found = len(self.answered.rows), self.agreement
        yield line(f"answered {n}   predicted {len(self) - n}", answered=n, predicted=len(self) - n)
        if np.isfinite(found["spearman"]):
            yield from self._learned()
        if self.ask_next:
            names = ", ".join(map(str, self.ask_next))
            yield line(f"to ask next, drawn at random, since no choice is known to teach more: {names}", ask_next=self.ask_next)

    def _learned(self) -> Iterator[Sentence | ShownTable]:
        n, found, shares = len(self.answered.rows), self.agreement, self.shares
        learned = f"each third predicted by the other two; without answers {found['hardness']:.3f}"
        yield line(
            f"Spearman {found['spearman']:.3f} [{found['low']:.3f}, {found['high']:.3f}], Pearson {found['pearson']:.3f} "
            f"with people, {learned if n >= ENOUGH else 'by a score that needs no answers'}",
            agreement=found,
        )
        words = [f"{percent(shares['predicted'], digits=0)} % of the differences between samples is predicted"]
        if "noise" in shares:
            words += [
                f"{percent(shares['noise'], digits=0)} % is noise of few answers",
                f"{percent(shares['left'], digits=0)} % is left",
            ]
        yield line(", ".join(words), shares=shares)
        if len(self.curve) > 1:
            rows = [(number(size), number(value if np.isfinite(value) else None, ".3f")) for size, value in self.curve]
            yield ShownTable("learning_curve", ("answered", Cell("Spearman", "spearman")), rows, words=0)


def _coefficient(kind: Kind, predicted: np.ndarray, frequency: np.ndarray) -> float:
    """NaN where either has one value only, up to rounding."""
    alike = min(np.ptp(predicted), np.ptp(frequency)) < ALIKE
    return float("nan") if alike else COEFFICIENTS[kind](predicted, frequency)


@takes(PeopleSettings)
def people(
    x: Any, answers: Any, reference: Any = None, *, output: str | os.PathLike[str] | None = None,
    settings: PeopleSettings | None = None, **options: Unpack[PeopleOptions],
) -> PredictedAnswers:  # fmt: skip
    """Predict what people would say of every sample from their answers about some.

    A kernel regression on features, scores and classes, from 100 answered samples up. With fewer, a score that needs no answers
    ranks better: it is scaled to the answers.

    Args:
        x: a run or snapshot with features, a head and labels, or whatever a Snapshot opens; or a list of such, several models of
            the same samples.
        answers: what people said of some samples, as for `correlate`: counts, frequencies, answers or votes, by id.
        reference: what the model was trained on, as a run or snapshot, for better scores; a list for several models.
        output: .parquet, .csv or .json to write the table to.
        settings: all options as one object; each is also a keyword of its own, see below.

    Returns:
        A `Result` with the columns id, predicted_frequency, low, high and source.
    """
    settings = PeopleSettings.given(settings, options)
    target = table_target(output, "people's predicted answers", (x, answers))
    models = [Snapshot.open(model, **settings.keywords()).of_split(settings.split) for model in _listed(x)]
    references = _references(models, reference)
    votes = read_votes(answers, models[0], settings)
    said = read_people(answers, models[0].class_names) if votes is None else votes.people
    known = known_of(_of_same_samples(models), references)
    answered, unmatched = _answered(said, models[0], known)
    found = _predicted(known, answered, models[0], settings)
    found.notes += [*unmatched, *_memorized(known, answered, models[0])]
    if target is not None:
        found.save(target)
    return found.set_samples(models[0])


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) and x and isinstance(x[0], (str, os.PathLike, Snapshot)) else [x]


def _references(models: Sequence[Snapshot], reference: Any) -> list[Snapshot]:
    references = [] if reference is None else [Snapshot.open(each) for each in _listed(reference)]
    if references and len(references) != len(models):
        raise InputError(f"there must be one reference per model, got {len(references)} for {len(models)} models.")
    for model, each in zip(models, references, strict=False):
        check_reference(model, each)
    return references


def _of_same_samples(models: Sequence[Snapshot]) -> list[Snapshot]:
    """The models with their samples in the order of the first's."""
    first, same = models[0], [models[0]]
    for other in models[1:]:
        both = first.joined(other)
        if both.only_first:
            raise InputError(f"{other.where} lacks {both.only_first} of the {len(first)} samples of {first.where}: {both.note}")
        same.append(both.second)
    return same


def _answered(said: People, model: Snapshot, known: Known) -> tuple[Answered, list[str]]:
    """The answered samples of which everything is known; a note on answers about other samples."""
    rows, of_people = match(said, model.ids, allow_missing=True)
    left = len(said) - len(of_people)
    notes = [f"{left} of {len(said)} answered samples are not in {model.where}."] if left else []
    some = said.take(of_people)
    frequency = some.selection_frequency(model.labels[rows])
    answers = some.answers
    if some.counts is not None:
        answers = some.counts.sum(1)
    usable = np.isfinite(frequency) & known.complete[rows]
    if answers is not None:
        usable &= answers > 0
    if usable.sum() < FEWEST:
        raise InputError(f"{said.name}: people needs answers about at least {FEWEST} labeled samples, got {usable.sum()}.")
    answered = Answered(rows[usable], frequency[usable], None if answers is None else answers[usable].astype(np.float64))
    if np.ptp(answered.frequency) == 0:
        raise InputError(
            f"{said.name}: all {usable.sum()} samples have the frequency {frequency[usable][0]:g}: nothing to learn."
        )
    return answered, notes


def _predicted(known: Known, answered: Answered, model: Snapshot, settings: PeopleSettings) -> PredictedAnswers:
    n = len(answered.rows)
    ids = model.columns(["id"]).column(0).combine_chunks()
    found = PredictedAnswers(answered.model(known, settings.seed), answered, ids, settings)
    if n < ENOUGH:
        found.notes.append(
            f"{n} answered samples are too few to learn from: predictions are a score that needs no answers, scaled to them. "
            f"From {ENOUGH} answered samples on, answers add to it."
        )
    if np.isnan(found.agreement["spearman"]):
        found.notes.append(
            "no coefficient: the answered samples are alike in all that is known of them, so their predictions are, too."
        )
    if answered.answers is None:
        found.notes.append("how many people answered is not known: noise and model error cannot be told apart.")
    return found


def _memorized(known: Known, answered: Answered, model: Snapshot) -> list[str]:
    """A warning if the model seems to have been trained on the answered samples."""
    rest = np.setdiff1d(np.flatnonzero(known.complete), answered.rows)
    splits = model.splits
    trained = splits is not None and (splits[answered.rows] == "train").all() and (splits[rest] != "train").any()
    on_answered = float(known.correct[answered.rows].mean())
    elsewhere = float(known.correct[rest].mean()) if len(rest) else on_answered
    error = np.sqrt(elsewhere * (1 - elsewhere) * (1 / len(answered.rows) + 1 / max(1, len(rest))))
    if not trained and on_answered - elsewhere < max(MEMORIZED, 3 * error):
        return []
    return [
        f"the model is right about {percent(on_answered)} % of the answered samples and {percent(elsewhere)} % of the others: it "
        "seems to have been trained on the answered ones. It has memorized them, so their scores say little about the others. "
        "Ask about samples that it has not seen."
    ]
