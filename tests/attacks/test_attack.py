"""Attacks: FGSM by hand, the ball of PGD, what is measured of attacked inputs, resuming, and bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import hardsight
from hardsight.attacks.settings import AttackSettings
from hardsight.attacks.tables import describe_paths, detected, fitted_gaussians, path_table, roc_curve, verification
from hardsight.errors import InputError, RunError
from hardsight.head import Head
from hardsight.stats.open_set import auroc
from refusals import refused

torch = pytest.importorskip("torch")

import hardsight.attacks.attack as attacking
from hardsight.attacks import gradient_sign
from hardsight.models.networks import DigitsCNN

RNG = np.random.default_rng(0)


def linear(c: int = 3, pixels: int = 6) -> tuple[Any, Any]:
    """A linear model and its (c, pixels) weight."""
    weight = torch.from_numpy(RNG.normal(size=(c, pixels)))
    return (lambda x: x @ weight.T), weight


def test_fgsm_by_hand_on_a_linear_model() -> None:
    """Gradient of cross-entropy at the pixels: sum_k (p_k - [k = y]) w_k, worked out in NumPy."""
    model, weight = linear()
    pixels, labels = RNG.random((5, 6)), np.array([0, 1, 2, 0, 1])
    logits = pixels @ weight.numpy().T
    p = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    expected = np.clip(pixels + 0.2 * np.sign((p - np.eye(3)[labels]) @ weight.numpy()), 0, 1)
    found = gradient_sign.fgsm(model, torch.from_numpy(pixels), torch.from_numpy(labels), 0.2)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_the_sign_is_that_of_cross_entropy_and_does_not_vanish_with_it() -> None:
    logits = torch.tensor([[3.0, 1.0, -2.0], [0.5, 0.4, 0.3]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 2])
    (ours,) = torch.autograd.grad(gradient_sign.rising_loss(logits, labels).sum(), logits)
    (theirs,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"), logits)
    ratio = ours / theirs
    assert (ratio > 0).all() and torch.allclose(ratio, ratio[:, :1].expand_as(ratio))  # one positive factor per sample
    sure = torch.tensor([[400.0, 0.0]])
    pixels = torch.full((1, 2), 0.5)
    assert torch.nn.functional.cross_entropy(sure, torch.tensor([0])) == 0
    moved = gradient_sign.fgsm(lambda x: 800 * x * torch.tensor([1.0, 0.0]), pixels, torch.tensor([0]), 0.25)
    assert moved.tolist() == [[0.25, 0.5]]


def test_epsilon_zero_is_the_clean_input_and_pgd_stays_in_the_ball() -> None:
    model, _ = linear(c=2)
    pixels = torch.from_numpy(RNG.random((8, 6)))
    labels = torch.zeros(8, dtype=torch.int64)
    noise = torch.from_numpy(RNG.uniform(-1, 1, (8, 6)))
    for attacked in (gradient_sign.fgsm(model, pixels, labels, 0.0), gradient_sign.pgd(model, pixels, labels, 0.0, noise=noise)):
        assert torch.equal(attacked, pixels)
    near = gradient_sign.pgd(model, pixels, labels, 0.1, steps=7, noise=noise)
    assert (near - pixels).abs().max() <= 0.1 + 1e-12 and near.min() >= 0 and near.max() <= 1
    assert torch.allclose(
        near, gradient_sign.fgsm(model, pixels, labels, 0.1)
    )  # with two classes the sign is the same everywhere
    path = list(gradient_sign.ascent(model, pixels, labels, 0.3, 6))
    assert len(path) == 7 and torch.equal(path[0], pixels) and (path[-1] - pixels).abs().max() <= 0.3 + 1e-12


def test_each_loss_is_verified_by_its_own_score() -> None:
    features, labels = RNG.normal(size=(40, 3)), np.arange(40) % 2
    mean = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    predicted, logit = labels, np.arange(40.0)
    linear_head, gaussian = Head("linear", mean), Head("gaussian", mean)
    clean = features, labels
    assert (verification(linear_head, None, None, clean).score(features, predicted, logit) == logit).all()
    distance = 0.5 * ((features - mean[labels]) ** 2).sum(1)
    for verified in (verification(linear_head, mean, None, clean), verification(gaussian, None, None, clean)):
        np.testing.assert_allclose(verified.score(features, predicted, logit), -distance)
    own = verification(gaussian, None, None, clean)
    by_head = gaussian.logits(features).argmax(1)
    np.testing.assert_allclose(own.likelihood(features, by_head), hardsight.scores.gm_likelihood(features, gaussian), rtol=1e-6)
    fitted = fitted_gaussians(features, labels, 2)
    np.testing.assert_allclose(fitted.mean[1], features[labels == 1].mean(0))
    by_linear = np.asarray(linear_head.logits(features)).argmax(1)
    ours = fitted.log_density(features, by_linear)
    np.testing.assert_allclose(ours, hardsight.scores.gm_likelihood(features, mean, labels), rtol=1e-6)


def test_an_interval_of_pairs_counts_an_image_once() -> None:
    """A score that an attack lowers by the same for all: the interval must be that of a bootstrap over images."""
    clean = RNG.normal(size=300)
    attacked = clean - 0.5 + 0.1 * RNG.normal(size=300)
    area = detected(clean, attacked, np.ones(300, bool))
    assert area is not None
    drawn = []
    for _ in range(200):
        rows = RNG.integers(0, 300, 300)
        drawn.append(auroc(-clean[rows], -attacked[rows]).value)
    assert (area.high - area.low) / (2 * 1.96) == pytest.approx(np.std(drawn), rel=0.2)
    alone = auroc(-clean, -attacked)
    assert area.value == alone.value and area.high - area.low < 0.5 * (alone.high - alone.low)
    rejected_clean, rejected = roc_curve(clean, attacked)
    assert np.trapezoid(rejected, rejected_clean) == pytest.approx(area.value, abs=0.01)
    with pytest.raises(InputError, match="made_from must name one of the 300 known inputs"):
        auroc(-clean, -attacked, made_from=np.arange(1, 301))
    assert detected(clean, attacked, np.arange(300) < 1) is None


def test_a_path_by_hand() -> None:
    """From (4, 0) to the origin's neighborhood and up to (0, 2): the norm falls first, then the angle turns."""
    head = Head("linear", np.eye(2))
    features = np.array([[[4.0, 0.0], [1.0, 0.0], [0.5, 0.1], [0.5, 1.0], [0.0, 2.0]]])
    table = path_table(["a"], np.array([0]), features, head, epsilon=0.2)
    assert table.column("epsilon").to_pylist() == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    assert np.degrees(table.column("own_angle").to_numpy()[[0, -1]]) == pytest.approx([0, 90])
    assert np.degrees(table.column("other_angle").to_numpy()[[0, -1]]) == pytest.approx([90, 0])
    found = describe_paths(table)
    assert found["switched"] == found["followed"] == 1 and found["shrink_first"] == 1.0
    assert found["norm_at_switch"] == pytest.approx(math.sqrt(1.25) / 4)


