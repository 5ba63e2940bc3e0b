"""Scores from dynamics: by hand, against plain loops and the AUM package, and joined to a run's table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardsight
from hardsight import SCORES, Dynamics, Snapshot, score
from hardsight.errors import InputError
from hardsight.files.epochs import Stories
from hardsight.files.run import Run
from hardsight.files.samples import write_samples

OURS = {name: one for name, one in SCORES.items() if one.scope == "dynamics"}
OF_ANY_LOSS = {name: one for name, one in OURS.items() if name != "aldr_lambda"}


RIGHT = np.array(  # epochs down, samples across
    [
        [0, 1, 1, 0, 0, np.nan],
        [1, 1, 0, 0, 1, np.nan],
        [0, 1, 1, 0, np.nan, np.nan],
        [1, 1, 0, 0, 0, np.nan],
        [1, 1, 1, 0, 1, np.nan],
    ]
)


def test_forgetting_and_learning_by_hand() -> None:
    """0110..: a sample not seen for an epoch is compared with when it was last seen; one never seen has no score."""
    np.testing.assert_array_equal(hardsight.scores.forgetting_events(RIGHT), [1, 0, 2, 5, 1, np.nan])
    np.testing.assert_array_equal(hardsight.scores.first_epoch_learned(RIGHT), [2, 1, 1, 6, 2, np.nan])
    np.testing.assert_allclose(hardsight.scores.cartography_correctness(RIGHT), [0.6, 1, 0.6, 0, 0.5, np.nan])


def test_the_lambda_of_the_last_epoch_that_had_one() -> None:
    lambdas = [[1.0, 0.9, np.nan], [0.7, np.nan, np.nan], [0.8, np.nan, np.nan]]
    np.testing.assert_array_equal(hardsight.scores.aldr_lambda(lambdas), [0.8, 0.9, np.nan])


def test_lambdas_are_recorded_where_there_are_some(tmp_path: Path) -> None:
    """Epoch 0 has only held-out samples, without this column; for a run without it, the error names the loss that records it."""
    with Dynamics(tmp_path) as tracker:
        for epoch, lambdas in ((0, None), (1, [0.5, 0.25]), (2, [0.75, np.nan])):
            tracker.update(epoch, np.eye(2), np.eye(2), [0, 1], ["t0", "t1"], split="test")
            if lambdas is not None:
                tracker.update(epoch, np.eye(2), np.eye(2), [0, 1], ["a", "b"], aldr_lambda=lambdas)
    assert [table.num_columns for _, table in Dynamics.read(tmp_path)] == [12, 13, 13]
    told = Stories(tmp_path, [SCORES["aldr_lambda"]]).of(SCORES["aldr_lambda"], ["a", "b", "t0", "nobody"])
    np.testing.assert_array_equal(told, [0.75, 0.25, np.nan, np.nan])
    with Dynamics(tmp_path / "other") as tracker:
        tracker.update(1, np.eye(2), np.eye(2), [0, 1], ["a", "b"])
        with pytest.raises(InputError, match=r"one aldr_lambda per sample, got shape \(3,\) for 2 samples"):
            tracker.update(1, np.eye(2), np.eye(2), [0, 1], ["a", "b"], aldr_lambda=[1, 2, 3])
    with pytest.raises(InputError, match="other: aldr_lambda is not in its dynamics; .* --loss aldr"):
        Stories(tmp_path / "other", [SCORES["aldr_lambda"]])


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**31))
def test_against_numpy_and_plain_loops(n: int, e: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, other = rng.normal(size=(e, n)) * 5, rng.normal(size=(e, n))
    correct = rng.integers(0, 2, (e, n)).astype(float)
    for name in ("aum", "mean_el2n", "mean_avh", "cartography_confidence"):
        np.testing.assert_allclose(OURS[name].function(values), values.mean(0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(hardsight.scores.mean_angular_gap(values, other), (values - other).mean(0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(hardsight.scores.cartography_variability(values), values.std(0), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(hardsight.scores.cartography_correctness(correct), correct.mean(0), rtol=1e-12)
    for sample in range(n):
        events = sum(1 for t in range(1, e) if correct[t - 1, sample] == 1 and correct[t, sample] == 0)
        first = next((t + 1 for t in range(e) if correct[t, sample] == 1), None)
        assert hardsight.scores.forgetting_events(correct)[sample] == (e if first is None else events)
        assert hardsight.scores.first_epoch_learned(correct)[sample] == (first or e + 1)


def test_variability_keeps_its_digits_far_from_zero() -> None:
    values = 1e8 + np.array([[1.0], [2.0], [3.0], [4.0]])
    assert hardsight.scores.cartography_variability(values)[0] == pytest.approx(1.25**0.5, rel=1e-6)


def tracked(folder: Path, epochs: int = 4, n: int = 30, seed: int = 0) -> dict[str, np.ndarray]:
    """Some epochs of random training, and every column as an (e, n) array by id."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    told = {name: np.full((epochs, n), np.nan) for name in ("logit_margin", "avh", "el2n", "correct", "confidence")}
    with Dynamics(folder) as tracker:
        for epoch in range(epochs):
            order = rng.permutation(n)[: n - epoch]  # each epoch a few less
            features, weight = rng.normal(size=(n, 4)), rng.normal(size=(3, 4))
            for part in np.array_split(order, 3):
                tracker.update(epoch + 1, features[part], weight, labels[part], [f"s{i}" for i in part])
            for name in ("logit_margin", "avh", "el2n", "confidence"):
                told[name][epoch, order] = getattr(hardsight.scores, name)(features, weight, labels)[order]
            told["correct"][epoch, order] = ((features @ weight.T).argmax(1) == labels)[order]
    return told


