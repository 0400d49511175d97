"""XLA's client: devices, transfers, compiling."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib.util
import os
import pathlib
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.engines import fork, processes
from pullback.engines.environment import environment_variable
from pullback.engines.virtual_devices import cpu_device_count
from pullback.engines.xla import compiler_options, machine, pinning
from pullback.engines.xla.bindings import (
    THREADS,
    _jax,
    add_cuda_plugin_bindings,
    version,
    xla_client,
)
from pullback.engines.xla.cuda_driver import CudaDriver
from pullback.engines.xla.cuda_reads import read_through_driver
from pullback.engines.xla.executable import Executable, executable_error
from pullback.engines.xla.host_heap import keep_freed_memory
from pullback.engines.xla.jax_arrays import JaxArrayOnDevice, jax_aval_of, jax_device_list
from pullback.engines.xla.kernels import kernel_library
from pullback.engines.xla.post_board import PostBoard
from pullback.engines.xla.process_cluster import ProcessCluster
from pullback.engines.xla.sharded import (
    ShardedDeviceGroup,
    ShardedExecutable,
    ShardedQueue,
    ShardedValue,
)
from pullback.errors import EngineError
from pullback.graph.dtypes import int32
from pullback.graph.types import Type

# Without this jaxlib narrows 64-bit arrays. It keeps no reference to the object.
_X64 = _jax.config.Config("jax_enable_x64", True, include_in_jit_key=True)
# Programs are saved in the oldest of these versions that can express them.
STABLEHLO_VERSIONS = ("1.0.0", "1.8.0", "1.17.0")
_CUDA_PLUGINS = ("xla_cuda13", "xla_cuda12")
_LIBRARY = pathlib.Path(version.__file__).with_name("libjax_common.so")
_LARGE = 2**20  # bytes of an array whose transfer takes longer than a copy on the device
_COMPILER_VARIABLES = ("XLA_FLAGS", "TF_XLA_FLAGS")
OptionsWith = Callable[[compiler_options.Flags], Any]  # makes compile options


def _collect_client_garbage(phase: str, info: dict) -> None:
    """Free host arrays that XLA released on its own threads."""
    if phase == "stop":
        _jax.collect_garbage()


gc.callbacks.append(_collect_client_garbage)


class Client:
    """XLA's devices: GPUs, or the CPU; values that are not sharded are on the first, `device`."""

    def __init__(self, platform: str | None = None) -> None:
        self._cluster = processes.current_processes().cluster
        chosen = platform or environment_variable("PULLBACK_PLATFORM", None)
        self._client = _make_pinned_client(chosen, self._cluster)
        self.device = self._client.local_devices()[0]
        self.devices = sorted(self._client.devices(), key=lambda d: (d.process_index, d.id))
        mine = self.device.process_index
        self.local_numbers = tuple(
            [i for i, d in enumerate(self.devices) if d.process_index == mine]
        )
        self.platform: str = {"gpu": "cuda"}.get(self._client.platform, self._client.platform)
        self._devices = jax_device_list([self.device])
        self._options = compiler_options.compile_options(self.platform)
        self.place = JaxArrayOnDevice(self.device)
        self._own = [self.device]
        self._groups: dict[tuple[int, ...], ShardedDeviceGroup] = {}
        self._fills: dict[tuple[Type, bytes], weakref.ref] = {}  # large arrays of one number
        self.queue = ShardedQueue(self)
        on_gpu = self.platform == "cuda"
        self._driver = CudaDriver.of_device(self.device.local_hardware_id) if on_gpu else None
        self.post_board = PostBoard.of_driver(self._driver)
        fork.in_forked_child(self._abandon)
        if "jax" not in sys.modules:  # the package jax has its own flag
            _jax.jax_jit.set_enable_x64_state(_X64)
            # In 0.10 the first transfer resets the flag.
            self.put(np.zeros((), np.int32), Type((), int32))
            _jax.jax_jit.set_enable_x64_state(_X64)

    def _abandon(self) -> None:
        """Refuse XLA in a forked process, and never free it: that would wait for its threads."""
        fork.lose_xla_after_fork()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._client))
        if _collect_client_garbage in gc.callbacks:
            gc.callbacks.remove(_collect_client_garbage)

    def put(self, array: np.ndarray, type: Type) -> Any:
        """Transfer an array to the device; it must not be written to afterwards."""
        return self.transfer([array], type, self.place, self._own)

    def fill(self, number: np.ndarray, type: Type, array: Callable[[], np.ndarray]) -> Any:
        """Return a buffer whose elements are all one number; `array` makes it on the host.

        A large one is transferred to a GPU once, and then copied there as long as it lives: states
        of optimizers begin with many equal arrays.
        """
        known: Any = self._fills.get((type, number.tobytes()), lambda: None)()
        if known is not None and not known.is_deleted():
            with contextlib.suppress(EngineError):  # another thread gave it to a program
                return self.copy(known)
        made = self.put(array(), type)
        if self.platform != "cpu" and type.size * number.itemsize >= _LARGE:
            self._fills[type, number.tobytes()] = weakref.ref(made)
        return made

    def transfer(
        self, arrays: Sequence[Any], type: Type, sharding: Any, devices: Sequence[Any]
    ) -> Any:
        """Transfer arrays of one type, each to its device, as one array of jaxlib.

        It may share their memory, so it is not `committed` (see `made`).
        """
        if fork.lost_xla:
            fork.refuse_after_fork("storing a value")
        jax_config = sys.modules.get("jax._src.config")
        try:
            if jax_config is None or type.dtype.bits < 64:
                return xla_client.batched_device_put(
                    jax_aval_of(type), sharding, arrays, devices, committed=False
                )
            # The package jax is imported too, and has replaced our flag by its own.
            before = jax_config.enable_x64.swap_local(True)
            try:
                return xla_client.batched_device_put(
                    jax_aval_of(type), sharding, arrays, devices, committed=False
                )
            finally:
                jax_config.enable_x64.set_local(before)
        except (RuntimeError, MemoryError) as error:  # XLA's errors are RuntimeErrors
            raise executable_error(error, "store the inputs of") from None

    def get(self, buffer: Any) -> np.ndarray:
        """Transfer a buffer to the host; on CPU without a copy, so the array is read-only."""
        if fork.lost_xla and (self.platform != "cpu" or not buffer.is_ready()):
            fork.refuse_after_fork("reading a value that was not ready when the process was forked")
        if self.post_board is not None and (posted := self.post_board.read(buffer)) is not None:
            return posted
        try:
            # A program that lacked memory has left buffers without memory. Reading one ends the
            # process, or gives an array of objects; waiting for it raises.
            buffer.block_until_ready()
            if self.platform == "cpu" and buffer.aval.dtype.isbuiltin == 1:
                return np.asarray(buffer)
            if self._driver is not None and buffer._sharding is self.place:
                found = read_through_driver(self._driver, buffer)
                if found is not None:
                    return found
            # NumPy's buffer protocol supports neither bf16 nor device memory.
            array = _buffer_on_host(buffer)
            return ClientBufferView(array, buffer).array() if self.platform == "cpu" else array
        except Exception as error:
            raise executable_error(error, "run") from None

    def wait(self, buffer: Any, group: ShardedDeviceGroup | None = None) -> None:
        """Return when a buffer on a group of devices, or on one device, has been computed."""
        if fork.lost_xla and not buffer.is_ready():
            fork.refuse_after_fork("reading a value that was not ready when the process was forked")
        if self._cluster is not None and group is not None and len(group.processes) > 1:
            return self._cluster.wait(buffer, group)
        try:
            buffer.block_until_ready()
        except Exception as error:
            raise executable_error(error, "run") from None

    def owns(self, value: Any) -> bool:
        """Whether a value is a buffer on this client's device."""
        return isinstance(value, _jax.ArrayImpl) and value._sharding is self.place

    def made(self, values: Sequence[Any]) -> list[bool]:
        """Return for each value whether it is a buffer that a program made: nothing else has its
        memory without referring to it.

        Buffers that were transferred or imported may share memory with something that does not
        refer to them. jaxlib's mark of committed arrays, which nothing else uses, tells them apart.
        """
        array, mine = _jax.ArrayImpl, self.place
        return [type(v) is array and v._sharding is mine and v._committed for v in values]

    def owns_all(self, values: Sequence[Any]) -> bool:
        """Whether all values are buffers on this client's device; a part of every compiled call."""
        mine = self.place
        try:
            for value in values:
                if value._sharding is not mine:
                    return False
        except AttributeError:  # an array of the host, or None
            return False
        return True

    def copy(self, buffer: Any) -> Any:
        """Return a new buffer with the same values."""
        if fork.lost_xla:
            fork.refuse_after_fork("copying a value")
        always = _jax.ArrayCopySemantics.ALWAYS_COPY
        places = [self._devices], [self.place], [always]
        try:
            return _jax.batched_copy_array_to_devices_with_sharding([buffer], *places)[0]
        except Exception as error:
            raise executable_error(error, "copy the inputs of") from None

    def compile(
        self, text: str | bytes, outs: list[Type], functions: Sequence[Any] = (),
        flags: compiler_options.Flags = (),
    ) -> Executable:  # fmt: skip
        """Compile a program with flags of XLA, those of `compiler_options.compiler_flags`."""
        loaded = self.compiled(text, self._devices, self._options_with, functions, flags)
        return self._executable(loaded, outs)

    def load(
        self, code: bytes, outs: list[Type], flags: compiler_options.Flags = ()
    ) -> Executable | None:
        """Load the result of `Executable.serialise`; return None if XLA rejects it."""
        loaded = self.loaded(code, self._devices, self._options_with, flags)
        return None if loaded is None else self._executable(loaded, outs)

    def _options_with(self, flags: compiler_options.Flags) -> Any:
        return compiler_options.compile_options(self.platform, flags) if flags else self._options

    def _executable(self, loaded: Any, outs: list[Type]) -> Executable:
        return Executable(loaded, outs, self.place, self.platform == "cpu")

    def compiled(
        self, text: str | bytes, devices: Any, options_with: OptionsWith,
        functions: Sequence[Any] = (), flags: compiler_options.Flags = (),
    ) -> Any:  # fmt: skip
        """Compile a program, which calls Python functions by their numbers."""
        if fork.lost_xla:
            fork.refuse_after_fork("compiling a program")
        flags = compiler_options.known_compiler_flags(flags)
        try:
            chosen = options_with(flags)
            if functions:
                from pullback.engines.xla import mlir  # heavy

                # jaxlib takes functions only with a parsed program
                program = mlir.parsed_mlir(text)
                return self._client.compile_and_load(program, devices, chosen, list(functions))
            return self._client.compile_and_load(text, devices, chosen)
        except Exception as error:
            if compiler_options.compiler_refused_flag(error, flags):
                return self.compiled(text, devices, options_with, functions, flags)
            raise executable_error(error, "compile") from None

    def loaded(
        self,
        code: bytes,
        devices: Any,
        options_with: OptionsWith,
        flags: compiler_options.Flags = (),
    ) -> Any:
        if fork.lost_xla:
            fork.refuse_after_fork("loading a program")
        flags = compiler_options.known_compiler_flags(flags)
        try:
            return self._client.deserialize_executable(code, devices, options_with(flags))
        except Exception as error:
            if compiler_options.compiler_refused_flag(error, flags):
                return self.loaded(code, devices, options_with, flags)
            return None

    @functools.cached_property
    def has_flash_attention(self) -> bool:
        """Whether cuDNN computes attention on the devices: NVIDIA's GPUs since Ampere."""
        found = (
            getattr(self.device, "compute_capability", None) if self.platform == "cuda" else None
        )
        return found is not None and float(found) >= 8

    @functools.cached_property
    def identity(self) -> list[bytes]:
        """Everything that machine code depends on besides the text of its program."""
        facts = [
            version.__version__, getattr(version, "_git_hash", None), self.platform,
            self._client.platform_version, self.device.device_kind, [self.device.id], THREADS,
            *[(name, os.environ.get(name)) for name in _COMPILER_VARIABLES],
        ]  # fmt: skip
        if self.platform == "cpu" and len(self._client.local_devices()) > 1:
            # XLA then has at least one thread for each device
            facts.append(len(self._client.local_devices()))
        parts = [
            repr(facts).encode(),
            self._options.SerializeAsString(),
            machine.machine_processor(),
        ]
        parts.append(machine.machine_library(_LIBRARY))
        library = kernel_library() if self.platform == "cpu" else None
        if library is not None:
            parts.append(machine.machine_library(library.path))
        if self.platform == "cuda":
            parts += machine.machine_driver(), machine.machine_library(_cuda_client_plugin() or "")
        return parts

    def group(self, positions: Sequence[int]) -> ShardedDeviceGroup:
        """Return devices by their numbers, in the order in which programs count them."""
        key = tuple(positions)
        found = self._groups.get(key)
        if found is None:
            if not all(0 <= i < len(self.devices) for i in key):
                count = 1 if self._cluster is None else self._cluster.count
                raise _too_few_client_devices(self.platform, max(key) + 1, len(self.devices), count)
            found = self._groups.setdefault(key, ShardedDeviceGroup(self, key))
        return found

    def start(self, program: ShardedExecutable, args: list[ShardedValue]) -> list[Any]:
        """Start a program whose devices communicate."""
        if self._cluster is not None and len(program.group.processes) > 1:
            return self._cluster.start(program, args)
        return program.start(args)

    def options_for(self, devices: Sequence[Any], flags: compiler_options.Flags = ()) -> Any:
        """Return compile options for one replica of a program on each device."""
        result, count = compiler_options.compile_options(self.platform, flags), len(devices)
        ids = np.array([d.id for d in devices]).reshape(count, 1)
        assignment = xla_client.DeviceAssignment.create(ids)
        for part in (result, result.executable_build_options):
            part.num_replicas = count
            part.device_assignment = assignment
        return result


