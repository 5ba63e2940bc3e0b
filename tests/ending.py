"""A run of the tests always ends, and names the test that stopped it: one that never returns, or one that killed its process.

Each test has `faulthandler_timeout` seconds (pyproject.toml). Python's watchdog then prints where every thread stands and ends
the process. It is no thread of Python's, so it also ends a loop in C that never lets go of the interpreter.
"""

from __future__ import annotations

import faulthandler
import threading
import time
from typing import Any, NoReturn

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

GRACE = 5.0  # seconds that the last words of a worker take at most


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What follows a test has a limit of its own: pytest drops that of a test that fails."""
    if limit := float(item.config.getini("faulthandler_timeout")):
        faulthandler.dump_traceback_later(limit, exit=True, file=item.config.stash[fault_handler_stderr_fd_key])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: Any) -> None:
    """Watch a worker's process: xdist waits for the end of a pipe, which processes that the worker has forked keep open."""
    from xdist.workermanage import Marker

    def watch() -> None:
        node.gateway._io.wait()
        time.sleep(GRACE)
        node.process_from_remote(Marker.END)  # nothing, if the worker said that it had finished

    threading.Thread(target=watch, daemon=True).start()


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> NoReturn:
    """A lost worker ends the run: xdist would start another for the same test, and can wait for it for ever."""
    pytest.exit(str(report.longrepr), returncode=1)
