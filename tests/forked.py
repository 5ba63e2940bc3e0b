"""Processes of their own that start at once: each is forked from one that has loaded what they need.

For tests that kill a run: a fresh Python would load NumPy, scikit-learn and Arrow for a second or two before its work begins.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from dataclasses import dataclass
from typing import Any

LOADED = ("sklearn.linear_model", "pyarrow.parquet", "PIL.PngImagePlugin", "hardsight.extraction.extract", "hardsight.models")


@dataclass(frozen=True)
class Forked:
    """A running script."""

    process: Any
    output: Any  # the end of a pipe that holds what it says

    def running(self) -> bool:
        return bool(self.process.is_alive())

    def kill(self) -> None:
        self.process.kill()

    def ended(self) -> tuple[int, str]:
        """The exit code, negative for a signal, and what it said on both streams."""
        said = b""
        while more := os.read(self.output.fileno(), 65536):
            said += more
        self.process.join(60)
        self.output.close()
        return int(self.process.exitcode), said.decode()


def started(code: str, *words: object) -> Forked:
    """Run a script, with these words in sys.argv."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))  # heeded by the first start
    output, say = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(code, [*map(str, words)], say), daemon=True)
    process.start()
    say.close()
    return Forked(process, output)


def _run(code: str, words: list[str], say: Any) -> None:
    for stream in (1, 2):
        os.dup2(say.fileno(), stream)
    say.close()
    sys.argv = ["-c", *words]
    exec(compile(code, "<script>", "exec"), {"__name__": "__main__"})
