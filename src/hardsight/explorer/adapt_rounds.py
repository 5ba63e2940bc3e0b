"""A run of `hardsight adapt`: its target samples as one table, and what each method kept, round by round.

`hardsight adapt` writes PAIR/seed=S/METHOD/round=NN.parquet, one row per target sample: what the model predicted when the
round began, which class it was considered for (`proposed`), whether it was kept, and its scores then. All methods of a seed
start from the same source model, so the first round's predictions and scores are the source model's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.errors import FileError
from hardsight.explorer.columns import Column, codes, numbers
from hardsight.explorer.epochs import KEPT
from hardsight.files.heads import load_head
from hardsight.files.parquet import parquet_columns, read_parquet
from hardsight.files.reading import read_json, reading

FILE_NAME, SEED = re.compile(r"round=(\d+)\.parquet"), re.compile(r"seed=(\d+)")
# Rounds seen from the directory of a method, a seed, a pair and a run.
PATTERNS = ("round=*.parquet", "*/round=*.parquet", "seed=*/*/round=*.parquet", "*/seed=*/*/round=*.parquet")
MEANS = ("avh", "avc", "confidence", "norm")
NUMBERS = ("kept", "kept_by_cbst", "label", "predicted", "proposed", *MEANS)
LEFT_OUT = ["left out", "kept"]
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
    """The rounds of one seed: the n target samples of all pairs of domains, one pair after the other.

    Attributes:
        root: the run's directory.
        pairs: name -> files of that pair's methods.
        seed: the seed of these rounds.
        seeds: all seeds of the run.
    """

    root: Path
    pairs: dict[str, Files]
    seed: int | None = None
    seeds: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, where: Path) -> Rounds | None:
        """The rounds below an adapt run, one of its pairs, a seed of a pair, or a method of a seed; None if there are none."""
        where = where.resolve()  # the names of its parents count
        for pattern in PATTERNS:
            by_seed: dict[int | None, dict[str, Files]] = {}
            for path in sorted(where.glob(pattern)):
                number, seed = FILE_NAME.fullmatch(path.name), SEED.fullmatch(path.parents[1].name)
                if number and (seed or "seed" not in pattern):
                    pairs = by_seed.setdefault(int(seed[1]) if seed else None, {})
                    pairs.setdefault(path.parents[2].name, {}).setdefault(path.parent.name, {})[int(number[1])] = path
            if by_seed:
                seeds = sorted(seed for seed in by_seed if seed is not None)
                first = seeds[0] if seeds else None
                pairs = by_seed[first]
                return cls(_first(next(iter(pairs.values()))).parents[3], pairs, first, seeds)
        return None

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
        self._values = functools.lru_cache(KEPT // (4 * len(NUMBERS) * max(1, self.n)))(self._round)
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
            yield numbers(f"first kept by {method}", first, f"The round in which {method} first kept the sample.")

    def hidden(self) -> dict[str, Column]:
        """What each method kept in each round: columns for filters, too many for the menus."""
        columns = [
            codes(f"kept by {method} in round {turn}", kept.astype(np.int64), LEFT_OUT)
            for method, turns in self.methods.items()
            for turn, kept in zip(turns, self.kept[method], strict=True)
        ]
        return {column.name: column for column in columns}

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
        return [
            self._line(method, turn, chosen & kept, chosen)
            for method, turns in self.methods.items()
            for turn, kept in zip(turns, self.kept[method], strict=True)
        ]

    def _line(self, method: str, turn: int, kept: np.ndarray, chosen: np.ndarray) -> dict[str, Any]:
        label, predicted, proposed = (self.column(method, turn, name) for name in ("label", "predicted", "proposed"))
        labeled = chosen & (label >= 0)
        return {
            "method": method,
            "round": turn,
            "kept": int(kept.sum()),
            "of": int(chosen.sum()),
            "accuracy": _mean((predicted == label)[labeled]),
            "right": _mean((proposed == label)[labeled & kept]),
            "beyond_cbst": int((kept & ~(self.column(method, turn, "kept_by_cbst") > 0)).sum()),
            **{name: _mean(self.column(method, turn, name)[kept]) for name in MEANS},
        }

    def column(self, method: str, turn: int, name: str) -> np.ndarray:
        """(n,) float32 of a round; NaN where a pair does not have it."""
        return self._values(method, turn)[NUMBERS.index(name)]

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
            for index, name in enumerate(NUMBERS):
                if name in table.column_names:
                    values[index, start : start + len(table)] = table.column(name).cast(pa.float64()).to_numpy()
        return values


def _first(methods: Files) -> Path:
    """The earliest round, whose predictions are the source model's."""
    return min((turn, path) for files in methods.values() for turn, path in files.items())[1]


def _last_accuracy(path: Path) -> float | None:
    """The last accuracy in rounds.json."""
    if not path.is_file():
        return None
    with reading(path):
        value = read_json(path)[-1]["accuracy"]
        return None if value is None else float(value)


def _read(path: Path, columns: list[str] | None = None) -> pa.Table:
    names = parquet_columns(path)
    missing = [name for name in ("id", "kept", "proposed") if name not in names]
    if missing:
        raise FileError(f"{path}: not a round of hardsight adapt: it has no column {missing[0]!r}.")
    return read_parquet(path, None if columns is None else [name for name in columns if name in names])


def _mean(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean(dtype=np.float64)) if len(finite) else None
