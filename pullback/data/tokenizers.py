"""Text as numbers: tokenizers by character and by byte pair, and windows of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pullback.data.dataset import Dataset, dataset_example_count, dataset_position, dataset_vector
from pullback.errors import ArgumentError, IndexOutOfRange
from pullback.graph.argument_checks import checked_sequence_argument, shown_argument, text
from pullback.graph.boundary import boundary_methods


@boundary_methods
class CharTokenizer:
    """Characters as numbers: their positions in `vocabulary`.

    It is made from any text that has all characters, or from the vocabulary of another one.

    >>> tokenizer = pb.data.CharTokenizer("hello")
    >>> tokenizer.vocabulary, tokenizer.encode("hole")
    ('ehlo', array([1, 3, 2, 0]))
    >>> tokenizer.decode([1, 0, 2])
    'hel'
    """

    def __init__(self, text_: str) -> None:
        self.vocabulary = "".join(sorted(set(text("CharTokenizer", text_, "text"))))
        self._numbers = {c: i for i, c in enumerate(self.vocabulary)}

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __repr__(self) -> str:
        return f"CharTokenizer({self.vocabulary!r})"

    def encode(self, text_: str) -> np.ndarray:
        """Return a text as i64[length]."""
        text("CharTokenizer.encode", text_, "text")
        try:
            return np.array([self._numbers[c] for c in text_], np.int64)
        except KeyError as error:
            at = text_.index(error.args[0])
            message = f"character {error.args[0]!r} at {at} is not in the vocabulary"
            raise ArgumentError(message, op="CharTokenizer.encode") from None

    def decode(self, tokens: Any) -> str:
        """Return the text of tokens: integers, an array or a tensor."""
        numbers = _token_list("CharTokenizer.decode", tokens, len(self))
        return "".join(self.vocabulary[i] for i in numbers)


@boundary_methods
class ByteTokenizer:
    """Byte-pair encoding: bytes, and pairs of tokens that were joined because they are frequent.

    Token numbers below 256 are bytes; number 256 + i stands for the pair `merges[i]`. Any text can
    be encoded. `train` finds the pairs in a text; the pairs alone define the tokenizer.

    >>> tokenizer = pb.data.ByteTokenizer.train("low lower lowest low", size=258)
    >>> tokenizer.encode("low").tolist(), tokenizer.decode(tokenizer.encode("slow"))
    ([257], 'slow')
    """

    def __init__(self, merges: Iterable[tuple[int, int]] = ()) -> None:
        given = merges.tolist() if isinstance(merges, np.ndarray) else merges
        self.merges = [
            _token_merge(pair)
            for pair in checked_sequence_argument("ByteTokenizer", given, "merges")
        ]
        self._ranks = {pair: i for i, pair in enumerate(self.merges)}
        self._bytes = [bytes([i]) for i in range(256)]
        for i, (a, b) in enumerate(self.merges):
            if not (0 <= a < 256 + i and 0 <= b < 256 + i):
                message = f"merge {i} must join two earlier tokens, got {(a, b)}"
                raise ArgumentError(message, op="ByteTokenizer")
            self._bytes.append(self._bytes[a] + self._bytes[b])

    @classmethod
    def train(cls, text_: str, size: int) -> ByteTokenizer:
        """Return a tokenizer of up to `size` tokens: the most frequent pair is joined first."""
        op = "ByteTokenizer.train"
        text(op, text_, "text")
        if dataset_example_count(op, size) < 256:
            raise ArgumentError(f"size must be at least 256, one for each byte, got {size}", op=op)
        counts = TokenPairCounts(_words_to_tokenize(text_))
        merges: list[tuple[int, int]] = []
        while len(merges) < size - 256 and (best := counts.most_frequent()) is not None:
            counts.join(best, 256 + len(merges))
            merges.append(best)
        return cls(merges)

    def __len__(self) -> int:
        return len(self._bytes)

    def __repr__(self) -> str:
        return f"<ByteTokenizer of {len(self)} tokens>"

    def encode(self, text_: str) -> np.ndarray:
        """Return a text as i64[number of tokens]."""
        text("ByteTokenizer.encode", text_, "text")
        known: dict[bytes, list[int]] = {}
        found: list[int] = []
        for word in _words_to_tokenize(text_):
            if word not in known:
                known[word] = self._encoded(word)
            found += known[word]
        return np.array(found, np.int64)

    def _encoded(self, word: bytes) -> list[int]:
        tokens = list(word)
        while len(tokens) > 1:
            best = min(pairwise(tokens), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            tokens = _join_tokenizer_pair(tokens, best, 256 + self._ranks[best])
        return tokens

    def decode(self, tokens: Any) -> str:
        """Return the text of tokens; bytes that are no UTF-8 become the replacement character."""
        numbers = _token_list("ByteTokenizer.decode", tokens, len(self))
        return b"".join(self._bytes[i] for i in numbers).decode("utf-8", errors="replace")


def _token_merge(pair: Any) -> tuple[int, int]:
    numbers = _token_list("ByteTokenizer", pair, 2**31)
    if len(numbers) != 2:
        raise ArgumentError(f"merges must be pairs of tokens, got {pair!r}", op="ByteTokenizer")
    return numbers[0], numbers[1]


class TokenPairCounts:
    """How often each pair of neighbouring tokens occurs in a text, while pairs are joined."""

    def __init__(self, words: Iterable[bytes]) -> None:
        counted = Counter(words)
        self._words: list[list[int]] = [list(word) for word in counted]
        self._times = list(counted.values())
        self._pairs: Counter[tuple[int, int]] = Counter()
        self._holders: dict[tuple[int, int], set[int]] = {}  # the words with a pair, by number
        for i in range(len(self._words)):
            self._count(i, 1)

    def _count(self, i: int, sign: int) -> None:
        for pair in pairwise(self._words[i]):
            self._pairs[pair] += sign * self._times[i]
            self._holders.setdefault(pair, set()).add(i)

    def most_frequent(self) -> tuple[int, int] | None:
        """Return the most frequent pair, the lowest of several; None if all occur only once."""
        best = max(self._pairs.items(), key=lambda p: (p[1], -p[0][0], -p[0][1]), default=None)
        return None if best is None or best[1] < 2 else best[0]

    def join(self, pair: tuple[int, int], joined: int) -> None:
        """Replace a pair by one token everywhere."""
        for i in self._holders.pop(pair):
            self._count(i, -1)
            self._words[i] = _join_tokenizer_pair(self._words[i], pair, joined)
            self._count(i, 1)
        del self._pairs[pair]


def _words_to_tokenize(text_: str) -> list[bytes]:
    """Return the words of a text, each with the space before it: pairs do not cross words."""
    data = text_.encode("utf-8", errors="surrogatepass")
    cuts = [i for i, byte in enumerate(data) if i and byte in b" \n\t" and data[i - 1] != byte]
    return [data[a:b] for a, b in pairwise([0, *cuts, len(data)])] if data else []


def _join_tokenizer_pair(tokens: Sequence[int], pair: tuple[int, int], joined: int) -> list[int]:
    """Return tokens with a pair replaced by one token wherever it occurs, from the left."""
    found, i = [], 0
    while i < len(tokens):
        if i + 1 < len(tokens) and (tokens[i], tokens[i + 1]) == pair:
            found.append(joined)
            i += 2
        else:
            found.append(tokens[i])
            i += 1
    return found


def _token_list(op: str, tokens: Any, count: int) -> list[int]:
    array = dataset_vector(op, tokens, "tokens")
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentError(f"tokens must be integers, got {shown_argument(tokens)}", op=op)
    for bad in array[(array < 0) | (array >= count)][:1]:
        raise IndexOutOfRange(f"token {bad} is not one of the {count} tokens", op=op)
    return array.astype(np.int64).tolist()


@boundary_methods
class TokenWindows(Dataset):
    """Windows of consecutive tokens, for models that predict the next one.

    Example `i` is the pair of `tokens[start : start + length]` and the same window one token later,
    where `start` is `i * stride`; by default windows do not overlap.

    >>> import numpy as np
    >>> windows = pb.data.TokenWindows(np.arange(10), length=3)
    >>> len(windows), [part.tolist() for part in windows[1]]
    (3, [[3, 4, 5], [4, 5, 6]])
    """

    def __init__(self, tokens: Any, length: int, stride: int | None = None) -> None:
        op = "TokenWindows"
        self._tokens = dataset_vector(op, tokens, "tokens")
        self._length = dataset_example_count(op, length, "length")
        self._stride = (
            self._length if stride is None else dataset_example_count(op, stride, "stride")
        )
        if len(self._tokens) <= self._length:
            message = (
                f"there must be more than {self._length} tokens, the length of a window, got "
                f"{len(self._tokens)}"
            )
            raise ArgumentError(message, op=op)

    def __len__(self) -> int:
        return (len(self._tokens) - 1 - self._length) // self._stride + 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        start = dataset_position(index, len(self)) * self._stride
        end = start + self._length
        return self._tokens[start:end], self._tokens[start + 1 : end + 1]

    def take(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the windows at `indices` as two arrays, of inputs and of targets."""
        places = (np.asarray(indices) * self._stride)[:, None] + np.arange(self._length)
        return self._tokens[places], self._tokens[places + 1]
