"""A lock on an open file, held by one process at a time; the system lets go of it when the process ends, however it ends."""

from __future__ import annotations

import time

PAUSE = 0.05  # seconds between two tries where the system does not wait itself


def lock(descriptor: int, *, wait: bool) -> bool:
    """Take the lock; False if somebody else has it and we do not wait. A file system without locks has always room."""
    try:
        import fcntl
    except ImportError:  # Windows
        return _lock_first_byte(descriptor, wait)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
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
