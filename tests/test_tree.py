"""Trees: what `pb.tree` lists, and how structures read in messages."""

import collections
import dataclasses

import pytest
from helpers import line

import pullback as pb
from pullback import errors, tree
from pullback.errors import ArgumentError


@tree.register
@dataclasses.dataclass
class Layer:
    w: object
    b: object


Point = collections.namedtuple("Point", "x y")

SHOWN = [
    (1, "*"),
    (None, "None"),
    ((), "()"),
    ((1,), "(*,)"),
    ([1, [2, None]], "[*, [*, None]]"),
    ({"a": 1, "b": (3, 4)}, "{'a': *, 'b': (*, *)}"),
    (collections.OrderedDict(a=1), "{'a': *}"),
    (Point(1, [2]), "Point(x=*, y=[*])"),
    (collections.deque([1, 2]), "deque(*, *)"),
    ([Layer(1, 2), Layer([1], None)], "[Layer(w=*, b=*), Layer(w=[*], b=None)]"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), SHOWN, ids=[text for _, text in SHOWN])
def test_a_structure_is_shown_as_containers_with_stars_for_leaves(value, text):
    assert tree.show_tree_structure(tree.flatten(value)[1]) == text


def test_dir_lists_the_public_names_alone():
    assert dir(pb.tree) == [
        "flatten", "leaves", "map", "map_with_path", "paths", "ravel", "reduce", "register",
        "structure", "unflatten",
    ]  # fmt: skip
    assert dir(errors) == sorted(errors.__all__)
    found = {
        n
        for n, x in vars(errors).items()
        if isinstance(x, type) and x.__module__ == errors.__name__
    }
    assert found == set(errors.__all__)


def test_trees_that_differ_are_refused_by_map():
    with pytest.raises(
        ArgumentError, match=r"tree\.map: trees must agree, expected {'a': \*}, got \[\*\]"
    ):
        tree.map(lambda x, y: x + y, {"a": 1}, [1])


def test_a_wrong_number_of_leaves_is_refused():
    structure = tree.flatten({"a": 1, "b": [2]})[1]
    expected = r"tree\.unflatten: {'a': \*, 'b': \[\*\]} needs 2 leaves, got "
    with pytest.raises(ArgumentError, match=expected + "more") as error:
        tree.unflatten(structure, [1, 2, 3])
    assert str(error.value.where) == line(-1)
    with pytest.raises(ArgumentError, match=expected + "fewer"):
        tree.unflatten(structure, iter([1]))


def test_an_error_of_a_registered_class_is_its_own():
    class Strict:
        def __init__(self, x):
            if x == 2:
                raise ValueError("two is refused")
            self.x = x

    tree.register(Strict, lambda s: ((s.x,), None), lambda _, children: Strict(*children))
    with pytest.raises(ValueError, match="two is refused"):
        tree.map(lambda x: x * 2, Strict(1))


def wrong_branches():
    return pb.cond(pb.tensor(True), lambda x: {"a": x}, lambda x: [x], pb.tensor(1.0))


def wrong_state():
    return pb.scan(lambda c, _: ([c], c), pb.tensor(1.0), pb.tensor([1.0]))


def wrong_loop():
    return pb.while_loop(lambda c: c[0] < 3, lambda c: {"a": c[0]}, (pb.tensor(1.0),))


def wrong_tangents():
    return pb.jvp(lambda x: x["a"], ({"a": pb.tensor(1.0)},), ([pb.tensor(1.0)],))


def wrong_cotangents():
    return pb.vjp(lambda x: (x, x), pb.tensor(1.0))[1]([pb.tensor(1.0)])


def wrong_gradients():
    optimizer = pb.optim.sgd(0.1)
    params = {"w": pb.tensor(1.0)}
    return optimizer.update([pb.tensor(1.0)], optimizer.init(params), params)


def wrong_axes():
    return pb.vmap(lambda x: x["a"], in_axes=({"b": 0},))({"a": pb.tensor([1.0])})


def wrong_results():
    return pb.vmap(lambda x: (x, x), out_axes={"a": 0})(pb.tensor([1.0]))


def wrong_rule():
    @pb.custom_vjp
    def f(x):
        return x["a"]

    f.defvjp(lambda x: (f(x), None), lambda _, g: ([g],))
    return pb.grad(f)({"a": pb.tensor(1.0)})


def wrong_forward():
    @pb.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: ([x], None), lambda _, g: (g,))
    return pb.grad(f)(pb.tensor(1.0))


