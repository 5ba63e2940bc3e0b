"""cleanlab: `data.npz` with labels and pred_probs, and `label_issues.csv` with the columns of its own issue tables.

Rows of both are the same samples in the same order. cleanlab expects probabilities by a model that has not seen the sample: where
there is no head, or where the network was trained on the samples, they are those of `hardsight.quality.out_of_sample`.
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
from hardsight.explorer.sheet import Sheet
from hardsight.exporting.samples import Material
from hardsight.files.samples import Batch
from hardsight.files.suspects import DUPLICATE_OF, read_suspects
from hardsight.files.table_writing import without_formulas
from hardsight.files.writing import replacing
from hardsight.quality.folds import out_of_sample
from hardsight.scoring.fitted_head import head_probs, usable_rows
from hardsight.snapshot import Snapshot

OPENS = 'data = numpy.load("{folder}/data.npz"); cleanlab.filter.find_label_issues(data["labels"], data["pred_probs"])'
ISSUES = (
    "is_label_issue", "label_quality", "given_label", "predicted_label",  # cleanlab's own
    "suggested_label", "suggested_probability", "error_score", "verdict", "explanation", DUPLICATE_OF,
)  # fmt: skip


def write(material: Material) -> None:
    """Write both files; samples without a label or without probabilities are left out, because cleanlab does not take them."""
    labels = material.labels()
    unseen, probs = probabilities(material.sheet)
    probs = probs[material.rows]  # (m, c)
    whole = (labels >= 0) & np.isfinite(probs).all(axis=1)
    _note(material, whole, unseen)
    arrays = {
        "labels": labels[whole],
        "pred_probs": probs[whole],
        "ids": np.array(material.table.column("id").to_pylist(), dtype=str)[whole],
        "class_names": np.array(material.class_names, dtype=str),
    }
    with replacing(material.folder / "data.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    _write_issues(material, whole, material.folder / "label_issues.csv")


def probabilities(sheet: Sheet) -> tuple[bool, np.ndarray]:
    """Whether heads fitted without each sample made them, and the (n, c) probabilities; NaN where there are none."""
    assert sheet.snapshot is not None
    probs = _out_of_sample(sheet.snapshot)
    unseen = probs is not None
    if probs is None:
        probs = np.concatenate([_of_batch(sheet.snapshot, batch) for batch in sheet.snapshot.batches()])
    if sheet.snapshot_rows is not None:
        probs = np.where((sheet.snapshot_rows >= 0)[:, None], probs[sheet.snapshot_rows], np.nan)
    return unseen, probs


def _out_of_sample(snapshot: Snapshot) -> np.ndarray | None:
    """(n, c) from features without a head, or with one that was trained on them; None where the head must be used."""
    head = snapshot.head
    if snapshot.source.evidence != "features" or (head is not None and not _trained_on(snapshot)):
        return None
    batch = snapshot.in_memory()
    features = _values(batch)
    features = np.where(usable_rows(features)[:, None], features, np.nan)
    try:
        probs = out_of_sample(features, batch.labels)
    except InputError:
        if head is None:
            raise
        return None  # a class with a single sample cannot be left out of a fold
    without = 0 if head is None else head.num_classes - probs.shape[1]  # classes that no sample is labeled as
    return np.pad(probs, ((0, 0), (0, without)))


def _trained_on(snapshot: Snapshot) -> bool:
    return "split" in snapshot.column_names and "train" in snapshot.columns(["split"]).column("split").to_pylist()


def _of_batch(snapshot: Snapshot, batch: Batch) -> np.ndarray:
    """(b, c): given, by the head, or the softmax of logits; NaN for a row that is not finite, or a feature of zeros."""
    values, head = _values(batch), snapshot.head
    usable = np.isfinite(values).all(axis=1) if head is None else usable_rows(values)
    probs = np.full((len(values), values.shape[1] if head is None else head.num_classes), np.nan)
    if not usable.any():
        return probs
    if snapshot.source.evidence == "probs":
        probs[usable] = values[usable]
    else:
        probs[usable] = softmax(values[usable], axis=1) if head is None else head_probs(head, values[usable])
    return probs


def _values(batch: Batch) -> np.ndarray:
    """(b, d) or (b, c) float64, NaN for a missing row."""
    values = np.asarray(to_numpy(batch.values), dtype=np.float64)
    return values if batch.missing is None else np.where(batch.missing[:, None], np.nan, values)


def _note(material: Material, whole: np.ndarray, unseen: bool) -> None:
    if not whole.all():
        without = int((~whole).sum())
        material.notes.append(f"{without} of {len(whole)} samples have no label or no probabilities and are left out.")
    split = material.table.column("split").to_pylist() if "split" in material.table.column_names else []
    snapshot = material.sheet.snapshot
    if "train" in split and snapshot is not None and (snapshot.head is not None or not unseen):
        about = "pred_probs come from heads fitted without the sample, but on features of a network that has seen it."
        expected = "cleanlab expects probabilities from a model that has not seen them."
        material.notes.append(f"{split.count('train')} samples are in the training split: {about if unseen else expected}")


def _write_issues(material: Material, whole: np.ndarray, path: Path) -> None:
    """The table of label issues, if `hardsight clean` has made one."""
    suspects = read_suspects(material.sheet.path)
    if suspects is None:
        material.notes.append("There is no label_issues.csv yet: run hardsight clean first.")
        return
    ids = material.table.column("id").filter(pa.array(whole))
    rows = pc.index_in(ids, value_set=suspects.column("id").combine_chunks()).combine_chunks()
    table = pa.table({"id": ids, **{name: suspects.column(name).take(rows) for name in ISSUES if name in suspects.column_names}})
    with replacing(path) as temporary:
        pacsv.write_csv(without_formulas(table), str(temporary))
