"""Shared by all tests: fixed seeds, and the command line as a function."""

from __future__ import annotations

import functools
import gc
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from hypothesis import settings

import properties  # noqa: F401  (registers the profiles)
import undrawn as figures
from ending import pytest_handlecrashitem, pytest_runtest_teardown, pytest_testnodeready  # noqa: F401  (hooks)
from hardsight.cli import main
from hardsight.cores import avoid_amx
from skips import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401  (hooks)

settings.load_profile("test")  # pytest --hypothesis-profile=nightly overrides it

avoid_amx()  # as the command does, before a test loads torch

# No file of a test must outlive a power cut, and waiting for the disk takes some milliseconds each time, twice for every file.
# That files are flushed before they get their name, test_bad_output.py sees: what a flush refuses, the command refuses.
os.fsync = lambda fd: None

# The tests run hundreds of commands in a process, and each time all of them would be built from their functions' signatures.
typer.main.get_command = functools.cache(typer.main.get_command)

# What the imports of all tests make stays to the end: looking for garbage among it took a sixteenth of the run's time.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is collected as usual, but for what was there before."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # large tables of small objects are made and dropped all the time
    gc.enable()


LONGEST = """
    check demo docs every_door explorer_page training_resume training bad_output score_laws cluster explorer_review extract_real
    places explorer_filters cli_correlate extract_resume generalize adapt_run verify models_onnx explorer_adapt
    agreement_tables agreement_targets damaged agreement_joins refused_early stats_coefficients tutorials bad_arrays
    dynamics_curves explorer_security cifar docstrings training_teacher models_cifar models_opening protocols bad_files
    explorer_parts dynamics_callbacks adapt_report adapt_resume exports extract
""".split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no core is left with one of them at the end."""
    order = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))  # stable: otherwise as collected


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """A test that draws from a global generator draws the same numbers alone and after any other test."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)  # torch.manual_seed also prepares for GPUs, which takes longer than many a test


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """`cli("score", path, ...)` runs the entry point of the `hardsight` script in this process."""

    def run(*words: object) -> Finished:
        monkeypatch.setattr(sys, "argv", ["hardsight", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
            sys.exit(0)
        out, err = capsys.readouterr()
        return Finished(int(end.value.code or 0), out, err)

    return run


@pytest.fixture
def fresh_python() -> Callable[..., Finished]:
    """`fresh_python(code)` runs a few lines in a Python of their own, with warnings shown but not raised."""

    def run(code: str, *words: object, **environment: str) -> Finished:
        command = [sys.executable, "-c", code, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def in_fiftyone(tmp_path: Path) -> Callable[..., str]:
    """`in_fiftyone(code, *words)` runs a few lines in a Python that has FiftyOne, and gives what they print."""
    python = os.environ.get("FIFTYONE_PYTHON") or shutil.which(".venv-fiftyone/bin/python")  # make nightly installs it there
    if python is None:
        pytest.skip("needs FiftyOne: make nightly, or FIFTYONE_PYTHON=a Python that has it")
    quiet = {"HOME": str(tmp_path), "FIFTYONE_DO_NOT_TRACK": "true", "FIFTYONE_DATABASE_VALIDATION": "false"}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(code: str, *words: object) -> str:
        done = subprocess.run([python, "-c", code, *map(str, words)], capture_output=True, text=True, env=inherited | quiet)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """`killed(Loop, "step", at=(3, 8))`: from now on the third and the eighth call are interrupted, as Ctrl-C would do it.

    Returns a list that grows by each call, interrupted or not.
    """

    def patch(owner: Any, name: str, at: Collection[int]) -> list[int]:
        real, calls = getattr(owner, name), list[int]()

        def counted(*args: Any, **options: Any) -> Any:
            calls.append(len(calls) + 1)
            if calls[-1] in at:
                raise KeyboardInterrupt
            return real(*args, **options)

        monkeypatch.setattr(owner, name, counted)
        return calls

    return patch


@pytest.fixture(scope="session")
def correlations() -> Any:
    """How well a model agrees with people on the samples of agreement_data.py."""
    from agreement_data import COUNTS, FEW, SNAPSHOT
    from hardsight import correlate

    return correlate(SNAPSHOT, COUNTS, **FEW)


@pytest.fixture
def undrawn() -> Iterator[None]:
    """No figure is drawn in this test; see undrawn.py."""
    with figures.undrawn():
        yield


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A real browser, one per file: while Playwright runs, its thread has an event loop that other tests must not meet."""
    from explorer_browser import browser, needed

    needed()
    with browser() as opened:
        yield opened


@pytest.fixture
def watched(chromium: Any) -> Iterator[Any]:
    """A fresh page of the browser, which must not have done anything wrong by the end."""
    from explorer_browser import Watched

    context = chromium.new_context(viewport={"width": 1280, "height": 860}, color_scheme="light")
    page = Watched(context.new_page())
    yield page
    page.check()
    context.close()
