"""Rows split into blocks, and blocks spread over cores."""

from __future__ import annotations

import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
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
    """An evenly spaced subsample of at most `limit` of n rows, starting with the first.

    Example:
        >>> even_rows(10, 4)
        array([0, 2, 5, 7])
    """
    k = n if limit is None else min(n, limit)
    return np.arange(k) * n // max(1, k)


def sample_rows(samples: SampleOptions, n: int) -> np.ndarray:
    """The rows of n selected by `first` and `limit`: an even subsample of the first ones."""
    return even_rows(n if samples.first is None else min(n, samples.first), samples.limit)


Block = TypeVar("Block")


def share(work: Callable[[Block], None], blocks: Iterable[Block], xp: ModuleType = np) -> None:
    """Run `work` on each block, using all cores.

    torch uses every core within each operation. NumPy's elementwise loops use one, so blocks are spread over threads, with
    BLAS limited to one core per thread. A single block is limited to one core as well: a product split over cores may round
    differently, and results would differ in the last bit between machines with different numbers of cores.
    """
    if xp is not np:
        warn_of_quota(xp.get_num_threads())
        for block in blocks:
            work(block)
        return
    todo = deque(blocks)
    helpers = min(num_threads(), len(todo)) - 1  # this thread works too: a waiting thread would wake up late

    def work_through() -> None:
        while todo:
            try:
                block = todo.popleft()
            except IndexError:  # another thread took the last one
                return
            work(block)

    with one_core_products(), ThreadPoolExecutor(max(1, helpers)) as pool:
        shared = [pool.submit(work_through) for _ in range(helpers)]
        try:
            work_through()
            for future in shared:
                future.result()
        finally:
            todo.clear()  # after an error, start no more blocks


@contextmanager
def thread_pool() -> Iterator[ThreadPoolExecutor]:
    """A pool with one thread per core, with BLAS limited to one core per thread while it is open."""
    with one_core_products(), ThreadPoolExecutor(num_threads()) as pool:
        yield pool


def decoders(workers: int) -> ThreadPoolExecutor:
    """Threads that decode images ahead of a network, which goes first where the cores are scarce: it waits for all of its own."""
    give_way = functools.partial(os.nice, 10) if sys.platform == "linux" else None  # there it is of the thread, not the process
    return ThreadPoolExecutor(workers, thread_name_prefix="decode", initializer=give_way)


def ahead(pool: ThreadPoolExecutor, work: Callable[[int], Any], order: Iterable[int], depth: int) -> Generator[Any, None, None]:
    """Results in order, with up to `depth` computed ahead."""
    rows = iter(order)
    under_way: deque[Future[Any]] = deque(pool.submit(work, row) for row in islice(rows, depth))
    try:
        while under_way:
            result = under_way.popleft().result()
            for row in islice(rows, 1):
                under_way.append(pool.submit(work, row))
            yield result
    finally:  # on an interrupt, do not wait for tasks that have not started
        for future in under_way:
            future.cancel()


def one_core_products() -> Any:
    """NumPy's matrix products on one core: more BLAS threads would wait for work on the cores that networks and decoders need."""
    return _blas().limit(limits=1, user_api="blas")


def num_workers(xp: ModuleType) -> int:
    """Number of blocks processed in parallel."""
    return num_threads() if xp is np else 1


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """One thread for torch: small networks gain nothing from more, and sums then do not depend on the number of cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def num_threads() -> int:
    """Number of cores this process can keep busy; OMP_NUM_THREADS lowers it, as it does for BLAS."""
    cores = available()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


@functools.cache
def _blas() -> ThreadpoolController:
    """Cached, because searching for the libraries takes 10 ms."""
    return ThreadpoolController()


def like(index: np.ndarray, x: Any) -> Any:
    """An index array for x: a tensor on x's device, or the array itself."""
    return namespace(x).as_tensor(index, device=x.device) if is_tensor(x) else index


def take(x: Any, rows: Any) -> Any:
    """Some rows of an array or tensor, by slice or index array."""
    return x[rows] if isinstance(rows, slice) else x[like(rows, x)]
