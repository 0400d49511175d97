"""Host reads: which ones cut a derivative, where outer values may be read, what print shows."""

from __future__ import annotations

import math
import pickle
import struct
import warnings

import numpy as np
import pytest
from helpers import line, told

import pullback as pb
from pullback.errors import GradientCut, GradientCutWarning, HostReadError, UnsupportedOp

X = np.array([1.0, 2.0])


def cases(table):
    return pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in table.items()])


def assigned(x):
    found = np.zeros(2)
    found[:] = x
    return found


REFUSED = {
    "numpy": lambda x: x.numpy(),
    "tolist": lambda x: x.tolist(),
    "asarray": lambda x: np.asarray(x),
    "array of elements": lambda x: np.array([x[0], x[1]]),
    "array of elements in a dtype": lambda x: np.array([x[0], x[1]], np.float32),
    "array of a mixture": lambda x: np.array([x[0], 1.0]),
    "mean of a list": lambda x: np.mean([x, x * x]),
    "r_": lambda x: np.r_[x, x],
    "assignment to an array": assigned,
    "dlpack": lambda x: np.from_dlpack(x),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "a function that pullback lacks": lambda x: np.emath.sqrt(x),
    "arange": lambda x: pb.arange(x[0], 5.0),
}

WARNED = {
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "complex": lambda x: complex(x[0]).real,
    "math": lambda x: math.exp(x[0]),
    "struct": lambda x: struct.unpack("f", struct.pack("f", x[0]))[0],
    "fromiter": lambda x: float(np.fromiter(x, float)[0]),
}

FREE = {
    "item": (lambda x: x[0].item(), 1.0),
    "bool": (lambda x: 3.0 if x[0] else 0.0, 3.0),
    "comparison": (lambda x: 3.0 if x[0] < x[1] else 0.0, 3.0),
    "maximum of Python": (lambda x: max(x).detach(), 2.0),
    "repr": (lambda x: float(len(repr(x)) > 0), 1.0),
    "str": (lambda x: float(len(str(x)) > 0), 1.0),
    "format": (lambda x: float(f"{x[1]:.1f}"), 2.0),
    "detach": (lambda x: x.detach().numpy()[1], 2.0),
    "a constant": (lambda x: np.asarray(pb.stop_gradient(x) * 2)[1], 4.0),
    "a mask": (lambda x: float((x > 1).numpy().sum()), 1.0),
    "an index": (lambda x: float(x.argmax().tolist()), 1.0),
    "allclose": (lambda x: float(np.allclose(x, X)), 1.0),
    "nonzero": (lambda x: float(pb.nonzero(x)[0].shape[0]), 2.0),
}


def nested(f):
    return pb.grad(lambda x: pb.grad(f)(x).sum())


TRANSFORMS = {
    "grad": lambda f, x: pb.grad(f)(x),
    "value_and_grad": lambda f, x: pb.value_and_grad(f)(x)[1],
    "vjp": lambda f, x: pb.vjp(f, x)[1](pb.tensor(1.0, pb.float64))[0],
    "jvp": lambda f, x: pb.jvp(f, (x,), (x,))[1],
    "linearize": lambda f, x: pb.linearize(f, x)[1](x),
    "jacrev": lambda f, x: pb.jacrev(f)(x),
    "jacfwd": lambda f, x: pb.jacfwd(f)(x),
    "hessian": lambda f, x: pb.hessian(f)(x),
    "hvp": lambda f, x: pb.hvp(f, (x,), (x,))[0],
    "nested": lambda f, x: nested(f)(x),
    "backward_on_trace": lambda f, x: pb.backward_on_trace(pb.trace(f, x))[x],
}


@cases(REFUSED)
def test_a_read_that_would_cut_a_gradient_is_refused(f):
    with told(GradientCut, TypeError, "detach"):
        pb.grad(lambda x: (pb.tensor(f(x)) * x.sum()).sum())(pb.tensor(X))


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS.keys())
def test_every_derivative_refuses_reads(transform):
    x = pb.tensor(X)
    with told(GradientCut, TypeError, "f64[2]", "detach", at=line(1)):
        transform(lambda x: (pb.tensor(x.numpy()) * x).sum(), x)
    transform(lambda x: (x.detach().numpy() * x).sum(), x)
    assert issubclass(GradientCut, UnsupportedOp)


@cases(WARNED)
def test_a_conversion_to_a_number_warns(f):
    with pytest.warns(GradientCutWarning, match="detach"):
        found = pb.grad(lambda x: f(x) * x.sum())(pb.tensor(X))
    assert found.tolist() == [f(pb.tensor(X))] * 2


