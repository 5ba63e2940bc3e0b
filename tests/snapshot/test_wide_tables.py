"""Wide tables: data frames of pandas and polars, Arrow tables, CSV and Parquet files with one column per dimension."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardsight import Snapshot, audit, clean, explore, mine, score, select
from hardsight.errors import InputError

FEATURES = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0], [0.0, 1.0]])  # 0, 45, 90 and 90 degrees
AVH = [0.0, 0.5, 0.0, 1.0]  # of two classes at 0 and 90 degrees
LABELS = ["cat", "dog", "dog", "cat"]
COLUMNS = {"name": list("wxyz"), "f0": FEATURES[:, 0], "f1": FEATURES[:, 1], "size": [9, 8, 7, 6], "y": LABELS}

MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("kind", MAKERS)
def test_columns_by_name_and_pattern(kind: str) -> None:
    frame = MAKERS[kind](COLUMNS)
    for features in ("f*", "f1,f0", ["f0", "f1"]):  # patterns: in the order of the table
        table = score(frame, np.eye(2), "y", features=features, ids="name", scores="avh")
        assert table.column("avh").to_pylist() == pytest.approx(AVH)
        assert table.column("id").to_pylist() == list("wxyz") and table.column("label").to_pylist() == [0, 1, 1, 0]
    assert score(frame, np.eye(2), COLUMNS["y"], features="f*", scores="avh").column("avh").to_pylist() == pytest.approx(AVH)
    turned = score(frame, np.eye(2), "y", features=["f1", "f0"], scores="avh")  # a list keeps its order
    assert turned.column("avh").to_pylist() == pytest.approx([1.0, 0.5, 1.0, 0.0])


@pytest.mark.parametrize("kind", MAKERS)
def test_without_a_pattern_all_numbers_are_features(kind: str) -> None:
    frame = MAKERS[kind]({name: column for name, column in COLUMNS.items() if name != "size"})
    assert score(frame, np.eye(2), "y", scores="avh").column("avh").to_pylist() == pytest.approx(AVH)
    snapshot = Snapshot(frame, np.eye(2), "y", ids="name")
    assert snapshot.source.width == 2 and snapshot.class_names == ["cat", "dog"]
    numbers = MAKERS[kind]({"a": FEATURES[:, 0], "b": FEATURES[:, 1]})
    assert score(numbers, np.eye(2), [0, 1, 1, 0], scores="avh").column("avh").to_pylist() == pytest.approx(AVH)


def test_further_columns_and_the_index_come_along() -> None:
    frame = pd.DataFrame(COLUMNS, index=[7, 5, 3, 1])
    snapshot = Snapshot(frame[["f0", "f1", "y", "name"]], np.eye(2), "y")
    assert snapshot.columns().to_pydict() == {"id": [7, 5, 3, 1], "label": [0, 1, 1, 0], "name": list("wxyz")}


def test_polars_series_and_lists() -> None:
    labels, ids = pl.Series(["cat", "dog", None, "cat"]), pl.Series(list("wxyz"))
    table = score(FEATURES, np.eye(2), labels, ids=ids)
    assert table.column("label").to_pylist() == [0, 1, None, 0] and table.column("id").to_pylist() == list("wxyz")
    for dtype in (pl.List(pl.Float32), pl.Array(pl.Float64, 2)):
        column = pl.Series("features", FEATURES.tolist(), dtype=dtype)
        assert score(column, np.eye(2), [0, 1, 1, 0], scores="avh").column("avh").to_pylist() == pytest.approx(AVH)
        frame = pl.DataFrame({"features": column, "label": [0, 1, 1, 0]})
        assert score(frame, np.eye(2), scores="avh").column("avh").to_pylist() == pytest.approx(AVH)
        renamed = frame.rename({"features": "embedding", "label": "y"})
        assert score(renamed, np.eye(2), "y", features="embedding", scores="avh").column("avh").to_pylist() == pytest.approx(AVH)


def test_probabilities_in_a_column_of_lists() -> None:
    frame = pl.DataFrame({"pred_probs": [[0.75, 0.25], [0.5, 0.5]], "label": [1, 0]})
    assert score(frame, scores="confidence").column("confidence").to_pylist() == pytest.approx([0.25, 0.5])


def scans() -> pd.DataFrame:
    """Two classes far apart, six of 60 labels wrong; age is a number and no feature; site b is noisy."""
    rng = np.random.default_rng(0)
    label, site = np.arange(60) % 2, np.where(np.arange(60) < 30, "a", "b")
    values = 4.0 * np.eye(2)[label] + rng.normal(0, 0.3, (60, 2)) * np.where(site == "a", 1, 6)[:, None]
    names = np.where(label == 0, "cat", "dog")
    names[:30:5] = np.where(label == 0, "dog", "cat")[:30:5]
    return pd.DataFrame({"f0": values[:, 0], "f1": values[:, 1], "age": np.arange(60), "site": site, "y": names})


@pytest.mark.parametrize("kind", MAKERS)
def test_functions_name_columns_of_a_wide_table(kind: str) -> None:
    frame = scans()
    table = MAKERS[kind](frame if kind == "pandas" else {name: frame[name].to_numpy() for name in frame})
    arrays: dict[str, Any] = {"features": frame[["f0", "f1"]].to_numpy(), "labels": frame["y"].to_numpy()}
    assert clean(table, features="f*", labels="y").equals(clean(**arrays).table)
    groups = audit(table, features="f*", labels="y", head=4 * np.eye(2), group="site")
    assert groups.equals(audit(**arrays, head=4 * np.eye(2), columns={"site": frame["site"].to_numpy()}, group="site").table)
    pairs = mine(features=arrays["features"], labels=arrays["labels"]).table
    assert mine(table, features="f*", labels="y").table.equals(pairs)
    few: dict[str, Any] = {"head": 4 * np.eye(2), "budget": 5, "method": "hardest"}
    assert select(table, features="f*", labels="y", **few).equals(select(**arrays, **few).table)
    with pytest.raises(InputError, match="this is a table of scores: pass the features"):
        clean(score(table, labels="y", features="f*"))


def embeddings() -> pd.DataFrame:
    """Twelve numbered features of three classes, and three columns that are none."""
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    frame = pd.DataFrame(np.eye(3)[y].repeat(4, axis=1) + 0.3 * rng.normal(size=(60, 12)), columns=[f"f{k}" for k in range(12)])
    return frame.assign(width=rng.integers(200, 900, 60), camera="phone", y=np.array(["cat", "cow", "dog"])[y])


FRAME, EMBEDDINGS = scans(), embeddings()
REFUSED: dict[str, Callable[[], Any]] = {
    "features must be two-dimensional": lambda: explore([1, 2]),
    "has one row for two classes: pass the classifier itself as head": lambda: score(
        FRAME[["f0", "f1"]], np.ones((1, 2)), np.arange(60) % 2
    ),
    "features names columns of a table, but the samples are ndarray": lambda: score(FEATURES, np.eye(2), features="f*"),
    "column names must differ, but 'a' appears more than once": lambda: score(
        pd.DataFrame(np.eye(2), columns=["a", "a"]), np.eye(2), features="a"
    ),
    "no column of the table holds numbers": lambda: score(pd.DataFrame({"a": ["x"], "y": [0]}), np.eye(2), "y"),
    r"f0, f1, .* are the features, but 'f3' is not numeric \(.*'n.a.'": lambda: clean(
        EMBEDDINGS.assign(f3=["n.a.", *EMBEDDINGS["f3"][1:]]), labels="y"
    ),
    r"'f3' is not numeric: drop it, convert it with \.astype\(float\), or mend it": lambda: clean(
        EMBEDDINGS.assign(f3=EMBEDDINGS["f3"].astype(object)), labels="y"
    ),
    r"features must hold numbers, got object\. Row 7 is empty: leave such rows out": lambda: score(
        pd.Series([None if row == 7 else np.ones(2) for row in range(9)]), np.eye(2)
    ),
    r"but 'camera' is not numeric \(row 0 holds": lambda: clean(EMBEDDINGS.drop(columns="y"), np.arange(60) % 3),
    "features must be numeric columns, but 'camera' is not": lambda: clean(EMBEDDINGS, "y", features="f*,camera"),
}


@pytest.mark.parametrize("match", REFUSED)
def test_what_is_refused(match: str) -> None:
    with pytest.raises(InputError, match=match):
        REFUSED[match]()


def test_commands_name_columns_of_a_csv(tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hardsight.groups.audit_page.write_audit_page", lambda *_: None)  # another test's
    scans().to_csv("scans.csv", index=False)
    np.savez("scans.npz", features=scans()[["f0", "f1"]], labels=scans()["y"].to_numpy(str), site=scans()["site"].to_numpy(str))
    np.save("head.npy", 4 * np.eye(2))
    wide = ["--features", "f*", "--label", "y"]
    every: dict[str, list[Any]] = {
        "clean": [],
        "audit": ["--group", "site", "--head", "head.npy"],
        "select": ["--budget", 7, "--head", "head.npy"],
        "curriculum": ["--head", "head.npy"],
        "mine": [],
    }
    for command, more in every.items():
        results = []
        for words in (["scans.csv", *wide], ["scans.npz"]):
            done = cli(command, *words, *more, "-o", f"{command}.csv")
            assert done.code == 0, done.err
            results.append(Path(f"{command}.csv").read_text())
        assert results[0] == results[1], command
    scans().iloc[::-1].to_csv("later.csv", index=False)
    done = cli("drift", "scans.csv", "later.csv", *wide, "--head", "head.npy")
    assert done.code == 0 and "of 60 samples got harder" in done.out and Path("later.drift.parquet").is_file(), done.err
    assert "--features 'f*'" in cli("audit", "scans.csv", "--group", "site").err
    assert "next: hardsight score scans.csv --features 'f*' --label y -o scores.parquet" in cli("score", "scans.csv", *wide).out


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_files(tmp_path: Path, cli: Callable[..., Any], ending: str) -> None:
    frame, path = pd.DataFrame(COLUMNS), tmp_path / f"data.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table(COLUMNS), path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    np.save(tmp_path / "w.npy", np.eye(2))
    out = tmp_path / "scores.parquet"
    done = cli("score", path, "--head", tmp_path / "w.npy", "--features", "f*", "--label", "y", "--scores", "avh", "-o", out)
    assert done.code == 0, done.err
    written = pq.read_table(out)
    assert written.column("avh").to_pylist() == pytest.approx(AVH) and b'["cat", "dog"]' in written.schema.metadata[b"hardsight"]
    np.save(tmp_path / "y.npy", np.array(LABELS))
    by_file = score(path, np.eye(2), str(tmp_path / "y.npy"), features="f*", scores="avh")
    assert by_file.column("avh").to_pylist() == written.column("avh").to_pylist()
    table = score(path, np.eye(2), "y", features="f*", scores="avh")
    assert table.column("avh").to_pylist() == written.column("avh").to_pylist()


def test_a_head_is_fitted_to_a_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": list("abcdef"), "x": [1.0, 1.1, 1.2, 5.0, 5.1, 5.2], "label": ["low"] * 3 + ["high"] * 3})
    frame.to_csv(tmp_path / "d.csv", index=False)
    table = score(tmp_path / "d.csv", features="x", scores="confidence")
    assert table.column("id").to_pylist() == list("abcdef") and table.column("predicted").to_pylist() == [1, 1, 1, 0, 0, 0]


def test_a_numbered_series_is_the_features_and_said_to_be(tmp_path: Path, cli: Callable[..., Any]) -> None:
    frame = embeddings()
    said = "features: f0, f1, ..., f11 (12 columns); numbers that are not used: width"
    table = clean(frame, labels="y")
    assert said in repr(table) and said in table._repr_html_() and said in repr(score(frame, labels="y"))
    assert table.equals(clean(frame[[f"f{k}" for k in range(12)]], frame["y"]))
    frame.to_csv(tmp_path / "df.csv")  # with the index, which has no name
    for command in ("clean", "score"):
        done = cli(command, tmp_path / "df.csv", "--label", "y")
        assert done.code == 0 and said in done.out and done.err == "", done.err


def test_a_column_that_outweighs_all_others_is_warned_of(tmp_path: Path, cli: Callable[..., Any]) -> None:
    frame = embeddings()
    warning = "the feature column width has more than 100 times the spread of the others"
    for call in (
        lambda: clean(frame, labels="y", features="f*,width"),
        lambda: clean(frame.drop(columns=["camera", "y"]), frame["y"]),
    ):
        with pytest.warns(UserWarning, match=warning):
            call()
    frame.to_csv(tmp_path / "df.csv")
    done = cli("clean", tmp_path / "df.csv", "--label", "y", "--features", "f*,width")
    assert done.code == 0 and done.err.startswith(f"warning: {warning}")
    score(frame, np.ones((3, 13)), "y", features="f*,width", scores="norm")  # what a head makes of them is its own matter


def test_arrays_by_position() -> None:
    x, y = embeddings()[[f"f{k}" for k in range(12)]].to_numpy(), np.arange(60) % 3
    assert clean(x, y).equals(clean(features=x, labels=y))


def frames() -> list[Any]:
    """The same table in every library that is here."""
    dask = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(COLUMNS)
    return [pa.table(COLUMNS), pl.DataFrame(COLUMNS), pl.LazyFrame(COLUMNS), dask.from_pandas(frame, npartitions=2)]


def test_frames_of_every_library() -> None:
    wanted = Snapshot.open(pd.DataFrame(COLUMNS), features="f*", labels="y")
    for frame in frames():
        found = Snapshot.open(frame, features="f*", labels="y")
        assert found.features is not None and wanted.features is not None and (found.features == wanted.features).all()
        assert found.labels.tolist() == wanted.labels.tolist() and found.class_names == wanted.class_names
        assert found.ids.tolist() == wanted.ids.tolist() and found.column_names == wanted.column_names
