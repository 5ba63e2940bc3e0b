"""`mine`: hard and semi-hard triplets by angle, over all samples of a snapshot.

    hard       per anchor its k nearest samples of other classes
    semihard   per anchor its k nearest samples of other classes that are farther away than the positive, by less than the margin

The positive of an anchor is the farthest sample of its own class, or the nearest. Only directions count. Left out, and
counted: samples without a label, those without a direction, and anchors whose class has no second sample; the last may
still be negatives of others.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.errors import InputError, MissingExtra
from hardsight.geometry import pair_angles, safe_row_norms
from hardsight.options import takes
from hardsight.result import Result, table_target
from hardsight.scores.class_search import Classed, Others, Own, Window, search_classes
from hardsight.screen import Cell, Progress, Sentence, ShownTable, line, number, percent
from hardsight.snapshot import Snapshot
from hardsight.subsets.settings import MineSettings
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from hardsight.option_types import MineOptions

LARGE = 200_000  # samples from which on `search="auto"` looks for an index


@dataclass(eq=False, repr=False)
class Triplets(Result):
    """Triplets as plain arrays of t entries, ordered by anchor, nearest negative first; `table` has them by id."""

    anchor: np.ndarray  # (t,) rows of the samples
    positive: np.ndarray  # (t,)
    negative: np.ndarray  # (t,)
    angle_positive: np.ndarray  # (t,) radians
    angle_negative: np.ndarray  # (t,)
    ids: pa.Array  # (n,) of all samples
    left_out: dict[str, int]  # how many samples are no anchors, by reason
    search: str  # exact, or the index that was used
    recall: float | None  # of an index: the share of the exact negatives that it found
    settings: MineSettings

    def __post_init__(self) -> None:
        super().__init__(self.pairs_table() if self.settings.pairs else self.triplets_table())

    def __len__(self) -> int:
        return len(self.anchor)

    def __repr__(self) -> str:
        recall = "" if self.recall is None else f", recall {100 * self.recall:.1f} %"
        odd = "".join(f", {count} {why}" for why, count in self.left_out.items() if count)
        nearer = f", {int((self.hardness > 0).sum()):,} with the negative nearer" if len(self) else ""
        return f"Triplets: {len(self):,} triplets of {len(self.ids):,} samples{nearer}; {self.search} search{recall}{odd}"

    @property
    def hardness(self) -> np.ndarray:
        """(t,) angle_positive - angle_negative: above 0, the negative is nearer than the positive."""
        return self.angle_positive - self.angle_negative

    def triplets_table(self) -> pa.Table:
        """The triplets by id: anchor, positive, negative, angle_positive, angle_negative."""
        columns = {name: self.ids.take(pa.array(getattr(self, name))) for name in ("anchor", "positive", "negative")}
        return pa.table({**columns, "angle_positive": self.angle_positive, "angle_negative": self.angle_negative})

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distinct pairs of the triplets: (p, 2) rows, the smaller first; (p,) whether of one class; (p,) angles."""
        rows = np.concatenate([np.stack([self.anchor, other], axis=1) for other in (self.positive, self.negative)])
        angle = np.concatenate([self.angle_positive, self.angle_negative])
        same = np.arange(len(rows)) < len(self)
        distinct, first = np.unique(np.sort(rows, axis=1), axis=0, return_index=True)
        return distinct.reshape(-1, 2), same[first], angle[first]

    def pairs_table(self) -> pa.Table:
        """The distinct pairs by id: first, second, same_class, angle."""
        rows, same, angle = self.pairs()
        first, second = (self.ids.take(pa.array(column)) for column in rows.T)
        return pa.table({"first": first, "second": second, "same_class": same, "angle": angle})

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """How many, who is left out, and the hardest."""
        settings, anchors = self.settings, len(np.unique(self.anchor))
        recall = "" if self.recall is None else f", recall {percent(self.recall, digits=1)} %"
        words = f"{len(self):,} {settings.kind} triplets of {anchors:,} anchors, k = {settings.k}   search: {self.search}{recall}"
        facts = {"triplets": len(self), "anchors": anchors, "kind": settings.kind, "k": settings.k, "search": self.search}
        yield line(words, recall=self.recall, left_out=self.left_out, **facts)
        if settings.pairs:
            yield line(f"{len(self.table):,} distinct pairs of these triplets", pairs=len(self.table))
        left_out = [f"{count:,} {reason}" for reason, count in self.left_out.items() if count]
        if left_out:
            yield line("no anchors: " + ", ".join(left_out))
        if len(self):
            violated = float((self.hardness > 0).mean())
            yield line(f"negative nearer than the positive: {percent(violated, digits=1)} % of the triplets", violated=violated)
            yield self._hardest(settings.top)

    def _hardest(self, top: int) -> ShownTable:
        """The hardest triplet of each of the hardest anchors."""
        order = np.argsort(-self.hardness, kind="stable")
        worst = order[np.unique(self.anchor[order], return_index=True)[1]]
        worst = worst[np.argsort(-self.hardness[worst], kind="stable")][:top]
        rows = [
            (
                *(number(self.ids[int(column[row])].as_py()) for column in (self.anchor, self.positive, self.negative)),
                *(number(float(np.rad2deg(angle[row]))) for angle in (self.angle_positive, self.angle_negative)),
            )
            for row in worst
        ]
        header = ("anchor", "positive", "negative", "degrees to positive", Cell("to negative", "degrees_to_negative"))
        return ShownTable("hardest", header, rows, f"hardest {len(rows)} anchors", words=3)


