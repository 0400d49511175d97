"""run: a module's outputs on arrays."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.cli.arrays import random_inputs, read_inputs, save_outputs
from pullback.cli.diagnostics import blaming, plain, report
from pullback.cli.options import command, natural, seconds
from pullback.cli.source import Source
from pullback.cli.style import terminal_width
from pullback.static.literals import type_text
from pullback.static.module import Module


def register(commands: Any) -> None:
    parser = command(commands, "run", _run, "compute a module's outputs")
    parser.add_argument("file", help="a module, or - for the standard input")
    parser.add_argument(
        "--input", "-i", action="append", default=[], metavar="NAME=VALUE",
        help="an input: a number or list, FILE.npy, or FILE.npz:KEY; or FILE.npz alone, for all "
        "inputs that it has arrays for",
    )  # fmt: skip
    parser.add_argument(
        "--random", type=natural, metavar="SEED",
        help="draw what is not given: floats from the normal distribution, integers are 0",
    )  # fmt: skip
    parser.add_argument("--engine", help="xla (the default), reference, or as xla:cuda")
    parser.add_argument(
        "--check", action="store_true", help="fail at the first value that is not finite"
    )
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="fail after so long")
    parser.add_argument("--out", metavar="FILE", help="write the outputs to FILE.npz, or one .npy")


def _run(args: argparse.Namespace) -> int:
    source = Source.read(args.file)
    with blaming(source):
        module = source.module
        inputs: dict[str, Any] = read_inputs(args.input, module.graph)
        if args.random is not None:
            inputs = random_inputs(args.random, module.graph, inputs)
        from pullback.static.run import run

        checks = "finite" if args.check else None
        found = run(module, inputs, args.engine, checks, args.timeout)
    if args.out:
        save_outputs(args.out, found)
    if args.json:
        return report(outputs=_records(module, found))
    for i, array in zip(module.outputs, found, strict=True):
        print(shown(i, type_text(module.values[i].type), array))
    return 0


def _records(module: Module, found: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    pairs = zip(module.outputs, found, strict=True)
    return [
        {"value": i, "type": type_text(module.values[i].type), "data": plain(array)}
        for i, array in pairs
    ]


def shown(i: int, type: str, array: np.ndarray) -> str:
    """One output; a matrix starts on a line of its own, a large one is shown by its corners."""
    head = f"%{i} : {type} ="
    text = np.array2string(array, separator=", ", max_line_width=terminal_width(), threshold=1000)
    return f"{head}\n{text}" if "\n" in text else f"{head} {text}"
