"""Results in JSON files, one per case: an interrupted run is resumed with the missing ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Result = dict[str, Any]


def kept(path: Path, work: Callable[[], Result], known: list[str] | None = None) -> Result:
    """The result in `path`.json; if it is missing, or not of everything `known` today, it is measured and written."""
    file = path.with_name(f"{path.name}.json")  # the dot of a rate does not start an extension
    if file.is_file():
        before: Result = json.loads(file.read_text(encoding="utf-8"))
        if before.get("known") == known:
            return before
    result = {"known": known, **work()}
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(json.dumps(result), encoding="utf-8")
    os.replace(partial, file)
    return result
