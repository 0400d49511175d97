"""An iterator that runs in a thread, some items ahead of its consumer."""

from __future__ import annotations

import atexit
import contextvars
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_PATIENCE = 5.0  # seconds for which the thread is waited for when Python ends


class PrefetchBuffer(Generic[T]):
    """What the thread and its consumer share: items, and how the thread ended.

    The thread refers to this object alone, so a consumer that is dropped can end it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.items: deque[T] = deque()
        self.changed = threading.Condition()
        self.stop = False
        self.over = False
        self.error: BaseException | None = None

    def stopped(self) -> bool:
        """Whether nobody wants items any more."""
        return self.stop

    def put(self, item: T) -> bool:
        """Add an item when there is room; return False if it is not wanted any more."""
        with self.changed:
            self.changed.wait_for(lambda: self.stop or len(self.items) < self.size)
            if not self.stop:
                self.items.append(item)
                self.changed.notify_all()
            return not self.stop

    def finish(self, error: BaseException | None) -> None:
        with self.changed:
            self.error, self.over = error, True
            self.changed.notify_all()

    def cancel(self) -> None:
        with self.changed:
            self.stop = True
            self.items.clear()
            self.changed.notify_all()


class Prefetcher(Generic[T]):
    """Iterates over what `make` returns, in a thread, up to `ahead` items ahead.

    `make` is given a function that tells whether nobody waits for items any more. Settings are
    those of the thread that creates this object. Errors are raised where their item would come.
    """

    def __init__(self, make: Callable[[Callable[[], bool]], Iterator[T]], ahead: int) -> None:
        self._shared: PrefetchBuffer[T] = PrefetchBuffer(ahead)
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(_prefetch, make, self._shared),
            name="pullback prefetch", daemon=True,
        )  # fmt: skip
        weakref.finalize(self, self._shared.cancel).atexit = False
        _running[self._thread] = self._shared
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        shared = self._shared
        with shared.changed:
            shared.changed.wait_for(lambda: shared.items or shared.over)
            if shared.items:
                item = shared.items.popleft()
                shared.changed.notify_all()
                return item
        if shared.error is not None:
            raise shared.error
        raise StopIteration

    def cancel(self) -> None:
        """Let the thread end after the item that it is making."""
        self._shared.cancel()

    def close(self) -> None:
        """End the thread and wait for it."""
        self._shared.cancel()
        self._thread.join()


def _prefetch(make: Callable[[Callable[[], bool]], Iterator[Any]], shared: PrefetchBuffer) -> None:
    error: BaseException | None = None
    try:
        for item in make(shared.stopped):
            if not shared.put(item):
                break
            del item  # the consumer's alone
    except BaseException as raised:
        error = raised
    shared.finish(error)


_running: weakref.WeakKeyDictionary[threading.Thread, PrefetchBuffer[Any]]
_running = weakref.WeakKeyDictionary()


@atexit.register
def _end_prefetch_threads() -> None:
    """End all threads with Python: one that calls XLA while Python shuts down would crash it."""
    for shared in list(_running.values()):
        shared.cancel()
    for thread in list(_running):
        thread.join(_PATIENCE)
