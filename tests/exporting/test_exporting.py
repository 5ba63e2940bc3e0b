"""`hardsight export`: each layout is opened by its own tool where that is installed, and agrees with the run."""

from __future__ import annotations

import json
import shutil
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from explorer_runs import NAMES, digits_run, write_suspects
from hardsight import Head, Snapshot, export, score
from hardsight.errors import FileError, InputError
from hardsight.explorer.review import Review
from hardsight.files.places import table_path
from hardsight.quality.folds import out_of_sample
from hardsight.table import read_scores, write_table
from refusals import refused

N = 40


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose pictures are arrays, with suspects and one mark."""
    run = digits_run(tmp_path_factory.mktemp("exporting") / "run", n=N)
    write_suspects(run)
    Review(run / "review.parquet", NAMES).put("tab", "3", "wrong label", 8)
    return run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, run: Path) -> Path:
    """A scores table of images that are files, in photos/ beside it; the last file is missing."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "photos" / "some").mkdir(parents=True)
    for row, pixels in enumerate(load_digits().images[: N - 1]):
        Image.fromarray((pixels * 15).astype(np.uint8)).save(folder / "photos" / "some" / f"a {row}.png")
    table = read_scores(run).append_column("path", pa.array([f"some/a {row}.png" for row in range(N)]))
    write_table(table, folder / "photo.parquet")
    return folder / "photo.parquet"


def of_run(run: Path) -> pd.DataFrame:
    return read_scores(run).to_pandas().merge(pq.read_table(run / "suspects.parquet").to_pandas(), on="id").set_index("id")


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_cleanlab_takes_the_arrays_and_knows_the_columns(run: Path, tmp_path: Path) -> None:
    done = export(run, "cleanlab", tmp_path / "out")
    held, table = np.load(tmp_path / "out" / "data.npz"), of_run(run)
    assert held["ids"].tolist() == table.index.tolist() and held["labels"].tolist() == table.label.tolist()
    features = np.asarray(Snapshot.load(run).in_memory().values)
    np.testing.assert_allclose(held["pred_probs"], out_of_sample(features, held["labels"]), atol=1e-6)
    assert any("32 samples are in the training split" in note for note in done.notes)
    issues = pd.read_csv(tmp_path / "out" / "label_issues.csv", dtype={"id": str}).set_index("id")
    assert issues.is_label_issue.dtype == bool and issues.is_label_issue.sum() == 6
    assert issues.label_quality.to_numpy() == pytest.approx(table.label_quality.to_numpy())
    filters = pytest.importorskip("cleanlab.filter")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = filters.find_label_issues(held["labels"], held["pred_probs"], n_jobs=1)
    assert theirs.shape == (N,) and theirs.dtype == bool


def test_cleanlab_gets_the_probabilities_of_a_head_where_none_can_be_fitted_without_the_sample(tmp_path: Path) -> None:
    features, labels = np.random.default_rng(0).normal(size=(9, 3)), np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
    head = Head("linear", np.eye(3, 3))
    # in the first, class 2 has a single sample; the head has not seen those of the second
    for split, labels_given, seen in (("train", labels, True), ("test", labels % 2, False)):
        Snapshot(features, head, labels_given, columns={"split": [split] * 9}).save(tmp_path / f"{split}.npz")
        done = export(tmp_path / f"{split}.npz", "cleanlab")
        probs = np.load(done.folder / "data.npz")["pred_probs"]
        np.testing.assert_allclose(probs, np.exp(features) / np.exp(features).sum(1, keepdims=True), rtol=1e-5)
        assert any("cleanlab expects" in note for note in done.notes) is seen
    Snapshot(features, head, labels % 2, columns={"split": ["train"] * 9}).save(tmp_path / "gap.npz")
    probs = np.load(export(tmp_path / "gap.npz", "cleanlab").folder / "data.npz")["pred_probs"]
    assert probs.shape == (9, 3) and not probs[:, 2].any()  # no sample has class 2
    np.testing.assert_allclose(probs[:, :2], out_of_sample(features, labels % 2), rtol=1e-5)


