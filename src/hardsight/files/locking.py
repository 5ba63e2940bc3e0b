"""Locks on open files, held by one process at a time: the system releases a lock when the process ends, however it ends."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

PAUSE = 0.05  # seconds between two tries where the system does not wait itself
LONG_AGO = 3600  # seconds without a change
WINDOWS = os.name == "nt"
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # the name of a lock may lead to a file of somebody's, which would be emptied


def lock(descriptor: int, *, wait: bool) -> bool | None:
    """Take the lock of an open file.

    Returns:
        True if it is ours now, False if another process has it and we do not wait, None where the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return _lock_first_byte(descriptor, wait)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _lock_first_byte(descriptor: int, wait: bool) -> bool:
    import msvcrt

    while True:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            return True
        except OSError:
            if not wait:
                return False
            time.sleep(PAUSE)


@contextlib.contextmanager
def lock_file(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a lock file, and remove it at the end. Yields False if another process holds it and we do not wait."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
        try:
            if lock(descriptor, wait=wait) is False:
                yield False
                return
            if not _still_named(descriptor, path):
                continue  # its holder removed it while we waited: the lock of a file without a name keeps nobody out
            try:
                _sign(descriptor)
                yield True
            finally:
                with contextlib.suppress(OSError):
                    if not WINDOWS:
                        path.unlink()  # before the lock is free, so that nobody else's is removed
            return
        finally:
            os.close(descriptor)


def _sign(descriptor: int) -> None:
    """Write into a lock file who holds it, for `holder`. A full disk leaves it empty."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())


def holder(path: Path) -> str:
    """Who holds a lock file, in words."""
    try:
        return path.read_text(encoding="utf-8") or "another process"
    except (OSError, ValueError):  # its holder may be just done, or Windows keeps the locked byte to itself
        return "another process"


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


@contextlib.contextmanager
def new_locked_file(path: Path) -> Iterator[None]:
    """Make an empty file and hold its lock, so that other processes know that it is being written."""
    if WINDOWS:  # a locked file could be neither written nor renamed
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        yield
        return
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        try:
            lock(descriptor, wait=True)
            if _still_named(descriptor, path):
                yield
                return
        finally:
            os.close(descriptor)


def remove_if_abandoned(path: Path, pid: int) -> None:
    """Remove a file that `new_locked_file` made and whose process has ended. One that is being written stays."""
    if pid == os.getpid():
        return
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return
    try:
        free = None if WINDOWS else lock(descriptor, wait=False)
        if free is None:  # no locks here: it may be written by another machine that shares the disk
            free = not _is_running(pid) and time.time() - os.fstat(descriptor).st_mtime > LONG_AGO
        if free:
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        os.close(descriptor)


def _is_running(pid: int) -> bool:
    """Whether a process has this number on this machine; where that cannot be asked, it counts as running."""
    if WINDOWS:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
