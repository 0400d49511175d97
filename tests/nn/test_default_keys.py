"""The stream of keys that layers use where no key is given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pullback import nn
from pullback.nn.default_keys import default_key


def test_threads_get_keys_of_their_own():
    nn.seed(0)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: tuple(default_key().tolist()), range(40)))
    assert len(set(found)) == 40
    nn.seed(0)
    assert set(found) == {tuple(default_key().tolist()) for _ in range(40)}
