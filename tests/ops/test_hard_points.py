"""Gradients where a formula divides by zero, two values tie, or a number overflows."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb

NAN, INF = float("nan"), float("inf")


@pytest.fixture(params=["xla", "reference"], autouse=True)
def _engine(request):
    with pb.config(engine=request.param), np.errstate(all="ignore"):
        yield


def t64(*values):
    return pb.tensor(list(values), dtype="float64")


def slopes(f, *values, order=1):
    """Return the derivative of an elementwise function at some points; both modes must agree."""

    def reverse(x, order):
        if order == 0:
            return f(x)
        return pb.grad(lambda x: reverse(x, order - 1).sum())(x)

    def forward(x, order):
        if order == 0:
            return f(x)
        return pb.jvp(lambda x: forward(x, order - 1), (x,), (pb.ones_like(x),))[1]

    x = t64(*values)
    by_reverse, by_forward = reverse(x, order).numpy(), forward(x, order).numpy()
    np.testing.assert_array_equal(by_forward, by_reverse, err_msg="forward against reverse")
    return by_reverse.tolist()


def gradient(f, x):
    return pb.grad(lambda x: f(x).sum())(x)


# -- ties -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [pb.max, pb.min])
def test_ties_of_a_reduction_share_the_gradient(largest):
    tie = 3.0 if largest is pb.max else 1.0
    x = t64(tie, 2.0, tie, tie)
    assert gradient(largest, x).tolist() == [1 / 3, 0.0, 1 / 3, 1 / 3]
    _, t = pb.jvp(largest, (x,), (t64(3.0, 100.0, 6.0, 0.0),))
    assert t.item() == 3.0


@pytest.mark.parametrize("largest", [pb.max, pb.min])
def test_ties_are_shared_along_each_row(largest):
    x = pb.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], dtype="float64")
    got = gradient(lambda x: largest(x, axis=1), x)
    np.testing.assert_array_equal(got.numpy(), np.full((2, 3), 1 / 3))
    got = gradient(lambda x: largest(x, axis=0), x).numpy()
    want = [[0, 0, 0], [1, 1, 1]] if largest is pb.max else [[1, 1, 1], [0, 0, 0]]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("pick", [pb.maximum, pb.minimum])
def test_equal_operands_share_the_gradient(pick):
    x, y = t64(1.0, 2.0, 3.0), t64(2.0, 2.0, 2.0)
    gx, gy = pb.grad(lambda x, y: pick(x, y).sum(), (0, 1))(x, y)
    one_sided = [0.0, 0.5, 1.0] if pick is pb.maximum else [1.0, 0.5, 0.0]
    assert gx.tolist() == one_sided and gy.tolist() == one_sided[::-1]
    assert gradient(lambda x: pick(x, x), x).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("largest", [pb.max, pb.min])
def test_seventy_thousand_ties_in_half_precision(dtype, largest):
    x = pb.ones((70_000,), dtype=dtype)
    got = gradient(largest, x)
    assert got.dtype is x.dtype
    want = np.full(70_000, 1 / 70_000, np.float32).astype(got.numpy().dtype)
    np.testing.assert_array_equal(got.numpy(), want)
    assert float(got[0]) > 0
    _, t = pb.jvp(largest, (x,), (x,))
    assert float(t) == 1.0


def test_a_mean_of_seventy_thousand_halves():
    x = pb.ones((70_000,), dtype="float16")
    assert float(pb.mean(x)) == 1.0
    want = np.full(70_000, 1 / 70_000, np.float16)
    np.testing.assert_array_equal(gradient(pb.mean, x).numpy(), want)


# -- kinks ----------------------------------------------------------------------------------------


def test_relu_at_zero():
    assert slopes(pb.relu, -1.0, -0.0, 0.0, 1e-300, 2.0) == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert slopes(pb.relu, -1.0, 0.0, 2.0, order=2) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_relu_of_a_subnormal_number(dtype):
    """XLA's CPU code takes it for 0 in arithmetic, but its gradient is the same on both engines."""
    least = pb.nextafter(pb.zeros((), dtype=dtype), pb.ones((), dtype=dtype))
    x = pb.stack([least, -least, pb.zeros_like(least), pb.full_like(least, INF)])
    assert gradient(pb.relu, x).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert pb.jvp(pb.relu, (x,), (pb.ones_like(x),))[1].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_relu_of_nan():
    assert math.isnan(pb.relu(t64(NAN)).item())
    assert slopes(pb.relu, NAN) == [0.0]


