"""Pairs and triplets of samples that are hard by their angles.

    mining.py           `mine`: hard and semi-hard triplets of a snapshot; settings.py has its options
    approximate.py      nearest samples of other classes by an index of usearch or faiss, and its recall
    to_file.py          what `hardsight mine` does
    metric_learning.py  the same in a batch, as a miner for pytorch-metric-learning

Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "AngleMiner": "hardsight.subsets.pairs.metric_learning",
    "Mined": "hardsight.subsets.pairs.mining",
    "mine": "hardsight.subsets.pairs.mining",
    "mine_to_file": "hardsight.subsets.pairs.to_file",
}

__all__ = ["AngleMiner", "Mined", "mine", "mine_to_file"]

if TYPE_CHECKING:
    from hardsight.subsets.pairs.metric_learning import AngleMiner
    from hardsight.subsets.pairs.mining import Mined, mine
    from hardsight.subsets.pairs.to_file import mine_to_file


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.subsets.pairs' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
