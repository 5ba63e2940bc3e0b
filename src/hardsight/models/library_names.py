"""The models that timm and torchvision have, read from their source: importing them, and torch, would take seconds."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

from hardsight.errors import InputError, did_you_mean

REGISTERED = re.compile(r"^@register_model[^\n]*\n(?:@[^\n]*\n)*def (\w+)", re.MULTILINE)


def check_library_model(library: str, name: str) -> None:
    """Refuse a name that stands nowhere in the library; what its own list says counts later."""
    source, plain = source_of(library), name.partition(".")[0]
    if ":" in name or not source or re.search(rf"\b{re.escape(plain)}\b", source):
        return
    known = REGISTERED.findall(source)
    raise InputError(f"{library} has no model {name!r}.{did_you_mean(plain, known)}")


@functools.cache
def source_of(library: str) -> str:
    """Everything that the library's models are written in; nothing where it is not installed."""
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        return ""
    files = sorted((Path(spec.origin).parent / "models").rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
