"""A run of `make test` ends red and names the test, whatever happens to the process that runs it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENDINGS = {
    "kills itself": "import os, signal\ndef test_stops(): os.kill(os.getpid(), signal.SIGKILL)",
    "never returns from C": "import re\ndef test_stops(): re.match('(a+)+$', 'a' * 99 + 'b')",  # it holds Python's lock
    "fails and never ends": """
import pytest, time
@pytest.fixture
def slow():
    yield
    time.sleep(100)
def test_stops(slow): assert False
""",
    "kills itself beside a child": """
import os, signal, time
def test_stops():
    if os.fork() == 0:
        time.sleep(100)  # with a copy of every pipe
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
""",
}


def options() -> list[str]:
    """What the Makefile gives to pytest, for two workers."""
    found = re.search(r"^PYTEST := .* -m pytest (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1].replace("-n auto", "-n 2"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if "child" in name else []) for name in ENDINGS],  # xdist takes 20 seconds
)
def test_a_run_ends(tmp_path: Path, name: str) -> None:
    """The other worker has tests left, and the first has run some: xdist alone would begin the same test for ever."""
    (tmp_path / "test_first.py").write_text("def test_one(): pass\ndef test_two(): pass\n" + ENDINGS[name])
    (tmp_path / "test_second.py").write_text("import time\n" + "".join(f"def test_{k}(): time.sleep(.1)\n" for k in range(5)))
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-p", "conftest", *options()]
    command += ["-o", "faulthandler_timeout=2", "-o", f"cache_dir={tmp_path / 'cache'}", tmp_path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    started = time.monotonic()
    with (tmp_path / "said").open("wb") as said:  # a file, which ends with the run and not with the last who could write to it
        streams: dict[str, Any] = {"stdout": said, "stderr": said, "stdin": subprocess.DEVNULL}
        done = subprocess.run([str(word) for word in command], cwd=tmp_path, env=environment, timeout=100, **streams)
    words = (tmp_path / "said").read_text()
    assert done.returncode == 1 and time.monotonic() - started < 60, words
    assert re.search(r"Exit: worker 'gw\d+' crashed while running 'test_first.py::test_stops'", words), words
    assert name.startswith("kills") or 'test_first.py", line' in words  # where it stood


def test_every_test_has_a_limit(pytestconfig: pytest.Config) -> None:
    assert 0 < float(pytestconfig.getini("faulthandler_timeout")) and pytestconfig.getini("faulthandler_exit_on_timeout")
