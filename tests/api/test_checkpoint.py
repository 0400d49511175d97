"""checkpoint: values are recomputed in the backward pass; same numbers, less memory."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, HostReadError
from pullback.graph.canonical import canonicalise
from pullback.graph.op_table import TABLE

X = np.linspace(-1.0, 1.0, 9).reshape(3, 3)
W = np.linspace(0.5, -0.5, 9).reshape(3, 3)
POLICIES = {
    "nothing": pb.checkpoint_policies.nothing_saved,
    "dots": pb.checkpoint_policies.dots_saved,
    "names": pb.checkpoint_policies.names_saved("hidden"),
}


@pytest.fixture(params=["xla", "reference"], autouse=True)
def engine(request):
    with pb.config(engine=request.param):
        yield request.param


@pytest.fixture(params=POLICIES.values(), ids=POLICIES.keys())
def policy(request):
    return request.param


def block(x, w):
    hidden = pb.checkpoint_name(pb.tanh(x @ w), "hidden")
    return pb.sin(hidden @ w) * x


def close(got, want, rtol=1e-6):
    got, want = pb.tree.leaves(got), pb.tree.leaves(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-9)


def names(f, *args):
    """The ops of the program that runs for `f`."""
    return [n.op.name for n in canonicalise(pb.trace(f, *args).graph).nodes]


# -- the same numbers -----------------------------------------------------------------------------


def test_the_value(policy):
    x, w = pb.tensor(X), pb.tensor(W)
    close(pb.checkpoint(block, policy)(x, w), block(x, w))


def test_the_gradient(policy):
    x, w = pb.tensor(X), pb.tensor(W)
    safe = pb.checkpoint(block, policy=policy)

    def gradient(f):
        return pb.grad(lambda x, w: f(f(x, w), w).sum(), (0, 1))(x, w)

    close(gradient(safe), gradient(block))


def test_both_modes_to_second_order(policy):
    pb.check_grads(pb.checkpoint(block, policy=policy), (pb.tensor(X), pb.tensor(W)), order=2)


def test_forward_over_reverse_and_reverse_over_forward(policy):
    x, w = pb.tensor(X), pb.tensor(W)

    def mixed(f):
        def along(x):
            return pb.jvp(lambda x: f(x, w), (x,), (w,))[1].sum()

        hvp = pb.hvp(lambda x: f(x, w).sum(), (x,), (w,))[0]
        return hvp, pb.grad(along)(x)

    close(mixed(pb.checkpoint(block, policy=policy)), mixed(block))


def test_batched_second_order(policy):
    """Saved values are behind several barriers, and a fused loop reads all of them."""
    x, w = pb.tensor(X), pb.tensor(W)

    def layer(x, w):
        return pb.sin(pb.checkpoint_name(pb.tanh(w @ x), "hidden")) * x

    def second(f):
        by_w = pb.grad(lambda x, w: (f(x, w) ** 2).sum(), argnums=1)
        return pb.vmap(pb.grad(lambda x: (by_w(x, w) ** 2).sum()))(x)

    close(second(pb.checkpoint(layer, policy)), second(layer))


def test_an_unused_result_adds_nothing_to_a_gradient():
    f = pb.checkpoint(lambda x: (x.sum(), x * pb.inf))
    assert pb.grad(lambda x: f(x)[0])(pb.tensor([1.0, 2.0])).tolist() == [1.0, 1.0]
    second = pb.grad(lambda x: pb.grad(lambda x: f(x)[0] ** 3)(x).sum())
    assert second(pb.tensor([1.0, 2.0])).tolist() == [36.0, 36.0]


def test_checkpoints_nest():
    inner = pb.checkpoint(lambda x: pb.sin(x) * x)
    outer = pb.checkpoint(lambda x: inner(inner(x)) * 2.0)

    def plain(x):
        for _ in range(2):
            x = pb.sin(x) * x
        return x * 2.0

    x = pb.tensor(X)
    close(pb.grad(lambda x: outer(x).sum())(x), pb.grad(lambda x: plain(x).sum())(x))
    pb.check_grads(outer, (x,), order=2)


def test_tensors_from_outside_get_gradients(policy):
    x, w = pb.tensor(X), pb.tensor(W)

    def loss(w):
        return pb.checkpoint(lambda x: block(x, w), policy=policy)(x).sum()

    close(pb.grad(loss)(w), pb.grad(lambda w: block(x, w).sum())(w))
    p = pb.tensor(W, requires_grad=True)
    loss(p).backward()
    close(p.grad, pb.grad(loss)(w))


def test_trees_static_values_and_numbers_as_arguments():
    @pb.checkpoint
    def f(params, x, n, *, mode):
        for _ in range(n):
            x = getattr(pb, mode)(x) * params["scale"]
        return {"y": x}, x.sum()

    def loss(params, x):
        out, total = f(params, x, 2, mode="sin")
        return (out["y"] * total).sum()

    params, x = {"scale": pb.tensor(0.5, dtype="float64")}, pb.tensor(X)
    pb.check_grads(loss, (params, x), order=1)
    close(pb.checkpoint(lambda x, c: x * c)(x, 3.0), X * 3)


def test_integers_and_constant_results():
    @pb.checkpoint
    def f(x, i):
        return x[i] * x.sum(), i + 1, pb.ones((2,))

    x, i = pb.tensor(X), pb.tensor([0, 2])
    _, j, one = f(x, i)
    assert j.tolist() == [1, 3] and one.tolist() == [1.0, 1.0]
    close(pb.grad(lambda x: f(x, i)[0].sum())(x), pb.grad(lambda x: (x[i] * x.sum()).sum())(x))


def test_decorators():
    @pb.checkpoint
    def f(x):
        "what it says"
        return pb.sin(x)

    @pb.checkpoint(policy=pb.checkpoint_policies.dots_saved)
    def g(x):
        return pb.cos(x)

    assert (f.__name__, f.__doc__, g.__name__) == ("f", "what it says", "g")
    x = pb.tensor(X)
    close(pb.grad(lambda x: (f(x) + g(x)).sum())(x), np.cos(X) - np.sin(X))


def test_a_custom_rule_inside_a_checkpoint_and_around_one():
    @pb.custom_vjp
    def f(x):
        return pb.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (3.0 * g * x,))
    x = pb.tensor(X)
    close(pb.grad(lambda x: pb.checkpoint(lambda x: f(x * 2.0))(x).sum())(x), 12 * X)

    @pb.custom_vjp
    def h(x):
        return pb.checkpoint(pb.sin)(x)

    def pull(x, g):
        return pb.vjp(pb.checkpoint(lambda x: x * x), x)[1](g)

    h.defvjp(lambda x: (h(x), x), pull)
    close(pb.grad(lambda x: h(x).sum())(x), 2 * X)


def test_vmap_of_a_gradient_and_gradient_of_a_vmap():
    safe = pb.checkpoint(lambda x: pb.sin(x) * pb.exp(x))
    x = pb.tensor(X)
    want = np.exp(X) * (np.sin(X) + np.cos(X))
    close(pb.grad(lambda x: pb.vmap(safe)(x).sum())(x), want)
    close(pb.vmap(pb.vmap(pb.grad(safe)))(x), want)
    close(pb.vmap(lambda x: pb.jvp(safe, (x,), (x,))[1])(x), want * X)


def test_vmap_with_policies(policy):
    xs, w = pb.tensor(np.stack([X, X + 1, X - 1])), pb.tensor(W)

    def losses(f):
        return lambda xs, w: pb.vmap(f, in_axes=(0, None))(xs, w).sum()

    safe = pb.checkpoint(block, policy=policy)
    close(pb.grad(losses(safe), (0, 1))(xs, w), pb.grad(losses(block), (0, 1))(xs, w))


def test_inside_a_loop(policy):
    """Also a checkpointed loop, batched, and to second order."""
    x, w = pb.tensor(X), pb.tensor(W)

    def loss(f):
        def run(x, w):
            return pb.scan(lambda h, _: (f(h, w), h.sum()), x, None, length=3)

        return lambda x, w: run(x, w)[0].sum() + (run(x, w)[1] ** 2).sum()

    safe = pb.checkpoint(block, policy=policy)
    plain, again = loss(block), loss(safe)
    close(pb.grad(again, (0, 1))(x, w), pb.grad(plain, (0, 1))(x, w))
    close(pb.hvp(lambda x: again(x, w), (x,), (w,)), pb.hvp(lambda x: plain(x, w), (x,), (w,)))
    xs = pb.tensor(np.stack([X, X + 1]))
    close(
        pb.vmap(pb.grad(again), in_axes=(0, None))(xs, w),
        pb.vmap(pb.grad(plain), in_axes=(0, None))(xs, w),
    )


def test_around_a_loop():
    @pb.checkpoint
    def run(x):
        return pb.scan(lambda h, _: (pb.sin(h) * x, None), x, None, length=3)[0]

    def plain(x):
        h = x
        for _ in range(3):
            h = pb.sin(h) * x
        return h

    x = pb.tensor(X)
    close(pb.grad(lambda x: run(x).sum())(x), pb.grad(lambda x: plain(x).sum())(x))


def test_eager_mode(policy):
    x, w = pb.tensor(X), pb.tensor(W)
    want = pb.grad(lambda x: block(x, w).sum())(x).numpy()
    with pb.config(eager=True):
        close(pb.grad(lambda x: pb.checkpoint(block, policy=policy)(x, w).sum())(x), want)


# -- what is computed again -----------------------------------------------------------------------


def test_values_that_are_not_saved_are_recomputed_behind_a_barrier():
    def gradient(f):
        return lambda x, w: pb.value_and_grad(lambda x, w: f(x, w).sum(), (0, 1))(x, w)

    x, w = pb.tensor(X), pb.tensor(W)
    inner = TABLE["Checkpoint"]

    def counts(policy):
        graph = canonicalise(pb.trace(gradient(pb.checkpoint(block, policy)), x, w).graph)
        (held,) = [n.op.graph.nodes for n in graph.nodes if isinstance(n.op, inner)]
        forward = [n.op.name for n in held]
        behind = [n.op.name for n in graph.nodes if not isinstance(n.op, inner)]
        assert forward.count("Tanh") == 1
        return behind.count("Tanh"), behind.count("MatMul"), behind.count("Barrier")

    plain = names(gradient(block), x, w).count("MatMul") - 2
    assert counts(POLICIES["nothing"]) == (1, plain + 2, 1)
    assert counts(POLICIES["dots"]) == (1, plain, 1)
    assert counts(POLICIES["names"]) == (0, plain + 1, 1)


def test_a_name_alone_does_nothing():
    x = pb.tensor(X)
    assert names(lambda x: pb.checkpoint_name(x, "a") + 1.0, x) == ["Input", "Const", "Add"]
    close(pb.grad(lambda x: (pb.checkpoint_name(x, "a") ** 2).sum())(x), 2 * X)


def test_a_result_of_several_can_be_saved_by_name():
    pair = pb.checkpoint(lambda x: (pb.sin(x), pb.cos(x)))

    @pb.checkpoint(policy=pb.checkpoint_policies.names_saved("s"))
    def f(x):
        s, c = pair(x)
        return pb.checkpoint_name(pb.checkpoint_name(s, "s"), "t") * c

    close(pb.grad(lambda x: f(x).sum())(pb.tensor(X)), np.cos(2 * X))


def test_policies_combine():
    both = POLICIES["dots"] | POLICIES["names"] | pb.checkpoint_policies.names_saved("z", "hidden")
    assert both == pb.checkpoint_policies.CheckpointPolicy(True, ("hidden", "z"))


def test_a_call_of_the_same_function_is_the_same_program():
    from pullback.lazy.launch import state

    x, w = pb.tensor(X), pb.tensor(W)

    def step():
        return pb.grad(lambda x: pb.checkpoint(block)(x, w).sum())(x).numpy()

    step()
    before = state.cache.compiles
    step()
    assert state.cache.compiles == before


# -- errors ---------------------------------------------------------------------------------------


def test_bad_arguments_raise():
    with told(ArgumentError, ValueError, "checkpoint: policy", "checkpoint_policies"):
        pb.checkpoint(pb.sin, policy="dots")
    with told(ArgumentError, TypeError, "checkpoint_name", "string"):
        pb.checkpoint_name(pb.tensor(1.0), 3)
    with told(ArgumentError, TypeError, "names_saved", "strings"):
        pb.checkpoint_policies.names_saved(3)


def test_reading_a_value_inside_raises_at_its_line():
    with told(HostReadError, TypeError, "placeholders"):
        pb.checkpoint(lambda x: x * float(x.sum()))(pb.tensor(X))
