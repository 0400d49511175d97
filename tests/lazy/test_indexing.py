"""Indexing follows NumPy, writes make new tensors, and an index out of range is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import told
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    HostReadError,
    IndexOutOfRange,
    ShapeError,
)

S = np.s_
HOST = np.arange(2 * 3 * 4, dtype=np.float64).reshape(2, 3, 4)
MASK = HOST % 3 == 0

CASES = [
    S[0], S[-1], S[1, 2, 3], S[-2, -3, -4], S[1, 2], S[:], S[...], S[()], S[1:], S[:, ::2],
    S[:, ::-1], S[::-1, :, ::-2], S[:, 5:], S[:, 2:1], S[:, -1:0:-1], S[None], S[:, None, 1],
    S[..., None], S[..., 0], S[0, ..., 1], S[None, 1, :, None, ::-3], S[np.int64(1)],
    S[[0, 1, 1]], S[:, [2, 0]], S[:, :, [1, -1]], S[[0, 1], [2, 0]], S[[[0], [1]], [2, 0]],
    S[0, [1, 2]], S[[1, 0], 1], S[0, :, [1, 2]], S[[0, 1], :, [1, 2]], S[:, [0, 2], [1, 3]],
    S[:, [0, 2], None, [1, 3]], S[[0, 1], None], S[..., [0, 2], 1], S[1, ..., [0, 2]],
    S[:, 1:, [0, 0, 3]], S[::-1, [0, 2]], S[:, []], S[np.array(1)], S[:, np.array([[0, 2]])],
    S[np.array([0, 1], np.uint8), np.array([-1, 2], np.int8)], S[range(2)],
    S[MASK], S[:, MASK[0, :, 0]], S[:, MASK[0]], S[MASK[:, :, 0]], S[MASK[:, 0, 0], 1:],
    S[[True, False]], S[[True, False], :, [0, 1]], S[:, [True, False, True], 0],
    S[True], S[False], S[:, None, True], S[np.zeros((2, 3), bool)],
]  # fmt: skip


@pytest.fixture(params=["reference", "xla"])
def engine(request: Any) -> Any:
    with pb.config(engine=request.param):
        yield request.param


@pytest.fixture
def reference() -> Any:
    with pb.config(engine="reference"):
        yield


def written(x: np.ndarray, index: Any, value: Any) -> np.ndarray:
    x = x.copy()
    x[index] = value
    return x


@pytest.mark.parametrize("index", CASES, ids=repr)
def test_reading_and_writing_follow_numpy(index: Any) -> None:
    with pb.config(engine="reference"):
        check_against_numpy(index)


@pytest.mark.parametrize("index", CASES[4::5], ids=repr)
def test_the_compiled_programs_follow_numpy(index: Any) -> None:
    check_against_numpy(index)


def check_against_numpy(index: Any) -> None:
    want = HOST[index]
    x = pb.tensor(HOST)
    value = -1.0 - np.arange(want.size, dtype=np.float64).reshape(want.shape)
    got, one, many = x[index], x.at[index].set(7.0), x.at[index].set(value)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(one.numpy(), written(HOST, index, 7.0))
    np.testing.assert_array_equal(many.numpy(), written(HOST, index, value))
    np.testing.assert_array_equal(x.numpy(), HOST)


@pytest.mark.parametrize("index", CASES, ids=repr)
def test_the_gradient_of_reading_counts_the_reads_of_each_element(index: Any) -> None:
    with pb.config(engine="reference"):
        found = pb.grad(lambda x: x[index].sum())(pb.tensor(HOST))
    want = np.zeros_like(HOST)
    np.add.at(want, index, 1.0)
    np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("index", [S[0], S[:, ::-2], S[[0, 1], :, [1, 1]], S[MASK]], ids=repr)
def test_the_gradient_of_writing_goes_to_the_other_elements_and_to_the_value(index: Any) -> None:
    weights = np.cos(HOST)

    def loss(x: Any, v: Any) -> Any:
        return (x.at[index].set(v) * weights).sum()

    with pb.config(engine="reference"):
        by_x, by_v = pb.grad(loss, argnums=(0, 1))(pb.tensor(HOST), pb.tensor(2.0, "f64"))
    np.testing.assert_allclose(by_x.numpy(), written(weights, index, 0.0))
    np.testing.assert_allclose(by_v.item(), weights[index].sum())


@pytest.mark.parametrize(
    ("mode", "ufunc"),
    [("add", np.add), ("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)],
)
@pytest.mark.parametrize(
    "index", [S[1], S[:, ::-2, 1], S[[1, 1, 0]], S[:, [0, 0], 1:3], S[MASK]], ids=repr
)
@pytest.mark.usefixtures("reference")
def test_updates_combine_with_the_old_elements(mode: str, ufunc: Any, index: Any) -> None:
    want = HOST.copy()
    ufunc.at(want, index, 1.5)
    got = getattr(pb.tensor(HOST).at[index], mode)(1.5)
    np.testing.assert_allclose(got.numpy(), want)


def test_tensors_can_be_indices_and_negative_ones_count_from_the_end(engine: str) -> None:
    x = pb.tensor(HOST)
    i, j = pb.tensor([0, -1]), pb.tensor([-3, 2], dtype="int8")
    np.testing.assert_array_equal(x[i].numpy(), HOST[[0, -1]])
    np.testing.assert_array_equal(x[i, :, j].numpy(), HOST[[0, -1], :, [-3, 2]])
    np.testing.assert_array_equal(x[:, j, i].numpy(), HOST[:, [-3, 2], [0, -1]])
    np.testing.assert_array_equal(x[:, pb.tensor(1)].numpy(), HOST[:, 1])
    np.testing.assert_array_equal(x[[pb.tensor(1), 0]].numpy(), HOST[[1, 0]])
    np.testing.assert_array_equal(x[:, 1 : pb.tensor(3)].numpy(), HOST[:, 1:3])
    np.testing.assert_array_equal(x[x > 7].numpy(), HOST[HOST > 7])


def test_writing_changes_one_handle_only() -> None:
    x = pb.tensor([1.0, 2.0, 3.0])
    y, z = x[...], x[:]
    x[1:] = 0.0
    y[0] = 9.0
    assert x.tolist() == [1.0, 0.0, 0.0]
    assert y.tolist() == [9.0, 2.0, 3.0]
    assert z.tolist() == [1.0, 2.0, 3.0]


def test_the_last_of_two_writes_to_one_element_wins(engine: str) -> None:
    x = pb.zeros(3)
    x[[1, 1]] = [5.0, 6.0]
    assert x.tolist() == [0.0, 6.0, 0.0]


def test_writing_through_a_mask_reads_no_value() -> None:
    def f(x: Any) -> Any:
        return x.at[x > 1].set(0.0).at[x < 0].add(1.0)

    traced = pb.eval_shape(f, pb.tensor([0.0, 2.0]))
    assert traced.shape == (2,)
    assert f(pb.tensor([0.5, 2.0, -3.0])).tolist() == [0.5, 0.0, -2.0]


def test_reading_through_a_mask_reads_the_mask() -> None:
    with pytest.raises(HostReadError):
        pb.eval_shape(lambda x: x[x > 1], pb.tensor([0.0, 2.0]))


def test_a_value_may_have_extra_leading_dimensions_of_size_1() -> None:
    x = pb.zeros((2, 3))
    x[0] = np.ones((1, 1, 3), np.float32)
    assert x.tolist() == [[1.0] * 3, [0.0] * 3]


def test_a_simple_index_records_few_nodes() -> None:
    def ops(index: Any) -> list[str]:
        made, found = pb.tensor(HOST)[index]._node, []
        while made.inputs:
            found.append(made.op.name)
            made = made.inputs[0]
        return found[::-1]

    assert ops(S[1, 2, 3]) == ["Index"]
    assert ops(S[1]) == ["Slice", "Squeeze"]
    assert ops(S[1:]) == ["Slice"]
    assert ops(S[None]) == ["ExpandDims"]
    assert ops(S[:, [0, 2]]) == ["Gather"]
    assert ops(S[...]) == []


def test_iteration_ends() -> None:
    assert [row.tolist() for row in pb.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (S[10], "index 10 is out of range for axis 0 with size 5"),
        (S[-6], "index -6 is out of range for axis 0 with size 5"),
        (S[0, 2], "index 2 is out of range for axis 1 with size 2"),
        (S[:, [0, 5]], "index 5 is out of range for axis 1 with size 2"),
        (S[np.array([[-7]])], "index -7 is out of range for axis 0 with size 5"),
    ],
    ids=repr,
)
def test_a_known_index_is_checked_when_it_is_recorded(index: Any, words: str) -> None:
    x = pb.zeros((5, 2))
    with told(IndexOutOfRange, IndexError, words):
        x[index]
    with told(IndexOutOfRange, IndexError, words):
        x[index] = 1.0


def test_a_tensor_as_index_is_checked_when_the_value_is_read(engine: str) -> None:
    x = pb.zeros(5)
    made = x[pb.tensor([0, 5])]
    with pytest.raises(IndexOutOfRange, match="axis 0"):
        made.numpy()
    with pytest.raises(IndexOutOfRange, match="axis 0"):
        x.at[pb.tensor(-6)].set(1.0).numpy()


@pytest.mark.parametrize(
    ("index", "error", "builtin", "words"),
    [
        (1.0, DTypeError, TypeError, "got float"),
        ("a", DTypeError, TypeError, "got str"),
        ([0.5], DTypeError, TypeError, "got float64"),
        (S[0, 0, 0], AxisError, IndexError, "rank 2 got 3"),
        (S[..., ...], ArgumentError, ValueError, "only once"),
        (S[::0], ArgumentError, ValueError, "step not 0"),
        (S[1.5:], ArgumentError, TypeError, "must be integers"),
        (np.ones(4, bool), AxisError, IndexError, "axis 0 has size 5 and the mask 4"),
        (S[..., np.ones(3, bool)], AxisError, IndexError, "axis 1 has size 2 and the mask 3"),
        (S[[0, 1], [0, 1, 1]], ShapeError, ValueError, "dimension 0 is 2 and 3"),
    ],
    ids=repr,
)
def test_an_invalid_index_is_refused(index: Any, error: type, builtin: type, words: str) -> None:
    x = pb.zeros((5, 2))
    with told(error, builtin, "index", words):
        x[index]


def test_an_invalid_value_is_refused() -> None:
    x = pb.zeros((5, 2), dtype="int32")
    with told(DTypeError, TypeError, "cannot write float into i32[5,2]"):
        x[0] = 1.5
    with told(DTypeError, TypeError, "cannot write f32 into i32[5,2]"):
        x[0] = pb.ones(2)
    with told(ShapeError, ValueError, "must broadcast to [2], got i32[3]"):
        x[0] = [1, 2, 3]
    with told(ShapeError, ValueError, "must broadcast to [1], got i32[2]"):
        x[[0], 0] = [1, 2]


# -- random programs ------------------------------------------------------------------------------


@st.composite
def indexed(draw: Any) -> tuple[tuple[int, ...], tuple]:
    """A shape and an index that fits it."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    fancy = tuple(draw(st.sampled_from([(), (1,), (3,), (2, 1)])))
    index: list[Any] = []
    axis, has_ellipsis = 0, False
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "mask", "new", "rest", "stop"]))
        if kind == "stop":
            break
        if kind == "new":
            index.append(None)
            if len(index) > 6:
                break
            continue
        if kind == "rest":
            if not has_ellipsis:
                has_ellipsis = True
                index.append(...)
                axis += draw(st.integers(0, len(shape) - axis))
            continue
        if kind == "int" and n:
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == "array" and n:
            places = st.integers(-n, n - 1)
            count = int(np.prod(fancy))
            flat = draw(st.lists(places, min_size=count, max_size=count))
            index.append(np.array(flat, np.int64).reshape(fancy))
        elif kind == "mask" and len(fancy) < 2:
            # as many true elements as the index arrays have, so that they broadcast
            count = min(fancy[0] if fancy else 1, n)
            if count != (fancy[0] if fancy else 1):
                count = min(1, n)
            held = draw(st.permutations([True] * count + [False] * (n - count)))
            index.append(np.array(held, bool))
        else:
            bound = st.none() | st.integers(-6, 6)
            step = draw(st.none() | st.sampled_from([1, 2, 3, -1, -2]))
            index.append(slice(draw(bound), draw(bound), step))
        axis += 1
    return shape, _fitting(shape, index, has_ellipsis)