@takes(MineSettings)
def mine(
    x: Any = None, *, output: str | os.PathLike[str] | None = None, settings: MineSettings | None = None,
    progress: Progress | None = None, **options: Unpack[MineOptions],
) -> Triplets:  # fmt: skip
    """Find hard or semi-hard triplets by angle: each anchor with its positive and k negatives.

    Args:
        x: (n, d) features; a run directory, a file, a frame or a `Snapshot`.
        output: .parquet, .csv or .json to write the triplets, or the pairs, to.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the tiles of products done, and those there are in all.

    Example:
        >>> degrees = np.deg2rad([0, 40, 30, 90])
        >>> features = np.stack([np.cos(degrees), np.sin(degrees)], axis=1)
        >>> mined = mine(features=features, labels=[0, 0, 1, 1], k=1)
        >>> mined.anchor, mined.positive, mined.negative
        (array([0, 1, 2, 3]), array([1, 0, 3, 2]), array([2, 2, 1, 1]))
        >>> np.rad2deg(mined.angle_negative).round()
        array([30., 10., 10., 50.])
    """
    settings = MineSettings.given(settings, options)
    target = table_target(output, "pairs" if settings.pairs else "triplets", (x, settings.labels))
    samples = Snapshot.open(x, **settings.keywords()).selected(settings.split, settings.first, settings.limit)
    mined = _mined(samples, settings, progress)
    mined.notes += samples.notes
    if target is not None:
        mined.save(target)
    return mined


def _mined(snapshot: Snapshot, settings: MineSettings, progress: Progress | None) -> Triplets:
    """The triplets of a snapshot."""
    where = f"{snapshot.name}: " if snapshot.name else ""
    if snapshot.source.evidence != "features":
        raise InputError(f"{where}triplets are mined by the angles of features, and there are only {snapshot.source.evidence}.")
    batch = snapshot.in_memory()
    features, labels = to_numpy(batch.values), batch.labels
    if not snapshot.source.labeled or (labels < 0).all():
        raise InputError(f"{where}no labels to mine by: give --labels FILE." if len(labels) else f"{where}there are 0 samples.")
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity stay so
        norm = np.asarray(safe_row_norms(features.astype(np.float64, copy=False), np))
    directed = np.isfinite(norm) & (norm > 0) & (~batch.missing if batch.missing is not None else True)
    rows = np.flatnonzero((labels >= 0) & directed)
    samples = Classed.sort((features[rows] / norm[rows, None]).astype(np.float32), labels[rows])
    _check_classes(samples, settings.k, where)
    left_out = {
        "unlabeled": int((labels < 0).sum()),
        "without a direction": int(((labels >= 0) & ~directed).sum()),
        "alone in their class": int((samples.sizes == 1).sum()),
    }
    own, others, search, recall = _searched(samples, settings, progress)
    if settings.kind == "semihard":
        left_out["without a semihard negative"] = int(((others.at < 0).all(1) & (samples.sizes > 1)).sum())
    anchor, positive, negative, to_positive, to_negative = _triplets(samples, own, others)
    ids = pa.array(batch.ids, type=snapshot.source.id_type)
    names = rows[anchor], rows[positive], rows[negative]
    return Triplets(*names, to_positive, to_negative, ids, left_out, search, recall, settings)


def _searched(samples: Classed, settings: MineSettings, progress: Progress | None) -> tuple[Own, Others, str, float | None]:
    """The positives, the negatives, how these were searched, and the recall of an index."""
    search = settings.search
    if search == "auto":
        search = "usearch" if len(samples) > LARGE and settings.kind == "hard" and installed() else "exact"
    own = Own(len(samples), farthest=settings.positive == "farthest")
    if search != "exact":
        if settings.kind != "hard":
            raise InputError(f"--search {search} finds hard negatives; semihard ones need --search exact.")
        search_classes(samples, own, None, progress)
        others, recall = by_index(samples, settings.k)
        return own, others, search, recall
    if settings.kind == "hard":
        others = Others(samples, settings.k)
        search_classes(samples, own, others, progress)
        return own, others, search, None
    search_classes(samples, own, None)
    nearest_allowed = np.where(own.at >= 0, own.sign * own.cosine, -np.inf)  # (n,) cosine to the positive
    angle = np.arccos(np.clip(nearest_allowed, -1, 1)) + settings.margin
    lower = np.where(angle < np.pi, np.cos(np.minimum(angle, np.pi)), -1.1)
    others = Others(samples, settings.k, Window(lower, nearest_allowed.astype(np.float32)))
    search_classes(samples, None, others, progress)
    return own, others, search, None


