"""Random programs over tensors: lists of numbers, of which every one is a program.

Each step takes an op and operands by their number among what fits, so a shorter list is a simpler
program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb

Program = Sequence[tuple[int, int, int]]


def fits(a: Any, b: Any) -> bool:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True


def partner(a: Any, pool: list[Any], n: int) -> Any:
    """Another value that broadcasts with `a`."""
    others = [b for b in pool if fits(a, b)]
    return others[n % len(others)]


def add(a: Any, pool: list[Any], n: int) -> Any:
    return (a + partner(a, pool, n)) * 0.5


def subtract(a: Any, pool: list[Any], n: int) -> Any:
    return partner(a, pool, n) - a * 0.25


def multiply(a: Any, pool: list[Any], n: int) -> Any:
    return pb.tanh(a) * partner(a, pool, n)


def divide(a: Any, pool: list[Any], n: int) -> Any:
    b = partner(a, pool, n)
    return a / (b * b + 1.5)


def unary(a: Any, pool: list[Any], n: int) -> Any:
    return (pb.sin, pb.tanh, pb.logistic, pb.atan, pb.square)[n % 5](pb.tanh(a))


def exponential(a: Any, pool: list[Any], n: int) -> Any:
    return pb.exp(pb.tanh(a)) if n % 2 else pb.log(a * a + 1.0)


def total(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim:
        return a * 0.5
    axis = None if n % 5 == 0 else n % a.ndim
    return pb.mean(a, axis=axis, keepdims=n % 3 == 0) if n % 2 else pb.sum(a, axis=axis) * 0.25


def running(a: Any, pool: list[Any], n: int) -> Any:
    return pb.cumulative_sum(a, axis=n % a.ndim) * 0.5 if a.ndim else a - 0.5


def transpose(a: Any, pool: list[Any], n: int) -> Any:
    return pb.permute_dims(a, tuple(reversed(range(a.ndim))))


def reshape(a: Any, pool: list[Any], n: int) -> Any:
    if a.shape == (3, 4):
        return pb.reshape(a, ((4, 3), (12,), (2, 6))[n % 3])
    return pb.reshape(a, (-1,)) if a.size < 30 else a * 0.5


def flip(a: Any, pool: list[Any], n: int) -> Any:
    return pb.flip(a, axis=n % a.ndim) if a.ndim else -a


def concat(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim or a.size > 30:
        return pb.expand_dims(a, axis=0)
    return pb.concat([a, a * 0.5], axis=n % a.ndim)


def pad(a: Any, pool: list[Any], n: int) -> Any:
    return pb.pad(a, (1, 0), constant_values=0.25) if a.ndim and a.size < 30 else a + 0.25


def cut(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim:
        return a
    return a[(slice(None),) * (n % a.ndim) + (slice(None, None, -1 if n % 2 else 2),)]


def pick(a: Any, pool: list[Any], n: int) -> Any:
    return a[n % a.shape[0]] if a.ndim else a


def gather(a: Any, pool: list[Any], n: int) -> Any:
    return a[np.array([n, n // 2, 0, n]) % a.shape[0]] if a.ndim and a.size < 30 else a


def write(a: Any, pool: list[Any], n: int) -> Any:
    if not a.ndim:
        return a
    y = pb.tensor(a)
    y[n % a.shape[0]] = 0.5
    return y


def matmul(a: Any, pool: list[Any], n: int) -> Any:
    if a.ndim != 2:
        return pb.sin(a)
    others = [b for b in pool if b.ndim == 2 and b.shape[0] == a.shape[1]]
    b = others[n % len(others)] if others else pb.matrix_transpose(a)
    return pb.tanh(a) @ b / a.shape[1]


def where(a: Any, pool: list[Any], n: int) -> Any:
    b = partner(a, pool, n)
    return pb.where(a > 0.123, b * 0.5, pb.tanh(a))


def extreme(a: Any, pool: list[Any], n: int) -> Any:
    if n % 2 and a.ndim:
        return pb.max(a, axis=n % a.ndim)
    return pb.minimum(a, partner(a, pool, n))


def order(a: Any, pool: list[Any], n: int) -> Any:
    return pb.sort(a, axis=n % a.ndim) if a.ndim else abs(a)


SMOOTH: list[Callable] = [
    add, subtract, multiply, divide, unary, exponential, total, running, transpose, reshape,
    flip, concat, pad, cut, pick, gather, write, matmul, where,
]  # fmt: skip
ALL = [*SMOOTH, extreme, order]


def run(program: Program, inputs: Sequence[Any], ops: list) -> list[Any]:
    """Every value the program makes, in order."""
    pool = list(inputs)
    for op, operand, choice in program:
        recent = pool[-6:]
        pool.append(ops[op % len(ops)](recent[operand % len(recent)], pool, choice))
    return pool[len(inputs) :]
