"""Leave-one-domain-out keeps its models, follows official lists, and starts from weights of other classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight

torch = pytest.importorskip("torch")

from safetensors.torch import save_file

from hardsight import Snapshot, extract
from hardsight import generalize as run
from hardsight.data import open_data
from hardsight.domains.adapt_models import AdaptWork
from hardsight.domains.fold_training import Division
from hardsight.domains.generalize_result import chosen_epoch
from hardsight.domains.official_lists import read_official_lists
from hardsight.domains.settings import AdaptSettings
from hardsight.errors import FileError, InputError, RunError
from hardsight.extraction.feed import ArrayInputs
from hardsight.files.heads import load_head
from hardsight.models.opening import open_model
from hardsight.models.trainable import open_trainable
from refusals import refused
from undrawn import undrawn

DOMAINS, CLASSES = ("sun", "rain", "snow"), ("cat", "dog")
QUICK: dict[str, Any] = {"epochs": 3, "hidden": 8, "batch_size": 16, "lr": 0.05}


def features(each: int = 24, shift: float = 3.0) -> Any:
    """Domains far from 0, so that standardizing matters; ids as those of PACS."""
    rng, n = np.random.default_rng(0), 3 * each
    labels, domain = np.arange(n) % 2, np.arange(n) // each
    values = 2 * np.eye(2, 4)[labels] + shift * rng.normal(size=(3, 4))[domain] + rng.normal(size=(n, 4))
    ids = [f"PACS/{DOMAINS[i]}/{CLASSES[k]}/{row}.jpg" for row, (i, k) in enumerate(zip(domain, labels, strict=True))]
    return Snapshot(
        values.astype(np.float32),
        labels=labels,
        ids=ids,
        class_names=list(CLASSES),
        columns={"domain": np.array(DOMAINS)[domain]},
    )


def named(data: Any) -> np.ndarray:
    """(n,) the domain of each sample."""
    return np.array(data.columns(["domain"]).column(0).to_pylist(), dtype=object)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "run"
    with undrawn():
        run(features(), folder, losses="softmax,avh,drm", **QUICK)
    return folder


@pytest.mark.parametrize("loss", ["softmax", "avh"])
def test_a_kept_model_is_that_of_the_epoch_that_counts(kept: Path, loss: str) -> None:
    data = features()
    for domain in DOMAINS:
        folder = kept / domain / loss / "seed=0"
        model, unseen = open_model(folder), named(data) == domain
        _, logits = model(data.features[unseen])  # features as they are: not standardized
        reached = chosen_epoch(json.loads((folder / "epochs.json").read_text()), "validation")["test"]
        assert (logits.argmax(1) == data.labels[unseen]).mean() == pytest.approx(reached)
        assert model.class_names == CLASSES and model.head.kind == {"softmax": "linear", "avh": "angular"}[loss]


def test_drm_keeps_a_head_per_training_domain(kept: Path) -> None:
    folder = kept / "rain" / "drm" / "seed=0"
    heads = {path.stem: load_head(path)[0] for path in (folder / "heads").iterdir()}
    assert set(heads) == {"sun", "snow"}
    assert not np.array_equal(heads["sun"].weight, heads["snow"].weight)
    _, logits = open_model(folder)(features().features[:5])
    assert logits.shape == (5, 2)


def save(data: Any, path: Path) -> Path:
    np.savez(path, features=data.features, labels=data.labels, ids=data.ids.astype(str), class_names=data.class_names,
             domain=named(data).astype(str), split=np.array(["train", "test"])[np.arange(len(data)) % 2])  # fmt: skip
    return path


def test_a_kept_model_is_run_on_features(kept: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    data, folder, path = features(), kept / "sun" / "avh" / "seed=0", save(features(), tmp_path / "features.npz")
    done = cli("extract", folder, path, "-o", tmp_path / "out")
    assert done.code == 0 and "72 rows of 8 features" in done.out, done.err
    snapshot, model = Snapshot.load(tmp_path / "out"), open_model(folder)
    hidden, logits = model(data.features)  # after the ReLU
    np.testing.assert_allclose(snapshot.in_memory().values, hidden, rtol=1e-5, atol=1e-6)
    assert snapshot.head is not None and snapshot.head.kind == "angular" and snapshot.class_names == list(CLASSES)
    np.testing.assert_allclose(snapshot.head.logits(hidden), logits, rtol=1e-4, atol=1e-4)
    columns = snapshot.columns(["id", "label", "domain", "split"]).to_pydict()
    assert columns["id"] == data.ids.tolist() and columns["label"] == data.labels.tolist()
    assert columns["domain"] == [str(name) for name in named(data)] and columns["split"][:2] == ["train", "test"]
    assert cli("score", tmp_path / "out", "-o", tmp_path / "scores.csv").code == 0

    one = cli("extract", folder, f"{path}:rain", "--split", "test", "--limit", 5, "-o", tmp_path / "rain")
    assert one.code == 0 and "5 rows of 8 features" in one.out, one.err
    again = extract(model, Snapshot.load(path), tmp_path / "again")  # from Python, both already open
    assert np.array_equal(again.in_memory().values, snapshot.in_memory().values)


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        ("digits", [], "was trained on features, but digits holds images: pass features like those"),
        ("features.npz:sum", [], "no domain 'sum'; it has sun, rain, snow. Did you mean sun?"),
        ("missing.npz", [], "got 'missing.npz', which does not exist"),
        ("wide.npz", [], "seed=0 takes 4 features per sample, the data has 7"),
        ("features.npz", ["--size", 8], "size does not apply to features"),
        ("features.npz", ["--passes", "flip"], "passes does not apply to features"),
        ("features.npz", ["--split", "val"], "there is no split 'val'; splits: test, train"),
    ],
)
def test_a_kept_model_is_run_on_features_only(
    data: str, words: list[Any], message: str, kept: Path, tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(features(), tmp_path / "features.npz")
    np.savez("wide.npz", features=np.zeros((3, 7)), labels=[0, 1, 0])
    refused(cli("extract", kept / "sun" / "avh" / "seed=0", data, "-o", "out", *words), message)
    assert not Path("out").exists()


def write_lists(folder: Path, data: Any, parts: dict[str, slice], *, suffix: str = ".jpg", first: int = 1) -> None:
    """Lists as PACS has them: paths below the folder of domains, labels counted from 1."""
    folder.mkdir()
    for domain in DOMAINS:
        rows = np.flatnonzero(named(data) == domain)
        for part, some in parts.items():
            paths = [data.ids[row].removeprefix("PACS/").replace(".jpg", suffix) for row in rows[some]]
            lines = [f"{path} {first + label}" for path, label in zip(paths, data.labels[rows[some]], strict=True)]
            (folder / f"{domain}_{part}.txt").write_text("\n".join(lines) + "\n")


PACS_LISTS = {"train_kfold": slice(0, 20), "crossval_kfold": slice(20, 23), "test_kfold": slice(0, 23)}


@pytest.mark.parametrize(("suffix", "first"), [(".jpg", 1), (".png", 0)])
def test_official_lists_say_what_is_trained_on_held_out_and_tested(tmp_path: Path, suffix: str, first: int) -> None:
    data = features()
    write_lists(tmp_path / "lists", data, PACS_LISTS, suffix=suffix, first=first)
    lists = read_official_lists(tmp_path / "lists", data.ids, named(data), data.labels)
    number = np.arange(72) // 24
    fold = Division(number, data.labels, 0.5, lists).fold(ArrayInputs(data.features, data.labels, data.ids), 1, [0, 2], seed=0)
    assert fold.train.tolist() == [*range(20), *range(48, 68)]
    assert fold.held_out.tolist() == [*range(20, 23), *range(68, 71)] and fold.unseen.tolist() == [*range(24, 47)]
    assert lists.notes == ()


def test_what_lists_leave_open(tmp_path: Path) -> None:
    """Without a list to hold out, a share of the training list is; without one to test on, all of the domain is."""
    data = features()
    write_lists(tmp_path / "lists", data, {"train": slice(0, 20)})
    lists = read_official_lists(tmp_path / "lists", data.ids[:70], named(data)[:70], data.labels[:70])
    assert lists.test.all() and not lists.held_out.any()
    inputs = ArrayInputs(data.features[:70], data.labels[:70], data.ids[:70])
    fold = Division(np.arange(70) // 24, data.labels[:70], 0.25, lists).fold(inputs, 2, [0, 1], seed=0)
    assert len(fold.train) == 30 and len(fold.held_out) == 10 and len(fold.unseen) == 22
    missing = read_official_lists(tmp_path / "lists", data.ids[:60], named(data)[:60], data.labels[:60])
    (note,) = missing.notes
    assert note.startswith("8 of the 60 lines in the lists name files that are not in the data; the first is snow/cat/60.jpg")


@pytest.mark.usefixtures("undrawn")
def test_a_run_follows_its_lists(tmp_path: Path) -> None:
    data = features()
    write_lists(tmp_path / "lists", data, PACS_LISTS)
    done = run(data, tmp_path / "run", lists=tmp_path / "lists", keep_models=False, **{**QUICK, "epochs": 1})
    in_23rds = np.array([row["test"] for row in done.epochs.to_pylist()]) * 23
    assert in_23rds == pytest.approx(np.round(in_23rds))  # 23 of the 24 samples of a domain are in its test list
    assert not list((tmp_path / "run").rglob("*.safetensors"))  # no model is kept
    (tmp_path / "lists" / "sun_train_kfold.txt").write_text("sun/cat/0.jpg 1\nsun/dog/1.jpg 2\n")
    with pytest.raises(RunError, match="other inputs"):
        run(data, tmp_path / "run", lists=tmp_path / "lists", keep_models=False, **{**QUICK, "epochs": 1})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sun_train_kfold.txt", None, "has no list sun_train_kfold.txt of the domain sun; it has rain_crossval_kfold.txt"),
        ("sun_train_kfold.txt", "moon/cat/0.jpg 1\n", "ids look like 'PACS/sun/cat/0.jpg'"),
        ("sun_train_kfold.txt", "rain/cat/24.jpg 1\n", "a list of the domain sun names samples of rain"),
        ("sun_train_kfold.txt", "sun/cat/0.jpg 2\n", "the label 2 does not fit the data: elsewhere it means another class"),
        ("sun_crossval_kfold.txt", "sun/cat/0.jpg 1\n", "1 samples are in lists to train on and to hold out at once"),
        ("sun_train.txt", "sun/cat/0.jpg 1\n", "two lists for the same purpose: sun_train.txt and sun_train_kfold.txt"),
    ],
)
def test_wrong_lists_are_refused(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    data = features()
    write_lists(tmp_path / "lists", data, PACS_LISTS)
    (tmp_path / "lists" / name).unlink() if text is None else (tmp_path / "lists" / name).write_text(text)
    with pytest.raises(InputError, match=message):
        run(data, tmp_path / "run", lists=tmp_path / "lists", **QUICK)
    with pytest.raises(FileError, match="there is no folder"):
        run(data, tmp_path / "run", lists=tmp_path / "nothing", **QUICK)


@pytest.mark.parametrize("bias", [True, False], ids=["linear", "angular"])
def test_cnn10_starts_from_1000_classes_but_for_its_head(tmp_path: Path, bias: bool) -> None:
    options = {"size": 16}
    before = open_trainable("cnn10", 1000, options=options).module.state_dict()
    save_file({name: x for name, x in before.items() if bias or name != "head.bias"}, tmp_path / "imagenet.safetensors")
    started = open_trainable("cnn10", 7, options=options, weights=tmp_path / "imagenet.safetensors")
    after = started.module.state_dict()
    assert all(torch.equal(before[name], x) for name, x in after.items() if not name.startswith("head."))
    assert after["head.weight"].shape == (7, 512) and not started.learned
    said = "imagenet.safetensors was trained on 1000 classes: all layers but the last one, head, start from it"
    assert started.notes == (said,)
    if not bias:
        return
    with pytest.raises(InputError, match=r"embedding.0.weight is \(512, 256\), not \(512, 1024\)"):
        open_trainable("cnn10", 7, options={"size": 32}, weights=tmp_path / "imagenet.safetensors")


def test_train_and_adapt_say_that_the_head_is_new(tmp_path: Path) -> None:
    said: list[str] = []
    save_file(open_trainable("point_mlp:PointMLP", 5).module.state_dict(), tmp_path / "five.safetensors")
    points, labels = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 2
    options: dict[str, Any] = {"weights": tmp_path / "five.safetensors", "epochs": 1, "snapshot": False, "say": said.append}
    hardsight.train((points, labels), tmp_path / "run", model="point_mlp:PointMLP", **options)
    assert any(sentence.startswith("five.safetensors was trained on 5 classes: all layers but") for sentence in said)
    save_file(open_trainable("DigitsCNN", 5).module.state_dict(), tmp_path / "digits.safetensors")
    digits, said = open_data("digits:test", limit=20), []
    settings = AdaptSettings(model="DigitsCNN", weights=tmp_path / "digits.safetensors", device="cpu")
    AdaptWork.of(settings, {"first": (digits, digits), "second": (digits, digits)}, said.append)
    assert said == ["digits.safetensors was trained on 5 classes: all layers but the last one, head, start from it"]
