"""Floats, angles, predicates, choices, scales and windows, as in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import told
from numpy_cases import Case, case, check_cases, check_derivatives, check_transforms

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange

RNG = np.random.default_rng(9)
A, V = RNG.normal(size=(3, 4)), RNG.normal(size=4)
I, J = RNG.integers(-9, 9, (3, 4)), np.array([1, -2, 3, 4])  # noqa: E741
Z = A + 1j * np.where(A > 0, A, 0)
HARD = np.array([0.0, -0.0, 1.0, -1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e300, 1e-300])
SHORT = np.array([1.5, np.nan, np.inf, -np.inf, -0.0], np.float32)
# one kind of zero: NumPy does not say which one is larger
PAIRS = (HARD[1:, None], HARD[1:])

FLOATS = [
    *[case(n, *PAIRS) for n in ("fmax", "fmin", "heaviside")],
    case("fmod", A, V), case("fmod", HARD[:, None], [2.0, -3.0, np.inf]), case("fmod", I, J),
    *[case(n, HARD) for n in ("fabs", "rint", "modf", "frexp", "nan_to_num", "absolute")],
    *[case(n, I) for n in ("fabs", "nan_to_num", "absolute")], case("nan_to_num", SHORT),
    case("fix", HARD, like=np.trunc),  # later versions of NumPy warn of their own
    case("nan_to_num", HARD, nan=7.0, posinf=8.0, neginf=-8.0),
    case("nan_to_num", np.array([complex(np.nan, np.inf), 1j])),
    *[case("spacing", x) for x in (HARD[[2, 3, 4, 6, 8, 9]], SHORT[:4])],
    case("divmod", A, V), case("divmod", I, J), case("float_power", I, 2),
    case("float_power", V, J), case("float_power", Z, 2), case("float_power", SHORT[:1], 2.5),
    case("ldexp", HARD, 3), case("ldexp", HARD, -5), case("ldexp", A, J),
    case("ldexp", np.array([1e-300, 1e300, 1.0, 1.0]), [1200, -1200, 1023, -1022]),
    case("ldexp", SHORT, np.array([-3, 1, 1, 1, 2], np.int32)), case("frexp", SHORT),
    case("logaddexp2", A, V), case("logaddexp2", *PAIRS), case("ldexp", 1.0, 4000),
    *[case(n, A * 100) for n in ("deg2rad", "rad2deg", "degrees", "radians")],
    case("deg2rad", J), case("unwrap", np.cumsum(A * 4)), case("unwrap", A * 9, axis=0),
    case("unwrap", [0, 3, 2, 5, 9, 1], period=4), case("unwrap", A * 9, discont=4.0),
    case("unwrap", [0.0, np.pi, 2 * np.pi, -np.pi]), case("unwrap", [2, 3, 0, 4], period=5),
    case("packbits", I > 0), case("packbits", I > 0, axis=1),
    case("packbits", I, bitorder="little"),
    case("unpackbits", np.array([[2], [7], [23]], np.uint8)),
    case("unpackbits", np.array([[2], [7], [23]], np.uint8), axis=1, count=-3),
    case("unpackbits", np.array([5], np.uint8), count=11, bitorder="little"),
    *[case(n, np.array([12, -18, 0, 7, 0]), [8, 12, 5, -7, 0]) for n in ("gcd", "lcm")],
    case("gcd", np.array([2**40, 6**20]), 6**9), case("gcd", np.array([200], "u1"), np.uint8(60)),
]  # fmt: skip

PREDICATES = [
    *[case(n, x) for n in ("iscomplex", "isreal") for x in (Z, A, I)],
    *[case(n, x) for n in ("isneginf", "isposinf") for x in (HARD, I)],
    *[case(n, x) for n in ("iscomplexobj", "isrealobj", "ndim", "shape", "size") for x in (Z, A)],
    case("size", A, axis=1), case("isscalar", 3.0), case("isscalar", A),
    case("real_if_close", Z), case("real_if_close", A + 1e-15j), case("real_if_close", A),
    case("real_if_close", A + 1e-3j, tol=0.1),
    *[case(n, *xs) for n in ("array_equal", "array_equiv")
      for xs in ((A, A), (A, A + 1), (A, A[:1]), (V, np.stack([V, V])), (HARD, HARD))],
    case("array_equal", HARD, HARD, equal_nan=True),
]  # fmt: skip

CHOICES = [
    case("select", [A > 0, A < -1], [A, V], 7.0), case("select", [I > 2], [I], -1),
    case("select", [A > 0, A < 1], [I, A]),
    case("choose", np.array([2, 0, 1, 3]), [V, J * 1.0, 2 * V, -V]),
    case("choose", np.array([5, -1, 1, 2]), [V, 2 * V], mode="wrap"),
    case("choose", np.array([5, -1, 1, 2]), [V, 2 * V], mode="clip"),
    case("choose", np.array([[0], [1]]), [J, 10 * J]),
    case("piecewise", A, [A < 0, A >= 0.5], [lambda x: -x, lambda x: x * x, 9.0]),
    case("piecewise", A, [A < 0], [-1.0, 1.0]), case("piecewise", J, J > 2, [lambda x: x + 1]),
    case("piecewise", np.float64(2.0), [True], [lambda x, k: x * k], 3.0),
    case("logspace", 0, 2, 5), case("logspace", -1, 3, 7, endpoint=False, base=2.0),
    case("logspace", np.array([0.0, 1.0]), 2.0, 4), case("logspace", V, V + 1, 3, axis=-1),
    case("geomspace", 1, 1000, 4), case("geomspace", -8, -1, 4), case("geomspace", 2, 3, 1),
    case("geomspace", np.array([1.0, 4.0]), 64.0, 5), case("geomspace", 1, 9, 3, endpoint=False),
    case("geomspace", 1j, 16j, 5), case("logspace", 1, 2, 0),
    *[case(n, m) for n in ("bartlett", "blackman", "hamming", "hanning") for m in (0, 1, 2, 7)],
    case("kaiser", 9, 5.0), case("kaiser", 1, 2), case("identity", 3),
    case("identity", 2, dtype="int32"), case("concatenate", [A, A]), case("ravel", A),
    case("conjugate", Z), case("invert", I), case("bitwise_not", I), case("left_shift", J, 1),
    case("right_shift", I, 1), case("mod", I, J), case("power", A, 2), case("true_divide", I, 2),
    case("amax", A, axis=0), case("amin", A), case("copy", A), case("around", A),
    *[case(n, np.tanh(A)) for n in ("arccos", "arcsin", "arctan", "arcsinh", "arctanh")],
    case("arccosh", 1 + A * A), case("arctan2", A, V), case("array", [1, 2]),
    case("asanyarray", A), case("ascontiguousarray", A), case("asarray_chkfinite", A),
]  # fmt: skip


@pytest.mark.parametrize(
    "cases", [FLOATS, PREDICATES, CHOICES], ids=["floats", "predicates", "choices"]
)
def test_values_are_those_of_numpy(cases: list[Case]) -> None:
    check_cases(cases)


def test_subnormal_numbers_have_an_exponent() -> None:
    with pb.config(engine="reference"):  # XLA has none
        for kind in (np.float64, np.float32, np.float16):
            x = np.array([3, 1000], kind) * np.finfo(kind).smallest_subnormal
            mantissa, exponent = pb.frexp(x)
            want = np.frexp(x)
            np.testing.assert_array_equal(mantissa.numpy(), want[0])
            np.testing.assert_array_equal(exponent.numpy(), want[1])


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_short_floats(name: str) -> None:
    x = pb.tensor([0.75, -6.0, 80.0, 0.0], dtype=name)
    mantissa, exponent = pb.frexp(x)
    assert mantissa.dtype is x.dtype and exponent.dtype is pb.int32
    assert mantissa.tolist() == [0.75, -0.75, 0.625, 0.0] and exponent.tolist() == [0, 3, 7, 0]
    assert pb.ldexp(mantissa, exponent).tolist() == x.tolist()
    assert pb.modf(x)[0].tolist() == [0.75, 0.0, 0.0, 0.0] and pb.fmax(x, pb.nan).dtype is x.dtype
    assert pb.nan_to_num(x / 0).tolist()[3] == 0.0
    assert pb.nan_to_num(x / 0)[0].item() == pb.finfo(name).max
    assert pb.spacing(pb.ones((), dtype=name)).item() == pb.finfo(name).eps


def test_derivatives() -> None:
    mask = A > 0
    check_derivatives([
        (lambda x, y: pb.fmax(x, y) * pb.fmin(x, y) ** 2, (A, V)),
        (lambda x, y: pb.fmod(x, y) ** 2, (A * 5, V)), (lambda x, y: pb.divmod(x, y)[1], (A, V)),
        (lambda x: pb.ldexp(x, J) ** 2, (A,)), (lambda x: pb.frexp(x)[0] ** 2, (A,)),
        (lambda x: pb.modf(x)[0] ** 2, (A * 5,)), (lambda x: pb.nan_to_num(x) ** 2, (A,)),
        (lambda x, y: pb.heaviside(x, y) * y, (A, V)), (lambda x, y: pb.logaddexp2(x, y), (A, V)),
        (lambda x, y: pb.float_power(x * x, y), (A, V)), (lambda x: pb.unwrap(x) ** 2, (A * 9,)),
        (lambda x: pb.deg2rad(x) * pb.rad2deg(x), (V,)),
        (lambda x, y: pb.select([mask], [x], y) ** 2, (A, V)),
        (lambda x, y: pb.choose([1, 0, 1, 0], [x, y]) ** 2, (V, A)),
        (lambda x: pb.piecewise(x, [mask], [pb.sqrt, lambda v: v**3]), (np.abs(A),)),
        (lambda a, b: pb.logspace(a, b, 4, base=2.0), ([0.5, 1.0], [1.5])),
        (lambda a, b: pb.geomspace(a, b, 4), ([0.5, 1.0], [1.5])),
        (lambda x: pb.vectorize(lambda u, v: u * u * v)(x, pb.tensor(V)), (A,)),
        (lambda x: pb.apply_along_axis(lambda v: v * v.sum(), 0, x), (A,)),
    ])  # fmt: skip


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_what_is_not_chosen_leaves_no_trace(engine: str) -> None:
    x = pb.tensor([-1.0, 0.0, 4.0])
    nan = pb.tensor([pb.nan, 1.0])
    with pb.config(engine=engine):
        root = pb.grad(lambda x: pb.piecewise(x, [x > 0], [pb.sqrt, 0.0]).sum())
        assert root(x).tolist() == [0.0, 0.0, 0.25]
        chosen = pb.grad(lambda x: pb.select([x > 0], [pb.log(x)], 0.0).sum())
        assert chosen(x).tolist() == [0.0, 0.0, 0.25]
        assert pb.grad(lambda x: pb.fmax(x, 0.5).sum())(nan).tolist() == [0.0, 1.0]
        # equal operands share the gradient
        assert pb.grad(lambda x: pb.fmin(x, 1.0).sum())(nan).tolist() == [0.0, 0.5]
        assert pb.grad(lambda x: pb.nan_to_num(x).sum())(nan).tolist() == [0.0, 1.0]


def test_vectorize() -> None:
    def f(x: Any, y: Any) -> Any:
        return pb.where(x > y, x - y, x + y)

    g = pb.vectorize(f, otypes=["float32"], doc="What it does.")
    got, want = g(A, V), np.where(A > V, A - V, A + V)
    assert got.dtype is pb.float32 and g.__doc__ == "What it does." and g.__name__ == "f"
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert pb.vectorize(f)(1.0, 2.0).item() == 3.0 and pb.vectorize(f)(A[:0], V).shape == (0, 4)
    np.testing.assert_allclose(pb.compile(pb.vectorize(f))(A, V).numpy(), want)

    @pb.vectorize(signature="(m,n),(n)->(m),()")
    def product(a: Any, v: Any) -> tuple:
        return a @ v, v.sum()

    many = RNG.normal(size=(5, 1, 3, 4))
    row, total = product(many, A)
    np.testing.assert_allclose(row.numpy(), np.einsum("...ij,...j", many, A))
    np.testing.assert_allclose(total.numpy(), np.broadcast_to(A.sum(-1), (5, 3)))
    power = pb.vectorize(lambda c, x: sum(k * x**i for i, k in enumerate(c)), excluded={0})
    assert power([1.0, 0.0, 2.0], [1.0, 3.0]).tolist() == [3.0, 19.0]
    assert pb.vectorize(f, excluded={"y"})(pb.tensor([1.0, 5.0]), y=2.0).tolist() == [3.0, 3.0]
    for wrong, words in (
        (lambda: pb.vectorize(f, signature="n->n"), "signature must be like"),
        (lambda: product(many), "the signature has 2 operands, but 1 are given"),
        (lambda: product(many, V[:3]), "dimension n is 4, but 3 in operand 1"),
        (lambda: product(V, V), "operand 0 must have the dimensions (m,n), got [4]"),
        (lambda: pb.vectorize(f)(A, V[:3]), "vectorize: "),
        (lambda: pb.vectorize(f, otypes=[])(A, V), "otypes must have a dtype for each of 1"),
        (lambda: pb.vectorize(f, signature="(),()->(n)")(A, V), "must return ranks [1]"),
    ):
        with pytest.raises(pb.PullbackError, match="vectorize") as error:
            wrong()
        assert words in str(error.value)


def test_functions_applied_along_axes() -> None:
    x = RNG.normal(size=(2, 3, 4))
    for axis in (0, 1, -1):
        for f in (lambda v: v.sum(), lambda v: v * 2, lambda v: v[:2][:, None] * v[:2]):
            got = pb.apply_along_axis(f, axis, x).numpy()
            np.testing.assert_allclose(got, np.apply_along_axis(f, axis, x))
    got = pb.apply_along_axis(lambda v, k, shift: v.sum() * k + shift, 1, x, 2.0, shift=1.0)
    np.testing.assert_allclose(got.numpy(), x.sum(1) * 2 + 1)
    for axes in (0, (0, 2), [-1]):
        np.testing.assert_allclose(
            pb.apply_over_axes(pb.sum, x, axes).numpy(), np.apply_over_axes(np.sum, x, axes)
        )
    made = pb.fromfunction(lambda i, j: i * 2 + j, (2, 3))
    np.testing.assert_array_equal(made.numpy(), np.fromfunction(lambda i, j: i * 2 + j, (2, 3)))


def test_they_run_inside_transforms() -> None:
    def f(x: Any) -> tuple:
        return (
            pb.frexp(x), pb.ldexp(x, [1, 2, 3, -900]), pb.modf(x), pb.fmod(x, 0.3), pb.unwrap(x),
            pb.select([x > 0], [x], 1.0), pb.choose(pb.argsort(x), [x, x + 1, x, x * 2]),
            pb.piecewise(x, [x > 0], [pb.sqrt, pb.exp]), pb.array_equal(x, x), pb.packbits(x > 0),
            pb.gcd(pb.argsort(x) * 6, 4), pb.nan_to_num(1 / (x - x)), pb.array_equiv(x, 1.0),
            pb.hanning(3) * x[0], pb.logspace(x, x + 1, 3),
        )  # fmt: skip

    check_transforms(f, A)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.fabs(Z), DTypeError, "fabs: needs real elements"),
        (lambda: pb.ldexp(A, V), DTypeError, "ldexp: needs real numbers and integer exponents"),
        (lambda: pb.frexp(Z), DTypeError, "frexp: needs real elements"),
        (lambda: pb.deg2rad(Z), DTypeError, "deg2rad: needs real elements"),
        (lambda: pb.isneginf(Z), DTypeError, "isneginf: needs real elements"),
        (lambda: pb.select([A > 0], []), ArgumentError, "select: needs as many conditions"),
        (lambda: pb.select([A], [A]), ArgumentError, "select: condlist must have bools"),
        (lambda: pb.choose([0, 2], [V[:2], V[:2]]), IndexOutOfRange, "choose: index 2 is out"),
        (lambda: pb.piecewise(A, [A > 0], []), ArgumentError, "piecewise: needs one function"),
        (lambda: pb.geomspace(0, 1), ArgumentError, "geomspace: start and stop must not be 0"),
        (lambda: pb.logspace(0, 1, -1), ArgumentError, "logspace: num must not be negative"),
        (lambda: pb.hanning(2.5), ArgumentError, "hanning: M must be an integer"),
        (lambda: pb.gcd(A, 2), DTypeError, "gcd: needs integers"),
        (lambda: pb.packbits(A), DTypeError, "packbits: needs bools or integers"),
        (lambda: pb.unpackbits(I), DTypeError, "unpackbits: needs uint8"),
        (lambda: pb.packbits(I, bitorder="x"), ArgumentError, "packbits: bitorder must be"),
        (lambda: pb.asarray_chkfinite([pb.nan]), ArgumentError, "asarray_chkfinite: an element"),
        (lambda: pb.nan_to_num(A, nan="0"), ArgumentError, "nan_to_num: nan must be a real"),
        (lambda: pb.apply_over_axes(lambda x, i: x[0, 0], A, 0), ValueError, "apply_over_axes: "),
    ],
)  # fmt: skip
def test_mistakes_name_the_function(call: Any, error: type, words: str) -> None:
    with told(error, Exception, words):
        call()


def test_logarithms_of_powers_of_two_do_not_overflow() -> None:
    x = pb.tensor([math.log2(1e300), 1e308], dtype="float64")
    assert pb.logaddexp2(x, x).tolist() == pytest.approx([math.log2(2e300), 1e308], rel=1e-15)
