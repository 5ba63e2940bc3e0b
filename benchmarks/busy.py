"""`extract --busy`: a small network on small images, next to two busy loops and on an idle machine.

Each measurement is a separate process, because how threads wait is decided when a library is loaded. Next to busy loops the
limit is a single thread, which never waits. On an idle machine, threads that soon sleep must not be slower than spinning ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.timing import Measurement, compared

POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OPENBLAS_THREAD_TIMEOUT")  # how threads wait
LOOPS, IMAGES = 2, 600
BUSY_LIMIT, IDLE_LIMIT = 1.5, 1.03

SCRIPT = """
import sys, time
from hardsight.cli import limit_spinning
kind, path, output, images = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
if kind == "extract":
    limit_spinning()
import torch
import hardsight
from benchmarks.extract import BATCH, SMALL_NET, bare_loop
from hardsight.data import open_data
from hardsight.models import open_model
model, data = open_model(SMALL_NET), open_data(path).take(range(images))
if kind == "one thread":
    torch.set_num_threads(1)
bare_loop(model, data, stop=2)
start = time.perf_counter()
bare_loop(model, data) if kind == "one thread" else hardsight.extract(model, data, output, batch_size=BATCH)
print(time.perf_counter() - start)
"""


def beside_busy_loops(images: Path, folder: Path, rounds: int) -> list[Measurement]:
    """`extract` as run by the command, against one thread next to busy loops, and against spinning threads on an idle machine."""
    runs = count()

    def seconds(kind: str) -> float:
        words = [sys.executable, "-c", SCRIPT, kind, str(images), str(folder / f"busy {next(runs)}"), str(IMAGES)]
        chosen = {name: value for name, value in os.environ.items() if name not in POLICIES}
        return float(subprocess.run(words, capture_output=True, text=True, check=True, env=chosen).stdout)

    def compare(case: str, kinds: tuple[str, ...], turns: int, limit: float) -> list[Measurement]:
        work = {kind: partial(seconds, kind) for kind in kinds}
        return compared(case, work, turns, {"extract": limit}, seconds=lambda measure: float(measure()))

    with _busy_loops():
        beside = compare("beside two busy loops", ("one thread", "extract", "extract, spinning"), rounds, BUSY_LIMIT)
    return beside + compare("alone", ("extract, spinning", "extract"), 2 * rounds, IDLE_LIMIT)


@contextmanager
def _busy_loops() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
