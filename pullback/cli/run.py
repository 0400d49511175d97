"""run: compute a module's outputs on arrays.

Inputs are given as `x=[1, 2]`, `x=file.npy`, `x=file.npz:key`, or `all.npz`.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.cli.diagnostics import (
    CommandDiagnostic,
    DiagnosticSource,
    diagnostic_width,
    plain_diagnostic_value,
    report_diagnostics,
)
from pullback.cli.options import (
    FILE,
    command_with_options,
    engine_option,
    natural_option,
    seconds_option,
)
from pullback.errors import ParseError, PullbackError
from pullback.graph.dtypes import bfloat16
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.static.literals import type_literal
from pullback.static.parser import parse
from pullback.static.run_module import run


def register_run(commands: Any) -> None:
    parser = command_with_options(
        commands, "run", _run_command, "compute a module's outputs", file=FILE
    )
    parser.add_argument(
        "--input", "-i", action="append", default=[], metavar="NAME=VALUE",
        help="an input: a number or list, FILE.npy, or FILE.npz:KEY; FILE.npz alone gives all "
        "inputs that it has arrays for",
    )  # fmt: skip
    random_help = "draw the inputs that are not given: floats are normal, integers are 0"
    parser.add_argument("--random", type=natural_option, metavar="SEED", help=random_help)
    engine_option(parser)
    check_help = "fail at the first value that is not finite"
    parser.add_argument("--check", action="store_true", help=check_help)
    parser.add_argument(
        "--timeout", type=seconds_option, metavar="SECONDS", help="fail after this time"
    )
    out_help = "write the outputs to FILE.npz, or a single one to FILE.npy"
    parser.add_argument("--out", metavar="FILE", help=out_help)


def _run_command(args: argparse.Namespace) -> int:
    with DiagnosticSource(args.file) as source:
        module = source.module
        inputs = _read_run_inputs(args.input, module.graph)
        if args.random is not None:
            inputs = _random_run_inputs(args.random, module.graph, inputs)
        checks = "finite" if args.check else None
        found = run(module, inputs, args.engine, checks, args.timeout)
    if args.out:
        _save_run_output(args.out, found)
    types = [type_literal(module.values[i].type) for i in module.outputs]
    rows = list(zip(module.outputs, types, found, strict=True))
    if args.json:
        return report_diagnostics(
            outputs=[{"value": i, "type": t, "data": plain_diagnostic_value(y)} for i, t, y in rows]
        )
    for row in rows:
        print(run_output_text(*row))
    return 0


def run_output_text(i: int, type: str, array: np.ndarray) -> str:
    """One output; a matrix starts on its own line, a large one is shown by its corners."""
    head = f"%{i} : {type} ="
    text = np.array2string(array, separator=", ", max_line_width=diagnostic_width(), threshold=1000)
    return f"{head}\n{text}" if "\n" in text else f"{head} {text}"


def _read_run_inputs(given: Sequence[str], graph: Graph) -> dict[str, Any]:
    """Arrays by the names of the inputs; a later value replaces an earlier one."""
    types = {n: x.type for n, x in zip(graph.names, graph.inputs, strict=True)}
    made: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            made.update(_run_all(text, types))
        elif name not in types:
            known = f"its inputs are {', '.join(types) or 'none'}"
            raise CommandDiagnostic(f"--input {name}: the module has no such input, {known}")
        else:
            made[name] = _run_one(name, value, types[name])
    return made


def _run_one(name: str, value: str, type: Type) -> np.ndarray:
    path, colon, key = value.rpartition(".npz:")
    if colon or value.endswith(".npz"):
        path, key = (f"{path}.npz", key) if colon else (value, name)
        found = _load_run_input(path)
        if key not in found:
            raise CommandDiagnostic(
                f"{path} has no array {key}, it has {', '.join(found) or 'none'}"
            )
        return _typed_run_input(found[key], type)
    if value.endswith(".npy"):
        return _typed_run_input(_load_run_input(value), type)
    return _literal_run_input(name, value, type)


def _run_all(path: str, types: dict[str, Type]) -> dict[str, np.ndarray]:
    """The arrays of a file that have the names of inputs."""
    if not path.endswith(".npz"):
        message = f"--input takes NAME=VALUE or a file of arrays ending in .npz, got {path}"
        raise CommandDiagnostic(message)
    found = _load_run_input(path)
    return {name: _typed_run_input(found[name], types[name]) for name in types if name in found}


def _load_run_input(path: str) -> Any:
    """The array of a .npy file, or the arrays of a .npz file by name."""
    single = path.endswith(".npy")
    try:
        with open(path, "rb") as file:
            if not file.peek(6).startswith(b"\x93NUMPY" if single else b"PK"):
                raise ValueError("it holds something else")
            made = np.load(file, allow_pickle=False)
            return made if single else {key: made[key] for key in made.files}
    except OSError as error:
        raise CommandDiagnostic(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        kind = "array" if single else "archive of arrays"
        raise CommandDiagnostic(f"cannot read {path} as an {kind}: {error}") from None


def _typed_run_input(array: np.ndarray, type: Type) -> np.ndarray:
    """Restore bfloat16, which files store as two bytes without a dtype."""
    unnamed = array.dtype.kind == "V" and not array.dtype.names
    same = unnamed and type.dtype is bfloat16 and array.dtype.itemsize == 2
    return array.view(bfloat16.numpy) if same else array


def _literal_run_input(name: str, value: str, type: Type) -> np.ndarray:
    """Parse a literal of the IR with the declared type of an input."""
    line = f"profile: extended\n%0 = ConstTensor({value}) : {type_literal(type)}\noutputs: %0"
    reason = f"not a number or list of numbers: {value}"
    try:
        module = parse(line)
        if len(module.instructions) == 1:  # a value with a closing bracket may start another one
            _ = module.graph
            return np.asarray(module.instructions[0].literal)
    except ParseError:
        pass
    except PullbackError as error:
        if module.instructions[0].literal is not None:
            reason = error.message.partition(": ")[2]
    hint = f"Its type is {type}; an array file ends in .npy or .npz."
    raise CommandDiagnostic(f"--input {name}: {reason}", hint=hint)


def _random_run_inputs(seed: int, graph: Graph, given: dict[str, Any]) -> dict[str, Any]:
    """Add the missing inputs: normal floats, and zeros for the others, which are valid indices."""
    made = dict(given)
    for name, x in zip(graph.names, graph.inputs, strict=True):
        draw = np.random.default_rng([seed, len(made)])
        if name not in made:
            numbers = draw.standard_normal(x.type.shape)
            made[name] = (numbers if x.type.inexact else numbers * 0).astype(x.type.dtype.numpy)
    return made


def _save_run_output(path: str, outputs: Sequence[np.ndarray]) -> None:
    """Write `output0`, `output1` ... to a .npz file, or a single one to a .npy file."""
    try:
        if path.endswith(".npz"):
            named: dict[str, Any] = {f"output{i}": y for i, y in enumerate(outputs)}
            np.savez(path, **named)
        elif path.endswith(".npy") and len(outputs) == 1:
            np.save(path, outputs[0])
        else:
            raise CommandDiagnostic(
                "--out takes a file that ends in .npz, or in .npy for one output"
            )
    except OSError as error:
        raise CommandDiagnostic(f"cannot write {path}: {error.strerror or error}") from None
