"""`extract --passes`: mirrored images and dropout draws as separate snapshots, and their use in `correlate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

torch = pytest.importorskip("torch")

from torch import nn

import hardsight
import hardsight.extraction.extract as extracting
from hardsight.data import ImageData, open_data
from hardsight.errors import HardsightError, InputError
from hardsight.extraction import parts as part_sizes
from hardsight.files.samples import write_samples
from hardsight.files.verify import verify
from hardsight.snapshot import Snapshot
from hardsight.stats.uncertainty import pass_scores

N = 40


def network(p: float = 0.5) -> nn.Sequential:
    """Its features are the pixels, half of them dropped in each draw."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Dropout(p), nn.Linear(64, 10))


def digits() -> ImageData:
    return open_data("digits").take(np.arange(N))


def extracted(output: Path, **options: Any) -> Snapshot:
    settings = {"passes": "flip,dropout=3", "batch_size": 8, "device": "cpu", "workers": 1, **options}
    return hardsight.extract(network(), digits(), output, preprocessing={"channels": "L", "size": (8, 8)}, **settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("passes") / "run"
    extracted(output)
    return output


def test_each_view_is_a_snapshot_of_the_same_samples(run: Path) -> None:
    plain, views = Snapshot.load(run), sorted((run / "passes").iterdir())
    assert [view.name for view in views] == ["dropout-00", "dropout-01", "dropout-02", "flip"]
    pixels = np.asarray(plain.in_memory().values)
    for view in views:
        snapshot = Snapshot.load(view)
        assert snapshot.columns(["id", "label"]).equals(plain.columns(["id", "label"]))
        assert np.array_equal(np.asarray(snapshot.head.weight), np.asarray(plain.head.weight))  # type: ignore[union-attr]
    flip, *draws = (np.asarray(Snapshot.load(view).in_memory().values) for view in (views[3], *views[:3]))
    assert np.array_equal(flip, pixels.reshape(N, 8, 8)[:, :, ::-1].reshape(N, 64))
    for draw in draws:
        assert np.all((draw == 0) | np.isclose(draw, 2 * pixels))  # a half is dropped, the rest is twice as large
        assert 0.4 < np.mean(draw[pixels > 0] == 0) < 0.6
    assert not np.array_equal(draws[0], draws[1])
    dropped = draws[0] == 0
    assert not np.array_equal(dropped[:8], dropped[8:16])  # another draw for another batch
    assert not verify(run).damaged and "passes/flip/samples/part-00000.parquet" in verify(run).sound
    assert not verify(run / "passes" / "flip").damaged


def test_an_interrupted_run_ends_with_the_same_bytes(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extracting, "images_per_part", lambda *_: 16)
    extracted(tmp_path / "whole")
    write, written = write_samples, 0

    def failing(*args: Any, **kwargs: Any) -> int:
        nonlocal written
        written += 1
        if written == 7:  # in the middle of the second part, after two of its views
            raise KeyboardInterrupt
        return write(*args, **kwargs)

    monkeypatch.setattr(extracting, "write_samples", failing)
    with pytest.raises(KeyboardInterrupt):
        extracted(tmp_path / "again")
    monkeypatch.setattr(extracting, "write_samples", write)
    extracted(tmp_path / "again")
    files = [path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*.parquet")]
    assert len(files) == 3 * 5
    for name in files:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    with pytest.raises(hardsight.errors.RunError, match="passes was"):
        extracted(tmp_path / "again", passes="flip")


def test_views_of_a_part_fit_where_the_features_of_one_did(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(part_sizes, "rows_per_part", lambda _: 50)
    extracted(tmp_path / "run")  # four views beside the images: ten images are fifty rows
    assert len(list((tmp_path / "run" / "samples").iterdir())) == N // 10


def test_correlate_reads_the_directory_of_passes(run: Path) -> None:
    plain = Snapshot.load(run)
    views = [Snapshot.load(path) for path in sorted((run / "passes").glob("dropout-*"))]  # flip is no draw of dropout
    probs = np.stack([softmax(np.asarray(v.head.logits(v.in_memory().values), np.float64), axis=1) for v in views])  # type: ignore[union-attr]
    few: dict[str, Any] = {"against": "passes_information", "replicates": 20, "permutations": 20}
    found = hardsight.correlate(run, passes=run / "passes", **few)
    mean = probs.mean(0)
    entropy = lambda p: -(p * np.log(np.maximum(p, 1e-300))).sum(-1)  # noqa: E731
    expected = {
        "passes_entropy": entropy(mean),
        "passes_aleatoric": entropy(probs).mean(0),
        "passes_information": entropy(mean) - entropy(probs).mean(0),
        "passes_variance": probs.var(0).sum(1),
    }
    told = found.models[0].columns()
    for name, values in expected.items():
        assert np.allclose(told.column(name).to_numpy(), values, atol=1e-5)
        assert np.allclose(pass_scores(probs)[name], values, atol=1e-7)
    assert "passes_information" not in found.main[0].scores and "passes_aleatoric" in found.main[0].scores
    rows = np.arange(N)[::-1][:30]  # fewer samples, in another order: joined by id
    few_rows = hardsight.correlate(plain.take(rows), passes=[str(run / "passes")], **few).models[0].columns()
    assert np.allclose(few_rows.column("passes_variance").to_numpy(), expected["passes_variance"][rows], atol=1e-5)


@pytest.mark.parametrize("passes", ["flop", "dropout", "dropout=0", "flip,flip"])
def test_odd_passes_are_refused(passes: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"passes must be .*got '{passes}'"):
        extracted(tmp_path / "run", passes=passes)
    gray: Any = {"preprocessing": {"channels": "L", "size": (8, 8)}, "device": "cpu"}
    with pytest.raises(InputError, match="no dropout layer that drops anything"):
        hardsight.extract(network(p=0.0), digits(), tmp_path / "run", passes="dropout=2", **gray)
    assert not (tmp_path / "run").exists()
    (tmp_path / "empty").mkdir()
    for name, message in (("empty", "holds no snapshots"), ("none", "does not exist")):
        with pytest.raises(HardsightError, match=message):
            hardsight.correlate(Snapshot(np.eye(4), np.eye(4), np.arange(4)), passes=tmp_path / name, against="label")
