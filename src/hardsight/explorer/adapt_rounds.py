"""What self-training kept: a run of `hardsight adapt` as one table of its target samples, and each method's rounds.

`hardsight adapt` writes PAIR/seed=S/METHOD/round=NN.parquet, one row per target sample: what the model predicted when the
round began, which class it was considered for (`proposed`), whether it was kept, and its scores then. All methods of a seed
start from the same source model, so the first round's predictions and scores are the source model's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.errors import FileError
from hardsight.explorer.array_cache import ArrayCache
from hardsight.explorer.columns import Column, codes, numbers, replaced
from hardsight.files.heads import load_head
from hardsight.files.parquet import parquet_columns, read_parquet
from hardsight.files.reading import read_json, reading

FILE_NAME, SEED = re.compile(r"round=(\d+)\.parquet"), re.compile(r"seed=(\d+)")
MEANS = ("avh", "avc", "confidence", "norm")
NUMBERS = ("kept", "kept_by_cbst", "label", "predicted", "proposed", *MEANS)
LEFT_OUT = ["left out", "kept"]
KEPT = 200 * 2**20
ABOUT = {
    "predicted": "The source model's class.",
    "avh": "AVH of the class the source model was surest of, before the first round.",
    "avc": "Angular visual confidence of that class: (pi - angle) over its sum.",
    "confidence": "Softmax of that class.",
    "norm": "Length of the feature in the source model.",
    "pair": "From which domain to which.",
}

Files = dict[str, dict[int, Path]]  # method -> round -> file


@dataclass
class Rounds:
    """The rounds of one seed: every pair of domains below each other, n target samples in all.

    Attributes:
        root: the run's directory.
        pairs: name -> files of that pair's methods.
        seed: whose rounds they are.
        seeds: all there are.
    """

    root: Path
    pairs: dict[str, Files]
    seed: int | None = None
    seeds: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, where: Path) -> Rounds | None:
        """Those of an adapt run, of one pair in it, of one seed or of one method; None where there are none."""
        if not where.is_dir():
            return None
        where = where.resolve()  # the names of its parents count
        if files := _round_files(where):
            seed = SEED.fullmatch(where.parent.name)
            return cls(where.parents[2], {where.parents[1].name: {where.name: files}}, int(seed[1]) if seed else None)
        if methods := _methods(where):
            seed = SEED.fullmatch(where.name)
            return cls(where.parents[1], {where.parent.name: methods}, int(seed[1]) if seed else None)
        if seeds := _seeds(where):
            return cls(where.parent, {where.name: _methods(seeds[min(seeds)])}, min(seeds), sorted(seeds))
        pairs = {pair.name: _seeds(pair) for pair in sorted(where.iterdir()) if pair.is_dir()}
        pairs = {name: seeds for name, seeds in pairs.items() if seeds}
        if not pairs:
            return None
        everything = sorted({seed for seeds in pairs.values() for seed in seeds})
        first = everything[0]
        return cls(where, {name: _methods(seeds[first]) for name, seeds in pairs.items() if first in seeds}, first, everything)

    def __post_init__(self) -> None:
        named = [files for pair in self.pairs.values() for files in pair.items()]
        self.methods = {
            name: sorted({number for other, files in named if other == name for number in files})
            for name in sorted({name for name, _ in named})
        }
        first = {name: _first(files) for name, files in self.pairs.items()}
        self._tables = {name: _read(path) for name, path in first.items()}
        self._starts = dict(zip(self.pairs, np.cumsum([0, *map(len, self._tables.values())]).tolist(), strict=False))
        self.n = sum(map(len, self._tables.values()))
        self._values = ArrayCache(KEPT)
        self.kept = {
            method: np.stack([self.column(method, turn, "kept") > 0 for turn in turns]) for method, turns in self.methods.items()
        }  # (rounds, n) of each method

    def table(self) -> pa.Table:
        """What the page shows of each target sample: its label, and the source model's prediction and scores."""
        parts = []
        for pair, table in self._tables.items():
            ids = table.column("id").cast(pa.string())
            several = len(self.pairs) > 1  # then one sample is the target of several pairs
            columns = {"id": pa.array([f"{pair}/{id}" for id in ids.to_pylist()]) if several else ids, "base_id": ids}
            columns |= {name: table.column(name) for name in ("label", "predicted", *MEANS) if name in table.column_names}
            parts.append(pa.table(columns | ({"pair": pa.array([pair] * len(table))} if several else {})))
        return pa.concat_tables(parts, promote_options="permissive")

    def columns(self) -> Iterator[Column]:
        """For each method: what it kept in its last round, and the first round in which it kept a sample."""
        for method, turns in self.methods.items():
            kept = self.kept[method]
            about = f"Whether {method} kept the sample in round {turns[-1]}, its last."
            yield codes(f"kept by {method}", kept[-1].astype(np.int64), LEFT_OUT, about)
            first = np.where(kept.any(0), np.array(turns)[kept.argmax(0)], np.nan)
            yield replaced(
                numbers(f"first kept by {method}", first),
                hard="high",
                about=f"The round in which {method} first kept the sample.",
            )

    def hidden(self) -> dict[str, Column]:
        """What each method kept in each round: columns that filters name, too many for the menus."""
        return {
            f"kept by {method} in round {turn}": codes(
                f"kept by {method} in round {turn}", self.kept[method][at].astype(np.int64), LEFT_OUT
            )
            for method, turns in self.methods.items()
            for at, turn in enumerate(turns)
        }

    def class_names(self) -> list[str] | None:
        """From the run's table of accuracies, or from an adapted model."""
        path = self.root / "accuracy.parquet"
        if path.is_file():
            names = [name for name in parquet_columns(path) if name.startswith("class ")]
            if names:
                return [name.removeprefix("class ") for name in names[::2]]  # each is followed by its spread
        heads = (path.parent / "head.safetensors" for pair in self.pairs.values() for m in pair.values() for path in m.values())
        return next((load_head(head)[1] for head in heads if head.is_file()), None)

    def reached(self) -> dict[str, float]:
        """Method -> mean class accuracy on the target after its last round, a mean over the pairs; the source model first.

        Empty where labels of the target are not known, or the run is not complete.
        """
        reached = {}
        for method in ("source", *self.methods):
            files = [_first(pair).parents[1] / method / "rounds.json" for pair in self.pairs.values()]
            accuracies = [_last_accuracy(path) for path in files]
            if None not in accuracies:
                reached[method] = float(np.mean([accuracy for accuracy in accuracies if accuracy is not None]))
        return reached

    def summary(self, chosen: np.ndarray) -> list[dict[str, Any]]:
        """One line per method and round, of the chosen samples: how many were kept, how many rightly, their mean scores.

        Args:
            chosen: (n,) bool.
        """
        return [self._line(method, at, chosen) for method, turns in self.methods.items() for at in range(len(turns))]

    def _line(self, method: str, at: int, chosen: np.ndarray) -> dict[str, Any]:
        turn = self.methods[method][at]
        known = chosen & (self.column(method, turn, "label") >= 0)
        mine = chosen & self.kept[method][at]
        label, predicted, proposed = (self.column(method, turn, name) for name in ("label", "predicted", "proposed"))
        plain = self.column(method, turn, "kept_by_cbst") > 0
        line: dict[str, Any] = {"method": method, "round": turn, "kept": int(mine.sum()), "of": int(chosen.sum())}
        line["accuracy"] = _mean((predicted == label)[known])
        line["right"] = _mean((proposed == label)[known & mine])
        line["beyond_cbst"] = int((mine & ~plain).sum())
        for name in MEANS:
            line[name] = _mean(self.column(method, turn, name)[mine])
        return line

    def column(self, method: str, turn: int, name: str) -> np.ndarray:
        """(n,) float32 of a round; NaN where a pair does not have it."""
        return self._values((method, turn), lambda: self._round(method, turn))[NUMBERS.index(name)]

    def _round(self, method: str, turn: int) -> np.ndarray:
        """(columns, n) all numbers of a round: opening a file costs more than reading it."""
        values = np.full((len(NUMBERS), self.n), np.nan, np.float32)
        for pair, methods in self.pairs.items():
            path = methods.get(method, {}).get(turn)
            if path is None:
                continue
            table = _read(path, ["id", *NUMBERS])
            if not table.column("id").equals(self._tables[pair].column("id")):
                raise FileError(f"{path}: its samples are not those of the pair's other rounds.")
            start = self._starts[pair]
            for at, name in enumerate(NUMBERS):
                if name in table.column_names:
                    values[at, start : start + len(table)] = table.column(name).cast(pa.float64()).to_numpy()
        return values


