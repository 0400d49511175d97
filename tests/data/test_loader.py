"""The loader: the order of examples, positions that are saved, and loops that end early."""

from __future__ import annotations

import gc
import itertools
import json
import threading
import time

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.data import ArrayDataset, DataLoader, IterableDataset, as_dataset
from pullback.errors import ArgumentError, ShapeError

KEY = pb.random.key(5)
TEN = np.arange(10)


def lists(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_each_loop_is_an_epoch(prefetch):
    loader = DataLoader(TEN, 4, shuffle=True, key=KEY, prefetch=prefetch)
    assert len(loader) == 3 and loader.epoch == loader.batch == 0
    for epoch in range(3):
        order = pb.random.permutation(pb.random.fold_in(KEY, epoch), 10).tolist()
        assert lists(loader) == [order[:4], order[4:8], order[8:]]
        assert (loader.epoch, loader.batch) == (epoch + 1, 0)
    assert "10 examples in 3 batches, epoch 3, batch 0" in repr(loader)


def test_batches_are_tensors_of_trees():
    images, labels = pb.data.digits()
    loader = DataLoader({"x": images[:5], "y": labels[:5]}, batch_size=2, drop_last=True)
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    assert batches[0]["x"].shape == (2, 8, 8) and batches[0]["x"].dtype is pb.float32
    assert batches[1]["y"].tolist() == [2, 3] and isinstance(batches[1]["y"], pb.Tensor)
    assert lists(DataLoader([3, 4])) == [[3], [4]]
    whole = list(DataLoader([1.5, "a", np.ones(2)], batch_size=None))
    assert whole[0].dtype is pb.float32 and whole[1] == "a" and whole[2].tolist() == [1, 1]
    assert list(DataLoader([], 4)) == list(DataLoader(np.ones(0), 4, True, KEY)) == []
    joined = DataLoader(["ab", "c"], 2, collate="-".join)
    assert list(joined) == ["ab-c"]


def test_data_is_copied():
    source = np.arange(4.0, dtype=np.float32)
    loader = DataLoader(as_dataset(source).batch(2), batch_size=None)
    first = next(iter(loader))
    source[:] = 9
    assert first.tolist() == [0, 1]


@pytest.mark.parametrize(("prefetch", "after"), [*itertools.product([0, 3], [0, 1, 3, 4])])
def test_a_saved_position_continues_with_the_next_batch(prefetch, after):
    def loader(key):
        return DataLoader(ArrayDataset(np.arange(15)), 4, True, key, prefetch=prefetch)

    first = loader(KEY)
    lists(first)
    loop = iter(first)
    for _ in range(after):
        next(loop)
    time.sleep(0.01 if prefetch else 0)  # the thread is ahead
    state = json.loads(json.dumps(first.state_dict()))
    assert (state["epoch"], state["batch"]) == (1, after)
    rest = [lists(loop), lists(first)]
    second = loader(pb.random.key(9))  # the key is part of the state
    second.load_state_dict(state)
    assert [lists(second), lists(second)] == rest
    saved = {name: np.asarray(value) for name, value in state.items()}  # as a file may have it
    second.load_state_dict(saved)
    assert lists(second) == rest[0]


def test_a_position_is_part_of_a_checkpoint(tmp_path):
    loader = DataLoader(TEN, 3, shuffle=True, key=KEY)
    loop = iter(loader)
    next(loop)
    pb.save(tmp_path / "state", {"weights": pb.ones(3), "data": loader.state_dict()})
    rest = lists(loop)
    again = DataLoader(TEN, 3, shuffle=True, key=pb.random.key(0))
    again.load_state_dict(pb.load(tmp_path / "state")["data"])
    assert lists(again) == rest


def test_a_loop_that_is_left_ends_its_epoch():
    loader = DataLoader(TEN, 4, shuffle=True, key=KEY)
    first = next(iter(loader)).tolist()
    assert (loader.epoch, loader.batch) == (0, 1)
    loader.load_state_dict(loader.state_dict())  # unless one asks for the rest
    assert len(lists(loader)) == 2
    for _ in loader:
        break
    assert loader.epoch == 1
    old = iter(loader)
    assert loader.epoch == 2 and loader.batch == 0
    new = iter(loader)
    with told(ArgumentError, TypeError, "another one began"):
        next(old)
    assert next(new).tolist() != first and (loader.epoch, loader.batch) == (3, 1)
    loader.close()
    with told(ArgumentError, TypeError, "the loader was closed"):
        next(new)


def test_threads_end_with_their_loops():
    def waiting():
        return [t for t in threading.enumerate() if t.name == "pullback prefetch"]

    loader = DataLoader(range(1000))
    for _ in loader:
        break
    kept = iter(loader)
    next(kept)
    del loader, kept
    gc.collect()
    end = time.monotonic() + 10
    while waiting() and time.monotonic() < end:
        time.sleep(0.01)
    assert not waiting()


def test_batches_do_not_depend_on_the_number_of_processes():
    data = as_dataset((np.arange(24), np.arange(24) * 2))
    whole = [x.tolist() for x, _ in DataLoader(data, 8, True, KEY, drop_last=True)]
    for count in (2, 4):
        parts = [DataLoader(data, 8, True, KEY, shard=(i, count)) for i in range(count)]
        joined = [np.concatenate([x.numpy() for x, _ in row]).tolist() for row in zip(*parts)]
        assert joined == whole
    singles = [DataLoader(range(5), None, drop_last=True, shard=(i, 2)) for i in range(2)]
    assert [[x.item() for x in s] for s in singles] == [[0, 2], [1, 3]]
    streams = [DataLoader(IterableDataset(range(8)), 4, shard=(i, 2)) for i in range(2)]
    assert [lists(s) for s in streams] == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]


