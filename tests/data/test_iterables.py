"""Datasets that are read in order."""

from __future__ import annotations

import itertools

import pytest
from helpers import told

import pullback as pb
from pullback.data import IterableDataset
from pullback.errors import ArgumentError

KEY = pb.random.key(0)


def numbers():
    yield from range(9)


class Squares(IterableDataset):
    def __iter__(self):
        return (n * n for n in range(4))


NINE = IterableDataset(numbers)
EXAMPLES = {
    "function": (NINE, list(range(9))),
    "iterable": (IterableDataset({1: 2}.keys()), [1]),
    "subclass": (Squares().map(lambda n: n + 1), [1, 2, 5, 10]),
    "filter": (NINE.filter(lambda n: n > 6), [7, 8]),
    "concat": (pb.data.concat([Squares(), [7]]), [0, 1, 4, 9, 7]),
    "zip": (pb.data.zip(Squares(), list("abcd")), [*zip([0, 1, 4, 9], "abcd")]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of(name):
    dataset, wanted = EXAMPLES[name]
    assert list(dataset) == wanted == list(dataset)  # it can be read again
    parts = [list(dataset.iterate(0, (i, 3))) for i in range(3)]
    if name not in ("filter", "concat"):
        assert parts == [wanted[i::3] for i in range(3)]
    assert sorted(itertools.chain(*parts), key=str) == sorted(wanted, key=str)


def test_batches_and_shuffling():
    assert [b.tolist() for b in NINE.batch(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert [b.tolist() for b in NINE.batch(4, drop_last=True)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    shuffled = NINE.shuffle(4, KEY)
    orders = [list(shuffled.iterate(epoch)) for epoch in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == list(range(9)) for order in orders)
    assert all(n < i + 4 for i, n in enumerate(orders[0]))  # one of the next four
    assert list(NINE.shuffle(1, KEY)) == list(range(9))
    large = list(IterableDataset(range(6000)).shuffle(10_000, KEY))
    assert sorted(large) == list(range(6000)) and large != sorted(large)


BAD = {
    "generator": (lambda: IterableDataset(numbers()), "without calling it"),
    "number": (lambda: IterableDataset(3), "must be an iterable, or a function"),
    "no source": (lambda: list(IterableDataset()), "must define __iter__"),
    "zip": (lambda: list(pb.data.zip(NINE, Squares())), "equal lengths"),
    "split": (lambda: pb.data.random_split(NINE, [9], KEY), "a length and an index"),
    "shuffle": (lambda: NINE.shuffle(0, KEY), "buffer_size must be at least 1"),
    "map": (lambda: NINE.map("f"), "f must be a function"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    call, words = BAD[name]
    with told(ArgumentError, ValueError, words) as info:
        call()
    assert info.traceback[-1].path.name == "test_iterables.py" or name in ("no source", "zip")
