"""Options of a long command, defined once: name, type, default, bounds and help stand in one frozen class.

The Python function, the command line, the docs page and `start.json` all follow from it:

    @dataclass(frozen=True)
    class Settings(Options):
        epochs: int = option(10, "Passes over the training data.", least=1)

    @takes(Settings)
    def run(data, output, *, settings): ...      # run(data, "run", epochs=3), or settings=Settings(epochs=3)

`hardsight.cli.options` turns the same class into command-line options. Nothing here imports NumPy: `--help` is quick.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import numbers
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from hardsight.errors import InputError, did_you_mean

Result = TypeVar("Result")


def option(
    default: Any, help: str, *, least: float | None = None, above: float | None = None, most: float | None = None,
    below: float | None = None, choices: Sequence[str] | None = None, flag: str | Sequence[str] | None = None,
    metavar: str | None = None, read: Callable[[Any], Any] | None = None, repeat: bool = False, decides: bool = True,
    word: str | None = None,
) -> Any:  # fmt: skip
    """One option: a dataclass field that knows its bounds and its help.

    Args:
        default: its value when nobody says anything; None where it depends on something else, and then the help says on what.
        help: one line that starts with a noun or a verb.
        least, above, most, below: bounds of a number; `least` and `most` are allowed themselves.
        choices: the words allowed; a type `Literal["a", "b"]` says them as well.
        flag: its name on the command line, if not the field's own ("--degrade"), or several names for the same option;
            "--no-x" turns a true default off, and "--x/--no-x" is a switch with both directions.
        metavar: what stands for its value in the help.
        read: makes the value of whatever was given: the text (or texts) of the command line, or a Python value.
        repeat: given several times on the command line.
        decides: whether the result depends on it: what `start.json` records and a resumed run must repeat.
        word: of a switch that may also take a value, as in --pretrained V1, what values look like (a regular expression);
            any other word after it is not its own, and the switch alone is "true".
    """
    flags = () if flag is None else (flag,) if isinstance(flag, str) else tuple(flag)
    about = _About(
        help, least, above, most, below, tuple(choices) if choices else None, flags, metavar, read, repeat, decides, word
    )
    return _field(default, about)


def _device(value: Any) -> str:
    """A name that torch knows; whether the machine has such a device is seen when it is used."""
    name = str(value)
    if name == "auto" or name.partition(":")[0] in DEVICES and re.fullmatch(r"[a-z]+(:\d+)?", name):
        return name
    hint = " Did you mean cuda?" if name.startswith("gpu") else did_you_mean(name, DEVICES)
    raise InputError(f"device must be auto, cpu, cuda, cuda:1 or mps, got {name!r}.{hint}")


DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "xla", "mtia", "meta", "privateuseone")
COMMON: dict[str, tuple[Any, str, dict[str, Any]]] = {  # one meaning and one spelling in every command that has them
    "limit": (None, "Use only N samples, spread evenly over the data.", {"least": 1}),
    "first": (None, "Use only the first N samples.", {"least": 1}),
    "seed": (0, "Random seed.", {"least": 0, "below": 2**32}),
    "level": (0.95, "Confidence level of the intervals.", {"above": 0, "below": 1}),
    "head": (None, "Head, if the snapshot has none: .safetensors, .npz or .npy.", {"metavar": "FILE"}),
    "head_layer": (
        None, "Name of the last linear layer, where several are possible.",
        {"flag": "--head-layer", "metavar": "NAME", "decides": False},
    ),
    "labels": (None, "Labels, if the snapshot has none: a .npy file.", {"metavar": "FILE"}),
    "labels_from": (
        None, "Labels, if not those of the data: a file, a column, or folder:N.",
        {"flag": "--labels", "metavar": "SOURCE", "decides": False},
    ),
    "class_names": (None, "File of class names: text with one name per line, or a JSON list.", {"metavar": "FILE"}),
    "human": (
        None,
        "Human answers: (n, c) counts or (n,) frequencies as .npy, or a .csv, .parquet or .json table by id. Row i of an array "
        "is the sample with id i where ids are numbers, else the i-th sample.",
        {"metavar": "FILE"},
    ),
    "device": ("auto", "Device: auto, cpu, cuda, cuda:1 or mps.", {"read": _device}),
    "allow_missing": (False, "Leave out samples without human answers instead of stopping at them.", {}),
}  # fmt: skip


def common(name: str, **changes: Any) -> Any:
    """An option that several commands share, as COMMON defines it; `default` or `help` may be its own."""
    default, help, about = COMMON[name]
    return option(changes.pop("default", default), changes.pop("help", help), **{**about, **changes})


def _field(default: Any, about: _About) -> Any:
    if isinstance(default, (dict, list)):  # one of its own for each object
        return dataclasses.field(default_factory=functools.partial(type(default), default), metadata={"option": about})
    return dataclasses.field(default=default, metadata={"option": about})


@dataclass(frozen=True)
class _About:
    help: str
    least: float | None
    above: float | None
    most: float | None
    below: float | None
    choices: tuple[str, ...] | None
    flags: tuple[str, ...]
    metavar: str | None
    read: Callable[[Any], Any] | None
    repeat: bool
    decides: bool
    word: str | None


@dataclass(frozen=True)
class OptionField:
    """An option as others see it: what `option` said, with its name and type."""

    name: str
    kind: Any  # the type without None
    optional: bool  # whether None is allowed
    default: Any
    about: _About

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on the command line, the usual one first."""
        return self.about.flags or ("--" + self.name.replace("_", "-"),)

    @property
    def flag(self) -> str:
        """Its usual name on the command line."""
        return self.flags[0]

    def checked(self, value: Any) -> Any:
        """The value, read and within its bounds, or an InputError that says what must hold."""
        if value is None and self.optional:
            return None
        if self.about.read is not None:
            value = self.about.read(value)
        if self.about.choices is not None and value not in self.about.choices:
            hint = did_you_mean(value, self.about.choices)
            raise InputError(f"{self.name} must be one of {', '.join(self.about.choices)}, got {value!r}.{hint}")
        if self.kind is bool and not isinstance(value, bool):
            raise InputError(f"{self.name} must be true or false, got {value!r}.")
        if self.kind in (int, float):
            value = self._number(value)
        return value

    def _number(self, value: Any) -> Any:
        whole = self.kind is int
        if isinstance(value, bool) or not isinstance(value, numbers.Integral if whole else numbers.Real):
            raise InputError(f"{self.name} must be {self.domain}, got {value!r}.")
        value = int(value) if isinstance(value, numbers.Integral) and whole else float(value)
        a = self.about
        inside = (
            math.isfinite(value)
            and (a.least is None or value >= a.least)
            and (a.above is None or value > a.above)
            and (a.most is None or value <= a.most)
            and (a.below is None or value < a.below)
        )
        if not inside:
            raise InputError(f"{self.name} must be {self.domain}, got {value!r}.")
        return value

    @property
    def domain(self) -> str:
        """What values are allowed, in words: "a whole number of 1 or more"."""
        a = self.about
        bounds = [
            f"of {_plain(a.least)} or more" if a.least is not None else "",
            f"above {_plain(a.above)}" if a.above is not None else "",
            f"of at most {_plain(a.most)}" if a.most is not None else "",
            f"below {_plain(a.below)}" if a.below is not None else "",
        ]
        words = " and ".join(bound for bound in bounds if bound)
        return f"{'a whole number' if self.kind is int else 'a number'}{' ' + words if words else ''}"


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


