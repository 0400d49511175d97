"""Dataclasses as trees: what is a child, what is static, what stays a leaf."""

from __future__ import annotations

import dataclasses
import enum
import functools
import subprocess
import sys
from collections import OrderedDict
from dataclasses import InitVar, dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import pytest
from helpers import told
from paths import ROOT

import pullback as pb
from pullback.compiled.flatten_fast import make_fast_reader
from pullback.errors import ArgumentError, InPlaceError, NonDifferentiableInput

T = TypeVar("T")
STATIC: Any = {"static": True}


@dataclass
class Plain:
    w: Any
    b: Any = None


@dataclass(frozen=True)
class Frozen:
    w: Any
    b: Any


@dataclass(slots=True)
class Slots:
    w: Any
    b: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Keywords:
    b: Any
    w: Any


@dataclass
class Init:
    w: Any
    scale: InitVar[float] = 2.0
    b: Any = field(init=False)

    def __post_init__(self, scale: float) -> None:
        self.b = self.w * scale


@dataclass
class Factory:
    layers: list = field(default_factory=list)
    table: dict = field(default_factory=dict)


@dataclass
class Derived(Plain):
    extra: Any = 0.0


@dataclass
class Box(Generic[T]):
    w: T
    b: T


@dataclass
class Named:
    w: Any
    name: Any = field(default="relu", metadata=STATIC)
    b: Any = None


@dataclass
class Unset:
    w: Any
    cache: Any = field(init=False)
    b: Any = 1.0
    label: Any = field(init=False, metadata=STATIC)


A, B = np.array([1.0, 2.0]), np.array([3.0, 4.0])

KINDS = {
    "plain": lambda a, b: Plain(a, b),
    "frozen": lambda a, b: Frozen(a, b),
    "slots": lambda a, b: Slots(a, b),
    "kw_only": lambda a, b: Keywords(w=a, b=b),
    "InitVar": lambda a, b: Init(a, 3.0),
    "default_factory": lambda a, b: Factory([a], {"b": b}),
    "inheritance": lambda a, b: Derived(a, [b]),
    "generic": lambda a, b: Box[Any](a, b),
    "static": lambda a, b: Named(a, "tanh", b),
    "unset": lambda a, b: Unset(a, b),
    "nested": lambda a, b: {"x": [Plain(Frozen(a, None), Slots(b, ()))]},
}
kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def tensors() -> tuple[pb.Tensor, pb.Tensor]:
    return pb.tensor(A), pb.tensor(B)


def loss(tree: Any) -> Any:
    return sum((x * x).sum() for x in pb.tree.leaves(tree))


@kinds
@pytest.mark.filterwarnings("ignore::pullback.errors.PrecisionWarning")  # a number beside f64
def test_N38_dataclasses_are_trees_without_registration(make):
    tree = make(*tensors())
    leaves, structure = pb.tree.flatten(tree)
    again = pb.tree.unflatten(structure, leaves)
    assert type(again) is type(tree) and pb.tree.flatten(again)[1] == structure
    assert all(a is b for a, b in zip(leaves, pb.tree.leaves(again), strict=True))
    assert len(pb.tree.paths(tree)) == len(leaves)
    found = pb.grad(loss)(tree)
    assert type(found) is type(tree)
    for g, x in zip(pb.tree.leaves(found), leaves, strict=True):
        np.testing.assert_allclose(np.asarray(g), 2 * np.asarray(x))


@kinds
def test_N38_compiled_calls_take_and_return_dataclasses(make):
    runs = []

    @pb.compile
    def double(tree):
        runs.append(1)
        return pb.tree.map(lambda x: 2 * x, tree)

    for k in (1.0, 2.0, 3.0):
        tree = make(*[k * x for x in tensors()])
        made = double(tree)
        assert type(made) is type(tree)
        for got, x in zip(pb.tree.leaves(made), pb.tree.leaves(tree), strict=True):
            np.testing.assert_allclose(np.asarray(got), 2 * np.asarray(x))
    assert len(runs) == 1


