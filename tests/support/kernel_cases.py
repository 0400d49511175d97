"""Applications of every op that has a kernel, and their results: the same with kernels and without.

As a program, writes what the kernels compute to the file that is its argument.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pullback  # noqa: F401  (fills the table)
from pullback import testing
from pullback.engines.choices import CodeChoices
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.errors import PullbackError
from pullback.graph.graph import Graph
from pullback.graph.op_table import TABLE
from pullback.ops.conv.geometry import ConvolutionGeometry
from pullback.ops.fused.attention import Attention, AttentionGradient
from pullback.ops.fused.attention_scaled import ScaledAttention, ScaledAttentionGradient
from pullback.ops.linalg.matrix_kernel import RealMatrixKernel
from pullback.ops.samples import positive, real
from pullback.ops.traits import HasKernel

WITH_KERNEL = sorted(n for n, cls in TABLE.items() if issubclass(cls, HasKernel))
# What takes the place of the sizes in samples: odd ones, one vector, and more than a block.
SIZES = ({2: 3, 3: 7, 4: 16, 5: 33}, {2: 12, 3: 70, 4: 133, 5: 9001}, {2: 1, 3: 17, 4: 1, 5: 2})
Case = tuple[str, Graph, list[np.ndarray]]


def _adam() -> tuple[np.ndarray, ...]:
    p, g, mean = (real(71, 73, salt=i) for i in range(3))
    numbers = [np.array(v) for v in (0.1, 1.3, 0.9, 0.1, 0.99, 0.01, 1e-3)]
    return p, g, mean, positive(71, 73), *numbers


def _scaled_attention_gradient() -> tuple[Any, tuple[np.ndarray, ...]]:
    q, k, v, g = (real(2, 4, 70, 33, salt=i) for i in range(4))
    number = np.array(1.7)
    results = ScaledAttention("0.5", (), (0,), False, True).numpy(q, k, v, number)
    return ScaledAttentionGradient("0.5", (), (0,), False, True), (q, k, v, number, *results, g)


ROWS = np.arange(900) * 7 % 41 % 23
# Operands of ops whose kernels are for large ones, or whose operands depend on each other
LARGE = {
    "AdamStep": lambda: (TABLE["AdamStep"](), _adam()),
    "Gather": lambda: (TABLE["Gather"](0), (real(23, 37), ROWS)),
    "IndexArrays": lambda: (TABLE["IndexArrays"]((0,)), (real(23, 37), ROWS)),
    "ScaledAttentionGradient": lambda: _scaled_attention_gradient(),
    "ScatterAdd": lambda: (TABLE["ScatterAdd"]((0,)), (real(23, 37), real(900, 37, salt=1), ROWS)),
}


def samples(name: str) -> Iterator[tuple[Any, list[np.ndarray]]]:
    own = [LARGE[name]()] if name in LARGE else TABLE[name].samples()
    for op, arrays in own:
        yield op, [np.asarray(a) for a in arrays]
        if isinstance(op, AttentionGradient) and op.all_too:  # which has no kernel
            yield dataclasses.replace(op, all_too=False), [np.asarray(a) for a in arrays]


def in_dtype(arrays: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    if any(a.dtype.kind == "c" for a in arrays):
        return arrays  # no kernel takes them, and all operands must have the same precision
    return [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]


def resized(op: Any, arrays: list[np.ndarray], sizes: dict[int, int]) -> list[np.ndarray] | None:
    """Random operands like those of a sample; None if the op does not take them."""
    rng = np.random.default_rng(3)

    def made(a: np.ndarray) -> np.ndarray:
        shape = tuple([sizes.get(n, n) for n in a.shape])
        if a.dtype.kind != "f" or not a.ndim:
            a = np.resize(a, shape) if a.ndim else a
            return a % min(sizes.values()) if a.dtype.kind in "iu" else a  # labels are in range
        return rng.normal(size=shape)

    if isinstance(op, ConvolutionGeometry) or op.name in LARGE:
        return None  # sizes follow from each other, or are too small
    if isinstance(op, RealMatrixKernel):
        return None  # random matrices need comparisons of their own: test_matrix_kernels.py
    if isinstance(op, AttentionGradient):
        return _attention_results(op, [made(a) for a in (*arrays[:3], *arrays[6:])])
    given = [made(a) for a in arrays]
    try:
        testing.graph_of(op, given)
    except PullbackError:
        return None
    return given


def _attention_results(op: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Operands of the gradient of attention, whose results they must contain."""
    g, *others = arrays[3:]
    masks = [x for x in others if x.ndim != arrays[0].ndim - 1]
    found = Attention(op.scale, op.lower, op.upper, op.zero_rows).numpy(*arrays[:3], *masks)
    return [*arrays[:3], *found, np.resize(g, found[0].shape), *others]


