"""cleanlab: `data.npz` with labels and pred_probs, and `label_issues.csv` with the columns of its own issue tables.

Rows of both are the same samples in the same order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from scipy.special import softmax

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.explorer.opening import Sheet
from hardsight.exporting.material import Material, needs_labels
from hardsight.files.samples import Batch
from hardsight.files.suspects import read_suspects
from hardsight.files.table_writing import without_formulas
from hardsight.files.writing import replacing
from hardsight.head import Head
from hardsight.scoring.fitted_head import out_of_sample_heads
from hardsight.snapshot import Snapshot

OPENS = 'data = numpy.load("{folder}/data.npz"); cleanlab.filter.find_label_issues(data["labels"], data["pred_probs"])'
ISSUES = (
    "is_label_issue", "label_quality", "given_label", "predicted_label",  # cleanlab's own
    "suggested_label", "suggested_probability", "error_score", "verdict", "explanation",
)  # fmt: skip


def check(material: Material) -> None:
    """There are labels, and probabilities or what they are made of."""
    if material.sheet.snapshot is None:
        raise InputError(
            f"{material.sheet.path}: cleanlab needs probabilities, and there are none; "
            "export the run or the snapshot that the scores were made from."
        )
    needs_labels(material, "cleanlab")


def write(material: Material) -> None:
    """Write both files; samples without a label or without probabilities are left out, for cleanlab takes none."""
    labels = material.labels()
    probs = probabilities(material.sheet)[material.rows]  # (m, c)
    whole = (labels >= 0) & np.isfinite(probs).all(axis=1)
    _note(material, whole)
    arrays = {
        "labels": labels[whole],
        "pred_probs": probs[whole],
        "ids": np.array(material.table.column("id").to_pylist(), dtype=str)[whole],
        "class_names": np.array(material.class_names, dtype=str),
    }
    with replacing(material.folder / "data.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    _write_issues(material, whole, material.folder / "label_issues.csv")


def probabilities(sheet: Sheet) -> np.ndarray:
    """(n, c) of every sample of a sheet, NaN where there are none."""
    assert sheet.snapshot is not None
    snapshot = sheet.snapshot
    parts = _out_of_sample(snapshot) if _headless(snapshot) else [_of_batch(snapshot, batch) for batch in snapshot.batches()]
    probs = np.concatenate(parts)
    if sheet.snapshot_rows is None:
        return probs
    return np.where((sheet.snapshot_rows >= 0)[:, None], probs[sheet.snapshot_rows], np.nan)


def _headless(snapshot: Snapshot) -> bool:
    return snapshot.head is None and snapshot.source.evidence == "features"


def _of_batch(snapshot: Snapshot, batch: Batch) -> np.ndarray:
    """(b, c): given, or the softmax of logits."""
    values = np.asarray(to_numpy(batch.values), dtype=np.float64)
    there = _there(values, batch.missing)
    if snapshot.source.evidence == "probs":
        return np.where(there[:, None], values, np.nan)
    if snapshot.head is not None:
        return _by_head(snapshot.head, values, there)
    return np.where(there[:, None], softmax(np.where(there[:, None], values, 0), axis=1), np.nan)


def _there(values: np.ndarray, missing: np.ndarray | None) -> np.ndarray:
    """(b,) which rows hold numbers."""
    finite: np.ndarray = np.isfinite(values).all(axis=1)
    return finite if missing is None else finite & ~missing


def _by_head(head: Head, features: np.ndarray, there: np.ndarray) -> np.ndarray:
    """(b, c); a feature of zeros has no direction, so some heads have no logits of it."""
    there = there & features.any(axis=1)
    probs = np.full((len(features), head.num_classes), np.nan)
    if there.any():
        probs[there] = softmax(np.asarray(to_numpy(head.logits(features[there])), dtype=np.float64), axis=1)
    return probs


def _out_of_sample(snapshot: Snapshot) -> list[np.ndarray]:
    """(n, c): each sample by a head that was fitted without it."""
    whole = snapshot.in_memory()
    features = np.asarray(to_numpy(whole.values), dtype=np.float64)
    there = _there(features, whole.missing)
    probs = np.full((len(features), int(whole.labels.max(initial=0)) + 1), np.nan)
    for rows, head in out_of_sample_heads(features, whole.labels):
        probs[rows] = _by_head(head, features[rows], there[rows])
    return [probs]


def _note(material: Material, whole: np.ndarray) -> None:
    if not whole.all():
        without = int((~whole).sum())
        material.notes.append(f"{without} of {len(whole)} samples have no label or no probabilities and are left out.")
    split = material.table.column("split").to_pylist() if "split" in material.table.column_names else []
    snapshot = material.sheet.snapshot
    if snapshot is not None and not _headless(snapshot) and "train" in split:
        material.notes.append(
            f"{split.count('train')} samples are of the training split: cleanlab expects probabilities of a model "
            "that has not seen them."
        )


def _write_issues(material: Material, whole: np.ndarray, path: Path) -> None:
    """The table of label issues, if `hardsight clean` has made one."""
    suspects = read_suspects(material.sheet.path)
    if suspects is None:
        material.notes.append("There is no label_issues.csv yet: run hardsight clean first.")
        return
    ids = material.table.column("id").filter(pa.array(whole))
    rows = pc.index_in(ids, value_set=suspects.column("id").combine_chunks()).combine_chunks()
    table = pa.table({"id": ids, **{name: suspects.column(name).take(rows) for name in ISSUES}})
    with replacing(path) as temporary:
        pacsv.write_csv(without_formulas(table), str(temporary))
