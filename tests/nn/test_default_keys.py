"""The stream of keys that layers use where no key is given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pullback as pb
from pullback import nn
from pullback.nn.default_keys import default_key


def test_threads_get_keys_of_their_own():
    nn.seed(0)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: tuple(default_key().tolist()), range(40)))
    assert len(set(found)) == 40
    nn.seed(0)
    assert set(found) == {tuple(default_key().tolist()) for _ in range(40)}


def test_eager_and_compiled_draws_share_the_stream():
    layer, x = nn.Dropout(0.5), pb.ones(64)
    compiled = pb.compile(lambda x: layer(x))
    nested = pb.compile(lambda x: compiled(x) + 3 * layer(x))
    masks = []
    for f in (compiled, layer, nested, nested, compiled, layer, layer, compiled):
        y = f(x).numpy()
        masks += [y > 0] if f is not nested else [y % 3 == 2, y >= 6]
    assert len({mask.tobytes() for mask in masks}) == len(masks) == 10
