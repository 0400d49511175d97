"""The fields of a tensor: a structure in C++ with the frequent operators, or slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.graph.native import native


class PureTensorFields:
    """The fields of a tensor, where they are not those of a structure in C++."""

    __slots__ = ("__weakref__", "_grad", "_node", "_token")


if TYPE_CHECKING or native is None:  # noqa: SIM108 - a base class must not be an expression
    TensorFields = PureTensorFields
else:
    TensorFields = native.TensorFields
