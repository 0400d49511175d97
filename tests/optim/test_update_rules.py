"""Optimizers: both forms, recompilation, dtypes and errors; test_references.py has the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb

RNG = np.random.default_rng(0)
START = RNG.normal(size=(3, 4)).astype(np.float32)
TARGET = RNG.normal(size=(3, 4)).astype(np.float32)

CASES = {
    "sgd": (pb.optim.sgd, pb.optim.SGD, {}),
    "momentum": (pb.optim.sgd, pb.optim.SGD, {"momentum": 0.9}),
    "nesterov": (pb.optim.sgd, pb.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "sgd-decay": (pb.optim.sgd, pb.optim.SGD, {"momentum": 0.5, "weight_decay": 0.1}),
    "adam": (pb.optim.adam, pb.optim.Adam, {}),
    "adam-betas": (pb.optim.adam, pb.optim.Adam, {"betas": (0.0, 0.5), "eps": 1e-3}),
    "adam-l2": (pb.optim.adam, pb.optim.Adam, {"weight_decay": 0.1}),
    "adamw": (pb.optim.adam, pb.optim.Adam, {"weight_decay": 0.1, "decoupled": True}),
}
cases = pytest.mark.parametrize("case", CASES)


def loss_of(w):
    return ((w - pb.asarray(TARGET)) ** 2).sum()


def run_functional(name: str, steps: int, learning_rate: float) -> np.ndarray:
    opt = CASES[name][0](learning_rate=learning_rate, **CASES[name][2])
    params = {"w": pb.tensor(START)}
    state = opt.init(params)
    for _ in range(steps):
        grads = pb.grad(lambda p: loss_of(p["w"]))(params)
        params, state = opt.update(grads, state, params)
    return params["w"].numpy()


def run_object(name: str, steps: int, learning_rate: float) -> np.ndarray:
    w = pb.tensor(START, requires_grad=True)
    opt = CASES[name][1]([w], learning_rate=learning_rate, **CASES[name][2])
    for _ in range(steps):
        loss_of(w).backward()
        opt.step()
        opt.zero_grad()
    return w.numpy()


def test_dir_lists_only_public_names():
    assert dir(pb.optim) == sorted(pb.optim.__all__)
    assert {"Adam", "OptimizerState", "SGD", "UpdateRule", "adam", "sgd"} <= set(dir(pb.optim))


@cases
def test_both_forms_give_the_same_numbers(case):
    np.testing.assert_allclose(
        run_object(case, 10, 0.05), run_functional(case, 10, 0.05), rtol=1e-6, atol=1e-6
    )


@cases
def test_a_step_is_one_program_compiled_once(case):
    opt = CASES[case][0](learning_rate=0.05, **CASES[case][2])
    params = [pb.tensor(START), pb.tensor(START[0])]
    state = opt.init(params)
    counts = []
    for _ in range(6):
        before = pb.cache_info().compiles, pb.engine_info().programs_run
        grads = pb.grad(lambda p: loss_of(p[0]) + (p[1] ** 2).sum())(params)
        params, state = opt.update(grads, state, params)
        pb.evaluate(*params)
        after = pb.cache_info().compiles, pb.engine_info().programs_run
        counts.append((after[0] - before[0], after[1] - before[1]))
    assert counts[1:] == [(0, 1)] * 5


@cases
def test_the_object_form_compiles_once(case):
    w = pb.tensor(START, requires_grad=True)
    opt = CASES[case][1]([w], learning_rate=0.05, **CASES[case][2])
    compiles = []
    for i in range(6):
        loss = loss_of(w)
        loss.backward()
        opt.step()
        opt.zero_grad()
        opt.learning_rate = 0.05 / (i + 2)  # a changing learning rate never recompiles
        loss.item()
        compiles.append(pb.cache_info().compiles)
    assert compiles[0] == compiles[-1]
    assert opt.learning_rate == 0.05 / 7


def test_the_learning_rate_may_be_a_tensor():
    params = pb.tensor([1.0, 2.0])
    opt = pb.optim.sgd(learning_rate=pb.tensor(0.5))
    params, _ = opt.update(pb.tensor([1.0, 1.0]), opt.init(params), params)
    assert params.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_parameters_keep_their_dtype(dtype):
    params = [pb.tensor([1.0, 2.0], dtype=dtype)]
    opt = pb.optim.adam(learning_rate=0.25)
    state = opt.init(params)
    for _ in range(2):
        params, state = opt.update([params[0] * 1e-3], state, params)
    assert params[0].dtype is pb.tensor(0.0, dtype=dtype).dtype
    np.testing.assert_allclose(params[0].numpy().astype(float), [0.5, 1.5], rtol=2e-2)
    held = state.slots["square"][0].dtype
    assert held is (pb.float64 if dtype == "float64" else pb.float32)


def test_half_precision_does_not_lose_small_squares():
    w = pb.tensor([1.0], dtype="float16")
    opt = pb.optim.adam(learning_rate=0.5, eps=1e-12)
    w, _ = opt.update(pb.tensor([1e-5], dtype="float16"), opt.init(w), w)
    assert w.item() == 0.5  # 1e-10 is zero in float16


def test_complex_parameters():
    z = pb.tensor([3.0 + 4.0j])
    opt = pb.optim.adam(learning_rate=1.0)
    state = opt.init(z)
    z, state = opt.update(z, state, z)
    np.testing.assert_allclose(z.numpy(), [2.4 + 3.2j], rtol=1e-5)
    assert state.slots["square"].dtype is pb.float32


def test_update_changes_nothing_in_place():
    params, opt = {"w": pb.tensor([1.0])}, pb.optim.sgd(learning_rate=1.0, momentum=0.5)
    state = opt.init(params)
    opt.update({"w": pb.tensor([1.0])}, state, params)
    assert params["w"].item() == 1.0
    assert state.slots["velocity"]["w"].item() == 0.0


def test_an_update_can_be_differentiated():
    """Return the gradient of f(w - r f'(w)) with respect to r, for f(w) = w^2 and w = 3."""

    def after(rate):
        w = pb.tensor(3.0)
        opt = pb.optim.sgd(learning_rate=rate)
        new, _ = opt.update(pb.grad(lambda w: w * w)(w), opt.init(w), w)
        return new * new

    assert pb.grad(after)(pb.tensor(0.25)).item() == pytest.approx(2 * 1.5 * -6)


def test_a_parameter_without_gradient_is_skipped():
    a, b = (pb.tensor([1.0], requires_grad=True) for _ in range(2))
    opt = pb.optim.Adam([a, b], learning_rate=0.5)
    (a * 2.0).sum().backward()
    opt.step()
    assert b.grad is None
    assert (a.item(), b.item()) == (pytest.approx(0.5), 1.0)
    opt.zero_grad()
    (a + b * 3.0).sum().backward()
    opt.step()
    # bias correction counts the steps of each parameter
    assert b.item() == pytest.approx(0.5, rel=1e-6)


def test_parameters_stay_leaves():
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    opt = pb.optim.SGD({"w": w}, learning_rate=0.5)
    for _ in range(2):
        (w * w).sum().backward()
        opt.step()
        assert w.is_leaf
        assert w.requires_grad
        opt.zero_grad()
        assert w.grad is None
    assert w.tolist() == [0.0, 0.0]


def test_a_shared_parameter_is_updated_once():
    w = pb.tensor([1.0], requires_grad=True)
    opt = pb.optim.SGD([w, w], learning_rate=0.5)
    w.sum().backward()
    opt.step()
    assert w.item() == 0.5


WRONG_OPTIONS = [
    (lambda: pb.optim.sgd(momentum=-1.0), "sgd: momentum must be at least 0"),
    (lambda: pb.optim.sgd(momentum=0.9, nesterov=True, dampening=0.1), "dampening of 0"),
    (lambda: pb.optim.adamw(weight_decay=-1.0), "adam: weight_decay must be at least 0"),
    (lambda: pb.optim.adam(0.1, lr=0.2), "adam: learning_rate and lr are the same"),
    (lambda: pb.optim.SGD([pb.ones(2)], "fast"), "sgd: learning_rate must be a real number"),
    (lambda: pb.optim.rmsprop(alpha=1.0), "alpha must be at least 0 and below 1"),
    (lambda: pb.optim.adadelta(rho=2.0), "rho must be"),
    (lambda: pb.optim.muon(iterations=0), "iterations must be"),
    (lambda: pb.optim.muon(scale="wide"), "scale must be 'shape' or 'rms'"),
    (lambda: pb.optim.muon().init(pb.ones((2, 2)) * 1j), "a matrix must be real"),
    (lambda: pb.optim.adafactor().init(pb.ones(2) * 1j), "a parameter must be real"),
    (lambda: pb.optim.lbfgs(history_size=0), "history_size must be at least 1"),
    (lambda: pb.optim.lbfgs(line_search_fn="armijo"), "line_search_fn must be 'strong_wolfe'"),
    (lambda: pb.optim.LBFGS([pb.ones(2)]).step(), "needs a closure"),
    (lambda: pb.optim.LBFGS([{"params": pb.ones(2)}]), "groups are not supported"),
    (lambda: pb.optim.adam().init({"n": 3}), "at least one float or complex tensor"),
]


def test_invalid_parameters_raise():
    w = pb.tensor([1.0], requires_grad=True)
    wrong = {
        "must be a leaf": [w, w * 2],
        "at least one float tensor": [pb.tensor([1])],
        "must be a tensor, got float": [1.0],
        "must be a tensor, got ndarray": [np.ones(2)],
        "must hold at least one float tensor": [],
    }
    for message, params in wrong.items():
        with pytest.raises(pb.PullbackError, match=message) as caught:
            pb.optim.Adam(params)
        assert "test_update_rules.py" in str(caught.value.where)
    with pytest.raises(pb.PullbackError, match="betas"):
        pb.optim.adam(betas=(0.9, 1.0))
    with pytest.raises(pb.PullbackError, match="nesterov"):
        pb.optim.sgd(nesterov=True)
    for make, message in WRONG_OPTIONS:
        with pytest.raises(pb.PullbackError, match=message):
            make()


def test_trees_must_have_the_same_structure():
    params = {"a": pb.tensor([1.0]), "b": pb.tensor([1.0])}
    opt = pb.optim.sgd(momentum=0.9)
    message = r"grads must have the tree structure of params, {'a': \*, 'b': \*}, got {'a': \*}"
    with pytest.raises(pb.PullbackError, match=message):
        opt.update({"a": pb.tensor([1.0])}, opt.init(params), params)
