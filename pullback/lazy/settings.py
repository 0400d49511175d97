"""Settings of the current task: mode, engine and defaults, in a context variable."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pullback.engines import environment
from pullback.engines.byte_sizes import bytes_of
from pullback.engines.choices import PRECISIONS, USUAL, CodeChoices
from pullback.engines.environment import environment_variable
from pullback.errors import ArgumentError, DTypeError
from pullback.graph.argument_checks import checked_flag_argument
from pullback.graph.boundary import boundary
from pullback.graph.dtypes import DType, dtype, float32
from pullback.graph.native import bind_native
from pullback.graph.source_lines import user_line
from pullback.sharding.spec import Sharding


@dataclass(frozen=True)
class Settings:
    """An immutable set of settings: those of `outer`, with the changes of one scope."""

    eager: bool = False
    verify_shapes: bool = False
    engine: str = "xla"
    grad_enabled: bool = True
    default_dtype: DType = float32
    device: str | None = None  # the platform that computes values on no mesh, if not the usual one
    place: Sharding | None = None  # of new tensors, if not on the platform's first device
    cache_bytes: int = 512 * 2**20
    may_compile: bool = True
    check_nan: bool = False
    profiled: bool = False  # whether programs are compiled so that a profiler can look inside
    precision_warnings: bool = True
    kernels: bool = True  # whether programs may call pullback's own kernels
    matmul_precision: str = "highest"  # with which programs multiply matrices of f32
    outer: Settings | None = field(default=None, compare=False, repr=False)
    # A weak reference to the scope; that of the outermost settings is never None
    scope: Callable[[], object] = field(default=object, compare=False, repr=False)
    changes: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    plain = True
    choices: CodeChoices = USUAL
    target: tuple = ()

    def __post_init__(self) -> None:
        # Recording reads this alone: whether there is nothing to do besides recording
        object.__setattr__(self, "plain", self.grad_enabled and not self.one_by_one)
        # What the code of a program depends on besides its graph
        object.__setattr__(self, "choices", CodeChoices(self.kernels, self.matmul_precision))
        object.__setattr__(self, "target", (self.engine, self.device, self.choices, self.profiled))

    @property
    def one_by_one(self) -> bool:
        """Whether each op is executed as it is recorded."""
        return self.eager or self.verify_shapes

    def within(self, scope: Callable[[], object], changes: dict[str, Any]) -> Settings:
        """Return these settings with the changes of a scope."""
        outer, before = self, self.outer
        if before is not None and self.scope() is None and before.scope() is None:
            # Neither scope can be left: join them, so that config() in a loop needs no memory
            joined = before.changes | self.changes
            outer = self._replace(outer=before.outer, changes=joined)
        return outer._replace(**changes, outer=outer, scope=scope, changes=changes)

    def without(self, scope: SettingsScope) -> Settings:
        """Return these settings without the innermost changes of a scope, also if others follow."""
        later, settings = [], self
        while settings.scope() is not scope:
            if settings.outer is None:
                return self  # it was not entered in this context
            later.append(settings)
            settings = settings.outer
        assert settings.outer is not None
        settings = settings.outer
        for entry in reversed(later):
            settings = settings.within(entry.scope, entry.changes)
        return settings

    def _replace(self, **fields: Any) -> Settings:
        # dataclasses.replace takes four times as long, and no_grad() is used in inner loops
        made = object.__new__(Settings)
        made.__dict__.update(self.__dict__)
        made.__dict__.update(fields)
        made.__post_init__()
        return made


def _settings_from_environment() -> Settings:
    environment.check_environment()  # at the import, and not when a variable is first needed
    return Settings(
        eager=environment_variable("PULLBACK_EAGER", False),
        verify_shapes=environment_variable("PULLBACK_VERIFY_SHAPES", False),
        engine=environment_variable("PULLBACK_ENGINE", "xla"),
        cache_bytes=environment_variable("PULLBACK_CACHE_MEMORY", Settings.cache_bytes),
        kernels=environment_variable("PULLBACK_KERNELS", "1") != "0",
    )


_environment = _settings_from_environment()  # immutable, and the default of every context
_settings: ContextVar[Settings] = ContextVar("pullback_settings", default=_environment)
current = _settings.get
bind_native(current=current)


class SettingsScope:
    """Settings that apply from now on, or, used with `with`, until the block ends.

    Leaving a scope reverts only its own changes, so that scopes may overlap, as those of
    interleaved generators do.
    """

    def __init__(self, **changes: Any) -> None:
        self._changes = changes
        self._apply()
        self._applied = True  # and not yet entered

    def _apply(self) -> None:
        _settings.set(current().within(weakref.ref(self), self._changes))

    def __enter__(self) -> SettingsScope:
        if not self._applied:  # the same object, entered again
            self._apply()
        self._applied = False
        return self

    def __exit__(self, *exception: object) -> None:
        _settings.set(current().without(self))
        self._applied = False

    def __call__(self, f: Any) -> Any:
        """As a decorator: the settings apply while `f` runs."""
        self.__exit__()
        changes = self._changes

        @boundary
        @functools.wraps(f)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with SettingsScope(**changes):
                return f(*args, **kwargs)

        return inside


_PUBLIC = (
    "cache_bytes", "check_nan", "eager", "engine", "kernels", "matmul_precision",
    "precision_warnings", "verify_shapes",
)  # fmt: skip


def config(**changes: Any) -> SettingsScope:
    """Set `eager`, `verify_shapes`, `check_nan`, `precision_warnings`, `cache_bytes`, `kernels`,
    `matmul_precision` or `engine` ("xla" or "reference").

    With `check_nan`, a program whose results are not finite raises an error at the line of the op
    that made the NaN or infinity (see `pb.debug.trace_nan`).

    `precision_warnings=False` switches `pb.errors.PrecisionWarning` off, which tells where float64
    that NumPy chose by default widens a computation.

    With `kernels=False`, programs call none of pullback's own kernels: XLA compiles all of their
    ops. Both agree within rounding.

    `matmul_precision` is the least precision with which a GPU may multiply matrices of f32:
    "highest" is f32 itself, "tf32" keeps 11 bits of each factor, and "bf16" 8 (convolutions: 11).
    They are added up in f32 in any case. CPUs always multiply in f32.

    `cache_bytes`, such as `2**28` or `"256M"`, bounds the programs in memory: when one is added,
    the least recently used beyond the bound are evicted.

    As a function, the settings apply from now on in this thread and task; as a context manager,
    until the block ends. Other threads start from the environment variables `PULLBACK_EAGER`,
    `PULLBACK_VERIFY_SHAPES`, `PULLBACK_ENGINE`, `PULLBACK_CACHE_MEMORY` and `PULLBACK_KERNELS`.

    >>> import pullback as pb
    >>> with pb.config(engine="reference"):
    ...     pb.engine_info().platform
    'numpy'
    """
    unknown = changes.keys() - _PUBLIC
    if unknown:
        known = ", ".join(_PUBLIC)
        raise ArgumentError(f"config: unknown setting {min(unknown)!r}; known are {known}")
    engine = changes.get("engine", "xla")
    if engine not in ("xla", "reference"):
        raise ArgumentError(f'config: engine must be "xla" or "reference", got {engine!r}')
    precision = changes.get("matmul_precision", "highest")
    if precision not in PRECISIONS:
        known = '"highest", "tf32" or "bf16"'
        raise ArgumentError(f"config: matmul_precision must be {known}, got {precision!r}")
    for name in changes.keys() & {"eager", "kernels", "precision_warnings", "verify_shapes"}:
        changes[name] = checked_flag_argument("config", changes[name], name)
    if "cache_bytes" in changes:
        try:
            changes["cache_bytes"] = bytes_of(changes["cache_bytes"])
        except (TypeError, ValueError):
            raise ArgumentError(
                'config: cache_bytes must be a number of bytes or a size such as "256M", '
                f"got {changes['cache_bytes']!r}"
            ) from None
    return SettingsScope(**changes)


def no_grad() -> SettingsScope:
    """Exclude what is recorded inside the block from derivatives.

    >>> import pullback as pb
    >>> w = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> with pb.no_grad():
    ...     (w * 2).requires_grad
    False
    """
    return SettingsScope(grad_enabled=False)


def no_recompile() -> SettingsScope:
    """Raise an error with the cause if a program must be compiled inside the block.

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
    return SettingsScope(may_compile=False)


def user_dtype(name: str, spec: Any) -> DType:
    """Return the dtype that a user named; an unknown one raises at the user's line."""
    try:
        return dtype(spec)
    except DTypeError as error:
        raise error.at(name, user_line()) from None


def default_dtype(spec: Any) -> SettingsScope:
    """Set the dtype of Python floats, f32 by default.

    >>> import pullback as pb
    >>> with pb.default_dtype("float64"):
    ...     pb.tensor(1.5).dtype
    f64
    """
    made = user_dtype("default_dtype", spec)
    if not made.is_float:
        raise ArgumentError(f"default_dtype: must be a float dtype, got {made}")
    return SettingsScope(default_dtype=made)
