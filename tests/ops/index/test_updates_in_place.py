"""Writes whose updates were computed from what they overwrite."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import pullback as pb
from pullback import Tensor
from pullback.engines.xla.builder import Builder, build_xla_module

ROW = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


def reversed_in_place(x: Tensor, read: Tensor | None = None) -> Tensor:
    """`x` with its first three elements, read from `read`, in reverse order."""
    part = pb.dynamic_slice(x if read is None else read, (0,), (3,))
    return pb.dynamic_update_slice(x, pb.flip(part), (0,))


def of_sums() -> list[Tensor]:
    return [reversed_in_place(pb.cumulative_sum(ROW))]


def of_gathered() -> list[Tensor]:
    return [reversed_in_place(pb.gather(pb.tensor(ROW), pb.tensor([3, 1, 2, 0])))]


def of_examples() -> list[Tensor]:
    return [pb.vmap(reversed_in_place)(pb.cumulative_sum(ROW)[None])]


def of_an_earlier_update() -> list[Tensor]:
    x = pb.dynamic_update_slice(pb.cumulative_sum(ROW), pb.tensor(ROW[:1]), (1,))
    return [reversed_in_place(x)]


def through_a_reshape() -> list[Tensor]:
    x = pb.tensor(ROW)
    part = pb.flip(pb.dynamic_slice(x, (0,), (2,)))
    return [pb.dynamic_update_slice(x.reshape(2, 2), part.reshape(1, 2), (0, 0))]


def in_a_loop() -> Sequence[Tensor]:
    def body(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        sums = pb.cumulative_sum(x)
        new = pb.dynamic_update_slice(sums, pb.flip(pb.dynamic_slice(sums, (0,), (3,))), (i,))
        return new, reversed_in_place(x, x.reshape(4, 1).reshape(4))

    return pb.scan(body, pb.tensor(ROW), pb.arange(2))


def of_single_rows() -> list[Tensor]:
    x = pb.cumulative_sum(pb.arange(12.0)).reshape(4, 3)
    i = pb.tensor([1])
    turned = pb.flip(x[i], axis=1)
    return [x.at[i].set(turned), x.at[i].add(turned), x.at[i].multiply(turned)]


CASES = (
    of_sums, of_gathered, of_examples, of_an_earlier_update, through_a_reshape, in_a_loop,
    of_single_rows,
)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_updates_read_before_they_write(case: Callable[[], Sequence[Tensor]]) -> None:
    found = [x.numpy() for x in case()]
    with pb.config(engine="reference"):
        expected = [x.numpy() for x in case()]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_loops_that_carry_an_array_update_it_in_place() -> None:
    """A step that reads one element and writes one must not copy the whole array."""

    def body(x: Tensor, i: Tensor) -> tuple[Tensor, None]:
        return pb.dynamic_update_slice(x, pb.dynamic_slice(x, (i,), (1,)) + 1, (i + 1,)), None

    builder = Builder()
    builder.literal = False
    graph = pb.trace(lambda x: pb.scan(body, x, pb.arange(3))[0], pb.tensor(ROW)).graph
    text = build_xla_module(graph, builder)
    assert text.count("dynamic_update_slice") == 1