class ClientBufferView:
    """Memory of a buffer for an array of a dtype that NumPy's protocols do not know.

    jaxlib's own array refers to the memory, but not to the buffer, whose references tell whether
    its memory may be reused.
    """

    def __init__(self, array: np.ndarray, buffer: Any) -> None:
        self._array, self._buffer = array, buffer
        self.__array_interface__ = array.view(f"V{array.itemsize}").__array_interface__

    def array(self) -> np.ndarray:
        return np.asarray(self).view(self._array.dtype)


def _buffer_on_host(buffer: Any) -> np.ndarray:
    """Copy a buffer in device memory to the host; on CPU, share its memory."""
    try:
        return buffer._to_np_array_did_copy()[0]
    except AttributeError:
        # Before jaxlib 0.11. It imports the package jax where that is installed, for half a second.
        return buffer._single_device_array_to_np_array_did_copy()[0]


def _make_pinned_client(platform: str | None, joined: ProcessCluster | None) -> Any:
    """Make the client, and pin the threads of its pool to cores if the environment says so."""
    if not environment_variable("PULLBACK_PIN_THREADS", False):
        return _make_client(platform, joined)
    before = pinning.threads_to_pin()  # of the package jax
    made = _make_client(platform, joined)
    pinning.pin_threads([t for t in pinning.threads_to_pin() if t not in before])
    return made


