"""jaxlib, imported after setting the environment variables that XLA reads.

Nothing else in pullback imports jaxlib. Tested with jaxlib 0.10 to 0.12.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from typing import Any

from pullback.engines.environment import environment_variable

# XLA's results depend on the number of its threads, by default the cores that the process may use.
# It is set to the cores of the machine, so that a process confined to some of them gets the same
# bits; PULLBACK_THREADS sets another number.
_NPROC = os.environ.get("NPROC", "")
_CORES = int(_NPROC) if _NPROC.isdecimal() and int(_NPROC) else os.cpu_count() or 1
THREADS: int = environment_variable("PULLBACK_THREADS", _CORES)
# Loading machine code, XLA logs false errors about features of the processor. Real errors are
# raised as well, so only fatal ones are printed.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["NPROC"] = str(THREADS)

from jaxlib import _jax, version, xla_client  # noqa: E402

_cuda_plugin: Any = None  # once it is loaded

__all__ = [
    "THREADS",
    "_jax",
    "add_cpu_kernel_binding",
    "add_cuda_plugin_bindings",
    "cuda_bindings",
    "lapack_bindings",
    "profiler_bindings",
    "trace_reader_binding",
    "version",
    "xla_client",
]  # fmt: skip


def lapack_bindings() -> Any:
    """Return jaxlib's module of LAPACK kernels; initialising it imports SciPy."""
    return importlib.import_module("jaxlib.cpu._lapack")


def add_cpu_kernel_binding(name: str, symbol: Any) -> None:
    """Let programs on the CPU call a function of a loaded library, by a name."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    capsule = new(ctypes.cast(symbol, ctypes.c_void_p), b"xla._CUSTOM_CALL_TARGET", None)
    xla_client.register_custom_call_target(name, capsule, "cpu", 1)


def cuda_bindings() -> dict[str, Any]:
    """Return the linear algebra kernels of the CUDA plugin by name, if it is installed."""
    solver = _cuda_binding("_solver")
    return solver.registrations() if solver else {}


def add_cuda_plugin_bindings(plugin: Any) -> None:
    """Let kernels for CUDA be registered with the loaded plugin, not with jaxlib itself."""
    global _cuda_plugin
    _cuda_plugin = plugin
    extension = _cuda_binding("cuda_plugin_extension")
    if extension is not None:
        register = functools.partial(extension.register_custom_call_target, plugin)
        xla_client.register_custom_call_handler("CUDA", register)


@functools.cache
def profiler_bindings() -> Any:
    """Return jaxlib's module of the profiler; a CUDA plugin that is loaded takes part in it."""
    found = importlib.import_module("jaxlib._profiler")
    if _cuda_plugin is not None:
        found.register_plugin_profiler(_cuda_plugin)
    return found


def trace_reader_binding() -> Any:
    """Return jaxlib's class that reads what the profiler wrote."""
    return importlib.import_module("jaxlib._profile_data").ProfileData


def _cuda_binding(name: str) -> Any:
    for package in ("jax_cuda13_plugin", "jax_cuda12_plugin"):
        try:
            return importlib.import_module(f"{package}.{name}")
        except ImportError:
            continue
    return None
