"""Layers agree with PyTorch's in values, gradients and state (f64), on its own state dicts.

A case names the layer, the arguments of both constructors, and the shapes of the inputs. Layers
with a layout are compared in both: "NCHW" takes PyTorch's state dict as it is, "NHWC" what
`from_torch` makes of it.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback import nn

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("default")  # those of PyTorch are its own


class LayerCase(NamedTuple):
    """A layer and its inputs, for both libraries."""

    name: str
    args: tuple
    options: dict[str, Any]
    inputs: tuple[np.ndarray, ...]
    ours: dict[str, Any]  # options that have other names here
    training: bool
    fixed: int  # how many of the last inputs are constants


def case(
    name: str, *args: Any, inputs: tuple, ours: dict | None = None, training: bool = True,
    fixed: int = 0, **options: Any,
) -> LayerCase:  # fmt: skip
    arrays = tuple(x if isinstance(x, np.ndarray) else RNG.normal(size=x) for x in inputs)
    return LayerCase(name, args, options, arrays, ours or options, training, fixed)


def channels_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1)


def leaves(y: Any) -> list:
    return [z for part in y for z in leaves(part)] if isinstance(y, (tuple, list)) else [y]


def weighted_sum(values: list, weights: list) -> Any:
    return sum((v * w).sum() for v, w in zip(values, weights))


def close(found: Any, wanted: Any, what: str) -> None:
    found, wanted = np.asarray(found), wanted.detach().numpy()
    assert found.shape == wanted.shape, what
    np.testing.assert_allclose(found, wanted, 1e-9, 1e-11, err_msg=what)


def compare(c: LayerCase, layout: str | None = None) -> None:
    """Compare the values of a call, the gradients of a weighted sum and the new state."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, c.name)(*c.args, **c.options).double().train(c.training)
    for buffer in theirs.buffers():  # running statistics that are not those to begin with
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    before = {n: v.detach().clone() for n, v in theirs.state_dict().items()}
    moving = len(c.inputs) - c.fixed
    floats = [i for i, x in enumerate(c.inputs) if x.dtype.kind == "f" and i < moving]
    there = [torch.tensor(x, requires_grad=i in floats) for i, x in enumerate(c.inputs)]
    y = theirs(*there)
    last = layout == "NHWC"
    extra = {} if layout is None else {"layout": layout}
    model = getattr(nn, c.name)(*c.args, **c.ours, **extra).to(pb.float64).train(c.training)
    assert list(model.state_dict()) == list(before) or not last, c.name
    values = nn.from_torch(model, before) if last else before
    model.load_state_dict(values)
    outputs = leaves(y)
    weights = [np.cos(np.arange(z.numel())).reshape(z.shape) for z in outputs]
    params = dict(theirs.named_parameters())
    asked = [*params.values(), *(there[i] for i in floats)]
    total = weighted_sum(outputs, [torch.tensor(w) for w in weights])
    wanted = torch.autograd.grad(total, asked, allow_unused=True)

    own = channels_last if last else lambda x: x
    inputs = [pb.tensor(own(x)) for x in c.inputs]
    held = [own(w) for w in weights]

    def loss(model: Any, *xs: Any) -> Any:
        z = model(*xs)
        return weighted_sum(leaves(z), held), (z, model)

    numbers = (0, *(i + 1 for i in floats))
    (_, (z, after)), grads = pb.value_and_grad(loss, argnums=numbers, has_aux=True)(model, *inputs)
    label = f"{c.name}{c.args}{c.options} {layout}"
    for a, b in zip(leaves(z), outputs, strict=True):
        close(a, torch.movedim(b, 1, -1) if last else b, label)
    found = nn.from_torch(model, dict(zip(params, wanted))) if last else dict(zip(params, wanted))
    mine = dict(grads[0].named_parameters())
    for name, g in found.items():
        close(mine[name], torch.tensor(np.asarray(g)), f"gradient of {name} of {label}")
    for g, w in zip(grads[1:], wanted[len(params) :], strict=True):
        close(g, torch.movedim(w, 1, -1) if last else w, f"gradient of {label}")
    buffers = dict(after.named_buffers())
    for name, value in theirs.named_buffers():
        close(buffers[name], value, f"{name} of {label}")


