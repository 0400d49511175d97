"""Damaged, truncated and crafted files are refused, with the name of what is damaged."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from safetensors import numpy as official

import pullback as pb
from pullback.errors import DamagedFile
from pullback.io.container import opened_container


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tree.safetensors"


TREE = {"layers": [{"w": np.arange(6.0), "b": np.zeros(2, np.float32)}], "step": 3, "name": "x"}


def header_end(data):
    return 8 + int.from_bytes(data[:8], "little")


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_flipped_bit_is_noticed(path):
    pb.save(path, TREE)
    data = path.read_bytes()
    end = header_end(data)
    places = opened_entries(path)
    for bit in [*range(0, 8 * end, 23), *range(8 * end, 8 * len(data), 5)]:
        path.write_bytes(flipped(data, bit))
        with pytest.raises(DamagedFile) as error:
            pb.load(path)
        offset = bit // 8 - end
        for name, entry in places.items():  # the damaged tensor is named
            inside = entry.start <= offset < entry.stop
            assert not inside or f"the tensor {name!r} does not have its checksum" in str(
                error.value
            )


def opened_entries(path):
    with opened_container(str(path)) as file:
        return file.entries


def test_every_truncated_file_is_noticed(path):
    pb.save(path, TREE)
    data = path.read_bytes()
    for length in [*range(40), *range(40, len(data), 5)]:
        path.write_bytes(data[:length])
        with pytest.raises(DamagedFile):
            pb.load(path)
    for more in (b"\0", b" " * 100):
        path.write_bytes(data + more)
        with pytest.raises(DamagedFile, match="belong to no tensor"):
            pb.load(path)
    path.write_bytes(data[: header_end(data) + 5])
    with pytest.raises(DamagedFile, match=r"it is truncated in the tensor 'layers\.0\.w'"):
        pb.load(path)


def test_only_what_is_asked_for_must_be_whole(path):
    pb.save(path, {"a": np.zeros(4), "b": np.ones(4)})
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"\xff")
    kept = pb.load(path, like={"mine": np.zeros(4)}, keys={"mine": "a"})
    assert kept["mine"].tolist() == [0] * 4
    with pytest.raises(DamagedFile, match="the tensor 'b' does not have its checksum"):
        pb.load(path)


def crafted(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(shape, start, stop, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


HUGE = 2**62
CRAFTED = {
    "its header of 18446744073709551615 bytes is longer": b"\xff" * 8 + b"{}",
    "it has only 3 bytes": b"abc",
    "its header cannot be read": crafted(b'{"a":' * 50_000),
    "cannot be read": crafted(b'{"a": 1'),
    "header cannot be read": crafted(b'{"a": 1, "a": 2}'),
    "is damaged or no safetensors file: its header cannot": crafted(b"\xff\xfe"),
    "no safetensors file: its header cannot": crafted([1, 2]),
    "its metadata is no dictionary": crafted({"__metadata__": {"a": 1}}),
    "wrong about the tensor 'n'": crafted({"n": 3}),
    "wrong about the tensor 'huge'": crafted({"huge": entry([HUGE], 0, 8)}, b"12345678"),
    "needs 18446744073709551616 bytes": crafted({"h": entry([HUGE], 0, 8)}, b"12345678"),
    "truncated in the tensor 'big'": crafted({"big": entry([HUGE], 0, 4 * HUGE)}, b"1234"),
    "wrong about the tensor 'minus'": crafted({"minus": entry([-1], 0, 4)}, b"1234"),
    "wrong about the tensor 'back'": crafted({"back": entry([1], 4, 0)}, b"1234"),
    "wrong about the tensor 'below'": crafted({"below": entry([1], -4, 0)}, b"1234"),
    "wrong about the tensor 'float'": crafted({"float": entry([1.0], 0, 4)}, b"1234"),
    "wrong about the tensor 'true'": crafted({"true": entry([True], 0, 4)}, b"1234"),
    "wrong about the tensor 'flat'": crafted({"flat": entry([1] * 65, 0, 4)}, b"1234"),
    "wrong about the tensor 'short'": crafted({"short": entry([2], 0, 4)}, b"1234"),
    "'b' overlaps": crafted({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, b"12345678"),
    "'b' does not follow": crafted({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, b"1" * 12),
    "4 bytes belong to no tensor": crafted({"a": entry([1], 0, 4)}, b"12345678"),
    "'odd' has the dtype F8_E4M3": crafted({"odd": entry([4], 0, 4, "F8_E4M3")}, b"1234"),
    "'back' does not follow": crafted({"back": entry([4], 4, 0, "F8_E4M3")}, b"1234"),
}


def test_crafted_headers_are_refused_without_allocating(path):
    tracemalloc.start()
    for text, data in CRAFTED.items():
        path.write_bytes(data)
        with pytest.raises(DamagedFile) as error:
            pb.load(path)
        assert text in str(error.value), error.value
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def with_manifest(path, change):
    """A file with a valid checksum whose manifest was changed by somebody who can compute it."""
    from pullback.io import manifest

    with opened_container(str(path)) as file:
        body = manifest.read_manifest(file)
        body.pop("checksum")
        change(body)
        arrays = {name: file.read(name) for name in file.entries}
    layout = manifest.ContainerLayout.of(arrays)
    checksum = manifest._manifest_header_checksum(body, layout.entries)
    text = json.dumps({"version": 1, "checksum": checksum, **body})
    with open(path, "wb") as out:
        layout.write(out, arrays, text)


CHANGES = [
    ("tree", ["list", "no"]),
    ("tree", ["registered", [0, 1, 2], "x.Y", ["int", "1"], [0]]),
    ("tree", [7]),
    ("tree", True),
    ("tree", ["deque", [0, 1, 2, 3], 2**64]),
    ("tree", ["dict", [[["list"], 0]]]),
    ("tree", ["namedtuple", [0], "1+1", ["a"], "x"]),
    ("leaves", []),
    ("leaves", None),
    ("leaves", [["tensor", "layers.0.w", "f32", [6]]] * 4),
    ("leaves", [["tensor", "layers.0.w", "f64", [7]]] * 4),
    ("leaves", [["value", ["int", "x"]]] * 4),
    ("leaves", [["what", 1, 2, 3]] * 4),
    ("files", [["../x", "0"]]),
    ("files", [["gone", "0"]]),
    ("files", 3),
    ("shards", {"layers.0.w": [[0, "layers.0.w", [[0, 6]]]] * 2}),
    ("shards", {"layers.0.w": [[9, "layers.0.w", [[0, 6]]]]}),
    ("sha256", {}),
]


def test_crafted_manifests_are_refused(path):
    pb.save(path, TREE)
    data = path.read_bytes()
    with_manifest(path, lambda body: None)
    assert pb.load(path)["step"] == 3  # the helper writes what pb.save writes
    for key, value in CHANGES:
        path.write_bytes(data)
        with_manifest(path, lambda body, key=key, value=value: body.update({key: value}))
        with pytest.raises(DamagedFile):
            pb.load(path)


def test_a_file_cannot_choose_classes_with_effects(path):
    """Only dataclasses and registered classes are rebuilt, without their __init__; no imports."""
    pb.save(path, {"a": 1})
    for name in ("os.system", "subprocess.Popen", "tempfile.TemporaryDirectory", "no.such"):
        tree = ["registered", [0], name, None, ["args"]]
        with_manifest(path, lambda body, tree=tree: body.update(tree=tree))
        assert pb.load(path) == {"args": 1}


def test_files_of_other_libraries_have_no_checksums(path):
    official.save_file({"a": np.arange(3)}, path, metadata={"format": "pt"})
    assert pb.load(path)["a"].tolist() == [0, 1, 2]
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(DamagedFile, match="truncated in the tensor 'a'"):
        pb.load(path)
