"""What is wrong with a picture: by hand, and against CleanVision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageFilter

from hardsight.data.decoding import BrokenImage
from hardsight.data.image_quality import Quality, given_away, look_at


def photograph(seed: int, width: int = 160, height: int = 120) -> Image.Image:
    """Coarse and fine detail in color, as in a photograph."""
    rng = np.random.default_rng(seed)
    layers = [
        np.asarray(Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).resize((width, height)), np.float64)
        for side in (4, 16, 60)
    ]
    return Image.fromarray((layers[0] * 0.5 + layers[1] * 0.3 + layers[2] * 0.2).clip(0, 255).astype(np.uint8))


def darkened(picture: Image.Image, factor: float = 0.15) -> Image.Image:
    return picture.point(lambda value: int(factor * value))


ODD = {
    "dark": darkened(photograph(1)),
    "bright": photograph(2).point(lambda value: min(255, 237 + value // 11)),
    "blurred": photograph(3).filter(ImageFilter.GaussianBlur(6)),
    "low information": Image.new("RGB", (160, 120), (90, 120, 60)),
    "odd aspect": photograph(4, 400, 60),
    "gray": photograph(5).convert("L"),
    "odd size": photograph(6, 1600, 1200),
}


def quality_of(pictures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What is said of each picture, by name."""
    quality = Quality(len(pictures))
    for row, picture in enumerate(pictures.values()):
        quality.see(row, picture)
    return {row["id"]: row for row in quality.table(list(pictures)).to_pylist()}


ORDINARY = {f"ordinary {seed}": photograph(100 + seed) for seed in range(30)}


def test_what_is_odd_is_named_and_the_rest_is_not() -> None:
    found = quality_of({**ORDINARY, **ODD, "broken": BrokenImage("truncated")})
    assert {name: row["issues"] for name, row in found.items() if row["issues"]} == {
        **{name: name for name in ODD},
        "broken": "unreadable",
    }
    assert found["odd size"]["width"] == 1600 and found["broken"]["width"] is None


def test_copies_and_near_copies_name_the_first() -> None:
    first = photograph(0)
    near = first.resize((150, 112)).filter(ImageFilter.GaussianBlur(0.5))
    found = quality_of({**ORDINARY, "first": first, "same": first.copy(), "near": near})
    assert (found["same"]["issues"], found["same"]["copy_of"]) == ("copy", "first")
    assert (found["near"]["issues"], found["near"]["copy_of"]) == ("near copy", "first")
    assert found["first"]["issues"] == ""


def test_blank_pictures_are_no_near_copies_of_each_other() -> None:
    found = quality_of({**ORDINARY, "black": Image.new("RGB", (160, 120)), "white": Image.new("RGB", (160, 120), "white")})
    assert found["black"]["issues"] == "dark, low information" and found["white"]["issues"] == "bright, low information"


def test_gray_or_long_is_nothing_odd_where_many_are() -> None:
    gray = {name: picture.convert("L") for name, picture in ORDINARY.items()}
    assert not any(row["issues"] for row in quality_of(gray).values())
    long = {f"{seed}": photograph(seed, 400, 60) for seed in range(20)}
    assert not any(row["issues"] for row in quality_of(long).values())


def test_measures_by_hand() -> None:
    board = np.indices((8, 8)).sum(axis=0) % 2 * 255  # every pixel differs from its four neighbors
    look = look_at(Image.fromarray(board.astype(np.uint8)))
    assert look.entropy == 1.0 and look.color == 0.0 and look.light == pytest.approx(0.5)
    assert look.sharpness == pytest.approx(64.0)  # the Laplacian is 8 times the distance from the mean
    assert look_at(Image.new("RGB", (4, 4), (255, 0, 0))).light == pytest.approx(np.sqrt(0.241))
    assert look_at(Image.new("RGB", (4, 4), (9, 0, 4))).color == 9.0


def test_a_darkened_class_is_named() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 25)
    light = np.where(labels == 1, rng.uniform(0.1, 0.3, 75), rng.uniform(0.3, 0.8, 75))
    even = {name: rng.uniform(size=75) for name in ("sharpness", "entropy", "color", "width", "height")}
    found = given_away(pa.table({"light": light, **even}), labels)
    assert [(each.label, each.measure, each.auc) for each in found] == [(1, "light", 0.0)]
    assert "dog is darker" in found[0].sentence("dog") and "1.00" in found[0].sentence("dog")
    assert (
        given_away(pa.table({"light": light[:50], **{k: v[:50] for k, v in even.items()}}), np.repeat([0, 1, 2], [40, 5, 5]))
        == []
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_against_cleanvision(tmp_path: Path) -> None:
    """The same pictures are dark, bright, blurred, plain, long and gray for both."""
    pytest.importorskip("cleanvision")
    from cleanvision import Imagelab

    pictures = {**ORDINARY, **ODD, "same": ORDINARY["ordinary 0"]}
    for name, picture in pictures.items():
        picture.save(tmp_path / f"{name}.png")
    lab = Imagelab(data_path=str(tmp_path))
    lab.find_issues(n_jobs=1, verbose=False)
    theirs = {"dark": "dark", "light": "bright", "blurry": "blurred", "low_information": "low information"}
    theirs |= {"odd_aspect_ratio": "odd aspect", "grayscale": "gray", "odd_size": "odd size", "exact_duplicates": "copy"}
    ours = quality_of(pictures)
    for name, issue in theirs.items():
        column = lab.issues[f"is_{name}_issue"]
        flagged = {Path(str(path)).stem for path in column.index[column]}
        mine = {id for id, row in ours.items() if issue in row["issues"].split(", ")}
        if issue == "odd size":  # any other size is odd to them where most are the same
            assert mine <= flagged
        else:  # they flag the first of two copies as well
            assert mine == flagged - ({"ordinary 0"} if issue == "copy" else set()), issue
