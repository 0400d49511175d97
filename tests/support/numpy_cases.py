"""Tables of calls that must agree with NumPy: in value, dtype and shape, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import pullback as pb


class Case(NamedTuple):
    """One call, `pb.name(*args, **kwargs)`, and the NumPy function that it must agree with."""

    name: str
    args: tuple
    kwargs: dict[str, Any]
    like: Callable

    def __str__(self) -> str:
        options = [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.name}({', '.join([*map(_shown, self.args), *options])})"


def case(name: str, *args: Any, like: Callable | None = None, **kwargs: Any) -> Case:
    return Case(name, args, kwargs, like or getattr(np, name))


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, (list, tuple)) else repr(value)


def check_cases(
    cases: Sequence[Case], rtol: float = 1e-12, atol: float = 1e-13, most: int = 3
) -> None:
    """Compare every call with NumPy's: arrays in the reference engine, tensors in XLA.

    In XLA, `most` calls of each function are compiled, as one program. They share the tensors, so
    that it computes once what they have in common.
    """
    shared: dict[int, Any] = {}

    def tensors(x: Any) -> Any:
        return shared.setdefault(id(x), pb.tensor(x)) if isinstance(x, np.ndarray) else x

    alike: dict[str, list[Case]] = {}
    for c in cases:
        alike.setdefault(c.name, []).append(c)
    few = [c for same in alike.values() for c in same[:: -(-len(same) // most)]]
    for engine, convert, tried in (("reference", lambda x: x, cases), ("xla", tensors, few)):
        with pb.config(engine=engine), pb.default_dtype("float64"), np.errstate(all="ignore"):
            made = [(c, getattr(pb, c.name)(*map(convert, c.args), **c.kwargs)) for c in tried]
            pb.evaluate([pb.tree.leaves(got) for _, got in made])
            for c, got in made:
                try:
                    check_same(got, c.like(*c.args, **c.kwargs), rtol, atol)
                except AssertionError as error:
                    raise AssertionError(f"{c} in {engine}: {error}") from None


def check_same(got: Any, want: Any, rtol: float, atol: float) -> None:
    """Compare results: tensors with arrays, and the items of tuples and lists."""
    if isinstance(want, (tuple, list)):
        assert isinstance(got, (tuple, list)) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            check_same(g, w, rtol, atol)
        return
    if not isinstance(got, pb.Tensor):
        assert got == want
        return
    want = np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape} is not {want.shape}"
    assert got.dtype.numpy == want.dtype, f"dtype {got.dtype} is not {want.dtype}"
    np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=atol)
    if want.dtype.kind == "f":
        zero = want == 0
        assert (np.signbit(got.numpy()) == np.signbit(want))[zero].all(), "the sign of a zero"


def check_derivatives(table: Iterable[tuple[Callable, tuple]]) -> None:
    """Check first and second derivatives in both modes, in the reference engine: the rules are
    those of ops, which other tests compare in XLA."""
    with pb.config(engine="reference"):
        for f, args in table:
            pb.check_grads(f, tuple(pb.tensor(x, dtype="float64") for x in args))


def check_transforms(f: Callable, rows: np.ndarray) -> None:
    """Compare a compiled and batched function with a loop in the reference engine."""
    with pb.default_dtype("float64"):
        with pb.config(engine="reference"):
            each = [pb.tree.leaves(f(pb.tensor(row))) for row in rows]
            wanted = [np.stack([x.numpy() for x in same]) for same in zip(*each, strict=True)]
        got = pb.tree.leaves(pb.compile(pb.vmap(f))(pb.tensor(rows)))
    for mapped, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mapped.numpy(), want, rtol=1e-12)
