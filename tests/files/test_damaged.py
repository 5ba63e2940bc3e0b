"""Damaged files of every kind through every reader: a hardsight error that names the file, or a result, within two seconds."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from PIL import Image

from hardsight import HardsightError, Head, Snapshot, score
from hardsight.data import BrokenImage, open_data
from hardsight.domains.opening import open_domain
from hardsight.errors import FileError
from hardsight.explorer.opening import open_display
from hardsight.files import parquet
from hardsight.files.epochs import read_moment
from hardsight.files.heads import load_head, save_head
from hardsight.files.human import read_people
from hardsight.files.samples import write_samples
from hardsight.human import CorrelateSettings
from hardsight.human.models import open_models, with_scores
from hardsight.table import read_scores, write_table

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 6)).astype(np.float32)
LABELS = RNG.integers(0, 3, 40)
IDS = [f"sample {row}" for row in range(40)]
PIXELS = RNG.integers(0, 256, (5, 4, 4), dtype=np.uint8)
HEAD = Head("linear", RNG.normal(size=(3, 6)))
FLIPS = 150  # for each kind of file


def everything(path: Path) -> None:
    """All rows and all columns of a snapshot."""
    snapshot = Snapshot.load(path, head=HEAD)
    snapshot.in_memory()
    snapshot.columns()


def images(path: Path) -> None:
    data = open_data(path)
    for row in range(len(data)):
        try:
            data.image(row)
        except BrokenImage:
            pass


def models(path: Path) -> None:
    for model in open_models(path, CorrelateSettings()):
        with_scores(model, CorrelateSettings())


def display(path: Path) -> None:
    open_display(path, keep=False)


def run_of(path: Path) -> None:
    Snapshot.load(path.parent)


def snapshot_arrays() -> dict[str, Any]:
    site = np.array(["north", "south"] * 20)
    return {"features": FEATURES, "weight": HEAD.weight, "labels": LABELS, "ids": np.array(IDS), "site": site}


def write_run(path: Path) -> None:
    (path.parent / "samples").mkdir()
    write_samples(path.parent / "samples" / "part-00000.parquet", FEATURES, {"id": IDS, "label": LABELS})
    path.write_text(json.dumps({"parts": [{"name": "samples/part-00000.parquet", "rows": 40}]}))


def write_moment(path: Path) -> None:
    column = pa.array(RNG.random(40))
    names = ("own_angle", "nearest_angle", "avh", "norm", "confidence", "logit_margin", "el2n", "loss")
    table = pa.table({"id": IDS, "split": ["train"] * 40, "label": LABELS, **dict.fromkeys(names, column)})
    pq.write_table(table.append_column("correct", [pa.array([True] * 40)]), path)


def write_scores(path: Path) -> None:
    write_table(score(FEATURES, HEAD, LABELS, ids=IDS), path)


def write_text(path: Path) -> None:
    table = pa.table({"id": IDS, "label": LABELS, "path": IDS, "avh": RNG.random(40), "frequency": RNG.random(40)})
    pacsv.write_csv(table, path)


Reader = Callable[[Path], Any]
KINDS: dict[str, tuple[Callable[[Path], object], list[Reader]]] = {
    "features.npy": (lambda path: np.save(path, FEATURES), [everything, load_head]),
    "images.npy": (lambda path: np.save(path, PIXELS), [images]),
    "counts.npy": (lambda path: np.save(path, np.ones((4, 3), int)), [read_people]),
    "plain.npz": (lambda path: np.savez(path, **snapshot_arrays()), [everything, load_head, open_domain]),
    "packed.npz": (lambda path: np.savez_compressed(path, **snapshot_arrays()), [everything, load_head]),
    "images.npz": (lambda path: np.savez(path, images=PIXELS, labels=LABELS[:5], ids=np.array(IDS[:5])), [images]),
    "packed-images.npz": (lambda path: np.savez_compressed(path, images=PIXELS, site=np.array(IDS[:5])), [images]),
    "samples.parquet": (
        lambda path: write_samples(path, FEATURES, {"id": IDS, "label": LABELS, "site": IDS}),
        [everything, open_domain],
    ),
    "scores.parquet": (write_scores, [read_scores, models, display]),
    "epoch=0001.parquet": (write_moment, [read_moment]),
    "people.parquet": (lambda path: pq.write_table(pa.table({"id": IDS, "frequency": RNG.random(40)}), path), [read_people]),
    "images.parquet": (lambda path: pq.write_table(pa.table({"path": IDS, "label": LABELS}), path), [images]),
    "table.csv": (write_text, [images, models, display, read_people]),
    "scores.json": (write_scores, [models]),
    "run.json": (write_run, [run_of]),
    "people.json": (lambda path: path.write_text(json.dumps(dict(zip(IDS, [0.5] * 40, strict=True)))), [read_people]),
    "head.safetensors": (lambda path: save_head(path, HEAD, ["a", "b", "c"]), [load_head]),
}


@pytest.mark.parametrize("name", KINDS)
def test_flipped_bytes_end_in_one_error_or_none(tmp_path: Path, name: str) -> None:
    """Bytes changed in many positions, one to four at a time, and truncated files."""
    write, readers = KINDS[name]
    path = tmp_path / "in" / name
    path.parent.mkdir()
    write(path)
    for read in readers:
        read(path)  # unharmed, it is read
    whole = path.read_bytes()
    rng = np.random.default_rng(sum(name.encode()))
    for _ in range(FLIPS):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 5)):
            damaged[place] ^= int(rng.integers(1, 256))
        path.unlink()  # a new file each time: to truncate one waits for the disk
        path.write_bytes(damaged if rng.random() < 0.9 else damaged[: rng.integers(0, len(whole))])
        for read in readers:
            started = time.process_time()
            try:
                read(path)
            except HardsightError as error:
                assert not isinstance(error, FileError) or name in str(error) or str(tmp_path) in str(error)
            assert time.process_time() - started < 2


def varint(number: int) -> bytes:
    """A zigzag number as Thrift's compact protocol writes it."""
    number <<= 1
    digits = []
    while number >= 128:
        digits.append(number % 128 + 128)
        number //= 128
    return bytes([*digits, number])