def test_abs_at_zero():
    assert slopes(pb.abs, -2.0, -0.0, 0.0, 3.0) == [-1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_elu_at_zero(alpha):
    def f(x):
        return pb.elu(x, alpha)

    assert slopes(f, 0.0, 1.0, 1e4) == [alpha, 1.0, 1.0]
    assert slopes(f, 0.0, 1.0, 1e4, order=2) == [alpha, 0.0, 0.0]
    assert pb.grad(lambda a: pb.elu(t64(1e4), a).sum())(t64(alpha)).tolist() == [0.0]


@pytest.mark.parametrize("pick", [pb.maximum, pb.minimum])
def test_zeros_are_ordered_by_sign(pick):
    """Whatever the order of the operands: it would decide between inf and -inf in `sqrt`."""
    x, y = t64(-0.0, 0.0, -0.0, 0.0), t64(0.0, -0.0, -0.0, 0.0)
    want = [0.0, 0.0, -0.0, 0.0] if pick is pb.maximum else [-0.0, -0.0, -0.0, 0.0]
    for made in (pick(x, y), pick(y, x), pb.vmap(pick, in_axes=(0, None))(x[None], y)[0]):
        assert np.signbit(made.numpy()).tolist() == np.signbit(want).tolist()


@pytest.mark.parametrize("pick", [pb.maximum, pb.minimum])
def test_maximum_of_nan(pick):
    assert math.isnan(pick(t64(NAN), 1.0).item())
    found = pb.grad(lambda x, y: pick(x, y).sum(), (0, 1))(t64(NAN, 1.0), t64(1.0, NAN))
    assert [g.tolist() for g in found] == [[0.0, 0.0], [0.0, 0.0]]


def test_clip_on_its_bounds():
    assert slopes(lambda x: pb.clip(x, -1.0, 1.0), -2.0, -1.0, 0.0, 1.0, 2.0) == [0, 1, 1, 1, 0]


# -- singular functions behind where --------------------------------------------------------------


def root(x):
    return pb.where(x > 0, pb.sqrt(x), 0.0)


def test_a_square_root_masked_by_where():
    assert slopes(root, 0.0, 4.0, -1.0) == [0.0, 0.25, 0.0]


@pytest.mark.parametrize("order", [2, 3])
def test_a_square_root_masked_by_where_at_higher_order(order):
    want = {2: -0.25 * 4**-1.5, 3: 0.375 * 4**-2.5}[order]
    at_zero, at_four, below = slopes(root, 0.0, 4.0, -1.0, order=order)
    assert (at_zero, below) == (0.0, 0.0)
    assert at_four == pytest.approx(want, rel=1e-12)


def test_a_square_root_masked_by_where_in_mixed_modes():
    x = t64(0.0, 4.0, -1.0)
    forward_over_reverse = pb.jvp(lambda x: gradient(root, x), (x,), (pb.ones_like(x),))[1]
    reverse_over_forward = gradient(lambda x: pb.jvp(root, (x,), (pb.ones_like(x),))[1], x)
    for got in (forward_over_reverse, reverse_over_forward):
        np.testing.assert_allclose(got.numpy(), [0.0, -1 / 32, 0.0], rtol=1e-12)
    assert np.isfinite(pb.hessian(lambda x: root(x).sum())(x).numpy()).all()


GUARDED = {
    "log": (lambda x: pb.where(x > 0, pb.log(x), 0.0), lambda x: 1 / x),
    "division": (lambda x: pb.where(x > 0, 1.0 / x, 0.0), lambda x: -1 / x**2),
    "quotient": (lambda x: pb.where(x > 0, x / (x * x), 0.0), lambda x: -1 / x**2),
    "reciprocal": (lambda x: pb.where(x > 0, pb.reciprocal(x), 0.0), lambda x: -1 / x**2),
    "rsqrt": (lambda x: pb.where(x > 0, pb.rsqrt(x), 0.0), lambda x: -0.5 * x**-1.5),
    "power": (lambda x: pb.where(x > 0, x**0.5, 0.0), lambda x: 0.5 * x**-0.5),
    "negative power": (lambda x: pb.where(x > 0, x**-2, 0.0), lambda x: -2 * x**-3),
    "x log x": (lambda x: pb.where(x > 0, x * pb.log(x), 0.0), lambda x: np.log(x) + 1),
    "log2": (lambda x: pb.where(x > 0, pb.log2(x), 0.0), lambda x: 1 / (x * np.log(2))),
    "cube root": (lambda x: pb.where(x > 0, pb.cbrt(x), 0.0), lambda x: x ** (-2 / 3) / 3),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDED)
def test_the_branch_not_taken_contributes_nothing(name):
    f, slope = GUARDED[name]
    x = t64(0.0, 2.0)
    by_reverse = gradient(f, x).numpy()
    by_forward = pb.jvp(f, (x,), (pb.ones_like(x),))[1].numpy()
    for got in (by_reverse, by_forward):
        np.testing.assert_allclose(got, [0.0, slope(2.0)], rtol=1e-12)


@pytest.mark.parametrize("name", GUARDED)
def test_the_branch_not_taken_contributes_nothing_at_second_order(name):
    f, slope = GUARDED[name]
    x = t64(0.0, 2.0)
    step = 1e-5
    want = (slope(2.0 + step) - slope(2.0 - step)) / (2 * step)
    ones = pb.ones_like(x)
    ways = [
        gradient(lambda x: gradient(f, x), x),
        pb.jvp(lambda x: gradient(f, x), (x,), (ones,))[1],
        gradient(lambda x: pb.jvp(f, (x,), (ones,))[1], x),
        pb.jvp(lambda x: pb.jvp(f, (x,), (ones,))[1], (x,), (ones,))[1],
    ]
    for got in ways:
        np.testing.assert_allclose(got.numpy(), [0.0, want], rtol=1e-7)


def test_a_singular_gradient_of_the_branch_taken_is_infinite():
    assert slopes(pb.sqrt, 0.0) == [INF]
    assert slopes(pb.log, 0.0) == [INF]
    assert slopes(pb.reciprocal, 0.0) == [-INF]


# -- products, powers, norms ----------------------------------------------------------------------


def test_prod_with_zeros():
    assert gradient(pb.prod, t64(0.0, 3.0, 4.0)).tolist() == [12.0, 0.0, 0.0]
    assert gradient(pb.prod, t64(0.0, 0.0, 4.0)).tolist() == [0.0, 0.0, 0.0]
    rows = pb.tensor([[0.0, 5.0], [2.0, 3.0]], dtype="float64")
    assert gradient(lambda x: pb.prod(x, axis=1), rows).tolist() == [[5.0, 0.0], [3.0, 2.0]]


def test_prod_with_zeros_at_second_order():
    got = pb.hessian(pb.prod)(t64(0.0, 0.0, 4.0)).numpy()
    np.testing.assert_array_equal(got, [[0, 4, 0], [4, 0, 0], [0, 0, 0]])


def test_cumulative_prod_with_zeros():
    got = gradient(pb.cumulative_prod, t64(2.0, 0.0, 3.0)).tolist()
    assert got == [1.0, 2.0 + 2.0 * 3.0, 0.0]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.0, 1.0, 2.0, 3.0])
