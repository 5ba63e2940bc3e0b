"""What the page is made of: columns, displays, epochs, agreement, comparisons, exports; without a browser."""

from __future__ import annotations

import io
import shutil
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import rankdata, spearmanr

import hardsight
from explorer_runs import EPOCHS, NAMES, class_means, digits_run, two_heads
from hardsight.data import decoding, open_data
from hardsight.errors import InputError
from hardsight.explorer import sample_detail
from hardsight.explorer import thumbnails as pictures_module
from hardsight.explorer.columns import codes, from_arrow, numbers, signed
from hardsight.explorer.opening import open_display, open_page
from hardsight.explorer.page import Page
from hardsight.explorer.report import report
from hardsight.explorer.review import Review
from hardsight.explorer.selection import agreement, as_file, curves_of_groups, groups_of, selection_table
from hardsight.explorer.settings import ExploreSettings
from hardsight.explorer.thumbnails import Pictures
from hardsight.explorer.two_runs import compare
from hardsight.files.writing import owning
from hardsight.head import Head
from hardsight.render.table_views import thumbnail
from hardsight.result import Result
from hardsight.scoring.score import score
from hardsight.snapshot import Snapshot
from hardsight.stats.coefficients import interval
from hardsight.table import write_table


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("parts") / "run", n=200, human=True, dynamics=True, degraded=True)


# Columns


@given(st.lists(st.one_of(st.none(), st.sampled_from(["b", "a", "", "<b>", "\u202e"])), min_size=1, max_size=30))
def test_words_come_back_from_their_codes(words: list[str | None]) -> None:
    column = from_arrow("group", pa.array(words, pa.string()))
    if all(word is None for word in words):
        assert column is None
        return
    assert column is not None and column.names is not None
    assert [None if code < 0 else column.names[code] for code in signed(column)] == words
    assert column.names == sorted(column.names)


def test_numbers_lose_what_is_not_finite_and_keep_their_ends() -> None:
    column = numbers("avh", [0.5, np.inf, np.nan, -2])
    assert np.isnan(column.values[1:3]).all() and column.ends == (-2.0, 0.5)
    assert np.frombuffer(column.bytes(), "<f4")[3] == -2 and column.values.dtype == "float32"
    assert numbers("confidence", [1]).hard == "low" and numbers("norm", [1]).described()["kind"] == "float32"


def test_codes_are_as_narrow_as_they_can_be_and_255_classes_have_room_for_none() -> None:
    assert codes("x", np.array([0, -1]), ["a"]).described()["kind"] == "uint8"
    for count, kind in ((254, "uint8"), (255, "uint16"), (70_000, "uint32")):
        column = codes("x", np.array([-1, count - 1]), [str(k) for k in range(count)])
        assert column.described()["kind"] == kind and signed(column).tolist() == [-1, count - 1]


def test_lists_nulls_and_names_are_no_groups() -> None:
    assert from_arrow("x", pa.array([[1], [2]])) is None
    assert from_arrow("x", pa.nulls(3)) is None
    assert from_arrow("x", pa.array([f"file{k}" for k in range(2000)])) is None
    assert from_arrow("x", pa.array([True, None, False])).names == ["false", "true"]  # type: ignore[union-attr]


# Opening


def test_a_run_brings_all_it_has(run: Path) -> None:
    display = open_display(run)
    assert len(display) == 200 and display.by == "avh" and display.epochs is not None
    assert {"label", "predicted", "correct", "avh", "split", "degradation", "level", "human"} <= display.columns.keys()
    assert "path" not in display.columns and "features" not in display.columns
    table = pq.read_table(run / "scores.parquet")
    assert display.labels.tolist() == table.column("label").to_pylist()
    np.testing.assert_allclose(display.columns["avh"].values, table.column("avh").to_numpy(), rtol=1e-6)


