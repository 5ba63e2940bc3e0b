"""How help looks: commands by what they are for, and arguments by their names in capitals, without the types that typer adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

PURPOSES = {  # commands in the order in which they are most often used
    "Look": ("demo", "extract", "score", "explore", "report", "audit", "drift"),
    "Fix": ("clean", "select", "curriculum", "mine"),
    "Adapt": ("train", "adapt", "generalize"),
    "Research": ("dynamics", "correlate", "attack", "reproduce"),
    "Tools": ("export", "verify", "bench"),
}


class Group(TyperGroup):
    """The commands under what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each purpose."""
        widest = max(map(len, self.commands))
        for purpose, names in PURPOSES.items():
            helps = [(name, self.commands[name].get_short_help_str(formatter.width - widest - 4)) for name in names]
            with formatter.section(purpose):
                formatter.write_dl([(name.ljust(widest), words) for name, words in helps])


class Command(TyperCommand):
    """A command whose help shows `SOURCE [TARGET]` where typer would show `{SOURCE} [TARGET] <str>`."""

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


Function = TypeVar("Function", bound=Callable[..., Any])


class App(typer.Typer):
    """Commands are of the class above unless they say otherwise."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Add a command, as `typer.Typer.command` does."""
        return super().command(name, **{"cls": Command, **options})


def is_argument(param: Any) -> bool:
    """Whether it is given by its place, not by a flag."""
    return bool(param.param_type_name == "argument")


def argument_name(param: Any) -> str:
    """RUN, [RUN] where it may be left out, RUN... where there may be several."""
    name = (param.metavar or param.name.upper()).strip("[].")
    return (name if param.required else f"[{name}]") + ("..." if param.nargs != 1 else "")
