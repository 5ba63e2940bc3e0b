"""Local paths and remote URIs: s3:// and gs://, and to read from, hf:// and https://.

`place` turns user input into a `Path` or a `Remote`, which has the methods of `Path` that we use.
A remote file is written to a local temporary file first and uploaded when complete: an object appears when the last byte has
arrived.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.fs as pafs

from hardsight.errors import FileError, MissingExtra, did_you_mean, why_missing

HELP = {
    "s3": "Check the bucket's name, the credentials (AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and "
    "the endpoint (AWS_ENDPOINT_URL, or ?endpoint_override=host:port&scheme=http).",
    "gs": "Check the bucket's name and the credentials (GOOGLE_APPLICATION_CREDENTIALS).",
    "hf": "Check the name, as in hf://datasets/user/name/file.parquet, and the token (HF_TOKEN).",
    "https": "Check the address.",
    "http": "Check the address.",
}
TEXT_TABLES, PARQUET = (".csv", ".tsv"), (".parquet", ".pq")
TABLE_ENDINGS = (*TEXT_TABLES, *PARQUET)
SAMPLE_ENDINGS = (".npz", ".npy", *PARQUET, *TEXT_TABLES)  # of files of samples: features, logits, probabilities
READ_ONLY = ("hf", "https", "http")  # through fsspec
PATIENCE = "retry_limit_seconds=30"  # Google's default is to try for 15 minutes
BUFFER = 2**20
WORDS = {  # formats of files
    "parquet": "a Parquet file",
    "csv": "a CSV table",
    "json": "a JSON file",
    "npz": "an .npz archive of arrays",
    "safetensors": "a safetensors file",
    "html": "an HTML page",
    "png": "a PNG image",
    "svg": "an SVG image",
    "pdf": "a PDF document",
    "tex": "a table in LaTeX",
    "md": "a table in Markdown",
    "text": "a text file",
}
ENDINGS = {".pq": "parquet", ".htm": "html", **{f".{kind}": kind for kind in WORDS}}


def missing(path: Any) -> str:
    """Message for a path that does not exist, with the closest name in its directory."""
    return f"{path} does not exist.{near_name(path)}"


def near_name(path: Any) -> str:
    """The end of that message; empty if no name is close."""
    from difflib import SequenceMatcher

    def alike(name: str) -> bool:  # also without the ending, which two files may well share
        return SequenceMatcher(None, path.stem.lower(), Path(name).stem.lower()).ratio() >= 0.6

    try:
        siblings = [utf8_name(each.name) for each in path.parent.iterdir()] if isinstance(path, Path) else []
    except (OSError, ValueError):
        return ""
    return did_you_mean(path.name, filter(alike, siblings), 0.75)


@dataclass(frozen=True)
class Remote(os.PathLike[str]):
    """A remote file or directory. `str` hides the secrets that a URI may hold; `uri` includes them."""

    filesystem: Any
    path: str  # bucket/key; of the web, the whole address
    scheme: str
    host: str  # user, password and bucket as typed
    query: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self._named(self.host.rpartition('@')[2])}"

    def __fspath__(self) -> str:
        return self.uri

    @property
    def uri(self) -> str:
        """The full URI, which opens the same file in another process."""
        return f"{self.scheme}://{self._named(self.host)}" + (f"?{self.query}" if self.query else "")

    def _named(self, host: str) -> str:
        key = self.path.removeprefix(f"{self.scheme}://").partition("/")[2]
        return f"{host}/{key}" if key else host

    @property
    def name(self) -> str:
        """Last part of the path."""
        return posixpath.basename(self.path)

    @property
    def suffix(self) -> str:
        """Ending of the name, with its dot."""
        return posixpath.splitext(self.path)[1]

    def __truediv__(self, name: str) -> Remote:
        return replace(self, path=f"{self.path.rstrip('/')}/{name}")

    def with_name(self, name: str) -> Remote:
        """Another file in the same directory."""
        return replace(self, path=posixpath.join(posixpath.dirname(self.path), name))

    def resolve(self) -> Remote:
        """The path without . and .. in it."""
        scheme, mark, path = self.path.rpartition("://")
        return replace(self, path=scheme + mark + posixpath.normpath(path))

    def is_relative_to(self, other: str | os.PathLike[str]) -> bool:
        """Whether it is below another path of the same store."""
        parent = place(other)
        return isinstance(parent, Remote) and self.path.startswith(parent.path.rstrip("/") + "/")

    def exists(self) -> bool:
        """Whether a file or directory exists."""
        return bool(self._info().type != pafs.FileType.NotFound)

    def is_file(self) -> bool:
        """Whether it is an existing file."""
        return bool(self._info().type == pafs.FileType.File)

    def is_dir(self) -> bool:
        """Whether a directory, or an object below this key, exists."""
        return bool(self._info().type == pafs.FileType.Directory)

    def stat(self) -> Any:
        """`st_size` and `st_mtime_ns` of a file."""
        info = self._info()
        if info.type != pafs.FileType.File:
            raise FileError(f"{self} does not exist.")
        return SimpleNamespace(st_size=info.size, st_mtime_ns=info.mtime_ns)

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open for reading; bytes are fetched when they are read."""
        assert mode == "rb", "a store is written through `sent_when_complete`"
        with self._trouble_named():
            return io.BufferedReader(self.filesystem.open_input_file(self.path), BUFFER)

    def read_text(self, encoding: str = "utf-8") -> str:
        """The whole content as text."""
        with self.open() as file:
            return file.read().decode(encoding)

    def iterdir(self) -> Iterator[Remote]:
        """Files and directories directly below; none if it does not exist."""
        with self._trouble_named():
            entries = self.filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        return (replace(self, path=info.path) for info in entries)

    def files_below(self) -> list[tuple[str, int, int]]:
        """Relative path, size and time of every file below this folder, at any depth."""
        with self._trouble_named():
            entries = self.filesystem.get_file_info(pafs.FileSelector(self.path, recursive=True))
        start = len(self.path.rstrip("/")) + 1
        files = [info for info in entries if info.type == pafs.FileType.File]
        return [(info.path[start:], info.size, info.mtime_ns or 0) for info in files]

    def read_at(self, offset: int, size: int) -> bytes:
        """A byte range of a file, in one request."""
        with self._trouble_named(), self.filesystem.open_input_file(self.path) as file:
            return bytes(file.read_at(size, offset))

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Nothing: object stores have no directories."""

    @contextlib.contextmanager
    def sent_when_complete(self) -> Iterator[Path]:
        """A temporary file to write to. It is uploaded on success, and nothing is sent on an error."""
        with tempfile.TemporaryDirectory(prefix="hardsight-") as folder:
            if self.scheme in READ_ONLY:
                raise FileError(f"{self}: {self.scheme}:// is read from, not written to: use a local path, s3:// or gs://.")
            local = Path(folder) / self.name
            yield local
            here, there = pafs.LocalFileSystem(), self.filesystem
            with self._trouble_named():
                # by Arrow, not by our own loop: a stream dropped half-way would still be closed, and the object would appear
                pafs.copy_files(str(local), self.path, source_filesystem=here, destination_filesystem=there)

    def remove_all(self) -> None:
        """Remove a directory and its contents."""
        with self._trouble_named():
            self.filesystem.delete_dir(self.path)

    def _info(self) -> Any:
        with self._trouble_named():
            return self.filesystem.get_file_info(self.path)

    @contextlib.contextmanager
    def _trouble_named(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise FileError(f"{self} does not exist.") from error
        except Exception as error:
            if isinstance(error, (OSError, pa.ArrowException)) or self.scheme in READ_ONLY:  # fsspec raises of many kinds
                raise FileError(f"{self}: {_short(error)} {HELP[self.scheme]}") from error
            raise


Place = Path | Remote
AnyPlace = TypeVar("AnyPlace", Path, Remote, Place)


def place(path: str | os.PathLike[str]) -> Place:
    """Parse user input into a `Path` or a `Remote`.

    Example:
        >>> place("runs/first").name
        'first'
    """
    if isinstance(path, Remote):
        return path
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise FileError(f"a path must be text or a Path, got {type(path).__name__}.")
    text = os.fspath(path)
    if not text or "\0" in text:
        raise FileError("a path is empty; name a file or directory." if not text else f"{text!r}: not a valid file name.")
    scheme, separator, rest = text.partition("://")
    if not separator or not scheme.isalnum():
        return Path(path)
    if scheme not in HELP:
        hint = f"write /{rest.lstrip('/')}" if scheme == "file" else "copy the data, and pass its local path"
        raise FileError(f"{text}: only local paths, s3://, gs://, hf:// and https:// are supported, not {scheme}://; {hint}.")
    return _remote(text)


def place_on_disk(path: str | os.PathLike[str]) -> Path:
    """A path that must be local: that of a run, which is locked and may be resumed."""
    if isinstance(path, Remote) or str(path).startswith(tuple(f"{scheme}://" for scheme in HELP)):
        raise FileError(f"{path}: a run must be written to a local disk; upload it when it is complete.")
    local = place(path)
    assert isinstance(local, Path)
    return local


@functools.lru_cache(maxsize=32)  # looking up a bucket's region needs the network
def _remote(uri: str) -> Remote:
    split = urlsplit(uri)
    shown = f"{split.scheme}://{split.netloc.rpartition('@')[2]}{split.path}"
    query = split.query
    if split.scheme == "gs" and "retry_limit_seconds" not in query:
        query = f"{query}&{PATIENCE}" if query else PATIENCE
    if not split.netloc.rpartition("@")[2]:
        raise FileError(f"{shown}: the bucket is missing; write {split.scheme}://bucket/name.")
    if split.scheme in READ_ONLY:
        if query:
            raise FileError(f"{shown}: an address with a query (?...) is not read: download the file, and pass its local path.")
        path = split.netloc + split.path if split.scheme == "hf" else uri
        return Remote(_by_fsspec(split.scheme), path, split.scheme, split.netloc, query)
    try:
        filesystem, path = pafs.FileSystem.from_uri(urlunsplit((split.scheme, split.netloc, split.path, query, "")))
    except (OSError, pa.ArrowException) as error:
        raise FileError(f"{shown}: {_short(error)} {HELP[split.scheme]}") from error
    return Remote(filesystem, path, split.scheme, split.netloc, split.query)


def _by_fsspec(scheme: str) -> Any:
    """Arrow's view of a store that fsspec knows. Files of the web are downloaded whole: not every server sends a part of one."""
    try:
        import fsspec

        store = fsspec.filesystem(scheme)
    except ImportError as error:
        raise MissingExtra(why_missing(f"{scheme}://", "fsspec", error, "'hardsight[hf]'")) from error
    return pafs.PyFileSystem(pafs.FSSpecHandler(store if scheme == "hf" else fsspec.filesystem("simplecache", fs=store)))


