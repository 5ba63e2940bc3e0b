"""Options about what a command shows, defined once: `--quiet`, `--json` and `--table`, `--figures` and `--width`.

    @app.command()
    @prints_tables
    @options_of(ScoreSettings)
    def score(settings, ...): ...

The command prints through `hardsight.screen`, saves figures through `hardsight.render.saving`, and knows nothing of them.
"""

from __future__ import annotations

import inspect
import io
import json as json_format
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, get_type_hints

import typer

from hardsight.cli.options import number, standing_for
from hardsight.errors import InputError

Command = Callable[..., None]
Option = tuple[str, Any, Any]  # name, type, what typer shows of it

QUIET: Option = ("quiet", bool, typer.Option(False, "--quiet", "-q", help="Print nothing but errors."))
JSON: Option = (
    "json",
    bool,
    typer.Option(
        False,
        "--json",
        help="Print one JSON document with all numbers, tables and files; everything else goes to standard error.",
    ),
)
TABLE: Option = (
    "table",
    Path,
    typer.Option(None, "--table", metavar="FILE", help="File for the printed tables: .csv, .tex, .md, .json or .parquet."),
)
FIGURES: Option = (
    "figures",
    str,
    typer.Option(
        "png", "--figures", metavar="[png|pdf|svg]", help="Comma-separated figure formats: png, pdf, svg. PNG is always written."
    ),
)
WIDTH: Option = (
    "width",
    str,
    typer.Option(None, "--width", metavar="INCHES", help="Width of figures; a column of a paper has about 3.3, a page 6.9."),
)


def prints_lines(command: Command) -> Command:
    """Give a command `--json` and `--quiet`."""
    return _with_options(command, _shown_as, JSON, QUIET)


def prints_tables(command: Command) -> Command:
    """Give a command `--table`, `--json` and `--quiet`."""
    return _with_options(command, _shown_as, TABLE, JSON, QUIET)


def draws_figures(command: Command) -> Command:
    """Give a command `--figures` and `--width`."""
    return _with_options(command, _drawn_as, FIGURES, WIDTH)


def _with_options(command: Command, around: Callable[..., AbstractContextManager[None]], *options: Option) -> Command:
    """The command with further options, run inside of what they make of it."""
    hints, keyword = get_type_hints(command), inspect.Parameter.KEYWORD_ONLY
    own = [p.replace(annotation=hints[p.name], kind=keyword) for p in inspect.signature(command).parameters.values()]
    added = [inspect.Parameter(name, keyword, default=info, annotation=kind) for name, kind, info in options]

    def call(**values: Any) -> None:
        chosen = {option: values.pop(option) for option, _, _ in options}
        with around(command.__name__, list(values.values()), **chosen):
            command(**values)

    return standing_for(command, call, [*own, *added])


@contextmanager
def _drawn_as(command: str, others: list[Any], figures: str, width: str | None) -> Iterator[None]:
    if figures == "png" and width is None:
        yield
        return
    from hardsight.render.saving import figures_as

    inches = None if width is None else number(width, float)
    if isinstance(inches, str):
        raise InputError(f"width must be a number of inches, got {inches!r}.")
    with figures_as(figures, inches):
        yield


@contextmanager
def _shown_as(
    command: str, others: list[Any], table: Path | None = None, json: bool = False, quiet: bool = False
) -> Iterator[None]:
    """What the command prints goes where the options say; tables and the document follow when it has ended."""
    from hardsight.screen import Shown, print_warning, print_wrote, showing
    from hardsight.version import VERSION

    def end(shown: Shown) -> None:
        if os.environ.get("RANK", "0") != "0":  # of several processes, the first speaks
            return
        if table is not None and not shown.tables:
            print_warning(f"{table} was not written: there is no table to write.")
        elif table is not None:
            for path in write_tables(shown.tables, table, shown.files):
                print_wrote(path)
        if json:
            print(json_format.dumps(shown.document(command, VERSION), indent=2, allow_nan=False), file=out, flush=True)

    if table is not None:
        from hardsight.cli.tables import check_tables, write_tables

        check_tables(table, others)
    out = sys.stdout
    elsewhere = io.StringIO() if quiet else sys.stderr if json else out
    with showing(json=json, quiet=quiet) as shown, redirect_stdout(elsewhere):
        try:
            yield
        except typer.Exit:  # an exit code is a result
            end(shown)
            raise
        end(shown)
