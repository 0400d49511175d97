"""Normalisation layers with running statistics: over the batch, or each example.

The statistics are state: they have no gradient, and change in each call of a layer in training. In
imperative code they are written to the layer. A function that gets the model as an argument, as in
`pb.grad(loss, has_aux=True)(model, x)`, returns the model with the new ones.
"""

from __future__ import annotations

from typing import ClassVar

from pullback import functions as pf
from pullback.graph.argument_checks import checked_flag_argument, real
from pullback.graph.dtypes import int64
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.functional.arguments import (
    Layout,
    functional_float_argument,
    widened_functional_argument,
)
from pullback.nn.functional.image_layouts import is_layout_channels_first
from pullback.nn.initial import initial_parameter
from pullback.nn.layer_arguments import (
    check_layer_channels,
    check_layer_rank,
    layer_layout_argument,
    named_layer_arguments,
    positive_layer_argument,
)
from pullback.nn.module import Module
from pullback.typing import ArrayLike, DTypeLike


class RunningNorm(Module):
    """What the layers share: scale and shift of each channel, and running statistics."""

    rank: ClassVar[int]
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, *, layout: Layout = "NHWC",
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.num_features = n = positive_layer_argument(name, num_features, "num_features")
        self.layout = layer_layout_argument(name, layout)
        self.eps = real(name, eps, "eps")
        self.momentum = None if momentum is None else real(name, momentum, "momentum")
        affine = checked_flag_argument(name, affine, "affine")
        self.weight = initial_parameter(pf.ones, (n,), dtype) if affine else None
        self.bias = initial_parameter(pf.zeros, (n,), dtype) if affine else None
        self.running_mean = self.running_var = self.num_batches_tracked = None
        self.track_running_stats = checked_flag_argument(
            name, track_running_stats, "track_running_stats"
        )
        if track_running_stats:
            self.register_buffer("running_mean", initial_parameter(pf.zeros, (n,), dtype))
            self.register_buffer("running_var", initial_parameter(pf.ones, (n,), dtype))
            self.register_buffer("num_batches_tracked", initial_parameter(pf.zeros, (), int64))

    def _check(self, x: Tensor, ranks: tuple[int, ...]) -> None:
        places = ", ".join("DHW"[3 - self.rank :] if self.rank > 1 else "L")
        first = is_layout_channels_first(self.layout)
        wanted = f"[N, C, {places}]" if first else f"[N, {places}, C]"
        wanted += f' (layout="{self.layout}")'
        check_layer_rank(type(self).__name__, x, ranks, wanted)


class BatchNormLayer(RunningNorm):
    """The base class of `BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d`."""

    def forward(self, x: ArrayLike) -> Tensor:
        a = functional_float_argument(x)
        self._check(a, (self.rank + 2, 2) if self.rank == 1 else (self.rank + 2,))
        check_layer_channels(type(self).__name__, a, a.ndim - 2, self.layout, self.num_features)
        mean, var = self.running_mean, self.running_var
        if mean is None or var is None or not self.training:
            return F.batch_norm(
                a, mean, var, self.weight, self.bias, self.training or mean is None, eps=self.eps,
                layout=self.layout,
            )  # fmt: skip
        output, self.running_mean, self.running_var = F.batch_norm_train(
            a, mean, var, self.weight, self.bias, self._next_momentum(),  # type: ignore[arg-type]
            self.eps, layout=self.layout,
        )  # fmt: skip
        return output

    def _next_momentum(self) -> float | Tensor:
        """Count a batch; return the weight of its statistics: all batches count the same unless
        there is a momentum."""
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        self.num_batches_tracked = self.num_batches_tracked + 1
        if self.momentum is not None:
            return self.momentum
        return 1 / self.num_batches_tracked.astype(self.running_mean.dtype)


@named_layer_arguments
class BatchNorm1d(BatchNormLayer):
    """Normalises each channel of [N, C] or [N, L, C], or [N, C, L] with `layout="NCHW"`; see
    `BatchNorm2d`.

    >>> pb.nn.BatchNorm1d(1, eps=0.0)(pb.tensor([[1.0], [3.0]])).tolist()
    [[-1.0], [1.0]]
    """

    rank: ClassVar[int] = 1


