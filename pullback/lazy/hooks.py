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
        "asarray", "call_function", "call_ufunc", "dlpack", "functions", "indexing", "namespace",
        "reshard", "stack", "stop_gradient", "wait",
    )  # fmt: skip

    namespace: ModuleType  # pullback: what `__array_namespace__` returns
    functions: ModuleType  # pullback.functions: `hooks.functions.sum(x)`
    reshard: Callable[[Any, Sharding], Tensor]  # also from there, as are the next two
    stack: Callable[[Sequence[Any]], Tensor]
    stop_gradient: Callable[[Any], Tensor]
    call_ufunc: Callable[[Any, str, tuple, dict], Any]  # pullback.interop.numpy
    call_function: Callable[[Any, tuple, dict], Any]
    dlpack: ModuleType  # pullback.interop.dlpack
    indexing: ModuleType  # pullback.lazy.indexing: `hooks.indexing.get_indexed(x, index)`
    asarray: Callable[..., Tensor]  # pullback.lazy.host_data
    wait: Callable[[Any], Any]  # pullback.lazy.evaluate


hooks = Hooks()
