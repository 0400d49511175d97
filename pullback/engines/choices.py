"""Choices that the code of a program depends on, besides what it computes."""

from __future__ import annotations

from typing import NamedTuple

PRECISIONS = ("highest", "tf32", "bf16")


class CodeChoices(NamedTuple):
    """Whether programs may call pullback's own kernels, and how they multiply matrices of f32.

    `awaited` are the numbers of the results that the host waits for, if they are not all.
    """

    kernels: bool = True
    matmul_precision: str = "highest"
    awaited: tuple[int, ...] = ()


USUAL = CodeChoices()
