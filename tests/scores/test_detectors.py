"""Scores fitted to a reference, and the mean shift: by hand, against scikit-learn and plain float64, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

import hardsight
from hardsight import SCORES, Head, Snapshot, score
from hardsight.errors import InputError, MissingExtra
from hardsight.models.libraries import import_torchvision
from oracles import on_circle
from properties import examples
from refusals import refused

RNG = np.random.default_rng(0)
CENTERS = 4 * RNG.normal(size=(3, 6))
LABELS = np.arange(90) % 3
TRAIN = CENTERS[LABELS] + RNG.normal(size=(90, 6))
TEST = np.concatenate([CENTERS[np.arange(20) % 3] + RNG.normal(size=(20, 6)), 8 * RNG.normal(size=(10, 6))])  # the last are odd
HEAD = Head("linear", RNG.normal(size=(3, 6)), RNG.normal(size=3))
REFERENCE = [name for name, one in SCORES.items() if one.scope == "reference" and not one.labels]


# ---- by hand ----


def test_mahalanobis_by_hand() -> None:
    """Two classes on a line at -2 and 2, spread 1 within: variance 1 within, 5 in all, mean 0; moved by 9."""
    reference, labels = 9 + np.array([[-3.0], [-1.0], [1.0], [3.0]]), [0, 0, 1, 1]
    values = hardsight.scores.mahalanobis_relative(9 + np.array([[2.0], [0.0], [7.0]]), reference, labels)
    assert values == pytest.approx([0 - 4 / 5, 4 - 0, 25 - 49 / 5])


def test_nearest_distance_by_hand() -> None:
    reference = on_circle(0, 10, 90) * 7
    values = hardsight.scores.knn_distance(3 * on_circle(4), reference, k=2)
    assert values == pytest.approx([2 * np.sin(np.deg2rad(6) / 2)])
    assert hardsight.scores.knn_distance(on_circle(4), reference, k=50) == pytest.approx(
        [2 * np.sin(np.deg2rad(86) / 2)]
    )  # all there are
    assert hardsight.scores.knn_distance(on_circle(10), reference, k=1)[0] < 1e-7


@pytest.mark.parametrize(("n", "k"), [(3, 1), (149, 1), (151, 2), (260, 3)])
def test_nearest_distance_takes_one_percent_of_the_reference(n: int, k: int) -> None:
    """Of n directions, a tenth of a degree apart, the k-th; rows of zeros have no direction and do not count."""
    reference = np.concatenate([on_circle(*np.arange(n) / 10), np.zeros((100, 2))])
    expected = [2 * np.sin(np.deg2rad(k / 10) / 2)]
    assert hardsight.scores.knn_distance(on_circle(-0.1), reference) == pytest.approx(expected, rel=1e-4)
    assert hardsight.scores.knn_distance(on_circle(-0.1), reference, k=k) == pytest.approx(expected, rel=1e-4)
    table = score(on_circle(-0.1), scores="knn_distance", reference=Snapshot(reference))
    assert table.column("knn_distance").to_numpy() == pytest.approx(expected, rel=1e-4)


def test_vim_by_hand() -> None:
    """Two classes along the first axis, no bias: the second axis is outside, and its mean length makes the virtual logit."""
    weight, reference = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[4.0, 1.0], [-4.0, 1.0], [4.0, -1.0], [-4.0, -1.0]])
    values = hardsight.scores.vim(np.array([[4.0, 1.0], [0.0, 3.0]]), weight, reference)  # alpha = 4 / 1
    assert values == pytest.approx([4 - logsumexp([4, -4]), 12 - np.log(2)])
    moved = hardsight.scores.vim(
        np.array([[5.0, 1.0]]), weight, reference + [1, 0], bias=np.array([-1.0, 1.0])
    )  # all of it by one
    assert moved == pytest.approx(values[:1])


def test_mean_shift_by_hand() -> None:
    """k = 1: everyone jumps to the nearest other, three times; on a line at 1, 2 and 11, all end at 2."""
    assert hardsight.scores.mean_shift(np.array([[1.0], [2.0], [11.0]]), k=1) == pytest.approx([1, 0, 9], abs=1e-12)
    assert hardsight.scores.mean_shift(np.ones((5, 2))).tolist() == [0] * 5
    assert np.isnan(hardsight.scores.mean_shift(np.ones((1, 2)))).all()


# ---- against others ----


def test_mahalanobis_against_scikit_learn() -> None:
    means = np.stack([TRAIN[LABELS == k].mean(0) for k in range(3)])
    within = EmpiricalCovariance(assume_centered=True).fit(TRAIN - means[LABELS])
    overall = EmpiricalCovariance().fit(TRAIN)
    to_classes = np.stack([within.mahalanobis(TEST - mean) for mean in means])
    expected = to_classes.min(0) - overall.mahalanobis(TEST)
    np.testing.assert_allclose(hardsight.scores.mahalanobis_relative(TEST, TRAIN, LABELS), expected, rtol=1e-9)
    shift = 1e5 * RNG.normal(size=6)  # far from the origin, as means of activations are
    moved = hardsight.scores.mahalanobis_relative(TEST + shift, TRAIN + shift, LABELS)
    np.testing.assert_allclose(moved, expected, rtol=1e-5, atol=1e-6)
    turned = RNG.normal(size=(6, 6))
    np.testing.assert_allclose(hardsight.scores.mahalanobis_relative(TEST @ turned, TRAIN @ turned, LABELS), expected, rtol=1e-6)


@settings(max_examples=examples(10))
@given(n=st.integers(1, 30), d=st.integers(2, 9), k=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_nearest_distance_against_scikit_learn(n: int, d: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reference, features = rng.normal(size=(n, d)), rng.normal(size=(7, d))
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (reference, features)]
    neighbors = NearestNeighbors(n_neighbors=min(k, n), algorithm="brute").fit(unit[0])
    expected = neighbors.kneighbors(unit[1])[0][:, -1]
    np.testing.assert_allclose(hardsight.scores.knn_distance(features, reference, k=k), expected, atol=1e-6)


@pytest.mark.parametrize("dimensions", [None, 0, 2, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_vim_against_the_formula(dimensions: int | None, bias: bool) -> None:
    head = HEAD if bias else Head("linear", HEAD.weight)
    origin = -np.linalg.pinv(HEAD.weight) @ HEAD.bias if bias else np.zeros(6)
    mirrored = np.concatenate([TRAIN - origin, origin - TRAIN])  # so that its mean is zero: the PCA is around the origin
    basis = PCA(6).fit(mirrored).components_[3 if dimensions is None else dimensions :]
    residual = [np.linalg.norm((x - origin) @ basis.T, axis=1) for x in (TRAIN, TEST)]
    alpha = head.logits(TRAIN).max(1).mean() / residual[0].mean()
    expected = alpha * residual[1] - logsumexp(head.logits(TEST), axis=1)
    np.testing.assert_allclose(hardsight.scores.vim(TEST, head, TRAIN, dimensions=dimensions), expected, rtol=1e-9)


@settings(max_examples=examples(10))
@given(n=st.integers(2, 25), d=st.integers(1, 6), k=st.integers(1, 30), seed=st.integers(0, 2**31))
def test_mean_shift_against_a_plain_loop(n: int, d: int, k: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(n, d)) + 50
    here = x.copy()
    for _ in range(3):
        table = np.linalg.norm(here[:, None] - here[None], axis=2)
        np.fill_diagonal(table, np.inf)
        nearest = np.argsort(table, axis=1, kind="stable")[:, : min(k, n - 1)]
        ordered = np.sort(table, axis=1)
        at = min(k, n - 1)
        if at < n - 1 and (ordered[:, at] - ordered[:, at - 1] < 1e-9).any():
            return  # equally near to either: which of them counts is nobody's business
        here = np.stack([here[rows].mean(0) for rows in nearest])
    np.testing.assert_allclose(hardsight.scores.mean_shift(x, k=k), np.linalg.norm(x - here, axis=1), atol=1e-9)


def test_detectors_against_pytorch_ood() -> None:
    """Its covariances are sums, not means, and its GEN is a mean, not a sum, of clipped probabilities: all else is equal."""
    torch = pytest.importorskip("torch")
    try:
        import_torchvision()  # which pytorch-ood imports, and which does not import by itself beside a torch without CUDA
    except MissingExtra as error:
        pytest.skip(str(error))
    theirs = pytest.importorskip("pytorch_ood.detector")

    def single(x: Any) -> Any:
        return torch.from_numpy(np.asarray(x, dtype=np.float32))

    train, test, labels, logits = single(TRAIN), single(TEST), torch.from_numpy(LABELS), HEAD.logits(TEST) / 20
    relative = theirs.RMD(None).fit_features(train, labels).predict_features(test)
    nearest = theirs.KNN(None, k=7).fit_features(train, labels).predict_features(test)
    virtual = theirs.ViM(None, d=3, w=single(HEAD.weight), b=single(HEAD.bias)).fit_features(train, labels).predict_features(test)
    many = np.random.default_rng(1).normal(size=(300, 6))
    one_percent = theirs.KNN(None, k=3).fit_features(single(many), torch.zeros(300)).predict_features(test)
    pairs = {
        "knn_distance, default": (hardsight.scores.knn_distance(TEST, many), one_percent),
        "mahalanobis_relative": (hardsight.scores.mahalanobis_relative(TEST, TRAIN, LABELS), len(TRAIN) * relative),
        "knn_distance": (hardsight.scores.knn_distance(TEST, TRAIN, k=7), nearest),
        "vim": (hardsight.scores.vim(TEST, HEAD, TRAIN), virtual),
        "energy": (hardsight.scores.energy(logits=logits), theirs.EnergyBased(None).predict_logits(single(logits))),
        "gen": (hardsight.scores.gen(logits=logits), logits.shape[1] * theirs.GEN(None, M=100).predict_logits(single(logits))),
    }
    for name, (our, other) in pairs.items():
        np.testing.assert_allclose(our, other.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


def test_odd_inputs_are_found() -> None:
    names = ["mahalanobis_relative", "knn_distance:5", "vim", "mean_shift:5"]
    table = score(TEST, HEAD, reference=Snapshot(TRAIN, HEAD, LABELS), scores=names)
    odd = np.arange(30) >= 20
    for name in names:
        values = table.column(name).to_numpy()
        assert np.mean(values[odd][:, None] > values[~odd]) > 0.7, name  # AUROC


# ---- laws ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_and_tables_give_the_same(dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    test, train = TEST.astype(dtype), TRAIN.astype(dtype)
    alone = {
        "mahalanobis_relative": hardsight.scores.mahalanobis_relative(test, train, LABELS),
        "knn_distance": hardsight.scores.knn_distance(test, train),
        "vim": hardsight.scores.vim(test, HEAD, train),
    }
    as_tensors = score(torch.from_numpy(test), HEAD, reference=Snapshot(torch.from_numpy(train), HEAD, LABELS), scores=REFERENCE)
    Snapshot(train, HEAD, LABELS).save(tmp_path / "train.npz")
    monkeypatch.setattr("hardsight.snapshot.snapshot.BATCH_BYTES", 200)  # a few rows at a time
    in_batches = score(test, HEAD, reference=tmp_path / "train.npz", scores=REFERENCE)
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    for name, expected in alone.items():
        for table in (as_tensors, in_batches):
            np.testing.assert_allclose(table.column(name).to_numpy(), expected, rtol=tolerance, atol=tolerance, err_msg=name)


def test_a_number_in_the_name() -> None:
    reference = Snapshot(TRAIN, HEAD, LABELS)
    table = score(TEST, HEAD, np.zeros(30, int), reference=reference, scores="knn_distance:3,mean_shift:5,knn_agreement:2")
    assert table.column_names[4:] == ["knn_distance:3", "mean_shift:5", "knn_agreement:2"]
    np.testing.assert_allclose(table.column("knn_distance:3").to_numpy(), hardsight.scores.knn_distance(TEST, TRAIN, k=3))
    np.testing.assert_allclose(table.column("mean_shift:5").to_numpy(), hardsight.scores.mean_shift(TEST, k=5))
    assert (
        SCORES["knn_distance:3"].formula.endswith("k = 3") and SCORES["knn_distance:3"].summary == SCORES["knn_distance"].summary
    )
    assert [SCORES[name].k for name in ("knn_distance:3", "mean_shift", "avh_nearest:4", "knn_distance")] == [3, 30, 4, None]
    assert "knn_distance:3" in SCORES and "knn_distance:3" not in list(SCORES)
    whole = "k must be a whole number of 1 or more, got"
    for name, said in {
        "knn_distance:0": f"knn_distance: {whole} '0'",
        "knn_distance:-1": f"{whole} '-1'",
        "knn_distance:": f"{whole} ''",
        "avh_nearest:0": f"avh_nearest: {whole} '0'",
        "avh_nearest:x": f"{whole} 'x'",
        "avh:3": "avh has no k that a name could carry, got 'avh:3'",
        "vim:x": "vim has no k",
        "no_such:3": "there is no score named 'no_such:3'",
    }.items():
        assert name not in SCORES and SCORES.get(name) is None
        with pytest.raises(InputError, match=said):
            score(TEST, HEAD, scores=name, reference=reference)


def test_scores_of_features_alone_need_no_head(cli: Callable[..., Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", features=TEST)
    np.savez(tmp_path / "train.npz", features=TRAIN, labels=LABELS)
    names = "mean_shift,knn_distance,mahalanobis_relative,norm"
    table = score(tmp_path / "test.npz", scores=names, reference=tmp_path / "train.npz")
    np.testing.assert_allclose(table.column("mean_shift").to_numpy(), hardsight.scores.mean_shift(TEST))
    np.testing.assert_allclose(table.column("knn_distance").to_numpy(), hardsight.scores.knn_distance(TEST, TRAIN))
    np.testing.assert_allclose(table.column("norm").to_numpy(), np.linalg.norm(TEST, axis=1))
    assert table.column("predicted").null_count == 30 and b'"head": null' in table.schema.metadata[b"hardsight"]
    done = cli("score", tmp_path / "test.npz", "--scores", "mean_shift")
    assert done.code == 0 and "n = 30" in done.out and "no head given" not in done.out
    for names in ("mean_shift,energy", "all"):  # energy is of a head's logits
        with pytest.raises(InputError, match="features alone cannot be scored: pass a head, or labels to fit one to"):
            score(tmp_path / "test.npz", scores=names)


# ---- odd references ----


def test_a_reference_that_does_not_vary_everywhere() -> None:
    """One direction never varies, and there are fewer samples than dimensions: what varies still counts."""
    flat = np.concatenate([TRAIN, np.full((90, 1), 2.0)], axis=1)
    wide = np.concatenate([TEST, np.full((30, 1), 2.0)], axis=1)
    np.testing.assert_allclose(
        hardsight.scores.mahalanobis_relative(wide, flat, LABELS),
        hardsight.scores.mahalanobis_relative(TEST, TRAIN, LABELS),
        rtol=1e-6,
    )
    assert np.isfinite(hardsight.scores.mahalanobis_relative(TEST, TRAIN[:4], [0, 1, 0, 1])).all()
    assert np.isfinite(hardsight.scores.mahalanobis_relative(TEST, TRAIN[:1], [0])).all()
    one_class = hardsight.scores.mahalanobis_relative(TEST, TRAIN, np.zeros(90, int))
    assert one_class == pytest.approx(np.zeros(30), abs=1e-9)  # the class is all there is
    assert np.isnan(hardsight.scores.vim(TEST, HEAD, TRAIN, dimensions=6)).all()  # nothing is outside


def test_rows_that_cannot_be_scored_change_nothing() -> None:
    broken, labels = np.concatenate([TRAIN, [np.full(6, np.nan), np.zeros(6)]]), np.append(LABELS, [0, 1])
    test = np.concatenate([TEST, [np.full(6, np.nan)]])
    table = score(test, HEAD, reference=Snapshot(broken, HEAD, labels), scores=[*REFERENCE, "mean_shift"])
    plain = score(TEST, HEAD, reference=Snapshot(TRAIN, HEAD, LABELS), scores=[*REFERENCE, "mean_shift"])
    for name in [*REFERENCE, "mean_shift"]:
        np.testing.assert_allclose(table.column(name).to_numpy()[:30], plain.column(name).to_numpy(), rtol=1e-9, err_msg=name)
        assert table.column(name).to_pylist()[30] is None


def test_unlabeled_samples_of_the_reference_are_not_in_a_class() -> None:
    more = np.concatenate([TRAIN, 100 * RNG.normal(size=(9, 6))])
    values = hardsight.scores.mahalanobis_relative(TEST, more, np.append(LABELS, np.full(9, -1)))
    np.testing.assert_allclose(values, hardsight.scores.mahalanobis_relative(TEST, TRAIN, LABELS))


# ---- which are computed, and what is refused ----


def test_all_takes_them_where_there_is_a_reference() -> None:
    test = Snapshot(TEST, HEAD, np.zeros(30, int))
    assert set(REFERENCE) == {"mahalanobis_relative", "knn_distance", "vim"}
    assert all(SCORES[name].hard == "high" and not SCORES[name].labels for name in REFERENCE)
    assert set(score(test, scores="all", reference=Snapshot(TRAIN, HEAD, LABELS)).column_names) >= set(REFERENCE)
    assert not set(score(test, scores="all").column_names) & set(REFERENCE)
    assert not set(score(test, reference=Snapshot(TRAIN, HEAD, LABELS)).column_names) & set(REFERENCE)
    unlabeled = score(test, scores="all", reference=Snapshot(TRAIN, HEAD))
    assert set(unlabeled.column_names) & set(REFERENCE) == {"knn_distance", "vim"}
    cosine = Head("cosine", HEAD.weight)
    of_cosine = score(TEST, cosine, reference=Snapshot(TRAIN, cosine, LABELS), scores="all")
    assert set(of_cosine.column_names) & {*REFERENCE, "grand"} == {"knn_distance", "mahalanobis_relative"}


OTHER, COSINE = Head("linear", HEAD.weight + 1, HEAD.bias), Head("cosine", HEAD.weight)


def fitted(name: str, reference: Any, head: Head = HEAD) -> Callable[[], Any]:
    return lambda: score(TEST, head, scores=name, reference=reference)


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("vim is fitted to another snapshot: pass the model's training data with --reference TRAIN", fitted("vim", None)),
    ("its features have 5 dimensions, these have 6", fitted("vim", Snapshot(TRAIN[:, :5], labels=LABELS))),
    (
        "another model: one head has 2 classes and 6 features, the other 3 and 6",
        fitted("vim", Snapshot(TRAIN, HEAD.weight[:2], LABELS % 2)),
    ),
    ("another model: the two heads differ", fitted("vim", Snapshot(TRAIN, OTHER, LABELS))),
    ("another model: one head is cosine, the other linear", fitted("vim", Snapshot(TRAIN, COSINE, LABELS))),
    ("a reference needs features, but this one holds logits", fitted("knn_distance", Snapshot(logits=TRAIN))),
    ("but the reference has no labels", fitted("mahalanobis_relative", Snapshot(TRAIN, HEAD))),
    ("reference must be a snapshot or the path of one, got int", fitted("knn_distance", 3)),
    ("vim is defined for a linear head, and this one is cosine", fitted("vim", Snapshot(TRAIN), COSINE)),
    ("vim is defined for a linear head", lambda: hardsight.scores.vim(TEST, COSINE, TRAIN)),
    ("cannot be computed from logits", lambda: score(logits=TEST, scores="knn_distance", reference=Snapshot(TRAIN))),
    (r"got \(30, 6\) and \(90, 5\)", lambda: hardsight.scores.knn_distance(TEST, TRAIN[:, :5])),
    ("k must be at least 1", lambda: hardsight.scores.knn_distance(TEST, TRAIN, k=0)),
]


@pytest.mark.parametrize(("match", "ask"), REFUSED)
def test_what_is_refused(match: str, ask: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=match):
        ask()


def test_a_reference_on_the_command_line(cli: Callable[..., Any], tmp_path: Path) -> None:
    Snapshot(TRAIN, HEAD, LABELS).save(tmp_path / "train.npz")
    Snapshot(TEST, HEAD, np.zeros(30, int)).save(tmp_path / "test.npz")
    words = ("score", tmp_path / "test.npz", "--scores", "energy,vim,knn_distance:5", "-o", tmp_path / "o.csv")
    done = cli(*words, "--reference", tmp_path / "train.npz", "--verbose")
    assert done.code == 0 and "hardest 10 by energy" in done.out and "knn_distance:5" in done.out
    assert "knn_distance:5" in (tmp_path / "o.csv").read_text()
    refused(cli(*words, "--reference", tmp_path / "absent.npz"), "absent.npz does not exist")