def test_stories_from_files_are_those_of_the_arrays(tmp_path: Path) -> None:
    told = tracked(tmp_path)
    stories = Stories(tmp_path, OF_ANY_LOSS.values())
    ids = pa.array([f"s{i}" for i in range(30)] + ["stranger"])
    for name in ("aum", "mean_avh", "mean_el2n", "forgetting_events", "first_epoch_learned", "cartography_variability"):
        (column,) = OURS[name].columns
        expected = np.append(OURS[name].function(told[column]), np.nan)
        np.testing.assert_allclose(stories.of(OURS[name], ids), expected, rtol=1e-5, atol=1e-6, err_msg=name)
    shuffled = pa.array(["s7", "s3"])
    np.testing.assert_array_equal(stories.of(OURS["aum"], shuffled), stories.of(OURS["aum"], ids)[[7, 3]])
    with pytest.raises(InputError, match="ids in the dynamics are string, but the requested ones are int64"):
        stories.of(OURS["aum"], pa.array([1, 2]))


def test_aum_is_that_of_its_authors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from aum import AUMCalculator

    torch.manual_seed(0)
    theirs = AUMCalculator(str(tmp_path / "theirs"))
    labels = torch.randint(0, 4, (20,))
    with Dynamics(tmp_path) as tracker:
        for epoch in range(1, 6):
            head, features = torch.nn.Linear(8, 4), torch.randn(20, 8)
            for part in torch.randperm(20).split(6):
                records = theirs.update(head(features[part]).detach(), labels[part], part.tolist())
                tracker.update(epoch, features[part], head, labels[part], part)
    assert records
    mine = Stories(tmp_path, [OURS["aum"]]).of(OURS["aum"], pa.array(range(20)))
    expected = [theirs.sums[i] / theirs.counts[i] for i in range(20)]
    np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-6)