def _make_client(platform: str | None, joined: ProcessCluster | None) -> Any:
    plugin = _cuda_client_plugin() if platform in (None, "cuda") else None
    if plugin is not None:
        try:
            return _make_cuda_client(plugin, joined)
        except RuntimeError as error:  # the plugin is installed, but finds no usable GPU
            reason = str(error).strip().splitlines()[0]
        if platform == "cuda" or joined is not None:
            raise EngineError(f"no GPU can be used: {reason}", code="E6002")
        message = f"no GPU can be used ({reason}): values are computed on the CPU"
        warnings.warn(message, stacklevel=2)
    elif platform not in (None, "cpu"):
        what = f"no engine for platform {platform!r}: its plugin is not installed"
        hint = "Install it with `pip install pullback[cuda13]`."
        raise EngineError(what, code="E6002", hint=hint)
    keep_freed_memory()
    count = cpu_device_count()
    if joined is not None:
        return joined.make_cpu_client(count)
    return xla_client.make_cpu_client(**({} if count == 1 else {"num_devices": count}))


def _make_cuda_client(plugin: pathlib.Path, joined: ProcessCluster | None) -> Any:
    if not xla_client.pjrt_plugin_loaded("cuda"):
        add_cuda_plugin_bindings(xla_client.load_pjrt_plugin_dynamically("cuda", str(plugin)))
    if not xla_client.pjrt_plugin_initialized("cuda"):
        xla_client.initialize_pjrt_plugin("cuda")
    options = xla_client.generate_pjrt_gpu_plugin_options()
    if joined is not None:
        return joined.make_plugin_client("cuda", options)
    return xla_client.make_c_api_client("cuda", options)


def _too_few_client_devices(platform: str, wanted: int, there: int, processes: int) -> EngineError:
    each = -(-wanted // processes)
    what = f"there is no device {platform}:{wanted - 1}, only {there}"
    hint = f"Set the environment variable PULLBACK_CPU_DEVICES={each} before Python starts."
    return EngineError(what, code="E6002", hint=hint if platform == "cpu" else None)


def _cuda_client_plugin() -> pathlib.Path | None:
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
