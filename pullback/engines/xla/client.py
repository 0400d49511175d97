"""All contact with jaxlib's unstable surface: devices, transfers, compiling and running.

Tried with jaxlib 0.10 to 0.12. Nothing else in pullback imports jaxlib.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.engines.xla import machine
from pullback.engines.xla.memory import Memory
from pullback.ir.dtypes import int32
from pullback.ir.errors import EngineError, OutOfMemory
from pullback.ir.types import Type

# XLA's results depend on the number of threads it uses, by default the cores it may run on. It is
# pinned to the cores of the machine, so that a process confined to some of them gives the same
# bits; PULLBACK_THREADS sets another number.
THREADS = int(
    os.environ.get("PULLBACK_THREADS") or os.environ.get("NPROC") or os.cpu_count() or 1
)
# Loading machine code, XLA logs errors about features of the processor that are none. What goes
# wrong is raised as well; only what ends the process is still printed.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["NPROC"] = str(THREADS)

from jaxlib import _jax, version, xla_client  # noqa: E402

# Without it jaxlib narrows 64-bit arrays. It keeps no reference of its own to this object.
_X64 = _jax.config.Config("jax_enable_x64", True, include_in_jit_key=True)
# Programs are saved in the oldest of these versions that has all they need.
STABLEHLO_VERSIONS = ("1.0.0", "1.8.0", "1.17.0")
_CUDA_PLUGINS = ("xla_cuda13", "xla_cuda12")
_LIBRARY = pathlib.Path(version.__file__).with_name("libjax_common.so")
_COMPILER_VARIABLES = ("XLA_FLAGS", "TF_XLA_FLAGS")


def _collect(phase: str, info: dict) -> None:
    """XLA gives back host arrays on its own threads; Python's are freed when this is called."""
    if phase == "stop":
        _jax.collect_garbage()


gc.callbacks.append(_collect)


class _Aval:
    """What jaxlib asks about an array: its abstract value."""

    __slots__ = ("dtype", "ndim", "shape")
    weak_type = False

    def __init__(self, type: Type) -> None:
        self.shape, self.dtype, self.ndim = type.shape, type.dtype.numpy, len(type.shape)


class _OnDevice(_jax.SingleDeviceSharding):  # type: ignore[misc, name-defined]
    """Places a whole array on one device."""

    memory_kind = None
    is_fully_replicated = True
    is_fully_addressable = True

    def __init__(self, device: Any) -> None:
        super().__init__(device)
        self._only = {device}

    @property
    def device_set(self) -> set:
        return self._only

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return xla_client.HloSharding.replicate()


class Client:
    """One device of XLA's: the first CUDA device if the plugin is installed, else the CPU."""

    def __init__(self, platform: str | None = None) -> None:
        self._client = _make_client(platform or os.environ.get("PULLBACK_PLATFORM"))
        self.device = self._client.local_devices()[0]
        self.platform: str = {"gpu": "cuda"}.get(self._client.platform, self._client.platform)
        self._devices = _device_list((self.device,))
        self._options = _options(self.platform)
        self._sharding = _OnDevice(self.device)
        self._avals: dict[Type, _Aval] = {}
        if "jax" not in sys.modules:  # which brings its own flag, and must keep it
            _jax.jax_jit.set_enable_x64_state(_X64)
            # In 0.10 the first transfer forgets the flag; set again, it stays.
            self._put(np.zeros((), np.int32), Type((), int32))
            _jax.jax_jit.set_enable_x64_state(_X64)

    def put(self, array: np.ndarray, type: Type) -> Any:
        """Host to device. The caller hands the array over: it must not be written to again."""
        jax_config = sys.modules.get("jax._src.config")
        if jax_config is None or type.dtype.bits < 64:
            return self._put(array, type)
        # The package jax, imported beside us, has put its own flag in place of ours.
        before = jax_config.enable_x64.swap_local(True)
        try:
            return self._put(array, type)
        finally:
            jax_config.enable_x64.set_local(before)

    def _put(self, array: np.ndarray, type: Type) -> Any:
        aval = self._aval(type)
        return xla_client.batched_device_put(aval, self._sharding, [array], [self.device])

    def get(self, buffer: Any) -> np.ndarray:
        """Device to host; on CPU without a copy, so the array is read-only."""
        try:
            if self.platform == "cpu" and buffer.aval.dtype.isbuiltin == 1:
                return np.asarray(buffer)
            # NumPy's buffer protocol knows neither bf16 nor memory that is not the host's. This
            # call does, but it imports the package jax where that is installed: half a second.
            return buffer._single_device_array_to_np_array_did_copy()[0]
        except Exception as error:
            raise _explain(error, "run") from None

    def owns(self, value: Any) -> bool:
        """Whether a value is a buffer on this client's device."""
        return isinstance(value, _jax.ArrayImpl) and value._sharding is self._sharding

    def owns_all(self, values: Sequence[Any]) -> bool:
        """Whether all values are buffers on this client's device: asked at every compiled call."""
        mine = self._sharding
        try:
            for value in values:
                if value._sharding is not mine:
                    return False
        except AttributeError:  # an array of the host, or nothing yet
            return False
        return True

    def copy(self, buffer: Any) -> Any:
        """A buffer of its own with the same values."""
        always = _jax.ArrayCopySemantics.ALWAYS_COPY
        places = [self._devices], [self._sharding], [always]
        return _jax.batched_copy_array_to_devices_with_sharding([buffer], *places)[0]

    def compile(self, text: str | bytes, outs: list[Type]) -> Executable:
        try:
            loaded = self._client.compile_and_load(text, self._devices, self._options)
        except Exception as error:
            raise _explain(error, "compile") from None
        return self._executable(loaded, outs)

    def load(self, code: bytes, outs: list[Type]) -> Executable | None:
        """An executable as `Executable.serialise` gave it; None when XLA does not take it."""
        try:
            loaded = self._client.deserialize_executable(code, self._devices, self._options)
        except Exception:
            return None
        return self._executable(loaded, outs)

    def _executable(self, loaded: Any, outs: list[Type]) -> Executable:
        return Executable(loaded, [_handler(self._aval(t), self._sharding) for t in outs])

    @functools.cached_property
    def identity(self) -> list[bytes]:
        """All that machine code depends on beside the text of its program."""
        words = [
            version.__version__, getattr(version, "_git_hash", None), self.platform,
            self._client.platform_version, self.device.device_kind, [self.device.id], THREADS,
            *[(name, os.environ.get(name)) for name in _COMPILER_VARIABLES],
        ]  # fmt: skip
        parts = [repr(words).encode(), self._options.SerializeAsString(), machine.processor()]
        parts.append(machine.library(_LIBRARY))
        if self.platform == "cuda":
            parts += machine.driver(), machine.library(_cuda_plugin() or "")
        return parts

    def portable(self, text: str) -> bytes:
        """StableHLO in its portable form: of the oldest version that can say it."""
        for target in STABLEHLO_VERSIONS:
            try:
                return _jax.mlir.serialize_portable_artifact(text, target)
            except Exception as error:
                failure = error
        raise _explain(failure, "serialise") from None

    def _aval(self, type: Type) -> _Aval:
        aval = self._avals.get(type)
        if aval is None:
            if len(self._avals) > 4096:
                self._avals.clear()
            aval = self._avals[type] = _Aval(type)
        return aval


