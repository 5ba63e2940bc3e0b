"""A recipe: one table or figure of a paper, what is printed there, and how to run it here.

A recipe is a short file that reads like the paper's caption:

    @recipe("avh/fig3", "Two overlapping Gaussians on a sphere: AVH and norm as heat maps")
    def figure_3(context: Context) -> Outcome:
        ...
        return Outcome(
            about="400 points of two classes on the sphere; an MLP of 3-100-2.",
            tables=[Table("AUROC of the overlap", ("score", "ours", "printed"), rows)],
            figures={"heat maps": figure},
            claims=[claim("AVH marks the overlap better than the norm.", rule="Its AUROC is higher: the interval over seeds.",
                          effects=[effect(difference(avh, norm), DIFFERENCE)], found=f"{avh.mean():.3f} and {norm.mean():.3f}.")],
        )

Nothing is adjusted to agree with what is printed. A claim carries the rule it is judged by; `verdicts.py` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hardsight.errors import InputError
from hardsight_papers.verdicts import Claim as Claim
from hardsight_papers.verdicts import claim as claim

if TYPE_CHECKING:
    from hardsight_papers.context import Context

Value = str | int | float | None  # a cell: None is shown as a dash


@dataclass(frozen=True)
class Table:
    """A table, ours beside the printed numbers.

    Args:
        title: what it shows.
        header: one name per column; say `ours` and `printed` where both stand side by side.
        rows: text, numbers, or None where there is nothing.
        words: how many of the first columns hold words.
        digits: decimals of numbers that are not whole; None for four digits.
        note: a sentence below it.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    words: int = 1
    digits: int | None = 3
    note: str = ""

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.header)]
        if wrong:
            raise InputError(f"{self.title}: a row needs {len(self.header)} cells, got {list(wrong[0])}.")

    def cells(self) -> list[list[str]]:
        """Every cell as text."""
        return [[self._text(value) for value in row] for row in self.rows]

    def _text(self, value: Value) -> str:
        if value is None or isinstance(value, float) and value != value:
            return "–"
        if isinstance(value, float):
            return f"{value:.4g}" if self.digits is None else f"{value:.{self.digits}f}"
        return str(value)


@dataclass(frozen=True)
class Outcome:
    """What a recipe found.

    Args:
        about: what it was run on, in a sentence or two: data, network, epochs, seeds.
        tables: ours beside the printed numbers.
        figures: by name, which is the caption and, with dashes, the file's name; paths in an outcome that was read from a run.
        claims: what the paper says, with the verdict.
        commands: command lines of ours that do the same, to try it on other data.
    """

    about: str
    tables: Sequence[Table] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class Recipe:
    """One table or figure: its id, its title, and the function that runs it.

    `needs` says which data make it comparable to the paper; without them it runs on what is built in.
    """

    id: str
    title: str
    run: Callable[[Context], Outcome]
    printed: Mapping[str, Any]
    needs: str


RECIPES: dict[str, Recipe] = {}  # of the modules imported so far; `catalog.recipes()` imports them all


def recipe(
    id: str, title: str, *, printed: Mapping[str, Any] | None = None, needs: str = ""
) -> Callable[[Callable[[Context], Outcome]], Callable[[Context], Outcome]]:
    """Register a function as the recipe of a table or figure.

    Args:
        id: `paper/table2`, `paper/fig3` or `paper/name`.
        title: what it shows, in one line for the list.
        printed: the numbers on paper, by name, as JSON has them.
        needs: data in --data that make it comparable, such as "ImageNet 5k".
    """

    def register(run: Callable[[Context], Outcome]) -> Callable[[Context], Outcome]:
        if id in RECIPES:
            raise InputError(f"there are two recipes for {id}.")
        RECIPES[id] = Recipe(id, title, run, printed or {}, needs)
        return run

    return register
