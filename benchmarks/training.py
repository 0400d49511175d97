"""Training steps: a loss, parameters and an optimizer become a case of each library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.workload import Case

CHECKED_STEPS = 3


@dataclass(frozen=True)
class Optimizer:
    """Gradient descent with momentum, or Adam where `betas` are given, in each library."""

    rate: float = 1e-3
    momentum: float = 0.0
    betas: tuple[float, float] | None = None
    eps: float = 1e-8

    def pullback(self) -> Any:
        from pullback import optim

        if self.betas:
            return optim.adam(self.rate, betas=self.betas, eps=self.eps)
        return optim.sgd(self.rate, momentum=self.momentum)

    def torch(self, params: list[Any]) -> Any:
        from torch import optim

        fused = params[0].is_cuda or None
        if self.betas:
            return optim.Adam(params, lr=self.rate, betas=self.betas, eps=self.eps, fused=fused)
        return optim.SGD(params, lr=self.rate, momentum=self.momentum, fused=fused)

    def jax_state(self, params: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def zeros() -> Any:
            return jax.tree.map(jnp.zeros_like, params)

        if self.betas:
            return jnp.zeros((), jnp.int32), zeros(), zeros()
        return zeros() if self.momentum else ()

    def jax_update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """New parameters and a new state."""
        import jax

        if self.betas:
            return self._jax_adam(grads, state, params)
        if self.momentum:
            state = grads = jax.tree.map(lambda v, g: self.momentum * v + g, state, grads)
        return jax.tree.map(lambda p, g: p - self.rate * g, params, grads), state

    def _jax_adam(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        import jax
        import jax.numpy as jnp

        assert self.betas is not None
        (count, means, squares), (b1, b2) = state, self.betas
        count = count + 1
        means = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, means, grads)
        squares = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, squares, grads)
        length, correction = self.rate / (1 - b1**count), 1 / jnp.sqrt(1 - b2**count)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return p - length * m / (jnp.sqrt(v) * correction + self.eps)

        return jax.tree.map(moved, params, means, squares), (count, means, squares)


SGD, ADAM = Optimizer(), Optimizer(betas=(0.9, 0.999))


def pullback_training(
    loss: Callable[[Any, Any], Any], params: Any, batch: Any, optimizer: Optimizer = SGD,
    compiled: bool = True, gradient_tree: Callable[[Any], Any] = lambda grads: grads,
) -> Case:  # fmt: skip
    """Steps of `loss(params, batch)`, as one compiled function with donated arguments or without.

    `gradient_tree` arranges gradients as the other libraries do.
    """
    import pullback as pb

    params, batch = pb.tree.map(pb.tensor, (params, batch))
    rule = optimizer.pullback()
    state = rule.init(params)

    def update(params: Any, state: Any, batch: Any) -> Any:
        value, grads = pb.value_and_grad(loss)(params, batch)
        params, state = rule.update(grads, state, params)
        return params, state, value

    if compiled:
        update = pb.compile(update, donate_argnums=(0, 1))

    def launch(batch: Any = batch) -> Any:
        nonlocal params, state
        params, state, value = update(params, state, batch)
        return value

    def results() -> Any:
        grads = pb.compile(pb.grad(loss))(params, batch)
        return {"gradients": gradient_tree(grads), "losses": losses(launch)}

    return Case(lambda: launch().item(), results, launch)


def jax_training(
    loss: Callable[[Any, Any], Any], params: Any, batch: Any, optimizer: Optimizer = SGD
) -> Case:
    """Steps of `loss(params, batch)` as one jitted function with donated arguments."""
    import jax
    import jax.numpy as jnp

    params, batch = jax.tree.map(jnp.asarray, (params, batch))
    state = optimizer.jax_state(params)

    def update(params: Any, state: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch)
        return *optimizer.jax_update(grads, state, params), value

    jitted = jax.jit(update, donate_argnums=(0, 1))

    def launch(batch: Any = batch) -> Any:
        nonlocal params, state
        params, state, value = jitted(params, state, batch)
        return value

    def results() -> Any:
        grads = jax.jit(jax.grad(loss))(params, batch)
        return {"gradients": grads, "losses": losses(launch)}

    return Case(lambda: launch().item(), results, launch)


def torch_training(
    loss: Callable[[Any], Any], params: Iterable[Any], batch: Any,
    gradients: Callable[[], Any] = list, optimizer: Optimizer = SGD,
) -> Case:  # fmt: skip
    """Steps of `loss(batch)`; `gradients` reads them from the parameters."""
    rule = optimizer.torch(list(params))

    def backward() -> Any:
        rule.zero_grad()
        value = loss(batch)
        value.backward()
        return value

    def launch() -> Any:
        value = backward()
        rule.step()
        return value

    def results() -> Any:
        backward()
        grads = gradients()
        return {"gradients": grads, "losses": losses(launch)}

    return Case(lambda: launch().item(), results, launch)


def losses(launch: Callable[[], Any]) -> list[float]:
    """The losses of the first steps."""
    return [launch().item() for _ in range(CHECKED_STEPS)]
