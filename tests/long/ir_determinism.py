"""One fingerprint for each module and each gradient module, in every process and Python.

Run as a script for all Pythons that are installed and can import the package, five processes each
(`make long`); `tests/static/test_determinism.py` runs two processes of one.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from pullback import ir

COUNT = 60
VERSIONS = ("3.11", "3.12", "3.13")
INPUTS = """\
%0 = Input() {name: "x"} : Tensor<f32, [3, 4]>
%1 = Input() {name: "y"} : Tensor<f32, [3, 4]>
%2 = Input() {name: "w"} : Tensor<f32, [4, 4]>
%3 = Input() {name: "b"} : Tensor<f32, [4]>
%4 = Input() {name: "i"} : Tensor<i64, [3]>
%5 = ConstF32(0.1) : Tensor<f32, []>
"""
# What a random module is made of; values are all f32[3, 4].
STEPS = (
    "BinOp(Add, {a}, {b})", "BinOp(Sub, {a}, {b})", "BinOp(Mul, {a}, {b})", "BinOp(Add, {a}, %3)",
    "BinOp(Mul, {a}, %5)", "MatMul({a}, %2)", "Relu({a})", "Neg({a})", "Exp({a})", "Log({a})",
    "Gather({a}, %4)",
)  # fmt: skip
PAIRS = (  # an instruction that leaves the shape, and one that comes back to it
    ("Transpose({a}, [1, 0])", "[4, 3]", "Transpose({t}, [1, 0])"),
    ("Reshape({a}, [2, -1])", "[2, 6]", "Reshape({t}, [3, 4])"),
    ("Sum({a}, [-1], true)", "[3, 1]", "BinOp(Mul, {t}, {b})"),
    ("Mean({a}, [0], false)", "[4]", "BinOp(Sub, {b}, {t})"),
    ("ExpandDims({a}, [0, 1])", "[1, 1, 3, 4]", "Squeeze({t}, [0, 1])"),
    ("Slice({a}, [0:3:2, 0:4:3])", "[2, 2]", None),
)
# Small programs of the extended profile, over x, y, w and b.
EXTENDED = (
    "Where({c}, {x}, {y})", "DivNoNan({x}, {y})", "BinOp(Div, {x}, {y})", "Sqrt({x})", "Tanh({x})",
    "Sort({x}) {{axis: 1, descending: true}}", "CumSum({x}) {{axis: 0, reverse: false}}",
    "Softmax({x}) {{axes: [1]}}", "Pow({x}, {y})",
    "Maximum({x}, {y})",
)  # fmt: skip


def texts() -> Iterator[str]:
    """The modules: one for each instruction beyond Core v1 in the list, the others random."""
    for word in EXTENDED:
        lines = ["profile: extended", *INPUTS.splitlines()]
        lines.append("%6 = Greater(%0, %1) : Tensor<bool, [3, 4]>")
        applied = word.format(c="%6", x="%0", y="%1")
        lines.append(f"%7 = {applied} : Tensor<f32, [3, 4]>")
        lines.append("%8 = BinOp(Mul, %7, %0) : Tensor<f32, [3, 4]>")
        lines += ["%9 = Sum(%8, [], false) : Tensor<f32, []>", "outputs: %9"]
        yield "\n".join(lines) + "\n"
    for seed in range(COUNT - len(EXTENDED)):
        yield random_text(random.Random(seed))


def random_text(rng: random.Random) -> str:
    """A module of Core v1 on its three-by-four inputs; it may repeat itself, or leave work unused.

    Numbers grow by leaps, so that their order is not that of a dictionary of small integers.
    """
    lines, values, number = INPUTS.splitlines(), [0, 1], 5

    def add(instruction: str, shape: str) -> int:
        nonlocal number
        number += 1 + rng.randrange(9)
        lines.append(f"%{number} = {instruction} : Tensor<f32, {shape}>")
        return number

    for _ in range(8 + rng.randrange(40)):
        names = {key: f"%{values[rng.randrange(len(values))]}" for key in "ab"}
        k = rng.randrange(len(STEPS) + len(PAIRS))
        if k < len(STEPS):
            values.append(add(STEPS[k].format(**names), "[3, 4]"))
            continue
        there, shape, back = PAIRS[k - len(STEPS)]
        made = add(there.format(**names), shape)
        if back is not None:
            back = back.format(t=f"%{made}", **names)
            values.append(add(back, "[3, 4]"))
    total = add(f"Sum(%{values[-1]}, [], false)", "[]")
    return "\n".join([*lines, f"outputs: %{total}"]) + "\n"


def report() -> list[str]:
    """A line for each module: fingerprints, and hashes of the canonical and the gradient text."""
    found = []
    for text in texts():
        module = ir.parse(text)
        gradient: Any = ir.autodiff(module).gradient_module
        words = [ir.fingerprint(module), ir.fingerprint(gradient)]
        for made in (ir.canonicalise(module), gradient):
            words.append(hashlib.sha256(made.text().encode()).hexdigest())
        found.append(" ".join(words))
    return found


def in_a_process(python: str, seed: int) -> list[str]:
    """The report of a fresh process with its own hash seed."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": root}
    made = subprocess.run(
        [python, os.path.abspath(__file__), "--report"], env=environment, text=True, check=True,
        capture_output=True, timeout=600,
    )  # fmt: skip
    return made.stdout.split("\n")[:-1]


def pythons() -> dict[str, str]:
    """One interpreter of each version that can import the package, this one among them."""
    this = "{}.{}".format(*sys.version_info)
    found = {this: sys.executable}
    for version in VERSIONS:
        names = [f"{p}/python{version}" for p in os.get_exec_path()]
        names += glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}*/bin/python"))
        for name in names:
            if version not in found and os.path.exists(name) and _imports(name):
                found[version] = name
    return found


def _imports(python: str) -> bool:
    command = [python, "-c", "import numpy, ml_dtypes, optree, jaxlib"]
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="print what this process finds")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--python", action="append", default=[], help="one more interpreter")
    arguments = parser.parse_args()
    if arguments.report:
        print("\n".join(report()))
        return
    expected = report()
    for version, python in [*pythons().items(), *[(p, p) for p in arguments.python]]:
        for _ in range(arguments.processes):
            seed = random.SystemRandom().randrange(2**32)
            assert in_a_process(python, seed) == expected, f"{python}, PYTHONHASHSEED={seed}"
        print(f"Python {version}: {arguments.processes} processes agree on {len(expected)} modules")


if __name__ == "__main__":
    main()
