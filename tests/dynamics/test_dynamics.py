"""`hardsight.Dynamics`: it writes what a plain loop would, whatever the order and size of the batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hardsight
from hardsight import Dynamics, Head
from hardsight.errors import FileError, InputError, RunError
from hardsight.files.epochs import COLUMNS, moments, read_measures


def by_loop(feature: np.ndarray, logits: np.ndarray, weight: np.ndarray, label: int, center: Any) -> dict[str, Any]:
    """The row of one sample, computed step by step in float64."""
    norm = float(np.sqrt((feature**2).sum()))
    x, vectors = feature - center, weight - center
    angles = [float(np.arccos(np.clip(x @ w / np.linalg.norm(x) / np.linalg.norm(w), -1, 1))) for w in vectors]
    exps = np.exp(logits - logits.max())
    probs = exps / exps.sum()
    others = [k for k in range(len(weight)) if k != label]
    return {
        "own_angle": angles[label],
        "nearest_angle": min(angles[k] for k in others),
        "avh": angles[label] / sum(angles),
        "norm": norm,
        "confidence": probs[label],
        "logit_margin": logits[label] - max(logits[k] for k in others),
        "el2n": float(np.linalg.norm(probs - np.eye(len(weight))[label])),
        "correct": int(np.argmax(logits)) == label,
        "loss": -float(np.log(probs[label])),
    }


def heads(c: int, d: int, rng: np.random.Generator) -> dict[str, Head]:
    weight = rng.normal(size=(c, d)).astype(np.float32)
    return {
        "linear": Head("linear", weight, bias=rng.normal(size=c).astype(np.float32)),
        "cosine": Head("cosine", weight, scale=8.0),
        "angular": Head("angular", weight, scale=4.0),
        "gaussian": Head("gaussian", weight, log_variance=rng.normal(size=d).astype(np.float32) * 0.1),
    }


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rows(folder: Path, epoch: int = 1) -> list[dict[str, Any]]:
    return pq.read_table(folder / "dynamics" / f"epoch={epoch:04d}.parquet").to_pylist()


def test_a_row_by_hand(tmp_path: Path) -> None:
    """One sample at 30, 60 and 150 degrees from three unit class vectors, twice as long as they are."""
    radians = np.deg2rad([30, 0, 90, 180])
    circle = np.stack([np.cos(radians), np.sin(radians)], axis=1)
    with Dynamics(tmp_path) as tracker:
        sums = tracker.update(1, 2 * circle[:1], circle[1:], [0], ["a"])
    assert sums == {
        "n": 1, "correct": 1, "avh": pytest.approx(30 / 240), "norm": pytest.approx(2),
        "loss": pytest.approx(np.log(1 + np.exp(1 - 3**0.5) + np.exp(-2 * 3**0.5))),
    }  # fmt: skip
    (row,) = rows(tmp_path)
    assert list(row) == [*COLUMNS, "predicted"] and row.pop("predicted") == 0
    assert (row["id"], row["split"], row["label"], row["correct"]) == ("a", "train", 0, True)
    expected = {"own_angle": np.pi / 6, "nearest_angle": np.pi / 3, "avh": 0.125, "norm": 2, "logit_margin": 3**0.5 - 1}
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-6), name


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("kind", ["linear", "cosine", "angular", "gaussian"])
def test_every_column_against_a_plain_loop(kind: str, library: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    head = heads(7, 5, rng)[kind]
    features, labels = rng.normal(size=(40, 5)).astype(np.float32), rng.integers(0, 7, 40)
    features[7] = head.weight[labels[7]] * 3  # along its class vector
    logits = head.logits(features.astype(np.float64))
    given: Any = features
    if library == "torch":
        torch = pytest.importorskip("torch")
        tensors = {name: getattr(head, name) for name in ("weight", "bias", "log_variance")}
        tensors = {name: None if array is None else torch.tensor(array, requires_grad=True) for name, array in tensors.items()}
        given, head = torch.tensor(features, requires_grad=True), Head(kind, scale=head.scale, **tensors)  # type: ignore[arg-type]
    with Dynamics(tmp_path) as tracker:
        for part in (slice(0, 16), slice(16, 40)):
            tracker.update(1, given[part], head, labels[part], np.arange(40)[part])
    weight = np.asarray(head.weight.detach() if library == "torch" else head.weight, dtype=np.float64)
    center = weight.mean(0) if kind == "gaussian" else 0.0
    for row in rows(tmp_path):
        i = row["id"]
        expected = by_loop(features[i].astype(np.float64), logits[i], weight, labels[i], center)
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=2e-4, abs=1e-5), (i, name)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_moving_the_space_of_a_gaussian_head_moves_no_column_but_the_norm(library: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    features, means, labels = rng.normal(size=(30, 5)), rng.normal(size=(4, 5)), rng.integers(0, 4, 30)
    recorded = []
    for name, shift in (("here", 0.0), ("there", np.array([3.0, -2.0, 0.5, 7.0, 1.0]))):
        moved, head = features + shift, Head("gaussian", means + shift, log_prior=np.arange(4.0))
        given: Any = moved if library == "numpy" else pytest.importorskip("torch").tensor(moved)
        with Dynamics(tmp_path / name) as tracker:
            tracker.update(1, given, head, labels, range(30))
        recorded.append(rows(tmp_path / name))
    for before, after in zip(*recorded, strict=True):
        for name in set(before) - {"norm"}:
            assert after[name] == (pytest.approx(before[name], rel=1e-6, abs=1e-6) if name != "split" else "train"), name


def test_means_without_a_direction_have_logits_and_no_angles(tmp_path: Path) -> None:
    """Three means on a line: the middle one is the mean of the means. Its rounding errors are no direction."""
    means = np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]], np.float32)
    with Dynamics(tmp_path) as tracker:
        tracker.update(1, means + np.float32(0.01), Head("gaussian", means), [0, 1, 2], range(3))
    assert [(row["correct"], row["avh"]) for row in rows(tmp_path)] == [(True, None)] * 3


def test_an_nn_linear_and_our_losses_are_heads(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from hardsight.losses import AVHLoss

    torch.manual_seed(0)
    features, labels = torch.randn(6, 4), torch.randint(0, 3, (6,))
    linear, loss = torch.nn.Linear(4, 3), AVHLoss(4, 3)
    tracker, before = Dynamics(tmp_path), [x.clone() for x in (features, labels, linear.weight)]
    for head, plain in ((linear, Head("linear", linear.weight, bias=linear.bias)), (loss, loss.head)):
        given = tracker.update(1, features, head, labels, range(6))
        assert given == tracker.update(1, features, plain, labels, range(6))
        assert given["loss"] == pytest.approx(hardsight.scores.loss(features, plain, labels).sum(), rel=1e-5)
    exact = tracker.update(1, features.bfloat16().float(), linear, labels, range(6))
    assert tracker.update(1, features.bfloat16(), linear, labels, range(6)) == exact  # widened
    assert features.grad is None and not features.requires_grad
    assert all(torch.equal(old, new) for old, new in zip(before, (features, labels, linear.weight), strict=True))


def test_bytes_do_not_depend_on_the_order_of_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor on how many rows are queued before they become columns."""
    rng = np.random.default_rng(1)
    head = heads(6, 8, rng)["linear"]
    batches = [(rng.normal(size=(9, 8)), rng.integers(0, 6, 9), [f"s{i}-{k}" for k in range(9)]) for i in range(7)]
    made = []
    for name, enough, order in (("a", 10_000, range(7)), ("b", 1, rng.permutation(7)), ("c", 20, range(6, -1, -1))):
        monkeypatch.setattr("hardsight.dynamics.tracker._Pool.ENOUGH", enough)
        with Dynamics(tmp_path / name) as tracker:
            for i in order:
                features, labels, ids = batches[i]
                tracker.update(1, features, head, labels, ids, split="val" if i % 2 else "train")
        made.append(digest(tmp_path / name / "dynamics" / "epoch=0001.parquet"))
    assert len(set(made)) == 1
    table = pq.read_table(tmp_path / "a" / "dynamics" / "epoch=0001.parquet")
    keys = list(zip(table.column("split").to_pylist(), table.column("id").to_pylist(), strict=True))
    assert keys == sorted(keys) and len(keys) == 63


