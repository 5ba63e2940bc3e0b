"""Options of the long-running commands, each defined once: one frozen class holds name, type, default, bounds and help.

The Python function, the command line and `start.json` are all derived from it:

    @dataclass(frozen=True)
    class TrainSettings(Options):
        epochs: int = option(10, "Passes over the training data.", least=1)

    @takes(TrainSettings)
    def train(data, output, *, settings=None, **options: Unpack[TrainOptions]):  # train(data, "run", epochs=3)
        settings = TrainSettings.given(settings, options)

`hardsight.cli.command_options` turns the same class into command-line options. Nothing here imports NumPy, so `--help` is fast.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from hardsight.errors import InputError, check_choice, did_you_mean

__all__ = [
    "COMMON",
    "Options",
    "SampleOptions",
    "common",
    "option",
    "takes",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def option(
    default: Any, help: str, *, choices: Sequence[str] | None = None, flag: str | Sequence[str] | None = None, **about: Any
) -> Any:
    """One option: a dataclass field that knows its bounds and its help.

    Args:
        default: the default value; None if it depends on something else, which the help then names.
        help: one line that starts with a noun or a verb.
        least, above, most, below: bounds of a number; `least` and `most` are inclusive, `above` and `below` exclusive.
        choices: the allowed values; a type `Literal["a", "b"]` works too.
        flag: the name on the command line, if it differs from the field's ("--degrade"), or several names for the same option;
            "--no-x" turns off a true default, and "--x/--no-x" is a switch that works both ways.
        metavar: placeholder for the value in the help.
        read: converts the input: the text (or texts) of the command line, or a Python value.
        repeat: whether the option may be repeated on the command line.
        decides: whether the result depends on it: `start.json` records such options, and a resumed run must repeat them.
        word: for a switch with an optional value, as in --pretrained V1: a regular expression that values match.
            Any other word after the switch is not its value, and the switch alone is "true".
        python: whether it is an argument in Python alone, such as an array, and not an option of the command.
    """
    flags = () if flag is None else (flag,) if isinstance(flag, str) else tuple(flag)
    return _field(default, _About(help, tuple(choices) if choices else None, flags, **about))


def _device(value: Any) -> str:
    """A device name that torch knows. Whether this machine has such a device is only known when it is used."""
    name = str(value)
    if name == "auto" or name.partition(":")[0] in DEVICES and re.fullmatch(r"[a-z]+(:\d+)?", name):
        return name
    hint = " Did you mean cuda?" if name.startswith("gpu") else did_you_mean(name, DEVICES)
    raise InputError(f"device must be auto, cpu, cuda, cuda:1 or mps, got {name!r}.{hint}")


def read_numbers(value: Any, name: str) -> tuple[float, ...]:
    """Numbers from a text with commas, or from a sequence."""
    parts = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    try:
        return tuple(float(part) for part in parts)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be comma-separated numbers, got {value!r}.") from error


DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "xla", "mtia", "meta", "privateuseone")
COMMON: dict[str, tuple[Any, str, dict[str, Any]]] = {  # the same meaning and spelling in every command
    "limit": (None, "Use only N samples, spread evenly over the data.", {"least": 1}),
    "first": (None, "Use only the first N samples.", {"least": 1}),
    "seed": (0, "Random seed.", {"least": 0, "below": 2**32}),
    "level": (0.95, "Confidence level of the intervals.", {"above": 0, "below": 1}),
    "head": (None, "Head, if the snapshot has none: .safetensors, .npz or .npy.", {"metavar": "FILE"}),
    "head_layer": (
        None, "Name of the last linear layer, if there are several candidates.",
        {"flag": "--head-layer", "metavar": "NAME", "decides": False},
    ),
    "labels": (None, "Labels to use instead: a file by id (.csv, .parquet) or in order (.npy, text).", {"metavar": "FILE"}),
    "labels_from": (
        None, "Labels, if different from those of the data: a file, a column, or folder:N.",
        {"flag": "--labels", "metavar": "SOURCE", "decides": False},
    ),
    "class_names": (None, "File of class names: text with one name per line, or a JSON list.", {"metavar": "FILE"}),
    "human": (
        None,
        "Human answers: (n, c) counts or (n,) frequencies as .npy, or a .csv, .parquet or .json table by id. Row i of an array "
        "is the sample with id i if ids are numbers, otherwise the i-th sample.",
        {"metavar": "FILE"},
    ),
    "device": ("auto", "Device: auto, cpu, cuda, cuda:1 or mps.", {"read": _device}),
    "allow_missing": (False, "Skip samples without human answers instead of stopping.", {}),
}  # fmt: skip


def common(name: str, **changes: Any) -> Any:
    """A shared option, as COMMON defines it; a command can override `default` or `help`."""
    default, help, about = COMMON[name]
    return option(changes.pop("default", default), changes.pop("help", help), **{**about, **changes})


def _field(default: Any, about: _About) -> Any:
    if isinstance(default, (dict, list)):  # a fresh copy for each object
        return dataclasses.field(default_factory=functools.partial(type(default), default), metadata={"option": about})
    return dataclasses.field(default=default, metadata={"option": about})


@dataclass(frozen=True)
class _About:
    help: str
    choices: tuple[str, ...] | None
    flags: tuple[str, ...]
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    metavar: str | None = None
    read: Callable[[Any], Any] | None = None
    repeat: bool = False
    decides: bool = True
    word: str | None = None
    python: bool = False


@dataclass(frozen=True)
class OptionField:
    """An option with its name and type, for the code that uses it."""

    name: str
    kind: Any  # the type without None
    optional: bool  # whether None is allowed
    default: Any
    about: _About

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on the command line, the preferred one first."""
        return self.about.flags or ("--" + self.name.replace("_", "-"),)

    @property
    def flag(self) -> str:
        """Its preferred name on the command line."""
        return self.flags[0]

    def checked(self, value: Any) -> Any:
        """The converted value, if it is within bounds; otherwise an InputError that says what must hold."""
        if value is None and self.optional:
            return None
        if self.about.read is not None:
            value = self.about.read(value)
        if self.about.choices is not None:
            check_choice(value, self.about.choices, self.name)
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
        """The allowed values in words: "a whole number of 1 or more"."""
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
    """Base class of a command's settings: a frozen dataclass whose fields come from `option`, validated when created."""

    def __post_init__(self) -> None:
        for field in self.fields():
            object.__setattr__(self, field.name, field.checked(getattr(self, field.name)))
        self.check()

    def check(self) -> None:
        """Check that options fit together; subclasses override this."""

    @classmethod
    def fields(cls) -> tuple[OptionField, ...]:
        """The options of this class, in definition order."""
        return _fields_of(cls)  # type: ignore[arg-type]  # a class is hashable, whatever mypy makes of its __hash__

    @classmethod
    def redefine(cls, name: str, default: Any, **changes: Any) -> Any:
        """An option of this class for a subclass, with a different default and, optionally, another help or flag."""
        about = next(field.about for field in cls.fields() if field.name == name)
        if isinstance(flag := changes.get("flag"), str):
            changes = {**{key: value for key, value in changes.items() if key != "flag"}, "flags": (flag,)}
        return _field(default, dataclasses.replace(about, **changes))

    @classmethod
    def given(cls, settings: Self | None, options: Mapping[str, Any], **arguments: Any) -> Self:
        """Settings from a settings object, from single options, or from an object with some options overridden.

        `arguments` are options that a verb also takes by position; None where they were not given.
        """
        options = {**options, **{name: value for name, value in arguments.items() if value is not None}}
        unknown = [name for name in options if name not in {field.name for field in cls.fields()}]
        if unknown:
            names = [field.name for field in cls.fields()]
            groups = [
                field.name for field in cls.fields() if hasattr(field.default, "fields") and hasattr(field.default, unknown[0])
            ]
            hint = f" It is one of {groups[0]}." if groups else did_you_mean(unknown[0], names)
            hint = hint or f" The options are {', '.join(names)}."
            raise InputError(f"there is no option {unknown[0]!r}.{hint}")
        if settings is None:
            return cls(**options)
        if not isinstance(settings, cls):
            raise InputError(f"settings must be {cls.__module__}.{cls.__name__}, got {type(settings).__name__}.")
        return dataclasses.replace(settings, **options)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for start.json: every option that the result depends on."""
        return {field.name: plain(getattr(self, field.name)) for field in self.fields() if field.about.decides}

    def as_words(self) -> list[str]:
        """The options that differ from their defaults, as command-line words."""
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
    """The option shared by everything that shows or writes scores."""

    hardness: str | bool | None = option(
        None,
        "Show every score so that high is hard, changing signs where needed.",
        flag="--as",
        metavar="hardness",
        read=_as_hardness,
    )


@dataclass(frozen=True)
class SampleOptions(Options):
    """Options that select some of the samples."""

    limit: int | None = common("limit")
    first: int | None = common("first")

    @property
    def all_samples(self) -> bool:
        """Whether no sample is left out."""
        return self.limit is None and self.first is None


def _array(help: str) -> Any:
    return option(None, help, decides=False, python=True)


@dataclass(frozen=True)
class OpeningOptions(Options):
    """The keywords of `Snapshot.open`, which every verb passes on."""

    head: Any = common("head", decides=False)
    labels: Any = common("labels", decides=False)
    features: Any = option(
        None, "Columns of a wide table that hold the features: names or patterns, such as 'f*'.", metavar="COLUMNS"
    )
    label: str | None = option(None, "Column of a wide table that holds the labels. Default: label.", metavar="COLUMN")
    class_names: Any = common("class_names", decides=False)
    logits: Any = _array("(n, c) logits instead of features.")
    probs: Any = _array("(n, c) probabilities, instead of features or next to them.")
    pred_probs: Any = _array("Another name of probs.")
    bias: Any = _array("(c,) bias of a weight that is given as head.")
    ids: Any = _array("(n,) unique strings or integers. Default: the index of a pandas frame, or row numbers.")
    columns: Any = _array("Further (n,) columns by name.")

    def check(self) -> None:
        """Labels may come from one source only."""
        super().check()
        if self.label is not None and self.labels is not None:
            raise InputError("--label names a column and --labels a file: use only one of them.")

    def keywords(self) -> dict[str, Any]:
        """The keywords of `Snapshot.open` that were given."""
        names = [*(field.name for field in OpeningOptions.fields() if field.name != "label"), "allow_duplicates"]
        given = {name: getattr(self, name, None) for name in names} | ({} if self.label is None else {"labels": self.label})
        return {name: value for name, value in given.items() if value is not None and value is not False}


@functools.cache
def _fields_of(cls: Any) -> tuple[OptionField, ...]:
    """The options of a class: its own first, then the inherited ones."""
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
    """A value for JSON: numbers, text, lists and dictionaries; anything else as (the beginning of) its text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Options):  # a group of options
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, os.PathLike) else str(value)[:200]


def takes(settings_class: type[Options]) -> Callable[[Function], Function]:
    """Document a function that takes `settings` and each option as a keyword: its help shows the options as if written out.

    The function itself begins with `settings = settings_class.given(settings, options)`. Type checkers and editors read the
    options from `Unpack[...]` in its signature: a TypedDict of option_types.pyi.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function).parameters.values()
        written = [p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD]
        positional = {p.name for p in written}
        options = [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            for field in settings_class.fields()
            if field.name not in positional
        ]
        target: Any = function
        target.__signature__ = inspect.Signature([*written, *options])
        target.settings_class = settings_class  # for the docs
        lines = [f"    {field.name}: {_described(field)}" for field in settings_class.fields()]
        target.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *lines])
        return function

    return decorate


def _described(field: OptionField) -> str:
    """The help of an option, plus its choices and default unless the help has them."""
    help = field.about.help
    choices = field.about.choices or ()
    words = [help] + ([f"One of {', '.join(choices)}."] if not all(choice in help for choice in choices) else [])
    return " ".join(words + ([f"Default: {shown(field.default)}."] if "Default:" not in help else []))


def shown(default: Any) -> str:
    """A default value as shown to users."""
    if default is None or default == () or default == {}:
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)
