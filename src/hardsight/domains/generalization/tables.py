"""Accuracy on each unseen domain and on average, with its spread over seeds; and differences between losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.domains.accuracy import mean_and_std, paired_difference
from hardsight.domains.generalization.loop import chosen_epoch
from hardsight.domains.generalization.settings import Selection

AVERAGE = "average"


@dataclass(frozen=True)
class Results:
    """(loss, unseen domain, seed) -> the epochs of that training, and the scale it was trained with if one was chosen."""

    epochs: dict[tuple[str, str, int], list[dict[str, Any]]]
    scales: dict[tuple[str, str], float]
    losses: list[str]
    domains: list[str]
    seeds: list[int]
    selection: Selection

    def reached(self, loss: str, domain: str, selection: Selection | None = None) -> np.ndarray:
        """(seeds,) accuracy on the unseen domain; `average` is the mean over domains, seed by seed."""
        if domain == AVERAGE:
            return np.mean([self.reached(loss, name, selection) for name in self.domains], axis=0)
        rule = selection or self.selection
        return np.array([chosen_epoch(self.epochs[loss, domain, seed], rule)["test"] for seed in self.seeds])


def accuracy_table(results: Results) -> pa.Table:
    """One row per loss; a column per unseen domain and their average, each with its spread, and the oracle's average."""
    rows = []
    for loss in results.losses:
        row: dict[str, Any] = {"loss": loss, "selection": results.selection, "seeds": len(results.seeds)}
        for domain in (*results.domains, AVERAGE):
            row |= mean_and_std(domain, results.reached(loss, domain).tolist())
        row["oracle average"] = float(results.reached(loss, AVERAGE, "oracle").mean())
        rows.append(row)
    return pa.Table.from_pylist(rows)


def difference_table(results: Results) -> pa.Table:
    """Each loss against each one before it, paired over seeds: the same split, start and order."""
    rows = []
    for number, loss in enumerate(results.losses):
        for against in results.losses[:number]:
            for domain in (*results.domains, AVERAGE):
                difference = paired_difference(results.reached(loss, domain).tolist(), results.reached(against, domain).tolist())
                rows.append({"domain": domain, "loss": loss, "against": against, **difference.columns})
    return pa.Table.from_pylist(rows) if rows else pa.table({"domain": [], "loss": []})


def epoch_table(results: Results) -> pa.Table:
    """One row per loss, unseen domain, seed and epoch."""
    return pa.Table.from_pylist(
        [
            {"loss": loss, "domain": domain, "seed": seed, "scale": results.scales.get((loss, domain)), **entry}
            for (loss, domain, seed), epochs in results.epochs.items()
            for entry in epochs
        ]
    )