def test_a_run_without_scores_is_scored_and_keeps_them_unless_it_may_not(tmp_path: Path) -> None:
    directory = digits_run(tmp_path / "run", n=60)
    expected = pq.read_table(directory / "scores.parquet").column("avh").to_numpy().astype(np.float32)
    (directory / "scores.parquet").unlink()
    assert (open_display(directory, keep=False).columns["avh"].values == expected).all()
    assert not (directory / "scores.parquet").exists()
    open_display(directory)
    assert pq.read_table(directory / "scores.parquet").num_rows == 60


def test_scores_in_another_order_find_their_samples_by_id(tmp_path: Path) -> None:
    directory = digits_run(tmp_path / "run", n=60, columns={"place": pa.array(np.arange(60.0))})
    table = pq.read_table(directory / "scores.parquet").take(pa.array(np.arange(60)[::-1]))
    write_table(table.slice(0, 50), directory / "scores.parquet")
    display = open_display(directory)
    assert display.columns["place"].values.tolist() == list(range(59, 9, -1))
    features = Snapshot.load(directory).in_memory().values
    np.testing.assert_allclose(sample_detail.features_of(display, [0, 49])[0], features[59])
    near = sample_detail.neighbors(display, 0)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    cosine = unit[10:] @ unit[59]
    cosine[49] = -2
    assert near[0]["row"] == 59 - (10 + int(cosine.argmax())) and near[0]["cosine"] == pytest.approx(cosine.max(), rel=1e-5)


def test_files_or_dynamics_alone_will_do(tmp_path: Path, run: Path) -> None:
    snapshot = Snapshot.load(run)
    with pytest.warns(UserWarning, match="degradation is not saved"):
        snapshot.save(tmp_path / "arrays.npz")
    table = score(snapshot)
    write_table(table, tmp_path / "scores.parquet")
    write_table(table, tmp_path / "scores.csv")
    for name in ("arrays.npz", "scores.parquet", "scores.csv"):
        display = open_display(tmp_path / name)
        assert len(display) == 200 and display.directory is None
        np.testing.assert_allclose(display.columns["avh"].values, table.column("avh").to_numpy(), rtol=1e-6)
    shutil.copytree(run / "dynamics", tmp_path / "epochs" / "dynamics")
    last = pq.read_table(run / "dynamics" / "epoch=0005.parquet")
    np.testing.assert_allclose(
        open_display(tmp_path / "epochs").columns["norm"].values, last.column("norm").to_numpy(), rtol=1e-6
    )


def test_the_server_starts_without_what_is_slow_to_import(run: Path, fresh_python: Callable[..., Any]) -> None:
    done = fresh_python(
        "import sys; from hardsight.explorer.opening import open_page; from hardsight.explorer.server import Server;"
        "from hardsight.explorer.settings import ExploreSettings; options = ExploreSettings(port=0);"
        "Server(open_page(sys.argv[1], None, options), options).socket.close();"
        "print(sorted({'pandas', 'torch', 'sklearn', 'scipy', 'matplotlib'} & sys.modules.keys()))",
        run / "scores.parquet",
    )
    assert done.code == 0 and done.out.strip() == "[]"


def test_human_counts_become_the_frequency_of_the_given_class(tmp_path: Path) -> None:
    run = digits_run(tmp_path / "run", n=60)
    counts = np.random.default_rng(0).integers(0, 9, (60, 10))
    counts[0] = 0  # nobody was asked
    labels = open_display(run).labels
    with np.errstate(invalid="ignore"):
        expected = counts[np.arange(60), labels] / counts.sum(1)
    order = np.random.default_rng(1).permutation(60)[:50]
    np.save(tmp_path / "counts.npy", counts)
    listed = pa.table({"id": [str(row) for row in order], "counts": [counts[row].tolist() for row in order]})
    write_table(listed, tmp_path / "counts.parquet")
    found = open_display(run, human=tmp_path / "counts.npy").columns["human"].values
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(InputError, match="10 of 60 samples have no human data .*--allow-missing"):
        open_display(run, human=tmp_path / "counts.parquet")
    display = open_display(run, human=tmp_path / "counts.parquet", allow_missing=True)
    expected[np.setdiff1d(np.arange(60), order)] = np.nan
    np.testing.assert_allclose(display.columns["human"].values, expected, rtol=1e-6)
    assert display.columns["human"].hard == "low" and any("have no human data" in note for note in display.notes)


