"""vectorize: from a function of numbers, or of small arrays, to one of arrays that broadcast."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from pullback import tree
from pullback.api.vmap import vmap
from pullback.errors import ArgumentError, PullbackError, ShapeError
from pullback.functions.data_types import astype
from pullback.functions.shape import broadcast_shapes, reshaped_to, spread_to_shape
from pullback.graph.argument_checks import (
    checked_function_argument,
    shown_argument,
    with_argument_checks,
)
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor
from pullback.typing import DTypeLike

_NAME = r"[A-Za-z_]\w*|\d+"
_CORE = rf"\((?:(?:{_NAME})(?:,(?:{_NAME}))*)?\)"


class CoreDimensions(NamedTuple):
    """The names of the dimensions that a function itself works on, for operands and results."""

    operands: list[tuple[str, ...]]
    results: list[tuple[str, ...]]


@with_argument_checks
def vectorize(
    pyfunc: Callable[..., Any] | None = None, otypes: Sequence[DTypeLike] | None = None,
    doc: str | None = None, excluded: Collection[int | str] | None = None, cache: bool = False,
    signature: str | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that applies `pyfunc` to all elements of its arguments, which broadcast.

    The function runs once, on placeholders, as with `vmap`. A signature such as `"(n),(n)->()"`
    names dimensions that it works on; the others broadcast. Arguments in `excluded`, by position
    or name, are passed on unchanged; `otypes` are the dtypes of the results. Without `pyfunc`,
    return a decorator. `cache` is a hint to NumPy's function and changes nothing here.

    >>> step = pb.vectorize(lambda x, limit: pb.where(x > limit, x - limit, 0))
    >>> step([1, 2, 3], [[1], [2]]).tolist()
    [[0, 1, 2], [0, 0, 1]]
    >>> distance = pb.vectorize(lambda x, y: pb.norm(x - y), signature="(n),(n)->()")
    >>> distance([[0.0, 0.0], [3.0, 0.0]], [0.0, 4.0]).tolist()
    [4.0, 5.0]
    """
    if pyfunc is None:
        return functools.partial(
            vectorize, otypes=otypes, doc=doc, excluded=excluded, cache=cache, signature=signature
        )
    f = checked_function_argument("vectorize", pyfunc, "pyfunc")
    core = None if signature is None else _parse_vectorize_signature(signature)
    left_out = _vectorize_excluded(excluded)

    @functools.wraps(f)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        names = [*range(len(args)), *kwargs]
        values = [*args, *kwargs.values()]
        mapped = [i for i, name in enumerate(names) if name not in left_out]

        def of_mapped(*tensors: Tensor) -> Any:
            given = list(values)
            for i, tensor in zip(mapped, tensors):
                given[i] = tensor
            found = f(*given[: len(args)], **dict(zip(kwargs, given[len(args) :])))
            return found if core is None else _checked_vectorize_results(found, core)

        return _cast_vectorized(
            _vectorize_mapped(of_mapped, [asarray(values[i]) for i in mapped], core), otypes
        )

    if doc is not None:
        vectorized.__doc__ = doc
    return vectorized


def _vectorize_excluded(excluded: Any) -> frozenset[int | str]:
    """Positions and names of arguments that are passed on unchanged."""
    names = () if excluded is None else excluded
    several = isinstance(names, Collection) and not isinstance(names, str)
    if not several or not all(isinstance(name, (int, str)) for name in names):
        what = "excluded must be a set of positions and names"
        raise ArgumentError(f"{what}, got {shown_argument(excluded)}", op="vectorize")
    return frozenset(names)


def _parse_vectorize_signature(signature: str) -> CoreDimensions:
    """Read "(m,n),(n)->(m)"."""
    text = re.sub(r"\s+", "", signature)
    if not re.fullmatch(rf"{_CORE}(?:,{_CORE})*->{_CORE}(?:,{_CORE})*", text):
        what = 'signature must be like "(m,n),(n)->(m)"'
        raise ArgumentError(f"{what}, got {shown_argument(signature)}", op="vectorize")
    sides = [
        [tuple(re.findall(_NAME, part)) for part in re.findall(_CORE, side)]
        for side in text.split("->")
    ]
    return CoreDimensions(*sides)


def _vectorize_mapped(f: Callable[..., Any], xs: list[Tensor], core: CoreDimensions | None) -> Any:
    """Apply `f` to all combinations of elements, or of slices with the core dimensions."""
    operands = [()] * len(xs) if core is None else core.operands
    if len(operands) != len(xs):
        message = f"the signature has {len(operands)} operands, but {len(xs)} are given"
        raise ArgumentError(message, op="vectorize")
    _check_vectorize_sizes(xs, operands)
    ranks = [x.ndim - len(names) for x, names in zip(xs, operands)]
    outer = [x.shape[:rank] for x, rank in zip(xs, ranks)]
    try:
        shape = broadcast_shapes(*outer)
    except PullbackError as error:
        error.op = "vectorize"
        raise
    if not shape:
        return f(*xs)
    count = math.prod(shape)
    rows = [
        reshaped_to(spread_to_shape(x, shape + x.shape[rank:]), (count, *x.shape[rank:]))
        if rank
        else x
        for x, rank in zip(xs, ranks)
    ]
    made = vmap(f, in_axes=tuple(0 if rank else None for rank in ranks))(*rows)
    return tree.map(lambda y: reshaped_to(y, shape + y.shape[1:]), made)


def _check_vectorize_sizes(xs: Sequence[Any], names: Sequence[tuple[str, ...]]) -> None:
    """Raise if operands lack a core dimension or disagree on its size."""
    sizes: dict[str, int] = {}
    for i, (x, core) in enumerate(zip(xs, names)):
        if x.ndim < len(core):
            message = (
                f"operand {i} must have the dimensions ({','.join(core)}), got {list(x.shape)}"
            )
            raise ShapeError(message, op="vectorize")
        for name, n in zip(core, x.shape[x.ndim - len(core) :]):
            size = sizes.setdefault(name, int(name) if name.isdigit() else n)
            if size != n:
                message = f"dimension {name} is {size}, but {n} in operand {i}"
                raise ShapeError(message, op="vectorize")


def _checked_vectorize_results(found: Any, core: CoreDimensions) -> Any:
    """What a function returned; it must have the dimensions of the signature."""
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    ranks, wanted = [asarray(r).ndim for r in results], [len(names) for names in core.results]
    if ranks != wanted:
        message = f"the function must return ranks {wanted}, as in the signature, got {ranks}"
        raise ShapeError(message, op="vectorize")
    return found


def _cast_vectorized(made: Any, otypes: Sequence[DTypeLike] | None) -> Any:
    if otypes is None:
        return made
    results = list(made) if isinstance(made, (tuple, list)) else [made]
    kinds = list(otypes)
    if len(kinds) != len(results):
        message = f"otypes must have a dtype for each of {len(results)} results, got {len(kinds)}"
        raise ArgumentError(message, op="vectorize")
    cast = [astype(r, kind) for r, kind in zip(results, kinds)]
    return tuple(cast) if isinstance(made, (tuple, list)) else cast[0]
