"""Compiled functions: find the program for a call, or trace a new one."""

from __future__ import annotations

import copy
import functools
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from pullback import tree
from pullback.api.named_axes import bound_axes
from pullback.compiled import compile_trace as tracing
from pullback.compiled import retrace_causes
from pullback.compiled.arguments import STATIC, CompiledArgumentOptions, classify_arguments
from pullback.compiled.fast_call import MISSED, FastCall, never_fast_call, write_fast_call
from pullback.compiled.guards.guard_walk import GuardSnapshot, walk_guards
from pullback.compiled.lower import Lowered
from pullback.compiled.saved_program import save
from pullback.compiled.specialization import Specialization, specialization_mode_key
from pullback.graph.boundary import boundary_methods, handles_boundary_errors, leave_boundary
from pullback.graph.html import html_table
from pullback.graph.memo import remember
from pullback.graph.native import native
from pullback.graph.source_lines import user_line
from pullback.lazy.launch import lock, state
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor
from pullback.tree_nodes import static_tree_node_values

# Programs kept for each function; the least recently used are dropped.
MOST_SPECIALIZATIONS = 256
# Calls of a specialization in a row, before a function is written for it, which takes 0.5 ms.
ATTEMPTS = 3

Parameters = ParamSpec("Parameters")
Rest = ParamSpec("Rest")
Owner = TypeVar("Owner")
Result = TypeVar("Result")


class PureCaller:
    """A function that can be called, where C++ does not define how."""


if TYPE_CHECKING or native is None:  # noqa: SIM108 - a base class must not be an expression
    Caller = PureCaller
else:
    Caller = native.Caller  # tries `_fast`, then `_call`


