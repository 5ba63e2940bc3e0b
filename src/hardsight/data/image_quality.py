"""The quality of pictures, measured while they are decoded for a network: Pillow and NumPy, a few milliseconds each.

    dark              hardly a pixel is bright: the 99th percentile of brightness is below 0.32
    bright            hardly a pixel is not white: the 5th percentile of brightness is above 0.95
    blurred           edges are weak for the contrast of the picture: see `Look.sharpness`
    low information   below 3 bits of entropy: an even surface, a black or a blank picture
    odd size          far larger or smaller than the others: a factor of two and three quartile distances
    odd aspect        more than 2.8 times as long as wide, or the reverse, where the others are not
    gray              no color, where at least nine in ten of the others have some
    copy              the same pixels as a picture before it
    near copy         the same perceptual hash (pHash, Zauner 2010) as a picture before it
    unreadable        it could not be decoded

A class that one of the measures gives away is named, too: a network may have learned the light and not the thing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from hardsight.data.decoding import WHOLE, BrokenImage
from hardsight.stats.open_set import auroc

SIDE = 128  # longest side of what is measured
HASHED, BITS = 32, 8  # side of the picture that pHash transforms, and of the part of the transform that it keeps
DARK, BRIGHT, BLURRED, PLAIN, LONG, COLORLESS = 0.32, 0.95, 0.01, 3.0, 0.35, 2.0
FAR_OUT, FACTOR = 3.0, 2.0  # quartile distances, and times, beyond the quartiles: an odd size
USUAL = 0.1  # of all pictures: from this share on, a long or gray picture is nothing odd
GIVES_AWAY, MEMBERS = 0.9, 20  # area under the ROC curve of a measure for a class, and pictures of it, from which it is named
ISSUES = ("unreadable", "copy", "near copy", "dark", "bright", "blurred", "low information", "odd size", "odd aspect", "gray")


@dataclass(frozen=True)
class Look:
    """What is measured of one picture."""

    width: int
    height: int
    light: float  # mean brightness in [0, 1], as people perceive it
    darkest: float  # 5th percentile of it
    brightest: float  # 99th percentile of it
    entropy: float  # bits per pixel of the gray picture
    sharpness: float  # variance of the Laplacian over that of the picture: 20 for white noise, about 0.2 for photographs
    color: float  # mean difference between the largest and the smallest channel, in gray levels
    pixels: str  # hash of all of them
    phash: int  # 64 bits that similar pictures share


LOOKS = pa.schema([(f.name, {"int": pa.int32(), "float": pa.float64(), "str": pa.string()}[str(f.type)]) for f in fields(Look)])
LOOKS = LOOKS.set(LOOKS.get_field_index("phash"), pa.field("phash", pa.uint64()))


SEEN = np.array([0.241, 0.691, 0.068], np.float32)  # how bright red, green and blue are for people


def look_at(picture: Image.Image) -> Look:
    """Measure one RGB or gray picture, as it was decoded.

    Example:
        >>> look = look_at(Image.new("RGB", (300, 100), "white"))
        >>> look.width, round(look.light, 3), look.entropy, look.color
        (300, 1.0, 0.0, 0.0)
    """
    width, height = picture.info.get(WHOLE, picture.size)
    small = picture.convert("RGB") if picture.mode != "RGB" else picture
    if max(small.size) > SIDE:
        ratio = SIDE / max(small.size)
        width_small, height_small = (max(1, round(ratio * side)) for side in small.size)
        small = small.resize((width_small, height_small), Image.Resampling.BILINEAR, reducing_gap=2.0)
    gray = small.convert("L")
    pixels = np.asarray(small, np.float32)  # (h, w, 3)
    channels = np.moveaxis(pixels, 2, 0).copy()  # (3, h, w): over a last axis of 3, `ptp` takes half of all the time
    # perceived (HSP color model); as a matrix product, each of the threads that decode would start threads of BLAS
    brightness = np.sqrt((SEEN[:, None, None] * (channels / 255) ** 2).sum(axis=0))  # (h, w)
    darkest, brightest = np.percentile(brightness, [5, 99])
    return Look(
        int(width), int(height), float(brightness.mean()), float(darkest), float(brightest), abs(gray.entropy()),
        _sharpness(np.asarray(gray, np.float32)), float(np.ptp(channels, axis=0).mean()), _hash(picture), _phash(gray),
    )  # fmt: skip


def _sharpness(gray: np.ndarray) -> float:
    """Variance of the Laplacian of an (h, w) picture over its own: the weight of fine detail, whatever the contrast."""
    if min(gray.shape) < 3:
        return float("nan")
    inner = gray[1:-1, 1:-1]
    laplacian = gray[:-2, 1:-1] + gray[2:, 1:-1] + gray[1:-1, :-2] + gray[1:-1, 2:] - 4 * inner
    spread = float(gray.var())
    return float(laplacian.var()) / spread if spread > 0 else float("nan")


def _hash(picture: Image.Image) -> str:
    return hashlib.sha1(picture.tobytes() + repr((picture.mode, picture.size)).encode(), usedforsecurity=False).hexdigest()


_COSINES = np.cos(np.pi * np.arange(BITS)[:, None] * (2 * np.arange(HASHED) + 1) / (2 * HASHED))  # (8, 32) of a DCT-II


def _phash(gray: Image.Image) -> int:
    """Which of the 64 lowest frequencies are above their median."""
    pixels = np.asarray(gray.resize((HASHED, HASHED), Image.Resampling.LANCZOS), np.float64)
    low = _COSINES @ pixels @ _COSINES.T  # (8, 8)
    return int.from_bytes(np.packbits(low > np.median(low)).tobytes(), "big")


class Quality:
    """The looks of n pictures, filled in any order and by several threads; `see` is called with each as it is decoded."""

    def __init__(self, count: int) -> None:
        self.looks: list[Look | BrokenImage | None] = [None] * count

    def see(self, row: int, picture: Image.Image | BrokenImage) -> None:
        """Measure the picture of one row, or remember that it is broken."""
        if self.looks[row] is None:
            self.looks[row] = picture if isinstance(picture, BrokenImage) else look_at(picture)

    @property
    def unseen(self) -> list[int]:
        """Rows that were not decoded, as those of a part that an interrupted run had written."""
        return [row for row, look in enumerate(self.looks) if look is None]

    def table(self, ids: Sequence[str]) -> pa.Table:
        """One row per picture that was seen: id, what was measured, and `issues`; see `read_issues`."""
        seen = [row for row, look in enumerate(self.looks) if look is not None]
        looks = [look if isinstance(look, Look) else None for look in (self.looks[row] for row in seen)]
        columns = {name: pa.array([None if look is None else getattr(look, name) for look in looks], LOOKS.field(name).type)
                   for name in LOOKS.names}  # fmt: skip
        table = pa.table({"id": pa.array([ids[row] for row in seen], pa.string()), **columns})
        issues, twins = _issues(table)
        table = table.append_column("issues", pa.array([", ".join(each) for each in issues], pa.string()))
        return table.append_column("copy_of", pa.array(twins, pa.string()))


def _issues(table: pa.Table) -> tuple[list[list[str]], list[str | None]]:
    """What is wrong with each picture, in the order of `ISSUES`, and the id of the first picture that it repeats."""
    x = {name: table.column(name).to_numpy(zero_copy_only=False).astype(np.float64) for name in LOOKS.names
         if name not in ("pixels", "phash")}  # fmt: skip
    long = np.minimum(x["width"], x["height"]) / np.maximum(x["width"], x["height"])
    plain = x["entropy"] < PLAIN
    with np.errstate(invalid="ignore"):
        flags = {
            "unreadable": np.isnan(x["width"]),
            "dark": x["brightest"] < DARK,
            "bright": x["darkest"] > BRIGHT,
            "blurred": (x["sharpness"] < BLURRED) & ~plain,
            "low information": plain,
            "odd size": _far_out(np.sqrt(x["width"] * x["height"])),
            "odd aspect": _unusual(long < LONG),
            "gray": _unusual((x["color"] < COLORLESS) & ~plain),
        }
    same = _firsts(table.column("pixels").to_pylist())
    hashes = table.column("phash").to_pylist()
    alike = _firsts([None if flags["low information"][row] else hash for row, hash in enumerate(hashes)])
    flags |= {"copy": same >= 0, "near copy": (alike >= 0) & (same < 0)}
    ids, first = table.column("id").to_pylist(), np.where(same >= 0, same, alike)
    issues = [[name for name in ISSUES if flags[name][row]] for row in range(len(table))]
    return issues, [None if row < 0 else ids[row] for row in first.tolist()]


def _far_out(size: np.ndarray) -> np.ndarray:
    """(n,) whether a size is far from the others, on a logarithmic scale."""
    known = np.log(size[np.isfinite(size)])
    if len(known) == 0:
        return np.zeros(len(size), bool)
    low, high = np.quantile(known, [0.25, 0.75])
    spare = max(FAR_OUT * (high - low), np.log(FACTOR))
    return np.asarray((np.log(size) > high + spare) | (np.log(size) < low - spare))


def _unusual(flagged: np.ndarray) -> np.ndarray:
    """The same flags, or none of them where they hold for many pictures."""
    return flagged if flagged.mean() < USUAL else np.zeros_like(flagged)


def _firsts(values: list[Any]) -> np.ndarray:
    """(n,) the first row with the same value, -1 for that row itself and for None."""
    first: dict[Any, int] = {}
    rows = [-1 if value is None else first.setdefault(value, row) for row, value in enumerate(values)]
    return np.array([-1 if earlier == row else earlier for row, earlier in enumerate(rows)], np.int64)


MEASURES = {  # a class that stands out by it is called ...
    "light": ("darker", "brighter"),
    "sharpness": ("more blurred", "sharper"),
    "entropy": ("plainer", "more detailed"),
    "color": ("grayer", "more colorful"),
    "width": ("narrower", "wider"),
    "height": ("lower", "taller"),
}


@dataclass(frozen=True)
class GivenAway:
    """A class that one measure of its pictures tells from the others."""

    label: int
    measure: str
    auc: float  # probability that a picture of the class has more of it than another

    def sentence(self, class_name: str) -> str:
        """What to say of it."""
        word = MEASURES[self.measure][self.auc > 0.5]
        sure = max(self.auc, 1 - self.auc)
        return f"{class_name} is {word} than the other classes: {self.measure} alone tells it apart (AUC {sure:.2f})."


def given_away(table: pa.Table, labels: np.ndarray) -> list[GivenAway]:
    """Classes that a measure predicts, the clearest of each, clearest first; `labels` (n,) are -1 for unlabeled."""
    result = []
    for label in np.unique(labels[labels >= 0]).tolist():
        best = max(
            (GivenAway(label, name, _auc(table, name, labels, label)) for name in MEASURES), key=lambda g: abs(g.auc - 0.5)
        )
        if max(best.auc, 1 - best.auc) >= GIVES_AWAY:
            result.append(best)
    return sorted(result, key=lambda g: -abs(g.auc - 0.5))


def _auc(table: pa.Table, measure: str, labels: np.ndarray, label: int) -> float:
    """Area under the ROC curve of a measure for one class against the others, by ranks; 0.5 for too few pictures."""
    values = table.column(measure).to_numpy(zero_copy_only=False).astype(np.float64)
    known = np.isfinite(values) & (labels >= 0)
    inside, outside = values[known & (labels == label)], values[known & (labels != label)]
    return 0.5 if min(len(inside), len(outside)) < MEMBERS else auroc(outside, inside).value
