"""Calls that fail, for tests of what an error shows; imported by a script that prints them, too."""

from __future__ import annotations

import pullback as pb

X = pb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
V = pb.tensor([1.0, 2.0])


def wrong(x, *rest):
    return (x @ x).sum()


def broken(x, *rest):
    raise ZeroDivisionError("in user code")


@pb.compile
def compiled_wrong(x):
    return wrong(x)


@pb.compile
def compiled_broken(x):
    return broken(x)


@pb.custom_vjp
def ruled(x):
    return x * 2


ruled.defvjp(lambda x: (x * 2, x), lambda saved, g: broken(saved))


class Model:
    @pb.compile
    def call(self, x):
        return broken(x)


# What a user may get wrong directly: the traceback has one frame, the user's
MISTAKES = {
    "operator": lambda: X @ X, "plus": lambda: X + V, "division": lambda: X / V,
    "in place": lambda: pb.ones(2).__iadd__(X), "power": lambda: X ** "a",
    "unary": lambda: pb.sin("a"), "binary": lambda: pb.maximum(X, V),
    "function": lambda: pb.concat([X, V]), "reduction": lambda: pb.max(X, axis=5),
    "validated": lambda: pb.argmax(X, axis="a"), "method": lambda: X.reshape(7),
    "function as method": lambda: X.sum(axis=9), "property": lambda: V.mT, "index": lambda: X[9],
    "write": lambda: pb.ones(2).__setitem__(5, 1), "at": lambda: X.at[9].set(1.0),
    "bool": lambda: bool(X), "item": lambda: X.item(), "creation": lambda: pb.zeros(-1),
    "einsum": lambda: pb.einsum("ij,jk", X, V), "grad": lambda: pb.grad(pb.sin)(X),
    "not a function": lambda: pb.vmap(X), "vmap": lambda: pb.vmap(pb.sin)(pb.tensor(1.0)),
    "pull": lambda: pb.vjp(pb.sin, X)[1](V), "push": lambda: pb.linearize(pb.sin, X)[1](V),
    "jvp": lambda: pb.jvp(pb.sin, (X,), (V,)), "scan": lambda: pb.scan(lambda c, x: (X, x), V, X),
    "random": lambda: pb.random.normal(V, (2,)), "tree": lambda: pb.tree.map(abs, [1], [1, 2]),
    "optimizer": lambda: pb.optim.Adam([1.0]), "mesh": lambda: pb.DeviceMesh((2, 2), ("a",)),
    "spec": lambda: pb.P("a", "a"), "keyword": lambda: pb.DeviceMesh((2,), names=("a",)),
    "replay": lambda: pb.trace(pb.sin, X).replay(V), "load": lambda: pb.load_compiled(3),
    "lower": lambda: compiled_wrong.lower(), "parse": lambda: pb.ir.parse("nonsense"),
    "collective": lambda: pb.psum(X, "nowhere"), "config": lambda: pb.config(nothing=1),
    "backward": lambda: X.backward(), "dtype": lambda: X.astype("f99"),
}  # fmt: skip

# Errors inside a function that pullback calls: its frame follows the one that calls the transform
INSIDE = {
    "grad": lambda f: pb.grad(f)(X), "value_and_grad": lambda f: pb.value_and_grad(f)(X),
    "vjp": lambda f: pb.vjp(f, X), "jvp": lambda f: pb.jvp(f, (X,), (X,)),
    "linearize": lambda f: pb.linearize(f, X), "hvp": lambda f: pb.hvp(f, (X,), (X,)),
    "jacobian": lambda f: pb.jacrev(f)(X), "hessian": lambda f: pb.hessian(f)(X),
    "vmap": lambda f: pb.vmap(f)(pb.stack([X, X])), "trace": lambda f: pb.trace(f, X),
    "eval_shape": lambda f: pb.eval_shape(f, X), "checkpoint": lambda f: pb.checkpoint(f)(X),
    "scan": lambda f: pb.scan(lambda c, x: f(c), X, V), "map": lambda f: pb.map(f, X[None]),
    "fori_loop": lambda f: pb.fori_loop(0, 2, lambda i, x: f(x), X),
    "while_loop": lambda f: pb.while_loop(lambda x: True, f, X),
    "cond": lambda f: pb.cond(True, f, f, X), "tree": lambda f: pb.tree.map(f, [X]),
    "nested": lambda f: pb.grad(pb.compile(lambda x: pb.vmap(f)(x[None]).sum()))(X),
    "no_grad": lambda f: pb.no_grad()(f)(X), "check_grads": lambda f: pb.check_grads(f, (X,)),
    "memory_plan": lambda f: pb.memory_plan(f)(X),
}  # fmt: skip
