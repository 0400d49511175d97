"""Helpers for training: a loop with measured values and checkpoints, and mixed precision."""

from __future__ import annotations

from pullback.graph.boundary import publish
from pullback.train.early_stopping import EarlyStopping
from pullback.train.fit import FitResult, fit
from pullback.train.history import History
from pullback.train.loop import TrainingLoop
from pullback.train.loss_scale import DynamicLossScale, StaticLossScale
from pullback.train.precision import Policy
from pullback.train.tensorboard import TensorBoardWriter

__all__ = [
    "DynamicLossScale", "EarlyStopping", "FitResult", "History", "Policy", "StaticLossScale",
    "TensorBoardWriter", "TrainingLoop", "fit",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
