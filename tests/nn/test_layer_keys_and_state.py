"""Keys of dropout and of parameters, running statistics, state dicts, and refused arguments."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, InPlaceError, ShapeError

KEY = pb.random.key(7)
X = pb.ones(64)


@pytest.fixture
def _by_numpy():
    """Tests of many small values compile nothing."""
    with pb.config(engine="reference"):
        yield


@pytest.mark.usefixtures("_by_numpy")
def test_keys_of_dropout_come_from_the_call_a_block_or_the_default_stream():
    layer = nn.Dropout(0.5)
    given = layer(X, key=KEY).tolist()
    assert given == layer(X, key=KEY).tolist() == nn.functional.dropout(X, key=KEY).tolist()
    with nn.rng(KEY):
        block = [layer(X).tolist(), layer(X).tolist()]
    with nn.rng(KEY):
        assert [layer(X).tolist(), layer(X).tolist()] == block
    assert block[0] != block[1]
    nn.seed(1)
    stream = [layer(X).tolist() for _ in range(2)]
    nn.seed(1)
    assert [layer(X).tolist() for _ in range(2)] == stream
    assert stream[0] != stream[1]
    assert layer.eval()(X).tolist() == X.tolist()


def test_a_compiled_function_draws_other_numbers_at_each_call():
    layer = nn.Dropout(0.5)
    f = pb.compile(lambda x: layer(x))
    nn.seed(1)
    drawn = [f(X).tolist() for _ in range(3)]
    nn.seed(1)
    assert [layer(X).tolist() for _ in range(3)] == drawn
    assert len(set(map(tuple, drawn))) == 3
    g = pb.compile(lambda m, x, key: m(x, key=key))
    assert g(layer, X, KEY).tolist() == layer(X, key=KEY).tolist()


def test_bodies_that_run_several_times_need_keys():
    layer, x = nn.Dropout(0.5), pb.ones((2, 8))
    for transform in (pb.vmap(layer), pb.checkpoint(layer), lambda x: pb.map(layer, x)):
        with pytest.raises(ArgumentError, match=r"dropout: there is no key.*\n.*nn.rng\(key\)"):
            transform(x)
    keys = pb.random.split(KEY, 2)
    rows = pb.vmap(lambda x, key: layer(x, key=key))(x, keys)
    assert rows[1].tolist() == layer(x[1], key=keys[1]).tolist()


@pytest.mark.usefixtures("_by_numpy")
def test_whole_channels_are_dropped():
    for name, shape, layout in (
        ("Dropout1d", (3, 5, 4), "NHWC"), ("Dropout2d", (3, 4, 5, 5), "NCHW"),
        ("Dropout3d", (2, 2, 2, 4), "NHWC"),
    ):  # fmt: skip
        y = getattr(nn, name)(0.5, layout=layout)(pb.ones(shape), key=KEY).numpy()
        single = y[None] if name == "Dropout3d" else y
        y = np.moveaxis(single, 1, -1) if layout == "NCHW" else single
        rows = y.reshape(y.shape[0], -1, 4)
        assert (rows == rows[:, :1]).all()
        assert set(rows.ravel()) == {0.0, 2.0}


@pytest.mark.usefixtures("_by_numpy")
def test_recurrent_layers_drop_outputs_between_layers():
    layer, x = nn.GRU(3, 4, num_layers=2, dropout=0.5), pb.ones((5, 2, 3))
    y, same = layer(x, key=KEY)[0].numpy(), layer(x, key=KEY)[0].numpy()
    assert (y == same).all()
    with nn.rng(KEY):
        other = layer(x)[0].numpy()
    assert (y != other).any()
    plain = nn.GRU(3, 4, num_layers=2).load_state_dict(layer.state_dict())(x)[0].numpy()
    np.testing.assert_allclose(layer.eval()(x)[0].numpy(), plain)
    assert (y != plain).any()


@pytest.mark.usefixtures("_by_numpy")
def test_parameters_are_drawn_by_key():
    def make():
        return nn.Sequential(nn.Conv2d(2, 3, 3), nn.GRU(3, 2), nn.Embedding(4, 2))

    with nn.rng(KEY):
        first = make()
    with nn.rng(KEY):
        second = make()
    third = make()
    for a, b, c in zip(first.parameters(), second.parameters(), third.parameters(), strict=True):
        assert a.tolist() == b.tolist() != c.tolist()
    conv, gru, table = first
    assert abs(conv.weight.numpy()).max() <= 18**-0.5
    assert abs(gru.bias_hh_l0.numpy()).max() <= 2**-0.5
    explicit = nn.Embedding(4, 2, key=KEY).weight
    assert explicit.tolist() == pb.random.normal(pb.random.split(KEY, 1)[0], (4, 2)).tolist()
    assert table.weight.dtype is pb.float32
    assert nn.Conv1d(1, 1, 1, dtype=pb.bfloat16).weight.dtype is pb.bfloat16


@pytest.mark.usefixtures("_by_numpy")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_results_have_the_dtype_of_parameters_and_inputs(dtype):
    x, rows = pb.ones((2, 4, 4, 3), dtype=dtype), pb.ones((5, 2, 3), dtype=dtype)
    images = [
        nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(3, momentum=None),
        nn.InstanceNorm2d(3, affine=True, track_running_stats=True), nn.GroupNorm(3, 3),
        nn.LayerNorm(3), nn.RMSNorm(3), nn.Linear(3, 2), nn.PReLU(), nn.Dropout(), nn.MaxPool2d(2),
    ]  # fmt: skip
    sequences = [nn.LSTM(3, 4, 2, bidirectional=True), nn.GRU(3, 4)]
    for layer, given in [*[(m, x) for m in images], *[(m, rows) for m in sequences]]:
        model = layer.to(dtype)

        def loss(model, x):
            y = model(x)
            y = y[0] if isinstance(y, tuple) else y
            assert y.dtype is getattr(pb, dtype)
            return y.astype("float32").sum(), model

        grads, new = pb.grad(loss, has_aux=True)(model, given)
        assert all(np.isfinite(g.numpy().astype("float64")).all() for g in grads.parameters())
        assert all(b.dtype in (getattr(pb, dtype), pb.int64) for b in new.buffers())


def test_large_parameters_are_the_same_as_small_ones():
    shape, key = (200, 1024), pb.random.split(KEY, 2)[0]
    large = nn.Linear(1024, 200, key=KEY).weight.numpy()  # computed by a program
    with pb.config(engine="reference"):
        assert (pb.random.uniform(key, shape, None, -1 / 32, 1 / 32).numpy() == large).all()


def batch(n: int = 6) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


@pytest.mark.usefixtures("_by_numpy")
def test_running_statistics():
    layer, mean, var = nn.BatchNorm1d(3, momentum=0.25), np.zeros(3), np.ones(3)
    average = nn.BatchNorm1d(3, momentum=None)
    for n in (4, 5, 6):
        layer(batch(n)), average(batch(n))
        mean = 0.75 * mean + 0.25 * batch(n).mean(0)
        var = 0.75 * var + 0.25 * batch(n).var(0, ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, 1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), var, 1e-5)
    means = [batch(n).mean(0) for n in (4, 5, 6)]
    np.testing.assert_allclose(average.running_mean.numpy(), np.mean(means, 0), 1e-5, 1e-7)
    assert layer.num_batches_tracked.item() == 3
    wanted = (batch() - mean) / np.sqrt(var + 1e-5)
    np.testing.assert_allclose(layer.eval()(batch()).numpy(), wanted, 1e-5, 1e-6)
    assert layer.num_batches_tracked.item() == 3
    alone = nn.BatchNorm1d(3, track_running_stats=False, affine=False)
    assert not list(alone.state_dict())
    assert (alone(batch()).numpy() == alone.eval()(batch()).numpy()).all()


def test_statistics_are_returned_by_functional_code_and_written_by_imperative_code():
    def loss(model, x):
        return (model(x) ** 2).sum(), model

    layer, x = nn.BatchNorm1d(3), pb.tensor(batch())
    step = pb.compile(pb.value_and_grad(loss, has_aux=True))
    (_, new), grads = step(layer, x)
    (_, new), _ = step(new, x)
    assert layer.num_batches_tracked.item() == 0
    assert new.num_batches_tracked.item() == 2
    assert grads.running_mean is None and grads.weight.shape == (3,)
    layer.requires_grad_()
    for _ in range(2):
        loss(layer, x)[0].backward()
    np.testing.assert_allclose(layer.running_var.numpy(), new.running_var.numpy(), 1e-5)
    with pytest.raises(InPlaceError, match="changed 'running_mean' of BatchNorm1d"):
        pb.grad(lambda m, x: loss(m, x)[0])(layer, x)
    with pytest.raises(InPlaceError, match="vmap"):
        pb.vmap(layer)(pb.ones((2, 4, 3)))


@pytest.mark.usefixtures("_by_numpy")
def test_state_dicts_of_pytorch():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 5, groups=1), nn.BatchNorm2d(4), nn.ConvTranspose1d(4, 2, 3)
    )
    theirs = {
        "0.weight": np.arange(300.0, dtype=np.float32).reshape(4, 3, 5, 5),
        "0.bias": np.zeros(4, np.float32), "1.weight": np.ones(4, np.float32),
        "1.bias": np.ones(4, np.float32), "1.running_mean": np.ones(4, np.float32),
        "1.running_var": np.ones(4, np.float32), "1.num_batches_tracked": np.array(3),
        "2.weight": np.arange(24.0, dtype=np.float32).reshape(4, 2, 3),
        "2.bias": np.ones(2, np.float32),
    }  # fmt: skip
    model.load_state_dict(nn.from_torch(model, theirs))
    assert model[0].weight.numpy()[1, 2, 0, 3] == theirs["0.weight"][3, 0, 1, 2]
    assert model[2].weight.numpy()[2, 1, 3] == theirs["2.weight"][3, 1, 2]
    assert model[1].num_batches_tracked.item() == 3
    first = nn.Conv2d(3, 4, 5, layout="NCHW").load_state_dict(
        {"weight": theirs["0.weight"], "bias": theirs["0.bias"]}
    )
    assert (first.weight.numpy() == theirs["0.weight"]).all()
    names = list(nn.LSTM(2, 3, bidirectional=True, proj_size=1).state_dict())
    assert names[:5] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"]
    assert names[5:] == [f"{name}_reverse" for name in names[:5]]


@pytest.mark.usefixtures("_by_numpy")
def test_layers_show_their_settings():
    shown = {
        nn.MaxPool2d(3, stride=2): "MaxPool2d(kernel_size=3, stride=2)", nn.ReLU(): "ReLU()",
        nn.Dropout(0.25, inplace=True): "Dropout(p=0.25)", nn.Softmax(): "Softmax()",
        nn.CrossEntropyLoss(weight=[1.0]): "CrossEntropyLoss(): weight f32[1]",
    }  # fmt: skip
    for layer, text in shown.items():
        assert repr(layer).partition("  #")[0] == text


REFUSED = {
    "Conv2d: in_channels must be at least 1": lambda: nn.Conv2d(0, 3, 3),
    "Conv2d: groups must divide": lambda: nn.Conv2d(4, 6, 3, groups=4),
    "Conv2d: kernel_size must be": lambda: nn.Conv2d(4, 6, (3, 3, 3)),
    'Conv1d: layout must be "NHWC"': lambda: nn.Conv1d(4, 6, 3, layout="CHWN"),
    'Conv2d: padding must be "same"': lambda: nn.Conv2d(4, 6, 3, padding="full"),
    "Conv2d: padding must be a pair": lambda: nn.Conv2d(4, 6, 3, padding=((1, 1),)),
    "Conv2d: padding_mode must be one of": lambda: nn.Conv2d(4, 6, 3, padding_mode="wrap"),
    "Conv2d: there is no argument 'kernel'": lambda: nn.Conv2d(4, 6, kernel=3),
    "BatchNorm1d: 'num_features' is missing": lambda: nn.BatchNorm1d(),
    "ReLU: inplace must be True or False": lambda: nn.ReLU(inplace="yes"),
    "Conv2d: bias must be True or False": lambda: nn.Conv2d(4, 6, 3, bias="no"),
    "ConvTranspose2d: output_size must be": lambda: nn.ConvTranspose2d(1, 1, 3)(
        pb.ones((1, 2, 2, 1)), 9),
    "BatchNorm2d: needs .N, H, W, C.": lambda: nn.BatchNorm2d(3)(pb.ones((2, 3))),
    "BatchNorm2d: eps must be a real number": lambda: nn.BatchNorm2d(3, "small"),
    "GroupNorm: num_groups must divide": lambda: nn.GroupNorm(3, 4),
    "Embedding: padding_idx must be": lambda: nn.Embedding(3, 2, padding_idx=3),
    "ReLU: takes no argument|ReLU": lambda: nn.ReLU(1, 2, 3),
    "Dropout: p must be a real number": lambda: nn.Dropout("half"),
    "dropout: p must be a probability": lambda: nn.Dropout(2.0)(X, key=KEY),
    "GRU: a state must be .1, 2, 4.": lambda: nn.GRU(3, 4)(pb.ones((5, 2, 3)), pb.ones((1, 2, 3))),
    "GRU: the last dimension must be input_size=3": lambda: nn.GRU(3, 4)(pb.ones((5, 2, 2))),
    "LSTM: the state must be a pair": lambda: nn.LSTM(3, 4)(pb.ones((5, 3)), pb.ones((1, 4))),
    "LSTM: proj_size must be less": lambda: nn.LSTM(3, 4, proj_size=4),
    "LSTMCell: a state must be": lambda: nn.LSTMCell(3, 4)(pb.ones(3), (pb.ones(4), pb.ones(3))),
    "nonlinearity must be one of": lambda: nn.RNN(3, 4, nonlinearity="gelu"),
    "GRU: dropout must be a probability": lambda: nn.GRU(3, 4, dropout=2.0),
    "ZeroPad2d: padding must be a number, or 4": lambda: nn.ZeroPad2d((1, 2))(pb.ones((2, 2, 1))),
    "nn.from_torch: model must be a module": lambda: nn.from_torch({}, {}),
    "nn.from_torch: values must be a state dict": lambda: nn.from_torch(nn.ReLU(), [1]),
}  # fmt: skip


@pytest.mark.usefixtures("_by_numpy")
def test_refused_arguments_are_named():
    for message, call in REFUSED.items():
        with pytest.raises((ArgumentError, ShapeError), match=message):
            call()


def test_state_is_found_although_the_collector_does_not_see_it():
    f = pb.compile(lambda: nn.next_key())
    nn.seed(1)
    gc.freeze()
    try:
        drawn = [f().tolist() for _ in range(2)]
    finally:
        gc.unfreeze()
    assert drawn[0] != drawn[1]