def test_of_an_id_that_comes_twice_the_first_is_kept(tmp_path: Path) -> None:
    with Dynamics(tmp_path) as tracker:
        tracker.update(1, [[1.0, 0.0], [3.0, 0.0]], np.eye(2), [0, 0], ["a", "a"])
        tracker.update(1, [[5.0, 0.0], [7.0, 0.0]], np.eye(2), [0, 0], ["a", "b"])
        tracker.update(1, [[9.0, 0.0]], np.eye(2), [0], ["a"], split="val")
        tracker.update(1, [[2.0, 0.0], [4.0, 0.0]], np.eye(2), [0, 0], ["a", "a"], split=None)
    found = [(row["split"], row["id"], row["norm"]) for row in rows(tmp_path)]
    assert found == [("train", "a", 1.0), ("train", "b", 7.0), ("val", "a", 9.0), (None, "a", 2.0)]


def test_epochs_finish_by_themselves_and_steps_have_files_of_their_own(tmp_path: Path) -> None:
    with Dynamics(tmp_path) as tracker:
        for epoch in (1, 2):
            for step in (10, 20):
                step += 20 * (epoch - 1)
                tracker.update(epoch, [[1.0, 0.0]], np.eye(2), [0], [step])
                tracker.update(epoch, [[step, 1.0]], np.eye(2), [0], [0], split="test", step=step)
            if epoch == 1:
                assert [path.name for _, path in moments(tmp_path)] == []
                assert [path.name for _, path in moments(tmp_path, steps=True)] == ["step=000010.parquet"]
    assert [path.name for _, path in moments(tmp_path)] == ["epoch=0001.parquet", "epoch=0002.parquet"]
    steps = moments(tmp_path, steps=True)
    assert [(one.epoch, one.step) for one, _ in steps] == [(1, 10), (1, 20), (2, 30), (2, 40)]
    assert [row["id"] for row in rows(tmp_path, 2)] == [30, 40]
    told = json.loads(pq.read_schema(steps[0][1]).metadata[b"hardsight"])
    assert (told["epoch"], told["step"]) == (1, 10)


