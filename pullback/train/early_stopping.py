"""Early stopping: end training when a measured value no longer improves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.errors import ArgumentError
from pullback.graph.boundary import boundary_methods


@boundary_methods
@dataclass
class EarlyStopping:
    """Ends training after `patience` measurements in a row without a better value.

    A value is better if it differs from the best one by more than `least` in the direction of
    `mode`, "min" or "max". Values of `name` are compared: `"validation loss"` by default.

    >>> stopping = pb.train.EarlyStopping(patience=2)
    >>> [stopping.should_stop({"validation loss": x}) for x in (3.0, 2.0, 2.5, 2.1)]
    [False, False, False, True]
    """

    name: str = "validation loss"
    patience: int = 3
    least: float = 0.0
    mode: str = "min"
    best: float | None = None
    waited: int = 0

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max"):
            raise ArgumentError(f'EarlyStopping: mode must be "min" or "max", got {self.mode!r}')
        if self.patience < 1:
            raise ArgumentError(f"EarlyStopping: patience must be at least 1, got {self.patience}")

    def should_stop(self, values: dict[str, float]) -> bool:
        """Note measured values; return whether training should end.

        >>> pb.train.EarlyStopping(patience=1).should_stop({"validation loss": 3.0})
        False
        """
        if self.name not in values:
            return False
        value = values[self.name]
        gain = 0.0 if self.best is None else self.best - value
        if self.best is None or (gain if self.mode == "min" else -gain) > self.least:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Return what it has seen, for a checkpoint.

        >>> pb.train.EarlyStopping().state_dict()
        {'best': None, 'waited': 0}
        """
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned.

        >>> stopping = pb.train.EarlyStopping()
        >>> stopping.load_state_dict({"best": 1.0, "waited": 2})
        >>> stopping.waited
        2
        """
        self.best, self.waited = state["best"], state["waited"]