def _fitting(shape: tuple[int, ...], index: list[Any], has_ellipsis: bool) -> tuple:
    """Return the index, or `...` if NumPy treats an empty mask in it differently."""
    if has_ellipsis and any(isinstance(i, np.ndarray) and not i.size for i in index):
        return (...,)  # NumPy accepts an empty mask for a dimension of size 1
    try:
        np.zeros(shape)[tuple(index)]
    except IndexError:
        assert has_ellipsis or any(isinstance(i, np.ndarray) for i in index)
        return (...,)
    return tuple(index)


@settings(max_examples=300, deadline=None)
@given(indexed())
def test_random_indices_follow_numpy(case: tuple) -> None:
    shape, index = case
    host = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)
    with pb.config(engine="reference"):
        x = pb.tensor(host)
        want = host[index]
        got = x[index]
        assert got.shape == np.shape(want)
        np.testing.assert_array_equal(got.numpy(), want)
        value = -1.0 - np.arange(want.size, dtype=np.float64).reshape(want.shape)
        np.testing.assert_array_equal(x.at[index].set(value).numpy(), written(host, index, value))
        total = host.copy()
        np.add.at(total, index, value)
        np.testing.assert_array_equal(x.at[index].add(value).numpy(), total)


def test_an_empty_mask_selects_nothing_as_in_numpy():
    for host in (np.array([[1.0, 2.0]]), np.arange(6.0).reshape(3, 2)):
        x = pb.tensor(host)
        for shape in ((0,), (0, 2), (len(host), 0)):
            for mask in (np.zeros(shape, bool), pb.zeros(shape, dtype="bool")):
                assert x[mask].shape == host[np.zeros(shape, bool)].shape
                assert x.at[mask].set(9.0).tolist() == x.at[mask].add(9.0).tolist() == host.tolist()
    with pytest.raises(IndexError, match="axis 0 has size 2 and the mask 3"):
        pb.tensor([1.0, 2.0])[np.zeros((3,), bool)]
    with pytest.raises(IndexError, match="axis 0 has size 2 and the mask 3"):
        pb.ones((2, 2))[np.zeros((3, 0), bool)]
