"""Training steps: a loss, parameters and an optimizer become a case of each library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.workload import Case

RATE, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8
CHECKED_STEPS = 3


def pullback_training(
    loss: Callable[[Any, Any], Any], params: Any, batch: Any, optimizer: str = "sgd",
    compiled: bool = True, gradient_tree: Callable[[Any], Any] = lambda grads: grads,
) -> Case:  # fmt: skip
    """Steps of `loss(params, batch)`, as one compiled function with donated arguments or without.

    `gradient_tree` arranges gradients as the other libraries do.
    """
    import pullback as pb

    params, batch = pb.tree.map(pb.tensor, (params, batch))
    rule = {"sgd": pb.optim.sgd, "adam": pb.optim.adam}[optimizer](RATE)
    state = rule.init(params)

    def update(params: Any, state: Any, batch: Any) -> Any:
        value, grads = pb.value_and_grad(loss)(params, batch)
        params, state = rule.update(grads, state, params)
        return params, state, value

    if compiled:
        update = pb.compile(update, donate_argnums=(0, 1))

    def step() -> float:
        nonlocal params, state
        params, state, value = update(params, state, batch)
        return value.item()

    def results() -> Any:
        grads = pb.compile(pb.grad(loss))(params, batch)
        return {"gradients": gradient_tree(grads), "losses": [step() for _ in range(CHECKED_STEPS)]}

    return Case(step, results)


def jax_training(
    loss: Callable[[Any, Any], Any], params: Any, batch: Any, optimizer: str = "sgd"
) -> Case:
    """Steps of `loss(params, batch)` as one jitted function with donated arguments."""
    import jax
    import jax.numpy as jnp

    params, batch = jax.tree.map(jnp.asarray, (params, batch))
    state = jax_adam_state(params) if optimizer == "adam" else ()

    def update(params: Any, state: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch)
        if optimizer == "adam":
            params, state = jax_adam(grads, state, params)
        else:
            params = jax.tree.map(lambda p, g: p - RATE * g, params, grads)
        return params, state, value

    jitted = jax.jit(update, donate_argnums=(0, 1))

    def step() -> float:
        nonlocal params, state
        params, state, value = jitted(params, state, batch)
        return value.item()

    def results() -> Any:
        grads = jax.jit(jax.grad(loss))(params, batch)
        return {"gradients": grads, "losses": [step() for _ in range(CHECKED_STEPS)]}

    return Case(step, results)


def jax_adam_state(params: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return jnp.zeros((), jnp.int32), *(jax.tree.map(jnp.zeros_like, params) for _ in range(2))


def jax_adam(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
    """New parameters and a new state."""
    import jax
    import jax.numpy as jnp

    (count, means, squares), (b1, b2) = state, BETAS
    count = count + 1
    means = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, means, grads)
    squares = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, squares, grads)
    length, correction = RATE / (1 - b1**count), 1 / jnp.sqrt(1 - b2**count)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return p - length * m / (jnp.sqrt(v) * correction + EPS)

    return jax.tree.map(moved, params, means, squares), (count, means, squares)


def torch_training(
    loss: Callable[[Any], Any], params: Iterable[Any], batch: Any, gradients: Callable[[], Any],
    optimizer: str = "sgd",
) -> Case:  # fmt: skip
    """Steps of `loss(batch)`; `gradients` reads them from the parameters."""
    import torch

    rule = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer](params, lr=RATE)

    def backward() -> Any:
        rule.zero_grad()
        value = loss(batch)
        value.backward()
        return value

    def step() -> float:
        value = backward()
        rule.step()
        return value.item()

    def results() -> Any:
        backward()
        grads = gradients()
        return {"gradients": grads, "losses": [step() for _ in range(CHECKED_STEPS)]}

    return Case(step, results)
