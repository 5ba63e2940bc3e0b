"""`ScoresTable`: what a person sees of a table of scores, and that programs still see a `pyarrow.Table`."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from PIL import Image

import hardsight
from explorer_runs import digits_run
from hardsight import Snapshot, score
from hardsight.data import open_data
from hardsight.errors import InputError
from hardsight.files.heads import save_head
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.head import Head
from hardsight.render.table_views import MOST_BYTES, thumbnails
from hardsight.result import ScoresTable
from hardsight.scoring.job import Job
from hardsight.table import hardest, noted_class_names, read_scores, write_table

FEATURES = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])


@pytest.fixture
def table() -> ScoresTable:
    return score(FEATURES, np.eye(2), [0, 0, 0], ids=["easy", "between", "wrong"])


def test_it_is_used_as_the_table_it_holds(table: ScoresTable) -> None:
    arrow = table.table
    assert isinstance(arrow, pa.Table)
    assert (len(table), table.num_rows, table.column_names) == (3, 3, arrow.column_names)
    assert table["avh"].to_pylist() == [0.0, 0.5, 1.0]
    assert table.to_pylist() == arrow.to_pylist()
    assert table.to_pandas().equals(arrow.to_pandas())
    assert table.schema.equals(arrow.schema, check_metadata=True)
    assert np.array_equal(np.asarray(table.select(["avh"])), np.asarray(arrow.select(["avh"])))
    assert {"select", "filter", "to_pandas", "hardest", "table"} <= set(dir(table))
    with pytest.raises(AttributeError, match="no_such"):
        table.no_such  # noqa: B018
    with pytest.raises(KeyError):
        table["no_such"]


def test_methods_of_a_table_give_tables(table: ScoresTable) -> None:
    assert table.filter(pc.field("avh") > 0.2)["id"].to_pylist() == ["between", "wrong"]
    assert table.sort_by([("avh", "descending")])["id"].to_pylist() == ["wrong", "between", "easy"]
    assert table[1:].equals(table.table.slice(1)) and table.equals(table) and table.equals(table.table)


def test_other_libraries_read_it_through_arrow(table: ScoresTable) -> None:
    assert pa.table(table).equals(table.table, check_metadata=True)
    assert pa.RecordBatchReader.from_stream(table).read_all() == table.table
    assert pd.DataFrame.from_arrow(table).equals(table.to_pandas())
    for other in (copy.copy(table), copy.deepcopy(table), pickle.loads(pickle.dumps(table))):  # as processes hand it over
        assert isinstance(other, ScoresTable) and other.equals(table)


def test_what_is_written_is_the_same_to_the_byte(table: ScoresTable, tmp_path: Path) -> None:
    bare = pa.concat_tables(Job(Snapshot(FEATURES, np.eye(2), [0, 0, 0], ids=["easy", "between", "wrong"])).tables())
    assert bare.schema.metadata == table.table.schema.metadata
    for ending in (".parquet", ".csv", ".json"):
        write_table(table, tmp_path / f"shown{ending}")  # type: ignore[arg-type]
        write_table(bare, tmp_path / f"bare{ending}")
        table.save(tmp_path / f"saved{ending}")
        assert (tmp_path / f"saved{ending}").read_bytes() == (tmp_path / f"bare{ending}").read_bytes()
        assert (tmp_path / f"shown{ending}").read_bytes() == (tmp_path / f"bare{ending}").read_bytes()
    with pytest.raises(AttributeError, match=r"a ScoresTable has no attribute 'to_csv': .* save\('table.csv'\) a file"):
        table.to_csv("saved.csv")
    pq.write_table(table.table, tmp_path / "own.parquet")
    assert pq.read_table(tmp_path / "own.parquet").equals(bare)


def test_whatever_takes_a_table_takes_it(table: ScoresTable) -> None:
    ranked = hardest(table, "avh", 2)
    assert isinstance(ranked, pa.Table) and ranked["id"].to_pylist() == ["wrong", "between"]
    assert table.hardest("norm", 1)["id"].to_pylist() == hardest(table.table, "norm", 1)["id"].to_pylist()
    assert Snapshot.open(table, by="avh").scores(["avh"])["avh"].to_pylist() == [0.0, 0.5, 1.0]
    assert hardsight.select(table, method="hardest", budget=1)["id"].to_pylist() == ["wrong"]
    rng = np.random.default_rng(0)
    many = score(rng.normal(size=(30, 4)), rng.normal(size=(3, 4)), rng.integers(0, 3, 30))
    human = rng.random(30)
    ours, bare = (hardsight.correlate(scores, human, replicates=20).table for scores in (many, many.table))
    assert repr(ours.to_pylist()) == repr(bare.to_pylist())


def test_text_is_one_screen_with_the_hardest_first(table: ScoresTable) -> None:
    lines = repr(table).splitlines()
    assert lines[0] == "ScoresTable: 3 samples, 2 classes, accuracy 66.67 %" and lines[1].startswith("hardest 3 by avh")
    assert [line.split()[0] for line in lines[2:6]] == ["id", "wrong", "between", "easy"] and str(table) == repr(table)
    large = score(np.random.default_rng(0).normal(size=(500, 3)), np.eye(3), np.zeros(500, int), scores="all")
    assert len(repr(large).splitlines()) <= 20 and max(map(len, repr(large).splitlines())) <= 110
    assert repr(table.hardest("loss", 2)).splitlines()[1] == "hardest 2 by loss (high is hard)"


def test_rows_without_scores_are_counted() -> None:
    table = score(np.array([[1.0, 0.0], [np.nan, 0.0], [0.0, 1.0]]), np.eye(2), [0, 0, -1])
    assert "not fully scored: 1 nonfinite_feature, 1 unlabeled" in repr(table)
    assert "not fully scored: 1 nonfinite_feature, 1 unlabeled" in table._repr_html_()
    empty = ScoresTable(table.slice(0, 0))
    assert "no sample has a value of avh" in repr(empty) and "no sample has a value of avh" in empty._repr_html_()


def test_names_of_classes_are_shown() -> None:
    snapshot = Snapshot(FEATURES, np.eye(2), [0, 0, 1], class_names=["cat", "dog"])
    assert re.search(r"1 +cat +cat", repr(score(snapshot)))
    noted = pa.table({"id": [0], "label": [1], "predicted": [0], "status": ["ok"], "avh": [0.1]})
    noted = noted.replace_schema_metadata({"hardsight": '{"class_names": ["cat", "dog"]}'})
    assert re.search(r"0 +dog +cat", repr(ScoresTable(noted)))


def test_html_shows_names_as_text_and_runs_nothing() -> None:
    snapshot = Snapshot(
        FEATURES, np.eye(2), [0, 0, 1], ids=["<script>alert(1)</script>", "a\u202eb", "c" * 500], class_names=["<b>", "&"]
    )
    html = score(snapshot)._repr_html_()
    assert "<script" not in html and "<b>&lt;" not in html and "&lt;script&gt;" in html and "&lt;b&gt;" in html
    assert "\u202e" not in html and "c" * 50 not in html
    assert not re.search(r"https?://|javascript:|\son\w+=", html)


def test_pictures_given_in_order_follow_their_samples(table: ScoresTable) -> None:
    shades = np.array([0, 100, 200], np.uint8)
    shown = table.with_images(np.ones((3, 8, 8), np.uint8) * shades[:, None, None])
    assert shown.pictures is not None
    for part in (shown, shown.hardest("avh"), shown.hardest("norm", 3)):
        assert part.pictures is not None and part.pictures.image("wrong").getpixel((0, 0)) == 200  # whatever row it stands in
    assert shown._repr_html_().count("<img") == 3 and "<img" not in table._repr_html_()
    bright = table.with_images(np.linspace(0.0, 1.0, 3 * 16).reshape(3, 4, 4)).pictures
    assert bright is not None and bright.image("easy").getextrema() == (0, 255)
    pictures = table.with_images([Image.new("RGB", (4, 4), "red")] * 2 + [None]).pictures
    assert pictures is not None and pictures.image("wrong") is None and pictures.image("no such id") is None
    with pytest.raises(InputError, match="one entry per row, got 2 for 3 rows"):
        table.with_images(np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(InputError, match="no column id"):
        ScoresTable(table.select(["avh"])).with_images(np.zeros((3, 4, 4), np.uint8))


def test_thumbnails_are_few_and_small() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))  # nothing to compress
    made = thumbnails(lambda id: noise, range(100))
    assert sum(len(content or b"") for content in made) <= MOST_BYTES
    assert made[0] is not None and made[-1] is None  # what does not fit is left out

    many = score(np.random.default_rng(0).normal(size=(5000, 3)), np.eye(3), np.zeros(5000, int))
    html = many.with_images([noise] * 5000)._repr_html_()
    assert 1 <= html.count("<img") <= 10 and len(html) < 2 * MOST_BYTES


def test_a_run_shows_the_images_it_was_made_of(tmp_path: Path) -> None:
    colors = {"red": (255, 0, 0), "green": (0, 128, 0)}
    for name, color in colors.items():
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("RGB", (20, 20), color).save(tmp_path / "images" / name / "a.png")
    run = _run_of(tmp_path / "images", tmp_path / "run")
    table = score(run)
    assert table._repr_html_().count("<img") == 2
    assert table.pictures is not None and table.pictures.image("red/a.png").getpixel((0, 0)) == (255, 0, 0)
    (tmp_path / "images" / "red" / "a.png").unlink()
    gone = score(run)
    assert gone._repr_html_().count("<img") == 1 and "–" in gone._repr_html_()  # a table is shown all the same


def _run_of(images: Path, output: Path) -> Path:
    """A run of two images whose features are their colors."""
    data = open_data(images)
    features = np.array([data.image(row).getpixel((0, 0)) for row in range(len(data))], np.float32)
    run = Run(output, "hardsight extract", {}, {}, {"data": str(images), "roots": [str(images.resolve())]})
    part = run.folder("samples") / "part-00000.parquet"
    assert data.labels is not None
    write_samples(part, features, {"id": data.ids, "label": pa.array(data.labels), "path": data.columns["path"]})
    save_head(output / "head.safetensors", Head("linear", features), data.class_names)
    run.finish([part], {"rows": len(data)}, {part.name: len(data)})
    return output


def test_degraded_samples_are_shown_as_the_model_saw_them(tmp_path: Path) -> None:
    pictures = score(digits_run(tmp_path / "run", n=8, degraded=True)).pictures
    assert pictures is not None
    whole, faint = (pictures.image(id).getextrema() for id in ("0", "1"))  # 1 is 0 at contrast 0.3
    assert faint[1] - faint[0] < 0.5 * (whole[1] - whole[0])


def test_names_stand_where_people_read_and_numbers_in_parquet(tmp_path: Path) -> None:
    named = score(FEATURES, np.eye(2), ["dog", "ant", None], ids=["a", "b", "c"], class_names=["dog", "ant"])
    suspects = hardsight.clean(probs=np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.1, 0.9]]), labels=[0, 0, 1, 1])
    suspects.class_names = ["dog", "ant"]
    assert named.to_pandas()[["label", "predicted"]].values.tolist()[0] == ["dog", "dog"]
    assert suspects.to_pandas()["given_label"].tolist() == ["dog", "dog", "ant", "ant"]
    for ending in ("csv", "json", "parquet"):
        named.save(tmp_path / f"named.{ending}")
        suspects.save(tmp_path / f"suspects.{ending}")
        back = read_scores(tmp_path / f"named.{ending}")  # of a file without metadata, in sorted order of the names
        names = noted_class_names(back.schema)
        assert names is not None and sorted(names) == ["ant", "dog"], ending
        assert [None if k is None else names[k] for k in back["label"].to_pylist()] == ["dog", "ant", None]
    assert '"a","dog","dog"' in (tmp_path / "named.csv").read_text()
    assert '"given_label": "dog"' in (tmp_path / "suspects.json").read_text()
    parquet = pq.read_table(tmp_path / "suspects.parquet")
    assert parquet["given_label"].to_pylist() == [0, 0, 1, 1] and noted_class_names(parquet.schema) == ["dog", "ant"]
    assert Snapshot.open(named.to_pandas(), by="avh").labels.tolist() == [1, 0, -1]  # ant, dog: by name
    digits = score(FEATURES, np.eye(2), [0, 1, 1], class_names=["1", "2"])
    assert digits.to_pandas()["label"].tolist() == [0, 1, 1]  # "1" would be read as class 1 again


def test_pandas_that_is_missing_is_named(table: ScoresTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(hardsight.errors.MissingExtra, match=r"^to_pandas\(\) needs pandas: pip install pandas$"):
        table.to_pandas()


@pytest.mark.parametrize("library", ["pandas", "csv"])
def test_a_hardness_table_keeps_its_mark_outside(library: str, tmp_path: Path) -> None:
    features, weight, labels = np.random.default_rng(0).normal(size=(20, 3)), np.eye(3), np.arange(20) % 3
    plain = score(features, weight, labels, scores=["confidence"])
    turned = score(features, weight, labels, scores=["confidence"], hardness=True)
    turned.save(tmp_path / "scores.csv")
    again = Snapshot.open(turned.to_pandas() if library == "pandas" else tmp_path / "scores.csv").scores(["confidence"])
    assert again["confidence"].to_numpy() == pytest.approx(plain["confidence"].to_numpy())
