"""Random numbers as pure functions of a key: the same key, shape and parameters give the same
numbers, in every engine, on every machine, batched or not.

A key is a tensor u32[2]. Numbers that shall differ need keys that differ: `split` makes them from
one, `fold_in` from one and an integer.

>>> import pullback as pb
>>> key = pb.random.key(0)
>>> key, first, second = pb.random.split(key, 3)
>>> bool(pb.all(pb.random.normal(first, (3,)) == pb.random.normal(first, (3,))))
True
>>> bool(pb.any(pb.random.normal(first, (3,)) == pb.random.normal(second, (3,))))
False

Everything here is made of integer arithmetic and of sums, products, quotients and square roots
that are rounded one by one, so no engine's idea of a logarithm can change a number or flip a
decision. Parameters broadcast and may be tensors; results are differentiable by those of
continuous distributions.
"""

from pullback.random.choosing import categorical as categorical
from pullback.random.choosing import choice as choice
from pullback.random.choosing import permutation as permutation
from pullback.random.continuous import exponential as exponential
from pullback.random.continuous import gamma as gamma
from pullback.random.continuous import normal as normal
from pullback.random.continuous import truncated_normal as truncated_normal
from pullback.random.continuous import uniform as uniform
from pullback.random.integers import bernoulli as bernoulli
from pullback.random.integers import bits as bits
from pullback.random.integers import randint as randint
from pullback.random.keys import fold_in as fold_in
from pullback.random.keys import key as key
from pullback.random.keys import split as split

__all__ = [
    "bernoulli", "bits", "categorical", "choice", "exponential", "fold_in", "gamma", "key",
    "normal", "permutation", "randint", "split", "truncated_normal", "uniform",
]  # fmt: skip
