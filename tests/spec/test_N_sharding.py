"""Sharding, by the numbers of the checklist: N7, N26, N39, N41 to N47 and N49 to N51."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from devices import on_devices, on_meshes
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError, VerificationError
from pullback.graph.dtypes import float32
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.sharding.factors import instantiate_factors, parse_factors
from pullback.sharding.propagate import plan_propagation

P = pb.P
MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))


@pytest.fixture(autouse=True)
def simulated():
    """These tests run on one device, except those that ask for several."""
    with pb.config(engine="reference"):
        yield


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def put(spec, *shape, seed=0):
    return pb.tensor(array(*shape, seed=seed)).shard(MESH, spec)


def collectives(f):
    """The number of collectives of each kind in the per-device program of f."""
    return lambda *args: pb.debug.explain_sharding(f)(*args).counts


def sent(f):
    """The bytes that each device sends in one run of f."""
    return lambda *args: pb.debug.explain_sharding(f)(*args).nbytes


def local_program(f, *args):
    return pb.debug.explain_sharding(f)(*args).program


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=2e-5)


# -- N7, N26, N39 ---------------------------------------------------------------------------------


@on_meshes
def test_N7_the_global_shape_and_the_local_ones(engine):
    whole = array(7, 8)
    x = pb.tensor(whole).shard(MESH, P("dp", "tp"))
    assert x.shape == (7, 8) and x.local_shape == (4, 2) and x.size == 56
    shards = x.shards()
    assert [s.device for s in shards] == list(range(8))
    assert [s.data.shape for s in shards] == [(4, 2)] * 4 + [(3, 2)] * 4  # without the padding
    for s in shards:
        np.testing.assert_array_equal(s.data, whole[s.index])
    np.testing.assert_array_equal(x.numpy(), whole)


SPECS = [P(), P("dp"), P(None, "tp"), P("tp", "dp"), P(("dp", "tp")), P(None, ("tp", "dp"))]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@on_meshes
def test_N26_a_gradient_has_the_layout_of_its_input(engine, spec):
    x, w = put(P("dp", "tp"), 6, 8), put(spec, 8, 5, seed=1)

    def loss(w, x):
        return (pb.tanh(x @ w) ** 2).sum()

    dw, dx = pb.grad(loss, argnums=(0, 1))(w, x)
    want = pb.grad(loss, argnums=(0, 1))(*[pb.tensor(t.numpy()) for t in (w, x)])
    assert dw.sharding is w.sharding and dx.sharding is x.sharding
    close(dw, want[0])
    close(dx, want[1])
    assert dw.sharding is w.sharding
    shards = {tuple((s.start, s.stop) for s in shard.index): [] for shard in dw.shards()}
    for shard in dw.shards():  # equal parts are equal on all devices: no sum was left partial
        shards[tuple((s.start, s.stop) for s in shard.index)].append(shard.data)
    for same in shards.values():
        for part in same[1:]:
            np.testing.assert_array_equal(part, same[0])


def test_N26_a_zero_gradient_has_the_layout_of_its_input():
    w = put(P("tp"), 8, 4)
    assert pb.grad(lambda w: (w.detach() * 2).sum())(w).sharding is w.sharding


@pytest.fixture
def table():
    before = dict(TABLE)
    yield
    TABLE.clear()
    TABLE.update(before)


@pytest.mark.usefixtures("table")
@on_meshes
def test_N39_a_custom_op_is_sharded_by_its_factors(engine):
    class Outer(pb.Op):
        """The products of the elements of two vectors."""

        def infer(self, x, y):
            return x.with_shape((*x.shape, *y.shape))

        def numpy(self, x, y):
            return np.multiply.outer(x, y)

        def hlo(self, b, out, x, y):
            wide = [b.broadcast_in_dim(v, out.shape, (i,)) for i, v in enumerate((x, y))]
            return b.op("stablehlo.multiply", *wide, out=out)

        def vjp(self, g, out, xs, need):
            x, y = xs
            row = pb.op("Reshape", (x.type.size, 1))(x)
            return [pb.op("Sum", (1,), False)(g * y), pb.op("Sum", (0,), False)(g * row)]

        def factors(self, x, y):
            return "i, j -> i j"

    outer = Outer()
    x, y = put(P("dp"), 6), put(P("tp"), 9, seed=1)
    z = pb.apply(outer, x, y)
    assert z.sharding.spec is P("dp", "tp")
    assert collectives(lambda x, y: pb.apply(outer, x, y))(x, y) == {}
    close(z, np.multiply.outer(x.numpy(), y.numpy()))
    dx, dy = pb.grad(lambda x, y: (pb.apply(outer, x, y) ** 2).sum(), argnums=(0, 1))(x, y)
    assert dx.sharding is x.sharding and dy.sharding is y.sharding
    close(dx, 2 * x.numpy() * (y.numpy() ** 2).sum())
    close(dy, 2 * y.numpy() * (x.numpy() ** 2).sum())


@pytest.mark.usefixtures("table")
@on_meshes
def test_N39_a_custom_reduction_says_how_shards_are_combined(engine):
    class Largest(pb.Op):
        """The largest element of each row."""

        combine = "max"
        differentiable = False

        def infer(self, x):
            return x.with_shape(x.shape[:1])

        def numpy(self, x):
            return x.max(1)

        def hlo(self, b, out, x):
            return pb.op("Max", (1,), False).hlo(b, out, x)

        def factors(self, x):
            return "i j -> i"

    x = put(P("dp", "tp"), 5, 7)  # neither dimension divides: what pads must not win
    x = x - 10
    y = pb.apply(Largest(), x)
    assert y.sharding.spec is P("dp")
    close(y, x.numpy().max(1))


# -- N41, N42, N43 --------------------------------------------------------------------------------


def test_N41_shapes_and_names_of_a_mesh():
    assert MESH.shape == (2, 4) and MESH.axis_names == ("dp", "tp") and MESH.size == 8
    assert repr(MESH) == "DeviceMesh(dp=2, tp=4)"
    assert pb.DeviceMesh(4, "x").shape == (4,)
    assert repr(pb.DeviceMesh(2, "x", devices=[5, 3])) == "DeviceMesh(x=2, devices=(5, 3))"
    assert MESH.groups(("tp",)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert MESH.groups(("dp",)) == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_N41_a_dimension_has_a_name_none_or_a_tuple():
    assert P("dp", None, ("tp", "sp")).dims == (("dp",), (), ("tp", "sp"))
    assert P(("dp", ("tp",))) is P(("dp", "tp"))  # nested
    assert P(("dp",)) is P("dp") and P("dp", None) is P("dp") and P(None) is P()


def test_N41_an_axis_is_used_once():
    for spec in [("dp", "dp"), (("tp", "dp"), "dp"), (("dp", "dp"),)]:
        with told(ArgumentError, ValueError, "axis 'dp' is named twice"):
            P(*spec)


def test_N42_parse():
    assert parse_factors("m k, k n -> m n") == ((("m", "k"), ("k", "n")), (("m", "n"),))
    assert parse_factors("... (a b) 1 _ -> a ...") == (
        (("...", ("a", "b"), "1", "_"),), (("a", "..."),)
    )  # fmt: skip
    for wrong in ("m k", "m [k -> m", "m -> m)"):
        with pytest.raises(VerificationError, match="factor rule"):
            parse_factors(wrong)


def types(*shapes):
    return [Type(s, float32) for s in shapes]


def test_N42_instantiate():
    rule = instantiate_factors(
        "... m k, k n -> ... m n", types((5, 2, 3), (3, 4)), types((5, 2, 4))
    )
    assert rule.extents == {"...1": 5, "m": 2, "k": 3, "n": 4} and rule.contracted == ["k"]
    rule = instantiate_factors("(a b) c -> a b c", types((6, 4)), types((2, 3, 4)))
    assert rule.extents == {"a": 2, "b": 3, "c": 4} and rule.contracted == []
    rule = instantiate_factors("(a=2 b) _ -> (a=2 c) _", types((6, 4)), types((4, 6)))
    assert rule.extents == {"a": 2, "b": 3, "c": 2} and rule.operands == ((("a", "b"), ()),)
    rule = instantiate_factors("..., ... -> ...", types((4, 1), (3,)), types((4, 3)))
    assert rule.operands[0] == (("...2",), ())  # along size 1 the operand repeats


@pytest.mark.parametrize(
    ("text", "xs", "ys", "words"),
    [
        ("m, m -> m", [(2,), (3,)], [(2,)], "factor 'm' is 2 and 3"),
        ("m -> m", [(2,), (3,)], [(2,)], "has 1 operands and 1 results"),
        ("m -> m", [(2, 3)], [(2,)], "does not fit a value of type f32\\[2,3\\]"),
        ("(a b) -> a", [(7,)], [(2,)], "a b does not make 7"),
        ("(a=3 b) -> (a=3 c)", [(9,)], [(8,)], "a c does not make 8"),
        ("(a b) -> (a c)", [(6,)], [(6,)], "a b does not make 6"),
    ],
)
def test_N42_a_rule_that_does_not_fit_raises(text, xs, ys, words):
    with pytest.raises(VerificationError, match=words):
        instantiate_factors(text, types(*xs), types(*ys))


def test_N42_propagate():
    """What a rule does to the shardings of operands, for every form of word."""
    x = put(P("dp", "tp"), 8, 12)
    assert (x + put(P(), 12)).sharding.spec is P("dp", "tp")  # ...
    assert x.T.sharding.spec is P("tp", "dp")
    assert x.reshape(2, 4, 12).sharding.spec is P("dp", None, "tp")  # (a b): the major one
    assert x.reshape(8, 4, 3).sharding.spec is P("dp", "tp")
    assert x.reshape(96).sharding.spec is P("dp")
    assert x.reshape(6, 16).sharding.spec is P("dp")  # both begin with a factor of 2
    assert x.reshape(3, 32).sharding.spec is P()
    assert x.reshape(1, 8, 12).sharding.spec is P(None, "dp", "tp")  # 1
    assert put(P(("dp", "tp")), 8, 12).reshape(2, 4, 12).sharding.spec is P("dp")
    assert put(P("dp"), 9, 5).reshape(3, 3, 5).sharding.spec is P()  # 3 does not divide by 2


def test_N43_results_get_the_layout_of_their_factors_while_recording():
    x, w = put(P("dp", "tp"), 6, 8), put(P("tp"), 8, 5)
    before = pb.engine_info().programs_run
    y = x @ w
    assert y.sharding.spec is P("dp") and y.sharding.mesh is MESH
    assert pb.tanh(y + 1).sharding.spec is P("dp")
    assert y.sum(0).sharding.spec is P() and y.sum(1).sharding.spec is P("dp")
    assert x.mean().sharding.spec is P()
    assert pb.engine_info().programs_run == before
    assert (pb.ones(3) + 1).sharding is None


# -- N44 ------------------------------------------------------------------------------------------


WIDE = pb.DeviceMesh((2, 2, 2), ("a", "b", "c"))


def agreed(one, other, shape=(8, 8)):
    x, y = (pb.tensor(array(*shape)).shard(WIDE, s) for s in (one, other))
    made = x + y
    close(made, 2 * array(*shape))
    return made.sharding.spec.dims


@pytest.mark.parametrize("swap", [False, True])
def test_N44_explicit_replication_comes_first(swap):
    specs = [P("a", "b"), P(None, None, replicated="a")]
    assert agreed(*specs[:: -1 if swap else 1]) == ((), ("b",))
    specs = [P(("b", "a")), P(None, None, replicated=("a", "c"))]
    assert agreed(*specs[:: -1 if swap else 1]) == (("b",),)
    urgent = [P("a", priority=-5), P(None, replicated="a")]  # before any priority
    assert agreed(*urgent[:: -1 if swap else 1]) == ()


@pytest.mark.parametrize("swap", [False, True])
def test_N44_then_the_lower_priority_number(swap):
    specs = [P("a", priority=0), P(("b", "c"), priority=1)]  # before more parallelism
    assert agreed(*specs[:: -1 if swap else 1]) == (("a",),)
    specs = [P("a", None, priority=2), P(None, "a", priority=1)]  # one axis, two dimensions
    assert agreed(*specs[:: -1 if swap else 1]) == ((), ("a",))


@pytest.mark.parametrize("swap", [False, True])
def test_N44_then_more_parallelism(swap):
    specs = [P("a"), P(("b", "c"))]
    assert agreed(*specs[:: -1 if swap else 1]) == (("b", "c"),)
    specs = [P(None, "a"), P(None, ("a", "b"))]
    assert agreed(*specs[:: -1 if swap else 1]) == ((), ("a", "b"))


@pytest.mark.parametrize("swap", [False, True])
def test_N44_then_the_common_prefix(swap):
    specs = [P(("a", "b")), P(("a", "c"))]
    assert agreed(*specs[:: -1 if swap else 1]) == (("a",),)
    specs = [P("a"), P("b")]  # nothing in common
    assert agreed(*specs[:: -1 if swap else 1]) == ()


def test_N44_priorities_are_propagated():
    x = pb.tensor(array(8, 8)).shard(WIDE, P("a", priority=3))
    y = pb.tanh(x) + pb.tensor(array(8, 8)).shard(WIDE, P("b", priority=4))
    assert y.sharding.spec is P("a", priority=3)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(SPECS, SPECS)))
def test_N44_an_answer_does_not_depend_on_the_order_of_operands(one, other):
    """Except for one axis on two dimensions: the first dimension of the result takes it."""
    op = TABLE["Add"]()
    xs = [put(s, 8, 8)._node.type for s in (one, other)]
    results = [
        plan_propagation(op, pair, [xs[0].plain], MESH).results[0].dims for pair in (xs, xs[::-1])
    ]
    assert results[0] == results[1]


# -- N45, N46 -------------------------------------------------------------------------------------


def partial(*, seed=0):
    """Operands of a product whose result is a sum over the four devices along tp."""
    return put(P(None, "tp"), 6, 8, seed=seed), put(P("tp"), 8, 5, seed=seed + 1)


@on_meshes
def test_N45_sums_of_partial_sums_stay_partial(engine):
    args = (*partial(), *partial(seed=5))

    def f(a, b, c, d):
        return a @ b + c @ d

    assert collectives(f)(*args) == {"all_reduce": 1}
    a, b, c, d = (t.numpy() for t in args)
    close(f(*args), a @ b + c @ d)


@on_meshes
def test_N45_a_product_with_a_whole_value_stays_partial(engine):
    a, b, c = *partial(), put(P(), 5)

    def f(a, b, c):
        return ((a @ b) * c).sum(0)

    program = local_program(f, a, b, c)
    names = [n.op.name for n in program.nodes]
    assert names.index("PSum") > names.index("Mul") and names.count("PSum") == 1
    assert sent(f)(a, b, c) == 2 * 3 / 4 * 5 * 4  # what is sent is the small result
    close(f(a, b, c), (a.numpy() @ b.numpy() * c.numpy()).sum(0))


@on_meshes
def test_N45_a_divisor_may_be_zero_so_a_quotient_is_taken_of_the_sum(engine):
    x = pb.tensor([1.0, 2.0, -5.0, 1.0]).shard(MESH, P("dp"))  # inf - inf, if each divided its own
    assert (x.sum() / pb.tensor(0.0)).item() == -np.inf


@on_meshes
def test_N45_a_nonlinear_op_forces_the_sum(engine):
    a, b = partial()

    def f(a, b):
        return pb.tanh(a @ b) + pb.tanh(a @ b).sum(0)

    names = [n.op.name for n in local_program(f, a, b).nodes]
    assert names.index("PSum") < names.index("Tanh") and names.count("PSum") == 1
    y = np.tanh(a.numpy() @ b.numpy())
    close(f(a, b), y + y.sum(0))


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean", "any", "all", "argmax"])
@on_meshes
def test_N45_each_reduction_combines_in_its_own_way(engine, name):
    x = array(7, 5) + 0.5  # seven rows on two devices: one is padding, and counts for nothing
    x = x > 0 if name in ("any", "all") else x
    y = getattr(pb, name)(pb.tensor(x).shard(MESH, P("dp")), axis=0)
    close(y, getattr(np, name)(x, axis=0))


@on_meshes
def test_N45b_a_sharding_is_final_and_never_partial(engine):
    a, b = partial()
    y = a @ b
    said = y.sharding
    assert said.spec is P()
    pb.evaluate(y)
    assert y.sharding is said
    for shard in y.shards():
        np.testing.assert_array_equal(shard.data, y.shards()[0].data)
    close(y, a.numpy() @ b.numpy())


WHOLE_FIRST = {
    "sort": (lambda m, x: m.sort(x, axis=0), lambda x: np.sort(x, axis=0)),
    "concat": (lambda m, x: m.concat([x, x], axis=0), lambda x: np.concatenate([x, x])),
    "index": (lambda m, x: x[m.tensor([3, 0])], lambda x: x[[3, 0]]),
    "flip": (lambda m, x: m.flip(x, axis=0), lambda x: np.flip(x, 0)),
    "scan": (
        lambda m, x: m.scan(lambda c, r: (c + r, c + r), m.zeros(4), x)[1],
        lambda x: np.cumsum(x, 0),
    ),
    "convolve": (
        lambda m, x: m.conv(x[None], m.ones((3, 4, 2))),
        lambda x: (x[:-2] + x[1:-1] + x[2:]).sum(-1)[None, :, None].repeat(2, -1),
    ),
}


@pytest.mark.parametrize("name", WHOLE_FIRST)
@on_meshes
def test_N45b_a_dimension_that_must_be_whole_is_made_whole(engine, name):
    f, want = WHOLE_FIRST[name]
    x = put(P("dp", "tp"), 7, 4)
    close(f(pb, x), want(x.numpy()))


def moved(before, after, *shape):
    x = put(before, *shape)

    def f(x):
        return pb.reshard(x, after)

    np.testing.assert_array_equal(f(x).numpy(), x.numpy())
    assert f(x).sharding.spec is after
    return collectives(f)(x)


@pytest.mark.parametrize("shape", [(8, 8), (7, 5), (2, 1)])
@on_meshes
def test_N46_a_mismatch_is_resolved_by_the_right_collective(engine, shape):
    assert moved(P(), P("tp"), *shape) == {}  # a slice
    assert moved(P(), P("dp", "tp"), *shape) == {}
    assert moved(P("tp"), P(), *shape) == {"all_gather": 1}
    assert moved(P("tp"), P(None, "tp"), *shape) == {"all_to_all": 1}
    assert moved(P("dp"), P("dp", "tp"), *shape) == {}


@on_meshes
def test_N46_operands_that_differ_are_moved_for_an_op(engine):
    x, y = put(P("tp"), 8, 8), put(P("tp", None, priority=1), 8, 8, seed=1)
    assert collectives(lambda x, y: x + y)(x, y) == {}
    z = put(P(None, "tp", priority=1), 8, 8, seed=2)
    assert collectives(lambda x, z: x + z)(x, z) == {"all_to_all": 1}
    close(x + z, x.numpy() + z.numpy())


# -- N47, N49, N50, N51 ---------------------------------------------------------------------------


def product(x, w):
    return x @ w


@on_meshes
def test_N47_data_and_column_parallel_products_do_not_communicate(engine):
    data = put(P("dp"), 6, 8), put(P(), 8, 5)
    columns = put(P(), 6, 8), put(P(None, "tp"), 8, 5)
    for (x, w), spec in ((data, P("dp")), (columns, P(None, "tp"))):
        assert collectives(product)(x, w) == {}
        assert (x @ w).sharding.spec is spec
        close(x @ w, x.numpy() @ w.numpy())


@on_meshes
def test_N47_a_row_parallel_product_has_one_all_reduce(engine):
    x, w = partial()
    assert collectives(product)(x, w) == {"all_reduce": 1}
    close(x @ w, x.numpy() @ w.numpy())


@on_meshes
def test_N49_an_axis_on_both_sides_of_a_product(engine):
    """One dimension of the result takes it, the other operand is gathered."""
    x, w = put(P("tp"), 8, 8), put(P(None, "tp"), 8, 8, seed=1)
    y = x @ w
    assert y.sharding.spec is P("tp")
    assert collectives(product)(x, w) == {"all_gather": 1}
    close(y, x.numpy() @ w.numpy())


def test_N50_what_collectives_send():
    x = put(P("tp"), 8, 8)
    nbytes = 8 * 8 * 4
    assert sent(lambda x: pb.reshard(x, P()))(x) == 3 / 4 * nbytes  # all_gather
    assert sent(lambda x: pb.reshard(x, P(None, "tp")))(x) == 3 / 4 * nbytes / 4  # all_to_all
    a, b = put(P(None, "tp"), 8, 8), put(P("tp"), 8, 8)
    assert sent(product)(a, b) == 2 * 3 / 4 * nbytes  # all_reduce
    assert sent(lambda a, b: pb.reshard(a @ b, P("tp")))(a, b) == 3 / 4 * nbytes  # reduce_scatter


@on_meshes
def test_N50_the_cheapest_plan_is_chosen(engine):
    """A contracted axis asks for a sum of the large result; to gather the thin operand costs a
    hundredth of that."""
    x, w = put(P(None, "tp"), 2048, 4), put(P(), 4, 2048)
    assert collectives(product)(x, w) == {"all_gather": 1}
    assert sent(product)(x, w) == 3 / 4 * 2048 * 4 * 4
    close(x @ w, x.numpy() @ w.numpy())


def test_N51_any_mesh_is_simulated_without_devices():
    mesh = pb.DeviceMesh((4, 8, 2), ("a", "b", "c"))
    x = array(50, 17)
    with pb.config(engine="reference"):
        made = pb.tensor(x).shard(mesh, P(("a", "c"), "b"))
        y = pb.tanh(made) @ made.T
        assert y.sharding.spec is P(("a", "c"))
        close(y, np.tanh(x) @ x.T)
        assert len(y.shards()) == 64


@on_devices
def test_N51_the_program_that_is_simulated_is_the_one_that_runs_on_devices():
    x, w = partial()

    def f(x, w):
        return pb.grad(lambda w: (pb.tanh(x @ w) ** 2).sum())(w)

    found = []
    for name in ("reference", "xla"):
        with pb.config(engine=name):
            found.append(str(local_program(f, x, w)))
    assert found[0] == found[1] and "PSum" in found[0]


# -- N53 ------------------------------------------------------------------------------------------


def network(w, x):
    return pb.value_and_grad(lambda w: ((pb.tanh(x @ w["in"]) @ w["out"]) ** 2).mean())(w)


def widths(width, hidden):
    return {"in": Type((width, hidden), float32), "out": Type((hidden, width), float32)}


@pytest.mark.parametrize(
    ("sizes", "specs"),
    [
        ((512, 2048, 65536), (P(), P(), P(("dp", "tp")))),
        ((8192, 32768, 64), (P(None, ("dp", "tp")), P(("dp", "tp")), P())),
    ],
)
def test_N53_specs_are_chosen_by_the_cost_model(sizes, specs):
    width, hidden, rows = sizes
    plan = pb.auto_shard(network, MESH).plan(widths(width, hidden), Type((rows, width), float32))
    assert tuple(plan.specs.values()) == specs


@on_meshes
def test_N53_the_result_is_the_unsharded_one(engine):
    w, x = {"in": array(6, 16), "out": array(16, 6, seed=1)}, array(24, 6, seed=2)
    machine = pb.Machine(flops=1e6, bandwidth=1e9, latency=1e-9)
    f = pb.auto_shard(network, MESH, machine=machine)
    assert any(spec.dims for spec in f.plan(w, x).specs.values())
    value, slopes = f(w, x)
    wanted, exact = network(pb.tree.map(pb.asarray, w), pb.asarray(x))
    close(value, wanted.numpy())
    for name in w:
        close(slopes[name], exact[name].numpy())


def test_N41_invalid_meshes_raise():
    with told(ArgumentError, ValueError, "needs one axis name per dimension, got 1 for 2"):
        pb.DeviceMesh((2, 4), ("dp",))
    with told(ShapeError, ValueError, "names 3 dimensions, the value has 2"):
        pb.ones((2, 2)).shard(MESH, P("dp", None, "tp"))
