"""Profiles: rows for ops and lines whose times add up, tables, and flame graphs."""

from __future__ import annotations

import inspect
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import on_devices

import pullback as pb
from pullback.debug.profile_report import COMPILING, OUTSIDE, ProfileReport
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.disk_cache import disk_cache
from pullback.lazy.launch import state

profile = pb.debug.profile


def line(offset: int = 0) -> str:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"test_profiling.py:{frame.f_back.f_lineno + offset}"


def loss(w: Any, x: Any) -> Any:
    y = pb.tanh(x @ w)
    return (y * y).sum()


TANH, SQUARE = line(-4), line(-3)


def data(n: int = 64) -> tuple[Any, Any]:
    numbers = np.random.default_rng(0).standard_normal((2, n, n))
    return tuple(pb.tensor(a, dtype=pb.float32) for a in numbers)


def check_sums(found: ProfileReport) -> None:
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert sum(row.seconds for row in found.rows) == pytest.approx(found.seconds)
    assert all(row.seconds >= 0 for row in found.rows)
    for row in found.rows:
        assert bool(row.kernels) == (row.op not in (COMPILING, OUTSIDE))
        assert not row.kernels or sum(s for _, s in row.kernels) == pytest.approx(row.seconds)


def test_lines_of_a_gradient() -> None:
    w, x = data()
    found = profile(pb.value_and_grad(loss))(w, x)
    check_sums(found)
    ops = {(row.op, row.rule, row.line) for row in found.rows}
    assert {("matmul", "", TANH), ("tanh", "", TANH), ("matmul", "matmul", TANH)} <= ops
    assert ("sum", "", SQUARE) in ops and (OUTSIDE, "", "") in ops
    assert {row.function for row in found.rows if row.line} == {"loss"}
    assert found.ops["matmul"] == sum(r.seconds for r in found.rows if r.op == "matmul")
    assert {TANH, SQUARE} <= set(found.lines)
    assert (found.name, found.repeat, found.averaged) == ("loss", 3, 2)
    assert found.platform == registered_engine("xla").platform
    assert np.allclose(found.result[1].numpy(), pb.grad(loss)(w, x).numpy(), rtol=1e-5)
    assert COMPILING not in str(found) and found.warmup_seconds > 0


def test_equal_programs_at_two_lines() -> None:
    _, x = data(32)

    def twice(x: Any) -> float:
        first = pb.exp(x).sum().item()
        return first + pb.exp(x).sum().item()

    here = line(-3), line(-2)
    found = profile(twice, warmup=0, repeat=1)(x)
    check_sums(found)
    assert set(found.lines) >= set(here)
    assert any(row.op == COMPILING for row in found.rows)  # there was no warm-up
    with pb.config(eager=True):
        found = profile(twice)(x)
    assert set(found.lines) >= set(here) and not any(r.op == COMPILING for r in found.rows)


def step(w: Any, x: Any) -> Any:
    value, g = pb.value_and_grad(loss)(w, x)
    return w - 0.1 * g, value


UPDATE = line(-3)


@pytest.mark.usefixtures("cold_disk")
def test_a_compiled_step_that_donates() -> None:
    w, x = data()
    compiled = pb.compile(step, donate_argnums=0)
    expected = compiled(pb.tensor(w.numpy()), x)
    text, stored = compiled.lower(w, x).text(), disk_cache().used()
    found = profile(compiled)(w, x)
    check_sums(found)
    assert UPDATE in found.lines and TANH in found.lines
    assert w.shape == (64, 64) and np.isfinite(w.numpy()).all()  # it was not given away
    for got, want in zip(found.result, expected, strict=True):
        assert np.allclose(got.numpy(), want.numpy(), rtol=1e-5)
    # Normal programs are not affected: neither compiled again, nor stored, nor with locations
    assert disk_cache().used() == stored
    assert compiled.lower(w, x).text() == text and "loc(" not in text
    with pb.no_recompile():
        compiled(pb.tensor(w.numpy()), x)
        profile(pb.compile(step), repeat=1)(w, x)  # compiles what it needs


