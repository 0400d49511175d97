"""Sentences of a grammar, drawn at random: from EBNF to texts."""

from __future__ import annotations

import random
import re
from typing import Any

TOKEN = re.compile(r"""\s+|\(\*.*?\*\)|("[^"]+"|'[^']+'|[a-z]+|[=|;{}\[\]()])""", re.DOTALL)
CLOSE = {"{": "}", "[": "]", "(": ")"}


def rules(text: str) -> dict[str, Any]:
    """The rules of a grammar: names to alternatives, which are lists of items."""
    words = [w for w in TOKEN.findall(text) if w]
    made, at = {}, 0
    while at < len(words):
        name, equals = words[at : at + 2]
        assert equals == "="
        made[name], at = _alternatives(words, at + 2)
        assert words[at] == ";"
        at += 1
    return made


def _alternatives(words: list[str], at: int) -> tuple[list, int]:
    made: list[list] = [[]]
    while words[at] not in ("}", "]", ")", ";"):
        word, at = words[at], at + 1
        if word == "|":
            made.append([])
        elif word in CLOSE:
            inner, at = _alternatives(words, at)
            assert words[at] == CLOSE[word]
            made[-1].append((word, inner))
            at += 1
        else:
            made[-1].append(word)
    return made, at


class Speaker:
    """Draws sentences. `classes` are names that stand for characters, `tokens` are rules whose
    parts touch; between all others there are spaces. Beyond `depth` the shortest way is taken."""

    def __init__(
        self, grammar: dict, classes: dict[str, str], tokens: set[str], seed: int, depth: int = 14
    ) -> None:
        self.grammar, self.classes, self.tokens = grammar, classes, tokens
        self.draw, self.depth = random.Random(seed), depth

    def say(self, name: str, level: int = 0) -> str:
        glue = "" if name in self.tokens else " "
        return glue.join(self._parts(self.grammar[name], level, glue)).strip(" ")

    def _parts(self, alternatives: list, level: int, glue: str) -> list[str]:
        deep = level > self.depth
        chosen = alternatives[0] if deep else self.draw.choice(alternatives)
        return [p for item in chosen for p in self._item(item, level + 1, glue)]

    def _item(self, item: Any, level: int, glue: str) -> list[str]:
        if isinstance(item, tuple):
            kind, inner = item
            most = {"(": 1, "[": 1, "{": 3}[kind]
            least = 1 if kind == "(" else 0
            times = least if level > self.depth else self.draw.randint(least, most)
            return [p for _ in range(times) for p in self._parts(inner, level, glue)]
        if item[0] in "\"'":
            return [item[1:-1]]
        if item in self.classes:
            return [self.draw.choice(self.classes[item])]
        return [self.say(item, level)]
