"""A run directory: `start.json` first, parts as they are ready, `run.json` last.

A directory with `run.json` is complete. One with only `start.json` was interrupted: the same command resumes after its
last complete part, and is rejected if its arguments or inputs no longer match `start.json`. `run.json` lists the checksum of
every file that exists when the run ends, and carries its own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hardsight.errors import FileError, OtherRun, RunError
from hardsight.files.checksums import UNSEALED, sha256
from hardsight.files.locking import holder, lock_file
from hardsight.files.places import Place, missing, place_on_disk
from hardsight.files.reading import read_json, read_object
from hardsight.files.writing import discards, owning, remove_abandoned, write_json, writing
from hardsight.version import VERSION

IMAGE_ENDINGS, SOME = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"), 50  # to detect a folder of images
NOT_CREATED = "could not be created"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pillow", "pyarrow", "torch", "onnxruntime")


class Run:
    """The output directory of a command, from start to end.

    Args:
        directory: created if it does not exist.
        command: the command, such as `hardsight extract`.
        arguments: what the result depends on; must be the same to resume.
        inputs: fingerprints of the inputs; must be the same to resume.
        sources: where the inputs are, to open them again; they may have moved when a run is resumed.
    """

    def __init__(
        self,
        directory: str | Path,
        command: str,
        arguments: dict[str, Any],
        inputs: dict[str, Any],
        sources: dict[str, Any] | None = None,
    ) -> None:
        self.directory = check_run_directory(directory, command)
        self.started = time.time()
        self.kept_in_words: Callable[[], str] = lambda: "what is complete"  # for the message after an interrupt
        self.start: dict[str, Any] = {
            "schema": 1,
            "command": command,
            "arguments": arguments,
            "inputs": inputs,
            "words": command_line(),
            "versions": {"hardsight": VERSION, "python": platform.python_version(), **_installed()},
            **({} if sources is None else {"sources": sources}),
        }
        with writing(self.directory, NOT_CREATED, RunError):
            self.directory.mkdir(parents=True, exist_ok=True)
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
        """Hold the run's lock, after removing files that a killed process left half-written.

        The system releases the lock when the process ends, even if killed. A process that discards its output needs no lock.
        """
        if discards():
            yield
            return
        with contextlib.ExitStack() as stack:
            lock = self.directory / ".lock"
            with writing(self.directory, kind=RunError):
                ours = stack.enter_context(lock_file(lock, wait=False))
            if not ours:
                raise RunError(f"{self.directory} is being written by {holder(lock)}; wait for it, or use another -o.")
            for directory in (self.directory, *(path for path in self.directory.rglob("*") if path.is_dir())):
                remove_abandoned(directory)
            try:
                with owning(self.directory):
                    yield
            except BaseException as error:
                if not isinstance(error, Exception):  # Ctrl-C or SIGTERM
                    # A nested run may have added its own note; the outer command is the one to repeat.
                    error.__notes__ = [f"{self.directory} keeps {self.kept_in_words()}: run the same command again to resume."]
                raise

    def folder(self, name: str) -> Path:
        """A directory inside the run, created if it does not exist."""
        path = self.directory / name
        with writing(path, NOT_CREATED, RunError):
            path.mkdir(exist_ok=True)
        return path

    def finish(self, parts: list[Path], counts: dict[str, Any], rows: dict[str, int] | None = None) -> None:
        """Write `run.json`: the content of start.json, every part and other file with its checksum, and its own checksum."""
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
        with owning(self.directory):
            write_json(self.directory / "run.json", manifest)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.directory).as_posix()

    def _stays(self, path: Path) -> bool:
        """Checkpoints are removed at the very end; names with a leading dot are locks and temporary files."""
        return not (
            path.name.startswith(".") or "checkpoints" in path.relative_to(self.directory).parts or self._name(path) == "run.json"
        )

    def _must_match(self, before: dict[str, Any]) -> None:
        for what in ("arguments", "inputs"):  # the command was compared before
            earlier, current = before.get(what), json.loads(json.dumps(self.start[what]))
            if earlier != current:
                raise OtherRun(_mismatch(self.directory, what, earlier, current))
        versions = before.get("versions", {})
        if versions != self.start["versions"] and not self.complete:  # do not mix results of two versions
            raise RunError(
                f"{self.directory} was started with other versions: {difference(versions, self.start['versions'])}. "
                "Resume with those, or remove the directory to start over."
            )


def check_run_directory(directory: str | os.PathLike[str], command: str, arguments: Mapping[str, Any] | None = None) -> Path:
    """Reject a directory in which this command can neither start nor resume a run; nothing is created.

    Commands call this before anything slow, with the arguments known by then; `Run` calls it again with all of them.
    """
    path = place_on_disk(directory)
    nearest, names = _nearest_directory(path)
    before = _read_start(path)
    if before is None:
        if names:
            raise RunError(f"{path} is not empty and not a hardsight run (it holds {names[0]}); use another -o.")
    elif before.get("command") != command:
        raise RunError(_mismatch(path, "command", before.get("command"), command))
    elif arguments is not None and isinstance(recorded := before.get("arguments"), dict):
        current = {name: value for name, value in json.loads(json.dumps(dict(arguments))).items() if name in recorded}
        earlier = {name: recorded[name] for name in current}
        if earlier != current:
            raise RunError(_mismatch(path, "arguments", earlier, current))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise RunError(f"{path} could not be written: no write permission for {nearest}. Use another -o.")
    return path


def _nearest_directory(path: Path) -> tuple[Path, list[str]]:
    """The directory, or the nearest one above it that exists; and the names of the visible files in the directory itself."""
    with writing(path, NOT_CREATED, RunError):
        nearest = next(each for each in (path, *path.parents) if os.path.lexists(each))
        if not nearest.is_dir():
            what = "a file; a run needs a directory" if nearest.exists() else "a link to nothing"
            raise RunError(f"{nearest} is {what}. Use another -o.")
        return nearest, [name for name in os.listdir(path) if not name.startswith(".")] if nearest == path else []


def _read_start(directory: Path) -> dict[str, Any] | None:
    """The start.json of an existing run."""
    start_file = directory / "start.json"
    if not start_file.exists():
        return None
    try:
        return read_object(start_file)
    except FileError as error:
        raise RunError(f"{error} Remove the directory to start over.") from error


def _mismatch(directory: Path, what: str, before: Any, current: Any) -> str:
    other = "another command" if what == "command" else f"other {what}"
    words = difference(before, current)
    return f"{directory} holds a run with {other}: {words}. Use another -o, or remove the directory to start over."


@functools.cache  # looking them up takes 15 ms
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
    return read_object(manifest)


def not_a_run(path: Place) -> str:
    """Why a directory without run.json is not a readable run, and what to do instead."""
    if not path.exists():
        return missing(path)
    if (path / "start.json").is_file():
        return f"{path} is not a complete run: it was interrupted; run its command again to resume."
    first = next(path.iterdir(), None)
    hint = " It is empty." if first is None else images_hint(path)
    return f"{path} is not a complete run: it has no run.json.{hint}"


def images_hint(path: Place) -> str:
    """A hint for a folder of images, or of folders of them; empty for others."""
    some = [each for depth in ("*", "*/*") for each in itertools.islice(path.glob(depth), SOME)] if isinstance(path, Path) else []
    if any(each.suffix.lower() in IMAGE_ENDINGS for each in some):
        quoted = shlex.quote(str(path))
        return f" It holds images: hardsight check {quoted} needs no model; hardsight extract MODEL {quoted} -o run makes a run."
    return ""


def command_line() -> str:
    """The command line of this process, quoted for a shell; `python -m hardsight` becomes hardsight."""
    program = Path(sys.argv[0])
    name = "hardsight" if (program.parent.name, program.name) == ("hardsight", "__main__.py") else program.name
    return shlex.join([name, *sys.argv[1:]])


def read_start(where: Path) -> dict[str, Any]:
    """What is written about the run: run.json if it is complete, else start.json."""
    for name in ("run.json", "start.json"):
        file = where / name
        if where.is_dir() and file.is_file():
            content = read_json(file)
            if isinstance(content, dict):
                return content
    return {}


# ---- why a run cannot be resumed ----

MOST = 3  # differences to list
HASH = re.compile("[0-9a-f]{64}")


def difference(before: Any, current: Any) -> str:
    """The first differences between two sets of options, versions or fingerprints of inputs, by name.

    Example:
        >>> difference({"epochs": 3, "clip": None}, {"epochs": 5, "clip": 2.0})
        'clip was not given and is 2.0, epochs was 3 and is 5'
        >>> difference({"data": {"count": 40, "sha256": "ab"}}, {"data": {"count": 20, "sha256": "cd"}})
        'data had 40 samples and has 20'
    """
    return ", ".join(itertools.islice(_differences(before, current), MOST))


def _differences(before: Any, current: Any, name: str = "") -> Iterator[str]:
    """One phrase per value that differs; those of a group, such as preprocessing, are named individually."""
    if before == current:
        return
    if isinstance(before, Mapping) and isinstance(current, Mapping):
        if {"sha256", "columns_sha256"} & {*before, *current}:
            yield _changed_input(name, before, current)
            return
        for key in sorted({*before, *current}):
            yield from _differences(before.get(key), current.get(key), f"{name} {key}".strip())
    elif _is_fingerprint(before) or _is_fingerprint(current):  # its hash says nothing to a person
        yield f"{name} {'is new' if before is None else 'is gone' if current is None else 'changed'}"
    else:
        yield f"{name} was {_shown(before)} and is {_shown(current)}".strip()


def _is_fingerprint(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, str) and HASH.fullmatch(value) is not None)


def _changed_input(name: str, before: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """How an input changed, by its fingerprint, without the hashes."""
    changed = [key for key in before if not key.endswith("sha256") and key != "count" and before[key] != current.get(key)]
    if changed:
        earlier, now = (" ".join(_shown(inputs.get(key)) for key in changed) for inputs in (before, current))
        return f"{name} was {earlier} and is {now}"
    if before.get("count") != current.get("count"):
        return f"{name} had {before.get('count')} samples and has {current.get('count')}"
    if before.get("sha256") == current.get("sha256"):
        return f"{name}: its ids, labels, class names or columns changed"
    what = "its files" if "columns_sha256" in before else "its weights" if "name" in before else "its values"
    return f"{name}: {what} changed"


def _shown(value: Any) -> str:
    if value is None or value in ([], {}, "None"):
        return "not given"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        return ",".join(map(str, value))
    return repr(value)
