"""`curriculum`, and `train` with a subset or a curriculum: which samples are trained on when, by hand and in real runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hardsight
from hardsight import Snapshot
from hardsight.data.run_images import RunImages
from hardsight.errors import FileError, InputError
from hardsight.training.pacing import Curriculum, Pacing, ordered
from hardsight.training.sets import check_subset_and_curriculum, open_curriculum, subset_rows
from hardsight.training.settings import TrainSettings

Cli = Callable[..., Any]


# ---- order and pacing, by hand ----


@pytest.mark.parametrize(
    "kind, shares",
    [
        ("linear", [0.25, 0.625, 1.0, 1.0]),
        ("root", [0.25, (0.0625 + 0.9375 / 2) ** 0.5, 1.0, 1.0]),
        ("geometric", [0.25, 0.5, 1.0, 1.0]),
        ("step", [0.25, 0.25, 1.0, 1.0]),
    ],
)
def test_pacing_by_hand(kind: str, shares: list[float]) -> None:
    pacing = Pacing(kind, 0.25, 2)
    assert [pacing.share(epoch) for epoch in range(1, 5)] == pytest.approx(shares)
    assert pacing.size(1, 10) == 3 and pacing.size(9, 10) == 10 and Pacing(kind, 1e-9, 2).size(1, 10) == 1
    assert Pacing(kind, 0.25, 0).size(1, 10) == 10  # nothing to grow


def test_samples_are_ranked_within_their_class() -> None:
    hardness, labels = np.array([0.9, 0.8, 0.7, 0.1, 0.2, np.nan]), np.array([0, 0, 0, 1, 1, 1])
    assert ordered(hardness, labels).tolist() == [3, 2, 4, 1, 0, 5]  # in each third one of each class; unknown is hardest
    assert ordered(hardness, labels, hard_first=True).tolist()[:2] == [5, 0]


def test_every_part_holds_the_one_before() -> None:
    rng = np.random.default_rng(0)
    labels, hardness = rng.integers(0, 3, 50), rng.random(50)
    for order in ("easy-first", "hard-first", "random"):
        curriculum = Curriculum(labels, order, Pacing("linear", 0.1, 6), hardness, seed=1)
        parts = [set(curriculum.part(epoch).tolist()) for epoch in range(1, 9)]
        assert all(first <= second for first, second in zip(parts, parts[1:], strict=False))
        assert len(parts[0]) == 5 and len(parts[-1]) == 50
    easy = Curriculum(labels, "easy-first", Pacing("linear", 0.5, 4), hardness).part(1)
    hard = Curriculum(labels, "hard-first", Pacing("linear", 0.5, 4), hardness).part(1)
    assert hardness[easy].max() < hardness[hard].min() + 0.2 and hardness[easy].mean() < 0.35 < 0.6 < hardness[hard].mean()
    again = Curriculum(labels, "random", Pacing("linear", 0.1, 6), seed=1)
    assert again.fingerprint() == Curriculum(labels, "random", Pacing("linear", 0.1, 6), seed=1).fingerprint()
    assert again.fingerprint() != Curriculum(labels, "random", Pacing("linear", 0.1, 6), seed=2).fingerprint()


def test_the_list_says_from_which_epoch() -> None:
    table = pa.table({"id": [7, 8, 9, 10], "confidence": [0.2, 0.9, 0.4, None]})
    planned = hardsight.curriculum(table, by="confidence", epochs=4, pace_start=0.3, pacing="step")
    assert planned.to_pydict() == {
        "id": [8, 9, 7],
        "position": [0, 1, 2],
        "first_epoch": [1, 3, 3],
        "confidence": [0.9, 0.4, 0.2],
    }
    never = hardsight.curriculum(table, by="confidence", epochs=1, pace_start=0.3, order="hard-first", pace_epochs=5)
    assert never.to_pydict()["id"] == [7, 9, 8] and never.to_pydict()["first_epoch"] == [1, None, None]
    random = [hardsight.curriculum(table, by="confidence", order="random", seed=seed).to_pydict()["id"] for seed in range(5)]
    assert len({tuple(ids) for ids in random}) > 1


def test_the_command_writes_what_python_gives(tmp_path: Path, cli: Cli) -> None:
    pq.write_table(pa.table({"id": ["a", "b"], "label": [0, 1], "avh": [0.3, 0.1]}), tmp_path / "scores.parquet")
    done = cli("curriculum", tmp_path / "scores.parquet", "--epochs", 12, "-o", tmp_path / "plan.csv")
    assert done.code == 0 and "order easy-first by avh" in done.out and "and 2 epochs more" in done.out
    assert (tmp_path / "plan.csv").read_text().splitlines()[0] == '"id","position","first_epoch","avh"'
    assert cli("curriculum", tmp_path / "scores.parquet", "--epochs", 12, "-o", tmp_path / "plan.parquet").code == 0
    planned = hardsight.curriculum(tmp_path / "scores.parquet", epochs=12)
    assert pq.read_table(tmp_path / "plan.parquet").equals(planned.table) and planned["id"].to_pylist() == ["b", "a"]


# ---- joined to the data by id ----


def test_a_subset_is_joined_by_id(tmp_path: Path) -> None:
    ids = ["a", "b", "3"]
    assert subset_rows(["3", "a"], ids).tolist() == [0, 2]
    assert subset_rows(pa.table({"id": [3]}), ids).tolist() == [2]
    pq.write_table(pa.table({"id": ["b", "c"], "reason": ["x", "y"]}), tmp_path / "s.parquet")
    with pytest.raises(InputError, match=r"1 of the 2 ids of .*s.parquet are not in the training data \(the first: 'c'\)"):
        subset_rows(tmp_path / "s.parquet", ids)
    (tmp_path / "s.csv").write_text("label,id\ncat,3\ndog,b\n")  # a list of one's own, with classes in words
    assert subset_rows(tmp_path / "s.csv", ids).tolist() == [1, 2]


def test_a_curriculum_is_joined_by_id(tmp_path: Path) -> None:
    labels = np.array([0, 1])
    pq.write_table(pa.table({"id": ["a", "c", "b"], "avh": [0.3, 0.2, 0.1]}), tmp_path / "s.parquet")
    settings = TrainSettings(curriculum=f"{tmp_path / 's.parquet'}:avh", pace_start=0.5, epochs=4)
    opened = open_curriculum(settings, ["a", "b"], np.zeros(2, np.int64))
    assert opened is not None and opened.part(1).tolist() == [1] and opened.part(3).tolist() == [0, 1]
    pq.write_table(pa.table({"id": ["a", "b"], "confidence": [0.3, 0.9]}), tmp_path / "sure.parquet")  # its low end is hard
    opened = open_curriculum(replace(settings, curriculum=f"{tmp_path / 'sure.parquet'}:confidence"), ["a", "b"], 0 * labels)
    assert opened is not None and opened.part(1).tolist() == [1]
    with pytest.raises(InputError, match="1 of the 2 training samples have no avh in .*s.parquet .the first: 'x'"):
        open_curriculum(settings, ["a", "x"], labels)
    for source, error, said in (("s.parquet:loss", InputError, "no column 'loss'"), ("nowhere:avh", FileError, "does not exist")):
        with pytest.raises(error, match=said):
            open_curriculum(TrainSettings(curriculum=f"{tmp_path / source}"), ["a", "b"], labels)
    for text in ("run", ":avh", "run:"):
        with pytest.raises(InputError, match=f"RUN:SCORE.*{text!r}"):
            check_subset_and_curriculum(TrainSettings(curriculum=text))
    assert open_curriculum(TrainSettings(), ["a", "b"], labels) is None


# ---- real runs ----


def points(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds in space, and which one each point is of."""
    labels = np.arange(n) % 3
    return (np.eye(3)[labels] * 2 + np.random.default_rng(0).normal(0, 0.4, (n, 3))).astype(np.float32), labels


