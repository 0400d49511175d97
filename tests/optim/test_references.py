"""Every optimizer against NumPy, over 50 steps in float64, in both forms and engines."""

from __future__ import annotations

import numpy as np
import optimizer_references as references
import pytest
from optimizer_references import CASES, NOISE, STARTS, parameters_of

import pullback as pb

COSINE = pb.optim.schedules.cosine(0.05, 60)


def rule_of(case: str, rate: object) -> pb.optim.UpdateRule:
    name, _, options = CASES[case]
    return getattr(pb.optim, name)(rate, **options)


def together(rate: object) -> pb.optim.PartitionRule:
    """All optimizers as one rule, so that a step of all is one program."""
    return pb.optim.partition({c: rule_of(c, rate) for c in CASES}, {c: c for c in CASES})


def starts() -> dict:
    return {c: {k: pb.tensor(STARTS[k]) for k in parameters_of(c)} for c in CASES}


def gradients(params: dict, noise: dict) -> dict:
    return {
        c: {k: references.gradient(p, k, noise[k]) for k, p in group.items()}
        for c, group in params.items()
    }


def check(params: dict, rate, steps: int) -> None:
    for case, group in params.items():
        want = references.by_numpy(case, rate, steps)
        for k, p in group.items():
            np.testing.assert_allclose(p.numpy(), want[k], 1e-9, 1e-9, err_msg=f"{case} {k}")


def test_fifty_steps_of_a_schedule_are_one_program():
    rule, params = together(COSINE), starts()
    state = rule.init(params)

    @pb.compile
    def step(params, state, noise):
        return rule.update(gradients(params, noise), state, params)

    params, state = step(params, state, NOISE[0])
    with pb.no_recompile():
        for noise in NOISE[1:]:
            params, state = step(params, state, noise)
    check(params, COSINE, 50)


@pytest.mark.parametrize("kind", ["number", "tensor", "schedule"])
def test_object_form_in_the_reference_engine(kind):
    rates = {"number": 0.05, "tensor": pb.tensor(0.05, dtype="float64"), "schedule": COSINE}
    with pb.config(engine="reference"):
        params = starts()
        opt = pb.optim.Optimizer(params, together(rates[kind]))
        for noise in NOISE[:5]:
            for group in params.values():
                for k, p in group.items():
                    p.grad = references.gradient(p.detach(), k, noise[k])
            opt.step()
        check(params, COSINE if kind == "schedule" else lambda t: 0.05, 5)


@pytest.mark.parametrize("case", CASES)
def test_both_forms_have_one_rule(case):
    """The classes add nothing to the rule, so that the numbers above are theirs too."""
    name, cls, options = CASES[case]
    make, w = getattr(pb.optim, cls), pb.tensor([1.0])
    assert make([w], lr=0.5, **options).rule == rule_of(case, 0.5)
    assert make([w], **options).rule == getattr(pb.optim, name)(**options)
