"""Saved programs name classes of pullback as they were named when the format was made."""

from __future__ import annotations

from collections import namedtuple

import pullback as pb
from pullback import tree
from pullback.compiled.serialize import deserialize_tree, serialize_tree


def test_optimizer_states_keep_their_name_in_files():
    state = pb.optim.adam(1e-2).init({"w": pb.ones(2)})
    data = serialize_tree(tree.flatten(state)[1])
    assert data[0] == "namedtuple" and data[2:] == ["State", ["step", "slots"]]
    # A state that a loaded program returned can be passed to it again.
    assert serialize_tree(deserialize_tree(data)) == data


def test_other_named_tuples_keep_theirs():
    Point = namedtuple("Point", "x y")
    assert serialize_tree(tree.flatten(Point(1.0, 2.0))[1])[2] == "Point"
