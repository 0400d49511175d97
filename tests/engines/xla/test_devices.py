"""Values and programs on several devices, against devices that the reference engine simulates."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from devices import (
    NAMES,
    Grid,
    assert_same,
    check_words,
    dtype_named,
    on_devices,
    op,
    parts_of,
    run_words,
    varying,
)
from paths import VIRTUAL_DEVICES

import pullback as pb
from pullback import testing
from pullback.engines.engine_registry import registered_engine
from pullback.errors import EngineError, IndexOutOfRange
from pullback.graph.dtypes import float32, float64, int64
from pullback.graph.graph import Graph
from pullback.graph.node import result_nodes
from pullback.graph.types import Type
from pullback.ops.control.holder import hold
from pullback.ops.sources import placeholder
from pullback.sharding.partition.simulate import simulate_partition

# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@on_devices
def test_parts_go_to_devices_and_come_back(name):
    dtype = dtype_named(name)
    group = registered_engine("xla").group(Grid(x=8))
    parts = parts_of(dtype, (2, 3), 8)
    value = group.put(parts, Type((2, 3), dtype))
    assert value.is_ready() in (True, False)
    assert_same(list(value.parts().values()), parts)
    joined = group.join(value.buffers(), value.type)
    assert_same(list(joined.parts().values()), parts)


@on_devices
def test_an_array_is_split_by_slices_and_copied():
    whole = np.arange(16.0).reshape(8, 2)
    group = registered_engine("xla").group(Grid(x=4))
    slices = [np.s_[2 * k : 2 * k + 2] for k in range(4)]
    value = group.split(whole, slices, Type((2, 2), float64))
    same = group.spread(np.arange(3.0), Type((3,), float64))
    expected = [whole[s].copy() for s in slices]
    whole[:] = -1
    assert_same(list(value.parts().values()), expected)
    assert_same(list(same.parts().values()), [np.arange(3.0)] * 4)
    assert group.owns(value) and not registered_engine("xla").owns(value)
    assert not registered_engine("xla").group(Grid(x=2)).owns(value)


@on_devices
def test_a_part_on_the_first_device_is_an_ordinary_buffer():
    group = registered_engine("xla").group(Grid(x=2))
    value = group.put([np.ones(3), np.zeros(3)], Type((3,), float64))
    first, second = value.buffers().values()
    x = placeholder("x", Type((3,), float64))
    program = registered_engine("xla").compile(Graph((x,), (x + x,)))
    assert registered_engine("xla").owns(first) and not registered_engine("xla").owns(second)
    np.testing.assert_array_equal(
        registered_engine("xla").get(program.run([first])[0]), 2 * np.ones(3)
    )


# -- collectives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@on_devices
def test_collectives_on_every_dtype(name):
    check_words(dtype_named(name), Grid(x=2, y=2))


@pytest.mark.parametrize("count", [2, 4, 8])
@on_devices
def test_any_number_of_devices(count):
    grid = Grid(x=count)
    groups, parts = grid.groups(("x",)), parts_of(float32, (count, 2), count)
    total, mine, here, table = run_words(
        grid,
        lambda b, x: [
            b.all_reduce([x], groups, "add")[0],
            b.reduce_scatter(x, groups, 0, "add"),
            b.position(),
            b.by_position([10 * k for k in range(count)]),
        ],
        parts,
    )
    assert_same(total, [sum(parts)] * count)
    assert_same(mine, [sum(parts)[k : k + 1] for k in range(count)])
    assert here == {k: k for k in range(count)}
    assert table == {k: 10 * k for k in range(count)}


@on_devices
def test_operands_of_one_type_are_reduced_by_one_instruction():
    grid, seen = Grid(x=4), []
    xs, ys, zs = (parts_of(d, s, 4) for d, s in ((float32, (3,)), (float32, ()), (int64, (2, 2))))

    def write(b, *values):
        made = b.all_reduce(values, grid.groups(("x",)), "add")
        seen.extend(i for i in b.instructions if i.name == "all_reduce")
        return made

    made = run_words(grid, write, xs, ys, zs)
    for got, parts in zip(made, (xs, ys, zs), strict=True):
        assert_same(got, [np.sum(parts, 0, parts[0].dtype)] * 4)
    assert len(seen) == 2


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@on_devices
def test_nan_wins_maximum_and_minimum(name):
    dtype, grid = dtype_named(name), Grid(x=4)
    rows = [
        [np.nan, -np.inf, -0.0, 1, -1, np.inf],
        [1, -np.nan, 0.0, 2, -3, -np.inf],
        [0, 5, -0.0, -7, -2, np.nan],
        [-1, 6, -0.0, 3, -2, 4],
    ]
    parts = [np.array(row, dtype.numpy) for row in rows]
    groups = grid.groups(("x",))
    largest, smallest = run_words(
        grid, lambda b, x: [b.all_reduce([x], groups, k)[0] for k in ("maximum", "minimum")], parts
    )
    assert_same(largest, [np.array([np.nan, np.nan, 0.0, 3, -1, np.nan], dtype.numpy)] * 4)
    assert_same(smallest, [np.array([np.nan, np.nan, -0.0, -7, -3, np.nan], dtype.numpy)] * 4)


# -- programs -------------------------------------------------------------------------------------


def simulate(graph, mesh, parts):
    """The outputs of a per-device program on each device of a mesh; `parts[k]` are its inputs."""
    stacks = [np.stack(x).reshape(*mesh.shape, *np.shape(x[0])) for x in zip(*parts, strict=True)]
    made = testing.run(simulate_partition(graph, mesh), stacks)
    flat = [y.reshape(mesh.size, *y.shape[len(mesh.shape) :]) for y in made]
    return [[y[k] for y in flat] for k in range(mesh.size)]


def check_program(grid, graph, salt=0):
    """XLA on the devices of a mesh gives what simulated devices give."""
    types = [Type(x.type.shape, x.type.dtype) for x in graph.inputs]
    inputs = [parts_of(t.dtype, t.shape, grid.size) for t in types]
    for i, (parts, x) in enumerate(zip(inputs, graph.inputs, strict=True)):
        if not x.type.varying:
            inputs[i] = [parts[0]] * grid.size
    wanted = simulate(graph, grid, [[p[k] for p in inputs] for k in range(grid.size)])
    group = registered_engine("xla").group(grid)
    args = [group.put(p, t) for p, t in zip(inputs, types, strict=True)]
    made = registered_engine("xla").compile_on(grid, graph).run(args)
    for i, y in enumerate(made[: len(graph.outputs)]):
        for k, got in y.parts().items():
            assert got.dtype == wanted[k][i].dtype
            np.testing.assert_allclose(got, wanted[k][i], rtol=1e-12, err_msg=f"{i} on {k}")
    return wanted


@pytest.mark.parametrize("axes", [("x",), ("y",), ("x", "y")])
@on_devices
def test_named_reductions(axes):
    v = varying("v", (2, 3), "x", "y")
    ys = [op(name, axes)(v) for name in ("PSum", "PMax", "PMin")]
    check_program(Grid(x=2, y=4), Graph((v,), ys))


@on_devices
def test_named_exchanges():
    v, w = varying("v", (2, 3), "x", "y"), varying("w", (3,))
    along = [op("AxisIndex", a)() for a in "xy"]
    ys = [op("AllGather", "y", 4, d)(v) for d in range(3)]
    ys += [op("PPermute", "y", ((0, 1), (1, 2), (3, 0)))(v), op("PPermute", "x", ())(v)]
    ys += [*along, v * w, op("PSum", ("x",))(op("PVary", ("x",))(w))]
    wanted = check_program(Grid(x=2, y=4), Graph((v, w), ys))
    assert [(int(made[5]), int(made[6])) for made in wanted] == [
        (x, y) for x in range(2) for y in range(4)
    ]


@on_devices
def test_collectives_inside_a_scan():
    h, x, w = (varying(label, (3,), "x") for label in "hxw")
    mixed = op("PSum", ("x",))(h * w) * 0.25 + x
    body = hold((h, x, w), (mixed, op("PPermute", "x", ((0, 1), (1, 2), (2, 3)))(h)))
    s, xs = varying("s", (3,), "x"), varying("xs", (5, 3), "x")
    check_program(Grid(x=4), Graph((s, xs, w), result_nodes(op("Scan", body, 1, 1, 5)(s, xs, w))))


@on_devices
def test_collectives_inside_a_while_loop():
    i, v = varying("i", (), "x", dtype=int64), varying("v", (2,), "x")
    before = op("Less")(op("PMax", ("x",))(i), constant_i64(40))
    condition = hold((i, v), (before,))
    body = hold((i, v), (i + i + 1, op("PSum", ("x",))(v) * 0.5 + v))
    check_program(Grid(x=4), Graph((i, v), result_nodes(op("While", condition, body, 2)(i, v))))


def constant_i64(value):
    return op("Const", int64, (), np.int64(value).tobytes())()


@on_devices
def test_loops_may_be_of_different_length():
    i, n = (varying(label, (), "x", dtype=int64) for label in "in")
    condition, body = hold((i, n), (op("Less")(i, n),)), hold((i, n), (i + 1, n))
    loop = op("While", condition, body, 2)(i, op("AxisIndex", "x")() + 3)
    check_program(Grid(x=4), Graph((i,), result_nodes(loop)))


@on_devices
def test_collectives_inside_branches():
    v = varying("v", (2,), "x", "y")
    first = hold((v,), (op("PSum", ("x",))(v) + v,))
    second = hold((v,), (op("PMax", ("x",))(v) * v,))
    at = op("AxisIndex", "y")()
    chosen = op("Equal")(at, constant_i64(1))
    ys = result_nodes(op("Cond", (first, second))(chosen, v))
    ys += result_nodes(op("Switch", (first, second))(at, v))
    check_program(Grid(x=2, y=2), Graph((v,), ys))


@on_devices
def test_a_call_is_inlined():
    v = varying("v", (2,), "x")
    inner = Graph((v,), (op("PSum", ("x",))(v), v * v))
    for held in (op("Call", "f", inner), op("Checkpoint", "f", inner)):
        check_program(Grid(x=4), Graph((v,), result_nodes(held(v))))


@on_devices
def test_results_are_operands_of_the_next_program():
    grid = Grid(x=8)
    v = varying("v", (4,), "x")
    program = registered_engine("xla").compile_on(
        grid, Graph((v,), (op("PSum", ("x",))(v) * 0.125 + 1,))
    )
    value = (
        registered_engine("xla").group(grid).put([np.full(4, float(k)) for k in range(8)], v.type)
    )
    for _ in range(5):
        (value,) = program.run([value])
    assert_same(list(value.parts().values()), [np.full(4, 3.5 + 5)] * 8)


@on_devices
def test_donated_operands_are_deleted():
    grid = Grid(x=2)
    v = varying("v", (1000,), "x", dtype=float32)
    program = registered_engine("xla").compile_on(
        grid, Graph((v,), (op("PSum", ("x",))(v) * 2,)), (0,)
    )
    group = registered_engine("xla").group(grid)
    (value,) = program.run([group.put([np.ones(1000, np.float32)] * 2, v.type)])
    (again,) = program.run([value])
    assert value.array.is_deleted()
    assert_same(list(again.parts().values()), [np.full(1000, 16, np.float32)] * 2)


@on_devices
def test_a_check_that_fails_on_one_device_fails():
    grid = Grid(x=4)
    v, i = varying("v", (5,), "x"), varying("i", (), "x", dtype=int64)
    graph = Graph((v, i), (op("Gather", 0)(v, i), v * 2))
    program = registered_engine("xla").compile_on(grid, graph)
    group = registered_engine("xla").group(grid)
    numbers = group.put([np.arange(5.0)] * 4, v.type)
    for last, failed in ((4, []), (5, [0])):
        places = group.put([np.int64(k) for k in (0, 1, 2, last)], i.type)
        *_, word = program.run([numbers, places])
        found = program.failures(word, [None] * len(program.checks))
        assert list(found) == failed
        assert all(isinstance(e, IndexOutOfRange) for e in found.values())


@on_devices
def test_a_check_that_fails_on_one_device_ends_a_loop_on_all():
    mesh = Grid(x=4)

    def rounds(table, i):
        def body(state):
            k, total, j = state
            return k + 1, pb.psum(total, "x") * 0.5 + table[j], j + 1

        return pb.while_loop(lambda s: s[0] < 5, body, (0, table[0], i[0]))[1][None]

    mapped = pb.shard_map(rounds, mesh, (pb.P(), pb.P("x")), pb.P("x"))
    table = pb.tensor(np.arange(9.0)).shard(mesh)
    starts = [pb.tensor(np.array([0, 1, 2, last])).shard(mesh, pb.P("x")) for last in (4, 5)]
    assert mapped(table, starts[0]).shape == (4,) and mapped(table, starts[0]).numpy()[3] > 8
    with pytest.raises(IndexOutOfRange, match="index is out of range for axis 0 of size 9"):
        mapped(table, starts[1]).numpy()


@on_devices
def test_reading_parts_examines_checks():
    mesh = Grid(x=4)
    far = pb.tensor([0, 1, 2, 3]) + 2
    whole, split = pb.tensor(np.arange(5.0)), pb.tensor(np.arange(5.0)).shard(mesh)
    y, z = whole[far], split[far.shard(mesh, pb.P("x"))]
    pb.evaluate(y)
    pb.evaluate(z)
    for read in (z.shards, lambda: y.shard(mesh, pb.P("x")).numpy()):
        with pytest.raises(IndexOutOfRange, match="out of range for axis 0 of size 5"):
            read()


@on_devices
def test_programs_of_a_mesh_are_stored_on_disk(tmp_path):
    from pullback.engines.xla import disk_cache as disk

    disk.use_disk_cache(disk.DiskCache(str(tmp_path)))
    try:
        v = varying("v", (4,), "x")
        graph = Graph((v,), (op("PSum", ("x",))(v) * 3,))
        parts = parts_of(float64, (4,), 8)
        origins, found = [], []
        for grid in (Grid(x=8), Grid(x=8), Grid(x=4)):
            program = registered_engine("xla").compile_on(grid, graph)
            group = registered_engine("xla").group(grid)
            (y,) = program.run([group.put(parts[: grid.size], Type((4,), float64))])
            origins.append(program.origin)
            found.append(y.parts()[0])
        assert origins == ["missed", "disk", "missed"]
        assert_same(found, [3 * sum(parts), 3 * sum(parts), 3 * sum(parts[:4])])
    finally:
        disk.use_disk_cache(None)


@on_devices
def test_more_devices_than_there_are_raise():
    with pytest.raises(EngineError, match=r"no device cpu:8, only 8"):
        registered_engine("xla").client.group(range(9))


IN_FLIGHT = """
import threading
import numpy as np
from devices import Grid, op, varying
from pullback.graph.graph import Graph
from pullback.engines.engine_registry import registered_engine