def wrong_lowered():
    return pb.compile(lambda x: x["a"]).lower({"a": pb.tensor(1.0)}).compile()([pb.tensor(1.0)])


def wrong_kind():
    f = pb.compile(lambda x: x[0])
    f([pb.tensor(1.0)])
    with pb.no_recompile():
        f((pb.tensor(1.0),))


WRONG = [
    wrong_branches, wrong_state, wrong_loop, wrong_tangents, wrong_cotangents, wrong_gradients,
    wrong_axes, wrong_results, wrong_rule, wrong_forward, wrong_lowered, wrong_kind,
]  # fmt: skip


@pytest.mark.parametrize("call", WRONG)
def test_no_message_shows_a_structure_as_optree_does(call):
    try:  # no pytest.raises: it would keep the tensors of the frames alive
        call()
    except errors.PullbackError as error:
        message = str(error)
    assert "PyTreeSpec" not in message and "namespace=" not in message


def test_reduce_structure_and_map_with_path():
    value = {"a": 1, "b": [Layer(2, 3), None]}
    assert tree.reduce(lambda x, y: 10 * x + y, value) == 123
    assert tree.reduce(lambda x, y: 10 * x + y, value, 9) == 9123
    assert tree.reduce(max, [], 4) == 4
    with pytest.raises(ArgumentError, match=r"tree\.reduce: the tree has no leaves"):
        tree.reduce(max, {"a": None})
    assert tree.structure(value) == tree.flatten(value)[1]
    named = tree.map_with_path(lambda path, x, y: f"{path}:{x}:{y}", value, value)
    assert tree.leaves(named) == ["['a']:1:1", "['b'][0].w:2:2", "['b'][0].b:3:3"]
    with pytest.raises(ArgumentError, match=r"tree\.map_with_path: trees must agree"):
        tree.map_with_path(lambda path, x, y: x, value, [1])


def test_ravel_and_unravel():
    value = {"w": pb.ones((2, 2)), "b": Layer(pb.tensor([3.0, 4.0]), 5), "none": None}
    flat, unravel = tree.ravel(value)
    assert flat.dtype is pb.float32 and flat.tolist() == [3.0, 4.0, 5.0, 1.0, 1.0, 1.0, 1.0]
    found = unravel(flat.astype("f64") * 2.5)  # as SciPy's optimizers return it
    assert [x.dtype for x in tree.leaves(found)] == [pb.float32, pb.int64, pb.float32]
    assert found["b"].b.item() == 12 and found["w"].tolist() == [[2.5, 2.5], [2.5, 2.5]]
    assert tree.ravel([pb.tensor(1.0, "f16"), pb.tensor([2.0], "bf16")])[0].dtype is pb.float32
    parts = tree.ravel((pb.tensor(1 + 2j), pb.tensor(3.0)))
    assert parts[1](parts[0] * 2)[1].item() == 6.0
    empty, back = tree.ravel({"a": None, "b": pb.ones((0, 3))})
    assert empty.shape == (0,) and back(empty)["b"].shape == (0, 3)
    assert tree.ravel([])[0].shape == (0,)


def test_ravel_is_differentiable():
    value = (pb.tensor([1.0, 2.0]), {"a": pb.tensor(3.0)})
    loss = lambda v: (tree.ravel(v)[0] ** 3).sum()  # noqa: E731
    assert tree.ravel(pb.grad(loss)(value))[0].tolist() == [3.0, 12.0, 27.0]
    flat, unravel = tree.ravel(value)
    wide, back = tree.ravel(tree.map(lambda x: x.astype("f64"), value))
    pb.check_grads(lambda v: (back(v)[0] * back(v)[1]["a"]).sum(), (wide,), order=2)
    rows = pb.vmap(unravel)(pb.stack([flat, 2 * flat]))
    assert rows[1]["a"].tolist() == [3.0, 6.0]


def test_ravel_refuses_what_does_not_fit():
    with pytest.raises(ArgumentError, match=r"tree\.ravel: .* got str at \['name'\]"):
        tree.ravel({"name": "x"})
    unravel = tree.ravel([pb.ones(2), 1.0])[1]
    with pytest.raises(errors.ShapeError, match=r"unravel: needs a vector of 3 elements"):
        unravel(pb.ones((3, 1)))
    with pytest.raises(errors.DTypeError, match="unravel: the leaves are real"):
        unravel(pb.ones(3, dtype="complex64"))
