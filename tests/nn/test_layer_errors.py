"""Mistakes in calls of layers: what must hold, and what to write."""

from __future__ import annotations

import pytest
from helpers import told

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError, ShapeError

NCHW, NHWC = (2, 3, 8, 8), (2, 8, 8, 3)
# A layer, the shape of its argument, the layout that fits it if there is one
CHANNELS = {
    "conv": (lambda: nn.Conv2d(3, 4, 3), NCHW, "NCHW"),
    "conv, channels first": (lambda: nn.Conv2d(3, 4, 3, layout="NCHW"), NHWC, "NHWC"),
    "conv, one image": (lambda: nn.Conv2d(3, 4, 3), NCHW[1:], "NCHW"),
    "conv, other channels": (lambda: nn.Conv2d(5, 4, 3), NCHW, None),
    "transposed": (lambda: nn.ConvTranspose1d(3, 4, 3), (2, 3, 8), "NCHW"),
    "batch norm": (lambda: nn.BatchNorm2d(3), NCHW, "NCHW"),
    "batch norm of vectors": (lambda: nn.BatchNorm1d(3), (2, 4), None),
    "batch norm of sequences": (lambda: nn.BatchNorm1d(3, layout="NCHW"), (2, 5, 3), "NHWC"),
    "instance norm": (lambda: nn.InstanceNorm2d(3), NCHW[1:], "NCHW"),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels_in_another_place(name):
    make, shape, layout = CHANNELS[name]
    with pytest.raises(ShapeError, match=r"needs \d channels") as info:
        make()(pb.ones(shape))
    found = str(info.value)
    assert f'layout="{layout}") for this order' in found if layout else "Write" not in found


def test_other_mistakes():
    x = pb.ones((2, 3, 8))
    encoder = nn.TransformerEncoder(lambda: nn.TransformerEncoderLayer(8, 2, 8), 1)
    for wrong, *words in [
        (lambda: nn.Linear(2, 4)(x), "Linear: needs [..., 2], got f32[2,3,8]"),
        (lambda: nn.TransformerEncoder(encoder.layers[0], 2), "Write lambda: Transformer"),
        (lambda: encoder(x, src_key_padding_mask=x), "Write padding_mask=~mask"),
        (lambda: nn.MultiHeadAttention(8, 2)(x, attn_mask=x), "Write mask=~mask"),
        (lambda: nn.MultiHeadAttention(8, 2, batch_first=True), "batch is always first"),
        (lambda: pb.optim.SGD([x]).zero_grad(set_to_none=True), "leave the argument out"),
        (lambda: pb.optim.Adam(1e-3), "pb.optim.adam"),
        (lambda: pb.optim.adam([x], lr=1e-3), "learning_rate must be a number", "pb.optim.Adam"),
        (lambda: pb.checkpoint(pb.sin, x), "Write pb.checkpoint(f)(x)."),
    ]:
        with told(PullbackError, Exception, *words):
            wrong()