grid = Grid(x=8)
v = varying("v", (16, 16), "x")
y = op("PSum", ("x",))(op("MatMul")(v, v)) * 0.001
y = op("PMax", ("x",))(op("MatMul")(y, v)) * 0.001
program = registered_engine("xla").compile_on(grid, Graph((v,), (y * 2, y)))
group = registered_engine("xla").group(grid)
value = group.put([np.full((16, 16), float(k)) for k in range(8)], v.type)
made = {}

def launch(name, count):
    made[name] = [program.run([value]) for _ in range(count)]

threads = [threading.Thread(target=launch, args=(k, 200)) for k in range(2)]
for t in threads: t.start()
launch(2, 600)
for t in threads: t.join()
found = {p.tobytes() for runs in made.values() for _, y in runs for p in y.parts().values()}
assert sum(map(len, made.values())) == 1000 and len(found) == 1
print("done")
"""


def test_a_thousand_programs_in_flight():
    settings = {"PULLBACK_CPU_DEVICES": "8", "PULLBACK_THREADS": "2", "PULLBACK_CACHE": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", IN_FLIGHT], env=os.environ | settings | VIRTUAL_DEVICES,
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert ended.stdout == "done\n", ended.stderr


def test_an_invalid_number_of_devices_raises():
    code = "import pullback as pb; (pb.tensor(1.0) + 1).item()"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | VIRTUAL_DEVICES | {"PULLBACK_CPU_DEVICES": "none"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "PULLBACK_CPU_DEVICES must be a positive integer, got 'none'" in ended.stderr
