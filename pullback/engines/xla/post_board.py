"""Results that programs on a GPU post to memory of the host before they end.

XLA makes the results of a program available when all of it is over. A training loop that reads the
loss of each step would wait for the update, and the GPU then for the next step to be recorded. So a
kernel in the program writes the loss where the host sees it at once.
"""

from __future__ import annotations

import functools
import itertools
import time
import weakref
from typing import Any, NamedTuple

import numpy as np

from pullback.engines.xla.cuda_driver import CudaDriver
from pullback.graph.types import Type

SLOT = 128  # words that a program can post
_SLOTS = 64  # runs whose words are kept
_TAGS = 2**32 - 1  # that tell runs apart; memory that nothing was written to has the tag 0
_PAUSE = 20e-6  # seconds between two looks


def posted_size(type: Type) -> int:
    """Return how many words a value takes: half of each is for the tag."""
    return type.size * max(type.dtype.bits // 32, 1)


class Post:
    """The words that one run of a program writes."""

    def __init__(self, slot: np.ndarray, tag: int) -> None:
        self._slot, self._tag = slot, tag
        # The program's argument: where to write, and its tag
        self.argument = np.array([slot.ctypes.data, tag], np.int64)

    def words(self, start: int, stop: int) -> np.ndarray | None:
        """Return the lower halves of some words; None if they are not all written."""
        found = self._slot[start:stop].copy()
        return found.astype(np.uint32) if (found >> 32 == self._tag).all() else None


class PostedValue(NamedTuple):
    """A value among the words of a run."""

    post: Post
    start: int
    type: Type

    def wait(self, buffer: Any) -> np.ndarray | None:
        """Return the value of a buffer; None if the program ended without posting it, or failed."""
        stop = self.start + posted_size(self.type)
        while (words := self.post.words(self.start, stop)) is None:
            if buffer.is_deleted() or buffer.is_ready():
                return None
            time.sleep(_PAUSE)
        dtype = self.type.dtype
        narrow = words if dtype.bits >= 32 else words.astype(f"u{dtype.bits // 8}")
        return narrow.view(dtype.numpy).reshape(self.type.shape)


class PostBoard:
    """Memory of the host in which a GPU writes, a slot for each of the latest runs.

    Each word carries the tag of its run, so a slot that was given to a later run is not mistaken.
    """

    def __init__(self, driver: CudaDriver) -> None:
        self._slots = driver.shared_words(SLOT * _SLOTS).reshape(_SLOTS, SLOT)
        self._runs = itertools.count()
        # By the identity of the buffer
        self._values: dict[int, tuple[weakref.ref, PostedValue]] = {}

    @classmethod
    def of_driver(cls, driver: CudaDriver | None) -> PostBoard | None:
        """Return a board; None if there is no such memory."""
        try:
            return None if driver is None else cls(driver)
        except (AttributeError, RuntimeError):
            return None

    def post(self) -> Post:
        """Return the words for a run that is about to start."""
        run = next(self._runs)
        return Post(self._slots[run % _SLOTS], run % _TAGS + 1)

    def expect(self, buffer: Any, value: PostedValue) -> None:
        """Let reads of a buffer find the value that a run posts."""
        forget = functools.partial(self._forget, id(buffer))
        self._values[id(buffer)] = weakref.ref(buffer, forget), value

    def _forget(self, key: int, ref: weakref.ref) -> None:
        if (found := self._values.get(key)) is not None and found[0] is ref:
            del self._values[key]

    def read(self, buffer: Any) -> np.ndarray | None:
        """Return the value of a buffer as soon as it is posted; None if it is not."""
        ref, value = self._values.get(id(buffer), _NOTHING)
        return None if value is None or ref() is not buffer else value.wait(buffer)


_NOTHING = (lambda: None), None
