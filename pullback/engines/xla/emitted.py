"""The instructions that pullback writes: a program from a file may contain no others.

What is loaded is the program written again from its instructions, operands and types. So nothing
reaches XLA that pullback would not have written itself: no calls of foreign functions, no options.
A file calls kernels by the names of ops; the calls that XLA gets are written by the ops' lowerings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pullback.engines.limits import refuse_types_beyond_limits
from pullback.engines.xla import mlir
from pullback.engines.xla.builder import Builder
from pullback.engines.xla.donor_marks import donor_marks
from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction, HloValue
from pullback.engines.xla.hlo_printer import print_hlo_module
from pullback.errors import PullbackError, VerificationError
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type, show_types
from pullback.ops.linalg.matrix_kernel import PREFIX, MatrixKernel

_NAMES = """
    abs add all_gather all_reduce all_to_all and atan2 bitcast_convert broadcast_in_dim case
    cbrt ceil clamp collective_permute compare complex concatenate constant convert convolution
    cosine divide dot_general dynamic_slice dynamic_update_slice exponential
    exponential_minus_one fft floor gather imag iota is_finite log log_plus_one logistic maximum
    minimum multiply negate not optimization_barrier or pad popcnt power real reduce
    reduce_scatter reduce_window remainder replica_id reshape reverse round_nearest_even rsqrt
    scatter select shift_left shift_right_arithmetic shift_right_logical sign sine slice sort
    sqrt subtract tan tanh transpose while xor
"""
EMITTED = frozenset(_NAMES.split())
_CALL_ATTRIBUTES = {"call_target_name", "backend_config"}


def read_emitted(data: bytes) -> HloBlock:
    """Read the text of a program, which must consist of instructions that pullback writes.

    Only text: MLIR's reader of bytes ends the process if they are wrong.
    """
    if not data.startswith(b"module"):
        raise VerificationError("it is not a module in text form")
    main = mlir.read_mlir(data)
    for i in _emitted_instructions(main):
        known = i.name in EMITTED and not any("." in name for name in i.attributes)
        if i.name == "custom_call":
            known = emitted_kernel(i) is not None
        if not known:
            raise VerificationError(f"it contains a {i.mnemonic} that pullback does not write")
        refuse_types_beyond_limits(i.types)
    return main


def emitted_kernel(i: HloInstruction) -> MatrixKernel | None:
    """Return the op that is written as this call in programs for any platform."""
    target = i.attributes.get("call_target_name", "").strip('"')
    cls = TABLE.get(target.removeprefix(PREFIX)) if target.startswith(PREFIX) else None
    if cls is None or not issubclass(cls, MatrixKernel):
        return None
    try:
        op = cls.from_hlo(i)
        made = None if op is None else op.infer(*i.operand_types)
    except (PullbackError, TypeError, ValueError):  # among them a wrong number of operands
        return None
    types = made if isinstance(made, tuple) else (made,)
    return op if types == i.types and i.attributes.keys() <= _CALL_ATTRIBUTES else None


def emitted_again(
    data: bytes, inputs: Sequence[Type], outs: Sequence[Type], donated: Sequence[int],
    replicas: int, platform: str = "",
) -> str:  # fmt: skip
    """Return a program, read and written again as one that pullback could have emitted.

    It must have inputs and results of the given types. Results may overwrite `donated` inputs; the
    program runs on that many `replicas`, the devices of a mesh, or on one device if they are 0.
    Its kernels are those of the `platform`; without one, they stay calls for any platform.
    """
    main = read_emitted(data)
    if platform:
        _replace_emitted_kernels(main, platform)
    for what, found, wanted in (
        ("arguments", main.types, inputs), ("results", [y.type for y in main.results], outs),
    ):  # fmt: skip
        if list(found) != list(wanted):
            shown = f"{show_types(tuple(found))}, where its header says {show_types(tuple(wanted))}"
            raise VerificationError(f"its {what} are {shown}")
    _rename_emitted(main)
    count = f" attributes {{mhlo.num_replicas = {replicas} : i32}}" if replicas else ""
    return print_hlo_module(main, donor_marks(main, donated), count)


def _replace_emitted_kernels(block: HloBlock, platform: str) -> None:
    """Replace the calls of kernels by those that the platform's lowering writes."""
    made: list[HloInstruction] = []
    for i in block.instructions:
        for region in i.regions:
            _replace_emitted_kernels(region, platform)
        made += _emitted_platform_calls(i, platform) if i.name == "custom_call" else [i]
    block.instructions[:] = made


def _emitted_platform_calls(i: HloInstruction, platform: str) -> list[HloInstruction]:
    op, b = emitted_kernel(i), Builder()
    assert op is not None
    b.platform, b.neutral, b.literal = platform, False, False
    written = op.hlo(b, i.types if len(i.types) > 1 else i.types[0], *i.operands)
    values = written if isinstance(written, tuple) else (written,)
    old = dict(zip(values, i.results, strict=True))
    for new in b.instructions:
        new.operands = tuple([old.get(x, x) for x in new.operands])
        new.results = tuple([old.get(y, y) for y in new.results])
    return b.instructions


def _emitted_instructions(block: HloBlock) -> Iterator[HloInstruction]:
    for i in block.instructions:
        yield i
        for region in i.regions:
            yield from _emitted_instructions(region)


def _rename_emitted(block: HloBlock, first: int = 0) -> int:
    """Give every value a number, as the names of a file may occur twice."""
    values: list[HloValue] = [*block.arguments]
    for i in block.instructions:
        values += i.results
    for n, value in enumerate(values, first):
        value.name = f"%v{n}"
    first += len(values)
    for i in block.instructions:
        for region in i.regions:
            first = _rename_emitted(region, first)
    return first
