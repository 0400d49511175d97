"""jaxlib, imported after setting the environment variables that XLA reads.

Nothing else in pullback imports jaxlib. Tested with jaxlib 0.10 to 0.12.
"""

from __future__ import annotations

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

__all__ = [
    "THREADS",
    "_jax",
    "accept_cuda_kernels",
    "cuda_kernels",
    "lapack_kernels",
    "version",
    "xla_client",
]


def lapack_kernels() -> Any:
    """Return jaxlib's module of LAPACK kernels; initialising it imports SciPy."""
    return importlib.import_module("jaxlib.cpu._lapack")


_CUDA_PACKAGES = ("jax_cuda13_plugin", "jax_cuda12_plugin")


def accept_cuda_kernels(api: Any) -> None:
    """Let the CUDA plugin, given by its C interface, take kernels when they are registered."""
    for package in _CUDA_PACKAGES:
        try:
            extension = importlib.import_module(f"{package}.cuda_plugin_extension")
        except ImportError:
            continue
        take = functools.partial(extension.register_custom_call_target, api)
        xla_client.register_custom_call_handler("CUDA", take)
        return


def cuda_kernels() -> dict[str, Any]:
    """Return the linear algebra kernels of the CUDA plugin by name, if it is installed."""
    for package in _CUDA_PACKAGES:
        try:
            return importlib.import_module(f"{package}._solver").registrations()
        except ImportError:
            continue
    return {}
