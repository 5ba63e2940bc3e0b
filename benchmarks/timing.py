"""Measurement and reporting for every benchmark: interleaved rounds, and ratios to a baseline of the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from hardsight.threads import num_threads
from hardsight.version import VERSION

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
    baseline: str,
    limits: dict[str, float],
    seconds: Callable[[Callable[[], Any]], float] | None = None,
) -> list[Measurement]:
    """One measurement per function; the baseline's ratio is 1.

    All functions take turns in each round, and a ratio is the median over rounds: a machine whose speed varies affects both
    sides equally. Rounds are added while a limit lies within the 95 % interval of a median, on either side: on a shared
    machine the same product may take 24 ms, and 36 ms a minute later.

    Args:
        case: name of the comparison.
        work: functions by name.
        rounds: minimum number of rounds.
        baseline: name of the function that others are compared with.
        limits: upper limits of ratios, by name.
        seconds: how to time a function in one turn. Default: its fastest call.
    """
    from hardsight.screen import progress_bar

    seconds = seconds or _one_turn
    times: dict[str, list[float]] = {name: [] for name in work}
    most = LONGEST * rounds
    with progress_bar(case) as progress:
        for done in range(most):
            if done >= rounds and not _undecided(times, baseline, limits):
                break
            for turn, (name, function) in enumerate(work.items()):
                progress(done * len(work) + turn, max(rounds, done + 1) * len(work), f"{case}: {name}")
                times[name].append(seconds(function))
    return ratios_to(baseline, case, times, limits)


def _undecided(times: dict[str, list[float]], baseline: str, limits: dict[str, float]) -> bool:
    """Whether a limit lies within the interval of the median of its ratios."""
    return any(low <= limits[name] <= high for name in limits for low, high in [_median_interval(times[name], times[baseline])])


def _median_interval(times: list[float], baseline: list[float]) -> tuple[float, float]:
    """95 % interval of the median ratio from the sorted ratios of the rounds (sign test); the full range for few rounds."""
    ratios = sorted(_ratios(times, baseline))
    outside = max(0, int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5))
    return ratios[outside], ratios[-1 - outside]


def ratios_to(baseline: str, case: str, times: dict[str, list[float]], limits: dict[str, float]) -> list[Measurement]:
    """One measurement per function from its seconds in each round: the best time, and the median of the ratios."""
    return [
        Measurement(case, name, min(seconds) * 1e3, "ms", _median_ratio(seconds, times[baseline]), limits.get(name))
        for name, seconds in times.items()
    ]


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


def _median_ratio(times: list[float], baseline: list[float]) -> float:
    return statistics.median(_ratios(times, baseline))


def _ratios(times: list[float], baseline: list[float]) -> list[float]:
    return [time / base for time, base in zip(times, baseline, strict=True)]


def extra_memory(function: Callable[[], object]) -> float | None:
    """Increase of peak resident memory in MB, or None if the system does not report it."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None

    def kilobytes(name: str) -> int:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name))

    reset.write_text("5")  # resets the peak
    before = kilobytes("VmRSS")
    function()
    return (kilobytes("VmHWM") - before) / 1024


def in_fresh_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function in a separate process: memory freed by an earlier one would hide what it allocates."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(function, *arguments).result()


def report(measurements: list[Measurement]) -> None:
    """Print a table with the limits and a verdict."""
    from hardsight.screen import Cell, number, print_line, print_table

    verdict = {True: "yes", False: "NO", None: ""}
    rows = [
        (
            m.case,
            m.what,
            Cell(f"{number(m.value)} {m.unit}", {"": m.value, "unit": m.unit}),
            number(m.ratio),
            number(m.limit),
            Cell(verdict[m.within], m.within),
        )
        for m in measurements
    ]
    header = ("case", "what", Cell("best", "value"), "ratio", "limit", "within")
    print_table(header, rows, title=f"{num_threads()} threads", words=2, name="measurements")
    over = [m for m in measurements if m.within is False]
    limits = sum(m.limit is not None for m in measurements)
    lines = [asdict(m) | {"within": m.within} for m in measurements]
    document = {"version": VERSION, "threads": num_threads(), "measurements": lines}
    print_line(f"within all limits ({limits})" if not over else f"over {len(over)} of {limits} limits:", **document)
    for m in over:
        print_line(f"  {m.case}, {m.what}: {number(m.value if m.ratio is None else m.ratio)}, limit {number(m.limit)}")
