"""Type variables and aliases in the signatures of transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ParamSpec, TypeAlias, TypeVar, TypeVarTuple

from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike as ArrayLike
from pullback.typing import Number, SupportsArray
from pullback.typing import Tree as Tree

Params = ParamSpec("Params")
Args = TypeVarTuple("Args")
Result = TypeVar("Result")
Aux = TypeVar("Aux")
State = TypeVar("State")

Scalar: TypeAlias = Tensor | Number
"""What a function returns that `grad` differentiates: a tensor of shape `()`, or a number."""

Array: TypeAlias = Number | SupportsArray
"""A leaf of a tree: a tensor, an array of another library, or a number."""

Argnums: TypeAlias = int | Sequence[int]
Argnames: TypeAlias = str | Sequence[str]