def test_an_id_in_two_splits_has_its_story_in_training(tmp_path: Path) -> None:
    with Dynamics(tmp_path) as tracker:
        tracker.update(1, [[1.0, 0.0]], np.eye(2), [0], ["a"], split="clean")
        tracker.update(1, [[0.0, 1.0]], np.eye(2), [0], ["a"], split="train")
        tracker.update(1, [[1.0, 0.0]], np.eye(2), [0], ["b"], split="test")
    one = OURS["aum"]
    np.testing.assert_array_equal(Stories(tmp_path, [one]).of(one, ["a", "b"]), [-1, 1])
    np.testing.assert_array_equal(Stories(tmp_path, [one], split="clean").of(one, ["a", "b"]), [1, np.nan])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A complete run with 30 samples, a head and dynamics."""
    return made_run(tmp_path / "run", [f"s{i}" for i in range(30)])


def made_run(folder: Path, ids: list[str]) -> Path:
    made = Run(folder, "train", {}, {})
    rng = np.random.default_rng(7)
    part = made.folder("samples") / "part-00000.parquet"
    labels = np.random.default_rng(0).integers(0, 3, 30)
    write_samples(part, rng.normal(size=(30, 4)), {"id": pa.array(ids), "label": pa.array(labels)})
    from hardsight.files.heads import save_head

    save_head(folder / "head.safetensors", hardsight.Head("linear", rng.normal(size=(3, 4)).astype(np.float32)), None)
    tracked(folder)
    made.finish([part], {})
    return folder


def test_they_join_the_table_by_id(run: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    default = score(run)
    assert not set(default.column_names) & set(OURS)
    table = score(run, scores=["avh", "aum", "forgetting_events"])
    assert table.column_names[4:] == ["avh", "aum", "forgetting_events"]
    expected = Stories(run, OF_ANY_LOSS.values())
    ids = table.column("id").combine_chunks()
    for name in ("aum", "forgetting_events"):
        np.testing.assert_array_equal(table.column(name).to_numpy(), expected.of(OURS[name], ids))
    everything = score(run, scores="all")
    assert "aldr_lambda" not in everything.column_names  # of a loss that keeps some
    assert set(OF_ANY_LOSS) <= set(everything.column_names) and set(default.column_names) <= set(everything.column_names)
    assert cli("score", run, "--scores", "all", "--by", "aum", "-o", tmp_path / "all.parquet").code == 0
    assert pq.read_table(tmp_path / "all.parquet").equals(everything.table)
    done = cli("score", run, "--scores", "aum,loss", "--by", "aum")
    assert done.code == 0 and "hardest 10 by aum" in done.out
    halves = [score(run, scores=["aum"], shard=(i, 2)) for i in range(2)]  # a story needs no other rows
    assert pa.concat_tables([half.table for half in halves]).column("aum").equals(table.column("aum"))


def test_a_folder_of_epochs_is_a_snapshot_of_its_mean_probabilities(tmp_path: Path) -> None:
    """By hand: the given and the predicted class as recorded, the rest of each epoch shared by the others."""
    with hardsight.Dynamics(tmp_path) as tracker:
        for epoch, own in ((1, [0.2, 0.7, 0.1]), (2, [0.6, 0.3, 0.1])):
            logits = np.log([own, [0.1, 0.1, 0.8], [0.1, 0.2, 0.7]])
            tracker.update(epoch, logits, np.eye(3), labels=[0, 2, -1], ids=["a", "b", "c"])
            tracker.update(epoch, logits[:1], np.eye(3), labels=[1], ids=["a"], split="val")  # another sample of that name
    snapshot = hardsight.Snapshot.load(tmp_path)
    # a: (0.2, 0.7, 0.1) was wrong and is whole; of (0.6, 0.3, 0.1) the winner is known, and the others share 0.4.
    expected = [[0.4, 0.45, 0.15], [0.1, 0.1, 0.8], [0.0, 0.0, 1.0]]
    np.testing.assert_allclose(snapshot.in_memory().values, expected, atol=1e-6)
    assert snapshot.columns().to_pydict() == {"id": ["a", "b", "c"], "label": [0, 2, None], "split": ["train"] * 3}


def test_epochs_of_an_own_loop_are_cleaned_and_scored(tmp_path: Path, cli: Callable[..., Any]) -> None:
    """No run.json and no features: a folder that Dynamics wrote in a training loop."""
    rng, n = np.random.default_rng(0), 300
    truth, flipped = np.arange(n) % 3, np.arange(0, n, 14)
    labels = truth.copy()
    labels[flipped] = (truth[flipped] + 1) % 3
    ids = np.array([f"img{row}" for row in range(n)])
    with hardsight.Dynamics(tmp_path / "loop") as tracker:
        for epoch in range(1, 6):
            x = epoch * np.eye(3)[truth] + rng.normal(size=(n, 3))
            tracker.update(epoch, x, np.eye(3), labels=labels, ids=ids)
    done = cli("clean", tmp_path / "loop")
    assert done.code == 0 and "evidence: epochs" in done.out and (tmp_path / "loop/suspects.parquet").is_file(), done.err
    table = hardsight.clean(tmp_path / "loop")  # again, with what was written there
    worst = table.sort_by([("error_score", "descending")]).slice(0, len(flipped))
    assert set(worst["id"].to_pylist()) == set(ids[flipped])
    assert worst["suggested_label"].to_pylist() == [truth[int(id[3:])] for id in worst["id"].to_pylist()]
    (tmp_path / "loop/figures").mkdir()
    (tmp_path / "loop/figures/dynamics.png").write_bytes(b"")
    assert cli("score", tmp_path / "loop", "-o", tmp_path / "scores.parquet").code == 0
    scores = hardsight.score(tmp_path / "loop")
    assert "aum" in scores.column_names and "avh" not in scores.column_names
    assert set(scores.hardest("aum", len(flipped))["id"].to_pylist()) == set(ids[flipped])
    with pytest.raises(InputError, match="avh is of one model, and .* holds the epochs of a training alone"):
        hardsight.score(tmp_path / "loop", scores="avh")
    assert hardsight.score(tmp_path / "loop", limit=10).column_names == scores.column_names


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    (r"aum takes \(e, n\) columns of one shape.*logit_margin \(3,\)", lambda: hardsight.scores.aum([1.0, 2.0, 3.0])),
    (r"own_angle \(1, 2\), nearest_angle \(2, 1\)", lambda: hardsight.scores.mean_angular_gap([[1.0, 2.0]], [[1.0], [2.0]])),
    ("el2n must hold numbers", lambda: hardsight.scores.mean_el2n([["a"]])),
    ("aum needs training dynamics, but arrays have none", lambda: score(np.eye(3), np.eye(3), [0, 1, 2], scores=["aum"])),
]


@pytest.mark.parametrize(("match", "ask"), REFUSED)
def test_bad_input(match: str, ask: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=match):
        ask()


def test_a_file_without_dynamics(tmp_path: Path) -> None:
    Snapshot(np.eye(3), np.eye(3), [0, 1, 2]).save(tmp_path / "s.npz")
    with pytest.raises(InputError, match="s.npz has none: score a run of hardsight train"):
        score(tmp_path / "s.npz", scores="aum")
    assert not set(score(tmp_path / "s.npz", scores="all").column_names) & set(OURS)