def test_inside_a_loop() -> None:
    w, x = data(16)

    def looped(w: Any, x: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            c = pb.sin(c @ w)
            return c, row

        return pb.scan(body, x, pb.arange(5))[0]

    here = line(-5)
    found = profile(pb.compile(looped), repeat=2)(w, x)
    check_sums(found)
    calls = {row.op: row.calls for row in found.rows if row.line == here}
    assert calls["matmul"] == 5 and calls["sin"] == 5


@pytest.mark.usefixtures("on_cpu")  # programs for GPUs are in one piece
def test_programs_in_pieces() -> None:
    w, x = data(8)

    def deep(w: Any, x: Any) -> Any:
        for _ in range(6):
            h = x @ w
            for k in range(12):
                h = h * k + pb.minimum(h, x)
            x = x - h
        return x

    here = line(-6), line(-4)
    found = profile(deep, repeat=1)(w, x)
    check_sums(found)
    assert type(next(reversed(state.cache._programs))).__name__ == "XlaSequence"
    assert set(found.lines) >= set(here)
    assert sum(row.calls for row in found.rows if row.op == "matmul") == 6


@on_devices
def test_on_a_mesh() -> None:
    w, x = data()
    mesh = pb.DeviceMesh((4,), ("d",))
    x = pb.shard(x, mesh, pb.P("d"))
    compiled = pb.compile(pb.value_and_grad(loss))
    found = profile(compiled)(w, x)
    check_sums(found)
    assert set(found.lines) >= {TANH, SQUARE} and "all_reduce" in found.ops
    calls = {row.op: row.calls for row in found.rows if not row.rule}
    assert calls["tanh"] == 4  # once on each device
    assert np.allclose(found.result[1].numpy(), compiled(w, x)[1].numpy(), rtol=1e-5)


def test_tables_and_flame_graph(tmp_path: Path) -> None:
    w, x = data(16)
    found = profile(lambda w, x: loss(w, x))(w, x)  # a name that HTML must escape
    text = str(found)
    assert text == repr(found) and text.startswith("<lambda>: ") and "(2 of 3 calls, after" in text
    assert "ms   share   calls   op" in text and "y = pb.tanh(x @ w)" in text
    found.save(tmp_path / "profile.html")
    page = (tmp_path / "profile.html").read_text(encoding="utf-8")
    root = ET.fromstring(page)
    names = [s.text for s in root.iter("span")]
    assert names[0] == "<lambda>" and {"loss", TANH, SQUARE, "tanh", OUTSIDE} <= set(names)
    assert len(root.findall(".//table/tr")) == len(found.rows) + 1
    outermost = root.find("body/div[@class='row']/div/div[@class='row']")
    assert outermost is not None
    widths = [float(b.get("data-width", "").rstrip("%")) for b in outermost]
    assert sum(widths) == pytest.approx(100, abs=1e-2)
    assert "http" not in page  # nothing is loaded
    table = ET.fromstring(found._repr_html_())
    assert [th.text for th in table.iter("th")][:3] == ["ms", "share", "calls"]


def test_refused_and_failed_calls() -> None:
    w, x = data(4)
    for wrong in ({"warmup": -1}, {"repeat": 0}):
        with pytest.raises(pb.errors.ArgumentError, match=r"debug\.profile: warmup must not"):
            profile(loss, **wrong)
    with pytest.raises(pb.errors.ArgumentError, match="f must be a function"):
        profile(3)  # type: ignore[arg-type]
    with (
        pb.config(engine="reference"),
        pytest.raises(pb.errors.EngineError, match="reference engine has no profiler"),
    ):
        profile(loss)(w, x)
    with pytest.raises(pb.errors.ArgumentError, match="being traced"):
        pb.compile(lambda w: profile(loss)(w, w).result)(w)
    calls = []

    def fails_later(x: Any) -> Any:
        calls.append(x)
        return x / (len(calls) < 2 or 1 / 0)

    with pytest.raises(ZeroDivisionError):
        profile(fails_later)(x)
    assert len(calls) == 2
    check_sums(profile(loss, repeat=1)(w, x))  # the failed one has ended
