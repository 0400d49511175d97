"""Calls of compiled kernels: pullback's own and LAPACK on the CPU, cuSOLVER and cuDNN on GPUs.

A kernel is registered with XLA when a program that calls it is first written. The code of a program
is found on disk by its text, so the text is always written before code is loaded.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from pullback.engines.protocols import BuilderProtocol
from pullback.engines.xla.hlo_instructions import HloInstruction, HloValue
from pullback.engines.xla.hlo_printer import print_hlo_quoted
from pullback.engines.xla.kernels import PREFIX, kernel_library
from pullback.engines.xla.strided_views import strided_view
from pullback.engines.xla.triton import small_matrices
from pullback.engines.xla.triton.tile_text import KernelText
from pullback.graph.types import Type

_PREFIXES = {"f32": "s", "f64": "d", "complex64": "c", "complex128": "z"}
# LAPACK's names of the same routine for complex matrices
_COMPLEX = {"orgqr": "ungqr", "syevd": "heevd", "sytrd": "hetrd"}


class KernelCalls(BuilderProtocol):
    """The part of `Builder` that writes calls of kernels."""

    platform: str
    # Whether ops that call kernels are written as calls of their own names, for any platform:
    # in programs that are exported or saved. Code that loads one writes the platform's calls.
    neutral: bool
    donated: frozenset[HloValue]  # arguments whose memory the program may overwrite
    kernels: bool  # whether the program may call pullback's own kernels
    value: Callable[[Type], HloValue]
    instructions: list[HloInstruction]

    def lapack(self, routine: str, *xs: HloValue, out: tuple[Type, ...], **options: Any) -> Any:
        """Call a LAPACK routine, named without the letter of the dtype; matrices are stored by
        columns, and dimensions in front of them are a batch. Options are letters or flags."""
        _register_lapack_kernel_calls()
        dtype = xs[0].dtype
        name = _COMPLEX.get(routine, routine) if dtype.is_complex else routine
        return self.ffi_call(f"lapack_{_PREFIXES[dtype.name]}{name}_ffi", *xs, out=out, **options)

    def cusolver(self, routine: str, *xs: HloValue, out: tuple[Type, ...], **options: Any) -> Any:
        """Call a routine of the CUDA plugin by its name without `_ffi`."""
        _register_cuda_kernel_calls()
        return self.ffi_call(f"{routine}_ffi", *xs, out=out, **options)

    def cudnn(
        self, target: str, *xs: HloValue, out: tuple[Type, ...], orders: Sequence[Sequence[int]],
        config: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Call a routine of cuDNN that XLA knows, with its configuration. Operands are stored by
        rows; `orders` lists the dimensions of each result, from the outermost in memory."""
        ins = [_ordered_kernel_call_layout(range(x.type.rank)) for x in xs]
        outs = [_ordered_kernel_call_layout(order) for order in orders]
        text = json.dumps({"operation_queue_id": "0", **config}).replace('"', "\\22")
        return self.op(
            "stablehlo.custom_call", *xs, out=out, call_target_name=f'"__cudnn${target}"',
            api_version="2 : i32", backend_config=f'"{text}"',
            operand_layouts=f"[{', '.join(ins)}]", result_layouts=f"[{', '.join(outs)}]",
        )  # fmt: skip

    def kernel(self, name: str, *xs: HloValue, out: Any, **options: Any) -> Any:
        """Call one of pullback's own kernels: `pullback_NAME` in pullback/engines/xla/kernels.

        Operands and results are stored by rows. `out` is a type, or a tuple of types. Options are
        flags, integers and tuples of integers. `in_place` is that of `ffi_call`.
        """
        library = kernel_library()
        assert library is not None  # `kernels` says so
        library.register(name)
        several = isinstance(out, tuple)
        outs = out if several else (out,)
        made = self.ffi_call(f"{PREFIX}{name}", *xs, out=outs, by_rows=True, **options)
        return made if several else made[0]

    @property
    def kernel_vector_bytes(self) -> int:
        """The size of the vectors that kernels compute with."""
        library = kernel_library()
        assert library is not None
        return library.vector_bytes

    def matrix_kernel(self, name: str, *xs: HloValue, out: Any, flags: int = 0) -> Any:
        """Call one of pullback's own kernels for stacks of real matrices, which calls LAPACK."""
        library = kernel_library()
        assert library is not None and library.has_lapack
        return self.kernel(name, *xs, out=out, dims=2, flags=flags)

    def small_matrix_kernel(self, name: str, *xs: HloValue, out: Any, **options: bool) -> Any:
        """Call one of `small_matrices.KERNELS`, for stacks of small square matrices on GPUs; None
        if there is none for these operands."""
        kind, (*batch, m, n) = xs[0].dtype.name, xs[0].shape
        count, columns = math.prod(batch), [x.shape[-1] for x in xs[1:]]
        if not (self.kernels and m == n and small_matrices.has_kernel(kind, count, n, *columns)):
            return None
        kernel = small_matrices.KERNELS[name](kind, count, n, *columns, **options)
        several = isinstance(out, tuple)
        results = [self.value(t) for t in (out if several else (out,))]
        call = self.triton_call(kernel.k, xs, results, kernel.grid, 1, {})
        self.instructions.append(call)
        for y in results:
            y.made_by = call
        return tuple(results) if several else results[0]

    def triton_call(
        self, text: KernelText, xs: Sequence[HloValue], results: Sequence[HloValue],
        grid: tuple[int, int], warps: int, in_place: dict[int, int],
    ) -> HloInstruction:  # fmt: skip
        """The instruction that runs a kernel in Triton IR, with that many programs; it is not
        added to the program. Operands and results are stored by rows. `in_place` maps results to
        operands of the same type, as that of `ffi_call`."""
        sizes = {"grid_x": grid[0], "grid_y": grid[1], "grid_z": 1, "num_warps": warps}
        numbers = [f"{k} = {n} : i32" for k, n in {**sizes, "num_stages": 1}.items()]
        texts = [
            f'name = "{text.name}"',
            f"ir = {print_hlo_quoted(text.module())}",
            "debug = false",
        ]
        layouts = [
            f"[{', '.join([_ordered_kernel_call_layout(range(v.type.rank)) for v in vs])}]"
            for vs in (xs, results)
        ]
        attributes = {
            "call_target_name": '"__gpu$xla.gpu.triton"', "api_version": "4 : i32",
            "backend_config": f"{{{', '.join([*texts, *numbers])}}}",
            "operand_layouts": layouts[0], "result_layouts": layouts[1],
            "output_operand_aliases": _kernel_aliases(in_place, len(results)),
        }  # fmt: skip
        return HloInstruction("stablehlo.custom_call", tuple(xs), tuple(results), attributes)

    def strided(self, x: HloValue) -> tuple[HloValue, int, tuple[int, ...]]:
        """Return where the elements of `x` are: a value by rows, the first one's position in it,
        and the distances along the dimensions of `x`. A kernel that takes them needs no copies of
        slices, transposes, reshapes and repetitions."""
        return strided_view(x)

    def ffi_call(
        self, target: str, *xs: HloValue, out: tuple[Type, ...],
        by_rows: bool | tuple[int, ...] = False, in_place: bool | dict[int, int] = False,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Call a target of XLA's typed interface. With `by_rows`, it is given the memory of all
        matrices, or of these operands, as it is, and so takes them for their transposes. With
        `in_place`, the first result takes the memory of the last operand, or results take that of
        the operands they are mapped to, of the same type and layout: XLA copies only an operand
        that is still needed."""
        batch = len(xs[0].shape) - 2 if xs else 0
        given = by_rows if isinstance(by_rows, tuple) else range(len(xs) if by_rows else 0)
        ins = [_kernel_call_layout(x.type.rank, batch, i in given) for i, x in enumerate(xs)]
        outs = [_kernel_call_layout(t.rank, batch, by_rows is True) for t in out]
        config = ", ".join([f"{k} = {_kernel_call_option(v)}" for k, v in options.items()])
        pairs = in_place if isinstance(in_place, dict) else {0: len(xs) - 1} if in_place else {}
        return self.op(
            "stablehlo.custom_call", *xs, out=out, call_target_name=f'"{target}"',
            api_version="4 : i32", backend_config=f"{{{config}}}",
            operand_layouts=f"[{', '.join(ins)}]", result_layouts=f"[{', '.join(outs)}]",
            output_operand_aliases=_kernel_aliases(pairs, len(out)),
        )  # fmt: skip


def _kernel_call_option(value: Any) -> str:
    if isinstance(value, tuple):
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
    if isinstance(value, str):
        return f"{ord(value)} : ui8"
    return ("true" if value else "false") if isinstance(value, bool) else f"{value} : i64"


def _kernel_aliases(pairs: dict[int, int], results: int) -> str:
    return f"[{', '.join([_kernel_alias(k, i, results) for k, i in pairs.items()])}]"


def _kernel_alias(result: int, operand: int, results: int) -> str:
    index = f"[{result}]" if results > 1 else "[]"
    return (
        f"#stablehlo.output_operand_alias<output_tuple_indices = {index}, "
        f"operand_index = {operand}, operand_tuple_indices = []>"
    )


def kernel_call_aliases(call: HloInstruction) -> dict[int, int]:
    """The operands whose memory results take, by the positions of the results."""
    text = call.attributes["output_operand_aliases"]
    pairs = re.findall(r"output_tuple_indices = \[(\d*)\], operand_index = (\d+)", text)
    return {int(k or 0): int(i) for k, i in pairs}


def _kernel_call_layout(rank: int, batch: int, by_rows: bool) -> str:
    order = list(range(rank))
    if rank == batch + 2 and not by_rows:
        order[-2:] = order[-1], order[-2]
    return _ordered_kernel_call_layout(order)


def _ordered_kernel_call_layout(order: Sequence[int]) -> str:
    """The layout with these dimensions, from the outermost in memory, as XLA's texts write it."""
    dims = list(reversed(order))
    return f"dense<{dims if dims else ''}> : tensor<{len(dims)}xindex>"


@functools.cache
def _register_lapack_kernel_calls() -> None:
    from pullback.engines.xla import bindings  # jaxlib: heavy

    lapack = bindings.lapack_bindings()
    lapack.initialize()  # it takes the routines from SciPy
    for name, kernel in lapack.registrations().items():
        bindings.xla_client.register_custom_call_target(name, kernel, "cpu", 1)


@functools.cache
def _register_cuda_kernel_calls() -> None:
    from pullback.engines.xla import bindings  # jaxlib: heavy

    for name, kernel in bindings.cuda_bindings().items():
        if name.endswith("_ffi"):
            bindings.xla_client.register_custom_call_target(name, kernel, "CUDA", 1)