@boundary_methods
class Compiled(Caller, Generic[Parameters, Result]):
    """A function that is traced once for each kind of arguments, then runs as one program."""

    def __init__(
        self, f: Callable[Parameters, Result], options: CompiledArgumentOptions, name: str | None
    ) -> None:
        functools.update_wrapper(self, f)
        self._f, self._options = f, options
        self._name = name or getattr(f, "__name__", None) or type(f).__name__
        self._splits = bool(options.static or options.static_names)
        self._recent: Specialization | None = None
        self._fast: FastCall = never_fast_call  # calls the recent specialization
        self._specializations: OrderedDict[Any, list[Specialization]] = OrderedDict()
        self._evicted: dict[int, bool] = {}
        self._cache = state.cache
        self._own: dict[Any, Any] = {}  # places that the function itself changes

    @handles_boundary_errors
    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            result = self._fast(args, kwargs)
            return self._general_call(args, kwargs) if result is MISSED else result
        except BaseException as error:
            leave_boundary(error)
            raise

    @handles_boundary_errors
    def _call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call without the fast call, which C++ has tried."""
        try:
            return self._general_call(args, kwargs)
        except BaseException as error:
            leave_boundary(error)
            raise

    def _general_call(self, args: tuple, kwargs: dict) -> Any:
        """Call the recent specialization, another one, or a new one."""
        specialization = self._recent
        if specialization is not None:
            if len(args) == specialization.flat and not kwargs:
                leaves: Any = args
            else:
                leaves = self._read(specialization, args, kwargs)
            if leaves is not None:
                result = specialization.attempt(leaves)
                if result is not MISSED:
                    self._note_attempt(specialization)
                    return result
        call = CompiledFunctionCall(self, args, kwargs)
        found = self._find(call)
        specialization = found or self._trace(call)
        if not specialization.axes:
            self._fast, self._recent, specialization.attempts = never_fast_call, specialization, 0
        return specialization.call(call.leaves, hit=found is not None)

    def _read(self, specialization: Specialization, args: tuple, kwargs: dict) -> Any:
        """Return the leaves of the arguments if they fit a specialization, otherwise None."""
        if self._splits:
            return specialization.read(*self._options.split(args, kwargs))
        return specialization.read(args, kwargs)

    def _note_attempt(self, specialization: Specialization) -> None:
        """Write a fast call for a specialization that is called again and again."""
        specialization.attempts += 1
        if specialization.attempts == ATTEMPTS:
            read: Any = specialization.read
            if self._splits:
                split = self._options.split
                read = lambda args, kwargs: specialization.read(*split(args, kwargs))  # noqa: E731
            self._fast = write_fast_call(specialization, read)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: Compiled[Concatenate[Owner, Rest], Result], instance: Owner, owner: type | None = None
    ) -> BoundCompiled[Rest, Result]: ...

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else BoundCompiled(self, instance)

    def guarded_parts(self) -> list[tuple[str, Any]]:
        """Return what guards of another function examine of this one."""
        given = [(f".{name}", x) for name, x in vars(self).items() if not name.startswith("_")]
        return [("", self._f), *given]

    def __deepcopy__(self, memo: dict) -> Compiled[Parameters, Result]:
        """Compile a copy of the function: a bound method goes to the copy of its instance."""
        return Compiled(copy.deepcopy(self._f, memo), self._options, self._name)

    def __reduce__(self) -> str:
        return getattr(self, "__qualname__", self._name)  # pickled by name, as functions are

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"

    def _repr_html_(self) -> str:
        """Show the programs that were traced so far in a notebook."""
        with lock:
            found = [s for kind in self._specializations.values() for s in kind]
        rows = [(f"program {i}", s.program.executed.summary) for i, s in enumerate(found, 1)]
        return html_table(f"Compiled {self._name}", rows or [("programs", "none yet")])

    def _find(self, call: CompiledFunctionCall) -> Specialization | None:
        """Return a specialization for such arguments whose guards hold."""
        with lock:
            if self._cache is not state.cache:  # `clear_cache` was called
                self._specializations.clear()
                self._evicted.clear()
                self._fast, self._recent, self._cache = never_fast_call, None, state.cache
            specializations = self._specializations.get(call.key, [])
            if specializations:
                self._specializations.move_to_end(call.key)
            specializations = specializations[::-1]
        for specialization in specializations:
            if specialization.expects(call.static, call.leaves) and specialization.snapshot.same():
                return specialization
        call.snapshot = GuardSnapshot(walk_guards(self._f, call.roots, self._own))
        for specialization in specializations:
            if specialization.snapshot.key == call.snapshot.key:
                specialization.trust(call.snapshot)
                return specialization
        return None

    def _trace(self, call: CompiledFunctionCall) -> Specialization:
        with tracing.lock:
            specialization = self._find(call)  # another thread may have been first
            if specialization is not None:
                return specialization
            similar = self._specializations.get(call.key)
            before = similar[-1] if similar else self._recent
            evicted = hash((call.key, call.snapshot.key)) in self._evicted
            call.cause = retrace_causes.cause_of_miss(before, call, evicted)
            start = time.perf_counter()
            traced = tracing.trace(call, call.snapshot)
            call.seconds = time.perf_counter() - start
            specialization = Specialization(call, traced)
            with lock:
                self._specializations.setdefault(call.key, []).append(specialization)
                self._specializations.move_to_end(call.key)
                self._shrink()
            return specialization

    def _shrink(self) -> None:
        while sum(map(len, self._specializations.values())) > MOST_SPECIALIZATIONS:
            key, specializations = next(iter(self._specializations.items()))
            evicted = hash((key, specializations.pop(0).snapshot.key))
            remember(self._evicted, evicted, True, bound=10 * MOST_SPECIALIZATIONS)
            if not specializations:
                del self._specializations[key]

    def lower(self, /, *args: object, **kwargs: object) -> Lowered[Parameters, Result]:
        """Return the program for arguments (tensors, or types as `pb.Type`) without running it.

        >>> import pullback as pb
        >>> square = pb.compile(lambda x: x * x + 0 * x)
        >>> lowered = square.lower(pb.Type((3,), pb.float32))
        >>> lowered.compile()(pb.tensor([1.0, 2.0, 3.0])).tolist()
        [1.0, 4.0, 9.0]
        """
        return self._lowered(args, kwargs)

    def save(self, path: str | os.PathLike, /, *args: object, **kwargs: object) -> None:
        """Write the program for arguments (tensors, or types as `pb.Type`) to a file.

        Without arguments it is the program of the latest call. `pb.load_compiled` reads the file;
        `f.lower(*args).save(path, key=...)` also signs it.

        >>> import pullback as pb, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "double.pullback")
        >>> pb.compile(lambda x: 2 * x).save(path, pb.Type((2,), pb.float32))
        >>> pb.load_compiled(path)(pb.tensor([1.0, 2.0])).tolist()
        [2.0, 4.0]
        """
        self._save(path, args, kwargs)

    def _save(self, path: str | os.PathLike, args: tuple, kwargs: dict, given: tuple = ()) -> None:
        recent = self._recent
        if args or kwargs or recent is None:
            self._lowered(args, kwargs, given).save(path)
        else:
            save(recent, self._options, path)

    def _lowered(self, args: tuple, kwargs: dict, given: tuple = ()) -> Lowered[Any, Result]:
        call = CompiledFunctionCall(self, (*given, *args), kwargs)
        return Lowered(self._find(call) or self._trace(call), call, given)


if native is not None:
    del Compiled.__call__  # that of the base class is used


@boundary_methods
class BoundCompiled(Generic[Parameters, Result]):
    """A compiled method of an instance."""

    __slots__ = ("__func__", "__self__")

    def __init__(self, compiled: Compiled[..., Result], instance: object) -> None:
        self.__func__, self.__self__ = compiled, instance

    @handles_boundary_errors
    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return self.__func__(self.__self__, *args, **kwargs)
        except BaseException as error:
            leave_boundary(error)
            raise

    def lower(self, /, *args: object, **kwargs: object) -> Lowered[Parameters, Result]:
        """Lower the function with the instance as its first argument."""
        return self.__func__._lowered(args, kwargs, (self.__self__,))

    def save(self, path: str | os.PathLike, /, *args: object, **kwargs: object) -> None:
        """Write the program with the instance as its first argument to a file."""
        self.__func__._save(path, args, kwargs, (self.__self__,))

    def guarded_parts(self) -> list[tuple[str, Any]]:
        return [("", self.__func__), (".self", self.__self__)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"


class CompiledFunctionCall:
    """One call: its leaves, their kinds, and what else selects a specialization."""

    snapshot: GuardSnapshot
    cause: Any = None
    seconds = 0.0

    def __init__(self, compiled: Compiled, args: tuple, kwargs: dict) -> None:
        self.f, self.name, self.options = compiled._f, compiled._name, compiled._options
        self.own = compiled._own
        self.args, self.kwargs, found = self.options.split(args, kwargs)
        self.static = [value for _, value in found]
        leaves, self.in_tree = tree.flatten((self.args, self.kwargs))
        self.leaves, self.kinds = classify_arguments(leaves)
        self.mode = current()
        self.where = user_line()
        names = tuple([name for name, _ in found])
        mode = specialization_mode_key(self.mode)
        self.key = (mode, bound_axes(), self.in_tree, self.kinds, names)
        self._named = found

    @property
    def flat(self) -> bool:
        """Whether every argument is a single tensor."""
        given = [x for x in self.args if type(x) is Tensor]
        return len(given) == len(self.args) == len(self.leaves) and not self.static

    @cached_property
    def paths(self) -> list[str]:
        """The path of each leaf, as a user would write it."""
        return self.options.paths(self.args, self.kwargs)

    @cached_property
    def donated(self) -> list[bool]:
        """For each leaf, whether its argument is donated."""
        return self.options.donated_leaves(self.args, self.kwargs)

    @property
    def roots(self) -> list[tuple[str, Any]]:
        """Static values, which are guarded together with all that they lead to."""
        leaves = [(i, x) for i, (x, k) in enumerate(zip(self.leaves, self.kinds)) if k is STATIC]
        fields = static_tree_node_values((self.args, self.kwargs))
        return [*self._named, *((self.paths[i], x) for i, x in leaves), *fields]
