"""Every op of the table on its samples: types, engines, derivatives, batching, sharding."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from each import each
from one_program import OneProgram

import pullback  # noqa: F401  (fills the table)
from pullback import testing
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.graph import dtypes
from pullback.graph.graph import Graph
from pullback.graph.op_table import TABLE
from pullback.ops.collective.all_reduce import Collective
from pullback.ops.composite import CompositeOnMesh
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.elementwise.special_base import SpecialFunction
from pullback.ops.prelude import Op, interpret
from pullback.sharding.factors import instantiate_factors
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.partitioner import partition
from pullback.sharding.spec import P, Sharding

# Sources compute nothing.
SOURCES = {"Input", "Leaf", "Scalar", "Result"}
# Collectives need a named axis: tests/api/test_collectives.py tests them.
COLLECTIVES = {n for n, cls in TABLE.items() if issubclass(cls, Collective)}
# It needs a mesh: tests/api/test_shard_map.py tests it.
ON_A_MESH = {"ShardMap"}
OPS = sorted(set(TABLE) - SOURCES - COLLECTIVES - ON_A_MESH)
PARAMETER_TYPES = (int, bool, str, bytes, dtypes.DType, Graph)


def samples(name):
    return [(op, [np.asarray(a) for a in arrays]) for op, arrays in TABLE[name].samples()]


def on_every_sample(check, name):
    """Apply a check to each sample of an op; an error names the sample."""
    for i, (op, arrays) in enumerate(samples(name)):
        try:
            check(op, arrays)
        except BaseException as error:
            error.add_note(f"on sample {i} of {name}: {op}")
            raise


@each(OPS)
def test_every_op_has_samples(name):
    assert list(TABLE[name].samples()), f"{name} gives no samples to test it with"


@each(OPS)
def test_memory_order_does_not_change_bits(name):
    """NumPy adds in the order of memory, which differs between a view and a read value."""
    for op, arrays in TABLE[name].samples():
        orders = [
            [np.array(a, order="C") for a in arrays],
            [np.array(a, order="F") for a in arrays],
            [np.flip(np.flip(a).copy()) for a in map(np.asarray, arrays)],
        ]
        with np.errstate(all="ignore"):
            want, *others = [interpret(testing.graph_of(op, xs), xs) for xs in orders]
        for made in others:
            for y, w in zip(made, want, strict=True):
                np.testing.assert_array_equal(y, w, strict=True)


@each(OPS)
def test_parameters_are_exact(name):
    def check(value):
        if type(value) is tuple:
            for part in value:
                check(part)
        else:
            assert type(value) in PARAMETER_TYPES, (name, value)

    for op, _ in TABLE[name].samples():
        check(op.parameters())
        assert type(op)(*op.parameters()) is op
        assert dataclasses.is_dataclass(op)


@each(OPS)
def test_inferred_type_is_numpys(name):
    on_every_sample(testing.check_type, name)


def applied(label, op, arrays):
    arrays = [np.asarray(a) for a in arrays]
    return label, testing.graph_of(op, arrays), arrays


UP_TO_A_FACTOR = {"Eig", "Eigh", "SVD"}  # other tests check that the products are right
CALLS = {"DebugPrint"}  # ops that call a function of this process: no file can hold that


@pytest.mark.usefixtures("cold_disk")
@pytest.mark.parametrize("name", OPS)
def test_xla_equals_numpy(name):
    """On every sample; and the same bits again, from the executable written to the disk."""
    if name in UP_TO_A_FACTOR and registered_engine("xla").platform != "cpu":
        pytest.skip("vectors are unique up to a factor: NumPy's are those of LAPACK on the CPU")
    program = OneProgram([applied(i, *case) for i, case in enumerate(TABLE[name].samples())])
    compiled = program.run()
    program.check(compiled)
    again = registered_engine("xla").compile(program.graph)
    assert again.origin == ("compiler" if name in CALLS else "disk")
    assert [v.tobytes() for v in program.run(again)] == [v.tobytes() for v in compiled]


def dtype_cases(name):
    """The first two samples of an op, in each dtype of the kinds that it takes."""
    given = samples(name)[:2]
    for dtype in dtypes.ALL:
        if dtype.kind in TABLE[name].kinds:
            for i, (op, arrays) in enumerate(given):
                yield f"{dtype}-{i}", op, testing.cast_operands(arrays, dtype)


@pytest.mark.parametrize("name", [n for n in OPS if getattr(TABLE[n], "kinds", "")])
def test_every_dtype(name):
    applications = list(dtype_cases(name))
    for _, op, arrays in applications:
        testing.check_type(op, arrays)
    if issubclass(TABLE[name], SpecialFunction):
        return  # computed in f64, of which other tests compile samples; dtypes are conversions
    found = {(op, *[a.dtype for a in arrays]) for op, arrays in samples(name)[:2]}
    changed = [c for c in applications if (c[1], *[a.dtype for a in c[2]]) not in found]
    if changed:  # XLA has run the samples above
        program = OneProgram([applied(*case) for case in changed])
        program.check(program.run(), scale=10)


@pytest.mark.parametrize("name", OPS)
def test_batch(name):
    """vmap agrees with a loop over examples, for every choice of mapped operands."""
    on_every_sample(testing.check_batch, name)


@pytest.mark.parametrize("name", OPS)
def test_sharded(name):
    """On parts of its operands, an op computes the same as on whole ones."""
    on_every_sample(testing.check_sharded, name)


# Ops whose operands must be whole in every dimension, so that they need no rule.
WHOLE = {"Index": "takes one element out of all", "Unpack": "takes one word out of all"}


@each(OPS)
def test_every_op_with_operands_says_how_it_is_split(name):
    """It has a factor rule, an expansion, or a `partition` method."""
    cls = TABLE[name]
    has_operands = any(arrays for _, arrays in cls.samples())
    says = (
        cls.factors is not Op.factors
        or issubclass(cls, CompositeOnMesh)
        or hasattr(cls, "partition")
    )
    assert bool(says) != (name in WHOLE) or not has_operands


def splits(op, arrays):
    """Yield each even split of one dimension that the op's rule keeps: the operand, the dimension
    and the number of parts."""
    graph = testing.graph_of(op, arrays)
    types = [x.type for x in graph.inputs]
    rule = instantiate_factors(op.factors(*types), types, [y.type for y in graph.outputs])
    minor = {f for side in (rule.operands, rule.results) for dims in side for d in dims
             for f in d[1:]}  # fmt: skip
    for i, dims in enumerate(rule.operands):
        for dim, words in enumerate(dims):
            n = rule.extents[words[0]] if words and words[0] not in minor else 1
            parts = [k for k in (2, 3, 5, 7) if n and n % k == 0]
            yield from [(i, dim, k) for k in parts[:1]]


JOINED_BY_ALL = {"Prod"}  # devices have no product over an axis
PASSING = [n for n in OPS if TABLE[n].factors is not Op.factors and n not in JOINED_BY_ALL]


@pytest.mark.parametrize("name", PASSING)
def test_a_kept_dimension_is_not_gathered(name):
    on_every_sample(check_kept_dimensions, name)


def check_kept_dimensions(op, arrays):
    for i, dim, parts in splits(op, arrays):
        mesh = DeviceMesh(parts, "x")
        split = Sharding(mesh, P(*[None] * dim, "x"))
        whole = [Sharding(mesh, P())] * len(arrays)
        shardings = [*whole[:i], split, *whole[i + 1 :]]
        program = partition(testing.sharded_graph(op, arrays, shardings), mesh).graph
        made = [n.op.name for n in program.nodes if n.op.name in ("AllGather", "AllToAll")]
        assert not made, f"operand {i} split along dimension {dim}: {made}"


@each(OPS)
def test_ops_with_runtime_checks_are_fallible(name):
    def check(op, arrays):
        builder = Builder()
        build_xla_module(testing.graph_of(op, arrays), builder)
        assert op.fallible or not builder.checks

    on_every_sample(check, name)


@each(OPS)
def test_every_op_with_operands_batches_by_a_rule(name):
    """Only users' ops may run one example after the other: ours have a rule or an expansion."""
    has_operands = any(arrays for _, arrays in TABLE[name].samples())
    assert not has_operands or TABLE[name].batch is not Op.batch


