"""Rows in blocks, and blocks over cores."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from hardsight.checks import is_tensor, namespace
from hardsight.cores import available, warn_of_quota
from hardsight.options import SampleOptions


def blocks(n: int, rows: int) -> Iterator[slice]:
    """Slices that cover n rows, of at most `rows` rows each."""
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def even_rows(n: int, limit: int | None) -> np.ndarray:
    """A subsample of rows at even distances, the first included: at most `limit` of n.

    Example:
        >>> even_rows(10, 4)
        array([0, 2, 5, 7])
    """
    k = n if limit is None else min(n, limit)
    return np.arange(k) * n // max(1, k)


def sample_rows(samples: SampleOptions, n: int) -> np.ndarray:
    """The rows of n that `first` and `limit` leave: of the first ones, an even subsample."""
    return even_rows(n if samples.first is None else min(n, samples.first), samples.limit)


Block = TypeVar("Block")


def share(work: Callable[[Block], None], blocks: Iterable[Block], xp: ModuleType = np) -> None:
    """Do the work on each block.

    torch uses every core inside each operation. NumPy's elementwise loops use one, so blocks go to threads, and
    the matrix product is held to one core per thread meanwhile. A single block is held to one core as well: a product
    shared over cores may round otherwise, and machines with other numbers of cores would differ in the last bit.
    """
    if xp is not np:
        warn_of_quota(xp.get_num_threads())
        for block in blocks:
            work(block)
        return
    todo = deque(blocks)
    helpers = min(num_threads(), len(todo)) - 1  # this thread works as well: one that waits would wake up late

    def work_through() -> None:
        while todo:
            try:
                block = todo.popleft()
            except IndexError:  # another thread took the last one
                return
            work(block)

    with _one_core_products(), ThreadPoolExecutor(max(1, helpers)) as pool:
        shared = [pool.submit(work_through) for _ in range(helpers)]
        try:
            work_through()
            for future in shared:
                future.result()
        finally:
            todo.clear()  # after an error nothing more is begun


@contextmanager
def thread_pool() -> Iterator[ThreadPoolExecutor]:
    """A thread per core, with the matrix product held to one core per thread meanwhile."""
    with _one_core_products(), ThreadPoolExecutor(num_threads()) as pool:
        yield pool


def _one_core_products() -> Any:
    return _blas().limit(limits=1, user_api="blas")


def num_workers(xp: ModuleType) -> int:
    """Blocks that are worked on at once."""
    return num_threads() if xp is np else 1


def num_threads() -> int:
    """Cores this process can keep busy; OMP_NUM_THREADS lowers it, as it does for the matrix product."""
    cores = available()
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


@functools.cache
def _blas() -> ThreadpoolController:
    """Made once: looking for the libraries takes 10 ms."""
    return ThreadpoolController()


def like(index: np.ndarray, x: Any) -> Any:
    """An index array as x takes it: a tensor on its device, or the array itself."""
    return namespace(x).as_tensor(index, device=x.device) if is_tensor(x) else index


def take(x: Any, rows: Any) -> Any:
    """Some rows of an array or tensor, by slice or index array."""
    return x[rows] if isinstance(rows, slice) else x[like(rows, x)]
