"""A scoped stream of keys, for functions that draw random numbers deep inside a model."""

from __future__ import annotations

from contextvars import ContextVar, Token

from pullback.errors import ArgumentError, InPlaceError
from pullback.graph.ambient import thread
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.default_keys import default_key
from pullback.random.arguments import random_key_argument
from pullback.random.keys import fold_in, split
from pullback.typing import ArrayLike


@boundary_methods
class rng:  # a class that users call like a function, as contextlib's are
    """Gives keys to the random functions that are called in a `with` block, in their order.

    The stream belongs to the block: the same key and the same calls give the same numbers. Blocks
    may be nested. In a function that is compiled, or the body of a loop, the block must be inside:
    one around it would give the same keys each time.

    >>> x = pb.ones(4)
    >>> with pb.nn.rng(pb.random.key(3)):
    ...     first, second = pb.nn.functional.dropout(x), pb.nn.functional.dropout(x)
    >>> with pb.nn.rng(pb.random.key(3)):
    ...     again = pb.nn.functional.dropout(x)
    >>> first.tolist(), second.tolist(), again.tolist()
    ([0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0], [0.0, 2.0, 0.0, 0.0])
    """

    def __init__(self, key: ArrayLike) -> None:
        self._key = wrap(random_key_argument("nn.rng", key))
        self._entered: list[Token[_LayerKeyStream | None]] = []

    def __enter__(self) -> rng:
        self._entered.append(_stream.set(_LayerKeyStream(self._key)))
        return self

    def __exit__(self, *exception: object) -> None:
        _stream.reset(self._entered.pop())


class _LayerKeyStream:
    """The key of a block, how many keys were given, and the program being traced at its start."""

    def __init__(self, key: Tensor) -> None:
        self.key, self.given, self.program = key, 0, thread.frozen


_stream: ContextVar[_LayerKeyStream | None] = ContextVar("stream", default=None)


def next_key(op: str = "nn.next_key") -> Tensor:
    """Return the next key of the innermost `with pb.nn.rng(key)` block.

    Outside of such blocks it is the next key of the stream that `pb.nn.seed` starts.

    >>> with pb.nn.rng(pb.random.key(0)):
    ...     a, b = pb.nn.next_key(), pb.nn.next_key()
    >>> a.tolist() == b.tolist()
    False
    """
    stream = _stream.get()
    if stream is None:
        return _next_key_or_error(op)
    if stream.program != thread.frozen:
        message = "the block `with pb.nn.rng(key)` is outside of a function that is traced once"
        hint = (
            "Its calls would all draw the same numbers. Pass a key to the function (in a loop, one "
            "for each step), and write `with pb.nn.rng(key):` inside it."
        )
        raise ArgumentError(message, op=op, hint=hint)
    stream.given += 1
    return fold_in(stream.key, stream.given - 1)


def _next_key_or_error(op: str) -> Tensor:
    try:
        return default_key()
    except InPlaceError:
        message = "there is no key for random numbers in the body of vmap, checkpoint or a loop"
        hint = (
            "The default stream of keys cannot advance there. Pass a key to the function (in vmap "
            "or a loop, one for each step), and write `with pb.nn.rng(key):` inside it."
        )
        raise ArgumentError(message, op=op, hint=hint) from None


def layer_keys(key: ArrayLike | None, count: int) -> list[Tensor]:
    """Return keys for the parameters of a layer, from its own key, the innermost block
    `with pb.nn.rng(key)`, or the default stream."""
    return list(split(next_key() if key is None else key, count))
