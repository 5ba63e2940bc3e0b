"""The exceptions that hardsight raises on purpose, as one small tree.

    HardsightError             the base class: catch it to catch them all
    ├── InputError             arrays or options that do not fit together
    ├── FileError              a file that cannot be read as what it claims to be, or cannot be written
    ├── RunError               a run directory that cannot be written, resumed or trusted
    │   └── OtherRun           it holds a run with other inputs or options
    ├── TrainingError          training cannot start or continue: a loss that is NaN or infinite, a tracker that does not start
    └── MissingExtra           an optional dependency is not installed

Every message says what must hold, what was passed instead and, if known, how to fix it.
On the command line each of them prints one line and exits with code 2.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType

__all__ = [
    "FileError",
    "HardsightError",
    "InputError",
    "MissingExtra",
    "RunError",
    "TrainingError",
    "did_you_mean",
    "require",
    "require_installed",
]


class HardsightError(Exception):
    """Base class of every exception that hardsight raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it: what is wrong, without the lines of the library."""
        return [f"{type(self).__name__}: {self}"]


class InputError(HardsightError):
    """Arrays or options that do not fit together."""


class FileError(HardsightError):
    """A file that cannot be read as what it claims to be, or cannot be written."""


class RunError(HardsightError):
    """A run directory that cannot be written, resumed or trusted."""


class OtherRun(RunError):
    """A directory holds a run with other inputs or options."""


class TrainingError(HardsightError):
    """Training cannot start or continue: the loss is NaN or infinite, or the tracker does not start."""


class MissingExtra(HardsightError):
    """A required optional dependency is not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or raise an error with its install command."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(why_missing(purpose, module, error, f"'hardsight[{extra}]'")) from error


def why_missing(purpose: str, module: str, error: ImportError, install: str) -> str:
    """Why a module could not be imported, with what to install: the module itself, or what it misses.

    Example:
        >>> why_missing("timm:NAME", "timm", ModuleNotFoundError("No module named 'torchvision'", name="torchvision"), "timm")
        'timm:NAME needs torchvision, which timm imports and which is not installed: pip install torchvision'
    """
    own, absent = module.partition(".")[0], (error.name or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and absent in ("", own):
        return f"{purpose} needs {module}: pip install {install}"
    if isinstance(error, ModuleNotFoundError):
        return f"{purpose} needs {absent}, which {own} imports and which is not installed: pip install {absent}"
    return f"{purpose} needs {module}, which is installed but cannot be imported: {first_line(error)}"


def require_installed(module: str, *, extra: str, purpose: str) -> None:
    """The same error without importing the module: torch takes seconds, and the input may turn out to be wrong."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(f"{purpose} needs {module}: pip install 'hardsight[{extra}]'")


def did_you_mean(word: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A hint to append to a message about an unknown name: the closest known name, or nothing below `cutoff`, from 0 to 1.

    Example:
        >>> did_you_mean("Angular-Gp", ["avh", "angular_gap"]), did_you_mean("zebra", ["avh"])
        (' Did you mean angular_gap?', '')
    """
    near = nearest(word, known, cutoff)
    return f" Did you mean {near}?" if near is not None else ""


def nearest(word: object, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name closest to a word, ignoring case and dashes; None below `cutoff`."""
    from difflib import get_close_matches

    names = {name.lower().replace("-", "_"): name for name in known}
    asked = str(word).strip().lower().replace("-", "_")
    near = get_close_matches(asked, names, 3, cutoff)
    near.sort(key=lambda name: sorted(name) != sorted(asked))  # transposed letters first: lable is label, not table
    return names[near[0]] if near else None


def check_choice(value: object, choices: Iterable[str], name: str) -> None:
    """Refuse a value that is none of the choices."""
    known = list(choices)
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}.{did_you_mean(value, known)}")


def first_line(error: BaseException) -> str:
    """The text of an exception, short enough to quote in a message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
