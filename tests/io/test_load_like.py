"""Loading into a tree: what must agree, and what is kept of it."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest
from devices import Grid, on_meshes

import pullback as pb
from pullback.errors import ArgumentError


class Moments(NamedTuple):
    m: Any
    v: Any


@dataclasses.dataclass
class Dense:
    w: Any
    b: Any
    name: str = dataclasses.field(default="dense", metadata={"static": True})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tree.safetensors"


def tree(shape=(2, 3), kind=pb.float32):
    return {
        "layers": [Dense(pb.ones(shape, dtype=kind), None, "saved"), Dense(pb.zeros(3), 1.5)],
        "opt": Moments(pb.zeros(2), {"count": 3}),
        "rest": (np.arange(3), deque([1, 2]), OrderedDict(a=1), "text", None),
    }


def test_classes_and_static_data_are_those_of_like(path):
    pb.save(path, tree())
    like = tree()
    like["layers"][0].name = "mine"
    like["rest"] = (np.zeros(3, np.int64), deque([0, 0], 4), defaultdict(int, a=0), "other", 2)
    found = pb.load(path, like=like)
    assert found["layers"][0].name == "mine" and found["layers"][0].w.tolist() == [[1] * 3] * 2
    assert type(found["opt"]) is Moments and found["opt"].v == {"count": 3}
    numbers, queue, table, text, none = found["rest"]
    assert isinstance(numbers, np.ndarray) and numbers.tolist() == [0, 1, 2]
    assert queue == deque([1, 2]) and queue.maxlen == 4
    assert type(table) is defaultdict and table["b"] == 0 and table["a"] == 1
    assert text == "text" and none is None
    assert list(pb.load(path, like={k: like[k] for k in reversed(like)})) == list(like)[::-1]


def test_types_stand_for_tensors(path):
    pb.save(path, {"w": pb.ones((2, 3)), "n": 1})
    like = pb.eval_shape(lambda: {"w": pb.zeros((2, 3)), "n": pb.zeros(())})
    found = pb.load(path, like={"w": like["w"], "n": 0})
    assert isinstance(found["w"], pb.Tensor) and found["w"].tolist() == [[1] * 3] * 2


def test_gradients_are_required_as_in_like(path):
    pb.save(path, [pb.ones(2), pb.ones(2)])
    like = [pb.zeros(2), pb.tensor([0.0, 0.0], requires_grad=True)]
    found = pb.load(path, like=like)
    assert [x.requires_grad for x in found] == [False, True] and found[1] is not like[1]
    (found[1] * 3).sum().backward()
    assert found[1].grad.tolist() == [3, 3]
    swapped = pb.load(path, like=[like[1], like[0]], keys={"0": ("1", lambda x: x + 1)})
    assert swapped[0].requires_grad and swapped[0].tolist() == [2, 2]


def changed(**values):
    return {**tree(), **values}


MISMATCHES = {
    "['layers'][0].w: the file has f32[2,3], like has f32[2,4]": tree((2, 4)),
    "['layers'][0].w: the file has f32[2,3], like has bf16[2,3]": tree(kind=pb.bfloat16),
    "['layers']: the file has 2 items, like has a list of 1": changed(layers=tree()["layers"][:1]),
    "the tree: the file has 'rest', unlike like": {k: tree()[k] for k in ("layers", "opt")},
    "the tree: the file lacks 'more', unlike like": changed(more=1),
    "['opt']: the file lacks 'mu' and has 'm', 'v', unlike": changed(opt={"mu": 1}),
    "['opt'].m: the file has f32[2], like has float '0.5'": changed(opt=Moments(0.5, {"count": 3})),
    "['opt'].m: the file has f32[2], like has None": changed(opt=Moments(None, {"count": 3})),
    "['opt'].v['count']: the file has int '3', like has f32[]": changed(
        opt=Moments(pb.zeros(2), {"count": pb.zeros(())})
    ),
    "['opt'].v: the file has a node with 'count', like has int '1'": changed(
        opt=Moments(pb.zeros(2), 1)
    ),
    "['opt'].m: the file has f32[2], like has a list": changed(opt=Moments([], {"count": 1})),
    "['rest'][0]: the file has i64[3], like has f64[3]": changed(
        rest=(np.zeros(3), *tree()["rest"][1:])
    ),
    "the tree: the file has a node with 'layers', 'opt', 'rest', like has f32[1]": pb.ones(1),
}


def test_what_does_not_agree_is_named(path):
    pb.save(path, tree())
    for text, like in MISMATCHES.items():
        with pytest.raises(ArgumentError) as error:
            pb.load(path, like=like)
        assert f"load: {text}" in str(error.value)


@on_meshes
def test_shardings_are_those_of_like(engine):
    import tempfile

    with pb.config(engine=engine):
        path = f"{tempfile.mkdtemp()}/sharded.safetensors"
        array = np.arange(35.0).reshape(7, 5)
        whole, grid = pb.tensor(array), Grid(a=2, b=4)
        split = whole.shard(grid, pb.P("b", "a"))
        pb.save(path, {"x": split, "c": (whole + 1j).shard(grid, pb.P("a"))})
        assert pb.load(path)["x"].sharding is None and pb.load(path)["x"].tolist() == array.tolist()
        for mesh, spec in ((Grid(n=8), pb.P("n")), (Grid(a=2, b=2), pb.P(None, ("a", "b")))):
            like = pb.zeros((7, 5), dtype=pb.float64).shard(mesh, spec)
            found = pb.load(path, like={"x": like, "c": (like + 0j)})
            assert found["x"].sharding is like.sharding
            assert found["x"].numpy().tolist() == array.tolist()
            assert found["c"].sharding is like.sharding
            assert found["c"].numpy().tolist() == (array + 1j).tolist()
            turned = pb.load(path, like={"x": like}, keys={"x": ("x", lambda x: x * 2)})["x"]
            assert turned.sharding is like.sharding and turned.sum().item() == 2 * array.sum()


class Net(pb.nn.Module):
    def __init__(self, n):
        self.body = pb.nn.Sequential(pb.nn.Linear(n, 4), pb.nn.Linear(4, 2))
        self.count = pb.nn.State(pb.tensor(0))
        self.scale, self.name = pb.ones(n), "net"
        self.table = [{"a": pb.zeros(1)}, pb.zeros(2)]


@pytest.fixture
def reference():
    with pb.config(engine="reference"):  # nothing is compiled
        yield


@pytest.mark.usefixtures("reference")
def test_modules_with_state_and_frozen_parameters(path):
    model = Net(3)
    model.count = model.count + 7
    pb.save(path, {"model": model, "step": 1})
    like = {"model": Net(3), "step": 0}
    like["model"].scale.requires_grad = False
    like["model"].name = "other"
    found = pb.load(path, like=like)["model"]
    assert type(found) is Net and found.name == "other" and found.count.item() == 7
    assert found.body[0].weight.tolist() == model.body[0].weight.tolist()
    trained = pb.grad(lambda m: m.scale.sum() + m.body(pb.ones(3)).sum())(found)
    assert trained.scale is None and trained.body[1].bias.tolist() == [1, 1]
    alone = pb.load(path)["model"]  # the class is known here, so like is not needed
    assert type(alone) is Net and alone.name == "net" and alone.count.item() == 7
    assert type(alone.body) is pb.nn.Sequential and not alone.training ^ model.training
    # The names are those of the state dict, as PyTorch has them
    pb.save(path, model)
    flat = pb.load(path, like=model.state_dict(), keys={})
    assert {k: x.tolist() for k, x in flat.items()} == {
        k: x.tolist() for k, x in model.state_dict().items()
    }
    pb.save(path, model.state_dict())
    back = pb.load(path, like=Net(3), keys={})
    assert back.body[1].weight.tolist() == model.body[1].weight.tolist()
    with pytest.raises(ArgumentError, match=r"\.body\.layers\[0\]\.weight: .* f32\[4,3\]"):
        pb.load(path, like=Net(5), keys={})