def test_human_data_go_by_the_number_of_the_image_where_ids_are_numbers(tmp_path: Path) -> None:
    run = digits_run(tmp_path / "run", n=40)
    table = pq.read_table(run / "scores.parquet").take(pa.array([30, 2, 11]))  # some of them, in another order
    write_table(table, tmp_path / "some.parquet")
    np.save(tmp_path / "frequency.npy", np.arange(40) / 40)
    display = open_display(tmp_path / "some.parquet", human=tmp_path / "frequency.npy", allow_missing=True)
    np.testing.assert_allclose(display.columns["human"].values, [0.75, 0.05, 0.275], rtol=1e-6)


# Pictures


def test_pictures_come_from_the_data_that_was_extracted(run: Path) -> None:
    display = open_display(run)
    data = open_data("digits")
    pictures = Pictures(display)
    assert (np.asarray(pictures.image(8)) == np.asarray(data.image(8))).all()
    degraded = np.asarray(pictures.image(9), float)  # contrast 0.3 of the image of base 8
    assert degraded.std() == pytest.approx(0.3 * np.asarray(data.image(8), float).std(), rel=0.05)
    thumb = pictures.thumb(8)
    assert thumb[8:12] == b"WEBP" and pictures.thumb(8) is thumb


def test_pictures_in_work_never_have_more_pixels_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first pixel decoded to the last encoded: twelve at once, room for two and a half; a larger one goes alone."""
    for k in range(12):
        Image.new("RGB", (100, 400 if k == 5 else 100), (20 * k, 0, 0)).save(tmp_path / f"{k}.png")
    table = {"id": [str(k) for k in range(12)], "path": [f"{k}.png" for k in range(12)], "avh": np.linspace(0, 1, 12)}
    write_table(pa.table(table), tmp_path / "scores.parquet")
    monkeypatch.setattr(pictures_module, "AT_ONCE", 25_000)
    pictures = Pictures(open_display(tmp_path / "scores.parquet"), str(tmp_path))
    in_work, seen, lock = [0], [], Lock()
    upright, encoded = decoding._upright, thumbnail

    def counted(pixels: int) -> None:
        with lock:
            in_work[0] += pixels
            seen.append(in_work[0])
        time.sleep(0.005)

    def decoded(image: Image.Image) -> Image.Image:
        counted(image.width * image.height)
        return upright(image)

    def slowly(image: Image.Image, side: int) -> bytes:
        pixels = image.width * image.height
        made = encoded(image, side)
        counted(-pixels)
        return made

    monkeypatch.setattr(decoding, "_upright", decoded)
    monkeypatch.setattr(pictures_module, "thumbnail", slowly)
    with ThreadPoolExecutor(12) as pool:
        made = list(pool.map(lambda row: pictures.small(row, 768), range(12)))
    assert len(set(made)) == 12 and pictures.room.used == in_work[0] == 0
    assert {pixels for pixels in seen if pixels > 25_000} == {40_000}


def test_a_folder_without_the_samples_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "photos" / "a.png")
    write_table(pa.table({"id": ["0", "1"], "path": ["b.png", "gone.png"], "avh": [0.1, 0.2]}), tmp_path / "scores.parquet")
    display = open_display(tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="'b.png' is not in it"):
        Pictures(display, str(tmp_path / "photos"))
    display.paths = pa.array(["a.png", "gone.png"])
    assert Pictures(display, str(tmp_path / "photos")).any  # one of them is there


def test_a_report_holds_small_pictures_only(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve as large as they may be would take gigabytes."""

    shapes = set()

    def imshow(_: Any, image: np.ndarray, **__: Any) -> None:
        shapes.add(image.shape)

    monkeypatch.setattr("hardsight.explorer.report.OVERVIEW", 4)
    monkeypatch.setattr("matplotlib.axes.Axes.imshow", imshow)
    report(run)
    assert shapes == {(4, 4)}  # of digits of 8 x 8


