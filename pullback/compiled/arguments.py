"""Arguments of a compiled function: which are inputs, and which are static."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import checked_sequence_argument
from pullback.graph.dtypes import DType, complex128, float64, int64
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber

WIDE: dict[type, DType] = {int: int64, float: float64, complex: complex128}


class CompiledStaticArgument:
    """The kind of a leaf that is neither a tensor nor a number: it is compared."""

    def __repr__(self) -> str:
        return "static"


STATIC = CompiledStaticArgument()


class CompiledNumberArgument(tuple):
    """The kind of a number: its Python type, and its dtype if it is a NumPy scalar."""

    def __new__(cls, kind: type, given: DType | None) -> CompiledNumberArgument:
        return super().__new__(cls, (kind, given))

    @property
    def type(self) -> Type:
        """The type of the input of a program, which has 64 bits."""
        return Type((), WIDE[self[0]])

    def __repr__(self) -> str:
        return self[0].__name__ if self[1] is None else str(self[1])


_PYTHON_NUMBERS = {kind: CompiledNumberArgument(kind, None) for kind in WIDE}


Kind = Type | CompiledNumberArgument | CompiledStaticArgument  # what a leaf is to a program


def classify_arguments(leaves: Sequence[Any]) -> tuple[list[Any], tuple[Kind, ...]]:
    """Return the leaves, with arrays converted to tensors, and their kinds."""
    converted = [asarray(x) if _is_array_argument(x) else x for x in leaves]
    return converted, tuple(map(argument_kind, converted))


def argument_kind(x: Any) -> Kind:
    if type(x) is Tensor:
        return x._node.type
    number = _PYTHON_NUMBERS.get(type(x))
    if number is not None:
        return number
    if isinstance(x, TracedNumber):
        return CompiledNumberArgument(x.kind, x.given)
    if isinstance(x, np.generic):
        return CompiledNumberArgument(type(x.item()), dtype_of(x.dtype))
    return x if isinstance(x, Type) else STATIC


def _is_array_argument(x: Any) -> bool:
    """Whether a leaf is an array of another library; NumPy scalars count as numbers."""
    if type(x) is Tensor or type(x) in _PYTHON_NUMBERS:
        return False
    if isinstance(x, np.generic):
        return type(x.item()) not in WIDE
    return hasattr(x, "__array__") or hasattr(x, "__dlpack__")


class CompiledArgumentOptions:
    """Which arguments are static and which are donated, by position and by name."""

    def __init__(
        self, f: Callable, nums: int | Sequence[int], names: str | Sequence[str],
        donated: int | Sequence[int],
    ) -> None:  # fmt: skip
        self.positional, named, more = _argument_parameters(f)
        known = self.positional
        count = None if more else len(known)
        positions = _compiled_argument_positions("static_argnums", nums, count)
        several = (
            names
            if isinstance(names, str)
            else checked_sequence_argument("compile", names, "static_argnames")
        )
        chosen = (names,) if isinstance(names, str) else tuple(several)
        if not all(isinstance(name, str) for name in chosen):
            what = f"must be names of arguments, got {names!r}"
            raise ArgumentError(f"compile: static_argnames {what}")
        for name in chosen:
            if not more and name not in (*known, *named):
                takes = ", ".join([*known, *named]) or "no arguments"
                raise ArgumentError(
                    f"compile: static_argnames names {name!r}, but the function takes {takes}"
                )
        self.static = {*positions, *(known.index(n) for n in chosen if n in known)}
        self.static_names = {*chosen, *(known[i] for i in positions if i < len(known))}
        self.donated = _compiled_argument_positions("donate_argnums", donated, count)
        self.donated_names = {known[i] for i in self.donated if i < len(known)}
        if self.static & set(self.donated):
            raise ArgumentError("compile: a static argument cannot be donated")

    def split(self, args: tuple, kwargs: dict) -> tuple[tuple, dict, list[tuple[str, Any]]]:
        """Return the arguments with None for static ones, and the static ones by name."""
        if not self.static_names and not self.static:
            return args, kwargs, []
        args, kwargs, found = split_static_arguments(args, kwargs, self.static, self.static_names)
        return args, kwargs, [(k if isinstance(k, str) else self.name(k), x) for k, x in found]

    def merge(self, args: tuple, kwargs: dict, static: Sequence[Any]) -> tuple[list, dict]:
        """Undo `split`."""
        values = iter(static)
        whole = [next(values) if i in self.static else x for i, x in enumerate(args)]
        named = {k: next(values) for k in sorted(kwargs) if k in self.static_names}
        return whole, {**kwargs, **named}

    def name(self, position: int) -> str:
        known = self.positional
        return known[position] if position < len(known) else f"argument {position}"

    def paths(self, args: tuple, kwargs: dict) -> list[str]:
        """Return the path of each leaf, as a user would write it: `params['w'][0]`."""
        given = [(self.name(i), x) for i, x in enumerate(args)]
        given += [(k, kwargs[k]) for k in sorted(kwargs)]
        return [f"{name}{path}" for name, x in given for path in tree.paths(x)]

    def donated_leaves(self, args: tuple, kwargs: dict) -> list[bool]:
        """Return for each leaf whether it belongs to a donated argument."""
        given = [(i in self.donated, x) for i, x in enumerate(args)]
        given += [(k in self.donated_names, kwargs[k]) for k in sorted(kwargs)]
        return [donated for donated, x in given for _ in tree.leaves(x)]


def split_static_arguments(
    args: tuple, kwargs: dict, positions: set[int], names: set[str]
) -> tuple[tuple, dict, list[tuple[int | str, Any]]]:
    """Return arguments with None for static ones, and the static ones by position or name."""
    found: list[tuple[int | str, Any]] = [(i, args[i]) for i in sorted(positions) if i < len(args)]
    found += [(k, kwargs[k]) for k in sorted(kwargs) if k in names]
    args = tuple([None if i in positions else x for i, x in enumerate(args)])
    return args, {k: None if k in names else v for k, v in kwargs.items()}, found


def _argument_parameters(f: Callable) -> tuple[list[str], list[str], bool]:
    """Return the names of positional and of keyword-only arguments, and whether more may come."""
    try:
        found = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return [], [], True
    kind = inspect.Parameter
    by_position = (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)
    positional = [p.name for p in found if p.kind in by_position]
    named = [p.name for p in found if p.kind is kind.KEYWORD_ONLY]
    return positional, named, len(positional) + len(named) < len(found)


def _compiled_argument_positions(
    what: str, given: int | Sequence[int], count: int | None
) -> tuple[int, ...]:
    chosen = (
        (given,)
        if isinstance(given, int)
        else tuple(checked_sequence_argument("compile", given, what))
    )
    positions = []
    for i in chosen:
        if type(i) is not int or not (i >= 0 if count is None else -count <= i < count):
            got = f"{given!r}" + ("" if count is None else f" for a function of {count}")
            raise ArgumentError(f"compile: {what} must be positions of arguments, got {got}")
        positions.append(i % count if count else i)
    return tuple(positions)


def compiled_argument_types(kinds: Iterable[Kind]) -> list[Type]:
    """Return the types of the inputs among the leaves."""
    return [
        k.type if isinstance(k, CompiledNumberArgument) else k
        for k in kinds
        if isinstance(k, (Type, CompiledNumberArgument))
    ]
