"""Read StableHLO text and portable bytes into `HloInstruction`s with jaxlib's MLIR bindings.

Tested with jaxlib 0.10 to 0.12, like `client.py`. The bindings are loaded at the first use.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from pullback.engines.xla import depth
from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    hlo_instruction_type,
)
from pullback.errors import ArgumentError, ParseError, PullbackError, VerificationError
from pullback.graph.dtypes import DType
from pullback.graph.types import Type

DEPTH = 64  # the most functions that may call each other in a chain
MOST = 200_000  # instructions of a program that calls functions, counted at each call
_PORTABLE = b"ML\xefR"  # how MLIR's bytecode begins


@functools.cache
def _mlir_context() -> Any:
    from pullback.engines.xla import client  # noqa: F401, I001  (it sets what jaxlib reads first)
    from jaxlib.mlir import ir  # heavy
    from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _sdy, _stablehlo  # heavy

    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in (_stablehlo, _chlo, _sdy):  # errors can name operations of these
        dialect.register_dialect(context)
    context.dialects["func"]  # loads it
    # Errors are raised; without this, MLIR prints them as well.
    context.attach_diagnostic_handler(lambda diagnostic: True)
    return context


def read_mlir(program: str | bytes) -> HloBlock:
    """The body of the program's `main`, from text or from portable bytes."""
    module = _mlir_module(program)
    if b"chlo." in (program if isinstance(program, bytes) else program.encode()):
        _expand_mlir(module, program)
    return _MlirTranslator(module).main()


def _expand_mlir(module: Any, program: str | bytes) -> None:
    """Replace operations of CHLO, which JAX uses, by StableHLO."""
    from jaxlib.mlir import passmanager  # heavy
    from jaxlib.mlir._mlir_libs import _stablehlo  # heavy

    _stablehlo.register_stablehlo_passes()
    passes = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
    try:
        with module.context:
            passmanager.PassManager.parse(passes).run(module.operation)
    except Exception as error:  # MLIR's
        raise _mlir_error(error, program) from None


def parsed_mlir(text: str | bytes) -> Any:
    """A program as a module of MLIR."""
    return _mlir_module(text)


def pretty_mlir(text: str) -> str:
    """A module as MLIR prints it."""
    return _mlir_module(text).operation.get_asm()


def portable_mlir(text: str) -> bytes:
    """A module in StableHLO's portable form, for the oldest version that can express it."""
    from jaxlib.mlir._mlir_libs import _stablehlo  # heavy

    from pullback.engines.xla.client import STABLEHLO_VERSIONS  # heavy

    module = _mlir_module(text)
    for version in STABLEHLO_VERSIONS:
        try:
            # jaxlib's own function would also rewrite functions of complex numbers
            return _stablehlo.serialize_portable_artifact(module, version)
        except Exception as error:
            failure = error
    raise _mlir_error(failure, text)


def _mlir_module(program: str | bytes) -> Any:
    context = _mlir_context()
    from jaxlib.mlir import ir  # heavy
    from jaxlib.mlir._mlir_libs import _stablehlo  # heavy

    try:
        if isinstance(program, bytes) and program.startswith(_PORTABLE):
            return _stablehlo.deserialize_portable_artifact(context, program)
        if isinstance(program, bytes):
            program = program.decode()
        depth.limit_depth(program)
        return ir.Module.parse(program, context)
    except PullbackError:
        raise
    except Exception as error:  # MLIR's, or the bytes are not UTF-8
        raise _mlir_error(error, program) from None


