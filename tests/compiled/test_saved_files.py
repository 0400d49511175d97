"""Saved programs are checked before anything in them runs, and can be signed."""

from __future__ import annotations

import copy
import hashlib
import json
import struct
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import pullback as pb
from pullback import testing
from pullback.compiled.saved_program import MAGIC, VERSION, SavedProgramError
from pullback.engines.xla.builder import Builder, build_xla_module
from pullback.engines.xla.emitted import EMITTED, emitted_again, read_emitted
from pullback.errors import ArgumentError, DTypeError, EngineError, OutOfMemory
from pullback.graph.op_table import TABLE
from pullback.ops.collective.all_reduce import Collective

START = len(MAGIC) + 32
X = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.fixture
def path(tmp_path):
    """A file with every part: checks, donation, numbers, captured and static values."""
    w = pb.tensor([2.0, 3.0, 4.0])

    def f(x, i, k, mode):
        return {"y": x * w * k, "one": x[i], "x": x}

    path = tmp_path / "f.pullback"
    compiled = pb.compile(f, donate_argnums=0, static_argnames="mode")
    compiled.lower(pb.tensor(X), pb.tensor(0), 2.0, mode="up").save(path)
    return path


def run(path):
    found = pb.load_compiled(path)(pb.tensor(X), pb.tensor(1), 3.0, mode="up")
    return found["y"].tolist(), found["one"].item()


def parts(path):
    body = path.read_bytes()[START:]
    _, length = struct.unpack_from("<IQ", body)
    return json.loads(body[12 : 12 + length]), body[12 + length :]


def write(path, header, rest):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = struct.pack("<IQ", VERSION, len(text)) + text + rest
    path.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)


def with_program(path, text):
    """Replace the program of a file, as somebody who knows the format can."""
    header, rest = parts(path)
    data = f"module {{\n{text}\n}}".encode()
    values = rest[header["sizes"][0] :]
    header["sizes"][0] = len(data)
    write(path, header, data + values)


def test_the_file_of_these_tests_is_valid(path):
    assert run(path) == ([6.0, 18.0, 36.0], 2.0)
    write(path, *parts(path))
    assert run(path) == ([6.0, 18.0, 36.0], 2.0)


def test_a_call_of_a_foreign_function_is_refused(tmp_path):
    path = tmp_path / "f.pullback"
    pb.compile(lambda x: x * 2).lower(pb.tensor(X)).save(path)
    kind = "tensor<3xf32>"
    call = (
        f'%0 = "stablehlo.custom_call"(%x) {{call_target_name = "xla_python_cpu_callback", '
        f'backend_config = "1", api_version = 2 : i32}} : ({kind}) -> {kind}'
    )
    with_program(path, f"func.func @main(%x: {kind}) -> {kind} {{\n{call}\nreturn %0 : {kind}\n}}")
    with pytest.raises(SavedProgramError, match=r"stablehlo\.custom_call that pullback does not"):
        pb.load_compiled(path)


@pytest.mark.parametrize(
    "body",
    [
        '%0 = "stablehlo.cholesky"(%x) : (tensor<3x3xf32>) -> tensor<3x3xf32>',
        '%0 = "stablehlo.negate"(%x) {mhlo.frontend_attributes = {a = "b"}} '
        ": (tensor<3x3xf32>) -> tensor<3x3xf32>",
    ],
)
def test_other_instructions_and_attributes_are_refused(tmp_path, body):
    path, kind = tmp_path / "f.pullback", "tensor<3x3xf32>"
    pb.compile(lambda x: x * 2).lower(pb.Type((3, 3), pb.float32)).save(path)
    with_program(path, f"func.func @main(%x: {kind}) -> {kind} {{\n{body}\nreturn %0 : {kind}\n}}")
    with pytest.raises(SavedProgramError, match="that pullback does not write"):
        pb.load_compiled(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("arguments", lambda h: h["leaves"][0].__setitem__(1, [300])),
        ("arguments", lambda h: h["leaves"][0].__setitem__(2, "f64")),
        ("arguments", lambda h: h["leaves"][2].__setitem__(1, "complex")),
        ("arguments", lambda h: h["captured"][0].__setitem__(0, [1, 3])),
        ("results", lambda h: h["outs"][0].__setitem__(0, [3000])),
        ("results", lambda h: h["outs"][1].__setitem__(1, "i64")),
        ("results", lambda h: h.update(checks=h["checks"] * 2)),
    ],
)
def test_a_header_that_differs_from_its_program(path, name, change):
    header, rest = parts(path)
    change(header)
    write(path, header, rest)
    with pytest.raises(SavedProgramError, match=f"its {name} are .* where its header says"):
        pb.load_compiled(path)