def check(cases: list[LayerCase]) -> None:
    with pb.config(engine="reference"):
        for c in cases:
            if "layout" in inspect.signature(getattr(nn, c.name)).parameters:
                compare(c, "NCHW")
                compare(c, "NHWC")
            else:
                compare(c)


SIZES = {1: (7,), 2: (7, 6), 3: (5, 4, 6)}


def images(rank: int, channels: int = 4, count: int = 2) -> tuple[int, ...]:
    return (count, channels, *SIZES[rank])


def test_linear_layers_and_embeddings():
    check([
        case("Linear", 3, 4, inputs=((2, 3),)),
        case("Linear", 3, 4, bias=False, inputs=((5, 2, 3),)),
        case("Bilinear", 3, 2, 4, inputs=((5, 3), (5, 2))),
        case("Bilinear", 3, 2, 4, bias=False, inputs=((5, 3), (5, 2))),
        case("Embedding", 5, 3, inputs=(np.array([[0, 4], [2, 2]]),)),
        case("Embedding", 5, 3, padding_idx=-3, inputs=(np.array([[0, 4], [2, 2]]),)),
    ])  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank):
    name, x = f"Conv{rank}d", (images(rank),)
    check([
        case(name, 4, 6, 3, inputs=x),
        case(name, 4, 6, 2, stride=2, padding=1, dilation=2, groups=2, bias=False, inputs=x),
        case(name, 4, 4, (3, 2, 1)[:rank], padding=(1, 0, 1)[:rank], groups=4, inputs=x),
        case(name, 4, 2, 4, padding="same", dilation=2, inputs=x) if rank < 3 else
        case(name, 4, 2, 2, padding="same", inputs=x),
        *[case(name, 4, 2, 3, padding=p, padding_mode=m, inputs=x)
          for m, p in (("reflect", 1), ("replicate", "same"), ("circular", 2))],
    ])  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(rank):
    name, x = f"ConvTranspose{rank}d", (images(rank),)
    check([
        case(name, 4, 6, 3, inputs=x),
        case(name, 4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, inputs=x),
        case(name, 4, 3, 2, dilation=2, bias=False, inputs=x),
    ])  # fmt: skip
    theirs = getattr(torch.nn, name)(4, 2, 3, stride=3, padding=1).double()
    ours = getattr(nn, name)(4, 2, 3, stride=3, padding=1, layout="NCHW").to(pb.float64)
    ours.load_state_dict(theirs.state_dict())
    x = RNG.normal(size=images(rank))
    size = tuple(3 * n for n in SIZES[rank])
    close(ours(pb.tensor(x), size), theirs(torch.tensor(x), output_size=size), name)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling(rank):
    x = (images(rank),)
    check([
        case(f"MaxPool{rank}d", 3, stride=2, padding=1, inputs=x),
        case(f"MaxPool{rank}d", 2, dilation=2, ceil_mode=True, inputs=x),
        case(f"AvgPool{rank}d", 3, stride=2, padding=1, inputs=x),
        case(f"AvgPool{rank}d", 2, padding=1, count_include_pad=False, ceil_mode=True, inputs=x),
        case(f"AdaptiveAvgPool{rank}d", 3, inputs=x),
        case(f"AdaptiveMaxPool{rank}d", 2, inputs=x),
        case(f"AdaptiveAvgPool{rank}d", (2, None, 1)[:rank], inputs=x),
        case(f"LPPool{rank}d", 2.0, 2, inputs=(RNG.uniform(0.5, 1.0, images(rank)),)),
    ])  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
