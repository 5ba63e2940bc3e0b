"""A run directory: `start.json` first, parts as they are ready, `run.json` last.

A directory with `run.json` is complete. One with only `start.json` was interrupted: the same command resumes after its
last complete part, and is refused if its arguments or inputs are no longer those of `start.json`. `run.json` lists the
checksum of every file that is there when the run ends, and carries its own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hardsight.errors import FileError, RunError
from hardsight.files import inputs as command_inputs
from hardsight.files.checksums import UNSEALED, sha256
from hardsight.files.locking import holder, lock_file
from hardsight.files.places import Place, missing, place_on_disk
from hardsight.files.reading import read_json
from hardsight.files.resuming import MOST, changed_file, changed_inputs, difference
from hardsight.files.writing import discards, sweep, why, write_json
from hardsight.version import VERSION

IMAGE_ENDINGS, SOME = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"), 50  # to say of a folder that it holds images
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pillow", "pyarrow", "torch", "onnxruntime")


class Run:
    """The output directory of one command, from start to end.

    Args:
        directory: created if it does not exist.
        command: the command, such as `hardsight extract`.
        arguments: what the result depends on; a resumed run must have the same.
        inputs: fingerprints of what is read; a resumed run must find the same.
        sources: where the inputs were, to open them again; a resumed run may find them elsewhere.
        defaults: what an argument counts as that a run of an earlier version did not record.
    """

    def __init__(
        self,
        directory: str | Path,
        command: str,
        arguments: dict[str, Any],
        inputs: dict[str, Any],
        sources: dict[str, Any] | None = None,
        *,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        self.directory = check_run_directory(directory, command)
        self.started = time.time()
        self.defaults = defaults or {}
        self.kept: Callable[[], str] = lambda: "what is complete"  # said when it is stopped; who can count it, does
        self.start: dict[str, Any] = {
            "schema": 1,
            "command": command,
            "arguments": arguments,
            "inputs": inputs,
            "words": command_line(),
            "versions": {"hardsight": VERSION, "python": platform.python_version(), **_installed()},
            **({} if sources is None else {"sources": sources}),
        }
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{self.directory} could not be created: {why(error)}") from error
        before = _read_start(self.directory)
        if before is None:
            write_json(self.directory / "start.json", self.start)
        else:
            self._must_match(before)

    @property
    def complete(self) -> bool:
        """Whether run.json exists."""
        return (self.directory / "run.json").exists()

    @contextlib.contextmanager
    def only_writer(self) -> Iterator[None]:
        """Hold the run's lock; what a killed process left half-written is removed first.

        The system releases the lock when the process ends, however it ends. A process that throws away what it writes needs none.
        """
        if discards():
            yield
            return
        with contextlib.ExitStack() as stack:
            lock = self.directory / ".lock"
            try:
                ours = stack.enter_context(lock_file(lock, wait=False))
            except OSError as error:
                raise RunError(f"{self.directory} could not be written: {why(error)}") from error
            if not ours:
                raise RunError(f"{self.directory} is being written by {holder(lock)}; wait for it, or give another -o.")
            for directory in (self.directory, *(path for path in self.directory.rglob("*") if path.is_dir())):
                sweep(directory)
            try:
                with command_inputs.command(own=self.directory):
                    yield
            except BaseException as error:
                if not isinstance(error, Exception):  # Ctrl-C and its like
                    # A run inside this one may have said the same of itself; the command that resumes is the outer one's.
                    error.__notes__ = [f"{self.directory} keeps {self.kept()}: run the same command again to resume."]
                raise

    def folder(self, name: str) -> Path:
        """A directory inside the run, created if it does not exist."""
        path = self.directory / name
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"{path} could not be created: {why(error)}") from error
        return path

    def finish(self, parts: list[Path], counts: dict[str, Any], rows: dict[str, int] | None = None) -> None:
        """Write `run.json`: everything in start.json, each part and each further file with its checksum, and its own."""
        if discards():
            return
        listed = [{"name": self._name(part), "rows": (rows or {}).get(part.name), "sha256": sha256(part)} for part in parts]
        others = sorted({path for path in self.directory.rglob("*") if path.is_file() and self._stays(path)} - {*parts})
        manifest = {
            **self.start,
            "parts": listed,
            "counts": counts,
            "seconds": round(time.time() - self.started, 3),
            "files": {self._name(path): sha256(path) for path in others},
            "checksum": UNSEALED.decode(),
        }
        with command_inputs.command(own=self.directory):
            write_json(self.directory / "run.json", manifest)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.directory).as_posix()

    def _stays(self, path: Path) -> bool:
        """Checkpoints are removed when all else is written; names with a dot are locks and temporary files."""
        return not (
            path.name.startswith(".") or "checkpoints" in path.relative_to(self.directory).parts or self._name(path) == "run.json"
        )

    def _must_match(self, before: dict[str, Any]) -> None:
        for what in ("arguments", "inputs"):  # of the same command: checked before
            earlier, current = before.get(what), json.loads(json.dumps(self.start[what]))
            if what == "arguments" and isinstance(earlier, dict):
                recorded, earlier = earlier, _recognized(earlier, current, json.loads(json.dumps(self.defaults)))
                if earlier == current != recorded and not self.complete:  # its checkpoints may have another layout
                    raise RunError(
                        f"{self.directory} was started by an earlier version of hardsight and is not complete. "
                        "Resume it with that version, give another -o, or remove the directory to start over."
                    )
            if earlier != current:
                raise RunError(_mismatch(self.directory, what, earlier, current, self.start.get("sources")))
        versions = before.get("versions", {})
        if versions != self.start["versions"] and not self.complete:  # half of a result from each is no result
            raise RunError(
                f"{self.directory} was started with other versions: {difference(versions, self.start['versions'])}. "
                "Resume with those, or remove the directory to start over."
            )


def check_run_directory(directory: str | os.PathLike[str], command: str) -> Path:
    """Refuse a directory that a run of this command can be neither begun nor resumed in; nothing is created.

    A command calls it before anything slow; `Run` does so again.
    """
    path = place_on_disk(directory)
    try:
        nearest = next(each for each in (path, *path.parents) if os.path.lexists(each))
        if not nearest.is_dir():
            what = "a file; a run needs a directory" if nearest.exists() else "a link to nothing"
            raise RunError(f"{nearest} is {what}. Give another -o.")
        foreign = [each.name for each in path.iterdir() if not each.name.startswith(".")] if nearest == path else []
    except OSError as error:
        raise RunError(f"{path} could not be created: {why(error)}") from error
    before = _read_start(path)
    if before is None and foreign:
        raise RunError(f"{path} is not empty and not a hardsight run (it holds {foreign[0]}); give another -o.")
    if before is not None and before.get("command") != command:
        raise RunError(_mismatch(path, "command", before.get("command"), command))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise RunError(f"{path} could not be written: {nearest} is not yours to write to. Give another -o.")
    return path


def _read_start(directory: Path) -> dict[str, Any] | None:
    """The start.json of a run that is there already."""
    start_file = directory / "start.json"
    if not start_file.exists():
        return None
    try:
        start = json.loads(start_file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{start_file} is damaged: {error}. Remove the directory to start over.") from error
    if not isinstance(start, dict):
        raise RunError(f"{start_file} is damaged: it does not hold a JSON object. Remove the directory to start over.")
    return start


def _mismatch(directory: Path, what: str, before: Any, current: Any, sources: Any = None) -> str:
    words = difference(before, current)
    if what == "inputs":
        words = ", ".join(itertools.islice(changed_inputs(before, current), MOST))
        words += changed_file(directory / "start.json", sources)
    other = "another command" if what == "command" else f"other {what}"
    return f"{directory} holds a run with {other}: {words}. Give another -o, or remove the directory to start over."


def _recognized(before: dict[str, Any], current: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Recorded arguments as this version would write them: defaults where an earlier one recorded nothing or wrote "None"."""
    filled = {**{name: value for name, value in defaults.items() if name in current}, **before}
    return {
        name: current[name] if name in current and _empty(value) and _empty(current[name]) else value
        for name, value in filled.items()
    }