def test_datasets_that_are_read_in_order():
    source = IterableDataset(lambda: iter(range(5)))
    for prefetch in (0, 2):
        loader = DataLoader(source.shuffle(5, KEY), 2, prefetch=prefetch)
        first, second = lists(loader), lists(loader)
        assert sorted(itertools.chain(*first)) == list(range(5)) and first != second
        loader.load_state_dict({"epoch": 1, "batch": 1})
        assert lists(loader) == second[1:]
    assert lists(DataLoader(source, 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert [x.item() for x in DataLoader(source, None)] == list(range(5))
    endless = iter(DataLoader(IterableDataset(itertools.count), 2))
    assert [next(endless).tolist() for _ in range(2)] == [[0, 1], [2, 3]]


def test_errors_of_examples_come_where_their_batch_would():
    def fails(n):
        if n == 5:
            raise KeyError("five")
        return n

    for prefetch, data in itertools.product((0, 2), (as_dataset(TEN), IterableDataset(TEN))):
        loader = DataLoader(data.map(fails), 2, prefetch=prefetch)
        found = []
        with pytest.raises(KeyError, match="five") as info:
            found.extend(batch.tolist() for batch in loader)
        assert found == [[0, 1], [2, 3]] and (loader.epoch, loader.batch) == (0, 2)
        names = [entry.name for entry in info.traceback]
        assert names[0] == "test_errors_of_examples_come_where_their_batch_would"
        assert names[-1] == "fails" and "make" not in names  # no frames of the loader
        assert any("raised this" in note for note in info.value.__notes__)
    with told(ShapeError, ValueError, "got f32[2] and f32[3]"):  # at the line in the dataset
        list(DataLoader(as_dataset([2]).map(lambda n: (pb.ones(n) @ pb.ones(n + 1)).numpy())))


BAD = {
    "key": (lambda: DataLoader(TEN, shuffle=True), "key=pb.random.key(0)"),
    "seed": (lambda: DataLoader(TEN, shuffle=True, key=3), "key must be u32[2]"),
    "batch_size": (lambda: DataLoader(TEN, 0), "batch_size must be at least 1"),
    "fraction": (lambda: DataLoader(TEN, 2.5), "batch_size must be an integer"),
    "flag": (lambda: DataLoader(TEN, shuffle="yes"), "shuffle must be True or False"),
    "workers": (lambda: DataLoader(TEN, workers=-1), "workers must not be negative"),
    "collate": (lambda: DataLoader(TEN, collate=3), "collate must be a function"),
    "device": (lambda: DataLoader(TEN, device="tpu:x"), "a device is a platform"),
    "sharding": (lambda: DataLoader(TEN, sharding="dp"), "must be a mesh or a Sharding"),
    "both": (lambda: DataLoader(TEN, device="cpu:0", sharding=pb.DeviceMesh(1, "dp")), "both"),
    "shard": (lambda: DataLoader(TEN, shard=(2, 2)), "0 <= index < count"),
    "no shard": (lambda: DataLoader(TEN, shard=3), "shard must be (index, count)"),
    "divide": (lambda: DataLoader(TEN, 3, shard=(0, 2)), "must divide by 2"),
    "stream": (lambda: DataLoader(IterableDataset(TEN), 3, shard=(0, 2)), "must divide by 2"),
    "rest": (lambda: DataLoader(np.arange(7), 4, shard=(0, 2)), "drop_last=True"),
    "order": (lambda: DataLoader(IterableDataset(TEN), shuffle=True, key=KEY), "dataset.shuffle"),
    "length": (lambda: len(DataLoader(IterableDataset(TEN))), "is not known"),
    "option": (lambda: DataLoader(TEN, num_workers=2), "workers"),
    "state": (lambda: DataLoader(TEN).load_state_dict({}), "what state_dict() returned"),
    "epoch": (lambda: DataLoader(TEN).load_state_dict({"epoch": "1", "batch": 0}), "epoch must be"),
    "batch": (lambda: DataLoader(TEN).load_state_dict({"epoch": 1, "batch": -1}), "negative"),
    "other size": (lambda: DataLoader(TEN, 2).load_state_dict(DataLoader(TEN, 3).state_dict()),
                   "saved with batch_size=3"),
    "other order": (lambda: DataLoader(TEN, 1, True, KEY).load_state_dict(
        DataLoader(TEN).state_dict()), "shuffle=False"),
    "other key": (lambda: DataLoader(TEN, 1, True, KEY).load_state_dict(
        {"epoch": 0, "batch": 0, "key": [1]}), "two integers"),
    "other workers": (lambda: DataLoader(IterableDataset(TEN)).load_state_dict(
        {"epoch": 0, "batch": 0, "workers": 2}), "workers=2"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    call, words = BAD[name]
    with told(ArgumentError, ValueError, words) as info:
        call()
    assert info.traceback[-1].path.name == "test_loader.py"
