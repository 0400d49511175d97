"""Tests that need several devices run in a process of their own that has them."""

from __future__ import annotations

import functools
import importlib
import inspect
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from pullback.sharding.mesh import DeviceMesh


def on_devices(test):
    """Run a test in a process with eight virtual devices; its parameters must be picklable."""

    @functools.wraps(test)
    def elsewhere(**parameters):
        _process().submit(_run, test.__module__, test.__name__, parameters).result(timeout=120)

    return elsewhere


def on_meshes(test):
    """Run a test with the fixture `engine` on simulated devices, and on eight virtual ones."""
    there = on_devices(test)

    @functools.wraps(test)
    def somewhere(**parameters):
        (there if parameters["engine"] == "xla" else test)(**parameters)

    return somewhere


@functools.cache
def _process():
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_prepare)


def _prepare():
    os.environ["PULLBACK_CPU_DEVICES"] = "8"


def _run(module, name, parameters):
    inspect.unwrap(getattr(importlib.import_module(module), name))(**parameters)


def Grid(**axes):
    """The first devices as a mesh."""
    return DeviceMesh(tuple(axes.values()), tuple(axes))
