"""compile: turn a function into one program for each kind of arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from pullback.compiled.arguments import CompiledArgumentOptions
from pullback.compiled.function import Compiled, Parameters, Result
from pullback.compiled.lower import Cost, Lowered
from pullback.compiled.saved_program import Loaded, load_compiled
from pullback.graph.argument_checks import with_argument_checks


@overload
def compile(
    f: Callable[Parameters, Result], *, static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (), donate_argnums: int | Sequence[int] = (),
    name: str | None = None,
) -> Compiled[Parameters, Result]: ...  # fmt: skip


@overload
def compile(
    f: None = None, *, static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (), donate_argnums: int | Sequence[int] = (),
    name: str | None = None,
) -> Callable[[Callable[Parameters, Result]], Compiled[Parameters, Result]]: ...  # fmt: skip


@with_argument_checks
def compile(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    name: str | None = None,
) -> Any:
    """Compile a function into one program; also a decorator, with or without options.

    The first call runs `f` on placeholders and compiles what it recorded. Later calls with
    arguments of the same tree, shapes and dtypes run the program, and no Python of `f`. Tensors
    and numbers among the arguments are inputs; other values (bools, strings, objects) are static,
    as are those selected by `static_argnums` and `static_argnames`: each value has a program of
    its own. Tensors from outside that `f` uses are read again at each call, and when something
    else that `f` refers to has changed, it is traced again: see docs/compile.md.

    Results may reuse the buffers of arguments in `donate_argnums`, which cannot be used again.

    >>> import pullback as pb
    >>> @pb.compile
    ... def loss(w, x, y):
    ...     return ((x @ w - y) ** 2).mean()
    >>> w, x, y = pb.tensor([1.0, 2.0]), pb.tensor([[1.0, 0.0], [0.0, 1.0]]), pb.tensor([1.0, 0.0])
    >>> loss(w, x, y).item()
    2.0
    >>> pb.compile(pb.grad(loss))(w, x, y).tolist()
    [0.0, 2.0]
    """
    if f is None:
        return functools.partial(
            compile, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, name=name,
        )  # fmt: skip
    return Compiled(
        f, CompiledArgumentOptions(f, static_argnums, static_argnames, donate_argnums), name
    )


__all__ = ["Compiled", "Cost", "Loaded", "Lowered", "compile", "load_compiled"]
