"""Write docs/cli.md from the commands' own help: python docs/make_cli.py > docs/cli.md"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
from typer.main import get_command

from hardsight.cli import app

WIDTH = 100
SHARED = 3  # an option that as many commands have, in the same words, is described once

HEAD = """\
# Commands

<!-- Made by docs/make_cli.py from the commands' own help. Change the help, then run it again. -->

Each command reads, calls one function and writes. The result goes to standard output, progress and errors to standard
error. An error is one line that says what to change, with exit code 2; nothing is written then. A file appears under
its name only when it is complete.
"""

COMMON = """\
## Shared options

These mean the same in every command that has them. Each command below lists the names of those it has.

```text
{options}
```
"""


def page() -> str:
    commands = list(all_commands(get_command(app), "hardsight", None))
    counts = Counter(record for command, context in commands for record in records(command, context))
    shared = list({flag(record): record for record, count in reversed(counts.most_common()) if count >= SHARED}.values())
    first, *others = (section(command, context, shared) for command, context in commands)
    return "\n".join([HEAD, first, COMMON.format(options=listed(shared)), *others])


def all_commands(command: Any, name: str, parent: Any) -> Iterator[tuple[Any, Any]]:
    """Each command with its context, a group before its members."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH)
    yield command, context
    for word, member in sorted(getattr(command, "commands", {}).items()):
        yield from all_commands(member, word, context)


def records(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    """Names and meaning of a command's options, as its help has them."""
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and option.param_type_name == "option" and option.name != "help":
            yield record


def flag(record: tuple[str, str]) -> str:
    """The long name of an option: --output of `-o, --output RUN`."""
    return record[0].split(", ")[-1].split()[0]


def section(command: Any, context: Any, shared: list[tuple[str, str]]) -> str:
    """A command's help with its own options, and the names of those it shares."""
    own = copy.copy(command)
    own.params = [option for option in command.params if option.get_help_record(context) not in shared]
    own.add_help_option = False
    text = "\n".join(line.rstrip() for line in own.get_help(context).splitlines())
    names = [f"`{flag(record)}`" for record in records(command, context) if record in shared]
    also = f"\nShared: {', '.join(names)}.\n" if names else ""
    return f"## {context.command_path}\n\n```text\n{text}\n```\n{also}"


def listed(options: list[tuple[str, str]]) -> str:
    """Options in two columns, by name."""
    formatter = click.HelpFormatter(width=WIDTH)
    formatter.write_dl(sorted(options, key=flag))
    return "\n".join(line.rstrip() for line in formatter.getvalue().splitlines())


if __name__ == "__main__":
    sys.stdout.write(page())
