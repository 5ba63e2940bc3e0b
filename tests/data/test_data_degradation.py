"""Degradations: by hand, and the laws that hold for all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hardsight.data import Degradation, degrade, degraded_id, parse_degradations
from hardsight.data.degradation import LARGEST, NEUTRAL
from hardsight.errors import InputError

PHOTO = Image.fromarray(np.random.default_rng(1).integers(0, 256, (24, 30, 3), dtype=np.uint8))

degradations = st.sampled_from(sorted(NEUTRAL)).flatmap(
    lambda kind: st.builds(Degradation, st.just(kind), st.floats(0, LARGEST.get(kind, 3.0)))
)
images = st.builds(
    lambda shape, seed: Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)),
    st.sampled_from([(1, 1), (1, 9), (5, 4), (5, 4, 3), (1, 1, 3)]),
    st.integers(0, 99),
)


def test_parse() -> None:
    found = parse_degradations(["contrast=0.1,1.0", " noise = 0"])
    assert found == [Degradation("contrast", 0.1), Degradation("contrast", 1.0), Degradation("noise", 0.0)]
    assert degraded_id("cat/1.png", found[0]) == "cat/1.png#contrast=0.1"
    assert parse_degradations([]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fog=0.1", "one of contrast, noise, blur, sharpness, brightness, got 'fog'"),
        ("contrast", "written kind=level"),
        ("contrast=", "written kind=level"),
        ("contrast=0.1,high", "must be a number, got 'high'"),
        ("contrast=0.1,,0.2", "must be a number, got ''"),
        ("contrast=-1", "contrast level must be 0 or more, got -1"),
        ("noise=1.5", "noise level must be from 0 to 1, got 1.5"),
        ("contrast=nan", "0 or more, got nan"),
        ("contrast=inf", "0 or more, got inf"),
        ("contrast=0.1,0.10", "contrast=0.1 is repeated"),
    ],
)
def test_parse_errors(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_degradations([text])


def test_contrast_by_hand() -> None:
    image = Image.fromarray(np.array([[0, 200]], np.uint8))  # mean gray 100
    halved = degrade(image, Degradation("contrast", 0.5), "x")
    assert np.asarray(halved).tolist() == [[50, 150]]
    assert np.asarray(degrade(image, Degradation("contrast", 0.0), "x")).tolist() == [[100, 100]]


def test_noise_is_uniform_of_the_asked_width() -> None:
    gray = Image.new("RGB", (200, 200), (128, 128, 128))
    change = np.asarray(degrade(gray, Degradation("noise", 0.2), "x")).astype(float) - 128
    assert np.abs(change).max() == 51  # 0.2 * 255
    assert change.mean() == pytest.approx(0, abs=0.6)
    assert change.std() == pytest.approx(51 / np.sqrt(3), rel=0.01)  # of U(-51, 51)
    assert not np.array_equal(change[..., 0], change[..., 1])
    white = np.asarray(degrade(Image.new("L", (50, 50), 255), Degradation("noise", 0.5), "x"))
    assert white.max() == 255 and 0.4 < (white == 255).mean() < 0.6  # clipped


def test_noise_is_pinned() -> None:
    """Three pixels written down once: a NumPy or Pillow that draws others would change everybody's results."""
    noisy = degrade(Image.new("L", (3, 1), 128), Degradation("noise", 0.4), "cat/1.png")
    assert np.asarray(noisy).tolist() == [[222, 35, 87]]
    gray = Image.new("L", (8, 8), 128)
    seen = {degrade(gray, Degradation("noise", level), id).tobytes() for id in ("a", "b") for level in (0.1, 0.2)}
    assert len(seen) == 4
    with pytest.raises(InputError, match="must be RGB or L, got mode CMYK"):
        degrade(Image.new("CMYK", (2, 2)), Degradation("noise", 0.1), "x")


def test_blur_is_relative_to_the_shorter_side() -> None:
    dot = np.zeros((64, 96), np.uint8)
    dot[32, 48] = 255
    small = np.asarray(degrade(Image.fromarray(dot), Degradation("blur", 0.05), "x")).astype(float)
    rows = np.arange(64) - 32
    spread = np.sqrt((small.sum(1) * rows**2).sum() / small.sum())
    assert spread == pytest.approx(0.05 * 64, rel=0.25)  # rounding to 8 bits cuts the tails


def test_brightness_and_sharpness() -> None:
    assert np.asarray(degrade(Image.new("L", (2, 2), 100), Degradation("brightness", 0.5), "x")).tolist() == [[50, 50], [50, 50]]
    flat, sharp = (np.asarray(degrade(PHOTO, Degradation("sharpness", level), "x")).astype(float).std() for level in (0.0, 2.0))
    assert flat < np.asarray(PHOTO).astype(float).std() < sharp


@given(images, degradations, st.text(max_size=5))
def test_size_and_mode_stay_and_result_is_the_same_twice(image: Image.Image, degradation: Degradation, id: str) -> None:
    before = image.tobytes()
    once, twice = degrade(image, degradation, id), degrade(image.copy(), degradation, id)
    assert once.size == image.size and once.mode == image.mode
    assert once.tobytes() == twice.tobytes() and image.tobytes() == before


@given(images, st.sampled_from(sorted(NEUTRAL)))
def test_neutral_level_is_the_identity_and_near_it_is_near(image: Image.Image, kind: str) -> None:
    assert degrade(image, Degradation(kind, NEUTRAL[kind]), "x").tobytes() == image.tobytes()
    near = degrade(image, Degradation(kind, NEUTRAL[kind] + 1e-4), "x")
    assert np.abs(np.asarray(near).astype(int) - np.asarray(image).astype(int)).max() <= 1


@given(st.randoms())
def test_order_does_not_matter(order: random.Random) -> None:
    jobs = [(id, degradation) for id in "abc" for degradation in parse_degradations(["noise=0.1,0.3", "contrast=0.5"])]
    alone = {job: degrade(PHOTO, job[1], job[0]).tobytes() for job in jobs}
    order.shuffle(jobs)
    assert {job: degrade(PHOTO, job[1], job[0]).tobytes() for job in jobs} == alone


@given(degradations)
def test_text_and_back(degradation: Degradation) -> None:
    assert parse_degradations([str(degradation)]) == [degradation]