def test_finish_says_what_it_wrote(tmp_path: Path) -> None:
    tracker = Dynamics(tmp_path)
    assert tracker.finish(1) is None
    tracker.update(3, np.eye(2), np.eye(2), [0, 1], [0, 1])
    with pytest.raises(InputError, match="so far they were int64, now string"):
        tracker.update(3, np.eye(2), np.eye(2), [0, 1], ["a", "b"])
    assert tracker.finish(2) is None and tracker.finish(3, step=1) is None
    assert tracker.finish(3) == tmp_path / "dynamics" / "epoch=0003.parquet"
    assert tracker.finish(3) is None


def test_half_an_epoch_is_not_written_when_training_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Dynamics(tmp_path) as tracker:
        tracker.update(1, np.eye(2), np.eye(2), [0, 1], [0, 1])
        raise ZeroDivisionError
    assert moments(tmp_path) == []


def test_an_epoch_trained_again_replaces_its_file(tmp_path: Path) -> None:
    for scale in (1, 2):
        with Dynamics(tmp_path) as tracker:
            tracker.update(4, scale * np.eye(2), np.eye(2), [0, 1], [0, 1])
    assert [row["norm"] for row in rows(tmp_path, 4)] == [2.0, 2.0]


def test_two_trainings_are_not_mixed(tmp_path: Path) -> None:
    with Dynamics(tmp_path) as tracker:
        for epoch in (1, 2, 3):
            tracker.update(epoch, np.eye(2), np.eye(2), [0, 1], [0, 1])
    with pytest.raises(RunError, match=r"already holds epoch=0003.parquet, and this training is at epoch 2"):
        Dynamics(tmp_path).update(2, np.eye(2), np.eye(2), [0, 1], [0, 1])
    with Dynamics(tmp_path) as tracker:  # going on is fine
        tracker.update(3, np.eye(2), np.eye(2), [0, 1], [0, 1])
        tracker.update(4, np.eye(2), np.eye(2), [0, 1], [0, 1])


