"""Optimizers in two equivalent forms.

Functional: `opt = adam(...)`, `state = opt.init(params)`, `params, state = opt.update(grads, state,
params)`. As an object over leaves that require a gradient: `opt = Adam(params, ...)`, `opt.step()`.
"""

from pullback.graph.boundary import publish
from pullback.optim.adam import Adam, AdamRule, adam
from pullback.optim.base import Optimizer, OptimizerState, UpdateRule
from pullback.optim.sgd import SGD, SGDRule, sgd

__all__ = [
    "SGD", "Adam", "AdamRule", "Optimizer", "OptimizerState", "SGDRule", "UpdateRule", "adam",
    "sgd",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


publish(__name__)
