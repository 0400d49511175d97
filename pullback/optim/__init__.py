"""Optimizers in two equivalent forms.

Functional: `opt = adam(...)`, `state = opt.init(params)`, `params, state = opt.update(grads, state,
params)`. As an object over tensors: `opt = Adam(params, ...)`, `opt.step()`.
"""

from pullback.graph.boundary import publish
from pullback.optim import schedules
from pullback.optim.adadelta import Adadelta, AdadeltaRule, adadelta
from pullback.optim.adafactor import Adafactor, AdafactorRule, adafactor
from pullback.optim.adagrad import Adagrad, AdagradRule, adagrad
from pullback.optim.adam import Adam, AdamRule, AdamW, adam, adamw
from pullback.optim.chaining import ChainRule, chain
from pullback.optim.clipping import clip_by_global_norm, clip_by_value, global_norm
from pullback.optim.lbfgs import LBFGS, LBFGSResult, LBFGSRule, lbfgs
from pullback.optim.lion_lamb import LAMB, LAMBRule, Lion, LionRule, lamb, lion
from pullback.optim.muon import Muon, MuonRule, muon
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import OptimizerState
from pullback.optim.parameter_groups import ParameterGroup
from pullback.optim.partition import PartitionRule, partition
from pullback.optim.rmsprop import RMSProp, RMSPropRule, rmsprop
from pullback.optim.rules import OptimizerRule, StepValues, UpdateRule
from pullback.optim.sgd import SGD, SGDRule, sgd
from pullback.optim.wrappers import accumulate, apply_if_finite, ema

__all__ = [
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "AdadeltaRule",
    "Adafactor",
    "AdafactorRule",
    "Adagrad",
    "AdagradRule",
    "Adam",
    "AdamRule",
    "AdamW",
    "ChainRule",
    "LAMBRule",
    "LBFGSResult",
    "LBFGSRule",
    "Lion",
    "LionRule",
    "Muon",
    "MuonRule",
    "Optimizer",
    "OptimizerRule",
    "OptimizerState",
    "ParameterGroup",
    "PartitionRule",
    "RMSProp",
    "RMSPropRule",
    "SGDRule",
    "StepValues",
    "UpdateRule",
    "accumulate",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamw",
    "apply_if_finite",
    "chain",
    "clip_by_global_norm",
    "clip_by_value",
    "ema",
    "global_norm",
    "lamb",
    "lbfgs",
    "lion",
    "muon",
    "partition",
    "rmsprop",
    "schedules",
    "sgd",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


publish(__name__)
