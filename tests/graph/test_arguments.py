"""Arguments that are not tensors are checked by the annotations of the public functions."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from bad_calls import calls, outcome
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_integer_argument,
    real,
    with_argument_checks,
)

X = [[1.0, 2.0], [3.0, 4.0]]


@with_argument_checks
def sample(x: object, n: int, scale: float = 1.0, *, on: bool = False, f: None = None) -> tuple:
    return (x, n, scale, on, f)


def test_good_arguments_pass_unchanged():
    assert sample("x", 3) == ("x", 3, 1.0, False, None)
    assert sample("x", n=np.int64(3), scale=2, on=np.True_) == ("x", 3, 2, True, None)
    assert inspect.signature(sample).parameters["on"].annotation == "bool"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sample(1, 2.0), "sample: n must be an integer, got float 2.0"),
        (lambda: sample(1, "2"), "n must be an integer, got str '2'"),
        (lambda: sample(1, 2**70), "n must fit into 64 bits"),
        (lambda: sample(1, n=None), "n must be an integer, got None"),
        (lambda: sample(1, 2, "fast"), "scale must be a real number, got str 'fast'"),
        (lambda: sample(1, 2, 1j), "scale must be a real number, got complex 1j"),
        (lambda: sample(1, 2, on="yes"), "on must be True or False, got str 'yes'"),
        (lambda: sample(1, 2, on=2), "on must be True or False, got int 2"),
        (lambda: pb.sum(X, keepdims="yes"), "sum: keepdims must be True or False"),
        (lambda: pb.argmax(X, keepdims=2.0), "argmax: keepdims must be True or False"),
        (lambda: pb.tensor(X).max(keepdims=None), "max: keepdims must be True or False"),
        (lambda: pb.sort(X, stable="no"), "sort: stable must be True or False"),
        (lambda: pb.tensor(X, requires_grad="False"), "requires_grad: the value must be True or"),
        (lambda: pb.config(eager="no"), "config: eager must be True or False"),
        (lambda: pb.rot90(X, 1.0), "rot90: k must be an integer, got float 1.0"),
        (lambda: pb.eye(2, k=0.5), "eye: k must be an integer"),
        (lambda: pb.diff(X, n=-1), "diff: n must not be negative"),
        (lambda: pb.grad("f"), "grad: f must be a function, got str 'f'"),
        (lambda: pb.scan(3, 0.0, X), "scan: f must be a function"),
        (lambda: pb.vjp(lambda x: x, 1.0, has_aux=""), "vjp: has_aux must be True or False"),
        (lambda: pb.norm(X, ord="fro"), "norm: ord must be a real number"),
        (lambda: pb.optim.adam(learning_rate="1e-3"), "adam: learning_rate must be a real"),
        (lambda: pb.optim.Adam([], decoupled="yes"), "Adam: decoupled must be True or False"),
        (lambda: pb.random.choice(pb.random.key(0), 3, replace="no"), "random.choice: replace"),
        (lambda: pb.stack(3), "stack: arrays must be a sequence of tensors, got int 3"),
        (lambda: pb.permute_dims(X, 1.5), "permute_dims: an axis must be an integer"),
        (lambda: pb.take(X, slice(2), 0), "take: indices must be integers"),
        (lambda: pb.Type((2.5,), pb.float32), "Type: shape must consist of integers"),
        (lambda: pb.Sharding(3, pb.P()), "Sharding: mesh must be a DeviceMesh, got int 3"),
        (lambda: pb.zeros(3, dtype=b"f4"), "not a dtype: b'f4'"),
        (lambda: pb.tensor(X) + "a", "needs tensors or numbers, got str 'a'"),
        (lambda: "a" - pb.tensor(X), "needs tensors or numbers, got str 'a'"),
    ],
)  # fmt: skip
def test_meaningless_arguments_are_refused_by_name(call, words):
    with told(pb.PullbackError, TypeError, words):
        call()


def test_an_operand_of_another_class_is_asked_itself():
    class Other:
        def __radd__(self, x: pb.Tensor) -> str:
            return "mine"

    assert pb.tensor(X) + Other() == "mine"
    assert (pb.tensor(X) == None) is False  # noqa: E711
    with pytest.raises(TypeError, match="unsupported operand"):
        pb.tensor(X) + object.__new__(type("Silent", (), {}))


def test_an_error_in_an_update_rule_names_the_line_of_the_user():
    with told(ArgumentError, ValueError, "adam: betas must be two numbers"):
        pb.optim.adam(betas=(0.9,))
    with told(ArgumentError, ValueError, "nesterov"):
        pb.optim.sgd(nesterov=True)


def test_numbers_of_numpy_and_tensors_are_numbers():
    for value in (1, 0.5, np.float32(2), np.array(3.0), pb.tensor(1.0), True):
        assert real("op", value, "x") is value
    assert (
        checked_flag_argument("op", 1, "x") is True
        and checked_flag_argument("op", np.False_, "x") is False
    )
    assert (
        checked_integer_argument("op", np.uint8(3), "x") == 3
        and checked_integer_argument("op", True, "x") == 1
    )


def test_every_public_function_refuses_some_nonsense():
    """One bad call for each parameter of each function; tests/long/bad_inputs.py makes all."""
    seen, wrong = set(), []
    for number, call in enumerate(calls()):
        if not call.parameter or (call.name, call.parameter) in seen or number % 3:
            continue
        seen.add((call.name, call.parameter))
        result = outcome(call)
        if result.startswith("accepted"):
            wrong.append(f"{call}: {result}")
    assert len(seen) > 400 and not wrong
