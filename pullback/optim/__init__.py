"""Optimizers, in two forms with the same numbers.

Functional: `opt = adam(...)`, `state = opt.init(params)`, `params, state = opt.update(grads, state,
params)`. As an object over leaves that require a gradient: `opt = Adam(params, ...)`, `opt.step()`.
"""

from pullback.optim.adam import Adam as Adam
from pullback.optim.adam import AdamRule as AdamRule
from pullback.optim.adam import adam as adam
from pullback.optim.base import Optimizer as Optimizer
from pullback.optim.base import OptimizerState as OptimizerState
from pullback.optim.base import UpdateRule as UpdateRule
from pullback.optim.sgd import SGD as SGD
from pullback.optim.sgd import SGDRule as SGDRule
from pullback.optim.sgd import sgd as sgd
