"""Unknown names are answered with what to write."""

from __future__ import annotations

import copy
import pickle

import pytest
from helpers import told

import pullback as pb
from pullback.errors import UnknownImport, UnknownName
from pullback.suggestions.module_names import TABLES
from pullback.suggestions.names import find_suggested_name, names_in_suggestion
from pullback.suggestions.object_names import OBJECT_NAMES
from pullback.suggestions.tensor_names import FOUND_ELSEWHERE, TENSOR_NAMES

ANSWERS = {
    ("pullback", "jit"): "Write pb.compile.",
    ("pullback", "cat"): "Write pb.concat.",
    ("pullback", "np"): "import numpy as np",
    ("pullback", "sofmax"): "Did you mean pb.softmax",
    ("pullback.nn", "Dense"): "Write pb.nn.Linear.",
    ("pullback.nn", "Lienar"): "Did you mean pb.nn.Linear?",
    ("pullback", "F"): "Write pb.nn.functional.",
    ("pullback", "cross_entropy"): "Write pb.nn.functional.cross_entropy.",
    ("pullback.nn.functional", "dropout2d"): "Write pb.nn.functional.feature_dropout.",
    (
        "pullback.nn.init",
        "trunc_normal_",
    ): "Write x.assign(pb.nn.init.truncated_normal(key, x.shape)).",
    ("pullback", "permutation"): "Write pb.random.permutation.",
    ("pullback", "svd"): "Write pb.linalg.svd.",
    ("pullback", "rfft"): "Write pb.fft.rfft.",
    ("pullback.linalg", "chol"): "Write pb.linalg.cholesky.",
    ("pullback", "randn"): "pb.random.normal(key, shape)",
    ("pullback", "tree_map"): "pb.tree.map(f, tree)",
    ("pullback", "astyp"): "Did you mean pb.astype?",
    ("pullback", "busday_count"): "np.busday_count",
    ("pullback.linalg", "einsum"): "Write pb.einsum.",
    ("pullback.random", "randn"): "Write pb.random.normal(key, shape).",
    ("pullback.random", "PRNGKey"): "Write pb.random.key(seed).",
    ("pullback.tree", "tree_map"): "Write pb.tree.map.",
    ("pullback.optim", "sgdd"): "Did you mean pb.optim.sgd?",
    ("pullback.errors", "ShapeErorr"): "Did you mean pb.errors.ShapeError?",
    ("pullback.debug", "grad"): "Write pb.grad.",
    ("Tensor", "grad_fn"): "Write pb.trace(f, x).",
    ("Tensor", "to_numpy"): "Write x.numpy().",
    ("Tensor", "stride"): "Tensors have no memory order",
    ("Tensor", "vmap"): "Write pb.vmap(x, ...).",
    ("Tensor", "svd"): "Write pb.linalg.svd(x, ...).",
    ("Tensor", "set_"): "Write x.assign(value).",
    ("pullback.nn", "filter_vmap"): "Write pb.vmap(f).",
    ("pullback.nn.init", "zeros_"): "Write x.assign(pb.nn.init.zeros(x.shape)).",
    ("pullback.optim.schedules", "OneCycleLR"): "Write pb.optim.schedules.one_cycle.",
}


@pytest.mark.parametrize(("owner", "name"), ANSWERS)
def test_the_answer_to_a_name(owner, name):
    holder = (
        pb.ones(2) if owner == "Tensor" else find_suggested_name(owner.replace("pullback", "pb"))
    )
    with told(UnknownName, AttributeError, repr(name), ANSWERS[owner, name]):
        getattr(holder, name)


def test_every_answer_names_what_exists():
    missing = []
    for owner, table in [*TABLES.items(), ("Tensor", TENSOR_NAMES), *OBJECT_NAMES.items()]:
        for name, answer in table.items():
            for target in names_in_suggestion(owner, answer):
                try:
                    find_suggested_name(target)
                except AttributeError:
                    missing.append(f"{owner}.{name}: {target}")
    assert not missing


def test_no_answer_is_given_for_what_exists():
    superfluous = [
        f"{owner}.{name}"
        for owner, table in TABLES.items()
        for name in table
        if hasattr(find_suggested_name(owner.replace("pullback", "pb")), name)
    ]
    superfluous += [name for name in (*TENSOR_NAMES, *FOUND_ELSEWHERE) if hasattr(pb.Tensor, name)]
    assert not superfluous


def test_imports_are_answered_too():
    with told(UnknownImport, ImportError, "'jit'", "Write pb.compile."):
        from pullback import jit  # noqa: F401
    with told(UnknownImport, ImportError, "'randn'", "Write pb.random.normal(key, shape)."):
        from pullback.random import randn  # noqa: F401


def test_a_missing_name_is_missing():
    x = pb.tensor([1.0, 2.0])
    assert not hasattr(x, "nelement") and getattr(x, "nelement", 3) == 3
    for names in (dir(x), dir(pb.Tensor)):
        assert "nelement" not in names and {"sum", "shape", "numpy"} <= set(names)
    assert not hasattr(pb, "jit") and "jit" not in dir(pb)
    assert not hasattr(pb, "__wrapped__")
    for copied in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert copied.tolist() == [1.0, 2.0]
    with pytest.raises(AttributeError):
        x.nelement = 3


def test_modules_and_optimizers_answer_too():
    class Mixin:
        cpu = 3

        def half(self):
            return 7

    class Model(pb.nn.Module, Mixin):
        pass

    model, rule = pb.nn.Linear(2, 2), pb.optim.sgd(0.1)
    for x, name, answer in [
        (model, "cuda", 'Write model.to(device="gpu").'),
        (model, "unfreeze", "Write model.requires_grad_()."),
        (pb.optim.SGD([pb.ones(2)]), "param_groups", "Write opt.groups, each with"),
        (rule, "step", "opt.update(grads, state, params)"),
    ]:
        with told(UnknownName, AttributeError, repr(name), answer):
            getattr(x, name)
        assert not hasattr(x, name) and name not in dir(x)
    assert Model().half() == 7 and Model().cpu == 3  # another base class has them
    model.double = 2
    assert model.double == 2 and "double" in dir(model)


def test_the_error_travels_between_processes():
    with pytest.raises(UnknownName) as info:
        pb.jit  # noqa: B018
    again = pickle.loads(pickle.dumps(info.value))
    assert info.value.name == "jit" and str(again) == str(info.value)


def test_names_of_tensors_inside_a_compiled_function():
    # a name that tensors lack may be one of another object
    f = pb.compile(lambda x, d: sum(d.values()) * x)
    assert f(pb.tensor(2.0), {"a": 1.0, "b": 2.0}).item() == 6.0
