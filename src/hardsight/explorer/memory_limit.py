"""Turns: the pixels in memory at a time are limited, and whoever asks for more waits, first come, first served."""

from __future__ import annotations

import ctypes
import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

LARGE = 1_000_000  # pixels of a picture after which memory goes back to the system


class Turn:
    """One picture's share of the room, taken when its size is known and given back at the end."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.pixels = turns, 0

    def take(self, pixels: int) -> None:
        """Wait until there is room for these pixels; the first call counts."""
        if self.pixels == 0:
            self.turns.wait_for(pixels)
            self.pixels = pixels


class Turns:
    """Room for `most` pixels. A picture with more than that has it alone."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._waiting: deque[object] = deque()
        self._changed = Condition()

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """A turn, whose pixels are given back at the end of the block."""
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
        """Take room for these pixels, after all who asked before."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._waiting[0] is ticket and (self.used == 0 or self.used + pixels <= self.most))
            self._waiting.popleft()
            self.used += pixels
            self._changed.notify_all()  # there may be room for the next one, too


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's own, where that is the C library, to give freed memory back to the system."""
    try:
        return ctypes.CDLL(None).malloc_trim  # else each thread of the server keeps what a large picture took, for good
    except (OSError, AttributeError, TypeError):  # other systems return large blocks at once
        return None
