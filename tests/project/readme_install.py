"""`make dist`: do README's `pip install` lines work with the wheels in dist/, in an empty environment?

Then its first command: a report on photographs must be there within a minute.

The wheels are served as a package index on this machine, beside the ones that pip is set up with; constraints.txt keeps
torch at its pinned build.

    python tests/project/readme_install.py dist
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60  # from the end of pip's work to the first report


def pip_lines(page: Path) -> list[str]:
    """The lines of a page's code blocks that install something."""
    blocks = re.findall(r"^```(?:bash|console|shell)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("pip install")]


def lay_out(wheels: Path, index: Path) -> None:
    """One folder a project, as package indexes have it."""
    for wheel in wheels.glob("*.whl"):
        folder = index / wheel.name.partition("-")[0].replace("_", "-").lower()
        folder.mkdir(exist_ok=True)
        shutil.copy(wheel, folder)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, served on this machine alone."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def pip_environment(address: str) -> dict[str, str]:
    """pip's own settings, one index more, and our pins."""
    name = "PIP_EXTRA_INDEX_URL"
    asked = [sys.executable, "-m", "pip", "config", "get", "global." + name.removeprefix("PIP_").lower().replace("_", "-")]
    known = os.environ.get(name) or subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    return {**os.environ, name: f"{known} {address}".strip(), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}


def take_photographs(folder: Path) -> None:
    """A dozen small pictures in two classes: an uneven sky over land or over the sea."""
    rng = np.random.default_rng(0)
    for number in range(12):
        place, ground = ("land", (90, 120, 40)) if number % 2 else ("sea", (20, 70, 140))
        pixels = np.full((48, 64, 3), (150, 190, 230)) + rng.normal(0, 12, (48, 64, 3))
        pixels[rng.integers(16, 32) :] += np.array(ground) - (150, 190, 230)
        (folder / place).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / place / f"{number:02d}.jpg")


def check_photographs(hardsight: Path, folder: Path) -> None:
    """Run `hardsight check` as its first user, with the seconds to its first line and to its report."""
    take_photographs(folder / "photos")
    started, first = time.monotonic(), None
    with subprocess.Popen([hardsight, "check", "photos/"], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            first = first or time.monotonic() - started
            print(line, end="", flush=True)
    seconds = time.monotonic() - started
    if process.returncode or not (folder / "hardsight-photos" / "report.html").is_file():
        raise SystemExit("hardsight check wrote no report")
    print(f"after pip install: the first result in {first:.1f} s, the report in {seconds:.1f} s (limit {SECONDS} s)", flush=True)
    if seconds > SECONDS:
        raise SystemExit(f"the report took {seconds:.1f} s, more than {SECONDS} s")


def main(wheels: Path) -> None:
    """Install as README says, and run its first commands from there."""
    lines = pip_lines(ROOT / "README.md")
    if not lines:
        raise SystemExit("README.md has no line that begins with pip install")
    with tempfile.TemporaryDirectory() as folder:
        index, environment = Path(folder, "index"), Path(folder, "env")
        index.mkdir()
        lay_out(wheels, index)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        with served(index) as address:
            for line in lines:
                print(line, flush=True)
                words = shlex.split(line)[1:]
                subprocess.run([environment / "bin" / "pip", *words, "-q"], check=True, env=pip_environment(address), cwd=folder)
        hardsight = environment / "bin" / "hardsight"
        subprocess.run([hardsight, "--version"], check=True)
        check_photographs(hardsight, Path(folder))
        subprocess.run([hardsight, "demo", "-o", "demo"], check=True, cwd=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
