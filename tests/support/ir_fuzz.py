"""Broken texts of modules, and what must hold for each: a module, or an error with its place."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np

import pullback as pb
from pullback import testing
from pullback.graph.op_table import TABLE
from pullback.static.module import IRModule as Module

CORE = """
# every instruction of Core v1
%0 = Input() {name: "x"} : Tensor<f32, [2, 3]>
%1 = Input() {name: "w"} : Tensor<f32, [3, 4]>
%2 = MatMul(%0, %1) : Tensor<f32, [2, 4]>
%3 = ConstF32(0.5) : Tensor<f32, []>
%4 = BinOp(Mul, %2, %3) : Tensor<f32, [2, 4]>
%5 = Sum(%4, [1], false) : Tensor<f32, [2]>
%6 = Mean(%5, [], false) : Tensor<f32, []>
%7 = ConstTensor([1, 0]) : Tensor<i32, [2]>
%8 = Gather(%1, %7) : Tensor<f32, [2, 4]>
%9 = Slice(%8, [0:2:1, 1:4:2]) : Tensor<f32, [2, 2]>
%10 = Reshape(%9, [-1]) : Tensor<f32, [4]>
%11 = ExpandDims(%10, [0, 2]) : Tensor<f32, [1, 4, 1]>
%12 = Squeeze(%11, [0, 2]) : Tensor<f32, [4]>
%13 = Dot(%12, %12) : Tensor<f32, []>
%14 = Transpose(%8, [1, 0]) : Tensor<f32, [4, 2]>
%15 = Index(%14, [3, 1]) : Tensor<f32, []>
%16 = Add(%13, %15) : tensor<f32[]>
%17 = BinOp(Div, %16, %6) : Tensor<f32, []>
%18 = %17
%19 = Input() {name: "images"} : Tensor<f64, [1, 5, 5, 2]>
%20 = Input() {name = "filter"} : Tensor<f64, [3, 3, 2, 4]>
%21 = Conv2d(%19, %20, strides=[2, 2], padding=Custom([[1, 1], [0, 0]])) : Tensor<f64, [1, 3, 2, 4]>
%22 = Relu(%21) : Tensor<f64, [1, 3, 2, 4]>
%23 = Neg(%22) : Tensor<f64, [1, 3, 2, 4]>
%24 = Exp(%23) : Tensor<f64, [1, 3, 2, 4]>
%25 = Log(%24) : Tensor<f64, [1, 3, 2, 4]>
%26 = Sum(%25, axes=[-1, 0], keepdims=true,) : Tensor<f64, [1, 3, 2, 1]>
%27 = ConstI64(-7) : Tensor<i64, []>
outputs: %18, %26, %27
"""

FRAGMENTS = [
    "%", "%0", "%99999999999", "%" + "9" * 400, "=", "(", ")", "[", "]", "{", "}", ":", ",", ";",
    "\n", "\\", '"', '"\\q"', '"x"', "#", "<", ">", "?", "-1", "0", "-0.0", "1e999", "1e", "1.2.3",
    "9" * 5000, "18446744073709551615", "-9223372036854775809", "nan", "inf", "-inf", "nan(0x1)",
    "nan(0x7fc00001)", "(1.0, 2.0)", "true", "none", "graph(", "graph(outputs: )", "[" * 200,
    "graph(" * 200, "Tensor<f32, [1000000000, 1000000000]>", "Tensor<f32, [?]>", "tensor<f32[2]>",
    "Tensor<i64, []>", "f64", "Sum", "Input", "outputs:", "inputs: %0", "profile: extended\n",
    "\r", "\t", "\x00", "é", "\u2028", "_", "0:4:1", "Custom([[1, 2], [3, 4]])", "{name: \"x\"}",
    "keepdims=true", "axes: [0]", "Leaf()", "Result(%0)", "Const()", "BinOp(Add, %0, %0)",
]  # fmt: skip


def corpus() -> list[str]:
    """Valid texts: all of Core v1, and a sample of every op."""
    made = [CORE]
    for name in sorted(TABLE):
        for op, arrays in list(TABLE[name].samples())[:2]:
            graph = testing.graph_of(op, [np.asarray(a) for a in arrays])
            text = Module.from_graph(graph).text()
            if len(text) < 5000:
                made.append(text)
    return made


def mutations(texts: list[str], count: int, seed: int) -> Iterator[bytes]:
    """Texts with bytes changed, taken out, repeated and put in from elsewhere."""
    generator = random.Random(seed)
    sources = [t.encode() for t in texts]
    for _ in range(count):
        data = bytearray(generator.choice(sources))
        for _ in range(generator.choice((1, 1, 1, 2, 3, 8))):
            _mutate(data, generator, sources)
        yield bytes(data)


def _mutate(data: bytearray, generator: random.Random, sources: list[bytes]) -> None:
    i, j = sorted(generator.randrange(len(data) + 1) for _ in range(2))
    kind = generator.randrange(12)
    if kind == 0 and i < len(data):
        data[i] = generator.choice((generator.randrange(128), generator.randrange(256)))
    elif kind == 1:
        data[i : min(j, i + generator.choice((1, 2, 20)))] = b""
    elif kind == 2:
        data[i:i] = data[i : min(j, i + 60)]
    elif kind == 3:
        data[i:i] = generator.choice(FRAGMENTS).encode()
    elif kind == 4:
        data[i : i + generator.randrange(8)] = generator.choice(FRAGMENTS).encode()
    elif kind == 5:
        other = generator.choice(sources)
        k = generator.randrange(len(other))
        data[i:i] = other[k : k + generator.randrange(80)]
    else:  # a word for another of its kind: these often come as far as the verifier
        pattern = generator.choice(WORDS)
        places = list(pattern.finditer(data))
        others = pattern.findall(generator.choice(sources)) + NUMBERS * (pattern is WORDS[0])
        if places and others:
            place = generator.choice(places)
            data[place.start() : place.end()] = generator.choice(others)


WORDS = [
    re.compile(p)
    for p in (
        rb"(?<![\w%.-])-?[0-9]+", rb"%[0-9]+", rb"[A-Z][A-Za-z0-9]+(?=\()", rb"Tensor<[^>]*>",
        rb"\b(?:true|false|[a-z]+[0-9]+)\b", rb"\[[^][]*\]", rb"\{[^{}]*\}", rb"%[0-9]+ = [^\n]*\n",
    )
]  # fmt: skip
NUMBERS = [
    b"0",
    b"1",
    b"-1",
    b"-2",
    b"2",
    b"3",
    b"7",
    b"9223372036854775807",
    b"-9223372036854775808",
]


def survives(data: bytes | str) -> str:
    """Read, print, verify and canonicalise; returns how far it came, or the code of the error."""
    try:
        module = pb.ir.parse(data)
    except pb.PullbackError as error:
        placed(error, data)
        return error.code
    text = module.text()
    again = pb.ir.parse(text)
    assert again.text() == text
    try:
        pb.ir.verify(module)
    except pb.PullbackError as error:
        placed(error, data)
        return error.code
    assert pb.ir.fingerprint(again) == pb.ir.fingerprint(module)
    made = pb.ir.canonicalise(module)
    assert pb.ir.canonicalise(made).text() == made.text()
    return "module"


def placed(error: pb.PullbackError, data: bytes | str) -> None:
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    lines = text.split("\n")
    line, column = error.values["line"], error.values["column"]
    assert 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1, error
    assert error.code == "syntax" or error.code in pb.ir.CATALOGUE, error
