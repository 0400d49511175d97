"""Tests that need several devices run in a process of their own that has them."""

from __future__ import annotations

import functools
import importlib
import inspect
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.builder import Builder
from pullback.engines.xla.hlo_instructions import HloBlock
from pullback.engines.xla.hlo_printer import print_hlo_module
from pullback.graph.dtypes import ALL, bfloat16, float64
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh


def on_devices(test):
    """Run a test in a process with eight virtual devices; its parameters must be picklable."""

    @functools.wraps(test)
    def elsewhere(**parameters):
        _process().submit(_run, test.__module__, test.__name__, parameters).result(timeout=120)

    return elsewhere


def on_meshes(test):
    """Run a test with the fixture `engine` on simulated devices, and on eight virtual ones."""
    there = on_devices(test)

    @functools.wraps(test)
    def somewhere(**parameters):
        (there if parameters["engine"] == "xla" else test)(**parameters)

    return somewhere


@functools.cache
def _process():
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_prepare)


def _prepare():
    os.environ["PULLBACK_CPU_DEVICES"] = "8"
    os.environ["PULLBACK_PLATFORM"] = "cpu"


def _run(module, name, parameters):
    inspect.unwrap(getattr(importlib.import_module(module), name))(**parameters)


def Grid(**axes):
    """The first devices as a mesh."""
    return DeviceMesh(tuple(axes.values()), tuple(axes))


# -- values and words ----------------------------------------------------------------------------

NAMES = [d.name for d in ALL]
REDUCTIONS = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip
_TAKES = {"add": "iufc", "multiply": "iufc", "maximum": "biuf", "minimum": "biuf"}


def sample(dtype, shape, salt=0):
    """Small numbers that every element type has, and whose sums and products are exact."""
    numbers = np.random.default_rng(salt).integers(0, 4, shape)
    if dtype.kind in "if":
        numbers = numbers - 2
    made = numbers.astype(dtype.numpy)
    return made + 1j * made[::-1] if dtype.is_complex else made


def parts_of(dtype, shape, count):
    return [sample(dtype, shape, salt) for salt in range(count)]


def run_words(grid, write, *operands):
    """What `write(builder, *values)` gives on each device; an operand is a list of parts."""
    b = Builder(grid)
    types = [Type(parts[0].shape, dtype_of(parts[0])) for parts in operands]
    args = [b.value(t) for t in types]
    outs = write(b, *args)
    main = HloBlock(tuple(args), b.instructions, tuple(outs))
    text = print_hlo_module(
        main, attributes=f" attributes {{mhlo.num_replicas = {grid.size} : i32}}"
    )
    group = registered_engine("xla").group(grid)
    program = group.compile(text, [o.type for o in outs])
    made = program.run([group.put(p, t) for p, t in zip(operands, types, strict=True)])
    return [y.parts() for y in made]


def dtype_of(array):
    return next(d for d in ALL if d.numpy == array.dtype)


def assert_same(got, wanted):
    """Equal to the bit; `got` by position, of this process, or in a list."""
    assert got if isinstance(got, dict) else len(got) == len(wanted)
    for k, a in got.items() if isinstance(got, dict) else enumerate(got):
        b = wanted[k]
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype == bfloat16.numpy:  # whose NaN NumPy takes for different ones
            a, b = a.astype(np.float32), b.astype(np.float32)
        np.testing.assert_array_equal(a, b)


def dtype_named(name):
    return next(d for d in ALL if d.name == name)


def check_words(dtype, grid):
    """Every word on values of one element type, over the last axis of a grid of two by two."""
    groups, parts = grid.groups(grid.axis_names[-1:]), parts_of(dtype, (4, 2), 4)
    kinds = [kind for kind in REDUCTIONS if dtype.kind in _TAKES.get(kind, "biu")]
    around = [(0, 1), (1, 3), (2, 2)]

    def write(b, x):
        made = [b.all_reduce([x], groups, kind)[0] for kind in kinds]
        made += [b.reduce_scatter(x, groups, 0, kind) for kind in kinds]
        moved = b.all_gather(x, groups, 1), b.all_to_all(x, groups, 0, 1)
        return [*made, *moved, b.collective_permute(x, around)]

    *reduced, gathered, exchanged, permuted = run_words(grid, write, parts)
    pairs = [(parts[k - k % 2], parts[k - k % 2 + 1]) for k in range(4)]
    totals = [[REDUCTIONS[kind](*pair) for pair in pairs] for kind in kinds]
    halves = [[total[k][2 * (k % 2) :][:2] for k in range(4)] for total in totals]
    for got, wanted in zip(reduced, totals + halves, strict=True):
        assert_same(got, wanted)
    assert_same(gathered, [np.concatenate(pair, 1) for pair in pairs])
    mine = [[p[2 * (k % 2) :][:2] for p in pair] for k, pair in enumerate(pairs)]
    assert_same(exchanged, [np.concatenate(blocks, 1) for blocks in mine])
    none = np.zeros_like(parts[0])
    assert_same(permuted, [none, parts[0], parts[2], parts[1]])


# -- programs -------------------------------------------------------------------------------------


def op(name, *parameters):
    return TABLE[name](*parameters)


def varying(label, shape, *axes, dtype=float64):
    return placeholder(label, Type(shape, dtype, None, tuple(sorted(axes))))
