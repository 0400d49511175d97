"""check_grads: compare derivatives with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import tree
from pullback.api.recording import differentiable_recorded_leaves
from pullback.api.signatures import Tree
from pullback.api.vjp_jvp import jvp, vjp
from pullback.errors import ArgumentError, GradientVerification
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.host_data import asarray, from_host
from pullback.lazy.tensor import Tensor

# Steps and tolerances for central differences, by dtype of the arguments.
_STEP = {"f16": 1e-1, "bf16": 2e-1, "f32": 1e-2, "f64": 1e-6, "complex64": 1e-2, "complex128": 1e-6}
_TOLERANCE = {"f16": 1e-1, "bf16": 2e-1, "f32": 2e-2, "f64": 1e-6, "complex64": 2e-2,
              "complex128": 1e-6}  # fmt: skip


@with_argument_checks
def check_grads(
    f: Callable[..., Tree], args: Sequence[Tree], order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"), eps: float | None = None, tol: float | None = None,
) -> None:  # fmt: skip
    """Raise unless the derivatives of `f` at `args` agree with central differences.

    Forward mode is compared with differences along a random direction, reverse mode with forward
    mode by the dot-product identity. The derivative itself is validated in the same way, up to
    `order`. Use float64 arguments: in float32, differences are accurate to two digits only.

    >>> pb.check_grads(lambda x: (x ** 3).sum(), (pb.tensor([1.0, 2.0], dtype="float64"),))
    """
    if not modes or not {"fwd", "rev"}.issuperset(modes):
        raise ArgumentError(f'check_grads: modes must be "fwd" or "rev", got {tuple(modes)}')
    leaves, structure = tree.flatten(args := tuple(args))
    found = differentiable_recorded_leaves("check_grads", leaves, args)

    def of_tensors(*tensors: Tensor) -> Tree:  # other leaves are constants
        rest = iter(tensors)
        given = [x if t is None else next(rest) for x, t in zip(leaves, found, strict=True)]
        return f(*tree.unflatten(structure, given))

    tensors = tuple([t for t in found if t is not None])
    _check_grads_in_mode(
        of_tensors, tensors, order, tuple(modes), eps, tol, np.random.default_rng(0), 1
    )


def _check_grads_in_mode(
    f: Callable, args: tuple, order: int, modes: tuple[str, ...], eps: float | None,
    tol: float | None, rng: np.random.Generator, level: int,
) -> None:  # fmt: skip
    leaves = tree.leaves(args)
    names = [x.dtype.name for x in leaves]
    step = eps or max(_STEP[n] for n in names)
    tolerance = (tol or max(_TOLERANCE[n] for n in names)) * 10 ** (level - 1)
    ts = _check_grads_direction(args, rng)
    slope = _check_grads_difference(f, args, ts, step)
    if "fwd" in modes:
        _, pushed = jvp(f, args, ts)
        _compare_checked_grads(
            "forward mode", level, tree.leaves(pushed), tree.leaves(slope), tolerance
        )
    if "rev" in modes:
        y, pull = vjp(f, *args)
        gs = _check_grads_direction(y, rng)
        left, right = _check_grads_product(slope, gs), _check_grads_product(ts, pull(gs))
        if not np.isclose(left, right, rtol=tolerance * 10, atol=tolerance * 10):
            what = f"reverse mode of order {level} disagrees with differences"
            raise GradientVerification(f"check_grads: {what}: {right} against {left}")
    if order > 1:
        if "fwd" in modes:
            _check_grads_in_mode(
                lambda *xs: jvp(f, xs, ts)[1], args, order - 1, modes, eps, tol, rng, level + 1
            )
        if "rev" in modes:
            gs = _check_grads_direction(f(*args), rng)
            _check_grads_in_mode(
                lambda *xs: vjp(f, *xs)[1](gs), args, order - 1, modes, eps, tol, rng, level + 1
            )


def _check_grads_difference(f: Callable, args: tuple, ts: tuple, step: float) -> Tree:
    """Central differences of `f` at `args` in the direction `ts`."""

    def moved(by: float) -> Tree:
        def shift(x: Tensor, t: Tensor) -> Tensor:
            return from_host(np.array(_widened_for_check_grads(x) + by * t.numpy(), x.dtype.numpy))

        return tree.map(asarray, f(*tree.map(shift, args, ts)))

    return tree.map(
        lambda a, b: (_widened_for_check_grads(a) - _widened_for_check_grads(b)) / (2 * step),
        moved(step),
        moved(-step),
    )


def _widened_for_check_grads(x: Tensor) -> np.ndarray:
    return x.numpy().astype(np.complex128 if x.dtype.is_complex else np.float64)


def _check_grads_direction(values: Tree, rng: np.random.Generator) -> Tree:
    def draw(x: Any) -> Tensor:
        x = asarray(x)
        v = rng.standard_normal(x.shape)
        if x.dtype.is_complex:
            v = v + 1j * rng.standard_normal(x.shape)
        return from_host(np.asarray(v, x.dtype.numpy))

    return tree.map(draw, values)


def _check_grads_product(xs: Tree, ys: Tree) -> float:
    pairs = zip(tree.leaves(xs), tree.leaves(ys), strict=True)
    return sum(float(np.real(np.vdot(np.asarray(b), np.asarray(a)))) for a, b in pairs)


def _compare_checked_grads(what: str, level: int, got: list, want: list, tolerance: float) -> None:
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        size = max(1.0, float(np.abs(b).max(initial=0.0)))
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * size):
            worst = f"largest deviation {float(np.abs(a - b).max()):.3g}"
            where = f"{what} of order {level} disagrees with differences in result {i}"
            raise GradientVerification(f"check_grads: {where}: {worst}")
