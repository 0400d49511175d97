"""Optimizers against PyTorch and optax, over 50 steps in float64, where these are installed."""

from __future__ import annotations

import numpy as np
import optimizer_references as references
import pytest
from optimizer_references import CASES, NOISE, STARTS, parameters_of

import pullback as pb

pytestmark = pytest.mark.filterwarnings("default")  # those of other libraries are theirs

# What PyTorch calls an option
TORCH = {"initial": "initial_accumulator_value", "decay": "lr_decay", "clip": "d"}
ABSENT = {"Lion", "LAMB", "Muon"}  # in PyTorch, or computed in bfloat16 there
RATE = 0.05


def ours(case: str, rate: object = RATE) -> dict[str, np.ndarray]:
    """Return the parameters after 50 steps; the reference engine compiles nothing."""
    name, _, options = CASES[case]
    with pb.config(engine="reference"):
        rule = getattr(pb.optim, name)(rate, **options)
        params = {k: pb.tensor(STARTS[k]) for k in parameters_of(case)}
        state = rule.init(params)
        for noise in NOISE:
            grads = {k: references.gradient(p, k, noise[k]) for k, p in params.items()}
            params, state = rule.update(grads, state, params)
        return {k: p.numpy() for k, p in params.items()}


@pytest.mark.parametrize("case", [c for c, (_, cls, _) in CASES.items() if cls not in ABSENT])
def test_torch(case):
    torch = pytest.importorskip("torch")
    _, cls, options = CASES[case]
    options = {TORCH.get(k, k): v for k, v in options.items()}
    params = {k: torch.tensor(STARTS[k], requires_grad=True) for k in parameters_of(case)}
    opt = getattr(torch.optim, {"RMSProp": "RMSprop"}.get(cls, cls))(
        list(params.values()), lr=RATE, **options
    )
    for noise in NOISE:
        for k, p in params.items():
            p.grad = torch.tensor(references.gradient(p.detach().numpy(), k, noise[k]))
        opt.step()
    for k, value in ours(case).items():
        np.testing.assert_allclose(value, params[k].detach().numpy(), 1e-9, 1e-9)


def test_torch_muon():
    """PyTorch orthogonalises in bfloat16, which is as close as this."""
    torch = pytest.importorskip("torch", minversion="2.9")
    p = torch.tensor(STARTS["matrix"], requires_grad=True)
    opt = torch.optim.Muon([p], lr=RATE)
    for noise in NOISE:
        g = references.gradient(p.detach().numpy(), "matrix", noise["matrix"])
        p.grad = torch.tensor(g)
        opt.step()
    np.testing.assert_allclose(ours("muon")["matrix"], p.detach().numpy(), atol=0.05)


def test_torch_lbfgs():
    """Without a line search the steps are the same ones."""
    torch = pytest.importorskip("torch")
    options = {"lr": 0.5, "max_iter": 25, "history_size": 10, "line_search_fn": None}

    def trained(make, opt, backend):
        w = make(np.array([-1.0, 2.0, 0.5, 1.0]))
        made = opt([w], tolerance_grad=0.0, tolerance_change=0.0, max_eval=1000, **options)

        def closure():
            made.zero_grad()
            loss = ((w - 1) ** 2).sum() + ((w[1:] - w[:-1] ** 2) ** 2).sum() * 0.5
            loss.backward()
            return loss

        for _ in range(2):
            made.step(closure)
        return w.detach().numpy()

    mine = trained(lambda x: pb.tensor(x), pb.optim.LBFGS, pb)
    theirs = trained(lambda x: torch.tensor(x, requires_grad=True), torch.optim.LBFGS, torch)
    np.testing.assert_allclose(mine, theirs, 1e-9, 1e-9)