def damaged(header):
    """Copies of a header, each with one value replaced, at any depth, or one field left out."""
    for key in header:
        missing = dict(header)
        del missing[key]
        yield f"without {key}", missing

    def walk(value, place):
        for wrong in (None, -1, 10**30, 1.5, "x", [], {}, [[[]]], True):
            yield place, wrong
        if isinstance(value, list):
            for i, item in enumerate(value[:4]):
                yield from walk(item, (*place, i))

    for key, value in header.items():
        for place, wrong in walk(value, (key,)):
            changed = copy.deepcopy(header)
            inner = changed
            for step in place[:-1]:
                inner = inner[step]
            if inner[place[-1]] != wrong:
                inner[place[-1]] = wrong
                yield f"{place} = {wrong!r}", changed


def test_damaged_headers_are_refused_or_harmless(path):
    header, rest = parts(path)
    signature = ("('sizes'", "('captured'", "('outs'", "without", "('leaves', 0", "('leaves', 1")
    tried = accepted = 0
    for what, changed in damaged(header):
        write(path, changed, rest)
        tried += 1
        try:
            pb.load_compiled(path)
        except (SavedProgramError, ArgumentError):
            continue
        accepted += 1  # another name or message, another static value
        assert not what.startswith(signature), what
    assert tried > 300 and accepted < tried / 4


@pytest.mark.parametrize("text", [b"", b"[]", b"1", b"{", b"[" * 100_000, b"\xff\xfe"])
def test_headers_that_are_no_dictionary(path, text):
    write(path, text, parts(path)[1])
    with pytest.raises(SavedProgramError):
        pb.load_compiled(path)


@pytest.mark.parametrize("text", [",", ",f4", "(1", "f4,", "not a dtype"])
def test_dtypes_that_numpy_would_evaluate(path, text):
    header, rest = parts(path)
    header["outs"][0][1] = text
    write(path, header, rest)
    with pytest.raises(SavedProgramError, match="not a dtype"):
        pb.load_compiled(path)
    with pytest.raises(DTypeError, match="not a dtype"):
        pb.tensor([1.0], dtype=text)


def test_errors_are_made_of_named_classes_only(path):
    header, rest = parts(path)
    for kind in ("user_line", "annotations", "ParseError", "TextPosition", "PullbackError.x"):
        header["checks"][0][0] = kind
        write(path, header, rest)
        with pytest.raises(SavedProgramError, match="checks"):
            pb.load_compiled(path)