def trained(output: Path, data: Any = None, **options: Any) -> dict[str, Any]:
    """A run on the points; what its run.json counts."""
    pytest.importorskip("torch")
    pytest.importorskip("accelerate")

    defaults: dict[str, Any] = {"epochs": 4, "batch_size": 8, "lr": 0.05, "watch": {}}
    hardsight.train(points() if data is None else data, output, model="point_mlp:PointMLP", **{**defaults, **options})
    counts: dict[str, Any] = json.loads((output / "run.json").read_text())["counts"]
    return counts


def ids_of_epoch(run: Path, epoch: int) -> list[str]:
    """Ids of the training samples that an epoch saw, each once."""
    table = pq.read_table(run / "dynamics" / f"epoch={epoch:04d}.parquet").to_pydict()
    ids = [id for id, split in zip(table["id"], table["split"], strict=True) if split == "train"]
    assert len(set(ids)) == len(ids)
    return ids


def test_train_on_a_subset_by_a_curriculum(tmp_path: Path, cli: Cli, undrawn: None) -> None:
    """Only the samples that `select` wrote, the easier of every class first, with the data's columns, by which it is audited."""
    pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    inputs, labels = points()
    camera, age = np.array(["left", "right"] * 30), np.arange(60)
    np.savez(tmp_path / "x.npz", features=inputs, labels=labels, camera=camera, age=age, logits_of=np.ones((60, 2)))
    teacher = Snapshot(inputs, np.eye(3, dtype=np.float32), labels)
    teacher.save(tmp_path / "teacher.npz")
    subset, run = tmp_path / "subset.parquet", tmp_path / "easy"
    assert cli("select", tmp_path / "teacher.npz", "--budget", 30, "--method", "balanced", "-o", subset).code == 0
    ids = sorted(pq.read_table(subset)["id"].to_pylist())
    words = ["--subset", subset, "--curriculum", f"{tmp_path / 'teacher.npz'}:avh", "--pace-start", 0.5, "--pace-epochs", 2]
    words += ["--epochs", 3, "--batch-size", 8, "--lr", 0.05, "--watch", "none"]
    done = cli("train", tmp_path / "x.npz", "--model", "point_mlp:PointMLP", *words, "-o", run)
    assert done.code == 0, done.err
    counts = json.loads((run / "run.json").read_text())["counts"]
    assert counts["samples"] == {"train": 30}
    assert [len(ids_of_epoch(run, epoch)) for epoch in (1, 2, 3)] == [15, 23, 30]
    hardness = hardsight.score(teacher, scores=["avh"]).column("avh").to_numpy()
    expected = [row for label in range(3) for row in sorted((row for row in ids if row % 3 == label), key=hardness.item)[:5]]
    assert sorted(map(int, ids_of_epoch(run, 1))) == sorted(expected)  # the easier half of every class
    start = json.loads((run / "start.json").read_text())
    assert start["inputs"]["curriculum"]["order"] == "easy-first" and start["arguments"]["pace_start"] == 0.5
    columns = Snapshot.load(run).columns().to_pydict()
    assert sorted(columns["age"]) == ids and columns["age"] == [int(id) for id in columns["id"]]
    assert columns["camera"] == [camera[age] for age in columns["age"]] and "logits_of" not in columns
    with pytest.warns(UserWarning, match="trained on"):
        groups = hardsight.audit(run, group="camera").to_pylist()
    assert {row["group"]: row["n"] for row in groups} == {side: columns["camera"].count(side) for side in ("left", "right")}
    control = trained(tmp_path / "random", subset=ids, order="random", pace_start=0.5, epochs=3, pace_epochs=2, snapshot=False)
    assert control["steps"] == counts["steps"] == 2 + 3 + 4