def _mlir_error(error: Exception, program: str | bytes) -> PullbackError:
    """MLIR's error, at the line and column it names."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    for line in lines:
        found = re.match(r'\s*error: "-":(\d+):(\d+): (.*)', line)
        if found and isinstance(program, str):
            row, column = int(found[1]), int(found[2])
            source = dict(enumerate(program.splitlines(), 1)).get(row, "")
            what = f"the StableHLO program cannot be read, {found[3].strip()}"
            return ParseError(what, line=row, column=column, source=source)
    return VerificationError(
        f"the StableHLO program cannot be read: {lines[0]}", code="E6003",
        hint="It must be StableHLO as text, or bytes in StableHLO's portable form.",
    )  # fmt: skip


class _MlirTranslator:
    """Reads a module's `main`; the bodies of functions are inlined where they are called."""

    def __init__(self, module: Any) -> None:
        self.values: dict[Any, HloValue] = {}
        self.count = 0  # of values and instructions
        self.open = ["main"]  # the functions that are being read
        self.functions: dict[str, Any] = {}
        for op in module.body.operations:
            f = op.operation
            if f.name != "func.func" or not f.regions[0].blocks:
                raise unsupported_mlir(f.name, _mlir_location(f.location))
            self.functions[str(f.attributes["sym_name"]).strip('"')] = f

    def main(self) -> HloBlock:
        if "main" not in self.functions:
            found = ", ".join(self.functions) or "none"
            raise ArgumentError(f"a program must have a function main, got {found}")
        (body,) = self.functions["main"].regions[0].blocks
        return self.block(body)

    def block(self, block: Any) -> HloBlock:
        arguments = self.new(block.arguments, "an argument")
        instructions, end = self.instructions(block)
        names = tuple([_mlir_name(x.location) for x in block.arguments])
        return HloBlock(arguments, instructions, self.known(end.operands), names)

    def instructions(self, block: Any) -> tuple[list[HloInstruction], Any]:
        """The instructions of a block, with calls inlined, and its last one, which returns."""
        *body, end = [op.operation for op in block.operations]
        made = []
        for op in body:
            made += self.called(op) if op.name == "func.call" else [self.instruction(op)]
        return made, end

    def called(self, op: Any) -> list[HloInstruction]:
        name = str(op.attributes["callee"]).removeprefix("@").strip('"')
        if name in self.open or len(self.open) == DEPTH:
            raise unsupported_mlir(
                "func.call", _mlir_location(op.location), "It is recursive or too deep."
            )
        (body,) = self.functions[name].regions[0].blocks
        self.values.update(zip(body.arguments, self.known(op.operands), strict=True))
        self.open.append(name)
        made, end = self.instructions(body)
        self.open.pop()
        self.values.update(zip(op.results, self.known(end.operands), strict=True))
        return made

    def instruction(self, op: Any) -> HloInstruction:
        where = _mlir_location(op.location)
        self.count += 1
        if self.count > MOST and len(self.open) > 1:
            raise unsupported_mlir("func.call", where, f"Inlined, there are more than {MOST:,}.")
        if not op.name.startswith("stablehlo."):
            raise unsupported_mlir(op.name, where)
        regions = []
        for region in op.regions:
            if len(region.blocks) != 1:
                raise unsupported_mlir(op.name, where)
            regions.append(self.block(region.blocks[0]))
        operands, results = self.known(op.operands), self.new(op.results, where)
        if op.name == "stablehlo.constant":
            array, attributes = _mlir_constant(op, results[0].type), {}
        else:
            array, attributes = None, _mlir_attributes(op)
        return HloInstruction(op.name, operands, results, attributes, tuple(regions), where, array)

    def new(self, values: Any, where: str) -> tuple[HloValue, ...]:
        made = []
        for v in values:
            type = hlo_instruction_type(str(v.type))
            if type is None:
                raise unsupported_mlir(f"the type {v.type}", where)
            self.values[v] = HloValue(f"%{self.count}", type)
            made.append(self.values[v])
            self.count += 1
        return tuple(made)

    def known(self, values: Any) -> tuple[HloValue, ...]:
        return tuple([self.values[v] for v in values])


def unsupported_mlir(name: str, where: str, more: str = "") -> VerificationError:
    return VerificationError(
        f"{name} at {where} is not supported by from_stablehlo",
        code="E6003", instruction=name, place=where,
        hint=f"{more} docs/interop.md lists the supported instructions.".lstrip(),
    )  # fmt: skip


def _mlir_attributes(op: Any) -> dict[str, str]:
    named = [op.attributes[i] for i in range(len(op.attributes))]
    return {n.name: str(n.attr) for n in named}


def _mlir_name(location: Any) -> str | None:
    found = re.fullmatch(r'loc\("((?:[^"\\]|\\.)*)"(?:\(.*\))?\)', str(location))
    if found is None:
        return None
    plain = re.sub(
        rb"\\(\\|[0-9A-Fa-f]{2})",
        lambda m: m[1] if m[1] == b"\\" else bytes([int(m[1], 16)]),
        found[1].encode(),
    )
    return plain.decode()


def _mlir_location(location: Any) -> str:
    found = re.search(r'"[^"]*":(\d+):(\d+)', str(location))
    return f"line {found[1]}, column {found[2]}" if found else str(location)


def _mlir_constant(op: Any, type: Type) -> np.ndarray:
    """A constant's data, exact to the bit."""
    if type.dtype.is_complex or type.dtype.numpy.isbuiltin != 1:
        return _mlir_from_text(op, type)  # the bindings offer no buffers of these dtypes
    return np.array(np.broadcast_to(np.asarray(op.attributes["value"]), type.shape))


def _mlir_from_text(op: Any, type: Type) -> np.ndarray:
    text = re.search(r"dense<(.*?)> : tensor<", op.get_asm(print_generic_op_form=True), re.DOTALL)
    assert text is not None
    kind = type.dtype
    if text[1].startswith('"0x'):
        flat = np.frombuffer(bytes.fromhex(text[1][3:-1]), kind.numpy)
    else:
        words = re.findall(r"[-+0-9a-zA-Z.]+", text[1])
        parts = np.array([_mlir_number(w, kind.real) for w in words], kind.real.numpy)
        flat = np.frombuffer(parts.tobytes(), kind.numpy)
    if flat.size == 1:  # a splat
        return np.full(type.shape, flat[0], kind.numpy)
    return flat.reshape(type.shape)


def _mlir_number(text: str, kind: DType) -> Any:
    """A float, written as decimals or as its bits in hexadecimal."""
    if text.startswith("0x"):
        bits = int(text, 16).to_bytes(kind.numpy.itemsize, "little")
        return np.frombuffer(bits, kind.numpy)[0]
    return kind.numpy.type(float(text))
