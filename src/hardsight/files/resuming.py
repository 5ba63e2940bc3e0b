"""Why a run cannot be resumed: which option differs and how, and which input changed and when."""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hardsight.files.places import utf8_name

MOST = 3  # differences to list
MOST_FILES = 20_000  # files to check for a change
HASH = re.compile("[0-9a-f]{64}")


def difference(before: Any, current: Any) -> str:
    """The differences between two sets of options or versions, by name.

    Example:
        >>> difference({"epochs": 3, "clip": None}, {"epochs": 5, "clip": 2.0})
        'clip was not given and is 2.0, epochs was 3 and is 5'
    """
    if not (isinstance(before, dict) and isinstance(current, dict)):
        return f"was {before!r} and is {current!r}"
    return ", ".join(itertools.islice(_differences(before, current), MOST))


def _differences(before: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[str]:
    """One phrase per option that differs; grouped options, such as preprocessing, are named individually."""
    for key in sorted({*before, *current}):
        old, new = before.get(key), current.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (f"{key} {phrase}" for phrase in _differences(old, new))
        elif old != new:
            yield f"{key} was {_shown(old)} and is {_shown(new)}"


def _shown(value: Any) -> str:
    if value is None or value in ([], {}, "None"):
        return "not given"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        return ",".join(map(str, value))
    return repr(value)


def changed_inputs(before: Any, current: Any, name: str = "") -> Iterator[str]:
    """One phrase per input whose fingerprint differs, without its hashes.

    Example:
        >>> then, now = {"data": {"count": 40, "sha256": "ab"}}, {"data": {"count": 20, "sha256": "cd"}}
        >>> list(changed_inputs(then, now))
        ['data had 40 samples and has 20']
    """
    if before == current:
        return
    if not (isinstance(before, Mapping) and isinstance(current, Mapping)):
        yield _changed(name, before, current)
        return
    if not {"sha256", "columns_sha256"} & {*before, *current}:
        for key in dict.fromkeys([*before, *current]):
            yield from changed_inputs(before.get(key), current.get(key), f"{name} {key}".strip())
        return
    plain = [key for key in before if not key.endswith("sha256") and key != "count" and before[key] != current.get(key)]
    if plain:
        yield f"{name} was {' '.join(_shown(before[key]) for key in plain)} and is " + " ".join(
            _shown(current.get(key)) for key in plain
        )
    elif before.get("count") != current.get("count"):
        yield f"{name} had {before.get('count')} samples and has {current.get('count')}"
    elif before.get("sha256") != current.get("sha256"):
        what = "its files" if "columns_sha256" in before else "its weights" if "name" in before else "its values"
        yield f"{name}: {what} changed"
    else:
        yield f"{name}: its ids, labels, class names or columns changed"


def _changed(name: str, before: Any, current: Any) -> str:
    if before is None or current is None:
        return f"{name} {'is new' if before is None else 'is gone'}"
    if isinstance(before, str) and isinstance(current, str) and HASH.fullmatch(before) and HASH.fullmatch(current):
        return f"{name} changed"
    return f"{name} was {_shown(before)} and is {_shown(current)}"


def changed_file(start_file: Path, sources: Any) -> str:
    """The newest input file that changed after the run began, with its size and time; empty if there is none.

    Inputs are the run's recorded sources and the paths on the command line.
    """
    began = start_file.stat().st_mtime
    newest: tuple[float, int, Path] | None = None
    for file in itertools.islice(_files(start_file.parent, sources), MOST_FILES):
        try:
            status = file.stat()
        except OSError:
            continue
        if status.st_mtime > began and (newest is None or status.st_mtime > newest[0]):
            newest = status.st_mtime, status.st_size, file
    if newest is None:
        return ""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(newest[0]))
    return f" ({utf8_name(str(newest[2]))}, {newest[1]} bytes, changed at {when}, after the run began)"


def _files(run: Path, sources: Any) -> Iterator[Path]:
    here = run.resolve()
    for text in dict.fromkeys([*_texts(sources), *itertools.chain(*(re.split("[=,]", word) for word in sys.argv[1:]))]):
        path = Path(text) if Path(text).exists() else Path(text.rpartition(":")[0] or text)
        if not text or not path.exists() or here in (path.resolve(), *path.resolve().parents):
            continue
        yield from (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _texts(sources: Any) -> Iterator[str]:
    if isinstance(sources, str):
        yield sources
    elif isinstance(sources, Mapping):
        for value in sources.values():
            yield from _texts(value)
    elif isinstance(sources, (list, tuple)):
        for value in sources:
            yield from _texts(value)
