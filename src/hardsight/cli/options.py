"""A command's options made from its settings class: one definition, see `hardsight.options`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from hardsight.cli.help_page import Command
from hardsight.options import OptionField, Options

PLAIN = (bool, str, Path)  # numbers arrive as text: the settings class says what is wrong with one
NUMBERS = (int, float)
VALUES: dict[Any, str] = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT", list[str]: "TEXT"}  # what stands for a value
WORDS = {  # and for the value of an option that several commands have, or whose words say more than TEXT
    "split": "NAME", "tracker": "NAME", "by": "SCORE", "scores": "SCORES", "loss": "LOSS", "losses": "LOSSES",
    "methods": "METHODS", "seeds": "SEEDS", "scales": "NUMBERS", "bins": "EDGES", "device": "DEVICE", "host": "ADDRESS",
    "weights": "FILE", "lists": "DIR", "data": "DIR", "mean": "R,G,B", "std": "R,G,B", "shard": "I/N",
    "augment": "NAMES", "target_augment": "NAMES", "degradations": "KIND=LEVELS", "passes": "SNAPSHOTS", "batch_size": "N",
    "portion": "START:STEP:STOP", "source_portion": "START:STEP:STOP", "kinds": "NAMES", "sets": "NAMES", "parts": "NAMES",
    "label_sets": "NAMES", "rates": "SHARES",
}  # fmt: skip


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
    """The command of a settings class, in which some switches may also take a value: `--pretrained` and `--pretrained V1`."""
    words = {flag: word for field in settings_class.fields() if (word := field.about.word) for flag in field.flags}

    class Spelled(Command):
        grouped = dict(_grouped(settings_class))

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """The command line with every such switch spelled out."""
            return super().parse_args(ctx, list(_spelled_out(args, words)))

    return Spelled


def _spelled_out(args: Sequence[str], words: dict[str, str]) -> Iterator[str]:
    """`--pretrained V1` as `--pretrained=V1`, and `--pretrained` before anything else as `--pretrained=true`."""
    left = list(args)
    while left:
        word = left.pop(0)
        if word in words:
            takes = bool(left) and re.fullmatch(words[word], left[0])
            word = f"{word}={left.pop(0) if takes else 'true'}"
        yield word
