"""`check` on photographs, tables and arrays: what it finds, says, writes and refuses."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from libraries import library
from PIL import Image

import hardsight
from hardsight.checking.findings import Checked
from hardsight.errors import InputError
from hardsight.explorer.opening import open_page
from hardsight.explorer.report import _suspects
from hardsight.explorer.settings import ExploreSettings
from hardsight.files.suspects import suspects_notes
from undrawn import undrawn

torch = pytest.importorskip("torch")

Cli = Callable[..., Any]
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # the notes of a check


@pytest.fixture(autouse=True)
def reports_without_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """The figures of a report are looked at once, and drawn by the tests of the explorer."""
    with nullcontext() if request.node.name == "test_photographs_end_to_end" else undrawn(in_pages=False):
        yield


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny backbone with random weights, as hf:DIRECTORY."""
    transformers = library("transformers")
    folder = tmp_path_factory.mktemp("dinov2")
    torch.manual_seed(0)
    config = transformers.Dinov2Config(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=4
    )
    transformers.Dinov2Model(config).save_pretrained(folder)
    return f"hf:{folder}"


def photograph(seed: int, color: tuple[int, int, int]) -> Image.Image:
    """Noise of two scales around a color, which is what the class looks like."""
    rng = np.random.default_rng(seed)
    coarse, fine = (rng.integers(-60, 61, (side, side, 3)) for side in (5, 40))
    spread = np.asarray(Image.fromarray((coarse + 128).astype(np.uint8)).resize((40, 40)), np.int64) - 128
    return Image.fromarray((np.array(color) + spread + fine).clip(0, 255).astype(np.uint8))


COLORS = {"red, dark": (170, 70, 70), "green": (70, 170, 70), "Blue sky": (70, 90, 190)}  # a comma and spaces in the names


