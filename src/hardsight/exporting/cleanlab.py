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

from hardsight.errors import InputError
from hardsight.explorer.display import Display
from hardsight.explorer.other_results import found_suspects
from hardsight.exporting.material import Material
from hardsight.files.kinds import without_formulas
from hardsight.files.suspects import DUPLICATE_OF
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
    unseen, probs = probabilities(material.display)
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


def probabilities(display: Display) -> tuple[bool, np.ndarray]:
    """Whether heads fitted without each sample made them, and the (n, c) probabilities; NaN where there are none."""
    assert display.snapshot is not None
    unseen, probs = _of_snapshot(display.snapshot)
    if display.snapshot_rows is not None:
        probs = np.where((display.snapshot_rows >= 0)[:, None], probs[display.snapshot_rows], np.nan)
    return unseen, probs


def _of_snapshot(snapshot: Snapshot) -> tuple[bool, np.ndarray]:
    """The same of all rows: given, of given logits, by heads that have not seen the sample, or by the snapshot's own head."""
    head, features = snapshot.head, snapshot.features
    if features is None:
        given = snapshot.logits if snapshot.probs is None else snapshot.probs
        values = np.asarray(given, np.float64)
        values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, np.nan)
        return False, values if snapshot.probs is not None else softmax(values, axis=1)
    usable = usable_rows(features)
    features = np.where(usable[:, None], features, np.nan).astype(np.float64)
    if head is None or (snapshot.splits is not None and "train" in snapshot.splits):  # the head has seen them
        try:
            probs = out_of_sample(features, snapshot.labels)
            without = 0 if head is None else head.num_classes - probs.shape[1]  # classes that no sample is labeled as
            return True, np.pad(probs, ((0, 0), (0, without)))
        except InputError:
            if head is None:
                raise  # else a class with a single sample, which cannot be left out of a fold: the head must do
    probs = np.full((len(features), head.num_classes), np.nan)
    probs[usable] = head_probs(head, features[usable])
    return False, probs


def _note(material: Material, whole: np.ndarray, unseen: bool) -> None:
    if not whole.all():
        without = int((~whole).sum())
        material.notes.append(f"{without} of {len(whole)} samples have no label or no probabilities and are left out.")
    split = material.table.column("split").to_pylist() if "split" in material.table.column_names else []
    snapshot = material.display.snapshot
    if "train" in split and snapshot is not None and (snapshot.head is not None or not unseen):
        about = "pred_probs come from heads fitted without the sample, but on features of a network that has seen it."
        expected = "cleanlab expects probabilities from a model that has not seen them."
        material.notes.append(f"{split.count('train')} samples are in the training split: {about if unseen else expected}")


def _write_issues(material: Material, whole: np.ndarray, path: Path) -> None:
    """The table of label issues, if `hardsight clean` has made one."""
    suspects = found_suspects(material.display)
    if suspects is None:
        material.notes.append("There is no label_issues.csv yet: run hardsight clean first.")
        return
    ids = material.table.column("id").filter(pa.array(whole))
    rows = pc.index_in(ids, value_set=suspects.column("id").combine_chunks()).combine_chunks()
    table = pa.table({"id": ids, **{name: suspects.column(name).take(rows) for name in ISSUES if name in suspects.column_names}})
    with replacing(path) as temporary:
        pacsv.write_csv(without_formulas(table), str(temporary))
