"""Arrays from files, a few rows at a time, with every claim of the file checked before memory is taken.

`.npy` and `.npz` are read here without NumPy's loader: no pickles, no size that the file does not back up, no
member that expands a thousandfold, and rows in order, so that a file of any size passes through a small buffer.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from hardsight.errors import FileError, first_line
from hardsight.files.checksums import check
from hardsight.files.places import Place, place, readable

SUSPICIOUS_SIZE, SUSPICIOUS_RATIO = 256 * 2**20, 200  # a member this large that was packed this small is a bomb
SKIP = 2**20


DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, OSError, EOFError)  # of an archive or a disk


@contextlib.contextmanager
def _damage_named(name: str) -> Iterator[None]:
    """Damage found while reading becomes an error of ours with the file's name."""
    try:
        yield
    except DAMAGE as error:
        raise FileError(f"{name}: damaged: {first_line(error)}") from error


class RowsOnDisk:
    """A 1-D or 2-D array in a file: `shape`, `dtype`, and rows by slice, read when asked."""

    def __init__(self, name: str, open_stream: Callable[[], IO[bytes]], size: int) -> None:
        self.name, self._open = name, open_stream
        with _damage_named(name), open_stream() as stream:
            try:
                version = npy.read_magic(stream)
                header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
                self.shape, self.fortran_order, self.dtype = header(stream)
            except DAMAGE:
                raise
            except Exception as error:  # a header is a Python literal: a bad one fails in any of a dozen ways
                raise FileError(f"{name}: not a readable .npy array: {first_line(error)}") from error
            self._start = stream.tell()
        if self.dtype.hasobject:
            raise FileError(f"{name}: holds Python objects, which could run code when loaded. Save plain numbers or text.")
        if any(extent < 0 for extent in self.shape):
            raise FileError(f"{name}: the header claims a negative shape, {self.shape}.")
        claimed = self.dtype.itemsize * int(np.prod([int(extent) for extent in self.shape], dtype=object))
        if claimed != size - self._start:
            raise FileError(
                f"{name}: truncated or damaged: the header claims shape {self.shape} of {self.dtype}, "
                f"{claimed} bytes, but the file holds {size - self._start}."
            )
        self._stream: IO[bytes] | None = None
        self._row = 0

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 1

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        if self.fortran_order and self.ndim > 1:
            return self._all()[start:stop]
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        with _damage_named(self.name):
            stream = self._seek(start, width)
            data = stream.read((stop - start) * width)
        if len(data) != (stop - start) * width:
            raise FileError(f"{self.name}: truncated: rows {start} to {stop} are not all there.")
        self._row = stop
        if stop == len(self):
            self.close()
        return np.frombuffer(data, dtype=self.dtype).reshape(stop - start, *self.shape[1:])

    def close(self) -> None:
        """Let go of the file; the next read opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __del__(self) -> None:
        if getattr(self, "_stream", None) is not None:
            self.close()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._all(), dtype=dtype)

    def _all(self) -> np.ndarray:
        if not self.shape:
            with _damage_named(self.name), self._open() as stream:
                stream.read(self._start)
                return np.frombuffer(stream.read(), dtype=self.dtype).reshape(())
        if not (self.fortran_order and self.ndim > 1):
            return self[0 : len(self)]
        with _damage_named(self.name), self._open() as stream:  # column by column on disk: it cannot be read by rows
            stream.read(self._start)
            return np.frombuffer(stream.read(), dtype=self.dtype).reshape(self.shape, order="F")

    def _seek(self, row: int, width: int) -> IO[bytes]:
        """The stream at the start of a row; going back means starting over."""
        if self._stream is None or row < self._row:
            self.close()
            self._stream = self._open()
            self._stream.read(self._start)
            self._row = 0
        ahead = (row - self._row) * width
        if ahead > 0 and isinstance(self._stream, io.BufferedReader):  # a file by itself; members of archives are read through
            self._stream.seek(ahead, os.SEEK_CUR)
            return self._stream
        while ahead > 0:
            ahead -= len(self._stream.read(min(ahead, SKIP))) or ahead
        return self._stream


def open_npy(path: str | os.PathLike[str]) -> RowsOnDisk:
    """The array of a .npy file."""
    path = _existing_file(path)
    return RowsOnDisk(str(path), lambda: path.open("rb"), path.stat().st_size)


def open_npz(path: str | os.PathLike[str]) -> dict[str, RowsOnDisk]:
    """The arrays of a .npz file by name; none is read yet."""
    path = _existing_file(path)
    check(path)
    try:
        with zipfile.ZipFile(readable(path)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise FileError(f"{path}: not a readable .npz archive: {first_line(error)}") from error
    arrays: dict[str, RowsOnDisk] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name == member.filename or "/" in name or "\\" in name or ".." in name:
            raise FileError(f"{path}: unexpected member {member.filename!r}; a .npz holds only NAME.npy members.")
        if name in arrays:
            raise FileError(f"{path}: the array {name!r} is there twice.")
        if member.file_size > SUSPICIOUS_SIZE and member.file_size > SUSPICIOUS_RATIO * max(1, member.compress_size):
            raise FileError(
                f"{path}: {member.filename} would expand {member.compress_size} bytes to {member.file_size}; "
                "it is not read. Save it without compression if it is real."
            )
        arrays[name] = RowsOnDisk(f"{path}:{name}", _member_opener(path, member), member.file_size)
    return arrays


def _member_opener(path: Place, member: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    def open_member() -> IO[bytes]:
        with zipfile.ZipFile(readable(path)) as archive:  # the member keeps the file open until it is closed itself
            return archive.open(member)

    return open_member


def _existing_file(path: str | os.PathLike[str]) -> Place:
    path = place(path)
    if path.is_dir():
        raise FileError(f"{path} is a directory, not a file.")
    if not path.is_file():
        raise FileError(f"{path} does not exist." if not path.exists() else f"{path} is a pipe or a device, not a file.")
    return path
