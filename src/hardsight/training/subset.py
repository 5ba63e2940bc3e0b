"""A subset of the training data and a curriculum, --subset and --curriculum, joined to the data by id."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.places import place
from hardsight.files.reading import existing_file
from hardsight.files.table_files import read_csv
from hardsight.scoring.hardness import hardness_of, run_and_score
from hardsight.table import plain, read_scores
from hardsight.training.pacing import Curriculum, Pacing
from hardsight.training.settings import TrainSettings


def check_choice(settings: TrainSettings) -> None:
    """Check --subset and --curriculum before the data is opened."""
    if isinstance(settings.subset, (str, os.PathLike)):
        _wanted(settings.subset)
    if settings.curriculum is None and settings.order in ("easy-first", "hard-first"):
        raise InputError(f"--order {settings.order} needs a score to order by: give --curriculum RUN:avh, for example.")
    if settings.curriculum is not None and settings.order == "self-paced":
        raise InputError(
            "--order self-paced goes by the network's own loss and uses no score: leave out --curriculum, or use easy-first."
        )
    if isinstance(settings.curriculum, (str, os.PathLike)):
        run_and_score(os.fspath(settings.curriculum))


def subset_rows(subset: Any, ids: Sequence[str]) -> np.ndarray:
    """(k,) rows of the ids of a subset, in the order of the data.

    Args:
        subset: a file with a column id, as `hardsight select` writes it; a table of that kind; or the ids themselves.
        ids: of the training data.
    """
    name, wanted = _wanted(subset)
    if not wanted:
        raise InputError(f"{name} holds no ids: there would be nothing to train on.")
    row_of = {id: row for row, id in enumerate(ids)}
    unknown = [id for id in wanted if id not in row_of]
    if unknown:
        raise InputError(
            f"{len(unknown)} of the {len(wanted)} ids of {name} are not in the training data (the first: {unknown[0]!r}), "
            f"whose ids look like {ids[0]!r}."
        )
    return np.array(sorted({row_of[id] for id in wanted}), np.int64)


def _wanted(subset: Any) -> tuple[str, list[str]]:
    """What a subset is called, and its ids as text."""
    name = "the subset"
    if isinstance(subset, (str, os.PathLike)):
        name = os.fspath(subset)
        file = place(subset)
        if file.suffix.lower() in (".csv", ".tsv"):  # only the ids of a list are read
            subset = read_csv(existing_file(file), "not a readable table of ids", {"id": pa.string()})
        else:
            subset = read_scores(subset)
    subset = plain(subset)
    if isinstance(subset, pa.Table):
        if subset.column_names.count("id") != 1:
            raise InputError(f"{name} needs a column id, and it has {', '.join(subset.column_names) or 'none'}.")
        subset = subset.column("id").to_pylist()
    return name, [str(id) for id in subset]


def open_curriculum(settings: TrainSettings, ids: Sequence[str], labels: np.ndarray) -> Curriculum | None:
    """The order in which samples are let in, or None where all are trained on from the first epoch."""
    order = settings.order or ("easy-first" if settings.curriculum is not None else None)
    if order is None:
        return None
    hardness = None if settings.curriculum is None else _hardness(settings.curriculum, ids)
    return Curriculum(labels, order, Pacing.of(settings, settings.epochs), hardness, settings.seed)


def _hardness(curriculum: Any, ids: Sequence[str]) -> np.ndarray:
    """(n,) hardness of the training samples, higher is harder; NaN where it could not be scored."""
    source, score = curriculum if isinstance(curriculum, tuple) else run_and_score(os.fspath(curriculum))
    measured = hardness_of(source, score)
    of = dict(zip(map(str, measured.ids.tolist()), measured.harder.tolist(), strict=True))
    where = source if isinstance(source, (str, os.PathLike)) else "the curriculum"
    missing = [id for id in ids if id not in of]
    if missing:
        raise InputError(
            f"{len(missing)} of the {len(ids)} training samples have no {score} in {where} (the first: {missing[0]!r}); "
            f"its ids look like {str(next(iter(of), '(none)'))!r}."
        )
    hardness = np.array([of[id] for id in ids])
    if np.isnan(hardness).all():
        raise InputError(f"none of the {len(ids)} training samples could be scored by {score} in {where}.")
    return hardness
