"""Arrays from `.npy` and `.npz`, a few rows at a time, with every claim of the header checked before memory is allocated.

This replaces NumPy's loader: it rejects pickles, sizes that the file does not back up, and members that expand a thousandfold,
and it reads rows in order, so that a file of any size passes through a small buffer. Uncompressed local arrays can also be
memory-mapped.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from hardsight.errors import FileError
from hardsight.files.checksums import check
from hardsight.files.places import Place, Remote, readable
from hardsight.files.reading import FileState, check_unchanged, existing_file, file_state, reading

SUSPICIOUS_SIZE, SUSPICIOUS_RATIO = 256 * 2**20, 200  # a member this large that is compressed this much is a zip bomb
MOST_UNPACKED = 8 * 2**30  # limit on the bytes of a compressed member read into memory
LAST_CHARACTER = 0x10FFFF


@dataclass(frozen=True)
class Stored:
    """Location of an array's bytes: a file, or a member of an archive."""

    path: Place
    state: FileState
    member: zipfile.ZipInfo | None = None

    @property
    def size(self) -> int:
        """Number of bytes, uncompressed."""
        return self.state[0] if self.member is None else self.member.file_size

    def open(self) -> IO[bytes]:
        """Open for reading; an error if the file changed since."""
        check_unchanged(self.path, self.state)
        if self.member is None:
            return self.path.open("rb")
        with zipfile.ZipFile(readable(self.path)) as archive:  # the member keeps the file open until it is closed
            return archive.open(self.member)

    def uncompressed_start(self) -> int | None:
        """Offset of the bytes in a local file; None if they are compressed or remote."""
        if isinstance(self.path, Remote) or (self.member is not None and self.member.compress_type != zipfile.ZIP_STORED):
            return None
        if self.member is None:
            return 0
        with self.path.open("rb") as file:  # the local header ends with the lengths of the name and of the extra field
            file.seek(self.member.header_offset + 26)
            skip = int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little")
        return self.member.header_offset + 30 + skip


class RowsOnDisk:
    """An array in a file: `shape`, `dtype`, and slices of rows, read on demand."""

    def __init__(self, name: str, stored: Stored) -> None:
        self.name, self._stored = name, stored
        with reading(name, "damaged or not a readable .npy array"), stored.open() as stream:
            version = npy.read_magic(stream)
            header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
            self.shape, self.fortran_order, self.dtype = header(stream)
            self._start = stream.tell()
        if self.dtype.hasobject:
            raise FileError(f"{name}: holds Python objects, which could run code when loaded. Save plain numbers or text.")
        claimed = self.dtype.itemsize * int(np.prod([int(extent) for extent in self.shape], dtype=object))
        if claimed != stored.size - self._start or min(self.shape, default=0) < 0:
            raise FileError(
                f"{name}: truncated or damaged: the header claims shape {self.shape} of {self.dtype}, "
                f"{claimed} bytes, but the file holds {stored.size - self._start}."
            )
        self._stream: IO[bytes] | None = None

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 1

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        if self.fortran_order and self.ndim > 1:
            return self._all()[start:stop]
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        with reading(self.name):
            stream = self._seek(start, width)
            data = stream.read((stop - start) * width)
        check_unchanged(self._stored.path, self._stored.state)
        if len(data) != (stop - start) * width:
            raise FileError(f"{self.name}: truncated: rows {start} to {stop} are not all there.")
        if stop == len(self):
            self.close()
        return self._array(data, (stop - start, *self.shape[1:]))

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __del__(self) -> None:
        if getattr(self, "_stream", None) is not None:
            self.close()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._all(), dtype=dtype)

    def mapped(self) -> np.ndarray:
        """The array, memory-mapped if it is uncompressed, otherwise read into memory."""
        with reading(self.name):
            start = self._stored.uncompressed_start()
            if start is not None and 0 not in self.shape:
                order: Any = "F" if self.fortran_order else "C"
                return np.memmap(self._stored.path, self.dtype, "r", start + self._start, self.shape, order=order)
        if self._stored.member is not None and self._stored.size > MOST_UNPACKED:
            raise FileError(
                f"{self.name}: it would expand to {self._stored.size} bytes, too many to read into memory. "
                "Save it with np.savez, which does not compress."
            )
        return self._all()

    def _all(self) -> np.ndarray:
        if self.shape and not (self.fortran_order and self.ndim > 1):
            return self[0 : len(self)]
        with reading(self.name), self._stored.open() as stream:  # Fortran order on disk: it cannot be read by rows
            stream.read(self._start)
            return self._array(stream.read(), self.shape)

    def _array(self, data: bytes, shape: tuple[int, ...]) -> np.ndarray:
        array = np.frombuffer(data, dtype=self.dtype).reshape(shape, order="F" if self.fortran_order else "C")
        if self.dtype.kind == "U" and array.size:
            codes = np.frombuffer(data, np.dtype(np.uint32).newbyteorder(self.dtype.byteorder))
            if codes.max(initial=0) > LAST_CHARACTER:
                raise FileError(f"{self.name}: damaged: it holds text with an invalid character.")
        return array

    def _seek(self, row: int, width: int) -> IO[bytes]:
        """The stream at the start of a row; in an archive, seeking back means starting over."""
        if self._stream is None:
            self._stream = self._stored.open()
            self._stream.read(self._start)
        self._stream.seek(self._start + row * width)
        return self._stream


def open_npy(path: str | os.PathLike[str]) -> RowsOnDisk:
    """The array of a .npy file."""
    file = existing_file(path)
    return RowsOnDisk(str(file), Stored(file, file_state(file)))


def open_npz(path: str | os.PathLike[str]) -> dict[str, RowsOnDisk]:
    """The arrays of a .npz file by name, not read yet."""
    file = existing_file(path)
    check(file)
    state = file_state(file)
    with reading(file, "not a readable .npz archive"), zipfile.ZipFile(readable(file)) as archive:
        members = archive.infolist()
    arrays: dict[str, RowsOnDisk] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name == member.filename or "/" in name or "\\" in name or ".." in name or name in arrays:
            raise FileError(f"{file}: unexpected member {member.filename!r}; a .npz holds only NAME.npy members, each once.")
        if member.file_size > SUSPICIOUS_SIZE and member.file_size > SUSPICIOUS_RATIO * max(1, member.compress_size):
            raise FileError(
                f"{file}: {member.filename} would expand {member.compress_size} bytes to {member.file_size}; "
                "it was not read. If it is real, save it without compression."
            )
        arrays[name] = RowsOnDisk(f"{file}:{name}", Stored(file, state, member))
    return arrays
