"""A cache of arrays with a limit in bytes: the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

import numpy as np


class ArrayCache:
    """`cache(key, read)` returns the cached array of a key, or calls `read` and caches what it returns."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._lock = Lock()

    def __call__(self, key: Hashable, read: Callable[[], np.ndarray]) -> np.ndarray:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = read()
                while sum(array.nbytes for array in self._kept.values()) > self.most_bytes and len(self._kept) > 1:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]