@kinds
def test_the_fast_reader_agrees_with_flatten(make):
    tree = make(*tensors())
    leaves, structure = pb.tree.flatten(tree)
    read = make_fast_reader(structure)
    if isinstance(tree, Unset):
        assert read is None
        return
    found: list[Any] = []
    assert read(make(*leaves[:2]), found) or isinstance(tree, (Init, Keywords))
    found.clear()
    assert read(tree, found)
    assert all(a is b for a, b in zip(found, leaves, strict=True))
    others = [other(*tensors()) for other in KINDS.values()]
    for other in [*others, Named(*tensors()), Plain, {}, None]:
        if pb.tree.flatten(other)[1] != structure:
            assert not read(other, [])


def test_static_fields_are_compared_by_type_and_bits():
    a, b = tensors()
    same = pb.tree.flatten(Named(a, "x"))[1] == pb.tree.flatten(Named(b, "x"))[1]
    assert same and pb.tree.flatten(Named(a, "x"))[1] != pb.tree.flatten(Named(a, "y"))[1]
    f = pb.compile(lambda n: n.w * 0 + str(n.name).count("-") + (n.name is True))
    seen = [f(Named(a, value)).tolist()[0] for value in (0.0, -0.0, 1, True, 0.0, -0.0)]
    assert seen == [0, 1, 0, 1, 0, 1]
    with told(ArgumentError, ValueError, "trees must agree", "name='x'", "name='y'"):
        pb.tree.map(lambda p, q: p + q, Named(a, "x"), Named(a, "y"))


def test_static_fields_keep_their_value_and_have_no_gradient():
    found = pb.grad(lambda n: (n.w ** len(n.name)).sum())(Named(pb.tensor(A), "abc"))
    assert found.name == "abc" and found.b is None
    np.testing.assert_allclose(found.w.numpy(), 3 * A**2)


def test_a_function_in_a_static_field_is_guarded():
    scale = {"k": 2.0}
    f = pb.compile(lambda n: n.name(n.w))
    named = Named(pb.tensor(A), lambda x: x * scale["k"])
    assert f(named).tolist() == (2 * A).tolist()
    scale["k"] = 3.0
    assert f(named).tolist() == (3 * A).tolist()


def test_static_values_that_cannot_be_compared_are_refused():
    f = pb.compile(lambda n: n.w)
    for value in ([1, 2], np.ones(2)):
        with told(ArgumentError, TypeError, "static data must be hashable", "tuple"):
            f(Named(pb.tensor(A), value))
    with told(ArgumentError, TypeError, "Named.name is static and holds a tensor", "child"):
        f(Named(pb.tensor(A), pb.tensor(A)))


def test_paths_are_written_as_attributes():
    tree = {"x": [Plain(1, Frozen(2, {"k": 3}))]}
    assert pb.tree.paths(tree) == ["['x'][0].w", "['x'][0].b.w", "['x'][0].b.b['k']"]
    with told(ArgumentError, TypeError, "argument[0].w"):
        pb.trace(lambda t: t.b, Plain("text", 1.0))


def test_a_dataclass_that_holds_itself():
    own = Plain(1.0)
    own.b = own
    with told(ArgumentError, ValueError, "nested too deeply", "static"):
        pb.tree.leaves(own)


def test_prefixes_may_be_dataclasses():
    @dataclass
    class Local:
        w: Any
        b: Any

    got = pb.vmap(lambda t: t.w + t.b, in_axes=(Local(0, None),))(Local(pb.tensor(A), 1.0))
    assert got.tolist() == (A + 1).tolist()


class PlainSubclass(Plain):
    def __init__(self) -> None:
        super().__init__(pb.tensor(A))
        self.other = 3


@dataclass
class ArrayLike:
    data: np.ndarray

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.data


@dataclass
class Mapping(OrderedDict):
    w: Any = None


@dataclass
class Trouble(Exception):
    w: Any = None


@dataclass
class Point:
    x: float


class Place(Point, enum.Enum):
    HERE = 1.0


LEAVES = [PlainSubclass, lambda: ArrayLike(A), Mapping, Trouble, lambda: Place.HERE,
          lambda: Plain, lambda: pb.optim.sgd(0.1)]  # fmt: skip