def _optax_case(optax, case: str):
    """Return the transformation of optax that is the same optimizer."""
    return {
        "sgd": lambda: optax.sgd(RATE),
        "nesterov": lambda: optax.sgd(RATE, 0.9, nesterov=True),
        "adam": lambda: optax.adam(RATE),
        "adamw": lambda: optax.adamw(RATE, weight_decay=0.1),
        "rmsprop": lambda: optax.rmsprop(RATE, 0.99, 1e-8, eps_in_sqrt=False),
        "adadelta": lambda: optax.chain(
            optax.add_decayed_weights(0.1), optax.adadelta(RATE, 0.9, 1e-6)
        ),
        "lion": lambda: optax.lion(RATE, 0.9, 0.99, weight_decay=0.1),
        "lamb": lambda: optax.lamb(RATE, weight_decay=0.1),
        "muon rms": lambda: optax.contrib.muon(
            RATE, nesterov=False, eps=1e-30, consistent_rms=0.2, weight_decay=0.0
        ),
    }[case]()


@pytest.mark.parametrize(
    "case", ["sgd", "nesterov", "adam", "adamw", "rmsprop", "adadelta", "lion", "lamb", "muon rms"]
)
def test_optax(case):
    optax = pytest.importorskip("optax")
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        params = {k: jax.numpy.asarray(STARTS[k]) for k in parameters_of(case)}
        transformation = _optax_case(optax, case)
        state, update = transformation.init(params), jax.jit(transformation.update)
        for noise in NOISE:
            grads = {k: references.gradient(p, k, noise[k]) for k, p in params.items()}
            updates, state = update(grads, state, params)
            params = optax.apply_updates(params, updates)
        for k, value in ours(case).items():
            np.testing.assert_allclose(value, np.asarray(params[k]), 1e-9, 1e-9)
    finally:
        jax.config.update("jax_enable_x64", before)


def test_schedules():
    optax, torch = pytest.importorskip("optax"), pytest.importorskip("torch")
    s, steps = pb.optim.schedules, range(0, 120, 7)
    pairs = [
        (s.linear(0.1, 0.5, 40), optax.linear_schedule(0.1, 0.5, 40)),
        (s.polynomial(0.5, 0.1, 40, 3.0), optax.polynomial_schedule(0.5, 0.1, 3.0, 40)),
        (s.cosine(0.5, 100, 0.05), optax.cosine_decay_schedule(0.5, 100, 0.1)),
        (s.exponential(0.5, 0.5, 20), optax.exponential_decay(0.5, 20, 0.5)),
        (s.exponential(0.5, 0.5, 20, True), optax.exponential_decay(0.5, 20, 0.5, staircase=True)),
        (
            s.piecewise([30, 60], [1.0, 0.5, 0.1]),
            optax.piecewise_constant_schedule(1.0, {30: 0.5, 60: 0.2}),
        ),
        (
            s.warmup(0.5, 30, s.cosine(0.5, 70)),
            optax.warmup_cosine_decay_schedule(0.0, 0.5, 30, 100),
        ),
    ]
    for mine, theirs in pairs:
        for step in steps:
            np.testing.assert_allclose(mine(step), float(theirs(step)), 1e-6, 1e-7)
    opt = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    cycle = torch.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=50, cycle_momentum=False)
    mine = s.one_cycle(0.5, 50)
    for step in range(50):
        np.testing.assert_allclose(mine(step), opt.param_groups[0]["lr"], 1e-12)
        opt.step()
        if step < 49:
            cycle.step()


def test_clipping():
    optax, torch = pytest.importorskip("optax"), pytest.importorskip("torch")
    grads = [np.random.default_rng(i).normal(size=(3, 4)) for i in range(3)]
    mine = pb.optim.clip_by_global_norm([pb.tensor(g) for g in grads], 1.5)
    params = [torch.zeros(3, 4, dtype=torch.float64) for _ in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = torch.tensor(g)
    torch.nn.utils.clip_grad_norm_(params, 1.5)
    for a, p in zip(mine, params, strict=True):
        np.testing.assert_allclose(a.numpy(), p.grad.numpy(), 1e-5)
    updates, _ = optax.clip(0.3).update([np.float32(g) for g in grads], optax.EmptyState())
    for a, b in zip(pb.optim.clip_by_value([pb.tensor(g) for g in grads], 0.3), updates):
        np.testing.assert_allclose(a.numpy(), np.asarray(b), 1e-6)
