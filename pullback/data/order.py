"""The order of examples: permutations by key, and the rows of each batch.

NumPy computes them with the rules of the random ops, so they agree bit for bit with
`pb.random.permutation` and `pb.random.fold_in`, need no engine, and may be computed in workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.argument_checks import checked_integer_argument, shown_argument
from pullback.lazy.tensor import wrap
from pullback.ops.random.bits import RandomBits
from pullback.ops.random.split_fold_keys import FoldIn
from pullback.random.arguments import random_key_argument
from pullback.typing import ArrayLike

Key = np.ndarray  # u32[2]


def order_key(op: str, key: ArrayLike) -> Key:
    """Return the words of a key that a user gave."""
    return np.array(wrap(random_key_argument(op, key)).numpy())


def folded_order_key(key: Key, number: int) -> Key:
    """Return what `pb.random.fold_in` returns."""
    with np.errstate(over="ignore"):  # the cipher computes modulo 2**32
        return FoldIn().numpy(key, np.asarray(number, np.uint64))


def permuted_order(key: Key, count: int) -> np.ndarray:
    """Return what `pb.random.permutation` returns."""
    return np.argsort(random_order_words(key, count), kind="stable")


def random_order_words(key: Key, count: int) -> np.ndarray:
    """Return random integers of 64 bits."""
    with np.errstate(over="ignore"):
        return RandomBits((count,), 64).numpy(key)


def order_shard(op: str, shard: tuple[int, int]) -> tuple[int, int]:
    """Return the number of a process and the count of processes."""
    if not isinstance(shard, (tuple, list)) or len(shard) != 2:
        raise ArgumentError(f"shard must be (index, count), got {shown_argument(shard)}", op=op)
    index, count = (checked_integer_argument(op, n, "shard") for n in shard)
    if not 0 <= index < count:
        message = f"shard must be (index, count) with 0 <= index < count, got {(index, count)}"
        raise ArgumentError(message, op=op)
    return index, count


@dataclass(frozen=True)
class BatchOrder:
    """Which examples are in each batch of each epoch, on one of `shard[1]` processes.

    A batch has `size` examples on all processes together, of which each takes an equal part in
    order, so the batches do not depend on the number of processes.
    """

    length: int
    size: int
    drop_last: bool
    shard: tuple[int, int]
    key: Key | None  # None: in order

    def __len__(self) -> int:
        full, rest = divmod(self.length, self.size)
        return full + (rest > 0 and not self.drop_last)

    def check(self, op: str) -> None:
        """Raise unless every batch divides among the processes."""
        count, rest = self.shard[1], self.length % self.size
        if self.size % count:
            message = (
                f"batch_size counts the examples of all processes and must divide by {count}, "
                f"their number, got {self.size}"
            )
            raise ArgumentError(message, op=op)
        if rest % count and not self.drop_last:
            message = (
                f"the last batch has {rest} examples, which do not divide among {count} processes"
            )
            raise ArgumentError(message, op=op, hint="Pass drop_last=True to leave them out.")

    def rows(self, epoch: int) -> np.ndarray:
        """Return the indices of all examples in the order of an epoch."""
        if self.key is None:
            return np.arange(self.length)
        return permuted_order(folded_order_key(self.key, epoch), self.length)

    def batch(self, rows: np.ndarray, number: int) -> np.ndarray:
        """Return the part of this process in a batch."""
        whole = rows[number * self.size : (number + 1) * self.size]
        index, count = self.shard
        part = len(whole) // count
        return whole[index * part : (index + 1) * part]