@pytest.mark.parametrize(("f", "value"), FREE.values(), ids=FREE.keys())
def test_other_reads_are_free(f, value):
    assert pb.grad(lambda x: f(x) * x.sum())(pb.tensor(X)).tolist() == [value] * 2


def test_a_warning_names_the_users_line_once():
    def f(x):
        total = x.sum()
        for _ in range(3):
            total = total * float(x[0])
        return total

    here = int(line(-3).split(":")[1])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        pb.grad(f)(pb.tensor(X))
        pb.grad(f)(pb.tensor(X))
    assert [(w.filename, w.lineno) for w in found] == [(__file__, here)]


def test_a_warning_can_be_an_error():
    with pytest.raises(GradientCutWarning):
        pb.grad(lambda x: math.sin(x) * x)(pb.tensor(1.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_all_inexact_dtypes_are_covered(dtype):
    x = pb.tensor([1.0, 2.0], dtype=dtype)
    with told(GradientCut, TypeError, "detach"):
        pb.grad(lambda x: pb.real(pb.tensor(x.numpy()) * x).sum().astype("float32"))(x)


def test_reads_after_the_function_ran_are_free():
    y, pull = pb.vjp(lambda x: x * x, pb.tensor(X))
    assert y.numpy().tolist() == [1.0, 4.0] and np.median(y) == 2.5
    assert float(y[1]) == 4.0 and pull(y)[0].tolist() == [2.0, 16.0]


def test_a_function_that_failed_leaves_nothing_running():
    kept = []

    def f(x):
        kept.append(x * 2)
        raise KeyError("stopped")

    with pytest.raises(KeyError) as error:
        pb.grad(f)(pb.tensor(X))
    assert error.tb is not None and kept[0].tolist() == [2.0, 4.0]


def test_reads_of_values_that_the_derivative_does_not_concern_are_free():
    outer = pb.tensor(X)
    found = pb.grad(lambda x: (x * (outer * 2).numpy()).sum())(pb.tensor(X))
    assert found.tolist() == [2.0, 4.0]

    def f(x):
        with pb.no_grad():
            return (x * x.numpy()).sum() * 0 + x.numpy().sum()

    assert pb.grad(lambda x: f(x) * x.sum())(pb.tensor(X)).tolist() == [3.0, 3.0]


def test_an_inner_gradient_is_read_inside_the_outer_derivative():
    with told(GradientCut, TypeError, "numpy"):
        pb.grad(lambda x: pb.tensor(pb.grad(lambda y: y**3)(x).numpy()) * x)(pb.tensor(2.0))
    found = pb.grad(lambda x: pb.grad(lambda y: y**3)(x).item() * x)(pb.tensor(2.0))
    assert found.item() == 12.0


# -- backward() -----------------------------------------------------------------------------------


@cases({"float": lambda y: float(y), "math": lambda y: math.sqrt(y), "array": np.asarray})
def test_conversions_in_a_graph_of_backward_warn(f):
    w = pb.tensor(2.0, requires_grad=True)
    with pytest.warns(GradientCutWarning, match="detach"):
        loss = w * f(w * w)
    loss.backward()
    assert w.grad.item() == pytest.approx(f(pb.tensor(4.0)))


@cases(
    {
        "numpy": lambda y: y.numpy(),
        "item": lambda y: y.item(),
        "tolist": lambda y: y.tolist(),
        "dlpack": lambda y: np.from_dlpack(y, device="cpu").copy(),
        "detach": lambda y: float(y.detach()),
    }
)
def test_explicit_reads_in_a_graph_of_backward_are_free(f):
    w = pb.tensor(2.0, requires_grad=True)
    loss = w * w
    assert f(loss) == 4.0 and float(w) == 2.0 and np.asarray(w) == 2.0  # a leaf is not computed
    loss.backward()
    assert float(loss) == 4.0 and w.grad.item() == 4.0


def test_numpy_functions_in_a_graph_of_backward_are_refused():
    w = pb.tensor(X, requires_grad=True)
    for x in (w, w * 2):
        with told(GradientCut, TypeError, "np.sqrt"):
            np.emath.sqrt(x)


# -- placeholders ---------------------------------------------------------------------------------


def test_vmap_reads_tensors_from_outside():
    x, mask, scale = pb.tensor([[1.0, 2.0], [3.0, 4.0]]), pb.tensor([True, False]), pb.tensor(X)
    assert pb.vmap(lambda row: row[mask])(x).tolist() == [[1.0], [3.0]]
    assert pb.vmap(lambda row: row[scale > 1])(x).tolist() == [[2.0], [4.0]]
    assert pb.vmap(lambda row: row * scale.sum().item())(x).tolist() == [[3.0, 6.0], [9.0, 12.0]]
    assert pb.vmap(pb.vmap(lambda v: v + scale.numpy()[0]))(x).tolist() == [[2.0, 3.0], [4.0, 5.0]]

    def alternating(row):
        kept = row * 2  # a placeholder with the same operand as what is read
        return kept + row if (scale * 2).sum() > 5 else kept

    assert pb.vmap(alternating)(x).tolist() == [[3.0, 6.0], [9.0, 12.0]]


def test_vmap_reads_a_pending_tensor_without_computing_others():
    with pb.config(eager=False, verify_shapes=False):
        x, pending = pb.tensor([[1.0, 2.0]], "float64"), pb.tensor(X) * 3
        other = pb.tensor(X) + 1
        assert pb.vmap(lambda row: row * pending.numpy())(x).tolist() == [[3.0, 12.0]]
        assert other._node.value is None


def test_a_read_inside_vmap_cuts_a_derivative_too():
    x, rows = pb.tensor(X), pb.tensor([[1.0, 2.0], [3.0, 4.0]], "float64")
    with told(GradientCut, TypeError, "numpy"):
        pb.grad(lambda x: pb.vmap(lambda row: row * x.numpy())(rows).sum())(x)
    found = pb.grad(lambda x: pb.vmap(lambda row: row[x > 1] * x[1])(rows).sum())(x)
    assert found.tolist() == [0.0, 6.0]


def test_checkpoint_reads_tensors_from_outside():
    mask = pb.tensor([True, False])
    f = pb.checkpoint(lambda x: pb.sin(x[mask]).sum())
    np.testing.assert_allclose(pb.grad(f)(pb.tensor(X)).numpy(), [np.cos(1.0), 0.0])


FREEZING = {
    "compile": lambda f, x: pb.compile(f)(x),
    "scan": lambda f, x: pb.scan(lambda c, row: (c, f(row)), 0.0, x)[1],
    "cond": lambda f, x: pb.cond(x.sum() > 0, f, f, x),
    "while_loop": lambda f, x: pb.while_loop(lambda x: x.sum() < 9, f, x),
    "vmap of compile": lambda f, x: pb.vmap(pb.compile(f))(x),
    "vmap of scan": lambda f, x: pb.vmap(lambda r: pb.scan(lambda c, e: (c, f(e)), 0.0, r)[1])(x),
}


@pytest.mark.parametrize("run", FREEZING.values(), ids=FREEZING.keys())
def test_programs_that_run_again_read_nothing(run):
    outer = pb.tensor(2.0)
    with told(HostReadError, TypeError, "placeholders", "would stay the same"):
        run(lambda x: x * outer.item(), pb.ones((2, 2)))
    with told(HostReadError, TypeError, "placeholders", "do not exist yet"):
        run(lambda x: x * (x * outer).sum().item(), pb.ones((2, 2)))


@pytest.mark.parametrize("run", [*FREEZING.values(), lambda f, x: pb.vmap(f)(x)])
def test_printing_a_placeholder_shows_its_type(run):
    found = []

    def f(x):
        y = x * 2.0
        found.extend([repr(y), str(y), f"{y}", f"{y:.3f}", f"{y!r:>3}"])
        return y

    run(f, pb.ones((2, 2)))
    assert found and all(text.startswith("Tensor(f32[") for text in found)


def test_printing_a_number_of_a_compiled_function():
    found = []
    pb.compile(lambda x, n: found.extend([str(n), f"{n:.2f}"]) or x * n)(pb.ones((2,)), 3.0)
    assert found == ["<unknown float>"] * 2


def test_printing_inside_vmap_shows_the_values_that_exist():
    outer = pb.tensor([1.0, 2.0])
    found = []
    pb.vmap(lambda x: found.append(str(outer + 1)) or x)(pb.ones((2,)))
    assert found == ["[2. 3.]"]


def test_an_escaped_placeholder_prints_its_type():
    kept = []
    pb.eval_shape(lambda x: kept.append(x * 2.0) or x, pb.ones((2,)))
    assert str(kept[0]) == repr(kept[0]) == f"{kept[0]:.2f}" == "Tensor(f32[2])"
