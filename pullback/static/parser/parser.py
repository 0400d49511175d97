"""Parse text into a module; docs/ir.md has the grammar.

The parser checks syntax only. Linking checks the meaning.
"""

from __future__ import annotations

import re
from typing import Any

from pullback.errors import ArgumentError, ParseError
from pullback.graph.types import Type
from pullback.static.catalogue import catalogued
from pullback.static.instructions import Instruction
from pullback.static.module import IRModule
from pullback.static.parser.reader import ParserReader
from pullback.static.parser.statements import instruction_of_statement
from pullback.static.profiles import CORE, PROFILES

_SURROGATE = re.compile("[\ud800-\udfff]")  # allowed in str, but not in UTF-8
_ENDS = frozenset(("\n", ";", "", ")"))


@catalogued
def parse(text: str | bytes) -> IRModule:
    """Parse a module. Bad syntax raises an error; `verify` checks the meaning.

    >>> import pullback as pb
    >>> module = pb.ir.parse('''
    ... %0 = Input() {name: "x"} : Tensor<f32, [2]>
    ... %1 = Mul(%0, %0) : tensor<f32[2]>   # other spellings are accepted
    ... outputs: %1
    ... ''')
    >>> print(module)
    %0 = Input() {name: "x"} : Tensor<f32, [2]>
    %1 = BinOp(Mul, %0, %0) : Tensor<f32, [2]>
    outputs: %1
    """
    if isinstance(text, (bytes, bytearray)):
        text = _decode_parser_text(bytes(text))
    elif not isinstance(text, str):
        message = f"parse: takes a str or bytes, got {type(text).__name__}"
        raise ArgumentError(message, hint="Pass the contents of a file: path.read_bytes().")
    elif not text.isascii() and (found := _SURROGATE.search(text)):
        raise _utf8_parser_error(text[: found.start()], f"surrogate U+{ord(found[0]):04X}")
    return _Parser(text.removeprefix("\ufeff")).module()  # without a byte order mark


def _decode_parser_text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise _utf8_parser_error(before, f"byte 0x{data[error.start]:02x}") from None


def _utf8_parser_error(before: str, what: str) -> ParseError:
    """The error at the end of the valid part of a text."""
    before = before.removeprefix("\ufeff")
    line, source = before.count("\n") + 1, before[before.rfind("\n") + 1 :]
    return ParseError(what, code="E1001", line=line, column=len(source) + 1, source=source)


class _Parser(ParserReader):
    """Reads modules."""

    profile = CORE

    def module(self) -> IRModule:
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

    def body(self, close: str) -> IRModule:
        """Read instructions, then the line of outputs."""
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
        return IRModule(made, outputs, self.profile, end)

    def identities(self) -> list[int]:
        """Read `outputs: %1, %2`."""
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
        return instruction_of_statement(
            tuple(results), name, tuple(operands), arguments, keys, stated_types, place
        )