def address(path: str | os.PathLike[str]) -> str:
    """A path or URI that opens the same file in another process, from any working directory."""
    location = place(path)
    return location.uri if isinstance(location, Remote) else str(location.resolve())


def shown_address(path: str | os.PathLike[str]) -> str:
    """The same for a file that others may read: without the secrets in a URI."""
    location = place(path)
    return str(location if isinstance(location, Remote) else location.resolve())


def readable(where: Place) -> Any:
    """A path or open file, for libraries that accept either."""
    return where if isinstance(where, Path) else where.open()


@contextlib.contextmanager
def on_disk(where: Place) -> Iterator[Path]:
    """A local path, for libraries that accept nothing else: a small remote file is downloaded."""
    if isinstance(where, Path):
        yield where
        return
    with tempfile.TemporaryDirectory(prefix="hardsight-") as folder:
        local = Path(folder) / where.name
        with where.open() as source, local.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield local


def remove_all(where: Place) -> None:
    """Remove a directory and its contents."""
    if isinstance(where, Remote):
        where.remove_all()
    else:
        shutil.rmtree(where)


def _short(error: BaseException) -> str:
    words = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(" (Request ID")[0][:200]
    return words if words.endswith(".") else words + "."


def utf8_name(name: str) -> str:
    r"""A file name as valid UTF-8 text: other bytes are escaped.

    Example:
        >>> utf8_name("caf\udce9.png")
        'caf\\xe9.png'
    """
    try:
        name.encode()
        return name
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def kind_by_name(path: Place) -> str:
    """The format implied by a file's extension; text if it is unknown."""
    return ENDINGS.get(path.suffix.lower(), "text")


# Default paths of the tables that later commands write about a run or a file: in the run, or next to the file.


def table_path(path: AnyPlace, name: str) -> AnyPlace:
    """The table of that name in a run directory, or next to a file.

    Example:
        >>> table_path(Path("photo.npz"), "audit").name
        'photo.audit.parquet'
    """
    return path / f"{name}.parquet" if path.is_dir() else path.with_name(f"{PurePath(path.name).stem}.{name}.parquet")


def second_table(path: Path, name: str) -> Path:
    """A second table of the same command, next to the first.

    Example:
        >>> second_table(Path("out/audit.csv"), "samples").name
        'audit.samples.csv'
    """
    return path.with_suffix(f".{name}{path.suffix}")
