"""The other hardness scores of the field: by hand, against gradients and plain loops, and what a run must hold for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax
from sklearn.neighbors import KNeighborsClassifier

import hardsight
from hardsight import Head, Snapshot, score
from hardsight.errors import InputError
from oracles import angle_table, generalized_entropy, on_circle
from properties import examples

RNG = np.random.default_rng(0)
FEATURES, LABELS = RNG.normal(size=(40, 5)), RNG.integers(0, 4, 40)
HEAD = Head("linear", RNG.normal(size=(4, 5)), RNG.normal(size=4))
PROBS = softmax(FEATURES, axis=1)
seeds = st.integers(0, 2**31)


# ---- GraNd ----


@pytest.mark.parametrize("bias", [True, False])
def test_grand_is_the_gradient_of_the_last_layer(bias: bool) -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(5, 4, bias=bias).double()
    values = hardsight.scores.grand(FEATURES, layer, LABELS)
    for x, y, value in zip(torch.from_numpy(FEATURES), LABELS, values, strict=True):
        loss = torch.nn.functional.cross_entropy(layer(x)[None], torch.tensor([y]))
        gradients = torch.autograd.grad(loss, list(layer.parameters()))
        assert value == pytest.approx(float(torch.cat([g.flatten() for g in gradients]).norm()), rel=1e-9)


# ---- energy and GEN ----


def test_scores_that_are_given_only_when_asked_for() -> None:
    assert not {"avh_nearest", "energy", "gen", "grand"} & set(score(FEATURES, HEAD, LABELS).column_names)
    table = score(FEATURES, labels=LABELS, scores="grand,gen,avh_nearest:2")  # heads of the folds have a bias
    assert np.isfinite(table.column("grand").to_numpy()).all() and np.isfinite(table.column("avh_nearest:2").to_numpy()).all()
    assert score(probs=PROBS, scores="all").column_names[4:].count("gen") == 1
    np.testing.assert_allclose(hardsight.scores.gen(probs=PROBS), hardsight.scores.gen(logits=FEATURES), rtol=1e-12)


@pytest.mark.parametrize("c", [1, 2, 100, 130])
def test_gen_takes_the_hundred_largest(c: int) -> None:
    logits = 3 * RNG.normal(size=(6, c))
    np.testing.assert_allclose(hardsight.scores.gen(logits=logits), generalized_entropy(logits), rtol=1e-10)
    features = np.linalg.lstsq(weight := RNG.normal(size=(c, c)), logits.T, rcond=None)[0].T
    np.testing.assert_allclose(hardsight.scores.gen(features, weight), generalized_entropy(features @ weight.T), rtol=1e-6)


def test_gen_of_a_sure_answer_keeps_its_digits() -> None:
    tail = np.exp(-40.0)  # 1 - p and p of the other: both 4e-18
    assert hardsight.scores.gen(logits=np.array([[40.0, 0.0]])) == pytest.approx([2 * tail**0.1], rel=1e-9)


# ---- AVH over the nearest classes ----


def test_avh_nearest_by_hand() -> None:
    weight, sample = on_circle(0, 90, 180, 270), on_circle(30)  # 30, 60, 150 and 120 degrees
    for k, total in ((1, 30 + 60), (2, 30 + 60 + 120), (3, 360), (9, 360)):
        assert hardsight.scores.avh_nearest(sample, weight, [0], k=k) == pytest.approx([30 / total])
    assert hardsight.scores.avh_nearest(sample, weight, [3]) == pytest.approx([120 / 150])
    assert np.isnan(hardsight.scores.avh_nearest(sample, weight, [-1])).all()
    for k in (1, 2):  # a single class is all the hardness there is, as for AVH
        assert hardsight.scores.avh_nearest(on_circle(30, 0), weight[:1], [0, 0], k=k).tolist() == pytest.approx(
            [1, np.nan], nan_ok=True
        )


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("kind", ["linear", "gaussian"])
def test_avh_nearest_against_a_sort(kind: Any, library: str) -> None:
    head = Head(kind, HEAD.weight)
    center = HEAD.weight.mean(0) if kind == "gaussian" else 0.0
    theta = angle_table(FEATURES - center, HEAD.weight - center)
    features: Any = FEATURES if library == "numpy" else pytest.importorskip("torch").from_numpy(FEATURES)
    table = score(features, head, LABELS, scores="avh_nearest,avh_nearest:2,avh_nearest:3,avh")
    own = theta[np.arange(40), LABELS]
    others = np.sort(np.where(np.eye(4, dtype=bool)[LABELS], np.inf, theta), axis=1)
    for k, name in ((1, "avh_nearest"), (2, "avh_nearest:2"), (3, "avh_nearest:3"), (3, "avh")):
        expected = own / (own + others[:, :k].sum(1))
        np.testing.assert_allclose(table.column(name).to_numpy(), expected, rtol=1e-9, err_msg=name)


# ---- prototypes ----


def test_prototypicality_by_hand() -> None:
    features = np.concatenate([on_circle(0, 60), 5 * on_circle(200), [[0.0, 0.0]], on_circle(45)])
    values = hardsight.scores.prototypicality(features, [0, 0, 1, 1, -1])
    assert values == pytest.approx([np.pi / 6, np.pi / 6, 0, np.nan, np.nan], nan_ok=True)  # a class of one is its own prototype
    assert hardsight.scores.prototypicality(1e30 * features, [0, 0, 1, 1, -1]) == pytest.approx(values, nan_ok=True)
    opposite = hardsight.scores.prototypicality([[1.0, 0.0], [-1.0, 0.0]], [0, 0])
    assert np.isnan(opposite).all()  # their mean has no direction


# ---- several models ----


@settings(max_examples=examples(10))
@given(m=st.integers(2, 5), n=st.integers(1, 9), c=st.integers(1, 6), seed=seeds)
def test_agreement_against_scipy(m: int, n: int, c: int, seed: int) -> None:
    probs = softmax(2 * np.random.default_rng(seed).normal(size=(m, n, c)), axis=2)
    values = hardsight.scores.model_agreement(probs)
    assert ((values >= 0) & (values <= 1)).all()
    if m == 2:
        np.testing.assert_allclose(values, 1 - jensenshannon(*probs, axis=1, base=2) ** 2, atol=1e-7)
    np.testing.assert_allclose(hardsight.scores.model_agreement(probs[::-1]), values, atol=1e-12)
    np.testing.assert_allclose(hardsight.scores.model_agreement([probs[0]] * m), 1, atol=1e-12)


def test_agreement_of_runs_is_joined_by_id(tmp_path: Path, cli: Callable[..., Any]) -> None:
    ids, order = [f"i{row}" for row in range(40)], RNG.permutation(40)[:39]
    own = Snapshot(FEATURES, HEAD, LABELS, ids=ids)
    other_logits = RNG.normal(size=(40, 4))
    other = Snapshot(logits=other_logits[order], ids=[ids[row] for row in order])
    third = Snapshot(probs=softmax(other_logits, axis=1), ids=ids)
    table = score(own, models=[other, third], scores="model_agreement")
    probs = [softmax(HEAD.logits(FEATURES), axis=1), *[softmax(other_logits, axis=1)] * 2]
    expected = np.where(
        np.isin(np.arange(40), order), hardsight.scores.model_agreement(probs), np.nan
    )  # one is not in the second
    np.testing.assert_allclose(table.column("model_agreement").to_numpy(), expected, rtol=1e-9)
    own.save(tmp_path / "own.npz")
    other.save(tmp_path / "other.npz")
    done = cli("score", tmp_path / "own.npz", "--scores", "model_agreement", "--models", tmp_path / "other.npz")
    assert done.code == 0 and "model_agreement" in done.out
    assert "model_agreement" in score(own, models=other, scores="all").column_names


def compared(*models: Any) -> Callable[[], Any]:
    return lambda: score(FEATURES, HEAD, LABELS, scores="model_agreement", models=models or None)


NAMES = [f"i{row}" for row in range(40)]
REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("grand needs features and a head", lambda: hardsight.scores.grand(logits=FEATURES, labels=LABELS)),
    ("a linear head, and this one is cosine", lambda: hardsight.scores.grand(FEATURES, Head("cosine", HEAD.weight), LABELS)),
    ("grand is defined for a linear", lambda: score(FEATURES, Head("gaussian", HEAD.weight), LABELS, scores="grand")),
    ("energy needs logits", lambda: hardsight.scores.energy(probs=PROBS)),
    ("energy cannot be computed from probs", lambda: score(probs=PROBS, scores="energy")),
    ("prototypicality is fitted to labeled samples, but there are", lambda: score(FEATURES, HEAD, scores="prototypicality")),
    ("gm_likelihood is fitted to labeled samples, but there are", lambda: score(FEATURES, HEAD, scores="gm_likelihood")),
    ("avh_scaled is fitted to labeled samples, but there are", lambda: score(FEATURES, HEAD, scores="avh_scaled")),
    ("at least one layer", lambda: hardsight.scores.prediction_depth([], [0], [0])),
    ("got 2 and 3 rows", lambda: hardsight.scores.prediction_depth([np.ones((2, 1)), np.ones((3, 1))], [0, 0], [0, 0])),
    ("at least two checkpoints", lambda: hardsight.scores.vog(np.ones((1, 3, 4)), [0, 0, 0])),
    ("compares several models: pass the runs of the others with --models RUN2,RUN3", compared()),
    ("has 5 classes, this model 4: they cannot be compared", compared(Snapshot(logits=FEATURES))),
    ("has no head: models are compared by their probabilities", compared(Snapshot(FEATURES))),
    ("has none of the ids of this snapshot", compared(Snapshot(logits=FEATURES[:, :4], ids=np.arange(100, 140)))),
    ("its ids are string, those of this model int64", compared(Snapshot(logits=FEATURES[:, :4], ids=NAMES))),
    ("models must be", compared(3)),
    ("at least two models, got 1", lambda: hardsight.scores.model_agreement([PROBS])),
    ("probs must be probabilities that sum to 1", lambda: hardsight.scores.model_agreement([FEATURES, FEATURES])),
]


@pytest.mark.parametrize(("match", "ask"), REFUSED)
def test_bad_input(match: str, ask: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=match):
        ask()


# ---- Data-IQ ----


@given(st.integers(1, 6), st.integers(1, 8), seeds)
def test_data_iq_against_numpy(n: int, e: int, seed: int) -> None:
    confidence = np.random.default_rng(seed).uniform(size=(e, n))
    confidence[0, 0] = np.nan if e > 1 else 0.5
    np.testing.assert_allclose(
        hardsight.scores.data_iq(confidence), np.nanmean(confidence * (1 - confidence), axis=0), atol=1e-12
    )


# ---- prediction depth ----


@settings(max_examples=examples(5))
@given(n=st.integers(3, 12), k=st.integers(1, 5), seed=seeds)
def test_prediction_depth_against_scikit_learn(n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layers, labels = [rng.normal(size=(n, d)) + 30 for d in (3, 5, 2)], rng.integers(0, 3, n)
    predicted = rng.integers(0, 3, n)
    values = hardsight.scores.prediction_depth(layers, labels, predicted, k=k)
    for row in range(n):
        rest = np.arange(n) != row
        votes = [KNeighborsClassifier(min(k, n - 1)).fit(x[rest], labels[rest]).predict(x[[row]])[0] for x in layers]
        depth = next((i for i in range(3) if all(vote == predicted[row] for vote in votes[i:])), 3)
        assert values[row] == depth


def test_odd_depths() -> None:
    alone = hardsight.scores.prediction_depth([np.ones((1, 2))], [0], [0])
    assert alone.tolist() == [1.0]  # nobody to ask
    unlabeled = hardsight.scores.prediction_depth([[[0.0], [0.1], [9.0]]], [0, -1, -1], [0, 0, 0], k=1)
    assert unlabeled.tolist() == [1.0, 0.0, 0.0]


# ---- variance of gradients ----


def test_variance_of_gradients_against_numpy() -> None:
    gradients, labels = RNG.normal(size=(4, 30, 3, 5)), np.arange(30) % 3
    labels[7] = -1
    raw = gradients.var(0).mean((1, 2))
    expected = np.full(30, np.nan)
    for k in range(3):
        expected[labels == k] = (raw[labels == k] - raw[labels == k].mean()) / raw[labels == k].std()
    np.testing.assert_allclose(hardsight.scores.vog(gradients, labels), expected, rtol=1e-9)
    assert hardsight.scores.vog(np.ones((2, 3, 4)), [0, 0, 0]).tolist() == [0, 0, 0]


# ---- runs that have what some scores need ----


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("accelerate")

    output = tmp_path_factory.mktemp("kept") / "run"
    hardsight.train("digits", output, model="DigitsCNN", epochs=4, limit=30, batch_size=30, lr=0.05, keep_epochs=2)
    return output


def test_kept_epochs_are_the_networks_of_the_epochs(trained: Path, cli: Callable[..., Any]) -> None:
    from safetensors.torch import load_file

    kept = sorted(path.name for path in (trained / "epochs").iterdir())
    assert kept == ["epoch=0002.safetensors", "epoch=0004.safetensors"]
    last, model = load_file(trained / "epochs" / kept[-1]), load_file(trained / "model" / "model.safetensors")
    assert all((last[name] == model[name]).all() for name in model) and set(last) == set(model)
    first = load_file(trained / "epochs" / kept[0])
    assert any((first[name] != model[name]).any() for name in model)
    assert cli("verify", trained).code == 0


def test_variance_of_gradients_of_a_run(trained: Path) -> None:
    import torch

    from hardsight.data import open_data
    from hardsight.models.trained import open_trained

    table = score(trained, scores="vog,avh", images="digits")
    assert score(trained, scores="vog").column("vog").equals(table.column("vog"))  # it finds the images of the run
    values = dict(zip(table.column("id").to_pylist(), table.column("vog").to_pylist(), strict=True))
    data = open_data("digits")
    place = {id: row for row, id in enumerate(data.ids)}
    gradients = []
    for weights in sorted((trained / "epochs").iterdir()):
        built = open_trained(trained / "model", weights)
        assert built.preprocessing is not None
        rows = [place[id] for id in values]
        x = torch.from_numpy(np.stack([built.preprocessing.numbers(built.preprocessing.fitted(data.image(r))) for r in rows]))
        x.requires_grad_()
        logits = built.module.eval()(x)[torch.arange(len(rows)), torch.from_numpy(np.asarray(data.labels)[rows])]
        gradients.append(torch.autograd.grad(logits.sum(), x)[0].numpy())
    expected = hardsight.scores.vog(np.stack(gradients), table.column("label").to_numpy())
    np.testing.assert_allclose(list(values.values()), expected, rtol=1e-3, atol=1e-4)


def test_images_that_the_run_does_not_name_or_that_have_moved(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for start, match in (
        ({}, "vog needs the images that .* was trained on: pass them with --images DATA"),
        ({"sources": {"train": "/gone.npz"}}, "was trained on cannot be opened: .*'/gone.npz', .* Pass them with --images DATA"),
    ):
        monkeypatch.setattr("hardsight.scoring.checkpoints.read_json", lambda path, start=start: start)
        with pytest.raises(InputError, match=match):
            score(trained, scores="vog")


def test_what_is_missing_for_them(trained: Path, tmp_path: Path) -> None:
    ids = ["x0", "x1"]
    np.savez(tmp_path / "other.npz", images=np.zeros((2, 8, 8), np.uint8), labels=[0, 1], ids=ids)
    other = {"scores": "vog", "images": str(tmp_path / "other.npz")}
    for source, options, match in (
        (trained, other, "has none of the labeled samples of .*Its ids look like 'x0', the samples' like '"),
        (Snapshot(FEATURES, HEAD), {"scores": "vog"}, "needs a model at several epochs, but arrays have none: .*--keep-epochs"),
        (trained, {"scores": "prediction_depth"}, "needs the features of several layers, but .* has none: .*--layers a,b,c"),
        (trained, {"scores": "prediction_depth:5"}, "prediction_depth:5 needs the features of several layers"),
    ):
        with pytest.raises(InputError, match=match):
            score(source, **options)  # type: ignore[arg-type]
    assert not {"vog", "prediction_depth", "model_agreement"} & set(score(trained, scores="all").column_names)
    assert "data_iq" in score(trained, scores="all").column_names


def test_prediction_depth_of_a_run(trained: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    layers, out = ["trunk.0", "trunk.7"], tmp_path / "run"
    words = ("extract", trained, "digits", "--limit", 50, "--layers", ",".join(layers), "-o", out)
    done = cli(*words)
    assert done.code == 0, done.err
    assert [path.name for path in sorted((out / "layers").iterdir())] == [f"{i:02d}-{name}" for i, name in enumerate(layers)]
    table = score(out, scores="prediction_depth,prediction_depth:3")
    stored = [Snapshot.load(next((out / "layers" / f"{i:02d}-{name}").iterdir())) for i, name in enumerate(layers)]
    features = [snapshot.in_memory().values for snapshot in stored]
    assert [snapshot.columns(["id"]) for snapshot in stored] == [table.select(["id"])] * 2
    labels, predicted = table.column("label").to_numpy(), table.column("predicted").to_numpy()
    for k, name in ((30, "prediction_depth"), (3, "prediction_depth:3")):
        expected = hardsight.scores.prediction_depth(features, labels, predicted, k=k)
        np.testing.assert_array_equal(table.column(name).to_numpy(), expected)
    assert len(np.unique(table.column("prediction_depth:3").to_numpy())) > 1
    assert cli("verify", out).code == 0
    lost = next((out / "layers" / "01-trunk.7").iterdir())
    before = lost.read_bytes()
    lost.unlink()  # a part that lacks one of its layers is not complete
    (out / "run.json").unlink()
    assert cli(*words).code == 0 and lost.read_bytes() == before
    assert "has no layer 'nowhere'" in cli("extract", trained, "digits", "--layers", "nowhere", "-o", tmp_path / "x").err
    assert "different layer names" in cli("extract", trained, "digits", "--layers", "a,a", "-o", tmp_path / "x").err
