"""Settings: which mode, engine and defaults hold here, in this thread and task."""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import Any

from pullback.engines.byte_sizes import bytes_of, from_environment
from pullback.errors import ArgumentError, DTypeError
from pullback.graph.dtypes import DType, dtype, float32
from pullback.graph.where import user_line


@dataclass(frozen=True)
class Settings:
    """One consistent set of settings; never changed, only replaced."""

    eager: bool = False
    verify_shapes: bool = False
    engine: str = "xla"
    grad_enabled: bool = True
    default_dtype: DType = float32
    device: str | None = None
    cache_bytes: int = 512 * 2**20
    may_compile: bool = True

    def __post_init__(self) -> None:
        # the one thing that recording asks: whether it may take the shortest way
        object.__setattr__(self, "plain", self.grad_enabled and not self.one_by_one)

    plain = True

    @property
    def one_by_one(self) -> bool:
        """Whether each op is executed as it is recorded."""
        return self.eager or self.verify_shapes


def _from_environment() -> Settings:
    def on(name: str) -> bool:
        return os.environ.get(name, "") not in ("", "0")

    return Settings(
        on("PULLBACK_EAGER"), on("PULLBACK_VERIFY_SHAPES"),
        engine=os.environ.get("PULLBACK_ENGINE", "xla"),
        cache_bytes=from_environment("PULLBACK_CACHE_MEMORY", Settings.cache_bytes),
    )  # fmt: skip


_environment = _from_environment()  # frozen, so it can be every context's default
_settings: ContextVar[Settings] = ContextVar("pullback_settings", default=_environment)
current = _settings.get


class Scope:
    """Settings that hold from now on, or, used with `with`, until the block ends."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes
        self._tokens: list[Token] = [_settings.set(replace(current(), **changes))]
        self._entered = False

    def __enter__(self) -> Scope:
        if self._entered or not self._tokens:  # the same object, entered again
            self._tokens.append(_settings.set(replace(current(), **self._changes)))
        self._entered = True
        return self

    def __exit__(self, *exception: object) -> None:
        if self._tokens:
            _settings.reset(self._tokens.pop())

    def __call__(self, f: Any) -> Any:
        """As a decorator: the settings hold while `f` runs."""
        import functools

        self.__exit__()
        changes = self._changes

        @functools.wraps(f)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with Scope(**changes):
                return f(*args, **kwargs)

        return inside


_PUBLIC = {"eager", "verify_shapes", "engine", "cache_bytes"}


def config(**changes: Any) -> Scope:
    """Set `eager`, `verify_shapes`, `engine` ("xla" or "reference") or `cache_bytes`.

    `cache_bytes`, such as `2**28` or `"256M"`, bounds the programs kept in memory: whenever one is
    added here, the least recently used beyond the bound are dropped.

    As a function it holds from here on in this thread and task; as a context manager until the
    block ends. Other threads start from the environment: `PULLBACK_EAGER`,
    `PULLBACK_VERIFY_SHAPES`, `PULLBACK_ENGINE`, `PULLBACK_CACHE_MEMORY`.

    >>> import pullback as pb
    >>> with pb.config(engine="reference"):
    ...     pb.engine_info().platform
    'numpy'
    """
    unknown = set(changes) - _PUBLIC
    if unknown:
        raise ArgumentError(
            f"config: unknown setting {sorted(unknown)[0]!r}; known are {sorted(_PUBLIC)}",
        )
    if changes.get("engine", "xla") not in ("xla", "reference"):
        raise ArgumentError(
            f'config: engine must be "xla" or "reference", got {changes["engine"]!r}',
        )
    if "cache_bytes" in changes:
        try:
            changes["cache_bytes"] = bytes_of(changes["cache_bytes"])
        except (TypeError, ValueError):
            raise ArgumentError(
                'config: cache_bytes must be a number of bytes or a size such as "256M",'
                f" got {changes['cache_bytes']!r}",
            ) from None
    return Scope(**changes)


def no_grad() -> Scope:
    """Inside the block, nothing recorded is part of a derivative.

    >>> import pullback as pb
    >>> w = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with pb.no_grad():
    ...     (w * 2).requires_grad
    False
    """
    return Scope(grad_enabled=False)


def no_recompile() -> Scope:
    """Inside the block, a program that would have to be compiled raises, with the cause.

    >>> import pullback as pb
    >>> double = pb.compile(lambda x: x * 2)
    >>> _ = double(pb.tensor([1.0, 2.0]))
    >>> with pb.no_recompile():
    ...     double(pb.tensor([3.0, 4.0])).tolist()
    [6.0, 8.0]
    >>> with pb.no_recompile():
    ...     double(pb.tensor([3.0]))
    Traceback (most recent call last):
        ...
    pullback.errors.RecompileError: ... shape at ...: x was f32[2], is f32[1] ...
    """
    return Scope(may_compile=False)


def user_dtype(name: str, spec: Any) -> DType:
    """The element type that a user named; an unknown one is told at the user's line."""
    try:
        return dtype(spec)
    except DTypeError as error:
        raise error.at(name, user_line()) from None


def default_dtype(spec: Any) -> Scope:
    """The element type that Python floats become, f32 unless set.

    >>> import pullback as pb
    >>> with pb.default_dtype("float64"):
    ...     pb.tensor(1.5).dtype
    f64
    """
    made = user_dtype("default_dtype", spec)
    if not made.is_float:
        raise ArgumentError(f"default_dtype: must be a float type, got {made}")
    return Scope(default_dtype=made)


def default_device(name: str) -> Scope:
    """The device that values are computed on: the platform and an index, as `cpu:0`.

    >>> import pullback as pb
    >>> with pb.default_device("cpu:0"):
    ...     pb.tensor(1.0).device
    'cpu:0'
    """
    from pullback.engines.registry import engine

    engine(current().engine, name)  # one that is not there is told here
    return Scope(device=name)


__all__ = [
    "Settings", "config", "current", "default_device", "default_dtype", "no_grad", "no_recompile",
]  # fmt: skip
