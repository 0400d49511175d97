"""Calls of a function: the function and its arguments become a case of each library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.workload import Case, mapped


def pullback_call(f: Callable[..., Any], *args: Any, compiled: bool = True) -> Case:
    """A call that waits for all results."""
    import pullback as pb

    args = pb.tree.map(pb.tensor, args)
    f = pb.compile(f) if compiled else f
    return Case(lambda: pb.wait(f(*args)), lambda: f(*args), lambda: f(*args))


def jax_call(f: Callable[..., Any], *args: Any) -> Case:
    """A jitted call that waits for all results."""
    import jax
    import jax.numpy as jnp

    args, f = jax.tree.map(jnp.asarray, args), jax.jit(f)
    return Case(lambda: jax.block_until_ready(f(*args)), lambda: f(*args), lambda: f(*args))


def torch_call(f: Callable[..., Any], *args: Any) -> Case:
    """A call; PyTorch returns when the work is done."""
    import torch

    args = mapped(torch.tensor, args)
    return Case(lambda: f(*args), lambda: f(*args))


def torch_gradient(f: Callable[..., Any], *args: Any, of: int = 1) -> Case:
    """The value of `f` and its gradient with respect to its first `of` arguments."""
    import torch

    tensors = mapped(torch.tensor, args)
    targets = [x.requires_grad_() for x in tensors[:of]]

    def both() -> Any:
        value = f(*tensors)
        return value, torch.autograd.grad(value, targets)

    return Case(both, both)