def test_an_integral_power_at_zero(exponent):
    want = {0: 0.0, 1: 1.0, 2: 0.0, 3: 0.0}[int(exponent)]
    assert slopes(lambda x: x**exponent, 0.0) == [want]
    second = 2.0 if exponent == 2 else 0.0
    assert slopes(lambda x: x**exponent, 0.0, order=2) == [second]


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0])
def test_a_power_whose_exponent_is_a_tensor_at_zero(exponent):
    x, y = t64(0.0), t64(exponent)
    gx, gy = pb.grad(lambda x, y: (x**y).sum(), (0, 1))(x, y)
    assert gx.tolist() == [1.0 if exponent == 1 else 0.0]
    assert gy.tolist() == [0.0]


def test_a_power_of_a_negative_base():
    assert slopes(lambda x: x**3, -2.0) == [12.0]
    gx = pb.grad(lambda x, y: (x**y).sum())(t64(-2.0), t64(3.0))
    assert gx.tolist() == [12.0]


@pytest.mark.parametrize("exponent", [0.5, 1.5])
def test_a_fractional_power_at_zero(exponent):
    assert slopes(lambda x: x**exponent, 0.0) == [INF if exponent < 1 else 0.0]


def test_norms_at_zero():
    x = t64(0.0, 0.0, 0.0)
    assert gradient(pb.norm, x).tolist() == [0.0, 0.0, 0.0]
    assert gradient(lambda x: pb.norm(x, ord=1), x).tolist() == [0.0, 0.0, 0.0]
    assert pb.jvp(pb.norm, (x,), (t64(1.0, 2.0, 3.0),))[1].item() == 0.0
    assert np.isfinite(pb.hessian(pb.norm)(x).numpy()).all()