class Executable:
    """A compiled program on its device."""

    def __init__(self, loaded: Any, handlers: list[Any]) -> None:
        self._execute = loaded.execute_sharded
        self._handlers = handlers
        self.loaded = loaded

    def serialise(self) -> bytes | None:
        """Its machine code, for `Client.load`; None when XLA cannot write it.

        To be asked before the first run: after it, XLA no longer writes programs that sort.
        """
        try:
            return self.loaded.serialize()
        except Exception:
            return None

    def run(self, args: list[Any]) -> list[Any]:
        """Start the program; the buffers it returns may still be being computed."""
        try:
            return self._execute(args).consume_with_handlers(self._handlers)
        except Exception as error:
            raise _explain(error, "run") from None

    def memory(self) -> Memory:
        """What XLA's buffer assignment says that a run takes."""
        found = self.loaded.get_compiled_memory_stats()
        arguments = found.argument_size_in_bytes
        results = found.output_size_in_bytes - found.alias_size_in_bytes
        return Memory(arguments, results, found.temp_size_in_bytes)

    def work(self) -> tuple[float, float]:
        """Floating-point operations of a run, and bytes that it reads and writes."""
        found = self.loaded.cost_analysis()
        return max(0.0, found.get("flops", 0.0)), max(0.0, found.get("bytes accessed", 0.0))


def _make_client(platform: str | None) -> Any:
    plugin = _cuda_plugin() if platform in (None, "cuda") else None
    if platform in (None, "cpu") and plugin is None:
        return xla_client.make_cpu_client()
    if plugin is None:
        raise EngineError(
            f"no engine for platform {platform!r}: its plugin is not installed",
            code="E6002", hint="Install it with `pip install pullback[cuda13]`.",
        )  # fmt: skip
    if not xla_client.pjrt_plugin_loaded("cuda"):
        xla_client.load_pjrt_plugin_dynamically("cuda", str(plugin))
    if not xla_client.pjrt_plugin_initialized("cuda"):
        xla_client.initialize_pjrt_plugin("cuda")
    return xla_client.make_c_api_client("cuda", xla_client.generate_pjrt_gpu_plugin_options())


def _cuda_plugin() -> pathlib.Path | None:
    for name in _CUDA_PLUGINS:
        try:
            spec = importlib.util.find_spec(f"jax_plugins.{name}")
        except ModuleNotFoundError:
            return None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            library = pathlib.Path(folder) / "xla_cuda_plugin.so"
            if library.exists():
                return library
    return None


def _options(platform: str) -> Any:
    options = xla_client.CompileOptions()
    # A conversion to a shorter type and back rounds: XLA's GPU compiler takes the pair away.
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
    if platform == "cpu":
        # It removes optimization barriers, in jaxlib 0.10 so early that common subexpressions are
        # merged across them: what a checkpoint computes again would be kept after all.
        debug = options.executable_build_options.debug_options
        debug.xla_disable_hlo_passes = "cse_barrier_expander"
    return options


def _device_list(devices: tuple) -> Any:
    made = getattr(xla_client, "DeviceList", None) or _jax.DeviceList
    return made(devices)


def _handler(aval: _Aval, sharding: Any) -> Any:
    try:
        return _jax.array_result_handler(aval, sharding, True, True)
    except TypeError:  # jaxlib 0.12 has no `skip_checks`
        return _jax.array_result_handler(aval, sharding, True)


def _explain(error: Exception, action: str) -> EngineError:
    """An error of XLA's as one of ours: its first line, and what it means."""
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "RESOURCE_EXHAUSTED" in first or "out of memory" in first.lower():
        return OutOfMemory(f"the device is out of memory: {first}")
    return EngineError(f"XLA could not {action} the program: {first}")