# Epochs and agreement


def test_curves_are_means_of_groups(run: Path) -> None:
    display = open_display(run)
    assert display.epochs is not None and display.epochs.numbers == list(range(1, EPOCHS + 1))
    chosen = np.arange(200) % 3 == 0
    names, groups = groups_of(display.columns["label"], chosen)
    found = curves_of_groups(display.epochs, "norm", names, groups)["groups"]
    for epoch in range(EPOCHS):
        table = pq.read_table(run / "dynamics" / f"epoch={epoch + 1:04d}.parquet").to_pandas()[chosen]
        for code, (mean, std) in enumerate(table.groupby("label").norm.agg(["mean", lambda x: x.std(ddof=0)]).to_numpy()):
            assert found[code]["mean"][epoch] == pytest.approx(mean, rel=1e-5)
            assert found[code]["std"][epoch] == pytest.approx(std, rel=1e-4)


def test_an_epoch_with_other_rows_leaves_gaps(tmp_path: Path, run: Path) -> None:
    display = open_display(run)
    assert display.epochs is not None
    table = pq.read_table(run / "dynamics" / "epoch=0001.parquet").take(pa.array([5, 3, 3]))
    write_table(table, tmp_path / "epoch=0001.parquet")
    display.epochs.files = [(1, tmp_path / "epoch=0001.parquet")]
    values = display.epochs.values(0, "norm")
    assert np.flatnonzero(np.isfinite(values)).tolist() == [3, 5]
    assert display.epochs.story(5, "norm") == [pytest.approx(table.column("norm")[0].as_py(), rel=1e-6)]
    assert display.epochs.story(4, "norm") == [None]


def test_the_same_id_in_another_split_is_another_sample(tmp_path: Path) -> None:
    run = digits_run(tmp_path / "run", n=30, dynamics=True)
    for path in sorted((run / "dynamics").iterdir()):
        table = pq.read_table(path)
        other = table.set_column(1, "split", pa.array(["watched"] * 30)).set_column(6, "norm", pa.array(np.full(30, -1.0)))
        assert table.column_names[6] == "norm"
        with owning(run):  # as the run that wrote it
            write_table(pa.concat_tables([other, table]), path)
    display = open_display(run)
    expected = pq.read_table(run / "scores.parquet").column("norm").to_numpy()
    assert display.epochs is not None
    np.testing.assert_allclose(display.epochs.values(EPOCHS - 1, "norm"), expected, rtol=1e-6)
    watched = open_display(run, split="watched")
    assert len(watched) == 30 and watched.snapshot is None and watched.class_names == NAMES and watched.epochs is not None
    assert (watched.columns["norm"].values == -1).all() and (watched.epochs.values(0, "norm") == -1).all()
    with pytest.raises(InputError, match="no split 'val'; splits: test, train, watched"):
        open_display(run, split="val")
    write_table(pq.read_table(run / "scores.parquet"), tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="no split 'test'"):
        open_display(tmp_path / "scores.parquet", split="test")
    shutil.rmtree(run / "dynamics")
    assert open_display(run, split="test").ids.to_pylist() == [str(row) for row in range(4, 30, 5)]  # of any run with splits