@named_layer_arguments
class BatchNorm2d(BatchNormLayer):
    """Normalises each channel of images; `layout="NHWC"` takes [N, H, W, C], "NCHW" [N, C, H, W].

    In training the mean and variance are those of the batch, and the running ones, which are used
    in evaluation, become `(1 - momentum) * running + momentum * batch`, where the variance of the
    batch is the unbiased one. With `momentum=None` they are the mean over all batches. With
    `track_running_stats=False` there are none, and those of the batch are always used. `affine`
    layers scale and shift each channel.

    >>> layer = pb.nn.BatchNorm2d(3)
    >>> _ = layer(pb.ones((2, 4, 4, 3)))
    >>> layer.running_mean.tolist(), layer.num_batches_tracked.item()
    ([0.1000..., 0.1000..., 0.1000...], 1)
    """

    rank: ClassVar[int] = 2


@named_layer_arguments
class BatchNorm3d(BatchNormLayer):
    """Normalises each channel of volumes [N, D, H, W, C], or [N, C, D, H, W] with `layout="NCHW"`;
    see `BatchNorm2d`.

    >>> pb.nn.BatchNorm3d(2)(pb.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 2, 2, 2)
    """

    rank: ClassVar[int] = 3


class InstanceNormLayer(RunningNorm):
    """The base class of `InstanceNorm1d`, `InstanceNorm2d` and `InstanceNorm3d`."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, *, layout: Layout = "NHWC",
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, layout=layout, dtype=dtype
        )

    def forward(self, x: ArrayLike) -> Tensor:
        a = functional_float_argument(x)
        self._check(a, (self.rank + 1, self.rank + 2))
        single = a.ndim == self.rank + 1
        if single:
            a = pf.expand_dims(a, 0)
        check_layer_channels(type(self).__name__, a, self.rank, self.layout, self.num_features)
        own = self.training or self.running_mean is None
        if own and self.running_mean is not None:
            self._track(a.detach())
        y = F.instance_norm(
            a, self.running_mean, self.running_var, self.weight, self.bias, own, eps=self.eps,
            layout=self.layout,
        )  # fmt: skip
        return pf.squeeze(y, 0) if single else y

    def _track(self, a: Tensor) -> None:
        """Move the running statistics towards the means over the examples of theirs."""
        mean, var = self.running_mean, self.running_var
        assert mean is not None
        assert var is not None
        assert self.momentum is not None
        places = range(2, a.ndim) if is_layout_channels_first(self.layout) else range(1, a.ndim - 1)
        m, wide, axes = self.momentum, widened_functional_argument(a), tuple(places)
        new_mean = pf.mean(pf.mean(wide, axes), 0).astype(mean.dtype)
        new_var = pf.mean(pf.var(wide, axes, correction=1), 0).astype(var.dtype)
        self.running_mean = mean * (1 - m) + new_mean * m
        self.running_var = var * (1 - m) + new_var * m


@named_layer_arguments
class InstanceNorm1d(InstanceNormLayer):
    """Normalises each channel of each sequence [L, C], or [C, L] with `layout="NCHW"`; see
    `InstanceNorm2d`.

    >>> pb.nn.InstanceNorm1d(1, eps=0.0)(pb.tensor([[[1.0], [3.0]]])).tolist()
    [[[-1.0], [1.0]]]
    """

    rank: ClassVar[int] = 1


@named_layer_arguments
class InstanceNorm2d(InstanceNormLayer):
    """Normalises each channel of each image; `layout="NHWC"` takes [N, H, W, C], "NCHW"
    [N, C, H, W].

    With `track_running_stats` there are running statistics as those of `BatchNorm2d`, which are
    used in evaluation. `affine` layers scale and shift each channel.

    >>> pb.nn.InstanceNorm2d(2, affine=True)(pb.ones((1, 2, 2, 2))).shape
    (1, 2, 2, 2)
    """

    rank: ClassVar[int] = 2


@named_layer_arguments
class InstanceNorm3d(InstanceNormLayer):
    """Normalises each channel of each volume [D, H, W, C], or [C, D, H, W] with `layout="NCHW"`;
    see `InstanceNorm2d`.

    >>> pb.nn.InstanceNorm3d(2)(pb.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 2, 2, 2)
    """

    rank: ClassVar[int] = 3


__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d",
]  # fmt: skip
