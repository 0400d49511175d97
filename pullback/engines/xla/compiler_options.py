"""Options of XLA's compiler: those of every program, and flags for what a program contains."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from typing import Any

from pullback.engines.xla.bindings import xla_client
from pullback.engines.xla.donor_marks import DONOR_MARKS

Flags = tuple[tuple[str, Any], ...]

# XLA gives products, convolutions and reductions to YNNPACK, and prepares each of its calls when
# that first runs. Two threads that do so at the same time may end the process: with jaxlib 0.10.2
# on two cores, 13 of 157 that took the first step of a transformer; none of 40 without it.
_NO_YNNPACK: Flags = (("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INVALID"),)
# Without it, XLA copies donated arguments that a result overwrites if anything reads them, even
# before: the parameters of a training step.
_OVERWRITES: Flags = (("xla_cpu_copy_insertion_use_region_analysis", True),)
# Code for small arrays runs as fast without XLA's newer generators, which make and optimise an MLIR
# module for each kernel: half of the time that such programs take to compile. Larger products are
# an exception: the older generator unrolls them into thousands of instructions.
_SIMPLE_CODE: Flags = (("xla_cpu_use_fusion_emitters", False),)
_ELEMENTS, _PRODUCT_ELEMENTS = 4096, 128  # of the largest array, and result of a product
_SHAPE = re.compile(rb"tensor<((?:\d+x)+)")
_PRODUCT = re.compile(rb'stablehlo\.dot_general"[^\n]*-> tensor<((?:\d+x)+)')
# LLVM compiles a program in parts, by default 32, each of which takes time to set up.
_PARTS = "xla_cpu_parallel_codegen_split_count"
_PART_LENGTH, _MOST_PARTS = 2**15, 32  # bytes of text for each part; XLA's default
# cuBLAS was as fast in every product that was tried, and trying Triton's takes seconds.
_PRODUCTS_BY_CUBLAS: Flags = (("xla_gpu_enable_triton_gemm", False),)
# Where products of 16 bits were tuned, steps of GPT-2 took 31.5 to 34 ms (small) and 52 to 63 ms
# (medium), depending on the process. With cuBLAS's own choice they took 32 and 45 ms.
_UNTUNED: Flags = (("xla_gpu_autotune_level", 0),)
_HALF_PRODUCT = re.compile(rb'stablehlo\.dot_general"[^\n]*-> tensor<(?:\d+x)*b?f16>')
_unknown: set[str] = set()  # flags that this version of XLA does not have


def compiler_flags(platform: str, text: bytes) -> Flags:
    """Return the flags that a program is compiled with, a function of its text alone."""
    if platform != "cpu":
        return _gpu_compiler_flags(text)
    flags = _NO_YNNPACK
    if _is_small_for_compiler_options(text):
        return flags + _small_compiler_flags(text)
    overwrites = b'"pullback_' in text or any(mark in text for mark in DONOR_MARKS)
    return flags + _OVERWRITES if overwrites else flags


def _gpu_compiler_flags(text: bytes) -> Flags:
    if b"stablehlo.dot_general" not in text:
        return ()
    tuned = b"stablehlo.convolution" in text or not _HALF_PRODUCT.search(text)
    return _PRODUCTS_BY_CUBLAS if tuned else _PRODUCTS_BY_CUBLAS + _UNTUNED


def _is_small_for_compiler_options(text: bytes) -> bool:
    """Whether compiling a program takes much longer than running it: all arrays are small."""
    if any(size > _PRODUCT_ELEMENTS for size in _sizes_for_compiler(_PRODUCT, text)):
        return False
    return all(size <= _ELEMENTS for size in _sizes_for_compiler(_SHAPE, text))


def _sizes_for_compiler(pattern: re.Pattern[bytes], text: bytes) -> Iterator[int]:
    """The number of elements of each shape that a pattern finds, such as 6 for `2x3x`."""
    for shape in set(pattern.findall(text)):
        yield math.prod(map(int, shape[:-1].split(b"x")))


def _small_compiler_flags(text: bytes) -> Flags:
    parts = min(1 + len(text) // _PART_LENGTH, _MOST_PARTS)
    return (*_SIMPLE_CODE, (_PARTS, parts))


def known_compiler_flags(flags: Flags) -> Flags:
    """Return the flags that XLA has not refused."""
    return tuple([flag for flag in flags if flag[0] not in _unknown])


def compiler_refused_flag(error: Exception, flags: Flags) -> bool:
    """Whether XLA raised an error because it does not know one of the flags; remember which."""
    refused = {name for name, _ in flags if f"option: '{name}'" in str(error)}
    _unknown.update(refused)
    return bool(refused)


def compile_options(platform: str, flags: Flags = ()) -> Any:
    """Return the options of a program for one device; flags in XLA_FLAGS come before ours."""
    options = xla_client.CompileOptions()
    given = os.environ.get("XLA_FLAGS", "")
    chosen = [flag for flag in flags if not re.search(rf"--{flag[0]}\b", given)]
    # Converting to a shorter type and back must round: XLA's GPU compiler removes such pairs.
    options.env_option_overrides = [("xla_allow_excess_precision", False), *chosen]
    if platform == "cpu":
        debug = options.executable_build_options.debug_options
        debug.xla_disable_hlo_passes = ",".join(_refused_passes(flags))
    return options


def _refused_passes(flags: Flags) -> Iterator[str]:
    # It removes optimization barriers, in jaxlib 0.10 so early that common subexpressions are
    # merged across them: values that a checkpoint recomputes would be kept.
    yield "cse_barrier_expander"
    if set(_OVERWRITES) & set(flags):
        # It forgets that what overwrites a value must wait for a loop that reads it.
        yield "small-while-loop-hoisting"
