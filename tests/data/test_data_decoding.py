"""Every kind of picture comes out upright, RGB and whole, or as BrokenImage with its reason."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import encoded
from PIL import Image

from hardsight.data import BrokenImage, open_data
from hardsight.data.decoding import MAX_PIXELS, REASONS, decode, within
from hardsight.data.files import ImageFiles
from hardsight.errors import FileError
from hardsight.files.places import utf8_name

NOISE = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)


def decoded(content: bytes) -> np.ndarray:
    picture = decode(io.BytesIO(content), "x.png")
    assert picture.mode == "RGB" and type(picture) is Image.Image
    return np.asarray(picture)


def reason(content: bytes) -> str:
    with pytest.raises(BrokenImage, match=r"^x\.png: ") as caught:
        decode(io.BytesIO(content), "x.png")
    assert caught.value.reason in REASONS
    return caught.value.reason


def png_of_size(width: int, height: int) -> bytes:
    """A few bytes that claim to be a gray PNG of any size."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
@pytest.mark.parametrize("keep", [0.4, 0.8])
def test_cut_short(format: str, keep: float) -> None:
    content = encoded(Image.fromarray(NOISE), format)
    found = reason(content[: int(keep * len(content))])
    assert found == "truncated" if format in ("PNG", "JPEG") else found in ("truncated", "unreadable", "not_an_image")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "not_an_image"),
        (b"<!doctype html><html><body>404</body></html>", "not_an_image"),
        (b"#!/bin/sh\necho no\n", "not_an_image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not_an_image"),
        (b"\0" * 100, "not_an_image"),
        (png_of_size(30_000, 30_000), "too_large"),
        (png_of_size(10_000, 10_000), "too_large"),
        (png_of_size(MAX_PIXELS + 1, 1), "too_large"),
    ],
)
def test_no_image_and_bombs(content: bytes, expected: str) -> None:
    assert reason(content) == expected


def test_sixteen_bits_are_scaled_not_clipped() -> None:
    gray = np.array([[0, 257, 32896, 65535]], np.uint16)
    assert decoded(encoded(Image.fromarray(gray)))[0, :, 0].tolist() == [0, 1, 128, 255]
    assert decoded(encoded(Image.fromarray(gray), "TIFF"))[0, :, 2].tolist() == [0, 1, 128, 255]


def test_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decoded(encoded(Image.fromarray(np.array([[0.0, 0.2, 1.0]], np.float32)), "TIFF"))[0, :, 0].tolist() == [0, 51, 255]
    for far in (300.0, -1.0, np.nan):
        assert reason(encoded(Image.fromarray(np.array([[far, 0.5]], np.float32)), "TIFF")) == "unsupported_depth"
    monkeypatch.setattr("hardsight.data.decoding.STRIP", 170)
    values = NOISE[..., 0] / np.float32(255)
    values[-1, -1] = 7  # in the last strip
    assert reason(encoded(Image.fromarray(values), "TIFF")) == "unsupported_depth"


def test_alpha_lies_over_white() -> None:
    half = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    half.putpixel((1, 0), (0, 0, 0, 0))
    expected = [[255, 0, 0], [255, 255, 255]]
    assert decoded(encoded(half))[0].tolist() == expected
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 0, 0])
    palette.putpixel((1, 0), 1)
    assert decoded(encoded(palette, transparency=1))[0].tolist() == expected
    assert decoded(encoded(palette, transparency=b"\xff\x00"))[0].tolist() == expected
    assert decoded(encoded(Image.new("LA", (1, 1), (0, 0))))[0].tolist() == [[255, 255, 255]]


@pytest.mark.parametrize("mode", ["RGB", "1", "L", "P", "YCbCr"])
def test_other_modes(mode: str) -> None:
    format = "JPEG" if mode == "YCbCr" else "PNG"
    found = decoded(encoded(Image.fromarray(NOISE).convert(mode), format))
    assert found.shape == NOISE.shape and (mode != "RGB" or np.array_equal(found, NOISE))


