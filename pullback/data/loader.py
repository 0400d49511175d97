"""The data loader: batches of a dataset, in a reproducible order, prepared in advance."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from pullback.data.as_dataset import as_dataset_argument
from pullback.data.batch_placement import BatchPlacement
from pullback.data.batch_sources import BatchSource, IndexedBatchSource, StreamBatchSource
from pullback.data.dataset import Dataset, dataset_example_count
from pullback.data.order import BatchOrder, order_key, order_shard
from pullback.data.prefetch import Prefetcher
from pullback.distributed.process_devices import process_count, process_index
from pullback.errors import ArgumentError, PullbackError
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_function_argument,
    checked_integer_argument,
)
from pullback.graph.boundary import (
    boundary,
    boundary_methods,
    handles_boundary_errors,
    leave_boundary,
)
from pullback.graph.source_lines import user_line
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Sharding
from pullback.typing import ArrayLike

_OP = "DataLoader"


@boundary_methods
class DataLoader:
    """Batches of a dataset as tensors. Each `for` loop over the loader is one epoch.

    With `shuffle`, the order of epoch `e` is `pb.random.permutation(pb.random.fold_in(key, e), n)`:
    the same on every machine. `workers` processes read examples; `prefetch` batches are prepared
    in advance by a thread and copied to `device`, or over a mesh given as `sharding`. `collate`
    makes a batch of a list of examples. With `batch_size=None`, examples are returned as they are.

    With several processes, each gets its part of every batch: `shard` is (index, count), by
    default from `pb.distributed`, and `batch_size` counts the examples of all processes.

    The position (`epoch`, `batch`) counts batches that were handed out. `state_dict` saves it, and
    after `load_state_dict` the next loop continues with the next batch. A loop that is left early
    ends its epoch: the next one starts with the following epoch.

    >>> import numpy as np
    >>> loader = pb.data.DataLoader(np.arange(10), batch_size=4)
    >>> [batch.tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    >>> loader.epoch, len(loader)
    (1, 3)
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        key: ArrayLike | None = None,
        drop_last: bool = False,
        workers: int = 0,
        prefetch: int = 2,
        collate: Callable[[list[Any]], Any] | None = None,
        device: str | None = None,
        sharding: Sharding | DeviceMesh | None = None,
        shard: tuple[int, int] | None = None,
    ) -> None:
        data = as_dataset_argument(_OP, dataset)
        size = None if batch_size is None else dataset_example_count(_OP, batch_size, "batch_size")
        words = _loader_shuffle_key(shuffle, key)
        drop_last = checked_flag_argument(_OP, drop_last, "drop_last")
        if collate is not None:
            checked_function_argument(_OP, collate, "collate")
        self._workers, self._prefetch = (
            _loader_count(workers, "workers"),
            _loader_count(prefetch, "prefetch"),
        )
        self._placement = BatchPlacement(device, sharding)
        part = (process_index(), process_count()) if shard is None else order_shard(_OP, shard)
        self._source: BatchSource
        if isinstance(data, Dataset):
            plan = BatchOrder(len(data), size or part[1], drop_last, part, words)
            plan.check(_OP)
            self._source = IndexedBatchSource(data, plan, collate, size is None, self._workers)
        else:
            if words is not None:
                hint = "Write dataset.shuffle(buffer_size, key)."
                message = "shuffle needs a dataset with a length and an index"
                raise ArgumentError(message, op=_OP, hint=hint)
            self._source = StreamBatchSource(data, size, drop_last, part, collate, self._workers)
        self._epoch = self._batch = 0
        self._resumed = True  # whether the next loop starts at the present position
        self._active: weakref.ref[LoaderPass] | None = None

    @property
    def epoch(self) -> int:
        """The number of the present epoch, or of the next one between two loops."""
        return self._epoch

    @property
    def batch(self) -> int:
        """The number of batches of this epoch that were handed out."""
        return self._batch

    @boundary
    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._source)

    def __repr__(self) -> str:
        return f"<DataLoader of {self._source}, epoch {self._epoch}, batch {self._batch}>"

    @boundary
    def __iter__(self) -> LoaderPass:
        self._end_pass()
        if not self._resumed:
            self._epoch, self._batch = self._epoch + 1, 0
        self._resumed = False
        started = LoaderPass(self, self._epoch, self._batch)
        self._active = weakref.ref(started)
        return started

    def state_dict(self) -> dict[str, Any]:
        """Return the position, and what determines the order of examples, as numbers and lists."""
        return {"epoch": self._epoch, "batch": self._batch, **self._source.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a position that `state_dict` returned, in the order of its key."""
        op = "DataLoader.load_state_dict"
        if not isinstance(state, Mapping) or not {"epoch", "batch"} <= set(state):
            message = f"state must be what state_dict() returned, got {type(state).__name__}"
            raise ArgumentError(message, op=op)
        epoch, batch = (
            checked_integer_argument(op, state["epoch"], "epoch"),
            checked_integer_argument(op, state["batch"], "batch"),
        )
        if epoch < 0 or batch < 0:
            message = f"epoch and batch must not be negative, got {epoch} and {batch}"
            raise ArgumentError(message, op=op)
        self._end_pass()
        self._source.load(state)
        self._epoch, self._batch = epoch, batch
        self._resumed = True

    def close(self) -> None:
        """End the worker processes, which otherwise wait for the next epoch."""
        self._end_pass()
        self._source.close()

    def _end_pass(self) -> None:
        active = None if self._active is None else self._active()
        if active is not None:
            active.end()
        self._active = None

    def _batches(self, epoch: int, first: int) -> Prefetcher[Any] | Generator[Any, None, None]:
        """Return the batches of an epoch from a number on, placed on their device."""
        source, placement, owned = self._source, self._placement, self._workers > 0

        def placed(stopped: Callable[[], bool]) -> Generator[Any, None, None]:
            with source.in_use:
                for batch in source.batches(epoch, first, stopped):
                    yield placement.place(batch, owned)

        source.start()  # in this thread, so that workers do not depend on another one
        if not self._prefetch:
            return placed(lambda: False)
        return Prefetcher(placed, self._prefetch)


class LoaderPass:
    """One loop over a data loader."""

    def __init__(self, loader: DataLoader, epoch: int, first: int) -> None:
        self._loader = loader
        self._items = loader._batches(epoch, first)
        self._ended: BaseException | None = None  # what it ended with
        self._cancelled = False

    def __iter__(self) -> LoaderPass:
        return self

    @handles_boundary_errors
    def __next__(self) -> Any:
        try:
            return self._next_batch()
        except BaseException as error:
            leave_boundary(error)
            raise

    def _next_batch(self) -> Any:
        if self._ended is not None:
            raise self._ended
        if self._cancelled:
            message = "this loop was ended: another one began, or the loader was closed"
            hint = "Use a loader for each of two loops that run at the same time."
            raise ArgumentError(message, op=_OP, hint=hint)
        loader = self._loader
        try:
            batch = next(self._items)
        except StopIteration as over:
            self._ended = over
            loader._epoch, loader._batch, loader._resumed = loader._epoch + 1, 0, True
            raise
        except KeyboardInterrupt:
            self.end()
            if not isinstance(self._items, Prefetcher):
                loader._source.close()  # perhaps in the middle of a message
            raise KeyboardInterrupt from None  # without the frames of waiting
        except BaseException as error:
            self._ended = error
            if isinstance(error, PullbackError) and error.where is None:
                error.at(None, user_line())  # it was made in a thread, which has no user line
            loader._source.close_if_broken()
            raise
        loader._batch += 1
        return batch

    def end(self) -> None:
        """End this loop: a loader has one position, so it is in one loop at a time."""
        self._cancelled = True
        if isinstance(self._items, Prefetcher):
            self._items.cancel()
        else:
            self._items.close()


def _loader_shuffle_key(shuffle: bool, key: ArrayLike | None) -> np.ndarray | None:
    if not checked_flag_argument(_OP, shuffle, "shuffle"):
        return None
    if key is None:
        hint = "Write shuffle=True, key=pb.random.key(0)."
        raise ArgumentError("shuffle=True needs a key, got None", op=_OP, hint=hint)
    return order_key(_OP, key)


def _loader_count(value: int, what: str) -> int:
    found = checked_integer_argument(_OP, value, what)
    if found < 0:
        raise ArgumentError(f"{what} must not be negative, got {found}", op=_OP)
    return found