def _triplets(samples: Classed, own: Own, others: Others) -> tuple[np.ndarray, ...]:
    """anchor, positive, negative as numbers before sorting, and the two angles; by anchor, nearest negative first."""
    anchor, column = np.nonzero((others.at >= 0) & (own.at >= 0)[:, None])
    order = np.argsort(samples.order[anchor], kind="stable")
    anchor, column = anchor[order], column[order]
    to_own = pair_angles(own.sign * own.cosine.astype(np.float64), samples.x, samples.x, np.arange(len(samples)), own.at)  # (n,)
    negative = others.at[anchor, column]
    to_other = pair_angles(others.cosine[anchor, column], samples.x, samples.x, anchor, negative)
    rows = samples.order
    return rows[anchor], rows[own.at[anchor]], rows[negative], to_own[anchor], to_other


def _check_classes(samples: Classed, k: int, where: str) -> None:
    """Two classes, one of them with two samples, and k samples of other classes for everyone."""
    if len(samples) == 0:
        raise InputError(f"{where}no labeled sample has a direction.")
    sizes = np.diff(samples.start)
    if len(sizes) == 1:
        raise InputError(f"{where}negatives are samples of other classes, but every label is the same class.")
    if sizes.max() == 1:
        raise InputError(f"{where}positives are samples of the same class, but every class has a single sample.")
    fewest = len(samples) - int(sizes.max())
    if k > fewest:
        raise InputError(f"{where}k must be at most {fewest}, the samples of other classes than the largest one, got {k}.")


CHECKED = 1000  # anchors whose exact neighbors say what the recall is


def installed() -> bool:
    """Whether there is an index to search."""
    return importlib.util.find_spec("usearch") is not None


def by_index(samples: Classed, k: int) -> tuple[Others, float]:
    """The k nearest samples of other classes that an index finds, and its recall on a thousand anchors."""
    if not installed():
        raise MissingExtra("--search usearch needs usearch: pip install usearch")
    n = len(samples)
    cosine, rows = np.full((n, k), -np.inf, np.float32), np.full((n, k), -1)
    for digit in range(max(1, int(samples.code[-1]).bit_length())):
        set_bit = (samples.code >> digit) & 1 == 1
        for anchors, among in ((set_bit, ~set_bit), (~set_bit, set_bit)):
            queries, members = np.flatnonzero(anchors), np.flatnonzero(among)
            if len(queries) == 0 or len(members) == 0:
                continue
            count = min(k, len(members))
            near, which = _search(samples.x[members], samples.x[queries], count)
            _merge(cosine, rows, queries, near, np.where(which >= 0, members[which], -1))
    others = Others.found(cosine, rows)
    return others, _recall(samples, others)


def _merge(cosine: np.ndarray, found: np.ndarray, rows: np.ndarray, near: np.ndarray, which: np.ndarray) -> None:
    """Let (q, m) samples found into the k best of the rows; one that was found before counts once."""
    k = cosine.shape[1]
    both, place = np.concatenate([cosine[rows], near], axis=1), np.concatenate([found[rows], which], axis=1)
    twice = (place[:, None, :k] == place[:, k:, None]).any(2) | (place[:, k:] < 0)  # (q, m)
    both[:, k:][twice] = -np.inf
    order = np.argsort(-both, axis=1, kind="stable")[:, :k]
    cosine[rows], found[rows] = np.take_along_axis(both, order, 1), np.take_along_axis(place, order, 1)
    found[rows] = np.where(np.isneginf(cosine[rows]), -1, found[rows])


def _search(members: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(q, k) cosines and numbers of the members nearest to each query, -1 where the index found none."""
    from usearch.index import Index

    index: Any = Index(ndim=members.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(members)), members)
    matches = index.search(queries, k)
    keys, distances = np.asarray(matches.keys), np.asarray(matches.distances)
    keys, distances = keys.reshape(len(queries), -1), distances.reshape(len(queries), -1)
    counts = np.asarray(getattr(matches, "counts", np.full(len(queries), k))).reshape(-1, 1)
    there = np.arange(keys.shape[1]) < counts
    return np.where(there, 1 - distances, -np.inf).astype(np.float32), np.where(there, keys.astype(np.int64), -1)


def _recall(samples: Classed, others: Others) -> float:
    """Share of the exact k nearest of some anchors that were found, those at the same cosine as the k-th included."""
    rows = even_rows(len(samples), CHECKED)
    k, hits = others.cosine.shape[1], 0
    for row in rows:
        cosine = samples.x @ samples.x[row]  # (n,)
        cosine[samples.code == samples.code[row]] = -np.inf
        least = np.partition(cosine, len(cosine) - k)[len(cosine) - k]
        hits += int((others.cosine[row] >= least - 1e-6).sum())
    return hits / (k * len(rows))