def _empty(value: Any) -> bool:
    """Whether nothing was given: earlier versions wrote it in several ways. False is an answer, and not one of them."""
    return value is None or value in ("None", [], {})


@functools.cache  # looking for them takes 15 ms
def _installed() -> dict[str, str]:
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def read_manifest(run: Place) -> dict[str, Any]:
    """The `run.json` of a complete run, with its checksum verified."""
    manifest = run / "run.json"
    if not manifest.is_file():
        raise FileError(not_a_run(run))
    content = read_json(manifest)
    if not isinstance(content, dict):
        raise FileError(f"{manifest}: damaged: it does not hold a JSON object.")
    return content


def not_a_run(path: Place) -> str:
    """Why a directory without run.json cannot be read as a run, and what to do with it instead."""
    if not path.exists():
        return missing(path)
    if (path / "start.json").is_file():
        return f"{path} is not a complete run: it was not finished; run its command again."
    first = next(path.iterdir(), None)
    hint = " It is empty." if first is None else images_hint(path)
    return f"{path} is not a complete run: there is no run.json in it.{hint}"


def images_hint(path: Place) -> str:
    """What to do with a folder of images; nothing for others."""
    if isinstance(path, Path) and any(each.suffix.lower() in IMAGE_ENDINGS for each in _some_files(path)):
        return f" It holds images: hardsight extract MODEL {path} -o run makes a run of them."
    return ""


def _some_files(folder: Path) -> Iterator[Path]:
    """The files of a folder and of the folders in it, as far as it takes no time to look."""
    below = [each for each in itertools.islice(folder.iterdir(), SOME)]
    yield from (each for each in below if each.is_file())
    for inside in below[:3]:
        if inside.is_dir():
            yield from itertools.islice(inside.iterdir(), SOME)


def command_line() -> str:
    """The command line of this process as a shell takes it, the program by its name: `python -m hardsight` is hardsight."""
    program = Path(sys.argv[0])
    name = "hardsight" if (program.parent.name, program.name) == ("hardsight", "__main__.py") else program.name
    return shlex.join([name, *sys.argv[1:]])
