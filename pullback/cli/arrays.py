"""Arrays of the command line: `x=[1, 2]`, `x=file.npy`, `x=file.npz:key`, `all.npz`."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.cli.source import Trouble
from pullback.errors import ParseError, PullbackError
from pullback.graph.dtypes import bfloat16
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.static.literals import type_text
from pullback.static.parser import parse


def read_inputs(given: Sequence[str], graph: Graph) -> dict[str, Any]:
    """The arrays by the names of the inputs; what is given later counts."""
    types = {n: x.type for n, x in zip(graph.names, graph.inputs, strict=True)}
    made: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            made.update(_all(text, types))
        elif name not in types:
            known = ", ".join(types) or "none"
            raise Trouble(f"--input {name}: the module has no such input, its inputs are {known}")
        else:
            made[name] = _one(name, value, types[name])
    return made


def _one(name: str, value: str, type: Type) -> np.ndarray:
    path, colon, key = value.rpartition(".npz:")
    if colon:
        return _typed(_member(f"{path}.npz", key), type)
    if value.endswith(".npz"):
        return _typed(_member(value, name), type)
    if value.endswith(".npy"):
        return _typed(_load(value), type)
    return _literal(name, value, type)


def _all(path: str, types: dict[str, Type]) -> dict[str, np.ndarray]:
    """Every array of a file that an input is named like."""
    if not path.endswith(".npz"):
        raise Trouble(f"--input takes NAME=VALUE or a file of arrays ending in .npz, got {path}")
    found = _load(path)
    return {name: _typed(found[name], types[name]) for name in types if name in found}


def _member(path: str, key: str) -> np.ndarray:
    found = _load(path)
    if key not in found:
        raise Trouble(f"{path} has no array {key}, it has {', '.join(found) or 'none'}")
    return found[key]


def _load(path: str) -> Any:
    """The array of a .npy file, or the arrays of a .npz file by name."""
    single = path.endswith(".npy")
    try:
        with open(path, "rb") as file:
            if not file.peek(6).startswith(b"\x93NUMPY" if single else b"PK"):
                raise ValueError("it holds something else")
            made = np.load(file, allow_pickle=False)
            return made if single else {key: made[key] for key in made.files}
    except OSError as error:
        raise Trouble(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        kind = "array" if single else "archive of arrays"
        raise Trouble(f"cannot read {path} as an {kind}: {error}") from None


def _typed(array: np.ndarray, type: Type) -> np.ndarray:
    """Files know no bfloat16: where one is declared, two bytes without a meaning are one."""
    unnamed = array.dtype.kind == "V" and not array.dtype.names
    same = unnamed and type.dtype is bfloat16 and array.dtype.itemsize == 2
    return array.view(bfloat16.numpy) if same else array


def _literal(name: str, value: str, type: Type) -> np.ndarray:
    """A literal of the IR, as one of the type that the input is declared with."""
    line = f"profile: extended\n%0 = ConstTensor({value}) : {type_text(type)}\noutputs: %0"
    reason = f"not a number or list of numbers: {value}"
    try:
        module = parse(line)
        if len(module.instructions) == 1:  # a value that closes the bracket may begin another one
            _ = module.graph
            return np.asarray(module.instructions[0].literal)
    except ParseError:
        pass
    except PullbackError as error:
        if module.instructions[0].literal is not None:
            reason = error.message.partition(": ")[2]
    hint = f"Its type is {type}; an array file ends in .npy or .npz."
    raise Trouble(f"--input {name}: {reason}", hint=hint)


def random_inputs(seed: int, graph: Graph, given: dict[str, Any]) -> dict[str, Any]:
    """For those inputs that were not given: normal floats, and zeros, which are valid indices."""
    made = dict(given)
    for name, x in zip(graph.names, graph.inputs, strict=True):
        draw = np.random.default_rng([seed, len(made)])
        if name not in made:
            numbers = draw.standard_normal(x.type.shape)
            made[name] = (numbers if x.type.inexact else numbers * 0).astype(x.type.dtype.numpy)
    return made


def save_outputs(path: str, outputs: Sequence[np.ndarray]) -> None:
    """`output0`, `output1` ... in a .npz file, or a single one in a .npy file."""
    try:
        if path.endswith(".npz"):
            named: dict[str, Any] = {f"output{i}": y for i, y in enumerate(outputs)}
            np.savez(path, **named)
        elif path.endswith(".npy") and len(outputs) == 1:
            np.save(path, outputs[0])
        else:
            raise Trouble("--out takes a file that ends in .npz, or in .npy for one output")
    except OSError as error:
        raise Trouble(f"cannot write {path}: {error.strerror or error}") from None