def test_suspects_beside_a_file_and_no_formula_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = ["=cmd()", "+1", "-1", "@x"] + [f"a{k}" for k in range(16)]
    labels = np.arange(20) % 2
    features = rng.normal(size=(20, 3)) + labels[:, None]
    Snapshot(features, labels=np.where(np.arange(20) == 7, -1, labels), ids=ids).save(tmp_path / "photo.npz")
    write_table(score(tmp_path / "photo.npz"), tmp_path / "scores.parquet")
    suspects = write_suspects(tmp_path / "scores.parquet")
    write_table(suspects, table_path(tmp_path / "photo.npz", "suspects"))
    done = export(tmp_path / "photo.npz", "cleanlab")
    assert done.folder == tmp_path / "photo-cleanlab" and "1 of 20 samples have no label" in done.notes[0]
    held = np.load(done.folder / "data.npz")
    theirs = np.delete(out_of_sample(features, np.where(np.arange(20) == 7, -1, labels)), 7, axis=0)
    np.testing.assert_allclose(held["pred_probs"], theirs, atol=1e-6)
    assert held["pred_probs"].sum(1) == pytest.approx(np.ones(19)) and held["ids"].tolist() == [*ids[:7], *ids[8:]]
    written = pd.read_csv(done.folder / "label_issues.csv").id.tolist()
    assert written == ["'=cmd()", "'+1", "'-1", "'@x", *[f"a{k}" for k in range(16) if k != 3]]


def test_fiftyone_layout_with_scores_as_attributes(run: Path, files: Path, tmp_path: Path) -> None:
    export(run, "fiftyone", tmp_path / "arrays")
    document, table = read(tmp_path / "arrays" / "labels.json"), of_run(run)
    assert document["classes"] == NAMES and list(document["labels"]) == [f"{at:06d}" for at in range(N)]
    assert {path.stem for path in (tmp_path / "arrays" / "data").iterdir()} == set(document["labels"])
    assert read(tmp_path / "arrays" / "data.json")["000003"] == "data/000003.png"
    for id, target in zip(table.index, document["labels"].values(), strict=True):
        assert target["label"] == table.label[id] and target["confidence"] == pytest.approx(table.confidence[id], rel=1e-5)
        own = target["attributes"]
        assert own["sample_id"] == id and own["avh"] == pytest.approx(table.avh[id], rel=1e-5)
        assert own["suggested_label"] == NAMES[table.suggested_label[id]]
        assert own["is_label_issue"] is bool(table.is_label_issue[id])
        assert own.get("verdict") == (table.verdict[id] if pd.notna(table.verdict[id]) else None)
        assert not {"id", "label", "confidence", "tags", "logits"} & own.keys()
        assert all(isinstance(value, str | float | int) for value in own.values())
    assert document["labels"]["000003"]["attributes"]["mark"] == "wrong label"
    predictions = read(tmp_path / "arrays" / "predictions.json")
    assert predictions["classes"] == NAMES and predictions["labels"].keys() == document["labels"].keys()
    for id, guess in zip(table.index, predictions["labels"].values(), strict=True):
        assert guess["label"] == table.predicted[id]
        assert guess["confidence"] == pytest.approx(table.predicted_confidence[id], rel=1e-5)
    done = export(files, "fiftyone", tmp_path / "files", images=str(files.parent / "photos"))
    data = read(tmp_path / "files" / "data.json")
    assert data.keys() == read(tmp_path / "files" / "labels.json")["labels"].keys() and len(data) == N - 1
    assert data["000007"] == str((files.parent / "photos" / "some" / "a 7.png").resolve())
    assert f"1 of {N} samples have no image that can be read and are left out." in done.notes
    assert not (tmp_path / "files" / "data").exists()  # the files stay where they are


OPENED_BY_FIFTYONE = """
import json, sys
import fiftyone as fo

layout = fo.types.FiftyOneImageClassificationDataset
for folder in sys.argv[1:]:
    dataset = fo.Dataset.from_dir(folder, layout, data_path="data.json", label_field="ground_truth", progress=False)
    dataset.merge_dir(
        folder, layout, data_path="data.json", labels_path="predictions.json", label_field="predictions", progress=False
    )
    by = "error_score" if "error_score" in dataset.first().ground_truth else "avh"
    ranked = dataset.sort_by(f"ground_truth.{by}", reverse=True)
    seen = [[sample.filepath, sample.ground_truth.label, sample.ground_truth.to_dict()] for sample in ranked]
    guessed = [[sample.predictions.label, sample.predictions.confidence] for sample in ranked]
    print("seen", json.dumps({"classes": dataset.default_classes, "samples": seen, "guessed": guessed}, default=str))
    dataset.delete()
"""


