"""Groups that no column names: clusters of features that are harder, or less often right, than the rest of their class.

A cluster that was found because its samples are hard is hard by construction. So the samples are divided in two by chance:
the first half makes the clusters of every class and says which of them look worse, and only the second half, assigned to the
nearest center, is counted and tested. Figures are those of the second half; the members of a group are those of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.geometry import safe_row_norms
from hardsight.groups.comparing import Measures, Row, compare
from hardsight.groups.settings import AuditSettings

SAMPLES_PER_CLUSTER, FEWEST, MOST = 80, 2, 8  # clusters of a class
ROUNDS = 25  # of k-means


@dataclass(frozen=True)
class LatentGroup:
    """A cluster of one class that the first half says is worse."""

    label: int
    members: np.ndarray  # rows of both halves
    row: Row  # its figures in the second half, against the rest of its class


def find_latent(measures: Measures, settings: AuditSettings) -> list[LatentGroup]:
    """Clusters that look worse than their class in one half of the samples, with their figures in the other.

    Rows of features that are not finite are left out.
    """
    features = measures.features  # (n, d)
    assert features is not None  # checked before anything was scored
    order = np.argsort(measures.ids, kind="stable")  # rows in another order give the same groups
    rng = np.random.default_rng(settings.seed)
    first = np.isin(np.arange(len(features)), order[rng.permutation(len(order))[: len(order) // 2]])
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.asarray(safe_row_norms(features, np))
    usable = np.isfinite(norm) & (norm > 0) & np.isfinite(measures.correct)
    unit = features / np.where(usable, norm, 1.0)[:, None]
    groups = []
    for label in np.unique(measures.labels[usable]):
        rows = order[usable[order] & (measures.labels[order] == label)]
        clusters = settings.clusters or int(np.clip(len(rows) // SAMPLES_PER_CLUSTER, FEWEST, MOST))
        found_by = int(first[rows].sum())
        if found_by >= max(settings.least, clusters) and len(rows) - found_by >= settings.least:
            centers = k_means(unit[rows][first[rows]], clusters, rng)
            groups += _worse_clusters(measures, settings, rows, first[rows], nearest(unit[rows], centers))
    return groups


def _worse_clusters(
    measures: Measures, settings: AuditSettings, rows: np.ndarray, first: np.ndarray, cluster: np.ndarray
) -> list[LatentGroup]:
    """The clusters of one class that look worse: of its rows, whether each is of the first half, and the cluster of each."""
    groups, every = [], np.arange(len(measures))
    for number in range(int(cluster.max()) + 1):
        mine = cluster == number
        if not _looks_worse(measures, rows[mine & first], rows[~mine & first], settings.least // 2):
            continue
        tested, rest = np.isin(every, rows[mine & ~first]), np.isin(every, rows[~mine & ~first])  # (n,) each
        if rest.sum() < settings.least:  # the cluster is the class
            continue
        row = compare(measures, tested, rest, least=settings.least, level=settings.level)
        groups.append(LatentGroup(int(measures.labels[rows[0]]), rows[mine], row))
    return groups


def _looks_worse(measures: Measures, mine: np.ndarray, others: np.ndarray, least: int) -> bool:
    """Whether a cluster looks worse in the first half: less often right, or harder, than the rest of its class."""
    if len(mine) < max(least, 1) or len(others) == 0:
        return False
    known = [values[np.isfinite(values)] for values in (measures.harder[mine], measures.harder[others])]
    harder = bool(len(known[0]) and len(known[1])) and known[0].mean() > known[1].mean()
    return bool(harder or measures.correct[mine].mean() < measures.correct[others].mean())


def k_means(rows: np.ndarray, clusters: int, rng: np.random.Generator) -> np.ndarray:
    """(k, d) centers of (n, d) rows by Lloyd's algorithm from seeds that are far apart (k-means++)."""
    centers = rows[rng.integers(len(rows))][None]
    while len(centers) < clusters:
        gap = np.maximum(_squares(rows, centers).min(axis=1), 0)
        if gap.sum() == 0:  # fewer different rows than clusters
            break
        centers = np.concatenate([centers, rows[rng.choice(len(rows), p=gap / gap.sum())][None]])
    for _ in range(ROUNDS):
        cluster = nearest(rows, centers)
        moved = np.stack([rows[cluster == at].mean(axis=0) if (cluster == at).any() else c for at, c in enumerate(centers)])
        if np.allclose(moved, centers):
            break
        centers = moved
    return centers


def nearest(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """(n,) which center each row is nearest to."""
    return np.asarray(_squares(rows, centers).argmin(axis=1))


def _squares(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """(n, k) squared distances."""
    return (rows * rows).sum(1)[:, None] - 2 * rows @ centers.T + (centers * centers).sum(1)
