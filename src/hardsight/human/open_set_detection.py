"""Open-set detection: which label-free score distinguishes inputs of unseen classes from known ones?"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.errors import InputError
from hardsight.human.comparisons import turned
from hardsight.human.models import ScoredModel
from hardsight.human.tables import Row
from hardsight.scores import SCORES
from hardsight.scoring.score import score
from hardsight.snapshot import Snapshot
from hardsight.stats.open_set import auroc

NAMES = ("avc_predicted", "predicted_confidence", "entropy", "max_logit", "norm")


def open_unseen(model: ScoredModel, unseen: Any) -> Snapshot:
    """The snapshot of unseen classes, with rows as wide as those of the model."""
    if model.snapshot is None:
        raise InputError(f"{model.name}: the open set needs its head: pass a run or a snapshot, not a table of scores.")
    other = unseen if isinstance(unseen, Snapshot) else Snapshot.load(unseen, head=model.snapshot.head)
    if other.source.width != model.snapshot.source.width:
        raise InputError(
            f"{other.name or 'unseen'}: its rows are {other.source.width} wide, those of {model.name} "
            f"{model.snapshot.source.width}: extract both with the same model."
        )
    return other


def open_set(model: ScoredModel, unseen: Any, level: float = 0.95) -> list[Row]:
    """AUROC of each label-free score: the probability that an unseen input looks harder than a known one."""
    other = open_unseen(model, unseen)
    assert model.snapshot is not None
    unlabeled = Snapshot(**{other.source.evidence: other.in_memory().values}, head=model.snapshot.head)
    names = [name for name in NAMES if model.has(name)]
    table = score(unlabeled, scores=names)
    rows = []
    for name in names:
        known, new = (turned(x[np.isfinite(x)], SCORES[name].hard) for x in (model.column(name), table.column(name).to_numpy()))
        area = auroc(-known, -new, level)
        rows.append(
            {"model": model.name, "score": name, "auroc": area.value, "low": area.low, "high": area.high}
            | {"known": area.known, "unseen": area.unseen}
        )
    return rows
