"""Seeds: a number of them, or the seeds themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.errors import InputError


def read_seeds(seeds: Any) -> tuple[int, ...]:
    """A number of seeds, counted from 0, or the seeds themselves."""
    if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
        if seeds < 1:
            raise InputError(f"seeds must be 1 or more, got {seeds}.")
        return tuple(range(int(seeds)))
    found = tuple(seeds)
    if not all(isinstance(seed, (int, np.integer)) and seed >= 0 for seed in found):
        raise InputError(f"seeds must be whole numbers of 0 or more, got {seeds!r}.")
    return tuple(int(seed) for seed in found)
