"""What small calls cost: the work is negligible, the way to it is measured.

Calls are not waited for, as in programs that make many of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Case, Workload

LEAVES = 100


def two_arrays(quick: bool) -> Any:
    return [np.linspace(0, 1, 8, dtype=np.float32), np.linspace(1, 2, 8, dtype=np.float32)]


def many_arrays(quick: bool) -> Any:
    return {f"p{i:02}": np.full(8, i, np.float32) for i in range(5 if quick else LEAVES)}


def op_pullback(arrays: Any) -> Case:
    import pullback as pb

    x, y = pb.wait([pb.tensor(a) for a in arrays])
    return Case(lambda: x + y, lambda: x + y)


def op_jax(arrays: Any) -> Case:
    import jax.numpy as jnp

    x, y = map(jnp.asarray, arrays)
    return Case(lambda: x + y, lambda: x + y)


def op_torch(arrays: Any, compile: Any) -> Case:
    import torch

    x, y = map(torch.tensor, arrays)
    return Case(lambda: x + y, lambda: x + y)


def call_pullback(arrays: Any) -> Case:
    import pullback as pb

    x, y = map(pb.tensor, arrays)
    add = pb.compile(lambda x, y: x + y)
    return Case(lambda: add(x, y), lambda: add(x, y))


def call_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, arrays)
    add = jax.jit(lambda x, y: x + y)
    return Case(lambda: add(x, y), lambda: add(x, y))


def call_torch(arrays: Any, compile: Any) -> Case:
    import torch

    x, y = map(torch.tensor, arrays)
    add = compile(lambda x, y: x + y)
    return Case(lambda: add(x, y), lambda: add(x, y))


def doubled(tree: Any) -> Any:
    return {name: x + x for name, x in tree.items()}


def tree_pullback(arrays: Any) -> Case:
    import pullback as pb

    tree, double = pb.tree.map(pb.tensor, arrays), pb.compile(doubled)
    return Case(lambda: double(tree), lambda: double(tree))


def tree_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    tree, double = jax.tree.map(jnp.asarray, arrays), jax.jit(doubled)
    return Case(lambda: double(tree), lambda: double(tree))


def ten_ops(m: Any, x: Any) -> Any:
    """Ten operations, in the namespace of a library."""
    a = m.sin(x)
    b = m.exp(a * x)
    c = m.tanh(b + x)
    d = c * a - b
    return (m.cos(d) * c).sum()


def gradient_pullback(arrays: Any) -> Case:
    import pullback as pb

    x = pb.tensor(arrays[0])

    def step() -> Any:
        return pb.grad(lambda x: ten_ops(pb, x))(x).numpy()

    return Case(step, step)


def gradient_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(arrays[0])

    def step() -> Any:
        return np.asarray(jax.grad(lambda x: ten_ops(jnp, x))(x))

    return Case(step, step)


def gradient_torch(arrays: Any, compile: Any) -> Case:
    import torch

    x = torch.tensor(arrays[0])

    def step() -> Any:
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(ten_ops(torch, leaf), leaf)[0].numpy()

    return Case(step, step)


WORKLOADS = [
    Workload(
        "compiled_call", "compiled call, two small arguments", two_arrays,
        {"pullback": call_pullback, "jax": call_jax, "torch.compile": call_torch}, unit="us",
        note="starting XLA's program and taking its results is four fifths of it.",
    ),
    Workload(
        "compiled_tree", "compiled call, a tree of 100 small arguments", many_arrays,
        {"pullback": tree_pullback, "jax": tree_jax}, unit="us",
        note="starting XLA's program and taking its results is four fifths of it.",
    ),
    Workload(
        "recorded_op", "one small op: recorded, in other libraries dispatched", two_arrays,
        {"pullback": op_pullback, "jax": op_jax, "torch": op_torch}, unit="us",
        torch_compile=False,
        note="the op is not computed yet; what is left is the creation of a node and a handle.",
    ),
    Workload(
        "small_gradient", "gradient of ten small ops, evaluated, nothing compiled by hand",
        two_arrays,
        {"pullback": gradient_pullback, "jax": gradient_jax, "torch": gradient_torch}, unit="us",
        torch_compile=False,
        note=(
            "recording and differentiating take 60 us, finding, running and reading the program "
            "40, both mostly in Python; a compiled function with the same result takes 6 us."
        ),
    ),
]  # fmt: skip
