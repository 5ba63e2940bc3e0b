"""The command line. Each command reads, calls one function and writes; errors are one sentence and exit code 2."""

from __future__ import annotations

import sys

import typer

from hardsight.errors import HardsightError

app = typer.Typer(
    name="hardsight",
    help="Measure how hard every sample is for a classifier, show it, and act on it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True)) -> None:
    if show:
        from hardsight.version import VERSION

        typer.echo(f"hardsight {VERSION}")
        raise typer.Exit


def main() -> None:
    """Entry point: run a command, and turn an error of ours into one line."""
    try:
        app()
    except HardsightError as error:
        from hardsight.cli.words import printable

        print(f"hardsight: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("hardsight: interrupted", file=sys.stderr)
        sys.exit(130)


from hardsight.cli import adapt, bench, demo, extract, generalize, score, train  # noqa: E402, F401  (each adds its command to `app`)