def test_numbers_make_five_groups_of_equal_size_and_human_frequencies_fifths() -> None:
    names, groups = groups_of(numbers("norm", np.arange(100.0)), np.ones(100, bool))
    assert len(names) == 5 and np.bincount(groups).tolist() == [20] * 5
    names, groups = groups_of(numbers("human", [0.1, 0.95, 1, 1, 1, 0.2, np.nan]), np.ones(7, bool))
    assert groups.tolist() == [0, 4, 4, 4, 4, 1, -1] and names[4] == "0.8 to 1"


def test_agreement_is_scipys() -> None:
    human, values = np.random.default_rng(1).random((2, 120))
    found = agreement(human, values)
    assert found["spearman"] == pytest.approx(spearmanr(human, values).statistic)
    assert (found["low"], found["high"]) == interval("spearman", found["spearman"], 120, 0.95)
    assert [step["count"] for step in found["steps"]] == np.histogram(human, 10, (0, 1))[0].tolist()
    assert agreement(np.array([0.5, 0.5]), np.array([1.0, 2.0]))["spearman"] is None


# Comparing


def test_two_runs_meet_on_their_ids(tmp_path: Path) -> None:
    one, two = open_display(digits_run(tmp_path / "one", n=80)), open_display(digits_run(tmp_path / "two", n=100, noise=3.0))
    before = two.columns["avh"].values[:80] - one.columns["avh"].values
    compare(one, two)
    np.testing.assert_allclose(one.columns["avh change"].values, before)
    assert one.columns["confidence change"].hard == "low"
    first, second = one.labels == one.predicted, two.labels[:80] == two.predicted[:80]
    assert (signed(one.columns["outcome"]) == 2 * ~first + ~second).all()
    assert any("20 samples of two" in note for note in one.notes)
    with pytest.raises(InputError, match="share no id"):
        other = open_display(tmp_path / "two")
        other.ids = pa.array([f"x{k}" for k in range(100)])
        compare(open_display(tmp_path / "one"), other)


def test_scores_of_two_heads_are_compared_by_rank(tmp_path: Path) -> None:
    heads = two_heads()
    one, two = (open_display(digits_run(tmp_path / str(n), n=n, head=head)) for n, head in zip((80, 100), heads, strict=True))
    comparison = compare(one, two)
    assert comparison.why_ranks == "one head is linear, the other cosine"
    assert comparison.changes["avh"] == "avh rank change" and "avh change" not in one.columns
    ranks = [rankdata(display.columns["avh"].values[:80]) for display in (one, two)]
    np.testing.assert_allclose(one.columns["avh rank change"].values, (ranks[1] - ranks[0]) / 80, atol=1e-6)
    margins = [display.columns["logit_margin"].values[:80] for display in (one, two)]  # whose low end is hard
    expected = (rankdata(-margins[1]) - rankdata(-margins[0])) / 80
    np.testing.assert_allclose(one.columns["logit_margin rank change"].values, expected, atol=1e-6)
    assert one.columns["logit_margin rank change"].hard == "high"
    assert comparison.changes["confidence"] == "confidence change"  # probabilities of ten classes are on one scale


def test_what_is_not_known_to_be_of_one_head_is_compared_by_rank(tmp_path: Path, run: Path) -> None:
    shutil.copy(run / "scores.parquet", tmp_path / "table.parquet")
    comparison = compare(open_display(run), open_display(tmp_path / "table.parquet"))
    assert comparison.why_ranks == "table.parquet does not hold the head that its scores are from"
    more = open_display(run)
    assert more.snapshot is not None
    more.snapshot.head, more.class_names = Head("cosine", np.ones((12, 64)), scale=20.0), [*NAMES, "ten", "eleven"]
    comparison = compare(open_display(run), more)
    assert comparison.why_ranks == "one head has 10 classes and 64 features, the other 12 and 64"
    assert comparison.changes["confidence"] == "confidence rank change"  # among more classes
    shutil.copytree(run, tmp_path / "after" / "run")
    one, two = open_display(run), open_display(tmp_path / "after" / "run")
    assert compare(one, two).why_ranks is None and (one.name, two.name) == (f"{run.parent.name}/run", "after/run")


