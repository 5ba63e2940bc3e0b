"""A real JupyterLab for tests: a server in a process of its own, a notebook written for it, a browser in front of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from explorer_browser import OTHER_HOST

TOKEN, PREFIX = "lab-of-a-test", "/hub/user/somebody/"
PATIENCE = 60_000  # milliseconds, on a busy machine


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook of code cells, not run yet."""
    code: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for number, source in enumerate(cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.write_text(json.dumps({"cells": code, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")


@contextmanager
def jupyter_lab(folder: Path) -> Iterator[str]:
    """JupyterLab on a folder, as behind a proxy: under another host name and a prefix; its address without a page."""
    port = free_port()
    options = {
        "ServerApp.base_url": PREFIX, "ServerApp.allow_remote_access": True,
        "ServerApp.port": port, "ServerApp.ip": "127.0.0.1", "ServerApp.root_dir": folder, "IdentityProvider.token": TOKEN,
        "ServerApp.open_browser": False, "ServerApp.allow_root": True, "ServerApp.terminals_enabled": False,
        "LabApp.news_url": "", "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }  # fmt: skip
    command = [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())]
    own = {name: str(folder / ".jupyter" / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    with open(folder / "lab.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **own}, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(process, f"http://127.0.0.1:{port}{PREFIX}api?token={TOKEN}", folder / "lab.log")
            yield f"http://{OTHER_HOST}:{port}{PREFIX.rstrip('/')}"
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(process: subprocess.Popen[bytes], address: str, log: Path, patience: int = PATIENCE) -> None:
    """Wait until a server answers."""
    for _ in range(patience // 100):
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("it did not start: " + log.read_text(encoding="utf-8"))


def open_notebook(page: Any, address: str, name: str) -> None:
    """The notebook in JupyterLab's view of a single document, once its kernel is there."""
    page.goto(f"{address}/doc/tree/{name}?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=PATIENCE)
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", timeout=PATIENCE, state="attached")


def run_cell(page: Any, cell: int) -> Any:
    """Run a cell with Shift+Enter, and its output. Before the kernel is connected JupyterLab drops the key: then once more."""
    code = page.locator(f".jp-Notebook .jp-CodeCell >> nth={cell}")
    prompt = code.locator(".jp-InputPrompt").first
    for _ in range(PATIENCE // 2000):
        code.locator(".jp-InputArea-editor").click()
        page.keyboard.press("Shift+Enter")
        for _ in range(20):
            if prompt.inner_text().strip() != "[ ]:":
                return code.locator(".jp-OutputArea-output")
            page.wait_for_timeout(100)
    raise AssertionError(f"cell {cell} was not run")
