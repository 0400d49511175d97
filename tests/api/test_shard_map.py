"""shard_map: programs for one device's shards, compared with the same on whole values."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from devices import on_devices
from exchanges import EXCHANGES, check_exact, of_every_type
from helpers import line, told
from paths import EXAMPLES
from rows import same

import pullback as pb
from pullback import P
from pullback.errors import ArgumentError, IndexOutOfRange, ShapeError

RNG = np.random.default_rng(52)
X = RNG.standard_normal((8, 4))
W = RNG.standard_normal((4, 6))
T = RNG.standard_normal((8, 4))
MESH = pb.DeviceMesh((2, 2), ("dp", "tp"))


@pytest.fixture
def reference():
    with pb.config(engine="reference"):
        yield


def mapped(in_specs, out_specs, mesh=MESH):
    """A decorator: the function on the shards of a mesh."""
    return lambda f: pb.shard_map(f, mesh, in_specs, out_specs)


# -- programs, each beside the same on whole values -----------------------------------------------


@mapped((P("dp"), P()), P("dp"))
def data_parallel(x, w):
    return pb.tanh(x @ w)


@mapped((P("dp"), P(None, "tp")), (P("dp", "tp"), P()))
def columns(x, w):
    y = pb.tanh(x @ w)
    return y, pb.psum((y**2).sum(), ("dp", "tp"))


@mapped((P(None, "tp"), P("tp")), P())
def rows(x, w):
    return pb.psum(x @ w, "tp") ** 2


@mapped((P(("dp", "tp")), P()), P(None, ("tp", "dp")))
def exchanged(x, w):
    """Rows along both axes become columns along both, in another order."""
    y = pb.sin(x)
    y = pb.all_to_all(y, "tp", 1, 0)
    return pb.all_to_all(y, "dp", 1, 0)


def exchange_whole(x, w):
    y = pb.sin(x).reshape(2, 2, 2, 4)  # dp, tp, own rows
    return y.transpose(1, 0, 2, 3).reshape(8, 4)[ORDER]


ORDER = [0, 1, 4, 5, 2, 3, 6, 7]


@mapped((P("dp"), P()), (P("dp"), P()))
def scattered(x, w):
    y = pb.reduce_scatter(x @ w, "dp")
    return y, pb.pmax(pb.all_gather(x, "dp", axis=1, tiled=True), "tp").sum()


def scatter_whole(x, w):
    y = x @ w
    return y[:4] + y[4:], x.sum()


@mapped((P("dp", "tp"), P("tp")), (P("dp"), P("dp")))
def recurrence(x, w):
    """A state that varies along one axis only, although the rows vary along both."""

    def step(state, row):
        state = pb.tanh(state + pb.psum(row @ w, "tp"))
        return state, pb.ppermute(state, "dp", [(0, 1), (1, 0)])

    return pb.scan(step, pb.zeros((6,), dtype=pb.float64), x)


def recurrence_whole(x, w):
    states, made = [], []
    for half in (x[:4], x[4:]):
        state, rows = pb.zeros((6,), dtype=pb.float64), []
        for row in half:
            state = pb.tanh(state + row @ w)
            rows.append(state)
        states.append(state)
        made.append(pb.stack(rows))
    return pb.concat(states), pb.concat(made[::-1])


@mapped((P("dp"), P()), P("dp"))
def nested(x, w):
    inner = pb.shard_map(lambda w: pb.tanh(x @ w), MESH, P(None, "tp"), P(None, "tp"))
    return inner(w)


@mapped((P("dp"), P()), P())
def inner_gradient(x, w):
    """The gradient of a value that all devices share is the sum over the devices."""
    return pb.grad(lambda w: (pb.tanh(x @ w) ** 2).sum())(w)


def whole_gradient(x, w):
    return pb.grad(lambda w: (pb.tanh(x @ w) ** 2).sum())(w)


@mapped((P("dp"), P()), P())
def checkpointed(x, w):
    return pb.checkpoint(lambda x: pb.sin(pb.psum(pb.sin(x @ w), "dp")))(x)


@mapped((P("dp"), P()), P("dp"))
def chosen(x, w):
    """Devices take different branches."""
    return pb.cond(pb.axis_index("dp") == 0, lambda: pb.sin(x @ w), lambda: (x @ w) ** 2)


def choose_whole(x, w):
    return pb.concat([pb.sin(x[:4] @ w), (x[4:] @ w) ** 2])


def closed_over(x, w):
    """Tensors from outside are whole on every device, and get gradients."""
    scale = w.sum()
    return pb.shard_map(lambda x: pb.tanh(x @ w) * scale * 0.5, MESH, P("dp"), P("dp"))(x)


def in_a_loop(x, w):
    def step(x, _):
        return x + 0.1 * rows(x, w)[:, :4], None

    return pb.scan(step, x, length=3)[0]


def loop_whole(x, w):
    for _ in range(3):
        x = x + 0.1 * ((x @ w) ** 2)[:, :4]
    return x


PROGRAMS = {
    "data parallel": (data_parallel, lambda x, w: pb.tanh(x @ w)),
    "columns": (columns, lambda x, w: (pb.tanh(x @ w), (pb.tanh(x @ w) ** 2).sum())),
    "rows": (rows, lambda x, w: (x @ w) ** 2),
    "exchanged": (exchanged, exchange_whole),
    "scattered": (scattered, scatter_whole),
    "recurrence": (recurrence, recurrence_whole),
    "nested": (nested, lambda x, w: pb.tanh(x @ w)),
    "gradient inside": (inner_gradient, whole_gradient),
    "checkpoint": (checkpointed, lambda x, w: pb.sin(pb.sin(x[:4] @ w) + pb.sin(x[4:] @ w))),
    "branches": (chosen, choose_whole),
    "closed over": (closed_over, lambda x, w: pb.tanh(x @ w) * w.sum() * 0.5),
    "in a loop": (in_a_loop, loop_whole),
}  # fmt: skip


def scalar(f):
    """A number that depends on all results in different ways."""

    def loss(x, w):
        ys = pb.tree.leaves(f(x, w))
        weights = [pb.tensor(np.cos(np.arange(y.size)).reshape(y.shape)) for y in ys]
        return sum((y * y * c).sum() for y, c in zip(ys, weights, strict=True))

    return loss


def alike(got, want):
    pairs = zip(pb.tree.leaves(got), pb.tree.leaves(want), strict=True)
    for a, b in pairs:
        same(a, b)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("reference")
def test_values_and_gradients(name):
    f, whole = PROGRAMS[name]
    x, w = pb.tensor(X), pb.tensor(W)
    alike(f(x, w), whole(x, w))
    wanted = pb.grad(scalar(whole), (0, 1))(x, w)
    alike(pb.grad(scalar(f), (0, 1))(x, w), wanted)
    alike(pb.compile(f)(x, w), whole(x, w))
    alike(pb.compile(pb.grad(scalar(f), (0, 1)))(x, w), wanted)
    for spec in (P("tp"), P(None, "dp"), P(("tp", "dp"))):
        moved = x.shard(MESH, spec)
        alike(f(moved, w), whole(x, w))
        alike(pb.grad(scalar(f), (0, 1))(moved, w), wanted)


@pytest.mark.parametrize("name", PROGRAMS)
@on_devices
def test_values_and_gradients_on_devices(name):
    f, whole = PROGRAMS[name]

    def both(f, x, w):
        return f(x, w), pb.grad(scalar(f), (0, 1))(x, w)

    with pb.config(engine="reference"):
        want = pb.tree.map(lambda y: y.numpy(), both(whole, pb.tensor(X), pb.tensor(W)))
    x = pb.tensor(X).shard(MESH, P(None, "dp"))
    alike(pb.compile(both, static_argnums=0)(f, x, pb.tensor(W)), want)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("reference")
def test_forward_mode_and_second_order(name):
    f, whole = map(scalar, PROGRAMS[name])
    x, w, t = pb.tensor(X), pb.tensor(W), pb.tensor(T)
    alike(pb.jvp(f, (x, w), (t, w)), pb.jvp(whole, (x, w), (t, w)))
    alike(pb.hvp(f, (x, w), (t, w)), pb.hvp(whole, (x, w), (t, w)))

    def twice(f):
        return pb.grad(lambda x, w: (pb.grad(f)(x, w) * t).sum(), (0, 1))(x, w)

    alike(twice(f), twice(whole))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("reference")
def test_batches(name):
    f, whole = PROGRAMS[name]
    xs, w = pb.tensor(np.stack([X, T, X + T])), pb.tensor(W)
    ws = pb.stack([w, w * 0.5, -w])
    for axes, args in (((0, None), (xs, w)), ((None, 0), (xs[0], ws)), ((0, 0), (xs, ws))):
        alike(pb.vmap(f, axes)(*args), pb.vmap(whole, axes)(*args))

    def total(f):
        return lambda xs, w: pb.vmap(scalar(f), (0, None))(xs, w).sum()

    alike(pb.grad(total(f), (0, 1))(xs, w), pb.grad(total(whole), (0, 1))(xs, w))


@pytest.mark.parametrize("name", EXCHANGES)
@on_devices
def test_every_dtype_on_devices(name):
    """On a mesh with another axis, along which all values are the same."""
    one, _, kinds = EXCHANGES[name]
    arrays = of_every_type(kinds)

    def parts(xs):
        return [pb.pvary(one(x[0]), "i")[None] for x in xs]

    mesh = pb.DeviceMesh((2, 3), ("j", "i"))
    f = pb.shard_map(parts, mesh, pb.P("i"), pb.P("i"))
    check_exact(name, arrays, f([pb.tensor(a) for a in arrays]))


# -- what lies where ------------------------------------------------------------------------------


@pytest.mark.usefixtures("reference")
def test_results_have_the_layout_of_their_specs():
    y, total = columns(pb.tensor(X), pb.tensor(W))
    assert y.sharding == pb.Sharding(MESH, P("dp", "tp"))
    assert total.sharding == pb.Sharding(MESH, P())
    x = pb.tensor(X).shard(MESH, P(None, "dp"))
    assert pb.grad(scalar(columns))(x, pb.tensor(W)).sharding == x.sharding
    assert in_a_loop(pb.tensor(X), pb.tensor(W)).sharding.mesh is MESH


@pytest.mark.usefixtures("reference")
def test_trees_numbers_and_other_arguments():
    @mapped(({"x": P("dp"), "w": P()}, None, P()), {"y": P("dp"), "rest": P()})
    def f(params, mode, scale):
        assert mode == "sin"
        assert type(scale) is float
        y = pb.sin(params["x"] @ params["w"]) * scale
        return {"y": y, "rest": (pb.psum(y.sum(), "dp"), 3)}

    made = f({"x": X, "w": pb.tensor(W)}, "sin", 2.0)
    want = 2 * np.sin(X @ W)
    same(made["y"], want)
    same(made["rest"][0], want.sum())
    assert made["rest"][1].item() == 3


@pytest.mark.usefixtures("reference")
def test_an_inner_gradient_of_a_varying_value_is_per_device():
    @mapped((P("dp"), P()), P("dp"))
    def own(x, w):
        return pb.grad(lambda w: (x @ w).sum())(pb.pvary(w, "dp"))

    made = own(pb.tensor(X), pb.tensor(W)).numpy()
    for half, got in zip((X[:4], X[4:]), np.split(made, 2), strict=True):
        same(got, np.repeat(half.sum(0)[:, None], 6, 1))


@pytest.mark.usefixtures("reference")
def test_a_loop_inside_gives_what_a_python_loop_gives():
    """Also under a gradient inside, which depends on whether the state varies."""

    def train(loop):
        @mapped((P("dp"), P()), P())
        def f(x, w):
            def step(w):
                return w - 0.1 * pb.grad(lambda w: (pb.tanh(x @ w) ** 2).sum())(w)

            return loop(step, w)

        return f

    def unrolled(step, w):
        for _ in range(3):
            w = step(w)
        return w

    def scanned(step, w):
        return pb.scan(lambda w, _: (step(w), None), w, length=3)[0]

    x, w = pb.tensor(X), pb.tensor(W)

    def whole(x, w):
        for _ in range(3):
            w = w - 0.1 * pb.grad(lambda w: (pb.tanh(x @ w) ** 2).sum())(w)
        return w

    for loop in (unrolled, scanned):
        same(train(loop)(x, w), whole(x, w))
        alike(pb.grad(scalar(train(loop)), (0, 1))(x, w), pb.grad(scalar(whole), (0, 1))(x, w))


@pytest.mark.usefixtures("reference")
def test_a_custom_rule_inside():
    @pb.custom_vjp
    def summed(x, w):
        return pb.psum(x @ w, "dp")

    def forward(x, w):
        return summed(x, w), (x, w)

    def backward(kept, g):
        x, w = kept
        assert pb.axis_size("dp") == 2
        return g @ w.T, x.T @ g

    summed.defvjp(forward, backward)
    x, w = pb.tensor(X), pb.tensor(W)
    specs = (P("dp"), P()), P()
    by_rule, plain = mapped(*specs)(summed), mapped(*specs)(lambda x, w: pb.psum(x @ w, "dp"))
    alike(pb.grad(scalar(by_rule), (0, 1))(x, w), pb.grad(scalar(plain), (0, 1))(x, w))

    def inside(f):
        return mapped((P("dp"), P()), (P("dp"), P()))(pb.grad(scalar(f), (0, 1)))

    alike(inside(summed)(x, w), inside(lambda x, w: pb.psum(x @ w, "dp"))(x, w))


@pytest.mark.usefixtures("reference")
def test_the_axis_of_a_vmap_around_it():
    def centred(x):
        mean = pb.pmean(x, "i")
        return pb.shard_map(lambda x, m: x - pb.pmean(m, "dp"), MESH, P("dp"), P("dp"))(x, mean)

    def crossing(x):
        return pb.shard_map(lambda x: x - pb.pmean(pb.pmean(x, "i"), "dp"), MESH, P("dp"), P("dp"))(
            x
        )

    xs = np.stack([X, T, X + T])
    mean = xs.mean(0).reshape(2, 4, 4).mean(0)
    want = xs - np.concatenate([mean, mean])
    for f in (centred, crossing):
        got = pb.vmap(f, axis_name="i")(pb.tensor(xs))
        same(got, want)
        g = pb.grad(lambda xs, f=f: (pb.vmap(f, axis_name="i")(xs) ** 3).sum())(pb.tensor(xs))
        c = 3 * want**2
        share = (c.sum(0)[:4] + c.sum(0)[4:]) / 6
        same(g, c - np.concatenate([share, share]))


def count_ops(graph, names):
    """The number of ops of each name in a graph; `loops` counts those in inner graphs too."""
    from pullback.graph.graph import graphs_in_parameters

    found = {}
    for node in graph.nodes:
        for inner in graphs_in_parameters(node.op.parameters()):
            for name, n in count_ops(inner, names).items():
                found[f"loop {name}"] = found.get(f"loop {name}", 0) + n
        if node.op.name in names:
            found[node.op.name] = found.get(node.op.name, 0) + 1
    return found


def per_device(f, *args, mesh=MESH):
    """The program of one device."""
    from pullback.api.placeholders import stage_on_placeholders
    from pullback.graph.canonical import canonicalise
    from pullback.sharding.partition.partitioner import partition

    leaves, tree = pb.tree.flatten((args, {}))
    staged = stage_on_placeholders("f", f, [x._node.type for x in leaves], tree)
    return canonicalise(partition(canonicalise(staged.graph), mesh).graph)


COLLECTIVES = ("PSum", "AllReduce", "AllGather", "AllToAll", "ReduceScatter", "PPermute")


@pytest.mark.usefixtures("reference")
def test_forward_work_is_done_once_and_sums_come_once():
    x, w = (pb.tensor(a).shard(MESH, P("dp")) for a in (X, W))
    w = pb.tensor(W).shard(MESH, P())
    program = per_device(pb.value_and_grad(lambda w, x: (data_parallel(x, w) ** 2).mean()), w, x)
    assert count_ops(program, ("Tanh", *COLLECTIVES)) == {"Tanh": 1, "PSum": 2}

    @mapped((P("dp"), P()), P("dp"))
    def rnn(x, w):
        def step(h, row):
            h = pb.tanh(row @ w + h)
            return h, None

        return pb.scan(step, pb.zeros((6,), dtype=pb.float64), x)[0]

    # the gradient of the weights is summed over the devices after the loop, not in each iteration
    gradient = per_device(pb.grad(lambda w, x: rnn(x, w).sum()), w, x)
    assert count_ops(gradient, COLLECTIVES) == {"PSum": 1}


@pytest.mark.usefixtures("reference")
def test_a_compiled_function_inside_is_traced_for_the_axes_that_are_bound():
    scaled = pb.compile(lambda x: x * pb.axis_size("dp"))
    other = pb.DeviceMesh(4, "dp")
    for mesh, n in ((MESH, 2), (other, 4), (MESH, 2)):
        same(mapped(P("dp"), P("dp"), mesh)(scaled)(pb.tensor(X)), n * X)
    with told(ArgumentError, ValueError, "no axis named 'dp'"):
        scaled(pb.tensor(X))


@pytest.mark.usefixtures("reference")
def test_a_pipeline_communicates_no_more_than_it_must(monkeypatch):
    """One transfer per tick, forward and backward; results and gradients are summed once."""
    monkeypatch.setenv("PULLBACK_CPU_DEVICES", "1")  # or the example would set it
    example = runpy.run_path(str(EXAMPLES / "pipeline.py"))
    mesh = pb.DeviceMesh((2, 4), ("data", "stage"))
    rng = np.random.default_rng(0)
    params = {k: p.shard(mesh, P("stage")) for k, p in example["initial_params"](4, rng).items()}
    xs = pb.tensor(rng.standard_normal((6, 4, 8))).shard(mesh, P(None, "data"))

    def step(params, xs):
        model = example["pipelined"](mesh)
        return pb.value_and_grad(lambda params: example["loss"](model, params, xs, xs))(params)

    found = count_ops(per_device(step, params, xs, mesh=mesh), ("Tanh", *COLLECTIVES))
    # the last sums are those of the loss, the results, weights and biases, in two buckets
    assert found == {"loop Tanh": 1, "loop PPermute": 2, "PSum": 4}
    plan = pb.debug.explain_sharding(step)(params, xs)
    assert plan.counts["all_reduce"] == 2
    assert "None" not in str(plan)


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reference")
def test_errors_name_the_users_line():
    x, w = pb.tensor(X), pb.tensor(W)
    with told(ArgumentError, TypeError, "shard_map", "DeviceMesh", "'dp'"):
        pb.shard_map(lambda x: x, "dp", P("dp"), P("dp"))
    with told(ArgumentError, ValueError, "has no axis 'pp'", "in_specs", "dp, tp"):
        pb.shard_map(lambda x: x, MESH, P("pp"), P())
    with told(ArgumentError, ValueError, "has no axis 'pp'", "out_specs"):
        pb.shard_map(lambda x: x, MESH, P(), {"y": P("pp")})
    with told(ArgumentError, ValueError, "named twice"):
        pb.shard_map(lambda x: x, MESH, P("dp", "dp"), P())
    with told(ArgumentError, ValueError, "in_specs must be a pb.P", "'dp'"):
        pb.shard_map(lambda x: x, MESH, "dp", P())
    with told(ArgumentError, ValueError, "1 entries for 2 arguments"):
        mapped((P("dp"),), P())(lambda x, w: x)(x, w)
    with told(ArgumentError, ValueError, "in_specs", "a prefix of the arguments"):
        mapped(({"a": P("dp")},), P())(lambda x: x)(x)
    with told(ArgumentError, ValueError, "out_specs", "a prefix of the results"):
        mapped(P("dp"), (P("dp"), P()))(lambda x: x)(x)
    what = "dimension 0 must be divisible by the 4 devices"
    with told(ShapeError, ValueError, "argument[0]", what, "f64[6,4]"):
        mapped(P(("dp", "tp")), P())(lambda x: x)(x[:6])
    with told(ShapeError, ValueError, "argument[0]['a']", "f64[4]", "2 dimensions"):
        mapped(P("dp", "tp"), P())(lambda t: t["a"])({"a": x[0]})
    with told(ShapeError, ValueError, "result[1]", "2 dimensions"):
        mapped(P("dp"), P("dp", "tp"))(lambda x: (x, x[0]))(x)
    with told(ArgumentError, ValueError, "argument[1] is a str", "only tensors can be split"):
        mapped(P("dp"), P("dp"))(lambda x, mode: x)(x, "mode")
    with told(ArgumentError, ValueError, "must be positional", "w"):
        mapped(P("dp"), P("dp"))(lambda x, w: x)(x, w=w)


@pytest.mark.usefixtures("reference")
def test_a_result_that_differs_along_an_axis_must_name_it():
    x = pb.tensor(X)
    with told(ArgumentError, ValueError, "result[1]", "'dp'", "pb.psum(x, 'dp')", "name the axis"):
        mapped(P("dp"), P())(lambda x: (pb.psum(x, "dp"), x.sum()))(x)
    with told(ArgumentError, ValueError, "'tp'"):
        mapped(P("dp"), P("dp"))(lambda x: x * pb.axis_index("tp"))(x)
    # a value that is the same along an axis may have a spec that names it: it is repeated
    same(mapped(P(), P("dp"))(lambda x: x)(x), np.concatenate([X, X]))


@pytest.mark.usefixtures("reference")
def test_meshes_and_axes_that_do_not_fit_together():
    x, other = pb.tensor(X), pb.DeviceMesh(2, "pp")
    with told(ArgumentError, ValueError, "must be on", "pp=2", "dp=2, tp=2"):
        data_parallel(x.shard(other, P("pp")), pb.tensor(W))
    with told(ArgumentError, ValueError, "mesh must be the same", "pp=2"):
        mapped(P("dp"), P("dp"))(lambda x: pb.shard_map(lambda x: x, other, P(), P())(x))(x)
    with told(ArgumentError, ValueError, "already split along 'dp'"):
        mapped(P("dp"), P("dp"))(mapped(P("dp"), P("dp"))(lambda x: x))(x)
    with told(ArgumentError, ValueError, "result differs", "'tp'"):
        mapped(P("dp"), P("dp"))(mapped(P(None, "tp"), P())(lambda x: x.sum()))(x)
    with told(ArgumentError, ValueError, "shard_map", "'dp' is already bound"):
        pb.vmap(lambda x: data_parallel(x, pb.tensor(W)), axis_name="dp")(pb.tensor(X[None]))
    with told(ArgumentError, ValueError, "vmap", "'dp' is already bound"):
        mapped(P(), P())(lambda x: pb.vmap(lambda x: x, axis_name="dp")(x))(x)
    with told(ArgumentError, ValueError, "lays a value out"):
        mapped(P("dp"), P("dp"))(lambda x: x.shard(MESH, P("tp")))(x)
    with told(ArgumentError, ValueError, "psum", "no axis named 'dp'", "pb.shard_map"):
        pb.psum(x, "dp")
    with told(ArgumentError, ValueError, "no axis named 'pp'", "'dp', 'tp'"):
        mapped(P("dp"), P())(lambda x: pb.psum(x, "pp"))(x)


@pytest.mark.usefixtures("reference")
def test_collectives_in_diverging_branches_are_rejected():
    """It would deadlock on devices, so recording it raises."""
    x, first = pb.tensor(X), lambda: pb.axis_index("dp") == 0

    def total(x):
        return pb.psum(x, "dp")

    with told(ArgumentError, ValueError, "cond", "a branch communicates along axis 'dp'"):
        mapped(P("dp"), P())(lambda x: pb.cond(first(), total, lambda x: x[:4] * 0, x))(x)
    with told(ArgumentError, ValueError, "while", "communicates along axis 'dp'", "pb.pmax"):
        mapped(P("dp"), P("dp"))(
            lambda x: pb.while_loop(lambda x: x.sum() < 100, lambda x: x + total(x) ** 2, x)
        )(x)

    # along another axis, all devices that communicate take the same branch
    @mapped(P("dp", "tp"), P("dp"))
    def along_tp(x):
        return pb.cond(first(), lambda: pb.psum(x, "tp"), lambda: pb.pmax(x, "tp") * 2)

    halves = [X[:4, :2] + X[:4, 2:], 2 * np.maximum(X[4:, :2], X[4:, 2:])]
    same(along_tp(x), np.concatenate(halves))


@on_devices
def test_a_failure_inside_names_its_line():
    f, inside = mapped((P("dp"), P()), P("dp"))(lambda x, i: x[i]), line()
    index = pb.tensor([0, 3])
    same(f(pb.tensor(X), index), X.reshape(2, 4, 4)[:, [0, 3]].reshape(4, 4))
    with told(IndexOutOfRange, IndexError, "4", at=inside):
        f(pb.tensor(X), index + 1).numpy()
