"""Programs ahead of time: lowering, cost, saving and loading."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from devices import on_devices
from helpers import told
from paths import ROOT

import pullback as pb
from pullback import tree_nodes
from pullback.compiled.saved_program import MAGIC, SavedProgramError
from pullback.engines.engine_registry import registered_engine
from pullback.errors import ArgumentError, DonatedError, EngineError, IndexOutOfRange, UnsupportedOp

X = np.array([1.0, 2.0, 3.0], np.float32)
Pair = namedtuple("Pair", ["first", "second"])


class Box:
    def __init__(self, items: list, label: Any) -> None:
        self.items, self.label = items, label


pb.tree.register(Box, lambda b: (b.items, b.label), lambda label, items: Box(list(items), label))


@pytest.fixture
def x() -> Any:
    return pb.tensor(X)


# -- lowering -------------------------------------------------------------------------------------


def test_lowering_takes_types_and_runs_nothing(x):
    runs = []

    def f(x, y):
        runs.append(1)
        return x @ y

    g = pb.compile(f)
    lowered = g.lower(pb.Type((2, 3), pb.float32), x)
    assert str(lowered) == lowered.text()
    assert "Dot(%0, %1)" in lowered.text()
    text = lowered.stablehlo()
    assert "stablehlo.dot_general" in text and "tensor<2x3xf32>" in text
    program = lowered.compile()
    assert program(pb.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), x).tolist() == [1.0, 2.0]
    assert g(pb.ones((2, 3)), x).tolist() == [6.0, 6.0]
    assert len(runs) == 1


def test_a_program_ahead_of_time_takes_one_kind_of_arguments(x):
    w = pb.tensor(2.0)
    f = pb.compile(lambda x, k, flag: x * k * w if flag else x, static_argnums=2)
    program = f.lower(x, 2.0, True).compile()
    assert program(x, 3.0, True).tolist() == (6 * X).tolist()
    w += 1
    assert program(x, 3.0, True).tolist() == (9 * X).tolist()
    with told(ArgumentError, TypeError, "x must be f32[3], got f32[1]"):
        program(pb.tensor([1.0]), 2.0, True)
    with told(ArgumentError, TypeError, "k must be float, got f32[3]"):
        program(x, x, True)
    with told(ArgumentError, TypeError, "tree"):
        program([x], 2.0, True)
    with told(ArgumentError, TypeError, "static"):
        program(x, 2.0, False)
    assert pb.grad(lambda x: program(x, 2.0, True).sum())(x).tolist() == [6.0, 6.0, 6.0]


def test_cost_counts_work_traffic_and_memory():
    n = 64
    a = pb.Type((n, n), pb.float32)
    cost = pb.compile(lambda a, b: pb.sin(a @ b)).lower(a, a).cost()
    size = 4 * n * n
    assert cost.flops == 2 * n**3 + n**2
    if registered_engine("xla").platform == "cpu":  # XLA does not know what cuBLAS reads
        assert cost.bytes_accessed >= 3 * size
    assert (cost.argument_bytes, cost.result_bytes) == (2 * size, size)
    assert cost.peak_bytes >= 3 * size
    donating = pb.compile(lambda a: a + 1, donate_argnums=0).lower(a).cost()
    plain = pb.compile(lambda a: a + 1).lower(a).cost()
    assert donating.peak_bytes < plain.peak_bytes
    with pb.config(engine="reference"), told(EngineError, RuntimeError, "does not know the cost"):
        pb.compile(lambda a: a + 1).lower(a).cost()


@on_devices
def test_cost_on_a_mesh_is_that_of_one_device():
    mesh = pb.DeviceMesh((4,), ("d",))
    x = pb.shard(pb.ones((64, 32)), mesh, pb.P("d"))
    cost = pb.compile(lambda x, w: x @ w).lower(x, pb.ones((32, 16))).cost()
    assert cost.flops == 2 * 16 * 32 * 16


def test_cost_of_a_program_in_pieces():
    def deep(x, ws):
        for w in ws:
            for _ in range(5):
                x = pb.sin(x @ w) * pb.cos(x) + x
        return x

    a = pb.Type((8, 8), pb.float32)
    cost = pb.compile(deep).lower(a, [a] * 8).cost()
    assert cost.flops == 8 * 5 * (2 * 8**3 + 4 * 8**2)
    assert cost.argument_bytes == 9 * 4 * 64
    assert cost.peak_bytes > cost.argument_bytes


# -- files ----------------------------------------------------------------------------------------


def round_trip(lowered: Any, folder: Any) -> Any:
    path = folder / "program.pullback"
    lowered.save(path)
    assert [p.name for p in folder.iterdir()] == ["program.pullback"]
    return pb.load_compiled(path)


def test_a_saved_program_gives_the_same_values(tmp_path, x):
    w = pb.tensor([2.0, 3.0, 4.0])

    def f(x, k, n):
        return {"y": pb.sin(x) * w * k + n, "x": x, "twice": (x * 2, x * 2), "none": None}

    compiled = pb.compile(f)
    loaded = round_trip(compiled.lower(x, 0.5, 3), tmp_path)
    # in a file, w is a constant, and XLA's GPU compiler joins other products and sums
    rounding = 0 if registered_engine("xla").platform == "cpu" else 1e-6
    for k, n in ((0.5, 3), (1.5, -2)):
        got, want = loaded(x, k, n), compiled(x, k, n)
        assert got["none"] is None
        for a, b in zip(pb.tree.leaves(got), pb.tree.leaves(want), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rounding)
    before = loaded(x, 0.5, 3)["y"].tolist()
    w += 1  # the file holds the value that it had
    assert loaded(x, 0.5, 3)["y"].tolist() == before


@pytest.mark.parametrize(
    "tree",
    [
        lambda x: [x, (x, None)],
        lambda x: {"b": x, "a": {2: x, 10: x}},
        lambda x: OrderedDict(z=x, y=[x]),
        lambda x: Pair(x, Pair(x, x)),
        lambda x: Box([x, x], ("label", 1, -0.0)),
    ],
)
def test_trees_of_every_kind_are_saved(tree, tmp_path, x):
    f = pb.compile(lambda t: pb.tree.map(lambda v: v * 2, t))
    loaded = round_trip(f.lower(tree(x)), tmp_path)
    made = loaded(tree(x))
    assert [v.tolist() for v in pb.tree.leaves(made)] == [
        (2 * X).tolist() for _ in pb.tree.leaves(tree(x))
    ]
    assert type(made).__name__ == type(tree(x)).__name__


def test_static_values_are_saved_and_compared(tmp_path, x):
    f = pb.compile(lambda x, mode, scale: x * scale if mode == "up" else x, static_argnames="scale")
    loaded = round_trip(f.lower(x, "up", scale=-0.0), tmp_path)
    assert loaded(x, "up", scale=-0.0).tolist() == [-0.0, -0.0, -0.0]
    for args, kwargs in (((x, "down"), {"scale": -0.0}), ((x, "up"), {"scale": 0.0})):
        with told(ArgumentError, TypeError, "a static argument must be"):
            loaded(*args, **kwargs)
    with told(ArgumentError, TypeError, "x must be f32[3], got f64[3]"):
        loaded(X.astype(np.float64), "up", scale=-0.0)
    with told(ArgumentError, TypeError, "tree"):
        loaded(x, ["up"], scale=-0.0)

    class Config:
        pass

    with told(ArgumentError, TypeError, "a value of type Config cannot be written"):
        f.lower(x, Config(), scale=1.0).save(tmp_path / "none")


def test_checks_and_donation_are_saved(tmp_path, x):
    def f(w, i):
        return w + 1, w[i]

    lowered = pb.compile(f, donate_argnums=0).lower(x, pb.tensor(0))
    loaded = round_trip(lowered, tmp_path)
    w = pb.compile(lambda x: x * 1)(x)
    before = w._node.value.unsafe_buffer_pointer()
    more, one = loaded(w, pb.tensor(1))
    assert more._node.value.unsafe_buffer_pointer() == before
    assert (more.tolist(), one.item()) == ((X + 1).tolist(), 2.0)
    with pytest.raises(DonatedError):
        w.numpy()
    more, one = loaded(pb.tensor(X), pb.tensor(9))
    assert more.tolist() == (X + 1).tolist()
    with pytest.raises(IndexOutOfRange, match=r"out of range.*test_lower_and_save.py:\d+"):
        one.numpy()


def test_a_loaded_program_has_no_derivative(tmp_path, x):
    loaded = round_trip(pb.compile(lambda x: x * 2).lower(x), tmp_path)
    mapped = pb.vmap(loaded, in_axes=None, axis_size=2)
    for use in (pb.grad(lambda x: loaded(x).sum()), pb.compile(loaded), mapped):
        with pytest.raises(UnsupportedOp, match="was loaded from a file"):
            use(x)
    with pb.no_grad():
        assert loaded(pb.tensor(X, requires_grad=True)).tolist() == (2 * X).tolist()


def test_another_process_loads_a_program_without_the_function(tmp_path, x):
    path = tmp_path / "f.pullback"
    pb.compile(lambda x, k: {"y": pb.tanh(x) * k}).lower(x, 2.0).save(path)
    code = (
        "import sys, pullback as pb; f = pb.load_compiled(sys.argv[1]);"
        "print(f(pb.tensor([1.0, 2.0, 3.0]), 3.0)['y'].tolist())"
    )
    root = str(ROOT)
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    np.testing.assert_allclose(eval(ran.stdout), np.tanh(X) * 3, rtol=1e-6)


def test_files_that_are_not_programs_are_refused(tmp_path, x):
    path = tmp_path / "f.pullback"
    pb.compile(lambda x: x * 2).lower(x).save(path)
    good = path.read_bytes()
    start = len(MAGIC) + 32

    def sealed(body: bytes) -> bytes:
        return MAGIC + hashlib.sha256(body).digest() + body

    newer = sealed(b"\x03" + good[start + 1 :])
    header = good[start:].replace(b'"plan"', b'"plum"')
    cases = {
        "not written by": [b"", b"hello", json.dumps({}).encode()],
        "it is truncated": [good[: start + 3]],
        "checksum": [good[:-1], good + b"x", good[:-5] + bytes([good[-5] ^ 1]) + good[-4:],
                     good[: start + 40] + b"?" + good[start + 41 :]],
        "format 3": [newer],
        "header is invalid": [sealed(header)],
    }  # fmt: skip
    for word, files in cases.items():
        for data in files:
            path.write_bytes(data)
            with told(SavedProgramError, ValueError, word, "f.pullback"):
                pb.load_compiled(path)
    path.write_bytes(good)
    assert pb.load_compiled(path)(x).tolist() == (2 * X).tolist()
    with pytest.raises(FileNotFoundError):
        pb.load_compiled(tmp_path / "nothing")


def test_a_class_that_is_not_registered_here_is_named(tmp_path, x, monkeypatch):
    path = tmp_path / "f.pullback"
    pb.compile(lambda x: Box([x], "label")).lower(x).save(path)
    monkeypatch.setattr(tree_nodes, "_named", {})
    with told(ArgumentError, ValueError, "Box is not registered here", "pb.tree.register"):
        pb.load_compiled(path)


def test_a_method_is_compiled_ahead_of_time_for_its_instance(x):
    class Scaled:
        def __init__(self, k):
            self.k = k

        @pb.compile
        def __call__(self, x):
            return x * self.k

        @pb.compile(static_argnames="n")
        def power(self, x, n):
            return (x * self.k) ** n

    two = Scaled(2.0)
    np.testing.assert_array_equal(two.__call__.lower(x).compile()(x).numpy(), (x * 2).numpy())
    ready = two.power.lower(x, n=3).compile()
    np.testing.assert_allclose(ready(x, n=3).numpy(), ((x * 2) ** 3).numpy())


# -- on a mesh ------------------------------------------------------------------------------------

MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))


def test_a_program_on_a_mesh_is_lowered_to_that_of_one_device():
    x = pb.Type((8, 8), pb.float32, pb.Sharding(MESH, pb.P("dp", "tp")))
    w = pb.Type((8, 8), pb.float32, pb.Sharding(MESH, pb.P("tp")))
    text = pb.compile(lambda x, w: x @ w, donate_argnums=0).lower(x, w).stablehlo()
    assert "mhlo.num_replicas = 8" in text and "stablehlo.all_reduce" in text
    assert "@main(%1: tensor<4x2xf32> {jax.buffer_donor = true}, %2: tensor<2x8xf32>)" in text


@on_devices
def test_a_program_on_a_mesh_can_be_saved():
    """With numbers, captured tensors on and off the mesh, run-time checks and uneven shards."""
    data = np.arange(48, dtype=np.float32).reshape(6, 8)
    x = pb.tensor(data).shard(MESH, pb.P("dp", "tp"))
    v, b = pb.tensor(data).shard(MESH, pb.P(None, "tp")), pb.ones((8,))
    whole = pb.tensor(data)

    def f(x, s, i):
        return {"y": x * s + v + b, "sum": x.sum(), "picked": x[i]}

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.pullback")
        pb.compile(f).lower(x, 2.0, pb.tensor([1, 5])).save(path)
        loaded = pb.load_compiled(path)
    found = loaded(x, 3.0, pb.tensor([1, 5]))
    np.testing.assert_array_equal(found["y"].numpy(), data * 4 + 1)
    assert found["y"].sharding.spec == pb.P("dp", "tp") and found["sum"].item() == data.sum()
    np.testing.assert_array_equal(found["picked"].numpy(), data[[1, 5]])
    with pytest.raises(IndexOutOfRange, match="axis 0 of size 6"):
        loaded(x, 3.0, pb.tensor([1, 6]))["picked"].numpy()
    layouts = "x must be f32[6,8] with P('dp', 'tp') on DeviceMesh(dp=2, tp=4), got f32[6,8]"
    with told(ArgumentError, ValueError, layouts):
        loaded(whole, 3.0, pb.tensor([1, 5]))
    with told(ArgumentError, ValueError, layouts, "with P('tp') on"):
        loaded(pb.reshard(x, pb.P("tp")), 3.0, pb.tensor([1, 5]))


# -- saving from the compiled function ------------------------------------------------------------


def test_a_compiled_function_saves_its_latest_program(tmp_path, x):
    path = tmp_path / "f.pullback"
    f = pb.compile(lambda x, n, scale=1.0: (x * n + scale, n), static_argnums=1)
    f(x, 2)
    f(x, 3, scale=0.5)
    f.save(path)
    y, n = pb.load_compiled(path)(x, 3, scale=2.0)
    assert y.tolist() == [5.0, 8.0, 11.0] and n == 3
    f.save(path, pb.Type((2,), pb.float64), 4)
    assert pb.load_compiled(path)(pb.tensor(X[:2].astype("f8")), 4)[0].tolist() == [5.0, 9.0]
    f.lower(x, 2).compile().save(path)
    assert pb.load_compiled(path)(x, 2)[0].tolist() == [3.0, 5.0, 7.0]


def test_a_function_that_was_never_called_is_saved_for_no_arguments(tmp_path):
    path = tmp_path / "f.pullback"
    pb.compile(lambda: pb.arange(3)).save(path)
    assert pb.load_compiled(path)().tolist() == [0, 1, 2]


def test_a_compiled_method_is_saved_with_its_instance(tmp_path, x):
    class Scale:
        def __init__(self, by):
            self.by = by

        @pb.compile
        def __call__(self, x):
            return x * self.by

    pb.tree.register(Scale, lambda s: ((s.by,), None), lambda _, by: Scale(*by))
    path, double = tmp_path / "f.pullback", Scale(pb.tensor(2.0))
    double.__call__.save(path, x)
    assert double(x).tolist() == [2.0, 4.0, 6.0]
    assert pb.load_compiled(path)(Scale(pb.tensor(5.0)), x).tolist() == [5.0, 10.0, 15.0]
