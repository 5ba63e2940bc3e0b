"""The scores table: ranked, summed up and written."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hardsight import score
from hardsight.errors import FileError
from hardsight.table import Summary, TableWriter, hardest, read_scores, write_table

TABLE = pa.table(
    {
        "id": ["a", "b", "c", "d", "e"],
        "label": [0, 1, 1, None, 0],
        "predicted": [0, 0, 1, 1, None],
        "status": ["ok", "ok", "ok", "unlabeled", "zero_norm"],
        "avh": [0.2, 0.5, 0.5, None, None],
        "confidence": [0.9, 0.1, 0.6, None, None],
    }
)


def ids(table: pa.Table) -> list[str]:
    return table.column("id").to_pylist()


def test_hardest_follows_the_hard_end_and_leaves_nulls_out() -> None:
    assert ids(hardest(TABLE, "avh")) == ["b", "c", "a"]  # high is hard; equal values keep their order
    assert ids(hardest(TABLE, "confidence")) == ["b", "c", "a"]  # low is hard
    assert ids(hardest(TABLE, "confidence", top=1)) == ["b"]
    assert ids(hardest(TABLE, "avh", top=0)) == []
    assert ids(hardest(TABLE, "avh", top=None)) == ["b", "c", "a"]


def test_nan_is_never_ranked() -> None:
    table = pa.table({"id": ["a", "b", "c"], "avh": [np.nan, 0.1, 0.2]})
    assert ids(hardest(table, "avh", top=10)) == ["c", "b"]


def test_summary_by_hand() -> None:
    summary = Summary(by="avh", top=2, num_classes=2)
    summary.add(TABLE)
    assert (summary.num_samples, summary.judged, summary.correct) == (5, 3, 2)
    assert summary.accuracy == pytest.approx(2 / 3)
    assert summary.statuses == {"ok": 3, "unlabeled": 1, "zero_norm": 1}
    assert summary.means == {"avh": pytest.approx(0.4), "confidence": pytest.approx(1.6 / 3)}
    assert summary.hardest is not None and ids(summary.hardest) == ["b", "c"]
    json.dumps(summary.as_dict(), allow_nan=False)


def test_summary_in_parts_is_the_summary_of_the_whole() -> None:
    whole, parts = Summary(top=3), Summary(top=3)
    whole.add(TABLE)
    for row in range(5):
        parts.add(TABLE.slice(row, 1))
    assert parts.as_dict() == whole.as_dict()
    assert parts.hardest is not None and parts.hardest.equals(whole.hardest)


def test_summary_of_nothing() -> None:
    summary = Summary()
    summary.add(TABLE.slice(0, 0))
    assert (summary.accuracy, summary.means) == (None, {"avh": None, "confidence": None})


def test_parquet_comes_back_whole_with_its_notes(tmp_path: Path) -> None:
    table = score(np.eye(3), np.eye(3), [0, 1, -1])
    write_table(table, tmp_path / "scores.parquet")
    assert read_scores(tmp_path / "scores.parquet").equals(table.table, check_metadata=True)
    assert read_scores(tmp_path).equals(table.table)  # the directory that holds it
    assert json.loads(table.schema.metadata[b"hardsight"])["head"] == "linear"


def test_csv_quotes_and_disarms(tmp_path: Path) -> None:
    nasty = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", 'say "hi", please', "two\nlines", "plain", ""]
    table = pa.table({"id": nasty, "name": [None, *nasty[1:]], "avh": [-0.5] * 9 + [None]})
    write_table(table, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", *nasty[6:]]
    assert rows[0]["name"] == "" and rows[1]["name"] == "'+1"
    assert [row["avh"] for row in rows] == ["-0.5"] * 9 + [""]  # a negative number is not a formula


def test_json_is_valid_and_knows_no_nan(tmp_path: Path) -> None:
    table = pa.table({"id": ["ü\n", "</script>"], "avh": [0.25, None], "odd": [float("nan"), float("inf")]})
    write_table(table, tmp_path / "t.json")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    rows = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert rows == [{"id": "ü\n", "avh": 0.25, "odd": None}, {"id": "</script>", "avh": None, "odd": None}]


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_parts_make_the_same_file_content_as_the_whole(tmp_path: Path, ending: str) -> None:
    write_table(TABLE, tmp_path / f"whole.{ending}")
    with TableWriter(tmp_path / f"parts.{ending}", TABLE.schema) as writer:
        for row in range(5):
            writer.write(TABLE.slice(row, 1))
    whole, parts = tmp_path / f"whole.{ending}", tmp_path / f"parts.{ending}"
    if ending == "parquet":
        assert read_scores(parts).equals(read_scores(whole))
    else:
        assert parts.read_bytes() == whole.read_bytes()


def test_a_directory_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a directory"):
        write_table(TABLE, tmp_path / "folder.csv")
