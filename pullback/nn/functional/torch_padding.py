"""Padding as in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions.arguments import checked_integer_argument
from pullback.functions.composed import composed
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import functional_choice_argument
from pullback.typing import ArrayLike


@composed
def pad(
    x: ArrayLike, pad: Sequence[int],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant", value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Pad the last axes as in PyTorch: `pad` is (left, right) of the last axis, then of the one
    before it, and so on.

    Negative numbers crop in mode "constant". `pb.pad` takes a pair for each axis, the first axis
    first, and more modes.

    >>> pb.nn.functional.pad([[1.0, 2.0]], (1, 0, 0, 1)).tolist()
    [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    """
    a = as_tensor(x)
    functional_choice_argument(mode, ("constant", "reflect", "replicate", "circular"), "mode")
    widths = [checked_integer_argument("", n, "pad") for n in pad]
    if len(widths) % 2 or len(widths) > 2 * a.ndim:
        message = f"pad must have a pair for some of the last axes of {a._node.type}"
        raise ArgumentError(f"{message}, got {shown_argument(pad)}")
    pairs = list(zip(widths[::2], widths[1::2]))[::-1]
    named = {a.ndim - len(pairs) + i: pair for i, pair in enumerate(pairs)}
    if mode == "constant":
        return pf.pad(a, named, constant_values=value)
    for axis, width in named.items():
        if mode == "reflect" and max(width) >= a.shape[axis]:
            raise ArgumentError(f'mode="reflect" needs pad below {a.shape[axis]}, got {width}')
        if mode == "circular" and max(width) > a.shape[axis]:
            raise ArgumentError(f'mode="circular" needs pad up to {a.shape[axis]}, got {width}')
    how: Literal["edge", "wrap", "reflect"] = {  # type: ignore[assignment]
        "replicate": "edge", "circular": "wrap", "reflect": "reflect"
    }[mode]  # fmt: skip
    return pf.pad(a, named, how)


__all__ = ["pad"]
