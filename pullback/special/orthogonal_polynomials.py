"""Orthogonal polynomials, by the recurrences of their degrees."""

from __future__ import annotations

from collections.abc import Callable

from pullback.functions.arguments import Tensor, float_node
from pullback.functions.creation import ones_like
from pullback.functions.shape import broadcast_shapes, spread_to_shape
from pullback.functions.where_take import where
from pullback.lazy.record import record_at_one_line
from pullback.lazy.tensor import wrap
from pullback.special.operands import special_order_operand
from pullback.typing import ArrayLike

# The polynomial of degree k + 1, from k, x and the polynomials of degrees k and k - 1.
Following = Callable[[int, Tensor, Tensor, Tensor], Tensor]
MOST = 10_000  # a degree is a number of steps in the program


def eval_chebyt(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the first kind of degree `n`, an integer, at x.

    Degrees are known numbers: the values of a tensor are read.

    >>> pb.special.eval_chebyt([0, 1, 2], 0.5).tolist()
    [1.0, 0.5, -0.5]
    """
    return _orthogonal_polynomial(
        "eval_chebyt", n, x, lambda x: x, lambda k, x, p, q: 2 * x * p - q
    )


def eval_chebyu(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the second kind of degree `n` at x.

    >>> pb.special.eval_chebyu([0, 1, 2], 0.5).tolist()
    [1.0, 1.0, 0.0]
    """
    return _orthogonal_polynomial(
        "eval_chebyu", n, x, lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - q
    )


def eval_chebyv(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the third kind of degree `n` at x.

    >>> pb.special.eval_chebyv([0, 1, 2], 0.5).tolist()
    [1.0, 0.0, -1.0]
    """
    return _orthogonal_polynomial(
        "eval_chebyv", n, x, lambda x: 2 * x - 1, lambda k, x, p, q: 2 * x * p - q
    )


def eval_chebyw(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the fourth kind of degree `n` at x.

    >>> pb.special.eval_chebyw([0, 1, 2], 0.5).tolist()
    [1.0, 2.0, 1.0]
    """
    return _orthogonal_polynomial(
        "eval_chebyw", n, x, lambda x: 2 * x + 1, lambda k, x, p, q: 2 * x * p - q
    )


def eval_sh_chebyt(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the first kind of degree `n` at 2 x - 1.

    >>> pb.special.eval_sh_chebyt(2, [0.0, 0.5, 1.0]).tolist()
    [1.0, -1.0, 1.0]
    """
    return eval_chebyt(n, 2 * wrap(float_node(x)) - 1)


def eval_sh_chebyu(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the second kind of degree `n` at 2 x - 1.

    >>> pb.special.eval_sh_chebyu(2, [0.0, 0.5, 1.0]).tolist()
    [3.0, -1.0, 3.0]
    """
    return eval_chebyu(n, 2 * wrap(float_node(x)) - 1)


def eval_sh_chebyv(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the third kind of degree `n` at 2 x - 1.

    >>> pb.special.eval_sh_chebyv(1, [0.0, 0.5, 1.0]).tolist()
    [-3.0, -1.0, 1.0]
    """
    return eval_chebyv(n, 2 * wrap(float_node(x)) - 1)


def eval_sh_chebyw(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Chebyshev polynomial of the fourth kind of degree `n` at 2 x - 1.

    >>> pb.special.eval_sh_chebyw(1, [0.0, 0.5, 1.0]).tolist()
    [-1.0, 1.0, 3.0]
    """
    return eval_chebyw(n, 2 * wrap(float_node(x)) - 1)


def eval_legendre(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Legendre polynomial of degree `n` at x.

    >>> pb.special.eval_legendre([0, 1, 2], 0.5).tolist()
    [1.0, 0.5, -0.125]
    """

    def following(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return ((2 * k + 1) * x * p - k * q) / (k + 1)

    return _orthogonal_polynomial("eval_legendre", n, x, lambda x: x, following)


def eval_sh_legendre(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Legendre polynomial of degree `n` at 2 x - 1.

    >>> pb.special.eval_sh_legendre(2, [0.0, 0.5, 1.0]).tolist()
    [1.0, -0.5, 1.0]
    """
    return eval_legendre(n, 2 * wrap(float_node(x)) - 1)


def eval_laguerre(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Laguerre polynomial of degree `n` at x.

    >>> pb.special.eval_laguerre([0, 1, 2], 1.0).tolist()
    [1.0, 0.0, -0.5]
    """

    def following(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return ((2 * k + 1 - x) * p - k * q) / (k + 1)

    return _orthogonal_polynomial("eval_laguerre", n, x, lambda x: 1 - x, following)


def eval_hermite(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Hermite polynomial of degree `n` (of physics) at x.

    >>> pb.special.eval_hermite([0, 1, 2], 1.0).tolist()
    [1.0, 2.0, 2.0]
    """

    def following(k: int, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return 2 * x * p - 2 * k * q

    return _orthogonal_polynomial("eval_hermite", n, x, lambda x: 2 * x, following)


def eval_hermitenorm(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the Hermite polynomial of degree `n` (of probability theory) at x.

    >>> pb.special.eval_hermitenorm([0, 1, 2], 2.0).tolist()
    [1.0, 2.0, 3.0]
    """
    return _orthogonal_polynomial(
        "eval_hermitenorm", n, x, lambda x: x, lambda k, x, p, q: x * p - k * q
    )


def _orthogonal_polynomial(
    name: str, n: ArrayLike, x: ArrayLike, first: Callable[[Tensor], Tensor], following: Following
) -> Tensor:
    """Return polynomials of known degrees; degrees and x broadcast."""
    degrees = special_order_operand(f"special.{name}", n, "degrees", MOST)
    with record_at_one_line():
        x = wrap(float_node(x))
        x = spread_to_shape(x, broadcast_shapes(degrees.shape, x.shape))
        wanted = set(degrees.ravel().tolist())
        before, here = ones_like(x), first(x)
        made = before
        for k in range(1, max(wanted, default=0) + 1):
            if k in wanted:
                made = here if len(wanted) == 1 else where(degrees == k, here, made)
            before, here = here, following(k, x, here, before)
        return made


__all__ = [
    "eval_chebyt", "eval_chebyu", "eval_chebyv", "eval_chebyw", "eval_hermite", "eval_hermitenorm",
    "eval_laguerre", "eval_legendre", "eval_sh_chebyt", "eval_sh_chebyu", "eval_sh_chebyv",
    "eval_sh_chebyw", "eval_sh_legendre",
]  # fmt: skip
