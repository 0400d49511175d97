"""Time the static IR: parsing, linking, differentiating, printing.

    python benchmarks/ir.py

Prints milliseconds, the best of several runs, for 1,000 instructions of matmul, add and mul, and
the growth of differentiation from 10 to 100,000 instructions of a chain.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from pullback import ir


def layers(count: int) -> str:
    """A module of about `count` instructions: matmul, add and mul in turn."""
    lines = [
        '%0 = Input() {name: "x"} : Tensor<f32, [8, 8]>',
        '%1 = Input() {name: "w"} : Tensor<f32, [8, 8]>',
        '%2 = Input() {name: "b"} : Tensor<f32, [8]>',
    ]
    words = ("MatMul({}, %1)", "BinOp(Add, {}, %2)", "BinOp(Mul, {}, %0)")
    last = 0
    for i in range(3, count - 1):
        lines.append(f"%{i} = {words[i % 3].format(f'%{last}')} : Tensor<f32, [8, 8]>")
        last = i
    lines.append(f"%{last + 1} = Sum(%{last}, [], false) : Tensor<f32, []>")
    return "\n".join([*lines, f"outputs: %{last + 1}", ""])


def chain(count: int) -> str:
    """A chain of elementwise instructions on one number."""
    lines = ['%0 = Input() {name: "x"} : Tensor<f32, []>']
    words = ("BinOp(Mul, {}, %0)", "Neg({})", "BinOp(Add, {}, %0)", "Relu({})")
    for i in range(1, count):
        lines.append(f"%{i} = {words[i % 4].format(f'%{i - 1}')} : Tensor<f32, []>")
    return "\n".join([*lines, f"outputs: %{count - 1}", ""])


def best(work: Callable[[], object], runs: int = 7) -> float:
    """The shortest of several runs, in milliseconds."""
    found = []
    for _ in range(runs):
        gc.collect()
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return 1000 * min(found)


def main() -> None:
    text = layers(1000)
    module = ir.parse(text)
    print("1,000 instructions of matmul, add and mul")
    print(f"  parse             {best(lambda: ir.parse(text)):8.1f} ms")
    print(f"  parse and verify  {best(lambda: ir.verify(ir.parse(text))):8.1f} ms")
    print(f"  autodiff          {best(lambda: ir.autodiff(module)):8.1f} ms")
    fast = ir.GradientOptions(verify=False)
    print(f"  without verifying {best(lambda: ir.autodiff(module, options=fast)):8.1f} ms")
    print(f"  fingerprint       {best(lambda: ir.fingerprint(module)):8.1f} ms")
    print("autodiff of a chain, microseconds for each instruction")
    for count in (10, 1_000, 100_000):
        links = ir.parse(chain(count))
        ir.verify(links)
        runs = 7 if count < 100_000 else 1
        each = 1000 * best(lambda links=links: ir.autodiff(links), runs) / count
        print(f"  {count:7,d}  {each:8.1f} us")


if __name__ == "__main__":
    main()
