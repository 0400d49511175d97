"""pb.fft agrees with NumPy and SciPy in both engines, and is linear in every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
from helpers import told

import pullback as pb
from pullback import testing
from pullback.engines.engine_registry import registered_engine
from pullback.errors import ArgumentError, AxisError, DTypeError, ShapeError
from pullback.ops.fft.fourier import Irfft

RNG = np.random.default_rng(0)
V = RNG.standard_normal(7)
A = RNG.standard_normal((4, 5))
B = RNG.standard_normal((2, 3, 4, 3))
Z = A + 1j * RNG.standard_normal((4, 5))
C = B + 1j * RNG.standard_normal(B.shape)
W = RNG.standard_normal((2, 2, 1, 3, 2)) + 1j
SIZES = [*range(1, 33), 37, 41, 43, 47, 49, 53, 59, 61, 64, 97, 101, 120, 1009, 2018, 4096, 4099]
NORMS = ("backward", "ortho", "forward")

Case = tuple[str, tuple, dict]

CASES: list[Case] = [
    *[(f, (z,), {"norm": n}) for f in ("fft", "ifft", "hfft", "irfft", "fftn", "ifftn", "irfftn",
                                       "fft2", "ifft2", "irfft2") for z in (Z, C) for n in NORMS],
    *[(f, (x,), {"norm": n}) for f in ("rfft", "ihfft", "rfftn", "rfft2")
      for x in (A, B) for n in NORMS],
    *[(f, (Z,), {"axis": a, "n": n}) for f in ("fft", "ifft", "irfft", "hfft")
      for a, n in ((0, 3), (1, 8), (-2, 1))],
    *[(f, (A,), {"axis": a, "n": n}) for f in ("rfft", "ihfft") for a, n in ((0, 3), (1, 8))],
    *[(f, (C,), {"s": (3, 6), "axes": (2, 0)}) for f in ("fftn", "ifftn", "irfftn")],
    *[(f, (C,), {"s": (3, 7), "axes": (-1, 1), "norm": "ortho"}) for f in ("fft2", "irfft2")],
    *[(f, (C,), {"axes": (1,)}) for f in ("fftn", "ifftn", "irfftn")],
    ("rfftn", (B,), {"s": (3, 6), "axes": (2, 0)}), ("rfftn", (B,), {"axes": (3, 1)}),
    *[(f, (W,), {}) for f in ("fftn", "ifftn", "irfftn")], ("rfftn", (W.real,), {}),
    *[(f, (C,), {"s": (4, -1), "axes": (1, 2)}) for f in ("fftn", "irfftn")],
    *[(f, (C,), {"s": (3, 5), "axes": (2, 0), "norm": n}) for f in ("hfftn", "hfft2")
      for n in NORMS],
    *[(f, (B,), {"s": (3, 5), "axes": (2, 0), "norm": n}) for f in ("ihfftn", "ihfft2")
      for n in NORMS],
    ("hfftn", (Z,), {}), ("ihfft2", (B,), {}),
    ("fft", (np.ones((0, 3)),), {}), ("rfft", (np.ones((3, 0)),), {"axis": 0}),
    ("fft", (np.ones(0),), {"n": 2}), ("irfft", (A,), {"n": 5}), ("fft", (V,), {"norm": None}),
    ("rfftfreq", (9, 0.1), {}), ("rfftfreq", (8,), {}), ("fftfreq", (1,), {"d": -2.0}),
    *[("fftfreq", (n, 0.25), {}) for n in (5, 6)],
    *[(f, (x,), {"axes": a}) for f in ("fftshift", "ifftshift")
      for x, a in ((V, None), (A, None), (B, (0, -1)), (B, 2), (np.ones((0, 3)), None))],
]  # fmt: skip

COSINES: list[Case] = [
    *[(f, (x,), {"type": t, "norm": n, "axis": 0}) for f in ("dct", "idct", "dst", "idst")
      for x in (V, B[:, 0, :, :]) for t in (1, 2, 3, 4) for n in NORMS],
    *[(f, (A,), {"type": t, "orthogonalize": o, "norm": n, "n": k}) for f in ("dct", "idst")
      for t, n, k in ((1, "ortho", 4), (2, "backward", 6), (3, "forward", 5), (4, "ortho", 3))
      for o in (True, False)],
    *[(f, (B,), {"type": t, "axes": (2, 1), "s": (5, 3)})
      for f in ("dctn", "idctn", "dstn", "idstn") for t in (2, 4)],
    ("dct", (Z,), {}), ("idst", (Z,), {"norm": "ortho", "type": 3}), ("idctn", (A,), {}),
    *[(f, (A[:, :1],), {"type": t}) for f in ("dct", "idst") for t in (2, 3, 4)],
    ("dct", (A[:, :2],), {"type": 1}), ("dst", (A[:, :1],), {"type": 1}),
]  # fmt: skip


def answer(name: str, args: tuple, kwargs: dict) -> np.ndarray:
    space: Any = np.fft if hasattr(np.fft, name) else scipy.fft
    return np.asarray(getattr(space, name)(*args, **kwargs))


def check_all(cases: list[Case]) -> None:
    """All calls in one program."""
    with pb.default_dtype("float64"):
        made = [getattr(pb.fft, name)(*args, **kwargs) for name, args, kwargs in cases]
    pb.evaluate(made)
    for got, (name, args, kwargs) in zip(made, cases, strict=True):
        want = answer(name, args, kwargs)
        label = f"{name} {[np.shape(a) for a in args]} {kwargs}"
        assert (got.shape, got.dtype.numpy) == (want.shape, want.dtype), label
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-13, err_msg=label)


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("cases", [CASES, COSINES], ids=["fourier", "cosine"])
def test_values_agree_with_numpy_and_scipy(cases: list[Case], engine: str) -> None:
    with pb.config(engine=engine):  # compiling takes most of the time
        check_all(cases if engine == "reference" else cases[::3])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_lengths_of_every_factorisation(dtype: Any) -> None:
    """The error is a few roundings, also for lengths with large prime factors."""
    signals = [RNG.standard_normal(2 * n).view(np.complex128).astype(dtype) for n in SIZES]
    pairs = [
        (lambda z: pb.fft.fft(z), np.fft.fft),
        (lambda z: pb.fft.rfft(z.real), lambda z: np.fft.rfft(z.real)),
        (lambda z: pb.fft.irfft(z, z.size), lambda z: np.fft.irfft(z, z.size)),
    ]
    made = [[f(pb.tensor(z)) for f, _ in pairs] for z in signals]
    pb.evaluate(made)
    for n, z, results in zip(SIZES, signals, made, strict=True):
        for got, (_, reference) in zip(results, pairs, strict=True):
            want = reference(z.astype(np.complex128))
            error = np.linalg.norm(got.numpy() - want)
            assert error <= 10 * np.finfo(dtype).eps * np.linalg.norm(want), n


DTYPES = {
    "bool": "complex64", "int8": "complex64", "int64": "complex64", "float16": "complex64",
    "bfloat16": "complex64", "float32": "complex64", "float64": "complex128",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip


@pytest.mark.parametrize("given", DTYPES)
def test_dtypes_of_results(given: str) -> None:
    x = pb.ones(4, dtype=given)
    wide = pb.zeros(1, dtype=DTYPES[given]).dtype
    assert pb.fft.fft(x).dtype is pb.fft.ifftn(x).dtype is wide
    assert pb.fft.irfft(x).dtype is pb.fft.hfft(x).dtype is wide.real
    assert pb.fft.fftshift(x).dtype is x.dtype
    if x.dtype.is_complex:
        assert pb.fft.dct(x).dtype is wide
    else:
        assert pb.fft.rfft(x).dtype is pb.fft.ihfft(x).dtype is wide
        assert pb.fft.dct(x).dtype is wide.real
    with pb.default_dtype("float64"):
        assert pb.fft.fft([1, 2]).dtype is pb.complex128
    assert pb.fft.fftfreq(3).dtype is pb.float32
    if x.dtype.is_float:
        assert pb.fft.fftfreq(3, dtype=given).dtype is x.dtype


def linear_functions() -> list[Callable]:
    f = pb.fft
    return [
        f.fft, lambda z: f.ifft(z, 6, 0, "ortho"), f.fftn, f.ifftn, lambda z: f.fft2(z, (2, 7)),
        lambda z: f.irfft(z, 7), f.irfftn, lambda z: f.hfft(z, axis=0), lambda z: f.rfft(z.real),
        lambda z: f.ihfft(z.imag, 4), f.hfft2, lambda z: f.rfftn(z.real, norm="forward"),
        f.fftshift,
        *[lambda z, t=t: f.dct(z.real, t) for t in (1, 2, 3, 4)],
        lambda z: f.idst(z, 1), lambda z: f.dstn(z.imag, 3, norm="ortho"),
    ]  # fmt: skip


def test_derivatives_in_both_modes() -> None:
    """A transform is linear: its derivative is itself, its gradient that of its matrix."""
    with pb.config(engine="reference"):  # the op table compares the engines
        for f in linear_functions():
            # cubes, so that second derivatives are not zero
            pb.check_grads(lambda z, f=f: pb.sum(pb.abs(f(z * z * z)) ** 2), (Z[:3, :4] / 2,), 2)


def test_transforms_of_examples_in_one_program() -> None:
    functions = linear_functions()
    made = pb.compile(lambda batch: [pb.vmap(f)(batch) for f in functions])(pb.tensor(C[0]))
    with pb.config(engine="reference"):
        for f, got in zip(functions, made, strict=True):
            want = np.stack([f(z).numpy() for z in C[0]])
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-13)


def test_a_transform_and_its_inverse_on_a_mesh() -> None:
    mesh = pb.DeviceMesh(1, "dp")
    x = pb.shard(pb.tensor(A), mesh, pb.P("dp", None))
    spectrum = pb.fft.rfft(x)
    assert spectrum.sharding.spec == pb.P("dp")
    np.testing.assert_allclose(pb.fft.irfft(spectrum, 5).numpy(), A, atol=1e-14)


def test_the_spacing_of_samples_may_be_differentiated() -> None:
    slope = pb.jacfwd(lambda d: pb.fft.fftfreq(4, d, dtype="float64"))(pb.tensor(0.5, "float64"))
    np.testing.assert_allclose(slope.numpy(), -np.fft.fftfreq(4) / 0.25)


def test_convolution_theorem_in_a_loop() -> None:
    """A scan whose body has a transform and its gradient."""
    kernel = np.fft.rfft(V)

    def step(x: Any, _: Any) -> Any:
        y = pb.fft.irfft(pb.fft.rfft(x) * kernel, 7)
        return y / pb.norm(y), pb.sum(y)

    def last(x: Any) -> Any:
        return pb.scan(step, x, length=3)[1][-1]

    x = pb.tensor(V)
    with pb.config(engine="reference"):
        pb.check_grads(last, (x,), 2)
        want = pb.grad(last)(x).numpy()
    np.testing.assert_allclose(pb.grad(last)(x).numpy(), want, rtol=1e-10)


class OnAnotherPlatform(Irfft, abstract=True):
    """The inverse real transform as it is lowered for GPUs."""

    name = "OnAnotherPlatform"

    def hlo(self, b: Any, out: Any, x: Any) -> Any:
        platform, b.platform = b.platform, "cuda"
        made = super().hlo(b, out, x)
        b.platform = platform
        return made


def test_the_lowering_for_gpus_means_the_same() -> None:
    """One axis is transformed after the other, and coefficients at the ends are made real."""
    for axes, length in (((1,), 4), ((1,), 5), ((0, 1), 4), ((0, 2, 3, 1), 5)):
        x = np.moveaxis(C, -1, 1)[:, :, :2, :2]
        op = OnAnotherPlatform(axes, length)
        (got,) = testing.run(testing.graph_of(op, [x]), [x], registered_engine("xla"))
        np.testing.assert_allclose(got, op.numpy(x), rtol=1e-12, atol=1e-13)


def test_errors_name_the_function_and_the_argument() -> None:
    f = pb.fft
    with told(ShapeError, ValueError, "fft.fft", "at least 1"):
        f.fft(V, 0)
    with told(ShapeError, ValueError, "fft.fft", "no elements"):
        f.fft(np.ones((2, 0)))
    with told(ShapeError, ValueError, "fft.irfft", "at least 1"):
        f.irfft([1.0])
    with told(AxisError, IndexError, "fft.ifft", "axis 2"):
        f.ifft(A, axis=2)
    with told(AxisError, IndexError, "fft.fft", "rank 0"):
        f.fft(1.0)
    with told(AxisError, IndexError, "fft.fftn", "twice"):
        f.fftn(A, axes=(0, -2))
    with told(DTypeError, TypeError, "fft.rfft", "real"):
        f.rfft(Z)
    with told(DTypeError, TypeError, "fft.ihfft", "real"):
        f.ihfft(Z)
    with told(ArgumentError, ValueError, "fft.fft", "ortho"):
        f.fft(V, norm="both")
    with told(ArgumentError, ValueError, "fft.fft2", "norm"):
        f.fft2(A, norm=3)
    with told(ShapeError, ValueError, "fft.fftn", "same length"):
        f.fftn(A, s=(2,), axes=(0, 1))
    with told(ShapeError, ValueError, "fft.rfftn", "3 lengths"):
        f.rfftn(A, s=(2, 2, 2))
    with told(ArgumentError, ValueError, "fft.fftn", "axis"):
        f.fftn(1.0)
    with told(ArgumentError, TypeError, "fft.fft", "integer"):
        f.fft(V, 2.5)
    with told(ArgumentError, ValueError, "fft.dct", "1, 2, 3 or 4"):
        f.dct(V, 5)
    with told(ShapeError, ValueError, "fft.dct", "at least 2"):
        f.dct([1.0], 1)
    with told(ShapeError, ValueError, "fft.fftfreq", "at least 1"):
        f.fftfreq(0)
    with told(ArgumentError, ValueError, "fft.rfftfreq", "d must not be 0"):
        f.rfftfreq(3, 0.0)
    with told(DTypeError, TypeError, "fft.fftfreq", "float"):
        f.fftfreq(3, dtype="int32")
    with told(ArgumentError, TypeError, "fft.fftfreq", "d must be"):
        f.fftfreq(3, "far")


def test_dir_lists_only_public_names() -> None:
    assert set(dir(pb.fft)) == set(pb.fft.__all__)
