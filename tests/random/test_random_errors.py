"""Errors of pb.random: their classes and messages."""

from __future__ import annotations

from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, ShapeError

R = pb.random
KEY = R.key(0)


def test_invalid_keys():
    with told(ArgumentError, TypeError, "random.normal: key must be u32[2], got int",
              "pb.random.key"):  # fmt: skip
        R.normal(0, (3,))
    with told(DTypeError, TypeError, "random.split: key must be u32[2], got i64[2]"):
        R.split(pb.tensor([0, 1]))
    with told(ShapeError, ValueError, "random.uniform: key must be u32[2], got u32[3,2]",
              "keys[0]"):  # fmt: skip
        R.uniform(R.split(KEY, 3), (2,))
    with told(ShapeError, ValueError, "key must be u32[2], got u32[3]"):
        R.bits(pb.tensor([1, 2, 3], dtype="u32"))


def test_invalid_seeds():
    with told(ArgumentError, ValueError, "random.key: seed must be at least -2**63"):
        R.key(2**64)
    with told(ArgumentError, TypeError, "seed must be an integer, got float"):
        R.key(1.5)
    with told(DTypeError, TypeError, "seed must be an integer, got f32[]"):
        R.key(pb.tensor(1.5))
    with told(ShapeError, ValueError, "seed must have rank 0, got i64[2]"):
        R.key(pb.tensor([1, 2]))
    with told(ArgumentError, ValueError, "random.fold_in: data must be at least"):
        R.fold_in(KEY, -(2**63) - 1)


def test_invalid_shapes():
    with told(ShapeError, ValueError, "random.normal: sizes must not be negative"):
        R.normal(KEY, (2, -1))
    with told(ShapeError, ValueError, "parameters must broadcast to shape [2], got [3]"):
        R.uniform(KEY, (2,), minval=pb.zeros(3) - 1)
    with told(ShapeError, ValueError, "random.gamma: parameters must broadcast", "got [2, 3]"):
        R.gamma(KEY, pb.ones((2, 3)), (3,))
    with told(ShapeError, ValueError, "shape must end with", "[3]", "got [5]"):
        R.categorical(KEY, pb.zeros((3, 4)), shape=(5,))


def test_invalid_dtypes():
    with told(DTypeError, TypeError, "random.uniform: dtype must be float, got i32"):
        R.uniform(KEY, (2,), pb.int32)
    with told(DTypeError, TypeError, "random.normal: dtype must be float or complex, got bool"):
        R.normal(KEY, (2,), "bool")
    with told(DTypeError, TypeError, "random.bits: dtype must be an unsigned integer, got i32"):
        R.bits(KEY, (2,), "i32")
    with told(DTypeError, TypeError, "random.randint: dtype must be an integer, got f32"):
        R.randint(KEY, (2,), 0, 5, "f32")
    with told(DTypeError, TypeError, "parameters must be real, got complex64[]"):
        R.gamma(KEY, pb.tensor(1j))
    with told(ArgumentError, TypeError, "bounds must be integers, got 0.5"):
        R.randint(KEY, (2,), 0.5, 3)


def test_empty_or_unrepresentable_bounds():
    with told(ArgumentError, ValueError, "minval must be less than maxval, got 1.0 and 1.0"):
        R.uniform(KEY, (2,), minval=1.0)
    with told(ArgumentError, ValueError, "random.randint: minval must be less than maxval"):
        R.randint(KEY, (2,), 5, 5)
    with told(ArgumentError, ValueError, "lower must be less than upper"):
        R.truncated_normal(KEY, [0.0, 3.0], 2.0)
    with told(ArgumentError, ValueError, "maxval - minval must be finite"):
        R.uniform(KEY, (2,), minval=-3e38, maxval=3e38)
    with told(ArgumentError, ValueError, "bound 300 does not fit into u8"):
        R.randint(KEY, (2,), 0, 300, "u8")
    assert R.randint(KEY, (), 2**63 - 2, 2**63 - 1).item() == 2**63 - 2


def test_parameters_out_of_range():
    with told(ArgumentError, ValueError, "p must be in [0, 1], got 1.5"):
        R.bernoulli(KEY, 1.5)
    with told(ArgumentError, ValueError, "random.gamma: a must be positive, got 0"):
        R.gamma(KEY, 0)
    with told(ArgumentError, ValueError, "scale must not be negative, got -1.0"):
        R.exponential(KEY, scale=-1.0)
    with told(ArgumentError, ValueError, "probabilities must not be negative"):
        R.choice(KEY, 2, p=[0.5, -0.5])


def test_impossible_draws():
    with told(ArgumentError, ValueError, "random.choice: cannot draw 4 distinct elements from 3"):
        R.choice(KEY, 3, (4,), replace=False)
    with told(ArgumentError, ValueError, "only 1 have a positive probability"):
        R.choice(KEY, 3, (2,), replace=False, p=[0, 1, 0])
    with told(ArgumentError, ValueError, "there are no elements to draw from"):
        R.choice(KEY, 0, (2,))
    with told(ArgumentError, ValueError, "random.categorical: there are no elements to draw from"):
        R.categorical(KEY, pb.zeros((2, 0)))
    with told(ShapeError, ValueError, "p must hold 3 probabilities, got f64[2]"):
        R.choice(KEY, 3, p=[0.5, 0.5])
    with told(ShapeError, ValueError, "expected an integer, or a tensor of rank 1", "int(n)"):
        R.permutation(KEY, pb.tensor(5))
