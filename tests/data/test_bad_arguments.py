"""Nonsense for any parameter gives pullback's errors, and never NumPy's or Python's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pullback as pb
from pullback import data

KEY = pb.random.key(0)


class Stranger:
    pass


NONSENSE = [
    None, True, -1, 0, 3, 2**70, 1.5, float("nan"), 1j, "x", b"x", "", [], (), {}, [1, "a"],
    [[1], [2, 3]], {1: 2}, set(), np.array(1.5), np.zeros((0, 3)), np.array(["a"]), slice(3),
    np.array([{}], object), pb.ones(3), pb.zeros((2, 2)), KEY, Stranger(), range(3), pb.P("a"),
    (1, 2), (-1, 2), (0.5, 0.5), ("a", "b"), "float32", iter([1]), "absent.csv",
]  # fmt: skip
ROWS, STREAM = data.as_dataset(np.arange(10)), data.IterableDataset(range(10))
CHARS, BYTES = data.CharTokenizer("abc"), data.ByteTokenizer()


def load(**state: Any) -> None:
    loader = data.DataLoader(range(3), 1, True, KEY)
    loader.load_state_dict(loader.state_dict() | state)


# functions, and arguments that they take
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "as_dataset": (data.as_dataset, {"data": [1]}), "collate": (data.collate, {"examples": [1]}),
    "concat": (data.concat, {"datasets": [[1], [2]]}),
    "zip": (lambda first: data.zip(first, [1]), {"first": [1]}),
    "random_split": (data.random_split, {"dataset": range(4), "lengths": [2, 2], "key": KEY}),
    "read_csv": (data.read_csv, {"path": "t.csv", "columns": ["a"], "dtypes": None, "header": True,
                                 "delimiter": ",", "missing": ["1"], "fill": None}),
    "csv dtypes": (lambda a: data.read_csv("t.csv", dtypes={"a": a}), {"a": "f32"}),
    "csv fill": (lambda a: data.read_csv("t.csv", missing=["1"], fill={"a": a}), {"a": 1}),
    "read_npy": (data.read_npy, {"path": "x.npy", "mmap": False}),
    "read_npz": (data.read_npz, {"path": "x.npz"}),
    "read_image": (data.read_image, {"path": "c/x.png", "mode": "RGB", "size": None}),
    "ImageFolder": (data.ImageFolder, {"folder": ".", "mode": "RGB", "size": None}),
    "text": (data.text, {"name": "alice"}),
    "ArrayDataset": (lambda a: data.ArrayDataset(a), {"a": np.ones(2)}),
    "FileDataset": (lambda a: data.FileDataset(a), {"a": "x.npy"}),
    "IterableDataset": (data.IterableDataset, {"source": range(3)}),
    "DataLoader": (data.DataLoader, {
        "dataset": np.arange(10), "batch_size": 2, "shuffle": True, "key": KEY, "drop_last": False,
        "prefetch": 2, "collate": None, "device": None, "sharding": None, "shard": None}),
    "CharTokenizer": (data.CharTokenizer, {"text_": "abc"}),
    "ByteTokenizer": (data.ByteTokenizer, {"merges": [(1, 2)]}),
    "train": (data.ByteTokenizer.train, {"text_": "abab", "size": 257}),
    "TokenWindows": (data.TokenWindows, {"tokens": np.arange(9), "length": 3, "stride": 1}),
    "map": (ROWS.map, {"f": abs}), "filter": (ROWS.filter, {"f": abs}),
    "subset": (ROWS.subset, {"indices": [1]}), "index": (lambda i: ROWS[i], {"i": 1}),
    "batch": (ROWS.batch, {"size": 2, "drop_last": False}),
    "stream map": (STREAM.map, {"f": abs}), "stream batch": (STREAM.batch, {"size": 2}),
    "shuffle": (STREAM.shuffle, {"buffer_size": 2, "key": KEY}),
    "encode": (CHARS.encode, {"text_": "a"}), "decode": (CHARS.decode, {"tokens": [1]}),
    "encode bytes": (BYTES.encode, {"text_": "a"}), "decode bytes": (BYTES.decode, {"tokens": [1]}),
    "load_state_dict": (load, {"epoch": 0, "batch": 0, "key": [0, 1], "batch_size": 1}),
}  # fmt: skip


def use(made: Any) -> None:
    if isinstance(made, (data.DataLoader, data.IterableDataset, data.Dataset)):
        repr(made)
        list(itertools.islice(made, 3))


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,x\n")
    (tmp_path / "c").mkdir()
    np.save("x.npy", np.arange(4))
    np.savez("x.npz", a=np.arange(4))
    Image.new("RGB", (4, 3)).save("c/x.png")
    f, good = CALLS[name]
    use(f(**good))
    refused = []
    for parameter, value in itertools.product(good, NONSENSE):
        try:
            use(f(**(good | {parameter: value})))
        except pb.PullbackError as error:
            refused.append(error)
    assert all(error.where is not None for error in refused)
    assert len(refused) > 5 or name in ("as_dataset", "collate", "encode", "csv fill")
