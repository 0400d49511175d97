"""Summaries of models: types of results, parameters and flops of layers, without running them."""

from __future__ import annotations

import pytest
from rich.console import Console

import pullback as pb
from pullback import nn
from pullback.errors import ShapeError


class Net(nn.Module):
    """A convolution and a linear layer that is used twice, with ops of its own."""

    def __init__(self):
        self.conv = nn.Conv2d(2, 6, 3, padding=1, groups=2)
        self.norm, self.drop = nn.BatchNorm2d(6), nn.Dropout(0.5)
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2, bias=False)
        self.mix = nn.Linear(4, 4)
        self.unused = nn.Linear(3, 1)

    def forward(self, x):
        y = self.up(self.drop(self.norm(self.conv(x))))
        y = self.mix(self.mix(y))
        return y + y * 2


X = pb.Type((2, 8, 8, 2), pb.float32)


def test_layers_have_types_parameters_and_flops():
    model = Net()
    model.mix.bias.requires_grad = False
    found = model.summary(X)
    rows = {row.name: row for row in found.rows}
    pixels, wide = 2 * 8 * 8, 2 * 16 * 16
    assert rows["conv"].output == "f32[2,8,8,6]"
    assert rows["conv"].flops == 2 * pixels * 6 * 9 + pixels * 6
    assert rows["conv"].parameters == 9 * 6 + 6
    assert rows["up"].flops == 2 * pixels * 6 * 4 * 4
    assert (rows["mix"].calls, rows["mix"].flops) == (2, 2 * (2 * wide * 16 + wide * 4))
    assert rows[""].flops == 2 * wide * 4  # its own sum and product
    assert (rows["unused"].output, rows["unused"].calls) == ("", 0)
    assert rows["norm"].flops > pixels * 6
    assert found.flops == sum(row.flops for row in found.rows)
    assert found.parameters == model.num_parameters() == sum(r.parameters for r in found.rows)
    assert found.parameters - found.trainable == 4


def test_nothing_is_computed_or_changed():
    model = Net()
    nn.seed(3)
    model.summary(X)
    assert model.norm.num_batches_tracked.item() == 0
    with nn.rng(pb.random.key(0)):  # the keys of a block around it are not used
        model.summary(X)
    drawn = nn.next_key().tolist()
    nn.seed(3)
    assert nn.next_key().tolist() == drawn
    with pytest.raises(ShapeError, match="conv2d"):
        model.summary(pb.ones((2, 8)))


def test_loops_count_each_iteration():
    class Loop(nn.Module):
        def forward(self, x, w):
            return pb.scan(lambda s, _: (s @ w, None), x, length=5)[0]

    assert Loop().summary(pb.ones((2, 3)), pb.ones((3, 3))).flops == 5 * 2 * 2 * 3 * 3
    lstm = nn.LSTM(3, 4).summary(pb.ones((7, 2, 3))).flops
    products = 2 * 7 * 2 * 16 * (3 + 4)
    assert products < lstm < 2 * products


def test_summaries_are_shown_as_text_and_html():
    found = nn.Sequential(nn.Linear(2, 3), pb.relu).summary(pb.ones((5, 2)))
    assert str(found).splitlines()[2:] == [
        "(model)   Sequential   f32[5,3]            0       0",
        "0         Linear       f32[5,3]            9      75",
        "1         Lambda       f32[5,3]            0      15",
        "total                                      9      90",
    ]
    assert "<td>Linear</td><td>f32[5,3]</td><td>9</td><td>75</td>" in found._repr_html_()
    console = Console(width=100)
    with console.capture() as captured:
        console.print(found)
    assert "Linear" in captured.get()
