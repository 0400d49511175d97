"""Functions of higher layers that methods of Tensor call, set by the modules that define them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor
    from pullback.sharding.spec import Sharding


class Hooks:
    """The functions, under the names of the modules that set them."""

    __slots__ = (
        "asarray", "call_function", "call_ufunc", "functions", "indexing", "namespace",
        "reshard", "stack", "stop_gradient",
    )  # fmt: skip

    # pullback
    namespace: ModuleType  # what `__array_namespace__` returns

    # pullback.functions
    functions: ModuleType  # itself: `hooks.functions.sum(x)`
    reshard: Callable[[Any, Sharding], Tensor]
    stack: Callable[[Sequence[Any]], Tensor]
    stop_gradient: Callable[[Any], Tensor]

    # pullback.interop.numpy
    call_ufunc: Callable[[Any, str, tuple, dict], Any]
    call_function: Callable[[Any, tuple, dict], Any]

    # pullback.lazy.indexing
    indexing: ModuleType  # itself: `hooks.indexing.get(x, index)`

    # pullback.lazy.host_data
    asarray: Callable[..., Tensor]


hooks = Hooks()