def test_values_that_fit_into_no_memory(tmp_path):
    path = tmp_path / "f.pullback"
    pb.compile(lambda x: x.sum()).lower(pb.tensor(X)).save(path)
    huge = "tensor<1073741824x1073741824xf32>"
    text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<f32> {{
        %c = stablehlo.constant dense<0.0> : tensor<f32>
        %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {huge}
        %s = stablehlo.slice %b [0:1, 0:1] : ({huge}) -> tensor<1x1xf32>
        %r = stablehlo.reshape %s : (tensor<1x1xf32>) -> tensor<f32>
        return %r : tensor<f32> }}"""
    with_program(path, text)
    with pytest.raises(OutOfMemory, match="not enough memory"):
        pb.load_compiled(path)


# -- the instructions that pullback writes --------------------------------------------------------


def _plain(text):
    """The instructions of a text in order, with values numbered by their first occurrence."""
    block, numbers = read_emitted(text.encode()), {}

    def shown(block):
        for i in block.instructions:
            for value in (*i.operands, *i.results):
                numbers.setdefault(value, len(numbers))
            places = [[numbers[v] for v in vs] for vs in (i.operands, i.results)]
            data = None if i.array is None else i.array.tobytes()
            yield i.mnemonic, places, i.attributes, data, [list(shown(r)) for r in i.regions]

    return list(shown(block))


def first_samples():
    for name in sorted(TABLE.keys() - {"DebugPrint"}):  # which calls a function of this process
        if not issubclass(TABLE[name], Collective):
            op, arrays = next(iter(TABLE[name].samples()), (None, None))
            if op is not None:
                yield testing.graph_of(op, [np.asarray(a) for a in arrays])


def test_programs_of_ops_can_be_loaded():
    for graph in list(first_samples())[::2]:
        builder = Builder()
        builder.guards = True
        text = build_xla_module(graph, builder)
        types = [x.type for x in graph.inputs], [y.type for y in builder.results]
        once = emitted_again(text.encode(), *types, (), 0)
        assert emitted_again(once.encode(), *types, (), 0) == once
        assert _plain(once) == _plain(text)


def test_a_program_that_could_not_be_loaded_is_not_saved(tmp_path, monkeypatch):
    from pullback.engines.xla import emitted

    monkeypatch.setattr(emitted, "EMITTED", EMITTED - {"multiply"})
    path = tmp_path / "f.pullback"
    with pytest.raises(EngineError, match=r"save: .*stablehlo\.multiply"):
        pb.compile(lambda x: x * 2).lower(pb.tensor(X)).save(path)
    assert not path.exists()


# -- signatures -----------------------------------------------------------------------------------


@pytest.fixture
def key():
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def other():
    return Ed25519PrivateKey.from_private_bytes(bytes(32))


def test_a_signed_program_is_loaded_by_those_who_trust_the_key(tmp_path, key, other):
    path = tmp_path / "f.pullback"
    pb.compile(lambda x: x * 2).lower(pb.tensor(X)).save(path, key=key)
    for trusted in ([key.public_key()], [other.public_key(), key.public_key().public_bytes_raw()]):
        assert pb.load_compiled(path, trusted=trusted)(pb.tensor(X)).tolist() == [2.0, 4.0, 6.0]
    assert pb.load_compiled(path)(pb.tensor(X)).tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(SavedProgramError, match="signed with a key that is not trusted"):
        pb.load_compiled(path, trusted=[other.public_key()])


def test_unsigned_and_changed_files_are_refused(path, key, other):
    unsigned = path.read_bytes()
    with pytest.raises(SavedProgramError, match="it is not signed"):
        pb.load_compiled(path, trusted=[key.public_key()])
    pb.compile(lambda x: x * 2).lower(pb.tensor(X)).save(path, key=bytes(range(32)))
    signed = path.read_bytes()
    for data in (unsigned + signed[-104:], signed[:60] + b"?" + signed[61:], b"" + signed[-104:],
                 signed[:-1] + bytes([signed[-1] ^ 1])):  # fmt: skip
        path.write_bytes(data)
        with pytest.raises(SavedProgramError, match="its signature is wrong"):
            pb.load_compiled(path, trusted=[key.public_key()])
    pb.compile(lambda x: x * 3).lower(pb.tensor(X)).save(path, key=other)
    forged = path.read_bytes()
    path.write_bytes(forged[:-96] + key.public_key().public_bytes_raw() + forged[-64:])
    with pytest.raises(SavedProgramError, match="its signature is wrong"):
        pb.load_compiled(path, trusted=[key.public_key()])


def test_keys_of_another_kind_are_refused(tmp_path, path, key):
    lowered = pb.compile(lambda x: x * 2).lower(pb.tensor(X))
    for wrong in ("secret", bytes(31), key.public_key()):
        with pytest.raises(ArgumentError, match="save: key must be an Ed25519PrivateKey"):
            lowered.save(tmp_path / "f", key=wrong)
    assert not (tmp_path / "f").exists()
    for wrong in ("secret", bytes(33), key):
        with pytest.raises(ArgumentError, match="load_compiled: trusted must be Ed25519PublicKeys"):
            pb.load_compiled(path, trusted=[wrong])
    with pytest.raises(ArgumentError, match="at least one public key"):
        pb.load_compiled(path, trusted=[])


def test_without_the_package_the_error_says_what_to_install(tmp_path, path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(EngineError, match=r"pullback\[sign\]"):
        pb.load_compiled(path, trusted=[bytes(32)])
    with pytest.raises(EngineError, match=r"pullback\[sign\]"):
        pb.compile(lambda x: x * 2).lower(pb.tensor(X)).save(tmp_path / "f", key=bytes(32))
