"""Commands: their options, which are those of the settings class and of what is shown, and how help looks.

    @command(CorrelateSettings, figures=True)
    def correlate(settings, ...): ...

`--quiet`, `--json`, `--table` and `--figures` are defined here. The command prints through `hardsight.screen`, saves
figures through `hardsight.render.saving`, and knows nothing of them.

Help lists commands by what they are for, and arguments by their names in capitals, without the types that typer adds.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from hardsight.errors import MissingExtra, did_you_mean
from hardsight.options import OptionField, Options, option

Function = Callable[..., None]


@dataclass(frozen=True)
class Printing(Options):
    """Where the words of a command go."""

    json: bool = option(
        False, "Print one JSON document with all numbers, tables and files; everything else goes to standard error."
    )
    quiet: bool = option(False, "Print nothing but errors.", flag=("--quiet", "-q"))


@dataclass(frozen=True)
class PrintingTables(Printing):
    """And its tables."""

    table: Path | None = option(None, "File for the printed tables: .csv, .tex, .md, .json or .parquet.", metavar="FILE")


@dataclass(frozen=True)
class Drawing(Options):
    """Where its figures go."""

    figures: str = option("png", "Comma-separated figure formats: png, pdf, svg. PNG is always written.", metavar="[png|pdf|svg]")


PLAIN = (bool, str, Path)  # numbers arrive as text: the settings class says what is wrong with one
NUMBERS = (int, float)
VALUES: dict[Any, str] = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT", list[str]: "TEXT"}  # what stands for a value
WORDS = {  # and for the value of an option that several commands have, or whose words say more than TEXT
    "split": "NAME", "tracker": "NAME", "by": "SCORE", "scores": "SCORES", "loss": "LOSS", "losses": "LOSSES",
    "methods": "METHODS", "seeds": "SEEDS", "scales": "NUMBERS", "bins": "EDGES", "device": "DEVICE", "host": "ADDRESS",
    "weights": "FILE", "lists": "DIR", "data": "DIR", "mean": "R,G,B", "std": "R,G,B", "shard": "I/N",
    "augment": "NAMES", "target_augment": "NAMES", "degradations": "KIND=LEVELS", "passes": "SNAPSHOTS", "batch_size": "N",
    "portion": "START:STEP:STOP", "source_portion": "START:STEP:STOP",
}  # fmt: skip


def with_options(
    settings_class: type[Options] | None = None,
    *,
    prints: Literal["tables", "lines", "nothing"] = "tables",
    figures: bool = False,
) -> Callable[[Function], Function]:
    """Give a command its options; it lists only its arguments and what is not an option of the Python function, such as `-o`.

    Args:
        settings_class: one option per field; the command gets the object as its parameter `settings`.
        prints: "lines" gives `--json` and `--quiet`, "tables" also `--table`.
        figures: gives `--figures`.
    """
    printing = {"tables": PrintingTables, "lines": Printing, "nothing": Options}[prints].fields()
    drawing = Drawing.fields() if figures else ()
    fields = () if settings_class is None else [field for field in settings_class.fields() if not field.about.python]

    def decorate(command: Function) -> Function:
        hints, keyword = get_type_hints(command), inspect.Parameter.KEYWORD_ONLY
        listed = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
        parameters = [p.replace(annotation=hints[p.name], kind=keyword) for p in listed]
        parameters += map(parameter_of, (*fields, *printing, *drawing))

        def call(**values: Any) -> None:
            drawn, shown = ({field.name: values.pop(field.name) for field in added} for added in (drawing, printing))
            with _drawn_as(**drawn), _shown_as(command.__name__, list(values.values()), **shown) if shown else nullcontext():
                if settings_class is not None:
                    options = {field.name: value_of(field, values.pop(field.name)) for field in fields}
                    values["settings"] = settings_class(**options)
                command(**values)

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
        return call

    return decorate


def _drawn_as(figures: str = "png") -> AbstractContextManager[None]:
    if figures == "png":
        return nullcontext()
    from hardsight.render.saving import figures_as

    return figures_as(figures)


@contextmanager
def _shown_as(
    command: str, others: list[Any], table: Path | None = None, json: bool = False, quiet: bool = False
) -> Iterator[None]:
    """What the command prints goes where the options say; tables and the document follow when it has ended."""
    from hardsight.screen import Shown, print_warning, print_wrote, showing

    def end(shown: Shown) -> None:
        if os.environ.get("RANK", "0") != "0":  # of several processes, the first speaks
            return
        if table is not None and not shown.tables:
            print_warning(f"{table} was not written: there is no table to write.")
        elif table is not None:
            for path in write_tables(shown.tables, table, shown.files):
                print_wrote(path)
        if json:
            print(shown.document(command), file=out, flush=True)

    if table is not None:
        from hardsight.render.showing import check_tables, write_tables

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


def parameter_of(field: OptionField) -> inspect.Parameter:
    """The option on the command line."""
    about = field.about
    kind: Any = list[str] if about.repeat else field.kind if field.kind in PLAIN else str
    default = field.default
    if about.repeat:
        default = []
    elif kind is str and not isinstance(default, str):
        default = str(default) if default not in (None, (), {}) else None
    elif _turns_off(field):
        default = False
    if about.word is not None:
        default = None
    value = VALUES.get(field.kind if field.kind in NUMBERS else kind)
    metavar = about.metavar or (f"[{'|'.join(about.choices)}]" if about.choices else WORDS.get(field.name, value))
    show_default = "Default:" not in about.help  # what the help says is not said once more
    info = typer.Option(default, *field.flags, help=about.help, metavar=metavar, show_default=show_default)
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)


def value_of(field: OptionField, value: Any) -> Any:
    """What the command line gave, as the settings class takes it."""
    if value is None or value == []:
        return field.default
    if field.kind in NUMBERS:
        return number(value, field.kind)
    return not value if _turns_off(field) else value


def number(text: str, kind: type[int | float]) -> Any:
    """The number that a text is; the text itself if it is none, for whoever checks the value to refuse."""
    try:
        return kind(text)
    except ValueError:
        return text


def _turns_off(field: OptionField) -> bool:
    """A switch such as --no-snapshot, which turns a true default off."""
    return field.kind is bool and field.flag.startswith("--no-")


def _grouped(settings_class: type[Options]) -> Iterator[tuple[str, str]]:
    """What would be the flag of each option of a group, and how it is written."""
    for field in settings_class.fields():
        for inner in field.default.fields() if isinstance(field.default, Options) else ():
            yield inner.flag, f"{field.flag} {inner.name}{'' if inner.kind is bool else '=VALUE'}"


def command_of(settings_class: type[Options]) -> type[Command]:
    """The command of a settings class."""
    words = {flag: word for field in settings_class.fields() if (word := field.about.word) for flag in field.flags}
    return type("SettingsCommand", (Command,), {"words": words, "grouped": dict(_grouped(settings_class))})


def _spelled_out(args: Sequence[str], words: Mapping[str, str]) -> Iterator[str]:
    """`--pretrained V1` as `--pretrained=V1`, and `--pretrained` before anything else as `--pretrained=true`."""
    left = list(args)
    while left:
        word = left.pop(0)
        if word in words:
            takes = bool(left) and re.fullmatch(words[word], left[0])
            word = f"{word}={left.pop(0) if takes else 'true'}"
        yield word


# Help, and what a wrong command line is told

UsageError: Any = typer.BadParameter.__base__  # click's, or that of the copy of click in newer versions of typer

PURPOSES = {  # commands in the order in which they are most often used
    "Look": ("check", "demo", "extract", "score", "explore", "report", "audit", "drift"),
    "Fix": ("clean", "select", "curriculum", "mine"),
    "Adapt": ("train", "adapt", "generalize"),
    "Research": ("dynamics", "correlate", "people", "attack", "reproduce"),
    "Tools": ("export", "verify"),
}
PACKAGES = {"reproduce": ("hardsight-papers", "Reproduce tables and figures of the papers.")}  # commands of packages of their own


class Group(TyperGroup):
    """The commands under what they are for."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; one whose package is not installed answers with its install line."""
        if cmd_name in PACKAGES and cmd_name not in self.commands:
            raise MissingExtra(f"hardsight {cmd_name} needs {PACKAGES[cmd_name][0]}: pip install {PACKAGES[cmd_name][0]}")
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names."""
        if self.get_command(ctx, args[0]) is None:
            raise UsageError(f"no such command {args[0]!r}.{did_you_mean(args[0], self.commands)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each purpose."""
        shown = {name: command.get_short_help_str(formatter.width) for name, command in self.commands.items()}
        shown |= {name: f"{help} Needs {package}." for name, (package, help) in PACKAGES.items() if name not in shown}
        listed = {name for names in PURPOSES.values() for name in names}
        sections = {**PURPOSES, "Added by other packages": tuple(sorted(shown.keys() - listed))}
        widest = max(map(len, shown))
        for purpose, names in sections.items():
            if names:
                with formatter.section(purpose):
                    formatter.write_dl([(name.ljust(widest), shown[name]) for name in names])


