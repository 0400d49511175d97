"""Updates along an axis and by masks agree with loops in NumPy, in both engines."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError

RNG = np.random.default_rng(5)
X, S = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 5))
I = RNG.integers(0, 4, (3, 5))  # noqa: E741
M = np.array([[True, False, True, False], [False] * 4, [True, True, False, True]])
COMBINE = {
    "set": lambda old, new: new, "sum": lambda a, b: a + b, "prod": lambda a, b: a * b,
    "mean": lambda a, b: a + b, "amax": max, "amin": min,
}  # fmt: skip


def scattered(x, index, src, reduce, include_self):
    """What `scatter_reduce` along axis 1 gives, element by element."""
    made, count = x.copy(), np.ones(x.shape)
    seen = np.zeros(x.shape, bool)
    for (i, j), place in np.ndenumerate(index):
        fresh = not include_self and not seen[i, place]
        made[i, place] = src[i, j] if fresh else COMBINE[reduce](made[i, place], src[i, j])
        count[i, place] += 0 if fresh else 1
        seen[i, place] = True
    return made / count if reduce == "mean" else made


def test_scatter_reduce(engine):
    reductions = [(r, s) for r in COMBINE if r != "set" for s in (True, False)]
    found = pb.evaluate([pb.scatter_reduce(X, 1, I, S, r, s) for r, s in reductions])
    for (r, s), made in zip(reductions, found, strict=True):
        np.testing.assert_allclose(made.numpy(), scattered(X, I, S, r, s), rtol=1e-12, err_msg=r)
    small = pb.scatter_reduce(X, 0, [[1, 2]], S, "set").numpy()  # less of `src` than there is
    assert small[1, 0] == S[0, 0] and small[2, 1] == S[0, 1] and (small != X).sum() == 2
    assert pb.scatter_add(pb.zeros(3), 0, [1, 1], 2.0).tolist() == [0.0, 4.0, 0.0]


def test_slices_and_masks(engine):
    rows = RNG.standard_normal((2, 4))
    found = pb.evaluate({
        "select": pb.index_select(X, 1, [3, 0]), "add": pb.index_add(X, 0, [2, 2], rows, alpha=3),
        "copy": pb.index_copy(X, 0, [2, 0], rows), "fill": pb.index_fill(X, -1, [1, 2], 7),
        "amax": pb.index_reduce(X, 0, [1, 1], rows, "amax", include_self=False),
        "one": pb.select_scatter(X, rows[0], 0, -1),
        "part": pb.slice_scatter(X, X[:, :2] * 0, 1, 0, None, 2),
        "diagonal": pb.diagonal_scatter(X, [7.0, 8.0, 9.0], 1),
        "below": pb.diagonal_scatter(X, [7.0, 8.0, 9.0], -1, 1, 0),
        "masked": pb.masked_fill(X, M, 5), "chosen": pb.masked_select(X, M),
        "spread": pb.masked_scatter(X, M, S),
    })  # fmt: skip
    one, part, masked, spread = X.copy(), X.copy(), X.copy(), X.copy()
    one[-1], part[:, 0::2], masked[M], spread[M] = rows[0], 0, 5, S.ravel()[: M.sum()]
    diagonal, added, copied, filled, largest = (X.copy() for _ in range(5))
    diagonal[[0, 1, 2], [1, 2, 3]] = [7, 8, 9]
    added[2] += 3 * rows.sum(0)
    copied[[2, 0]], filled[:, 1:3], largest[1] = rows, 7, rows.max(0)
    wanted = {
        "select": X[:, [3, 0]], "add": added, "copy": copied, "fill": filled, "amax": largest,
        "one": one, "part": part, "diagonal": diagonal, "masked": masked, "chosen": X[M],
        "spread": spread, "below": diagonal,
    }  # fmt: skip
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name].numpy(), values, rtol=1e-12, err_msg=name)


def test_derivatives():
    def f(x, s):
        made = [pb.scatter_reduce(x, 1, I, s, r, k) for r in list(COMBINE)[1:] for k in (1, 0)]
        made += [pb.index_add(x, 0, [2, 0, 2], s[:, :4], alpha=2.0), pb.index_fill(x, 0, [1], 2.0)]
        made += [pb.diagonal_scatter(x, s[0, :3], 1), pb.slice_scatter(x, s[:, :2], 1, 1, 3)]
        made += [pb.masked_fill(x, M, s[0, 0]), pb.masked_scatter(x, M, s), x * s[:, :4]]
        return [*made, pb.masked_select(x, M), pb.select_scatter(x, s[1, :4], 0, 0)]

    with pb.config(engine="reference"):
        pb.check_grads(f, (pb.tensor(X), pb.tensor(S)), order=2)
        batched = pb.vmap(lambda x: pb.scatter_add(x, 1, I, S))(pb.stack([pb.tensor(X)] * 2))
        np.testing.assert_allclose(batched[1].numpy(), scattered(X, I, S, "sum", True))


def test_dtypes_and_sizes_of_0():
    assert pb.scatter_reduce([5, 6], 0, [0, 0], [9, 7], "mean").tolist() == [7, 6]
    assert pb.scatter_reduce([5, 6], 0, [0], [-9], "amax", False).tolist() == [-9, 6]
    assert (
        pb.scatter_add(pb.ones(3), 0, pb.zeros(0, dtype="i64"), pb.zeros(0)).tolist() == [1.0] * 3
    )
    assert pb.index_add(pb.tensor(1.0), 0, [0], 2.0).item() == 3.0
    assert pb.masked_fill(pb.tensor([1, 2]), [True, False], 7.9).tolist() == [7, 2]
    assert pb.masked_select(pb.ones(3), False).shape == (0,)
    assert pb.masked_scatter(pb.zeros((0, 2)), True, pb.zeros(0)).shape == (0, 2)


def test_errors():
    with pytest.raises(DTypeError, match="masked_fill: the mask must be bool"):
        pb.masked_fill([1.0], [1], 2.0)
    with pytest.raises(DTypeError, match="scatter_reduce: index must hold integers"):
        pb.scatter_reduce([1.0], 0, [0.5], [1.0], "sum")
    for call in (
        lambda: pb.index_add([1.0], 0, [0], [1j]),
        lambda: pb.masked_fill([1], [True], 1j),
    ):
        with pytest.raises(DTypeError, match="must be real for"):
            call()
    with pytest.raises(ArgumentError, match="reduce must be one of"):
        pb.scatter_reduce([1.0], 0, [0], [1.0], "max")
    with pytest.raises(ShapeError, match="scatter_add: x and index must have the same rank"):
        pb.scatter_add(pb.ones((2, 2)), 0, [0], [1.0])
    with pytest.raises(ShapeError, match="index_add: index must be a vector"):
        pb.index_add(pb.ones(2), 0, [[0]], [1.0])
    with pytest.raises(IndexOutOfRange, match="index_copy: index 2"):
        pb.index_copy(pb.ones(2), 0, [2], [1.0])  # known indices are checked at once
    late = pb.index_fill(pb.ones(2), 0, pb.tensor([2]), 1.0)
    with pytest.raises(IndexOutOfRange):
        late.numpy()
    with pytest.raises(IndexOutOfRange):
        pb.masked_scatter(pb.zeros(3), [True] * 3, [1.0]).numpy()
    with pytest.raises(ArgumentError, match="diagonal_scatter: axis1 and axis2 must differ"):
        pb.diagonal_scatter(pb.ones((2, 2)), pb.ones(2), 0, 1, 1)
