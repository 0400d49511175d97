"""No stale results: whatever changes between two calls, the next result is right.

Every kind of place that a function can read a value from, times every kind of change, for compiled
functions; and every change of a program for lazy ones. What is documented as frozen is asserted
as such. What must not matter (names, comments, the order of a dict, hash seeds) still hits.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from counters import counting
from paths import ROOT
from stale import X, environment, honest, same

import pullback as pb

# -- compiled functions: places times changes -----------------------------------------------------


# name: source that reads the value `V` in a function `f(x)`, and statements that set it to `NEW`
PLACES = {
    "global": ("K = V\ndef f(x): return use(x, K)", "K = NEW"),
    "helper's global": ("K = V\ndef h(x): return use(x, K)\ndef f(x): return h(x)", "K = NEW"),
    "closure cell": (
        "def make():\n    k = V\n    def f(x): return use(x, k)\n    def change(v):\n"
        "        nonlocal k\n        k = v\n    return f, change\nf, change = make()",
        "change(NEW)",
    ),
    "nested function": (
        "K = V\ndef f(x):\n    def g(y): return [use(y, K) for _ in (1,)][0]\n    return g(x)",
        "K = NEW",
    ),
    "default": ("def f(x, k=V): return use(x, k)", "f.__defaults__ = (NEW,)"),
    "keyword default": ("def f(x, *, k=V): return use(x, k)", "f.__kwdefaults__['k'] = NEW"),
    "lambda default": ("g = lambda x, k=V: use(x, k)\ndef f(x): return g(x)",
                       "g.__defaults__ = (NEW,)"),
    "partial": ("f = functools.partial(use, v=V)", "f.keywords['v'] = NEW"),
    "partial in a global": ("p = functools.partial(use, v=V)\ndef f(x): return p(x)",
                            "p = functools.partial(use, v=NEW)"),
    "attribute": ("class C: pass\nc = C()\nc.k = V\ndef f(x): return use(x, c.k)", "c.k = NEW"),
    "attribute of an attribute": (
        "class C: pass\nc = C()\nc.d = C()\nc.d.k = V\ndef f(x):\n    d = c.d\n"
        "    return use(x, d.k)", "c.d.k = NEW"),
    "replaced object": (
        "class C:\n    def __init__(self, k): self.k = k\nc = C(V)\ndef f(x): return use(x, c.k)",
        "c = C(NEW)"),
    "attribute of self": (
        "class C:\n    def step(self, x): return self.inner(x)\n"
        "    def inner(self, x): return use(x, self.k)\nc = C()\nc.k = V\nf = c.step", "c.k = NEW"),
    "attribute by getattr": (
        "class C: pass\nc = C()\nc.k = V\ndef f(x): return use(x, getattr(c, 'k', 0))",
        "c.k = NEW"),
    "class attribute": ("class C:\n    k = V\nc = C()\ndef f(x): return use(x, c.k)", "C.k = NEW"),
    "attribute that hides the class's": (
        "class C:\n    k = V\nc = C()\ndef f(x): return use(x, c.k)", "c.k = NEW"),
    "base class attribute": (
        "class B:\n    k = V\nclass C(B): pass\nc = C()\ndef f(x): return use(x, c.k)",
        "C.k = NEW"),
    "slot": ("class C:\n    __slots__ = ('k',)\nc = C()\nc.k = V\ndef f(x): return use(x, c.k)",
             "c.k = NEW"),
    "property": (
        "class C:\n    @property\n    def k(self): return self._k\nc = C()\nc._k = V\n"
        "def f(x): return use(x, c.k)", "c._k = NEW"),
    "dataclass": (
        "@dataclasses.dataclass\nclass C:\n    k: object\nc = C(V)\ndef f(x): return use(x, c.k)",
        "c.k = NEW"),
    "namespace": ("c = types.SimpleNamespace(k=V)\ndef f(x): return use(x, c.k)", "c.k = NEW"),
    "module attribute": (
        "m = types.ModuleType('m')\nm.k = V\ndef f(x): return use(x, m.k)", "m.k = NEW"),
    "dict entry": ("d = {'k': V}\ndef f(x): return use(x, d['k'])", "d['k'] = NEW"),
    "list entry": ("d = [0, V]\ndef f(x): return use(x, d[1])", "d[1] = NEW"),
    "nested containers": ("d = [({'k': [V]},)]\ndef f(x): return use(x, d[0][0]['k'][0])",
                          "d[0][0]['k'][0] = NEW"),
    "tuple": ("d = (0, V)\ndef f(x): return use(x, d[1])", "d = (0, NEW)"),
    "function attribute": ("def g(x): return use(x, g.k)\ng.k = V\ndef f(x): return g(x)",
                           "g.k = NEW"),
    "object in a list": (
        "class C:\n    def __call__(self, x): return use(x, self.k)\nc = C()\nc.k = V\n"
        "layers = [c]\n"
        "def f(x):\n    for layer in layers: y = layer(x)\n    return y", "layers[0].k = NEW"),
}  # fmt: skip

# name: expressions for the value before and after
CHANGES = {
    "number": ("2.0", "3.0"),
    "sign of zero": ("0.0", "-0.0"),
    "int to bool": ("1", "True"),
    "int to float": ("1", "1.0"),
    "flag": ("True", "False"),
    "text": ("'a'", "'b'"),
    "nothing": ("None", "5"),
    "tuple": ("(1, 2)", "(1, 3)"),
    "dtype": ("pb.float64", "pb.float16"),
    "tensor rebound": ("pb.tensor([1.0, 2.0, 3.0])", "pb.tensor([4.0, 5.0, 6.0])"),
    "tensor of another shape": ("pb.tensor([1.0, 2.0, 3.0])", "pb.tensor(9.0)"),
    "tensor of another dtype": ("pb.tensor([1.0, 2.0, 3.0])", "pb.tensor([1, 2, 3])"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", PLACES)
def test_a_changed_value_is_never_stale(place, change):
    source, statement = PLACES[place]
    before, after = CHANGES[change]
    env = environment(source.replace("V", before))
    honest(env["f"], lambda: exec(statement.replace("NEW", after), env))


TENSOR_WRITES = {
    "+=": "{} += 1",
    "item": "{}[0] = 9.0",
    "assign": "{}.assign([7.0, 8.0, 9.0])",
    "no_grad": "with pb.no_grad(): {} *= 2",
}
TENSOR_PLACES = {
    "global": ("w = V\ndef f(x): return x * w", "w"),
    "attribute": ("class C: pass\nc = C()\nc.w = V\ndef f(x): return x * c.w", "c.w"),
    "list": ("ws = [V]\ndef f(x): return x * ws[0]", "ws[0]"),
    "dict": ("ws = {'w': V}\ndef f(x): return x * ws['w']", "ws['w']"),
    "default": ("w = V\ndef f(x, w=w): return x * w", "w"),
    "method": ("class C:\n    def g(self, x): return x * self.w\nc = C()\nc.w = V\nf = c.g", "c.w"),
    "alias": ("v = V\nw = pb.tensor(v)\ndef f(x): return x * w", "w"),
    "hidden": ("w = V\nget = [w].__getitem__\ndef f(x): return x * get(0)", "w"),
}


@pytest.mark.parametrize("write", TENSOR_WRITES)
@pytest.mark.parametrize("place", TENSOR_PLACES)
def test_a_tensor_written_to_is_never_stale_and_never_retraced(place, write):
    source, name = TENSOR_PLACES[place]
    env = environment(source.replace("V", "pb.tensor([1.0, 2.0, 3.0])"))
    runs = []
    f = env["f"]

    def counted(x):
        runs.append(1)
        return f(x)

    x = pb.tensor(X)
    compiled = pb.compile(counted)
    compiled(x).numpy()
    exec(TENSOR_WRITES[write].format(name), env)
    assert same(compiled(x), f(x))
    assert len(runs) == 1


# -- compiled functions: code that is replaced ----------------------------------------------------

CODE = {
    "helper redefined": ("def h(x): return x * 2\ndef f(x): return h(x)",
                         "def h(x): return x * 3"),
    "helper's helper": ("def g(x): return x * 2\ndef h(x): return g(x)\ndef f(x): return h(x)",
                        "def g(x): return x + 1"),
    "a literal": ("def h(x): return x * 2.0\ndef f(x): return h(x)", "def h(x): return x * 2.5"),
    "code of the function": ("def f(x): return x * 2\ndef g(x): return x * 3",
                             "f.__code__ = g.__code__"),
    "code of a helper": ("def h(x): return x * 2\ndef g(x): return x * 3\ndef f(x): return h(x)",
                         "h.__code__ = g.__code__"),
    "lambda in a list": ("hs = [lambda x: x * 2]\ndef f(x): return hs[0](x)",
                         "hs[0] = lambda x: x * 3"),
    "lambda in a dict": ("hs = {'a': lambda x: x * 2}\ndef f(x): return hs['a'](x)",
                         "hs['a'] = lambda x: x * 3"),
    "entry added": ("hs = [lambda x: x * 2]\ndef f(x):\n    for h in hs: x = h(x)\n    return x",
                    "hs.append(lambda x: x + 1)"),
    "method": ("class C:\n    def m(self, x): return x * 2\nc = C()\ndef f(x): return c.m(x)",
               "C.m = lambda self, x: x * 3"),
    "method on the instance": (
        "class C:\n    def m(self, x): return x * 2\nc = C()\ndef f(x): return c.m(x)",
        "c.m = lambda x: x * 3"),
    "method of a base": (
        "class B:\n    def m(self, x): return x * 2\nclass C(B): pass\nc = C()\n"
        "def f(x): return c.m(x)", "B.m = lambda self, x: x * 3"),
    "method that hides a base's": (
        "class B:\n    def m(self, x): return x * 2\nclass C(B): pass\nc = C()\n"
        "def f(x): return c.m(x)", "C.m = lambda self, x: x * 3"),
    "another class": (
        "class C:\n    def m(self, x): return x * 2\nclass D:\n    def m(self, x): return x * 3\n"
        "c = C()\ndef f(x): return c.m(x)", "c.__class__ = D"),
    "static method": (
        "class C:\n    @staticmethod\n    def m(x): return x * 2\ndef f(x): return C.m(x)",
        "C.m = staticmethod(lambda x: x * 3)"),
    "class method": (
        "class C:\n    k = 2\n    @classmethod\n    def m(cls, x): return x * cls.k\n"
        "def f(x): return C.m(x)", "C.k = 3"),
    "property": (
        "class C:\n    @property\n    def k(self): return 2\nc = C()\ndef f(x): return x * c.k",
        "C.k = property(lambda self: 3)"),
    "call": ("class C:\n    def __call__(self, x): return x * 2\nf = C()",
             "C.__call__ = lambda self, x: x * 3"),
    "operator": (
        "class C:\n    def __rmul__(self, x): return x + 2\n    def __radd__(self, x): return x\n"
        "c = C()\ndef f(x): return 2.0 * c + x", "C.__rmul__ = lambda self, x: x + 3"),
    "constructor": (
        "class C:\n    def __init__(self): self.k = 2\ndef f(x): return x * C().k",
        "C.__init__ = lambda self: setattr(self, 'k', 3)"),
    "class replaced": (
        "class C:\n    k = 2\ndef f(x): return x * C.k", "C = type('C', (), {'k': 3})"),
    "decorated helper": (
        "def twice(g):\n    @functools.wraps(g)\n    def w(x): return g(g(x))\n    return w\n"
        "K = 2\n@twice\ndef h(x): return x * K\ndef f(x): return h(x)", "K = 3"),
    "cached helper": (
        "K = 2\n@functools.lru_cache\ndef k(): return K\ndef f(x): return x * k()",
        "K = 3\nk.cache_clear()"),
    "partial of a helper": (
        "def h(k, x): return x * k\np = functools.partial(h, 2)\ndef f(x): return p(x)",
        "p = functools.partial(h, 3)"),
    "compiled helper": (
        "K = 2\n@pb.compile\ndef h(x): return x * K\ndef f(x): return h(x)", "K = 3"),
    "differentiated helper": (
        "K = 2\ndef h(x): return (x * x).sum() * K\nf = pb.grad(h)", "K = 3"),
    "differentiated inside": (
        "K = 2\ndef h(x): return (x * x).sum() * K\ndef f(x): return pb.grad(h)(x)", "K = 3"),
    "mapped helper": ("K = 2\nf = pb.vmap(lambda v: v * K)", "K = 3"),
    "bound method kept": (
        "class C:\n    k = 2\n    def m(self, x): return x * self.k\nc = C()\nm = c.m\n"
        "def f(x): return m(x)", "c.k = 3"),
    "function of pullback": ("from pullback import sin\ndef f(x): return sin(x)",
                             "sin = pb.cos"),
    "attribute of pullback": ("lib = types.SimpleNamespace(op=pb.sin)\ndef f(x): return lib.op(x)",
                              "lib.op = pb.cos"),
    "name that hides a builtin": ("def f(x): return x * max(2, 1)", "def max(a, b): return 3"),
    "name that did not exist": (
        "def f(x):\n    try: return x * K\n    except NameError: return x", "K = 3"),
    "attribute that did not exist": (
        "class C: pass\nc = C()\ndef f(x): return x * getattr(c, 'k', 2)", "c.k = 3"),
    "entry that did not exist": ("d = {}\ndef f(x): return x * d.get('k', 2)", "d['k'] = 3"),
    "recursion": (
        "K = 3\ndef h(x, n): return h(x * K, n - 1) if n else x\ndef f(x): return h(x, 2)",
        "K = 2"),
    "optimizer": (
        "opt = pb.optim.sgd(0.5)\ndef f(x): return opt.update(x, opt.init(x), x)[0]",
        "opt = pb.optim.sgd(0.25)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CODE)
def test_code_that_is_replaced_is_never_stale(name):
    source, statement = CODE[name]
    env = environment(source)
    honest(env["f"], lambda: exec(statement, env), fresh=lambda: env["f"])


@pytest.mark.parametrize("owner", ["function", "method", "module"])
def test_monkey_patched_functions_of_pullback_are_noticed(owner, monkeypatch):
    def updated(x):
        return pb.optim.sgd(0.5).update(x, pb.optim.sgd(0.5).init(x), x)[0]

    sgd = pb.optim.sgd
    f, *patch = {
        "function": (lambda x: pb.tanh(x), pb, "tanh", pb.sin),
        "method": (lambda x: x.tanh(), pb.Tensor, "tanh", pb.Tensor.sin),
        "module": (updated, pb.optim, "sgd", lambda rate: sgd(rate * 2)),
    }[owner]
    honest(f, lambda: monkeypatch.setattr(*patch))


@pytest.mark.parametrize(
    "source",
    [
        "import helpers_of_the_user as o\ndef f(x): return o.h(x)",
        "from helpers_of_the_user import h\ndef f(x): return h(x)",
        "def f(x):\n    from helpers_of_the_user import h\n    return h(x)",
    ],
)
@pytest.mark.parametrize("statement", ["K = 3", "h.__code__ = (lambda x: x + K).__code__"])
def test_user_modules_are_examined(source, statement):
    other = environment("K = 2\ndef h(x): return x * K", "helpers_of_the_user")
    honest(environment(source)["f"], lambda: exec(statement, other))


# -- compiled functions: arguments ----------------------------------------------------------------

ARGUMENTS: dict[str, list[Callable[[Any], Any]]] = {
    "number": [lambda x: (x, 2.0), lambda x: (x, 3.0), lambda x: (x, float("nan"))],
    "kind of number": [lambda x: (x, 1), lambda x: (x, 1.5), lambda x: (x, 1j)],
    "flag": [lambda x: (x, True), lambda x: (x, False), lambda x: (x, 1)],
    "text": [lambda x: (x, "a"), lambda x: (x, "b")],
    "nothing": [lambda x: (x, None), lambda x: (x, 4)],
    "dtype": [lambda x: (x, x.astype("float64")), lambda x: (x, x.astype("int32"))],
    "shape": [lambda x: (x, x), lambda x: (x, x[:1]), lambda x: (x, x.reshape(3, 1))],
    "aliasing": [lambda x: (x, x), lambda x: (x, x + 1), lambda x: (x + 1, x)],
    "tree": [lambda x: (x, [x]), lambda x: (x, (x,)), lambda x: (x, {"a": x})],
    "length": [lambda x: (x, [x]), lambda x: (x, [x, x]), lambda x: (x, [])],
    "array": [lambda x: (x, X), lambda x: (x, X * 2), lambda x: (x, X.astype(np.float64))],
    "keyword": [lambda x: (x, {"a": x, "b": x + 1}), lambda x: (x, {"a": x + 1, "b": x})],
}  # fmt: skip


def argument_dependent(x: Any, v: Any) -> Any:
    """Return a value that depends on the type, sign and value of `v`."""
    if isinstance(v, bool | str | None):
        return x * {True: 2.0, False: 3.0, "a": 4.0, "b": 5.0, None: 6.0}[v]
    if isinstance(v, (list, tuple, dict)):
        weight = {list: 1, tuple: 2, dict: 3}[type(v)]
        values = list(v.values()) if isinstance(v, dict) else v
        return sum((y * (k + weight) for k, y in enumerate(values)), x)
    return pb.where(x > 1, x * v, x - v)


@pytest.mark.filterwarnings("ignore::pullback.errors.PrecisionWarning")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_different_arguments_give_different_results(name):
    f = pb.compile(argument_dependent)
    calls = ARGUMENTS[name]
    for make in [*calls, *reversed(calls), *calls]:
        x = pb.tensor(X)
        got, want = f(*make(x)), argument_dependent(*make(x))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def test_signs_of_zero_as_an_argument():
    f = pb.compile(lambda x, k: 1.0 / (x * k))
    x = pb.tensor(X)
    assert f(x, 0.0)[0].item() == np.inf and f(x, -0.0)[0].item() == -np.inf
    g = pb.compile(lambda x, k: 1.0 / (x * k), static_argnums=1)
    assert g(x, 0.0)[0].item() == np.inf and g(x, -0.0)[0].item() == -np.inf


# -- frozen values, as listed in docs/compile.md --------------------------------------------------

FROZEN = {
    "contents of a large array of NumPy's": (
        "import numpy as np\na = np.ones(2000, np.float32)\ndef f(x): return x * a[:3]",
        "a[0] = 5.0"),
    "entries of a very large container": (
        "d = list(range(2000))\ndef f(x): return x + d[7]", "d[7] = 5000"),
    "an attribute whose name is computed": (
        "class C: pass\nc = C()\nc.k1 = 2.0\ndef f(x): return x * getattr(c, 'k' + str(1))",
        "c.k1 = 3.0"),
    "what an iterator hides": (
        "import itertools\nd = {'k': 2.0}\nit = itertools.repeat(d)\n"
        "def f(x): return x * next(it)['k']", "d['k'] = 3.0"),
    "contents of a large array of Python's": (
        "import array\na = array.array('d', [2.0] * 2000)\ndef f(x): return x * a[0]",
        "a[0] = 5.0"),
    "how an object prints": (
        "class C:\n    def __str__(self): return self.k\nc = C()\nc.k = '2'\n"
        "def f(x): return x * float(str(c))", "c.k = '3'"),
    "random numbers of Python's": (
        "import random\nrandom.seed(1)\ndef f(x): return x * random.random()", "random.seed(2)"),
    "what the function changes itself": (
        "n = [0]\ndef f(x):\n    n[0] += 1\n    return x * n[0]", "n[0] = 10"),
    "operators of tensors": (
        "old = pb.Tensor.__matmul__\ndef f(x): return x @ x",
        "pb.Tensor.__matmul__ = lambda x, y: x * 2"),
    "the insides of libraries": (
        "import textwrap\ndef f(x): return x * len(textwrap.dedent(' ab'))",
        "textwrap._whitespace_only_re = __import__('re').compile('a')"),
}  # fmt: skip


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_values_stay_as_traced(name, monkeypatch):
    source, statement = FROZEN[name]
    monkeypatch.setattr(pb.Tensor, "__matmul__", pb.Tensor.__matmul__)
    monkeypatch.setattr(textwrap, "_whitespace_only_re", textwrap._whitespace_only_re)
    env = environment(source)
    x = pb.tensor(X)
    compiled = pb.compile(env["f"])
    before = compiled(x)
    exec(statement, env)
    with counting() as counts:
        assert same(compiled(x), before)
        assert counts.misses == 0


# -- lazy programs --------------------------------------------------------------------------------

LAZY: dict[str, list[Callable[..., Any]]] = {
    "literal": [lambda x, y: x * 2.0, lambda x, y: x * 3.0, lambda x, y: x * -2.0],
    "zero": [lambda x, y: 1 / (x * 0.0), lambda x, y: 1 / (x * -0.0)],
    "zero in a constant": [
        lambda x, y: 1 / pb.full(3, 0.0), lambda x, y: 1 / pb.full(3, -0.0)],
    "one and True": [lambda x, y: pb.full(3, 1), lambda x, y: pb.full(3, True)],
    "kind of literal": [lambda x, y: x + 1, lambda x, y: x + 1.0, lambda x, y: x + 1j],
    "exponent": [lambda x, y: x**2, lambda x, y: x**3, lambda x, y: x**2.5, lambda x, y: x**-1],
    "axis": [lambda x, y: pb.outer(x, y).sum(axis=0), lambda x, y: pb.outer(x, y).sum(axis=1)],
    "keepdims": [lambda x, y: x.sum(keepdims=True), lambda x, y: x.sum(keepdims=False)],
    "permutation": [lambda x, y: pb.outer(x, y), lambda x, y: pb.outer(x, y).T],
    "slice": [lambda x, y: x[:2], lambda x, y: x[1:], lambda x, y: x[::2], lambda x, y: x[::-1]],
    "index": [lambda x, y: x[0], lambda x, y: x[1], lambda x, y: x[-1]],
    "gather": [lambda x, y: x[[0, 1]], lambda x, y: x[[1, 0]], lambda x, y: x[[0, 0]]],
    "written place": [lambda x, y: x.at[0].set(9.0), lambda x, y: x.at[1].set(9.0)],
    "written value": [lambda x, y: x.at[0].set(9.0), lambda x, y: x.at[0].set(8.0)],
    "mode of writing": [lambda x, y: x.at[0].add(2.0), lambda x, y: x.at[0].multiply(2.0)],
    "operands": [lambda x, y: x - y, lambda x, y: y - x, lambda x, y: x - x],
    "aliasing": [lambda x, y: x * x, lambda x, y: x * y, lambda x, y: y * y],
    "aliasing of values": [lambda x, y: (x + 1) * (y + 1), lambda x, y: (x + 1) * (x + 1)],
    "op": [lambda x, y: pb.sin(x), lambda x, y: pb.cos(x), lambda x, y: pb.tanh(x)],
    "dtype": [lambda x, y: x.astype("float64") / 3, lambda x, y: x.astype("float32") / 3],
    "order": [lambda x, y: pb.concat([x, y]), lambda x, y: pb.concat([y, x])],
    "padding": [lambda x, y: pb.pad(x, (1, 0)), lambda x, y: pb.pad(x, (0, 1))],
    "fill": [lambda x, y: pb.pad(x, 1, constant_values=0.0),
             lambda x, y: pb.pad(x, 1, constant_values=-0.0)],
    "comparison": [lambda x, y: x < y, lambda x, y: x <= y, lambda x, y: x == y],
    "branch": [lambda x, y: pb.where(x > 1, x, y), lambda x, y: pb.where(x > 1, y, x)],
    "gradient": [
        lambda x, y: pb.grad(lambda v: (v * y).sum())(x),
        lambda x, y: pb.grad(lambda v: (v * v).sum())(x)],
    "constant of a derivative": [
        lambda x, y: pb.grad(lambda v: (v * v).sum())(x),
        lambda x, y: pb.grad(lambda v: (v * pb.stop_gradient(v)).sum())(x)],
    "sort": [lambda x, y: pb.sort(-x), lambda x, y: pb.sort(x)],
    "reduction": [lambda x, y: x.max(), lambda x, y: x.min(), lambda x, y: x.prod()],
    "nan": [lambda x, y: x * float("nan"), lambda x, y: x * float("inf")],
}  # fmt: skip


@pytest.mark.parametrize("name", LAZY)
def test_different_lazy_programs_give_different_results(name):
    def values() -> list[Any]:
        x, y = pb.tensor(X), pb.tensor(X[::-1].copy() + 1)
        return [(f(x, y).dtype, f(x, y).numpy()) for f in [*LAZY[name], *LAZY[name]]]

    with pb.config(engine="reference", eager=True), np.errstate(all="ignore"):
        wanted = values()
    for (kind, got), (right, want) in zip(values(), wanted, strict=True):
        assert kind == right
        np.testing.assert_allclose(got, want, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(got.real), np.signbit(want.real))


def test_lazy_programs_see_every_write_to_a_tensor():
    w = pb.tensor(X)
    seen = []
    for write in (lambda: None, lambda: w.__iadd__(1), lambda: w.__setitem__(0, 9.0),
                  lambda: w.assign([7.0, 8.0, 9.0])):  # fmt: skip
        write()
        seen.append((w * 2).tolist())
    assert seen == [[2.0, 4.0, 6.0], [4.0, 6.0, 8.0], [18.0, 6.0, 8.0], [14.0, 16.0, 18.0]]


# -- changes that must not cause a trace ----------------------------------------------------------

PLAIN = (
    "K = 2\ndef h(v):\n    a = v * K\n    return a + 1\ndef f(x):\n    y = h(x)\n    return y * y"
)
RENAMED = """
# A comment, and other names.
K = 2