class Command(TyperCommand):
    """A command whose help shows `SOURCE [TARGET]` where typer would show `{SOURCE} [TARGET] <str>`.

    Some switches may also take a value: `--pretrained` and `--pretrained V1`.
    """

    words: Mapping[str, str] = {}  # flag of such a switch -> regular expression of its values
    grouped: Mapping[str, str] = {}  # what would be the flag of an option of a group -> how it is written

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line; an error names the command, and what to do with a word too many."""
        ctx.allow_extra_args = True  # they are refused below
        try:
            extra = super().parse_args(ctx, list(_spelled_out(args, self.words)))
        except UsageError as error:
            error.ctx = error.ctx or ctx  # unset for an option without its value
            raise
        if extra:
            raise UsageError(f"unexpected argument {extra[0]!r}.{several_values(args, extra[0])}", ctx)
        return extra

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name in the usage line."""
        return ["[OPTIONS]", *(argument_name(param) for param in self.get_params(ctx) if is_argument(param))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments, then the options, each with its help."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and is_argument(param):
                rows["Arguments"].append((argument_name(param), record[1].removesuffix("  [required]")))
            elif record is not None:
                rows["Options"].append(record)
        for title, entries in rows.items():
            if entries:
                with formatter.section(title):
                    formatter.write_dl(entries)


def is_argument(param: Any) -> bool:
    """Whether it is given by its place, not by a flag."""
    return bool(param.param_type_name == "argument")


def argument_name(param: Any) -> str:
    """RUN, [RUN] where it may be left out, RUN... where there may be several."""
    name = (param.metavar or param.name.upper()).strip("[].")
    return (name if param.required else f"[{name}]") + ("..." if param.nargs != 1 else "")


def several_values(words: Sequence[str], extra: str) -> str:
    """How to give several values: a word too many often follows the first of a list, as in --features f1 f2."""
    before = words[: words.index(extra)]
    if len(before) > 1 and before[-2].startswith("--"):
        return f" Several values of {before[-2]} are separated by commas: {before[-1]},{extra}."
    return " Of several files, give the folder." if before and os.path.isfile(extra) and os.path.isfile(before[-1]) else ""
