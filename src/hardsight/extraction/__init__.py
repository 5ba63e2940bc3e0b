"""Extraction: images and a model in, a snapshot out. Data loaders are accepted too.

    extracting.py    `extract`: decoding ahead, a part at a time, resumed where it was interrupted
    passes.py        the same images again: mirrored, or with dropout left on
    loader.py        batches that are ready for the model
    settings.py      the options of `hardsight extract`

Names load when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["extract"]

if TYPE_CHECKING:
    from hardsight.extraction.extracting import extract


def __getattr__(name: str) -> Any:
    if name != "extract":
        raise AttributeError(f"module 'hardsight.extraction' has no attribute {name!r}")
    from hardsight.extraction.extracting import extract

    return extract
