"""Tokenizers and windows of tokens."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.data import ByteTokenizer, CharTokenizer, DataLoader, TokenWindows
from pullback.errors import ArgumentError, IndexOutOfRange

TEXT = pb.data.text()[:6000]


def test_characters():
    tokenizer = CharTokenizer(TEXT)
    tokens = tokenizer.encode(TEXT)
    assert tokens.dtype == np.int64 and tokenizer.decode(tokens) == TEXT
    assert len(tokenizer) == len(set(TEXT)) == tokens.max() + 1
    assert tokenizer.decode(pb.tensor(tokens[:20])) == TEXT[:20]
    again = CharTokenizer(tokenizer.vocabulary)
    assert again.vocabulary == tokenizer.vocabulary and "CharTokenizer(" in repr(again)
    assert tokenizer.encode("").shape == (0,) and tokenizer.decode([]) == ""


def reference_merges(text: str, count: int) -> list[tuple[int, int]]:
    """Join the most frequent pair of neighbours, counting all of them again each time."""
    words: list[list[int]] = []
    for i, byte in enumerate(text.encode()):
        if not words or (byte in b" \n\t" and text.encode()[i - 1] != byte):
            words.append([])
        words[-1].append(byte)
    merges = []
    for number in range(256, 256 + count):
        pairs: dict[tuple[int, int], int] = {}
        for word in words:
            for pair in pairwise(word):
                pairs[pair] = pairs.get(pair, 0) + 1
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == best:
                    word[i : i + 2] = [number]
                i += 1
    return merges


def test_byte_pairs():
    text = TEXT[:2000] + "aaaa aaa aaaaa"
    tokenizer = ByteTokenizer.train(text, 280)
    assert tokenizer.merges == reference_merges(text, 24) and len(tokenizer) == 280
    again = ByteTokenizer(tokenizer.merges)
    for words in (text, "naïve “quotes” 語 \U0001f600", "", " ", "\n\n\n  x"):
        tokens = again.encode(words)
        assert again.decode(tokens) == words and tokens.dtype == np.int64
    assert len(again.encode(text)) < len(text) * 0.8
    assert ByteTokenizer().encode("é").tolist() == [195, 169]
    assert ByteTokenizer().decode([195]) == "\ufffd"
    assert len(ByteTokenizer.train("abc", 300)) == 256  # no pair occurs twice


def test_windows():
    tokens = np.arange(11)
    for stride, starts in ((None, [0, 5]), (1, [0, 1, 2, 3, 4, 5]), (4, [0, 4])):
        windows = TokenWindows(tokens, 5, stride)
        assert [x.tolist() for x, _ in windows] == [list(range(s, s + 5)) for s in starts]
        assert all((y == x + 1).all() for x, y in windows)
    x, y = next(iter(DataLoader(TokenWindows(pb.tensor(tokens), 5, 1), 4)))
    assert x.shape == (4, 5) and (y - x).tolist() == [[1] * 5] * 4


BAD = {
    "unknown": (lambda: CharTokenizer("ab").encode("abc"), "character 'c' at 2"),
    "no text": (lambda: CharTokenizer(3), "text must be a string"),
    "token": (lambda: CharTokenizer("ab").decode([2]), "token 2 is not one of the 2"),
    "floats": (lambda: CharTokenizer("ab").decode([0.5]), "tokens must be integers"),
    "size": (lambda: ByteTokenizer.train("x", 100), "at least 256"),
    "merge": (lambda: ByteTokenizer([(256, 1)]), "two earlier tokens"),
    "pairs": (lambda: ByteTokenizer([(1, 2, 3)]), "pairs of tokens"),
    "merges": (lambda: ByteTokenizer(3), "merges must be a sequence"),
    "nested": (lambda: CharTokenizer("ab").decode([[0], [1, 1]]), "a vector or a sequence"),
    "length": (lambda: TokenWindows(np.arange(5), 5), "more than 5"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    call, words = BAD[name]
    error = IndexOutOfRange if name == "token" else ArgumentError
    with told(error, IndexError if name == "token" else ValueError, words):
        call()
