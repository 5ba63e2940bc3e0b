"""WebDataset shards: tars whose samples share a key, `key.jpg` and `key.cls`, named one by one or by a pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encoded, tar_of

from hardsight.data import open_data
from hardsight.data.archive import expand_braces
from hardsight.errors import HardsightError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 3), dtype=np.uint8)


def three_shards(folder: Path, classes: list[Any]) -> Path:
    """Two samples in each of train-00.tar to train-02.tar."""
    for number in range(3):
        files: dict[str, bytes] = {}
        for row in (2 * number, 2 * number + 1):
            files |= {f"{row:04d}.png": encoded(PIXELS[row]), f"{row:04d}.json": b"{}"}
            if classes[row] is not None:
                files[f"{row:04d}.cls"] = f"{classes[row]}\n".encode()
        tar_of(folder / f"train-{number:02d}.tar", files)
    return folder / "train-{00..02}.tar"


@pytest.mark.parametrize(
    ("classes", "labels", "names"),
    [
        ([2, 0, 1, 1, 0, 2], [2, 0, 1, 1, 0, 2], None),
        (["dog", "ant", "dog", None, "bee", "ant"], [2, 0, 2, -1, 1, 0], ["ant", "bee", "dog"]),
    ],
)
def test_shards(tmp_path: Path, classes: list[Any], labels: list[int], names: list[str] | None) -> None:
    data = open_data(three_shards(tmp_path, classes))
    assert data.ids == [f"{row:04d}.png" for row in range(6)] and data.columns == {"split": ["train"] * 6}
    assert data.labels is not None and data.labels.tolist() == labels and data.class_names == names
    for row in range(6):
        np.testing.assert_array_equal(np.asarray(data.image(row)), PIXELS[row])
    assert np.asarray(data.take([4]).image(0)).tolist() == PIXELS[4].tolist()
    assert open_data(tmp_path / "train-01.tar").ids == ["0002.png", "0003.png"]


def test_keys_that_shards_share_get_their_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        tar_of(tmp_path / f"{name}.tar", {"0.png": encoded(PIXELS[0]), "0.cls": b"1" if name == "a" else b"0"})
    data = open_data(str(tmp_path / "{a,b}.tar"))
    assert data.ids == ["a/0.png", "b/0.png"] and data.labels is not None and data.labels.tolist() == [1, 0]
    assert open_data(tmp_path / "a.tar").notes == ("Labels look counted from 1: subtract 1.",)


def test_patterns() -> None:
    assert expand_braces("x.tar") == ["x.tar"]
    assert expand_braces("{a,b}-{9..10}.tar") == ["a-9.tar", "a-10.tar", "b-9.tar", "b-10.tar"]


def test_bad_shards(tmp_path: Path) -> None:
    three_shards(tmp_path, [0, 1, 0, 1, 0, 1])
    tar_of(tmp_path / "x.tar", {"0.png": encoded(PIXELS[0]), "0.cls": b"-7"})
    tar_of(tmp_path / "y.tar", {"0.png": encoded(PIXELS[0]), "0.cls": b"1" * 2000})
    (tmp_path / "cut.tar").write_bytes((tmp_path / "train-01.tar").read_bytes()[:700])
    for name, message in {
        "train-{00..03}.tar": "train-03.tar.*which does not exist",
        "{3..1}.tar": r"counts upwards, as in \{000..012\}, got \{3..1\}",
        "x.tar": r"x.tar, class of '0.png': labels must be .* 0 \(-7\)",
        "y.tar": "y.tar: '0.cls' must hold one class, and has 2000 bytes",
        "{train-00,cut}.tar": "cut.tar",
    }.items():
        with pytest.raises(HardsightError, match=message):
            open_data(tmp_path / name)
