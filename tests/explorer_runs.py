"""Runs for the explorer's tests: real digits, scored by their class means, with everything a run may have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits

from hardsight.files.heads import save_head
from hardsight.files.places import table_path
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.head import Head
from hardsight.scoring.score import score
from hardsight.snapshot import Snapshot
from hardsight.table import read_scores, write_table

NAMES = [f"digit {k}" for k in range(10)]
EPOCHS = 5


def digits_run(
    directory: Path,
    *,
    n: int = 400,
    names: list[str] | None = None,
    noise: float = 0.0,
    human: bool = False,
    dynamics: bool = False,
    degraded: bool = False,
    columns: dict[str, Any] | None = None,
    head: Head | None = None,
    seed: int = 0,
) -> Path:
    """A complete run of the built-in digits: features are the pixels, the head their class means unless one is given."""
    rng = np.random.default_rng(seed)
    bunch = load_digits()
    features, labels = bunch.data[:n].astype(np.float32) + 1, bunch.target[:n]
    weight, center = class_means()
    features = features - center - 1
    features = features + noise * rng.standard_normal(features.shape).astype(np.float32)
    ids = [str(row) for row in range(n)]
    told: dict[str, Any] = {
        "id": ids,
        "label": pa.array(labels),
        "split": ["test" if row % 5 == 4 else "train" for row in range(n)],
    }
    told["base_id"] = ids
    if degraded:
        told["base_id"] = [str(row - row % 4) for row in range(n)]
        told["degradation"] = [[None, "contrast", "contrast", "noise"][row % 4] for row in range(n)]
        told["level"] = pa.array([[None, 0.3, 0.6, 0.5][row % 4] for row in range(n)], pa.float64())
    head = head or Head("cosine", weight, scale=20.0)
    run = Run(directory, "hardsight extract", {"made": "by a test"}, {"data": "digits"}, {"data": "digits", "roots": []})
    part = run.folder("samples") / "part-00000.parquet"
    table = score(Snapshot(features, head, labels, ids=ids))
    if human:
        told["human"] = 1 / (1 + np.exp(20 * (table.column("avh_relative").to_numpy() - 0.9))) * rng.uniform(0.8, 1, n)
    write_samples(part, features, {**told, **(columns or {})})
    save_head(directory / "head.safetensors", head, names or NAMES)
    write_table(table, directory / "scores.parquet")
    if dynamics:
        write_dynamics(run.folder("dynamics"), table, told["split"])
    run.finish([part], {"rows": n}, {part.name: n})
    return directory


def class_means() -> tuple[np.ndarray, np.ndarray]:
    """(10, 64) the digits' class means around their mean, and (64,) that mean."""
    bunch = load_digits()
    means = np.stack([bunch.data[bunch.target == k].mean(0) for k in range(10)]).astype(np.float32)
    return means - means.mean(0), means.mean(0)


def two_heads() -> tuple[Head, Head]:
    """One that is mostly right and one that is mostly wrong, though every AVH of the first is large and most of the second small.

    The first adds the same to each class vector, so that all are nearly parallel. The second has classes 0 and 1, 2 and 3, 4
    and 5 close to each other and on the wrong side of each other.
    """
    means, _ = class_means()
    pairs = means.reshape(5, 2, 64).mean(1).repeat(2, axis=0)  # (10, 64) of each class and its neighbor
    return Head("linear", means + 40), Head(
        "cosine", np.concatenate([1.1 * pairs - 0.1 * means, means])[[*range(6), *range(16, 20)]]
    )


def write_dynamics(folder: Path, table: pa.Table, split: list[str]) -> None:
    """Epochs that lead to the table: angles shrink and norms grow."""
    for epoch in range(1, EPOCHS + 1):
        share = epoch / EPOCHS
        columns: dict[str, Any] = {"id": table.column("id"), "split": split, "label": table.column("label")}
        for name in ("own_angle", "nearest_angle", "avh", "norm", "confidence", "logit_margin", "loss"):
            values = table.column(name).to_numpy()
            start = 1.5 if "angle" in name else values.mean()
            columns[name] = start + (values - start) * share
        columns["correct"] = pa.array(columns["confidence"] > 0.5)
        write_table(pa.table(columns), folder / f"epoch={epoch:04d}.parquet")


def write_suspects(run: Path, likely: int = 6) -> pa.Table:
    """The run's suspects.parquet, made up: the samples with the largest loss are said to be of the next class."""
    scores = read_scores(run)
    label = scores.column("label").fill_null(-1).to_numpy()
    loss = np.nan_to_num(scores.column("loss").to_numpy())
    rank = np.argsort(np.argsort(-loss, kind="stable"))  # 0 for the largest
    suggested = np.where(rank < likely, (label + 1) % 10, label)
    verdicts = ["likely mislabeled" if at < likely else "ambiguous" if at < likely + 3 else None for at in rank]
    table = pa.table(
        {
            "id": scores.column("id"),
            "given_label": label,
            "suggested_label": suggested,
            "suggested_probability": np.where(rank < likely, 0.9, 0.5),
            "error_score": loss / loss.max(),
            "verdict": pa.array(verdicts, pa.string()),
            "explanation": pa.array([None if verdict is None else f"why {verdict} <b>" for verdict in verdicts], pa.string()),
            "is_label_issue": rank < likely,
            "label_quality": 1 - loss / loss.max(),
            "predicted_label": scores.column("predicted"),
        }
    )
    notes = {"expected_errors": 7.4, "expected_errors_low": 4.0, "expected_errors_high": 11.2}
    table = table.replace_schema_metadata({"hardsight": json.dumps(notes)})
    write_table(table, table_path(run, "suspects"))
    return table


def half_done(finish: Event) -> Callable[..., np.ndarray]:
    """A stand-in for the process of t-SNE: half done until it may finish."""

    def placed(method: str, rows: np.ndarray, share: Any, started: Any) -> np.ndarray:
        share(0.5)
        assert finish.wait(30)
        return rows[:, :2]

    return placed
