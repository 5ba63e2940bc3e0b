"""Docstrings as the site shows them (an extension of griffe, named in mkdocs.yml)."""

from __future__ import annotations

import importlib
import re
from typing import Any

import griffe

GROUP = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+): ", re.MULTILINE)


class Docstrings(griffe.Extension):
    """`Example:` becomes a section with code, arguments described together get a line each, and options get their table."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
        text = "\n".join(line for entry in text.split("\n") for line in _apart(entry))
        obj.docstring.value = text + _options(obj)


def _apart(line: str) -> list[str]:
    """`low, high: limits of a pixel` as one line each; what follows on further lines stays with the last."""
    group = GROUP.match(line)
    if group is None:
        return [line]
    *others, last = group["names"].split(", ")
    rest = line[group.end() :]
    return [f"{group['indent']}{name}: with `{last}`." for name in others] + [f"{group['indent']}{last}: {rest}"]


def _options(obj: griffe.Object) -> str:
    """The table of options of a function that takes them (`hardsight.options.takes`)."""
    if not obj.is_function or not any("takes(" in str(decorator.value) for decorator in obj.decorators):  # type: ignore[attr-defined]
        return ""
    from hardsight.options import shown

    function = getattr(importlib.import_module(obj.module.path), obj.name)
    rows = ["| option | in Python | default | meaning |", "|---|---|---|---|"]
    for field in function.settings_class.fields():
        flags = ", ".join(f"`{flag}`" for flag in field.flags)
        help = field.about.help.replace("|", "\\|")
        rows.append(f"| {flags} | `{field.name}` | {shown(field.default)} | {help} |")
    return "\n\n" + "\n".join(rows) + "\n"
