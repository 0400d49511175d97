"""Calls of compiled kernels: LAPACK on the CPU, cuSOLVER on GPUs, both shipped with jaxlib.

A kernel is registered with XLA when a program that calls it is first written. The code of a program
is found on disk by its text, so the text is always written before code is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.engines.base import OpBuilder
from pullback.engines.xla import bindings
from pullback.engines.xla.instructions import HloValue
from pullback.graph.types import Type

_PREFIXES = {"f32": "s", "f64": "d", "complex64": "c", "complex128": "z"}
# LAPACK's names of the same routine for complex matrices
_COMPLEX = {"orgqr": "ungqr", "syevd": "heevd"}


class KernelCalls(OpBuilder):
    """The part of `Builder` that writes calls of kernels."""

    platform: str
    # Whether ops that call kernels are written as calls of their own names, for any platform:
    # in programs that are exported or saved. Code that loads one writes the platform's calls.
    neutral: bool
    value: Callable[[Type], HloValue]

    def lapack(self, routine: str, *xs: HloValue, out: tuple[Type, ...], **options: Any) -> Any:
        """Call a LAPACK routine, named without the letter of the dtype; matrices are stored by
        columns, and dimensions in front of them are a batch. Options are letters."""
        _register_lapack()
        dtype = xs[0].dtype
        name = _COMPLEX.get(routine, routine) if dtype.is_complex else routine
        return self.ffi_call(f"lapack_{_PREFIXES[dtype.name]}{name}_ffi", *xs, out=out, **options)

    def cusolver(self, routine: str, *xs: HloValue, out: tuple[Type, ...], **options: Any) -> Any:
        """Call a routine of the CUDA plugin by its name without `_ffi`."""
        _register_cuda_kernels()
        return self.ffi_call(f"{routine}_ffi", *xs, out=out, **options)

    def ffi_call(self, target: str, *xs: HloValue, out: tuple[Type, ...], **options: Any) -> Any:
        """Call a target of XLA's typed interface."""
        batch = len(xs[0].shape) - 2
        config = ", ".join([f"{k} = {_option(v)}" for k, v in options.items()])
        return self.op(
            "stablehlo.custom_call", *xs, out=out, call_target_name=f'"{target}"',
            api_version="4 : i32", backend_config=f"{{{config}}}",
            operand_layouts=_layouts([x.type for x in xs], batch),
            result_layouts=_layouts(out, batch),
        )  # fmt: skip


def _option(value: Any) -> str:
    if isinstance(value, str):
        return f"{ord(value)} : ui8"
    return ("true" if value else "false") if isinstance(value, bool) else f"{value} : i64"


def _layouts(types: Sequence[Type], batch: int) -> str:
    return f"[{', '.join([_layout(t.rank, t.rank == batch + 2) for t in types])}]"


def _layout(rank: int, by_columns: bool) -> str:
    dims = list(reversed(range(rank)))
    if by_columns:
        dims[:2] = dims[1], dims[0]
    return f"dense<{dims if dims else ''}> : tensor<{rank}xindex>"


@functools.cache
def _register_lapack() -> None:
    lapack = bindings.lapack_kernels()
    lapack.initialize()  # it takes the routines from SciPy
    for name, kernel in lapack.registrations().items():
        bindings.xla_client.register_custom_call_target(name, kernel, "cpu", 1)


@functools.cache
def _register_cuda_kernels() -> None:
    for name, kernel in bindings.cuda_kernels().items():
        bindings.xla_client.register_custom_call_target(name, kernel, "CUDA", 1)