# Exports


def test_exports_hold_the_rows_and_no_formula_runs(tmp_path: Path) -> None:
    bad = ["=cmd()", "+1", "-1", "@x"] + [f"digit {k}" for k in range(4, 10)]
    paths = pa.array([f"=a{k}.png" for k in range(50)])
    display = open_display(digits_run(tmp_path / "run", n=50, names=bad, columns={"path": paths}))
    review = Review(None, bad)
    review.put("tab", "3", "wrong label", 2)
    table = selection_table(display, np.array([0, 3, 10]), review)
    assert table.column("id").to_pylist() == ["0", "3", "10"] and table.column("mark").to_pylist() == [None, "wrong label", None]
    parquet = pq.read_table(io.BytesIO(as_file(table, "parquet", [])))
    assert parquet.equals(table) and parquet.column("label_name").to_pylist()[0] == "=cmd()"  # as it is: nothing runs it there
    csv = pacsv.read_csv(io.BytesIO(as_file(table, "csv", []))).to_pylist()
    for row in csv:
        assert not any(str(value).startswith(("=", "+", "@")) for value in row.values())
        assert row["label_name"].startswith(("'", "digit")) and row["path"].startswith("'=")
    assert as_file(table, "txt", ["/data"]).decode().splitlines() == ["/data/=a0.png", "/data/=a3.png", "/data/=a10.png"]
    with pytest.raises(InputError, match="line breaks"):
        as_file(pa.table({"path": ["a\nb"]}), "txt", [])


# How to do it again


def opened(run: Path, second: Path | None = None, **options: Any) -> Page:
    return open_page(run, second, ExploreSettings(port=0, **options))