@pytest.mark.parametrize("size", [(1, 1), (1, 100_000), (100_000, 1)])
def test_odd_sizes_and_colors(size: tuple[int, int]) -> None:
    assert decoded(encoded(Image.new("RGB", size, (9, 8, 7)))).shape == (size[1], size[0], 3)
    red = decoded(encoded(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG"))
    assert red[8, 8, 0] > 240 and red[8, 8, 1] < 15 and red[8, 8, 2] < 15


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(format: str, orientation: int) -> None:
    """Pixels are stored turned; a corner marked before must be found where the reader of the tag would see it."""
    upright = np.zeros((16, 32, 3), np.uint8)
    upright[:8, :8] = 255  # top left
    stored = {  # how the upright picture was laid down, by the meaning of the tag
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = decode(io.BytesIO(encoded(Image.fromarray(np.ascontiguousarray(stored)), format, exif=exif)), "x")
    assert np.abs(np.asarray(picture).astype(int) - upright).max() < 90
    assert picture.getexif().get(0x0112) is None  # nobody turns it again


def pictures_of_every_mode() -> dict[str, bytes]:
    """Files whose conversion to RGB takes more than a copy."""
    gray, alpha = Image.fromarray(NOISE[..., 0]), Image.fromarray(NOISE[..., 1])
    palette = Image.fromarray(NOISE).quantize(16)
    return {
        "RGBA": encoded(Image.merge("RGBA", (*Image.fromarray(NOISE).split(), alpha))),
        "LA": encoded(Image.merge("LA", (gray, alpha))),
        "P": encoded(palette),
        "P, transparent": encoded(palette, transparency=3),
        "P, half transparent": encoded(palette, transparency=bytes(range(0, 256, 16))),
        "RGB, one color transparent": encoded(Image.fromarray(NOISE), transparency=tuple(NOISE[7, 9].tolist())),
        "16 bits": encoded(Image.fromarray(NOISE[..., 0].astype(np.uint16) * 257)),
        "floats": encoded(Image.fromarray(NOISE[..., 0] / np.float32(255)), "TIFF"),
        "CMYK": encoded(Image.fromarray(NOISE).convert("CMYK"), "TIFF"),
        "1": encoded(gray.convert("1")),
    }


@pytest.mark.parametrize("kind", pictures_of_every_mode())
def test_strips_of_a_large_picture_are_the_picture(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = pictures_of_every_mode()[kind]
    whole, sizes, convert = decoded(content), list[int](), Image.Image.convert

    def counted(self: Image.Image, *options: Any, **named: Any) -> Image.Image:
        sizes.append(self.width * self.height)
        return convert(self, *options, **named)

    monkeypatch.setattr("hardsight.data.decoding.STRIP", 170)  # three rows of fifty pixels, and one row at the end
    monkeypatch.setattr(Image.Image, "convert", counted)
    assert np.array_equal(decoded(content), whole) and 0 < max(sizes) <= 150


def test_first_frame_of_an_animation() -> None:
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    for format in ("GIF", "WEBP", "PNG"):
        content = encoded(frames[0], format, save_all=True, append_images=frames[1:])
        assert decoded(content)[0, 0].tolist() == pytest.approx([255, 0, 0], abs=3)


def is_an_image_or_broken(content: bytes) -> None:
    try:
        assert decode(io.BytesIO(content), "x").mode == "RGB"
    except BrokenImage as broken:
        assert broken.reason in REASONS


@given(st.binary(max_size=300))
def test_any_bytes_give_an_image_or_broken_image(content: bytes) -> None:
    for prefix in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"BM", b"II*\0", b"P6 "):
        is_an_image_or_broken(prefix + content)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_one_wrong_byte_gives_an_image_or_broken_image(place: int, value: int) -> None:
    for format in ("PNG", "JPEG"):
        content = bytearray(encoded(Image.fromarray(NOISE[:8, :8]), format))
        content[place % len(content)] = value
        is_an_image_or_broken(bytes(content))


def test_broken_image_crosses_processes_whole() -> None:
    broken = pickle.loads(pickle.dumps(BrokenImage("truncated", "a.png", "12 bytes")))
    assert (broken.reason, broken.name, broken.detail) == ("truncated", "a.png", "12 bytes")
    assert isinstance(broken, FileError)


# --- files: links, names, things that are no files


def save(path: Path, color: str = "red") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (3, 2), color).save(path)
    return path


def reason_of(data: object, row: int) -> str:
    with pytest.raises(BrokenImage) as caught:
        data.image(row)  # type: ignore[attr-defined]
    return caught.value.reason


@pytest.mark.parametrize("outside", ["outside", "root2"])  # a sibling may begin with the same letters
def test_link_out_of_the_root_is_refused(tmp_path: Path, outside: str) -> None:
    secret = save(tmp_path / outside / "secret.png")
    save(tmp_path / "root" / "cat" / "1.png")
    (tmp_path / "root" / "cat" / "2.png").symlink_to(secret)
    (tmp_path / "root" / "cat" / "3.png").symlink_to("1.png")
    (tmp_path / "root" / "cat" / "4.png").symlink_to("gone.png")
    (tmp_path / "link").symlink_to("root")
    data = open_data(tmp_path / "link")  # the root itself may be a link
    assert data.image(0).size == data.image(2).size == (3, 2)
    assert [reason_of(data, 1), reason_of(data, 3)] == ["outside_root", "missing"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert reason_of(open_data(tmp_path), 0) == "not_a_file"


def test_missing_and_folder_named_like_an_image(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    save(tmp_path / "file.png")
    images = ImageFiles(os.path.realpath(tmp_path), ["gone.png", "folder.png", "file.png/x.png", "x" * 300 + ".png"])
    assert [reason_of(images, row) for row in range(4)] == ["missing", "not_a_file", "missing", "unreadable"]


@pytest.mark.parametrize("stem", ["two words", "caf\u00e9", "cafe\u0301", "\U0001f600", "new\nline", "a" * 251, "quote'\"", "#1"])
def test_odd_names_work(tmp_path: Path, stem: str) -> None:
    save(tmp_path / "class a" / f"{stem}.png")
    data = open_data(tmp_path)
    assert data.ids == [f"class a/{stem}.png"] and data.image(0).size == (3, 2)


def test_composed_and_decomposed_names_are_two_files(tmp_path: Path) -> None:
    save(tmp_path / "caf\u00e9.png", "red")
    save(tmp_path / "cafe\u0301.png", "blue")
    if len(list(tmp_path.iterdir())) == 1:
        pytest.skip("this file system holds the two names for one")
    data = open_data(tmp_path)
    colors = {id: data.image(row).getpixel((0, 0)) for row, id in enumerate(data.ids)}
    assert colors == {"caf\u00e9.png": (255, 0, 0), "cafe\u0301.png": (0, 0, 255)}


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    try:
        save(tmp_path / "caf\udce9.png")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes only UTF-8 names")
    data = open_data(tmp_path)
    assert data.ids == ["caf\\xe9.png"] and data.image(0).size == (3, 2)
    data.ids[0].encode()  # can be written to any file
    data.fingerprint()


@given(st.text(st.characters(blacklist_categories=()), max_size=20))
def test_utf8_name_never_fails_on_file_names(text: str) -> None:
    name = os.fsdecode(text.encode("utf-8", "surrogatepass"))
    utf8_name(name).encode()


def test_threads_see_the_same_pixels(tmp_path: Path) -> None:
    for k in range(20):
        Image.fromarray(np.full((4, 4, 3), k, np.uint8)).save(tmp_path / f"{k:02}.png")
    data = open_data(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda row: data.image(row).getpixel((0, 0))[0], list(range(20)) * 5))  # type: ignore[index]
    assert seen == list(range(20)) * 5


def smooth(width: int, height: int) -> Image.Image:
    """A picture with edges at the scale of a few pixels of its small version."""
    coarse = np.random.default_rng(1).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def test_a_large_jpeg_is_decoded_no_larger_than_needed() -> None:
    content = encoded(smooth(803, 601), "JPEG", quality=95)
    whole, scaled = (decode(io.BytesIO(content), "x", needed) for needed in (None, within(100)))
    assert whole.size == (803, 601) and whole.info == {}
    assert scaled.size == (201, 151)  # a fourth, rounded up: at least twice as large as needed
    assert scaled.info == {"box": (0, 0, 803 / 4, 601 / 4), "whole": (803, 601)}
    small = [np.asarray(picture.resize((100, 75), box=picture.info.get("box")), np.float64) for picture in (whole, scaled)]
    assert np.abs(small[0] - small[1]).mean() < 1.0


@pytest.mark.parametrize("format", ["PNG", "WEBP", "TIFF"])
def test_other_formats_and_small_pictures_come_whole(format: str) -> None:
    assert decode(io.BytesIO(encoded(smooth(400, 300), format)), "x", within(50)).size == (400, 300)
    jpeg = encoded(smooth(399, 300), "JPEG")
    np.testing.assert_array_equal(np.asarray(decode(io.BytesIO(jpeg), "x", within(100))), decoded(jpeg))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_scaled_and_turned(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(smooth(803, 601), "JPEG", quality=95, exif=exif)
    asked = []

    def needed(width: int, height: int) -> tuple[int, int]:
        asked.append((width, height))
        return (100, 75) if width > height else (75, 100)

    whole, scaled = (decode(io.BytesIO(content), "x", each) for each in (None, needed))
    assert asked == [whole.size] == [scaled.info["whole"]]  # as a person sees it
    small = [np.asarray(picture.resize((90, 90), box=picture.info.get("box")), np.float64) for picture in (whole, scaled)]
    assert np.abs(small[0] - small[1]).mean() < 1.0
