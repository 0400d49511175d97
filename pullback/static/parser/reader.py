"""Read types, parameters and applications: the parts of an instruction."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from pullback.errors import ParseError, PullbackError
from pullback.graph.dtypes import NAMES
from pullback.graph.types import Type
from pullback.ops.text import OpTextApplied, OpTextNan, OpTextPair, OpTextRange, OpTextWord
from pullback.sharding.spec import Sharding
from pullback.static.parser.cursor import DEPTH, START, Cursor
from pullback.static.parser.tokens import shown_token

_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf"), "nan": float("nan")}
_SIGNED = {"-inf": -float("inf"), "+inf": float("inf"), "+nan": float("nan")}
_ASSIGN = frozenset("=:")
_FIELDS = ("mesh", "spec", "devices", "replicated", "priority", "varying", "sharding")


class ParserReader(Cursor):
    """Reads the parts of an instruction; the parser reads the body of inner graphs."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.types: dict[str, Type] = {}

    @abstractmethod
    def body(self, close: str) -> Any:
        """Read an inner graph, up to `close`."""

    def declared(self) -> tuple[Type, ...]:
        if self.words[self.at] != ":":
            return ()
        self.at += 1
        made = [self.type()]
        while self.words[self.at] == ",":
            self.at += 1
            made.append(self.type())
        return tuple(made)

    def type(self) -> Type:
        """Read `Tensor<f32, [2, 3]>`, which is a single token, or a looser spelling."""
        word = self.words[self.at]
        known = self.types.get(word)
        if known is not None:
            self.at += 1
            return known
        if word[-1:] == ">" and len(word) > 1:
            inner = type(self)(word.replace("<", " < ").replace(">", " > "))
            try:
                made = self.types[word] = inner.loose_type()
            except ParseError as error:
                self.tokens.fail(self.at, error.message, error.code)
            self.at += 1
            return made
        return self.loose_type()

    def loose_type(self) -> Type:
        if self.words[self.at] not in ("Tensor", "tensor"):
            self.fail("a type")
        self.at += 1
        self.expect("<")
        dtype = NAMES.get(self.words[self.at])
        if dtype is None:
            self.fail("a dtype")
        self.at += 1
        if self.words[self.at] == ",":
            self.at += 1
        self.expect("[")
        start, shape = self.at, self.listed(self.dimension, "]")
        if len(shape) > DEPTH:  # the limit of NumPy
            self.tokens.fail(start, f"a tensor has at most {DEPTH} dimensions", "syntax")
        said: dict[str, Any] = {}
        while self.words[self.at] == ",":
            self.at += 1
            name = self.word("`mesh`, `spec` or `varying`")
            if name not in _FIELDS or name in said:
                self.at -= 1
                self.fail("`mesh`, `spec` or `varying`, once")
            self.expect(":")
            said[name] = self.names() if name == "varying" else self.value()
        varying = said.pop("varying", ())
        sharding = self.sharding(said) if said else None
        self.expect(">")
        return Type(shape, dtype, sharding, varying)

    def names(self) -> tuple[str, ...]:
        found = self.value()
        if type(found) is not tuple or not all(type(v) is str for v in found):
            self.fail("a list of names before this")
        return found

    def sharding(self, said: dict[str, Any]) -> Any:
        """Return the layout with the given fields, or with those of the longer list `sharding`."""
        try:
            if said.keys() == {"sharding"}:
                return Sharding.from_plain(*said["sharding"])
            return Sharding.from_short(**said)
        except (PullbackError, TypeError, ValueError):
            self.fail("a sharding before this")

    def dimension(self) -> int:
        if self.words[self.at] == "?":
            self.at += 1
            return -1
        at, made = self.at, self.integer()
        if made >= 1 << 63:
            self.tokens.fail(at, "a dimension must fit 63 bits", "E1005")
        return made

    def value(self) -> Any:
        """Read a parameter, or a part of one."""
        word = self.words[self.at]
        first = word[:1]
        if first == "[":
            self.at += 1
            self.enter()
            made: Any = tuple(self.listed(self.item, "]"))
            self.depth -= 1
            return made
        if first == '"':
            made = self.tokens.string(self.at)
            self.at += 1
            return made
        if word in _SIGNED:
            self.at += 1
            return _SIGNED[word]
        if self.is_number(word):
            made = self.tokens.number(self.at)
            self.at += 1
            return made
        if first == "(":
            return self.pair()
        if first in START:
            return self.named(word)
        return self.fail("a value")

    def item(self) -> Any:
        """Read an element of a list, which may be a range."""
        made = self.value()
        if self.words[self.at] != ":":
            return made
        if type(made) is not int:
            self.fail("`,` or `]`")
        bounds = [made]
        while self.words[self.at] == ":" and len(bounds) < 3:
            self.at += 1
            bounds.append(self.integer())
        return OpTextRange(*bounds)

    def pair(self) -> OpTextPair:
        self.at += 1
        self.enter()
        made = self.listed(self.value, ")")
        self.depth -= 1
        if len(made) != 2 or not all(type(v) in (int, float, OpTextNan) for v in made):
            self.at -= 1
            self.fail("a real and an imaginary number before this")
        return OpTextPair(*made)

    def named(self, word: str) -> Any:
        following = self.words[self.at + 1]
        if following == "(" and word == "nan":
            return self.nan()
        if word in _WORDS:
            self.at += 1
            return _WORDS[word]
        if following == "(":
            return self.applied(word)
        if word in ("Tensor", "tensor") or word[-1] == ">":
            return self.type()
        self.at += 1
        return OpTextWord(word)

    def nan(self) -> OpTextNan:
        self.at += 2
        word = self.words[self.at]
        try:
            bits = int(word, 16) if word[:2] == "0x" and len(word) <= 18 else -1
        except ValueError:
            bits = -1
        if bits < 0:
            self.tokens.fail(
                self.at, f"the bits of a NaN expected, got {shown_token(word)}", "E1005"
            )
        self.at += 1
        self.expect(")")
        return OpTextNan(bits)

    def applied(self, word: str) -> Any:
        """Read a graph, or a word applied to values."""
        self.enter()
        if word == "graph":
            self.at += 2
            made: Any = self.body(")")
            self.at += 1
        else:
            at = self.at
            name, operands, arguments, keys = self.application()
            if operands:
                self.tokens.fail(at, "a parameter has no operands", "syntax")
            made = OpTextApplied(name, arguments, keys)
        self.depth -= 1
        return made

    def application(self) -> tuple[str, list[int], tuple, dict[str, Any]]:
        """Read `Op(operands and parameters) {key: value}`."""
        name = self.word("an instruction")
        operands: list[int] = []
        arguments: list = []
        keys: dict[str, Any] = {}
        self.expect("(")
        words = self.words
        self.skip()
        while words[self.at] != ")":
            if words[self.at][:1] == "%":
                operands.append(self.identity())
            elif words[self.at][:1] in START and words[self.at + 1] in _ASSIGN:
                self.key(keys)
            else:
                arguments.append(self.value())
            self.skip()
            if words[self.at] != ",":
                break
            self.at += 1
            self.skip()
        self.expect(")")
        if words[self.at] == "{":
            self.at += 1
            self.listed(lambda: self.key(keys), "}")
        return name, operands, tuple(arguments), keys

    def key(self, keys: dict[str, Any]) -> None:
        """Read `key: value` or `key = value`."""
        name = self.word("the name of a parameter")
        if name in keys:
            self.at -= 1
            self.fail("another name of a parameter")
        if self.words[self.at] not in _ASSIGN:
            self.fail("`:`")
        self.at += 1
        self.skip()
        keys[name] = self.value()
