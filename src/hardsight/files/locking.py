"""Locks on open files, held by one process at a time. The system releases a lock when its process ends, even if killed."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

PAUSE = 0.05  # seconds between attempts, where the system cannot wait for a lock
LONG_AGO = 3600  # seconds without a change
WINDOWS = os.name == "nt"
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # the name of a lock may lead to a file of somebody's, which would be emptied


def lock(descriptor: int, *, wait: bool) -> bool | None:
    """Take the lock of an open file.

    Returns:
        True if we hold it now, False if another process holds it and we do not wait, None if the file system has no locks.
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
    """Hold a lock file, and remove it at the end. Yield False if another process holds it and we do not wait."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
        try:
            if lock(descriptor, wait=wait) is False:
                yield False
                return
            if not _still_named(descriptor, path):
                continue  # its holder removed it while we waited: a lock on an unlinked file keeps nobody out
            try:
                _sign(descriptor)
                yield True
            finally:
                with contextlib.suppress(OSError):
                    if not WINDOWS:
                        path.unlink()  # before releasing the lock, so that we do not remove somebody else's
            return
        finally:
            os.close(descriptor)


def _sign(descriptor: int) -> None:
    """Record in a lock file who holds it, for `holder`. On a full disk it stays empty."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())


def holder(path: Path) -> str:
    """Who holds a lock file, for messages."""
    try:
        return path.read_text(encoding="utf-8") or "another process"
    except (OSError, ValueError):  # its holder may have just finished, or Windows blocks the locked byte
        return "another process"


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


@contextlib.contextmanager
def new_locked_file(path: Path) -> Iterator[None]:
    """Create an empty file and hold its lock, so that other processes can tell that it is being written."""
    if WINDOWS:  # a locked file can be neither written nor renamed
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
    """Remove a file created by `new_locked_file` whose process has ended. Files being written are kept."""
    if pid == os.getpid():
        return
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return
    try:
        free = None if WINDOWS else lock(descriptor, wait=False)
        if free is None:  # no locks here: another machine that shares the disk may be writing it
            free = not _is_running(pid) and time.time() - os.fstat(descriptor).st_mtime > LONG_AGO
        if free:
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        os.close(descriptor)


def _is_running(pid: int) -> bool:
    """Whether a process with this id runs on this machine; True if that cannot be determined."""
    if WINDOWS:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
