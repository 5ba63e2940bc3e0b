"""Parquet files, opened with every claim of the footer checked against the file before anything is read."""

from __future__ import annotations

import json
import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hardsight.errors import FileError
from hardsight.files.checksums import check
from hardsight.files.places import Place, Remote, readable
from hardsight.files.reading import existing_file, reading
from hardsight.files.writing import replacing

UNREADABLE = "not a readable Parquet file"
SUSPICIOUS_ROWS, ROWS_PER_BYTE = 2**24, 2**14  # more rows than this in less space than run lengths and zstd need
LARGE_GROUP = 2**27  # bytes of a row group that is read piece by piece
LONGEST_TEXT, LONGEST_LIST = 100_000_000, 1_000_000  # in a footer or page header, in any file: Arrow's own limits


def open_parquet(path: str | os.PathLike[str]) -> pq.ParquetFile:
    """The file, its page checksums to be verified. A footer that claims more than the file can hold is rejected."""
    file = existing_file(path)
    far = isinstance(file, Remote)  # a few large requests are faster than many small ones
    with reading(file, UNREADABLE):
        size = file.stat().st_size
        begin = b"" if far else _first_bytes(file)
        if begin != b"PAR1" and begin.isalpha():
            raise FileError(f"{file}: {UNREADABLE}: it begins with {begin.decode()!r}, as text does. If it is CSV, name it .csv.")
        options = {
            "page_checksum_verification": True,
            "pre_buffer": far,
            "thrift_string_size_limit": max(1, min(size, LONGEST_TEXT)),  # otherwise a damaged length costs gigabytes and seconds
            "thrift_container_size_limit": max(1, min(size, LONGEST_LIST)),
        }
        opened = pq.ParquetFile(readable(file), **options)
        _check_claims(file, opened, size)
        # A column of a row group is read whole: a page that claims two gigabytes then gets what is there. Buffered, it gets them.
        if not far and min(size, _largest_group(opened)) > LARGE_GROUP:
            with opened:
                return pq.ParquetFile(readable(file), metadata=opened.metadata, buffer_size=2**20, **options)
    return opened


def _largest_group(opened: pq.ParquetFile) -> int:
    """Bytes of the largest row group, by the footer."""
    metadata = opened.metadata
    return max((metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)), default=0)


def _first_bytes(file: Place) -> bytes:
    with file.open("rb") as opened:
        return opened.read(4)


def read_parquet(path: str | os.PathLike[str], columns: list[str] | None = None) -> pa.Table:
    """The table, or some of its columns, with checksums verified. `pq.read_table` would import pandas: half a second."""
    check(existing_file(path))
    with reading(path, UNREADABLE), open_parquet(path) as file:
        table = file.read(columns=columns)
        if len(table) != file.metadata.num_rows and (columns is None or columns):
            raise FileError(f"{path}: damaged: it claims {file.metadata.num_rows} rows but holds {len(table)}.")
        table.validate(full=True)  # otherwise invalid UTF-8 would fail far from here
        return table


def write_parquet(path: str | os.PathLike[str], table: pa.Table) -> None:
    """Write a table, compressed and with checksums of its pages."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def parquet_columns(path: str | os.PathLike[str]) -> list[str]:
    """Column names, from the footer alone."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def table_notes(schema: pa.Schema) -> dict[str, Any]:
    """Our metadata of a table; empty if another tool wrote it."""
    try:
        notes = json.loads((schema.metadata or {}).get(b"hardsight", b"{}"))
    except (ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _check_claims(path: Place, opened: pq.ParquetFile, size: int) -> None:
    """Check that names are text, and that row counts add up and fit the file size.

    Columns of row groups are not checked: on a damaged footer, pyarrow's `RowGroupMetaData.column` can crash the process.
    """
    metadata = opened.metadata
    if metadata.num_columns and not opened.schema_arrow.names:
        raise FileError(f"{path}: {UNREADABLE}: the footer is damaged.")
    counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows:
        raise FileError(f"{path}: damaged: it claims {metadata.num_rows} rows, but its row groups {sum(counts)}.")
    if metadata.num_rows > max(SUSPICIOUS_ROWS, ROWS_PER_BYTE * size):
        raise FileError(f"{path}: damaged: it claims {metadata.num_rows} rows in {size} bytes.")
