"""Samples, people's answers and scores that the tests of agreement share: people find hard what was made hard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import hardsight
from hardsight import Snapshot

FEW: dict[str, Any] = {"replicates": 40, "permutations": 40, "splits": 5}
N, C, D = 300, 4, 8
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(C, D))
LABELS = RNG.integers(0, C, N)
NOISE = RNG.uniform(0.2, 2.0, N)  # how hard each sample is made
FEATURES = WEIGHT[LABELS] + NOISE[:, None] * RNG.normal(size=(N, D))
IDS = np.array([f"img-{i:03d}" for i in range(N)])
CHANCE = np.clip(1.1 - NOISE / 2.2, 0.05, 0.98)  # people find noisy ones hard too
COUNTS = np.stack(
    [RNG.multinomial(20, np.where(np.arange(C) == y, p, (1 - p) / (C - 1))) for y, p in zip(LABELS, CHANCE, strict=True)]
)
FREQUENCY = COUNTS[np.arange(N), LABELS] / 20
SNAPSHOT = Snapshot(FEATURES, WEIGHT, LABELS, ids=IDS, class_names=["ant", "bee", "cat", "dog"])
TABLE = hardsight.score(SNAPSHOT).table


def single(
    found: hardsight.human.Correlations, score: str, kind: str = "spearman", part: str = "all", target: str = "frequency"
) -> Any:
    rows = found.table.to_pylist()
    keys = {"score": score, "kind": kind, "bin": part, "target": target}
    (row,) = [row for row in rows if all(row[key] == value for key, value in keys.items())]
    return row


def verdicts(found: hardsight.human.Correlations) -> dict[tuple[str, str], Any]:
    return {(row["model"], row["hypothesis"]): row for row in found.tables()["hypotheses"].to_pylist()}


def made(n: int = 400, seed: int = 0, **how: tuple[float, float]) -> tuple[pa.Table, np.ndarray]:
    """A table of scores with known agreement: each is weight * easiness + spread * noise, turned to its own hard end."""
    rng = np.random.default_rng(seed)
    easy = rng.uniform(0, 1, n)
    columns: dict[str, Any] = {"id": np.arange(n), "label": np.zeros(n, int), "predicted": np.zeros(n, int)}
    for name, (weight, spread) in how.items():
        values = weight * easy + spread * rng.normal(size=n)
        columns[name] = values if hardsight.SCORES[name].hard == "low" else -values
    return pa.table(columns), easy


def degraded() -> pa.Table:
    parts = []
    for kind, levels in (("contrast", (0.2, 0.6, 1.0)), ("noise", (0.0, 0.3))):
        for level in levels:
            amount = (1 - level) if kind == "contrast" else level
            features = FEATURES + 2 * amount * np.random.default_rng(int(10 * level)).normal(size=(N, D))
            table = hardsight.score(features, WEIGHT, LABELS, ids=[f"{one}#{kind}={level}" for one in IDS]).table
            table = table.append_column("base_id", [IDS.tolist()]).append_column("degradation", [[kind] * N])
            parts.append(table.append_column("level", [[level] * N]))
    return pa.concat_tables(parts)