def _round_files(folder: Path) -> dict[int, Path]:
    matches = ((FILE_NAME.fullmatch(path.name), path) for path in folder.glob("round=*.parquet"))
    return dict(sorted((int(name[1]), path) for name, path in matches if name))


def _methods(folder: Path) -> Files:
    methods = {path.name: _round_files(path) for path in sorted(folder.iterdir()) if path.is_dir()}
    return {name: files for name, files in methods.items() if files}


def _seeds(folder: Path) -> dict[int, Path]:
    matches = ((SEED.fullmatch(path.name), path) for path in folder.glob("seed=*") if path.is_dir())
    return {int(name[1]): path for name, path in matches if name and _methods(path)}


def _first(methods: Files) -> Path:
    """The earliest round, which the source model began."""
    return min((turn, path) for files in methods.values() for turn, path in files.items())[1]


def _last_accuracy(path: Path) -> float | None:
    """What rounds.json says was reached at the end."""
    if not path.is_file():
        return None
    with reading(path):
        value = read_json(path)[-1]["accuracy"]
        return None if value is None else float(value)


def _read(path: Path, columns: list[str] | None = None) -> pa.Table:
    held = parquet_columns(path)
    missing = [name for name in ("id", "kept", "proposed") if name not in held]
    if missing:
        raise FileError(f"{path}: not a round of hardsight adapt: it has no column {missing[0]!r}.")
    return read_parquet(path, None if columns is None else [name for name in columns if name in held])


def _mean(values: np.ndarray) -> float | None:
    there = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    return float(there.mean(dtype=np.float64)) if len(there) else None
