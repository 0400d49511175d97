"""Datasets that are read in order, such as logs, network streams or endless generators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pullback.data.collating import collate
from pullback.data.dataset import dataset_example_count
from pullback.data.order import Key, folded_order_key, order_key, random_order_words
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_function_argument,
    shown_argument,
)
from pullback.graph.boundary import boundary_methods
from pullback.typing import ArrayLike

_WORDS = 4096  # random words that are drawn at a time


@boundary_methods
class IterableDataset:
    """Examples that are read in order; how many there are need not be known.

    `source` is an iterable that can be read again, or a function that returns an iterator, such as
    a generator function. Subclasses may define `__iter__` instead. To read different parts in
    several processes, they may also define `iterate(epoch, shard)`.

    >>> def numbers():
    ...     yield from range(5)
    >>> odd = pb.data.IterableDataset(numbers).filter(lambda n: n % 2)
    >>> list(odd), list(odd.batch(2))
    ([1, 3], [array([1, 3])])
    """

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]] | None = None) -> None:
        if source is not None and not callable(source) and _iterable_examples(source) is source:
            message = f"source can be read only once, got {shown_argument(source)}"
            hint = "Pass the function that returns the iterator, without calling it."
            raise ArgumentError(message, op="IterableDataset", hint=hint)
        self._source = source

    def __iter__(self) -> Iterator[Any]:
        if self._source is None:
            message = f"{type(self).__name__} must define __iter__, or be given a source"
            raise ArgumentError(message, op="IterableDataset")
        return _iterable_examples(self._source() if callable(self._source) else self._source)

    def iterate(self, epoch: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        """Return the examples of an epoch that belong to part `shard[0]` of `shard[1]`."""
        return itertools.islice(iter(self), shard[0], None, shard[1])

    def map(self, f: Callable[[Any], Any]) -> IterableDataset:
        """Return the dataset of `f(example)`."""
        checked_function_argument("IterableDataset.map", f, "f")
        return IterableStage(self, MapStage(f))

    def filter(self, f: Callable[[Any], Any]) -> IterableDataset:
        """Return the examples for which `f` is true."""
        checked_function_argument("IterableDataset.filter", f, "f")
        return IterableStage(self, FilterStage(f))

    def batch(self, size: int, drop_last: bool = False) -> IterableDataset:
        """Return the dataset of batches of consecutive examples."""
        size = dataset_example_count("IterableDataset.batch", size)
        drop_last = checked_flag_argument("IterableDataset.batch", drop_last, "drop_last")
        return IterableStage(self, BatchStage(size, drop_last))

    def shuffle(self, buffer_size: int, key: ArrayLike) -> IterableDataset:
        """Return the examples in random order: each is chosen from the next `buffer_size` ones.

        The order depends on the key, the epoch and the part that is read.
        """
        size = dataset_example_count("IterableDataset.shuffle", buffer_size, "buffer_size")
        words = order_key("IterableDataset.shuffle", key)
        return IterableStage(self, ShuffleStage(size, words))


def _iterable_examples(source: Any) -> Iterator[Any]:
    try:
        return iter(source)
    except TypeError:
        message = (
            "source must be an iterable, or a function that returns one, "
            f"got {shown_argument(source)}"
        )
        raise ArgumentError(message, op="IterableDataset") from None


Stage = Callable[[Iterator[Any], int, tuple[int, int]], Iterator[Any]]


class IterableStage(IterableDataset):
    """What a stage makes of the examples of another dataset."""

    def __init__(self, base: IterableDataset, stage: Stage) -> None:
        self._base, self._stage = base, stage

    def __iter__(self) -> Iterator[Any]:
        return self.iterate()

    def iterate(self, epoch: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        return self._stage(self._base.iterate(epoch, shard), epoch, shard)


class MapStage:
    """A function of each example."""

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self._f = f

    def __call__(self, examples: Iterator[Any], *_: Any) -> Iterator[Any]:
        return map(self._f, examples)


class FilterStage:
    """The examples for which a function is true."""

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self._f = f

    def __call__(self, examples: Iterator[Any], *_: Any) -> Iterator[Any]:
        return (example for example in examples if self._f(example))


class BatchStage:
    """Batches of consecutive examples."""

    def __init__(self, size: int, drop_last: bool) -> None:
        self._size, self._drop_last = size, drop_last

    def __call__(self, examples: Iterator[Any], *_: Any) -> Iterator[Any]:
        while group := list(itertools.islice(examples, self._size)):
            if len(group) < self._size and self._drop_last:
                return
            yield collate(group)


class ShuffleStage:
    """A buffer from which examples are drawn at random, and in which new ones take their place."""

    def __init__(self, size: int, key: Key) -> None:
        self._size, self._key = size, key

    def __call__(
        self, examples: Iterator[Any], epoch: int, shard: tuple[int, int]
    ) -> Iterator[Any]:
        draws = _iterable_draws(folded_order_key(folded_order_key(self._key, epoch), shard[0]))
        buffer = list(itertools.islice(examples, self._size))
        for example in examples:
            i = next(draws) % len(buffer)
            yield buffer[i]
            buffer[i] = example
        while buffer:
            i = next(draws) % len(buffer)
            buffer[i], buffer[-1] = buffer[-1], buffer[i]
            yield buffer.pop()


def _iterable_draws(key: Key) -> Iterator[int]:
    """Yield random integers of 64 bits without end."""
    for block in itertools.count():
        yield from np.asarray(random_order_words(folded_order_key(key, block), _WORDS)).tolist()


class IterableChain(IterableDataset):
    """The examples of several datasets, one after the other."""

    def __init__(self, parts: list[IterableDataset]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Any]:
        return self.iterate()

    def iterate(self, epoch: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        return itertools.chain.from_iterable(part.iterate(epoch, shard) for part in self._parts)


class IterableZip(IterableDataset):
    """Tuples of the examples of several datasets; they end together."""

    def __init__(self, parts: list[IterableDataset]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Any]:
        return self.iterate()

    def iterate(self, epoch: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        columns = [part.iterate(epoch, shard) for part in self._parts]
        end = object()
        for row in itertools.zip_longest(*columns, fillvalue=end):
            if any(x is end for x in row):
                raise ArgumentError("datasets must have equal lengths", op="data.zip")
            yield row
