"""Tensors of which each process has only its own part."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.distributed.local_data import _local_block
from pullback.errors import ArgumentError
from pullback.sharding.spec import Sharding


def block(mesh, spec, here, dim, shape):
    return _local_block(Sharding(mesh, spec), here, dim, shape)


def test_a_process_has_consecutive_shards():
    mesh = pb.DeviceMesh((2, 3), ("x", "y"))
    found = block(mesh, pb.P("x", "y"), [3, 4, 5], 1, (5, 6))
    assert found.whole == 6 and [found.part(i) for i in range(3)] == [
        slice(0, 2), slice(2, 4), slice(4, 6),
    ]  # fmt: skip
    found = block(mesh, pb.P("x", "y"), [3, 4, 5], 0, (5, 6))
    assert found.whole == 10 and found.part(1) == slice(0, 5)
    found = block(mesh, pb.P(("x", "y")), [2, 3], 0, (4,))
    assert found.whole == 12 and found.part(3) == slice(2, 4)


def test_parts_that_do_not_fit_raise():
    mesh = pb.DeviceMesh(4, "x")
    with pytest.raises(ArgumentError, match=r"must hold consecutive shards.*got numbers \[0, 2\]"):
        block(mesh, pb.P("x"), [0, 2], 0, (4,))
    with pytest.raises(ArgumentError, match="dimension 0 of size 3 must divide into 2 equal"):
        block(mesh, pb.P("x"), [0, 1], 0, (3,))


def test_in_a_single_process_the_part_is_the_whole():
    x = pb.distributed.shard_local(np.arange(6.0), pb.DeviceMesh(1, "x"), pb.P("x"))
    assert x.sharding.spec == pb.P("x") and x.tolist() == [0, 1, 2, 3, 4, 5]
    assert "shard_local" in dir(pb.distributed)
