"""What is compared of samples: their labels, predictions and scores, a view of a `Snapshot`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import check_labels
from hardsight.errors import InputError
from hardsight.scores import SCORES
from hardsight.scoring.job import FoldHeads, Job
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.unique_ids import check_unique

NORM, CONFIDENCE, OVERCONFIDENCE = "norm", "predicted_confidence", "overconfidence"


@dataclass(frozen=True)
class Measures:
    """What is compared of n samples, (n,) each; NaN where a sample has no value."""

    samples: Snapshot
    hardness: str  # the score that measures it
    table: pa.Table  # what `Snapshot.scores` gives
    name: str  # of the samples, in sentences

    @staticmethod
    def of(samples: Snapshot, by: str, heads: FoldHeads | None = None, progress: Progress | None = None) -> Measures:
        """The measures of samples, with the score `by`, or the loss where AVH cannot be computed; `heads`: fitted already."""
        if by not in SCORES:
            raise InputError(SCORES.refusal(by))
        possible = _possible_scores(samples)
        hardness = "loss" if by == "avh" and by not in possible and "loss" in possible else by
        names = list(dict.fromkeys([hardness, *(name for name in (NORM, CONFIDENCE) if name in possible)]))
        table = samples.scores(names, progress) if heads is None else _scored_by(heads, samples, names, progress)
        return Measures(samples, hardness, table, samples.where)

    def __len__(self) -> int:
        return len(self.table)

    def at(self, part: Snapshot) -> Measures:
        """The measures of some of the samples, found by id."""
        if part is self.samples:
            return self
        check_unique(self.ids, self.name)
        rows = pc.index_in(pa.array(part.ids), value_set=pa.array(self.ids))
        return replace(self, samples=part, table=self.table.take(rows))

    def score(self, name: str) -> np.ndarray | None:
        """A score, or None where it was not measured."""
        return np.asarray(self.table.column(name).to_numpy(), np.float64) if name in self.table.column_names else None

    @cached_property
    def ids(self) -> np.ndarray:
        """(n,) strings or integers."""
        return self.samples.ids

    @cached_property
    def labels(self) -> np.ndarray:
        """(n,) -1 unlabeled."""
        return self.samples.labels

    @cached_property
    def predicted(self) -> np.ndarray:
        """(n,) -1 for none."""
        return check_labels(self.table.column("predicted"), len(self), None)

    @cached_property
    def correct(self) -> np.ndarray:
        """(n,) 1 for right, 0 for wrong, NaN where the label or the prediction is not known."""
        known = (self.labels >= 0) & (self.predicted >= 0)
        return np.where(known, self.labels == self.predicted, np.nan)

    @cached_property
    def confidence(self) -> np.ndarray | None:
        """(n,) of the prediction."""
        return self.score(CONFIDENCE)

    @cached_property
    def means(self) -> dict[str, np.ndarray]:
        """(n,) each, whose means are compared: hardness, norm and overconfidence, those that there are."""
        values = {name: self.score(name) for name in (self.hardness, NORM)}
        if self.confidence is not None:
            values[OVERCONFIDENCE] = self.confidence - self.correct
        return {name: column for name, column in values.items() if column is not None}

    @property
    def hard(self) -> np.ndarray:
        """(n,) the hardness as measured; `harder` turns it."""
        return self.means[self.hardness]

    @cached_property
    def harder(self) -> np.ndarray:
        """(n,) the hardness turned so that high is hard."""
        return SCORES.harder(self.hardness, self.hard)

    @cached_property
    def units(self) -> np.ndarray | None:
        """(n,) which samples are copies of one image; None where each stands alone."""
        if "base_id" not in self.samples.column_names:
            return None
        columns = self.samples.columns(["base_id", "id"])
        base = pc.coalesce(*(columns.column(name).cast(pa.string()) for name in ("base_id", "id")))
        codes = base.combine_chunks().dictionary_encode()
        return None if len(codes.dictionary) == len(self) else codes.indices.to_numpy()

    @property
    def features(self) -> np.ndarray | None:
        """(n, d) in float64, or None where there are none."""
        features = self.samples.features
        return None if features is None else np.asarray(features, np.float64)

    @property
    def num_classes(self) -> int:
        """Of the snapshot, or as many as labels and predictions name."""
        named = int(max(self.labels.max(initial=-1), self.predicted.max(initial=-1))) + 1
        return self.samples.num_classes or named

    def class_name(self, label: int) -> str:
        """The name of a class, or its number."""
        names = self.samples.class_names or []
        return names[label] if label < len(names) else str(label)

    def check(self) -> None:
        """Refuse samples of which none has a value of the score, or none with a label has a prediction."""
        if not np.isfinite(self.hard).any():
            there = ", ".join(sorted(_possible_scores(self.samples)))
            raise InputError(f"{self.name}: no sample has a value of {self.hardness}" + (f"; it has {there}." if there else "."))
        if np.isnan(self.correct).all():
            raise InputError(f"{self.name}: no labeled sample has a prediction: give features and a head, logits or probs.")


def check_labeled(samples: Snapshot, way: str = "give --labels FILE, or a column label") -> None:
    """Refuse samples without labels, or with labels that no class name is for, before anything is scored."""
    if len(samples) == 0:
        raise InputError(f"{samples.where} holds no samples.")
    most, names = int(samples.labels.max()), samples.class_names
    if most < 0:
        raise InputError(f"{samples.where}: there are no labels, so there is no accuracy or hardness to compare: {way}.")
    if names is not None and most >= len(names):
        raise InputError(
            f"{samples.where}: class_names must name every class, got {len(names)} names, and there is a label {most}."
        )


def _possible_scores(samples: Snapshot) -> set[str]:
    """Names of the scores that a table has, or that can be computed."""
    if samples.source.evidence != SCORES_ALONE:
        return {score.name for score in Job(samples).chosen}
    columns = samples.columns([name for name in samples.column_names if name in SCORES])
    return {name for name in columns.column_names if _has_numbers(columns.column(name).to_numpy())}


def _has_numbers(values: np.ndarray) -> bool:
    return values.dtype.kind in "iuf" and bool(np.isfinite(values).any())


def _scored_by(heads: FoldHeads, samples: Snapshot, names: list[str], progress: Progress | None) -> pa.Table:
    return pa.concat_tables(Job(samples, names, fold_heads=heads).parts(progress))
