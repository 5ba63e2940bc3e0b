"""How many cores this process may use, how its idle threads wait, and which instructions torch may use: decided before any
library is loaded.

Idle threads of torch and OpenBLAS spin while they wait. On a busy machine, or in a container with a CPU quota, a spinning
thread takes the time that the others need, and a run can take ten times as long.
"""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

# How long OpenBLAS's idle threads spin: log2 of clock cycles. Its default, 2^28, is a tenth of a second.
SPIN = "14"
# How many iterations torch's idle threads spin before they sleep (default: 300,000): enough to cover the gaps between the
# operations of a network, so that nothing is lost on an idle machine, and too few to hold a core that another process needs.
TURNS = "20000"
POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # if any is set, the user has chosen how threads wait


def limit_spinning() -> None:
    """Set defaults for the command line before NumPy or torch is loaded; the user's own settings win."""
    if not any(name in os.environ for name in POLICIES):
        os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": TURNS}  # GNU's OpenMP reads the second, others the first
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", SPIN)
    if available() < allowed():  # libraries respect the affinity but not the quota
        os.environ.setdefault("OMP_NUM_THREADS", str(available()))


# What oneDNN, torch's library for convolutions, may use of the CPU; it reads the first of these that is set.
ISA = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
WITHOUT_AMX = "AVX512_CORE_BF16"


def avoid_amx() -> None:
    """Set a default for the command line before torch is loaded: with AMX, training in bfloat16 can end the process."""
    if needs_limit(cpu_flags(), os.environ):
        os.environ[ISA[0]] = WITHOUT_AMX


def warn_of_amx() -> None:
    """Warn whoever is about to train in bfloat16 on a CPU with AMX; torch is loaded, so nothing can be changed."""
    if needs_limit(cpu_flags(), os.environ):
        warnings.warn(
            f"on a CPU with AMX, training in bfloat16 can end the process (illegal instruction): set {ISA[0]}={WITHOUT_AMX} "
            "before Python starts.",
            stacklevel=2,  # one place, so that it is said once
        )


def needs_limit(flags: str, environment: Mapping[str, str]) -> bool:
    """Whether a CPU with these flags needs a limit that the environment does not have.

    Example:
        >>> needs_limit("avx512_bf16 amx_bf16 amx_tile", {})
        True
    """
    return any(flag.startswith("amx") for flag in flags.split()) and not any(name in environment for name in ISA)


def cpu_flags(info: Path = Path("/proc/cpuinfo")) -> str:
    """The flags of the first core; other systems than Linux name none."""
    try:
        with info.open() as lines:
            return next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    except OSError:
        return ""


def available() -> int:
    """Number of cores this process can keep busy: those it may run on, or its CPU quota if that is smaller."""
    share = _granted()
    return allowed() if share is None else min(allowed(), max(1, math.ceil(share)))


def allowed() -> int:
    """Number of cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(process: Path = Path("/proc/self/cgroup"), system: Path = Path("/sys/fs/cgroup")) -> float | None:
    """CPU quota of this process's control groups, in cores; None without a limit."""
    try:
        groups = [line.split(":", 2) for line in process.read_text().splitlines()]
    except OSError:
        return None
    shares: list[float] = []
    for _, controllers, name in (group for group in groups if len(group) == 3):
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = system / controllers if controllers else system  # version 2 has a single tree, without controllers
        inside = root / name.strip("/")
        for folder in {root, inside, *(parent for parent in inside.parents if root in parent.parents)}:
            share = _share(folder)
            if share is not None:
                shares.append(share)
    return min(shares, default=None)


@functools.cache
def _granted() -> float | None:
    """Cached, because it is read from a dozen files."""
    return quota()


def _share(folder: Path) -> float | None:
    """Quota over period of one control group, in the format of either version."""
    try:
        if (folder / "cpu.max").exists():
            limit, period = (folder / "cpu.max").read_text().split()
        else:
            limit, period = ((folder / f"cpu.cfs_{word}_us").read_text().strip() for word in ("quota", "period"))
        return None if limit in ("max", "-1") else float(limit) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


_said: list[int] = []


def warn_of_quota(threads: int) -> None:
    """Warn once if a library runs more threads than the quota can keep busy; nothing is changed."""
    if not _said and threads > available() and available() < allowed():
        _said.append(threads)
        warnings.warn(
            f"{threads} threads share a CPU quota of {_granted():.2g} cores and will slow each other down: set "
            f"OMP_NUM_THREADS={available()}, or call torch.set_num_threads({available()}).",
            stacklevel=3,
        )
