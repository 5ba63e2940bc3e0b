"""How help looks, and what a wrong command line is told.

Help lists commands by what they are for, and arguments by their names in capitals, without the types that typer adds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from hardsight.errors import MissingExtra, did_you_mean

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
    """A command whose help shows `SOURCE [TARGET]` where typer would show `{SOURCE} [TARGET] <str>`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line; an error names the command, and what to do with a word too many."""
        ctx.allow_extra_args = True  # they are refused below
        try:
            extra = super().parse_args(ctx, list(args))
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
