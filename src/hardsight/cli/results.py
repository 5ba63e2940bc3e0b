"""Options about what a command shows, defined once: `--quiet` for all, `--json` for those that print tables.

    @app.command()
    @prints_tables
    @options_of(ScoreSettings)
    def score(settings, ...): ...

The command prints through `hardsight.screen` and knows nothing of them.
"""

from __future__ import annotations

import inspect
import io
import json as json_format
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, get_type_hints

import typer

Command = Callable[..., None]

QUIET = ("quiet", bool, typer.Option(False, "--quiet", "-q", help="Print nothing but errors."))
JSON = (
    "json",
    bool,
    typer.Option(
        False, "--json", help="Print one JSON document with the tables instead; everything else goes to standard error."
    ),
)


def prints_lines(command: Command) -> Command:
    """Give a command `--quiet`."""
    return _with_options(command, QUIET)


def prints_tables(command: Command) -> Command:
    """Give a command `--json` and `--quiet`."""
    return _with_options(command, JSON, QUIET)


def _with_options(command: Command, *options: tuple[str, Any, Any]) -> Command:
    signature = inspect.signature(command)
    hints = get_type_hints(command)
    own = [p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in signature.parameters.values()]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind) for name, kind, info in options
    ]

    name = command.__name__

    def call(**values: Any) -> None:
        chosen = {option: values.pop(option) for option, _, _ in options}
        with _shown_as(f"bench {name}" if command.__module__ == "hardsight.cli.bench" else name, **chosen):
            command(**values)

    call.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [*own, *added]}
    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    return call


@contextmanager
def _shown_as(command: str, json: bool = False, quiet: bool = False) -> Iterator[None]:
    """What the command prints on standard output goes where the options say; the document follows when it has ended."""
    from hardsight.screen import showing
    from hardsight.version import VERSION

    out = sys.stdout
    elsewhere = io.StringIO() if quiet else sys.stderr if json else out
    with showing(json=json, quiet=quiet) as shown, redirect_stdout(elsewhere):
        try:
            yield
        except typer.Exit:  # an exit code is a result
            _print_document(json, shown.document(command, VERSION), out)
            raise
        _print_document(json, shown.document(command, VERSION), out)


def _print_document(asked: bool, document: dict[str, Any], out: Any) -> None:
    if asked and os.environ.get("RANK", "0") == "0":  # of several processes, the first speaks
        print(json_format.dumps(document, indent=2, allow_nan=False), file=out, flush=True)
