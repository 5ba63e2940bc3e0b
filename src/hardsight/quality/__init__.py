"""What is wrong with the data: wrong labels, duplicates, outliers, and the labels after a review.

    suspects.py        `clean`: the table of suspects; settings.py has its options
    evidence.py        what there is to go by: epochs of a training, out-of-sample probabilities, a head
    ranking.py         how likely each label is wrong; noise.py: which class is labeled as which other
    error_model.py     how likely each label is wrong, and how many are
    neighbourhood.py   outliers, from features alone, and what neighbours' labels say
    verdicts.py        one verdict per sample, in plain words
    folds.py           predictions of models that have not seen the sample: heads on features; fold_models.py: whole networks
    applying.py        a person's marks applied to the labels
    to_file.py         what `hardsight clean` does

Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "apply_review": "hardsight.quality.applying",
    "clean": "hardsight.quality.suspects",
    "clean_to_file": "hardsight.quality.to_file",
    "out_of_sample": "hardsight.quality.folds",
}

__all__ = ["apply_review", "clean", "clean_to_file", "out_of_sample"]

if TYPE_CHECKING:
    from hardsight.quality.applying import apply_review
    from hardsight.quality.folds import out_of_sample
    from hardsight.quality.suspects import clean
    from hardsight.quality.to_file import clean_to_file


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.quality' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
