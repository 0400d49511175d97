"""Guards notice a changed value, however a compiled function reaches it.

Each case is source that defines `f(x)`, and a statement after which `f` does something else.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
from counters import counting
from stale import environment, honest

import pullback as pb
from pullback.compiled.guards.guard_walk import walk_guards

ATTRIBUTES = "class C: pass\nc = C()\nc.a, c.b = 1.0, 2.0\n"
RECORD = "@dataclasses.dataclass\nclass C:\n    k: float\nc = C(2.0)\n"

# Objects of classes derived from Python's values and containers, and those classes.
OBJECTS = {
    "method of a list": (
        "K = 2.0\nclass L(list):\n    def t(self, x): return x * K\nc = L()\n"
        "def f(x): return c.t(x)", "K = 3.0"),
    "attribute of a list": ("class L(list): pass\nc = L()\nc.k = 2.0\ndef f(x): return x * c.k",
                            "c.k = 3.0"),
    "attribute of a dict's class": (
        "class D(dict):\n    k = 2.0\nc = D()\ndef f(x): return x * c.k", "D.k = 3.0"),
    "method of a named tuple": (
        "import typing\nK = 2.0\nclass P(typing.NamedTuple):\n    a: float\n"
        "    def s(self): return self.a * K\nc = P(1.0)\ndef f(x): return x * c.s()", "K = 3.0"),
    "attribute of a float": ("class F(float): pass\nc = F(2.0)\nc.k = 2.0\n"
                             "def f(x): return x * c.k", "c.k = 3.0"),
    "method of an enum": (
        "import enum\nK = 2.0\nclass E(enum.Enum):\n    A = 1\n    def s(self): return K\ne = E.A\n"
        "def f(x): return x * e.s()", "K = 3.0"),
    "metaclass": ("class M(type):\n    k = 2.0\nclass C(metaclass=M): pass\n"
                  "def f(x): return x * C.k", "M.k = 3.0"),
    "operator of a metaclass": (
        "K = 2.0\nclass M(type):\n    def __getitem__(cls, i): return K\n"
        "class C(metaclass=M): pass\ndef f(x): return x * C[0]", "K = 3.0"),
    "bases": ("class A:\n    k = 2.0\nclass B:\n    k = 3.0\nclass C(A): pass\nc = C()\n"
              "def f(x): return x * c.k", "C.__bases__ = (B,)"),
    "__getattr__ that knows no __qualname__": (
        "class C:\n    def __getattr__(self, n): return self.__dict__['_d'][n]\n"
        "c = C()\nc._d = {'k': 2.0}\ndef f(x): return x * c.k", "c._d['k'] = 3.0"),
    "__getattribute__": (
        "K = 2.0\nclass C:\n    def __getattribute__(self, n): return K\nc = C()\n"
        "def f(x): return x * c.k", "K = 3.0"),
    "attribute that a function gets": (
        "def g(x): return x * getattr(g, 'k', 2.0)\ndef f(x): return g(x)", "g.k = 3.0"),
    "attribute that a module gets": (
        "m = types.ModuleType('m')\ndef f(x): return x * getattr(m, 'k', 2.0)", "m.k = 3.0"),
    "__getattr__ of a module": (
        "t = {'k': 2.0}\nm = types.ModuleType('m')\nm.__getattr__ = lambda n: t[n]\n"
        "def f(x): return x * m.k", "t['k'] = 3.0"),
    "object in a set": ("class C: pass\nc = C()\nc.k = 2.0\ns = {c}\n"
                        "def f(x):\n    for o in s: x = x * o.k\n    return x", "c.k = 3.0"),
    "key of a dict": ("class C: pass\nc = C()\nc.k = 2.0\ns = {c: 1}\n"
                      "def f(x):\n    for o in s: x = x * o.k\n    return x", "c.k = 3.0"),
    "function in a frozenset": ("K = 2.0\ns = frozenset([lambda x: x * K])\n"
                                "def f(x):\n    for o in s: x = o(x)\n    return x", "K = 3.0"),
    "number of many entries": ("d = list(range(2000))\ndef f(x): return x * len(d)",
                               "d.append(1)"),
    "node of a tree": (
        "class M: pass\npb.tree.register(M, lambda m: ([m.w], None), lambda a, c: M())\n"
        "m = M()\nm.w = pb.tensor(2.0)\ndef f(x): return x * sum(pb.tree.leaves(m))",
        "m.w = pb.tensor(3.0)"),
}  # fmt: skip

# Attributes read by computed names, or all of them.
REFLECTION = {
    "names in a tuple": (f"{ATTRIBUTES}def f(x):\n    for n in ('a', 'b'): x = x * getattr(c, n)\n"
                         "    return x", "c.b = 3.0"),
    "names in a global": (
        f"{ATTRIBUTES}NAMES = ('a', 'b')\ndef f(x):\n    for n in NAMES: x = x * getattr(c, n)\n"
        "    return x", "c.b = 3.0"),
    "names in a dict": (
        f"{ATTRIBUTES}NAMES = {{'a': 1, 'b': 2}}\ndef f(x):\n"
        "    for n in NAMES: x = x * getattr(c, n)\n    return x", "c.b = 3.0"),
    "attrgetter": (f"{ATTRIBUTES}c.d = c\nget = __import__('operator').attrgetter('d.b')\n"
                   "def f(x): return x * get(c)", "c.b = 3.0"),
    "methodcaller": ("class C:\n    k = 2.0\n    def m(self): return self.k\nc = C()\n"
                     "call = __import__('operator').methodcaller('m')\n"
                     "def f(x): return x * call(c)", "C.k = 3.0"),
    "vars": (f"{ATTRIBUTES}def f(x): return x * sum(vars(c).values())", "c.b = 3.0"),
    "vars, one more": (f"{ATTRIBUTES}def f(x): return x * sum(vars(c).values())", "c.z = 3.0"),
    "__dict__ of a class": (
        "class C:\n    k = 2.0\n"
        "def f(x): return x * sum(v for v in C.__dict__.values() if isinstance(v, float))",
        "C.j = 3.0"),
    "comparison of records": (f"{RECORD}def f(x): return x * (2 if c == C(2.0) else 5)",
                              "c.k = 3.0"),
    "__dict__": (f"{ATTRIBUTES}def f(x): return x * sum(c.__dict__.values())", "c.b = 3.0"),
    "astuple": (f"{RECORD}def f(x): return x * dataclasses.astuple(c)[0]", "c.k = 3.0"),
    "asdict with slots": (
        "@dataclasses.dataclass(slots=True)\nclass C:\n    k: float\nc = C(2.0)\n"
        "def f(x): return x * sum(dataclasses.asdict(c).values())", "c.k = 3.0"),
    "fields": (f"{RECORD}def f(x):\n    return x * sum(getattr(c, q.name) for q in "
               "dataclasses.fields(c))", "c.k = 3.0"),
    "pattern with keywords": (
        f"{ATTRIBUTES}def f(x):\n    match c:\n        case C(b=2): return x * 2\n"
        "    return x * 3", "c.b = 3.0"),
    "pattern by position": (
        f"{RECORD}def f(x):\n    match c:\n        case C(2): return x * 2\n    return x * 3",
        "c.k = 3.0"),
    "globals()": ("K = 2.0\ndef f(x): return x * globals()['K']", "K = 3.0"),
}  # fmt: skip

# Values that Python makes of others.
WRAPPED = {
    "mapping proxy": ("d = {'k': 2.0}\np = types.MappingProxyType(d)\ndef f(x): return x * p['k']",
                      "d['k'] = 3.0"),
    "ChainMap": ("import collections\nd = {'k': 2.0}\np = collections.ChainMap({}, d)\n"
                 "def f(x): return x * p['k']", "d['k'] = 3.0"),
    "environment": ("import os\nos.environ['PULLBACK_TEST'] = '2'\n"
                    "def f(x): return x * float(os.environ['PULLBACK_TEST'])",
                    "os.environ['PULLBACK_TEST'] = '3'"),
    "file of settings": (
        "import configparser\nc = configparser.ConfigParser()\nc['a'] = {'k': '2'}\n"
        "def f(x): return x * c.getfloat('a', 'k')", "c['a']['k'] = '3'"),
    "weak values": (
        "import weakref\nclass C: pass\nc = C()\nc.k = 2.0\nd = weakref.WeakValueDictionary(c=c)\n"
        "def f(x): return x * d['c'].k", "c.k = 3.0"),
    "UserDict": ("import collections\np = collections.UserDict(k=2.0)\n"
                 "def f(x): return x * p['k']", "p['k'] = 3.0"),
    "weak reference": ("import weakref\nclass C: pass\nc = C()\nc.k = 2.0\nr = weakref.ref(c)\n"
                       "def f(x): return x * r().k", "c.k = 3.0"),
    "weak proxy": ("import weakref\nclass C: pass\nc = C()\nc.k = 2.0\nr = weakref.proxy(c)\n"
                   "def f(x): return x * r.k", "c.k = 3.0"),
    "context variable": ("import contextvars\nv = contextvars.ContextVar('v', default=2.0)\n"
                         "def f(x): return x * v.get()", "v.set(3.0)"),
    "thread's own": ("import threading\nt = threading.local()\nt.k = 2.0\n"
                     "def f(x): return x * t.k", "t.k = 3.0"),
    "builtin method": ("d = {'k': 2.0}\nget = d.get\ndef f(x): return x * get('k')",
                       "d['k'] = 3.0"),
    "method wrapper": ("d = [2.0]\nget = d.__getitem__\ndef f(x): return x * get(0)",
                       "d[0] = 3.0"),
    "defaultdict": ("import collections\nK = 2.0\nd = collections.defaultdict(lambda: K)\n"
                    "def f(x):\n    v = d['z']\n    d.clear()\n    return x * v", "K = 3.0"),
    "singledispatch": (
        "K = 2.0\n@functools.singledispatch\ndef h(x): return x\n@h.register(pb.Tensor)\n"
        "def _(x): return x * K\ndef f(x): return h(x)", "K = 3.0"),
    "singledispatch, registered late": (
        "@functools.singledispatch\ndef h(x): return x\ndef f(x): return h(x)",
        "h.register(pb.Tensor, lambda x: x * 3)"),
    "singledispatchmethod": (
        "K = 2.0\nclass C:\n    @functools.singledispatchmethod\n    def h(self, x): return x\n"
        "    @h.register(pb.Tensor)\n    def _(self, x): return x * K\nc = C()\n"
        "def f(x): return c.h(x)", "K = 3.0"),
    "partialmethod": (
        "K = 2.0\nclass C:\n    def h(self, a, x): return x * a * K\n"
        "    g = functools.partialmethod(h, 1.0)\nc = C()\ndef f(x): return c.g(x)", "K = 3.0"),
    "context manager": (
        "import contextlib\nclass S:\n    k = 2.0\n@contextlib.contextmanager\n"
        "def manager():\n    yield S.k\ndef f(x):\n    with manager() as k: return x * k",
        "S.k = 3.0"),
    "imported anew": (
        "import sys\nm = sys.modules['of_the_user'] = types.ModuleType('of_the_user')\nm.k = 2.0\n"
        "def f(x):\n    import of_the_user\n    return x * of_the_user.k",
        "m = sys.modules['of_the_user'] = types.ModuleType('of_the_user')\nm.k = 3.0"),
}  # fmt: skip

TENSOR = "w = pb.tensor([1.0, 2.0, 3.0])\n"
LEAF = f"{TENSOR}w.requires_grad = True\n"
ARRAY = "import numpy as np\na = np.array([1.0, 2.0, 3.0], np.float32)\n"

# What is changed inside of an object that stays where it is.
IN_PLACE = {
    "requires_grad": (f"{TENSOR}def f(x): return x * (2 if w.requires_grad else 3)",
                      "w.requires_grad = True"),
    "requires_grad, elsewhere": (
        f"class C: pass\nc = C()\n{TENSOR}c.w = w\ndef g(t): return t.requires_grad\n"
        "def f(x): return x * (2 if g(c.w) else 3)", "w.requires_grad = True"),
    "is_leaf": (f"{TENSOR}v = w\ndef f(x): return x * (2 if w.is_leaf else 3)",
                "v.requires_grad = True\nw = v * 2"),
    "grad is None": (f"{LEAF}def f(x): return x * (2 if w.grad is None else 3)",
                     "(w * w).sum().backward()"),
    "grad, accumulated": (
        f"{LEAF}(w * w).sum().backward()\ndef f(x): return x * w.grad",
        "(w * w).sum().backward()"),
    "grad, replaced": (f"{LEAF}(w * w).sum().backward()\ndef f(x): return x * w.grad",
                       "w.grad = w.grad * 2"),
    "array": (f"{ARRAY}def f(x): return x * a", "a[0] = 5.0"),
    "array.shape": (f"{ARRAY}a = np.zeros((1, 3))\ndef f(x): return x * a.shape[0]",
                    "a.shape = (3, 1)"),
    "shape of a large array": (
        f"{ARRAY}a = np.zeros((1, 3000))\ndef f(x): return x * a.shape[0]", "a.shape = (3000, 1)"),
    "array.dtype": (f"{ARRAY}def f(x): return x * a.dtype.itemsize", "a.dtype = np.int16"),
    "array of objects": (f"{ARRAY}d = {{'k': 2.0}}\na = np.array([d], object)\n"
                         "def f(x): return x * a[0]['k']", "d['k'] = 3.0"),
    "array.array": ("import array\na = array.array('d', [2.0])\ndef f(x): return x * a[0]",
                    "a[0] = 5.0"),
    "memoryview": ("a = memoryview(bytearray(b'ab'))\ndef f(x): return x * a[0]", "a[0] = 5"),
    "ctypes": ("import ctypes\na = ctypes.c_double(2.0)\ndef f(x): return x * a.value",
               "a.value = 3.0"),
    "ctypes.Structure": (
        "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('k', ctypes.c_double)]\n"
        "a = S(2.0)\ndef f(x): return x * a.k", "a.k = 3.0"),
    "default_factory": (
        "import collections\nd = collections.defaultdict(lambda: 2.0)\n"
        "def f(x):\n    v = d['z']\n    d.clear()\n    return x * v",
        "d.default_factory = lambda: 3.0"),
    "abc.register": (
        "import abc\nclass A(abc.ABC): pass\nclass C: pass\nc = C()\n"
        "def f(x): return x * (2 if isinstance(c, A) else 3)", "A.register(C)"),
    "abc.register with Python's": (
        "import collections.abc\nclass C: pass\nc = C()\n"
        "def f(x): return x * (2 if isinstance(c, collections.abc.Sequence) else 3)",
        "collections.abc.Sequence.register(C)"),
    "dir": (f"{ATTRIBUTES}def f(x): return x * len(dir(c))", "c.z = 1"),
    "dir of a class": (f"{ATTRIBUTES}def f(x): return x * len(dir(c))", "C.z = 1"),
    "__dir__": ("class C:\n    def __dir__(self): return ['a']\nc = C()\n"
                "def f(x): return x * len(dir(c))", "C.__dir__ = lambda self: ['a', 'b']"),
    "partial.__setstate__": ("p = functools.partial(use, v=2.0)\ndef f(x): return p(x)",
                             "p.__setstate__((use, (), {'v': 3.0}, {}))"),
    "compiled partial": ("f = functools.partial(use, v=2.0)",
                         "f.__setstate__((use, (), {'v': 3.0}, {}))"),
    "attribute of a partial": (
        "p = functools.partial(use)\np.k = 2.0\ndef f(x): return x * p.k", "p.k = 3.0"),
    "attribute of a cached function": (
        "@functools.lru_cache\ndef g(): pass\ng.k = 2.0\ndef f(x): return x * g.k", "g.k = 3.0"),
    "attribute of a compiled function": (
        "@pb.compile\ndef g(x): return x\ng.k = 2.0\ndef f(x): return x * g.k", "g.k = 3.0"),
    "slice in a tuple": ("s = (slice(0, 2), 1.0)\ndef f(x): return x[s[0]] * s[1]",
                         "s = (slice(0, 1), 1.0)"),
}  # fmt: skip

CASES = {**OBJECTS, **REFLECTION, **WRAPPED, **IN_PLACE}


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("name", CASES)
def test_a_change_is_noticed_however_the_value_is_reached(name, monkeypatch):
    monkeypatch.setenv("PULLBACK_TEST", "2")  # and is gone afterwards
    source, statement = CASES[name]
    env = environment(source)
    honest(env["f"], lambda: exec(statement, env))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A user package of which only the first module is loaded."""
    folder = tmp_path / "package_of_the_user"
    folder.mkdir()
    (folder / "__init__.py").write_text("Q = 1.0\n")
    for name in ("first", "second", "third"):
        (folder / f"{name}.py").write_text("K = 2.0\ndef h(x): return x * K\n")
    (folder / "main.py").write_text(
        textwrap.dedent(
            """
            import functools
            import numpy as np
            K = 2.0
            def first(x):
                from .first import h
                return h(x)
            def second(x):
                from . import second
                return second.h(x)
            def third(x):
                import package_of_the_user.third
                return package_of_the_user.third.h(x) * package_of_the_user.Q
            @functools.wraps(np.sum)
            def named_as_numpy(x):
                return x * K
            """
        )
    )
    (tmp_path / "calendar.py").write_text("K = 2.0\ndef h(x): return x * K\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "package_of_the_user"
    for name in [n for n in sys.modules if n.startswith("package_of_the_user")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("f", "module", "name"),
    [
        ("first", "first", "K"),
        ("second", "second", "K"),
        ("third", "third", "K"),
        ("third", None, "Q"),
        ("named_as_numpy", "main", "K"),
    ],
)
def test_modules_that_are_imported_inside(package, f, module, name):
    main = importlib.import_module(f"{package}.main")
    full = package if module is None else f"{package}.{module}"
    honest(getattr(main, f), lambda: setattr(sys.modules[full], name, 3.0))


def test_a_user_module_with_the_name_of_a_standard_one(package, monkeypatch):
    monkeypatch.delitem(sys.modules, "calendar", raising=False)
    mine = importlib.import_module("calendar")
    honest(mine.h, lambda: setattr(mine, "K", 3.0))


@pytest.mark.parametrize("before", ["z = {}", "q = lambda: x.a{}"])
def test_functions_with_more_than_256_constants_or_names(package, before):
    """Python then uses EXTENDED_ARG instructions."""
    lines = [before.format(1000 + i) for i in range(300)]
    lines += [f"from {package}.first import K", "import math", "return x * K"]
    space: dict = {}
    exec("def f(x):\n    " + "\n    ".join(lines), space)
    honest(space["f"], lambda: setattr(sys.modules[f"{package}.first"], "K", 3.0))


def test_reflection_makes_all_names_of_a_module_count(package):
    first = importlib.import_module(f"{package}.first")

    def total(x):
        return x * sum(v for v in vars(first).values() if isinstance(v, float))

    honest(total, lambda: setattr(first, "K", 3.0))
    honest(total, lambda: setattr(first, "L", 3.0))


def test_a_function_without_a_module():
    space: dict = {}
    exec(compile("K = 2.0\ndef f(x): return x * K", "generated.py", "exec"), space)
    honest(space["f"], lambda: space.update(K=3.0))


def test_a_program_on_the_command_line():
    code = """
import pullback as pb
K = 2.0
class C:
    def __call__(self, x): return x * K
c = C()
f = pb.compile(lambda x: c(x))
f(pb.tensor(1.0))
K = 3.0
print(f(pb.tensor(1.0)).item())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "3.0\n"


@pytest.mark.parametrize("count", [3, 3000])
def test_a_static_array_may_be_written_to(count):
    x, a = pb.tensor([1.0]), np.ones(count, np.float32)
    f = pb.compile(lambda x, a: x * a.sum().item(), static_argnums=1)
    assert f(x, a).item() == count
    a[-1] = 5.0
    assert f(x, a).item() == count + 4.0


def test_an_array_that_the_function_writes_to_is_its_own():
    log = np.zeros(3)

    def f(x):
        log[0] += 1
        return x * 2

    compiled, x = pb.compile(f), pb.tensor([1.0])
    with counting() as counts:
        for _ in range(3):
            compiled(x)
        assert counts.misses == 1 and log[0] == 1


def test_what_code_does_not_read_of_a_tensor_does_not_matter():
    w = pb.tensor([1.0, 2.0])
    f, x = pb.compile(lambda x: x * w), pb.tensor([1.0, 1.0])
    f(x)
    with counting() as counts:
        w.requires_grad = True
        f(x)
        (w * w).sum().backward()
        f(x)
        assert counts.misses == 0


def test_what_a_function_adds_to_itself_is_its_own():
    """A counter that did not exist before the first trace is no reason for another one."""

    def f(x):
        f.traces = getattr(f, "traces", 0) + 1
        return x * 2

    compiled = pb.compile(f)
    x, y = pb.tensor([1.0]), pb.tensor([1.0, 2.0])
    with counting() as counts:
        for _ in range(3):
            compiled(x)
            compiled(y)
        assert counts.misses == 2 and f.traces == 2


def test_caches_of_ops_are_no_part_of_what_a_function_refers_to():
    """A trace fills them: the second call finds other attributes in the op of `pb.rsqrt`."""
    functions = types.SimpleNamespace(f=pb.rsqrt)
    f, x = pb.compile(lambda x: functions.f(x)), pb.ones((3, 7, 11))
    with counting() as counts:
        f(x)
        f(x)
        assert counts.misses == 1


def test_a_function_that_leads_to_a_whole_package():
    """pytest makes an assert name its own modules, and these lead to all of it."""
    scale = 2.0

    def f(x):
        assert x.shape == (3,)
        return x * scale

    def change():
        nonlocal scale
        scale = 3.0

    honest(f, change)
    assert walk_guards(f, [], {}).brief
