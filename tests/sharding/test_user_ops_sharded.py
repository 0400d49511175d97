"""N39: ops that users define, on a mesh of devices."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from helpers import collectives

import pullback as pb
from pullback import testing
from pullback.errors import EngineError, VerificationError
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.partitioner import partition
from pullback.sharding.spec import P, Sharding

X = np.arange(24.0).reshape(6, 4)
MESH = DeviceMesh(2, "a")
SPLIT = Sharding(MESH, P("a"))


class Largest(pb.Op, abstract=True):
    """The largest of each row, which says nothing about meshes."""

    name: ClassVar[str] = "Largest"
    differentiable = False

    def infer(self, x):
        return x.with_shape(x.shape[:-1])

    def numpy(self, x):
        return np.max(x, -1)


class Ruled(Largest, abstract=True):
    """The same, row by row; and parts of rows have a largest too."""

    combine = "max"

    def factors(self, x):
        return "... n -> ..."


def on_mesh(op, sharding=SPLIT):
    graph = testing.sharded_graph(op, [X], [sharding])
    return graph.outputs[0].type.sharding.spec, collectives(partition(graph, MESH).graph)


def test_N39_without_a_rule_operands_are_gathered():
    assert on_mesh(Largest()) == (P(), {"AllGather": 1})


def test_N39_what_a_rule_passes_on_stays_in_parts():
    assert on_mesh(Ruled()) == (P("a"), {})


def test_N39_what_a_rule_contracts_is_joined():
    assert on_mesh(Ruled(), Sharding(MESH, P(None, "a"))) == (P(), {"PMax": 1})


@pytest.mark.parametrize("op", [Largest(), Ruled()])
def test_N39_parts_give_what_the_whole_gives(op):
    for seed in range(5):
        testing.check_sharded(op, [np.sin(X)], seed)


def test_a_rule_that_does_not_fit_is_told():
    class Short(Largest, abstract=True):
        def factors(self, x):
            return "n -> "

    with pytest.raises(VerificationError, match="the factor rule 'n -> ' does not fit"):
        on_mesh(Short())


def test_a_rule_that_is_wrong_is_found():
    class Wrong(Largest, abstract=True):
        def factors(self, x):
            return "m n -> m"

        def infer(self, x):
            return x.with_shape((6,))  # however many rows there are

    with pytest.raises(EngineError, match=r"must be .* by its factors, got"):
        on_mesh(Wrong())

    class Summed(Largest, abstract=True):
        def factors(self, x):
            return "m n -> m"  # and the largest of parts are not added up

    with pytest.raises(AssertionError, match="on DeviceMesh"):
        testing.check_sharded(Summed(), [np.sin(X)], seed=1)
