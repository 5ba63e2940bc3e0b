"""Class names from a file: one per line, or a JSON list."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hardsight.errors import FileError, InputError


def read_class_names(path: str | os.PathLike[str], num_classes: int | None = None) -> list[str]:
    """The names in the order of the classes; as many as there are classes."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        names = json.loads(text) if path.suffix.lower() == ".json" else text.removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: class names could not be read: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(f"{path}: class names must be one per line, or a JSON list of strings.")
    if num_classes is not None and len(names) != num_classes:
        raise InputError(f"{path}: there must be one class name per class, got {len(names)} for {num_classes} classes.")
    return names