@pytest.mark.parametrize("make", LEAVES)
def test_what_is_more_than_its_fields_stays_a_leaf(make):
    value = make()
    assert pb.tree.leaves([value])[0] is value


def test_an_array_that_is_a_dataclass_is_an_array():
    assert pb.grad(lambda x: (x * x).sum())(ArrayLike(A)).tolist() == (2 * A).tolist()


def test_registration():
    @dataclass
    class Early:
        w: Any
        b: Any

    assert pb.tree.register(Early) is pb.tree.register(Early) is Early

    @dataclass
    class Own:
        w: Any
        b: Any

    pb.tree.register(Own, lambda x: ((x.w,), x.b), lambda b, w: Own(w[0], b))
    assert pb.tree.leaves(Own(1, 2)) == [1]
    pb.tree.leaves(Plain(1, 2))
    with told(ArgumentError, ValueError, "Plain is registered already", "definition"):
        pb.tree.register(Plain, lambda x: ((x.w,), None), lambda _, w: Plain(w[0]))
    with told(ArgumentError, TypeError, "is not a dataclass", "flatten, unflatten"):
        pb.tree.register(PlainSubclass.__class__)


def test_a_captured_dataclass_is_guarded_by_its_fields():
    captured = Plain(2.0, 5.0)
    f = pb.compile(lambda x: x * pb.tree.leaves(captured)[0])
    assert f(pb.tensor(A)).tolist() == (2 * A).tolist()
    captured.w = 3.0
    assert f(pb.tensor(A)).tolist() == (3 * A).tolist()


MODULE = """
from dataclasses import dataclass, field
from typing import Any
@dataclass
class Layer:
    w: Any
    name: str = field(default="relu", metadata={"static": True})
"""

LOAD = """
import sys
import numpy as np, pullback as pb
sys.path.insert(0, sys.argv[2])
import saved_layer
loaded = pb.load_compiled(sys.argv[1])
made = loaded(saved_layer.Layer(pb.tensor(np.array([1.0, 2.0])), "tanh"))
print(type(made).__name__, made.name, made.w.tolist())
"""