def h(v):
    other = v * K  # the same
    return other + 1


def f(x):
    result = h(x)

    return result * result
"""


def test_renaming_variables_and_comments_still_hit():
    x = pb.tensor(X)
    first, second = environment(PLAIN)["f"], environment(RENAMED)["f"]
    compiled = pb.compile(first)
    compiled(x).numpy()
    first(x).numpy()
    with counting() as counts:
        assert same(pb.compile(second)(x), compiled(x))
        second(x).numpy()
        assert counts.compiles == 0


def test_redefining_an_equal_helper_is_not_a_miss():
    x = pb.tensor(X)
    env = environment(PLAIN)
    compiled = pb.compile(env["f"])
    compiled(x)
    with counting() as counts:
        exec("\n\n\n# moved\ndef h(v):\n    b = v * K\n    return b + 1", env)
        env["K"] = int("2")
        env["L"] = 5  # nobody names it
        compiled(x)
        assert counts.misses == 0


def test_the_order_of_dicts_does_not_matter():
    x, y = pb.tensor(X), pb.tensor(X + 1)
    f = pb.compile(lambda d: d["a"] - d["b"] * 2)
    want = f({"a": x, "b": y})
    with counting() as counts:
        assert same(f({"b": y, "a": x}), want)
        assert counts.misses == 0


def test_equal_values_of_other_objects_still_hit():
    x = pb.tensor(X)
    env = environment("K = (1, 'ab', 2.5, None)\nL = [1.0]\ndef f(x): return x * K[0] * L[0]")
    f = pb.compile(env["f"])
    f(x)
    with counting() as counts:
        for _ in range(3):
            env["K"] = (1, "a" + "b"[:1], float("2.5"), None)
            env["L"] = [float("1.0")]
            f(x)
        nan = pb.compile(lambda x, k: x * 0, static_argnums=1)
        nan(x, float("nan"))
        assert counts.misses == 1
        nan(x, float("nan"))
        assert counts.misses == 1


def test_hash_seeds_do_not_matter():
    """The program is the same text in every process, so a cache on disk is hit."""
    code = textwrap.dedent(
        """
        import hashlib, pullback as pb
        names = {"w", "b", "gamma", "beta", "scale"}
        params = {n: pb.tensor([float(len(n))]) for n in names}
        table = {n: float(len(n)) for n in names}
        def loss(p, x):
            return sum(((x * p[n] * table[n]) ** 2).sum() for n in sorted(names))
        f = pb.compile(pb.grad(loss))
        text = f.lower(params, pb.tensor([1.0, 2.0])).stablehlo()
        print(hashlib.sha256(text.encode()).hexdigest())
        """
    )
    root = str(ROOT)
    seen = set()
    for seed in ("0", "1", "424242"):
        env = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        seen.add(ran.stdout)
    assert len(seen) == 1 and len(next(iter(seen)).strip()) == len(hashlib.sha256().hexdigest())


def test_there_are_two_hundred_mutations():
    count = len(PLACES) * len(CHANGES) + len(TENSOR_PLACES) * len(TENSOR_WRITES) + len(CODE)
    count += sum(map(len, ARGUMENTS.values())) + sum(map(len, LAZY.values())) + len(FROZEN)
    assert count >= 200
