"""Open-set detection: which label-free score distinguishes inputs of unseen classes from known ones?"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.errors import InputError
from hardsight.human.comparisons import Row
from hardsight.human.models import computable, has_logits
from hardsight.scores import SCORES
from hardsight.snapshot import Snapshot
from hardsight.stats.open_set import auroc

NAMES = ("avc_predicted", "predicted_confidence", "entropy", "max_logit", "norm")


def open_unseen(model: Snapshot, unseen: Any) -> Snapshot:
    """The snapshot of unseen classes, with rows as wide as those of the model."""
    if not has_logits(model):
        raise InputError(f"{model.name}: the open set needs its head: pass a run or a snapshot, not a table of scores.")
    other = unseen if isinstance(unseen, Snapshot) else Snapshot.load(unseen, head=model.head)
    if other.source.width != model.source.width:
        raise InputError(
            f"{other.name or 'unseen'}: its rows are {other.source.width} wide, those of {model.name} "
            f"{model.source.width}: extract both with the same model."
        )
    return other


def open_set(model: Snapshot, unseen: Any, level: float = 0.95) -> list[Row]:
    """AUROC of each label-free score: the probability that an unseen input looks harder than a known one."""
    other = open_unseen(model, unseen)
    unlabeled = Snapshot(**{other.source.evidence: other.in_memory().values}, head=model.head)
    names = computable(model, NAMES)
    seen, new = model.scores(names), unlabeled.scores(names)
    rows = []
    for name in names:
        known, unknown = (SCORES.harder(name, table.column(name).to_numpy()) for table in (seen, new))
        area = auroc(known[np.isfinite(known)], unknown[np.isfinite(unknown)], level)
        rows.append(
            {"model": model.name, "score": name, "auroc": area.value, "low": area.low, "high": area.high}
            | {"known": area.known, "unseen": area.unseen}
        )
    return rows