@pytest.mark.parametrize("order", [0.5, 1.5, 3, 4])
def test_a_norm_of_another_order_at_zero(order):
    def f(x):
        return pb.norm(x, ord=order)

    x = t64(0.0, 0.0)
    assert gradient(f, x).tolist() == [0.0, 0.0]
    assert pb.jvp(f, (x,), (t64(1.0, 2.0),))[1].item() == 0.0
    assert pb.hessian(f)(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(gradient(f, t64(0.0, 2.0)).numpy(), [0.0, 1.0], rtol=1e-14)


def test_norms_of_rows_with_a_zero_row():
    x = pb.tensor([[0.0, 0.0], [3.0, 4.0]], dtype="float64")
    got = gradient(lambda x: pb.norm(x, axis=1), x)
    np.testing.assert_allclose(got.numpy(), [[0, 0], [0.6, 0.8]], rtol=1e-15)


def test_a_standard_deviation_of_equal_numbers():
    assert gradient(pb.std, t64(2.0, 2.0, 2.0)).tolist() == [0.0, 0.0, 0.0]


def test_hypot_and_atan2_at_the_origin():
    zero = t64(0.0)
    for f in (pb.hypot, pb.atan2):
        found = pb.grad(lambda x, y, f=f: f(x, y).sum(), (0, 1))(zero, zero)
        assert [g.tolist() for g in found] == [[0.0], [0.0]], f.__name__


# -- numbers that leave their range ---------------------------------------------------------------


def test_softmax_and_logsumexp_of_large_numbers():
    x = pb.tensor([1e4, 0.0, -1e4])
    assert pb.softmax(x).tolist() == [1.0, 0.0, 0.0]
    assert gradient(pb.logsumexp, x).tolist() == [1.0, 0.0, 0.0]
    assert gradient(lambda x: pb.log_softmax(x)[0], x).tolist() == [0.0, 0.0, 0.0]


def test_logsumexp_of_minus_infinity():
    assert pb.logsumexp(pb.tensor([-INF, -INF])).item() == -INF
    got = gradient(pb.logsumexp, pb.tensor([-INF, 0.0])).tolist()
    assert got == [0.0, 1.0]


def test_softplus_and_sigmoid_of_large_numbers():
    x = t64(-1000.0, 0.0, 1000.0)
    assert gradient(pb.softplus, x).tolist() == [0.0, 0.5, 1.0]
    assert gradient(pb.sigmoid, x).tolist() == [0.0, 0.25, 0.0]
    assert gradient(pb.log_sigmoid, x).tolist() == [1.0, 0.5, 0.0]


def test_logaddexp_of_equal_infinities():
    x = t64(-INF)
    assert pb.logaddexp(x, x).tolist() == [-INF]
    found = pb.grad(lambda x, y: pb.logaddexp(x, y).sum(), (0, 1))(t64(INF), t64(0.0))
    assert [g.tolist() for g in found] == [[1.0], [0.0]]


def test_complex_abs_at_zero():
    got = pb.grad(lambda z: pb.abs(z).sum())(pb.tensor([0.0 + 0.0j, 3.0 + 4.0j]))
    np.testing.assert_allclose(got.numpy(), [0, 0.6 + 0.8j], rtol=1e-6)


# -- bits -----------------------------------------------------------------------------------------


def test_bits_read_as_the_same_type_carry_the_gradient():
    assert slopes(lambda x: pb.bitcast(x * x, x.dtype), 3.0) == [6.0]


def test_bits_read_as_another_float_type_have_no_gradient():
    def f(x):
        return pb.bitcast(x, "bfloat16")

    x = pb.tensor([1.0], dtype="float16")
    for derive in (lambda: gradient(f, x), lambda: pb.jvp(f, (x,), (x,))):
        with pytest.raises(pb.errors.UnsupportedOp, match="reading the bits of f16 as bf16"):
            derive()


# -- rounding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wide", "short"), [("f64", "f32"), ("f32", "bf16"), ("f32", "f16")])
def test_a_conversion_to_a_shorter_type_and_back_rounds(wide, short):
    x = pb.tensor(np.linspace(1, 2, 1000), dtype=wide)
    expected = x.numpy().astype(pb.zeros((), dtype=short).numpy().dtype).astype(x.numpy().dtype)
    np.testing.assert_array_equal(x.astype(short).astype(wide).numpy(), expected)
    twice = (x * 2).astype(short).astype(wide) * 0.5
    np.testing.assert_array_equal(twice.numpy(), expected, err_msg="between other steps")
