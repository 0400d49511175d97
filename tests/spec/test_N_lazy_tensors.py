"""CHECKLIST N1 to N11: pending tensors, when work is submitted, and the modes."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest
from counters import counting
from each import each
from helpers import line

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.errors import ArgumentError, EngineError
from pullback.graph.ambient import PENDING_LIMIT
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.lazy import launch
from pullback.lazy.pending import submit_pending
from pullback.lazy.pieces import PIECE
from pullback.lazy.record import apply, record_several
from pullback.ops.collective.all_reduce import Collective
from pullback.ops.prelude import Op

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def x() -> Any:
    return pb.tensor(X)


@pytest.fixture
def scalar(x: Any) -> Any:
    """A pending tensor of rank 0, and integer."""
    return (x * 2).sum().astype("int64")


# -- promises -----------------------------------------------------------------------------------


def test_N1_metadata_is_known_before_any_evaluation(x):
    with counting() as counts:
        y = x + 1
        assert y.shape == (2, 3) and y.ndim == 2 and y.size == 6 and len(y) == 2
        assert y.dtype is pb.float32
        assert y.device in ("cpu:0", "cuda:0")
        assert y.sharding is None
        z = (y @ pb.tensor(X.T)).astype("float64").sum(axis=0, keepdims=True)
        assert (z.shape, z.dtype) == ((1, 2), pb.float64)
        assert counts.nothing
    np.testing.assert_array_equal(y.numpy(), X + 1)


def test_N2_recording_builds_no_engine_graph(x, monkeypatch):
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("recording asked the engine for something")

    submit_pending()  # what earlier tests left: a derivative would submit it
    with monkeypatch.context() as patch, counting() as counts:
        patch.setattr(launch, "build_program", refuse)
        patch.setattr(launch.Launch, "run", refuse)
        value, g = pb.value_and_grad(lambda a: (a * a).sum())(x)
        y = x
        for _ in range(100):
            y = y * 2 - y
        assert counts.nothing
    with counting() as counts:
        assert value.item() == (X * X).sum()
        np.testing.assert_array_equal(g.numpy(), 2 * X)
        np.testing.assert_array_equal(y.numpy(), X)
        assert counts.programs >= 1


def test_N3_a_promise_knows_its_op_inputs_and_line(x):
    y = x * x
    written = line(-1)
    assert y._node.op.name == "Mul"
    assert y._node.inputs == (x._node, x._node)
    assert str(y._node.where) == written
    assert y._node.value is None


def test_N3_a_realised_tensor_holds_a_buffer_and_no_history(x):
    y = x * 3
    middle = weakref.ref(y._node)
    z = y + 1
    del y
    z.numpy()
    gc.collect()
    assert middle() is None, "what was computed on the way is still held"
    assert z._node.value is not None and z._node.inputs == ()
    assert z._node.op.title == "add", "the tombstone says which op it was"
    source = weakref.ref(x._node)
    del x
    gc.collect()
    # pytest's fixture still holds x itself; a fresh leaf is really gone
    leaf = pb.tensor(X)
    source = weakref.ref(leaf._node)
    w = leaf + 1
    w.numpy()
    del leaf
    gc.collect()
    assert source() is None


def test_N3_history_that_a_derivative_needs_is_kept(x):
    y, pull = pb.vjp(lambda a: a * a * a, x)
    y.numpy()
    (g,) = pull(pb.tensor(np.ones_like(X)))
    np.testing.assert_allclose(g.numpy(), 3 * X * X)
    w = pb.tensor(X, requires_grad=True)
    loss = (w * w).sum()
    loss.item()
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2 * X)


SOURCES = {"Input", "Leaf", "Scalar", "Result", "ShardMap"}
# Collectives need a named axis: tests/api/test_collectives.py has them.
OPS = sorted(n for n, cls in TABLE.items() if n not in SOURCES and not issubclass(cls, Collective))


def recorded(op, arrays):
    """The results of an op, as tensors, and whether it has several."""
    tensors = [pb.asarray(np.array(a, order="C")) for a in arrays]
    several = isinstance(op.type_of(*[t._node.type for t in tensors]), tuple)
    nodes = tuple(t._node for t in tensors)
    return (record_several(op, nodes) if several else (apply(op, *tensors),)), several


def check_realised(y):
    predicted = y.shape, y.dtype
    value = y.numpy()
    assert (value.shape, value.dtype) == (predicted[0], predicted[1].numpy)


@each(OPS)
def test_N4_predicted_type_is_the_realised_one(name):
    samples = list(TABLE[name].samples())
    assert samples
    with pb.config(engine="reference"):
        for sample in samples:
            for y in recorded(*sample)[0]:
                check_realised(y)


def test_N4_predicted_type_is_the_realised_one_on_xla():
    """Of some ops, in one program; tests/ops/test_op_table.py compares all types with XLA's."""
    made = []
    for i, name in enumerate(OPS):
        op, arrays = next(iter(TABLE[name].samples()))
        results, several = recorded(op, arrays)
        if i % 10 == 0 or (several and i % 3 == 0):
            made += results
    pb.evaluate(made)
    for y in made:
        check_realised(y)


