"""Choices that the code of a program depends on, besides what it computes."""

from __future__ import annotations

from typing import NamedTuple

PRECISIONS = ("highest", "tf32", "bf16")


class CodeChoices(NamedTuple):
    """Whether programs may call pullback's own kernels, and how they multiply matrices of f32."""

    kernels: bool = True
    matmul_precision: str = "highest"


USUAL = CodeChoices()