def test_normalisation(training):
    cases = []
    for rank in (1, 2, 3):
        x = (images(rank),)
        name, instance = f"BatchNorm{rank}d", f"InstanceNorm{rank}d"
        cases += [
            case(name, 4, inputs=x, training=training),
            case(name, 4, momentum=None, affine=False, eps=1e-2, inputs=x, training=training),
            case(name, 4, track_running_stats=False, inputs=x, training=training),
            case(instance, 4, inputs=x, training=training),
            case(instance, 4, affine=True, track_running_stats=True, momentum=0.3, inputs=x,
                 training=training),
        ]  # fmt: skip
    check([
        *cases,
        case("BatchNorm1d", 4, inputs=((5, 4),), training=training),
        case("GroupNorm", 2, 4, inputs=(images(2),)),
        case("GroupNorm", 4, 4, eps=1e-3, affine=False, inputs=(images(1),)),
        case("LayerNorm", 6, inputs=((3, 6),)),
        case("LayerNorm", (2, 6), bias=False, inputs=((3, 2, 6),)),
        case("LayerNorm", 6, elementwise_affine=False, inputs=((3, 6),)),
        case("RMSNorm", 6, inputs=((3, 6),)),
        case("RMSNorm", (2, 6), eps=1e-3, inputs=((3, 2, 6),)),
        case("LocalResponseNorm", 3, inputs=(images(2),)),
    ])  # fmt: skip


ACTIVATIONS: dict[str, dict[str, Any]] = {
    "CELU": {"alpha": 1.5}, "ELU": {"alpha": 0.5}, "GELU": {"approximate": "tanh"},
    "Hardshrink": {},
    "Hardtanh": {"min_val": -0.5, "max_val": 0.7}, "LeakyReLU": {"negative_slope": 0.2},
    "LogSigmoid": {}, "Mish": {}, "PReLU": {"num_parameters": 4}, "ReLU": {}, "ReLU6": {},
    "SELU": {},
    "SiLU": {}, "Sigmoid": {}, "Softplus": {"beta": 2.0}, "Softshrink": {}, "Softsign": {},
    "Tanh": {}, "Tanhshrink": {}, "Threshold": {"threshold": 0.1, "value": 2.0},
}  # fmt: skip


def test_activations():
    x = (images(1),)
    check([
        *[case(name, inputs=x, **options) for name, options in ACTIVATIONS.items()],
        case("GELU", inputs=x), case("PReLU", inputs=x), case("PReLU", init=0.5, inputs=x),
        *[case(name, inputs=x, dim=1, ours={"axis": 1})
          for name in ("GLU", "LogSoftmax", "Softmax", "Softmin")],
        case("RReLU", inputs=x, training=False), case("Identity", inputs=x),
    ])  # fmt: skip
    for name in ("Hardsigmoid", "Hardswish"):  # there, 1/6 is a number of f32
        y = getattr(torch.nn, name)()(torch.tensor(x := RNG.normal(size=9)))
        np.testing.assert_allclose(getattr(nn, name)()(x).numpy(), y.numpy(), 1e-6)


def test_shapes_resampling_and_padding():
    four = (2, 8, 4, 6)
    check([
        case("Flatten", inputs=(four,)), case("Flatten", 1, 2, inputs=(four,)),
        case("Unflatten", 1, (2, 4), inputs=(four,)),
        case("PixelShuffle", 2, inputs=(four,)), case("PixelUnshuffle", 2, inputs=(four,)),
        case("ChannelShuffle", 2, inputs=(four,)),
        case("Upsample", scale_factor=2.0, inputs=(images(1),)),
        case("Upsample", scale_factor=2.0, mode="bilinear", align_corners=True,
             inputs=(images(2),)),
        case("Upsample", size=(5, 9), mode="bicubic", inputs=(images(2),)),
        case("Upsample", scale_factor=1.5, mode="trilinear", inputs=(images(3),)),
        *[case(f"{kind}Pad{rank}d", (1, 2, 0, 1, 2, 1)[: 2 * rank], inputs=(images(rank),))
          for kind in ("Zero", "Reflection", "Replication", "Circular") for rank in (1, 2, 3)],
        case("ConstantPad2d", 1, 0.5, inputs=(images(2),)),
    ])  # fmt: skip