@pytest.mark.parametrize("limit", [2**24, 10_000])
def test_more_rows_than_there_are_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Counts in the footer are replaced by others of the same length: detected by the file size, or while reading."""
    path, rows, claimed = tmp_path / "s.parquet", 10_000, 1_000_000
    assert len(varint(rows)) == len(varint(claimed))
    monkeypatch.setattr(parquet, "SUSPICIOUS_ROWS", limit)
    monkeypatch.setattr(parquet, "ROWS_PER_BYTE", 1)
    lists = pa.FixedSizeListArray.from_arrays(pa.nulls(rows, pa.float32()), 1)
    pq.write_table(pa.table({"features": lists}), path, row_group_size=rows)
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[:footer] + whole[footer:].replace(varint(rows), varint(claimed)))
    started = time.process_time()
    how = "but holds" if limit > rows else "in [0-9]+ bytes"
    with pytest.raises(FileError, match=rf"s\.parquet: damaged: .*claims {claimed} rows {how}"):
        Snapshot.load(path).in_memory()
    assert time.process_time() - started < 1


def test_every_byte_of_a_footer(tmp_path: Path) -> None:
    """An offset that was two bytes too large made Arrow spend a gigabyte and seconds on reading 2 kB."""
    path = tmp_path / "s.parquet"
    lists = pa.FixedSizeListArray.from_arrays(pa.array(FEATURES.ravel()), 6)
    table = pa.table({"id": IDS, "label": LABELS, "features": lists})
    pq.write_table(table, path, write_page_checksum=True, compression="zstd", use_dictionary=["id", "label"])
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    # One byte makes Arrow ask for 140 MB. The system takes up to a second to hand them out: taken here, they are not measured.
    np.frombuffer(pa.allocate_buffer(150_000_000), np.uint8).fill(1)
    for at in range(len(whole) - 8 - footer, len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        path.unlink()  # as above
        path.write_bytes(damaged)
        started = time.process_time()
        try:
            everything(path)
        except HardsightError as error:
            assert "s.parquet" in str(error)
        assert time.process_time() - started < 1


@pytest.mark.parametrize("kind", ["parquet", "npz", "npy"])
@pytest.mark.parametrize("how", ["replaced", "written over"])
def test_a_file_that_changes_while_it_is_scored(tmp_path: Path, kind: str, how: str) -> None:
    """The second half would come from another file: better no table than a mixture of two files."""
    path, other = tmp_path / f"s.{kind}", tmp_path / f"other.{kind}"
    for target, features in ((path, FEATURES), (other, -FEATURES)):
        if kind == "parquet":
            lists = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), 6)
            pq.write_table(pa.table({"features": lists}), target, row_group_size=10)
        elif kind == "npz":
            np.savez(target, features=features)
        else:
            np.save(target, features)
    batches = Snapshot.load(path).batches(rows=10)
    next(batches)
    if how == "replaced":
        other.replace(path)
    else:
        shutil.copyfile(other, path)
    with pytest.raises(FileError, match=rf"s\.{kind} changed while it was read"):
        list(batches)


def test_a_run_whose_part_is_replaced_between_two_passes(tmp_path: Path) -> None:
    write_run(tmp_path / "run.json")
    snapshot = Snapshot.load(tmp_path, head=HEAD)
    snapshot.in_memory()
    write_samples(tmp_path / "samples" / "part-00000.parquet", 2 * FEATURES, {"id": IDS, "label": LABELS})
    with pytest.raises(FileError, match="changed while it was read"):
        snapshot.in_memory()
    with pytest.raises(FileError, match="changed while it was read"):
        snapshot.columns()


SHARED = Path(__file__).parents[3] / "shared" / "data" / "damaged"
COMMANDS = (
    ("score", "{file}", "-o", "{out}/scores.parquet"),
    ("score", "{own}", "--head", "{file}", "-o", "{out}/scores.parquet"),
    ("extract", "hardsight.models.networks:DigitsCNN", "{file}", "-o", "{out}/run"),
    ("correlate", "{scores}", "--human", "{file}", "-o", "{out}/tables"),
    ("correlate", "{file}", "--against", "norm", "-o", "{out}/tables"),
    ("report", "{file}", "-o", "{out}/report.html"),
)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the collection of damaged files is not beside this checkout")
@pytest.mark.parametrize("file", sorted(SHARED.glob("*")) if SHARED.is_dir() else [], ids=lambda path: path.name)
def test_collected_damage_through_every_command(tmp_path: Path, cli: Callable[..., Any], file: Path) -> None:
    np.savez(tmp_path / "own.npz", features=FEATURES, labels=LABELS)
    write_scores(tmp_path / "scores.parquet")
    (tmp_path / "photos").mkdir()
    Image.fromarray(PIXELS[0]).save(tmp_path / "photos" / "good.png")
    for number, command in enumerate(COMMANDS):
        names = {"file": file, "own": tmp_path / "own.npz", "scores": tmp_path / "scores.parquet", "out": tmp_path / str(number)}
        (tmp_path / str(number)).mkdir()
        done = cli(*(str(word).format(**names) for word in command))
        assert done.code in (0, 2), (command, done.err)
        if done.code == 2:
            assert done.err.count("\n") == 1 and file.name in done.err, (command, done.err)
