"""Type variables and aliases in the signatures of transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar, TypeVarTuple

from pullback.lazy.tensor import Tensor

Params = ParamSpec("Params")
Args = TypeVarTuple("Args")
Result = TypeVar("Result")
Aux = TypeVar("Aux")
State = TypeVar("State")

Tree: TypeAlias = Any
"""A pytree: a tensor, or tuples, lists, dicts and registered classes that hold tensors."""

Scalar: TypeAlias = Tensor | complex
"""What a function returns that `grad` differentiates: a tensor of shape `()`, or a number."""

Argnums: TypeAlias = int | Sequence[int]
Argnames: TypeAlias = str | Sequence[str]
