"""Identity of ops, types and dtypes; user lines; graphs."""

from __future__ import annotations

import gc
import math
import os
import sys
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from ir_ops import F32, F64, I32, I64, Blob, Clipped, Counted, Marked, Placed, Scaled, source

from pullback.errors import DTypeError
from pullback.graph import dtypes, source_lines
from pullback.graph.graph import Graph
from pullback.graph.node import constant_node
from pullback.graph.types import Type
from pullback.ops.reduce.reductions import Sum
from pullback.ops.sources import Result, leaf_source


class Pair(NamedTuple):
    a: float
    b: float


# -- identity -----------------------------------------------------------------------------------


def test_equal_parameters_give_the_same_object():
    assert Sum((0,), False) is Sum((0,), False) is Sum(axes=[0], keepdims=False)
    assert Sum((0,), False) is not Sum((0,), True)
    assert Type((2, 3), F32) is Type([2, np.int64(3)], F32)
    assert Type((2, 3), F32) is not Type((2, 3), F64)
    assert Scaled(0.5) is Scaled(0.5)


@pytest.mark.parametrize("op", [Scaled, Marked])
def test_parameters_are_compared_by_type_and_bits(op):
    assert op(0.0) is not op(-0.0)
    assert op(math.nan) is op(float("nan"))
    assert op(1.0) is not op(1)
    assert op(1) is not op(True)
    assert op(np.float64(0.0)) is not op(np.float64(-0.0))
    assert op(np.float32(0.0)) is not op(np.float32(-0.0))
    assert op(np.float32("nan")) is op(np.float32("nan"))
    assert op(ml_dtypes.bfloat16(0)) is not op(-ml_dtypes.bfloat16(0))
    assert op(complex(0.0, 0.0)) is not op(complex(0.0, -0.0))


def test_parameters_inside_tuples_are_compared_by_type_and_bits():
    assert Marked((0.0, 1)) is not Marked((-0.0, 1))
    assert Marked(((1,),)) is not Marked(((True,),))
    assert Marked((math.nan,)) is Marked((float("nan"),))
    assert Marked(Pair(0.0, 1.0)) is not Marked(Pair(-0.0, 1.0))
    assert Marked(Pair(0.0, 1.0)) is not Marked((0.0, 1.0))


def test_1_is_not_true_in_either_order():
    one, true = Counted(1), Counted(True)
    assert one is not true
    assert type(one.count) is int
    assert type(true.count) is bool
    assert Counted(True) is true
    assert Counted(1) is one
    assert Counted(count=1) is one


def test_constants_are_compared_by_bits():
    zero, negative = constant_node(0.0, F32), constant_node(-0.0, F32)
    assert zero.op is not negative.op
    assert constant_node(math.nan, F32).op is constant_node(math.nan, F32).op
    assert constant_node(1, I32).op is not constant_node(1, I64).op


def test_unused_interned_ops_are_freed():
    before = len(Blob._canonical)
    blob = Blob(bytes(100_000))
    assert len(Blob._canonical) == before + 1
    assert not any(len(v) > 1000 for key in Blob._quick for v in key if isinstance(v, bytes))
    del blob
    gc.collect()
    assert len(Blob._canonical) == before


def test_keyword_parameters_give_the_same_op():
    assert Sum(axes=(0,), keepdims=False) is Sum((0,), keepdims=False) is Sum((0,), False)
    assert Sum(axes=(0,), keepdims=True) is not Sum(axes=(0,), keepdims=False)
    for _ in range(2):  # also when it is looked up
        assert Result(index=1) is Result(1) is not Result(index=True)


def test_only_exact_parameters_are_looked_up_by_equality():
    assert Clipped((0.0, 1.0)) is not Clipped((-0.0, 1.0))
    assert Clipped._quick is None and Placed._quick == {}


def test_ops_are_frozen():
    with pytest.raises(AttributeError):
        Sum((0,), False).axes = (1,)


# -- dtypes -------------------------------------------------------------------------------------


FLOATS = [dtypes.float16, F32, F64]
INTEGERS = [d for d in dtypes.ALL if d.kind in "biu"]
COMPLEX = [dtypes.complex64, dtypes.complex128]


@pytest.mark.parametrize("family", [INTEGERS, [*FLOATS, *COMPLEX]])
def test_promotion_within_a_kind_follows_numpy(family):
    for a in family:
        for b in family:
            assert dtypes.promote_dtypes(a, b).numpy == np.promote_types(a.numpy, b.numpy), (a, b)


def test_an_integer_with_an_inexact_dtype_gives_the_inexact_one():
    for a in INTEGERS:
        for b in [*FLOATS, *COMPLEX, dtypes.bfloat16]:
            assert dtypes.promote_dtypes(a, b) is b is dtypes.promote_dtypes(b, a)


def test_promotion_of_bfloat16():
    bf16 = dtypes.bfloat16
    assert dtypes.promote_dtypes(bf16, bf16) is bf16
    assert dtypes.promote_dtypes(bf16, dtypes.float16) is F32
    assert dtypes.promote_dtypes(bf16, F32) is F32
    assert dtypes.promote_dtypes(bf16, F64) is F64
    assert dtypes.promote_dtypes(bf16, dtypes.complex64) is dtypes.complex64


def test_promotion_is_commutative_and_idempotent():
    for a in dtypes.ALL:
        assert dtypes.promote_dtypes(a, a) is a
        for b in dtypes.ALL:
            assert dtypes.promote_dtypes(a, b) is dtypes.promote_dtypes(b, a)


@pytest.mark.parametrize("d", dtypes.ALL, ids=str)
def test_every_name_of_a_dtype_is_known(d):
    assert d is dtypes.dtype(d) is dtypes.dtype(d.name) is dtypes.dtype(d.public)
    assert d is dtypes.dtype(d.numpy) is dtypes.dtype(d.numpy.type)
    assert d is dtypes.dtype(d.numpy.newbyteorder(">"))


def test_python_number_types_are_the_default_dtypes():
    wanted = {bool: dtypes.bool_, int: I64, float: F32, complex: dtypes.complex64}
    assert {t: dtypes.dtype(t) for t in wanted} == wanted


@pytest.mark.parametrize("spec", [None, "float7", object, "M8[s]", "U3"])
def test_anything_else_is_not_a_dtype(spec):
    with pytest.raises(DTypeError):
        dtypes.dtype(spec)


# -- where --------------------------------------------------------------------------------------


def test_user_line_is_the_line_of_the_caller():
    here, line = source_lines.user_line(), sys._getframe().f_lineno
    assert (here.line, here.function) == (line, "test_user_line_is_the_line_of_the_caller")
    assert here.file == __file__
    assert str(here) == f"test_graph.py:{line}"


def test_user_line_skips_frames_of_pullback():
    inside = compile(
        "def call(f):\n    return f()\n", os.path.join(source_lines._PACKAGE, "x.py"), "exec"
    )
    scope: dict = {}
    exec(inside, scope)
    made, line = scope["call"](source_lines.user_line), sys._getframe().f_lineno
    assert (made.line, made.file) == (line, __file__)


def test_lines_of_one_statement_are_distinguished():
    first, second = source_lines.user_line(), source_lines.user_line()
    assert first.line == second.line
    assert first != second


# -- graphs -------------------------------------------------------------------------------------


def test_calling_a_graph_keeps_its_leaves():
    x, w = source(2), leaf_source(Type((2,), F32), np.ones(2, np.float32))
    y = source(2)
    (made,) = Graph([x], [x * w])(y)
    assert made.inputs == (y, w)