def test_no_attack_is_left_out_of_a_figure() -> None:
    """Two methods at six epsilons are twelve curves, no two of which look alike."""
    figures = pytest.importorskip("hardsight.render.attacks")
    line = np.linspace(0, 1, 5)
    axes = figures.roc_curves({f"FGSM {k}": (line, line) for k in range(12)}).axes[0]
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines[1:]}) == 12  # after the diagonal
    drawn = figures.histograms({"norm": {f"FGSM {k}": RNG.normal(size=9) for k in range(12)}})
    assert len(drawn.legends[0].get_texts()) == 12
    (far,) = figures.histograms({"likelihood": {"clean": np.append(RNG.normal(size=97), [-2e7] * 3)}}).axes
    assert far.get_xlim()[0] > -20  # three values far out leave room for all the others
    (sure,) = figures.histograms({"confidence": {"clean": np.append(np.linspace(0.999, 1, 90), [0.1] * 10)}}).axes
    assert sure.get_xlim()[0] < 0.2


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of hardsight train on some digits."""
    from hardsight import train as run

    directory = tmp_path_factory.mktemp("trained") / "run"
    run(
        "digits",
        directory,
        model="DigitsCNN",
        loss="center",
        epochs=2,
        optimizer="adamw",
        lr=0.01,
        batch_size=16,
        limit=100,
        workers=1,
    )
    return directory


def test_a_run_is_attacked_and_a_killed_one_is_resumed_to_the_same_bytes(
    trained: Path, tmp_path: Path, killed: Callable[..., Any], undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attacking, "PART_IMAGES", 16)
    options: dict[str, Any] = {"methods": "pgd,fgsm", "epsilon": "0.3,0,8/255", "limit": 40, "steps": 2, "trajectories": 3}
    options |= {"path_steps": 4, "workers": 1, "batch_size": 16}
    whole = hardsight.attack(trained, tmp_path / "whole", **options)
    table = whole.table.to_pandas()
    assert len(table) == 40 * 5 and set(table["epsilon"]) == {0.0, 8 / 255, 0.3}
    clean = table[table["method"] == "clean"].set_index("id")
    snapshot = hardsight.Snapshot.load(tmp_path / "whole")  # a snapshot with its head: 40 images, each five times
    assert len(snapshot) == 200 and snapshot.columns(["degradation"])["degradation"].null_count == 40
    assert not clean["score"].isna().any() and whole.summary["score"] == "-distance to the center of the predicted class"
    assert whole.summary["gaussians"] == "training features"
    extracted = hardsight.extract(str(trained), "digits:test", tmp_path / "clean", limit=40, workers=1)
    by_id = {row["id"]: row for row in hardsight.score(extracted, scores=["avh", "norm"]).to_pylist()}
    for id in clean.index[:10]:  # epsilon 0 is the clean input
        assert clean.loc[id, "avh"] == pytest.approx(by_id[id]["avh"], rel=1e-5)
    error = {(row["method"], row["epsilon"]): row["error"] for row in whole.by_epsilon.to_pylist()}
    assert error["clean", 0.0] < error["fgsm", 0.3] and error["pgd", 8 / 255] <= error["pgd", 0.3]
    assert list(whole.figures()) == ["error", "roc", "histograms", "trajectory"] and whole.tables()["attack"] is whole.table
    assert len(whole.trajectories) == 3 * 5 and whole.summary["trajectories"]["followed"] == 3

    killed(attacking, "write_samples", at=(3,))
    with pytest.raises(KeyboardInterrupt):
        hardsight.attack(trained, tmp_path / "resumed", **options)
    said: list[str] = []
    hardsight.attack(trained, tmp_path / "resumed", **options, say=said.append)
    assert said == ["resuming: 32 of 40 images are attacked"]
    for file in sorted(path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*.parquet")):
        assert (tmp_path / "resumed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    monkeypatch.setattr(attacking, "open_attacked", None)  # other options are refused before the model is opened
    with pytest.raises(RunError, match=r"holds a run with other arguments: epsilon was .* and is 0.5"):
        hardsight.attack(trained, tmp_path / "resumed", **{**options, "epsilon": 0.5})
    manifest = json.loads((tmp_path / "resumed" / "run.json").read_text())
    assert manifest["counts"]["images"] == 40 and not hardsight.verify(tmp_path / "resumed").damaged


def test_a_model_by_itself_and_the_command_line(trained: Path, tmp_path: Path, cli: Callable[..., Any], undrawn: None) -> None:
    done = hardsight.attack(
        DigitsCNN(), tmp_path / "module", data="digits:test", limit=12, epsilon=0.1, trajectories=2, path_steps=2, workers=1
    )
    assert done.summary["gaussians"] == "clean inputs" and done.summary["score"] == "logit of the predicted class"
    assert {path.name for path in (tmp_path / "module" / "figures").iterdir()} >= {"error.png", "roc.png", "histograms.png"}
    finished = cli("attack", trained, "--limit", 12, "--epsilon", "0.2", "--trajectories", 0, "-o", tmp_path / "a")
    assert finished.code == 0, finished.err
    assert "n = 12   score: -distance to the center of the predicted class" in finished.out and "fgsm" in finished.out
    again = cli("attack", trained, "--limit", 12, "--epsilon", "0.2", "--trajectories", 0, "-o", tmp_path / "a")
    assert "is complete already" in again.out
    other = cli("attack", trained, "--limit", 12, "--epsilon", "0.3", "--trajectories", 0, "-o", tmp_path / "a")
    refused(other, "epsilon was 0.2 and is 0.3")


def test_of_features_alone_the_model_must_be_named(trained: Path, tmp_path: Path, undrawn: None) -> None:
    hardsight.extract(str(trained), "digits:test", tmp_path / "features", limit=8, workers=1)
    with pytest.raises(InputError, match=r"has no model to attack .* --model MODEL"):
        hardsight.attack(tmp_path / "features", tmp_path / "out")
    with pytest.raises(InputError, match="holds features of another model"):
        hardsight.attack(tmp_path / "features", tmp_path / "out", model=DigitsCNN(), limit=4)
    assert not (tmp_path / "out").exists()
    options: dict[str, Any] = {"limit": 8, "epsilon": 0.1, "trajectories": 0, "workers": 1}
    assert hardsight.attack(tmp_path / "features", tmp_path / "out", model=str(trained), **options).summary["images"] == 8


REFUSED: list[tuple[str, list[str], str]] = [
    ("run", ["--epsilon", "8"], "epsilon must be above 0 and at most 1, for pixels of 0 to 1, got '8'. Write 8/255"),
    ("run", ["--epsilon", "0"], "epsilon must be above 0"),
    ("run", ["--methods", "fgms"], "methods must be one or more of fgsm, pgd, got 'fgms'. Did you mean fgsm?"),
    ("run", ["--data", "nothing"], "got 'nothing', which does not exist"),
    ("run", ["--weights", "no.pt"], "there is no weights file no.pt"),
    ("run", ["--split", "dev"], "split must be one that the data has"),
    ("arrays.npz", [], "arrays.npz gives no gradients"),
    ("empty", [], "has no model to attack"),
    ("model.onnx", [], "gives no gradients"),
    ("lenett", [], "is not a model"),
    ("timm:resnet18", [], "does not say which images to attack: give --data DATA"),
]


@pytest.mark.parametrize(("run", "words", "message"), REFUSED)
def test_bad_input_is_refused_in_one_line(
    run: str, words: list[str], message: str, trained: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("arrays.npz", features=np.eye(3), weight=np.eye(3), labels=np.arange(3))
    Path("empty").mkdir()
    refused(cli("attack", trained if run == "run" else run, *words, "-o", "out"), message)
    assert not Path("out").exists()


def test_each_epsilon_is_taken_once_in_order() -> None:
    assert AttackSettings(epsilon=[0.2, 0.1, 0.2]).epsilon == (0.1, 0.2)
