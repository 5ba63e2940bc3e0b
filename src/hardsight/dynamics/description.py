"""A run's dynamics described in words, numbers and figures, and as a table with one row per epoch and split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.dynamics.collapse import NAMES
from hardsight.dynamics.curves import Curves, plateau, read_curves, still_grows
from hardsight.dynamics.groups import Groups, by_column, by_hardness, by_human
from hardsight.dynamics.phases import Phases, find_phases
from hardsight.errors import FileError, InputError
from hardsight.files.epochs import moments, read_measures, read_moment
from hardsight.render.saving import save_figure
from hardsight.result import Result
from hardsight.screen import Sentence, ShownTable, line, number, percent

HELD_OUT_FIRST = ("test", "val")
MEANS = ("norm", "avh", "own_angle", "confidence", "correct", "loss")
COSINES = ("uniformity", "tolerance", "positive_cosine", "negative_cosine")
MEASURES = (*NAMES, *COSINES)
HISTOGRAMS = ("positive_cosines", "negative_cosines")


class TrainingDynamics(Result):
    """What a run's dynamics say.

    Attributes:
        table: one row per split and epoch, of `read_epochs`.
        said: sentences, in order.
        numbers: the same as numbers, by split.
        drawn: files of the figures.
    """

    def __init__(self, run: str | Path, epochs: pa.Table) -> None:
        super().__init__(epochs, run=run)
        self.said: list[str] = []
        self.numbers: dict[str, Any] = {}
        self.drawn: list[Path] = []

    def lines(self) -> Iterator[Sentence]:
        """One sentence after the other; the first has the numbers."""
        for place, sentence in enumerate(self.said):
            yield line(sentence, **({} if place else self.numbers))

    def details(self) -> Iterator[ShownTable]:
        """The numbers behind the figures; lists, as of histograms, are left out."""
        table = self.table
        names = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
        names = [name for name in names if table.column(name).null_count < len(table)]
        rows = [[number(row[name]) for name in names] for row in table.select(names).to_pylist()]
        yield ShownTable("epochs", [name.replace("_", " ") for name in names], rows, "every epoch")

    def __str__(self) -> str:
        return "\n".join(self.said)


def describe_and_draw(
    run: str | Path,
    *,
    by: str | None = None,
    human: Any = None,
    split: str | None = None,
    figures: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingDynamics:
    """Report whether and when AVH settles while norm and accuracy still grow, look for the two phases, and plot the curves.

    Args:
        run: a run with dynamics.
        by: a column to group by: `label`, `degradation`, a score, or any column of the run's tables.
        human: group by human selection frequency, in any form that `hardsight.correlate` takes.
        split: use only this split. Default: every held-out set, or the training samples if there is none.
        figures: directory for PNG files. Default: the run's `figures/`.
        progress: called with the number of passes over the files done, and the total.
    """
    if by is not None and human is not None:
        raise InputError("group by a column or by human counts, not both.")
    folder = Path(run) / "figures" if figures is None else Path(figures)
    there = _splits(run)
    if split is not None and split not in there:
        raise InputError(f"{run}: no split {split!r} in the dynamics; there is {', '.join(map(str, there))}.")
    chosen = [split] if split is not None else [name for name in there if name != "train"] or there
    description = TrainingDynamics(run, read_epochs(run, chosen))
    # Before anything is plotted: the grouping may not fit.
    reports = [_SplitReport(run, name, _groups(run, by, human, name), folder, description) for name in chosen]
    passes = [describe for report in reports for describe in report.passes()]
    for done, describe in enumerate(passes):
        if progress is not None:
            progress(done, len(passes))
        describe()
    return description


@dataclass(frozen=True)
class _SplitReport:
    """What is said and drawn of one split; each method is a pass over its files."""

    run: str | Path
    split: str | None
    groups: Groups | None
    folder: Path
    description: TrainingDynamics

    def passes(self) -> list[Callable[[], None]]:
        return [self.all_samples, self.easy_and_hard, self.by_groups, self.steps, self.collapse]

    @property
    def name(self) -> str:
        return self.split or "all samples"

    @property
    def numbers(self) -> dict[str, Any]:
        numbers: dict[str, Any] = self.description.numbers.setdefault(self.name, {})
        return numbers

    def all_samples(self) -> None:
        curves = read_curves(self.run, split=self.split)
        self.numbers.update(epochs=curves.times, samples=int(curves.count.max(initial=0)))
        if curves.moments:
            samples = f"{self.numbers['samples']:,} samples, epochs {curves.times[0]} to {curves.times[-1]}"
            self.description.said += [f"{self.name}: {samples}", *_plateau_lines(curves, self.numbers)]
            self._draw(curves, ("norm", "avh", "correct", "confidence"), f"{self.name}, all samples", "")

    def easy_and_hard(self) -> None:
        curves = read_curves(self.run, by_hardness(self.run, self.split), split=self.split)
        if curves.moments:
            boundaries = _phase_lines(curves, self.description, self.numbers)
            title = f"{self.name}: the third with the lowest and the third with the highest mean AVH"
            self._draw(curves, ("own_angle", "norm", "avh", "correct"), title, "-easy-hard", boundaries)

    def by_groups(self) -> None:
        groups = self.groups
        curves = None if groups is None else read_curves(self.run, groups, split=self.split)
        if groups is None or curves is None or not curves.moments:
            return
        if not curves.present():
            raise InputError(
                f"{self.name}: no sample has a {groups.name} to group by: its ids do not match those of the dynamics."
            )
        self.description.said.append(f"  by {groups.name}, at epoch {curves.times[-1]}:")
        for group in curves.present():
            found = plateau(curves.mean["avh"][group])
            settled = f"does not settle: {found.why_not}" if found.at is None else f"settles at epoch {curves.times[found.at]}"
            values = {key: float(curves.mean[key][group, -1]) for key in ("avh", "norm", "correct")}
            self.description.said.append(
                f"    {groups.names[group]} (n = {int(curves.count[group].max()):,}): AVH {values['avh']:.4g}, "
                f"norm {values['norm']:.4g}, accuracy {percent(values['correct'])} %; AVH {settled}"
            )
            self.numbers.setdefault("groups", {})[groups.names[group]] = values
        columns = ("norm", "avh", "correct", "confidence")
        self._draw(curves, columns, f"{self.name} by {groups.name}", f"-by-{_file_word(groups.name)}")

    def steps(self) -> None:
        curves = read_curves(self.run, self.groups, split=self.split, steps=True)
        if not curves.moments:
            return
        self._draw(curves, ("norm", "own_angle", "avh", "correct"), f"{self.name}, inside the epochs", "-steps")
        if self.groups is None:
            lines = _plateau_lines(curves, self.numbers.setdefault("steps", {}))
            self.description.said.append(f"  inside the epochs, steps {curves.times[0]} to {curves.times[-1]}:")
            self.description.said += [f"  {line}" for line in lines]

    def collapse(self) -> None:
        """Neural collapse, uniformity and tolerance, if they were recorded."""
        table = self.description.table
        ours = pc.is_null(table.column("split")) if self.split is None else pc.equal(table.column("split"), self.split)
        measured = table.filter(pc.and_(pc.fill_null(ours, False), pc.is_valid(table.column("measured"))))
        if len(measured) == 0:
            return
        rows = measured.to_pylist()
        self.description.said.append(_collapse_line(rows[-1]))
        self.numbers["collapse"] = {key: rows[-1][key] for key in MEASURES}
        if len(measured) > 1:
            from hardsight.render.dynamics import collapse_figure

            title = f"{self.name}: collapse of the features, and cosines of pairs"
            self._save(collapse_figure(measured, title=title), "-collapse")

    def _draw(
        self, curves: Curves, columns: tuple[str, ...], title: str, ending: str, marks: Sequence[tuple[int, int]] = ()
    ) -> None:
        from hardsight.render.dynamics import curves_figure

        self._save(curves_figure(curves, columns, title=title, marks=marks), ending)

    def _save(self, figure: Any, ending: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.description.drawn += save_figure(figure, self.folder / f"dynamics-{_file_word(self.name)}{ending}.png")


def _plateau_lines(curves: Curves, numbers: dict[str, Any]) -> list[str]:
    """Check observation 2 of the paper: AVH settles early while accuracy and norm still grow."""
    avh, norm, accuracy = (curves.mean[name][0] for name in ("avh", "norm", "correct"))
    settled = plateau(avh)
    if settled.at is None:
        numbers["avh_plateau"] = None
        return [f"  AVH reaches no plateau: {settled.why_not} ({_from_to(avh)})"]
    unit, time = curves.unit, curves.times[settled.at]
    growing = {"norm": still_grows(norm, settled.at), "accuracy": still_grows(accuracy, settled.at)}
    numbers["avh_plateau"] = {unit: time, "norm_still_grows": growing["norm"], "accuracy_still_grows": growing["accuracy"]}
    both = [name for name, grows in growing.items() if grows]
    words = {0: "neither norm nor accuracy grows after it", 1: f"only the {both[0] if both else ''} still grows after it"}
    return [
        f"  AVH settles at {unit} {time} of {curves.times[-1]} ({_from_to(avh)}): "
        + words.get(len(both), "norm and accuracy still grow after it"),
        f"    norm {norm[settled.at]:.4g} there, {norm[-1]:.4g} at the end; "
        f"accuracy {percent(accuracy[settled.at])} % there, {percent(accuracy[-1])} % at the end",
    ]


def _phase_lines(curves: Curves, description: TrainingDynamics, numbers: dict[str, Any]) -> list[tuple[int, int]]:
    """Check the conjecture separately for easy and hard samples; return the boundaries."""
    boundaries = []
    for group in curves.present():
        phases = find_phases(curves.mean["own_angle"][group], curves.mean["norm"][group])
        name = curves.groups.names[group]
        if phases.found and phases.at is not None:
            boundaries.append((group, curves.times[phases.at]))
        boundary = None if phases.at is None else curves.times[phases.at]
        description.said.append(f"  {name} third: {_phase_words(phases, curves.unit, boundary)}")
        numbers.setdefault("phases", {})[name] = _phase_numbers(phases, boundary)
    return boundaries


def _phase_words(phases: Phases, unit: str, boundary: int | None) -> str:
    angle, norm = [f"{math.degrees(radians):.1f}" for radians in phases.angle], [f"{length:.4g}" for length in phases.norm]
    if boundary is None:
        return f"no two phases: {phases.why_not} (angle {angle[0]} to {angle[2]} degrees, norm {norm[0]} to {norm[2]})"
    fallen, risen = percent(phases.angle_share, digits=0), percent(phases.norm_share, digits=0)
    shares = f"{fallen} % of the angle's fall and {risen} % of the norm's rise are complete"
    path = f"angle {angle[0]}, {angle[1]}, {angle[2]} degrees; norm {norm[0]}, {norm[1]}, {norm[2]}"
    if phases.found:
        return f"angles first until {unit} {boundary}, norms later: by then {shares} ({path})"
    return f"no two phases: {phases.why_not}; at {unit} {boundary}, where they are furthest apart, {shares} ({path})"


def _phase_numbers(phases: Phases, boundary: int | None) -> dict[str, Any]:
    values = (*phases.angle, *phases.norm, phases.angle_share, phases.norm_share)
    clean = [None if math.isnan(value) else value for value in values]
    names = ("angle_first", "angle_at", "angle_last", "norm_first", "norm_at", "norm_last", "angle_share", "norm_share")
    return {"found": phases.found, "at": boundary, "why_not": phases.why_not, **dict(zip(names, clean, strict=True))}


def _groups(run: str | Path, by: str | None, human: Any, split: str | None) -> Groups | None:
    from hardsight.render.style import COLORS

    if human is None and by is None:
        return None
    groups = by_human(run, human, split) if by is None else by_column(run, by, split)
    if len(groups) > len(COLORS):
        raise InputError(
            f"{len(groups)} groups by {groups.name} are too many to plot; group by something with at most {len(COLORS)} values."
        )
    return groups


def read_epochs(run: str | Path, splits: Sequence[str | None]) -> pa.Table:
    """The epochs of a run, split after split.

    Columns: split, epoch, samples, means over the samples (`accuracy` for `correct`), `measured` (how many samples the rest is
    computed on), nc1 to nc4, uniformity, tolerance, mean cosines of pairs, and cosine histograms as lists of counts.
    """
    return pa.concat_tables([_epochs_of_split(run, split) for split in splits])


def _epochs_of_split(run: str | Path, split: str | None) -> pa.Table:
    curves = read_curves(run, split=split, columns=MEANS)
    by_epoch = {moment.epoch: read_measures(path).get(split, {}) for moment, path in moments(run)}
    measured = [by_epoch[epoch] for epoch in curves.times]
    columns: dict[str, Any] = {
        "split": pa.array([split] * len(measured), pa.string()),
        "epoch": pa.array(curves.times, pa.int64()),
        "samples": pa.array(curves.count[0] if len(measured) else [], pa.int64()),
    }
    for name in MEANS:
        column = curves.mean[name][0] if len(measured) else np.zeros(0)
        columns["accuracy" if name == "correct" else name] = pa.array(column, pa.float64(), from_pandas=True)
    columns["measured"] = pa.array([numbers.get("measured") for numbers in measured], pa.int64())
    columns |= {name: pa.array([numbers.get(name) for numbers in measured], pa.float64()) for name in MEASURES}
    columns |= {name: pa.array([numbers.get(name) for numbers in measured], pa.list_(pa.int64())) for name in HISTOGRAMS}
    return pa.table(columns)


def _collapse_line(row: dict[str, Any]) -> str:
    """The metrics of one epoch."""
    metrics = [f"{name.upper()} {number(row[name])}" for name in ("nc1", "nc2", "nc3", "nc4")]
    metrics += [f"{name} {number(row[name])}" for name in ("uniformity", "tolerance")]
    cosines = f"mean cosine {number(row['positive_cosine'])} within and {number(row['negative_cosine'])} between classes"
    return f"  collapse at epoch {row['epoch']}, of {row['measured']:,} samples: {', '.join([*metrics, cosines])}"


def _splits(run: str | Path) -> list[str | None]:
    """The splits of the last moments, held-out splits first."""
    splits: set[str | None] = set()
    for files in (moments(run), moments(run, steps=True)):
        for _, path in files[-1:]:
            splits |= set(pc.unique(read_moment(path, ["split"]).column("split")).to_pylist())
    if not splits:
        raise FileError(f"{run}: it has no dynamics yet.")
    order = {name: rank for rank, name in enumerate(HELD_OUT_FIRST)}
    return sorted(splits, key=lambda name: (order.get(name or "", 2 + (name == "train")), name or ""))


def _from_to(curve: np.ndarray) -> str:
    return f"{curve[0]:.4g} at first, {curve[-1]:.4g} at the end"


def _file_word(text: str) -> str:
    """A user's name reduced to letters and digits, safe in a file name."""
    return "".join(c if c.isalnum() else "-" for c in text)
