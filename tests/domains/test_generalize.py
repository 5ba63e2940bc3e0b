"""Leave-one-domain-out: what is trained on, which epoch counts, DRM by hand, the tables, resuming, and bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file

from adapt_runs import adapted, contents
from hardsight import generalize as run
from hardsight.domains import fold_training
from hardsight.domains.fold_training import Division
from hardsight.domains.generalize import OpenedDomains
from hardsight.domains.generalize_models import GeneralizeWork, Task
from hardsight.domains.generalize_result import chosen_epoch
from hardsight.domains.settings import GeneralizeSettings
from hardsight.domains.training_length import Steps
from hardsight.errors import InputError, RunError
from hardsight.extraction.feed import ArrayInputs
from hardsight.extraction.inputs import domains_of
from hardsight.models.trainable import open_trainable
from hardsight.snapshot import Snapshot
from hardsight.training import checkpoint
from refusals import refused

QUICK: dict[str, Any] = {"epochs": 3, "hidden": 16, "batch_size": 32, "lr": 0.05}


def features(n: int = 240, d: int = 6, c: int = 3) -> Any:
    """Three domains, each with its own shift."""
    rng = np.random.default_rng(0)
    labels, domain = np.arange(n) % c, np.arange(n) // (n // 3)
    centers, shifts = 2 * rng.normal(size=(c, d)), 0.5 * rng.normal(size=(3, d))
    values = centers[labels] + shifts[domain] + rng.normal(size=(n, d))
    columns = {"domain": np.array(["sun", "rain", "snow"])[domain]}
    return Snapshot(values.astype(np.float32), labels=labels, columns=columns)


def named(data: Any) -> np.ndarray:
    """(n,) the domain of each sample."""
    return np.array(data.columns(["domain"]).column(0).to_pylist(), dtype=object)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("generalize") / "run"
    return run(features(), folder, losses="softmax,avh,lgm,drm", seeds=2, **QUICK)


def test_table_5(compared: Any) -> None:
    rows = compared.accuracy.to_pylist()
    assert [row["loss"] for row in rows] == ["softmax", "avh", "lgm", "drm"]
    for row in rows:
        assert row["average"] == pytest.approx(np.mean([row["sun"], row["rain"], row["snow"]]))
        assert row["average"] > 0.6 and row["oracle average"] >= row["average"]
    assert len(compared.epochs) == 4 * 3 * 2 * 3
    average = [row for row in compared.differences.to_pylist() if row["domain"] == "average"]
    assert [(row["loss"], row["against"]) for row in average][:2] == [("avh", "softmax"), ("lgm", "softmax")]
    assert compared.summary["accuracy"] == {row["loss"]: row["average"] for row in rows} and len(compared.notes) == 1
    assert compared.summary == json.loads((compared.run / "run.json").read_text("utf-8"))["counts"]


def test_the_epoch_is_chosen_without_the_unseen_domain(compared: Any) -> None:
    rows = [row for row in compared.epochs.to_pylist() if row["loss"] == "avh" and row["domain"] == "rain"]
    reached = []
    for seed in (0, 1):
        epochs = [row for row in rows if row["seed"] == seed]
        best = max(epochs, key=lambda row: (row["validation"], -row["epoch"]))
        reached.append(best["test"])
    row = next(row for row in compared.accuracy.to_pylist() if row["loss"] == "avh")
    assert row["rain"] == pytest.approx(np.mean(reached)) and row["rain std"] == pytest.approx(np.std(reached, ddof=1))


def test_rules_by_hand() -> None:
    history = [
        {"epoch": 1, "validation": 0.8, "test": 0.9},
        {"epoch": 2, "validation": 0.9, "test": 0.5},
        {"epoch": 3, "validation": 0.9, "test": 0.6},
    ]
    assert [chosen_epoch(history, rule)["epoch"] for rule in ("validation", "last", "oracle")] == [2, 3, 1]
    equal = [{"epoch": k, "validation": 1.0, "validation_loss": loss} for k, loss in ((1, 0.3), (2, 0.1), (3, 0.2))]
    assert chosen_epoch(equal, "validation")["epoch"] == 2  # the smaller loss


def test_a_fold_keeps_the_unseen_domain_out() -> None:
    data = features()
    numbers = np.array([["sun", "rain", "snow"].index(name) for name in named(data)])
    labels = data.labels.copy()
    labels[7] = -1
    fold = Division(numbers, labels, 0.25).fold(ArrayInputs(data.features, labels, data.ids), 1, [0, 2], seed=3)
    assert set(numbers[fold.train]) == set(numbers[fold.held_out]) == {0, 2} and set(numbers[fold.unseen]) == {1}
    assert not set(fold.train) & set(fold.held_out) and 7 not in {*fold.train, *fold.held_out}
    assert len(fold.held_out) == 20 + 20 and len(fold.train) == 159 - 40
    numbers = np.arange(240) % 3  # domains that come in turns: rows are not in order, and each still knows its own place
    fold = Division(numbers, data.labels, 0.25).fold(ArrayInputs(data.features, data.labels, data.ids), 1, [0, 2], seed=3)
    rows = fold.train[[100, 3, 50]]
    known_labels, positions, domains = fold.known(rows, torch.device("cpu"))
    assert positions.tolist() == [100, 3, 50] and known_labels.tolist() == data.labels[rows].tolist()
    assert domains.tolist() == [{0: 0, 2: 1}[number] for number in numbers[rows]]


def weather(data: Snapshot) -> OpenedDomains:
    return OpenedDomains(data, np.asarray(domains_of(data)), ["sun", "rain", "snow"])


def test_features_are_standardized_by_the_training_domains_alone() -> None:
    data = features()
    work = GeneralizeWork(GeneralizeSettings(), weather(data), torch.device("cpu"), print)
    seen = work._prepared([0, 2])[0].inputs[np.isin(work.number, [0, 2])]  # type: ignore[union-attr]
    assert seen.mean(0) == pytest.approx(np.zeros(6), abs=1e-5) and seen.std(0) == pytest.approx(np.ones(6), abs=1e-5)


def one_training(data: Snapshot, folder: Path, say: Any = print, **options: Any) -> tuple[Any, dict[str, Any]]:
    """The history of the training that leaves the second domain out, and the arguments of the run it would be of."""
    work = GeneralizeWork.of(GeneralizeSettings(device="cpu", **options), weather(data), say)
    fold = work.division.fold(work._prepared([0, 2])[0], 1, [0, 2], seed=0)
    history = work._history(Task(folder, "softmax", None, 0), fold, lambda epoch: None)
    work._say_reached("softmax without rain  seed 0", history, ["sun", "snow"])
    return history, work.arguments()


def test_small_domains_are_trained_on_for_enough_steps(tmp_path: Path) -> None:
    said: list[str] = []
    options: dict[str, Any] = {"hidden": 16, "lr": 0.05, "held_out": 0.4}
    history, arguments = one_training(features(48), tmp_path / "long", said.append, **options)
    losses = [entry["validation_loss"] for entry in history]
    assert 10 < len(history) < 200 and arguments["epochs"] is None  # a pass is one step
    assert len(history) - (1 + int(np.argmin(losses))) == 50  # no better for a quarter of 200 passes
    assert len(said) == 1 and "has not been learned" not in said[0]
    short, arguments = one_training(features(48), tmp_path / "short", epochs=10, **options)
    assert len(short) == 10 and arguments["epochs"] == 10 and "validation_loss" not in short[0]
    assert chosen_epoch(history, "validation")["test"] >= chosen_epoch(short, "validation")["test"]
    large, arguments = one_training(features(960), tmp_path / "large", hidden=4, batch_size=64)
    assert len(large) == 10 and arguments["epochs"] == 10  # the usual passes


def test_domains_that_are_not_learned_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    one_training(features(), tmp_path, said.append, lr=1e-6, hidden=4, epochs=1)
    assert said[1].startswith("softmax without rain  seed 0: sun and snow have not been learned: ")
    assert " % of their held-out samples are right, guessing gives 33 %." in said[1]


@pytest.mark.usefixtures("undrawn")
def test_the_scale_is_chosen_on_training_domains(tmp_path: Path) -> None:
    done = run(features(), tmp_path / "run", losses="softmax,cosface", scales=[0.01, 8], **QUICK)
    scales = {row["domain"]: row["scale"] for row in done.epochs.to_pylist() if row["loss"] == "cosface"}
    assert set(scales) == {"sun", "rain", "snow"} and set(scales.values()) <= {0.01, 8.0}
    told = json.loads((tmp_path / "run" / "sun" / "cosface" / "scale.json").read_text("utf-8"))
    assert told["scale"] == float(max(told["accuracy"], key=lambda key: told["accuracy"][key]))
    assert all(row["scale"] is None for row in done.epochs.to_pylist() if row["loss"] == "softmax")
    kept = {path.relative_to(tmp_path / "run").parts[1:3] for path in (tmp_path / "run").rglob("model.safetensors")}
    assert kept == {("softmax", "seed=0"), ("cosface", "seed=0")}  # none of those that chose a scale


def test_of_one_scale_there_is_nothing_to_choose(tmp_path: Path) -> None:
    settings = GeneralizeSettings(losses=("cosface",), scales=(7,), device="cpu")
    work = GeneralizeWork.of(settings, weather(features()), print)
    assert work._scale_epochs("cosface", [0, 2]) == 0
    assert work._scale(tmp_path, "cosface", [0, 2], work._prepared([0, 2])[0], Steps(None, 0)) == 7 and not list(
        tmp_path.iterdir()
    )


@pytest.mark.usefixtures("undrawn")
def test_scales_are_tried_under_the_bar_and_not_twice(tmp_path: Path, killed: Callable[..., list[int]]) -> None:
    told: list[tuple[int, int, str]] = []
    options = {**QUICK, "epochs": 2, "losses": "cosface", "scales": [4, 8]}
    whole = run(features(), tmp_path / "whole", **options, progress=lambda *words: told.append(words))
    assert {total for _, total, _ in told} == {3 * (2 * 2 + 1) * 2}  # domains x (scales x training domains + a seed) x epochs
    assert [done for done, _, _ in told] == list(range(3 * 5 * 2)) and "choosing its scale" in told[0][2]
    assert "scale that does best" in (tmp_path / "whole" / "report.html").read_text("utf-8")
    calls = killed(fold_training.FoldTraining, "predictions", at=(11,))  # in the third of the trainings that try scales
    with pytest.raises(KeyboardInterrupt):
        run(features(), tmp_path / "killed", **options)
    again = run(features(), tmp_path / "killed", **options)
    assert len(calls) == 2 * 3 * 5 * 2 + 3  # two a training's epoch; of the killed training, an epoch and a half are lost
    assert again.epochs.equals(whole.epochs)


@pytest.mark.usefixtures("undrawn")
def test_the_rule_is_stated_in_the_report(compared: Any, tmp_path: Path) -> None:
    page = (compared.run / "report.html").read_text("utf-8")
    assert "best on held-out samples of the training domains" in page and "average (oracle)" in page
    row = next(row for row in compared.accuracy.to_pylist() if row["loss"] == "avh")
    assert f"{100 * row['snow']:.2f} ± {100 * row['snow std']:.2f}" in page and "differences on each unseen domain" in page
    assert page.count("data:image/png") == 2 and "http://" not in page and "https://" not in page
    parts = {part["name"] for part in json.loads((compared.run / "run.json").read_text("utf-8"))["parts"]}
    assert {"report.html", "figures/accuracy.png", "accuracy.parquet", "sun/avh/seed=0/epochs.json"} <= parts
    done = run(features(), tmp_path / "run", selection="oracle", **{**QUICK, "epochs": 2})
    assert "no honest result" in (done.run / "report.html").read_text("utf-8")


@pytest.mark.usefixtures("undrawn")
def test_a_domain_needs_a_sample_to_train_on_and_one_to_hold_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the domain sun has 1 labeled sample: two or more"):
        run(features(), tmp_path / "run", limit=1, **QUICK)
    done = run(features(), tmp_path / "run", limit=2, losses="softmax,drm", **{**QUICK, "epochs": 1})
    assert len(done.accuracy) == 2


def test_a_killed_run_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: Callable[..., list[int]]
) -> None:
    options = {**QUICK, "losses": "softmax,lgm"}
    run(features(), tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    calls = killed(fold_training.FoldTraining, "predictions", at=(5, 20))  # in the first training's third epoch; in another one
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(features(), tmp_path / "killed", **options)
    run(features(), tmp_path / "killed", **options)
    assert len(calls) == 2 * 3 * 2 * 3 + 2  # epochs that were complete are not trained again
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    with pytest.raises(RunError, match="epochs was 3 and is 4"):
        run(features(), tmp_path / "whole", **{**options, "epochs": 4})


@pytest.mark.usefixtures("undrawn")
def test_images_in_domain_folders(tmp_path: Path, cli: Callable[..., Any]) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for domain, brightness in (("dark", 60), ("gray", 120), ("light", 180)):
        for k, name in enumerate(("left", "right")):
            (tmp_path / "data" / domain / name).mkdir(parents=True)
            for number in range(12):
                pixels = np.full((8, 8), brightness, np.uint8)
                pixels[:, 4 * k : 4 * k + 4] += 50
                noisy = pixels + rng.integers(0, 5, (8, 8)).astype(np.uint8)
                Image.fromarray(noisy).save(tmp_path / "data" / domain / name / f"{number}.png")
    save_file(open_trainable("DigitsCNN", 10).module.state_dict(), tmp_path / "digits.safetensors")
    words = (
        "generalize", tmp_path / "data", "-o", tmp_path / "run", "--losses", "softmax,avh", "--model", "DigitsCNN", "--epochs", 4,
        "--batch-size", 8, "--lr", 0.05, "--loss-options", "avh:scale=8", "--weights", tmp_path / "digits.safetensors",
    )  # fmt: skip
    done = cli(*words)
    assert done.code == 0, done.err
    assert "average (oracle)" in done.out and "dark" in done.out and "avh" in done.out
    assert (done.out + done.err).count("was trained on 10 classes: all layers but the last one, head, start from it") == 1
    kept = cli("extract", tmp_path / "run" / "dark" / "avh" / "seed=0", tmp_path / "data" / "dark", "-o", tmp_path / "snapshot")
    assert kept.code == 0, kept.err
    assert cli("score", tmp_path / "snapshot", "-o", tmp_path / "scores.csv").code == 0
    save_file(open_trainable("DigitsCNN", 10).module.state_dict(), tmp_path / "digits.safetensors")  # other weights
    refused(cli(*words), "holds a run with other inputs: model changed")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("weights", "w.safetensors"),
        ("pretrained", True),
        ("model_options", {"size": 8}),
        ("head_hidden", 2),
        ("size", 8),
    ],
)
def test_options_of_images_are_named(option: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.safetensors").touch()
    for ask in (lambda folder, **given: run(features(), folder, **given), adapted):
        with pytest.raises(InputError, match=f"^{option} is for images"):
            ask(tmp_path / "run", **{option: value})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["two.npz"], "needs at least three domains"),
        (["none.npz"], "domain column has none"),
        (["one_class.npz"], "the domain rain has samples of one class only, 0: two classes or more are needed"),
        (["apart.npz"], "no class of the domain snow (3, 4, 5) is in any other domain"),
        (["three.npz", "--losses", "sofmax"], "Did you mean softmax"),
        (["three.npz", "--model", "cnn10"], "model is for images; features get a head of `hidden` units"),
        (["upward.npz"], "'../../x' is not a valid folder name"),
        (["three.npz", "--selection", "best"], "selection must be one of validation, last, oracle"),
        (["three.npz", "--loss-options", "avh:scale=3"], "not among the losses softmax"),
        (["three.npz", "--method-options", "drm:gamma=0"], "drm, which is not among the methods used"),
        (["three.npz", "--losses", "drm", "--method-options", "drm:gama=0"], "drm has no option 'gama'; it has: gamma"),
        (["three.npz", "--method-options", "drm_tta:gamma=0"], "no method 'drm_tta'"),
        (["three.npz", "--scales", "a"], "scales must be comma-separated numbers"),
        (["three.npz", "--scales", "5,10"], "softmax has none to choose"),
        (["missing.npz"], "missing.npz"),
    ],
)
def test_bad_input_is_one_line_and_no_output(
    words: list[str], message: str, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = features()
    np.savez("three.npz", features=data.features, labels=data.labels, domain=named(data).astype(str))
    np.savez("two.npz", features=data.features, labels=data.labels, domain=np.array(["a", "b"])[data.labels % 2])
    np.savez("none.npz", features=data.features, labels=data.labels)
    known: dict[str, Any] = {"features": data.features, "domain": named(data).astype(str)}
    np.savez("one_class.npz", labels=np.where(named(data) == "rain", 0, data.labels), **known)
    np.savez("upward.npz", labels=data.labels, **known | {"domain": np.array(["a", "b", "../../x"])[np.arange(240) // 80]})
    np.savez("apart.npz", labels=np.where(named(data) == "snow", 3, 0) + data.labels, **known)
    refused(cli("generalize", *words, "-o", "out"), message)
    assert not Path("out").exists()