def with_special(op: Any, arrays: list[np.ndarray], at: int) -> list[np.ndarray]:
    """NaN and infinities in most of the rows, or heads, of one operand."""
    made = [np.array(a) for a in arrays]
    x = made[at].reshape(len(made[at]), -1) if made[at].ndim > 1 else made[at].reshape(-1, 1)
    middle = x.shape[1] // 2
    for row, values in enumerate(x):
        chosen = row % 7
        if chosen in (1, 2, 3):
            values[middle] = (np.nan, np.inf, -np.inf)[chosen - 1]
        elif chosen == 4:
            values[:] = -np.inf
        elif chosen == 5:
            values[0], values[-1] = np.inf, -np.inf
    if isinstance(op, AttentionGradient) and at != 6:
        with np.errstate(all="ignore"):
            return _attention_results(op, [*made[:3], *made[6:]])
    return made


def cases(name: str) -> Iterator[Case]:
    """Applications of an op: its samples, other sizes, other dtypes, values that are not finite."""
    for i, (op, arrays) in enumerate(samples(name)):
        for dtype in ("float32", "float64"):
            yield _case(f"{name} {i} {dtype}", op, in_dtype(arrays, dtype))
            for j, sizes in enumerate(SIZES):
                larger = resized(op, arrays, sizes)
                if larger is not None:
                    yield _case(f"{name} {i} {dtype} size {j}", op, in_dtype(larger, dtype))
        larger = _taken_by_kernel(op, arrays)
        for k in _float_operands(op, arrays) if larger is not None else ():
            given = in_dtype(with_special(op, larger, k), "float32")
            yield _case(f"{name} {i} special {k}", op, given)


def _taken_by_kernel(op: Any, arrays: list[np.ndarray]) -> list[np.ndarray] | None:
    if op.name in LARGE:
        return arrays if calls_kernel(testing.graph_of(op, arrays)) else None
    for sizes in SIZES[:2]:
        given = resized(op, arrays, sizes)
        if given is not None and calls_kernel(testing.graph_of(op, in_dtype(given, "float32"))):
            return given
    return None


def _float_operands(op: Any, arrays: list[np.ndarray]) -> list[int]:
    """Positions of operands that may have any values; results of attention may not."""
    fixed: Any = (3, 4, 5) if isinstance(op, AttentionGradient) else ()
    if isinstance(op, ScaledAttentionGradient):  # the results are those of the operands before them
        fixed = range(7)
    pairs = enumerate(arrays)
    return [k for k, a in pairs if a.dtype.kind == "f" and a.ndim and a.size and k not in fixed]


def _case(label: str, op: Any, arrays: list[np.ndarray]) -> Case:
    return label, testing.graph_of(op, arrays), arrays


class KernelProgram:
    """All cases as one program."""

    def __init__(self, chosen: list[Case]) -> None:
        self.labels, graphs, arrays = zip(*chosen, strict=True)
        inputs, outputs = ([x for g in graphs for x in part(g)] for part in PARTS)
        self.graph = Graph(inputs, outputs)
        self.counts = [len(g.outputs) for g in graphs]
        self.arrays = [np.array(a, order="C") for given in arrays for a in given]

    def run(self, kernels: bool) -> list[np.ndarray]:
        xla = registered_engine("xla")
        args = [xla.put(a, x.type) for a, x in zip(self.arrays, self.graph.inputs, strict=True)]
        made = xla.compile(self.graph, choices=CodeChoices(kernels)).run(args)
        return [np.asarray(xla.get(v)) for v in made[: len(self.graph.outputs)]]

    def reference(self) -> list[np.ndarray]:
        """The values of the reference engine, which computes what is lowered without kernels."""
        return testing.run(self.graph, self.arrays)

    def check(self, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        """The same values within rounding, NaN and infinities at the same places."""
        first = 0
        for label, count in zip(self.labels, self.counts, strict=True):
            for i in range(first, first + count):
                try:
                    testing.assert_close(got[i], want[i], 4.0)
                except AssertionError as error:
                    error.add_note(f"{label}, result {i - first}")
                    raise
            first += count


PARTS: tuple[Callable, Callable] = (lambda g: g.inputs, lambda g: g.outputs)


def calls_kernel(graph: Graph) -> bool:
    b = Builder()
    b.kernels, b.neutral = True, False
    return "pullback_" in build_xla_module(graph, b)


def large_cases() -> list[Case]:
    """Cases in which kernels are called, of all ops: those with the most to share by threads."""
    found = [case for name in WITH_KERNEL for case in cases(name)]
    chosen = [c for c in found if c[0].endswith("size 1") or "special" in c[0]]
    convolutions = [c for c in found if c[0].startswith("Convolution")]
    return [case for case in (*chosen, *convolutions) if calls_kernel(case[1])]


if __name__ == "__main__":
    np.savez(sys.argv[1], *KernelProgram(large_cases()).run(kernels=True))
