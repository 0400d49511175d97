"""Compiled functions: found by what they are called with and what they name, traced when new."""

from __future__ import annotations

import copy
import functools
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any

from pullback import tree
from pullback.api.named_axes import bound_axes
from pullback.compiled import causes
from pullback.compiled import trace as tracing
from pullback.compiled.arguments import STATIC, Options, sorted_out
from pullback.compiled.guards.snapshot import Snapshot, snapshot
from pullback.compiled.lower import Lowered
from pullback.compiled.specialization import MISSED, Version, mode_key
from pullback.graph.memo import remember
from pullback.graph.where import user_line
from pullback.lazy.launch import lock, state
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor

# A function keeps the programs of so many kinds of arguments; the one used longest ago goes first.
MOST_VERSIONS = 256


class Compiled:
    """A function that is traced once for each kind of arguments, and then run as one program."""

    def __init__(self, f: Callable, options: Options, name: str | None) -> None:
        functools.update_wrapper(self, f)
        self._f, self._options = f, options
        self._name = name or getattr(f, "__name__", None) or type(f).__name__
        self._splits = bool(options.static or options.static_names)
        self._recent: Version | None = None
        self._versions: OrderedDict[Any, list[Version]] = OrderedDict()
        self._evicted: dict[int, bool] = {}
        self._cache = state.cache
        self._own: dict[Any, Any] = {}  # places that the function changes itself

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        version = self._recent
        if version is not None:
            leaves: Any
            if len(args) == version.flat and not kwargs:
                leaves = args
            elif self._splits:
                leaves = version.read(*self._options.split(args, kwargs))
            else:
                leaves = version.read(args, kwargs)
            if leaves is not None:
                made = version.attempt(leaves)
                if made is not MISSED:
                    return made
        call = Invocation(self, args, kwargs)
        found = self._find(call)
        version = found or self._trace(call)
        if not version.axes:
            self._recent = version
        return version.call(call.leaves, hit=found is not None)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else Bound(self, instance)

    def guarded_parts(self) -> list[tuple[str, Any]]:
        """What another compiled function that names this one must watch."""
        return [("", self._f)]

    def __deepcopy__(self, memo: dict) -> Compiled:
        """A copy of what it was made from: bound methods go to the copy of their instance."""
        return Compiled(copy.deepcopy(self._f, memo), self._options, self._name)

    def __reduce__(self) -> str:
        return getattr(self, "__qualname__", self._name)  # by name, as functions are pickled

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"

    # -- finding a version ----------------------------------------------------------------------

    def _find(self, call: Invocation) -> Version | None:
        """A version for such arguments, for which everything that the function names is equal."""
        with lock:
            self._forget_if_cleared()
            versions = self._versions.get(call.key, [])
            if versions:
                self._versions.move_to_end(call.key)
            versions = versions[::-1]
        for version in versions:
            if version.expects(call.static, call.leaves) and version.snapshot.same():
                return version
        call.snapshot = snapshot(self._f, call.roots, self._own)
        for version in versions:
            if version.snapshot.key == call.snapshot.key:
                version.trust(call.snapshot)
                return version
        return None

    def _forget_if_cleared(self) -> None:
        """After `clear_cache` a compiled function begins anew."""
        if self._cache is not state.cache:
            self._versions.clear()
            self._evicted.clear()
            self._recent, self._cache = None, state.cache

    def _trace(self, call: Invocation) -> Version:
        with tracing.lock:
            version = self._find(call)  # another thread may have been first
            if version is not None:
                return version
            similar = self._versions.get(call.key)
            before = similar[-1] if similar else self._recent
            call.cause = causes.missed(before, call, call.identity() in self._evicted)
            start = time.perf_counter()
            traced = tracing.trace(call, call.snapshot)
            call.seconds = time.perf_counter() - start
            version = Version(call, traced)
            with lock:
                self._versions.setdefault(call.key, []).append(version)
                self._versions.move_to_end(call.key)
                self._shrink()
            return version

    def _shrink(self) -> None:
        while sum(map(len, self._versions.values())) > MOST_VERSIONS:
            key, versions = next(iter(self._versions.items()))
            evicted = hash((key, versions.pop(0).snapshot.key))
            remember(self._evicted, evicted, True, bound=10 * MOST_VERSIONS)
            if not versions:
                del self._versions[key]

    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """The program for arguments (tensors, or types made with `pb.Type`), without running it.

        >>> import pullback as pb
        >>> square = pb.compile(lambda x: x * x + 0 * x)
        >>> lowered = square.lower(pb.Type((3,), pb.float32))
        >>> lowered.compile()(pb.tensor([1.0, 2.0, 3.0])).tolist()
        [1.0, 4.0, 9.0]
        """
        return self._lowered(args, kwargs)

    def _lowered(self, args: tuple, kwargs: dict, given: tuple = ()) -> Lowered:
        call = Invocation(self, (*given, *args), kwargs)
        return Lowered(self._find(call) or self._trace(call), call, given)


class Bound:
    """A compiled function that was looked up on an instance: its first argument is given."""

    __slots__ = ("__func__", "__self__")

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self.__func__, self.__self__ = compiled, instance

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """As of the function: the instance goes along."""
        return self.__func__._lowered(args, kwargs, (self.__self__,))

    def guarded_parts(self) -> list[tuple[str, Any]]:
        return [("", self.__func__), (".self", self.__self__)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"


class Invocation:
    """One call: its leaves, what they are, and what else a version depends on."""

    snapshot: Snapshot
    cause: Any = None
    seconds = 0.0

    def __init__(self, compiled: Compiled, args: tuple, kwargs: dict) -> None:
        self.f, self.name, self.options = compiled._f, compiled._name, compiled._options
        self.own = compiled._own
        self.args, self.kwargs, found = self.options.split(args, kwargs)
        self.static = [value for _, value in found]
        leaves, self.in_tree = tree.flatten((self.args, self.kwargs))
        self.leaves, self.kinds = sorted_out(leaves)
        self.mode = current()
        self.where = user_line()
        names = tuple([name for name, _ in found])
        self.key = (mode_key(self.mode), bound_axes(), self.in_tree, self.kinds, names)
        self._named = found

    @property
    def flat(self) -> bool:
        """Whether the arguments are tensors by themselves."""
        given = [x for x in self.args if type(x) is Tensor]
        return len(given) == len(self.args) == len(self.leaves) and not self.static

    @cached_property
    def paths(self) -> list[str]:
        """The name of each leaf, as a user would write it."""
        return self.options.paths(self.args, self.kwargs)

    @cached_property
    def donated(self) -> list[bool]:
        """For each leaf, whether its argument is donated."""
        return self.options.donated_leaves(self.args, self.kwargs)

    @property
    def roots(self) -> list[tuple[str, Any]]:
        """Static values, which are guarded with all that they lead to."""
        leaves = [(i, x) for i, (x, k) in enumerate(zip(self.leaves, self.kinds)) if k is STATIC]
        return [*self._named, *((self.paths[i], x) for i, x in leaves)]

    def identity(self) -> int:
        return hash((self.key, self.snapshot.key))