def test_how_to_do_it_again_repeats_the_options(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])
    monkeypatch.chdir(run.parent)
    page = opened(Path("run"), images="digits", read_only=True)
    assert page.about()["again"] == [
        "hardsight extract",
        "hardsight explore run --port 0 --read-only --images digits",
        "hardsight report run --images digits    # the same page as one file",
    ]
    two = opened(Path("run"), Path("run"))
    assert two.about()["again"][1:] == ["hardsight explore run run --port 0"]
    (tmp_path / "my names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    names = tmp_path / "my names.txt"
    text = report("run", tmp_path / "out.html", class_names=names, images="digits").read_text(encoding="utf-8")
    assert f"hardsight report run --images digits --class-names '{names}' -o out.html" in text
    assert '"maps":[{"method":"pca","title":"PCA","axes":["pca_1","pca_2"]' in text
    mean = open_display(run).columns["confidence"].values.astype(float).mean()
    assert f'["mean confidence","{mean:.4g}"]' in text


def test_an_array_of_images_is_refused_and_what_is_said_instead_works(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    array: Any = np.zeros((len(open_display(run)), 8, 8), np.uint8)
    array[7] = 200
    for shown in (hardsight.explore, hardsight.report):
        with pytest.raises(InputError, match="images must be a folder .* got ndarray") as error:
            shown("run", images=array)
        assert "np.save('images.npy', array)" in str(error.value) and "\n" not in str(error.value)
    np.save("images.npy", array)
    for named in ("images.npy", Path("images.npy")):
        assert opened(run, images=named).pictures.source.find(None, "7").getpixel((0, 0)) == 200


# Whatever a snapshot opens


def shown_ids(x: Any, **given: Any) -> list[str]:
    return list(open_display(x, **given).ids.to_pylist())


def test_arrays_frames_snapshots_and_results_are_shown_as_score_takes_them(run: Path, tmp_path: Path) -> None:
    snapshot = Snapshot.load(run)
    features, head = snapshot.features, snapshot.head
    assert features is not None and head is not None
    ids = [f"s{row}" for row in range(200)]
    expected = open_display(run).columns["avh"].values
    frame = pd.DataFrame(features, index=pd.Index(ids)).add_prefix("f").assign(y=snapshot.labels)
    for display in (
        open_display(features, head=head, labels=snapshot.labels, ids=ids),
        open_display(None, features=features, head=head, labels=snapshot.labels, ids=ids),
        open_display(frame, features="f*", label="y", head=head),
        open_display(Snapshot(features, head, snapshot.labels, ids=ids)),
        open_display(score(features, head, snapshot.labels, ids=ids)),
    ):
        assert display.ids.to_pylist() == ids and display.path is None
        np.testing.assert_allclose(display.columns["avh"].values, expected, rtol=1e-5)
    opened = open_display(snapshot)  # it knows its run
    assert opened.path == run and opened.epochs is not None and opened.snapshot is snapshot
    other = open_display(run, head=Head("cosine", -class_means()[0], scale=20.0), keep=False)
    assert (other.columns["avh"].values > 1.2 * expected).mean() > 0.9  # scored by the head that was given, not read
    assert shown_ids(snapshot.of_split("test")) == [str(row) for row in range(4, 200, 5)]


def test_every_result_shows_its_samples_or_its_run_or_says_what_to_open(run: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drifted = hardsight.drift(run, digits_run(tmp_path / "later", n=200, noise=2.0))
        groups = hardsight.audit(run, group="split")
        ordered, chosen, triplets = hardsight.curriculum(run), hardsight.select(run, 20), hardsight.mine(run)
    assert "change" in open_display(drifted).columns and len(open_display(drifted)) == len(drifted)
    assert shown_ids(ordered) == ordered["id"].to_pylist()
    assert open_display(groups).path == run  # its rows are groups: the run has the samples
    assert shown_ids(Result(pa.table({"epoch": [1]}), run=run)) == [str(row) for row in range(200)]
    for result, match in ((triplets, "Triplets has no samples"), (chosen, "no column of numbers")):
        with pytest.raises(InputError, match=match):
            open_page(result, None, ExploreSettings())


def test_arrays_are_compared_with_a_run(run: Path) -> None:
    snapshot = Snapshot.load(run)
    assert snapshot.features is not None and snapshot.head is not None
    ids = [str(row) for row in range(100)]
    given = ExploreSettings(head=snapshot.head, labels=snapshot.labels[:100], ids=ids)
    page = open_page(snapshot.features[:100], run, given)
    assert page.comparison is not None and len(page.display) == 100
    np.testing.assert_allclose(page.display.columns["avh change"].values, 0, atol=1e-6)


LARGE_IMAGES = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from hardsight.explorer.opening import open_display
from hardsight.explorer.thumbnails import Pictures

def memory(name):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(name))

folder = Path(sys.argv[1])
pictures = Pictures(open_display(folder / "scores.parquet"), str(folder))
before = memory("VmRSS")
with ThreadPoolExecutor(6) as pool:
    list(pool.map(lambda row: pictures.small(row, 768), range(8)))
print(memory("VmRSS") - before, memory("VmHWM"))
"""


@pytest.mark.slow  # eight images of 49 million pixels
def test_the_memory_of_large_images_is_returned(tmp_path: Path, fresh_python: Callable[..., Any]) -> None:
    if not Path("/proc/self/status").is_file():
        pytest.skip("reads /proc")
    for k in range(8):
        Image.new("RGB", (7000, 7000), (10 * k, 20, 30)).save(tmp_path / f"{k}.png", compress_level=1)
    table = {"id": [str(k) for k in range(8)], "path": [f"{k}.png" for k in range(8)], "avh": np.linspace(0, 1, 8)}
    write_table(pa.table(table), tmp_path / "scores.parquet")
    done = fresh_python(LARGE_IMAGES, tmp_path)
    assert done.code == 0, done.err
    kept, most = map(float, done.out.split())
    assert kept < 100 and most < 800  # MB; without returning it, 2,000 stay
