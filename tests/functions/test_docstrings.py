"""Every public function and every attribute of Tensor has an example, which runs."""

from __future__ import annotations

import doctest
import inspect
from types import FunctionType

import pullback as pb
from pullback import functions

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _document(owner: object, name: str) -> str:
    return inspect.getdoc(inspect.getattr_static(owner, name)) or ""


def test_every_function_has_an_example():
    public = [n for n in pb.__all__ if isinstance(getattr(pb, n), FunctionType)]
    assert len(public) > 300 and {*functions.__all__} - {*public} == {"c_", "mgrid", "ogrid", "r_"}
    assert not [n for n in public if ">>>" not in (getattr(pb, n).__doc__ or "")]


def test_every_function_of_a_module_has_an_example():
    modules = (pb.debug, pb.fft, pb.linalg, pb.optim, pb.random, pb.special, pb.tree)
    for module in (*modules, pb.nn.functional, pb.nn.init):
        public = [n for n in dir(module) if isinstance(getattr(module, n), FunctionType)]
        public = [n for n in public if n[0] != "_"]
        assert len(public) > 1, module
        assert not [n for n in public if ">>>" not in _document(module, n)], module


def test_every_attribute_of_tensor_has_an_example():
    names = [n for n in dir(pb.Tensor) if not n.startswith("_")]
    assert len(names) > 200
    assert not [n for n in names if ">>>" not in _document(pb.Tensor, n)]


def test_examples_of_made_functions_run():
    """doctest finds those that are written out, but not what a factory made in another file."""
    parser, ran = doctest.DocTestParser(), 0
    runner = doctest.DebugRunner(optionflags=FLAGS)
    with pb.config(engine="reference"):
        for module in (functions, pb.fft, pb.linalg, pb.random, pb.special):
            for name in module.__all__:
                f = inspect.unwrap(getattr(module, name))
                if isinstance(f, FunctionType) and f.__globals__["__name__"] != f.__module__:
                    test = parser.get_doctest(inspect.getdoc(f), {"pb": pb}, name, None, None)
                    runner.run(test)
                    ran += 1
    assert ran > 60
