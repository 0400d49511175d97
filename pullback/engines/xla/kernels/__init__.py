"""pullback's own kernels for CPUs, in C++, which XLA's programs call.

`vec.h` has vectors and `pool.h` threads; NAME.cc holds a kernel, and NAME_ffi.cc what XLA calls.
The kernels are compiled for several instruction sets, into libraries of their own, when pullback is
installed; without a C++ compiler there are none, and XLA compiles everything.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib

from pullback.engines.environment import environment_variable

PREFIX = "pullback_"  # of the names of symbols and of XLA's targets
# The routines that lapack.h lists
LAPACK = ("potrf", "getrf", "getrs", "getri", "geqrf", "orgqr", "syevd", "gesdd", "trsm")
SETS = ("baseline", "avx2", "avx512")  # instruction sets, from the narrowest
_VECTOR_BYTES = {"baseline": 16, "avx2": 32, "avx512": 64}  # as vec.h says


class KernelLibrary:
    """The kernels compiled for one instruction set."""

    def __init__(self, path: pathlib.Path, instructions: str) -> None:
        self.path, self.instructions = path, instructions
        self.vector_bytes = _VECTOR_BYTES[instructions]
        self._library = ctypes.CDLL(str(path))
        self._known: set[str] = set()

    @functools.cached_property
    def has_lapack(self) -> bool:
        """Whether kernels can call LAPACK; on first use they are given SciPy's routines."""
        from scipy.linalg import cython_blas, cython_lapack  # heavy

        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name_of = ctypes.pythonapi.PyCapsule_GetName
        name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
        routines = cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__
        found = [routines[letter + name] for letter in "sd" for name in LAPACK]
        addresses = [address(capsule, name_of(capsule)) for capsule in found]
        self._library.pullback_take_lapack((ctypes.c_void_p * len(found))(*addresses))
        return True

    def register(self, name: str) -> None:
        """Let XLA's programs call a kernel."""
        if name not in self._known:
            from pullback.engines.xla import bindings  # jaxlib: heavy

            bindings.add_cpu_kernel_binding(PREFIX + name, self._library[PREFIX + name])
            self._known.add(name)


@functools.cache
def kernel_library() -> KernelLibrary | None:
    """Return the kernels for this processor; None if they were not compiled, or are not wanted.

    PULLBACK_KERNELS is 0 for none, or the name of a narrower instruction set.
    """
    wanted = environment_variable("PULLBACK_KERNELS", "1")
    found = {s: path for s in SETS if (path := _kernel_path(s)).exists()}
    if wanted == "0" or not found:
        return None
    best = SETS.index(wanted) if wanted in SETS else len(SETS)
    best = min(best, ctypes.CDLL(str(found["baseline"])).pullback_instruction_set())
    chosen = max((s for s in found if SETS.index(s) <= best), key=SETS.index)
    return KernelLibrary(found[chosen], chosen)


def _kernel_path(instructions: str) -> pathlib.Path:
    return pathlib.Path(__file__).with_name(f"kernels_{instructions}.so")
