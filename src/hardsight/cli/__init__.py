"""The command line. Each command reads, calls one function and writes; errors are one sentence and exit code 2.

Another package adds a command by an entry point of the group `hardsight.commands`: its name is the command, its value a module
that adds the command with `command`, as the modules of this package do.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NoReturn

import typer

from hardsight.cli.command_options import PACKAGES, PURPOSES, Group, UsageError, command_of, with_options
from hardsight.cores import avoid_amx, limit_spinning
from hardsight.errors import HardsightError, did_you_mean
from hardsight.options import Options

__all__ = ["RUN_OUTPUT", "app", "argument", "command", "limit_spinning", "main", "run", "writes"]

app = typer.Typer(
    name="hardsight",
    cls=Group,
    help="Measure how hard every sample is for a classifier, show it, and act on it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True)) -> None:
    """Print the version and exit, if asked to."""
    if show:
        from hardsight.version import VERSION

        typer.echo(f"hardsight {VERSION}")
        raise typer.Exit


def command(settings_class: type[Options] | None = None, **shown: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command to `app`, with the options that `hardsight.cli.command_options.with_options` describes."""
    add = app.command(cls=command_of(settings_class or Options))
    return lambda function: add(with_options(settings_class, **shown)(function))


def argument(metavar: str, help: str, *, required: bool = True) -> Any:
    """An argument of a command, which is given by its place."""
    return typer.Argument(... if required else None, metavar=metavar, help=help)


def writes(help: str, metavar: str = "FILE", *, required: bool = False) -> Any:
    """The option `-o`: what a command writes."""
    return typer.Option(... if required else None, "-o", "--output", metavar=metavar, help=help)


RUN_OUTPUT = writes("Run directory to write; an interrupted run is resumed.", "RUN", required=True)


class Stopped(BaseException):
    """Ctrl-C, or a request to end. Not an Exception, so that nothing on the way takes it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def _stopping() -> Iterator[None]:
    """SIGINT and SIGTERM end a command as an error would: what it was writing is removed on the way out."""

    def stop(number: int, frame: object) -> None:
        raise Stopped(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]  # nohup and the like
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Entry point of `hardsight`."""
    limit_spinning()
    run(app)


def run(app: typer.Typer) -> None:
    """Run the command that the command line names, and turn an error of ours or of the system into one line."""
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")
    avoid_amx()

    try:
        with _stopping():
            code = app(args=sys.argv[1:], prog_name="hardsight", standalone_mode=False)  # of typer.Exit, else None
            sys.stdout.flush()  # a full disk is noticed here and not when Python ends
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
            error.show()
            sys.exit(error.exit_code)
        _end(_usage(error), error.exit_code)
    except typer.Abort:
        _end("stopped.", 1)
    except HardsightError as error:
        _end(str(error), 2)
    except Stopped as stopped:
        _end(" ".join(["stopped.", *getattr(stopped, "__notes__", [])]), stopped.exit_code)
    except MemoryError as error:
        _end(f"not enough memory{f': {error}' if str(error) else ''}. Try --limit, or a machine with more.", 2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else "" if error.errno is None else "standard output: "
        _end(f"{where}{error.strerror or error}.", 2)
    if code:
        sys.exit(code)


def _usage(error: Any) -> str:
    """What is wrong with the command line and where to look, in one line."""
    message = " ".join(error.format_message().split())
    if type(error).__name__ == "NoSuchOption":
        written = getattr(error.ctx.command, "grouped", {}).get(error.option_name)  # --momentum is one of --optimizer-options
        hint = f" Write {written}." if written else did_you_mean(error.option_name, _flags(error.ctx.command))
        message = f"no such option: {error.option_name}.{hint}"
    end = "" if message.endswith((".", "?")) else "."
    path = "hardsight" if error.ctx is None else error.ctx.command_path
    return f"{message[:1].lower()}{message[1:]}{end} See {path} --help."


def _flags(command: Any) -> list[str]:
    """The options of a command that its help shows."""
    shown = (option for option in command.params if not getattr(option, "hidden", False))
    return [flag for option in shown for flag in (*option.opts, *option.secondary_opts) if flag.startswith("--")]


def _end(message: str, code: int) -> NoReturn:
    """Say why on standard error and end; output that cannot be written any more is dropped."""
    from hardsight.screen import printable

    with suppress(OSError):
        print(f"hardsight: {printable(message)}", file=sys.stderr, flush=True)
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


# Each module adds its command to `app`.
for _name in (name for names in PURPOSES.values() for name in names if name not in PACKAGES):
    import_module(f"hardsight.cli.{_name}")
for _command in entry_points(group="hardsight.commands"):
    _command.load()