MISTAKES = {
    "broadcasting": lambda x: x + pb.tensor(np.ones((2, 4), np.float32)),
    "axis": lambda x: x.sum(axis=2),
    "negative axis": lambda x: x.sum(axis=-3),
    "axis twice": lambda x: x.sum(axis=(0, 0)),
    "index": lambda x: x[2],
    "negative index": lambda x: x[0, -4],
    "index array": lambda x: x[np.array([0, 5])],
    "too many indices": lambda x: x[0, 0, 0],
    "write index": lambda x: x.__setitem__(7, 1.0),
    "reshape": lambda x: pb.reshape(x, (4, 2)),
    "reshape twice unknown": lambda x: pb.reshape(x, (-1, -1)),
    "concat": lambda x: pb.concat([x, pb.tensor(np.ones((3, 4), np.float32))]),
    "matmul": lambda x: x @ x,
    "permutation": lambda x: pb.permute_dims(x, (0, 0)),
    "squeeze": lambda x: pb.squeeze(x, axis=0),
    "expand": lambda x: pb.broadcast_to(x, (2, 4)),
    "dtype of bits": lambda x: x & x,
    "dtype of a name": lambda x: x.astype("float99"),
    "dtype of scalar": lambda x: x.astype("int8") + 300,
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_N5_errors_are_raised_when_recorded(name, x):
    with counting() as counts:
        with pytest.raises(pb.PullbackError):
            MISTAKES[name](x)
        assert counts.nothing
    assert (x + 1).numpy().tolist() == (X + 1).tolist()


def test_N6_siblings_share_one_node(x):
    with counting() as counts:
        values, indices = record_several(TABLE["TopK"](2, 1), (x._node,))
        assert counts.nothing
        assert values._node.inputs[0] is indices._node.inputs[0]
        assert isinstance(values._node.inputs[0].type, tuple)
        assert (values.shape, values.dtype, indices.dtype) == ((2, 2), pb.float32, pb.int64)
    with counting() as counts:
        assert values.tolist() == [[2, 1], [5, 4]]
        assert indices.tolist() == [[2, 1], [2, 1]]
        assert counts.programs == 1, "reading one sibling computes the other"


# -- when work is submitted -----------------------------------------------------------------------

READS = {
    "numpy": lambda t: t.numpy(),
    "item": lambda t: t.item(),
    "tolist": lambda t: t.tolist(),
    "print": print,
    "str": str,
    "repr": repr,
    "float": float,
    "int": int,
    "bool": bool,
    "complex": complex,
    "if": lambda t: 1 if t else 0,
    "__index__": lambda t: range(100)[t],
    "format": lambda t: f"{t}",
    "format with a spec": lambda t: f"{t:05d}",
    "__array__": np.asarray,
    "np.add": lambda t: np.add(np.ones(2), np.asarray(t)),
    "DLPack": np.from_dlpack,
    "evaluate": pb.evaluate,
    "evaluate a tree": lambda t: pb.evaluate({"a": [t]}),
}


@pytest.mark.parametrize("name", READS)
def test_N8_a_host_read_submits(name, scalar):
    if name == "DLPack" and registered_engine("xla").platform != "cpu":
        pytest.skip("NumPy reads the memory of the CPU alone")
    with counting() as counts:
        READS[name](scalar)
        assert counts.programs == 1, name
        READS[name](scalar)
        assert counts.programs == 1, "a second read computes nothing"


def rebind(t: Any) -> Any:
    t += 1
    return t


def write(t: Any) -> Any:
    y = pb.broadcast_to(t, (3,))
    y[1] = 7
    y[0:1] = 5
    return y


SILENT = {
    "shape, dtype, device": lambda t: (t.shape, t.dtype, t.device, t.sharding, t.ndim, t.size),
    "arithmetic": lambda t: -t * 2 + t / 3 - t**2,
    "comparison": lambda t: (t == 3, t < t, t != None),  # noqa: E711
    "hash and identity": lambda t: {t: 1}[t],
    "requires_grad, is_leaf": lambda t: (t.requires_grad, t.is_leaf, t.grad),
    "detach": lambda t: t.detach(),
    "astype": lambda t: t.astype("float32"),
    "asarray and tensor": lambda t: (pb.asarray(t), pb.tensor(t)),
    "in place": rebind,
    "writing": write,
    "indexing": lambda t: pb.broadcast_to(t, (3, 2))[1:, None, 0],
    "gathering": lambda t: pb.tensor([1.0, 2.0, 3.0])[t * 0],
    "shapes": lambda t: pb.reshape(pb.broadcast_to(t, (4, 2)), (-1,)),
    "joining": lambda t: pb.concat([pb.stack([t, t]), pb.stack([t])]),
    "trees": lambda t: pb.tree.map(lambda a: a + 1, {"a": [t, (t,)]}),
    "eval_shape": lambda t: pb.eval_shape(lambda a: a * 2, t),
    "no_grad": lambda t: pb.no_grad().__enter__().__exit__(),
    "where": lambda t: pb.where(t > 3, t, -t),
    "cache_info, engine_info": lambda t: (pb.cache_info(), pb.engine_info()),
    "a weak reference": weakref.ref,
    "dying": lambda t: None,
}


@pytest.mark.parametrize("name", SILENT)
def test_N8_nothing_else_submits(name, scalar):
    with counting() as counts:
        made = SILENT[name](scalar)
        assert counts.programs == 0 and counts.compiles == 0, name
    del made


def test_N8_iterating_gives_promises_and_ends(x):
    with counting() as counts:
        rows = list(x * 2)
        assert [r.shape for r in rows] == [(3,), (3,)]
        first, second = x * 2
        assert counts.nothing
    assert [r.tolist() for r in rows] == (X * 2).tolist()
    assert second.tolist() == (X * 2)[1].tolist() and first.tolist() == (X * 2)[0].tolist()
    with pytest.raises(ArgumentError):
        iter(pb.tensor(1.0))


@pytest.mark.parametrize(
    "enter",
    [
        lambda y: pb.grad(lambda a: a.sum())(y),
        lambda y: pb.value_and_grad(lambda a: a.sum())(y),
        lambda y: pb.vjp(lambda a: a * 2, y),
        lambda y: pb.jvp(lambda a: a * 2, (y,), (y,)),
        lambda y: pb.linearize(lambda a: a * 2, y),
        lambda y: pb.trace(lambda a: a * 2, y),
    ],
    ids=["grad", "value_and_grad", "vjp", "jvp", "linearize", "trace"],
)
def test_N8_a_differentiation_root_is_never_pending(enter, x):
    y = x + 1
    with counting() as counts:
        made = enter(y)
        assert counts.programs == 1
        assert y._node.value is not None
    del made


def test_N8_a_leaf_that_requires_a_gradient_is_never_pending(x):
    with counting() as counts:
        w = pb.tensor(x + 1, requires_grad=True)
        loss = (w * w).sum()
        assert counts.programs == 1
        with pb.no_grad():
            w.assign(w * 2)
        assert counts.programs == 1, "assigning is recording"
        another = (w * w).sum()
        assert counts.programs == 2, "using it is a root"
    assert another.item() == 4 * ((X + 1) ** 2).sum()
    assert loss.item() == ((X + 1) ** 2).sum()


def test_N8_data_dependent_shapes_submit(x):
    with counting() as counts:
        picked = x[x > 2.5]
        assert counts.programs == 1
        assert picked.shape == (3,)
    assert picked.tolist() == [3, 4, 5]


def test_N8_the_size_bound_submits(x):
    y = x
    with counting() as counts:
        for i in range(4 * PENDING_LIMIT):
            y = y + 1
            assert i > PENDING_LIMIT - 10 or counts.nothing
        assert 1 <= counts.programs <= 4 * PENDING_LIMIT // PIECE + 1
        assert counts.compiles == 1, "a loop is cut at the same phase each time"
    np.testing.assert_array_equal(y.numpy(), X + 4 * PENDING_LIMIT)


# -- defaults -------------------------------------------------------------------------------------


def test_N9_defaults_are_scoped():
    assert pb.tensor(1.5).dtype is pb.float32
    with pb.default_dtype("float64"):
        assert pb.tensor(1.5).dtype is pb.float64
        assert (pb.tensor(1) * 1.5).dtype is pb.float64
        assert pb.tensor(1.5 + 1j).dtype is pb.complex128
        with pb.default_dtype("bfloat16"):
            assert pb.tensor(1.5).dtype is pb.bfloat16
        assert pb.tensor(1.5).dtype is pb.float64
        with pytest.raises(RuntimeError, match="out"), pb.default_dtype("float16"):
            raise RuntimeError("out")
        assert pb.tensor(1.5).dtype is pb.float64
    assert pb.tensor(1.5).dtype is pb.float32
    with pb.default_device("cpu:0"):
        assert (pb.tensor(1.5) + 1).device == "cpu:0"
    with pytest.raises(pb.PullbackError), pb.default_dtype("int32"):
        pass


def test_N9_a_missing_device_raises():
    with pytest.raises(pb.PullbackError), pb.default_device("tpu:0"):
        (pb.tensor(1.0) + 1).item()
    with pytest.raises(pb.PullbackError), pb.default_device("cpu:77"):
        (pb.tensor(1.0) + 1).item()
    assert (pb.tensor(1.0) + 1).item() == 2


def test_N9_threads_do_not_see_each_others_defaults():
    seen: dict[str, Any] = {}
    inside, looked = threading.Barrier(3), threading.Barrier(3)

    def work(name: str) -> None:
        with pb.default_dtype(name), pb.config(engine="reference" if "16" in name else "xla"):
            inside.wait()
            seen[name] = pb.tensor(0.5).dtype.name, pb.engine_info().engine
            looked.wait()

    threads = [threading.Thread(target=work, args=(n,)) for n in ("float64", "float16")]
    for t in threads:
        t.start()
    inside.wait()
    seen["main"] = pb.tensor(0.5).dtype.name, pb.engine_info().engine
    looked.wait()
    for t in threads:
        t.join()
    assert seen == {
        "float64": ("f64", "xla"), "float16": ("f16", "reference"), "main": ("f32", "xla"),
    }  # fmt: skip


def test_N9_tasks_do_not_see_each_others_defaults():
    seen: list[tuple[str, str]] = []

    async def work(name: str) -> None:
        for _ in range(3):
            with pb.default_dtype(name):
                await asyncio.sleep(0)
                seen.append((name, str(pb.tensor(0.5).dtype)))
            await asyncio.sleep(0)
            seen.append(("float32", str(pb.tensor(0.5).dtype)))

    async def main() -> None:
        await asyncio.gather(work("float64"), work("float16"), work("float32"))

    asyncio.run(main())
    short = {"float64": "f64", "float16": "f16", "float32": "f32"}
    assert len(seen) == 18
    assert all(short[name] == got for name, got in seen)
    assert pb.tensor(0.5).dtype is pb.float32


def test_N9_no_grad_is_scoped_per_thread():
    w = pb.tensor([1.0], requires_grad=True)
    seen = []
    with pb.no_grad():
        t = threading.Thread(target=lambda: seen.append((w * 2).requires_grad))
        t.start()
        t.join()
        assert not (w * 2).requires_grad
    assert seen == [True]


# -- modes ----------------------------------------------------------------------------------------


def some_program(x: Any) -> list[Any]:
    y = x * 0.1 + x / 3
    z = pb.exp(y) - pb.tanh(y @ pb.matrix_transpose(y)).sum(axis=0, keepdims=True).sum()
    g = pb.grad(lambda a: (pb.sin(a) * a / 7).sum())(z)
    return [y, z, g, pb.where(g > 0, z, y), g[0, 1:]]


def test_N10_deferred_is_the_default():
    with counting() as counts:
        made = (pb.tensor(X) + 1) * 2
        assert counts.programs == 0
        made.numpy()
        assert counts.programs == 1


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_N10_eager_executes_each_op_as_it_is_recorded(engine):
    with pb.config(eager=True, engine=engine):
        x = pb.tensor(X)
        with counting() as counts:
            y = x + 1
            assert counts.programs == 1 and y._node.value is not None
            z = y * y
            assert counts.programs == 2
            z.numpy()
            assert counts.programs == 2
            values, indices = pb.top_k(z, 2)
            assert values._node.value is not None and indices._node.value is not None


def test_N10_both_modes_give_identical_bits_on_the_reference():
    with pb.config(engine="reference"):
        deferred = [t.numpy() for t in some_program(pb.tensor(X))]
        with pb.config(eager=True):
            eager = [t.numpy() for t in some_program(pb.tensor(X))]
    for a, b in zip(deferred, eager, strict=True):
        assert a.tobytes() == b.tobytes() and a.dtype == b.dtype


def test_N10_both_modes_agree_on_xla():
    deferred = [t.numpy() for t in some_program(pb.tensor(X))]
    with pb.config(eager=True):
        eager = [t.numpy() for t in some_program(pb.tensor(X))]
    with pb.config(engine="reference"):
        reference = [t.numpy() for t in some_program(pb.tensor(X))]
    for a, b, c in zip(deferred, eager, reference, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-5)


class Liar(Op, abstract=True):
    """An op that claims to keep the shape, but drops the first row; not in the table."""

    name: ClassVar[str] = "Liar"
    differentiable: ClassVar[bool] = False

    def infer(self, x: Type) -> Type:
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x[1:]

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        shape = (x.shape[0] - 1, *x.shape[1:])
        return b.op(
            "stablehlo.slice", x, out=Type(shape, x.dtype), start_indices=(1, 0),
            limit_indices=x.shape, strides=(1, 1),
        )  # fmt: skip


class DTypeLiar(Liar, abstract=True):
    """An op that claims to keep the dtype, but returns f64."""

    name: ClassVar[str] = "DTypeLiar"

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x.astype(np.float64)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.convert(x, pb.float64)


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("op", [Liar, DTypeLiar])
def test_N11_verification_compares_types_with_the_engines(op, engine):
    with pb.config(verify_shapes=True, engine=engine):
        x = pb.tensor(X)
        assert (x + 1).sum().item() == (X + 1).sum(), "right types pass"
        with pytest.raises(EngineError) as info:
            apply(op(), x)
        written = line(-1)
    text = str(info.value)
    assert "liar" in text and "f32[2,3]" in text
    got = ("[1, 3]", "[1,3]", "1x3") if op is Liar else ("float64", "f64")
    assert any(word in text for word in got), text
    assert written in text
