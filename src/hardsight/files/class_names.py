"""Class names: a list of them, or a file with one per line or a JSON list."""

from __future__ import annotations

import json
import os
from typing import Any

from hardsight.checks import as_array, is_text
from hardsight.errors import FileError, InputError
from hardsight.files.reading import existing_file, reading
from hardsight.labels import check_names


def read_class_names(path: str | os.PathLike[str], num_classes: int | None = None) -> list[str]:
    """The names in class order, one per class. Blank lines at the end are ignored."""
    path = existing_file(path)
    with reading(path, "class names could not be read"):
        text = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
        names = json.loads(text) if path.suffix.lower() == ".json" else _lines(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(f"{path}: class names must be one per line, or a JSON list of strings.")
    try:
        return check_class_names(names, num_classes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def given_class_names(names: Any) -> list[str] | None:
    """The names of a file, or a list of them; None if there are none."""
    if names is None or not isinstance(names, (str, os.PathLike)):
        return None if names is None else check_class_names(names, None)
    return read_class_names(names)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def check_class_names(names: Any, num_classes: int | None) -> list[str]:
    """The names as a list of strings, all different, one per class if the number of classes is known."""
    values = names if isinstance(names, (list, tuple)) else as_array(names, "class names").tolist()
    if not isinstance(values, (list, tuple)):
        raise InputError(f"class names must be a list of strings, got {type(names).__name__}.")
    names = list(values)
    for number, name in enumerate(names):
        if not is_text(name):
            raise InputError(f"class names must be text, but the name of class {number} is {name!r:.80}.")
    if num_classes is not None and len(names) != num_classes:
        raise InputError(f"there must be one class name per class, got {len(names)} for {num_classes} classes.")
    return check_names(str(name) for name in names)
