"""Datasets by index: their examples, batches, combinations, and what is refused."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.data import ArrayDataset, FileDataset, as_dataset, collate, concat, random_split
from pullback.errors import (
    ArgumentError,
    DamagedFile,
    DTypeError,
    IndexOutOfRange,
    MissingFile,
    ShapeError,
)

KEY = pb.random.key(7)
TEN = as_dataset(list(range(10)))


@dataclasses.dataclass
class Pair:
    x: Any
    y: Any


def even(n: int) -> bool:
    return n % 2 == 0


# a dataset, and its examples
EXAMPLES = {
    "list": (TEN, list(range(10))),
    "map": (TEN.map(str), [str(i) for i in range(10)]),
    "filter": (TEN.filter(even), [0, 2, 4, 6, 8]),
    "subset": (TEN.subset([3, -1, 3]), [3, 9, 3]),
    "slice": (TEN.subset(slice(None, None, -4)), [9, 5, 1]),
    "mask": (TEN.subset(np.arange(10) > 7), [8, 9]),
    "tensor": (TEN.subset(pb.tensor([1, 2])), [1, 2]),
    "nothing": (TEN.subset([]), []),
    "batch": (TEN.batch(4), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
    "full batches": (TEN.batch(4, drop_last=True), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    "concat": (concat([TEN.subset([1]), [], range(2)]), [1, 0, 1]),
    "zip": (pb.data.zip(range(2), ["a", "b"]), [(0, "a"), (1, "b")]),
    "rows": (ArrayDataset(np.eye(2)), [[1, 0], [0, 1]]),
    "chain": (TEN.filter(even).map(lambda n: n + 1).subset([4, 0]).batch(2), [[9, 1]]),
}


def plain(example: Any) -> Any:
    return pb.tree.map(lambda x: x.tolist() if isinstance(x, np.ndarray) else x, example)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of(name):
    dataset, wanted = EXAMPLES[name]
    assert len(dataset) == len(wanted) and [plain(x) for x in dataset] == wanted
    assert f"of {len(wanted)} examples" in repr(dataset)
    for i in range(-len(wanted), len(wanted)):
        assert plain(dataset[i]) == wanted[i]
    with pytest.raises(IndexError):
        dataset[len(wanted)]
    if wanted and not isinstance(wanted[0], (str, tuple)):
        taken = dataset.take(np.arange(len(wanted))) if name not in ("batch",) else None
        assert taken is None or taken.tolist() == wanted


def test_rows_of_trees():
    x, y = np.arange(6.0).reshape(3, 2), np.array([7, 8, 9])
    for given in ((x, y), {"x": x, "y": pb.tensor(y)}, Pair(x, y)):
        dataset = as_dataset(given)
        assert isinstance(dataset, ArrayDataset) and len(dataset) == 3
        assert pb.tree.structure(dataset[1]) == pb.tree.structure(given)
        assert [v.tolist() for v in pb.tree.leaves(dataset[1])] == [[2.0, 3.0], 8]
        taken = pb.tree.leaves(dataset.take(np.array([2, 0])))
        assert [v.tolist() for v in taken] == [[[4.0, 5.0], [0.0, 1.0]], [9, 7]]
    assert [v.tolist() for v in ArrayDataset(x, y)[0]] == [[0.0, 1.0], 7]
    both = pb.data.zip(ArrayDataset(x), ArrayDataset(y)).subset([2, 1])
    assert both.takes_batches and [v.tolist() for v in both.take(np.array([0]))] == [[[4, 5]], [9]]
    assert not ArrayDataset(x).map(np.sum).subset([0]).takes_batches


def test_rows_of_files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12).reshape(6, 2))
    np.save(tmp_path / "y.npy", np.arange(6))
    dataset = FileDataset({"x": tmp_path / "x.npy", "y": str(tmp_path / "y.npy")})
    assert isinstance(dataset.arrays["x"], np.memmap)
    for data in (dataset, pickle.loads(pickle.dumps(dataset))):
        assert len(data) == 6 and plain(data[-1]) == {"x": [10, 11], "y": np.int64(5)}
        taken = data.take(np.array([4, 0]))
        assert type(taken["x"]) is np.ndarray and taken["x"].tolist() == [[8, 9], [0, 1]]
    assert len(pickle.dumps(dataset)) < 500  # a path, not the data
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    np.savez(tmp_path / "many.npz", a=np.arange(2))
    for name, error, words in (
        ("absent.npy", MissingFile, "there is no file"),
        ("objects.npy", DamagedFile, "never loaded"),
        ("many.npz", DamagedFile, "read_npz"),
    ):
        with pytest.raises(error, match=words):
            FileDataset(tmp_path / name)


def test_batches_of_examples():
    batch = collate([(1, 2.5, True, 1j, "a", None, np.float16(1))] * 2)
    assert [getattr(x, "dtype", x) for x in batch] == [
        np.int64, np.float32, bool, np.complex64, ["a", "a"], None, np.float16,
    ]  # fmt: skip
    with pb.default_dtype("float64"):
        assert collate([1.5])[0].dtype == np.float64
    assert collate([1, 2.5]).dtype == np.float32
    assert collate([pb.ones(2), np.zeros(2, np.float32)]).tolist() == [[1, 1], [0, 0]]
    assert collate([b"x", b"y"]) == [b"x", b"y"]
    assert collate([np.array("x"), np.array("y")])[0] == "x"
    big = collate([pb.zeros(1, "bfloat16").numpy()] * 3)
    assert big.dtype == pb.bfloat16.numpy and big.shape == (3, 1)


def test_a_random_split_depends_on_the_key_alone():
    parts = random_split(TEN, [5, 3, 2], KEY)
    assert [len(part) for part in parts] == [5, 3, 2]
    order = pb.random.permutation(KEY, 10).tolist()
    assert [n for part in parts for n in part] == order
    sizes = {(0.5, 0.5): [5, 5], (0.34, 0.33, 0.33): [4, 3, 3], (0.25, 0.75): [3, 7], (1.0,): [10]}
    for fractions, wanted in sizes.items():
        assert [len(part) for part in random_split(TEN, fractions, KEY)] == wanted


BAD = {
    "no dataset": (lambda: as_dataset(3), ArgumentError, "__getitem__, or __iter__"),
    "a string": (lambda: as_dataset("text"), ArgumentError, "needs a dataset, got str"),
    "lists of numbers": (lambda: ArrayDataset([1, 2]), ArgumentError, "np.asarray(list)"),
    "no arrays": (lambda: ArrayDataset(), ArgumentError, "at least one array"),
    "an empty tree": (lambda: ArrayDataset({}), ArgumentError, "has no arrays"),
    "rank 0": (lambda: ArrayDataset(np.array(1)), ShapeError, "at least one dimension"),
    "lengths": (lambda: ArrayDataset(np.ones(2), np.ones(3)), ShapeError, "2 at [0], 3 at [1]"),
    "zip": (lambda: pb.data.zip([1], [1, 2]), ArgumentError, "equal lengths, got [1, 2]"),
    "zip nothing": (lambda: pb.data.zip(), ArgumentError, "at least one dataset"),
    "concat": (lambda: concat(3), ArgumentError, "datasets must be a sequence"),
    "map": (lambda: TEN.map(3), ArgumentError, "f must be a function"),
    "batch": (lambda: TEN.batch(0), ArgumentError, "size must be at least 1, got 0"),
    "index": (lambda: TEN[1.5], ArgumentError, "must be an integer"),
    "beyond": (lambda: TEN[10], IndexOutOfRange, "index 10 is out of range for 10"),
    "subset": (lambda: TEN.subset([10]), IndexOutOfRange, "index 10 is out of range"),
    "floats": (lambda: TEN.subset([0.5]), ArgumentError, "integers or a mask"),
    "mask": (lambda: TEN.subset([True]), ArgumentError, "for each of 10 examples, got 1"),
    "split": (lambda: random_split(TEN, [5, 4], KEY), ArgumentError, "add up to the 10"),
    "fractions": (lambda: random_split(TEN, [0.5, 0.4], KEY), ArgumentError, "add up to 1"),
    "key": (lambda: random_split(TEN, [10], 0), ArgumentError, "pb.random.key(seed)"),
    "float key": (lambda: random_split(TEN, [10], pb.ones(2)), DTypeError, "must be u32[2]"),
    "a path": (lambda: FileDataset(3), ArgumentError, "needs a path or a tree of paths"),
    "no examples": (lambda: collate([]), ArgumentError, "at least one example"),
    "shapes": (lambda: collate([{"x": np.ones(2)}, {"x": np.ones(3)}]), ShapeError,
               "same shape at ['x'], got [2] and, for example 1 of the batch, [3]"),
    "structures": (lambda: collate([(1, 2), (1,)]), ArgumentError, "same structure"),
    "integers": (lambda: collate([2**70, 1]), ArgumentError, "64 bits"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    call, error, words = BAD[name]
    builtin = {IndexOutOfRange: IndexError, DTypeError: TypeError}.get(error, ValueError)
    with told(error, builtin, words) as info:
        call()
    assert info.traceback[-1].path.name == "test_dataset.py"
