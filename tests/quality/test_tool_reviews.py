"""Exported, changed in another tool, applied: `clean --apply` gives exactly the changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from explorer_runs import NAMES, digits_run, write_suspects
from hardsight import Snapshot, export
from hardsight.errors import FileError, InputError
from hardsight.quality.review import apply_review
from jupyter_lab import PATIENCE, free_port, wait_for
from refusals import refused

N = 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose pictures are arrays, with suspects."""
    run = digits_run(tmp_path_factory.mktemp("tools") / "run", n=N)
    write_suspects(run)
    return run


def changes(labels: Any) -> dict[str, int]:
    return {row["id"]: row["label"] for row in labels.table.to_pylist() if row["changed"]}


def annotated(task: dict[str, Any], *choices: str, cancelled: bool = False) -> dict[str, Any]:
    """A task as Label Studio exports it: an annotation for each choice."""
    result = [[{"from_name": "class", "to_name": "image", "type": "choices", "value": {"choices": [name]}}] for name in choices]
    return {"id": 7, "data": task["data"], "annotations": [{"result": one, "was_cancelled": cancelled} for one in result]}


def test_what_people_chose_in_label_studio_is_applied(run: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    export(run, "labelstudio", tmp_path / "out")
    tasks = {task["data"]["id"]: task for task in json.loads((tmp_path / "out" / "tasks.json").read_text())}
    labels = Snapshot.open(run).labels
    other = {id: NAMES[(labels[int(id)] + 3) % 10] for id in tasks}
    done = [
        annotated(tasks["3"], other["3"]),  # changed
        annotated(tasks["4"], NAMES[labels[4]]),  # looked at, and fine
        annotated(tasks["5"], other["5"], NAMES[labels[5]]),  # two people disagree
        annotated(tasks["6"], other["6"], cancelled=True),  # skipped
        annotated(tasks["8"], other["8"], other["8"]),  # two people agree
        *(annotated(task) for id, task in tasks.items() if id not in "34568"),
    ]
    (tmp_path / "reviewed.json").write_text(json.dumps(done))
    assert changes(apply_review(run, tmp_path / "reviewed.json")) == {id: (labels[int(id)] + 3) % 10 for id in ("3", "8")}
    said = cli("clean", run, "--apply", tmp_path / "reviewed.json", "-o", tmp_path / "labels.csv")
    assert said.code == 0 and f"{N} samples: 2 labels changed, 0 samples dropped" in said.out


def test_labels_changed_in_fiftyone_are_applied(run: Path, tmp_path: Path) -> None:
    export(run, "fiftyone", tmp_path / "out")
    document = json.loads((tmp_path / "out" / "labels.json").read_text())
    assert changes(apply_review(run, tmp_path / "out" / "labels.json")) == {}  # nothing was changed
    document["labels"]["000003"]["label"] = (document["labels"]["000003"]["label"] + 1) % 10
    expected = {"3": document["labels"]["000003"]["label"]}
    del document["labels"]["000009"]  # an export of a view
    (tmp_path / "by number.json").write_text(json.dumps(document))
    assert changes(apply_review(run, tmp_path / "by number.json")) == expected
    for label in document["labels"].values():  # as FiftyOne writes them without a list of classes
        label["label"] = NAMES[label["label"]]
    (tmp_path / "by name.json").write_text(json.dumps({"classes": None, "labels": document["labels"]}))
    assert changes(apply_review(run, tmp_path / "by name.json")) == expected


def test_classes_without_names_and_with_hostile_ones_come_back(tmp_path: Path) -> None:
    features, labels = load_digits().data[:20].astype(float), np.arange(20) % 3
    for names, chosen in ((None, "2"), (["a", "b", "c\x1bd"], "c\\x1bd")):
        snapshot = Snapshot(features, labels=labels, class_names=names, ids=[f"s{k}" for k in range(20)])
        task = annotated({"data": {"id": "s0"}}, chosen)
        (tmp_path / "reviewed.json").write_text(json.dumps([task]))
        assert changes(apply_review(snapshot, tmp_path / "reviewed.json")) == {"s0": 2}


def test_other_documents_are_refused(run: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    file = tmp_path / "reviewed.json"
    for document, error, match in (
        ([{"id": 1, "image": "a.png", "class": "digit 3"}], FileError, "not JSON-MIN"),
        ({"a": 1}, FileError, "not a review"),
        ({"classes": NAMES, "labels": {"000001": 3}}, FileError, "include_attributes=True"),
        ([annotated({"data": {"id": "3"}}, "digit 30")], InputError, "Did you mean digit 3"),
        ([annotated({"data": {"id": "elsewhere"}}, "digit 3")], InputError, "of other samples"),
    ):
        file.write_text(json.dumps(document))
        with pytest.raises(error, match=match):
            apply_review(run, file)
    file.write_text("[")
    refused(cli("clean", run, "--apply", file, "-o", tmp_path / "labels.csv"), "reviewed.json")
    assert not (tmp_path / "labels.csv").exists()


# The tools themselves


STUDIO = os.environ.get("LABEL_STUDIO") or shutil.which(".venv-label-studio/bin/label-studio")  # make nightly installs it there
TOKEN = "0123456789abcdef0123456789abcdef01234567"


class Studio:
    """A running Label Studio, asked as its own pages ask it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self, path: str, told: Any = None) -> Any:
        body = None if told is None else json.dumps(told).encode()
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.address + path, body, headers), timeout=60) as answer:
            return json.loads(answer.read())


@contextmanager
def label_studio(folder: Path) -> Iterator[Studio]:
    """A server with a database of its own."""
    assert STUDIO is not None
    port, user = free_port(), ["--username", "a@example.org", "--password", "of-a-test", "--user-token", TOKEN]
    words = [STUDIO, "start", "--no-browser", "--port", str(port), "--data-dir", str(folder / "studio"), *user]
    own = {"LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true", "COLLECT_ANALYTICS": "0", "HOME": str(folder)}
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DJANGO_SETTINGS_MODULE")}
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(words, cwd=folder, env=inherited | own, stdout=log, stderr=log)
        try:
            wait_for(process, f"http://127.0.0.1:{port}/health", folder / "log", 4 * PATIENCE)
            yield Studio(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.slow  # about a minute: a server that sets up its database
def test_a_project_in_label_studio_from_import_to_export(run: Path, tmp_path: Path) -> None:
    if STUDIO is None:
        pytest.skip("needs Label Studio: make nightly, or LABEL_STUDIO=its command")
    export(run, "labelstudio", tmp_path / "out")
    labels = Snapshot.open(run).labels
    with label_studio(tmp_path) as studio:
        config = (tmp_path / "out" / "labeling-config.xml").read_text()
        project = studio("/api/projects", {"title": "digits", "label_config": config})["id"]
        studio(f"/api/projects/{project}/import", json.loads((tmp_path / "out" / "tasks.json").read_text()))
        listed = studio(f"/api/tasks?project={project}&page_size=100&fields=all")["tasks"]
        assert len(listed) == N and all(task["predictions"] for task in listed)
        tasks = {task["data"]["id"]: task["id"] for task in listed}
        expected = {"3": int(labels[3] + 1) % 10, "7": int(labels[7] + 5) % 10}
        for id, label in [*expected.items(), ("4", int(labels[4]))]:  # the last one is fine
            value = {"from_name": "class", "to_name": "image", "type": "choices", "value": {"choices": [NAMES[label]]}}
            studio(f"/api/tasks/{tasks[id]}/annotations/", {"result": [value]})
        reviewed = studio(f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true")
    (tmp_path / "reviewed.json").write_text(json.dumps(reviewed))
    assert len(reviewed) == N and changes(apply_review(run, tmp_path / "reviewed.json")) == expected


CHANGED_IN_FIFTYONE = """
import sys
import fiftyone as fo

layout = fo.types.FiftyOneImageClassificationDataset
folder, reviewed, classes = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
dataset = fo.Dataset.from_dir(folder, layout, data_path="data.json", label_field="ground_truth", progress=False)
for sample in dataset:
    if sample.ground_truth.sample_id in ("3", "7"):
        sample.ground_truth.label = classes[(classes.index(sample.ground_truth.label) + 1) % 10]
        sample.save()
dataset.export(
    labels_path=reviewed, dataset_type=layout, label_field="ground_truth", include_attributes=True, progress=False
)
dataset.delete()
"""


@pytest.mark.slow  # starts a database
def test_labels_changed_in_fiftyone_itself_are_applied(run: Path, tmp_path: Path, in_fiftyone: Callable[..., str]) -> None:
    export(run, "fiftyone", tmp_path / "out")
    in_fiftyone(CHANGED_IN_FIFTYONE, tmp_path / "out", tmp_path / "reviewed.json", ",".join(NAMES))
    labels = Snapshot.open(run).labels
    assert changes(apply_review(run, tmp_path / "reviewed.json")) == {id: (labels[int(id)] + 1) % 10 for id in ("3", "7")}
