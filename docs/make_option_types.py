"""Write src/hardsight/option_types.pyi, the options of every verb as type checkers and editors read them.

python docs/make_option_types.py > src/hardsight/option_types.pyi
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

import hardsight
from hardsight.domains import select_pseudo_labels
from hardsight.options import OptionField, Options
from hardsight.snapshot.opening import Arrays, open_path

VERBS = (
    "score", "extract", "train", "adapt", "generalize", "clean", "select", "curriculum", "mine", "audit", "drift", "correlate",
    "people", "attack", "explore", "report", "export", "check",
)  # fmt: skip
HEADER = '''"""The options of every verb, as TypedDicts: made from their settings classes by docs/make_option_types.py."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from hardsight.domains.settings import Portions
'''


def verbs() -> dict[str, Any]:
    """Every function that takes options, by the name of its TypedDict."""
    functions = [*(getattr(hardsight, verb) for verb in VERBS), select_pseudo_labels]
    return {re.sub("(Settings|Options)$", "", verb.settings_class.__name__) + "Options": verb for verb in functions}


def typed_dict(name: str, verb: Any) -> str:
    """A class in which every option has its type; none is required. Arguments of the function itself are not among them."""
    hints: dict[str, str] = {}
    settings_class: type[Options] = verb.settings_class
    written = verb.__code__.co_varnames[: verb.__code__.co_argcount + verb.__code__.co_kwonlyargcount]
    for base in settings_class.__mro__:
        hints = {**{key: _spelled_out(hint, base) for key, hint in vars(base).get("__annotations__", {}).items()}, **hints}
    options = [field for field in settings_class.fields() if field.name not in written]
    fields = "".join(f"    {field.name}: {_accepted(field, hints[field.name])}\n" for field in options)
    return f"class {name}(TypedDict, total=False):\n{fields}"


def snapshot_options() -> str:
    """The keywords of `Snapshot` besides features, head and labels, and those of `Snapshot.load` besides the path."""
    hints = {field.name: str(field.type) for field in fields(Arrays) if field.name not in ("features", "head", "labels")}
    loading = [name for name in open_path.__annotations__ if name not in ("path", "return")]
    classes = {"ArrayOptions": hints, "LoadOptions": {name: open_path.__annotations__[name] for name in loading}}
    return "\n".join(
        f"class {name}(TypedDict, total=False):\n" + "".join(f"    {key}: {hint}\n" for key, hint in options.items())
        for name, options in classes.items()
    )


def _spelled_out(hint: str, settings_class: type) -> str:
    """The type of a field with the choices of a Literal written out; a group of options is given as a mapping."""

    def choices(name: re.Match[str]) -> str:
        kind = vars(sys.modules[settings_class.__module__]).get(name[0])
        if isinstance(kind, type) and issubclass(kind, Options):
            return "Mapping[str, Any]"
        return f"Literal[{', '.join(map(json.dumps, get_args(kind)))}]" if get_origin(kind) is Literal else name[0]

    return re.sub(r"\b[A-Z]\w+", choices, hint)


def _accepted(field: OptionField, hint: str) -> str:
    """The type of what may be given: where a reader takes text, as on the command line, that too; lists wherever tuples."""
    if field.about.read is not None:
        hint = re.sub(r"tuple\[(int|float), \.\.\.\]", r"\1 | tuple[\1, ...]", hint)
        hint = hint if hint == "Any" or re.search(r"\bstr\b", hint) else f"{hint} | str"
    return re.sub(r"tuple\[(\w+), \.\.\.\]", r"Sequence[\1]", hint)


def text() -> str:
    """The whole file."""
    classes = "\n".join(typed_dict(name, verb) for name, verb in sorted(verbs().items()))
    return f"{HEADER}\n{snapshot_options()}\n{classes}"


if __name__ == "__main__":
    print(text(), end="")
