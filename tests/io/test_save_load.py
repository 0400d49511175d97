"""Trees come back from files as they were: every dtype, shape and container."""

from __future__ import annotations

import dataclasses
import errno
import os
import resource
import stat
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest
from paths import TESTS, VIRTUAL_DEVICES
from safetensors import numpy as official

import pullback as pb
from pullback.errors import ArgumentError, DamagedFile, DTypeError, FileError, MissingFile
from pullback.graph.dtypes import ALL
from pullback.io import atomic


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any = None
    rate: float = dataclasses.field(default=0.5, metadata={"static": True})
    act: Any = dataclasses.field(default=None, metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Frozen:
    pass


class Pair:
    def __init__(self, x, y):
        self.x, self.y = x, y


pb.tree.register(Pair, lambda p: ((p.x, p.y), ("kept", 0.1)), lambda _, xy: Pair(*xy))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tree.safetensors"


def saved(path, tree):
    pb.save(path, tree)
    return pb.load(path)


def bits(x):
    return x.numpy().tobytes()


def nested(depth):
    tree = []
    for _ in range(depth):
        tree = [tree]
    return tree


def every_dtype():
    rng = np.random.default_rng(0)
    made = {}
    for kind in ALL:
        for shape in ((), (0,), (3,), (2, 0, 3), (2, 3, 4)):
            raw = rng.integers(0, 256, (*shape, kind.numpy.itemsize), np.uint8)
            if kind.name == "bool":
                raw &= 1
            name = f"{kind.name}{list(shape)}"
            made[name] = pb.tensor(raw.reshape(-1).view(kind.numpy).reshape(shape))
    return made


def test_every_dtype_and_shape_keeps_its_bits(path):
    tree = every_dtype()
    found = saved(path, tree)
    assert list(found) == list(tree)
    for name, x in tree.items():
        assert found[name]._node.type is x._node.type and bits(found[name]) == bits(x), name
    # and another reader finds the same, those of bf16 apart, which NumPy does not have
    pb.save(path, {k: x for k, x in tree.items() if not k.startswith("bf16")})
    theirs = official.load_file(path)
    for name, array in theirs.items():
        assert array.tobytes() == bits(tree[name]), name
        assert array.shape == (*tree[name].shape, *[2] * tree[name].dtype.is_complex)


def test_values_that_are_not_contiguous_or_not_computed(path):
    x = pb.tensor(np.arange(24.0).reshape(4, 6)[::2, ::-3])
    found = saved(
        path, [x.T, pb.ones(3) + 1, np.arange(6).reshape(2, 3).T, np.arange(3, dtype=">i4")]
    )
    assert found[0].tolist() == x.T.tolist() and found[1].tolist() == [2, 2, 2]
    assert isinstance(found[2], np.ndarray) and found[2].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found[3].dtype == np.int32 and found[3].tolist() == [0, 1, 2]


def test_plain_values_keep_their_types_and_bits(path):
    values = [0, -1, 2**80, True, False, None, 0.1, -0.0, 1e-320, float("inf"), 1 - 2j, "é\n\ud800",
              b"\x00\xff", pb.float32, "", [], (), {}, ((),)]  # fmt: skip
    found = saved(path, [*values, nested(190)])
    assert repr(found.pop()) == repr(nested(190))
    assert repr(found) == repr(values) and [type(x) for x in found] == [type(x) for x in values]
    assert np.isnan(saved(path, float("nan"))) and saved(path, 3) == 3
    number = saved(path, {"a": np.float16(1.5), "b": np.bool_(True)})
    assert number["a"].dtype == np.float16 and type(number["b"]) is np.bool_


def test_containers_keep_their_kinds_and_order(path):
    x = pb.arange(3)
    tree = {
        "z": [x, (x, 1)], "a": OrderedDict(q=1, p=2), 3: "int", (1, "a"): 0.5, True: None,
        "d": deque([1, 2], maxlen=5), "n": Point(x, [2]),
        "state": pb.optim.adam(0.1).init({"w": pb.ones(2)}),
    }  # fmt: skip
    found = saved(path, tree)
    assert list(found) == list(tree) and list(found["a"].items()) == [("q", 1), ("p", 2)]
    assert type(found["z"]) is list and type(found["z"][1]) is tuple
    assert found["d"] == deque([1, 2]) and found["d"].maxlen == 5
    assert type(found["n"]) is Point and found["n"].y == [2]
    assert type(found["state"]) is pb.optim.OptimizerState
    assert found["state"].slots.keys() == tree["state"].slots.keys()
    assert type(saved(path, defaultdict(list, a=[1]))) is dict


def test_classes_come_back_where_they_are_known(path):
    found = saved(path, {"layer": Layer(pb.ones(2), None, 0.25), "pair": Pair(1, pb.zeros(1))})
    assert type(found["layer"]) is Layer and found["layer"].rate == 0.25
    assert type(found["pair"]) is Pair and found["pair"].y.tolist() == [0]
    # static data that is no plain value cannot be in a file: the children are in a dict
    pb.save(path, Layer(pb.ones(2), 3, act=abs))
    assert pb.load(path)["b"] == 3
    again = pb.load(path, like=Layer(pb.zeros(2), 0, act=round))
    assert type(again) is Layer and again.act is round and again.w.tolist() == [1, 1]


def test_a_tensor_that_occurs_twice_is_stored_once_and_stays_tied(path):
    table = pb.ones((100, 10))
    pb.save(path, {"embedding": table, "head": table, "other": table + 0})
    assert path.stat().st_size < 2 * 4000 + 2000
    found = pb.load(path)
    assert found["embedding"] is found["head"] is not found["other"]
    tied = pb.zeros((100, 10))
    like = pb.load(path, like={"embedding": tied, "head": tied, "other": tied})
    assert like["embedding"] is like["head"]
    assert pb.load(path, like={"head": tied}, keys={})["head"].tolist() == table.tolist()


def test_keys_of_random_numbers_and_gradients(path):
    key = pb.random.split(pb.random.key(7), 3)
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    found = saved(path, {"key": key, "w": w, "g": w.grad})
    draw = pb.random.normal(found["key"][1], (4,))
    assert draw.tolist() == pb.random.normal(key[1], (4,)).tolist()
    assert not found["w"].requires_grad and found["g"].tolist() == [2, 4]


def test_names_that_would_collide_are_numbered(path):
    tree = {"a": {"b": pb.ones(1)}, "a.b": pb.zeros(1), "__metadata__": pb.ones(2), "": pb.ones(3),
            1: pb.zeros(4), "1": pb.zeros(5), "\ud800": pb.ones(6)}  # fmt: skip
    found = saved(path, tree)
    assert {k: pb.tree.leaves(v)[0].shape for k, v in found.items()} == {
        k: pb.tree.leaves(v)[0].shape for k, v in tree.items()
    }
    names = {"a.b", "a.b#2", "__metadata__#2", "tensor", "1", "1#2", "?"}
    assert set(official.load_file(path)) == names
    pb.save(path, pb.ones(2))
    assert list(official.load_file(path)) == ["tensor"]


def test_the_same_tree_gives_the_same_bytes(path, tmp_path):
    tree = {"b": pb.ones(3), "a": [pb.zeros((2, 2), dtype=pb.int8), 1.5]}
    pb.save(path, tree)
    pb.save(tmp_path / "again", tree)
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_what_cannot_be_saved_is_named(path):
    cases = {
        "save: ['layers'][0].b['f']: builtin_function_or_method <built-in function abs>": {
            "layers": [Layer(pb.ones(1), {"f": abs})]
        },
        "save: ['a'][1]: an array of dtype object cannot": {"a": [0, np.array([None])]},
        "save: the tree: object": object(),
        "nested too deeply": nested(5000),
        "nested more than 200 deep": nested(200),
        "a value of type Frozen cannot be written": {Frozen(): 1},
    }
    for text, tree in cases.items():
        with pytest.raises((ArgumentError, DTypeError)) as error:
            pb.save(path, tree)
        assert text in str(error.value)
    with pytest.raises(ArgumentError, match="path must be a path"):
        pb.save(3, {})
    assert os.listdir(path.parent) == []


def test_inside_a_derivative_or_a_trace_saving_is_refused(path):
    def f(x):
        pb.save(path, x * 2)
        return x.sum()

    with pytest.raises(pb.errors.GradientCut):
        pb.grad(f)(pb.ones(2))
    with pytest.raises(pb.errors.HostReadError):
        pb.compile(f)(pb.ones(2))


# -- the file system ------------------------------------------------------------------------------


def test_a_file_is_replaced_completely_or_not_at_all(path, monkeypatch):
    pb.save(path, {"w": pb.ones(3)})
    before = path.read_bytes()

    real = os.fsync
    for code, hint in ((errno.ENOSPC, "Free some space"), (errno.EIO, "")):

        def fail(fd, code=code):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(FileError) as error:
            pb.save(path, {"w": pb.zeros(30)})
        assert os.strerror(code) in str(error.value) and hint in str(error.value)
        assert error.value.errno == code and isinstance(error.value, OSError)
        assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    monkeypatch.setattr(os, "fsync", real)
    pb.save(path, {"w": pb.zeros(30)})
    assert pb.load(path)["w"].shape == (30,)


def test_a_file_that_does_not_fit(path):
    pb.save(path, {"w": pb.ones(3)})
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(FileError, match="cannot be written: File too large"):
            pb.save(path, {"w": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_folders_that_cannot_be_written_to(path, tmp_path):
    pb.save(path, 1)
    with pytest.raises(MissingFile, match="does not exist") as error:
        pb.save(tmp_path / "none" / "x", 1)
    assert "os.makedirs" in str(error.value) and isinstance(error.value, FileNotFoundError)
    with pytest.raises(FileError, match="Is a directory"):
        pb.save(tmp_path, 1)
    with pytest.raises(FileError, match="Is a directory"):
        pb.load(tmp_path)
    with pytest.raises(MissingFile, match=r"load: .*none\.safetensors does not exist"):
        pb.load(tmp_path / "none.safetensors")
    said = pytest.raises(FileError, match="save: x cannot be written: Read-only file system")
    with said, atomic.atomic_file_errors("save", "x"):
        raise OSError(errno.EROFS, "")
    if os.geteuid():
        os.chmod(tmp_path, stat.S_IRUSR | stat.S_IXUSR)
        with pytest.raises(FileError, match="Permission denied") as error:
            pb.save(path, 2)
        os.chmod(tmp_path, stat.S_IRWXU)
        assert "may write to" in str(error.value)
    assert pb.load(path) == 1


def test_links_stay_and_leftovers_are_removed(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    dead = tmp_path / f".{path.name}.4194999-00000000.tmp"
    mine = tmp_path / f".{path.name}.{os.getpid()}-00000000.tmp"
    for file in (dead, mine, tmp_path / ".other.1.tmp"):
        file.write_bytes(b"left")
    pb.save(link, 5)
    assert link.is_symlink() and pb.load(path) == 5
    assert not dead.exists() and mine.exists() and (tmp_path / ".other.1.tmp").exists()


def test_killed_savers_lose_nothing():
    done = subprocess.run(
        [sys.executable, str(TESTS / "long" / "kill_during_save.py"), "6", "--processes=0"],
        env={**os.environ, **VIRTUAL_DEVICES}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0 and "6 kills, nothing lost" in done.stdout, done.stderr


def test_another_format_version_is_refused(path):
    pb.save(path, 1)
    path.write_bytes(path.read_bytes().replace(b'\\"version\\":1', b'\\"version\\":2'))
    with pytest.raises(DamagedFile, match="it has format 2, and this version of pullback reads 1"):
        pb.load(path)
