"""Changes of layout along several axes at once: what is sent, and what arrives."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter

import numpy as np
import pytest
from devices import on_meshes
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph.dtypes import float32
from pullback.ops.collective.rows import MoveRows, PermuteRows
from pullback.ops.sources import placeholder
from pullback.sharding.cost import Machine
from pullback.sharding.partition import routes
from pullback.sharding.parts import part_places
from pullback.sharding.rounds import balanced_rounds, device_groups_of_rounds, rounds

PLANE = pb.DeviceMesh((2, 4), ("a", "b"))
SPACE = pb.DeviceMesh((2, 2, 2), ("a", "b", "c"))


@pytest.fixture(params=["reference", "xla"])
def engine(request):
    with pb.config(engine=request.param):
        yield request.param


def layouts(mesh, rank=2):
    """Every way to split `rank` dimensions along some axes of a mesh, in any order."""
    found = []
    for count in range(len(mesh.axis_names) + 1):
        for axes in itertools.permutations(mesh.axis_names, count):
            for cuts in itertools.combinations_with_replacement(range(count + 1), rank - 1):
                ends = [0, *cuts, count]
                found.append(pb.P(*[axes[i:j] for i, j in itertools.pairwise(ends)]))
    return list(dict.fromkeys(found))


def least(mesh, shape, have, want):
    """The bytes of f32 that a device lacks on average, which is the least that can be sent."""
    total = 0
    for k in range(mesh.size):
        sides = [part_places(pb.Sharding(mesh, spec), shape, k) for spec in (have, want)]
        shared = [max(0, min(s.stop, t.stop) - max(s.start, t.start)) for s, t in zip(*sides)]
        total += math.prod(t.stop - t.start for t in sides[1]) - math.prod(shared)
    return 4 * total / mesh.size


def explained(mesh, shape, have, want):
    x = pb.Type(shape, pb.float32, pb.Sharding(mesh, have))
    return pb.debug.explain_sharding(lambda x: pb.reshard(x, want))(x)


@pytest.mark.parametrize("mesh", [PLANE, pb.DeviceMesh((3, 2), ("a", "b"))], ids=str)
def test_large_values_are_moved_with_the_least_bytes_between_any_two_layouts(mesh):
    shape = (36 * 2**10, 36 * 2**10)
    for have, want in itertools.product(layouts(mesh), repeat=2):
        found = explained(mesh, shape, have, want)
        assert found.nbytes == pytest.approx(least(mesh, shape, have, want)), f"{have} to {want}"


def test_also_on_three_axes():
    """Its axes are alike, so the first layout names them in their order."""
    ordered = [p for p in layouts(SPACE) if "abc".startswith("".join(itertools.chain(*p.dims)))]
    assert len(layouts(SPACE)) == 49 and len(ordered) == 10
    shape = (2**15, 2**15)
    for have, want in itertools.product(ordered, layouts(SPACE)):
        found = explained(SPACE, shape, have, want)
        assert found.nbytes == pytest.approx(least(SPACE, shape, have, want)), f"{have} to {want}"


@pytest.mark.parametrize(
    ("have", "want", "kind"),
    [
        (pb.P(("a", "b")), pb.P(None, ("a", "b")), "all_to_all"),
        (pb.P("a", "b"), pb.P(None, ("b", "a")), "all_to_all"),
        (pb.P(("a", "b")), pb.P(("b", "a")), "permute"),
        (pb.P("a"), pb.P("b"), "permute"),
        (pb.P("a", "b"), pb.P("b", "a"), "permute"),
    ],
)
def test_no_value_is_gathered_to_be_split_again(have, want, kind):
    found = explained(PLANE, (1024, 1024), have, want)
    assert found.counts == {kind: 1}, found


def bytes_sent(module):
    """The bytes that each device sends on average, by the instructions of a StableHLO module."""
    total = 0.0
    for text in module.splitlines():
        sizes = re.findall(r"tensor<([\dx]*)xf32>", text.split(" : ")[-1])
        nbytes = [4 * math.prod(map(int, s.split("x"))) for s in sizes]
        if "collective_permute" in text:
            pairs = re.findall(r"\[(\d), (\d)\]", text)
            total += nbytes[0] * sum(s != t for s, t in pairs) / 8
        elif "all_to_all" in text or "all_gather" in text:
            group = re.search(r"dense<\[\[([^]]*)\]", text)[1].split(",")
            total += max(nbytes) * (len(group) - 1) / len(group)
    return total


def test_the_instructions_send_no_more_than_that():
    for have, want in itertools.product(layouts(PLANE)[::2], layouts(PLANE)):
        x = pb.Type((2048, 2048), pb.float32, pb.Sharding(PLANE, have))
        lowered = pb.compile(lambda x, to=want: pb.reshard(x, to)).lower(x)
        said = explained(PLANE, (2048, 2048), have, want).nbytes
        assert bytes_sent(lowered.stablehlo()) == pytest.approx(said, abs=1), f"{have} to {want}"


def without_latency(test):
    """Run a test where only bytes count, so that small values are moved as large ones are."""

    def run(**parameters):
        before, routes.MACHINE = routes.MACHINE, Machine(latency=0.0)
        routes.route.cache_clear()
        try:
            test(**parameters)
        finally:
            routes.MACHINE = before
            routes.route.cache_clear()

    return run


@without_latency
def moved_everywhere(mesh, sources, shape):
    data = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)

    def all_layouts(*xs):
        return [pb.reshard(x, spec) for x in xs for spec in layouts(mesh)]

    given = [pb.tensor(data).shard(mesh, spec) for spec in sources]
    for y in pb.compile(all_layouts)(*given):
        np.testing.assert_array_equal(y.numpy(), data)
        for s in y.shards():
            np.testing.assert_array_equal(s.data, data[s.index], err_msg=str(y.sharding))


@on_meshes
def test_values_arrive_on_two_axes(engine):
    moved_everywhere(mesh=PLANE, sources=layouts(PLANE)[1::4], shape=(8, 16))


@on_meshes
def test_values_arrive_if_sizes_have_no_common_factor(engine):
    mesh = pb.DeviceMesh((2, 3), ("a", "b"))
    moved_everywhere(
        mesh=mesh, sources=[pb.P("a", "b"), pb.P(("b", "a")), pb.P("b")], shape=(6, 12)
    )


@on_meshes
def test_values_arrive_along_an_axis_of_one_device(engine):
    mesh = pb.DeviceMesh((1, 2, 2), ("one", "a", "b"))
    moved_everywhere(mesh=mesh, sources=[pb.P(("one", "a"), "b")], shape=(4, 8))


@on_meshes
def test_values_that_do_not_divide_evenly_arrive(engine):
    data = np.arange(35, dtype=np.int16).reshape(5, 7)
    for have, want in [(pb.P(("a", "b")), pb.P(None, ("a", "b"))), (pb.P("a", "b"), pb.P("b"))]:
        x = pb.tensor(data).shard(PLANE, have)
        np.testing.assert_array_equal(pb.reshard(x, want).numpy(), data)


# -- permutations of the examples of a vmap ------------------------------------------------------


@on_meshes
def test_ppermute_of_examples_on_devices_permutes(engine):
    """Also its gradient, and if each device has several examples."""
    data = np.arange(48, dtype=np.float32).reshape(16, 3)
    for axes, shift in itertools.product((("a", "b"), "b"), (1, 5)):
        pairs = [(i, (i + shift) % 16) for i in range(16)]
        pairs = pairs[: 16 - 3 * (shift > 1)]
        x = pb.tensor(data).shard(PLANE, pb.P(axes))

        def turned(x, pairs=pairs, axes=axes):
            def turn(row):
                return pb.ppermute(row * row, "i", pairs)

            return pb.vmap(turn, axis_name="i", spmd_axis_name=axes)(x)

        def loss(x, w, f=turned):
            return (f(x) * w).sum()

        want, slope = np.zeros_like(data), np.zeros_like(data)
        for s, t in pairs:
            want[t], slope[s] = data[s] ** 2, 2 * data[s] * data[t]
        np.testing.assert_array_equal(turned(x).numpy(), want)
        np.testing.assert_array_equal(pb.grad(loss)(x, x).numpy(), slope)
        for f, args in ((turned, (x,)), (pb.grad(loss), (x, x))):
            assert set(pb.debug.explain_sharding(f)(*args).counts) == {"permute"}


def test_rows_between_neighbours_are_one_message():
    """However many rows a device has, only those that it lacks are sent to it."""
    x = pb.Type((4096, 256), pb.float32, pb.Sharding(PLANE, pb.P("b")))
    ring = [(i, (i + 1) % 4096) for i in range(4096)]
    f = pb.vmap(lambda row: pb.ppermute(row, "i", ring), axis_name="i", spmd_axis_name="b")
    found = pb.debug.explain_sharding(f)(x)
    assert found.counts == {"permute": 1} and found.nbytes == 1024
    (move,) = [n.op for n in found.program.nodes if isinstance(n.op, MoveRows)]
    assert move.steps() == 1


def test_wrong_sources_are_refused():
    x = placeholder("x", pb.Type((2, 3), float32))
    with told(
        ArgumentError, ValueError, "permute_rows", "a row must not be taken twice, got [1, 1]"
    ):
        PermuteRows((1, 1))(x)
    with told(ArgumentError, ValueError, "permute_rows", "from 0 to 1, or -1", "got [2, 0]"):
        PermuteRows((2, 0))(x)
    with told(ShapeError, ValueError, "move_rows", "first dimension must have size 3"):
        MoveRows(("a",), (2,), 3, (0, 1))(x)


# -- schedules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_rounds_are_permutations_and_as_few_as_possible(seed):
    draw = random.Random(seed)
    count = draw.randint(1, 9)
    messages = [(draw.randrange(count), draw.randrange(count)) for _ in range(draw.randint(0, 40))]
    found = rounds(messages)
    assert sorted(itertools.chain(*found)) == list(range(len(messages)))
    for turn in found:
        for side in zip(*[messages[i] for i in turn], strict=True):
            assert len(set(side)) == len(side)
    sides = [Counter(side) for side in zip(*messages, strict=True)]
    assert len(found) == max([max(side.values()) for side in sides], default=0)


def test_items_are_spread_over_their_owners():
    chosen = balanced_rounds([[0], [0, 1], [0, 1, 2]])
    assert chosen == [0, 1, 2]
    assert max(Counter(balanced_rounds([[0, 1]] * 6)).values()) == 3
    assert balanced_rounds([]) == []
    assert device_groups_of_rounds([(0, 2), (3, 1)], 5) == [[0, 2], [1, 3], [4]]


# -- partial sums --------------------------------------------------------------------------------


def product(x, w, spec):
    have = [pb.Type((1024, 1024), pb.float32, pb.Sharding(PLANE, s)) for s in (x, w)]
    return pb.debug.explain_sharding(lambda x, w: pb.reshard(x @ w, spec))(*have)


def test_partial_sums_are_scattered_in_any_order_of_axes():
    both = pb.P(None, ("a", "b")), pb.P(("a", "b"))
    for spec in (pb.P(("a", "b")), pb.P(("b", "a")), pb.P("b", "a")):
        assert product(*both, spec).counts == {"reduce_scatter": 2}, spec


def test_partial_sums_are_sliced_before_they_are_reduced():
    found = product(pb.P(None, "a"), pb.P("a"), pb.P("b"))
    assert found.counts == {"all_reduce": 1} and found.nbytes == 1024 * 1024  # a quarter of it