# Their derivative is not that of their value, by intent: a gamma number's is that of a quantile, a
# Hermitian matrix's that of both triangles where it reads one.
OTHER_BY_INTENT = {"StopGradient", "RandomGamma", "RandomLogGamma", "WaldSample", "Hermitian"}
# It has no reverse mode: tests/ops/control/test_control_derivatives.py tries the other.
FORWARD_ONLY = {"While"}
OTHERS = OTHER_BY_INTENT | FORWARD_ONLY
DIFFERENTIABLE = [n for n in OPS if TABLE[n].differentiable and n not in OTHERS]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name):
    """jvp agrees with central differences, vjp with jvp, both to second order."""
    on_every_sample(testing.check_derivatives, name)


BROADCASTING = [n for n in DIFFERENTIABLE if issubclass(TABLE[n], Elementwise)]


@each(BROADCASTING)
def test_rules_do_not_reduce(name):
    on_every_sample(testing.check_cotangent_shapes, name)


@each(OPS)
def test_every_op_states_its_derivative(name):
    cls = TABLE[name]
    composite = hasattr(cls, "expand")
    if cls.differentiable and not composite:
        assert cls.vjp is not Op.vjp, f"{name} needs vjp or differentiable = False"
        assert cls.jvp is not Op.jvp or cls.linear, f"{name} needs jvp or linear = True"


@each(OPS)
def test_every_op_has_a_docstring(name):
    assert (TABLE[name].__doc__ or "").strip(), f"{name} has no docstring"