def test_rows_without_label_or_direction_keep_what_they_have(tmp_path: Path) -> None:
    features = np.array([[1.0, 1.0], [0.0, 0.0], [np.nan, 1.0], [3.0, 4.0]])
    with Dynamics(tmp_path) as tracker:
        sums = tracker.update(1, features, np.eye(2), [0, 1, 1, -1], list("abcd"))
    assert sums["n"] == 1 and sums["norm"] == pytest.approx(2**0.5)
    fine, zero, broken, unlabeled = rows(tmp_path)
    assert fine["correct"] is True and fine["label"] == 0
    for row in (zero, broken):
        assert row["label"] == 1 and {row[name] for name in COLUMNS[3:]} == {None}
    assert unlabeled["label"] is None and unlabeled["correct"] is None and unlabeled["norm"] == 5.0
    assert {unlabeled[name] for name in COLUMNS[3:] if name != "norm"} == {None}


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_head_that_starts_from_zeros_has_logits_and_no_angles(library: str, tmp_path: Path) -> None:
    features: Any = np.array([[3.0, 4.0]], np.float32)
    head: Any = np.zeros((4, 2), np.float32)
    if library == "torch":
        torch = pytest.importorskip("torch")
        features, head = torch.tensor(features), torch.nn.Linear(2, 4)
        torch.nn.init.zeros_(head.weight)
        torch.nn.init.zeros_(head.bias)
    with Dynamics(tmp_path) as tracker:
        tracker.update(1, features, head, [1], [0])
    (row,) = rows(tmp_path)
    assert row["avh"] is None and row["own_angle"] is None
    assert row["norm"] == 5.0 and row["confidence"] == 0.25 and row["loss"] == pytest.approx(np.log(4), rel=1e-6)


