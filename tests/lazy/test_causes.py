"""Every miss of the program cache has a cause, for compiled functions and lazy programs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from counters import counting
from helpers import line, told
from paths import ROOT

import pullback as pb
from pullback.errors import RecompileError

X = pb.tensor(np.array([1.0, 2.0, 3.0], np.float32))


def last() -> Any:
    return pb.cache_info().causes[-1]


def about(cause: Any) -> tuple:
    return cause.kind, cause.path, cause.before, cause.after


# -- compiled functions ---------------------------------------------------------------------------


def test_the_cause_is_the_path_of_the_leaf_that_differs():
    f = pb.compile(lambda params, x: x * params["layers"][1]["w"])
    params = {"layers": [{"w": X}, {"w": X}]}
    f(params, X)
    at = line(-1)
    assert last().kind == "first" and str(last().where) == at
    params["layers"][1]["w"] = pb.tensor([2.0])
    f(params, X)
    assert about(last()) == ("shape", "params['layers'][1]['w']", "f32[3]", "f32[1]")
    f(params, pb.tensor([1, 2]))
    assert about(last()) == ("dtype", "x", "f32[3]", "i64[2]")
    f(params, 2.0)
    assert about(last()) == ("dtype", "x", "i64[2]", "float")
    params["layers"].append({"w": X})
    f(params, 2.0)
    assert about(last()) == ("structure", "params['layers'][2]['w']", "absent", "f32[3]")
    params["layers"] = tuple(params["layers"])
    f(params, 2.0)
    assert last().kind == "structure" and last().path == "arguments"


def test_the_cause_is_a_static_value():
    f = pb.compile(lambda x, n, flag=True: x * n if flag else x, static_argnames="n")
    f(X, 2)
    f(X, 3)
    assert about(last()) == ("static", "n", "2", "3")
    f(X, 3, False)
    assert about(last())[:2] == ("structure", "flag")
    f(X, 3, True)
    assert about(last()) == ("static", "flag", "False", "True")
    f(X, n=3)
    assert last().kind in ("static", "structure")


def test_the_cause_is_a_guard_that_failed_with_the_line_that_reads_it():
    scale = 2.0

    class Config:
        rate = 0.5

    config = Config()
    config.depth = 2

    def helper(x):
        return x + config.depth

    depth_is_read = line(-2)

    @pb.compile
    def f(x, bias=1.0):
        return helper(x) * scale * config.rate + bias

    f(X)
    scale = 3.0
    f(X)
    assert about(last()) == ("guard", "scale", "2.0", "3.0")
    config.depth = 4
    f(X)
    assert about(last()) == ("guard", "config.depth", "2", "4")
    assert str(last().where) == depth_is_read
    config.rate = 0.25
    f(X)
    assert last().kind == "guard" and last().path == "config.rate"

    def other(x):
        return x - config.depth

    helper = other  # noqa: F811
    f(X)
    assert last().kind == "guard" and last().path == "helper"
    assert "test_causes.py" in last().before and "test_causes.py" in last().after
    f.__wrapped__.__defaults__ = (5.0,)
    f(X)
    assert about(last()) == ("guard", "default bias of f", "1.0", "5.0")


def test_the_cause_is_a_captured_tensor_of_another_type():
    w = pb.tensor([1.0, 1.0, 1.0])
    f = pb.compile(lambda x: x * w)
    f(X)
    w = pb.tensor([2.0])
    f(X)
    assert about(last()) == ("guard", "w", "f32[3]", "f32[1]")


def test_the_cause_is_a_setting():
    f = pb.compile(lambda x: x * 2)
    f(X)
    with pb.config(engine="reference"):
        f(X)
    assert about(last()) == ("device", "engine", "xla", "reference")
    with pb.no_grad():
        f(X)
    assert last().kind in ("device", "setting")


# -- lazy programs --------------------------------------------------------------------------------


def test_the_cause_is_the_first_op_that_differs():
    def f(x, kind):
        a = pb.exp(x)
        if kind == "more":
            a = pb.cos(a)
        b = pb.sin(x) if kind == "sin" else pb.cos(x) if kind == "cos" else a * 1.0
        return (a if kind == "other" else b) + x

    def compiled(kind):
        f(X, kind).numpy()
        return last()

    compiled("sin")
    cause = compiled("cos")
    assert cause.kind == "structure"
    assert (cause.before, cause.after) == ("sin", "cos")
    assert "test_causes.py" in cause.path and str(cause.where) in cause.path
    for kind in ("other", "more"):
        cause = compiled(kind)
        assert cause.kind == "structure" and cause.where is not None
        assert "test_causes.py" in cause.path
        assert cause.before != cause.after
        assert "structure differs" not in str(cause)


def test_the_cause_is_another_operand():
    def f(x, y, swap):
        a, b = pb.exp(x), pb.exp(y)
        return pb.sin(a if swap else b) + a * b

    y = pb.tensor([3.0, 4.0, 5.0])
    f(X, y, False).numpy()
    f(X, y, True).numpy()
    cause = last()
    assert cause.kind == "structure" and cause.path.startswith("operand of sin")
    assert "the result of exp" in cause.before and "the result of exp" in cause.after


def test_the_cause_is_the_op_where_a_longer_program_continues():
    def f(x, n):
        for _ in range(n):
            x = pb.sin(x)
        return x

    pb.clear_cache()
    f(X, 2).numpy()
    f(X, 3).numpy()
    assert about(last())[0] == "structure" and (last().before, last().after) == ("the end", "sin")
    f(X, 1).numpy()
    assert (last().before, last().after) == ("sin", "the end")


# -- no_recompile ---------------------------------------------------------------------------------


def test_no_recompile_runs_compiled_programs_and_raises_the_cause_for_others():
    f = pb.compile(lambda x, k: x * k)
    f(X, 1.0)

    def lazily(x):
        return (pb.tanh(x) * 3).numpy()

    lazily(X)
    with counting() as counts, pb.no_recompile():
        assert f(X, 2.0).tolist() == [2.0, 4.0, 6.0]
        lazily(X)
        assert counts.misses == 0
        with told(RecompileError, RuntimeError, "x was f32[3], is f32[2]") as info:
            f(pb.tensor([1.0, 2.0]), 2.0)
        assert about(info.value.cause) == ("shape", "x", "f32[3]", "f32[2]")
        with pytest.raises(RecompileError) as info:
            lazily(pb.tensor([1.0, 2.0]))
        assert about(info.value.cause)[0] == "shape"
        with pytest.raises(RecompileError) as info:
            pb.compile(lambda x: x - 7.5)(X)
        assert info.value.cause.kind == "first"
        with pytest.raises(RecompileError):
            (X - 77.25 + pb.exp(X) * X).numpy()
        assert counts.misses == counts.compiles == 0
    assert f(pb.tensor([1.0, 2.0]), 2.0).tolist() == [2.0, 4.0]


def test_a_refused_tensor_is_still_pending():
    y = pb.expm1(X) * 11.0 - X
    z = y + 1
    with pb.no_recompile(), pytest.raises(RecompileError):
        y.numpy()
    assert z.numpy() == pytest.approx(y.numpy() + 1)


def test_no_recompile_forbids_the_first_run_of_a_traced_function():
    f = pb.compile(lambda x: pb.log1p(x) * 13.5)
    f.lower(X)
    with pb.no_recompile(), pytest.raises(RecompileError):
        f(X)
    f(X)
    with pb.no_recompile():
        f(X)


# -- the log --------------------------------------------------------------------------------------


def test_each_compile_prints_one_line_if_requested(monkeypatch, capsys):
    f = pb.compile(lambda x: pb.log1p(x) * 17.25)
    f(X)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("PULLBACK_LOG", "compiles")
    f(X)
    assert capsys.readouterr().err == ""
    f(pb.tensor([1.0]))
    (pb.log1p(X) - 3.75 * X).numpy()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    for text in lines:
        assert text.startswith("pullback: compiled in ") and " s, " in text
        assert "test_causes.py:" in text
    assert "x was f32[3], is f32[1]" in lines[0]


def test_the_log_is_set_by_the_environment():
    code = "import pullback as pb; print(pb.compile(lambda x: x * 2)(pb.tensor([1.0])).tolist())"
    root = str(ROOT)
    env = {**os.environ, "PYTHONPATH": root, "PULLBACK_LOG": "compiles"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert ran.stdout == "[2.0]\n"
    assert [x.split()[0] for x in ran.stderr.splitlines() if "compiled" in x] == ["pullback:"]
