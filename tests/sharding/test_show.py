"""Pictures of shardings."""

from __future__ import annotations

import io
import sys
import textwrap

import pytest
from helpers import told

import pullback as pb
from pullback.debug import show_sharding
from pullback.errors import ArgumentError

P = pb.P
MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))


def typed(spec, *shape, mesh=MESH):
    return pb.Type(shape, pb.float32, pb.Sharding(mesh, spec))


def dedented(text):
    return textwrap.dedent(text).strip("\n")


def test_a_matrix_is_a_grid_of_shards():
    assert show_sharding(typed(P("dp", "tp"), 8, 7)) == dedented("""
        f32[8,7] on DeviceMesh(dp=2, tp=4) as P('dp', 'tp')
          dimension 0: 8 in 2 parts of 4 along dp
          dimension 1: 7 in 4 parts of 2 along tp, the last of 1
                0:2   2:4   4:6   6:7
              ┌─────┬─────┬─────┬─────┐
          0:4 │  0  │  1  │  2  │  3  │
              ├─────┼─────┼─────┼─────┤
          4:8 │  4  │  5  │  6  │  7  │
              └─────┴─────┴─────┴─────┘
    """)


def test_a_vector_is_a_row_and_copies_share_a_shard():
    assert show_sharding(typed(P("tp"), 5), ascii=True) == dedented("""
        f32[5] on DeviceMesh(dp=2, tp=4) as P('tp')
          dimension 0: 5 in 4 parts of 2 along tp, then 1, 1 empty
          copies along dp
             0:2   2:4   4:5   none
           +-----+-----+-----+------+
           | 0 4 | 1 5 | 2 6 | 3 7  |
           +-----+-----+-----+------+
    """)


def test_other_ranks_are_described_by_dimension():
    assert show_sharding(typed(P(None, ("tp", "dp"), None), 3, 8, 2)) == dedented("""
        f32[3,8,2] on DeviceMesh(dp=2, tp=4) as P(None, ('tp', 'dp'))
          dimension 0: 3, whole
          dimension 1: 8 in 8 parts of 1 along tp, dp
          dimension 2: 2, whole
    """)
    assert show_sharding(typed(P())).splitlines()[1:] == ["  copies along dp, tp"]
    assert show_sharding(pb.ones(3)) == "f32[3] on no mesh"


def test_the_picture_agrees_with_the_shards():
    mesh = pb.DeviceMesh((2, 2), ("a", "b"), devices=[3, 1, 0, 2])
    with pb.config(engine="reference"):
        x = pb.zeros((4, 4)).shard(mesh, P("b", "a"))
        rows = [r.split("│")[1:-1] for r in show_sharding(x).splitlines() if "│" in r]
        for shard in x.shards():
            i, j = (s.start // 2 for s in shard.index)
            assert int(rows[i][j]) == shard.device


def test_a_large_mesh_is_shortened():
    mesh = pb.DeviceMesh((64, 32), ("a", "b"))
    lines = show_sharding(typed(P("a"), 128, 2, mesh=mesh)).splitlines()
    assert len(lines) < 40 and max(map(len, lines)) < 100
    assert lines[-2].strip().startswith("126:128 │ 2016 2017") and "… 2047" in lines[-2]
    assert any(line.strip().startswith("… │") for line in lines)


def test_it_prints_itself(monkeypatch):
    picture = show_sharding(typed(P("tp"), 8))
    assert repr(picture) == str(picture) and "┌" in picture
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert show_sharding(typed(P("tp"), 8)).isascii()


@pytest.mark.parametrize("wrong", [3, None, [1.0]])
def test_it_needs_a_tensor(wrong):
    with told(ArgumentError, ValueError, "show_sharding: x must be a tensor or a type"):
        show_sharding(wrong)