@pytest.mark.slow  # starts a database
def test_fiftyone_itself_opens_it_and_sorts_by_a_score(
    run: Path, files: Path, tmp_path: Path, in_fiftyone: Callable[..., str]
) -> None:
    export(run, "fiftyone", tmp_path / "arrays")
    export(files, "fiftyone", tmp_path / "files", images=str(files.parent / "photos"))
    printed = in_fiftyone(OPENED_BY_FIFTYONE, tmp_path / "arrays", tmp_path / "files").splitlines()
    arrays, of_files = (json.loads(line.removeprefix("seen ")) for line in printed if line.startswith("seen "))
    table = of_run(run)
    assert arrays["classes"] == NAMES and len(arrays["samples"]) == N and len(of_files["samples"]) == N - 1
    scores = [target["error_score"] for _, _, target in arrays["samples"]]
    assert scores == sorted(scores, reverse=True)
    for (file, label, target), (guess, confidence) in zip(arrays["samples"], arrays["guessed"], strict=True):
        row = table.loc[target["sample_id"]]
        assert Path(file).is_file() and label == NAMES[row.label] and target["avh"] == pytest.approx(row.avh, rel=1e-5)
        assert target.get("verdict") == (row.verdict if pd.notna(row.verdict) else None)
        assert guess == NAMES[row.predicted] and confidence == pytest.approx(row.predicted_confidence, rel=1e-5)
    assert {Path(file).parent for file, _, _ in of_files["samples"]} == {(files.parent / "photos" / "some").resolve()}


def test_coco_refers_to_what_is_there(run: Path, files: Path, tmp_path: Path) -> None:
    export(files, "coco", tmp_path / "files", images=str(files.parent / "photos"))
    document = read(tmp_path / "files" / "annotations.json")
    images, annotations = ({entry["id"]: entry for entry in document[name]} for name in ("images", "annotations"))
    assert len(images) == len(annotations) == N - 1 and images[1]["file_name"] == "some/a 0.png"
    assert all((files.parent / "photos" / image["file_name"]).is_file() for image in images.values())
    table, names = read_scores(files).to_pandas(), {entry["id"]: entry["name"] for entry in document["categories"]}
    for number, annotation in annotations.items():
        row = table.iloc[int(annotation["attributes"]["id"])]
        assert annotation["image_id"] == number and annotation["bbox"] == [0, 0, 8, 8] and annotation["area"] == 64
        assert names[annotation["category_id"]] == str(row.label) and annotation["category_id"] == row.label + 1
        assert annotation["attributes"]["loss"] == pytest.approx(row.loss, rel=1e-5)
    coco = pytest.importorskip("pycocotools.coco").COCO(str(tmp_path / "files" / "annotations.json"))
    assert len(coco.getImgIds(catIds=[4])) == (table.label[: N - 1] == 3).sum()


