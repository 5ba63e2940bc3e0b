"""What `correlate` and the reader of human answers reject: one clear message, before anything slow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from agreement_data import COUNTS, FEATURES, FEW, FREQUENCY, IDS, SNAPSHOT, TABLE, WEIGHT, C, N
from hardsight import Snapshot, correlate
from hardsight.errors import FileError, InputError
from hardsight.files.class_names import read_class_names
from hardsight.files.human import read_people


@pytest.mark.parametrize(
    ("human", "match"),
    [
        (np.where(np.eye(N, C) > 0, -1, COUNTS), r"whole, 0 or more and below 10\^9, but row 0 has -1 for class 0"),
        (COUNTS / 21, r"whole, 0 or more and below 10\^9, but row 0 has .*relative frequencies as one column"),
        (np.where(np.eye(N, C) > 0, np.nan, COUNTS), r"whole, 0 or more and below 10\^9, but row 0 has nan for class 0"),
        (np.where(np.arange(N) == 7, 1.5, FREQUENCY), "between 0 and 1, but 1 of 300 are not; row 7 holds 1.5"),
        (COUNTS[:, 0] + 2, "If these are counts"),
        (-FREQUENCY, "between 0 and 1"),
        (np.zeros((N, C), int), "no sample has selection frequency"),
        (COUNTS[:, :2], "counts have 2 classes, but labels go up to 3"),
        (COUNTS[None], r"got shape \(1, 300, 4\)"),
        (np.array(["a"] * N), "must be numbers"),
        ({"id": [*IDS[:-1], IDS[0]], "frequency": FREQUENCY}, "row 299 repeats 'img-000' of row 0"),
        ({"id": IDS, "Frequency": FREQUENCY}, "'Frequency' must be named 'frequency'"),
        ({"id": IDS, "frequency": FREQUENCY[:-1]}, "of the same length"),
        ({"id": IDS}, "there is no human data here"),
        ({"id": IDS, "mood": FREQUENCY}, "'mood'"),
        ({"id": IDS, "frequency": ["often"] * N}, "must hold numbers"),
        ({"id": IDS, "frequency": FREQUENCY, "answers": [2.5] * N}, "whole numbers of people; row 0 holds 2.5"),
        ({"id": IDS, "frequency": [0.33] * N, "answers": [2] * N}, "some of the answers over all of them"),
        ({"id": ["a", "a"], "annotator": [1, 1], "answer": [0, 1]}, "annotator 1 answered twice about id 'a': rows 0 and 1"),
        ({"id": ["a"], "annotator": [1], "answer": ["mouse"]}, "class index or a class name, but row 0 holds 'mouse'"),
        ({"id": ["a"], "answer": [1]}, "annotator is missing"),
        ({"id": [], "annotator": [], "answer": []}, "no answers"),
        ({"id": ["a"], "annotator": [["ann"]], "answer": [0]}, r"must be a name or a number, but row 0 holds \['ann'\]"),
        ({"id": ["a"], "annotator": [1], "answer": [2**24]}, "a class index below 16777216, but row 0 holds 16777216"),
        ({"id": range(99), "annotator": [1] * 99, "answer": [0] * 98 + [2**21]}, "but row 98 holds 2097152.*--class-names"),
        ({"id": ["a"], "annotator": [1], "answer": ["9" * 5000]}, "a class index below 16777216, but row 0 holds '9999"),
        ({"id": 3, "counts": [1, 2]}, "the column id must be a list with one value per row, got 3"),
        ({"id": "ab", "frequency": [1, 1]}, "the column id must be a list"),
        ({"id": IDS, "frequency": [10**400] * N}, "must hold numbers"),
        ({"id": IDS, "frequency": [[0.5, 0.5]] * N}, r"one number per row, got shape \(300, 2\)"),
        ([{"id": "a", "frequency": 1}, 7], "row 1 is 7"),
        (np.where(np.eye(N, C) > 0, 1e300, COUNTS), r"whole, 0 or more and below 10\^9, but row 0 has 1e\+300 for class 0"),
        (np.full((N, C), 5 * 10**8), r"fewer than 10\^9 answers, but the counts of row 0 add up to 2e\+09"),
    ],
)  # fmt: skip
def test_human_data_that_is_refused(human: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        correlate(TABLE, human, **FEW)


ONE = dict.fromkeys(range(C), "all")
FEWER = {"id": [*IDS[5:].tolist(), "stranger"], "frequency": [*FREQUENCY[5:], 0.5]}
MISSING = r"5 of 300 samples have no human data \(the first: 'img-000'\) and 1 of 296 human ids"


@pytest.mark.parametrize(
    ("models", "options", "match"),
    [
        (TABLE, {"against": "level"}, "pass either human data"),
        (TABLE, {"human": None, "against": "level"}, "no column 'level'"),
        (TABLE, {"human": None, "against": "status"}, "must hold numbers"),
        (TABLE, {"human": None, "against": "avh", "hard": "left"}, "hard must be one of low, high"),
        (TABLE, {"scores": "hardness"}, "no score 'hardness'"),
        (TABLE, {"bins": [0.5]}, "increasing edges"),
        (TABLE, {"bins": [0, 1, 0.5]}, "increasing edges"),
        (TABLE, {"level": 95}, "level must be a number above 0 and below 1, got 95"),
        (TABLE, {"replicates": 3}, "replicates must be a whole number of 20 or more"),
        (TABLE, {"limit": 0}, "limit must be a whole number of 1 or more"),
        (SNAPSHOT, {"split": "test"}, "no split 'test'; splits: none"),
        (pa.concat_tables([TABLE.slice(0, 2), TABLE.slice(1, 1)]), {"human": FREQUENCY[:3]}, "row 2 repeats 'img-001' of row 1"),
        (TABLE.slice(0, 0), {"human": []}, "has no samples"),
        ([], {}, "there is no model"),
        (7, {}, "must be two-dimensional.*got shape"),
        (Snapshot(FEATURES, WEIGHT, ids=IDS), {}, "has no labels: with counts, the given class of each sample"),
        (SNAPSHOT, {"human": 0 * COUNTS}, "selection frequency and all of avh.*: 300 without selection frequency.$"),
        (SNAPSHOT, {"human": FEWER}, "Use --allow-missing to keep the 295 that both have"),
        (TABLE, {"human": FEWER}, MISSING),
        (TABLE, {"human": {"id": ["x"], "frequency": [0.1]}, "allow_missing": True}, "no human id .*; its ids look like 'x'"),
        (TABLE, {"human": FREQUENCY[1:]}, "one row per sample in the same order, got 299 rows for 300 samples"),
        (Snapshot(FEATURES, WEIGHT, np.zeros(300, int)), {"human": FREQUENCY[1:]}, r"\(allow_missing=True\) joins"),
        (TABLE.slice(0, 2), {"human": FREQUENCY[:10], "allow_missing": True}, "got 10 rows for 2 samples"),
    ],
)  # fmt: skip
def test_options_that_are_refused(models: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        correlate(models, **({"human": COUNTS} | FEW | options))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"images": "nope.npz"}, r"nope\.npz., which does not exist"),
        ({"by": "nope"}, "no column 'nope'"),
    ],
)
def test_wrong_options_are_refused_before_the_bootstrap(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], match: str
) -> None:
    monkeypatch.setattr("hardsight.human.correlate.agree", lambda *_, **__: pytest.fail("it computed first"))
    with pytest.raises((FileError, InputError), match=match):
        correlate(SNAPSHOT, COUNTS, **options)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("deep.json", "[" * 200_000, "not readable as JSON"),
        ("far.csv", "id,annotator,answer\na,1,0\nb,1,99999999999\n", "row 1 holds 99999999999"),
        ("farther.json", '{"id": ["a"], "annotator": [1], "answer": [9223372036854775808]}', "row 0 holds 9223372036854775808"),
        ("half.json", "{", "not readable as JSON"),
        ("text.txt", "1", "must be a .npy"),
    ],
)
def test_human_files_that_are_damaged(tmp_path: Path, name: str, text: str, match: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises((FileError, InputError), match=f"{name}.*{match}"):
        read_people(tmp_path / name)


@pytest.mark.parametrize("name", ["x.json", "x.csv", "x.npy"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileError, match="is a pipe or a device, not a file"):
        read_people(tmp_path / name)
    with pytest.raises(FileError, match="is a pipe or a device, not a file"):
        read_class_names(tmp_path / name)
