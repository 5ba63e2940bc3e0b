"""Where HARDSIGHT_NO_SKIPS is set, a skipped test fails the run: there, every extra is installed.

Data that is not part of the project may be missing, and a system may lack what a test is about.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

ALLOWED = ("HARDSIGHT_DATA", "Unix", "this system", "make nightly")  # words of a reason that stays allowed


def forbidden(config: Any) -> Iterator[str]:
    """The tests that were skipped and should not have been, each with its reason."""
    if os.environ.get("HARDSIGHT_NO_SKIPS"):
        for report in config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", []):
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
            if not any(word in reason for word in ALLOWED):
                yield f"{report.nodeid}: {reason}"


def pytest_sessionfinish(session: Any) -> None:
    if next(forbidden(session.config), None) and session.exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if lines := sorted(set(forbidden(terminalreporter.config))):
        terminalreporter.section("skipped, and HARDSIGHT_NO_SKIPS forbids it", red=True)
        for line in lines:
            terminalreporter.write_line(line)
