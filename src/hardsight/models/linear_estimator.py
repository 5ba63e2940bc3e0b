"""A fitted scikit-learn classifier that ends in a linear layer, on images: alone, or last in a pipeline."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.errors import FileError, InputError, MissingExtra
from hardsight.fitted_estimator import FittedEstimator
from hardsight.head import Head
from hardsight.models.model import Model
from hardsight.models.preprocessing import flat_images, flat_preprocessing


class LinearEstimator(Model):
    """A scikit-learn classifier; images are flattened, and rows of numbers are taken as they are."""

    def __init__(self, estimator: Any, name: str, *, sha256: str | None = None) -> None:
        self.fitted = FittedEstimator(estimator)
        self.wanted = getattr(self.fitted.steps[0], "n_features_in_", None)
        super().__init__(name, flat_preprocessing(self.wanted), tuple(self.fitted.class_names))
        self._sha256 = sha256 or _arrays_sha256(self.fitted.steps)

    def fingerprint(self) -> dict[str, str]:
        """Kind, name and the hash of the fitted numbers, of their file where there is one."""
        return {"kind": "scikit-learn", "name": self.name, "sha256": self._sha256}

    def _find_head(self, batch: np.ndarray) -> Head:
        return self.fitted.head(self._run(batch)[0])

    def _run(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = flat_images(batch)
        if self.wanted is not None and rows.shape[1] != self.wanted:
            raise InputError(f"{self.name} was fitted on rows of {self.wanted} values, got images of shape {batch.shape[1:]}.")
        features = self.fitted.features(rows)
        return np.asarray(features, np.float32), np.asarray(self.fitted.decisions(features), np.float32)


def read_skops(path: Path) -> Any:
    """The estimator of a skops file, if it contains only types that skops trusts."""
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtra("a .skops file needs skops: pip install skops") from error
    try:
        untrusted = skops.io.get_untrusted_types(file=path)
        if not untrusted:
            return skops.io.load(path, trusted=[])
    except Exception as error:  # skops raises whatever the broken file leads it to
        raise FileError(f"{path} cannot be read as a skops file: {error}") from error
    raise InputError(
        f"{path} holds types that are not known to be safe: {', '.join(untrusted[:5])}. Nothing was loaded. "
        "Load it yourself with skops and pass the estimator in Python, if you trust it."
    )


def _arrays_sha256(steps: list[Any]) -> str:
    """One hash over every fitted array of every step."""
    digest = hashlib.sha256()
    for step in steps:
        for name, value in sorted(vars(step).items()):
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                digest.update(f"{type(step).__name__}.{name} {value.dtype} {value.shape}\n".encode())
                digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()
