"""Files made to kill or to exhaust the process that reads them; they are read in a child, so that the tests go on."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from hardsight.data import BrokenImage, open_data
from hardsight.errors import FileError, InputError
from hardsight.files import parquet
from hardsight.files.parquet import open_parquet, read_parquet
from real_data import DATA

READ = """
import resource, sys, time
from pathlib import Path
from hardsight import HardsightError
from hardsight.data import BrokenImage, open_data

def read(path):
    "How it ended; any other exception ends this process."
    try:
        data = open_data(path)
    except HardsightError as error:
        assert Path(path).name in str(error), error
        return "refused"
    broken = 0
    for row in range(len(data)):
        try:
            data.image(row)
        except BrokenImage:
            broken += 1
        except HardsightError:
            return "refused"
    return "broken" if broken else "read"
"""
FLIP = """
import collections
import numpy as np
whole, path = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]) / "damaged.arrow"
ends = collections.Counter([read(sys.argv[1])])
for at in np.random.default_rng(0).choice(8 * len(whole), 1500, replace=False).tolist():
    damaged = bytearray(whole)
    damaged[at // 8] ^= 1 << at % 8
    path.unlink(missing_ok=True)  # a new file: to write into one that is mapped ends the process, too
    path.write_bytes(damaged)
    ends[read(path)] += 1
print(*sorted(ends))
"""


def png() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def images(paths: list[bytes]) -> pa.StructArray:
    """Encoded images, as Hugging Face keeps them; paths may be no text."""
    text = pa.Array.from_buffers(pa.string(), len(paths), pa.array(paths, pa.binary()).buffers())
    return pa.StructArray.from_arrays([pa.array([png()] * len(paths)), text], ["bytes", "path"])


@pytest.mark.parametrize("writer", [pa.ipc.new_stream, pa.ipc.new_file])
def test_no_bit_of_an_arrow_file_ends_the_process(
    tmp_path: Path, fresh_python: Callable[..., Any], writer: Callable[..., Any]
) -> None:
    """Unchecked, one flip in sixty did: SIGBUS, SIGSEGV, SIGABRT."""
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a", "b", "c"]}}
    table = pa.table({"image": images([b"%d.png" % k for k in range(6)]), "label": [0, 1, 2] * 2, "site": list("abcdef")})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    with pa.OSFile(str(tmp_path / "whole.arrow"), "wb") as file, writer(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=3)
    done = fresh_python(READ + FLIP, tmp_path / "whole.arrow", tmp_path)
    assert (done.code, done.out) == (0, "broken read refused\n"), done.err


@pytest.mark.skipif(not (DATA / "attack").is_dir(), reason="no attack/ here; HARDSIGHT_DATA can name the directory that holds it")
@pytest.mark.parametrize("path", sorted((DATA / "attack").glob("*")), ids=lambda path: path.name)
def test_collected_attacks(fresh_python: Callable[..., Any], path: Path) -> None:
    measured = """
import pyarrow.parquet
from hardsight.data import encoded
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
print(read(sys.argv[1]), time.process_time() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = fresh_python(READ + measured, path)
    assert done.code == 0, done.err
    end, seconds, megabytes = done.out.split()
    assert end in ("refused", "broken") and float(seconds) < 2 and float(megabytes) < 200


def claiming(whole: bytes) -> bytes:
    """The first page header of a Parquet file claims 2 GB; the page gives up as many bytes as the number takes more."""
    assert whole[4] == 0x15  # Thrift: type, uncompressed and compressed size, each a byte 0x15 and a zigzag number
    at = 5
    for _ in range(2):  # skip two numbers and the byte before the next
        while whole[at] >= 128:
            at += 1
        at += 2
    end = at
    while whole[end] >= 128:
        end += 1
    claim = b"\xfe\xff\xff\xff\x0f"  # 2^31 - 1
    more = len(claim) - (end + 1 - at)
    return whole[:at] + claim + whole[end + 1 : end + 301] + whole[end + 301 + more :]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_page_that_claims_two_gigabytes(tmp_path: Path, fresh_python: Callable[..., Any], compression: str) -> None:
    path = tmp_path / "page.parquet"
    numbers = np.random.default_rng(0).random(400)
    pq.write_table(pa.table({"x": numbers}), path, compression=compression, use_dictionary=False)
    path.write_bytes(claiming(path.read_bytes()))
    code = """
import resource, sys
from hardsight.errors import FileError, InputError
from hardsight.files.parquet import read_parquet
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))  # bytes: the claim does not fit
try:
    read_parquet(sys.argv[1])
except FileError as error:
    print(error)
"""
    done = fresh_python(code, path)
    assert done.code == 0 and "Page was smaller" in done.out, (done.out, done.err)


def test_large_row_groups_are_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, a row group of gigabytes would be held twice; both ways give the same table."""
    path, real, buffers = tmp_path / "x.parquet", pq.ParquetFile, list[int]()
    table = pa.table({"x": np.arange(5000)})
    pq.write_table(table, path, row_group_size=2500)
    monkeypatch.setattr(
        pq, "ParquetFile", lambda *args, **options: buffers.append(options.get("buffer_size", 0)) or real(*args, **options)
    )
    for limit, buffered in ((2**27, False), (1000, True)):
        monkeypatch.setattr(parquet, "LARGE_GROUP", limit)
        assert read_parquet(path) == table and bool(buffers[-1]) == buffered
        with open_parquet(path) as opened:
            assert opened.read_row_group(1) == table.slice(2500)


def written(table: pa.Table, path: Path) -> Path:
    """The table as an Arrow stream."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    return path


def test_a_path_that_is_no_text_is_one_broken_image(tmp_path: Path) -> None:
    table = pa.table({"image": images([b"a.png", b"b\xff.png", b"c.png"]), "label": [0, 1, 0]})
    pq.write_table(table, tmp_path / "x.parquet")
    data = open_data(tmp_path / "x.parquet")
    assert data.image(0).size == data.image(2).size == (8, 8)
    with pytest.raises(BrokenImage, match=r"x\.parquet row 1: .*\(unreadable; .*UTF-8"):
        data.image(1)
    with pytest.raises(FileError, match=r"x\.arrow: not a readable Arrow file: .*UTF8"):
        open_data(written(table, tmp_path / "x.arrow"))


@pytest.mark.parametrize(("name", "damaged"), [(b"label", b"la\xffel"), (b"path", b"p\xffth")])
def test_a_name_that_is_no_text_is_one_error(tmp_path: Path, name: bytes, damaged: bytes) -> None:
    pq.write_table(pa.table({"image": images([b"a.png"]), "label": [0]}), tmp_path / "x.parquet", store_schema=False)
    (tmp_path / "x.parquet").write_bytes((tmp_path / "x.parquet").read_bytes().replace(name, damaged))
    with pytest.raises(FileError, match=r"x\.parquet: .*'utf-8'"):
        open_data(tmp_path / "x.parquet")


def test_a_csv_that_is_not_utf8_is_escaped(tmp_path: Path, cli: Callable[..., Any]) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "x.csv").write_bytes(b"path,label,id,split,si\xffte\na.png,\xff,\xfe,\xfd,\xfc\n")
    data = open_data(tmp_path / "x.csv")
    assert (data.class_names, data.ids) == (["\\xff"], ["\\xfe"])
    assert {name: data.columns[name] for name in ("split", "si\\xffte")} == {"split": ["\\xfd"], "si\\xffte": ["\\xfc"]}
    done = cli("extract", "hardsight.models.networks:DigitsCNN", tmp_path / "x.csv", "-o", tmp_path / "run")
    assert done.code == 0, done.err


def test_two_columns_of_one_name_are_one_error(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([images([b"a.png"]), images([b"b.png"])], ["image", "image"])
    with pytest.raises(InputError, match=r"x\.arrow: column names must differ, but 'image' appears more than once"):
        open_data(written(table, tmp_path / "x.arrow"))


@pytest.mark.parametrize("label", [1.5, "one", 2, -2])
def test_a_label_that_is_no_class_of_the_schema(tmp_path: Path, label: object) -> None:
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a", "b"]}}
    table = pa.table({"image": images([b"a.png"]), "label": [label]})
    pq.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), tmp_path / "x.parquet"
    )
    with pytest.raises(InputError, match=rf"x\.parquet, column label, row 1: .*{label}"):
        open_data(tmp_path / "x.parquet")
