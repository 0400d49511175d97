"""export and import: examples make a round trip through StableHLO."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import EXAMPLE, ir
from paths import EXAMPLES

import pullback as pb

FOLDER = EXAMPLES / "ir"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ir")), ids=lambda path: path.stem)
def test_examples_round_trip(path: Path) -> None:
    exported = ir("export", str(path))
    assert (exported.status, exported.err) == (0, "")
    assert exported.out.startswith("module @")
    module = ir("import", "-", stdin=exported.out)
    assert (module.status, module.err) == (0, "")
    assert ir("verify", "-", stdin=module.out) == (0, "", "")
    assert ir("export", "-", stdin=module.out) == exported
    inputs = ("--random", "3", "--engine", "xla", "--json")  # the same program, the same bits
    found, again = (
        [y["data"] for y in json.loads(ir("run", "-", *inputs, stdin=text).out)["outputs"]]
        for text in (path.read_text(), module.out)
    )
    assert found == again


def test_portable_bytes_are_written_to_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "example.mlir")
    assert ir("export", "-", "--portable", "--out", path, stdin=EXAMPLE) == (0, "", "")
    assert not (tmp_path / "example.mlir").read_bytes().isascii()
    module = ir("import", path)
    assert pb.ir.fingerprint(pb.ir.parse(module.out)) == pb.ir.fingerprint(pb.ir.parse(EXAMPLE))
    assert ir("export", "-", "--portable", "--json", stdin=EXAMPLE).status == 2
    refused = ir("export", "-", "--out", str(tmp_path / "no" / "where"), stdin=EXAMPLE)
    assert (refused.status, refused.err.startswith("error: cannot write ")) == (2, True)


@pytest.mark.parametrize("text", [b"nonsense", b"\xff\xfe", EXAMPLE.encode()])
def test_invalid_stablehlo_is_an_error(text: bytes) -> None:
    ended = ir("import", "-", stdin=text)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("error[")
    assert "the StableHLO program cannot be read" in ended.err
