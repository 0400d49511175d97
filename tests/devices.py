"""Tests that need several devices run in a process of their own that has them."""

from __future__ import annotations

import functools
import importlib
import itertools
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np


def on_devices(test):
    """Run a test in a process with eight virtual devices; its parameters must be picklable."""

    @functools.wraps(test)
    def elsewhere(**parameters):
        _process().submit(_run, test.__module__, test.__name__, parameters).result(timeout=120)

    return elsewhere


@functools.cache
def _process():
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_prepare)


def _prepare():
    os.environ["PULLBACK_CPU_DEVICES"] = "8"


def _run(module, name, parameters):
    getattr(importlib.import_module(module), name).__wrapped__(**parameters)


class Grid:
    """The first devices as a mesh: what a per-device program needs to know about it."""

    def __init__(self, **axes):
        self.shape, self.names = tuple(axes.values()), tuple(axes)
        self.size = int(np.prod(self.shape))
        self.devices = tuple(range(self.size))
        places = itertools.product(*map(range, self.shape))
        self.coordinates = [dict(zip(self.names, p, strict=True)) for p in places]

    def groups(self, axes):
        """Positions that differ only in their place along `axes`."""
        found = {}
        for k, place in enumerate(self.coordinates):
            rest = tuple(place[a] for a in self.names if a not in axes)
            along = tuple(place[a] for a in axes)
            found.setdefault(rest, []).append((along, k))
        return [[k for _, k in sorted(group)] for group in found.values()]
