"""Acting on what is known of every sample: which labels are wrong, what to look at, and the labels after a review.

    suspects.py        `clean`: the table of suspects; settings.py has its options
    evidence.py        what there is to go by: epochs of a training, out-of-sample probabilities, a head
    ranking.py         how likely each label is wrong; noise.py: which class is labeled as which other
    error_model.py     how likely each label is wrong, and how many are
    neighbourhood.py   outliers, from features alone, and what neighbours' labels say
    verdicts.py        one verdict per sample, in plain words
    folds.py           predictions of models that have not seen the sample: heads on features; fold_models.py: whole networks
    applying.py        a person's marks applied to the labels
    to_file.py         what `hardsight clean` does
    groups/            `audit` and `drift`: for whom the model is worse, and what got harder
    subsets/           `select` and `curriculum`: which samples to train on or to label next, and in which order
    pairs/             hard triplets and pairs by angle: `mine`

Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "apply_review": "hardsight.act.applying",
    "audit": "hardsight.act.groups.auditing",
    "clean": "hardsight.act.suspects",
    "clean_to_file": "hardsight.act.to_file",
    "curriculum": "hardsight.act.subsets.lessons",
    "drift": "hardsight.act.groups.drifting",
    "mine": "hardsight.act.pairs.mining",
    "out_of_sample": "hardsight.act.folds",
    "select": "hardsight.act.subsets.choosing",
}

__all__ = ["apply_review", "audit", "clean", "clean_to_file", "curriculum", "drift", "mine", "out_of_sample", "select"]

if TYPE_CHECKING:
    from hardsight.act.applying import apply_review
    from hardsight.act.folds import out_of_sample
    from hardsight.act.groups.auditing import audit
    from hardsight.act.groups.drifting import drift
    from hardsight.act.pairs.mining import mine
    from hardsight.act.subsets.choosing import select
    from hardsight.act.subsets.lessons import curriculum
    from hardsight.act.suspects import clean
    from hardsight.act.to_file import clean_to_file


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.act' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