@dataclass(frozen=True)
class Options:
    """Base of a command's settings: a frozen dataclass whose fields are made by `option`, checked when made."""

    def __post_init__(self) -> None:
        for field in self.fields():
            object.__setattr__(self, field.name, field.checked(getattr(self, field.name)))
        self.check()

    def check(self) -> None:
        """What must hold between options; a subclass says it."""

    @classmethod
    def fields(cls) -> tuple[OptionField, ...]:
        """The options of this class, in the order of their definition."""
        return _fields_of(cls)  # type: ignore[arg-type]  # a class is hashable, whatever mypy makes of its __hash__

    @classmethod
    def redefine(cls, name: str, default: Any, **changes: Any) -> Any:
        """An option of this class for a subclass, with another default and, if need be, another help or flag."""
        about = next(field.about for field in cls.fields() if field.name == name)
        if isinstance(flag := changes.get("flag"), str):
            changes = {**{key: value for key, value in changes.items() if key != "flag"}, "flags": (flag,)}
        return _field(default, dataclasses.replace(about, **changes))

    @classmethod
    def given(cls, settings: Self | None, options: Mapping[str, Any]) -> Self:
        """Settings from a whole object, from single options, or from an object with some options changed."""
        unknown = [name for name in options if name not in {field.name for field in cls.fields()}]
        if unknown:
            names = [field.name for field in cls.fields()]
            hint = did_you_mean(unknown[0], names) or f" There are {', '.join(names)}."
            raise InputError(f"there is no option {unknown[0]!r}.{hint}")
        if settings is None:
            return cls(**options)
        if not isinstance(settings, cls):
            raise InputError(f"settings must be {cls.__module__}.{cls.__name__}, got {type(settings).__name__}.")
        return dataclasses.replace(settings, **options)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for start.json, of every option that decides the result."""
        return {field.name: plain(getattr(self, field.name)) for field in self.fields() if field.about.decides}

    def as_words(self) -> list[str]:
        """The options that are not as they would be anyway, as on the command line."""
        words: list[str] = []
        for field in self.fields():
            value = getattr(self, field.name)
            if value == field.default or (value is False and field.kind is not bool):
                continue
            if value is True and field.kind is not bool and field.about.word is None:
                value = field.about.metavar  # --as hardness
            if isinstance(value, bool):
                words.append(field.flag.split("/")[0 if value else -1])
                continue
            listed = isinstance(value, (list, tuple))
            several = list(value) if listed and field.about.repeat else [",".join(map(str, value)) if listed else value]
            words += [word for item in several for word in (field.flag, str(item))]
        return words


def _as_hardness(value: Any) -> bool:
    if value in (True, False, "hardness"):
        return bool(value)
    raise InputError(f"--as hardness is the only other view (hardness=True in Python), got {value!r}.")


@dataclass(frozen=True)
class HardnessView(Options):
    """The option of everything that shows or writes scores."""

    hardness: str | bool | None = option(
        None,
        "Show every score so that high is hard, changing signs where needed.",
        flag="--as",
        metavar="hardness",
        read=_as_hardness,
    )


@dataclass(frozen=True)
class SampleOptions(Options):
    """Which samples, where not all of them."""

    limit: int | None = common("limit")
    first: int | None = common("first")

    @property
    def all_samples(self) -> bool:
        """Whether none is left out."""
        return self.limit is None and self.first is None


@dataclass(frozen=True)
class TableColumns(Options):
    """Which columns of a wide table are meant, of a command that takes a head and labels as well."""

    features: Any = option(
        None, "Columns of a wide table that hold the features: names or patterns, such as 'f*'.", metavar="COLUMNS"
    )
    label: str | None = option(None, "Column of a wide table that holds the labels. Default: label.", metavar="COLUMN")

    def check(self) -> None:
        """Labels come from one place."""
        if self.label is not None and getattr(self, "labels", None) is not None:
            raise InputError("--label names a column and --labels a file: give one of them.")


@functools.cache
def _fields_of(cls: Any) -> tuple[OptionField, ...]:
    """The options of a class: its own first, then those that it shares with others."""
    hints, fields = get_type_hints(cls), {field.name: field for field in dataclasses.fields(cls)}
    order = dict.fromkeys(name for base in cls.__mro__ for name in vars(base).get("__annotations__", {}) if name in fields)
    return tuple(_option_field(fields[name], hints[name]) for name in order)


def _option_field(field: dataclasses.Field[Any], hint: Any) -> OptionField:
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    real = [kind for kind in kinds if kind is not type(None)]
    kind, about = real[0] if len(real) == 1 else Any, field.metadata["option"]
    if get_origin(kind) is Literal:
        kind, about = str, dataclasses.replace(about, choices=about.choices or get_args(kind))
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return OptionField(field.name, kind, type(None) in kinds, default, about)


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers, text, lists and dictionaries; anything else by (the beginning of) its text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, os.PathLike) else str(value)[:200]


def takes(settings_class: type[Options]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Let a function that has a keyword `settings` take each option as a keyword, too.

    Its signature and its help show the options as if they had been written out.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        own = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, settings: Any = None, **keywords: Any) -> Result:
            options = {name: keywords.pop(name) for name in list(keywords) if name not in own.parameters}
            return function(*args, settings=settings_class.given(settings, options), **keywords)

        keyword = inspect.Parameter.KEYWORD_ONLY
        options = [inspect.Parameter(field.name, keyword, default=field.default) for field in settings_class.fields()]
        mine = [p.replace(default=None) if p.name == "settings" else p for p in own.parameters.values()]
        call.__signature__ = own.replace(parameters=[*mine, *options])  # type: ignore[attr-defined]
        call.settings_class = settings_class  # type: ignore[attr-defined]  # for the docs
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nOptions:\n" + "\n".join(_lines(settings_class.fields()))
        return call

    return decorate


def _lines(fields: Iterable[OptionField]) -> list[str]:
    return [f"    {field.name}: {described(field)}" for field in fields]


def described(field: OptionField) -> str:
    """What an option means, with its choices and its default, unless the help says them."""
    help = field.about.help
    choices = field.about.choices or ()
    words = [help] + ([f"One of {', '.join(choices)}."] if not all(choice in help for choice in choices) else [])
    return " ".join(words + ([f"Default: {shown(field.default)}."] if "Default:" not in help else []))


def shown(default: Any) -> str:
    """A default for people."""
    if default is None or default == () or default == {}:
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)


def table(settings_class: type[Options]) -> str:
    """The options as a Markdown table, for the docs."""
    rows = ["| option | in Python | default | meaning |", "|---|---|---|---|"]
    for field in settings_class.fields():
        flags = ", ".join(f"`{flag}`" for flag in field.flags)
        help = field.about.help.replace("|", "\\|")
        rows.append(f"| {flags} | `{field.name}` | {shown(field.default)} | {help} |")
    return "\n".join(rows) + "\n"
