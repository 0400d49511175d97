"""Sample operands for the op table's tests: reproducible, and away from singular points."""

from __future__ import annotations

import numpy as np


def _sample_generator(shape: tuple[int, ...], salt: int) -> np.random.Generator:
    return np.random.default_rng([salt, len(shape), *shape])


def real(*shape: int, salt: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Return reals spread over [low, high], no two of them close, none close to an end or 0."""
    size = int(np.prod(shape, dtype=np.int64))
    grid = (np.arange(size) + 0.5) / max(size, 1)
    values = low + (high - low) * _sample_generator(shape, salt).permutation(grid)
    return np.where(np.abs(values) < 1e-2, 0.05, values).reshape(shape)


def positive(*shape: int, salt: int = 0) -> np.ndarray:
    return real(*shape, salt=salt, low=0.2, high=3.0)


def unit_samples(*shape: int, salt: int = 0) -> np.ndarray:
    """Return reals in (-1, 1), away from the ends."""
    return real(*shape, salt=salt, low=-0.9, high=0.9)


def complex_samples(*shape: int, salt: int = 0) -> np.ndarray:
    return real(*shape, salt=salt) + 1j * real(*shape, salt=salt + 100)


def integer_samples(*shape: int, low: int = 0, high: int = 10, salt: int = 0) -> np.ndarray:
    return _sample_generator(shape, salt).integers(low, high, shape)


def boolean_samples(*shape: int, salt: int = 0) -> np.ndarray:
    return integer_samples(*shape, low=0, high=2, salt=salt).astype(bool)


def diagonally_dominant(x: np.ndarray) -> np.ndarray:
    """Return a matrix that is dominated by its diagonal."""
    return x + 4 * np.eye(x.shape[-1])
