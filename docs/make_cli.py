"""Write docs/cli.md from the commands' own help: python docs/make_cli.py > docs/cli.md"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from hardsight.cli import app

WIDTH = 100

HEAD = """\
# Commands

<!-- Made by docs/make_cli.py from the commands' own help. Change the help, then run it again. -->

Each command reads, calls one function and writes. The result goes to standard output, progress and errors to standard
error. An error is one line that says what to change, with exit code 2; nothing is written then. A file appears under
its name only when it is complete.
"""


def page() -> str:
    sections = [f"## {name}\n\n```text\n{text}\n```\n" for name, text in helps(get_command(app), "hardsight", None)]
    return "\n".join([HEAD, *sections])


def helps(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    """Each command's full name and help, a group before its members."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH)
    yield context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    for word, member in sorted(getattr(command, "commands", {}).items()):
        yield from helps(member, word, context)


if __name__ == "__main__":
    sys.stdout.write(page())