def test_self_paced_takes_what_the_network_finds_easy(tmp_path: Path) -> None:
    trained(tmp_path / "run", order="self-paced", pace_start=0.5, epochs=2, pace_epochs=3, at_start=True, snapshot=False,
            watch={"same": (*points(), [f"w{row}" for row in range(60)])})  # fmt: skip
    before = pq.read_table(tmp_path / "run" / "dynamics" / "epoch=0000.parquet").to_pydict()
    loss = {int(id[1:]): value for id, value in zip(before["id"], before["loss"], strict=True)}
    first = sorted(map(int, ids_of_epoch(tmp_path / "run", 1)))
    labels = np.arange(60) % 3
    expected = [row for label in range(3) for row in sorted(np.flatnonzero(labels == label), key=lambda row: loss[int(row)])[:10]]
    assert first == sorted(map(int, expected))


def test_columns_of_images_and_of_watched_sets_go_together(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from hardsight.training.results import column_types

    class Set:
        def __init__(self, **columns: list[Any]) -> None:
            self.columns = columns

    types = column_types([Set(age=[1, None], who=["a", "b"], path=["x", "y"]), Set(age=[0.5], who=[3], other=[None])])  # type: ignore[list-item]
    assert types == {"age": pa.float64(), "who": pa.string(), "other": pa.null()}
    from PIL import Image

    for row in range(8):
        Image.fromarray(np.full((8, 8), 30 * row, np.uint8)).save(tmp_path / f"{row}.png")
    lines = [f"{row}.png,{row % 2},{'train' if row < 6 else 'test'},night,{row}" for row in range(8)]
    (tmp_path / "images.csv").write_text("path,label,split,scene,level\n" + "\n".join(lines) + "\n")

    hardsight.train(
        str(tmp_path / "images.csv"), tmp_path / "run", model="DigitsCNN", epochs=1, batch_size=4, degradations=["contrast=0.3"]
    )
    table = Snapshot.load(tmp_path / "run").columns(["id", "split", "scene", "level", "path"])
    assert table.column("scene").to_pylist() == ["night"] * 10 and len(table) == 6 + 2 * 2
    assert set(table.column("level").to_pylist()) == {None, 0.3}  # a reserved name: ours stays
    images = RunImages(json.loads((tmp_path / "run" / "start.json").read_text())["sources"], tmp_path / "run")
    assert [images.find(None, f"{row}.png").convert("L").getpixel((0, 0)) for row in (5, 7)] == [150, 210]  # of both splits


# ---- the sampler ----


def test_the_sampler_goes_by_the_same_parts() -> None:
    pytest.importorskip("torch")
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from hardsight.subsets import CurriculumSampler

    hardness, labels = np.random.default_rng(0).random(40), np.arange(40) % 2
    sampler = CurriculumSampler(hardness, 4, labels, pace_start=0.25, pacing="root")
    expected = Curriculum(labels, "easy-first", Pacing("root", 0.25, 2), hardness)
    loader = DataLoader(TensorDataset(torch.arange(40)), batch_size=7, sampler=sampler)
    for epoch in range(1, 5):
        size = len(sampler)
        rows = [int(row) for (batch,) in loader for row in batch]
        assert sorted(rows) == sorted(expected.part(epoch).tolist()) and len(rows) == size
    sampler.set_epoch(0)  # counted from 0, as torch's samplers and Lightning do
    first = list(sampler)
    assert sorted(first) == sorted(expected.part(1).tolist()) and sampler.epoch == 1
    sampler.set_epoch(0)
    assert list(sampler) == first
    paced = CurriculumSampler(np.arange(4.0), 4, order="self-paced", pace_start=0.5)
    assert sorted(paced) == [0, 1]
    paced.update(np.arange(4.0)[::-1])
    paced.set_epoch(0)
    assert sorted(paced) == [2, 3]


# ---- bad input ----


def test_bad_input() -> None:
    pytest.importorskip("torch")
    from hardsight.subsets import CurriculumSampler

    paced = CurriculumSampler(np.arange(4.0), 4, order="self-paced", pace_start=0.5)
    for said, ask in {
        "hardness must have 4 numbers": lambda: paced.update(np.arange(3.0)),
        "epoch must not be negative": lambda: paced.set_epoch(-1),
        "epochs must be at least 1": lambda: CurriculumSampler(np.arange(3.0), 0),
        "one number per sample": lambda: CurriculumSampler(np.eye(2), 2),
        "there is no option 'pase'": lambda: CurriculumSampler(np.arange(3.0), 2, pase=1),
        "holds no ids": lambda: subset_rows([], ["a"]),
        "needs a column id, and it has name": lambda: subset_rows(pa.table({"name": ["a"]}), ["a"]),
        "self-paced .* uses no score": lambda: check_subset_and_curriculum(
            TrainSettings(order="self-paced", curriculum="run:avh")
        ),
        "--pace-start goes with a curriculum: give --curriculum RUN:SCORE": lambda: TrainSettings(pace_start=0.5),
        "subset and limit both choose": lambda: TrainSettings(subset="s.parquet", limit=3),
    }.items():
        with pytest.raises(InputError, match=said):
            ask()
