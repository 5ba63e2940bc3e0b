"""Around a comparison over domains: what is refused before anything slow, and a run directory that one process writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from hardsight.domains.settings import DomainOptions
from hardsight.errors import require_installed
from hardsight.files.run import Run, check_run_directory
from hardsight.models.network_names import check_network_name
from hardsight.models.weights import check_weights_file


class DomainComparison(Protocol):
    """What is compared, as a run directory needs to know it: the `Work` of adapt and of generalize."""

    @property
    def say(self) -> Callable[[str], None]:
        """Takes sentences for the user."""

    def arguments(self) -> dict[str, Any]:
        """What the result depends on."""

    def fingerprints(self) -> dict[str, Any]:
        """Of everything that is read."""


def refuse_early(settings: DomainOptions, output: str | os.PathLike[str], command: str) -> None:
    """Say what is missing or wrong before data is opened, and before torch, which takes seconds, is loaded."""
    require_installed("torch", extra="torch", purpose=command)
    check_network_name(settings.model)
    check_weights_file(settings.weights)
    check_run_directory(output, command)


def write_run(
    output: str | os.PathLike[str],
    command: str,
    work: DomainComparison,
    compare: Callable[[Run, bool], None],
) -> None:
    """Do the work in its run directory: from where it was interrupted, or not at all if it is complete.

    Args:
        output: the directory.
        command: such as `hardsight adapt`.
        compare: does the work; the second argument is whether this process is the one that finishes the run.
    """
    from hardsight.dynamics.gathering import num_processes
    from hardsight.training.processes import one_writes

    arguments = {**work.arguments(), "processes": num_processes()}
    with one_writes() as writes:
        run = Run(Path(output), command, arguments, work.fingerprints())
        if run.complete:
            work.say(f"{output} is complete already")
            return
        with run.only_writer():
            compare(run, writes)