def test_losses_and_distances():
    x, y, z = (RNG.normal(size=(4, 5)) for _ in range(3))
    p, t = (RNG.uniform(0.1, 0.9, (4, 5)) for _ in range(2))
    labels, signs = np.array([0, 4, 2, 2]), np.sign(RNG.normal(size=(4, 5)))
    weight, both = RNG.uniform(0.5, 1.5, 5), (x, y)
    given = {"weight": torch.tensor(weight)}
    check([
        *[case(name, inputs=both) for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss")],
        case("HuberLoss", delta=0.3, reduction="sum", inputs=both),
        case("MSELoss", reduction="none", inputs=both),
        case("PoissonNLLLoss", fixed=1, inputs=(x, t)), case("GaussianNLLLoss", inputs=(x, y, t)),
        case("CrossEntropyLoss", inputs=(x, labels)),
        case("CrossEntropyLoss", ignore_index=2, label_smoothing=0.1, inputs=(x, labels)),
        case("NLLLoss", inputs=(x, labels)), case("BCELoss", fixed=1, inputs=(p, t)),
        case("BCEWithLogitsLoss", fixed=1, inputs=(x, t)),
        case("SoftMarginLoss", fixed=1, inputs=(x, signs)),
        case("KLDivLoss", reduction="batchmean", fixed=1, inputs=(x, t)),
        case("HingeEmbeddingLoss", fixed=1, inputs=(x, signs)),
        case("MultiMarginLoss", inputs=(x, labels)),
        case("MultiLabelMarginLoss", inputs=(x, np.array([[1, -1, 0, 0, 0]] * 4))),
        case("MultiLabelSoftMarginLoss", fixed=1, inputs=(x, t)),
        case("MarginRankingLoss", 0.3, fixed=1, inputs=(x, y, signs)),
        case("CosineEmbeddingLoss", 0.1, fixed=1, inputs=(x, y, signs[:, 0])),
        case("TripletMarginLoss", swap=True, inputs=(x, y, z)),
        case("CosineSimilarity", inputs=both), case("PairwiseDistance", inputs=both),
        case("CrossEntropyLoss", **given, ours={"weight": weight}, inputs=(x, labels)),
        case("NLLLoss", **given, ours={"weight": weight}, inputs=(x, labels)),
    ])  # fmt: skip


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers(name):
    x, one = (6, 3, 5), (6, 5)
    both = {"num_layers": 2, "bidirectional": True}
    h, c = RNG.normal(size=(4, 3, 7)), RNG.normal(size=(4, 3, 7))
    check([
        case(name, 5, 7, inputs=(x,)), case(name, 5, 7, bias=False, inputs=(one,)),
        case(name, 5, 7, batch_first=True, **both, inputs=(x,)),
        case(name, 5, 7, dropout=0.5, num_layers=2, inputs=(x,), training=False),
        case(f"{name}Cell", 5, 7, inputs=((3, 5),)), case(f"{name}Cell", 5, 7, inputs=((5,),)),
        case(f"{name}Cell", 5, 7, bias=False, inputs=((3, 5),)),
        *([case("RNN", 5, 7, nonlinearity="relu", inputs=(x,)),
           case("RNNCell", 5, 7, nonlinearity="relu", inputs=((3, 5),))] if name == "RNN" else []),
        *([case("LSTM", 5, 7, proj_size=3, **both, inputs=(x,))] if name == "LSTM" else
          [case(name, 5, 7, **both, inputs=(x, h)),
          case(f"{name}Cell", 5, 7, inputs=((3, 5), h[0]))]),
    ])  # fmt: skip
    if name == "LSTM":
        theirs = torch.nn.LSTM(5, 7, **both).double()
        ours = nn.LSTM(5, 7, **both).to(pb.float64).load_state_dict(theirs.state_dict())
        wanted = theirs(torch.tensor(xs := RNG.normal(size=x)), (torch.tensor(h), torch.tensor(c)))
        for a, b in zip(leaves(ours(xs, (h, c))), leaves(wanted), strict=True):
            close(a, b, "LSTM with states")


def test_dropout_keeps_the_expectation():
    x = np.ones((200, 50, 4))
    for name in ("Dropout", "Dropout1d", "AlphaDropout", "FeatureAlphaDropout"):
        torch.manual_seed(0)
        theirs = getattr(torch.nn, name)(0.25)(torch.tensor(x)).numpy()
        ours = getattr(nn, name)(0.25)(pb.tensor(x), key=pb.random.key(0)).numpy()
        np.testing.assert_allclose(np.unique(ours.round(9)), np.unique(theirs.round(9)), 1e-8)
        assert abs(ours.mean() - theirs.mean()) < 0.1
        assert getattr(nn, name)().eval()(x).tolist() == x.tolist()
