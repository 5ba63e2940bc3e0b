"""A run of `hardsight adapt`: its target samples as one table, and which of them each method kept.

`hardsight adapt` writes PAIR/seed=S/METHOD/round=NN.parquet, one row per target sample: what the model predicted when the
round began, which class it was considered for (`proposed`), whether it was kept, and its scores then. All methods of a seed
start from the same source model, so the first round's predictions and scores are the source model's. The run's own report.html
has the numbers of every round.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from hardsight.errors import FileError
from hardsight.explorer.columns import Column, codes, numbers
from hardsight.files.heads import load_head
from hardsight.files.parquet import parquet_columns, read_parquet

FILE_NAME, SEED = re.compile(r"round=(\d+)\.parquet"), re.compile(r"seed=(\d+)")
# Rounds seen from the directory of a method, a seed, a pair and a run.
PATTERNS = ("round=*.parquet", "*/round=*.parquet", "seed=*/*/round=*.parquet", "*/seed=*/*/round=*.parquet")
SHOWN = ("label", "predicted", "avh", "avc", "confidence", "norm")
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
        self._tables = {name: _read(_first(files)) for name, files in self.pairs.items()}

    def table(self) -> pa.Table:
        """What the page shows of each target sample: its label, and the source model's prediction and scores."""
        parts = []
        for pair, table in self._tables.items():
            ids = table.column("id").cast(pa.string())
            several = len(self.pairs) > 1  # then one sample is the target of several pairs
            columns = {"id": pa.array([f"{pair}/{id}" for id in ids.to_pylist()]) if several else ids, "base_id": ids}
            columns |= {name: table.column(name) for name in SHOWN if name in table.column_names}
            parts.append(pa.table(columns | ({"pair": pa.array([pair] * len(table))} if several else {})))
        return pa.concat_tables(parts, promote_options="permissive")

    def columns(self) -> Iterator[Column]:
        """For each method: what it kept in its last round, and the first round in which it kept a sample."""
        for method in sorted({method for files in self.pairs.values() for method in files}):
            rounds = sorted({number for files in self.pairs.values() for number in files.get(method, {})})
            kept = np.stack([np.concatenate([self._kept(pair, method, number) for pair in self.pairs]) for number in rounds])
            about = f"Whether {method} kept the sample in round {rounds[-1]}, its last."
            yield codes(f"kept by {method}", kept[-1].astype(np.int64), LEFT_OUT, about)
            first = np.where(kept.any(0), np.array(rounds)[kept.argmax(0)], np.nan)
            yield numbers(f"first kept by {method}", first, f"The round in which {method} first kept the sample.")

    def _kept(self, pair: str, method: str, number: int) -> np.ndarray:
        """(samples of the pair,) whether they were kept in a round; none where the pair does not have it."""
        ids, path = self._tables[pair].column("id"), self.pairs[pair].get(method, {}).get(number)
        if path is None:
            return np.zeros(len(ids), bool)
        table = _read(path, ["id", "kept"])
        if not table.column("id").equals(ids):
            raise FileError(f"{path}: its samples are not those of the pair's other rounds.")
        return table.column("kept").fill_null(False).to_numpy()

    def class_names(self) -> list[str] | None:
        """From the run's table of accuracies, or from an adapted model."""
        path = self.root / "accuracy.parquet"
        if path.is_file():
            names = [name for name in parquet_columns(path) if name.startswith("class ")]
            if names:
                return [name.removeprefix("class ") for name in names[::2]]  # each is followed by its spread
        heads = (path.parent / "head.safetensors" for pair in self.pairs.values() for m in pair.values() for path in m.values())
        return next((load_head(head)[1] for head in heads if head.is_file()), None)


def _first(methods: Files) -> Path:
    """The earliest round, whose predictions are the source model's."""
    return min((number, path) for files in methods.values() for number, path in files.items())[1]


def _read(path: Path, columns: list[str] | None = None) -> pa.Table:
    missing = [name for name in ("id", "kept", "proposed") if name not in parquet_columns(path)]
    if missing:
        raise FileError(f"{path}: not a round of hardsight adapt: it has no column {missing[0]!r}.")
    return read_parquet(path, columns)
