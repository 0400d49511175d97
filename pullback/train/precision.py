"""Mixed precision: which dtype parameters, computation and results have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.boundary import boundary, boundary_methods
from pullback.graph.dtypes import DType
from pullback.graph.dtypes import dtype as as_dtype
from pullback.lazy.tensor import Tensor
from pullback.tree_constants import constant_leaves
from pullback.typing import DTypeLike

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Tree = TypeVar("Tree")


@boundary_methods
@dataclass(frozen=True)
class Policy:
    """The dtypes of parameters, of the computation and of results.

    `policy(f)` is `f` with the float tensors among its arguments cast to `compute`, and those among
    its results to `output`. The cast is part of the derivative: gradients with respect to
    parameters have the dtype of the parameters.

    >>> policy = pb.train.Policy(compute="bfloat16")
    >>> model = pb.nn.Linear(2, 3)
    >>> y = policy(lambda model, x: model(x))(model, pb.ones(2))
    >>> y.dtype, model.weight.dtype
    (f32, f32)
    >>> policy.to_compute(model).weight.dtype
    bf16
    """

    params: DTypeLike = "float32"
    compute: DTypeLike = "float32"
    output: DTypeLike = "float32"

    def __post_init__(self) -> None:
        for name in ("params", "compute", "output"):
            found = as_dtype(getattr(self, name))
            if not found.is_float:
                raise ArgumentError(f"Policy: {name} must be a float dtype, got {found}")
            object.__setattr__(self, name, found)

    def to_params(self, values: Tree) -> Tree:
        """Return a tree with its floats in the dtype of parameters.

        >>> pb.train.Policy(params="float64").to_params([pb.ones(2)])[0].dtype
        f64
        """
        return cast_floats(values, self.params)

    def to_compute(self, values: Tree) -> Tree:
        """Return a tree with its floats in the dtype of the computation.

        >>> pb.train.Policy(compute="float16").to_compute([pb.ones(2)])[0].dtype
        f16
        """
        return cast_floats(values, self.compute)

    def to_output(self, values: Tree) -> Tree:
        """Return a tree with its floats in the dtype of results.

        >>> pb.train.Policy(output="float64").to_output([pb.ones(2)])[0].dtype
        f64
        """
        return cast_floats(values, self.output)

    def __call__(self, f: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Return `f` with its arguments cast to `compute` and its results to `output`."""

        @boundary
        @functools.wraps(f)
        def cast(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            args, kwargs = self.to_compute((args, kwargs))
            return self.to_output(f(*args, **kwargs))

        return cast


def cast_floats(values: Tree, dtype: Any) -> Tree:
    """Return a tree with its float tensors cast.

    Integers stay as they are, and so does the state of modules: running means would lose what a
    step adds to them.
    """
    wanted: DType = as_dtype(dtype)
    leaves, structure = tree.flatten(values)
    is_state = constant_leaves(values, state_only=True)
    made = [
        x if s else _cast_training_precision(x, wanted)
        for x, s in zip(leaves, is_state, strict=True)
    ]
    return tree.unflatten(structure, made)


def _cast_training_precision(x: Any, dtype: DType) -> Any:
    is_float = isinstance(x, Tensor) and x.dtype.is_float
    return x.astype(dtype) if is_float and x.dtype is not dtype else x
