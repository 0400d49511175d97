"""The gamma function, the beta function and what is built from them."""

from __future__ import annotations

import math

from pullback.errors import ArgumentError
from pullback.functions.arguments import (
    Tensor,
    apply,
    checked_integer_argument,
    float_node,
    literal_argument,
)
from pullback.functions.function_factory import float_unary
from pullback.functions.special import digamma, lgamma
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.beta_functions import Beta, BetaLn, Binom
from pullback.ops.elementwise.float_bits import CopySign
from pullback.ops.elementwise.gamma_values import Gamma, Rgamma
from pullback.ops.elementwise.incomplete_beta import BetaInc
from pullback.ops.elementwise.incomplete_gamma import GammaInc, GammaIncC
from pullback.ops.elementwise.lgamma_digamma import Digamma, Lgamma
from pullback.ops.elementwise.select import Where
from pullback.special.operands import special
from pullback.typing import ArrayLike

gamma = float_unary(
    "gamma", Gamma, "Gamma function; infinite at 0 and NaN at negative integers.", "5.0 -> 24.0"
)
gammaln = float_unary(
    "gammaln", Lgamma, "Logarithm of the absolute value of the gamma function.", "5.0 -> 3.178..."
)
psi = float_unary("psi", Digamma, "Derivative of `gammaln`, the digamma function.",
                  "1.0 -> -0.577...")  # fmt: skip

rgamma = float_unary(
    "rgamma", Rgamma, "Reciprocal of the gamma function; 0 at 0 and at negative integers.",
    "4.0 -> 0.166...",
)  # fmt: skip


def gammasgn(x: ArrayLike) -> Tensor:
    """Return the sign of the gamma function, 1 or -1; NaN at negative integers.

    It is constant between them, so its derivative is 0.

    >>> pb.special.gammasgn([2.0, -0.5, -1.5, -1.0]).tolist()
    [1.0, -1.0, 1.0, nan]
    """
    a = wrap(float_node(x))
    below = a.floor()
    one = literal_argument(1, a.dtype)
    odd = (below * literal_argument(0.5, a.dtype)).floor() * literal_argument(2, a.dtype) != below
    made = _gamma_beta_choice(
        a == below, literal_argument(math.nan, a.dtype), _gamma_beta_choice(odd, -one, one)
    )
    made = _gamma_beta_choice(a > literal_argument(0, a.dtype), one, made)
    at_zero = apply(CopySign, one._node, node_of(a))
    made = _gamma_beta_choice(a == literal_argument(0, a.dtype), at_zero, made)
    return _gamma_beta_choice(a != a, a, made)


@with_argument_checks
def multigammaln(a: ArrayLike, d: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension d.

    It is NaN unless a > (d - 1) / 2.

    >>> round(pb.special.multigammaln(3.0, 2).item(), 4)
    1.5502
    """
    count = checked_integer_argument("special.multigammaln", d, "d")
    if count < 1:
        raise ArgumentError(f"d must be 1 or more, got {count}", op="special.multigammaln")
    x = wrap(float_node(a))
    made = literal_argument(count * (count - 1) / 4 * math.log(math.pi), x.dtype)
    for j in range(count):
        made = made + special("multigammaln", Lgamma(), x - literal_argument(j / 2, x.dtype))
    inside = x > literal_argument((count - 1) / 2, x.dtype)
    return _gamma_beta_choice(inside, made, literal_argument(math.nan, x.dtype))


def beta(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the beta function, gamma(a) * gamma(b) / gamma(a + b).

    >>> pb.special.beta(1.0, 4.0).item()
    0.25
    """
    return special("beta", Beta(), a, b)


def betaln(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the logarithm of the absolute value of `beta`, also where that underflows.

    >>> round(pb.special.betaln(200.0, 200.0).item(), 3)
    -278.642
    """
    return special("betaln", BetaLn(), a, b)


def gammainc(a: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the regularized lower incomplete gamma function.

    It is the integral of t**(a-1) * exp(-t) from 0 to x, divided by gamma(a), for a >= 0 and
    x >= 0. It has derivatives of any order with respect to both arguments.

    >>> round(pb.special.gammainc(1.0, 1.0).item(), 4)
    0.6321
    """
    return special("gammainc", GammaInc(), a, x)


def gammaincc(a: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the regularized upper incomplete gamma function, 1 - gammainc(a, x).

    >>> round(pb.special.gammaincc(1.0, 30.0).item() * 1e14, 4)
    9.3576
    """
    return special("gammaincc", GammaIncC(), a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the regularized incomplete beta function.

    It is the integral of t**(a-1) * (1-t)**(b-1) from 0 to x, divided by beta(a, b), for positive
    a and b and x in [0, 1]. It has derivatives of any order with respect to all arguments.

    >>> pb.special.betainc(2.0, 2.0, 0.5).item()
    0.5
    """
    return special("betainc", BetaInc(), a, b, x)


@with_argument_checks
def factorial(n: ArrayLike, exact: bool = False) -> Tensor:
    """Return gamma(n + 1), 0 for negative n.

    >>> pb.special.factorial([0, 4, -1]).tolist()
    [1.0, 24.0, 0.0]
    """
    refuse_exact_gamma_beta("factorial", exact)
    x = wrap(float_node(n))
    made = special("factorial", Gamma(), x + literal_argument(1, x.dtype))
    return _gamma_beta_choice(x < literal_argument(0, x.dtype), literal_argument(0, x.dtype), made)


def binom(x: ArrayLike, y: ArrayLike) -> Tensor:
    """Return the binomial coefficient x over y, of real numbers.

    >>> pb.special.binom(5.0, 2.0).item()
    10.0
    """
    return special("binom", Binom(), x, y)


@with_argument_checks
def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Tensor:
    """Return the number of ways to choose k of N things; 0 unless 0 <= k <= N.

    With `repetition`, a thing may be chosen more than once.

    >>> pb.special.comb(5, [2, 6]).tolist()
    [10.0, 0.0]
    """
    refuse_exact_gamma_beta("comb", exact)
    count, chosen = wrap(float_node(N)), wrap(float_node(k))
    if repetition:
        count = count + chosen - literal_argument(1, count.dtype)
    made = special("comb", Binom(), count, chosen)
    zero = literal_argument(0, made.dtype)
    inside = (chosen >= zero) & (count >= chosen) & (count >= zero)
    return _gamma_beta_choice(inside, made, zero)


def refuse_exact_gamma_beta(name: str, exact: bool) -> None:
    """Raise if exact integers are asked for: tensors hold numbers of 64 bits."""
    if exact:
        what = "exact must be False, got True: the elements of a tensor have at most 64 bits"
        raise ArgumentError(what, op=f"special.{name}", hint=f"Write math.{name} for an int.")


def _gamma_beta_choice(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return apply(Where, node_of(condition), node_of(x), node_of(y))


__all__ = [
    "beta", "betainc", "betaln", "binom", "comb", "digamma", "factorial", "gamma", "gammainc",
    "gammaincc", "gammaln", "gammasgn", "lgamma", "multigammaln", "psi", "rgamma",
]  # fmt: skip
