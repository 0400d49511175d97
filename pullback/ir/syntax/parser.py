"""The parser: tokens to a Module. The grammar is in docs/ir.md.

What the text states is taken down as it stands; whether it makes sense is for linking to say.
Only lists, graphs and applied words nest, and only `DEPTH` deep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pullback.ir.dtypes import NAMES
from pullback.ir.errors import ParseError, Place
from pullback.ir.module import Instruction, Module
from pullback.ir.profile import CORE, PROFILES
from pullback.ir.syntax.statements import stated
from pullback.ir.syntax.tokens import Tokens, shown
from pullback.ir.types import Type
from pullback.ir.values import Applied, Nan, Pair, Range, Word

DEPTH = 64
_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf"), "nan": float("nan")}
_SIGNED = {"-inf": -float("inf"), "+inf": float("inf"), "+nan": float("nan")}
_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NUMBER = frozenset("0123456789.+-")
_ASSIGN = frozenset("=:")
_ENDS = frozenset(("\n", ";", "", ")"))


def parse(text: str | bytes) -> Module:
    """The module that a text states. It raises on bad syntax; `verify` looks at the meaning.

    >>> import pullback as pb
    >>> module = pb.ir.parse('''
    ... %0 = Input() {name: "x"} : Tensor<f32, [2]>
    ... %1 = Mul(%0, %0) : tensor<f32[2]>   # lenient forms are read, and written in one way
    ... outputs: %1
    ... ''')
    >>> print(module)
    %0 = Input() {name: "x"} : Tensor<f32, [2]>
    %1 = BinOp(Mul, %0, %0) : Tensor<f32, [2]>
    outputs: %1
    """
    if isinstance(text, (bytes, bytearray)):
        text = _decoded(bytes(text))
    return _Parser(text).module()


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line, source = before.count("\n") + 1, before[before.rfind("\n") + 1 :]
        raise ParseError(
            f"invalid UTF-8: byte 0x{data[error.start]:02x}",
            code="E1001", line=line, column=len(source) + 1, source=source,
        ) from None  # fmt: skip


class _Parser:
    """Walks the tokens; `at` is the next one, and `line` the line that it is on."""

    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.words = self.tokens.words
        self.at, self.line, self.depth = 0, 1, 0
        self.indents = [len(line) - len(line.lstrip(" \t\r")) for line in text.split("\n")]
        self.types: dict[str, Type] = {}
        self.profile = CORE

    # -- words --------------------------------------------------------------------------------

    def fail(self, wanted: str) -> NoReturn:
        self.tokens.fail(self.at, f"{wanted} expected, got {shown(self.words[self.at])}")

    def expect(self, word: str) -> None:
        if self.words[self.at] != word:
            self.fail(f"`{word}`")
        self.at += 1

    def skip(self) -> None:
        """Over line ends, inside brackets."""
        while self.words[self.at] == "\n":
            self.at += 1
            self.line += 1

    def word(self, wanted: str) -> str:
        found = self.words[self.at]
        if found[:1] not in _START or found[-1] == ">":
            self.fail(wanted)
        self.at += 1
        return found

    def identity(self) -> int:
        """`%7`."""
        found = self.words[self.at]
        if len(found) < 2 or found[0] != "%":
            self.fail("a value")
        if len(found) > 19:
            self.tokens.fail(self.at, "the number of a value has at most 18 digits", "E1005")
        self.at += 1
        return int(found[1:])

    def integer(self) -> int:
        made = self.tokens.number(self.at) if self.is_number(self.words[self.at]) else None
        if type(made) is not int:
            self.fail("an integer")
        self.at += 1
        return made

    @staticmethod
    def is_number(word: str) -> bool:
        return word[:1] in _NUMBER and (len(word) > 1 or word.isdigit())

    def listed(self, item: Callable[[], Any], close: str) -> list:
        """Items up to `close`, with commas between them; the last one may be followed by one."""
        made = []
        self.skip()
        while self.words[self.at] != close:
            made.append(item())
            self.skip()
            if self.words[self.at] != ",":
                break
            self.at += 1
            self.skip()
        self.expect(close)
        return made

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            self.tokens.fail(self.at, f"lists and graphs may nest {DEPTH} deep", "syntax")

    def place(self) -> Place:
        """Where the next token is; the first one of a line needs no search."""
        at, line = self.at, self.line
        if at == 0 or self.words[at - 1] == "\n":
            return Place(line, self.indents[line - 1] + 1)
        return self.tokens.place(at)

    # -- modules ------------------------------------------------------------------------------

    def module(self) -> Module:
        self.separators()
        if self.words[self.at] == "profile" and self.words[self.at + 1] == ":":
            self.profile_line()
        made = self.body("")
        if self.words[self.at]:
            self.fail("the end of the text")
        return made

    def profile_line(self) -> None:
        start = self.at + 2
        name, self.at = "", start
        while self.words[self.at] not in _ENDS:
            name += self.words[self.at]
            self.at += 1
        if name not in PROFILES:
            self.tokens.fail(start, f"the profile must be one of {', '.join(PROFILES)}, got {name}")
        self.profile = name

    def separators(self) -> None:
        words = self.words
        while words[self.at] == "\n" or words[self.at] == ";":
            self.line += words[self.at] == "\n"
            self.at += 1

    def body(self, close: str) -> Module:
        """Instructions, then the line of outputs."""
        made: list[Instruction] = []
        types: dict[int, Type] = {}
        declared: tuple[int, list[int]] | None = None
        words = self.words
        while True:
            self.separators()
            start = self.at
            word = words[start]
            if word[:1] == "%":
                made.append(self.instruction(types))
                if words[self.at] not in _ENDS:
                    self.fail("the end of the instruction")
            elif word == "inputs":
                declared = start, self.identities()
            elif word == "outputs":
                end = self.place()
                outputs = self.identities()
                break
            else:
                self.fail("an instruction or `outputs:`")
        self.separators()
        if words[self.at] != close:
            self.fail("nothing after `outputs:`" if not close else f"`{close}`")
        if declared is not None:
            self.check_inputs(made, *declared)
        return Module(made, outputs, self.profile, end)

    def identities(self) -> list[int]:
        """`outputs: %1, %2`."""
        self.at += 1
        self.expect(":")
        made = []
        while self.words[self.at][:1] == "%":
            made.append(self.identity())
            if self.words[self.at] != ",":
                break
            self.at += 1
        if self.words[self.at] not in _ENDS:
            self.fail("a value")
        return made

    def check_inputs(self, made: list[Instruction], at: int, declared: list[int]) -> None:
        found = [i.results[0] for i in made if i.op == "Input"]
        if sorted(declared) != sorted(found):
            listed = ", ".join(f"%{i}" for i in found)
            what = f"`inputs:` must list the inputs of the module, {listed or 'there are none'}"
            self.tokens.fail(at, what, "E4004")

    # -- instructions -------------------------------------------------------------------------

    def instruction(self, types: dict[int, Type]) -> Instruction:
        place = self.place()
        results = [self.identity()]
        while self.words[self.at] == ",":
            self.at += 1
            results.append(self.identity())
        self.expect("=")
        if self.words[self.at][:1] == "%":
            name, operands = "Copy", [self.identity()]
            arguments, keys = (), dict[str, Any]()
        else:
            name, operands, arguments, keys = self.application()
        stated_types = self.declared()
        if not stated_types:
            if name != "Copy":
                self.fail("`: ` and a type")
            known = types.get(operands[0])
            stated_types = () if known is None else (known,)
        for i, t in zip(results, stated_types, strict=False):
            types.setdefault(i, t)
        return stated(tuple(results), name, tuple(operands), arguments, keys, stated_types, place)

    def application(self) -> tuple[str, list[int], tuple, dict[str, Any]]:
        """`Op(operands and parameters) {key: value}`."""
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
            elif words[self.at][:1] in _START and words[self.at + 1] in _ASSIGN:
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
        """`key: value` or `key = value`."""
        name = self.word("the name of a parameter")
        if name in keys:
            self.at -= 1
            self.fail("another name of a parameter")
        if self.words[self.at] not in _ASSIGN:
            self.fail("`:`")
        self.at += 1
        self.skip()
        keys[name] = self.value()

    # -- types --------------------------------------------------------------------------------

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
        """`Tensor<f32, [2, 3]>`, which is one token, or a looser form of it."""
        word = self.words[self.at]
        known = self.types.get(word)
        if known is not None:
            self.at += 1
            return known
        if word[-1:] == ">" and len(word) > 1:
            inner = _Parser(word.replace("<", " < ").replace(">", " > "))
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
            self.fail("an element type")
        self.at += 1
        if self.words[self.at] == ",":
            self.at += 1
        self.expect("[")
        shape = self.listed(self.dimension, "]")
        varying: tuple = ()
        if self.words[self.at] == ",":
            self.at += 1
            if self.word("varying") != "varying":
                self.at -= 1
                self.fail("`varying`")
            self.expect(":")
            varying = self.value()
            if type(varying) is not tuple or not all(type(v) is str for v in varying):
                self.fail("a list of names before this")
        self.expect(">")
        return Type(shape, dtype, None, varying)

    def dimension(self) -> int:
        if self.words[self.at] == "?":
            self.at += 1
            return -1
        at, made = self.at, self.integer()
        if made >= 1 << 63:
            self.tokens.fail(at, "a dimension must fit 63 bits", "E1005")
        return made

    # -- values -------------------------------------------------------------------------------

    def value(self) -> Any:
        """A parameter, or a part of one."""
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
        if first in _START:
            return self.named(word)
        return self.fail("a value")

    def item(self) -> Any:
        """An element of a list, which may be a range."""
        made = self.value()
        if self.words[self.at] != ":":
            return made
        if type(made) is not int:
            self.fail("`,` or `]`")
        bounds = [made]
        while self.words[self.at] == ":" and len(bounds) < 3:
            self.at += 1
            bounds.append(self.integer())
        return Range(*bounds)

    def pair(self) -> Pair:
        self.at += 1
        self.enter()
        made = self.listed(self.value, ")")
        self.depth -= 1
        if len(made) != 2 or not all(type(v) in (int, float, Nan) for v in made):
            self.at -= 1
            self.fail("a real and an imaginary number before this")
        return Pair(*made)

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
        return Word(word)

    def nan(self) -> Nan:
        self.at += 2
        word = self.words[self.at]
        try:
            bits = int(word, 16) if word[:2] == "0x" and len(word) <= 18 else -1
        except ValueError:
            bits = -1
        if bits < 0:
            self.tokens.fail(self.at, f"the bits of a NaN expected, got {shown(word)}", "E1005")
        self.at += 1
        self.expect(")")
        return Nan(bits)

    def applied(self, word: str) -> Any:
        """A graph, or a word applied to values."""
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
            made = Applied(name, arguments, keys)
        self.depth -= 1
        return made
