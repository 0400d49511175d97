"""Methods of Tensor: each is the public function of the same name."""

from __future__ import annotations

from typing import Any


class Methods:
    """What can be written as `x.f(...)` as well as `pb.f(x, ...)`."""

    __slots__ = ()

    def astype(self, dtype: Any) -> Any:
        from pullback.tensor import functions

        return functions.astype(self, dtype)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        from pullback.tensor import functions

        return functions.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)
