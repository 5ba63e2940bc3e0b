"""Extraction: images and a model in, a snapshot out. Loaders of the user's own go the same way.

extracting.py    `extract`: decoding ahead, a part at a time, resumed where it was interrupted
loader.py        batches that are ready for the model
"""

from hardsight.extraction.extracting import extract

__all__ = ["extract"]
