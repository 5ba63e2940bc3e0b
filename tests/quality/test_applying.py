"""What follows a review: corrected labels with names and paths, as tables and as folders; tables as `clean` read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from hardsight import Snapshot
from hardsight.data import open_data
from hardsight.errors import FileError
from hardsight.explorer.opening import open_display
from hardsight.explorer.review import Review
from hardsight.files.heads import save_head
from hardsight.files.run import Run
from hardsight.files.samples import write_samples
from hardsight.head import Head
from hardsight.quality.review import apply_review, write_images
from refusals import refused

Cli = Callable[..., Any]


def photographs(folder: Path) -> Path:
    """A run of images: five cats and five dogs, of which two have the same name, and one is marked as the other."""
    paths = [f"train/{name}/{at}.png" for name in ("cat", "dog") for at in range(5)]
    for at, path in enumerate(paths):
        (folder / "photos" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), at).save(folder / "photos" / path)
    run = Run(folder / "run", "hardsight extract", {}, {}, {"data": str(folder / "photos"), "roots": [str(folder / "photos")]})
    part = run.folder("samples") / "part-00000.parquet"
    write_samples(part, np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32), {
        "id": paths, "path": paths, "label": pa.array([0] * 5 + [1] * 5),
    })  # fmt: skip
    save_head(folder / "run" / "head.safetensors", Head("linear", np.eye(2, dtype=np.float32)), ["cat", "dog"])
    run.finish([part], {"rows": 10}, {part.name: 10})
    review = Review(folder / "run" / "review.parquet", ["cat", "dog"])
    review.put("tab", "train/cat/3.png", "wrong label", 1)
    review.put("tab", "train/dog/0.png", "drop")
    return folder / "run"


def test_corrected_labels_have_names_and_paths(cli: Cli, tmp_path: Path) -> None:
    run = photographs(tmp_path)
    for name in ("labels.csv", "labels.parquet"):
        done = cli("clean", run, "--apply", run / "review.parquet", "-o", tmp_path / name)
        assert done.code == 0 and f"next: hardsight train {tmp_path}/photos --model MODEL --labels " in done.out
    rows = pq.read_table(tmp_path / "labels.parquet").to_pylist()
    given = {"id": "train/cat/3.png", "path": "train/cat/3.png"}
    assert rows[3] == {**given, "label": 1, "given_label": 0, "changed": True, "label_name": "dog"}
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert len(lines) == 10 and lines[4] == '"train/cat/3.png",1,0,true,"dog","train/cat/3.png"'


@pytest.mark.parametrize("links", [True, False])
def test_corrected_images_lie_with_their_class(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    run = photographs(tmp_path)
    if not links:

        def link(*_: Any) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr("hardsight.quality.review.os.link", link)
    done = cli("clean", run, "--apply", run / "review.parquet", "-o", tmp_path / "corrected")
    assert done.code == 0 and f"wrote {tmp_path}/corrected (9 images, each with its class)" in done.out, done.err
    data = open_data(tmp_path / "corrected")  # and what we wrote can be read
    assert data.class_names == ["cat", "dog"]
    assert [id for id in data.ids if "dog" in id] == [f"train/dog/{name}.png" for name in ("1", "2", "3", "4", "cat-3")]
    assert [data.image(row).getpixel((0, 0)) for row in range(4)] == [(at, at, at) for at in (0, 1, 2, 4)]
    kept = (tmp_path / "corrected/train/cat/0.png").samefile(tmp_path / "photos/train/cat/0.png")
    assert kept == links and not (tmp_path / "corrected/train/cat/0.png").is_symlink()
    refused(cli("clean", run, "--apply", run / "review.parquet", "-o", tmp_path / "corrected"), "corrected exists; give a new")
    (tmp_path / "photos/train/cat/1.png").unlink()
    refused(cli("clean", run, "--apply", run / "review.parquet", "-o", tmp_path / "other"), "an image was not found")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corrected", "photos", "run"]  # nothing half done


def test_class_names_and_paths_of_a_stranger_stay_in_the_folder(tmp_path: Path) -> None:
    run = photographs(tmp_path)
    (tmp_path / "secret.png").write_bytes(b"secret")
    ids = ["a", "b", "c"]
    paths = ["train/cat/0.png", "train/dog/1.png", "train/dog/2.png"]
    samples, outside = (
        Snapshot(np.eye(3), None, [0, 1, 2], ids=ids, columns={"path": p}) for p in (paths, ["../secret.png"] * 3)
    )
    pq.write_table(pa.table({"id": ["c"], "mark": ["fine"], "suggestion": pa.array([None], pa.int64())}), tmp_path / "r.parquet")
    applied = apply_review(samples, tmp_path / "r.parquet", ["../up", "a/b", "a_b"])
    assert write_images(applied, run, tmp_path / "out") == 3
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_._up", "a_b (1)", "a_b (2)"]
    with pytest.raises(FileError, match="an image was not found"):
        write_images(apply_review(outside, tmp_path / "r.parquet"), run, tmp_path / "out2")


def test_a_wide_table_is_explored_reported_and_exported_as_it_was_cleaned(cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["cat", "dog"] * 30
    rows = [f"{9 * (name == 'dog') + x:.3f},{y:.3f},{name}" for name, (x, y) in zip(names, rng.normal(size=(60, 2)), strict=True)]
    file = tmp_path / "df.csv"
    file.write_text("\n".join(["f1,f2,species", *rows]))
    assert cli("clean", file, "--label", "species").code == 0
    display = open_display(file)
    assert display.class_names == ["cat", "dog"] and display.labels.tolist() == [0, 1] * 30 and "confidence" in display.columns
    assert cli("report", file).code == 0
    done = cli("export", file, "--to", "cleanlab")
    assert done.code == 0, done.err
    with np.load(tmp_path / "df-cleanlab/data.npz") as exported:
        assert exported["labels"].tolist() == [0, 1] * 30
    Review(tmp_path / "df.review.parquet", ["cat", "dog"]).put("tab", "3", "wrong label", 0)
    applied = cli("clean", file, "--apply", tmp_path / "df.review.parquet", "-o", tmp_path / "labels.csv")
    assert applied.code == 0 and f"next: hardsight report {file}" in applied.out, applied.err
    assert "check again" not in applied.out  # the labels alone hold no features, and the table its old labels
    assert (tmp_path / "labels.csv").read_text().splitlines()[4] == '3,0,1,true,"cat"'


def test_marks_on_a_table_of_scores_are_applied(cli: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", features=np.eye(3), weight=np.eye(3), labels=[0, 1, 1])
    assert cli("score", tmp_path / "x.npz", "-o", tmp_path / "scores.parquet").code == 0
    Review(tmp_path / "scores.review.parquet", ["0", "1", "2"]).put("tab", "2", "wrong label", 1)
    Review(tmp_path / "scores.review.parquet", ["0", "1", "2"]).put("tab", "0", "wrong label", 1)
    done = cli("clean", tmp_path / "scores.parquet", "--apply", tmp_path / "scores.review.parquet", "-o", tmp_path / "labels.csv")
    assert done.code == 0, done.err
    assert (tmp_path / "labels.csv").read_text().splitlines()[1:] == ["0,1,0,true", "1,1,1,false", "2,1,1,false"]