def test_saved_programs_take_dataclasses_in_another_process(tmp_path, monkeypatch):
    (tmp_path / "saved_layer.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import saved_layer  # type: ignore[import-not-found]

    layer = saved_layer.Layer(pb.tensor(A), "tanh")
    f = pb.compile(lambda t: dataclasses.replace(t, w=t.w * len(t.name)))
    f.lower(layer).save(tmp_path / "program")
    assert pb.load_compiled(tmp_path / "program")(layer).w.tolist() == (4 * A).tolist()
    command = [sys.executable, "-c", LOAD, str(tmp_path / "program"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split("\n")[0] == "Layer tanh [4.0, 8.0]"


# -- leaves that are not float or complex ---------------------------------------------------------


@dataclass
class Mixed:
    w: Any
    power: int = 2
    name: str = "square"
    rows: Any = None


def mixed() -> Mixed:
    return Mixed(pb.tensor(A), 2, "square", np.array([1, 0]))


def value(m: Mixed) -> Any:
    assert type(m.power) is int and m.name == "square"  # they are given as they are
    return (m.w[m.rows] ** m.power).sum()


def only(made: Mixed) -> np.ndarray:
    assert type(made) is Mixed and (made.power, made.name, made.rows) == (None, None, None)
    return made.w.numpy()


def test_N38_leaves_without_a_derivative_get_none():
    m, tangent = mixed(), Mixed(pb.ones(2, dtype="float64"), None, None, None)
    np.testing.assert_allclose(only(pb.grad(value)(m)), 2 * A)
    np.testing.assert_allclose(only(pb.value_and_grad(value)(m)[1]), 2 * A)
    np.testing.assert_allclose(only(pb.vjp(value, m)[1](1.0)[0]), 2 * A)
    np.testing.assert_allclose(only(pb.jacrev(value)(m)), 2 * A)
    np.testing.assert_allclose(only(pb.jacfwd(value)(m)), 2 * A)
    np.testing.assert_allclose(only(only_w(pb.hessian(value)(m))), 2 * np.eye(2))
    np.testing.assert_allclose(only(pb.hvp(value, (m,), (tangent,))[0]), [2, 2])
    full = dataclasses.replace(m, w=tangent.w)
    for t in (tangent, full):  # what is given for the others counts for nothing
        assert pb.jvp(value, (m,), (t,))[1].item() == 6
        assert pb.linearize(value, m)[1](t).item() == 6
    pb.check_grads(value, (m,))


def only_w(made: Mixed) -> Mixed:
    assert (made.power, made.name, made.rows) == (None, None, None)
    return made.w


def test_none_is_no_tangent_of_a_float():
    empty = Mixed(None, None, None, None)  # type: ignore[arg-type]
    with told(ArgumentError, ValueError, "jvp: trees must agree", "w=None"):
        pb.jvp(value, (mixed(),), (empty,))


def test_none_stands_for_the_cotangent_of_an_integer_result():
    _, pull = pb.vjp(lambda x: {"y": x * 2, "n": pb.argsort(x)}, pb.tensor(A))
    for n in (None, pb.tensor([0, 0])):
        assert pull({"y": pb.tensor(A), "n": n})[0].tolist() == (2 * A).tolist()


def test_an_integer_argument_is_refused():
    for transform in (pb.grad, pb.value_and_grad, pb.jacrev, pb.jacfwd, pb.hessian):
        with told(NonDifferentiableInput, TypeError, "i64[] at argument[0]", "argnums"):
            transform(lambda n: n * 1.0)(3)
    with told(NonDifferentiableInput, TypeError, "i64[] at argument[1]"):
        pb.grad(lambda t, n: t["w"] * n, (0, 1))({"w": pb.tensor(1.0), "n": 3}, 3)


# -- attributes that are no fields, and writes ----------------------------------------------------


@dataclass
class Model:
    w: Any
    mode = "train"  # not annotated: no field

    def __post_init__(self) -> None:
        self.scale = 2.0

    @functools.cached_property
    def norm(self) -> Any:
        return (self.w * self.w).sum()

    @pb.compile
    def __call__(self, x: Any) -> Any:
        return self.w * x * (self.scale if self.mode == "train" else 1.0)


def test_other_attributes_are_static():
    model, x = Model(pb.tensor(A)), pb.tensor(B)
    assert model(x).tolist() == (2 * A * B).tolist()
    model.mode = "eval"
    assert model(x).tolist() == (A * B).tolist()
    model.scale, model.mode = 3.0, "train"
    assert model(x).tolist() == (3 * A * B).tolist()
    assert pb.grad(lambda m: (m.w * m.scale).sum())(model).w.tolist() == [3.0, 3.0]
    model.scale = pb.tensor(3.0)
    with told(ArgumentError, TypeError, "Model.scale is static and holds a tensor"):
        model(x)


def test_cached_properties_are_computed_again():
    model = Model(pb.tensor(A))
    assert model.norm.item() == (A * A).sum()
    assert pb.tree.map(lambda x: x * 2, model).norm.item() == 4 * (A * A).sum()
    assert pb.grad(lambda m: m.norm)(model).w.tolist() == (2 * A).tolist()


def set_field(model: Any) -> Any:
    model.w = model.w * 2
    return model.w.sum()


def set_other(model: Any) -> Any:
    model.calls = 1
    return model.w.sum()


def change_tensor(model: Any) -> Any:
    model.w += 1
    return model.w.sum()


TRANSFORMS = {
    "compile": pb.compile, "grad": pb.grad, "vmap": lambda f: pb.vmap(f),
    "jvp": lambda f: lambda m: pb.jvp(f, (m,), (m,)), "checkpoint": pb.checkpoint,
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("write", [set_field, set_other, change_tensor])
def test_writes_to_a_copy_are_refused(transform, write):
    with told(InPlaceError, RuntimeError, "of Model, an argument", "Return the new value"):
        transform(write)(Model(pb.tensor([A, B])))