def photographs(root: Path, per_class: int = 30) -> Path:
    for k, (name, color) in enumerate(COLORS.items()):
        (root / name).mkdir(parents=True)
        for number in range(per_class):
            photograph(100 * k + number, color).save(root / name / f"{number:02d}.png")
    return root


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blobs(n: int = 150, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return rng.normal(size=(n, 6)) + 6 * np.eye(6)[labels], labels


# ---- photographs ----


def test_photographs_end_to_end(here: Path, embedder: str, cli: Cli) -> None:
    root = photographs(here / "photos")
    (root / "green" / "99.png").write_bytes((root / "red, dark" / "00.png").read_bytes())  # a copy with another label
    photograph(7, COLORS["green"]).point(lambda value: value // 8).save(root / "green" / "night.png")
    (root / "green" / "broken.png").write_bytes(b"no picture")
    done = cli("check", "photos", "--embedder", embedder, "--fail-on", "duplicates > 0", "--fail-on", "leaks > 0")
    assert done.code == 1, done.err
    lines = done.out.splitlines()
    first = lines[0]
    assert "first look at 93 images" in first and "1 unreadable" in first and "1 copy" in first and "1 dark" in first
    assert (
        "in CI:" not in done.out
        and "92 images of 3 classes" in done.out
        and "1 duplicate," in done.out
        and "1 unreadable" in done.out
    )
    assert "green/99.png" in done.out and "failed: duplicates is 1 (fails if duplicates > 0)" in done.out
    assert "cannot tell: leaks > 0" in done.out  # there are no splits
    assert any(line.startswith("next: hardsight explore hardsight-photos") for line in lines)
    run = here / "hardsight-photos"
    assert {"report.html", "run.json", "scores.parquet", "suspects.parquet", "quality.parquet"} <= set(os.listdir(run))
    assert cli("verify", run).code == 0
    quality = {row["id"]: row["issues"] for row in pq.read_table(run / "quality.parquet").to_pylist()}
    assert quality["green/night.png"] == "dark" and quality["red, dark/00.png"] == "copy"
    before = (run / "suspects.parquet").read_bytes()
    again = cli("check", "photos", "--embedder", embedder)  # resumes what is complete
    assert sum(line.startswith("resuming: the features in hardsight-photos") for line in again.out.splitlines()) == 1
    then = next(line for line in lines if line.startswith("then: ")).removeprefix("then: hardsight ")
    assert "--apply" not in then and cli(*shlex.split(then)).code == 0  # there are no marks yet
    assert again.code == 0 and (run / "suspects.parquet").read_bytes() == before
    (hint,) = [line for line in again.out.splitlines() if line.startswith("in CI: ")]
    assert "unreadable > 0" in hint and "leaks" not in hint  # which no data without splits has
    page = (run / "report.html").read_text("utf-8")
    assert (
        "92 images of 3 classes" in page
        and "1 dark" in page
        and "cannot be read: green/broken.png: its bytes are none of" in page
    )


def test_corrected_photographs_are_checked_again_by_the_line_that_is_said(here: Path, embedder: str, cli: Cli) -> None:
    photographs(here / "photos", 12)
    assert cli("check", "photos", "--embedder", embedder).code == 0
    marks = here / "hardsight-photos" / "review.parquet"
    review = open_page(here / "hardsight-photos", None, ExploreSettings()).review
    review.put("here", "green/00.png", "wrong label", 0)
    review.put("here", "green/01.png", "drop")
    first = (here / "hardsight-photos" / "suspects.parquet").read_bytes()
    written = ("corrected", "hardsight-corrected", 35), ("my labels.csv", "corrected-check", 36)  # what was dropped has no label
    for output, folder, n in written:
        done = cli("clean", "hardsight-photos", "--apply", marks, "-o", output)
        (line,) = [line for line in done.out.splitlines() if line.startswith("check again: hardsight check ")]
        again = cli(*shlex.split(line.removeprefix("check again: hardsight ")), "--embedder", embedder)
        assert again.code == 0 and f"{n} images of 3" in again.out and (here / folder / "report.html").is_file(), again.err
        assert hardsight.Snapshot.open(here / folder).class_names == ["Blue sky", "green", "red, dark"]  # also by the table
    assert (here / "hardsight-photos" / "suspects.parquet").read_bytes() == first  # what was marked is still there


def test_data_that_changed_is_checked_anew_and_marks_stay(here: Path, embedder: str, cli: Cli) -> None:
    root, run = photographs(here / "photos", 12), here / "hardsight-photos"
    assert cli("check", "photos", "--embedder", embedder).code == 0
    page = open_page(run, None, ExploreSettings())
    page.review.put("here", "green/00.png", "fine", None)
    assert "then: hardsight clean hardsight-photos --apply" in cli("check", "photos", "--embedder", embedder).out
    (root / "green" / "01.png").unlink()
    again = cli("check", "photos", "--embedder", embedder)
    assert again.code == 0 and "checked anew (data had 36 samples and has 35)" in again.out and "35 images" in again.out, (
        again.err
    )
    assert pq.read_table(run / "review.parquet").column("id").to_pylist() == ["green/00.png"]
    (run / "check.json").unlink()  # as a run that another command made
    (root / "green" / "02.png").unlink()
    left = cli("check", "photos", "--embedder", embedder)
    assert left.code == 2 and "data had 35 samples and has 34" in left.err
    assert (run / "scores.parquet").is_file()


def test_a_class_that_its_light_gives_away_is_named(here: Path, embedder: str) -> None:
    root = photographs(here / "photos", 25)
    for file in (root / "green").iterdir():
        with Image.open(file) as picture:
            picture.point(lambda value: value // 2).save(file)
    for _ in range(2):  # also where the run is complete
        found = hardsight.check(root, output=here / "run", embedder=embedder)
        assert any("green is darker than the other classes" in note for note in found.notes)


def test_a_killed_check_goes_on(here: Path, embedder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of a part that was written before are looked at all the same."""
    from hardsight.extraction import parts as part_sizes

    monkeypatch.setattr(part_sizes, "PART_ROWS", 32)
    root = photographs(here / "photos")
    whole = hardsight.check(root, output=here / "whole", embedder=embedder)

    def stop(done: int, total: int | None, words: str = "") -> None:
        if done > 40 and words == "extracting features":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hardsight.check(root, output=here / "cut", embedder=embedder, progress=stop)
    assert not (here / "cut" / "run.json").exists()
    said: list[str] = []
    resumed = hardsight.check(root, output=here / "cut", embedder=embedder, say=said.append)
    assert resumed.equals(whole) and resumed.counts == whole.counts
    assert [sentence for sentence in said if sentence.startswith("resuming")] == [
        "resuming: 1 of 3 parts are complete, 32 of 90 images"
    ]
    tables = [pq.read_table(here / name / "quality.parquet") for name in ("whole", "cut")]
    assert tables[0].equals(tables[1])


def test_unlabeled_photographs(here: Path, embedder: str, cli: Cli) -> None:
    (here / "album").mkdir()
    for number in range(25):
        photograph(number, COLORS["green"]).save(here / "album" / f"{number}.png")
    photograph(3, COLORS["green"]).save(here / "album" / "twin.png")
    done = cli("check", "album", "--embedder", embedder, "--fail-on", "label_errors > 0", "--fail-on", "outliers > 100%")
    assert done.code == 0, done.err
    assert "26 images, unlabeled: no labels were checked" in done.out and "1 duplicate," in done.out
    assert "cannot tell: label_errors > 0" in done.out
    page = open_page(here / "hardsight-album", None, ExploreSettings())
    assert page.display.suspects is not None and page.display.suspects.expected == ""
    page.display.suspects.counts.clear()
    page.display.suspects.duplicates[:] = False
    said = _suspects(page, [], [], {})
    assert said is not None and said["sentence"] == "Labels were not checked."
    assert "map" in (here / "hardsight-album" / "report.html").read_text()


def test_with_a_model_of_the_same_classes(here: Path, cli: Cli) -> None:
    """Its own head judges the labels, by their names."""
    root = photographs(here / "photos")
    (here / "colors.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef net():\n"
        "    head = nn.Linear(3, 3)\n"
        "    head.weight.data = 60 * torch.eye(3)[[2, 0, 1]]\n"  # Blue sky, green and red: the order of the folders
        "    head.bias.data.zero_()\n"
        "    body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)\n"
        "    body.preprocessing = {'size': [32, 32]}\n"
        "    return body\n"
    )
    found = hardsight.check(root, output=here / "run", model="colors.py:net")
    assert found.counts["accuracy"] is not None and hardsight.Snapshot.open(here / "run").head is not None
    assert "are what the model says, if it was not trained on them" in found.sentences()[0]
    done = cli("check", "photos", "--model", "colors.py:nets")
    assert done.code == 2 and "'nets'" in done.err and "first look" not in done.out
    with pytest.raises(InputError, match=r"colors\.py:net.*hf:x"):
        hardsight.check(root, model="colors.py:net", embedder="hf:x")


def test_a_repr_in_a_notebook_is_the_first_screen(here: Path, embedder: str) -> None:
    root = photographs(here / "photos", 20)
    (root / "green" / "99.png").write_bytes((root / "red, dark" / "00.png").read_bytes())
    found = hardsight.check(root, output=here / "run", embedder=embedder)
    page = found._repr_html_()
    assert "61 images of 3 classes" in page and "<img" in page and "99.png" in page and "report.html" in page
    assert "61 images of 3 classes" in repr(found)


# ---- tables and arrays ----


def test_a_table(here: Path, cli: Cli) -> None:
    features, labels = blobs()
    named = np.array(["ant", "bee, large", "cat"])[labels]
    named[4] = "ant"  # was a bee
    with open(here / "table.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{k}" for k in range(6)), "species", "site"])
        writer.writerows([*row, name, f"site {k % 2}"] for k, (row, name) in enumerate(zip(features, named, strict=True)))
    rules = ("--fail-on", "label_errors > 2%", "--fail-on", "unreadable > 0")
    files = ("--summary", "out.xml", "--summary", "out.md")
    done = cli("check", "table.csv", "--features", "f*", "--label", "species", *rules, *files)
    assert done.code == 0, done.err
    assert (
        "150 samples of 3 classes: 1 label is flagged" in done.out and "labeled ant, but the model gives bee, large" in done.out
    )
    assert "(fails if label_errors > 2%)" in done.out and "cannot tell: unreadable > 0" in done.out
    run = here / "hardsight-table"
    assert len(hardsight.Snapshot.open(run)) == 150 and (run / "report.html").is_file() and (run / "audit.parquet").is_file()
    suite = ElementTree.parse(here / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "0", "1")
    page = (here / "out.md").read_text()
    assert "| label_errors | 1 |" in page and "| unreadable | cannot tell |" in page
    assert cli("check", "table.csv", "--features", "f*", "--label", "species", "--fail-on", "label_errors > 0", *files).code == 1
    suite = ElementTree.parse(here / "out.xml").getroot()
    blamed = suite.findtext("testcase/failure")
    assert blamed is not None and blamed.startswith("4: labeled ant, but") and suite.get("failures") == "1"
    quiet = cli("check", "table.csv", "--features", "f*", "--label", "species", "--fail-on", "label_errors > 0", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (1, "", "failed: label_errors is 1 (fails if label_errors > 0)\n")
    done = cli("check", "table.csv", "--features", "f*", "--label", "species", *rules, "--fail-on", "accuracy > 0", "--json")
    results = [(rule["rule"], rule["result"]) for rule in json.loads(done.out)["summary"]["rules"]]
    assert results == [("label_errors > 2%", "passed"), ("unreadable > 0", "cannot tell"), ("accuracy > 0", "failed")]
    assert json.loads(done.out)["summary"]["rules"][0]["value"] == 1


def test_labels_that_may_be_wrong_come_before_odd_images() -> None:
    """Nothing is flagged, and up to two labels may be wrong: the two of the highest scores, then the other verdicts."""
    found = hardsight.check(*blobs())
    table, said = found.table, {name: found.table.column(name).to_pylist() for name in ("error_score", "verdict", "image_issues")}
    for row in (10, 20, 30):
        said["error_score"][row], said["verdict"][row] = 10.0 + row, "hard but right"
    said["image_issues"][:8] = ["gray"] * 8
    table = table.set_column(table.column_names.index("duplicate_of"), "duplicate_of", pa.array([None] * 149 + ["5"]))
    for name, values in said.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    notes = {**suspects_notes(table), "expected_errors_high": 2.2}
    table = table.replace_schema_metadata({"hardsight": json.dumps(notes)})
    worst = [row["id"] for row in Checked(table, found.counts).worst(6)]
    assert worst[:4] == [30, 20, 149, 10] and set(worst[4:]) <= set(range(8))


def test_a_class_with_one_sample_leaves_the_others_their_scores(here: Path) -> None:
    features, labels = blobs()
    names = np.array(["ant", "bee", "dog"])[labels]
    names[7] = "cat"  # between the others
    found = hardsight.check(features, names.tolist(), output=here / "run")
    assert "150 samples of 4 classes" in found.sentences()[0] and not any("no scores" in note for note in found.notes)
    scores = pq.read_table(here / "run" / "scores.parquet")
    wanted = np.array([0, 1, 3])[labels].tolist()
    assert scores.column("predicted").to_pylist() == wanted  # the numbers that the four names have
    assert scores.column("label").to_pylist() == [*wanted[:7], None, *wanted[8:]]
    assert scores.column("avh").null_count == 1


def test_what_cannot_be_judged_is_said_by_name_and_without_advice_for_other_commands(here: Path) -> None:
    features, labels = blobs(30)
    one = hardsight.check(features, ["cat"] * 30, output=here / "one")
    assert any("no scores" in note and "all 30 labels are class 'cat'" in note for note in one.notes)
    features[labels == 1] = np.nan
    some = hardsight.check(features, np.array(["ant", "bee", "cat"])[labels].tolist(), output=here / "some")
    (note,) = [note for note in some.notes if "no scores" in note]
    assert "class 'bee' has none" in note and "a head" not in note.partition("drop")[2]


def test_leaks_between_splits_by_copies_and_by_groups() -> None:
    features, labels = blobs(90)
    split = np.array(["train"] * 60 + ["test"] * 30)
    patient = [f"p{row // 3}" for row in range(90)]
    features[70], labels[70] = features[5], labels[5]  # a copy in the test split
    columns = {"split": split, "patient": patient}
    found = hardsight.check(features, labels, columns=columns)
    assert found.counts["leaks"] == 1 and found["leak"].to_numpy().nonzero()[0].tolist() == [70]
    assert found.counts["duplicates"] == 1
    assert str(found["explanation"][70]).endswith("; leak: it repeats 5 in split train")
    patient[80] = "p0"  # a patient of the training split
    found = hardsight.check(features, labels, columns=columns, group="patient", fail_on="leaks > 0")
    leaking = set(found["leak"].to_numpy().nonzero()[0].tolist())
    assert {69, 70, 71, 80} == leaking  # row 70 links its patient to that of row 5
    said = {row: str(found["explanation"][row]).rpartition("leak: ")[2] for row in leaking}
    assert said[70] == "it repeats 5 in split train" and said[71] == "its patient p23 is also that of 3 in split train"
    assert said[80] == "its patient p0 is also that of 0 in split train"
    assert found.why(found.table.slice(80, 1).to_pylist()[0]).endswith(f"leak: {said[80]}")
    assert [outcome.value for outcome in found.failed] == [4]
    found = hardsight.check(features, labels, fail_on=["leaks > 0"])
    assert not found.failed and any("leaks are not checked" in note and "column split" in note for note in found.notes)
    assert not any("leaks" in note for note in hardsight.check(features, labels).notes)
    with pytest.raises(InputError, match="'?nobody'?.*patient"):
        hardsight.check(features, labels, columns=columns, group="nobody")


def test_the_original_of_copies_is_in_train_and_has_the_shortest_name() -> None:
    features, labels = blobs(90)
    ids = np.array([f"{row:03d}.jpg" for row in range(90)], dtype=object)
    features[40] = features[60] = features[3]
    features[50] = features[7]
    labels[40] = labels[60] = labels[3]
    labels[50] = labels[7]
    ids[3], ids[40] = "Copy of 040.jpg", "040.jpg"
    split = np.array(["test"] * 30 + ["train"] * 60)  # row 7 is a test image, its copy in train
    found = hardsight.check(features, labels, ids=ids, columns={"split": split})
    copies = dict(zip(found["id"].to_pylist(), found["duplicate_of"].to_pylist(), strict=True))
    assert {id: of for id, of in copies.items() if of} == {
        "Copy of 040.jpg": "040.jpg",
        "060.jpg": "040.jpg",
        "007.jpg": "050.jpg",
    }
    verdicts = dict(zip(found["id"].to_pylist(), found["verdict"].to_pylist(), strict=True))
    assert verdicts["040.jpg"] is None and verdicts["050.jpg"] is None and verdicts["007.jpg"] == "near duplicate"


def test_files_behind_links_are_named_with_the_reason(here: Path, embedder: str, cli: Cli) -> None:
    root = photographs(here / "elsewhere", 6)
    (here / "lists").mkdir()
    (here / "lists" / "photos").symlink_to(root)
    names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.png"))]
    rows = "\n".join(f'"photos/{name}","{name.partition("/")[0]}"' for name in names)
    (here / "lists" / "all.csv").write_text(f"path,label\n{rows}\n")
    done = cli("check", "lists/all.csv", "--embedder", embedder)
    assert done.code == 2 and "none of the 18 images" in done.err and "(outside_root)" in done.err
    photographs(here / "lists" / "own", 6)
    own = "\n".join(f'"own/{name}","{name.partition("/")[0]}"' for name in names)
    (here / "lists" / "all.csv").write_text(f"path,label\n{rows}\n{own}\n")
    done = cli("check", "lists/all.csv", "--embedder", embedder)
    assert (
        done.code == 0 and "and 13 more: it lies outside the data's folder, through a link (outside_root)" in done.out + done.err
    )


def test_patients_stay_in_one_fold() -> None:
    """Features that only tell patients apart say nothing of a patient that no head has seen."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(30), 6)
    labels = rng.integers(0, 2, 30)[patient]
    features = rng.normal(size=(30, 40))[patient] + 0.3 * rng.normal(size=(180, 40))
    split = np.array(["a", "b"])[np.arange(180) % 2]
    columns = {"patient": patient, "split": split}
    alone, together = (hardsight.check(features, labels, columns=columns, group=g).counts["accuracy"] for g in (None, "patient"))
    assert alone is not None and together is not None and alone > together + 0.2


def test_groups_that_do_worse_are_named(here: Path) -> None:
    features, labels = blobs(400, 2)
    rng, site = np.random.default_rng(1), np.array(["north", "south"])[(np.arange(400) // 2) % 2]
    features[site == "south"] = rng.normal(size=((site == "south").sum(), 6))
    for output in (here / "run", None):
        found = hardsight.check(features, labels, columns={"site": site}, output=output)
        assert any("site south: less accurate" in note for note in found.notes)


# ---- bad input, one line or a note each ----


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (("empty",), "empty"),
        (("nowhere",), "nowhere"),
        (("photos", "--fail-on", "label_errors >"), "label_errors >"),
        (("photos", "--fail-on", "errors > 3"), "'errors'"),
        (("photos", "--summary", "out.txt"), "out.txt"),
        (("photos", "--embedder", "resnet18"), "resnet18"),
        (("photos", "--embedder", "hf:nowhere/at-all"), "hf:nowhere/at-all"),
        (("photos", "--embedder", "timm:"), "'timm:'"),
        (("photos", "--weights", "w.pt"), "w.pt"),
        (("photos", "--weights", "given.pt"), "given.pt with efficientnet_lite0"),
        (("photos", "--embedder", "timm:resnet18", "--weights", "mistyped.pt"), "mistyped.pt"),
        (("photos", "--embedder", "timm:resnet18", "--model", "timm:resnet34"), "'timm:resnet18'"),
        (("photos", "--group", "patient"), "--group patient"),
        (("table.npz", "--embedder", "timm:resnet18"), "--embedder"),
    ],
)
def test_refused_in_one_line(words: tuple[str, ...], quoted: str, here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (here / "empty").mkdir()
    photographs(here / "photos", 3)
    np.savez(here / "table.npz", features=np.eye(4), labels=[0, 0, 1, 1])
    (here / "given.pt").touch()
    done = cli("check", *words)
    assert done.code == 2 and quoted in done.err and done.err.count("\n") == 1, done.err
    assert "first look" not in done.out or "hf:nowhere/at-all" in words  # a name that may be right is tried
    assert not (here / "hardsight-photos" / "run.json").exists()


def test_the_default_embedder_that_is_not_installed(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    photographs(here / "photos", 2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None if "efficientnet" in name else True)
    done = cli("check", "photos")
    assert done.code == 2 and "pip install 'hardsight[embedder]'" in done.err and done.err.count("\n") == 1


def noted(root: Path, embedder: str) -> tuple[Any, str]:
    found = hardsight.check(root, output=root.parent / f"run-{root.name}", embedder=embedder)
    return found, "\n".join(found.notes)


def test_odd_folders_are_checked_as_far_as_possible(here: Path, embedder: str) -> None:
    single, one, few, cases = (here / name for name in ("single", "one", "few", "cases"))
    for number in range(6):
        (single / f"class {number}").mkdir(parents=True)
        photograph(number, COLORS["green"]).save(single / f"class {number}" / "a.png")
    found, notes = noted(single, embedder)
    assert "labels were not checked" in notes and found.counts["label_errors"] is None
    assert "but class 'class 0' has one." in notes
    (one / "cat").mkdir(parents=True)
    for number in range(6):
        photograph(number, COLORS["green"]).save(one / "cat" / f"{number}.png")
    found, notes = noted(one, embedder)
    assert "labels were not checked" in notes and found.counts["duplicates"] == 0 and "of 1 class:" in found.sentences()[0]
    photographs(few, 10)
    for number in range(4):
        (few / "green" / f"0{number}.png").write_bytes(b"")
    os.rename(few / "green" / "00.png", few / "green" / "0,0.png")
    (few / "lone, only").mkdir()
    photograph(9, COLORS["green"]).save(few / "lone, only" / "only.png")
    found, notes = noted(few, embedder)
    assert "4 of 31 images cannot be read" in notes and "labels: 'lone, only'." in notes
    assert "cannot be read: 'green/0,0.png', green/01.png, green/02.png, green/03.png: " in notes
    assert found.counts["unreadable"] == 4 and found.counts["label_errors"] is not None
    photographs(cases, 4)
    os.rename(cases / "green", cases / "Cat")
    os.rename(cases / "Blue sky", cases / "cat ")
    _, notes = noted(cases, embedder)
    assert "'Cat' and 'cat '" in notes


# ---- pytest and CI ----


def test_the_fixture_of_the_pytest_plugin(here: Path) -> None:
    features, labels = blobs()
    np.savez(here / "good.npz", features=features, labels=labels)
    labels[3] = 1
    np.savez(here / "bad.npz", features=features, labels=labels)
    (here / "test_data.py").write_text(
        "def test_good(hardsight_check):\n    assert len(hardsight_check('good.npz', fail_on='label_errors > 0')) == 150\n\n\n"
        "def test_bad(hardsight_check):\n    hardsight_check('bad.npz', fail_on=['label_errors > 0'])\n\n\n"
        "def test_mistyped(hardsight_check):\n    hardsight_check('bad.npz', fail_on=['label_error > 0'])\n"
    )
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "hardsight.checking.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "test_data.py",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, env=environment)
    assert "2 failed, 1 passed" in done.stdout and "\nlabel_errors is 1 (fails if label_errors > 0)" in done.stdout, done.stdout
    assert "Did you mean label_errors?" in done.stdout and "def " not in done.stdout  # nothing of what is inside


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for bash")
def test_the_steps_of_the_action(here: Path) -> None:
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, step, _ = action["runs"]["steps"]
    assert set(action["inputs"]) == {
        re.sub(r".*inputs\.([a-z-]+).*", r"\1", value) for part in (install, step) for value in part["env"].values()
    }
    features, labels = blobs()
    labels[3] = 1
    np.savez(here / "my data.npz", features=features, labels=labels)
    (here / "bin").mkdir()
    command = here / "bin" / "hardsight"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hardsight "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{here / 'bin'}:{os.environ['PATH']}", "DATA": "my data.npz"}
    environment |= {"RULES": "label_errors > 2%\nleaks > 0\n", "OPTIONS": "", "GITHUB_STEP_SUMMARY": str(here / "summary")}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    run = ["bash", "-eo", "pipefail", "-c", step["run"]]
    assert subprocess.run(run, cwd=here, env=environment, capture_output=True).returncode == 0
    assert "label" in (here / "summary").read_text() and (here / "hardsight-check" / "report.html").is_file()
    done = subprocess.run(
        run, cwd=here, env={**environment, "RULES": "label_errors > 0", "OPTIONS": "--json"}, capture_output=True
    )
    assert done.returncode == 1 and json.loads(done.stdout)["summary"]["label_errors"] == 1
    (here / "bin" / "python").write_text(f'#!/bin/sh\necho "$*" >> "{here}/installed"\n')
    (here / "bin" / "python").chmod(0o755)
    for package in ("", "hardsight[timm]"):
        words, own = ["bash", "-eo", "pipefail", "-c", install["run"]], {"GITHUB_ACTION_PATH": "/action", "PACKAGE": package}
        assert subprocess.run(words, cwd=here, env={**environment, **own}).returncode == 0
    assert (here / "installed").read_text().splitlines() == ["-m pip install /action[embedder]", "-m pip install hardsight[timm]"]