def test_datasets_opens_the_hub_folder_with_images_and_class_names(run: Path, tmp_path: Path) -> None:
    export(run, "hub", tmp_path / "out", hardness=True)
    table = of_run(run)
    parts = {path.name: pq.read_table(path) for path in (tmp_path / "out" / "data").iterdir()}
    test, train = (parts.pop(f"{split}-00000-of-00001.parquet") for split in ("test", "train"))
    assert (len(test), len(train), parts) == (N // 5, N - N // 5, {})
    features = json.loads(test.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["image"] == {"_type": "Image"} and features["label"] == {"names": NAMES, "_type": "ClassLabel"}
    assert features["verdict"] == {"dtype": "string", "_type": "Value"} and list(features) == test.column_names
    assert test.column("image").to_pylist()[0]["bytes"].startswith(b"\x89PNG")
    datasets = pytest.importorskip("datasets")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        datasets.disable_progress_bars()
        opened = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
        first = opened["test"][0]
    assert opened["test"].features["label"].names == NAMES and first["label"] == table.label[first["id"]]
    assert first["image"].size == (8, 8) and first["error_score"] == pytest.approx(table.error_score[first["id"]], rel=1e-5)
    assert first["confidence"] == pytest.approx(-table.confidence[first["id"]], rel=1e-5)  # high is hard in every score
    huggingface_hub = pytest.importorskip("huggingface_hub")
    card = huggingface_hub.DatasetCard.load(tmp_path / "out" / "README.md")
    assert card.data.pretty_name == "run" and card.data.task_categories == ["image-classification"]
    assert {entry["split"] for entry in card.data.configs[0]["data_files"]} == {"test", "train"}
    lines = card.text.splitlines()
    assert "# run" in lines and f"| test | {N // 5} |" in lines and any("High is hard." in line for line in lines)
    assert all(any(line.startswith(f"| {name.replace('_', chr(92) + '_')} |") for line in lines) for name in features)


def test_nothing_is_pushed_unless_it_is_asked_for(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub on this machine that refuses everybody: what it was asked, and what a user is told."""
    pytest.importorskip("huggingface_hub")
    asked: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.path} {self.rfile.read(int(self.headers['content-length'])).decode()}")
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", f"http://127.0.0.1:{server.server_port}")
    export(run, "hub", tmp_path / "kept")
    assert asked == []
    with pytest.raises(InputError, match="--push somebody/digits: .* is written, but not uploaded"):
        export(run, "hub", tmp_path / "out", push="somebody/digits")
    assert len(asked) == 1 and asked[0].startswith("/api/repos/create") and "private" in asked[0]
    assert (tmp_path / "out" / "README.md").is_file()
    with pytest.raises(InputError, match="--to coco"):
        export(run, "coco", tmp_path / "coco", push="somebody/digits")
    server.shutdown()
    server.server_close()


def test_label_studio_tasks_come_most_suspect_first(run: Path, tmp_path: Path) -> None:
    done = export(run, "labelstudio", tmp_path / "out")
    assert f"DOCUMENT_ROOT={tmp_path}, and add {tmp_path / 'out'} as local storage" in done.notes[-1]  # a child of the root
    tasks, table = read(tmp_path / "out" / "tasks.json"), of_run(run)
    scores = [task["data"]["error_score"] for task in tasks]
    assert len(tasks) == N and scores == sorted(scores, reverse=True) and isinstance(scores[0], float)
    choices = [choice.get("value") for choice in ET.parse(tmp_path / "out" / "labeling-config.xml").iter("Choice")]
    assert choices == NAMES
    for task in tasks:
        data, (prediction,) = task["data"], task["predictions"]
        assert data["label"] == NAMES[table.label[data["id"]]]
        assert prediction["result"][0]["value"]["choices"] == [NAMES[table.suggested_label[data["id"]]]]
        assert prediction["score"] == pytest.approx(table.suggested_probability[data["id"]])
        assert (tmp_path / data["image"].removeprefix("/data/local-files/?d=")).is_file()


@pytest.mark.slow  # three seconds of imports
@pytest.mark.parametrize("names", [NAMES, ["</View>\"'&<x>", "a\x1bb", *NAMES[2:]]])
def test_label_studio_itself_takes_the_interface_and_every_task(names: list[str], tmp_path: Path) -> None:
    studio = pytest.importorskip("label_studio_sdk.label_interface", reason="make nightly installs label-studio-sdk")
    run = digits_run(tmp_path / "run", n=N, names=names)
    write_suspects(run)
    export(run, "labelstudio", tmp_path / "out")
    interface = studio.LabelInterface((tmp_path / "out" / "labeling-config.xml").read_text("utf-8"))
    interface.validate()
    (control,) = interface.controls
    assert control.tag == "Choices" and len(control.labels) == 10 and control.labels[4:] == NAMES[4:]
    tasks = read(tmp_path / "out" / "tasks.json")
    assert len(tasks) == N
    for task in tasks:
        assert interface.validate_task({"data": task["data"]})
        (prediction,) = task["predictions"]
        assert interface.validate_prediction(prediction, return_errors=True) == []
        prediction["result"][0]["value"]["choices"] = ["nobody"]
        assert not interface.validate_prediction(prediction)  # it does look at the classes


def test_hostile_class_names_reach_label_studio_as_text(tmp_path: Path) -> None:
    hostile = ["</View>\"'&<x>", "a\x1bb", *NAMES[2:]]
    run = digits_run(tmp_path / "run", n=12, names=hostile)
    export(run, "labelstudio", tmp_path / "out", limit=5, image_url="https://example.org/i/")
    choices = [choice.get("value") for choice in ET.parse(tmp_path / "out" / "labeling-config.xml").iter("Choice")]
    tasks = read(tmp_path / "out" / "tasks.json")
    assert choices[:2] == [hostile[0], "a\\x1bb"]
    assert len(tasks) == 5 and all(task["data"]["image"].startswith("https://example.org/i/images/0000") for task in tasks)
    assert {task["predictions"][0]["result"][0]["value"]["choices"][0] for task in tasks} <= set(choices)
    avh = [task["data"]["avh"] for task in tasks]
    assert avh == sorted(avh, reverse=True)  # without suspects, by what the explorer sorts by


def test_what_cannot_be_exported_is_said_before_anything_is_scored_or_written(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hardsight.explorer.opening.score", lambda *_, **__: pytest.fail("the samples were scored first"))
    Snapshot(np.eye(4), labels=[0, 1, 0, 1], ids=["a", "b", "c", "d"]).save("x.npz")
    for run, to, images, match in (
        (files, "excel", None, "to must be one of cleanlab, fiftyone"),
        (files, "cleanlab", None, "cleanlab needs probabilities"),
        (files, "coco", None, "--images"),
        ("x.npz", "fiftyone", None, "--images"),
        ("x.npz", "hub", "digits", "no image has the id of a sample"),
        ("x.npz", "coco", "x.npz", "an .npz of images must hold `images`"),
    ):
        with pytest.raises(InputError, match=match):
            export(run, to, "out", images=images)
        assert not Path("out").exists()


def test_nobody_elses_folder_is_written_over(run: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "labels.json").write_text("{}")
    refused(cli("export", run, "--to", "fiftyone", "-o", tmp_path / "mine"), "labels.json")
    assert (tmp_path / "mine" / "labels.json").read_text() == "{}"
    done = cli("export", run, "--to", "labelstudio", "-o", tmp_path / "out", "--limit", 3)
    assert done.code == 0 and f"wrote {tmp_path / 'out'} (3 samples)" in done.out and "open it with: Label Studio" in done.out
    with pytest.raises(FileError, match="holds an export to labelstudio, not to coco"):
        export(run, "coco", tmp_path / "out")
    assert cli("export", run, "--to", "labelstudio", "-o", tmp_path / "out", "--limit", 2).code == 0  # the same again
    assert len(list((tmp_path / "out" / "images").iterdir())) == 2


def test_what_a_killed_export_left_is_no_hindrance(run: Path, tmp_path: Path) -> None:
    left = tmp_path / "out" / "..hardsight-export.json.4194999.0123abcd.tmp"
    left.parent.mkdir()
    left.write_text("{")
    export(run, "cleanlab", tmp_path / "out")
    assert not left.exists() and (tmp_path / "out" / "data.npz").is_file()


def test_what_is_exported_is_not_removed_with_an_earlier_export(files: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    """A split that the new export does not have would be removed, and with it the input; so would images in the folder."""
    photos = files.parent / "photos"
    export(files, "hub", tmp_path / "out", images=str(photos))
    source = tmp_path / "out" / "data" / "val-00000-of-00001.parquet"
    source.write_bytes(files.read_bytes())
    done = cli("export", source, "--to", "hub", "-o", tmp_path / "out", "--images", photos)
    refused(done, "the input", "give another -o")
    assert source.read_bytes() == files.read_bytes()
    folder = tmp_path / "coco"
    export(files, "coco", folder, images=str(photos))
    for images in (folder / "photos", folder):
        shutil.copytree(photos, images, dirs_exist_ok=True)
        with pytest.raises(InputError, match="give another -o"):
            export(files, "coco", folder, images=str(images))
