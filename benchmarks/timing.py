"""Measurement and reporting for every benchmark: interleaved rounds, and ratios to a baseline of the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import hardsight
from hardsight.screen import number, print_line, print_table, progress_bar

Result = TypeVar("Result")

REST = 0.25  # seconds before each turn: BLAS threads spin for over a tenth of a second
TURN = 0.3  # seconds to repeat short work: the first call after a rest has cold caches and sleeping threads
LONGEST = 4  # multiple of the requested rounds, if a ratio is too close to its limit to decide


@dataclass(frozen=True)
class Measurement:
    """One line of a benchmark: what, on which case, its time or size, and its ratio to the baseline."""

    case: str
    what: str
    value: float
    unit: str
    ratio: float | None = None  # to the baseline of the same case
    limit: float | None = None  # upper limit of the ratio, or else of the value

    @property
    def within(self) -> bool | None:
        """Whether it is within its limit; None without a limit."""
        measured = self.value if self.ratio is None else self.ratio
        return None if self.limit is None else measured <= self.limit


def compared(
    case: str,
    work: Mapping[str, Callable[[], Any]],
    rounds: int,
    limits: Mapping[str, float] | None = None,
    seconds: Callable[[Callable[[], Any]], float] | None = None,
    warm: bool = False,
) -> list[Measurement]:
    """One measurement per function; the first is the baseline of the ratios.

    All functions take turns in each round, and a ratio is the median over rounds: a machine whose speed varies affects both
    sides equally. Rounds are added while a limit lies within the 95 % interval of a median, on either side: on a shared
    machine the same product may take 24 ms, and 36 ms a minute later.

    Args:
        case: name of the comparison.
        work: functions by name.
        rounds: minimum number of rounds.
        limits: upper limits of ratios, by name.
        seconds: how to time a function in one turn. Default: its fastest call.
        warm: call every function once before the first round.
    """
    seconds, limits = seconds or _one_turn, limits or {}
    times: dict[str, list[float]] = {name: [] for name in work}
    for function in work.values() if warm else ():
        function()
    with progress_bar(case) as progress:
        for done in range(LONGEST * rounds):
            if done >= rounds and not _undecided(times, limits):
                break
            for turn, (name, function) in enumerate(work.items()):
                progress(done * len(work) + turn, max(rounds, done + 1) * len(work), f"{case}: {name}")
                times[name].append(seconds(function))
    medians = {name: statistics.median(ratios) for name, ratios in _ratios(times).items()}
    return [Measurement(case, name, 1e3 * min(times[name]), "ms", medians[name], limits.get(name)) for name in work]


def _ratios(times: dict[str, list[float]]) -> dict[str, list[float]]:
    """The sorted ratios to the first function, by name."""
    baseline = next(iter(times.values()))
    return {name: sorted(a / b for a, b in zip(taken, baseline, strict=True)) for name, taken in times.items()}


def _undecided(times: dict[str, list[float]], limits: Mapping[str, float]) -> bool:
    """Whether a limit lies within the 95 % interval of the median of its ratios (sign test); the full range for few rounds."""
    ratios, rounds = _ratios(times), len(next(iter(times.values())))
    outside = max(0, int(rounds / 2 - 0.98 * rounds**0.5))
    return any(ratios[name][outside] <= limit <= ratios[name][-1 - outside] for name, limit in limits.items())


def _one_turn(function: Callable[[], object]) -> float:
    """Seconds of the fastest call."""
    time.sleep(REST)
    begun = end = time.perf_counter()
    best = float("inf")
    while end - begun < TURN:
        start = time.perf_counter()
        function()
        end = time.perf_counter()
        best = min(best, end - start)
    return best


def peak_memory(process: int | str = "self", what: str = "VmHWM") -> float | None:
    """Peak resident memory of a process in MB, or None if the system does not report it."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return None
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(what)) / 1024


def extra_memory(function: Callable[[], object]) -> float | None:
    """Increase of peak resident memory in MB, or None if the system does not report it."""
    reset, before = Path("/proc/self/clear_refs"), peak_memory(what="VmRSS")
    if not reset.exists() or before is None:
        return None
    reset.write_text("5")  # resets the peak
    function()
    return (peak_memory() or 0.0) - before


def in_fresh_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function in a separate process: memory freed by an earlier one would hide what it allocates."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(function, *arguments).result()


def blockwise_product(x: np.ndarray, side: int = 2048) -> None:
    """x @ x.T in blocks that are discarded, a block per thread: a product split over threads takes longer."""
    memory = [np.empty((side, side), x.dtype) for _ in range(num_threads())]

    def multiply(corner: tuple[int, int]) -> None:
        rows, columns = (x[start : start + side] for start in corner)
        block = memory.pop()
        np.matmul(rows, columns.T, out=block[: len(rows), : len(columns)])
        memory.append(block)

    starts = range(0, len(x), side)
    with ThreadPoolExecutor(num_threads()) as pool, threadpool_limits(1, "blas"):
        list(pool.map(multiply, product(starts, starts)))


def num_threads() -> int:
    """Threads of a matrix product."""
    return max(pool["num_threads"] for pool in threadpool_info())


def report(measurements: list[Measurement]) -> dict[str, Any]:
    """Print a table with the limits and a verdict; returns everything for JSON."""
    verdict = {True: "yes", False: "NO", None: ""}
    rows = [
        (m.case, m.what, f"{number(m.value)} {m.unit}", number(m.ratio), number(m.limit), verdict[m.within]) for m in measurements
    ]
    print_table(("case", "what", "best", "ratio", "limit", "within"), rows, title=f"{num_threads()} threads", words=2)
    over = [m for m in measurements if m.within is False]
    limits = sum(m.limit is not None for m in measurements)
    print_line(f"within all limits ({limits})" if not over else f"over {len(over)} of {limits} limits:")
    for m in over:
        print_line(f"  {m.case}, {m.what}: {number(m.value if m.ratio is None else m.ratio)}, limit {number(m.limit)}")
    lines = [asdict(m) | {"within": m.within} for m in measurements]
    return {"version": hardsight.__version__, "threads": num_threads(), "measurements": lines}
