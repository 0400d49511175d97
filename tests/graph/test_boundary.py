"""Errors leave pullback with the user's frames only, wherever they were raised."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import traceback
from types import FunctionType

import pytest
from helpers import told
from user_mistakes import (
    INSIDE,
    MISTAKES,
    Model,
    X,
    broken,
    compiled_broken,
    compiled_wrong,
    ruled,
    wrong,
)

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph import boundary
from pullback.graph.source_lines import is_internal_file

MODULES = (
    "pullback", "pullback.debug", "pullback.distributed", "pullback.fft", "pullback.linalg",
    "pullback.optim", "pullback.random", "pullback.special", "pullback.static.public",
    "pullback.testing", "pullback.tree", "pullback.data",
)  # fmt: skip


def frames(error):
    """The files of a traceback, from the test on: "here" or "pullback"."""
    names = [f.filename for f in traceback.extract_tb(error.__traceback__)][1:]
    return ["pullback" if is_internal_file(n) else "here" for n in names]


def raised(f, *args):
    with pytest.raises(Exception) as info:  # noqa: PT011  (of any kind)
        f(*args)
    return info.value


@pytest.mark.parametrize("name", MISTAKES)
def test_a_traceback_ends_at_the_mistake(name):
    error = raised(MISTAKES[name])
    found = frames(error)
    assert found == ["here"]
    assert isinstance(error, pb.PullbackError) or name == "lower", repr(error)
    assert error.__suppress_context__ or error.__context__ is None


@pytest.mark.parametrize("name", INSIDE)
def test_frames_of_user_functions_stay(name):
    for f in (wrong, broken):
        error = raised(INSIDE[name], f)
        last = traceback.extract_tb(error.__traceback__)[-1]
        assert (last.name, set(frames(error))) == (f.__name__, {"here"})
        assert isinstance(error, ShapeError if f is wrong else ZeroDivisionError)
        assert not getattr(error, "__notes__", ())


def test_compiled_functions_and_rules():
    for f in (compiled_wrong, compiled_broken, Model().call, pb.grad(lambda x: ruled(x).sum())):
        error = raised(f, X)
        last = traceback.extract_tb(error.__traceback__)[-1]
        assert last.name in ("wrong", "broken") and set(frames(error)) == {"here"}


def test_the_full_traceback_on_request(monkeypatch):
    monkeypatch.setenv("PULLBACK_TRACEBACK", "full")
    assert frames(raised(MISTAKES["operator"])).count("pullback") > 5
    assert frames(raised(INSIDE["grad"], broken)).count("pullback") > 2


def test_causes_and_contexts_are_trimmed_too():
    def chained(x):
        try:
            x @ x
        except ShapeError as error:
            raise KeyError("mine") from error

    error = raised(lambda: pb.vmap(chained)(X[None]))
    assert type(error) is KeyError and set(frames(error)) == {"here"}
    assert isinstance(error.__cause__, ShapeError) and error.__cause__.__traceback__.tb_next is None

    def handled(x):
        try:
            {}["absent"]
        except KeyError:
            return x @ x

    error = raised(lambda: pb.vmap(handled)(X[None]))
    assert isinstance(error.__context__, KeyError) and not error.__suppress_context__

    def group(x):
        raise ExceptionGroup("several", [raised(lambda: x @ x), ValueError("other")])

    error = raised(lambda: pb.grad(group)(X))
    assert set(frames(error)) == {"here"} and len(error.exceptions) == 2


def test_an_error_of_the_library_itself_keeps_the_frame_that_raised_it(monkeypatch):
    def fails(*args):
        raise KeyError("a bug")

    module = importlib.import_module("pullback.functions.joining")
    fails.__code__ = fails.__code__.replace(co_filename=module.__file__)
    monkeypatch.setattr(module, "recorded_joining", fails)
    error = raised(lambda: pb.concat([X, X]))
    assert frames(error) == ["here", "pullback"]
    assert "PULLBACK_TRACEBACK=full" in error.__notes__[0]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_function_is_a_boundary(module):
    names = vars(importlib.import_module(module))
    known = [name for name in names["__all__"] if not name.startswith("_")]
    found = [names[name] for name in known if isinstance(names.get(name), FunctionType)]
    for f in found:
        assert boundary.public(f) is f, f"{module}.{f.__name__}"
        assert pickle.loads(pickle.dumps(f)) is f


def test_arguments_of_pullback_functions_are_checked_before_the_call():
    with told(ArgumentError, TypeError, "sum:", "'dim'", "axis", "Write axis=... instead of dim="):
        pb.sum(X, dim=0)


SCRIPT = """
import sys
import user_mistakes as t
for kind, table in (("", t.MISTAKES), ("inside ", t.INSIDE)):
    for name, act in table.items():
        print("==", kind + name, file=sys.stderr)
        try:
            act(t.wrong) if kind else act()
        except Exception:
            sys.excepthook(*sys.exc_info())
"""


def test_what_python_prints():
    paths = os.pathsep.join(filter(None, sys.path))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    printed = run.stderr.split("== ")[1:]
    assert len(printed) == len(MISTAKES) + len(INSIDE), run.stderr[-2000:]
    package = os.path.dirname(pb.__file__) + os.sep
    for text in printed:
        lines = [line for line in text.splitlines() if line.startswith("  File ")]
        assert not any(package in line for line in lines), text
        assert len(lines) <= 6, text
        assert "During handling" not in text, text
