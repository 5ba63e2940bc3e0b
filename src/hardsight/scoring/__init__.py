"""Scoring: a snapshot in, a table of scores out.

    job.py           `score` and the job behind it: which scores, which rows, one or two passes
    to_file.py       `score_to_file`: what `hardsight score` does; settings.py has its options
    hardness.py      one score of every sample with its hard end up, from a run, a snapshot or a table
    fitted_head.py   a head fitted by cross-validation where there is none
    cluster.py       the same on a Dask cluster
    beside.py        what some scores look at beside the snapshot: a reference, other models, images
    one_scale.py     two models on the same samples: compared by value, or by rank
    several_models.py, layers.py, checkpoints.py   what three scores take from there and from the run
    pictures.py      pictures of the samples, for a table shown in a notebook

Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {"score": "hardsight.scoring.job", "score_to_file": "hardsight.scoring.to_file"}

__all__ = ["score", "score_to_file"]

if TYPE_CHECKING:
    from hardsight.scoring.job import score
    from hardsight.scoring.to_file import score_to_file


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.scoring' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
