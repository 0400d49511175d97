"""Programs in files: StableHLO, as text, with all that a call needs.

A file holds magic bytes, the version of this format, a checksum, a JSON header, the program, and
the values of tensors that the function used from outside. Nothing in it is executed but the
program: there is no pickle. A loaded program is checked against its header and written again from
instructions that pullback itself emits. A file may end with a signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback import errors, tree
from pullback.compiled import saved_header, signature
from pullback.compiled.arguments import (
    STATIC,
    WIDE,
    CompiledArgumentOptions,
    CompiledNumberArgument,
    Kind,
    classify_arguments,
    split_static_arguments,
)
from pullback.compiled.executor import Executor
from pullback.compiled.guards.value_traits import same_plain_values
from pullback.compiled.serialize import (
    deserialize_plain_value,
    deserialize_tree,
    serialize_plain_value,
    serialize_tree,
)
from pullback.engines.engine_registry import engine_for
from pullback.engines.mesh import mesh_for_engine
from pullback.engines.protocols import EngineBuffer
from pullback.errors import (
    ArgumentError,
    EngineError,
    PullbackError,
    UnsupportedOp,
    VerificationError,
)
from pullback.functions import shard
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.graph.dtypes import dtype
from pullback.graph.html import html_table
from pullback.graph.source_lines import user_line
from pullback.graph.types import Type, show_types_apart
from pullback.lazy.host_data import from_host
from pullback.lazy.settings import current
from pullback.sharding.spec import Sharding

if TYPE_CHECKING:
    from pullback.compiled.signature import PrivateKey, PublicKey
    from pullback.compiled.specialization import Specialization

MAGIC = b"pullback program\n"
VERSION = 2
_LENGTHS = struct.Struct("<IQ")  # the version and the length of the header


class SavedProgramError(EngineError, ValueError):
    """A file without a program that this version can read."""

    code = "E6009"


def save(
    specialization: Specialization, options: CompiledArgumentOptions, path: str | os.PathLike,
    key: PrivateKey | None = None,
) -> None:  # fmt: skip
    """Write a specialization's program to a file, completely or not at all."""
    # keeps `import pullback` light
    from pullback.engines.xla.emitted import read_emitted
    from pullback.engines.xla.xla_program import xla_program_check_masks

    if specialization.states:
        what = "the function writes to state from outside, which a file does not have"
        hint = "Pass the module as an argument and return it."
        raise ArgumentError(f"save: {what}", hint=hint)
    program = specialization.program.ready()
    if program.engine.name != "xla":
        raise EngineError("save: only programs of the xla engine can be saved")
    graph, donated = program.executed, [place for _, place in program.donors]
    module, found = program.engine.portable(graph, donated)
    try:
        read_emitted(module)
    except VerificationError as error:
        raise EngineError(f"save: the program could not be loaded again, {error.message}") from None
    failures = [make_error().at(node.op.title, node.where) for make_error, node in found]
    captured = specialization.captured
    values = [np.ascontiguousarray(t.numpy()) for t in captured]
    header = {
        "name": program.name,
        "platform": program.engine.platform,
        "in_tree": serialize_tree(specialization.in_tree),
        "out_tree": serialize_tree(specialization.out_tree),
        "leaves": [_encode_saved_program_kind(k) for k in specialization.wanted],
        "paths": specialization.paths,
        "static": [serialize_plain_value(x.given) for x in specialization.static],
        "options": [sorted(options.static), sorted(options.static_names)],
        "donated": [program.donated, program.donors],
        "captured": [_encode_saved_program_type(t._node.type) for t in captured],
        "outs": [_encode_saved_program_type(t) for t, _ in program.outs],
        "plan": program.plan,
        "input_masks": [str(m) for m in program.compiled.input_masks],
        "check_masks": [str(m) for m in xla_program_check_masks(graph, found)],
        "checks": [[type(e).__name__, e.message, e.op, str(e.where), e.hint] for e in failures],
        "sizes": [len(module), *(v.nbytes for v in values)],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    start = _LENGTHS.pack(VERSION, len(text))
    body = b"".join([start, text, module, *(v.tobytes() for v in values)])
    content = MAGIC + hashlib.sha256(body).digest() + body
    end = b"" if key is None else signature.signature_of(content, key)
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(content + end)
    os.replace(temporary, path)


def _encode_saved_program_kind(kind: Any) -> Any:
    """Return what a leaf must be, as `Specialization.wanted` has it, as data."""
    if isinstance(kind, Type):
        return ["tensor", *_encode_saved_program_type(kind)]
    if isinstance(kind, CompiledNumberArgument):
        return ["number", kind[0].__name__, None if kind[1] is None else kind[1].name]
    return ["static", serialize_plain_value(kind.given)]


@with_argument_checks
def load_compiled(path: str | os.PathLike, trusted: Sequence[PublicKey] | None = None) -> Loaded:
    """Load a program that `pb.compile(f).save(path, *args)` wrote.

    A file with a program that pullback would not write itself is refused. With `trusted`, Ed25519
    public keys, so is one that none of them signed: `f.lower(*args).save(path, key=private)` signs.

    >>> import pullback as pb, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "double.pullback")
    >>> pb.compile(lambda x: 2 * x).save(path, pb.Type((2,), pb.float32))
    >>> pb.load_compiled(path)(pb.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    name = os.path.basename(os.fspath(path))
    body = _read_saved_program(name, path, trusted)
    try:
        header, parts = _saved_program_parts(body)
        return Loaded(header, parts)
    except (ArgumentError, EngineError):  # a class that is not registered, or too little memory
        raise
    except PullbackError as error:
        raise _unreadable_saved_program(name, f"its program is invalid: {error.message}") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _unreadable_saved_program(name, f"its header is invalid ({error})") from None
    except RecursionError:
        raise _unreadable_saved_program(name, "it is nested too deep") from None


def _read_saved_program(
    name: str, path: str | os.PathLike, trusted: Sequence[PublicKey] | None
) -> bytes:
    """Return the content of a file, after checking its signature, format and checksum."""
    with open(path, "rb") as file:
        data, signed = signature.split_off_signature(file.read())
    if trusted is not None:
        problem = signature.signature_problem(data, signed, trusted)
        if problem is not None:
            raise SavedProgramError(f"load_compiled: {name} is refused, {problem}")
    start = len(MAGIC) + 32
    if not data.startswith(MAGIC):
        raise _unreadable_saved_program(name, "it was not written by `save`")
    body = data[start:]
    if len(body) < _LENGTHS.size:
        raise _unreadable_saved_program(name, "it is truncated")
    version, _ = _LENGTHS.unpack_from(body)
    if version != VERSION:
        raise _unreadable_saved_program(
            name, f"it has format {version}, and this version reads {VERSION}"
        )
    if hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        raise _unreadable_saved_program(name, "its checksum is wrong: it was truncated or changed")
    return body


def _saved_program_parts(body: bytes) -> tuple[dict, list[bytes]]:
    """Return the header, and the program and the values after it."""
    end = _LENGTHS.size + _LENGTHS.unpack_from(body)[1]
    header = json.loads(body[_LENGTHS.size : end])
    saved_header.check_header_fields(header)
    parts = []
    for size in header["sizes"]:
        if type(size) is not int or not 0 <= size <= len(body) - end:
            raise ValueError("sizes")
        parts.append(body[end : end + size])
        end += size
    if end != len(body):
        raise ValueError("sizes")
    return header, parts


def _unreadable_saved_program(name: str, why: str) -> SavedProgramError:
    hint = "Write it again with pb.compile(f).save(path, *args)."
    return SavedProgramError(f"load_compiled: {name} cannot be read, {why}", hint=hint)


@boundary_methods
class Loaded(Executor):
    """A program from a file, compiled for this machine, for one kind of arguments."""

    def __init__(self, header: dict, parts: list[bytes]) -> None:
        self.name, self._header = header["name"], header
        kinds = tuple([_saved_program_kind(leaf) for leaf in header["leaves"]])
        program = _LoadedProgram(header, parts[0], kinds)
        super().__init__(program, kinds, deserialize_tree(header["out_tree"]))
        for type, data in zip(program.captured, parts[1:], strict=True):
            array = np.frombuffer(data, type.dtype.numpy).reshape(type.shape).copy()
            value = from_host(array)
            if type.sharding is not None:
                value = shard(value, type.sharding.mesh, type.sharding.spec)
            self.captured.append(value)
        self._static = [deserialize_plain_value(x) for x in header["static"]]
        self._positions, self._names = map(set, header["options"])
        leaves = header["leaves"]
        self._fixed = [
            deserialize_plain_value(leaf[1]) if leaf[0] == "static" else None for leaf in leaves
        ]

    def __repr__(self) -> str:
        kinds = zip(self._header["paths"], self.kinds, strict=True)
        return f"<loaded {self.name}: {', '.join(f'{path}: {kind}' for path, kind in kinds)}>"

    def _repr_html_(self) -> str:
        return html_table(f"Loaded {self.name}", zip(self._header["paths"], self.kinds))

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        inputs, named, static = split_static_arguments(args, kwargs, self._positions, self._names)
        leaves, in_tree = tree.flatten((inputs, named))
        leaves, kinds = classify_arguments(leaves)
        if serialize_tree(in_tree) != self._header["in_tree"]:
            raise ArgumentError(
                f"{self.name}: the arguments must be {', '.join(self._header['paths'])} in the "
                f"tree that the program was saved for, got {tree.show_tree_structure(in_tree)}"
            )
        for path, old, new in zip(self._header["paths"], self.kinds, kinds, strict=True):
            if old != new:
                wanted, given = show_types_apart(old, new)
                raise ArgumentError(f"{self.name}: {path} must be {wanted}, got {given}")
        fixed = [(x, y) for x, y, k in zip(leaves, self._fixed, kinds) if k is STATIC]
        fixed += zip([value for _, value in static], self._static, strict=True)
        for value, saved in fixed:
            if not same_plain_values(value, saved):
                what = f"must be {saved!r}, as when the program was saved, got {value!r}"
                raise ArgumentError(f"{self.name}: a static argument {what}")
        return self.call(leaves)

    def record(self, leaves: Sequence[Any]) -> Any:
        raise UnsupportedOp(
            f"{self.name} was loaded from a file, which holds no derivative: it cannot be "
            "differentiated, mapped or traced",
            hint="Compile the function itself for that, or detach the arguments.",
        )


class _LoadedProgram:
    """A program from a file, with the attributes that an executor needs."""

    host_scalars = early_checks = False
    engine: Any  # only the xla engine loads programs
    packed: tuple[list[int], Any] | None = None

    def __init__(self, header: dict, module: bytes, kinds: Sequence[Kind]) -> None:
        self.name = header["name"]
        self.outs = [(_saved_program_type(t), None) for t in header["outs"]]
        self.captured = [_saved_program_type(t) for t in header["captured"]]
        given = [k for k in kinds if isinstance(k, Type)]
        self._mesh = mesh_for_engine([*[t for t, _ in self.outs], *given, *self.captured])
        self.plan = [tuple(p) for p in header["plan"]]
        self.plain = self.plan == [(False, i) for i in range(len(self.plan))]
        self.donated, donors = header["donated"]
        self.donors = [tuple(d) for d in donors]
        self.numbers = any(leaf[0] == "number" for leaf in header["leaves"])
        self.input_masks = [int(m) for m in header["input_masks"]]
        self._check_masks = [int(m) for m in header["check_masks"]]
        self._checks = header["checks"]
        self.has_checks, self.lines = bool(self._checks), [None] * len(self._checks)
        self.compiled, self.run = self, None
        self._platform = header["platform"]
        types = [t for t, _ in self.outs]
        self._text = saved_header.program_matching_header(
            module, kinds, self.captured, types, len(self._checks), self.donors, self._mesh,
            self._platform,
        )  # fmt: skip

    def ready(self) -> _LoadedProgram:
        if self.run is None:
            mode = current()
            self.engine = engine_for(mode, self._mesh)
            if self.engine.platform != self._platform:
                here = f"and the platform here is {self.engine.platform}"
                raise EngineError(f"{self.name} was saved for {self._platform}, {here}")
            outs = [t for t, _ in self.outs]
            self.run = self.engine.load(self._text, outs, len(self._checks)).run
            self.owns_all = self.engine.owns_all
        return self

    def failed(self, error: PullbackError, buffers: list[Any]) -> list[Any]:
        raise error.at(self.name, user_line()) from None

    def failures(self, word: EngineBuffer, lines: Sequence[Any]) -> dict[int, PullbackError]:
        """Return the errors of failed checks, with the lines where they were recorded."""
        failed = [i for i, held in enumerate(self.engine.outcomes(word)) if not held]
        found = {}
        for output, mask in enumerate(self._check_masks):
            mine = [i for i in failed if mask >> i & 1]
            if mine:
                kind, message, op, where, hint = self._checks[mine[0]]
                found[output] = getattr(errors, kind)(message, op=op, where=where, hint=hint)
        return found


def _encode_saved_program_type(type: Type) -> list[Any]:
    layout = [] if type.sharding is None else [type.sharding.plain]
    return [list(type.shape), type.dtype.name, *layout]


def _saved_program_type(data: Any) -> Type:
    shape, kind, *layout = data
    return Type(shape, dtype(kind), Sharding.from_plain(*layout[0]) if layout else None)


def _saved_program_kind(leaf: Any) -> Kind:
    kind, *more = leaf
    if kind == "tensor":
        return _saved_program_type(more)
    if kind == "number":
        numbers = {k.__name__: k for k in WIDE}
        return CompiledNumberArgument(numbers[more[0]], None if more[1] is None else dtype(more[1]))
    return STATIC
