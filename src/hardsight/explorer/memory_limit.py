"""A limit on the pixels in memory at a time: who needs more waits for a turn, first come, first served."""

from __future__ import annotations

import ctypes
import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

LARGE = 1_000_000  # pixels of an image after which memory is returned to the system


class Turn:
    """Room for one image, taken when its size is known and released at the end."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.pixels = turns, 0

    def take(self, pixels: int) -> None:
        """Wait until there is room for these pixels; the first call counts."""
        if self.pixels == 0:
            self.turns.wait_for(pixels)
            self.pixels = pixels


class Turns:
    """Room for `most` pixels. An image with more has it to itself."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._waiting: deque[object] = deque()
        self._changed = Condition()

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """A turn, whose pixels are released at the end of the block."""
        turn = Turn(self)
        try:
            yield turn
        finally:
            if turn.pixels >= LARGE and (trim := _malloc_trim()) is not None:
                trim(0)
            with self._changed:
                self.used -= turn.pixels
                self._changed.notify_all()

    def wait_for(self, pixels: int) -> None:
        """Take room for these pixels, after everyone who is waiting already."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._waiting[0] is ticket and (self.used == 0 or self.used + pixels <= self.most))
            self._waiting.popleft()
            self.used += pixels
            self._changed.notify_all()  # there may be room for the next one as well


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's function that returns freed memory to the system; None with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim  # else each thread of the server keeps the memory of a large image
    except (OSError, AttributeError, TypeError):  # other systems return large blocks at once
        return None
