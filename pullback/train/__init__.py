"""Helpers for training: mixed precision."""

from __future__ import annotations

from pullback.graph.boundary import publish
from pullback.train.loss_scale import DynamicLossScale, StaticLossScale
from pullback.train.precision import Policy

__all__ = ["DynamicLossScale", "Policy", "StaticLossScale"]


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
