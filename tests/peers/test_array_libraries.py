"""Tensors in other libraries: each test runs where the library is installed."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import pullback as pb

pytestmark = pytest.mark.filterwarnings("default")  # those of other libraries are theirs


@pytest.fixture(params=["xla", "reference"], autouse=True)
def _engine(request):
    with pb.config(engine=request.param):
        yield


def test_torch_through_dlpack(on_cpu):
    torch = pytest.importorskip("torch")
    x = pb.arange(6.0).reshape(2, 3) * 2
    shared = torch.from_dlpack(x)
    assert shared.data_ptr() == x.numpy().ctypes.data and shared.tolist() == x.tolist()
    for dtype in ("bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64"):
        y = pb.tensor([[1, 0, 2]], dtype=dtype)
        there = torch.from_dlpack(y)
        assert str(there.dtype) == f"torch.{dtype}"
        assert pb.from_dlpack(there).dtype is pb.asarray(there).dtype is y.dtype
        assert (pb.from_dlpack(there) == y).all()
    source = torch.zeros(3)
    copied, alias = pb.from_dlpack(source), pb.from_dlpack(source, copy=False)
    source += 1
    assert copied.tolist() == [0.0] * 3 and alias.tolist() == [1.0] * 3
    with pytest.raises(pb.errors.ArgumentError, match="does not export its memory"):
        pb.from_dlpack(torch.ones(2, requires_grad=True))


def test_jax_through_dlpack(on_cpu):
    jax = pytest.importorskip("jax")
    x = pb.arange(3.0) * 2
    assert jax.dlpack.from_dlpack(x).tolist() == [0.0, 2.0, 4.0]
    assert pb.from_dlpack(jax.numpy.arange(3.0), copy=False).tolist() == [0.0, 1.0, 2.0]
    assert pb.asarray(jax.numpy.ones(2, "bfloat16")).dtype is pb.bfloat16


def test_strict_arrays():
    strict = pytest.importorskip("array_api_strict")
    x = pb.arange(3.0)
    assert pb.from_dlpack(strict.ones(3)).tolist() == [1.0] * 3
    expected = strict.asarray([0.0, 1.0, 2.0], dtype=strict.float32)
    assert strict.all(strict.from_dlpack(x) == expected)


def test_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = pb.ones((2, 3))
    assert compat.array_namespace(x, x) is pb and compat.is_array_api_obj(x)
    assert (compat.device(x), compat.size(x)) == (x.device, 6)
    assert compat.to_device(x, "cpu:0").device == "cpu:0" and compat.is_writeable_array(x)


def test_einops():
    pytest.importorskip("einops")
    from einops import array_api as einops

    x = pb.arange(24.0).reshape(2, 3, 4)
    made = einops.rearrange(x, "a b c -> c (a b)")
    np.testing.assert_array_equal(made.numpy(), x.numpy().transpose(2, 0, 1).reshape(4, 6))
    assert einops.reduce(x, "a b c -> b", "max").tolist() == [15.0, 19.0, 23.0]
    assert einops.repeat(x, "a b c -> a b (c r)", r=2).shape == (2, 3, 8)
    slope = pb.grad(lambda x: einops.reduce(x, "a b c -> a", "mean").sum())(x)
    np.testing.assert_allclose(slope.numpy(), 1 / 12)


def test_einops_itself():
    einops = pytest.importorskip("einops")
    importlib.import_module("pullback.interop.einops_backend")
    x = pb.arange(24.0).reshape(2, 3, 4)
    packed, shapes = einops.pack([x, x[:, 0]], "a * c")
    assert [y.shape for y in einops.unpack(packed, shapes, "a * c")] == [(2, 3, 4), (2, 4)]
    for made, want in (
        (einops.rearrange(x, "a b c -> c (a b)"), einops.rearrange(x.numpy(), "a b c -> c (a b)")),
        (einops.rearrange([x, x], "n a b c -> a b (n c)"), np.concatenate([x, x], axis=2)),
        (einops.reduce(x, "a b c -> b", "mean"), x.numpy().mean((0, 2))),
        (einops.repeat(x, "a b c -> a r b c", r=2), np.stack([x, x], axis=1)),
        (einops.einsum(x, x, "a b c, a d c -> b d"), np.einsum("abc,adc->bd", x, x)),
    ):
        assert isinstance(made, pb.Tensor)
        np.testing.assert_allclose(made.numpy(), want)
    slope = pb.grad(lambda x: einops.reduce(x, "a b c -> a", "max").sum())(x)
    assert slope.sum() == 2 and einops.parse_shape(x, "a b c") == {"a": 2, "b": 3, "c": 4}


def test_pandas():
    pandas = pytest.importorskip("pandas")
    x, series = pb.arange(3.0), pandas.Series([0.0, 1.0, 2.0])
    for made in (series * x, x * series, np.multiply(series, x)):
        assert isinstance(made, pandas.Series) and made.tolist() == [0.0, 1.0, 4.0]
    assert pandas.Series(x).dtype == np.float32 and pandas.DataFrame(pb.ones((2, 3))).shape == (
        2,
        3,
    )
    frame = pandas.DataFrame({"a": series})
    frame["b"] = x
    assert frame["b"].tolist() == [0.0, 1.0, 2.0]
    mask = x > 0.5
    assert series.where(mask, -1.0).tolist() == [-1.0, 1.0, 2.0]
    assert series[mask.numpy()].tolist() == frame[mask.numpy()]["a"].tolist() == [1.0, 2.0]


def test_sparse_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    a = sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
    x = pb.arange(3.0)
    assert (a @ x).tolist() == (x @ a).tolist() == [0.0, 2.0, 6.0]
    assert (a @ pb.ones((3, 2))).shape == (3, 2) and (pb.ones((2, 3)) @ a).shape == (2, 3)
    assert a.multiply(x).toarray().tolist() == (x * a).toarray().tolist()
    assert sparse.csr_array(pb.eye(2)).nnz == 2


def test_matplotlib():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    x = pb.arange(3.0)
    assert len(pyplot.bar(x, x * 2).patches) == 3
    (line,) = pyplot.plot(x, x**2)
    assert line.get_ydata().tolist() == [0.0, 1.0, 4.0]
    pyplot.scatter(x, x, c=x)
    pyplot.hist(x)
    pyplot.imshow(pb.ones((3, 3)))
    pyplot.fill_between(x, x, x + 1, where=x > 0.5)
    pyplot.errorbar(x, x, yerr=x)
    pyplot.contourf(*pb.meshgrid(x, x), pb.eye(3))
    pyplot.axvline(x[1])
    pyplot.close("all")


def test_images():
    image = pytest.importorskip("PIL.Image")
    pixels = pb.arange(24, dtype="uint8").reshape(2, 4, 3)
    made = image.fromarray(pixels)
    assert made.size == (4, 2) and pb.asarray(made).tolist() == pixels.tolist()


def test_xarray():
    xarray = pytest.importorskip("xarray")
    x = pb.arange(6.0).reshape(2, 3)
    a = xarray.DataArray(x, dims=("a", "b"), coords={"b": [1, 2, 3]})
    for made in (
        a, a * 2 + a.mean("a"), a.isel(a=0), a.sel(b=2), a.sum("b"), a.max(), np.exp(a), a.T,
        xarray.concat([a, a], "a"), a.where(a > 1, 0.0), a.roll(b=1), a.diff("b"), a.cumsum("b"),
        a.clip(0, 1), (a > 1).all(), a.groupby("b").mean(), xarray.dot(a, a, dim="b"),
    ):  # fmt: skip
        assert isinstance(made.data, pb.Tensor)
    assert a.where(a > 1, 0.0).values.tolist() == np.where(x.numpy() > 1, x.numpy(), 0).tolist()