@pytest.mark.parametrize("main", [[], [4, 5, 6, 7, 8, 9]])
def test_processes_gather_their_tables(tmp_path: Path, main: list[int]) -> None:
    """Three processes, one empty and two that share a sample, write the same file as a single process."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(10, 3)), rng.integers(0, 2, 10)
    weight = rng.normal(size=(2, 3))
    parts: list[pa.Table] = []
    for number, at in enumerate(([0, 1, 2, 3, 4], [] if main else [4, 5, 6, 7, 8, 9], main)):
        tracker = Dynamics(tmp_path / "many")
        if at:
            tracker.update(1, features[at], weight, labels[at], at)

        def gather(table: pa.Table, last: bool = number == 2) -> list[pa.Table] | None:
            parts.append(table)
            return parts if last else None

        path = tracker.finish(1, gather=gather)
        assert (path is None) == (number < 2)
    with Dynamics(tmp_path / "one") as tracker:
        tracker.update(1, features, weight, labels, range(10))
    assert [row["id"] for row in rows(tmp_path / "many")] == list(range(10))
    one_measured, many_measured = (read_measures(moments(tmp_path / name)[0][1])["train"] for name in ("one", "many"))
    of_a_head = () if main else ("nc3", "nc4")  # a process without samples has no head
    assert one_measured["measured"] == 10 and many_measured.keys() == one_measured.keys()
    assert all(one_measured[name] == many_measured[name] for name in one_measured if name not in of_a_head)
    for one, many in zip(rows(tmp_path / "one"), rows(tmp_path / "many"), strict=True):
        assert [one[name] for name in COLUMNS[2:]] == pytest.approx([many[name] for name in COLUMNS[2:]], rel=1e-5)


def test_reading_back(tmp_path: Path) -> None:
    with Dynamics(tmp_path) as tracker:
        for epoch in (1, 2, 10):
            tracker.update(epoch, epoch * np.eye(2), np.eye(2), [0, 1], ["a", "b"])
            tracker.update(epoch, np.ones((1, 2)), np.eye(2), [0], ["c"], split="test")
    seen = [(moment.epoch, table.column("norm").to_pylist()) for moment, table in Dynamics.read(tmp_path, split="train")]
    assert seen == [(1, [1.0, 1.0]), (2, [2.0, 2.0]), (10, [10.0, 10.0])]
    (_, table), *_ = Dynamics.read(tmp_path, columns=["id", "avh"], split="test")
    assert table.to_pylist() == [{"id": "c", "avh": 0.5}]
    with pytest.raises(FileError, match="no column 'hardness'"):
        list(Dynamics.read(tmp_path, columns=["hardness"]))
    with pytest.raises(FileError, match="no dynamics here"):
        list(Dynamics.read(tmp_path / "nowhere"))
    with pytest.raises(RunError, match="a file is in the way"):
        Dynamics(tmp_path / "dynamics" / "epoch=0001.parquet")
    (tmp_path / "dynamics" / "epoch=0002.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(FileError, match="epoch=0002.parquet: not a readable Parquet file"):
        list(Dynamics.read(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epoch": 1.5}, "epoch must be a whole number"),
        ({"epoch": -1}, "epoch must not be negative"),
        ({"step": "3"}, "step must be a whole number"),
        ({"features": np.ones(3)}, "features must be two-dimensional"),
        ({"features": np.ones((2, 4))}, "features and weight must have the same number of columns"),
        ({"labels": [0, 2]}, "labels must be 0 to 1"),
        ({"labels": [0]}, "one label per sample"),
        ({"ids": ["a"]}, "one entry per sample"),
        ({"ids": ["a", 1]}, "all strings or all integers"),
        ({"split": 3}, "split must be a word"),
        ({"head": None}, "got NoneType"),
        ({"head": np.array([[np.nan, 0, 0], [0, 1, 0]])}, "weight must be finite"),
    ],
)
def test_bad_batches_are_named_and_leave_nothing(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"epoch": 1, "features": np.eye(2, 3), "head": np.eye(2, 3), "labels": [0, 1], "ids": [0, 1]}
    with Dynamics(tmp_path) as tracker, pytest.raises(InputError, match=message):
        tracker.update(**(arguments | change))
    assert moments(tmp_path) == []


def test_no_torch_is_needed(fresh_python: Callable[..., Any], tmp_path: Path) -> None:
    done = fresh_python(
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, hardsight, hardsight.training\n"
        "with hardsight.Dynamics(sys.argv[1]) as tracker:\n"
        "    tracker.update(1, np.eye(3), np.eye(3), [0, 1, 2], ['a', 'b', 'c'])\n"
        "print(sum(len(table) for _, table in hardsight.Dynamics.read(sys.argv[1])))",
        tmp_path,
    )
    assert done.out == "3\n", done.err


def test_memory_does_not_grow_with_the_epochs(tmp_path: Path) -> None:
    import tracemalloc

    rng = np.random.default_rng(0)
    features, labels, weight = rng.normal(size=(2000, 8)), rng.integers(0, 5, 2000), rng.normal(size=(5, 8))
    peaks = []
    with Dynamics(tmp_path) as tracker:
        for epoch in range(1, 9):
            tracemalloc.start()
            for start in range(0, 2000, 250):
                part = slice(start, start + 250)
                tracker.update(epoch, features[part], weight, labels[part], np.arange(2000)[part])
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert max(peaks[4:]) < 1.2 * max(peaks[1:4])
