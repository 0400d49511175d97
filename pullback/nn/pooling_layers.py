"""Pooling layers.

Images are [N, spatial..., C] with `layout="NHWC"`, the default, and [N, C, spatial...] with
`layout="NCHW"`; the dimension N may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.nn import functional as F
from pullback.nn.function_layers import FunctionLayer, function_layer

_SHAPES = {1: "(1, 6, 2)", 2: "(1, 6, 6, 2)", 3: "(1, 6, 6, 6, 2)"}
_ABOUT = 'Images are [N, spatial..., C] with layout="NHWC", [N, C, spatial...] with "NCHW".'


def _pooling_layer(
    name: str, function: Callable[..., Any], settings: str, result: str
) -> type[FunctionLayer]:
    shape = _SHAPES[int(name[-2])]
    call = f"pb.nn.{name}({settings})(pb.ones({shape})).shape"
    return function_layer(name, function, call, result, about=_ABOUT)


MaxPool1d = _pooling_layer("MaxPool1d", F.max_pool1d, "2", "(1, 3, 2)")
MaxPool2d = _pooling_layer("MaxPool2d", F.max_pool2d, "3, stride=2, padding=1", "(1, 3, 3, 2)")
MaxPool3d = _pooling_layer("MaxPool3d", F.max_pool3d, "2", "(1, 3, 3, 3, 2)")
AvgPool1d = _pooling_layer("AvgPool1d", F.avg_pool1d, "2", "(1, 3, 2)")
AvgPool2d = _pooling_layer("AvgPool2d", F.avg_pool2d, "(2, 3)", "(1, 3, 2, 2)")
AvgPool3d = _pooling_layer("AvgPool3d", F.avg_pool3d, "2", "(1, 3, 3, 3, 2)")
LPPool1d = _pooling_layer("LPPool1d", F.lp_pool1d, "2.0, 2", "(1, 3, 2)")
LPPool2d = _pooling_layer("LPPool2d", F.lp_pool2d, "2.0, 2", "(1, 3, 3, 2)")
LPPool3d = _pooling_layer("LPPool3d", F.lp_pool3d, "2.0, 2", "(1, 3, 3, 3, 2)")
AdaptiveAvgPool1d = _pooling_layer("AdaptiveAvgPool1d", F.adaptive_avg_pool1d, "4", "(1, 4, 2)")
AdaptiveAvgPool2d = _pooling_layer(
    "AdaptiveAvgPool2d", F.adaptive_avg_pool2d, "(1, None)", "(1, 1, 6, 2)"
)
AdaptiveAvgPool3d = _pooling_layer(
    "AdaptiveAvgPool3d", F.adaptive_avg_pool3d, "1", "(1, 1, 1, 1, 2)"
)
AdaptiveMaxPool1d = _pooling_layer("AdaptiveMaxPool1d", F.adaptive_max_pool1d, "4", "(1, 4, 2)")
AdaptiveMaxPool2d = _pooling_layer(
    "AdaptiveMaxPool2d", F.adaptive_max_pool2d, "(1, None)", "(1, 1, 6, 2)"
)
AdaptiveMaxPool3d = _pooling_layer(
    "AdaptiveMaxPool3d", F.adaptive_max_pool3d, "1", "(1, 1, 1, 1, 2)"
)

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip
