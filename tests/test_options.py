"""Options defined once: one class gives the Python function, the command line and start.json."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from hardsight.cli.command_options import command_of, with_options
from hardsight.errors import InputError
from hardsight.options import Options, option, takes


def numbers(given: Any) -> tuple[float, ...]:
    return tuple(float(part) for part in given.split(",")) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True)
class Cooking(Options):
    minutes: int = option(10, "Minutes on the stove.", least=1, most=60)
    heat: float | None = option(None, "Heat of the plate. Default: that of the recipe.", above=0)
    pan: str = option("iron", "Pan to use.", choices=("iron", "steel"))
    stirred: bool = option(True, "Leave out stirring.", flag="--no-stirring")
    lid: bool = option(False, "Put the lid on.")
    stops: tuple[float, ...] = option((), "Minutes at which to taste, with commas.", read=numbers)
    extras: tuple[str, ...] = option((), "Something to add; repeatable.", repeat=True, read=tuple, flag="--add")
    burner: str = option("left", "Burner to use.", decides=False)

    def check(self) -> None:
        if self.lid and self.stirred:
            raise InputError("stirring needs the lid off.")


@takes(Cooking)
def cook(dish: str, *, settings: Cooking | None = None, say: Any = None, **options: Any) -> tuple[str, Cooking]:
    """Cook a dish."""
    return dish, Cooking.given(settings, options)


def by_command(settings_class: type[Options], *words: str) -> Any:
    """What a command with these options gets: DISH and the settings; its help, if it shows that."""
    app, seen = typer.Typer(rich_markup_mode=None), []

    @app.command(cls=command_of(settings_class))
    @with_options(settings_class, prints="nothing")
    def run(settings: Any, dish: str = typer.Argument("soup")) -> None:
        """Cook DISH."""
        seen.append((dish, settings))

    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0] if seen else result.output


def test_keywords_an_object_and_both() -> None:
    assert cook("soup", minutes=3) == ("soup", Cooking(minutes=3))
    assert cook("soup", settings=Cooking(minutes=3), pan="steel") == ("soup", Cooking(minutes=3, pan="steel"))


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"minutes": 0}, "minutes must be a whole number of 1 or more and of at most 60, got 0."),
        ({"minutes": 2.0}, "minutes must be a whole number"),
        ({"minutes": True}, "minutes must be a whole number"),
        ({"heat": float("nan")}, "heat must be a number above 0"),
        ({"pan": "stell"}, "Did you mean steel"),
        ({"lid": True}, "stirring needs the lid off"),
        ({"lid": "yes"}, "lid must be true or false"),
        ({"minute": 3}, "there is no option 'minute'. Did you mean minutes?"),
    ],
)
def test_wrong_options_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        cook("soup", **wrong)


def test_settings_as_words_give_the_same_settings() -> None:
    settings = Cooking(minutes=3, heat=0.5, stirred=False, lid=True, stops=(1, 2.5), extras=("salt", "old bay"))
    assert settings.as_words() == [
        *("--minutes", "3", "--heat", "0.5", "--no-stirring", "--lid", "--stops", "1,2.5", "--add", "salt", "--add", "old bay")
    ]
    assert by_command(Cooking, "stew", *settings.as_words()) == ("stew", settings)
    assert Cooking().as_words() == [] and by_command(Cooking) == ("soup", Cooking())


def test_what_decides_is_written_down_as_plain_json() -> None:
    told = Cooking(stops=(1, 2)).as_dict()
    assert json.loads(json.dumps(told)) == told
    assert "burner" not in told and told["stops"] == [1.0, 2.0]


@dataclass(frozen=True)
class Baking(Cooking):
    tins: dict[str, int] = option({}, "Tins.", read=dict)
    crust: Literal["thin", "thick"] = option("thin", "Crust.", flag=("--crust", "--edge"))
    fan: bool = option(True, "Use the fan.", flag="--fan/--no-fan")
    minutes: int = Cooking.redefine("minutes", 40, help="Minutes in the oven.")


def test_a_subclass_changes_a_default_and_keeps_the_bounds() -> None:
    assert Baking().minutes == 40 and Cooking().minutes == 10
    with pytest.raises(InputError, match="of at most 60"):
        Baking(minutes=61)
    assert [field.name for field in Baking.fields()][:5] == ["tins", "crust", "fan", "minutes", "heat"]  # its own first
    assert Baking.fields()[3].about.help == "Minutes in the oven."


def test_a_literal_is_its_choices_and_a_dictionary_is_each_objects_own() -> None:
    with pytest.raises(InputError, match="crust must be one of thin, thick"):
        Baking(crust="burnt")  # type: ignore[arg-type]
    first = Baking()
    first.tins["round"] = 1
    assert Baking().tins == {}


def test_an_option_of_several_names_and_a_switch_of_two_directions() -> None:
    for words in ("--crust thick --no-fan", "--edge thick --no-fan"):
        assert by_command(Baking, *words.split())[1] == Baking(crust="thick", fan=False)
    assert by_command(Baking, "--fan")[1] == Baking()


@dataclass(frozen=True)
class Frying(Options):
    oil: bool | str = option(False, "Use oil.", read=lambda value: True if value == "true" else value, word="[A-Z]+")


@pytest.mark.parametrize(
    ("words", "oil"),
    [
        (["fish"], False),
        (["fish", "--oil"], True),
        (["--oil", "fish"], True),  # not its value
        (["--oil", "OLIVE", "fish"], "OLIVE"),
        (["fish", "--oil=OLIVE"], "OLIVE"),
    ],
)
def test_a_switch_may_take_a_word(words: list[str], oil: bool | str) -> None:
    assert by_command(Frying, *words) == ("fish", Frying(oil))


@pytest.mark.parametrize(
    "name",
    [
        "training.settings:TrainSettings",
        "domains.settings:AdaptSettings",
        "domains.settings:GeneralizeSettings",
    ],
)
def test_defaults_of_a_command_are_those_of_the_function(name: str) -> None:
    """No option given on the command line is the same as none given in Python, and start.json can hold it."""
    module, _, class_name = name.partition(":")
    settings_class = getattr(importlib.import_module(f"hardsight.{module}"), class_name)
    _, settings = by_command(settings_class)
    assert settings == settings_class()
    assert json.loads(json.dumps(settings.as_dict())) == settings.as_dict()
