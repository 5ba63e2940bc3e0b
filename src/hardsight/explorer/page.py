"""`Page`: what the browser shows, and what it must know first (`about`). opening.py makes it, and routes.py answers from it."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.explorer.columns import is_angle, on_screen, rows_of
from hardsight.explorer.display import Display
from hardsight.explorer.embedding_map import Maps
from hardsight.explorer.review import MARKS, Review
from hardsight.explorer.selection import HUMAN
from hardsight.explorer.thumbnails import Pictures
from hardsight.explorer.two_runs import SECOND, ScoreChanges
from hardsight.version import VERSION

NO_COMMANDS = ("ipykernel_launcher.py", "__main__.py", "-c")  # how a notebook or python -m starts: no command to repeat
OF_RUN = ("command", "words", "arguments", "inputs", "versions", "counts", "seconds")  # of start.json, shown in the tab Run


@dataclass
class Page:
    """Everything that the routes answer from."""

    display: Display
    pictures: Pictures
    review: Review
    why_not_marked: str | None = None  # why samples cannot be marked
    comparison: ScoreChanges | None = None  # with a second run
    write_token: str = ""  # that a POST must bring, where a server guards the page
    reports: bool = False  # whether the browser reports what is selected, for `View.selection`
    selection: np.ndarray | None = None  # (n,) bool, as the browser last reported it; None for all
    again: list[str] = field(default_factory=list)  # commands that show the same page
    apply: list[str] = field(default_factory=list)  # words of the command that applies the marks, where there is one

    def __post_init__(self) -> None:
        self.notes = list(self.display.notes)  # for the user, one sentence each
        self.maps = Maps(self.display, keep=self.why_not_marked is None)
        self.columns = {name: on_screen(column) for name, column in self.display.columns.items()}  # angles in degrees
        self.axes = self._first_axes()

    def _first_axes(self) -> dict[str, str | None]:
        """What the scatter first shows: of two runs, the first against the second; refused where there are no numbers."""
        by, (x, y, color) = self.display.by, self.display.first_axes()
        if self.comparison is not None and by in self.comparison.changes:
            x, y, color = by, by + SECOND, "outcome" if "outcome" in self.display.columns else color
        return {"x": x, "y": y, "color": color}

    def about(self) -> dict[str, Any]:
        """What the browser must know before it first draws."""
        display, snapshot = self.display, self.display.snapshot
        measures = [] if display.epochs is None else display.epochs.measures
        return {
            "version": VERSION,
            "name": display.name,
            "place": display.where,
            "comparison": None if self.comparison is None else asdict(self.comparison),
            "n": len(display),
            "classes": display.class_names,
            "columns": [column.described() for column in self.columns.values()] + self.maps.described_columns(),
            "maps": self.maps.described(),
            "axes": self.axes,
            "by": display.by,
            "pictures": self.pictures.any,
            "closeups": snapshot is not None and snapshot.source.evidence == "features",
            "cosines": snapshot is not None and snapshot.head is not None,
            "epochs": [] if display.epochs is None else display.epochs.numbers,
            "measures": measures,
            "degrees": [name for name in measures if is_angle(name)],
            "moving": measures,  # those with a value for each sample
            "human": HUMAN if HUMAN in display.columns else None,
            "suspects": None if display.suspects is None else display.suspects.described(),
            "quick_filters": [asdict(quick) for quick in display.quick_filters],
            "marks": list(MARKS),
            "why_not_marked": self.why_not_marked,
            "review": self.marks_in,
            "apply": shlex.join(self.apply),
            "write_token": self.write_token,
            "reports": self.reports,
            "start": {name: display.start.get(name) for name in OF_RUN},
            "again": self.how_again(),
            "notes": display.notes,
        }

    @property
    def marks_in(self) -> str:
        """Where marks are saved."""
        return "View.marks alone" if self.review.path is None else str(self.review.path)

    def how_again(self) -> list[str]:
        """The command that made the run, then those that show it."""
        words, command = (str(self.display.start.get(name) or "") for name in ("words", "command"))
        made = command if words.startswith(NO_COMMANDS) else words or command
        return [made or f"hardsight score {shlex.quote(self.display.name)}", *self.again]

    def marks(self) -> list[dict[str, Any]]:
        """All marks on samples of the page, by row."""
        _, marks = self.review.current()
        rows = rows_of(pa.array(list(marks), pa.string()), self.display.ids).tolist()
        return [
            {"row": row, "mark": mark.mark, "suggestion": mark.suggestion}
            for row, mark in zip(rows, marks.values(), strict=True)
            if row >= 0
        ]
